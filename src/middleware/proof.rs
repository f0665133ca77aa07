//! The proof that an attempt was not processed.

use std::error::Error;

use http::{Method, StatusCode};
use reqwest::{Body, Client, ClientBuilder, Request, retry};

use super::scope;
use crate::fault_source;
use crate::policy::{Delivery, Outcome};

/// Positive evidence of what became of each attempt, by which a POST may be sent again where the
/// server is *proven* not to have acted on it: a refused connection, a stream that the server
/// refused, a status that the API promises not to act on.
///
/// An error alone is no such proof. A connection refused on the second hop of a redirect looks like
/// one refused on the first, while the first server may have acted; and the error may be that of a
/// call which an inner middleware made. So an observer below reqwest's redirects sees how every
/// exchange ends, and an attempt counts as not processed only if **exactly one** exchange was seen
/// and its end is the outcome of the attempt.
///
/// This is the one line that payment and job code adds:
///
/// ```
/// use http::StatusCode;
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::{DeliveryProof, RetryMiddleware, RetryPolicy, StatusSet};
///
/// let policy = RetryPolicy::builder()
///     // This API's documentation says that a rate-limited request has no effect.
///     .not_processed_statuses(StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS))
///     .build()?;
/// let (http, proof) = DeliveryProof::build(reqwest::Client::builder())?;
/// let retry = RetryMiddleware::builder(policy).delivery_proof(proof).build()?;
/// let client = ClientBuilder::new(http).with(retry).build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Limits
///
/// - No exchange is seen, and so nothing is proven, with a client that was not built here, in a task
///   that an inner middleware spawned, and for a body that can't be cloned.
/// - A time limit proves nothing, even while it is still connecting; only reqwest's
///   `connect_timeout` does.
/// - An HTTP/2 `GOAWAY` proves nothing.
/// - An inner middleware defeats it that sends the request twice within one attempt, once where it
///   can't be seen; or that gives it an empty body which can't be cloned, before a redirect.
#[derive(Debug)]
pub struct DeliveryProof {
    _only_built_here: (),
}

impl DeliveryProof {
    /// Builds the client with its observer. It consumes the builder, so that nothing can be set
    /// later that would blind it.
    ///
    /// The observer takes the place of reqwest's own retry (`ClientBuilder::retry`), also of one
    /// that the caller set, and never resends: reqwest's default would hide an exchange that the
    /// server has answered. Everything else, redirects included, stays as the caller set it.
    ///
    /// # Errors
    /// Those of [`ClientBuilder::build`].
    pub fn build(builder: ClientBuilder) -> reqwest::Result<(Client, Self)> {
        // reqwest only asks a classifier about requests that it could resend.
        let observer = retry::for_host(EveryHost).no_budget().max_retries_per_request(1);
        let client = builder
            .retry(observer.classify_fn(|exchange| {
                scope::saw(End::of(exchange.method(), exchange.status(), exchange.error()));
                exchange.success()
            }))
            .build()?;
        Ok((client, Self { _only_built_here: () }))
    }
}

/// Whether the observer will be shown this request: reqwest shows it only what it could resend.
pub(super) fn is_observable(request: &Request) -> bool {
    request.body().is_none_or(|body| Body::as_bytes(body).is_some())
}

struct EveryHost;

impl PartialEq<&str> for EveryHost {
    fn eq(&self, _host: &&str) -> bool {
        true
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Status(StatusCode),
    /// With an error that proves that the server did not act.
    NotProcessed,
    /// In any way that says nothing of the request.
    Unknown,
}

impl End {
    fn of(
        method: &Method,
        status: Option<StatusCode>,
        error: Option<&(dyn Error + 'static)>,
    ) -> Self {
        // What a redirect makes of a POST (RFC 9110 15.4.4). If an inner middleware gave that POST a
        // body that can't be cloned, it was not shown, and this exchange is not the only one.
        if matches!(*method, Method::GET | Method::HEAD) {
            return Self::Unknown;
        }
        match (status, error.map(fault_source::classify)) {
            (Some(status), _) => Self::Status(status),
            (None, Some(fault)) if fault.delivery() == Delivery::NotProcessed => Self::NotProcessed,
            (None, _) => Self::Unknown,
        }
    }
}

/// The exchanges that were seen in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Exchanges {
    #[default]
    None,
    One(End),
    Several,
}

impl Exchanges {
    pub(super) fn and(self, end: End) -> Self {
        match self {
            Self::None => Self::One(end),
            Self::One(_) | Self::Several => Self::Several,
        }
    }

    /// Whether `outcome` is the end of the one exchange that was seen. An exchange that ended in a
    /// status never vouches for an error: that came from somewhere else.
    pub(super) fn vouch_for(self, outcome: &Outcome<'_>) -> bool {
        match (self, outcome) {
            (Self::One(End::NotProcessed), Outcome::Fault { fault, .. }) => {
                fault.delivery() == Delivery::NotProcessed
            }
            (Self::One(End::Status(seen)), Outcome::Response { status, .. }) => seen == *status,
            _ => false,
        }
    }
}
