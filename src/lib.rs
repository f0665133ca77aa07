//! Retry middleware for [reqwest](https://docs.rs/reqwest), built on a typed, pure retry policy.
//!
//! - [`RetryPolicy`] answers three questions: should this request be sent again, after how long,
//!   how many times? It is pure: no network, no clock, no sleep.
//! - [`RetryMiddleware`] applies it inside a
//!   [reqwest-middleware](https://docs.rs/reqwest-middleware) chain, once per client and transparent
//!   to call sites.
//! - A POST or PATCH that might have taken effect is never sent twice, unless somebody said that it may be, or that its
//!   server honours the key that it carries.
//!
//! ```
//! use std::time::Duration;
//! use reqwest_middleware::ClientBuilder;
//! use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
//!
//! # use reqwest::StatusCode;
//! # use reqwest_typed_retry::test_util::{Reply, Script};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let network = Script::new([
//! #     Reply::status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 2),
//! #     Reply::status(StatusCode::OK).body("hello"),
//! # ]);
//! let policy = RetryPolicy::builder()
//!     .attempt_timeout(Duration::from_secs(10)) // the default is none: set it
//!     .build()?;
//! let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(3)).build()?;
//! let client = ClientBuilder::new(http)
//!     .with(RetryMiddleware::new(policy))
//! #     .with(network.clone())
//!     .build();
//!
//! // The server answers `503` with `Retry-After: 2`, and `200` to the next attempt.
//! let response = client.get("http://api.test/").send().await?.error_for_status()?;
//! assert_eq!(response.text().await?, "hello");
//! # let sent = network.received();
//! # assert_eq!(sent.len(), 2);
//! # assert!(sent[1].at - sent[0].at >= Duration::from_secs(2));
//! # Ok(()) }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | rules, waits, time limits | [`RetryPolicy::builder`] |
//! | what one API says and promises | [`ApiProfile`] |
//! | rules for some requests | [`Endpoint`], [`RetryRequestExt`] |
//! | rules from a file | `RetrySettings` (feature `serde`) |
//! | all rules as a table to read | [`RetryPolicy::explain`], [`RetryMiddleware::explain`] |
//! | payments and jobs | [`DeliveryProof`], [`RetryRequestExt::idempotency_key`], [`generate_idempotency_keys`] |
//! | sick servers | [`RetryBudget`], [`Cooldown`] |
//! | responses that are not handed out | [`DrainLimits`] |
//! | bodies that can't be cloned | [`RetryRequestExt::body_factory`] |
//! | bodies that are cut | [`buffer_body`], [`SharedSession`] |
//! | a deadline, a cancellation, a policy for a whole task | [`RetryScope`] |
//! | what happened | [`RetryHistory`], [`RetryTracker`], [`RetryErrorExt`] |
//! | what each fault is read as | [`fault_source`] |
//! | metrics and logs of your own | [`RetryObserver`], [Telemetry](#telemetry) |
//! | tests of what your service does | `test_util` (feature `test-util`) |
//! | other clients than reqwest | [`RetrySession`] |
//! | wasm32 | [In a browser](#in-a-browser) |
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `http2` | yes | HTTP/2 resets and refusals told apart by their code; not in a browser |
//! | `rustls` | yes | TLS verdicts (a bad certificate) told from connections that did not come about; not in a browser |
//! | `tracing` | yes | events: see [Telemetry](#telemetry) |
//! | `metrics` | no | `MetricsObserver`: metrics by the facade of that name |
//! | `multipart` | no | `ReplayBody` from a `reqwest::multipart::Form` |
//! | `serde` | no | `RetrySettings`: policies, endpoints and options from files; `Serialize` for [`RetryHistory`] |
//! | `test-util` | no | `test_util`: a scripted final middleware, seeded jitter, a settable wall clock |
//!
#![doc = include_str!("browser.md")]
//!
//! # Defaults
//!
//! Of [`RetryPolicy::builder`]; the numbers, each with its reason, are in [`constants`]:
//!
//! | setting | default |
//! |---|---|
//! | [`max_attempts`] | 3 sends, the first included |
//! | [`backoff`] | exponential: 100 ms, doubling, at most 10 s; not for a 429 |
//! | [`throttle_backoff`] | for a 429 without a server delay: 1 s, doubling, at most 20 s |
//! | [`jitter`] | [`Jitter::Equal`]: between half of the delay and the whole of it |
//! | [`server_delays`] | [`UpTo`] 60 s; stretched by up to a tenth, at most 5 s; beyond, the response comes back |
//! | [`retry_statuses`] | [`StatusSet::transient`]: 408, 425, 429, 500, 502, 503, 504 |
//! | [`retry_faults`] | [`FaultSet::transient`]: every [`FaultKind`] but `Tls`, `Decode`, `Invalid` and `Other` |
//! | [`not_processed_statuses`] | none |
//! | [`idempotency_key_fields`] | `Idempotency-Key` |
//! | [`honour_idempotency_keys`] | as the profile says: for the standard one, no |
//! | [`generate_idempotency_keys`] | none are made |
//! | [`assume_idempotent`] | no |
//! | [`attempt_timeout`] | none: **set it**, or a server that never answers hangs the call |
//! | [`head_timeout`] | none |
//! | [`deadline`] | none |
//! | [`classifier`] | none |
//! | [`profile`] | [`ApiProfile::standard`]: `Retry-After`, and the `RateLimit` field |
//!
//! Of [`RetryMiddleware::builder`]:
//!
//! | setting | default |
//! |---|---|
//! | [`endpoint`] | none: the policy is that of every request |
//! | [`delivery_proof`] | none: no fault makes a POST safe to repeat |
//! | [`budget`] | one of the client's own |
//! | [`cooldown`] | none; with one each policy must have a [`deadline`] |
//! | [`drain`] | 64 KiB, for at most 1 s of the wait |
//! | [`buffer_body`] | 0 bytes: a response is handed out with its head |
//! | [`wrap_errors`] | off: an error comes as it was made |
//! | [`attempt_header`] | none |
//! | [`observer`] | none besides the events of the feature `tracing` |
//! | [`wall_clock`] | the system's |
//! | [`generator`] | the thread's own |
//!
//! Of [`RetryBudget::builder`], for each origin:
//!
//! | setting | default |
//! |---|---|
//! | [`capacity`] | 100 tokens, one a resend |
//! | [`refill_per_answer`] | 0.2 tokens |
//! | [`refill_after`] | 60 s without a resend: all of it |
//!
//! [`max_attempts`]: RetryPolicyBuilder::max_attempts
//! [`backoff`]: RetryPolicyBuilder::backoff
//! [`throttle_backoff`]: RetryPolicyBuilder::throttle_backoff
//! [`jitter`]: RetryPolicyBuilder::jitter
//! [`server_delays`]: RetryPolicyBuilder::server_delays
//! [`UpTo`]: ServerDelays::UpTo
//! [`retry_statuses`]: RetryPolicyBuilder::retry_statuses
//! [`retry_faults`]: RetryPolicyBuilder::retry_faults
//! [`not_processed_statuses`]: RetryPolicyBuilder::not_processed_statuses
//! [`idempotency_key_fields`]: RetryPolicyBuilder::idempotency_key_fields
//! [`honour_idempotency_keys`]: RetryPolicyBuilder::honour_idempotency_keys
//! [`generate_idempotency_keys`]: RetryPolicyBuilder::generate_idempotency_keys
//! [`assume_idempotent`]: RetryPolicyBuilder::assume_idempotent
//! [`attempt_timeout`]: RetryPolicyBuilder::attempt_timeout
//! [`head_timeout`]: RetryPolicyBuilder::head_timeout
//! [`deadline`]: RetryPolicyBuilder::deadline
//! [`classifier`]: RetryPolicyBuilder::classifier
//! [`profile`]: RetryPolicyBuilder::profile
//! [`endpoint`]: RetryMiddlewareBuilder::endpoint
//! [`delivery_proof`]: RetryMiddlewareBuilder::delivery_proof
//! [`budget`]: RetryMiddlewareBuilder::budget
//! [`cooldown`]: RetryMiddlewareBuilder::cooldown
//! [`drain`]: RetryMiddlewareBuilder::drain
//! [`buffer_body`]: RetryMiddlewareBuilder::buffer_body
//! [`wrap_errors`]: RetryMiddlewareBuilder::wrap_errors
//! [`attempt_header`]: RetryMiddlewareBuilder::attempt_header
//! [`observer`]: RetryMiddlewareBuilder::observer
//! [`wall_clock`]: RetryMiddlewareBuilder::wall_clock
//! [`generator`]: RetryMiddlewareBuilder::generator
//! [`capacity`]: RetryBudgetBuilder::capacity
//! [`refill_per_answer`]: RetryBudgetBuilder::refill_per_answer
//! [`refill_after`]: RetryBudgetBuilder::refill_after
//!
//! # Decision order
//!
//! After each attempt these are asked, in this order. The first that says no ends the call: the caller gets
//! the outcome in hand, and its [`RetryHistory`] the [`StopReason`]. Steps 1 to 6 are
//! [`RetryPolicy::decide`], which has the rule in full.
//!
//! | step | question | or it stops with |
//! |---|---|---|
//! | 1. verdict | Is the outcome transient? | [`Completed`], [`Permanent`], [`ServerRefused`] |
//! | 2. method safety | Is it safe to send twice, or proven that this attempt had no effect? | [`NotIdempotent`] |
//! | 3. attempts | Is there one left? | [`AttemptsExhausted`] |
//! | 4. delay | How long: as a classifier says, else as the server asks, else by the backoff. | |
//! | 5. server's delay | Is it, or the classifier's, within the limit? | [`ServerDelayTooLong`] |
//! | 6. deadline | Does the wait end before it? | [`DeadlineWouldPass`] |
//! | 7. body | Can it be sent again? | [`BodyNotReplayable`] |
//! | 8. cancellation | Has nobody cancelled? | [`Cancelled`] |
//! | 9. cooldown | Does the origin open before the deadline? | [`DeadlineWouldPass`] |
//! | 10. budget | Is there a token, where it takes one? | [`BudgetExhausted`] |
//!
//! Later, too: a wait is ended by a cancellation, or by a cooldown that keeps the origin closed beyond the
//! deadline; and a deadline that passes during an attempt, or by the end of a wait, ends the call with
//! [`DeadlinePassed`].
//!
//! [`Completed`]: StopReason::Completed
//! [`Permanent`]: StopReason::Permanent
//! [`ServerRefused`]: StopReason::ServerRefused
//! [`NotIdempotent`]: StopReason::NotIdempotent
//! [`AttemptsExhausted`]: StopReason::AttemptsExhausted
//! [`ServerDelayTooLong`]: StopReason::ServerDelayTooLong
//! [`DeadlineWouldPass`]: StopReason::DeadlineWouldPass
//! [`BodyNotReplayable`]: StopReason::BodyNotReplayable
//! [`Cancelled`]: StopReason::Cancelled
//! [`BudgetExhausted`]: StopReason::BudgetExhausted
//! [`DeadlinePassed`]: StopReason::DeadlinePassed
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
//! `endpoint` is the name of the request's [`Endpoint`], and is not there without one; nor is `server_delay`. Where
//! the attempts are unlimited there is no `max_retries`, and the event is `retry 1`.
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
//! The labels: `outcome` is a status or a kind of fault; so is the `reason` of a resend, or it is
//! `server_directive` or `classifier`; `method` is `_OTHER` for one that RFC 9110 and RFC 5789 do not name;
//! all others are what `as_str` gives, while the events have what `Display` shows, with its numbers.
//! `MetricsObserver::by_origin` adds the label `origin`.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(target_arch = "wasm32", not(target_os = "unknown")))]
compile_error!(
    "of the wasm32 targets reqwest-typed-retry knows the browser's alone: wasm32-unknown-unknown"
);
#[cfg(all(target_arch = "wasm32", any(feature = "http2", feature = "rustls")))]
compile_error!(
    "the features `http2` and `rustls` of reqwest-typed-retry read errors that a browser does not have: \
     for wasm32 set `default-features = false` wherever it is named, with `tracing` if you want its events"
);

