//! The retry budget.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use futures_util::{FutureExt as _, poll};
use http::{Method, StatusCode};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, FaultKind, Jitter, ReplayBody, RetryBudget, RetryErrorExt as _, RetryMiddleware,
    RetryPolicy, RetryPolicyBuilder, RetryReason, RetryRequestExt as _, RetryScope, RetryTracker,
    ServerDelays, StatusSet, StopReason,
};
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use super::{A, B, BUSY, LIMITED, OK, Upstream, client, client_of, get, ms, stop, tokens, url};

/// Sick until it is told to be well.
fn patient() -> (Upstream, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(false));
    let state = is_well.clone();
    let rule = move |_: &_| (if state.load(Ordering::SeqCst) { OK } else { BUSY }, None);
    (Upstream::new(rule), is_well)
}

// F121
#[tokio::test(start_paused = true)]
async fn a_hundred_calls_and_five_tokens_are_a_hundred_and_five_sends() {
    let upstream = Upstream::always(BUSY);
    let client = client(&upstream, |retry| retry.budget(tokens(5)));
    for _ in 0..100 {
        assert_eq!(get(&client, A).await, 503);
    }
    assert_eq!(upstream.count(), 105);
}

#[tokio::test(start_paused = true)]
async fn every_client_has_a_budget_of_its_own_of_a_hundred_tokens() {
    let upstream = Upstream::always(BUSY);
    for clients in 1..=2 {
        let client = client(&upstream, |retry| retry);
        join_all((0..2_000).map(|_| get(&client, A))).await;
        assert_eq!(upstream.count(), clients * 2_100);
    }
    let client = client(&upstream, |retry| retry.without_budget());
    join_all((0..2_000).map(|_| get(&client, A))).await;
    assert_eq!(upstream.count(), 2 * 2_100 + 3 * 2_000, "without one, the number of attempts");
}

#[tokio::test(start_paused = true)]
async fn a_budget_can_be_shared() {
    let upstream = Upstream::always(BUSY);
    let budget = tokens(10);
    for _ in 0..4 {
        let client = client(&upstream, |retry| retry.budget(budget.clone()));
        join_all((0..50).map(|_| get(&client, A))).await;
    }
    assert_eq!(upstream.count(), 4 * 50 + 10);
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (0.0, 1));
}

// F124
#[tokio::test(start_paused = true)]
async fn without_a_token_the_outcome_comes_back_as_it_is_and_the_history_says_why() {
    let upstream = Upstream::new(|_| (BUSY, Some("7")));
    let budget = tokens(0);
    let client_0 = client(&upstream, |retry| retry.budget(budget.clone()));
    let started = Instant::now();
    let response = client_0.get(A).send().await;
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (0.0, 0), "nothing is kept");
    assert_eq!(started.elapsed(), ms(0));
    assert_eq!(stop(&response), Some(StopReason::BudgetExhausted));
    let response = response.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["retry-after"]),
        (BUSY, &"7".parse().unwrap())
    );
    let history = response.extensions().get::<reqwest_typed_retry::RetryHistory>().unwrap();
    assert_eq!(
        history.to_string(),
        "attempt 1: status 503; stop: budget_exhausted (the client's own retry budget is empty)"
    );

    // An error, too.
    let script = Script::always(Reply::connect_error());
    let retry = RetryMiddleware::builder(RetryPolicy::default()).budget(tokens(0)).build().unwrap();
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(retry)
        .with(script.clone())
        .build();
    let tracker = RetryTracker::new();
    let error = client.get(A).with_extension(tracker.clone()).send().await.unwrap_err();
    assert!(error.reqwest_error().unwrap().is_connect() && error.is_connect());
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::BudgetExhausted);
    assert_eq!(script.received().len(), 1);
}

