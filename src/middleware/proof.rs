//! The proof that an attempt was not processed.

use std::error::Error;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::LazyLock;

use http::{Method, StatusCode};
use reqwest::{Client, ClientBuilder, Request, retry};

use super::attempt_scope;
use crate::fault_source;
use crate::policy::{Delivery, Outcome};

/// Positive evidence of what became of each attempt, by which a POST may be sent again where the
/// server is *proven* not to have acted on it: a refused connection, a stream that the server
/// refused, a status that the API promises not to act on.
///
/// An error alone is no such proof. A connection refused on the second hop of a redirect looks like
/// one refused on the first, while the first server may have acted; and the error may be that of a
/// call which an inner middleware made. So an observer below reqwest's redirects sees how every
/// exchange ends, and an attempt counts as not processed only if **exactly one** exchange was seen,
/// it was one of the same method and URL as the request, and its end is the outcome of the attempt.
///
/// This is the one line that payment and job code adds:
///
/// ```
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::{DeliveryProof, RetryMiddleware, RetryPolicy, RetryTracker};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (http, proof) = DeliveryProof::build(reqwest::Client::builder().no_proxy())?;
/// let retry = RetryMiddleware::builder(RetryPolicy::default()).delivery_proof(proof).build()?;
/// let client = ClientBuilder::new(http).with(retry).build();
///
/// // Nobody listens there. A POST that nobody received is sent again.
/// let tracker = RetryTracker::new();
/// let charge = client.post("http://127.0.0.1:1/charges").with_extension(tracker.clone());
/// assert!(charge.send().await.is_err());
/// let history = tracker.history().ok_or("the call has ended")?;
/// assert_eq!(history.resends(), 2);
/// assert!(history.attempts().iter().all(|attempt| attempt.proven_not_processed()));
/// # Ok(()) }
/// ```
///
/// A status proves it only where the API's documentation says so: list it as one of the
/// [`not_processed_statuses`](crate::RetryPolicyBuilder::not_processed_statuses).
/// # Limits
///
/// - No exchange is seen, and so nothing is proven, with a client that was not built here, in a task
///   that an inner middleware spawned, for a body that can't be cloned, and where a time limit or a
///   drop cuts it.
/// - A time limit proves nothing, even while it is still connecting; only reqwest's
///   `connect_timeout` does.
/// - An HTTP/2 `GOAWAY` proves nothing.
/// - An inner middleware that changes the method or the URL of the request takes the proof away.
/// - An inner middleware defeats it that sends the request twice within one attempt, to the same URL,
///   once where it can't be seen: so let none retry, hedge or fall back by itself. A redirect to the
///   very same URL does the same to an empty body which can't be cloned, if one gives the request that.
///
/// Clones are for further middlewares over the same client.
#[derive(Clone, Debug)]
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
                attempt_scope::saw(|request| {
                    if Target::of(exchange.method(), &exchange.uri().to_string()) == request {
                        End::of(exchange.status(), exchange.error())
                    } else {
                        End::Unknown
                    }
                });
                exchange.success()
            }))
            .build()?;
        Ok((client, Self { _only_built_here: () }))
    }
}

/// reqwest asks it only of what it resends, which is nothing; should that change, nothing is missed.
struct EveryHost;

impl PartialEq<&str> for EveryHost {
    fn eq(&self, _host: &&str) -> bool {
        true
    }
}

/// What tells an exchange of the attempt's own request from that of another call: the method and the
/// URL, hashed, so that it fits in a cell; never 0, so that none takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target(NonZeroU64);

impl Target {
    pub(super) fn of_request(request: &Request) -> Self {
        let url = request.url().as_str();
        // The fragment is not sent (RFC 9110 7.1).
        let sent = url.split_once('#').map_or(url, |(sent, _)| sent);
        Self::of(request.method(), sent)
    }

    fn of(method: &Method, url: &str) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(NonZeroU64::new(KEYS.hash_one((method, url))).unwrap_or(NonZeroU64::MAX))
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Status(StatusCode),
    /// With an error that proves that the server did not act.
    NotProcessed,
    /// In any way that says nothing of the request, or another request's.
    Unknown,
}

impl End {
    fn of(status: Option<StatusCode>, error: Option<&(dyn Error + 'static)>) -> Self {
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
    /// status never vouches for an error: that came from somewhere else. What the outcome says of
    /// itself is for the policy.
    pub(super) fn vouch_for(self, outcome: &Outcome<'_>) -> bool {
        match (self, outcome) {
            (Self::One(End::NotProcessed), Outcome::Fault { .. }) => true,
            (Self::One(End::Status(seen)), Outcome::Response { status, .. }) => seen == *status,
            _ => false,
        }
    }
}
