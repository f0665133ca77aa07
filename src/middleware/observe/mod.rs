//! The one place from which the middleware tells what it does, and to whom.
//!
//! What is told is in the documentation of the crate, under "Telemetry".

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod tracing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use reqwest::Url;

#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use self::metrics::MetricsObserver;
use super::history::{AttemptRecord, RetryHistory};
use crate::policy::{RetryDecision, RetryPolicy, is_well};

/// Is told what a [`RetryMiddleware`](crate::RetryMiddleware) does, as it does it: for metrics and logs of
/// an application's own. Added by [`observer`](crate::RetryMiddlewareBuilder::observer).
///
/// | hook | when | how often a call |
/// |---|---|---|
/// | [`attempt_ended`] | an attempt has ended, and what follows is decided | once for each send, made or about to be |
/// | [`resending`] | … a resend: before its wait | once for each resend, sent or not |
/// | [`held_back`] | before a wait for a [`Cooldown`](crate::Cooldown) | once for each such wait |
/// | [`gave_up`] | … the end, with an outcome that is transient; or a wait was the end | 0 or 1 |
/// | [`recovered`] | … the end, after a resend, with a status below 500 that is not 408, 425 or 429 | 0 or 1 |
///
/// In this order. A first-try success is one `attempt_ended` and no more; so is a 404. A call that ends
/// before its first attempt, because it was cancelled or its deadline had passed, is not told of unless it was
/// held back, nor one that is dropped. An attempt whose body a [`SharedSession`](crate::SharedSession) calls cut
/// has ended twice: once with its head.
///
/// The hooks run in the call itself, so they must be quick; they hold up nobody else. Of several observers each
/// is told in the order in which they were added, the events first. If a hook panics, so does its call, and no
/// more: those that were added after it are not told of this, and the token in the budget is settled as if the
/// call had been dropped. So it is with the loop around a [`SharedSession`](crate::SharedSession), which stays
/// where it was.
///
/// ```
/// # use std::sync::{Arc, Mutex, PoisonError};
/// use std::time::Duration;
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{AttemptRecord, ObservedCall, RetryHistory, RetryObserver};
/// # use reqwest_typed_retry::{Cooldown, RetryMiddleware, RetryPolicy};
///
/// # #[derive(Default)]
/// # struct Log(Mutex<Vec<String>>);
/// # impl Log {
/// #     fn write(&self, line: String) {
/// #         self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
/// #     }
/// # }
/// // `Log` keeps lines; `RetryMiddlewareBuilder::observer` adds it to a client.
/// impl RetryObserver for Log {
///     fn attempt_ended(&self, _: &ObservedCall<'_>, attempt: &AttemptRecord) {
///         self.write(format!("{}: {}", attempt.number(), attempt.outcome()));
///     }
///     fn resending(&self, _: &ObservedCall<'_>, attempt: &AttemptRecord) {
///         self.write(format!("resend {}", attempt.number()));
///     }
///     fn held_back(&self, _: &ObservedCall<'_>, _wait: Duration) {
///         self.write("held back".to_owned());
///     }
///     fn gave_up(&self, _: &ObservedCall<'_>, history: &RetryHistory) {
///         self.write(format!("gave up: {}", history.stop_reason()));
///     }
///     fn recovered(&self, _: &ObservedCall<'_>, history: &RetryHistory) {
///         self.write(format!("recovered after {} resends", history.resends()));
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::answering(|request| match (request.url.path(), request.resend_count) {
/// #     ("/a", 0) => Reply::status(StatusCode::SERVICE_UNAVAILABLE),
/// #     ("/b", _) => Reply::status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", 3),
/// #     _ => Reply::status(StatusCode::OK),
/// # });
/// # let log = Arc::new(Log::default());
/// # let policy = RetryPolicy::builder().deadline(Duration::from_secs(30)).build()?;
/// # let retry = RetryMiddleware::builder(policy)
/// #     .observer(log.clone())
/// #     .cooldown(Cooldown::by_origin())
/// #     .build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
/// // `/a` answers a 503 and then well; `/b` sends all away, and a cooldown keeps `/c` from that host.
/// client.get("http://api.test/a").send().await?;
/// client.post("http://api.test/b").send().await?;
/// client.get("http://api.test/c").send().await?;
/// # let log = log.0.lock().unwrap_or_else(PoisonError::into_inner);
/// assert_eq!(
///     log[..],
///     [
///         "1: status 503", "resend 1", "2: status 200", "recovered after 1 resends",
///         "1: status 429", "gave up: not_idempotent",
///         "held back", "1: status 200",
///     ]
/// );
/// # Ok(()) }
/// ```
///
/// [`attempt_ended`]: Self::attempt_ended
/// [`resending`]: Self::resending
/// [`held_back`]: Self::held_back
/// [`gave_up`]: Self::gave_up
/// [`recovered`]: Self::recovered
pub trait RetryObserver: Send + Sync + 'static {
    /// The attempt has ended, as `attempt` says, and it is decided what follows.
    fn attempt_ended(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let _ = (call, attempt);
    }

    /// The request is to be sent again after the wait that the decision on `attempt` says. The number of
    /// that attempt is that of the retry.
    fn resending(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let _ = (call, attempt);
    }

    /// An attempt is held back by a [`Cooldown`](crate::Cooldown), for `wait`.
    fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        let _ = (call, wait);
    }

    /// The call ends with a transient failure; `history` says why no more is done. It has no attempts where a
    /// cooldown keeps the origin closed for longer than the deadline allows.
    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let _ = (call, history);
    }

    /// The call ends well after all: after a resend, by a status below 500 that is not 408, 425 or 429.
    fn recovered(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let _ = (call, history);
    }
}

