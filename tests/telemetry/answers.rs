//! What is told of calls that end with an answer that is not transient.

use http::HeaderName;
use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    ApiProfile, Attempt, ReplayBody, RetryRequestExt as _, RetryTracker, Verdict,
};

use super::row::{Row, row};
use super::{URL, asking, ms, policy, reply};

// F117
#[tokio::test(start_paused = true)]
async fn of_the_first_answer_only_that_it_came() {
    let rows: [Row; 4] = [
        row("200", |world| async move { world.send("GET", policy(), [reply(200)]).await })
            .hooks(["0ns GET ended: attempt 1: status 200; stop: completed"])
            .metrics(["attempts_total{method=GET,outcome=200} 1"]),
        row("404", |world| async move { world.send("GET", policy(), [reply(404)]).await })
            .hooks(["0ns GET ended: attempt 1: status 404; stop: permanent"])
            .metrics(["attempts_total{method=GET,outcome=404} 1"]),
        row("200 and 404, of which the caller keeps a history", |world| async move {
            for status in [200, 404] {
                let tracker = RetryTracker::new();
                let client = world.client(world.retry(policy()), &Script::new([reply(status)]));
                let request = client.get(URL).with_extension(tracker.clone());
                world.note(&request.send().await);
                world.shown().debug(&tracker);
            }
        })
        .hooks([
            "0ns GET ended: attempt 1: status 200; stop: completed",
            "0ns GET ended: attempt 1: status 404; stop: permanent",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=404} 1",
        ]),
        row("200 to a POST, after a while", |world| async move {
            world.send("POST", policy(), [reply(200).after(ms(30))]).await;
        })
        .hooks(["30ms POST ended: attempt 1: status 200; stop: completed"])
        .metrics(["attempts_total{method=POST,outcome=200} 1"]),
    ];
    for row in rows {
        row.check().await;
    }
}

