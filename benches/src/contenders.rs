//! Who is measured: chains that end with the same middleware.

use std::time::Duration;

use reqwest::Client;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_typed_retry::{
    Attempt, AttemptRecord, Cooldown, ObservedCall, PolicyError, RetryMiddleware,
    RetryMiddlewareBuilder, RetryObserver, RetryPolicy, RetryPolicyBuilder,
};

/// By their names in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// reqwest-middleware with nothing in between.
    Bare,
    /// reqwest-retry with its own defaults, three attempts.
    ReqwestRetry,
    /// Ours with its defaults.
    Ours,
    /// Ours, where a POST may be sent again.
    OursIdempotent,
    /// Ours, where nothing is ever sent again.
    OursNever,
    /// Ours with everything on that does not change the request.
    OursAll,
}

impl Contender {
    pub const ALL: [Self; 6] = [
        Self::Bare,
        Self::ReqwestRetry,
        Self::Ours,
        Self::OursIdempotent,
        Self::OursNever,
        Self::OursAll,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare reqwest-middleware",
            Self::ReqwestRetry => "reqwest-retry",
            Self::Ours => "ours",
            Self::OursIdempotent => "ours, assume_idempotent",
            Self::OursNever => "ours, never",
            Self::OursAll => "ours, all on",
        }
    }

    /// The chain with `last` at its end.
    ///
    /// # Errors
    /// If a policy does not build.
    pub fn client(
        self,
        http: Client,
        last: impl Middleware,
    ) -> Result<ClientWithMiddleware, Box<dyn std::error::Error>> {
        Ok(self.chain(http)?.with(last).build())
    }

    /// The chain alone, which ends in `http`.
    ///
    /// # Errors
    /// If a policy does not build.
    pub fn chain(self, http: Client) -> Result<ClientBuilder, Box<dyn std::error::Error>> {
        let chain = ClientBuilder::new(http);
        Ok(match self {
            Self::Bare => chain,
            Self::ReqwestRetry => {
                let policy = ExponentialBackoff::builder().build_with_max_retries(2);
                chain.with(RetryTransientMiddleware::new_with_policy(policy))
            }
            Self::Ours => chain.with(RetryMiddleware::default()),
            Self::OursIdempotent => {
                let policy = RetryPolicy::builder().assume_idempotent(true).build()?;
                chain.with(RetryMiddleware::new(policy))
            }
            Self::OursNever => chain.with(RetryMiddleware::new(RetryPolicy::never())),
            Self::OursAll => chain.with(all_on(RetryPolicy::builder())?.build()?),
        })
    }
}

struct Silent;

impl RetryObserver for Silent {
    fn attempt_ended(&self, _: &ObservedCall<'_>, _: &AttemptRecord) {}
}

/// Everything that changes no more of the request than its timeout, on top of this policy.
///
/// # Errors
/// If the policy does not build.
pub fn all_on(policy: RetryPolicyBuilder) -> Result<RetryMiddlewareBuilder, PolicyError> {
    let policy = policy
        .assume_idempotent(true)
        .attempt_timeout(Duration::from_secs(10))
        .head_timeout(Duration::from_secs(10))
        .deadline(Duration::from_secs(30))
        .classifier(|_: &Attempt<'_>| None)
        .build()?;
    Ok(RetryMiddleware::builder(policy)
        .cooldown(Cooldown::by_origin())
        .observer(Silent)
        .buffer_body(1 << 10))
}
