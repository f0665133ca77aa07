//! How many resends a client may add to what an origin has to bear.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

use super::account::Account;
use super::bucket::TOKEN;
use super::key::{Key, Keys};
use super::sick_origins::{Home, SickOrigins};
use crate::policy::{PolicyError, constants};
use crate::time::Instant;

/// Keeps resends from keeping a sick server down: a bucket of tokens for each origin (scheme, host, port of
/// the request as the caller made it).
///
/// - A resend **takes** one token. Where there is none, the outcome in hand comes back, with the reason
///   [`BudgetExhausted`](crate::StopReason::BudgetExhausted).
/// - A resend that brings an answer of a server that is not sick gives its token **back**; so does one that
///   is never sent, because the call was dropped or cancelled during the wait. Every such answer, also to a
///   first attempt, **adds** a fifth of a token. A transient outcome, a fault of any kind, a 5xx, 408, 425
///   or 429 add nothing, whether or not the policy sends them again.
/// - The resend after a **429 whose wait the server set** takes none: the server paces it.
/// - An origin is full to begin with, and again **after 60 s** in which no token was taken and no resend with
///   one was sent.
///
/// So in an outage a client adds 100 resends at most, and 100 more for each such minute: with `N` requests,
/// 1 + 100/`N` times the load, or as many times as there are attempts, whichever is less. (Resends that the
/// server paces come on top.) Share one between the clients of a process, or they have 100 each. What that
/// means for many clients is in `docs/fleets.md`.
///
/// A client has a budget of its own unless it is given one; clones are the same budget, so that several
/// clients can share it. It keeps state for origins of which a token was taken only, for at most 1,024 of
/// them; those beyond share one bucket, which only their resends and the time fill. No part of a URL is kept.
///
/// ```
/// use reqwest_typed_retry::{RetryBudget, RetryMiddleware, RetryPolicy};
///
/// let budget = RetryBudget::builder().capacity(500).build()?;
/// let policy = RetryPolicy::default();
/// let one = RetryMiddleware::builder(policy.clone()).budget(budget.clone()).build()?;
/// let other = RetryMiddleware::builder(policy).budget(budget.clone()).build()?;
/// assert_eq!(budget.level(&"http://localhost/".parse()?), 500.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An outage, by the test kit (feature `test-util`):
///
/// ```
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_middleware::reqwest::{Client, StatusCode};
/// use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{RetryBudget, RetryMiddleware, RetryPolicy};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?
/// # .block_on(async {
/// let budget = RetryBudget::builder().capacity(1).build()?;
/// let retry =
///     RetryMiddleware::builder(RetryPolicy::default()).budget(budget.clone()).build()?;
/// let script = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
/// let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
///
/// let response = client.get("http://api.test/").send().await?;
/// assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
/// assert_eq!(script.received().len(), 2); // one resend, and no token for another
/// assert_eq!((budget.level(response.url()), budget.sick_origins()), (0.0, 1));
/// assert_eq!(budget.level(&"http://other.test/".parse()?), 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RetryBudget {
    shared: Arc<Shared>,
}

struct Shared {
    settings: RetryBudgetBuilder,
    /// In thousandths of a token.
    refill: u64,
    made: Instant,
    keys: Keys,
    origins: SickOrigins,
}

impl RetryBudget {
    /// A builder that starts from the defaults: 100 tokens, 0.2 more for an answer, all again after 60 s.
    pub fn builder() -> RetryBudgetBuilder {
        RetryBudgetBuilder {
            capacity: constants::BUDGET_CAPACITY,
            refill_per_answer: constants::BUDGET_REFILL_PER_ANSWER,
            refill_after: constants::BUDGET_REFILL_AFTER,
        }
    }

    /// How many tokens there are now for the origin of `url`: from 0 to the
    /// [capacity](RetryBudgetBuilder::capacity), in thousandths. The rest of the URL does not count.
    #[must_use]
    pub fn level(&self, url: &Url) -> f64 {
        let level = self.shared.origins.level(self.key(url), self.now());
        in_tokens(level)
    }

    /// How many origins have less than a full bucket now. Those for which there was no room count as one.
    #[must_use]
    pub fn sick_origins(&self) -> usize {
        self.shared.origins.count_at(self.now())
    }

    /// One call's dealings with it.
    pub(crate) fn account(&self, url: &Url) -> Account {
        Account::new(self.clone(), self.key(url))
    }

