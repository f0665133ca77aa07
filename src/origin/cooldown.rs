//! Origins that asked for quiet.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Request;

use super::key::{Key, Keys};
use crate::time::Instant;

/// How many keys are closed at the same time, at most. One more is not closed: its requests learn from
/// the server, each for itself, as without a cooldown.
const MAX_CLOSED: usize = 1_024;

/// So often keys that are open again are looked for.
const SWEEP: Duration = Duration::from_secs(10);

/// No clock goes further: thirty years.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Lets the requests of a client learn from each other: a 429 or 503 with a server delay closes its origin
/// until then, and no attempt of any request goes there meanwhile. It opens for each request at a moment of
/// its own, spread like the waits that servers ask for. Off unless it is set by
/// [`RetryMiddlewareBuilder::cooldown`](crate::RetryMiddlewareBuilder::cooldown).
///
/// - What the policy does with server delays holds here too: what is over its limit closes nothing,
///   what it clamps closes for as long, and a policy that ignores them neither closes nor waits.
///   One that never sends again waits, too.
/// - **It needs a deadline.** Without one a call is held for as long as its origin keeps closing: about one gets
///   through each time, closes it again, and all others wait anew. A server that answers nothing else can so hold
///   100 calls of the default policy for five hours by `Retry-After: 60`. And when it stops, what is held back goes
///   in a burst that can keep it down (`docs/fleets.md` has it measured). Attempts, and limits of an attempt, end
///   none of this. So a client with a cooldown is refused when it is built, or when its file is loaded, if its
///   policy, or that of an endpoint, has no [`deadline`](crate::RetryPolicyBuilder::deadline). A policy that a
///   [`RetryScope`](crate::RetryScope) or a request brings is not checked: give it one. `RetryPolicy::never()` has
///   none, so it can't be that of an endpoint; `policy.to_builder().max_attempts(1)` can.
/// - The wait counts against the deadline, and not as an attempt. One that could not end before it never
///   starts: a first attempt then fails at once by [`RetryError::is_held_back`](crate::RetryError::is_held_back), and
///   of a resend the outcome in hand comes back, if it is whole.
/// - Attempts that are on the wire as the answer comes go on, and so do those whose body a factory is making.
///   An answer closes the origin however old its request is.
///
/// Clones are the same cooldown, so that several clients can share it. At most 1,024 keys are closed at the
/// same time; only hashes of them are kept. Policies that share one should have the same limit: of two
/// closings the later end stands, even if one of them does not follow it.
///
/// ```
/// use std::time::Duration;
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_middleware::reqwest::{Client, StatusCode, header::RETRY_AFTER};
/// use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{Cooldown, RetryErrorExt as _, RetryMiddleware, RetryPolicy};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?
/// # .block_on(async {
/// let policy = RetryPolicy::builder().deadline(Duration::from_secs(5)).build()?;
/// let retry = RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin()).build()?;
/// let throttled = Reply::status(StatusCode::TOO_MANY_REQUESTS).header(RETRY_AFTER, 30);
/// let script = Script::new([throttled, Reply::status(StatusCode::OK)]);
/// let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
///
/// let first = client.get("http://api.test/one").send().await?;
/// assert_eq!(first.status(), StatusCode::TOO_MANY_REQUESTS); // 30 s are more than its deadline
/// let second = client.get("http://api.test/two").send().await.unwrap_err();
/// assert!(second.retry_error().is_some_and(|error| error.is_held_back()));
/// assert_eq!(script.received().len(), 1); // it was not sent
/// let other = client.get("http://other.test/").send().await?;
/// assert_eq!(other.status(), StatusCode::OK);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cooldown {
    shared: Arc<Shared>,
}

struct Shared {
    by: By,
    keys: Keys,
    /// How many keys there are in `state`: all that is read while nothing is closed.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: HashMap<Key, Closed>,
    next_sweep: Option<Instant>,
}

enum By {
    Origin,
    Key(KeyOf),
}

type KeyOf = Box<dyn Fn(&Request) -> Option<String> + Send + Sync>;

/// What a server asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    pub(crate) since: Instant,
    pub(crate) asked: Duration,
}

