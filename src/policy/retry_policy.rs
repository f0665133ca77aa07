//! The policy: all rules of one kind of request, validated.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use rand::Rng;

use super::classifier::Classifiers;
use super::method::{has_key, takes_key};
use super::{
    ApiProfile, Backoff, FaultSet, IdempotencyKey, Jitter, KeyFormat, PolicyError,
    RetryPolicyBuilder, RetryableMethod, ServerDelays, StatusSet, constants,
};

/// Which requests are sent again, after how long, and how many times.
///
/// A policy is a value without state: [`decide`](Self::decide) depends on its arguments alone.
/// Every policy that exists is valid; changes go through [`to_builder`](Self::to_builder). Clones
/// share their rules.
///
/// The defaults are in [`constants`](super::constants), each with its reason.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, Method};
/// use reqwest_typed_retry::{RetryPolicy, RetryableMethod};
///
/// let policy = RetryPolicy::default();
/// assert_eq!(policy.max_attempts().map(|max| max.get()), Some(3));
/// assert_eq!((policy.attempt_timeout(), policy.head_timeout()), (None, None));
/// assert_eq!(policy.deadline(), None);
/// assert!(!policy.honours_idempotency_keys() && policy.not_processed_statuses().is_empty());
/// let class = policy.method_class(&Method::GET, &HeaderMap::new());
/// assert_eq!(class, RetryableMethod::Idempotent);
///
/// let hasty = policy.to_builder().deadline(Duration::from_secs(2)).build()?;
/// assert_eq!(hasty.deadline(), Some(Duration::from_secs(2)));
/// assert_eq!(hasty.max_attempts(), policy.max_attempts());
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    rules: Arc<Rules>,
}

/// The rules behind a policy. Valid only once a builder has checked them.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// `None`: only the deadline ends the request.
    pub(super) max_attempts: Option<NonZeroU32>,
    pub(super) backoff: Backoff,
    pub(super) throttle_backoff: Backoff,
    pub(super) jitter: Jitter,
    pub(super) retry_statuses: StatusSet,
    pub(super) retry_faults: FaultSet,
    pub(super) not_processed_statuses: StatusSet,
    pub(super) idempotency_key_fields: Vec<HeaderName>,
    /// `None`: as the profile says.
    pub(super) honour_idempotency_keys: Option<bool>,
    pub(super) generate_idempotency_keys: Option<KeyFormat>,
    pub(super) assume_idempotent: bool,
    pub(super) server_delays: ServerDelays,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) head_timeout: Option<Duration>,
    pub(super) deadline: Option<Duration>,
    pub(super) classifiers: Classifiers,
    pub(super) profile: ApiProfile,
}

impl Default for Rules {
    fn default() -> Self {
        let exponential = |base, max| {
            // Unreachable fallback: the constants keep base <= max, which a test pins.
            Backoff::exponential(base, max).unwrap_or(Backoff::constant(max))
        };
        Self {
            max_attempts: Some(constants::MAX_ATTEMPTS),
            backoff: exponential(constants::BASE_DELAY, constants::MAX_DELAY),
            throttle_backoff: exponential(
                constants::THROTTLE_BASE_DELAY,
                constants::THROTTLE_MAX_DELAY,
            ),
            jitter: Jitter::Equal,
            retry_statuses: StatusSet::transient(),
            retry_faults: FaultSet::transient(),
            not_processed_statuses: StatusSet::empty(),
            idempotency_key_fields: vec![HeaderName::from_static(constants::IDEMPOTENCY_KEY)],
            honour_idempotency_keys: None,
            generate_idempotency_keys: None,
            assume_idempotent: false,
            server_delays: ServerDelays::DEFAULT,
            attempt_timeout: None,
            head_timeout: None,
            deadline: None,
            classifiers: Classifiers::default(),
            profile: ApiProfile::standard(),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::from_valid(Rules::default())
    }
}

impl RetryPolicy {
    /// The three numbers that matter most, and the defaults for the rest. This one
    /// [exponential](Backoff::exponential) backoff serves every resend, those after a 429 too. What it leaves
    /// out, time limits above all, is in [`builder`](Self::builder).
    ///
    /// # Errors
    /// If `max_attempts` is 0, or `base_delay` is longer than `max_delay`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::RetryPolicy;
    ///
    /// let policy = RetryPolicy::new(5, Duration::from_millis(50), Duration::from_secs(2))?;
    /// assert_eq!(policy.max_attempts().map(|max| max.get()), Some(5));
    /// assert!(RetryPolicy::new(5, Duration::from_secs(2), Duration::from_millis(50)).is_err());
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn new(
        max_attempts: u32,
        base_delay: Duration,
        max_delay: Duration,
    ) -> Result<Self, PolicyError> {
        let backoff = Backoff::exponential(base_delay, max_delay)?;
        Self::builder()
            .max_attempts(max_attempts)
            .throttle_backoff(backoff.clone())
            .backoff(backoff)
            .build()
    }