    /// Whether every origin has a full bucket: all that a healthy client asks.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.shared.origins.count() == 0
    }

    pub(super) fn key(&self, url: &Url) -> Key {
        self.shared.keys.of_origin(url)
    }

    pub(super) fn take(&self, key: Key) -> Option<Home> {
        self.shared.origins.take(key, self.now())
    }

    pub(super) fn use_up(&self, key: Key, token: Home) {
        self.shared.origins.use_up(key, token, self.now());
    }

    pub(super) fn put_back(&self, key: Key, token: Home) {
        self.shared.origins.put_back(key, token, self.now());
    }

    /// Gives the token back, if it took one to get the answer, and what an answer adds.
    pub(super) fn answered(&self, key: Key, token: Option<Home>) {
        if !self.is_untouched() {
            let amount = self.shared.refill.saturating_add(token.map_or(0, |_| TOKEN));
            self.shared.origins.give(key, token.unwrap_or(Home::Own), amount, self.now());
        }
    }

    fn now(&self) -> Duration {
        self.shared.made.elapsed()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a capacity of u32::MAX tokens is below 2^53")]
fn in_tokens(thousandths: u64) -> f64 {
    thousandths as f64 / TOKEN as f64
}

/// A share from 0 to 1, if it is one and a whole number of thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 1000 are in the range of both"
)]
fn in_thousandths(share: f64) -> Option<u64> {
    let exactly = share * 1_000.0;
    // 0.001 times a whole number, as near as an `f64` gets.
    let is_whole = exactly == 0.0 || (exactly >= 1.0 && (exactly - exactly.round()).abs() < 1e-6);
    ((0.0..=1.0).contains(&share) && is_whole).then_some(exactly.round() as u64)
}

impl Default for RetryBudget {
    fn default() -> Self {
        let settings = Self::builder();
        // Unreachable fallback: the defaults keep the rules, which a test pins.
        let refill = in_thousandths(settings.refill_per_answer).unwrap_or(0);
        settings.build_unchecked(refill)
    }
}

/// What it allows.
impl fmt::Display for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RetryBudgetBuilder { capacity, refill_per_answer, refill_after } =
            &self.shared.settings;
        write!(
            f,
            "{capacity} resends to an origin that bring nothing; {refill_per_answer} more for each good \
             answer; all again after {refill_after:?} without a resend"
        )
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RetryBudgetBuilder { capacity, refill_per_answer, refill_after } =
            &self.shared.settings;
        f.debug_struct("RetryBudget")
            .field("capacity", capacity)
            .field("refill_per_answer", refill_per_answer)
            .field("refill_after", refill_after)
            .field("sick_origins", &self.sick_origins())
            .finish()
    }
}

/// Builds a [`RetryBudget`]. The defaults are in [`constants`], each with its reason.
///
/// ```
/// use std::time::Duration;
/// use reqwest_typed_retry::RetryBudget;
///
/// let budget = RetryBudget::builder()
///     .capacity(20)
///     .refill_per_answer(0.1)
///     .refill_after(Duration::from_secs(300))
///     .build()?;
/// assert_eq!(budget.level(&"http://localhost/".parse()?), 20.0);
/// assert_eq!(
///     budget.to_string(),
///     "20 resends to an origin that bring nothing; 0.1 more for each good answer; \
///      all again after 300s without a resend"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RetryBudgetBuilder {
    pub(crate) capacity: u32,
    pub(crate) refill_per_answer: f64,
    pub(crate) refill_after: Duration,
}

impl RetryBudgetBuilder {
    /// How many resends an origin may be sent that bring nothing: the tokens of a full bucket. With 0 only
    /// what the server itself paces is sent again. **Default**: 100
    /// ([`constants::BUDGET_CAPACITY`]).
    pub fn capacity(mut self, tokens: u32) -> Self {
        self.capacity = tokens;
        self
    }

    /// What an answer of a server that is not sick adds, as a share of a token: 0 to 1, in whole thousandths.
    /// **Default**: 0.2, one resend for five answers ([`constants::BUDGET_REFILL_PER_ANSWER`]).
    pub fn refill_per_answer(mut self, share: f64) -> Self {
        self.refill_per_answer = share;
        self
    }

    /// After how long, in which no token was taken and no resend with one was sent, an origin has all its
    /// tokens again: a second at least. **Default**: 60 s ([`constants::BUDGET_REFILL_AFTER`]).
    pub fn refill_after(mut self, time: Duration) -> Self {
        self.refill_after = time;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If `refill_per_answer` is not between 0 and 1, or not in whole thousandths; or if `refill_after` is
    /// less than a second, which would leave no budget.
    ///
    /// ```
    /// use reqwest_typed_retry::RetryBudget;
    ///
    /// let error = RetryBudget::builder().refill_per_answer(-0.2).build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "refill_per_answer is -0.2, but it must be between 0 and 1, in whole thousandths"
    /// );
    /// ```
    pub fn build(self) -> Result<RetryBudget, PolicyError> {
        let share = self.refill_per_answer;
        let refill = in_thousandths(share).ok_or_else(|| {
            let rule = "it must be between 0 and 1, in whole thousandths";
            PolicyError::new("refill_per_answer", share, rule)
        })?;
        if self.refill_after < MIN_REFILL_AFTER {
            let rule = "it must be at least 1s: less would leave no budget";
            return Err(PolicyError::new("refill_after", self.refill_after, rule));
        }
        Ok(self.build_unchecked(refill))
    }

    fn build_unchecked(self, refill: u64) -> RetryBudget {
        let capacity = u64::from(self.capacity) * TOKEN;
        let shared = Shared {
            refill,
            made: Instant::now(),
            keys: Keys::default(),
            origins: SickOrigins::new(capacity, self.refill_after),
            settings: self,
        };
        RetryBudget { shared: Arc::new(shared) }
    }
}

const MIN_REFILL_AFTER: Duration = Duration::from_secs(1);
