//! Request bodies that are made anew for each attempt.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "multipart")]
use std::sync::OnceLock;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Request};

use super::{BoxFuture, MaybeSend, RetryError};

type BoxError = Box<dyn Error + Send + Sync>;

/// A request body made for one attempt, with the fields that depend on it: what a
/// [body factory](crate::RetryRequestExt::body_factory) makes.
///
/// ```
/// use http::HeaderValue;
/// use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::RetryMiddleware;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([Reply::connect_error(), Reply::status(StatusCode::OK)]);
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// let upload = client.put("http://api.test/table").body_factory(|| async {
///     let stream = reqwest::Body::wrap(String::from("a,b\n")); // any `http_body::Body`
///     let csv = HeaderValue::from_static("text/csv");
///     Ok(ReplayBody::new(stream).with_length(4).with_field(CONTENT_TYPE, csv))
/// });
/// assert_eq!(upload.send().await?.status(), StatusCode::OK);
/// // The first attempt failed, and both had it all.
/// for sent in network.received() {
///     assert!(sent.body.is_none()); // a stream, which can't be copied
///     assert_eq!(sent.headers[CONTENT_LENGTH], "4");
///     assert_eq!(sent.headers[CONTENT_TYPE], "text/csv");
/// }
/// # assert_eq!(network.received().len(), 2);
/// # Ok(()) }
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
    /// not sent again; what is longer is cut there, without an error. It has no effect in a browser.
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
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::RetryMiddleware;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([Reply::connect_error(), Reply::status(StatusCode::OK)]);
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// let upload = client.put("http://api.test/reports/17").body_factory(|| async {
///     let form = Form::new().text("kind", "report").part("file", Part::bytes(b"data".as_slice()));
///     Ok(ReplayBody::try_from(form)?)
/// });
/// assert_eq!(upload.send().await?.status(), StatusCode::OK);
/// let sent = network.received();
/// let type_of = |attempt: usize| sent[attempt].headers["content-type"].to_str();
/// assert!(type_of(0)?.starts_with("multipart/form-data; boundary="));
/// assert_ne!(type_of(0)?, type_of(1)?); // a boundary of its own
/// # Ok(()) }
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
                let builder = reqwest::Client::builder();
                #[cfg(not(target_arch = "wasm32"))]
                let builder = builder.no_proxy();
                let client = builder.build()?;
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
        Fut: Future<Output = Result<ReplayBody, BoxError>> + MaybeSend + 'static,
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
