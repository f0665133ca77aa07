//! What a single request asks of the retry layer.

use std::error::Error;

use http::Extensions;
use reqwest_middleware::RequestBuilder;

use super::body_factory::{BodyFactory, ReplayBody};
use super::history::RetryTracker;
use super::shared_session::SharedSession;

/// Options of a single request, in its extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestOptions {
    pub(super) body_factory: Option<BodyFactory>,
    pub(super) buffer_body: Option<u64>,
    pub(super) session: Option<SharedSession>,
    /// Attached by the caller as an extension of its own.
    pub(super) tracker: Option<RetryTracker>,
}

impl RequestOptions {
    /// Takes them out, so that no other request that an inner middleware makes finds them there.
    pub(super) fn take(extensions: &mut Extensions) -> Option<Box<Self>> {
        let options = extensions.remove::<Self>();
        let tracker = extensions.get::<RetryTracker>();
        (options.is_some() || tracker.is_some())
            .then(|| Box::new(Self { tracker: tracker.cloned(), ..options.unwrap_or_default() }))
    }
}

/// What a request can ask of a [`RetryMiddleware`](crate::RetryMiddleware) above all that its client
/// does. It needs one: without, nobody reads it, and the body of a factory is not sent at all.
///
/// These are extensions of the request: `RequestBuilder::build` loses them, `send` does not. The
/// middleware takes them out: they hold for one call.
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
    /// ```no_run
    /// use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _};
    ///
    /// # use std::path::PathBuf;
    /// # async fn upload(client: reqwest_middleware::ClientWithMiddleware, path: PathBuf) -> reqwest_middleware::Result<()> {
    /// let response = client
    ///     .put("http://localhost/backup")
    ///     .body_factory(move || {
    ///         let path = path.clone(); // for each attempt
    ///         async move { Ok(ReplayBody::new(tokio::fs::read(path).await?)) }
    ///     })
    ///     .send()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn body_factory<F, Fut>(self, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ReplayBody, Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Reads the response's body inside the attempt, up to so many bytes: see
    /// [`RetryMiddlewareBuilder::buffer_body`](crate::RetryMiddlewareBuilder::buffer_body), over
    /// which this takes precedence. 0 switches it off.
    #[must_use]
    fn buffer_body(self, limit: u64) -> Self;

    /// Counts the attempts of this request in `session`, whose policy takes the place of the
    /// client's: see [`SharedSession`].
    #[must_use]
    fn retry_session(self, session: &SharedSession) -> Self;
}

impl RetryRequestExt for RequestBuilder {
    fn body_factory<F, Fut>(mut self, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ReplayBody, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        options(&mut self).body_factory = Some(BodyFactory::new(factory));
        self
    }

    fn buffer_body(mut self, limit: u64) -> Self {
        options(&mut self).buffer_body = Some(limit);
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
