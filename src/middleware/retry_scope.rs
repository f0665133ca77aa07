//! Limits that reach every request of a task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use task_local_extensions::{Extensions, get_local_item, with_extensions};
use tokio_util::sync::CancellationToken;

use crate::policy::RetryPolicy;
use crate::time::Instant;

tokio::task_local! {
    static CURRENT: Arc<RetryScope>;
}

/// A deadline, cancellation tokens and a policy for every request that a task makes by a client with
/// a [`RetryMiddleware`](crate::RetryMiddleware), with no change at the call sites.
///
/// - [`run`](Self::run) opens it round a future. A scope inside another can only tighten it: the
///   earlier deadline holds, and every token cancels. The inner policy holds.
///   Above both is the policy of a [`SharedSession`](crate::SharedSession).
/// - **Deadline**: as in [`deadline`](crate::RetryPolicyBuilder::deadline), but a moment; with that of
///   the policy the earlier one holds.
/// - **Cancellation** ends a wait at once, and no attempt starts after it. The outcome that was waited
///   on comes back if it is whole, often as `Ok(503)`, else a
///   [`RetryError`](crate::RetryError::is_cancelled); that it was cancelled is in
///   [`RetryHistory::stop_reason`](crate::RetryHistory::stop_reason). An attempt on the wire is left to
///   finish, or to meet a time limit: to abort it, drop the future.
/// - A spawned task inherits nothing: [`carry`](Self::carry) takes the scope there.
///
/// ```
/// use std::time::Duration;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{RetryErrorExt as _, RetryMiddleware, RetryPolicy, RetryScope};
/// use tokio::time::Instant;
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::always(Reply::hang());
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// let gone = CancellationToken::new(); // cancelled when the one who asked has gone
/// let started = Instant::now();
/// let scope = RetryScope::new()
///     .deadline_in(Duration::from_millis(800))
///     .cancel_on(gone.clone())
///     .policy(RetryPolicy::builder().max_attempts(2).build()?);
/// let result = scope
///     .run(async {
///         // Every request in here; this server never answers.
///         client.get("http://api.test/").send().await
///     })
///     .await;
/// let error = result.unwrap_err();
/// assert!(error.retry_error().is_some_and(|ours| ours.is_deadline()));
/// assert_eq!(started.elapsed().as_millis(), 800);
///
/// gone.cancel();
/// let result = RetryScope::new().cancel_on(gone).run(client.get("http://api.test/").send()).await;
/// assert!(result.unwrap_err().retry_error().is_some_and(|ours| ours.is_cancelled()));
/// assert_eq!(network.received().len(), 1); // nothing starts after a cancellation
/// # Ok(()) }
/// ```
/// # With `task-local-extensions`
///
/// An application that keeps the context of a request there can put a `RetryScope` into its
/// `Extensions`: one that is found there holds too. Prefer [`run_in`](Self::run_in): a panic leaves the
/// map of [`with_extensions`] on its thread, where tasks that have nothing to do with it find it; and a
/// map inside of it hides it.
///
/// ```
/// # use std::time::Duration;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{RetryErrorExt as _, RetryMiddleware, RetryScope};
/// use task_local_extensions::{Extensions, get_local_item};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(Script::always(Reply::hang()))
/// #     .build();
/// let mut context = Extensions::new();
/// context.insert("tenant-7");
/// let scope = RetryScope::new().deadline_in(Duration::from_secs(2));
/// let (context, (tenant, result)) = scope
///     .run_in(context, async {
///         let tenant = get_local_item::<&str>().await;
///         (tenant, client.get("http://api.test/").send().await)
///     })
///     .await;
/// assert_eq!(tenant, Some("tenant-7"));
/// assert!(result.unwrap_err().timed_out());
/// assert!(context.get::<&str>().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a scope does nothing before it is run"]
pub struct RetryScope {
    /// Of every limit in it. A scope that has all of those of another is inside of it already.
    limits: Vec<LimitId>,
    deadline: Option<Instant>,
    tokens: Vec<CancellationToken>,
    policy: Option<RetryPolicy>,
}

impl RetryScope {
    /// A scope that limits nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A deadline this long from now, where the scope is made, not where it is run. Of several the earliest
    /// holds. **Default**: none.
    pub fn deadline_in(self, time: Duration) -> Self {
        match Instant::now().checked_add(time) {
            Some(at) => self.deadline_at(at),
            None => self, // beyond all time
        }
    }

    /// A deadline at this moment, a [`tokio::time::Instant`] or a [`std::time::Instant`] (in a browser a
    /// `web_time::Instant`): one that came with the work itself. Of several the earliest holds. **Default**: none.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// # use reqwest_typed_retry::{RetryErrorExt as _, RetryMiddleware, RetryScope};
    /// use tokio::time::Instant;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(Script::always(Reply::hang()))
    /// #     .build();
    /// let accepted = Instant::now(); // and then it lay in a queue
    /// tokio::time::advance(Duration::from_secs(3)).await;
    /// let scope = RetryScope::new().deadline_at(accepted + Duration::from_secs(5));
    /// let result = scope.run(client.get("http://api.test/").send()).await;
    /// assert!(result.unwrap_err().timed_out());
    /// assert_eq!(accepted.elapsed().as_secs(), 5);
    /// # Ok(()) }
    /// ```
    pub fn deadline_at(mut self, at: impl Into<Instant>) -> Self {
        let at = at.into();
        self.limits.push(LimitId::new());
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
        self
    }

