//! What a single request asks of the retry layer.

use std::error::Error;
use std::time::Duration;

use http::Extensions;
use reqwest::Request;
use reqwest_middleware::RequestBuilder;

use super::MaybeSend;
use super::body_factory::{BodyFactory, ReplayBody};
use super::history::RetryTracker;
use super::identity::Identity;
use super::shared_session::SharedSession;
use crate::policy::{IdempotencyKey, RetryPolicy};

/// Options of a single request, in its extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestOptions {
    pub(super) body_factory: Option<BodyFactory>,
    pub(super) buffer_body: Option<u64>,
    pub(super) session: Option<SharedSession>,
    pub(super) policy: Option<RetryPolicy>,
    pub(super) sends_once: bool,
    pub(super) deadline: Option<Duration>,
    pub(super) assume_idempotent: bool,
    pub(super) idempotency_key: Option<IdempotencyKey>,
    /// Made for the request when it came by first.
    pub(super) new_key: Option<IdempotencyKey>,
    /// The request that they are of, once it has come by. `None` if there is nothing but a tracker.
    pub(super) of: Option<Identity>,
    /// Attached by the caller as an extension of its own.
    pub(super) tracker: Option<RetryTracker>,
}

impl RequestOptions {
    /// Takes them out, so that no other request that an inner middleware makes finds them there.
    /// Those of another request stay where they are.
    #[inline]
    pub(super) fn take(request: &Request, extensions: &mut Extensions) -> Option<Box<Self>> {
        let is_of = |options: &Self| options.of.as_ref().is_none_or(|of| of.is_of(request));
        let is_ours = extensions.get::<Self>().is_some_and(is_of);
        let options = is_ours.then(|| extensions.remove::<Self>()).flatten();
        let tracker = extensions.get::<RetryTracker>();
        if options.is_none() && tracker.is_none() {
            return None;
        }
        let mut all = Self { tracker: tracker.cloned(), ..Self::default() };
        if let Some(options) = options {
            all = Self { tracker: all.tracker, ..options };
            all.belong_to(request);
        }
        Some(Box::new(all))
    }

    pub(super) fn belong_to(&mut self, request: &Request) {
        self.of.get_or_insert_with(|| Identity::of(request));
    }

    /// Puts them back at the end of a call: an outer middleware may send the request once more. Those of a
    /// request that came before stay: it is the one that was asked for.
    pub(super) fn give_back(self, extensions: &mut Extensions) {
        if self.of.is_some() && extensions.get::<Self>().is_none() {
            extensions.insert(self);
        }
    }
}

