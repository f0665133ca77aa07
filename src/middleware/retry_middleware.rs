//! The middleware: what a client chain holds.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Extensions, HeaderName};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use super::attempt_scope::{AttemptScope, InScope};
use super::call::{Call, Plain, Sending};
use super::endpoint::Endpoints;
use super::generator::Generator;
use super::observe::Observers;
use super::replay::Replay;
use super::{BoxFuture, DrainLimits, ResendCount, RetryMiddlewareBuilder, attempt_scope, observe};
use crate::origin::{Cooldown, RetryBudget};
use crate::policy::RetryPolicy;
use crate::time::WallClock;

/// Applies a [`RetryPolicy`] to every request of a client, with no change at the call site.
///
/// - The outcome that the caller gets is one that a server or the network gave: the last response, its
///   body unread, or the last error, as it is. Only where a head timeout, a deadline or a cancellation
///   ends a call, or a body factory fails, there is a [`RetryError`](crate::RetryError).
/// - Every attempt starts from the request as the caller made it, and runs all middlewares that
///   were added after this one: put what signs, authorises or traces a single send there.
/// - A body that can't be sent again (a stream) is sent once, unless a
///   [factory](crate::RetryRequestExt::body_factory) makes it anew.
/// - A response that is not handed out is [drained](crate::DrainLimits) during the wait.
/// - Resends are limited by a [`RetryBudget`], so that they can't keep a sick server down. Each middleware
///   that is made has one of its own, unless it is [given](RetryMiddlewareBuilder::budget) one.
/// - Dropping the call's future stops everything; there are no tasks behind it.
/// - The next middleware is called at the first poll; or at once, where a call is nothing but one send: no resend
///   can follow, and neither a limit nor an option is set. What it does before it is polled itself is done then,
///   even if nobody polls the call.
/// - A second one in the same chain passes through, so that attempts do not multiply: the outermost
///   policy decides, with `ClientBuilder::from_client` that of the base client. It is told by the
///   extensions map that the chain passes on: a layer that passes on a map of its own hides it, and
///   one that lends the chain's map to another client switches that client's retries off.
///
/// Keep a layer that makes errors of statuses (`error_for_status`) outside of it: the error has lost
/// `Retry-After`. It needs a tokio runtime with its time driver enabled, but in a browser.
///
/// ```
/// use reqwest::StatusCode;
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Stands for the network: two servers that are on their way up, and one that is not.
/// let network = Script::answering(|request| match (request.url.path(), request.resend_count) {
///     ("/slow", 0 | 1) | ("/down", _) => Reply::status(StatusCode::SERVICE_UNAVAILABLE),
///     ("/lost", 0) => Reply::connect_error(),
///     _ => Reply::status(StatusCode::OK),
/// });
/// let policy = RetryPolicy::builder().max_attempts(3).build()?;
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(RetryMiddleware::new(policy))
///     .with(network)
///     .build();
///
/// assert_eq!(client.get("http://api.test/slow").send().await?.status(), StatusCode::OK);
/// assert_eq!(client.get("http://api.test/lost").send().await?.status(), StatusCode::OK);
/// // What the server said last comes back as it is; so does the last error.
/// let status = client.get("http://api.test/down").send().await?.status();
/// assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
/// // A POST may have taken effect, so it is sent once.
/// assert!(client.post("http://api.test/lost").send().await.is_err());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RetryMiddleware {
    pub(super) policy: RetryPolicy,
    pub(super) endpoints: Endpoints,
    /// Whether it was told that a policy lists statuses which need a proof, and there is none.
    pub(super) has_told_unproven: AtomicBool,
    /// Whether the client below has the observer of a delivery proof.
    pub(super) has_proof: bool,
    pub(super) budget: Option<RetryBudget>,
    pub(super) cooldown: Option<Cooldown>,
    pub(super) drain: DrainLimits,
    /// How much of a response is read inside the attempt, if any is.
    pub(super) buffer_body: Option<u64>,
    pub(super) wraps_errors: bool,
    pub(super) attempt_header: Option<HeaderName>,
    pub(super) observers: Observers,
    pub(super) wall_clock: WallClock,
    pub(super) generator: Generator,
}