    /// A policy that sends once and never again: the defaults, with one attempt.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::Method;
    /// use reqwest_typed_retry::{
    ///     Attempt, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod, StopReason,
    /// };
    ///
    /// let outcome = Outcome::fault(Fault::unknown(FaultKind::Timeout));
    /// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
    /// let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
    /// let decision = RetryPolicy::never().decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.stop_reason(), Some(StopReason::AttemptsExhausted));
    /// ```
    #[must_use]
    pub fn never() -> Self {
        Self::from_valid(Rules { max_attempts: Some(NonZeroU32::MIN), ..Rules::default() })
    }

    /// A builder that starts from the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::RetryPolicy;
    ///
    /// let policy = RetryPolicy::builder().attempt_timeout(Duration::from_secs(10)).build()?;
    /// assert_eq!(policy.attempt_timeout(), Some(Duration::from_secs(10)));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder::new(Rules::default())
    }

    /// A builder that starts from this policy, its classifiers included; the policy stays as it is.
    pub fn to_builder(&self) -> RetryPolicyBuilder {
        RetryPolicyBuilder::new(Rules::clone(&self.rules))
    }

    /// For who must not ask the application.
    pub(crate) fn without_classifiers(&self) -> Self {
        Self::from_valid(Rules { classifiers: Classifiers::default(), ..Rules::clone(&self.rules) })
    }

    pub(super) fn from_valid(rules: Rules) -> Self {
        Self { rules: Arc::new(rules) }
    }

    #[inline]
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The most sends of one logical request, the first included. `None`: only the deadline ends
    /// it.
    #[must_use]
    pub fn max_attempts(&self) -> Option<NonZeroU32> {
        self.rules.max_attempts
    }

    /// The longest that one attempt may take, up to the end of its body: see
    /// [`attempt_timeout`](RetryPolicyBuilder::attempt_timeout) of the builder. `None`: no limit.
    #[must_use]
    #[inline]
    pub fn attempt_timeout(&self) -> Option<Duration> {
        self.rules.attempt_timeout
    }

    /// The longest that one attempt may take up to the head of its response: see
    /// [`head_timeout`](RetryPolicyBuilder::head_timeout) of the builder. `None`: no limit.
    #[must_use]
    #[inline]
    pub fn head_timeout(&self) -> Option<Duration> {
        self.rules.head_timeout
    }

    /// The longest that the whole request may take, up to the head of its last response, or to the end
    /// of a body that is read inside the attempt: see [`deadline`](RetryPolicyBuilder::deadline) of the
    /// builder. `None`: no limit.
    #[must_use]
    #[inline]
    pub fn deadline(&self) -> Option<Duration> {
        self.rules.deadline
    }

    /// The statuses by which this API promises that it did not act, those of its profile included.
    #[must_use]
    pub fn not_processed_statuses(&self) -> StatusSet {
        let promised = self.rules.profile.not_processed_statuses.iter().copied();
        promised.fold(self.rules.not_processed_statuses, StatusSet::with)
    }

    /// Whether classifiers of the application's own are asked.
    #[inline]
    pub(crate) fn has_classifiers(&self) -> bool {
        !self.rules.classifiers.is_empty()
    }

    /// The class of a request under this policy: that of its method and its fields
    /// ([`RetryableMethod::of`]), with what the policy [assumes](RetryPolicyBuilder::assume_idempotent). Ask
    /// before the first send: later the fields may have changed.
    #[must_use]
    #[inline]
    pub fn method_class(&self, method: &Method, headers: &HeaderMap) -> RetryableMethod {
        let class = RetryableMethod::of(method, headers, &self.rules.idempotency_key_fields);
        // Not over a key that counts: the API may say more of requests that carry one.
        if self.rules.assume_idempotent && !self.is_repeatable(class) {
            RetryableMethod::Idempotent
        } else {
            class
        }
    }

    /// What [`RetrySession::may_resend`](super::RetrySession::may_resend) says of the attempt `number`.
    #[inline]
    pub(crate) fn may_resend(&self, class: RetryableMethod, number: u32, provable: bool) -> bool {
        self.attempts_left(number) && (provable || self.is_repeatable(class))
    }

    /// Whether a request that carries an idempotency key may be sent again: by the policy's word; without
    /// one, by that of its profile, or because it makes keys itself.
    #[must_use]
    pub fn honours_idempotency_keys(&self) -> bool {
        let Rules { honour_idempotency_keys, generate_idempotency_keys, profile, .. } =
            &*self.rules;
        honour_idempotency_keys
            .unwrap_or(profile.honours_keys || generate_idempotency_keys.is_some())
    }

