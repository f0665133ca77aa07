//! What is told of a loop around a streamed body, which shares its count with the middleware.

use std::io;

use futures_util::future::join;
use reqwest_typed_retry::test_util::Script;
use reqwest_typed_retry::{RetryRequestExt as _, RetryScope, SharedSession};
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
