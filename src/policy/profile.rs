//! What one API says in its response fields, and what it promises.

use std::time::{Duration, SystemTime};

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::rate_limit::rate_limit;
use super::retry_after::{retry_after, sent};
use super::{DelayHint, HintUnit, StatusSet};

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What one API says about resends, and what it promises, as data.
///
/// Everything beyond the standard fields is an agreement with one vendor and is inert until a profile
/// names it. A profile adds to a policy: the policy's own statuses, faults and limits stay.
///
/// - **Delays**, by the first of these that has a valid one: the [hints](Self::hint_before) that stand
///   before the standard fields, one by one; `Retry-After` (RFC 9110 10.2.3); the IETF `RateLimit` of an
///   exhausted quota (draft-ietf-httpapi-ratelimit-headers); the [hints](Self::hint) after them, of which
///   the longest counts.
/// - **Verdicts**: [fields](Self::verdict_field) by which the server says whether to send again.
/// - **Statuses** that are [transient](Self::retry_statuses) here, some of them on a condition; and those
///   by which the API [promises](Self::not_processed_statuses) that it did not act.
/// - Whether it [honours idempotency keys](Self::honours_idempotency_keys).
///
/// Keys and promises are the API's word on method safety; nothing else lifts that, and nothing a limit.
///
/// | profile | delays | verdict | transient as well | keys |
/// |---|---|---|---|---|
/// | [`standard`](Self::standard) | `Retry-After`, `RateLimit` | | | |
/// | [`openai`](Self::openai), Anthropic | `retry-after-ms` first; last, used-up quotas | `x-should-retry` | 529 | |
/// | [`azure`](Self::azure) | `retry-after-ms`, `x-ms-retry-after-ms` first | | | |
/// | [`stripe`](Self::stripe) | | `stripe-should-retry` | 409 with a key | honoured |
/// | [`github`](Self::github) | last, `x-ratelimit-reset`, if nothing is left | | 403, 429 with a delay | |
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, HeaderName, HeaderValue};
/// use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit, RetryPolicy};
///
/// // GitLab: the instant when there is quota again, in a field whose name others use for seconds.
/// let (reset, left) = ("ratelimit-reset", "ratelimit-remaining");
/// let hint = DelayHint::new(HeaderName::from_static(reset), HintUnit::EpochSeconds)
///     .only_if(HeaderName::from_static(left), "0");
/// let policy = RetryPolicy::builder().profile(ApiProfile::standard().hint(hint)).build()?;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(reset, HeaderValue::from_static("1609844400"));
/// headers.insert(left, HeaderValue::from_static("0"));
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_609_844_370);
/// assert_eq!(policy.server_delay(&headers, now), Some(Duration::from_secs(30)));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ApiProfile {
    pub(super) hints_before: Vec<DelayHint>,
    pub(super) hints_after: Vec<DelayHint>,
    pub(super) verdict_fields: Vec<HeaderName>,
    pub(super) statuses: Vec<(StatusCode, StatusCondition)>,
    pub(super) not_processed_statuses: Vec<StatusCode>,
    pub(super) honours_keys: bool,
}

/// When a status that a profile lists is transient.
///
/// ```
/// use std::time::SystemTime;
/// use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
/// use http::{Method, StatusCode};
/// use reqwest_typed_retry::{
///     ApiProfile, Attempt, Outcome, PolicyError, RetryPolicy, RetryableMethod, StatusCondition,
/// };
///
/// let is_resent = |condition, headers: &HeaderMap| {
///     let profile = ApiProfile::standard().retry_statuses([StatusCode::CONFLICT], condition);
///     let policy = RetryPolicy::builder().profile(profile).build()?;
///     let outcome = Outcome::response(StatusCode::CONFLICT, headers);
///     let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
///     let attempt = Attempt::new(1, class, &Method::PUT, outcome, now);
///     Ok::<_, PolicyError>(policy.decide(&attempt, &mut rand::rng()).delay().is_some())
/// };
/// let silent = HeaderMap::new();
/// let delayed = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]);
/// assert!(is_resent(StatusCondition::Always, &silent)?);
/// assert!(!is_resent(StatusCondition::WithServerDelay, &silent)?);
/// assert!(is_resent(StatusCondition::WithServerDelay, &delayed)?);
/// assert!(!is_resent(StatusCondition::WithHonouredKey, &delayed)?); // a PUT has no key
/// # Ok::<(), PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatusCondition {
    /// Always.
    Always,
    /// If the response says when to send again; zero, which says "now", is an answer too. Never where
    /// the policy [ignores](crate::ServerDelays::Ignored) what the server asks.
    WithServerDelay,
    /// If the request is a POST or PATCH that carries an idempotency key, and the policy honours keys. The
    /// profile says that it does: see [`honours_idempotency_keys`](ApiProfile::honours_idempotency_keys).
    WithHonouredKey,
}

