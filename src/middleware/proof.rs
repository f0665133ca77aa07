//! The proof that an attempt was not processed.

use reqwest::{Client, ClientBuilder, retry};

use super::attempt_scope;
use super::exchange::{End, Target};

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
/// - There is none in a browser.
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
