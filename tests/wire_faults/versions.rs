//! The crates whose types tell the faults apart have the versions that are inside reqwest. With any
//! other the types are never recognised: every fault is "other", and nothing is ever proven.

use std::error::Error;

use h2::Reason;
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

/// hyper's flag for a request that it gave back, seen where a connection ends before its first use.
/// By timing it shows so, or otherwise; once is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_hyper_gave_back_is_known_by_its_type() {
    let mut seen = Vec::new();
    for _ in 0..50 {
        let error = error_of(&Scene::http2([Close])).await;
        let http = error.source().and_then(Error::source);
        if http.and_then(|error| error.downcast_ref()).is_some_and(hyper::Error::is_canceled) {
            assert_eq!(fault_source::classify(&error), Fault::not_processed(ConnectionLost));
            return;
        }
        seen.push(error);
    }
    panic!("hyper is another version, or gives no request back: {seen:?}");
}
