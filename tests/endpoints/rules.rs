//! What holds for the requests of an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use http::{Extensions, Method, StatusCode};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, DrainLimits, Endpoint, RetryErrorExt as _, RetryMiddleware, RetryMiddlewareBuilder,
    RetryPolicy, RetryPolicyBuilder,
};
use tokio::time::Instant;

use crate::{at, busy, chain, client, fine, ms, sends};

const INSIDE: &str = "http://h.test/inside";
const OUTSIDE: &str = "http://h.test/outside";

fn inside(policy: RetryPolicyBuilder) -> Endpoint {
    at("/inside").policy(policy.build().unwrap()).build().unwrap()
}

/// A client whose own rules are these, with one endpoint.
fn with(own: RetryPolicyBuilder, endpoint: Endpoint) -> RetryMiddlewareBuilder {
    RetryMiddleware::builder(own.build().unwrap()).endpoint(endpoint)
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_a_policy_has_that_of_the_client() {
    let script = Script::always(busy());
    let endpoint = at("/inside").buffer_body(1_000).build().unwrap();
    assert!(endpoint.policy().is_none());
    let client = client(with(sends(4), endpoint), &script);
    client.get(INSIDE).send().await.unwrap();
    assert_eq!(script.received().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_an_endpoint_holds_whole_with_nothing_of_the_clients() {
    // It says nothing of timeouts, statuses or methods, and so the defaults hold.
    let own = RetryPolicy::builder().max_attempts(5).build().unwrap();
    let endpoint = at("/inside").policy(own).build().unwrap();
    assert_eq!(endpoint.policy().unwrap().max_attempts().unwrap().get(), 5);
    let clients = sends(2)
        .attempt_timeout(ms(500))
        .deadline(ms(600))
        .retry_statuses([StatusCode::CONFLICT].into_iter().collect());
    for (method, url, status, sent, timeout) in [
        (Method::GET, INSIDE, 503, 5, None),
        (Method::GET, INSIDE, 409, 1, None),
        (Method::POST, INSIDE, 503, 1, None),
        (Method::GET, OUTSIDE, 503, 1, Some(ms(500))),
        (Method::POST, OUTSIDE, 409, 2, Some(ms(500))),
    ] {
        let script = Script::always(Reply::status(StatusCode::from_u16(status).unwrap()));
        let client = client(with(clients.clone(), endpoint.clone()), &script);
        client.request(method.clone(), url).send().await.unwrap();
        let received = script.received();
        assert_eq!(received.len(), sent, "{method} {url} {status}");
        assert!(received.iter().all(|it| it.timeout == timeout), "{method} {url} {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_an_endpoint_are_its_own() {
    let waiting = |millis| sends(3).backoff(Backoff::constant(ms(millis)));
    for (url, expected) in
        [(INSIDE, [ms(0), ms(700), ms(1_400)]), (OUTSIDE, [ms(0), ms(20), ms(40)])]
    {
        let script = Script::always(busy());
        client(with(waiting(20), inside(waiting(700))), &script).get(url).send().await.unwrap();
        let arrivals: Vec<_> = script.received().iter().map(|received| received.at).collect();
        assert_eq!(arrivals, expected, "{url}");
    }
}

/// How a call ends that only a limit ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// reqwest's own error.
    Attempt,
    Head,
    Deadline,
}

type Set = fn(RetryPolicyBuilder, Duration) -> RetryPolicyBuilder;

#[tokio::test(start_paused = true)]
async fn the_time_limits_of_an_endpoint_take_effect() {
    let set: [(Limit, Set); 3] = [
        (Limit::Attempt, |policy, limit| policy.attempt_timeout(limit)),
        (Limit::Head, |policy, limit| policy.head_timeout(limit)),
        (Limit::Deadline, |policy, limit| policy.deadline(limit)),
    ];
    for (limit, set) in set {
        for (url, expected) in [(INSIDE, ms(300)), (OUTSIDE, ms(9_000))] {
            let script = Script::always(Reply::hang());
            let retry = with(set(sends(1), ms(9_000)), inside(set(sends(1), ms(300))));
            let started = Instant::now();
            let error = client(retry, &script).get(url).send().await.unwrap_err();
            assert_eq!(started.elapsed(), expected, "{limit:?} {url}");
            let end = match error.retry_error() {
                None if error.is_timeout() => Limit::Attempt,
                Some(ours) if ours.is_deadline() => Limit::Deadline,
                Some(ours) if ours.is_timeout() => Limit::Head,
                _ => panic!("{limit:?} {url}: {error:?}"),
            };
            assert_eq!(end, limit, "{url}");
        }
    }
}

/// A final middleware: bodies of so many bytes that are then cut, and how many pieces of them were read.
#[derive(Clone)]
struct Cut {
    status: StatusCode,
    length: usize,
    sent: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
}

impl Cut {
    fn new(status: u16, length: usize) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self { status, length, sent: Arc::default(), read: Arc::default() }
    }

    async fn get(&self, retry: RetryMiddlewareBuilder, url: &str) -> Result<Response> {
        chain(retry).with(self.clone()).build().get(url).send().await
    }
}

#[async_trait]
impl Middleware for Cut {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let pieces =
            vec![Ok(vec![b'x'; self.length]), Err(std::io::ErrorKind::ConnectionReset.into())];
        let read = self.read.clone();
        let pieces = stream::iter(pieces).inspect(move |_: &std::io::Result<_>| {
            read.fetch_add(1, Ordering::Relaxed);
        });
        let mut response = http::Response::new(Body::wrap_stream(pieces));
        *response.status_mut() = self.status;
        Ok(response.into())
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_says_how_much_of_a_body_is_read_and_0_switches_it_off() {
    const CUT_AFTER: usize = 100;
    // Where so much is read, the cut is the end of the call.
    for (label, clients, own, url, is_read) in [
        ("on for it alone", 0, Some(200), INSIDE, true),
        ("on for it alone, elsewhere", 0, Some(200), OUTSIDE, false),
        ("more for it", 50, Some(200), INSIDE, true),
        ("less for it", 200, Some(50), INSIDE, false),
        ("off for it", 200, Some(0), INSIDE, false),
        ("off for it, elsewhere", 200, Some(0), OUTSIDE, true),
        ("it says nothing", 200, None, INSIDE, true),
        ("nobody says anything", 0, None, INSIDE, false),
    ] {
        let mut endpoint = at("/inside");
        if let Some(limit) = own {
            endpoint = endpoint.buffer_body(limit);
        }
        let retry = with(sends(1), endpoint.build().unwrap()).buffer_body(clients);
        let result = Cut::new(200, CUT_AFTER).get(retry, url).await;
        assert_eq!(result.is_err(), is_read, "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_body_is_asked_for_again_where_the_endpoint_reads_it() {
    for (url, sent) in [(INSIDE, 3), (OUTSIDE, 1)] {
        let endpoint = at("/inside").buffer_body(1_000).build().unwrap();
        let cut = Cut::new(200, 10);
        let result = cut.get(with(sends(3), endpoint), url).await;
        assert_eq!(result.is_err(), url == INSIDE, "{url}");
        assert_eq!(cut.sent.load(Ordering::Relaxed), sent, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_says_how_much_of_a_discarded_response_is_read() {
    let (all, none) = (DrainLimits::default(), DrainLimits::none());
    for (label, clients, own, url, is_read) in [
        ("the default", None, None, INSIDE, true),
        ("none for it", None, Some(none), INSIDE, false),
        ("none for it, elsewhere", None, Some(none), OUTSIDE, true),
        ("none but for it", Some(none), Some(all), INSIDE, true),
        ("none but for it, elsewhere", Some(none), Some(all), OUTSIDE, false),
        ("it says nothing", Some(none), None, INSIDE, false),
    ] {
        let mut endpoint = at("/inside");
        if let Some(limits) = own {
            endpoint = endpoint.drain(limits);
        }
        let mut retry =
            with(sends(2).backoff(Backoff::constant(ms(10))), endpoint.build().unwrap());
        if let Some(limits) = clients {
            retry = retry.drain(limits);
        }
        let cut = Cut::new(503, 10);
        cut.get(retry, url).await.unwrap();
        assert_eq!(cut.sent.load(Ordering::Relaxed), 2, "{label}");
        assert_eq!(cut.read.load(Ordering::Relaxed) > 0, is_read, "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_a_client_is_one_for_all_of_its_endpoints() {
    let tokens = reqwest_typed_retry::RetryBudget::builder().capacity(3).build().unwrap();
    let retry = with(sends(3), inside(sends(3))).budget(tokens);
    let script = Script::always(busy());
    let client = client(retry, &script);
    for (url, sent) in [(INSIDE, 3), (OUTSIDE, 2), (INSIDE, 1)] {
        let before = script.received().len();
        client.get(url).send().await.unwrap();
        assert_eq!(script.received().len() - before, sent, "{url}");
    }
    assert_eq!(script.received().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_can_be_given_to_several_clients() {
    let endpoint = inside(sends(3));
    for own in [1, 5] {
        let script = Script::new([busy(), busy(), fine()]);
        let client = client(with(sends(own), endpoint.clone()), &script);
        assert_eq!(client.get(INSIDE).send().await.unwrap().status(), StatusCode::OK);
        assert_eq!(script.received().len(), 3, "{own}");
    }
}