/// What a single request can ask of the [`RetryMiddleware`](crate::RetryMiddleware) of its client. Without
/// such a middleware nobody reads it, and the body of a factory is not sent at all.
///
/// **Precedence.** What the request asks beats the [`RetryScope`](crate::RetryScope) that it is made in, which
/// beats the [`Endpoint`](crate::Endpoint) that it belongs to, which beats the client. Of two policies one
/// holds, whole; they are not mixed. The deadline and the cancellation of a scope hold in any case. Of two
/// calls of one method the later counts; of a session and a policy, the session's.
///
/// | | request | scope | endpoint | client |
/// |---|---|---|---|---|
/// | policy | [`retry_session`], [`retry_policy`] | [`policy`][scope] | [`policy`][endpoint] | [`builder`][client] |
/// | its number of sends | [`no_retry`] | | | |
/// | its deadline | [`retry_deadline`] | tightens any: [`deadline_in`] | | |
/// | its word on method safety | [`assume_idempotent`], [`idempotency_key`] | | | |
/// | reading the body | [`buffer_body`] | | [`buffer_body`][endpoint-body] | [`buffer_body`][client-body] |
/// | discarded responses | | | [`drain`][endpoint-drain] | [`drain`][client-drain] |
///
/// These are extensions of the request: `RequestBuilder::build` loses them, `send` does not. The
/// middleware hides them from all that runs inside of it. A layer outside that sends the request once more on
/// the same extensions, say with a fresh token after a 401, sends it as asked for here, under the same key; a
/// request by another method, to another URL, or with other bytes is not meant. One that is made *before* the
/// request itself, on its extensions, takes these: give that one a map of its own.
///
/// A redirect is followed below the retry layer, under the rules of the request as the caller made it, and
/// carries its key along.
///
/// ```
/// use std::time::Duration;
/// use reqwest::StatusCode;
/// use reqwest_typed_retry::{IdempotencyKey, KeyFormat, RetryPolicy, RetryRequestExt as _};
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::RetryMiddleware;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::answering(|request| match (request.url.path(), request.resend_count) {
/// #     ("/never", _) => Reply::hang(),
/// #     (_, 0) => Reply::status(StatusCode::SERVICE_UNAVAILABLE),
/// #     _ => Reply::status(StatusCode::OK),
/// # });
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// // Of a client whose first attempt always gets a 503. A read by POST:
/// let search = client.post("http://api.test/search").assume_idempotent();
/// assert_eq!(search.send().await?.status(), StatusCode::OK);
///
/// // A write whose server honours keys; each attempt carries this one.
/// let key = IdempotencyKey::new("order-17", KeyFormat::Quoted)?;
/// let order = client.post("http://api.test/orders").idempotency_key(key);
/// assert_eq!(order.send().await?.status(), StatusCode::OK);
///
/// // One shot; and another policy, whose server may take its time.
/// let health = client.get("http://api.test/health").no_retry();
/// assert_eq!(health.send().await?.status(), StatusCode::SERVICE_UNAVAILABLE);
/// let patient = RetryPolicy::builder().max_attempts(10).build()?;
/// let job = client.get("http://api.test/job").retry_policy(patient);
/// assert_eq!(job.send().await?.status(), StatusCode::OK);
///
/// // This server never answers: half a minute, then an error.
/// let report = client.get("http://api.test/never").retry_deadline(Duration::from_secs(30));
/// assert!(report.send().await.is_err());
/// # let sent = network.received();
/// # assert_eq!(sent[3].headers["idempotency-key"], "\"order-17\"");
/// # assert_eq!(sent.len(), 2 + 2 + 1 + 2 + 1);
/// # Ok(()) }
/// ```
///
/// [`retry_session`]: Self::retry_session
/// [`retry_policy`]: Self::retry_policy
/// [`no_retry`]: Self::no_retry
/// [`retry_deadline`]: Self::retry_deadline
/// [`assume_idempotent`]: Self::assume_idempotent
/// [`idempotency_key`]: Self::idempotency_key
/// [`buffer_body`]: Self::buffer_body
/// [`deadline_in`]: crate::RetryScope::deadline_in
/// [scope]: crate::RetryScope::policy
/// [endpoint]: crate::EndpointBuilder::policy
/// [endpoint-body]: crate::EndpointBuilder::buffer_body
/// [endpoint-drain]: crate::EndpointBuilder::drain
/// [client]: crate::RetryMiddleware::builder
/// [client-body]: crate::RetryMiddlewareBuilder::buffer_body
/// [client-drain]: crate::RetryMiddlewareBuilder::drain
pub trait RetryRequestExt: sealed::Sealed + Sized {
    /// Makes the request's body anew for each attempt, the first included: for files, streams and
    /// multipart forms, which otherwise are sent once. It takes the place of a body that the request
    /// has.
    ///
    /// The factory runs inside the attempt; its time does not count against an attempt timeout. If it
    /// fails, the attempt is not sent and the call ends with a
    /// [`RetryError`](crate::RetryError::is_body). A request with a factory is never proven
    /// unprocessed: reqwest shows the observer of a [`DeliveryProof`](crate::DeliveryProof) no
    /// streams.
    ///
    /// ```
    /// # use reqwest::StatusCode;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::RetryMiddleware;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = tempfile::NamedTempFile::new()?.into_temp_path();
    /// # std::fs::write(&path, "ten of them")?;
    /// # let path = path.to_path_buf();
    /// # let network =
    /// #     Script::new([Reply::connect_error(), Reply::connect_error(), Reply::status(StatusCode::OK)]);
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(network.clone())
    /// #     .build();
    /// let upload = client.put("http://api.test/backup").body_factory(move || {
    ///     let path = path.clone(); // for each attempt
    ///     async move { Ok(ReplayBody::new(tokio::fs::read(path).await?)) }
    /// });
    /// // Two connections fail, and the file is read three times.
    /// assert_eq!(upload.send().await?.status(), StatusCode::OK);
    /// # let bodies = network.received().into_iter().filter_map(|request| request.body);
    /// # assert_eq!(bodies.collect::<Vec<_>>(), [b"ten of them"; 3]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn body_factory<F, Fut>(self, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut:
            Future<Output = Result<ReplayBody, Box<dyn Error + Send + Sync>>> + MaybeSend + 'static;

    /// Reads the response's body inside the attempt, up to so many bytes: see
    /// [`RetryMiddlewareBuilder::buffer_body`](crate::RetryMiddlewareBuilder::buffer_body), over
    /// which this takes precedence. 0 switches it off: for a download from a client that reads bodies. It
    /// is not there in a browser.
    ///
    /// ```
    /// # use reqwest::StatusCode;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::RetryMiddleware;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// use reqwest_typed_retry::RetryRequestExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Script::answering(|request| match (request.url.path(), request.resend_count) {
    /// #     ("/config", 0) => Reply::status(StatusCode::OK).body("a =").cut(),
    /// #     _ => Reply::status(StatusCode::OK).body("a = 1"),
    /// # });
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(network)
    /// #     .build();
    /// // The first answer is cut after `a =`. Of a client that does not read bodies:
    /// let config = client.get("http://api.test/config").send().await?;
    /// assert!(config.text().await.is_err());
    /// let config = client.get("http://api.test/config").buffer_body(64 * 1024).send().await?;
    /// assert_eq!(config.text().await?, "a = 1");
    /// # Ok(()) }
    /// ```
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    fn buffer_body(self, limit: u64) -> Self;

    /// This policy takes the place of every other one. What it lists as
    /// [`not_processed_statuses`](RetryPolicy::not_processed_statuses) has an effect only where the client
    /// has a [`DeliveryProof`](crate::DeliveryProof).
    #[must_use]
    fn retry_policy(self, policy: RetryPolicy) -> Self;

    /// Sends once, as far as this layer goes (reqwest has resends of its own for some HTTP/2 requests). All else
    /// in the policy that holds stays, its time limits above all. A transient failure is
    /// [`AttemptsExhausted`](crate::StopReason::AttemptsExhausted) then, as after any last attempt.
    #[must_use]
    fn no_retry(self) -> Self;

    /// Says that it makes no difference whether this request takes effect once or twice, whatever its
    /// method: a search, a completion, where a duplicate costs at most money.
    #[must_use]
    fn assume_idempotent(self) -> Self;

    /// Sends this key with each attempt, in the first field that the policy has for
    /// [keys](crate::RetryPolicyBuilder::idempotency_key_fields), unless the request carries one already:
    /// that stays. Either way it says that the server honours keys for this request, so that a POST or PATCH
    /// is sent again like a GET. A server that does not know the field acts each time.
    #[must_use]
    fn idempotency_key(self, key: IdempotencyKey) -> Self;

    /// The longest that this request may take as a whole, in place of the
    /// [`deadline`](crate::RetryPolicyBuilder::deadline) of its policy, be it shorter or longer. It counts from
    /// the beginning of the call. That of a [`RetryScope`](crate::RetryScope) holds, too: the earlier one.
    #[must_use]
    fn retry_deadline(self, deadline: Duration) -> Self;

    /// Counts the attempts of this request in `session`: see [`SharedSession`], which has an example. The
    /// session's policy takes the place of every other one, so that [`retry_policy`](Self::retry_policy),
    /// [`no_retry`](Self::no_retry) and [`retry_deadline`](Self::retry_deadline) have no effect.
    ///
    /// What is sent again in it by the same method, to the same URL and with the same bytes is one logical
    /// request: a key that is [made](crate::RetryPolicyBuilder::generate_idempotency_keys) is made once for it.
    /// A streamed body is like no other: bring the key. What a factory makes counts as the same.
    ///
    /// ```
    /// # use reqwest::StatusCode;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy, RetryRequestExt as _, SharedSession};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(network.clone())
    /// #     .build();
    /// let session = SharedSession::new(RetryPolicy::builder().max_attempts(4).build()?);
    /// let response = client.get("http://api.test/").retry_session(&session).send().await?;
    /// assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    /// assert_eq!(session.attempts(), 4);
    /// # assert_eq!(network.received().len(), 4);
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn retry_session(self, session: &SharedSession) -> Self;
}

impl RetryRequestExt for RequestBuilder {
    fn body_factory<F, Fut>(mut self, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut:
            Future<Output = Result<ReplayBody, Box<dyn Error + Send + Sync>>> + MaybeSend + 'static,
    {
        options(&mut self).body_factory = Some(BodyFactory::new(factory));
        self
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn buffer_body(mut self, limit: u64) -> Self {
        options(&mut self).buffer_body = Some(limit);
        self
    }

    fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        options(&mut self).policy = Some(policy);
        self
    }

    fn no_retry(mut self) -> Self {
        options(&mut self).sends_once = true;
        self
    }

    fn assume_idempotent(mut self) -> Self {
        options(&mut self).assume_idempotent = true;
        self
    }

    fn idempotency_key(mut self, key: IdempotencyKey) -> Self {
        options(&mut self).idempotency_key = Some(key);
        self
    }

    fn retry_deadline(mut self, deadline: Duration) -> Self {
        options(&mut self).deadline = Some(deadline);
        self
    }

    fn retry_session(mut self, session: &SharedSession) -> Self {
        options(&mut self).session = Some(session.clone());
        self
    }
}

fn options(request: &mut RequestBuilder) -> &mut RequestOptions {
    request.extensions().get_or_insert_default()
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::RequestBuilder {}
}