// F120
#[tokio::test(start_paused = true)]
async fn five_answers_are_a_resend() {
    let (upstream, is_well) = patient();
    let budget = tokens(3);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    for _ in 0..3 {
        get(&client, A).await;
    }
    assert_eq!((upstream.count(), budget.level(&url(A))), (6, 0.0));

    is_well.store(true, Ordering::SeqCst);
    for answers in 1..=4 {
        assert_eq!(get(&client, A).await, 200);
        assert_eq!(budget.level(&url(A)), f64::from(2 * answers) / 10.0);
    }
    is_well.store(false, Ordering::SeqCst);
    get(&client, A).await;
    assert_eq!(upstream.count(), 6 + 4 + 1, "four are not enough");
    is_well.store(true, Ordering::SeqCst);
    get(&client, A).await;
    assert_eq!(budget.level(&url(A)), 1.0);
    is_well.store(false, Ordering::SeqCst);
    get(&client, A).await;
    assert_eq!((upstream.count(), budget.level(&url(A))), (6 + 4 + 1 + 1 + 2, 0.0));

    // Until it is full, and then nothing is kept of it.
    is_well.store(true, Ordering::SeqCst);
    for answers in 1..=15 {
        assert_eq!(budget.sick_origins(), 1);
        get(&client, A).await;
        assert_eq!(budget.level(&url(A)), f64::from(2 * answers) / 10.0);
    }
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (3.0, 0));
}