impl ApiProfile {
    /// Those that this crate knows, by their names in settings files.
    #[cfg(feature = "serde")]
    pub(super) fn built_in() -> [(&'static str, Self); 6] {
        [
            ("standard", Self::standard()),
            ("openai", Self::openai()),
            ("anthropic", Self::anthropic()),
            ("azure", Self::azure()),
            ("stripe", Self::stripe()),
            ("github", Self::github()),
        ]
    }

    /// `Retry-After` and `RateLimit` only: what every policy reads that has no other profile.
    #[must_use]
    pub fn standard() -> Self {
        Self::default()
    }

    /// OpenAI, Anthropic, and services that are reached by clients like theirs.
    ///
    /// `retry-after-ms` comes before `Retry-After`; `x-should-retry` is the server's word. If the server
    /// names no delay, the quotas that are used up do: `x-ratelimit-reset-requests` and `-tokens` (Go
    /// durations), `anthropic-ratelimit-requests-reset`, `-tokens-reset` and the like (RFC 3339). 529
    /// (overloaded) is transient. A 429 without any of them has the policy's throttle backoff: that it
    /// means a spent budget is told in the body alone. Completions are sent by POST: see
    /// [`assume_idempotent`](crate::RetryPolicyBuilder::assume_idempotent). Source: their SDKs and API
    /// references.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{HeaderMap, HeaderValue};
    /// use reqwest_typed_retry::ApiProfile;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
    /// headers.insert("x-ratelimit-reset-tokens", HeaderValue::from_static("6m0s"));
    /// let asked = |headers: &_| ApiProfile::openai().server_delay(headers, SystemTime::now());
    /// assert_eq!(asked(&headers), Some(Duration::from_secs(360)));
    /// headers.insert("retry-after-ms", HeaderValue::from_static("1500"));
    /// assert_eq!(asked(&headers), Some(Duration::from_millis(1_500)));
    /// ```
    #[must_use]
    pub fn openai() -> Self {
        let quotas = [
            ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests", HintUnit::GoDuration),
            ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens", HintUnit::GoDuration),
            (
                "anthropic-ratelimit-requests-reset",
                "anthropic-ratelimit-requests-remaining",
                HintUnit::Rfc3339,
            ),
            (
                "anthropic-ratelimit-tokens-reset",
                "anthropic-ratelimit-tokens-remaining",
                HintUnit::Rfc3339,
            ),
            (
                "anthropic-ratelimit-input-tokens-reset",
                "anthropic-ratelimit-input-tokens-remaining",
                HintUnit::Rfc3339,
            ),
            (
                "anthropic-ratelimit-output-tokens-reset",
                "anthropic-ratelimit-output-tokens-remaining",
                HintUnit::Rfc3339,
            ),
        ];
        let quotas = quotas.map(|(reset, remaining, unit)| {
            DelayHint::new(HeaderName::from_static(reset), unit)
                .only_if(HeaderName::from_static(remaining), "0")
        });
        let overloaded = StatusCode::from_u16(529).into_iter();
        quotas
            .into_iter()
            .fold(Self::standard(), Self::hint)
            .hint_before(millis("retry-after-ms"))
            .verdict_field(HeaderName::from_static("x-should-retry"))
            .retry_statuses(overloaded, StatusCondition::Always)
    }

    /// That of [`openai`](Self::openai), which knows the fields of both.
    ///
    /// ```
    /// use reqwest_typed_retry::ApiProfile;
    ///
    /// assert_eq!(ApiProfile::anthropic(), ApiProfile::openai());
    /// ```
    #[must_use]
    pub fn anthropic() -> Self {
        Self::openai()
    }

    /// Azure: `retry-after-ms`, then `x-ms-retry-after-ms`, then the standard fields. Source: the Azure
    /// SDKs.
    #[must_use]
    pub fn azure() -> Self {
        Self::standard()
            .hint_before(millis("retry-after-ms"))
            .hint_before(millis("x-ms-retry-after-ms"))
    }

    /// Stripe: `stripe-should-retry` is the server's word, idempotency keys are honoured, and a 409 to a
    /// request with a key is transient. Its keys are [bare](crate::KeyFormat::Bare). Source: the Stripe
    /// SDKs and API reference.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, HeaderValue, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     ApiProfile, Attempt, Outcome, RetryPolicy, RetryableMethod, StopReason,
    /// };
    ///
    /// let policy = RetryPolicy::builder().profile(ApiProfile::stripe()).build()?;
    /// let stop = |class, headers: &_| {
    ///     let outcome = Outcome::response(StatusCode::CONFLICT, headers);
    ///     let attempt = Attempt::new(1, class, &Method::POST, outcome, SystemTime::now());
    ///     policy.decide(&attempt, &mut rand::rng()).stop_reason()
    /// };
    /// let (with_key, without) =
    ///     (RetryableMethod::IdempotentWithToken, RetryableMethod::NonIdempotent);
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(stop(with_key, &headers), None);
    /// assert_eq!(stop(without, &headers), Some(StopReason::Permanent));
    /// headers.insert("stripe-should-retry", HeaderValue::from_static("false"));
    /// assert_eq!(stop(with_key, &headers), Some(StopReason::ServerRefused));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn stripe() -> Self {
        Self::standard()
            .verdict_field(HeaderName::from_static("stripe-should-retry"))
            .honours_idempotency_keys()
            .retry_statuses([StatusCode::CONFLICT], StatusCondition::WithHonouredKey)
    }

