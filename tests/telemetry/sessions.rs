//! What is told of a loop around a streamed body, which shares its count with the middleware.

use std::io;

use futures_util::future::join;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    RetryErrorExt as _, RetryMiddleware, RetryRequestExt as _, RetryScope, SharedSession,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::row::{Row, row};
use super::world::World;
use super::{URL, ms, policy, reply};

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "secret cause")
}

async fn get(world: &World, session: &SharedSession) {
    // The client's own policy is not asked.
    let client = world.client(world.retry(policy().max_attempts(9)), &Script::always(reply(200)));
    world.note(&client.get(URL).retry_session(session).send().await);
    world.shown().debug(session);
}

const HEAD: &str = "0ns GET ended: attempt 1: status 200; stop: completed";
const CUT: &str = "0ns GET ended: attempt 1: fault connection_lost (delivery unknown); \
                   retry in 100.00ms (set by the backoff): connection_lost";
const RESENDING: &str = "0ns GET resending: 1 of 1 in 100ms";
const RETRY: &str = "INFO retry 1 of 1: retry=1 max_retries=1 method=GET @ \
                     reason=connection_lost delay=100ms delay_source=backoff";

#[tokio::test(start_paused = true)]
async fn a_body_that_is_cut_ends_its_attempt_a_second_time() {
    let session = || SharedSession::new(policy().max_attempts(2).build().unwrap());
    let rows: [Row; 3] = [
        row("cut, whole", move |world| async move {
            let session = session();
            get(&world, &session).await;
            session.resend_after(cut()).await.unwrap();
            get(&world, &session).await;
        })
        .hooks([
            HEAD,
            CUT,
            RESENDING,
            "100ms GET ended: attempt 2 after 100.00ms: status 200; stop: completed",
        ])
        .events([RETRY])
        .metrics([
            "attempts_total{method=GET,outcome=200} 2",
            "attempts_total{method=GET,outcome=connection_lost} 1",
            "resends_total{method=GET,reason=connection_lost,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("cut, cut", move |world| async move {
            let session = session();
            get(&world, &session).await;
            session.resend_after(cut()).await.unwrap();
            get(&world, &session).await;
            session.resend_after(cut()).await.unwrap_err();
        })
        .hooks([
            HEAD,
            CUT,
            RESENDING,
            "100ms GET ended: attempt 2 after 100.00ms: status 200; stop: completed",
            "100ms GET ended: attempt 2 after 100.00ms: \
             fault connection_lost (delivery unknown); stop: attempts_exhausted",
            "100ms GET gave up: 1, attempts_exhausted",
        ])
        .events([
            RETRY,
            "WARN giving up: attempts=2 method=GET @ \
             outcome=fault connection_lost (delivery unknown) reason=attempts_exhausted",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 2",
            "attempts_total{method=GET,outcome=connection_lost} 2",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
            "resends_total{method=GET,reason=connection_lost,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("cut, and cancelled during the wait", move |world| async move {
            let session = session();
            get(&world, &session).await;
            let token = CancellationToken::new();
            let again = RetryScope::new().cancel_on(token.clone()).run(session.resend_after(cut()));
            let cancel = async {
                sleep(ms(40)).await;
                token.cancel();
            };
            join(again, cancel).await.0.unwrap_err();
        })
        .hooks([HEAD, CUT, RESENDING, "40ms GET gave up: 1, cancelled"])
        .events([
            RETRY,
            "DEBUG not resent: attempts=1 method=GET @ \
             outcome=fault connection_lost (delivery unknown) reason=cancelled",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=connection_lost} 1",
            "given_up_total{method=GET,reason=cancelled} 1",
            "resends_total{method=GET,reason=connection_lost,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
    ];
    for row in rows {
        row.check().await;
    }
}

/// What the middleware has told of an attempt the loop does not tell again, if it sends nothing again either.
#[tokio::test(start_paused = true)]
async fn a_failure_is_told_once() {
    row("an answer that was made an error", |world| async move {
        let session = SharedSession::new(policy().max_attempts(1).build().unwrap());
        let script = Script::always(reply(503));
        let client = world.client(world.retry(policy()), &script);
        let response = client.get(URL).retry_session(&session).send().await.unwrap();
        session.resend_after(response.error_for_status().unwrap_err()).await.unwrap_err();
    })
    .hooks([
        "0ns GET ended: attempt 1: status 503; stop: attempts_exhausted",
        "0ns GET gave up: 1, attempts_exhausted",
    ])
    .events([
        "DEBUG not resent: attempts=1 method=GET @ outcome=status 503 reason=attempts_exhausted",
    ])
    .metrics([
        "attempts_total{method=GET,outcome=503} 1",
        "given_up_total{method=GET,reason=attempts_exhausted} 1",
    ])
    .check()
    .await;
    row("a stop that is asked for again", |world| async move {
        let session = SharedSession::new(policy().max_attempts(1).build().unwrap());
        get(&world, &session).await;
        session.resend_after(cut()).await.unwrap_err();
        session.resend_after(cut()).await.unwrap_err();
    })
    .hooks([
        HEAD,
        "0ns GET ended: attempt 1: fault connection_lost (delivery unknown); stop: attempts_exhausted",
        "0ns GET gave up: 1, attempts_exhausted",
    ])
    .events(["DEBUG not resent: attempts=1 method=GET @ \
              outcome=fault connection_lost (delivery unknown) reason=attempts_exhausted"])
    .metrics([
        "attempts_total{method=GET,outcome=200} 1",
        "attempts_total{method=GET,outcome=connection_lost} 1",
        "given_up_total{method=GET,reason=attempts_exhausted} 1",
    ])
    .check()
    .await;
    row("no request at all", |_| async move {
        let session = SharedSession::new(policy().build().unwrap());
        session.resend_after(cut()).await.unwrap_err();
    })
    .check()
    .await;
}

/// When the middleware's own resend was sent is known to the loop, too.
#[tokio::test(start_paused = true)]
async fn a_cut_says_when_its_attempt_was_sent_whoever_sent_it() {
    let hooks = super::listening::listen(|hooks| async move {
        let world = World { hooks };
        let session = SharedSession::new(policy().max_attempts(2).build().unwrap());
        let script = Script::new([reply(503), reply(200)]);
        let client = world.client(world.retry(policy()), &script);
        client.get(URL).retry_session(&session).send().await.unwrap();
        sleep(ms(1_000)).await;
        session.resend_after(cut()).await.unwrap_err();
    });
    let told = hooks.await.hooks;
    let cut = "1.1s GET ended: attempt 2 after 100.00ms: fault connection_lost (delivery unknown); \
               stop: attempts_exhausted";
    assert!(told.contains(&cut.to_owned()), "{told:#?}");
}

/// The number of an error is that of its attempt, as everywhere.
#[tokio::test(start_paused = true)]
async fn an_error_counts_the_attempts_of_the_session() {
    let session = SharedSession::new(policy().max_attempts(2).build().unwrap());
    let script = Script::new([reply(200), Reply::connect_error()]);
    let retry = RetryMiddleware::builder(policy().build().unwrap()).wrap_errors();
    let client = super::world::client(retry.build().unwrap(), &script);
    client.get(URL).retry_session(&session).send().await.unwrap();
    session.resend_after(cut()).await.unwrap();
    let error = client.get(URL).retry_session(&session).send().await.unwrap_err();
    assert_eq!(error.retry_error().unwrap().attempts(), 2);
}