// F120
#[tokio::test(start_paused = true)]
async fn a_minute_without_a_debit_is_a_full_budget() {
    let upstream = Upstream::always(BUSY);
    let budget = tokens(4);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    for _ in 0..4 {
        get(&client, A).await;
    }
    let drained = Instant::now();
    // Calls that are refused a token are no debits.
    for _ in 0..50 {
        advance(ms(1_000)).await;
        get(&client, A).await;
    }
    assert_eq!((upstream.count(), budget.level(&url(A))), (8 + 50, 0.0));
    // The waits were before the last two attempts; the last debit was within that time.
    while drained.elapsed() < ms(60_000) {
        advance(ms(100)).await;
    }
    assert_eq!(budget.level(&url(A)), 4.0);
    get(&client, A).await;
    assert_eq!(upstream.count(), 58 + 3, "it may send again");
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_lasts_costs_a_bucket_a_minute() {
    let upstream = Upstream::always(BUSY);
    let client = client(&upstream, |retry| retry);
    // Ten calls a second for ten minutes.
    for _ in 0..6_000 {
        let call = client.get(A).send();
        tokio::spawn(async move { call.await.unwrap() });
        sleep(ms(100)).await;
    }
    sleep(ms(60_000)).await;
    let resends = upstream.count() - 6_000;
    assert!((900..=1_000).contains(&resends), "{resends}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_seldom_is_not_locked_out() {
    // One call a minute and a half, and each needs a resend.
    let upstream =
        Upstream::new(|arrival| if arrival.resend < 2 { (BUSY, None) } else { (OK, None) });
    let client = client(&upstream, |retry| retry.budget(tokens(2)));
    for _ in 0..100 {
        assert_eq!(get(&client, A).await, 200);
        sleep(ms(90_000)).await;
    }
    assert_eq!(upstream.count(), 300);
}

#[tokio::test(start_paused = true)]
async fn one_sick_origin_does_not_starve_another() {
    let upstream = Upstream::new(|arrival| {
        let sick = arrival.url.host_str() == Some("a.test");
        (if sick || arrival.resend == 0 { BUSY } else { OK }, None)
    });
    let budget = RetryBudget::default();
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    join_all((0..500).map(|_| get(&client, A))).await;
    assert_eq!(budget.level(&url(A)), 0.0);
    // The port is part of an origin, the path and the user are not.
    for other in [B, "https://a.test/", "http://a.test:8080/"] {
        assert_eq!(budget.level(&url(other)), 100.0);
    }
    assert_eq!(budget.level(&url("http://user:secret@a.test/path?query")), 0.0);
    assert_eq!(join_all((0..100).map(|_| get(&client, B))).await, [200; 100]);
    assert!(!format!("{budget:?}").contains("test"), "{budget:?}");
}

/// What a resend does to the budget, by what it brings.
#[tokio::test(start_paused = true)]
async fn a_token_comes_back_with_an_answer_that_is_not_transient() {
    for (second, left) in
        [(200, 10.0), (304, 10.0), (404, 10.0), (403, 10.0), (503, 8.0), (500, 8.0)]
    {
        let second = second.try_into().unwrap();
        let upstream =
            Upstream::new(move |arrival| (if arrival.resend == 0 { BUSY } else { second }, None));
        let budget = tokens(10);
        let client = client(&upstream, |retry| retry.budget(budget.clone()));
        get(&client, A).await;
        assert_eq!(budget.level(&url(A)), left, "{second}");
        assert_eq!(budget.sick_origins(), usize::from(left < 10.0));
    }
}

/// Where a resend that comes to nothing was the last to be answered, its token is spent, and no other.
#[tokio::test(start_paused = true)]
async fn each_resend_that_failed_is_spent_and_the_one_that_succeeded_is_not() {
    let upstream = Upstream::new(|arrival| (if arrival.resend < 2 { BUSY } else { OK }, None));
    let budget = tokens(10);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    get(&client, A).await;
    // Two taken, one given back, and a fifth for the answer.
    assert_eq!(budget.level(&url(A)), 9.2);
}

#[tokio::test(start_paused = true)]
async fn a_fault_gives_nothing_whatever_the_policy_thinks_of_it() {
    // A refused certificate or bad data is permanent, and no sign of health.
    let budget = tokens(2);
    let (drained, is_well) = patient();
    let client = client(&drained, |retry| retry.budget(budget.clone()));
    get(&client, A).await;
    assert_eq!(budget.level(&url(A)), 0.0);
    let script = Script::always(Reply::connect_error());
    let permanent = RetryPolicy::builder()
        .retry_faults(reqwest_typed_retry::FaultSet::transient().without(FaultKind::Connect))
        .build()
        .unwrap();
    let retry = RetryMiddleware::builder(permanent).budget(budget.clone()).build().unwrap();
    let faulty = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(retry)
        .with(script.clone())
        .build();
    faulty.get(A).send().await.unwrap_err();
    assert_eq!((script.received().len(), budget.level(&url(A))), (1, 0.0));
    is_well.store(true, Ordering::SeqCst);
    get(&client, A).await;
    assert_eq!(budget.level(&url(A)), 0.2);
}

/// Who paces a resend, and what it takes: the server's own pace is free, where it is kept.
#[tokio::test(start_paused = true)]
async fn only_a_limited_request_whose_wait_the_server_set_is_free() {
    let clamped = |longest| ServerDelays::ClampedTo(ms(longest));
    let rows = [
        (LIMITED, Some("3"), ServerDelays::UpTo(ms(60_000)), 10.0),
        (LIMITED, None, ServerDelays::UpTo(ms(60_000)), 9.0),
        (LIMITED, Some("0"), ServerDelays::UpTo(ms(60_000)), 9.0),
        (BUSY, Some("3"), ServerDelays::UpTo(ms(60_000)), 9.0),
        (LIMITED, Some("3"), ServerDelays::Ignored, 9.0),
        (LIMITED, Some("3"), clamped(3_000), 10.0),
        (LIMITED, Some("3"), clamped(2_000), 9.0),
    ];
    for (status, retry_after, server_delays, left) in rows {
        let upstream = Upstream::new(move |_| (status, retry_after));
        let budget = tokens(10);
        let policy =
            RetryPolicy::builder().max_attempts(2).server_delays(server_delays).build().unwrap();
        let client = client_of(policy, &upstream, |retry| retry.budget(budget.clone()));
        get(&client, A).await;
        assert_eq!(upstream.count(), 2);
        let level = budget.level(&url(A));
        assert_eq!(level, left, "{status} {retry_after:?} {server_delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_300_limited_requests_that_the_server_paces_none_is_lost() {
    let limited = |retry_after| {
        Upstream::new(
            move |arrival| {
                if arrival.resend == 0 { (LIMITED, retry_after) } else { (OK, None) }
            },
        )
    };
    let (paced, budget) = (limited(Some("2")), RetryBudget::default());
    let client_1 = client(&paced, |retry| retry.budget(budget.clone()));
    assert_eq!(join_all((0..300).map(|_| get(&client_1, A))).await, [200; 300]);
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (100.0, 0));
    // Those that are not paced are.
    let client_2 = client(&limited(None), |retry| retry);
    let answers = join_all((0..300).map(|_| get(&client_2, A))).await;
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 100);
}

// F101
#[tokio::test(start_paused = true)]
async fn a_resend_that_is_never_sent_gives_its_token_back() {
    let upstream = Upstream::always(BUSY);
    let budget = tokens(10);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    // Dropped.
    let mut calls: Vec<_> = (0..10).map(|_| Box::pin(client.get(A).send())).collect();
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    assert_eq!(budget.level(&url(A)), 0.0);
    drop(calls);
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (10.0, 0));

    // Cancelled.
    let token = CancellationToken::new();
    let mut call = Box::pin(RetryScope::new().cancel_on(token.clone()).run(client.get(A).send()));
    assert!(poll!(&mut call).is_pending());
    assert_eq!(budget.level(&url(A)), 9.0);
    token.cancel();
    assert_eq!(stop(&call.await), Some(StopReason::Cancelled));
    assert_eq!((budget.level(&url(A)), upstream.count()), (10.0, 11));

    // Its body could not be made.
    let calls = AtomicUsize::new(0);
    let request = client.put(A).body_factory(move || {
        let first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { Ok(ReplayBody::new("body")) } else { Err("gone".into()) } }
    });
    assert!(request.send().await.unwrap_err().retry_error().unwrap().is_body());
    assert_eq!((budget.level(&url(A)), upstream.count()), (10.0, 12));
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_was_dropped_on_the_wire_is_spent() {
    let script = Script::new([Reply::status(BUSY), Reply::status(OK).after(ms(10_000))]);
    let budget = tokens(10);
    let retry =
        RetryMiddleware::builder(RetryPolicy::default()).budget(budget.clone()).build().unwrap();
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(retry)
        .with(script.clone())
        .build();
    tokio::time::timeout(ms(1_000), client.get(A).send()).await.unwrap_err();
    assert_eq!((script.received().len(), budget.level(&url(A))), (2, 9.0));
}

/// What needs no token takes none.
#[tokio::test(start_paused = true)]
async fn only_a_resend_takes_a_token() {
    let upstream = Upstream::always(BUSY);
    let budget = tokens(10);
    let client_1 = client(&upstream, |retry| retry.budget(budget.clone()));
    client_1.request(Method::POST, A).send().await.unwrap();
    let deadline = RetryScope::new().deadline_in(ms(1));
    deadline.run(client_1.get(A).send()).await.unwrap();
    let never = RetryScope::new().policy(RetryPolicy::never());
    never.run(client_1.get(A).send()).await.unwrap();
    let stream =
        reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("")]));
    client_1.put(A).body(stream).send().await.unwrap();
    assert_eq!((upstream.count(), budget.level(&url(A)), budget.sick_origins()), (4, 10.0, 0));
}