    /// GitHub: a 403 or 429 that says when to come back is a rate limit. The standard fields first, then
    /// `x-ratelimit-reset`, unless `x-ratelimit-remaining` says that something is left. A secondary limit
    /// that is told only in the body is for a [classifier](crate::Classifier). The reset is often further
    /// away than a policy waits: see
    /// [`server_delays`](crate::RetryPolicyBuilder::server_delays). Source: GitHub's REST API
    /// documentation.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{HeaderMap, HeaderValue, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     ApiProfile, Attempt, Outcome, RetryPolicy, RetryReason, RetryableMethod,
    /// };
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-remaining", HeaderValue::from_static("0"));
    /// headers.insert("x-ratelimit-reset", HeaderValue::from_static("1372700873"));
    /// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_372_700_843);
    /// let outcome = Outcome::response(StatusCode::FORBIDDEN, &headers);
    /// let attempt = Attempt::new(1, RetryableMethod::Idempotent, &Method::GET, outcome, now);
    ///
    /// let policy = RetryPolicy::builder().profile(ApiProfile::github()).build()?;
    /// let decision = policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.retry_reason(), Some(RetryReason::Status(StatusCode::FORBIDDEN)));
    /// assert!(decision.delay() >= Some(Duration::from_secs(30)));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn github() -> Self {
        let reset = HeaderName::from_static("x-ratelimit-reset");
        let remaining = HeaderName::from_static("x-ratelimit-remaining");
        Self::standard()
            .hint(DelayHint::new(reset, HintUnit::EpochSeconds).unless_left(remaining))
            .retry_statuses(
                [StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS],
                StatusCondition::WithServerDelay,
            )
    }

    /// Also read this delay, where the standard fields say nothing. Of several the longest counts: each may be
    /// of a quota that is used up, and too early is the worse mistake.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
    /// use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};
    ///
    /// let hint = |field| DelayHint::new(HeaderName::from_static(field), HintUnit::Seconds);
    /// let profile = ApiProfile::standard().hint(hint("x-reset-day")).hint(hint("x-reset-second"));
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-reset-second", HeaderValue::from_static("1"));
    /// headers.insert("x-reset-day", HeaderValue::from_static("50"));
    /// let asked = |headers: &_| profile.server_delay(headers, SystemTime::now());
    /// assert_eq!(asked(&headers), Some(Duration::from_secs(50)));
    /// headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
    /// assert_eq!(asked(&headers), Some(Duration::from_secs(2)));
    /// ```
    #[must_use]
    pub fn hint(mut self, hint: DelayHint) -> Self {
        self.hints_after.push(hint);
        self
    }

    /// Read this delay before the standard fields. Those added first are read first.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
    /// use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};
    ///
    /// let millis = HeaderName::from_static("x-retry-in-ms");
    /// let hint = DelayHint::new(millis.clone(), HintUnit::Millis);
    /// let profile = ApiProfile::standard().hint_before(hint);
    /// let mut headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]);
    /// headers.insert(millis, HeaderValue::from_static("250"));
    /// let asked = profile.server_delay(&headers, SystemTime::now());
    /// assert_eq!(asked, Some(Duration::from_millis(250)));
    /// ```
    #[must_use]
    pub fn hint_before(mut self, hint: DelayHint) -> Self {
        self.hints_before.push(hint);
        self
    }

    /// Also read this field, on 4xx and 5xx: exactly `true` makes the response transient, exactly
    /// `false` ends the request, whatever its status. Neither lifts method safety nor any limit. Of several
    /// fields those added first are read first.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     ApiProfile, Attempt, Outcome, RetryPolicy, RetryReason, RetryableMethod, StopReason,
    /// };
    ///
    /// let field = HeaderName::from_static("x-try-again");
    /// let profile = ApiProfile::standard().verdict_field(field.clone());
    /// let policy = RetryPolicy::builder().profile(profile).build()?;
    /// let decide = |status, value| {
    ///     let headers = HeaderMap::from_iter([(field.clone(), HeaderValue::from_static(value))]);
    ///     let outcome = Outcome::response(status, &headers);
    ///     let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    ///     policy.decide(&Attempt::new(1, class, &Method::GET, outcome, now), &mut rand::rng())
    /// };
    /// let yes = decide(StatusCode::NOT_FOUND, "true");
    /// assert_eq!(yes.retry_reason(), Some(RetryReason::ServerDirective));
    /// let no = decide(StatusCode::SERVICE_UNAVAILABLE, "false");
    /// assert_eq!(no.stop_reason(), Some(StopReason::ServerRefused));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn verdict_field(mut self, name: HeaderName) -> Self {
        self.verdict_fields.push(name);
        self
    }

    /// These statuses are transient here, besides those of the policy, on this condition. With
    /// [`WithHonouredKey`](StatusCondition::WithHonouredKey) it says, too, that the API
    /// [honours](Self::honours_idempotency_keys) keys. A status below 400 is refused by
    /// [`build`](crate::RetryPolicyBuilder::build).
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     ApiProfile, Attempt, Outcome, RetryPolicy, RetryableMethod, StatusCondition,
    /// };
    ///
    /// let profile =
    ///     ApiProfile::standard().retry_statuses([StatusCode::LOCKED], StatusCondition::Always);
    /// let policy = RetryPolicy::builder().profile(profile).build()?;
    /// # let headers = HeaderMap::new();
    /// let is_resent = |status| {
    ///     let outcome = Outcome::response(status, &headers);
    ///     let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    ///     let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
    ///     policy.decide(&attempt, &mut rand::rng()).delay().is_some()
    /// };
    /// assert!(is_resent(StatusCode::LOCKED) && is_resent(StatusCode::BAD_GATEWAY));
    /// assert!(!is_resent(StatusCode::CONFLICT));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn retry_statuses(
        mut self,
        statuses: impl IntoIterator<Item = StatusCode>,
        condition: StatusCondition,
    ) -> Self {
        self.honours_keys |= condition == StatusCondition::WithHonouredKey;
        self.statuses.extend(statuses.into_iter().map(|status| (status, condition)));
        self
    }

    /// By these statuses the API promises that it did not act, besides those of the policy: see
    /// [`not_processed_statuses`](crate::RetryPolicyBuilder::not_processed_statuses), which says what is
    /// needed for that to have an effect. They are not transient for that alone.
    ///
    /// ```
    /// use http::StatusCode;
    /// use reqwest_typed_retry::{ApiProfile, RetryPolicy};
    ///
    /// let profile = ApiProfile::standard().not_processed_statuses([StatusCode::TOO_MANY_REQUESTS]);
    /// let policy = RetryPolicy::builder().profile(profile).build()?;
    /// assert!(policy.not_processed_statuses().contains(StatusCode::TOO_MANY_REQUESTS));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn not_processed_statuses(
        mut self,
        statuses: impl IntoIterator<Item = StatusCode>,
    ) -> Self {
        self.not_processed_statuses.extend(statuses);
        self
    }

    /// The API honours idempotency keys: the same as
    /// [`honour_idempotency_keys`](crate::RetryPolicyBuilder::honour_idempotency_keys) of a policy, which has
    /// the last word.
    ///
    /// ```
    /// use reqwest_typed_retry::{ApiProfile, RetryPolicy};
    ///
    /// let profile = ApiProfile::standard().honours_idempotency_keys();
    /// let builder = RetryPolicy::builder().profile(profile);
    /// assert!(builder.clone().build()?.honours_idempotency_keys());
    /// assert!(!builder.honour_idempotency_keys(false).build()?.honours_idempotency_keys());
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn honours_idempotency_keys(mut self) -> Self {
        self.honours_keys = true;
        self
    }

    /// The first verdict that the server gave.
    #[inline]
    pub(super) fn verdict(&self, headers: &HeaderMap) -> Option<bool> {
        self.verdict_fields.iter().flat_map(|name| headers.get_all(name)).find_map(|value| {
            match value.as_bytes() {
                b"true" => Some(true),
                b"false" => Some(false),
                _ => None,
            }
        })
    }

    /// Whether this status is transient here.
    #[inline]
    pub(super) fn retries(
        &self,
        status: StatusCode,
        has_server_delay: impl Fn() -> bool,
        has_honoured_key: bool,
    ) -> bool {
        self.statuses.iter().any(|(listed, condition)| {
            *listed == status
                && match condition {
                    StatusCondition::Always => true,
                    StatusCondition::WithServerDelay => has_server_delay(),
                    StatusCondition::WithHonouredKey => has_honoured_key,
                }
        })
    }

    /// All statuses that it names.
    pub(super) fn listed_statuses(&self) -> StatusSet {
        let listed = self.statuses.iter().map(|(status, _)| *status);
        listed.chain(self.not_processed_statuses.iter().copied()).collect()
    }

    /// The delay that the server asked for, whatever the status of the response; `now` is the wall clock when
    /// it arrived. Zero, or a date in the past, is an answer: it says that there is no minimum. What a policy
    /// [makes of it](crate::ServerDelays) is in [`RetryPolicy::decide`](crate::RetryPolicy::decide).
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{HeaderMap, HeaderValue};
    /// use reqwest_typed_retry::ApiProfile;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("RateLimit", HeaderValue::from_static(r#""default";r=0;t=30"#));
    /// let delay = ApiProfile::standard().server_delay(&headers, SystemTime::now());
    /// assert_eq!(delay, Some(Duration::from_secs(30)));
    ///
    /// headers.insert("retry-after-ms", HeaderValue::from_static("250"));
    /// let delay = ApiProfile::azure().server_delay(&headers, SystemTime::now());
    /// assert_eq!(delay, Some(Duration::from_millis(250)));
    /// ```
    #[must_use]
    pub fn server_delay(&self, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
        let lines = |name| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
        let (date, age) = (lines(DATE).next(), lines(AGE).next());
        let sent = || sent(date, age, now);
        // Retry-After takes precedence over RateLimit, also where it is the shorter one.
        delays(&self.hints_before, headers, sent)
            .next()
            .or_else(|| retry_after(lines(RETRY_AFTER), date, age, now))
            .or_else(|| rate_limit(lines(RATE_LIMIT), age))
            .or_else(|| delays(&self.hints_after, headers, sent).max())
    }
}

/// The delays that these ask for, in their order.
fn delays(
    hints: &[DelayHint],
    headers: &HeaderMap,
    sent: impl FnOnce() -> Duration,
) -> impl Iterator<Item = Duration> {
    let sent = if hints.is_empty() { Duration::ZERO } else { sent() };
    hints.iter().filter_map(move |hint| hint.delay(headers, sent))
}

fn millis(field: &'static str) -> DelayHint {
    DelayHint::new(HeaderName::from_static(field), HintUnit::Millis)
}
