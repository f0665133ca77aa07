//! Which resend this is, for inner middlewares.

use http::Extensions;

/// How often the request has been sent before, for the middlewares inside the retry.
///
/// In the extensions of resends only; the first attempt has none, so read it with
/// [`ResendCount::of`]. This is what `http.request.resend_count` of the OpenTelemetry conventions
/// asks for.
///
/// ```
/// use http::Extensions;
/// use reqwest::{Request, Response};
/// use reqwest_middleware::{Middleware, Next};
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{ResendCount, RetryMiddleware};
///
/// /// Tells the server how often it may have had the request before.
/// struct Counted;
///
/// #[async_trait::async_trait]
/// impl Middleware for Counted {
///     async fn handle(
///         &self,
///         mut request: Request,
///         extensions: &mut Extensions,
///         next: Next<'_>,
///     ) -> reqwest_middleware::Result<Response> {
///         request.headers_mut().insert("x-resend", ResendCount::of(extensions).into());
///         next.run(request, extensions).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([Reply::connect_error(), Reply::status(StatusCode::OK)]);
/// let chain = ClientBuilder::new(reqwest::Client::new())
///     .with(RetryMiddleware::default())
///     .with(Counted); // inside of the retry: once an attempt
/// # let client = chain.with(network.clone()).build();
/// client.get("http://api.test/").send().await?; // the first attempt fails
/// # let sent = network.received();
/// assert_eq!(sent[0].headers["x-resend"], "0");
/// assert_eq!(sent[1].headers["x-resend"], "1");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResendCount(u32);

impl ResendCount {
    /// 0 on the first attempt, 1 on the first resend, and so on.
    #[must_use]
    pub fn of(extensions: &Extensions) -> u32 {
        extensions.get::<Self>().map_or(0, |count| count.0)
    }

    /// The count of the attempt with this number.
    pub(super) fn of_attempt(number: u32) -> Self {
        Self(number.saturating_sub(1))
    }

    /// The first attempt has none; an earlier call with the same map may have left one.
    #[inline]
    pub(super) fn put_into(self, extensions: &mut Extensions) {
        if self.0 > 0 {
            extensions.insert(self);
        } else if extensions.get::<Self>().is_some() {
            extensions.remove::<Self>();
        }
    }
}
