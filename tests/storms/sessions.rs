//! A loop of the application's own and the middleware draw on one budget.

use std::io;
use std::panic::AssertUnwindSafe;

use futures_util::future::join;
use futures_util::poll;
use http::StatusCode;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, Backoff, RetryBudget, RetryDecision, RetryMiddleware, RetryPolicy,
    RetryRequestExt as _, RetryScope, SharedSession, StopReason,
};

use tokio_util::sync::CancellationToken;

use super::{A, B, BUSY, OK, Upstream, client, get, stop, tokens, url};

fn cut() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

fn session() -> SharedSession {
    let nothing = Backoff::constant(super::ms(0));
    SharedSession::new(RetryPolicy::builder().max_attempts(100).backoff(nothing).build().unwrap())
}

fn level(budget: &RetryBudget) -> f64 {
    budget.level(&url(A))
}

/// Downloads for ever, as the body is cut each time.
async fn download(upstream: &Upstream, budget: &RetryBudget) -> (u32, StopReason) {
    let (client, session) = (client(upstream, |retry| retry.budget(budget.clone())), session());
    loop {
        client.get(A).retry_session(&session).send().await.unwrap();
        if let RetryDecision::DoNotRetry { reason, .. } = session.decide_after(&cut()) {
            return (session.attempts(), reason);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cuts_that_the_loop_sees_spend_the_tokens() {
    let (upstream, budget) = (Upstream::always(OK), tokens(5));
    // Every head is a good answer, and none of them counts: the body is what fails.
    assert_eq!(download(&upstream, &budget).await, (6, StopReason::BudgetExhausted));
    assert_eq!((upstream.count(), level(&budget)), (6, 0.0));
    // The next one finds nothing.
    assert_eq!(download(&upstream, &budget).await, (1, StopReason::BudgetExhausted));
}

#[tokio::test(start_paused = true)]
async fn the_middlewares_resends_and_the_loops_are_counted_together() {
    let upstream = Upstream::new(|arrival| (if arrival.index % 2 == 0 { BUSY } else { OK }, None));
    let budget = tokens(7);
    // 503, 200 cut, 503, 200 cut ...: each send but the first takes one.
    assert_eq!(download(&upstream, &budget).await, (8, StopReason::BudgetExhausted));
    assert_eq!((upstream.count(), level(&budget)), (8, 0.0));
}

#[tokio::test(start_paused = true)]
async fn what_is_read_whole_gives_its_token_back_at_the_end_of_the_session() {
    let (upstream, budget) = (Upstream::always(OK), tokens(5));
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let session = session();
    for attempt in 1..=3 {
        client.get(A).retry_session(&session).send().await.unwrap();
        if attempt < 3 {
            assert!(session.decide_after(&cut()).delay().is_some());
            assert_eq!(level(&budget), 5.0 - f64::from(attempt));
        }
    }
    let clone = session.clone();
    drop(session);
    assert_eq!(level(&budget), 3.0, "somebody may still tell of a cut");
    drop(clone);
    assert_eq!(level(&budget), 4.2, "the one that was cut is spent");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_sent_after_all_gives_its_token_back() {
    let (upstream, budget) = (Upstream::always(OK), tokens(5));
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let session = session();
    client.get(A).retry_session(&session).send().await.unwrap();
    assert!(session.decide_after(&cut()).delay().is_some());
    assert_eq!(level(&budget), 4.0);
    drop(session);
    assert_eq!((level(&budget), budget.sick_origins()), (5.0, 0));
}

/// A call that was dropped on the wire takes its account with it; the loop opens another.
#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_no_way_round_the_budget() {
    let (upstream, budget) = (Upstream::always(BUSY), tokens(2));
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let slow = Backoff::constant(super::ms(1_000));
    let policy = RetryPolicy::builder().max_attempts(100).backoff(slow).build().unwrap();
    let session = SharedSession::new(policy);
    let mut decisions = Vec::new();
    for _ in 0..4 {
        let call = client.get(A).retry_session(&session).send();
        // Dropped in the wait of the middleware, if there is one.
        let _ = tokio::time::timeout(super::ms(1), call).await;
        decisions.push(session.decide_after(&cut()).stop_reason());
    }
    let exhausted = Some(StopReason::BudgetExhausted);
    assert_eq!(decisions, [None, None, exhausted, exhausted]);
    assert_eq!(level(&budget), 0.0);
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_nothing_ends_the_loop_but_the_policy() {
    let upstream = Upstream::always(OK);
    let (client, session) = (client(&upstream, |retry| retry.without_budget()), session());
    loop {
        client.get(A).retry_session(&session).send().await.unwrap();
        if let RetryDecision::DoNotRetry { reason, .. } = session.decide_after(&cut()) {
            assert_eq!(reason, StopReason::AttemptsExhausted);
            break;
        }
    }
    assert_eq!(upstream.count(), 100);
}

/// A session that goes on elsewhere pays there, and by the budget of the client that it goes by.
#[tokio::test(start_paused = true)]
async fn a_token_is_of_the_origin_and_the_budget_that_the_request_is_of() {
    let upstream =
        Upstream::new(|it| (if it.url.host_str() == Some("b.test") { BUSY } else { OK }, None));
    let budget = tokens(5);
    let client_1 = client(&upstream, |retry| retry.budget(budget.clone()));
    let session_1 = session();
    client_1.get(A).retry_session(&session_1).send().await.unwrap();
    assert!(session_1.decide_after(&cut()).delay().is_some());
    assert_eq!(level(&budget), 4.0);
    // The mirror has a bucket of its own; what was taken here is given back.
    client_1.get(B).retry_session(&session_1).send().await.unwrap();
    assert_eq!((level(&budget), budget.level(&url(B))), (5.0, 0.0));

    let none_left = client(&upstream, |retry| retry.budget(tokens(0)));
    let without = client(&upstream, |retry| retry.without_budget());
    let session_2 = session();
    none_left.get(B).retry_session(&session_2).send().await.unwrap();
    let response = without.get(B).retry_session(&session_2).send().await;
    assert_eq!(stop(&response), Some(StopReason::AttemptsExhausted));
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_the_loop_that_comes_to_nothing_takes_nothing() {
    let (upstream, budget) = (Upstream::always(OK), tokens(10));
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let slow = Backoff::constant(super::ms(1_000));
    let session =
        SharedSession::new(RetryPolicy::builder().max_attempts(3).backoff(slow).build().unwrap());
    client.get(A).retry_session(&session).send().await.unwrap();
    // Dropped: again and again, or the attempts would run out.
    for _ in 0..5 {
        let wait = tokio::time::timeout(super::ms(10), session.resend_after(cut()));
        wait.await.unwrap_err();
        assert_eq!((level(&budget), session.attempts()), (10.0, 1));
    }
    // Cancelled.
    let token = CancellationToken::new();
    let scope = RetryScope::new().cancel_on(token.clone());
    let mut wait = Box::pin(scope.run(session.resend_after(cut())));
    assert!(poll!(&mut wait).is_pending());
    assert_eq!((level(&budget), session.attempts()), (9.0, 2));
    token.cancel();
    wait.await.unwrap_err();
    assert_eq!((level(&budget), session.attempts()), (10.0, 1));
    assert_eq!(session.decide_after(&cut()).stop_reason(), Some(StopReason::Cancelled));
    // Decided twice, and sent once.
    client.get(A).retry_session(&session).send().await.unwrap();
    assert!(session.decide_after(&cut()).delay().is_some());
    assert!(session.decide_after(&cut()).delay().is_some());
    assert_eq!(level(&budget), 9.0);
}

#[tokio::test(start_paused = true)]
async fn a_classifier_that_panics_on_a_cut_makes_no_answer_of_it() {
    let budget = tokens(5);
    let upstream = Upstream::always(OK);
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let policy = RetryPolicy::builder()
        .max_attempts(5)
        .backoff(Backoff::constant(super::ms(0)))
        .classifier(|attempt: &Attempt<'_>| {
            assert!(attempt.number() < 2 || attempt.outcome().status().is_some());
            None
        })
        .build()
        .unwrap();
    let session = SharedSession::new(policy);
    client.get(A).retry_session(&session).send().await.unwrap();
    session.resend_after(cut()).await.unwrap();
    client.get(A).retry_session(&session).send().await.unwrap();
    let decide = AssertUnwindSafe(|| session.decide_after(&cut()));
    assert!(std::panic::catch_unwind(decide).is_err());
    drop(session);
    assert_eq!(level(&budget), 4.0);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_loop_that_is_dropped_on_the_wire_is_spent() {
    let script = Script::new([Reply::status(OK), Reply::hang(), Reply::status(OK)]);
    let budget = tokens(5);
    let retry =
        RetryMiddleware::builder(RetryPolicy::default()).budget(budget.clone()).build().unwrap();
    let client =
        ClientBuilder::new(reqwest::Client::new()).with(retry).with(script.clone()).build();
    let session = session();
    client.get(A).retry_session(&session).send().await.unwrap();
    session.resend_after(cut()).await.unwrap();
    let call = client.get(A).retry_session(&session).send();
    tokio::time::timeout(super::ms(1_000), call).await.unwrap_err();
    assert_eq!((script.received().len(), level(&budget)), (2, 4.0));
    // Once, also if the loop sends another.
    client.get(A).retry_session(&session).send().await.unwrap();
    drop(session);
    assert_eq!((script.received().len(), level(&budget)), (3, 4.2));
    tokio::time::sleep(super::ms(60_000)).await;
    assert_eq!((level(&budget), budget.sick_origins()), (5.0, 0));
}

/// A session that is used for more than a loop round one body settles each request with the next.
#[tokio::test(start_paused = true)]
async fn no_token_is_used_twice_however_a_session_is_used() {
    let upstream = || {
        Upstream::new(|arrival| match arrival.url.path() {
            "/sick" => (StatusCode::NOT_IMPLEMENTED, None),
            _ => (OK, None),
        })
    };
    for case in ["sick", "fine", "side by side"] {
        let (upstream, budget) = (upstream(), tokens(2));
        let client = client(&upstream, |retry| retry.budget(budget.clone()));
        let session = session();
        let ask =
            |path: &str| client.get(format!("http://a.test/{path}")).retry_session(&session).send();
        ask("").await.unwrap();
        session.resend_after(cut()).await.unwrap();
        match case {
            "sick" => drop(ask("sick").await.unwrap()),
            "fine" => drop(ask("").await.unwrap()),
            _ => drop(join(ask(""), ask("")).await),
        }
        for _ in 0..3 {
            ask("").await.unwrap();
        }
        drop(session);
        tokio::time::sleep(super::ms(60_000)).await;
        assert_eq!((level(&budget), budget.sick_origins()), (2.0, 0), "{case}");
        assert_eq!(get(&client, A).await, 200);
        assert!(format!("{budget:?}").ends_with("sick_origins: 0 }"), "{case}");
    }
}

/// As with the middleware's own resends: until its body is made, it is not sent.
#[tokio::test(start_paused = true)]
async fn a_request_of_the_loop_whose_body_can_not_be_made_takes_nothing() {
    let (upstream, budget) = (Upstream::always(OK), tokens(5));
    let client = client(&upstream, |retry| retry.budget(budget.clone()));
    let session = session();
    client.get(A).retry_session(&session).send().await.unwrap();
    session.resend_after(cut()).await.unwrap();
    assert_eq!(level(&budget), 4.0);
    let request = client.put(A).body_factory(|| async { Err("gone".into()) });
    request.retry_session(&session).send().await.unwrap_err();
    assert_eq!((level(&budget), upstream.count()), (5.0, 1));
}
