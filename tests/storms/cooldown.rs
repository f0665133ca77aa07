//! The shared cooldown.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use futures_util::{poll, stream};
use http::header::RETRY_AFTER;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Cooldown, Endpoint, Jitter, RetryErrorExt as _, RetryHistory, RetryMiddleware,
    RetryMiddlewareBuilder, RetryPolicy, RetryPolicyBuilder, RetryScope, RetryTracker,
    ServerDelays, StopReason,
};
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use super::{A, B, BUSY, LIMITED, OK, Upstream, client_of, get, ms, stop};

/// The first request is told to wait, and no other.
fn told_once(status: StatusCode, retry_after: &'static str) -> Upstream {
    Upstream::new(
        move |arrival| {
            if arrival.index == 0 { (status, Some(retry_after)) } else { (OK, None) }
        },
    )
}

fn cooling(policy: RetryPolicyBuilder, upstream: &Upstream) -> ClientWithMiddleware {
    let cooldown = Cooldown::by_origin();
    client_of(policy.build().unwrap(), upstream, |retry| retry.cooldown(cooldown))
}

/// With a deadline, as a cooldown must have one, that ends nothing here.
fn patient() -> RetryPolicyBuilder {
    RetryPolicy::builder().deadline(Duration::MAX)
}

fn exact() -> RetryPolicyBuilder {
    patient().jitter(Jitter::None)
}

fn at(upstream: &Upstream) -> Vec<Duration> {
    upstream.arrivals().iter().map(|arrival| arrival.at).collect()
}

/// Closes A at once.
async fn learn(client: &ClientWithMiddleware) -> StatusCode {
    client.post(A).send().await.unwrap().status() // a POST does not wait for itself
}

// F127
#[tokio::test(start_paused = true)]
async fn of_50_parallel_requests_none_is_sent_while_the_origin_is_closed() {
    let closed = ms(1)..ms(2_000);
    let rule = closed.clone();
    let upstream =
        Upstream::new(
            move |arrival| {
                if arrival.at < rule.end { (LIMITED, Some("2")) } else { (OK, None) }
            },
        );
    let client = cooling(patient(), &upstream);
    // One learns; 50 come while it waits.
    let first = get(&client, A);
    let others = async {
        sleep(ms(1)).await;
        join_all((0..50).map(|number| {
            let client = &client;
            async move {
                sleep(ms(10 * number)).await;
                get(client, A).await
            }
        }))
        .await
    };
    assert_eq!(join(first, others).await, (200, vec![200; 50]));

    let arrivals = upstream.arrivals();
    assert_eq!(arrivals.len(), 2 + 50, "each of the 50 was sent once");
    assert!(arrivals.iter().all(|arrival| !closed.contains(&arrival.at)), "{arrivals:?}");
    // They come back over a tenth of the wait.
    let mut quarters = [0; 4];
    for arrival in &arrivals[1..] {
        let late = (arrival.at - closed.end).as_millis();
        quarters[usize::try_from(late).unwrap() * 4 / 201] += 1;
    }
    println!("by 50 ms: {quarters:?}");
    assert!(quarters.iter().all(|count| *count >= 5), "{quarters:?}");
}