/// The call that a [`RetryObserver`] is told of. Nothing in it is secret: it can go into logs whole.
///
/// ```
/// # use std::sync::{Arc, Mutex, PoisonError};
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{AttemptRecord, Endpoint, RetryMiddleware, RetryObserver, RetryPolicy};
/// use reqwest_typed_retry::ObservedCall;
///
/// fn line(call: &ObservedCall<'_>) -> String {
///     let origin = call.origin().unwrap_or_default();
///     let endpoint = call.endpoint().unwrap_or("no endpoint");
///     let retries = call.max_retries().map_or("any number of".to_owned(), |max| max.to_string());
///     let seconds = call.elapsed().as_secs();
///     format!("{} {origin} ({endpoint}), {retries} retries, {seconds} s", call.method())
/// }
/// # #[derive(Default)]
/// # struct Last(Mutex<String>);
/// # impl RetryObserver for Last {
/// #     fn resending(&self, call: &ObservedCall<'_>, _: &AttemptRecord) {
/// #         *self.0.lock().unwrap_or_else(PoisonError::into_inner) = line(call);
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([
/// #     Reply::connect_error().after(std::time::Duration::from_secs(4)),
/// #     Reply::status(StatusCode::OK),
/// # ]);
/// # let last = Arc::new(Last::default());
/// # let retry = RetryMiddleware::builder(RetryPolicy::default())
/// #     .endpoint(Endpoint::named("search").path("/search").build()?)
/// #     .observer(last.clone())
/// #     .build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
/// // The first attempt fails after 4 s, and this is told before the wait for the second.
/// client.get("http://user:secret@api.test/search?key=secret").send().await?;
/// # let told = last.0.lock().unwrap_or_else(PoisonError::into_inner);
/// assert_eq!(*told, "GET http://api.test (search), 2 retries, 4 s");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct ObservedCall<'a> {
    pub(super) method: &'a Method,
    pub(super) url: Option<&'a Url>,
    pub(super) endpoint: Option<&'a str>,
    pub(super) policy: &'a RetryPolicy,
    pub(super) elapsed: Duration,
}

impl ObservedCall<'_> {
    /// The request's method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.method
    }

    /// Scheme, host and port of the request as the caller made it: nothing of a URL that could be secret. `None`
    /// for a scheme that has no origin.
    #[must_use]
    pub fn origin(&self) -> Option<String> {
        self.url.and_then(origin)
    }

    /// The name of the [`Endpoint`](crate::Endpoint) that the request belongs to, if it does to one.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint
    }

    /// How many retries the policy allows: one less than its
    /// [`max_attempts`](crate::RetryPolicy::max_attempts). `None`: only the deadline ends them.
    #[must_use]
    pub fn max_retries(&self) -> Option<u32> {
        self.policy.max_attempts().map(|attempts| attempts.get() - 1)
    }

    /// How long ago the call began; with a [`SharedSession`](crate::SharedSession), how long ago that was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl fmt::Debug for ObservedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedCall")
            .field("method", self.method)
            .field("origin", &self.origin())
            .field("endpoint", &self.endpoint)
            .field("max_retries", &self.max_retries())
            .field("elapsed", &self.elapsed)
            .finish()
    }
}