/// Whoever shares a budget fills it too: also by requests that are never sent again, and are not kept.
#[tokio::test(start_paused = true)]
async fn answers_to_requests_that_are_not_kept_count() {
    let upstream = Upstream::new(|arrival| {
        let is_sick = arrival.url.path() == "/sick";
        (
            if is_sick {
                BUSY
            } else if arrival.index % 2 == 0 {
                OK
            } else {
                StatusCode::NOT_FOUND
            },
            None,
        )
    });
    let budget = tokens(2);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    get(&client, "http://a.test/sick").await;
    assert_eq!(budget.level(&url(A)), 0.0);
    let mut level = 0.0;
    for _ in 0..4 {
        client.post(A).body("").send().await.unwrap();
        level += 0.2;
        assert!((budget.level(&url(A)) - level).abs() < 1e-9);
    }
    let never = RetryScope::new().policy(RetryPolicy::never());
    never.run(client.get(A).send()).await.unwrap();
    assert_eq!(budget.level(&url(A)), 1.0);
}

#[tokio::test(start_paused = true)]
async fn state_is_bounded_however_many_origins_are_sick() {
    const ORIGINS: usize = 5_000;
    let upstream = Upstream::always(BUSY);
    let budget = tokens(2);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let origins: Vec<_> = (0..ORIGINS).map(|number| format!("http://{number}.test/")).collect();
    join_all(origins.iter().map(|origin| get(&client, origin))).await;
    // Those for which there was no room shared one bucket.
    assert_eq!(budget.sick_origins(), 1_025);
    assert_eq!(upstream.count(), ORIGINS + 2 * 1_025);
    // None of it stays: one call after a minute is enough.
    sleep(ms(60_000)).await;
    get(&client, "http://another.test/").await;
    assert_eq!(budget.sick_origins(), 1);
}

