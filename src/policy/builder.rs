//! How a policy is built, and what is refused.

use std::num::NonZeroU32;
use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::known_fields::has_a_meaning;
use super::retry_policy::{Rules, is_completed};
use super::{
    ApiProfile, Backoff, Classifier, FaultSet, Jitter, KeyFormat, PolicyError, RetryPolicy,
    ServerDelays, StatusSet,
};

/// Builds a [`RetryPolicy`]; [`build`](Self::build) checks it.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::Method;
/// use reqwest_typed_retry::{
///     Attempt, Backoff, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod, StopReason,
/// };
///
/// let (ms, secs) = (Duration::from_millis, Duration::from_secs);
/// let policy = RetryPolicy::builder()
///     .max_attempts(5)
///     .backoff(Backoff::exponential(ms(50), secs(5))?)
///     .attempt_timeout(secs(10))
///     .deadline(secs(30))
///     .build()?;
///
/// let outcome = Outcome::fault(Fault::unknown(FaultKind::Timeout));
/// let now = SystemTime::now();
/// let attempt = |number| {
///     Attempt::new(number, RetryableMethod::Idempotent, &Method::GET, outcome, now)
/// };
/// let decide = |attempt| policy.decide(&attempt, &mut rand::rng());
/// let wait = decide(attempt(1).with_elapsed(secs(10))).delay();
/// assert!(wait >= Some(ms(25)) && wait <= Some(ms(50)));
/// assert_eq!(decide(attempt(5)).stop_reason(), Some(StopReason::AttemptsExhausted));
/// let late = attempt(4).with_elapsed(secs(30));
/// assert_eq!(decide(late).stop_reason(), Some(StopReason::DeadlineWouldPass));
/// assert_eq!(policy.attempt_timeout(), Some(secs(10))); // for who drives the attempt
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RetryPolicyBuilder {
    rules: Rules,
    max_attempts: Option<u32>,
}

impl RetryPolicyBuilder {
    pub(super) fn new(rules: Rules) -> Self {
        let max_attempts = rules.max_attempts.map(NonZeroU32::get);
        Self { rules, max_attempts }
    }

