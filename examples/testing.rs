//! How a service tests what it does when its upstream fails: minutes of waiting in milliseconds, no socket.
//!
//! What it shows: an order that meets a 503, silence, and a refused connection before it is taken; `main` prints what
//! it met and how long that took. The tests of the service are at the end of this file. A service of your own needs
//! the feature `test-util` of this crate and of tokio in its `[dev-dependencies]`.
//!
//! Run it: `cargo run --example testing`, and its tests: `cargo test --example testing`. It ends by itself in a second;
//! the exit code is 0 only if all went as described. Some of what it prints:
//!
//! ```text
//! order 17
//! attempt 1: status 503; retry in 49.40s (set by the server): status 503
//! attempt 2 after 49.40s: fault timeout (delivery unknown); retry in 1.55s (set by the backoff): timeout
//! sent 4 times within 63.809s, tested in 74.68289ms
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use reqwest_middleware::reqwest::header::RETRY_AFTER;
use reqwest_middleware::reqwest::{self, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, KeyFormat, PolicyError, RetryMiddleware, RetryPolicy, RetryTracker,
};

/// The service under test: orders goods.
struct Orders {
    http: ClientWithMiddleware,
}

impl Orders {
    /// The client without its last part, which a test replaces by a [`Script`].
    fn client(http: reqwest::Client) -> Result<ClientBuilder, PolicyError> {
        let policy = RetryPolicy::builder()
            .max_attempts(4)
            .backoff(Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60))?)
            .attempt_timeout(Duration::from_secs(10))
            .deadline(Duration::from_secs(120))
            .generate_idempotency_keys(KeyFormat::Bare)
            .build()?;
        Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
    }

    /// Orders `what`, and says under which number.
    async fn order(
        &self,
        what: &str,
        tracker: &RetryTracker,
    ) -> reqwest_middleware::Result<String> {
        let request = self.http.post("http://orders.test/orders").body(what.to_owned());
        let response = request.with_extension(tracker.clone()).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }
}

/// The service, and what answers instead of the network.
fn scripted(script: &Script) -> Result<Orders, PolicyError> {
    let client = Orders::client(reqwest::Client::new())?;
    Ok(Orders { http: client.with(script.clone()).build() })
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let script = Script::new([
        busy().header(RETRY_AFTER, 45),
        Reply::hang(), // until the timeout of the attempt
        Reply::connect_error(),
        Reply::status(StatusCode::CREATED).body("order 17"),
    ]);
    let (tracker, started) = (RetryTracker::new(), Instant::now());
    let order = scripted(&script)?.order("tea", &tracker).await?;
    println!("{order}\n{}", tracker.history().ok_or("the call has a history")?);
    let sent = script.received();
    let last = sent.last().ok_or("requests have been sent")?;
    println!("sent {} times within {:?}, tested in {:?}", sent.len(), last.at, started.elapsed());
    // As long as the server asked, and the time limit of the attempt that was never answered.
    if sent.len() != 4 || last.at < Duration::from_secs(45 + 10) || order != "order 17" {
        return Err("it did not go as described".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    use reqwest_typed_retry::StopReason;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_as_long_as_the_server_asks() {
        let script = Script::new([busy().header(RETRY_AFTER, 45), Reply::status(StatusCode::OK)]);
        scripted(&script).unwrap().order("tea", &RetryTracker::new()).await.unwrap();
        let sent = script.received();
        let waited = sent[1].at - sent[0].at;
        // What is added to it spreads the clients that were sent away together.
        assert!((45.0..50.0).contains(&waited.as_secs_f64()), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_on_a_server_that_stays_sick_and_says_why() {
        let (script, tracker) = (Script::always(busy()), RetryTracker::new());
        let error = scripted(&script).unwrap().order("tea", &tracker).await.unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(script.received().len(), 4);
        assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::AttemptsExhausted);
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_whose_answer_was_lost_is_placed_once() {
        // A server that keeps the keys that it has seen; its first answer never comes.
        let orders = Arc::new(Mutex::new(HashMap::new()));
        let kept = orders.clone();
        let script = Script::answering(move |request| {
            let mut orders = kept.lock().unwrap();
            let number = orders.len() + 1;
            let order = *orders.entry(request.headers["idempotency-key"].clone()).or_insert(number);
            match request.resend_count {
                0 => Reply::hang(),
                _ => Reply::status(StatusCode::CREATED).body(format!("order {order}")),
            }
        });
        let order = scripted(&script).unwrap().order("tea", &RetryTracker::new()).await.unwrap();
        assert_eq!((order.as_str(), orders.lock().unwrap().len()), ("order 1", 1));
        assert_eq!(script.received().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_is_wrong_is_not_sent_again() {
        let script = Script::new([Reply::status(StatusCode::UNPROCESSABLE_ENTITY)]);
        let error = scripted(&script).unwrap().order("", &RetryTracker::new()).await.unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::UNPROCESSABLE_ENTITY));
        assert_eq!(script.received().len(), 1);
    }
}