pub mod fault_source;
mod middleware;
mod origin;
mod policy;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub mod test_util;
mod time;

#[cfg(not(target_arch = "wasm32"))]
pub use middleware::DeliveryProof;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use middleware::MetricsObserver;
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub use middleware::RetrySettings;
pub use middleware::{
    AttemptOutcome, AttemptRecord, ClientExplanation, DrainLimits, Endpoint, EndpointBuilder,
    MaybeSend, ObservedCall, ReplayBody, ResendCount, RetryError, RetryErrorExt, RetryHistory,
    RetryMiddleware, RetryMiddlewareBuilder, RetryObserver, RetryRequestExt, RetryScope,
    RetryTracker, SharedSession,
};
pub use origin::{Cooldown, RetryBudget, RetryBudgetBuilder};
pub use policy::{
    ApiProfile, Attempt, Backoff, Classifier, DelayHint, DelaySource, Delivery, Explanation, Fault,
    FaultKind, FaultSet, HintUnit, IdempotencyKey, Jitter, KeyFormat, Outcome, PolicyError,
    RetryDecision, RetryPolicy, RetryPolicyBuilder, RetryReason, RetrySession, RetryableMethod,
    ServerDelays, Share, StatusCondition, StatusSet, StopReason, Verdict, constants, retry_after,
};

/// The README's examples compile. One of them needs the feature; with the crate's own tests it is always on.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Those of the guide, too.
#[cfg(doctest)]
#[doc = include_str!("../docs/migrating-from-reqwest-retry.md")]
struct MigratingFromReqwestRetry;