#[tokio::test(start_paused = true)]
async fn without_it_every_request_learns_for_itself() {
    let upstream =
        Upstream::new(
            |arrival| {
                if arrival.at < ms(2_000) { (LIMITED, Some("2")) } else { (OK, None) }
            },
        );
    let client = client_of(RetryPolicy::default(), &upstream, |retry| retry);
    join_all((0..50).map(|_| get(&client, A))).await;
    assert_eq!(upstream.arrivals().iter().filter(|it| it.at < ms(2_000)).count(), 50);
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_no_attempt() {
    let upstream = told_once(BUSY, "3");
    let client = cooling(exact(), &upstream);
    assert_eq!(learn(&client).await, BUSY);
    advance(ms(1_000)).await;
    let tracker = RetryTracker::new();
    client.get(A).with_extension(tracker.clone()).send().await.unwrap();
    assert_eq!(at(&upstream), [ms(0), ms(3_000)]);
    assert_eq!(upstream.arrivals()[1].resend, 0);
    let history = tracker.history().unwrap();
    assert_eq!(history.to_string(), "attempt 1 after 2.00s: status 200; stop: completed");
}

/// What closes an origin, and until when.
#[tokio::test(start_paused = true)]
async fn a_429_or_503_with_a_delay_that_the_policy_follows_closes_the_origin() {
    let up_to = |millis| ServerDelays::UpTo(ms(millis));
    let rows = [
        (429, "5", up_to(60_000), 5_000),
        (503, "5", up_to(60_000), 5_000),
        (503, "0", up_to(60_000), 0),
        (503, "soon", up_to(60_000), 0),
        (500, "5", up_to(60_000), 0),
        (408, "5", up_to(60_000), 0),
        (403, "5", up_to(60_000), 0),
        (301, "5", up_to(60_000), 0),
        (503, "60", up_to(60_000), 60_000),
        (503, "61", up_to(60_000), 0),
        (503, "61", ServerDelays::ClampedTo(ms(9_000)), 9_000),
        (503, "5", ServerDelays::Ignored, 0),
    ];
    for (status, retry_after, server_delays, closed) in rows {
        let upstream = told_once(status.try_into().unwrap(), retry_after);
        let client = cooling(exact().server_delays(server_delays), &upstream);
        learn(&client).await;
        get(&client, A).await;
        let shown = format!("{status} {retry_after} {server_delays:?}");
        assert_eq!(at(&upstream), [ms(0), ms(closed)], "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_origins_stay_open() {
    let upstream = told_once(BUSY, "5");
    let client = cooling(exact(), &upstream);
    learn(&client).await;
    get(&client, B).await;
    get(&client, "http://a.test:81/").await;
    assert_eq!(at(&upstream), [ms(0); 3]);
    get(&client, "http://a.test/other").await;
    assert_eq!(at(&upstream)[3], ms(5_000));
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_applications_own_takes_the_place_of_the_origin() {
    let upstream = told_once(LIMITED, "5");
    let cooldown = Cooldown::by_key(|request| {
        Some(request.headers().get("x-customer")?.to_str().ok()?.to_owned())
    });
    let client =
        client_of(exact().build().unwrap(), &upstream, |retry| retry.cooldown(cooldown.clone()));
    let of =
        async |customer, url| client.post(url).header("x-customer", customer).send().await.unwrap();
    of("ann", A).await;
    of("bob", A).await; // is not concerned
    get(&client, A).await; // has no key
    of("ann", B).await; // waits, wherever she goes
    let arrivals = upstream.arrivals();
    let seen: Vec<_> = arrivals.iter().map(|it| (it.customer.as_deref(), it.at)).collect();
    assert_eq!(
        seen,
        [(Some("ann"), ms(0)), (Some("bob"), ms(0)), (None, ms(0)), (Some("ann"), ms(5_000))]
    );
    assert_eq!(format!("{cooldown:?}"), "Cooldown { by: \"key\", closed: 0 }");
}

#[tokio::test(start_paused = true)]
async fn clients_can_share_it() {
    let upstream = told_once(BUSY, "5");
    let cooldown = Cooldown::by_origin();
    let client =
        || client_of(exact().build().unwrap(), &upstream, |retry| retry.cooldown(cooldown.clone()));
    learn(&client()).await;
    assert_eq!(format!("{cooldown:?}"), "Cooldown { by: \"origin\", closed: 1 }");
    get(&client(), A).await;
    assert_eq!(at(&upstream), [ms(0), ms(5_000)]);
    assert_eq!(format!("{cooldown:?}"), "Cooldown { by: \"origin\", closed: 0 }");
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_that_was_asked_for_holds() {
    for (first, second) in [(5, 2), (2, 5)] {
        let told = |seconds: u64| Reply::status(BUSY).header(RETRY_AFTER, seconds).after(ms(10));
        let script = Script::new([told(first), told(second), Reply::status(OK)]);
        let policy = exact().max_attempts(1).build().unwrap();
        let retry = RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin());
        let client = ClientBuilder::new(reqwest::Client::new())
            .with(retry.build().unwrap())
            .with(script.clone())
            .build();
        // Both are on their way before either is answered.
        join(get(&client, A), get(&client, A)).await;
        get(&client, A).await;
        let at: Vec<_> = script.received().iter().map(|received| received.at).collect();
        assert_eq!(at, [ms(0), ms(0), ms(5_010)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resend_waits_too_and_anew_each_time_it_closes() {
    // The server puts everybody off again and again, and another client's call tells us.
    let upstream = Upstream::new(|arrival| match arrival.url.path() {
        "/noise" => (BUSY, Some("4")),
        _ if arrival.resend == 0 => (StatusCode::INTERNAL_SERVER_ERROR, None),
        _ => (OK, None),
    });
    let cooldown = Cooldown::by_origin();
    let policy = exact().server_delays(ServerDelays::UpTo(ms(4_000))).build().unwrap();
    let client = client_of(policy, &upstream, |retry| retry.cooldown(cooldown.clone()));
    // Each of these is sent as soon as the one before lets it, and closes the origin again.
    let noise = async {
        sleep(ms(50)).await;
        for _ in 0..10 {
            client.post("http://a.test/noise").send().await.unwrap();
        }
    };
    let call = async {
        let response = client.get(A).send().await.unwrap();
        (response.status(), upstream.arrivals().iter().find(|it| it.resend == 1).unwrap().at)
    };
    let ((), (status, resent)) = join(noise, call).await;
    assert_eq!(status, OK);
    // Until 4.05 s, until 8.05 s, ...: the limit is that of each closing.
    assert_eq!(resent, ms(40_050));
}

#[tokio::test(start_paused = true)]
async fn the_wait_counts_against_the_deadline() {
    let upstream = told_once(BUSY, "5");
    let client = cooling(exact().deadline(ms(5_000)), &upstream);
    learn(&client).await;
    let tracker = RetryTracker::new();
    let started = Instant::now();
    let error = client.get(A).with_extension(tracker.clone()).send().await.unwrap_err();
    assert_eq!(started.elapsed(), ms(0), "at once");
    let ours = error.retry_error().unwrap();
    assert!(ours.is_held_back() && !ours.is_deadline() && !error.timed_out());
    assert_eq!(
        ours.to_string(),
        "the server asked for quiet for longer than the deadline allows \
         (GET http://a.test, attempts: 0, stop: deadline_would_pass)"
    );
    assert_eq!((ours.attempts(), ours.stop_reason()), (0, Some(StopReason::DeadlineWouldPass)));
    assert_eq!(tracker.history().unwrap().to_string(), "stop: deadline_would_pass");
    assert_eq!(upstream.count(), 1);
    // And it is what the attempt has no more.
    advance(ms(1)).await;
    get(&client, A).await;
    assert_eq!(at(&upstream), [ms(0), ms(5_000)]);
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_could_not_be_in_time_is_not_waited_for() {
    let upstream = Upstream::new(|arrival| match arrival.url.path() {
        "/noise" => (BUSY, Some("5")),
        _ => (StatusCode::BAD_GATEWAY, None),
    });
    let client = cooling(exact().deadline(ms(3_000)), &upstream);
    let noise = || client.post("http://a.test/noise").send();
    // Closed by another request while this one waits.
    let started = Instant::now();
    let (response, _) = join(client.get(A).send(), noise()).await;
    assert_eq!(started.elapsed(), ms(100), "its own wait");
    assert_eq!(stop(&response), Some(StopReason::DeadlineWouldPass));
    let response = response.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "the outcome in hand");
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(
        history.to_string(),
        "attempt 1: status 502; retry in 100.00ms (set by the backoff): status 502\n\
         stop: deadline_would_pass"
    );
    assert_eq!(upstream.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_closed_origin_that_opens_too_late_ends_the_call_at_once() {
    // The one that is answered later finds that the other has closed the origin.
    let script = Script::new([
        Reply::status(StatusCode::BAD_GATEWAY).after(ms(20)),
        Reply::status(BUSY).header(RETRY_AFTER, 5).after(ms(10)),
    ]);
    let policy = exact().deadline(ms(3_000)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin());
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(retry.build().unwrap())
        .with(script.clone())
        .build();
    let started = Instant::now();
    let (response, _) = join(client.get(A).send(), client.post(A).send()).await;
    assert_eq!(started.elapsed(), ms(20), "and not after the backoff");
    assert_eq!(stop(&response), Some(StopReason::DeadlineWouldPass));
    assert_eq!(response.unwrap().status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_ends_the_wait() {
    let upstream = told_once(BUSY, "5");
    let client = cooling(exact(), &upstream);
    learn(&client).await;
    let token = CancellationToken::new();
    let mut call = Box::pin(RetryScope::new().cancel_on(token.clone()).run(client.get(A).send()));
    assert!(poll!(&mut call).is_pending());
    advance(ms(4_000)).await;
    assert!(poll!(&mut call).is_pending());
    token.cancel();
    let error = call.await.unwrap_err();
    let ours = error.retry_error().unwrap();
    assert!(ours.is_cancelled());
    assert_eq!((ours.attempts(), ours.stop_reason()), (0, Some(StopReason::Cancelled)));
    sleep(ms(60_000)).await;
    assert_eq!(upstream.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_while_a_resend_is_held_back_gives_the_outcome() {
    let upstream = Upstream::new(|arrival| match arrival.url.path() {
        "/noise" => (BUSY, Some("5")),
        _ => (StatusCode::BAD_GATEWAY, None),
    });
    let client = cooling(exact(), &upstream);
    let token = CancellationToken::new();
    let mut call = Box::pin(RetryScope::new().cancel_on(token.clone()).run(client.get(A).send()));
    assert!(poll!(&mut call).is_pending());
    client.post("http://a.test/noise").send().await.unwrap();
    advance(ms(2_000)).await; // its own wait is long over
    assert!(poll!(&mut call).is_pending());
    token.cancel();
    let response = call.await;
    assert_eq!(stop(&response), Some(StopReason::Cancelled));
    assert_eq!(response.unwrap().status(), StatusCode::BAD_GATEWAY);
    assert_eq!(upstream.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn keys_beyond_the_bound_are_not_closed_and_old_ones_make_room() {
    let upstream = Upstream::new(|_| (BUSY, Some("5")));
    let cooldown = Cooldown::by_origin();
    let policy = exact().max_attempts(1).build().unwrap();
    let client = client_of(policy, &upstream, |retry| retry.cooldown(cooldown.clone()));
    let origin = |number: usize| format!("http://{number}.test/");
    for number in 0..2_000 {
        get(&client, &origin(number)).await;
    }
    assert_eq!(format!("{cooldown:?}"), "Cooldown { by: \"origin\", closed: 1024 }");
    get(&client, &origin(1_999)).await;
    assert_eq!(upstream.arrivals().last().unwrap().at, ms(0), "not closed");
    get(&client, &origin(0)).await;
    assert_eq!(upstream.arrivals().last().unwrap().at, ms(5_000));
    get(&client, &origin(1_999)).await;
    get(&client, &origin(1_999)).await;
    assert_eq!(upstream.arrivals().last().unwrap().at, ms(10_000), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_lasts_is_sent_little_more_than_its_calls_and_nothing_while_it_is_closed() {
    for (retry_after, seconds) in [("2", 2), ("10", 10), ("60", 60)] {
        let sends = async |with_cooldown: bool| {
            let upstream = Upstream::new(move |arrival| {
                if arrival.at < ms(600_000) { (BUSY, Some(retry_after)) } else { (OK, None) }
            });
            let client = client_of(patient().build().unwrap(), &upstream, |retry| {
                let retry = retry.without_budget();
                if with_cooldown { retry.cooldown(Cooldown::by_origin()) } else { retry }
            });
            // A call a second for five minutes.
            let mut calls = Vec::new();
            for _ in 0..300 {
                let client = client.clone();
                calls.push(tokio::spawn(async move { get(&client, A).await }));
                sleep(ms(1_000)).await;
            }
            let _ = join_all(calls).await;
            let (mut closed_until, mut while_closed) = (ms(0), 0);
            for arrival in upstream.arrivals().iter().filter(|it| it.at < ms(600_000)) {
                while_closed += usize::from(arrival.at < closed_until);
                closed_until = closed_until.max(arrival.at + ms(seconds * 1_000));
            }
            (upstream.count(), while_closed)
        };
        let (with, without) = (sends(true).await, sends(false).await);
        println!("Retry-After {retry_after}: {with:?} with a cooldown, {without:?} without");
        assert_eq!((without.0, with.1), (900, 0));
        assert!(with.0 <= 700, "{with:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_those_that_wait_few_go_again_while_it_closes_anew() {
    for (retry_after, seconds) in [("20", 20), ("60", 60)] {
        let upstream = Upstream::new(move |_| (BUSY, Some(retry_after)));
        let client = cooling(patient().max_attempts(1), &upstream);
        learn(&client).await;
        join_all((0..50).map(|_| get(&client, A))).await;
        let (mut closed_until, mut while_closed) = (ms(0), 0);
        for arrival in upstream.arrivals() {
            while_closed += usize::from(arrival.at < closed_until);
            closed_until = closed_until.max(arrival.at + ms(seconds * 1_000));
        }
        assert_eq!((upstream.count(), while_closed), (51, 0));
    }
}

/// A response that is never read to its end is let go of after a second, however long the wait becomes.
#[tokio::test(start_paused = true)]
async fn no_body_is_held_open_for_as_long_as_an_attempt_is_held_back() {
    let open = Arc::new(());
    let body = open.clone();
    let stalling = move || {
        let body = body.clone();
        reqwest::Body::wrap_stream(stream::once(async move {
            let _open = body;
            pending::<std::io::Result<&str>>().await
        }))
    };
    let retry = RetryMiddleware::builder(exact().build().unwrap()).cooldown(Cooldown::by_origin());
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(retry.build().unwrap())
        .with(Stalling(Box::new(stalling)))
        .build();
    let mut call = Box::pin(client.get(A).send());
    assert!(poll!(&mut call).is_pending());
    client.post("http://a.test/noise").send().await.unwrap();
    let opened = Arc::strong_count(&open);
    advance(ms(999)).await;
    assert!(poll!(&mut call).is_pending());
    assert_eq!(Arc::strong_count(&open), opened);
    advance(ms(2)).await;
    assert!(poll!(&mut call).is_pending());
    assert!(Arc::strong_count(&open) < opened);
}

/// Noise closes for 50 s; all else is a 502 whose body never ends.
struct Stalling(Box<dyn Fn() -> reqwest::Body + Send + Sync>);

#[async_trait]
impl Middleware for Stalling {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let response = http::Response::builder();
        let response = match request.url().path() {
            "/noise" => response.status(BUSY).header(RETRY_AFTER, 50).body("".into()),
            _ => response.status(StatusCode::BAD_GATEWAY).body(self.0()),
        };
        Ok(response.unwrap().into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_all_clocks_closes_for_ever() {
    let upstream = told_once(BUSY, "99999999999999999999");
    let client = cooling(exact().server_delays(ServerDelays::ClampedTo(Duration::MAX)), &upstream);
    learn(&client).await;
    let call = tokio::time::timeout(Duration::from_secs(1_000_000), client.get(A).send());
    assert!(call.await.is_err());
    assert_eq!(upstream.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_the_limit_hides_nothing_that_is_within() {
    let upstream = Upstream::new(|arrival| match arrival.index {
        0 => (BUSY, Some("61")),
        1 => (BUSY, Some("5")),
        _ => (OK, None),
    });
    let client = cooling(exact(), &upstream);
    learn(&client).await;
    learn(&client).await;
    get(&client, A).await;
    assert_eq!(at(&upstream), [ms(0), ms(0), ms(5_000)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_open_again_is_forgotten() {
    let upstream = Upstream::new(|arrival| {
        (BUSY, Some(if arrival.url.host_str() == Some("a.test") { "0" } else { "1" }))
    });
    let cooldown = Cooldown::by_origin();
    let policy = exact().max_attempts(1).build().unwrap();
    let client = client_of(policy, &upstream, |retry| retry.cooldown(cooldown.clone()));
    let closed = || format!("{cooldown:?}").replace("Cooldown { by: \"origin\", closed: ", "");
    get(&client, A).await;
    assert_eq!(closed(), "0 }", "no delay at all");
    for number in 0..100 {
        get(&client, &format!("http://{number}.test/")).await;
    }
    assert_eq!(closed(), "100 }");
    advance(ms(3_600_000)).await;
    get(&client, A).await; // another's
    assert_eq!(closed(), "0 }");
}

#[tokio::test(start_paused = true)]
async fn the_spread_ends_where_the_deadline_is() {
    let upstream = told_once(BUSY, "50");
    // Opens at 50 s, for each within five seconds; there is one.
    let client = cooling(RetryPolicy::builder().deadline(ms(51_000)), &upstream);
    learn(&client).await;
    assert_eq!(join_all((0..50).map(|_| get(&client, A))).await, [200; 50]);
    let arrivals = at(&upstream);
    assert!(arrivals[1..].iter().all(|at| (ms(50_000)..ms(51_000)).contains(at)), "{arrivals:?}");
}

/// The history shows that an attempt was held back, though its number does not.
#[tokio::test(start_paused = true)]
async fn the_history_shows_when_an_attempt_was_sent() {
    let upstream = Upstream::new(|arrival| match arrival.index {
        0 => (BUSY, Some("3")),
        1 => (StatusCode::BAD_GATEWAY, None),
        _ => (OK, None),
    });
    let client = cooling(exact(), &upstream);
    learn(&client).await;
    let response = client.get(A).send().await.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(
        history.to_string(),
        "attempt 1 after 3.00s: status 502; retry in 100.00ms (set by the backoff): status 502\n\
         attempt 2 after 3.10s: status 200; stop: completed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_is_made_of_the_request_as_the_caller_made_it() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keys = seen.clone();
    let cooldown = Cooldown::by_key(move |request| {
        keys.lock().unwrap().push(request.timeout().copied());
        None
    });
    let policy = exact().attempt_timeout(ms(10_000)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).cooldown(cooldown).build().unwrap();
    let script = Script::always(Reply::status(OK));
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(script).build();
    client.get(A).send().await.unwrap();
    client.get(A).timeout(ms(60_000)).send().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [None, Some(ms(60_000))]);
}

#[tokio::test(start_paused = true)]
async fn an_only_attempt_that_was_held_back_started_when_it_was_sent() {
    let upstream = told_once(BUSY, "5");
    let policy = patient().max_attempts(1).build().unwrap();
    let client =
        client_of(policy, &upstream, |retry| retry.cooldown(Cooldown::by_origin()).wrap_errors());
    client.get(A).send().await.unwrap();
    let tracker = RetryTracker::new();
    client.get(A).with_extension(tracker.clone()).send().await.unwrap();
    assert!(tracker.history().unwrap().attempts()[0].started() >= ms(5_000));
}

/// Or a server that keeps asking for quiet would hold calls for as long as it likes.
#[test]
fn each_policy_of_a_client_that_cools_down_has_a_deadline() {
    let endless = || RetryPolicy::builder().build().unwrap();
    let health = |policy| Endpoint::named("health").path("/health").policy(policy).build().unwrap();
    let refused = |retry: RetryMiddlewareBuilder| {
        retry.cooldown(Cooldown::by_origin()).build().map_err(|error| error.setting().to_owned())
    };
    let patient = || RetryMiddleware::builder(patient().build().unwrap());
    let setting = refused(RetryMiddleware::builder(endless())).unwrap_err();
    assert_eq!(setting, "policy.deadline");
    let setting = refused(patient().endpoint(health(endless()))).unwrap_err();
    assert_eq!(setting, "endpoint.health.policy.deadline");
    assert!(refused(patient()).is_ok());
    assert!(RetryMiddleware::builder(endless()).endpoint(health(endless())).build().is_ok());
}