#[test]
fn the_settings_are_checked_and_named() {
    let share = |share| RetryBudget::builder().refill_per_answer(share).build();
    for (wrong, shown) in [
        (-0.1, "-0.1"),
        (1.1, "1.1"),
        (0.000_5, "0.0005"),
        (1e-10, "1e-10"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        let error = share(wrong).unwrap_err();
        assert_eq!(error.setting(), "refill_per_answer");
        let rule = "but it must be between 0 and 1, in whole thousandths";
        assert_eq!(error.to_string(), format!("refill_per_answer is {shown}, {rule}"));
    }
    for right in [0.0, -0.0, 0.001, 0.1, 0.2, 0.3, 0.007, 0.999, 1.0] {
        assert!(share(right).is_ok(), "{right}");
    }
    let error = RetryBudget::builder().refill_after(ms(999)).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "refill_after is 999ms, but it must be at least 1s: less would leave no budget"
    );
    assert!(RetryBudget::builder().refill_after(ms(1_000)).capacity(u32::MAX).build().is_ok());
}

// F121
#[test]
fn debug_shows_the_budget() {
    let shown = format!("{:?}", RetryMiddleware::default());
    let budget = "budget: Some(RetryBudget { capacity: 100, refill_per_answer: 0.2, \
                  refill_after: 60s, sick_origins: 0 })";
    assert!(shown.contains(budget), "{shown}");
    let without = RetryMiddleware::builder(RetryPolicy::default()).without_budget();
    assert!(format!("{without:?}").contains("budget: None"), "{without:?}");
}

// F126
#[tokio::test(start_paused = true)]
async fn clients_that_failed_together_do_not_come_back_together() {
    // Each with its own jitter, by default; with and without a server's delay.
    for (retry_after, earliest, width) in [(None, 50, 50), (Some("2"), 2_000, 200)] {
        let upstream =
            Upstream::new(
                move |arrival| {
                    if arrival.resend == 0 { (BUSY, retry_after) } else { (OK, None) }
                },
            );
        let http = reqwest::Client::new();
        let clients = (0..200).map(|_| {
            reqwest_middleware::ClientBuilder::new(http.clone())
                .with(RetryMiddleware::default())
                .with(upstream.clone())
                .build()
        });
        let clients: Vec<_> = clients.collect();
        join_all(clients.iter().map(|client| get(client, A))).await;
        let again: Vec<_> =
            upstream.arrivals().iter().filter(|it| it.resend == 1).map(|it| it.at).collect();
        let (first, last) = (again.iter().min().unwrap(), again.iter().max().unwrap());
        assert_eq!(again.len(), 200);
        assert!(*first >= ms(earliest) && *last <= ms(earliest + width + 1), "{first:?} {last:?}");
        assert!(*last - *first > ms(width / 2), "{first:?} {last:?}");
    }
}

