//! Where a request went is known even if nobody listens to events while it is sent. A binary of its own, and one
//! test: a subscriber is seen by all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{ResendCount, RetryErrorExt as _, RetryMiddleware, RetryPolicy};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

const URL: &str = "http://service.test/path";
const ORIGIN: &str = "http://service.test";

#[tokio::test(start_paused = true)]
async fn the_origin_is_known_though_nobody_listens() {
    a_wrapped_error_names_the_origin_also_of_what_is_sent_once().await;
    a_time_limit_names_the_origin_of_what_is_sent_once().await;
    giving_up_names_the_origin_to_who_begins_to_listen_during_the_last_attempt().await;
}

async fn a_wrapped_error_names_the_origin_also_of_what_is_sent_once() {
    for policy in [RetryPolicy::never(), RetryPolicy::default()] {
        let retry = RetryMiddleware::builder(policy).without_budget().wrap_errors();
        let script = Script::always(Reply::dns_error());
        let client =
            ClientBuilder::new(Client::new()).with(retry.build().unwrap()).with(script).build();
        for request in [client.get(URL), client.post(URL)] {
            let error = request.send().await.unwrap_err();
            assert_eq!(error.retry_error().unwrap().origin(), Some(ORIGIN));
        }
    }
}

async fn a_time_limit_names_the_origin_of_what_is_sent_once() {
    let policy = RetryPolicy::builder().head_timeout(Duration::from_secs(1)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).without_budget().build().unwrap();
    let script = Script::always(Reply::hang());
    let client = ClientBuilder::new(Client::new()).with(retry).with(script).build();
    let error = client.post(URL).send().await.unwrap_err();
    assert_eq!(error.retry_error().unwrap().origin(), Some(ORIGIN));
}

async fn giving_up_names_the_origin_to_who_begins_to_listen_during_the_last_attempt() {
    let policy = RetryPolicy::new(2, Duration::ZERO, Duration::ZERO).unwrap();
    let retry = RetryMiddleware::builder(policy).without_budget().build().unwrap();
    let listener = Listener::default();
    let script = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
    let chain = ClientBuilder::new(Client::new()).with(retry).with(listener.clone()).with(script);
    chain.build().get(URL).send().await.unwrap();
    drop(listener.guard.lock().unwrap().take());
    let told = listener.told.lock().unwrap();
    assert!(
        matches!(&told[..], [only] if only.contains("giving up") && only.contains(ORIGIN)),
        "{told:?}"
    );
}

/// Sets a subscriber once a request is sent again.
#[derive(Clone, Default)]
struct Listener {
    guard: Arc<Mutex<Option<DefaultGuard>>>,
    told: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Middleware for Listener {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        if ResendCount::of(extensions) > 0 {
            let subscriber = tracing_subscriber::registry().with(Events(self.told.clone()));
            *self.guard.lock().unwrap() = Some(set_default(subscriber));
        }
        next.run(request, extensions).await
    }
}

/// Writes down each event.
struct Events(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}
