//! The history of a call: when each attempt was sent, in words and in JSON.

use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Cooldown, RetryHistory, RetryMiddleware, RetryPolicy, RetryPolicyBuilder, RetryRequestExt as _,
    RetryScope, RetryTracker, SharedSession,
};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{URL, asking, ms, policy, reply, world};

async fn history(policy: RetryPolicyBuilder, replies: Vec<Reply>) -> RetryHistory {
    let tracker = RetryTracker::new();
    let retry = RetryMiddleware::new(policy.build().unwrap());
    let client = world::client(retry, &Script::new(replies));
    let _ = client.get(URL).with_extension(tracker.clone()).send().await;
    tracker.history().unwrap()
}

fn starts(history: &RetryHistory) -> Vec<u128> {
    history.attempts().iter().map(|attempt| attempt.started().as_millis()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_attempt_says_when_it_was_sent() {
    let replies = vec![reply(503).after(ms(30)), asking(503, 2).after(ms(40)), reply(200)];
    // 30 + 100, + 40 + 2,000
    assert_eq!(starts(&history(policy(), replies).await), [0, 130, 2_170]);

    let first = history(policy(), vec![reply(200).after(ms(30))]).await;
    assert_eq!(starts(&first), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_a_cooldown_holds_back_says_so_by_its_start() {
    let policy = policy().deadline(ms(60_000)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin());
    let script = Script::new([asking(429, 2), reply(503), reply(200)]);
    let client = world::client(retry.build().unwrap(), &script);
    let once = RetryScope::new().policy(RetryPolicy::never());
    once.run(client.get(URL).send()).await.unwrap();
    sleep(ms(500)).await;
    let response = client.get(URL).send().await.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(starts(history), [1_500, 1_600]);
}

#[tokio::test(start_paused = true)]
async fn in_a_session_a_start_is_counted_from_its_making() {
    let session = SharedSession::new(policy().build().unwrap());
    let script = Script::new([reply(503).after(ms(30)), reply(200), reply(200)]);
    let client = world::client(RetryMiddleware::default(), &script);
    let get = async || {
        let tracker = RetryTracker::new();
        let request = client.get(URL).retry_session(&session).with_extension(tracker.clone());
        request.send().await.unwrap();
        let history = tracker.history().unwrap();
        let numbers = history.attempts().iter().map(|it| it.number()).collect::<Vec<_>>();
        (numbers, starts(&history))
    };
    sleep(ms(500)).await;
    assert_eq!(get().await, (vec![1, 2], vec![500, 630]));
    sleep(ms(1_000)).await; // reading
    session.resend_after(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)).await.unwrap();
    assert_eq!(get().await, (vec![3], vec![1_830]));
}

#[tokio::test(start_paused = true)]
async fn in_words_it_is_one_line_an_attempt() {
    let replies = vec![asking(503, 2), Reply::connect_error(), reply(404)];
    let text = "attempt 1: status 503; retry in 2.00s (set by the server): status 503\n\
                attempt 2 after 2.00s: fault connect (seems not processed); \
                retry in 200.00ms (set by the backoff): connect\n\
                attempt 3 after 2.20s: status 404; stop: permanent";
    assert_eq!(history(policy(), replies).await.to_string(), text);
}

/// The wait of an attempt was cut, or there was none.
async fn cancelled(after: u64) -> RetryHistory {
    let (token, tracker) = (CancellationToken::new(), RetryTracker::new());
    let client = world::client(RetryMiddleware::default(), &Script::always(asking(503, 2)));
    let request = client.get(URL).with_extension(tracker.clone());
    if after == 0 {
        token.cancel();
    }
    let scope = RetryScope::new().cancel_on(token.clone()).policy(policy().build().unwrap());
    let cancel = async {
        sleep(ms(after)).await;
        token.cancel();
    };
    let _ = futures_util::future::join(scope.run(request.send()), cancel).await;
    tracker.history().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_no_attempt_tells_has_a_line_of_its_own() {
    assert_eq!(cancelled(0).await.to_string(), "stop: cancelled");
    let text = "attempt 1: status 503; retry in 2.00s (set by the server): status 503\n\
                stop: cancelled";
    assert_eq!(cancelled(40).await.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn in_json_times_are_seconds_and_words_are_those_of_as_str() {
    let replies = vec![asking(503, 2), Reply::connect_error(), asking(503, 90)];
    let history = history(policy().max_attempts(4), replies).await;
    let expected = json!({
        "attempts": [
            {
                "number": 1,
                "started_seconds": 0.0,
                "status": 503,
                "proven_not_processed": false,
                "server_delay_seconds": 2.0,
                "retry": { "delay_seconds": 2.0, "reason": "status", "delay_source": "server" },
            },
            {
                "number": 2,
                "started_seconds": 2.0,
                "fault": "connect",
                "delivery": "not_processed",
                "proven_not_processed": false,
                "retry": { "delay_seconds": 0.2, "reason": "connect", "delay_source": "backoff" },
            },
            {
                "number": 3,
                "started_seconds": 2.2,
                "status": 503,
                "proven_not_processed": false,
                "server_delay_seconds": 90.0,
                "stop": { "reason": "server_delay_too_long" },
            },
        ],
        "stop_reason": "server_delay_too_long",
        "earlier_may_have_taken_effect": true,
    });
    assert_eq!(serde_json::to_value(&history).unwrap(), expected);
    assert_eq!(serde_json::to_value(history.attempts()[1]).unwrap(), expected["attempts"][1]);

    // In this order.
    let text = r#"{"attempts":[{"number":1,"started_seconds":0.0,"status":503,"proven_not_processed":false,"server_delay_seconds":2.0,"retry":{"delay_seconds":2.0,"reason":"status","delay_source":"server"}}],"stop_reason":"cancelled","earlier_may_have_taken_effect":false}"#;
    assert_eq!(serde_json::to_string(&cancelled(40).await).unwrap(), text);
    let none = r#"{"attempts":[],"stop_reason":"cancelled","earlier_may_have_taken_effect":false}"#;
    assert_eq!(serde_json::to_string(&cancelled(0).await).unwrap(), none);
}