impl Closed {
    fn until(&self) -> Instant {
        self.since.checked_add(self.asked).unwrap_or(self.since)
    }
}

impl Cooldown {
    /// One that closes each origin by itself (RFC 6454 4): scheme, host and port of the request as the caller
    /// made it.
    #[must_use]
    pub fn by_origin() -> Self {
        Self::new(By::Origin)
    }

    /// One that closes each key by itself that `key` gives. A request without one neither closes anything nor
    /// waits. It is asked once a call, before the first attempt.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::{Cooldown, RetryMiddleware, RetryPolicy};
    ///
    /// // An API that counts for each of its customers.
    /// let by_customer = Cooldown::by_key(|request| {
    ///     let customer = request.headers().get("x-customer")?.to_str().ok()?;
    ///     Some(customer.to_owned())
    /// });
    /// let shown = "a 429 or 503 with a server delay holds back all requests of its key";
    /// assert_eq!(by_customer.to_string(), shown);
    /// let policy = RetryPolicy::builder().deadline(Duration::from_secs(30)).build()?;
    /// let retry = RetryMiddleware::builder(policy).cooldown(by_customer).build()?;
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn by_key(key: impl Fn(&Request) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::new(By::Key(Box::new(key)))
    }

    fn new(by: By) -> Self {
        let shared = Shared {
            by,
            keys: Keys::default(),
            count: AtomicUsize::new(0),
            state: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn key(&self, request: &Request) -> Option<Key> {
        let Shared { by, keys, .. } = &*self.shared;
        match by {
            By::Origin => Some(keys.of_origin(request.url())),
            By::Key(key) => key(request).map(|name| keys.of(&name)),
        }
    }

    /// For so long, unless it is closed for longer already.
    pub(crate) fn close(&self, key: Key, now: Instant, asked: Duration) {
        if asked.is_zero() {
            return;
        }
        let new = Closed { since: now, asked: asked.min(FOR_EVER) };
        let state = &mut *self.lock();
        self.sweep(state, now);
        let State { closed, .. } = state;
        let is_longer = closed.get(&key).is_none_or(|known| known.until() < new.until());
        if is_longer && (closed.len() < MAX_CLOSED || closed.contains_key(&key)) {
            closed.insert(key, new);
        }
        self.shared.count.store(closed.len(), Ordering::Relaxed);
    }

    /// What closes it now, if anything does.
    pub(crate) fn closed(&self, key: Key, now: Instant) -> Option<Closed> {
        if self.shared.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let state = &mut *self.lock();
        let known = state.closed.get(&key).copied();
        if known.is_some_and(|known| known.until() > now) {
            return known;
        }
        if known.is_some() {
            state.next_sweep = None; // there is one to be found
        }
        self.sweep(state, now);
        None
    }

    fn sweep(&self, state: &mut State, now: Instant) {
        if state.next_sweep.is_none_or(|at| at <= now) {
            state.closed.retain(|_, closed| closed.until() > now);
            state.next_sweep = now.checked_add(SWEEP);
            self.shared.count.store(state.closed.len(), Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it holds back.
impl fmt::Display for Cooldown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.shared.by {
            By::Origin => "origin",
            By::Key(_) => "key",
        };
        write!(f, "a 429 or 503 with a server delay holds back all requests of its {by}")
    }
}

impl fmt::Debug for Cooldown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.shared.by {
            By::Origin => "origin",
            By::Key(_) => "key",
        };
        let closed = self.shared.count.load(Ordering::Relaxed);
        f.debug_struct("Cooldown").field("by", &by).field("closed", &closed).finish()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    #[test]
    fn who_asks_for_ever_is_given_thirty_years() {
        let (cooldown, now) = (Cooldown::by_origin(), Instant::now());
        let key = cooldown.shared.keys.of("sick");
        for asked in [Duration::MAX, 31 * YEAR] {
            cooldown.close(key, now, asked);
            let closed = |after| cooldown.closed(key, now + after).map(|closed| closed.asked);
            assert_eq!(closed(30 * YEAR - SWEEP), Some(30 * YEAR), "{asked:?}");
            assert_eq!(closed(30 * YEAR), None, "{asked:?}");
        }
    }
}