impl RetryMiddleware {
    /// The middleware with this policy and nothing else. A list of
    /// [`not_processed_statuses`](RetryPolicy::not_processed_statuses) has no effect here, for want
    /// of a proof; [`builder`](Self::builder) would refuse it.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        let new = Self::builder(policy).build_unchecked();
        new.tell_unproven(&new.policy);
        new
    }

    /// Tells once if `policy`, which no build has checked, lists statuses that have no effect here.
    pub(super) fn tell_unproven(&self, policy: &RetryPolicy) {
        if !self.has_proof
            && !policy.not_processed_statuses().is_empty()
            && !self.has_told_unproven.swap(true, Ordering::Relaxed)
        {
            observe::unproven_statuses();
        }
    }

    /// Whether an origin has less than a full budget, so that an answer may count.
    #[inline]
    pub(super) fn budget_is_touched(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| !budget.is_untouched())
    }

    /// Whether somebody asks where a request went that is not kept.
    #[inline]
    pub(super) fn wants_url(&self) -> bool {
        self.wraps_errors || self.budget_is_touched() || self.observers.want_failures()
    }

    /// A builder, for what goes beyond the policy: endpoints, a delivery proof, observers, limits on load.
    ///
    /// ```
    /// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
    ///
    /// let retry = RetryMiddleware::builder(RetryPolicy::default()).buffer_body(1 << 20).build()?;
    /// assert!(retry.explain().to_string().contains("read inside the attempt, up to 1048576 bytes"));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn builder(policy: RetryPolicy) -> RetryMiddlewareBuilder {
        RetryMiddlewareBuilder::new(policy)
    }
}

/// With the default policy, which has no time limit: see [`RetryPolicyBuilder::attempt_timeout`].
///
/// [`RetryPolicyBuilder::attempt_timeout`]: crate::RetryPolicyBuilder::attempt_timeout
impl Default for RetryMiddleware {
    fn default() -> Self {
        Self::new(RetryPolicy::default())
    }
}

impl Middleware for RetryMiddleware {
    // By hand, not by `async_trait`, and all in one place: this decides what every request costs. A future holds
    // nothing but the call, and the request only where a resend can follow.
    fn handle<'retry, 'ext, 'next, 'call>(
        &'retry self,
        mut request: Request,
        extensions: &'ext mut Extensions,
        next: Next<'next>,
    ) -> BoxFuture<'call, Result<Response>>
    where
        'retry: 'call,
        'ext: 'call,
        'next: 'call,
        Self: 'call,
    {
        // Two retry layers in one chain would multiply their attempts.
        if attempt_scope::is_nested(extensions) {
            // Once a call, though each attempt of the outer one comes by.
            if ResendCount::of(extensions) == 0 {
                observe::nested();
            }
            return next.run(request, extensions);
        }
        let mut call = Call::new(self, &mut request, extensions);
        if call.is_plain(&request) {
            call.let_go(&request, 1);
            ResendCount::of_attempt(1).put_into(extensions);
            let mut scope = AttemptScope::new(None, extensions);
            let entered = scope.enter();
            let attempt = next.run(request, extensions);
            drop(entered);
            return Box::pin(Plain { call, attempt: InScope::new(scope, attempt) });
        }
        let mut sending = Sending { call, next, extensions, replay: Replay::new(request) };
        Box::pin(async move {
            if let Some(end) = sending.refused() {
                return end;
            }
            if let Some(held_back) = sending.held_back() {
                if let Some(end) = held_back.await {
                    return end;
                }
            }
            let ended = sending.send_first().await;
            let resends = match sending.after_first(ended) {
                Break(result) => return result,
                Continue(resends) => resends,
            };
            resends.await
        })
    }
}
