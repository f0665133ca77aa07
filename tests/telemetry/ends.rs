//! What is told of calls that end with a transient failure, for each `StopReason`; or by the caller.

use futures_util::{future::join, poll};
use http::{HeaderName, HeaderValue};
use reqwest::Body;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    ApiProfile, Cooldown, MetricsObserver, RetryBudget, RetryMiddleware, RetryPolicy, RetryScope,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::row::{Row, row};
use super::{URL, asking, ms, policy, reply};

#[tokio::test(start_paused = true)]
async fn the_policy_gives_up() {
    let verdict = HeaderName::from_static("x-should-retry");
    let rows: [Row; 5] = [
        row("attempts_exhausted", |world| async move {
            let replies = [reply(503), Reply::connect_error(), asking(503, 1)];
            world.send("GET", policy(), replies).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: fault connect (seems not processed); \
             retry in 200.00ms (set by the backoff): connect",
            "100ms GET resending: 2 of 2 in 200ms",
            "300ms GET ended: attempt 3 after 300.00ms: status 503; stop: attempts_exhausted",
            "300ms GET gave up: 3, attempts_exhausted",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
             delay_source=backoff",
            "INFO retry 2 of 2: retry=2 max_retries=2 method=GET @ reason=connect delay=200ms \
             delay_source=backoff",
            "WARN giving up: attempts=3 method=GET @ outcome=status 503 reason=attempts_exhausted",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=503} 2",
            "attempts_total{method=GET,outcome=connect} 1",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "resends_total{method=GET,reason=connect,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1, 0.2]",
        ]),
        row("attempts_exhausted, of one that is all", |world| async move {
            world.send("GET", RetryPolicy::never().to_builder(), [reply(503)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; stop: attempts_exhausted",
            "0ns GET gave up: 1, attempts_exhausted",
        ])
        .events(["DEBUG not resent: attempts=1 method=GET @ outcome=status 503 \
                  reason=attempts_exhausted"])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
        ]),
        row("not_idempotent", |world| async move {
            world.send("BREW", policy(), [reply(503)]).await;
        })
        .hooks([
            "0ns BREW ended: attempt 1: status 503; stop: not_idempotent",
            "0ns BREW gave up: 1, not_idempotent",
        ])
        .events(["DEBUG not resent: attempts=1 method=BREW @ outcome=status 503 \
                  reason=not_idempotent"])
        .metrics([
            "attempts_total{method=_OTHER,outcome=503} 1",
            "given_up_total{method=_OTHER,reason=not_idempotent} 1",
        ]),
        row("server_delay_too_long", |world| async move {
            world.send("GET", policy(), [asking(503, 120)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; \
             stop: server_delay_too_long (asked 120s, allowed 60s)",
            "0ns GET gave up: 1, server_delay_too_long (asked 120s, allowed 60s)",
        ])
        .events(["WARN giving up: attempts=1 method=GET @ outcome=status 503 \
                  reason=server_delay_too_long (asked 120s, allowed 60s)"])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=server_delay_too_long} 1",
        ]),
        row("server_refused", move |world| async move {
            let policy = policy().profile(ApiProfile::standard().verdict_field(verdict.clone()));
            let no = HeaderValue::from_static("false");
            world.send("GET", policy, [reply(503).header(verdict, no)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; stop: server_refused",
            "0ns GET gave up: 1, server_refused",
        ])
        .events(["WARN giving up: attempts=1 method=GET @ outcome=status 503 \
                  reason=server_refused"])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=server_refused} 1",
        ]),
    ];
    for row in rows {
        row.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_layer_gives_up() {
    let rows: [Row; 5] = [
        row("deadline_would_pass", |world| async move {
            world.send("GET", policy().deadline(ms(50)), [reply(503)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; stop: deadline_would_pass",
            "0ns GET gave up: 1, deadline_would_pass",
        ])
        .events(["WARN giving up: attempts=1 method=GET @ outcome=status 503 \
                  reason=deadline_would_pass"])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=deadline_would_pass} 1",
        ]),
        row("deadline_passed, on the wire", |world| async move {
            world.send("POST", policy().deadline(ms(50)), [Reply::hang()]).await;
        })
        .hooks([
            "50ms POST ended: attempt 1: fault timeout (delivery unknown); stop: deadline_passed",
            "50ms POST gave up: 1, deadline_passed",
        ])
        .events(["WARN giving up: attempts=1 method=POST @ \
                  outcome=fault timeout (delivery unknown) reason=deadline_passed"])
        .metrics([
            "attempts_total{method=POST,outcome=timeout} 1",
            "given_up_total{method=POST,reason=deadline_passed} 1",
        ]),
        row("budget_exhausted", |world| async move {
            let budget = RetryBudget::builder().capacity(1).build().unwrap();
            let client = world.client(
                world.retry(policy()).budget(budget.clone()),
                &Script::always(reply(503)),
            );
            world.note(&client.get(URL).send().await);
            world.shown().debug(&budget);
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 503; \
             stop: budget_exhausted (the client's own retry budget is empty)",
            "100ms GET gave up: 2, budget_exhausted (the client's own retry budget is empty)",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
             delay_source=backoff",
            "WARN giving up: attempts=2 method=GET @ outcome=status 503 \
             reason=budget_exhausted (the client's own retry budget is empty)",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=503} 2",
            "given_up_total{method=GET,reason=budget_exhausted} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("body_not_replayable", |world| async move {
            let client = world.client(world.retry(policy()), &Script::always(reply(503)));
            let stream = Body::wrap(String::from("secret body"));
            world.note(&client.put(URL).body(stream).send().await);
        })
        .hooks([
            "0ns PUT ended: attempt 1: status 503; stop: body_not_replayable",
            "0ns PUT gave up: 1, body_not_replayable",
        ])
        .events(["WARN giving up: attempts=1 method=PUT @ outcome=status 503 \
                  reason=body_not_replayable"])
        .metrics([
            "attempts_total{method=PUT,outcome=503} 1",
            "given_up_total{method=PUT,reason=body_not_replayable} 1",
        ]),
        row("the head timeout, twice", |world| async move {
            let policy = policy().head_timeout(ms(10)).max_attempts(2);
            world.send("GET", policy, [Reply::hang(), Reply::hang()]).await;
        })
        .hooks([
            "10ms GET ended: attempt 1: fault timeout (delivery unknown); \
             retry in 100.00ms (set by the backoff): timeout",
            "10ms GET resending: 1 of 1 in 100ms",
            "120ms GET ended: attempt 2 after 110.00ms: fault timeout (delivery unknown); \
             stop: attempts_exhausted",
            "120ms GET gave up: 2, attempts_exhausted",
        ])
        .events([
            "INFO retry 1 of 1: retry=1 max_retries=1 method=GET @ reason=timeout delay=100ms \
             delay_source=backoff",
            "WARN giving up: attempts=2 method=GET @ outcome=fault timeout (delivery unknown) \
             reason=attempts_exhausted",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=timeout} 2",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
            "resends_total{method=GET,reason=timeout,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
    ];
    for row in rows {
        row.check().await;
    }
}

const FIRST: &str =
    "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503";
const RESENDING: &str = "0ns GET resending: 1 of 2 in 100ms";
const RETRY: &str = "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 \
                     delay=100ms delay_source=backoff";

#[tokio::test(start_paused = true)]
async fn the_caller_ends_it() {
    let rows: [Row; 6] = [
        row("cancelled before the first attempt", |world| async move {
            let client = world.client(world.retry(policy()), &Script::always(reply(503)));
            let token = CancellationToken::new();
            token.cancel();
            let scope = RetryScope::new().cancel_on(token);
            world.shown().debug(&scope);
            world.note(&scope.run(client.get(URL).send()).await);
        }),
        row("a deadline that has passed before the first attempt", |world| async move {
            let client = world.client(world.retry(policy()), &Script::always(reply(503)));
            let scope = RetryScope::new().deadline_in(ms(0)).policy(policy().build().unwrap());
            world.shown().debug(&scope);
            world.note(&scope.run(client.get(URL).send()).await);
        }),
        row("cancelled during a wait", |world| async move {
            let client = world.client(world.retry(policy()), &Script::always(reply(503)));
            let token = CancellationToken::new();
            let call = RetryScope::new().cancel_on(token.clone()).run(client.get(URL).send());
            let cancel = async {
                sleep(ms(40)).await;
                token.cancel();
            };
            world.note(&join(call, cancel).await.0);
        })
        .hooks([FIRST, RESENDING, "40ms GET gave up: 1, cancelled"])
        .events([
            RETRY,
            "DEBUG not resent: attempts=1 method=GET @ outcome=status 503 reason=cancelled",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=cancelled} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("cancelled during an attempt", |world| async move {
            let script = Script::always(reply(503).after(ms(30)));
            let client = world.client(world.retry(policy()), &script);
            let token = CancellationToken::new();
            let call = RetryScope::new().cancel_on(token.clone()).run(client.get(URL).send());
            let cancel = async { token.cancel() };
            world.note(&join(call, cancel).await.0);
        })
        .hooks([
            "30ms GET ended: attempt 1: status 503; stop: cancelled",
            "30ms GET gave up: 1, cancelled",
        ])
        .events(["DEBUG not resent: attempts=1 method=GET @ outcome=status 503 reason=cancelled"])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=cancelled} 1",
        ]),
        row("dropped during an attempt", |world| async move {
            let client = world.client(world.retry(policy()), &Script::always(Reply::hang()));
            let mut call = Box::pin(client.get(URL).send());
            assert!(poll!(&mut call).is_pending());
        }),
        row("dropped during a wait", |world| async move {
            let client = world.client(world.retry(policy()), &Script::always(reply(503)));
            let mut call = Box::pin(client.get(URL).send());
            assert!(poll!(&mut call).is_pending());
        })
        .hooks([FIRST, RESENDING])
        .events([RETRY])
        .metrics([
            "attempts_total{method=GET,outcome=503} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
    ];
    for row in rows {
        row.check().await;
    }
}

/// One call that asks for quiet, and one that keeps it.
#[tokio::test(start_paused = true)]
async fn a_cooldown_holds_back() {
    const CLOSES: [&str; 2] = [
        "0ns GET ended: attempt 1: status 429; stop: attempts_exhausted",
        "0ns GET gave up: 1, attempts_exhausted",
    ];
    const CLOSED: &str =
        "DEBUG not resent: attempts=1 method=GET @ outcome=status 429 reason=attempts_exhausted";
    let client = |world: &super::world::World, replies: Vec<Reply>| {
        let cooldown = Cooldown::by_origin();
        world.shown().debug(&cooldown);
        let retry = world.retry(policy().deadline(ms(60_000)));
        world.client(retry.cooldown(cooldown), &Script::new(replies))
    };
    let once = || RetryScope::new().policy(RetryPolicy::never());
    let rows: [Row; 3] = [
        row("before the first attempt", move |world| async move {
            let client = client(&world, vec![asking(429, 2), reply(200)]);
            world.note(&once().run(client.get(URL).send()).await);
            world.note(&client.get(URL).send().await);
        })
        .hooks([
            CLOSES[0],
            CLOSES[1],
            "0ns GET held back: 2s",
            "2s GET ended: attempt 1 after 2.00s: status 200; stop: completed",
        ])
        .events([CLOSED, "INFO held back: method=GET @ wait=2s"])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=429} 1",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
            "held_back_seconds{method=GET} [2.0]",
        ]),
        row("before the first attempt, for longer than there is time", move |world| async move {
            let client = client(&world, vec![asking(429, 2)]);
            world.note(&once().run(client.get(URL).send()).await);
            let scope = RetryScope::new().deadline_in(ms(1_000));
            world.note(&scope.run(client.get(URL).send()).await);
        })
        .hooks([CLOSES[0], CLOSES[1], "0ns GET gave up: 0, deadline_would_pass"])
        .events([CLOSED, "WARN giving up: attempts=0 method=GET @ reason=deadline_would_pass"])
        .metrics([
            "attempts_total{method=GET,outcome=429} 1",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
            "given_up_total{method=GET,reason=deadline_would_pass} 1",
        ]),
        row("before a resend", move |world| async move {
            let client = client(&world, vec![reply(503), asking(429, 2), reply(200)]);
            let other = async {
                sleep(ms(40)).await;
                world.note(&once().run(client.get(URL).send()).await);
            };
            world.note(&join(client.get(URL).send(), other).await.0);
        })
        .hooks([
            FIRST,
            RESENDING,
            CLOSES[0],
            CLOSES[1],
            "100ms GET held back: 1.94s",
            "2.04s GET ended: attempt 2 after 2.04s: status 200; stop: completed",
            "2.04s GET recovered: 2, completed",
        ])
        .events([
            RETRY,
            CLOSED,
            "INFO held back: method=GET @ wait=1.94s",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 200 elapsed=2.04s",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=429} 1",
            "attempts_total{method=GET,outcome=503} 1",
            "given_up_total{method=GET,reason=attempts_exhausted} 1",
            "held_back_seconds{method=GET} [1.94]",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
    ];
    for row in rows {
        row.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_label_of_the_origin_is_its_origin() {
    row("by_origin", |world| async move {
        let policy = policy().max_attempts(2).deadline(ms(60_000)).build().unwrap();
        let retry = RetryMiddleware::builder(policy).observer(MetricsObserver::new().by_origin());
        let replies = [asking(429, 1), reply(503), reply(200)];
        let client = world.client(retry.cooldown(Cooldown::by_origin()), &Script::new(replies));
        let first = client.get(URL).send();
        let second = async {
            sleep(ms(10)).await;
            client.get(URL).send().await
        };
        let (first, second) = join(first, second).await;
        world.note(&first);
        world.note(&second);
    })
    .events([
        "INFO retry 1 of 1: retry=1 max_retries=1 method=GET @ reason=status 429 delay=1s \
         delay_source=server server_delay=1s",
        "INFO held back: method=GET @ wait=990ms",
        "WARN giving up: attempts=2 method=GET @ outcome=status 503 reason=attempts_exhausted",
    ])
    .metrics([
        "attempts_total{method=GET,origin=https://service.test:8443,outcome=200} 1",
        "attempts_total{method=GET,origin=https://service.test:8443,outcome=429} 1",
        "attempts_total{method=GET,origin=https://service.test:8443,outcome=503} 1",
        "given_up_total{method=GET,origin=https://service.test:8443,reason=attempts_exhausted} 1",
        "held_back_seconds{method=GET,origin=https://service.test:8443} [0.99]",
        "resends_total{method=GET,origin=https://service.test:8443,reason=429,source=server} 1",
        "wait_seconds{method=GET,origin=https://service.test:8443,source=server} [1.0]",
    ])
    .check()
    .await;
}
