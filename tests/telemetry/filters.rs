//! What the events leave alone: those of others.

#![cfg(feature = "tracing")]

use std::sync::{Arc, Mutex};

use reqwest_typed_retry::RetryMiddleware;
use reqwest_typed_retry::test_util::Script;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::world::client;
use super::{ORIGIN, URL, policy, reply};

/// The targets and fields of all events.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(what)).count()
    }
}

impl<S: Subscriber> Layer<S> for Seen {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

/// As an application has it that reports errors to one place and logs all to another. To ask a filter
/// whether it is interested, without an event after it, makes it swallow the next one.
#[tokio::test(start_paused = true)]
async fn no_event_of_the_applications_own_is_lost() {
    let (errors, log) = (Seen::default(), Seen::default());
    let subscriber = tracing_subscriber::registry()
        .with(errors.clone().with_filter(LevelFilter::ERROR))
        .with(log.clone().with_filter(LevelFilter::TRACE));
    let _guard = tracing::subscriber::set_default(subscriber);
    let retry = || RetryMiddleware::new(policy().build().unwrap());
    for answer in [200, 503] {
        let client = client(retry(), &Script::always(reply(answer)));
        for _ in 0..3 {
            client.post(URL).send().await.unwrap();
            tracing::error!("order lost");
        }
    }
    assert_eq!((errors.count("order lost"), log.count("order lost")), (6, 6));
    // And the POSTs that failed say where they went.
    assert_eq!((log.count("not resent"), log.count(ORIGIN)), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_one_level_alone_sees_the_origin_too() {
    let seen = Seen::default();
    let only_debug = tracing_subscriber::filter::filter_fn(|it| {
        it.is_event() && *it.level() == tracing::Level::DEBUG
    });
    let subscriber = tracing_subscriber::registry().with(seen.clone().with_filter(only_debug));
    let _guard = tracing::subscriber::set_default(subscriber);
    let retry = RetryMiddleware::new(policy().build().unwrap());
    client(retry, &Script::always(reply(503))).post(URL).send().await.unwrap();
    assert_eq!((seen.count("not resent"), seen.count(ORIGIN)), (1, 1));
}