    /// The most sends of one logical request, the first included: 1 never resends, 0 is refused.
    /// **Default**: 3 ([`constants::MAX_ATTEMPTS`](crate::constants::MAX_ATTEMPTS)).
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// No limit on the number of sends; builds only together with a [`deadline`](Self::deadline) and with
    /// backoffs whose longest delay is not zero. **Default**: [`max_attempts`](Self::max_attempts), of 3.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::RetryPolicy;
    ///
    /// let builder = RetryPolicy::builder().unlimited_attempts();
    /// assert!(builder.clone().build().is_err());
    /// let policy = builder.deadline(Duration::from_secs(30)).build()?;
    /// assert_eq!(policy.max_attempts(), None);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn unlimited_attempts(mut self) -> Self {
        self.max_attempts = None;
        self
    }

    /// The waits between attempts for which nobody else named a delay, but for those after a 429.
    /// **Default**: exponential, 100 ms doubling up to 10 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.rules.backoff = backoff;
        self
    }

    /// The waits after a 429 (RFC 6585 4) for which the server named no delay. **Default**: exponential,
    /// 1 s doubling up to 20 s.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{HeaderMap, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     Attempt, Backoff, DelaySource, Jitter, Outcome, RetryPolicy, RetryableMethod,
    /// };
    ///
    /// let policy = RetryPolicy::builder()
    ///     .throttle_backoff(Backoff::constant(Duration::from_secs(15)))
    ///     .jitter(Jitter::None)
    ///     .build()?;
    /// # let headers = HeaderMap::new();
    /// let throttled = Outcome::response(StatusCode::TOO_MANY_REQUESTS, &headers);
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::GET, throttled, now);
    /// let decision = policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.delay(), Some(Duration::from_secs(15)));
    /// assert_eq!(decision.delay_source(), Some(DelaySource::ThrottleBackoff));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn throttle_backoff(mut self, backoff: Backoff) -> Self {
        self.rules.throttle_backoff = backoff;
        self
    }

    /// The randomness in a wait: how that of a backoff is spread, and whether one that a server asked for is
    /// stretched. **Default**: [`Jitter::Equal`].
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::Method;
    /// use reqwest_typed_retry::{
    ///     Attempt, Fault, FaultKind, Jitter, Outcome, RetryPolicy, RetryableMethod,
    /// };
    ///
    /// // For a test that counts milliseconds; clients of a real server should not return together.
    /// let policy = RetryPolicy::builder().jitter(Jitter::None).build()?;
    /// let outcome = Outcome::fault(Fault::unknown(FaultKind::Connect));
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(2, class, &Method::GET, outcome, now);
    /// let decision = policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.delay(), Some(Duration::from_millis(200)));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.rules.jitter = jitter;
        self
    }

    /// The statuses that are transient: these and those of the [profile](Self::profile) alone, so that one
    /// more is [`StatusSet::transient().with(it)`](StatusSet::with). Each is 400 or above: for a success a
    /// [`Classifier`] can speak. **Default**: [`StatusSet::transient`].
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     Attempt, Outcome, RetryPolicy, RetryReason, RetryableMethod, StatusSet,
    /// };
    ///
    /// let statuses = StatusSet::transient().with(StatusCode::LOCKED);
    /// let policy = RetryPolicy::builder().retry_statuses(statuses).build()?;
    /// # let headers = HeaderMap::new();
    /// let locked = Outcome::response(StatusCode::LOCKED, &headers);
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::PUT, locked, now);
    /// let decision = policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.retry_reason(), Some(RetryReason::Status(StatusCode::LOCKED)));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn retry_statuses(mut self, statuses: StatusSet) -> Self {
        self.rules.retry_statuses = statuses;
        self
    }

    /// The faults that are transient: these alone, so that one less is
    /// [`FaultSet::transient().without(it)`](FaultSet::without). **Default**: [`FaultSet::transient`].
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::Method;
    /// use reqwest_typed_retry::{
    ///     Attempt, Fault, FaultKind, FaultSet, Outcome, RetryPolicy, RetryableMethod, StopReason,
    /// };
    ///
    /// // Names that are typed by users are often wrong.
    /// let faults = FaultSet::transient().without(FaultKind::Dns);
    /// let policy = RetryPolicy::builder().retry_faults(faults).build()?;
    /// let outcome = Outcome::fault(Fault::not_processed(FaultKind::Dns));
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
    /// let decision = policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.stop_reason(), Some(StopReason::Permanent));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn retry_faults(mut self, faults: FaultSet) -> Self {
        self.rules.retry_faults = faults;
        self
    }

    /// The statuses by which this API promises that it did not act on the request, so that a
    /// non-idempotent request may be sent again too, where the attempt is also
    /// [proven](crate::DeliveryProof) to have been a single exchange. They are not transient for that alone:
    /// [`retry_statuses`](Self::retry_statuses) says which are. RFC 6585 makes no such promise for 429: the
    /// API's documentation has to. **Default**: none.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     Attempt, Outcome, RetryPolicy, RetryableMethod, StatusSet, StopReason,
    /// };
    ///
    /// let statuses = StatusSet::from_iter([StatusCode::TOO_MANY_REQUESTS]);
    /// let policy = RetryPolicy::builder().not_processed_statuses(statuses).build()?;
    /// # let headers = HeaderMap::new();
    /// let throttled = Outcome::response(StatusCode::TOO_MANY_REQUESTS, &headers);
    /// let (class, now) = (RetryableMethod::NonIdempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::POST, throttled, now);
    /// let decide = |attempt| policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decide(attempt).stop_reason(), Some(StopReason::NotIdempotent));
    /// assert_eq!(decide(attempt.with_sole_exchange(true)).stop_reason(), None);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn not_processed_statuses(mut self, statuses: StatusSet) -> Self {
        self.rules.not_processed_statuses = statuses;
        self
    }

    /// Whether the server honours idempotency keys: a POST or PATCH that carries one is then
    /// retried like an idempotent request. The key must be on the request when the retry layer sees it:
    /// set at the call, or by a middleware that was added before. One that comes from the client's
    /// `default_headers`, or from a middleware added after, is not seen. **Default**: as the
    /// [profile](Self::profile) says, which for most is no, since a server that does not know the field acts
    /// twice; yes, where the policy [makes keys](Self::generate_idempotency_keys).
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, HeaderValue, Method};
    /// use reqwest_typed_retry::{
    ///     Attempt, Fault, FaultKind, Outcome, PolicyError, RetryPolicy, StopReason,
    /// };
    ///
    /// let stops = |honoured| {
    ///     let policy = RetryPolicy::builder().honour_idempotency_keys(honoured).build()?;
    ///     let mut headers = HeaderMap::new();
    ///     headers.insert("Idempotency-Key", HeaderValue::from_static("order-17"));
    ///     let class = policy.method_class(&Method::POST, &headers);
    ///     let outcome = Outcome::fault(Fault::unknown(FaultKind::Timeout));
    ///     let attempt = Attempt::new(1, class, &Method::POST, outcome, SystemTime::now());
    ///     Ok::<_, PolicyError>(policy.decide(&attempt, &mut rand::rng()).stop_reason())
    /// };
    /// assert_eq!(stops(true)?, None);
    /// assert_eq!(stops(false)?, Some(StopReason::NotIdempotent));
    /// # Ok::<(), PolicyError>(())
    /// ```
    pub fn honour_idempotency_keys(mut self, honour: bool) -> Self {
        self.rules.honour_idempotency_keys = Some(honour);
        self
    }

    /// The same, or `None` for what the profile says.
    #[cfg(feature = "serde")]
    pub(super) fn honours(mut self, honour: Option<bool>) -> Self {
        self.rules.honour_idempotency_keys = honour;
        self
    }

    /// Gives every POST and PATCH without an idempotency key a new one, in the first of the
    /// [`idempotency_key_fields`](Self::idempotency_key_fields): once a logical request, so that each of
    /// its attempts carries the same. It lives as long as the call: a call that is made again, by a queue or a
    /// user, has another one. Where that would be a second order, make the key of the order and bring it:
    /// [`idempotency_key`](crate::RetryRequestExt::idempotency_key). A key of the caller's stays. It says, too,
    /// that the server [honours](Self::honour_idempotency_keys) keys. `None` makes none. **Default**: none.
    ///
    /// ```
    /// use http::{HeaderMap, Method};
    /// use reqwest_typed_retry::{KeyFormat, RetryPolicy};
    ///
    /// let policy = RetryPolicy::builder().generate_idempotency_keys(KeyFormat::Bare).build()?;
    /// assert!(policy.honours_idempotency_keys());
    /// let key = |method| policy.new_idempotency_key(&method, &HeaderMap::new(), &mut rand::rng());
    /// assert!(key(Method::POST).is_some_and(|(field, _)| field == "idempotency-key"));
    /// assert_eq!(key(Method::GET), None);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn generate_idempotency_keys(mut self, format: impl Into<Option<KeyFormat>>) -> Self {
        self.rules.generate_idempotency_keys = format.into();
        self
    }

    /// The request fields that may carry an idempotency key; new ones go into the first. A field that requests
    /// have anyway, such as `Authorization`, is refused. **Default**: `Idempotency-Key`
    /// (draft-ietf-httpapi-idempotency-key-header).
    ///
    /// ```
    /// use http::{HeaderMap, HeaderName, HeaderValue, Method};
    /// use reqwest_typed_retry::{RetryPolicy, RetryableMethod};
    ///
    /// let field = HeaderName::from_static("paypal-request-id");
    /// let policy = RetryPolicy::builder()
    ///     .idempotency_key_fields([field.clone()])
    ///     .honour_idempotency_keys(true)
    ///     .build()?;
    /// let headers = HeaderMap::from_iter([(field, HeaderValue::from_static("order-17"))]);
    /// let class = policy.method_class(&Method::POST, &headers);
    /// assert_eq!(class, RetryableMethod::IdempotentWithToken);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn idempotency_key_fields(mut self, fields: impl IntoIterator<Item = HeaderName>) -> Self {
        self.rules.idempotency_key_fields = fields.into_iter().collect();
        self
    }

    /// Treat every request under this policy as idempotent, whatever its method: for reads by POST,
    /// searches, completions, where a duplicate costs at most money. For some of a client's POSTs, give
    /// these an [`Endpoint`](crate::Endpoint), or say it at the
    /// [request](crate::RetryRequestExt::assume_idempotent). **Default**: `false`.
    ///
    /// ```
    /// use http::{HeaderMap, Method};
    /// use reqwest_typed_retry::{RetryPolicy, RetryableMethod};
    ///
    /// let search = RetryPolicy::builder().assume_idempotent(true).build()?;
    /// let class = search.method_class(&Method::POST, &HeaderMap::new());
    /// assert_eq!(class, RetryableMethod::Idempotent);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn assume_idempotent(mut self, assume: bool) -> Self {
        self.rules.assume_idempotent = assume;
        self
    }

    /// What to do with a delay that the server asks for: see [`ServerDelays`]. **Default**: honour it up to
    /// 60 s, and stop where more is asked.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
    /// use http::{Method, StatusCode};
    /// use reqwest_typed_retry::{Attempt, Outcome, RetryPolicy, RetryableMethod, ServerDelays};
    ///
    /// // A nightly job can wait for an hour.
    /// let hour = Duration::from_secs(3_600);
    /// let patient = RetryPolicy::builder().server_delays(ServerDelays::UpTo(hour)).build()?;
    /// let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("900"))]);
    /// let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
    /// let delay = patient.decide(&attempt, &mut rand::rng()).delay();
    /// assert!(delay >= Some(Duration::from_secs(900)));
    /// assert_eq!(RetryPolicy::default().decide(&attempt, &mut rand::rng()).delay(), None);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn server_delays(mut self, server_delays: ServerDelays) -> Self {
        self.rules.server_delays = server_delays;
        self
    }

    /// The longest that one attempt may take, from connecting to the end of its body; `None` for
    /// no limit. The time of inner middlewares and of a body factory does not count: with a
    /// [`head_timeout`](Self::head_timeout) or a [`deadline`](Self::deadline) it does. It replaces a timeout
    /// of the whole `reqwest::Client`, a shorter one too, since that
    /// can't be read; with a timeout of the request the shorter of the two holds. Its error is
    /// reqwest's own, `is_timeout()`. A body that is streamed, such as a long download, is cut by it
    /// too: there a [`head_timeout`](Self::head_timeout), and the client's `read_timeout` for a body that
    /// stalls, take its place. **Default**: none, so that a server that
    /// never answers hangs the call: set it.
    pub fn attempt_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.rules.attempt_timeout = timeout.into();
        self
    }

    /// The longest that one attempt may take from its beginning to the head of its response, inner
    /// middlewares and the making of the body included; `None` for no limit. It never cuts a body, so
    /// it is the limit for streamed downloads. Its error is a
    /// [`RetryError`](crate::RetryError::is_timeout). **Default**: none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::RetryPolicy;
    ///
    /// let secs = Duration::from_secs;
    /// let download = RetryPolicy::builder().head_timeout(secs(5)).build()?;
    /// assert_eq!((download.head_timeout(), download.attempt_timeout()), (Some(secs(5)), None));
    ///
    /// let error = download.to_builder().attempt_timeout(secs(3)).build().unwrap_err();
    /// let message = "head_timeout is 5s, but it must not be longer than the attempt_timeout of 3s";
    /// assert_eq!(error.to_string(), message);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn head_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.rules.head_timeout = timeout.into();
        self
    }

    /// The longest that the whole request may take, from the beginning of the call to the head of the
    /// response that is handed out (to the end of its body, where that is
    /// [read inside the attempt](crate::RetryMiddlewareBuilder::buffer_body)); `None` for no limit. A
    /// wait that would not end before it never starts: the outcome in hand comes back. An attempt on
    /// the wire is cut by it, with a [`RetryError`](crate::RetryError::is_deadline); a body that was
    /// handed out never is. Waits are as exact as tokio's timers, to a millisecond or as busy as the
    /// thread is. **Default**: none.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.rules.deadline = deadline.into();
        self
    }

    /// Adds a rule of the application's own; those added first are asked first. A closure needs the
    /// type of its argument, `|attempt: &Attempt<'_>|`: see [`Classifier`]. **Default**: none.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, Method, StatusCode};
    /// use reqwest_typed_retry::{
    ///     Attempt, Outcome, RetryPolicy, RetryReason, RetryableMethod, Verdict,
    /// };
    ///
    /// // A document is there some time after it was posted.
    /// let policy = RetryPolicy::builder()
    ///     .classifier(|attempt: &Attempt<'_>| {
    ///         (attempt.outcome().status() == Some(StatusCode::NOT_FOUND))
    ///             .then_some(Verdict::Transient { delay: None })
    ///     })
    ///     .build()?;
    /// # let headers = HeaderMap::new();
    /// let not_found = Outcome::response(StatusCode::NOT_FOUND, &headers);
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::GET, not_found, now);
    /// let decision = policy.decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.retry_reason(), Some(RetryReason::Classifier));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn classifier(mut self, classifier: impl Classifier + 'static) -> Self {
        self.rules.classifiers.push(classifier);
        self
    }

    /// What the API says about resends in its response fields, and what it promises: see [`ApiProfile`]. It
    /// replaces the profile that was set before. **Default**: [`ApiProfile::standard`].
    ///
    /// ```
    /// use reqwest_typed_retry::{ApiProfile, RetryPolicy};
    ///
    /// let policy = RetryPolicy::builder().profile(ApiProfile::stripe()).build()?;
    /// assert!(policy.honours_idempotency_keys());
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn profile(mut self, profile: ApiProfile) -> Self {
        self.rules.profile = profile;
        self
    }

    /// Checks the rules against each other.
    ///
    /// # Errors
    /// The first rule that is broken, by setting, value and rule:
    ///
    /// - `max_attempts` of 0; unlimited attempts without a deadline, or without any wait;
    /// - a time limit of zero; an attempt or head timeout longer than the deadline, or a head timeout
    ///   longer than the attempt's; a server's delay clamped to nothing;
    /// - a field for keys that requests have anyway (`Authorization`, `Host` and the like);
    /// - keys that are to be made, and no field for them, or no server that honours them;
    /// - a status below 400 among those to retry or those not processed, of the profile too: it is an answer (a
    ///   classifier can still ask for a resend).
    ///
    /// ```
    /// use http::StatusCode;
    /// use reqwest_typed_retry::{RetryPolicy, StatusSet};
    ///
    /// let statuses = StatusSet::transient().with(StatusCode::ACCEPTED);
    /// let error = RetryPolicy::builder().retry_statuses(statuses).build().unwrap_err();
    /// assert_eq!(error.setting(), "retry_statuses");
    /// ```
    pub fn build(mut self) -> Result<RetryPolicy, PolicyError> {
        self.rules.max_attempts = self.checked_attempts()?;
        check_times(&self.rules)?;
        check_server_delays(self.rules.server_delays)?;
        check_statuses("retry_statuses", &self.rules.retry_statuses)?;
        check_statuses("not_processed_statuses", &self.rules.not_processed_statuses)?;
        check_statuses("profile", &self.rules.profile.listed_statuses())?;
        check_keys(&self.rules)?;
        Ok(RetryPolicy::from_valid(self.rules))
    }

    fn checked_attempts(&self) -> Result<Option<NonZeroU32>, PolicyError> {
        let Some(count) = self.max_attempts else {
            if self.rules.deadline.is_none() {
                let rule = "unlimited attempts need a deadline to end them";
                return Err(PolicyError::new("deadline", format_args!("none"), rule));
            }
            let backoffs = [
                ("backoff", &self.rules.backoff),
                ("throttle_backoff", &self.rules.throttle_backoff),
            ];
            for (setting, backoff) in backoffs {
                if backoff.max_delay().is_zero() {
                    let rule = "unlimited attempts need a wait between them";
                    return Err(PolicyError::new(setting, backoff.max_delay(), rule));
                }
            }
            return Ok(None);
        };
        NonZeroU32::new(count).map(Some).ok_or_else(|| {
            let rule = "it counts the first send too: it must be at least 1";
            PolicyError::new("max_attempts", count, rule)
        })
    }
}

