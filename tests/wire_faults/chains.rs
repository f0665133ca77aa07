//! Chains that no server makes: errors wrapped by others, and errors inside errors.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use futures_util::stream;
use reqwest::{Body, Client};
use reqwest_typed_retry::{Fault, FaultKind, fault_source::classify};

use crate::answers::answer;
use crate::certificates::{STRANGER, Tls};
use crate::scene::{Kind, Scene};
use crate::servers::Act::{Close, Linger, ReadHead, ReadRequest};
use crate::versions::{error_of, refused_stream};

type BoxError = Box<dyn Error + Send + Sync>;
type Wrap = fn(reqwest::Error) -> BoxError;

#[derive(Debug)]
struct Layer(BoxError);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a layer")
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

fn in_io(error: impl Into<BoxError>) -> BoxError {
    io::Error::other(error).into()
}

fn in_layer(error: impl Into<BoxError>) -> BoxError {
    Layer(error.into()).into()
}

fn in_anyhow(error: impl Error + Send + Sync + 'static) -> BoxError {
    anyhow::Error::from(error).context("a context").context("another").into()
}

fn in_middleware(error: impl Error + Send + Sync + 'static) -> BoxError {
    let error = anyhow::Error::from(error).context("a call of its own");
    reqwest_middleware::Error::Middleware(error).into()
}

/// Whoever wraps an error may have got it from a call of his own: the kind stays, the proof goes.
#[tokio::test]
async fn an_error_that_was_wrapped_keeps_its_kind_and_proves_nothing() {
    let no_http = Scene::http1([ReadRequest, answer("\0\x01\x02 garbage\r\n\r\n"), Close]);
    let stranger = Scene::tls(Tls::default(), [ReadRequest, Close]).trusting(&STRANGER);
    let wraps: [(&str, Wrap); 14] = [
        ("a layer", |error| in_layer(error)),
        ("io", |error| in_io(error)),
        ("io, three deep", |error| in_io(in_io(in_io(error)))),
        ("anyhow", |error| in_anyhow(error)),
        ("anyhow in io", |error| in_io(in_anyhow(error))),
        ("anyhow in io, twice", |error| in_io(in_anyhow(io::Error::other(in_anyhow(error))))),
        ("io in anyhow", |error| in_anyhow(io::Error::other(error))),
        ("a middleware's", |error| in_middleware(error)),
        ("a middleware's, boxed", |error| {
            reqwest_middleware::Error::Middleware(anyhow::Error::from_boxed(error.into())).into()
        }),
        ("a middleware's, boxed in a context", |error| {
            let error = anyhow::Error::from_boxed(error.into()).context("a call of its own");
            reqwest_middleware::Error::Middleware(error).into()
        }),
        ("shared", |error| Arc::new(error).into()),
        ("shared, in a middleware's", |error| in_middleware(Arc::new(error))),
        ("a middleware's, shared twice", |error| {
            let error = Arc::new(reqwest_middleware::Error::from(error));
            let error: Arc<dyn Error + Send + Sync> = error;
            in_io(Arc::new(error))
        }),
        ("a middleware's in a middleware's", |error| {
            in_middleware(io::Error::other(in_middleware(reqwest_middleware::Error::from(error))))
        }),
    ];
    for (label, wrap) in wraps {
        for (fault, scene, kind) in [
            ("refused", &Scene::nobody(), FaultKind::Connect),
            ("stream refused", &refused_stream(), FaultKind::Refused),
            ("no HTTP", &no_http, FaultKind::Protocol),
            ("unknown issuer", &stranger, FaultKind::Tls),
        ] {
            let wrapped = wrap(error_of(scene).await);
            assert_eq!(classify(wrapped.as_ref()), Fault::unknown(kind), "{fault}, in {label}");
        }
    }
}

/// The walk is bounded: what is too deep is not found, and no stack overflows.
#[tokio::test]
async fn a_chain_of_any_depth_ends() {
    type Deepen = fn(reqwest::Error, usize) -> BoxError;
    let ways: [(&str, Deepen); 3] = [
        ("io", |error, depth| (1..depth).fold(in_io(error), |error, _| in_io(error))),
        ("layers", |error, depth| (1..depth).fold(in_layer(error), |error, _| in_layer(error))),
        ("contexts", |error, depth| {
            (0..depth).fold(anyhow::Error::from(error), anyhow::Error::context).into()
        }),
    ];
    for (label, deepen) in ways {
        for (depth, kind) in
            [(60, FaultKind::Connect), (70, FaultKind::Other), (1_000, FaultKind::Other)]
        {
            let deep = deepen(error_of(&Scene::nobody()).await, depth);
            assert_eq!(classify(deep.as_ref()), Fault::unknown(kind), "{depth} {label} deep");
        }
    }
}

async fn cut_body(scene: &Scene) -> reqwest::Error {
    let stage = scene.start().await;
    let client = scene.build_client(&stage);
    let response = scene.build_request(Kind::Get, &client, &stage).send().await.unwrap();
    let error = response.bytes().await.unwrap_err();
    drop(client);
    stage.finish().await;
    error
}

/// A stream that passes on what another server sends fails with an error of *that* exchange, which
/// says nothing of ours: the request is the caller's, and part of it has been sent.
#[tokio::test]
async fn the_error_of_the_callers_stream_is_not_the_error_of_the_request() {
    let cut = Scene::http1([
        ReadRequest,
        answer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
        Close,
    ]);
    let stranger = Scene::tls(Tls::default(), [ReadRequest, Close]).trusting(&STRANGER);
    let mut failures = Vec::new();
    for (label, upstream) in [
        ("refused", error_of(&Scene::nobody()).await),
        ("closed", error_of(&Scene::http1([ReadRequest, Close])).await),
        ("a body cut", cut_body(&cut).await),
        ("unknown issuer", error_of(&stranger).await),
        ("stream refused", error_of(&refused_stream()).await),
    ] {
        let scene = Scene::http1([ReadHead, Linger]);
        let stage = scene.start().await;
        let chunks = [Ok(vec![b'x'; 0x10000]), Err(upstream)];
        let request = Client::builder().no_proxy().build().unwrap().post(stage.url("http"));
        let error = request.body(Body::wrap_stream(stream::iter(chunks))).send().await.unwrap_err();
        stage.finish().await;
        let fault = classify(&error);
        if fault != Fault::unknown(FaultKind::Invalid) {
            failures.push(format!("{label}: {fault} of {error:?}"));
        }
    }
    assert!(failures.is_empty(), "not the caller's: {}", failures.join("\n"));
}
