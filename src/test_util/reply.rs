//! What a script answers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_middleware::Error;

/// One answer of a [`Script`](super::Script).
///
/// ```
/// use std::time::Duration;
/// use reqwest::StatusCode;
/// use reqwest_middleware::{ClientBuilder, Error};
/// use reqwest_typed_retry::RetryErrorExt as _;
/// use reqwest_typed_retry::test_util::{Reply, Script};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A client without a retry layer, which shows each as it comes.
/// let network = Script::new([
///     Reply::status(StatusCode::OK).header("etag", "\"7\"").body("hello"),
///     Reply::status(StatusCode::OK).body("hel").cut(),
///     Reply::dns_error(),
///     Reply::connect_error(),
///     Reply::hang(),
///     Reply::status(StatusCode::OK).after(Duration::from_secs(5)),
///     Reply::error(|| Error::middleware(std::io::Error::other("no token"))),
/// ]);
/// let client = ClientBuilder::new(reqwest::Client::new()).with(network).build();
/// let get = || client.get("http://api.test/").timeout(Duration::from_secs(2)).send();
///
/// let whole = get().await?;
/// assert_eq!(whole.headers()["etag"], "\"7\"");
/// assert_eq!(whole.text().await?, "hello");
/// assert!(get().await?.text().await.is_err());
/// for _ in ["dns_error", "connect_error"] {
///     let error = get().await.unwrap_err();
///     assert!(error.reqwest_error().is_some_and(reqwest::Error::is_connect));
/// }
/// for _ in ["hang", "after"] {
///     assert!(get().await.unwrap_err().timed_out());
/// }
/// assert_eq!(get().await.unwrap_err().to_string(), "no token");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    pub(super) kind: Kind,
    pub(super) after: Duration,
}

#[derive(Clone)]
pub(super) enum Kind {
    Response { status: StatusCode, headers: HeaderMap, body: Vec<u8>, is_cut: bool },
    DnsError,
    ConnectError,
    Hang,
    Error(Arc<dyn Fn() -> Error + Send + Sync>),
}

impl Reply {
    /// A response with this status, no fields and no body.
    pub fn status(status: StatusCode) -> Self {
        Self::of(Kind::Response {
            status,
            headers: HeaderMap::new(),
            body: Vec::new(),
            is_cut: false,
        })
    }

    /// Adds a field; on a reply that is no response it does nothing. Names and values may be texts, values
    /// numbers too: of one that no field can have, the reply becomes an error that says so.
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        HeaderName: TryFrom<N, Error: Into<http::Error>>,
        HeaderValue: TryFrom<V, Error: Into<http::Error>>,
    {
        let Kind::Response { headers, .. } = &mut self.kind else { return self };
        let after = self.after;
        let impossible = |what: String, error: http::Error| {
            let message = format!("{what} of the script's reply: {error}");
            Self::error(move || Error::middleware(io::Error::other(message.clone()))).after(after)
        };
        let name = match HeaderName::try_from(name) {
            Ok(name) => name,
            Err(error) => return impossible("the name of a field".to_owned(), error.into()),
        };
        match HeaderValue::try_from(value) {
            Ok(value) => headers.append(name, value),
            Err(error) => return impossible(format!("the field {name}"), error.into()),
        };
        self
    }

    /// Sets the body; on a reply that is no response it does nothing. **Default**: empty.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        if let Kind::Response { body, .. } = &mut self.kind {
            *body = bytes.into();
        }
        self
    }

    /// The connection ends after the body that is set, and before the body is whole: a real `reqwest::Error` for
    /// who reads it. On a reply that is no response it does nothing.
    pub fn cut(mut self) -> Self {
        if let Kind::Response { is_cut, .. } = &mut self.kind {
            *is_cut = true;
        }
        self
    }

    /// A real `reqwest::Error` of a host name that was not resolved.
    pub fn dns_error() -> Self {
        Self::of(Kind::DnsError)
    }

    /// A real `reqwest::Error` of a connection that did not come about.
    pub fn connect_error() -> Self {
        Self::of(Kind::ConnectError)
    }

    /// No answer: the request's own timeout ends it by a real `reqwest::Error`, or a limit of the retry layer does,
    /// or the caller. Where nothing does, an error that says so comes after a year of tokio's time, under paused
    /// time at once. Timeouts of the `reqwest::Client` are below the script, and never pass.
    pub fn hang() -> Self {
        Self::of(Kind::Hang)
    }

    /// An error of the test's own, made anew for each request that gets this reply.
    pub fn error(make: impl Fn() -> Error + Send + Sync + 'static) -> Self {
        Self::of(Kind::Error(Arc::new(make)))
    }

    /// Lets this much tokio time pass before the reply. If the request's timeout is not longer, a real timeout
    /// error comes instead. **Default**: none.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    fn of(kind: Kind) -> Self {
        Self { kind, after: Duration::ZERO }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response { status, .. } => write!(f, "Response({})", status.as_u16()),
            Self::DnsError => f.write_str("DnsError"),
            Self::ConnectError => f.write_str("ConnectError"),
            Self::Hang => f.write_str("Hang"),
            Self::Error(_) => f.write_str("Error"),
        }
    }
}