    /// Whether this request field may carry an idempotency key.
    pub(crate) fn is_key_field(&self, field: &HeaderName) -> bool {
        self.rules.idempotency_key_fields.contains(field)
    }

    /// A new key for a request that should carry one and does not, with the field that it goes into.
    /// Once a logical request, before its class is asked for; randomness is an argument.
    ///
    /// `None` where the policy [makes no keys](RetryPolicyBuilder::generate_idempotency_keys), for other
    /// methods than POST and PATCH, and wherever the request has a field for keys already, an empty one too:
    /// what the caller set stays.
    ///
    /// ```
    /// use http::{HeaderMap, Method};
    /// use rand::{SeedableRng, rngs::SmallRng};
    /// use reqwest_typed_retry::{KeyFormat, RetryPolicy, RetryableMethod};
    ///
    /// let policy = RetryPolicy::builder().generate_idempotency_keys(KeyFormat::Quoted).build()?;
    /// let mut rng = SmallRng::seed_from_u64(7); // seeded at random, outside of examples
    /// let mut headers = HeaderMap::new();
    /// if let Some((field, key)) = policy.new_idempotency_key(&Method::POST, &headers, &mut rng) {
    ///     headers.insert(field, key.as_value().clone());
    /// }
    /// let class = policy.method_class(&Method::POST, &headers);
    /// assert_eq!(class, RetryableMethod::IdempotentWithToken);
    /// assert_eq!(policy.new_idempotency_key(&Method::POST, &headers, &mut rng), None);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn new_idempotency_key<R: Rng + ?Sized>(
        &self,
        method: &Method,
        headers: &HeaderMap,
        rng: &mut R,
    ) -> Option<(HeaderName, IdempotencyKey)> {
        let (field, format) = self.wanted_key(method, headers)?;
        Some((field.clone(), IdempotencyKey::generate(format, rng)))
    }

    /// The field and the format of the key that the request should carry and does not.
    #[inline]
    pub(crate) fn wanted_key(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Option<(&HeaderName, KeyFormat)> {
        let format = self.rules.generate_idempotency_keys?;
        let fields = &self.rules.idempotency_key_fields;
        let is_taken = fields.iter().any(|field| headers.contains_key(field));
        Some((fields.first().filter(|_| !is_taken && takes_key(method))?, format))
    }

    /// Puts `key` into the request, unless it carries one already. An empty field is none. Says whether it is
    /// there now.
    pub(crate) fn put_idempotency_key(
        &self,
        headers: &mut HeaderMap,
        key: &IdempotencyKey,
    ) -> bool {
        let fields = &self.rules.idempotency_key_fields;
        let (Some(first), false) = (fields.first(), has_key(headers, fields)) else {
            return false;
        };
        for field in fields {
            headers.remove(field);
        }
        headers.insert(first, key.as_value().clone());
        true
    }

    /// This policy, for a request that has limits of its own.
    pub(crate) fn for_one_request(&self, sends_once: bool, deadline: Option<Duration>) -> Self {
        let mut rules = Rules::clone(&self.rules);
        if sends_once {
            rules.max_attempts = Some(NonZeroU32::MIN);
        }
        rules.deadline = deadline.or(rules.deadline);
        Self::from_valid(rules)
    }

    /// Whether a response with this status needs no decision: it ends the request, and nobody is
    /// asked about it.
    #[inline]
    pub(crate) fn completes(&self, status: StatusCode) -> bool {
        is_completed(status) && !self.has_classifiers()
    }

    /// Whether a request of this class may take effect twice without harm.
    #[inline]
    pub(crate) fn is_repeatable(&self, class: RetryableMethod) -> bool {
        match class {
            RetryableMethod::Idempotent => true,
            RetryableMethod::IdempotentWithToken => self.honours_idempotency_keys(),
            RetryableMethod::NonIdempotent => false,
        }
    }

    #[inline]
    pub(super) fn attempts_left(&self, number: u32) -> bool {
        self.rules.max_attempts.is_none_or(|max| number < max.get())
    }
}

/// 1xx, 2xx and 3xx: an answer, whatever it says.
#[inline]
pub(super) fn is_completed(status: StatusCode) -> bool {
    status < StatusCode::BAD_REQUEST
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::super::Attempt;
    use super::*;

    /// Nobody need be asked about what is complete.
    #[test]
    fn an_answer_is_complete_unless_a_rule_may_have_another_opinion() {
        let without = RetryPolicy::default();
        let with = without.to_builder().classifier(|_: &Attempt<'_>| None).build().unwrap();
        for status in (100..=999).map(|code| StatusCode::from_u16(code).unwrap()) {
            assert_eq!(without.completes(status), status.as_u16() < 400, "{status}");
            assert!(!with.completes(status), "{status}");
        }
    }
}
