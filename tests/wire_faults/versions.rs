//! The crates whose types tell the faults apart have the versions that are inside reqwest. With any
//! other the types are never recognised: every fault is "other", and nothing is ever proven.

use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use h2::Reason;
use hyper_util::client::legacy;
use reqwest::Client;
use reqwest_typed_retry::FaultKind::{Connect, ConnectionLost, Protocol, Refused, Tls as Verdict};
use reqwest_typed_retry::{Fault, fault_source};

use crate::answers::answer;
use crate::certificates::{STRANGER, Tls};
use crate::frames::Frame;
use crate::scene::{Kind, Scene};
use crate::servers::Act::{Close, ReadRequest, Send};

/// The error of a POST.
pub(crate) async fn error_of(scene: &Scene) -> reqwest::Error {
    let stage = scene.start().await;
    let client = scene.build_client(&stage);
    let result = scene.build_request(Kind::Post, &client, &stage).send().await;
    drop(client);
    stage.finish().await;
    match result {
        Err(reqwest_middleware::Error::Reqwest(error)) => error,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn refused_stream() -> Scene {
    Scene::http2([ReadRequest, Send(Frame::Reset(Reason::REFUSED_STREAM))])
}

#[tokio::test]
async fn every_crate_that_tells_faults_apart_is_the_one_inside_reqwest() {
    let no_http = Scene::http1([ReadRequest, answer("\0\x01\x02 garbage\r\n\r\n"), Close]);
    let stranger = Scene::tls(Tls::default(), [ReadRequest, Close]).trusting(&STRANGER);
    for (name, scene, expected) in [
        ("hyper-util", Scene::nobody(), Fault::not_processed(Connect)),
        ("hyper", no_http, Fault::unknown(Protocol)),
        ("h2", refused_stream(), Fault::not_processed(Refused)),
        ("rustls", stranger, Fault::unknown(Verdict)),
    ] {
        let error = error_of(&scene).await;
        assert_eq!(
            fault_source::classify(&error),
            expected,
            "{name} is another version: {error:?}"
        );
    }
}

fn pool_error(error: &reqwest::Error) -> Option<&legacy::Error> {
    error.source().and_then(|error| error.downcast_ref())
}

fn is_canceled(error: &reqwest::Error) -> bool {
    let http = pool_error(error).and_then(Error::source);
    http.and_then(|error| error.downcast_ref()).is_some_and(hyper::Error::is_canceled)
}

/// On one thread the connection ends as the request is about to be written: hyper gives it back.
#[tokio::test]
async fn a_request_that_was_given_back_is_known_by_its_type() {
    let scene = Scene::http1([Close]).may_hang();
    let mut others = Vec::new();
    for _ in 0..50 {
        let error = error_of(&scene).await;
        if is_canceled(&error) {
            assert_eq!(fault_source::classify(&error), Fault::not_processed(ConnectionLost));
            return;
        }
        others.push(error);
    }
    panic!("hyper is another version, or gives no request back: {others:?}");
}

/// The connection has ended before hyper sees it: no request is ever handed to it.
#[tokio::test]
async fn a_connection_that_was_never_ready_is_known_by_its_type() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut send = pin!(client.post(url).send());
    // The first poll connects, which needs no more than the listener; so there is one to accept.
    let first = poll_fn(|cx| Poll::Ready(send.as_mut().poll(cx))).await;
    assert!(first.is_pending(), "{first:?}");
    drop(listener.accept().unwrap());
    let error = send.await.unwrap_err();
    let pool = pool_error(&error).expect("hyper-util is the version inside reqwest");
    assert!(pool.connect_info().is_none() && !pool.is_connect() && !is_canceled(&error));
    assert_eq!(fault_source::classify(&error), Fault::not_processed(ConnectionLost));
}
