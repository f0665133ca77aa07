//! Where request bodies come from: all have the same content.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream;
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use reqwest_middleware::RequestBuilder;
use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A file that is there anyway, longer than one piece of a stream of it.
pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/method_safety.json");

pub(crate) fn content() -> Vec<u8> {
    std::fs::read(FILE).unwrap()
}

/// The content as a stream in pieces.
pub(crate) fn streamed() -> Body {
    let pieces = content().chunks(1000).map(Bytes::copy_from_slice).collect::<Vec<_>>();
    Body::wrap_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)))
}

/// A form whose length is known.
pub(crate) fn form() -> Form {
    Form::new().text("kind", "a form").part("file", Part::bytes(content()).file_name("file.json"))
}

/// A form whose length is not known.
fn form_with_stream() -> Form {
    Form::new().text("kind", "a form").part("file", Part::stream(streamed()).file_name("file.json"))
}

/// How often a factory was called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<AtomicUsize>);

impl Calls {
    /// Counts a call, and gives back its number.
    pub(crate) fn count(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Lets the factory `make` make the request's body.
pub(crate) fn made_by<Fut>(
    request: RequestBuilder,
    calls: &Calls,
    make: impl Fn() -> Fut + Send + Sync + 'static,
) -> RequestBuilder
where
    Fut: Future<Output = Result<ReplayBody, BoxError>> + Send + 'static,
{
    let calls = calls.clone();
    request.body_factory(move || {
        calls.count();
        make()
    })
}

/// How the requests of a source say where their bodies end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Length,
    Chunked,
}

pub(crate) struct Source {
    pub(crate) label: &'static str,
    pub(crate) says: Says,
    pub(crate) is_form: bool,
    pub(crate) attach: fn(RequestBuilder, &Calls) -> RequestBuilder,
}

/// All that is made by a factory.
pub(crate) const FACTORIES: [Source; 7] = [
    Source {
        label: "bytes",
        says: Says::Length,
        is_form: false,
        attach: |request, calls| {
            made_by(request, calls, || async { Ok(ReplayBody::new(content())) })
        },
    },
    Source {
        label: "a stream with its length",
        says: Says::Length,
        is_form: false,
        attach: |request, calls| {
            made_by(request, calls, || async {
                Ok(ReplayBody::new(streamed()).with_length(content().len().try_into()?))
            })
        },
    },
    Source {
        label: "a stream",
        says: Says::Chunked,
        is_form: false,
        attach: |request, calls| {
            made_by(request, calls, || async { Ok(ReplayBody::new(streamed())) })
        },
    },
    Source {
        label: "a file that is read",
        says: Says::Length,
        is_form: false,
        attach: |request, calls| {
            made_by(request, calls, || async { Ok(ReplayBody::new(std::fs::read(FILE)?)) })
        },
    },
    Source {
        label: "a file that is streamed",
        says: Says::Length,
        is_form: false,
        attach: |request, calls| {
            made_by(request, calls, || async {
                let file = tokio::fs::File::open(FILE).await?;
                let length = file.metadata().await?.len();
                Ok(ReplayBody::new(file).with_length(length))
            })
        },
    },
    Source {
        label: "a form",
        says: Says::Length,
        is_form: true,
        attach: |request, calls| {
            made_by(request, calls, || async { Ok(ReplayBody::try_from(form())?) })
        },
    },
    Source {
        label: "a form with a stream",
        says: Says::Chunked,
        is_form: true,
        attach: |request, calls| {
            made_by(request, calls, || async { Ok(ReplayBody::try_from(form_with_stream())?) })
        },
    },
];

/// What needs no factory to be sent again.
pub(crate) const PLAIN_BYTES: Source = Source {
    label: "plain bytes",
    says: Says::Length,
    is_form: false,
    attach: |request, _| request.body(content()),
};

/// What can be sent once.
pub(crate) const ONCE: [Source; 2] = [
    Source {
        label: "a plain stream",
        says: Says::Chunked,
        is_form: false,
        attach: |request, _| request.body(streamed()),
    },
    Source {
        label: "a plain form",
        says: Says::Length,
        is_form: true,
        attach: |request, _| request.multipart(form()),
    },
];