// F129, by request; by endpoint it is in `tests/endpoints`
#[tokio::test(start_paused = true)]
async fn a_policy_for_one_server_sends_nothing_again_to_another() {
    let upstream = Upstream::new(|arrival| (if arrival.index == 0 { BUSY } else { OK }, None));
    let client = client_of(RetryPolicy::never(), &upstream, |retry| retry);
    let scope = || RetryScope::new().policy(RetryPolicy::default());
    let (a, b) = tokio::join!(client.get(B).send(), scope().run(client.get(A).send()));
    assert_eq!((a.unwrap().status(), b.unwrap().status()), (BUSY, OK));
    assert_eq!(upstream.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_last_reason_is_the_budget_also_after_a_resend() {
    let upstream = Upstream::always(BUSY);
    let client = client(&upstream, |retry| retry.budget(tokens(1)));
    let response = client.get(A).send().await;
    assert_eq!(stop(&response), Some(StopReason::BudgetExhausted));
    let response = response.unwrap();
    let history = response.extensions().get::<reqwest_typed_retry::RetryHistory>().unwrap();
    let reasons: Vec<_> =
        history.attempts().iter().map(|attempt| attempt.decision().retry_reason()).collect();
    assert_eq!(reasons, [Some(RetryReason::Status(BUSY)), None]);
}

/// Tokens that wait keep a bucket from being filled by time: or the resends of several would come together.
#[tokio::test(start_paused = true)]
async fn long_waits_do_not_add_up_buckets() {
    let upstream = Upstream::new(|arrival| (BUSY, (arrival.url.path() == "/long").then_some("60")));
    let policy = RetryPolicy::builder().max_attempts(2).jitter(Jitter::None).build().unwrap();
    let budget = RetryBudget::default();
    let client = client_of(policy, &upstream, |retry| retry.budget(budget.clone()));
    for _ in 0..100 {
        let client = client.clone();
        tokio::spawn(async move { get(&client, "http://a.test/long").await });
    }
    sleep(ms(60_000)).await;
    join_all((0..100).map(|_| get(&client, A))).await;
    let resends = || upstream.arrivals().iter().filter(|it| it.resend > 0).count();
    assert_eq!(resends(), 0, "a minute after they were taken, but they are not used yet");
    sleep(ms(1)).await;
    assert_eq!(resends(), 100);
    sleep(ms(59_900)).await;
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (0.0, 1));
    sleep(ms(100)).await;
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (100.0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_call_that_is_dropped_late_makes_no_new_one() {
    let upstream =
        Upstream::new(|arrival| (BUSY, (arrival.url.path() == "/long").then_some("100")));
    let policy = RetryPolicy::builder()
        .server_delays(ServerDelays::UpTo(ms(200_000)))
        .max_attempts(2)
        .build()
        .unwrap();
    let budget = tokens(10);
    let client = client_of(policy, &upstream, |retry| retry.budget(budget.clone()));
    let mut long: Vec<_> =
        (0..10).map(|_| Box::pin(client.get("http://a.test/long").send())).collect();
    for call in &mut long {
        assert!(poll!(call).is_pending());
    }
    sleep(ms(61_000)).await;
    join_all((0..20).map(|_| get(&client, A))).await;
    drop(long);
    join_all((0..20).map(|_| get(&client, A))).await;
    assert_eq!(upstream.arrivals().iter().filter(|it| it.resend > 0).count(), 10);
}

/// What a proxy says of a dead server is no sign of its health, whether or not a policy lists it.
#[tokio::test(start_paused = true)]
async fn no_answer_of_a_sick_server_fills_the_budget() {
    for other in [521, 501, 505, 507, 529] {
        let other = StatusCode::from_u16(other).unwrap();
        let upstream =
            Upstream::new(move |arrival| (if arrival.index % 2 == 0 { BUSY } else { other }, None));
        let client = client(&upstream, |retry| retry);
        join_all((0..1_000).map(|_| get(&client, A))).await;
        assert_eq!(upstream.count(), 1_100, "{other}");
    }
    // Nor is what another policy makes of a 503 or a 429.
    for sick in [BUSY, LIMITED] {
        let budget = tokens(10);
        let upstream = Upstream::always(sick);
        let default = client(&upstream, |retry| retry.budget(budget.clone()));
        let lists_nothing =
            RetryPolicy::builder().retry_statuses(StatusSet::empty()).build().unwrap();
        let lists_nothing =
            client_of(lists_nothing, &upstream, |retry| retry.budget(budget.clone()));
        for _ in 0..100 {
            get(&default, A).await;
            get(&lists_nothing, A).await;
        }
        assert_eq!(upstream.arrivals().iter().filter(|it| it.resend > 0).count(), 10);
    }
}

/// What a resend took before is spent, whoever paces the next.
#[tokio::test(start_paused = true)]
async fn a_paced_resend_after_one_that_failed_leaves_that_one_spent() {
    let upstream = Upstream::new(|arrival| match arrival.resend {
        0 => (BUSY, None),
        1 => (LIMITED, Some("1")),
        _ => (OK, None),
    });
    let budget = tokens(10);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    assert_eq!(get(&client, A).await, 200);
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (9.2, 1));
    sleep(ms(60_000)).await;
    assert_eq!((budget.level(&url(A)), budget.sick_origins()), (10.0, 0));
}

/// Until its body is made, a resend is not sent.
#[tokio::test(start_paused = true)]
async fn a_resend_that_ends_in_its_body_factory_takes_nothing() {
    let upstream = Upstream::always(BUSY);
    let budget = tokens(10);
    let quick = RetryPolicy::builder().backoff(Backoff::constant(ms(0)));
    let put = |policy: RetryPolicyBuilder, panics: bool| {
        let policy = policy.build().unwrap();
        let client = client_of(policy, &upstream, |retry| retry.budget(budget.clone()));
        let calls = AtomicUsize::new(0);
        client.put(A).body_factory(move || {
            let is_resend = calls.fetch_add(1, Ordering::SeqCst) > 0;
            async move {
                if is_resend {
                    assert!(!panics, "by the factory");
                    sleep(ms(10_000)).await;
                }
                Ok(ReplayBody::new("body"))
            }
        })
    };
    let level = || budget.level(&url(A));
    tokio::time::timeout(ms(1_000), put(quick.clone(), false).send()).await.unwrap_err();
    assert_eq!(level(), 10.0, "dropped");
    put(quick.clone().deadline(ms(1_000)), false).send().await.unwrap_err();
    assert_eq!(level(), 10.0, "the deadline passed");
    put(quick.clone().head_timeout(ms(1_000)), false).send().await.unwrap_err();
    assert_eq!(level(), 10.0, "two head timeouts passed");
    AssertUnwindSafe(put(quick.clone(), true).send()).catch_unwind().await.unwrap_err();
    assert_eq!(level(), 10.0, "it panicked");
    assert_eq!(upstream.count(), 4, "none of them was sent again");
    // One that is made in time is sent, and given back if it is answered.
    let fine = Upstream::new(|arrival| (if arrival.resend == 0 { BUSY } else { OK }, None));
    let policy = quick.clone().build().unwrap();
    let client = client_of(policy, &fine, |retry| retry.budget(budget.clone()));
    let request = client.put(A).body_factory(|| async { Ok(ReplayBody::new("body")) });
    assert_eq!(request.send().await.unwrap().status(), OK);
    assert_eq!((level(), budget.sick_origins()), (10.0, 0));
    // Else it is spent.
    let response = put(quick, false).send().await;
    assert_eq!((stop(&response), level()), (Some(StopReason::AttemptsExhausted), 8.0));
}
