//! Retry middleware for [reqwest](https://docs.rs/reqwest), built on a typed, pure retry policy.
//!
//! - [`RetryPolicy`] answers three questions: should this request be sent again, after how long,
//!   how many times? It is pure: no network, no clock, no sleep.
//! - [`RetryMiddleware`] applies it inside a
//!   [reqwest-middleware](https://docs.rs/reqwest-middleware) chain, once per client and transparent
//!   to call sites.
//! - A POST that might have taken effect is never sent twice unless somebody said that it may be.
//!
//! ```
//! use std::time::Duration;
//! use reqwest_middleware::ClientBuilder;
//! use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
//!
//! let policy = RetryPolicy::builder()
//!     .attempt_timeout(Duration::from_secs(10)) // the default is none: set it
//!     .build()?;
//! let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(3)).build()?;
//! let client = ClientBuilder::new(http).with(RetryMiddleware::new(policy)).build();
//! # async fn call(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
//! let body = client.get("http://localhost/").send().await?.error_for_status()?.text().await?;
//! # Ok(()) }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for | see |
//! |---|---|
//! | rules, waits, time limits | [`RetryPolicy::builder`] |
//! | what one API says and promises | [`ApiProfile`] |
//! | rules for some requests | [`Endpoint`], [`RetryRequestExt`] |
//! | rules from a file | `RetrySettings` (feature `serde`) |
//! | all rules as a table to read | [`RetryPolicy::explain`], [`RetryMiddleware::explain`] |
//! | payments and jobs | [`DeliveryProof`], [`RetryRequestExt::idempotency_key`], [`generate_idempotency_keys`](RetryPolicyBuilder::generate_idempotency_keys) |
//! | sick servers | [`RetryBudget`], [`Cooldown`] |
//! | bodies that can't be cloned | [`RetryRequestExt::body_factory`] |
//! | bodies that are cut | [`buffer_body`](RetryMiddlewareBuilder::buffer_body), [`SharedSession`] |
//! | a deadline, a cancellation, a policy for a whole task | [`RetryScope`] |
//! | what happened | [`RetryHistory`], [`RetryTracker`], [`RetryErrorExt`] |
//! | what each fault is read as | [`fault_source`] |
//! | other clients than reqwest | [`RetrySession`] |
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `http2` | yes | HTTP/2 resets and refusals told apart by their code |
//! | `rustls` | yes | TLS verdicts (a bad certificate) told from connections that did not come about |
//! | `tracing` | yes | events: see [Telemetry](#telemetry) |
//! | `metrics` | no | `MetricsObserver`: metrics by the facade of that name |
//! | `multipart` | no | `ReplayBody` from a `reqwest::multipart::Form` |
//! | `serde` | no | `RetrySettings`: policies, endpoints and options from files; `Serialize` for [`RetryHistory`] |
//! | `test-util` | no | `test_util`: a scripted final middleware, seeded jitter, a settable wall clock |
//!
//! # Telemetry
//!
//! A [`RetryObserver`] is told what is done; the events and the metrics are two of them. No userinfo, path,
//! query or field of the request is in any of them, nor in a [`RetryHistory`] or a [`RetryError`]: of the
//! URL its origin alone, scheme, host and port. A first-try success and a permanent failure are no events,
//! nor is a call that ends before its first attempt because it is cancelled or its deadline has passed, unless
//! a [`Cooldown`] held it back. One that a cooldown refuses is `giving up`, with 0 attempts and no `outcome`.
//!
//! Events of the feature `tracing`, by the target `reqwest_typed_retry`:
//!
//! | event | level | fields | when |
//! |---|---|---|---|
//! | `retry 1 of 2` | INFO | `retry`, `max_retries`, `method`, `origin`, `endpoint`, `reason`, `delay`, `delay_source`, `server_delay` | before each wait for a resend |
//! | `held back` | INFO | `method`, `origin`, `endpoint`, `wait` | before each wait for a [`Cooldown`] |
//! | `giving up` | WARN | `attempts`, `method`, `origin`, `endpoint`, `outcome`, `reason` | a transient failure is returned |
//! | `not resent` | DEBUG | the same | … because it might take effect twice, was not to be sent again at all, or was cancelled |
//! | `recovered` | DEBUG | `attempts`, `method`, `origin`, `endpoint`, `outcome`, `elapsed` | a call ends well after a resend: by a status below 500 that is not 408, 425 or 429 |
//! | `nested retry middleware passes through` | DEBUG | | a second one in the same chain |
//! | `not_processed_statuses has no effect without a delivery proof` | DEBUG | | once a middleware: by [`RetryMiddleware::new`], or with the first call under such a policy |
//!
//! `endpoint` is the name of the request's [`Endpoint`], and is not there without one.
//!
//! Metrics of the feature `metrics`, if a `MetricsObserver` is added:
//!
//! | metric | type | unit | labels | when |
//! |---|---|---|---|---|
//! | `http_client_retry_attempts_total` | counter | attempts | `method`, `outcome` | an attempt has ended; once more, if a [`SharedSession`] calls its body cut |
//! | `http_client_retry_resends_total` | counter | resends | `method`, `reason`, `source` | a resend is decided on |
//! | `http_client_retry_wait_seconds` | histogram | seconds | `method`, `source` | the same: its wait |
//! | `http_client_retry_held_back_seconds` | histogram | seconds | `method` | an attempt waits for a [`Cooldown`] |
//! | `http_client_retry_given_up_total` | counter | calls | `method`, `reason` | a transient failure is returned |
//! | `http_client_retry_recovered_total` | counter | calls | `method` | a call ends well after a resend |
//!
//! Calls given up include those that were not to be sent again at all, by their `reason`: `not_idempotent`,
//! `cancelled`, and `attempts_exhausted` of a policy that never sends again.
//!
//! `outcome` is a status or a kind of fault; so is the `reason` of a resend, or it is `server_directive` or
//! `classifier`; other names are those of `as_str` here, while the events have them as `Display` shows them, with
//! their numbers; `method` is
//! `_OTHER` for one that RFC 9110 and RFC 5789 do not name. `by_origin` adds the label `origin`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod fault_source;
mod middleware;
mod origin;
mod policy;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub mod test_util;
mod time;

#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use middleware::MetricsObserver;
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub use middleware::RetrySettings;
pub use middleware::{
    AttemptOutcome, AttemptRecord, ClientExplanation, DeliveryProof, DrainLimits, Endpoint,
    EndpointBuilder, ObservedCall, ReplayBody, ResendCount, RetryError, RetryErrorExt,
    RetryHistory, RetryMiddleware, RetryMiddlewareBuilder, RetryObserver, RetryRequestExt,
    RetryScope, RetryTracker, SharedSession,
};
pub use origin::{Cooldown, RetryBudget, RetryBudgetBuilder};
pub use policy::{
    ApiProfile, Attempt, Backoff, Classifier, DelayHint, DelaySource, Delivery, Explanation, Fault,
    FaultKind, FaultSet, HintUnit, IdempotencyKey, Jitter, KeyFormat, Outcome, PolicyError,
    RetryDecision, RetryPolicy, RetryPolicyBuilder, RetryReason, RetrySession, RetryableMethod,
    ServerDelays, Share, StatusCondition, StatusSet, StopReason, Verdict, constants, retry_after,
};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
