//! How the middleware is built.

use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use http::HeaderName;
use rand::Rng;

#[cfg(not(target_arch = "wasm32"))]
use super::DeliveryProof;
use super::endpoint::Endpoints;
use super::generator::Generator;
use super::observe::{Observers, RetryObserver};
use super::{DrainLimits, Endpoint, RetryMiddleware, buffer};
use crate::origin::{Cooldown, RetryBudget};
use crate::policy::{PolicyError, RetryPolicy, RetryPolicyBuilder, has_a_meaning};
use crate::time::WallClock;

/// Builds a [`RetryMiddleware`]: what a client does besides its policy. All defaults in one table are on
/// the page of the [crate](crate#defaults).
///
/// ```
/// use std::time::Duration;
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{
///     Cooldown, DrainLimits, Endpoint, RetryBudget, RetryErrorExt as _, RetryMiddleware, RetryPolicy,
/// };
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let budget = RetryBudget::default(); // for all clients of this process
/// let policy = RetryPolicy::builder().max_attempts(3).deadline(Duration::from_secs(30)).build()?;
/// let once = policy.to_builder().max_attempts(1).build()?;
/// let health = Endpoint::named("health").path("/health").policy(once).build()?;
/// let retry = RetryMiddleware::builder(policy)
///     .endpoint(health)
///     .budget(budget.clone())
///     .cooldown(Cooldown::by_origin())
///     .drain(DrainLimits::none())
///     .wrap_errors()
///     .build()?;
///
/// let network = Script::always(Reply::connect_error());
/// let client =
///     ClientBuilder::new(reqwest::Client::new()).with(retry).with(network.clone()).build();
/// let error = client.get("http://api.test/orders").send().await.unwrap_err();
/// assert_eq!(error.retry_error().map(|ours| ours.attempts()), Some(3));
/// assert_eq!(budget.level(&"http://api.test/".parse()?), 98.0); // of 100: two resends
/// assert!(client.get("http://api.test/health").send().await.is_err());
/// assert_eq!(network.received().len(), 3 + 1);
/// # Ok(()) }
/// ```
///
/// What a test sets:
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use reqwest::StatusCode;
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::test_util::{Reply, Script, TestClock, seeded_jitter};
/// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = TestClock::new(SystemTime::UNIX_EPOCH);
/// let retry = RetryMiddleware::builder(RetryPolicy::default())
///     .wall_clock(clock.reader())
///     .generator(seeded_jitter(7))
///     .without_budget() // the tests share the client
///     .build()?;
/// let network = Script::new([
///     Reply::status(StatusCode::SERVICE_UNAVAILABLE)
///         .header("retry-after", "Thu, 01 Jan 1970 00:00:20 GMT"),
///     Reply::status(StatusCode::OK),
/// ]);
/// let client =
///     ClientBuilder::new(reqwest::Client::new()).with(retry).with(network.clone()).build();
/// client.get("http://api.test/").send().await?;
/// let waited = network.received()[1].at;
/// assert!(waited >= Duration::from_secs(20), "{waited:?}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use]
pub struct RetryMiddlewareBuilder {
    retry: RetryMiddleware,
}

impl RetryMiddlewareBuilder {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        let retry = RetryMiddleware {
            policy,
            endpoints: Endpoints::default(),
            has_told_unproven: AtomicBool::new(false),
            has_proof: false,
            budget: Some(RetryBudget::default()),
            cooldown: None,
            drain: DrainLimits::default(),
            buffer_body: None,
            wraps_errors: false,
            attempt_header: None,
            observers: Observers::default(),
            wall_clock: WallClock::default(),
            generator: Generator::default(),
        };
        Self { retry }
    }

    /// Changes the policies: that of the client, for `None`, and those that the endpoints so far have of their
    /// own, by their names. For what applies to all, such as a classifier.
    ///
    /// ```
    /// use reqwest_typed_retry::{Attempt, RetryMiddleware, RetryPolicy, Verdict};
    ///
    /// let retry = RetryMiddleware::builder(RetryPolicy::default())
    ///     .map_policies(|_endpoint, policy| {
    ///         policy.classifier(|attempt: &Attempt<'_>| {
    ///             attempt.path().starts_with("/legacy/").then_some(Verdict::Permanent)
    ///         })
    ///     })?
    ///     .build()?;
    /// assert!(format!("{retry:?}").contains("classifiers: 1"));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// If a policy does not build any more.
    pub fn map_policies(
        mut self,
        map: impl Fn(Option<&str>, RetryPolicyBuilder) -> RetryPolicyBuilder,
    ) -> Result<Self, PolicyError> {
        self.retry.policy = map(None, self.retry.policy.to_builder()).build()?;
        for endpoint in self.retry.endpoints.iter_mut() {
            if let Some(policy) = &mut endpoint.policy {
                let new = map(Some(&endpoint.name), policy.to_builder()).build();
                *policy = new.map_err(|error| in_endpoint(error, &endpoint.name))?;
            }
        }
        Ok(self)
    }

    /// Rules of their own for some requests, if no endpoint that was added before matches them: see
    /// [`Endpoint`]. **Default**: none, so that the client's rules hold for all.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.retry.endpoints.add(endpoint);
        self
    }

    /// The proof of the client that this middleware is for: lifts method safety where a request is
    /// proven not to have been processed. See [`DeliveryProof`]. **Default**: none, so that nothing lifts it.
    /// There is none in a browser.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn delivery_proof(mut self, proof: DeliveryProof) -> Self {
        let DeliveryProof { .. } = proof; // what it proves is a matter of the client
        self.retry.has_proof = true;
        self
    }

    /// The budget of the resends, for this client or shared with others: see [`RetryBudget`]. **Default**: one
    /// of its own, of 100 tokens for each origin.
    pub fn budget(mut self, budget: RetryBudget) -> Self {
        self.retry.budget = Some(budget);
        self
    }

    /// No budget: whatever state a server is in, each request is sent as often as the policy allows.
    pub fn without_budget(mut self) -> Self {
        self.retry.budget = None;
        self
    }

    /// Keeps all requests of this client from an origin for as long as a 429 or 503 of it asks: see [`Cooldown`].
    /// **Default**: none, so that each request learns for itself.
    ///
    /// It needs a deadline, of the policy and of every policy of an endpoint, or [`build`](Self::build) refuses it:
    ///
    /// ```
    /// use reqwest_typed_retry::{Cooldown, RetryMiddleware, RetryPolicy};
    ///
    /// let retry = RetryMiddleware::builder(RetryPolicy::default()).cooldown(Cooldown::by_origin());
    /// assert_eq!(
    ///     retry.build().unwrap_err().to_string(),
    ///     "policy.deadline is none, but a cooldown holds calls for as long as a server asks for quiet: \
    ///      a deadline must end that"
    /// );
    /// ```
    pub fn cooldown(mut self, cooldown: Cooldown) -> Self {
        self.retry.cooldown = Some(cooldown);
        self
    }

    /// How much of a response that is not handed out is read: see [`DrainLimits`]. **Default**: 64 KiB, one
    /// second. In a browser nothing is read.
    pub fn drain(mut self, limits: DrainLimits) -> Self {
        self.retry.drain = limits;
        self
    }

    /// Reads the body of every response inside its attempt, up to `limit` bytes: a body that is cut,
    /// that stalls beyond the attempt timeout, or whose compressed data ends early is then a fault
    /// like others, and classifiers see it. A longer body streams on from there, nothing lost.
    /// **Default**: 0, so that a response is handed out as soon as its head is there.
    ///
    /// In a browser the client does not [`build`](Self::build) with a limit above 0.
    ///
    /// Memory: up to `limit` bytes for each call in flight, and up to twice that where the length is not
    /// known before.
    ///
    /// ```
    /// # use reqwest::StatusCode;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// # use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let retry = RetryMiddleware::builder(RetryPolicy::default()).buffer_body(64 * 1024).build()?;
    /// // The first answer ends in the middle.
    /// let network = Script::new([
    ///     Reply::status(StatusCode::OK).body("one, tw").cut(),
    ///     Reply::status(StatusCode::OK).body("one, two, three"),
    /// ]);
    /// let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
    /// let text = client.get("http://api.test/").send().await?.text().await?;
    /// assert_eq!(text, "one, two, three");
    /// # Ok(()) }
    /// ```
    pub fn buffer_body(mut self, limit: u64) -> Self {
        self.retry.buffer_body = (limit > 0).then_some(limit);
        self
    }

    /// Wraps the error of every call in a [`RetryError`](crate::RetryError), which says how often the
    /// request was sent, for how long, and why no more; the error itself is its source. A response is
    /// never made an error. **Default**: off, so that an error comes as it was made.
    pub fn wrap_errors(mut self) -> Self {
        self.retry.wraps_errors = true;
        self
    }

    /// Tells the server which attempt it gets: `1`, `2` and so on, in this field of every request. One
    /// that the request has by that name is replaced; but it never takes the place of a key, where a policy
    /// that a request brings takes the field for one of those. **Default**: none.
    ///
    /// ```
    /// use http::HeaderName;
    /// # use reqwest::StatusCode;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// # use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let retry = RetryMiddleware::builder(RetryPolicy::default())
    ///     .attempt_header(HeaderName::from_static("x-attempt"))
    ///     .build()?;
    /// let network = Script::new([Reply::connect_error(), Reply::status(StatusCode::OK)]);
    /// let client =
    ///     ClientBuilder::new(reqwest::Client::new()).with(retry).with(network.clone()).build();
    /// client.get("http://api.test/").send().await?;
    /// let sent = network.received();
    /// assert_eq!(sent[0].headers["x-attempt"], "1");
    /// assert_eq!(sent[1].headers["x-attempt"], "2");
    /// # Ok(()) }
    /// ```
    pub fn attempt_header(mut self, name: HeaderName) -> Self {
        self.retry.attempt_header = Some(name);
        self
    }

    /// Tells this observer what is done, too: after those that were added before. See [`RetryObserver`] for
    /// all that it is told. **Default**: none besides the events of the feature `tracing`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// use reqwest_typed_retry::{AttemptRecord, ObservedCall, RetryMiddleware, RetryObserver, RetryPolicy};
    ///
    /// #[derive(Default)]
    /// struct Resends(AtomicU64);
    ///
    /// impl RetryObserver for Resends {
    ///     fn resending(&self, _call: &ObservedCall<'_>, _attempt: &AttemptRecord) {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let resends = Arc::new(Resends::default()); // to be read later
    /// let retry = RetryMiddleware::builder(RetryPolicy::default()).observer(resends.clone()).build()?;
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(retry)
    /// #     .with(Script::always(Reply::connect_error()))
    /// #     .build();
    /// assert!(client.get("http://api.test/").send().await.is_err()); // nothing connects
    /// assert_eq!(resends.0.load(Ordering::Relaxed), 2);
    /// # Ok(()) }
    /// ```
    pub fn observer(mut self, observer: impl RetryObserver) -> Self {
        self.retry.observers.add(observer);
        self
    }

    /// The clock against which the dates in a response are read where its own `Date` does not serve, and which
    /// classifiers see. **Default**: the system's.
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.retry.wall_clock = WallClock::new(now);
        self
    }

    /// The generator behind jitter; idempotency keys are not drawn from it. **Default**: the thread's own,
    /// `rand::rng()`.
    pub fn generator(mut self, rng: impl Rng + Send + 'static) -> Self {
        self.retry.generator = Generator::new(rng);
        self
    }

    /// Checks the policy against what this client can do.
    ///
    /// # Errors
    /// - If the policy, or that of an endpoint, lists
    ///   [`not_processed_statuses`](RetryPolicy::not_processed_statuses) and there is no
    ///   [`delivery_proof`](Self::delivery_proof): a redirected request may have taken effect before such a
    ///   status came.
    /// - If there is a [`cooldown`](Self::cooldown), and the policy, or that of an endpoint, has no deadline.
    /// - If two endpoints have the same name.
    /// - In a browser, if it or an endpoint is to read bodies ([`buffer_body`](Self::buffer_body)).
    /// - If the [`attempt_header`](Self::attempt_header) is a field for idempotency keys, or one that requests
    ///   have anyway.
    ///
    /// ```
    /// use reqwest::StatusCode;
    /// use reqwest_typed_retry::{DeliveryProof, RetryMiddleware, RetryPolicy, StatusSet};
    ///
    /// let statuses = StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS);
    /// let policy = RetryPolicy::builder().not_processed_statuses(statuses).build()?;
    /// let error = RetryMiddleware::builder(policy.clone()).build().unwrap_err();
    /// assert_eq!(error.setting(), "policy.not_processed_statuses");
    ///
    /// let (http, proof) = DeliveryProof::build(reqwest::Client::builder())?;
    /// assert!(RetryMiddleware::builder(policy).delivery_proof(proof).build().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<RetryMiddleware, PolicyError> {
        self.check()?;
        self.check_policies(|policy| {
            let statuses = policy.not_processed_statuses();
            if statuses.is_empty() || self.retry.has_proof {
                return Ok(());
            }
            let rule =
                "without a delivery proof the list has no effect: add one, or leave it empty";
            Err(PolicyError::new("not_processed_statuses", statuses, rule))
        })?;
        Ok(self.build_unchecked())
    }

    /// What must hold of settings, too, before code adds anything.
    pub(super) fn check(&self) -> Result<(), PolicyError> {
        self.retry.endpoints.check()?;
        self.check_attempt_header()?;
        self.check_buffer_body()?;
        self.check_policies(|policy| {
            if self.retry.cooldown.is_none() || policy.deadline().is_some() {
                return Ok(());
            }
            let rule = "a cooldown holds calls for as long as a server asks for quiet: a deadline must end that";
            Err(PolicyError::new("deadline", format_args!("none"), rule))
        })
    }

    fn check_policies(
        &self,
        check: impl Fn(&RetryPolicy) -> Result<(), PolicyError>,
    ) -> Result<(), PolicyError> {
        check(&self.retry.policy).map_err(|error| error.within("policy"))?;
        for endpoint in self.retry.endpoints.iter() {
            if let Some(policy) = &endpoint.policy {
                check(policy).map_err(|error| in_endpoint(error, endpoint.name()))?;
            }
        }
        Ok(())
    }

    /// Or each attempt of a request would have a key of its own, or a broken head.
    fn check_attempt_header(&self) -> Result<(), PolicyError> {
        let Some(name) = &self.retry.attempt_header else { return Ok(()) };
        let own = self.retry.endpoints.iter().filter_map(Endpoint::policy);
        let rule = if own.chain([&self.retry.policy]).any(|policy| policy.is_key_field(name)) {
            "it is a field for idempotency keys: each attempt would have another key"
        } else if has_a_meaning(name) {
            "that field has a meaning of its own"
        } else {
            return Ok(());
        };
        Err(PolicyError::new("attempt_header", name.as_str(), rule))
    }

    fn check_buffer_body(&self) -> Result<(), PolicyError> {
        let check = |limit: Option<u64>| match limit {
            Some(limit) if limit > 0 && !buffer::IS_POSSIBLE => {
                let rule = "a browser shows no parts of a response: what is read can't be put back";
                Err(PolicyError::new("buffer_body", limit, rule))
            }
            _ => Ok(()),
        };
        check(self.retry.buffer_body)?;
        for endpoint in self.retry.endpoints.iter() {
            check(endpoint.buffer_body)
                .map_err(|error| error.within(&format!("endpoint.{}", endpoint.name())))?;
        }
        Ok(())
    }

    pub(super) fn build_unchecked(self) -> RetryMiddleware {
        self.retry
    }
}

/// An error in the policy of an endpoint.
fn in_endpoint(error: PolicyError, name: &str) -> PolicyError {
    error.within("policy").within(&format!("endpoint.{name}"))
}