fn check_times(rules: &Rules) -> Result<(), PolicyError> {
    let head = ("head_timeout", rules.head_timeout);
    let attempt = ("attempt_timeout", rules.attempt_timeout);
    let deadline = ("deadline", rules.deadline);
    for (setting, limit) in [head, attempt, deadline] {
        if let Some(limit @ Duration::ZERO) = limit {
            let rule = "nothing can be done in no time: it must be longer than zero";
            return Err(PolicyError::new(setting, limit, rule));
        }
    }
    for ((setting, part), (of, whole)) in [(head, attempt), (head, deadline), (attempt, deadline)] {
        match (part, whole) {
            (Some(part), Some(whole)) if part > whole => {
                let rule = format!("it must not be longer than the {of} of {whole:?}");
                return Err(PolicyError::new(setting, part, rule));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_server_delays(server_delays: ServerDelays) -> Result<(), PolicyError> {
    if server_delays == ServerDelays::ClampedTo(Duration::ZERO) {
        let rule = "a server that asked for time would get none: ignore its delays instead";
        return Err(PolicyError::new("server_delays", server_delays, rule));
    }
    Ok(())
}

fn check_keys(rules: &Rules) -> Result<(), PolicyError> {
    if rules.generate_idempotency_keys.is_some() && rules.idempotency_key_fields.is_empty() {
        let rule = "keys that are generated need a field to go into";
        return Err(PolicyError::new(
            "idempotency_key_fields",
            &rules.idempotency_key_fields,
            rule,
        ));
    }
    if let Some(field) = rules.idempotency_key_fields.iter().find(|it| has_a_meaning(it)) {
        let rule = "that field has a meaning of its own";
        return Err(PolicyError::new("idempotency_key_fields", field.as_str(), rule));
    }
    if rules.generate_idempotency_keys.is_some() && rules.honour_idempotency_keys == Some(false) {
        let rule = "keys that are generated need a server that honours them";
        return Err(PolicyError::new("honour_idempotency_keys", false, rule));
    }
    Ok(())
}

fn check_statuses(setting: &'static str, statuses: &StatusSet) -> Result<(), PolicyError> {
    match statuses.iter().find(|status| is_completed(*status)) {
        Some(status) => {
            let rule = "a status below 400 is an answer: only 400 and above can be listed";
            Err(PolicyError::new(setting, StatusCode::as_u16(&status), rule))
        }
        None => Ok(()),
    }
}