    /// Cancels with this token. Of several any does. **Default**: none.
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.limits.push(LimitId::new());
        self.tokens.push(token);
        self
    }

    /// This policy takes the place of the client's and of its endpoints'; what a request asks for itself beats
    /// it: see [`RetryRequestExt`](crate::RetryRequestExt). **Default**: none.
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.limits.push(LimitId::new());
        self.policy = Some(policy);
        self
    }

    /// The scope that the caller runs in: all limits of all open ones. Empty if there is none. For a future that
    /// is to be run later, elsewhere; where it is at hand, [`carry`](Self::carry) does it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// # use reqwest_typed_retry::{RetryErrorExt as _, RetryMiddleware, RetryScope};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(Script::always(Reply::hang()))
    /// #     .build();
    /// let outer = RetryScope::new().deadline_in(Duration::from_secs(2));
    /// let kept = outer.run(async { RetryScope::current() }).await;
    /// let result = kept.run(client.get("http://api.test/").send()).await;
    /// assert!(result.unwrap_err().timed_out());
    /// # Ok(()) }
    /// ```
    pub fn current() -> Self {
        Self::open().map_or_else(Self::new, Arc::unwrap_or_clone)
    }

    /// Runs `future` in this scope.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(Arc::new(self.inside_of(Self::open().as_deref())), future).await
    }

    /// Runs `future` in this scope, with `extensions` as the task's local ones: like
    /// [`with_extensions`], which gives them back too.
    pub async fn run_in<F: Future>(
        self,
        extensions: Extensions,
        future: F,
    ) -> (Extensions, F::Output) {
        self.run(with_extensions(extensions, future)).await
    }

    /// `future` in the scope that the caller runs in now, for a task of its own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// # use reqwest_typed_retry::{RetryErrorExt as _, RetryMiddleware, RetryScope};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(Script::always(Reply::hang()))
    /// #     .build();
    /// let scope = RetryScope::new().deadline_in(Duration::from_secs(2));
    /// let task = scope
    ///     .run(async {
    ///         let request = client.get("http://api.test/").send();
    ///         tokio::spawn(RetryScope::carry(request)) // without `carry` it would hang
    ///     })
    ///     .await;
    /// assert!(task.await?.unwrap_err().timed_out());
    /// # Ok(()) }
    /// ```
    pub fn carry<F: Future>(future: F) -> impl Future<Output = F::Output> {
        Self::current().run(future)
    }

    /// The limits of every open scope, if there is one.
    pub(super) fn open() -> Option<Arc<Self>> {
        let ours = CURRENT.try_with(Arc::clone).ok();
        match (ours, in_extensions()) {
            (ours, None) => ours,
            (None, Some(theirs)) => Some(Arc::new(theirs)),
            // Opened inside of theirs.
            (Some(ours), Some(theirs)) if ours.is_inside_of(&theirs) => Some(ours),
            (ours, Some(theirs)) => Some(Arc::new(theirs.inside_of(ours.as_deref()))),
        }
    }

    fn is_inside_of(&self, outer: &Self) -> bool {
        outer.limits.iter().all(|limit| self.limits.contains(limit))
    }

    fn inside_of(mut self, outer: Option<&Self>) -> Self {
        match outer {
            Some(outer) if !self.is_inside_of(outer) => {
                self.deadline = self.deadline.into_iter().chain(outer.deadline).min();
                self.tokens.extend(outer.tokens.iter().cloned());
                self.policy = self.policy.or_else(|| outer.policy.clone());
                self.limits.extend(&outer.limits);
                self
            }
            _ => self,
        }
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    pub(super) fn own_policy(&self) -> Option<&RetryPolicy> {
        self.policy.as_ref()
    }

    pub(super) fn can_cancel(&self) -> bool {
        !self.tokens.is_empty()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.tokens.iter().any(CancellationToken::is_cancelled)
    }

    /// Ends once any token is cancelled.
    pub(super) async fn cancelled(&self) {
        let mut all =
            self.tokens.iter().map(|token| Box::pin(token.cancelled())).collect::<Vec<_>>();
        poll_fn(|cx| {
            let is_cancelled = all.iter_mut().any(|token| token.as_mut().poll(cx).is_ready());
            if is_cancelled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Tells limits apart, whatever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LimitId(u64);

impl LimitId {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The scope that the application put among its task's extensions. Their crate reads them without
/// waiting for anything, but by an async function.
fn in_extensions() -> Option<RetryScope> {
    match pin!(get_local_item()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(scope) => scope,
        Poll::Pending => None,
    }
}