/// Scheme, host and port: a URL holds secrets elsewhere. Some schemes have none.
pub(super) fn origin(url: &Url) -> Option<String> {
    let origin = url.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

/// Everybody who is told.
#[derive(Clone, Default)]
pub(super) struct Observers(Vec<Arc<dyn RetryObserver>>);

impl Observers {
    pub(super) fn add(&mut self, observer: impl RetryObserver) {
        self.0.push(Arc::new(observer));
    }

    /// Whether somebody counts the attempts that need nothing else.
    #[inline]
    pub(super) fn want_every_attempt(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether somebody would be told of a failure.
    pub(super) fn want_failures(&self) -> bool {
        #[cfg(feature = "tracing")]
        let logs = tracing::wants_failures();
        #[cfg(not(feature = "tracing"))]
        let logs = false;
        logs || self.want_every_attempt()
    }

    fn each(&self, tell: impl Fn(&dyn RetryObserver)) {
        #[cfg(feature = "tracing")]
        tell(&tracing::Events);
        for observer in &self.0 {
            tell(&**observer);
        }
    }

    pub(super) fn attempt_ended(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        self.each(|observer| observer.attempt_ended(call, attempt));
        if let RetryDecision::RetryAfter { .. } = attempt.decision() {
            self.each(|observer| observer.resending(call, attempt));
        }
    }

    pub(super) fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        self.each(|observer| observer.held_back(call, wait));
    }

    pub(super) fn call_ended(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let last = history.attempts().last().and_then(|last| last.outcome().status());
        if history.stop_reason().is_giving_up() {
            self.each(|observer| observer.gave_up(call, history));
        } else if history.resends() > 0 && last.is_some_and(is_well) {
            self.each(|observer| observer.recovered(call, history));
        }
    }
}

/// Whoever wants to read what an observer has counted keeps one, too.
impl<T: RetryObserver + ?Sized> RetryObserver for Arc<T> {
    fn attempt_ended(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        (**self).attempt_ended(call, attempt);
    }

    fn resending(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        (**self).resending(call, attempt);
    }

    fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        (**self).held_back(call, wait);
    }

    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        (**self).gave_up(call, history);
    }

    fn recovered(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        (**self).recovered(call, history);
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} besides ours", self.0.len())
    }
}

/// A second retry middleware in the same chain.
pub(super) fn nested() {
    #[cfg(feature = "tracing")]
    tracing::nested();
}

/// A policy whose list needs a proof, and there is none.
pub(super) fn unproven_statuses() {
    #[cfg(feature = "tracing")]
    tracing::unproven_statuses();
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port_or_none() {
        for (url, expected) in [
            ("https://user:secret@api.test/secret?secret#secret", Some("https://api.test")),
            ("http://api.test:8080/", Some("http://api.test:8080")),
            ("http://[::1]:80/", Some("http://[::1]")),
            ("data:text/plain,secret", None),
            ("foo://user:secret@host/", None),
        ] {
            assert_eq!(origin(&url.parse().unwrap()).as_deref(), expected, "{url}");
        }
    }
}