// F114, F116, F117
#[tokio::test(start_paused = true)]
async fn of_a_later_answer_each_attempt_each_resend_and_the_recovery() {
    let rows: [Row; 6] = [
        row("503, 200", |world| async move {
            world.send("GET", policy(), [reply(503), reply(200)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 200; stop: completed",
            "100ms GET recovered: 2, completed",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
             delay_source=backoff",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 200 elapsed=100ms",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=503} 1",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("four attempts: 503 that asks for 2 s, a refused connection, 200", |world| async move {
            let replies = [asking(503, 2), Reply::connect_error(), reply(200)];
            world.send("GET", policy().max_attempts(4), replies).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 2.00s (set by the server): status 503",
            "0ns GET resending: 1 of 3 in 2s",
            "2s GET ended: attempt 2 after 2.00s: fault connect (seems not processed); \
             retry in 200.00ms (set by the backoff): connect",
            "2s GET resending: 2 of 3 in 200ms",
            "2.2s GET ended: attempt 3 after 2.20s: status 200; stop: completed",
            "2.2s GET recovered: 3, completed",
        ])
        .events([
            "INFO retry 1 of 3: retry=1 max_retries=3 method=GET @ reason=status 503 delay=2s \
             delay_source=server server_delay=2s",
            "INFO retry 2 of 3: retry=2 max_retries=3 method=GET @ reason=connect delay=200ms \
             delay_source=backoff",
            "DEBUG recovered: attempts=3 method=GET @ outcome=status 200 elapsed=2.2s",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=503} 1",
            "attempts_total{method=GET,outcome=connect} 1",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=503,source=server} 1",
            "resends_total{method=GET,reason=connect,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.2]",
            "wait_seconds{method=GET,source=server} [2.0]",
        ]),
        row("503, 503, 200", |world| async move {
            world.send("GET", policy(), [reply(503), reply(503), reply(200)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 503; \
             retry in 200.00ms (set by the backoff): status 503",
            "100ms GET resending: 2 of 2 in 200ms",
            "300ms GET ended: attempt 3 after 300.00ms: status 200; stop: completed",
            "300ms GET recovered: 3, completed",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
             delay_source=backoff",
            "INFO retry 2 of 2: retry=2 max_retries=2 method=GET @ reason=status 503 delay=200ms \
             delay_source=backoff",
            "DEBUG recovered: attempts=3 method=GET @ outcome=status 200 elapsed=300ms",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=503} 2",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=503,source=backoff} 2",
            "wait_seconds{method=GET,source=backoff} [0.1, 0.2]",
        ]),
        row("503, 404: an answer too", |world| async move {
            world.send("GET", policy(), [reply(503), reply(404)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 404; stop: permanent",
            "100ms GET recovered: 2, permanent",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
             delay_source=backoff",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 404 elapsed=100ms",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=404} 1",
            "attempts_total{method=GET,outcome=503} 1",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("503, 501: a failure, if a permanent one", |world| async move {
            world.send("GET", policy(), [reply(503), reply(501)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 501; stop: permanent",
        ])
        .events(["INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
                  delay_source=backoff"])
        .metrics([
            "attempts_total{method=GET,outcome=501} 1",
            "attempts_total{method=GET,outcome=503} 1",
            "resends_total{method=GET,reason=503,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("nested: the outer one tells", |world| async move {
            let script = Script::new([reply(503), reply(200)]);
            let retry = || world.retry(policy()).build().unwrap();
            let client = ClientBuilder::new(Client::new()).with(retry()).with(retry()).with(script);
            world.note(&client.build().get(URL).send().await);
        })
        .hooks([
            "0ns GET ended: attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 200; stop: completed",
            "100ms GET recovered: 2, completed",
        ])
        .events([
            "DEBUG nested retry middleware passes through:",
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 503 delay=100ms \
             delay_source=backoff",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 200 elapsed=100ms",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=503} 1",
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
async fn who_called_for_a_resend_and_who_set_its_wait() {
    let verdict = HeaderName::from_static("x-should-retry");
    let rows: [Row; 3] = [
        row("a 429 that asks for nothing", |world| async move {
            world.send("GET", policy(), [reply(429), reply(200)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 429; \
             retry in 1.00s (set by the throttle_backoff): status 429",
            "0ns GET resending: 1 of 2 in 1s",
            "1s GET ended: attempt 2 after 1.00s: status 200; stop: completed",
            "1s GET recovered: 2, completed",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=status 429 delay=1s \
             delay_source=throttle_backoff",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 200 elapsed=1s",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=429} 1",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=429,source=throttle_backoff} 1",
            "wait_seconds{method=GET,source=throttle_backoff} [1.0]",
        ]),
        row("a directive of the server's", move |world| async move {
            let policy = policy().profile(ApiProfile::standard().verdict_field(verdict.clone()));
            let yes = http::HeaderValue::from_static("true");
            world.send("GET", policy, [reply(409).header(verdict, yes), reply(200)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 409; \
             retry in 100.00ms (set by the backoff): server_directive",
            "0ns GET resending: 1 of 2 in 100ms",
            "100ms GET ended: attempt 2 after 100.00ms: status 200; stop: completed",
            "100ms GET recovered: 2, completed",
        ])
        .events([
            "INFO retry 1 of 2: retry=1 max_retries=2 method=GET @ reason=server_directive \
             delay=100ms delay_source=backoff",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 200 elapsed=100ms",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 1",
            "attempts_total{method=GET,outcome=409} 1",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=server_directive,source=backoff} 1",
            "wait_seconds{method=GET,source=backoff} [0.1]",
        ]),
        row("a classifier, and no limit but the deadline", |world| async move {
            let policy = policy().unlimited_attempts().deadline(ms(5_000)).classifier(
                |attempt: &Attempt<'_>| {
                    (attempt.number() == 1).then_some(Verdict::Transient { delay: Some(ms(300)) })
                },
            );
            world.send("GET", policy, [reply(200), reply(200)]).await;
        })
        .hooks([
            "0ns GET ended: attempt 1: status 200; \
             retry in 300.00ms (set by the classifier): classifier",
            "0ns GET resending: 1 of no limit in 300ms",
            "300ms GET ended: attempt 2 after 300.00ms: status 200; stop: completed",
            "300ms GET recovered: 2, completed",
        ])
        .events([
            "INFO retry 1: retry=1 method=GET @ reason=classifier delay=300ms \
             delay_source=classifier",
            "DEBUG recovered: attempts=2 method=GET @ outcome=status 200 elapsed=300ms",
        ])
        .metrics([
            "attempts_total{method=GET,outcome=200} 2",
            "recovered_total{method=GET} 1",
            "resends_total{method=GET,reason=classifier,source=classifier} 1",
            "wait_seconds{method=GET,source=classifier} [0.3]",
        ]),
    ];
    for row in rows {
        row.check().await;
    }
}

/// What is permanent and no answer ends a call without a further word.
#[tokio::test(start_paused = true)]
async fn of_a_body_that_could_not_be_made_only_the_attempt() {
    let failing = |world: super::world::World, failing_from: u32| async move {
        let client = world.client(world.retry(policy()), &Script::new([reply(503)]));
        let made = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let make = move || {
            let number = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move {
                if number >= failing_from {
                    Err("secret cause".into())
                } else {
                    Ok(ReplayBody::new(""))
                }
            }
        };
        world.note(&client.put(URL).body_factory(make).send().await);
    };
    let rows: [Row; 2] = [
        row("the first", move |world| failing(world, 0))
            .hooks(["0ns PUT ended: attempt 1: fault invalid (delivery unknown); stop: permanent"])
            .metrics(["attempts_total{method=PUT,outcome=invalid} 1"]),
        row("the second", move |world| failing(world, 1))
            .hooks([
                "0ns PUT ended: attempt 1: status 503; \
                 retry in 100.00ms (set by the backoff): status 503",
                "0ns PUT resending: 1 of 2 in 100ms",
                "100ms PUT ended: attempt 2 after 100.00ms: fault invalid (delivery unknown); \
                 stop: permanent",
            ])
            .events(["INFO retry 1 of 2: retry=1 max_retries=2 method=PUT @ reason=status 503 \
                      delay=100ms delay_source=backoff"])
            .metrics([
                "attempts_total{method=PUT,outcome=503} 1",
                "attempts_total{method=PUT,outcome=invalid} 1",
                "resends_total{method=PUT,reason=503,source=backoff} 1",
                "wait_seconds{method=PUT,source=backoff} [0.1]",
            ]),
    ];
    for row in rows {
        row.check().await;
    }
}
