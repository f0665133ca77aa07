//! Request bodies that are made anew for each attempt.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "multipart")]
use std::sync::OnceLock;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Request};

use super::{BoxFuture, RetryError};

type BoxError = Box<dyn Error + Send + Sync>;

/// A request body made for one attempt, with the fields that depend on it.
///
/// ```
/// use reqwest_typed_retry::ReplayBody;
///
/// let known = ReplayBody::new("bytes, whose length is known");
/// let stream = ReplayBody::new(reqwest::Body::wrap(String::from("any body"))).with_length(8);
/// ```
#[must_use]
pub struct ReplayBody {
    body: Body,
    fields: HeaderMap,
}

impl ReplayBody {
    /// This body: bytes, text, a stream, a file (the last two with reqwest's feature `stream`).
    pub fn new(body: impl Into<Body>) -> Self {
        Self { body: body.into(), fields: HeaderMap::new() }
    }

    /// The exact length of a stream, sent as `Content-Length`. Without it a stream is sent in
    /// chunks, which some servers refuse. A stream that ends before is an error of the attempt, which is
    /// not sent again; what is longer is cut there, without an error.
    pub fn with_length(self, bytes: u64) -> Self {
        self.with_field(CONTENT_LENGTH, bytes.into())
    }

    /// A field of the request that goes with this body, such as its `Content-Type`. It replaces the
    /// request's own.
    pub fn with_field(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    fn put_into(self, request: &mut Request) {
        *request.body_mut() = Some(self.body);
        request.headers_mut().extend(self.fields);
    }
}

/// The names of the fields: what they say may be secret, and so may the body.
impl fmt::Debug for ReplayBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fields.keys().map(HeaderName::as_str).collect::<Vec<_>>();
        f.debug_struct("ReplayBody").field("fields", &names).finish_non_exhaustive()
    }
}

/// With the boundary, and the length where the form knows it. Each form has a boundary of its own.
///
/// ```
/// use reqwest::multipart::{Form, Part};
/// use reqwest_middleware::RequestBuilder;
/// use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _};
///
/// fn with_report(request: RequestBuilder) -> RequestBuilder {
///     request.body_factory(|| async {
///         let form = Form::new().text("kind", "report").part("file", Part::bytes(b"data".as_slice()));
///         Ok(ReplayBody::try_from(form)?)
///     })
/// }
/// ```
#[cfg(feature = "multipart")]
#[cfg_attr(docsrs, doc(cfg(feature = "multipart")))]
impl TryFrom<reqwest::multipart::Form> for ReplayBody {
    type Error = reqwest::Error;

    /// # Errors
    /// Those of [`ClientBuilder::build`](reqwest::ClientBuilder::build).
    fn try_from(form: reqwest::multipart::Form) -> reqwest::Result<Self> {
        // Only a request builder of reqwest's learns the length of a form. Nothing is sent.
        static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
        let client = match CLIENT.get() {
            Some(client) => client,
            None => {
                let client = reqwest::Client::builder().no_proxy().build()?;
                CLIENT.get_or_init(|| client)
            }
        };
        let mut request = client.post("http://form.invalid/").multipart(form).build()?;
        let body = request.body_mut().take().unwrap_or_default();
        let fields = std::mem::take(request.headers_mut());
        Ok(Self { body, fields })
    }
}

/// Makes the body of each attempt.
#[derive(Clone)]
pub(super) struct BodyFactory(
    Arc<dyn Fn() -> BoxFuture<'static, Result<ReplayBody, BoxError>> + Send + Sync>,
);

impl BodyFactory {
    pub(super) fn new<F, Fut>(make: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ReplayBody, BoxError>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(make())))
    }

    /// Takes away the body that the request has, and the length that was said of it; the rest can be
    /// cloned.
    pub(super) fn make_room(request: &mut Request) {
        if request.body_mut().take().is_some() {
            request.headers_mut().remove(CONTENT_LENGTH);
        }
    }

    pub(super) async fn fill(&self, request: &mut Request) -> Result<(), RetryError> {
        (self.0)().await.map_err(RetryError::body)?.put_into(request);
        Ok(())
    }
}

impl fmt::Debug for BodyFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyFactory")
    }
}
