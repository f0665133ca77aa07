//! Three limits, three meanings, in virtual time.

use http::StatusCode;
use reqwest::Client;
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_typed_retry::StopReason::{
    AttemptsExhausted, Completed, DeadlinePassed, DeadlineWouldPass, NotIdempotent,
};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    AttemptOutcome, Fault, FaultKind, RetryErrorExt as _, RetryHistory, RetryMiddleware,
    RetryPolicy, RetryTracker, StopReason,
};

use super::{Back, End, URL, busy, fine, ms, run, waiting};

/// Attempt timeout, head timeout, deadline; 0 for none.
type Limits = [u64; 3];

struct Row {
    label: &'static str,
    limits: Limits,
    attempts: u32,
    wait: u64,
    method: &'static str,
    reply: Reply,
    end: (usize, u64, Back, StopReason),
}

// F081, F089, F093
#[tokio::test(start_paused = true)]
async fn each_limit_ends_what_it_is_for_to_the_millisecond() {
    let row = |label, limits, attempts, wait, method, reply, end| Row {
        label,
        limits,
        attempts,
        wait,
        method,
        reply,
        end,
    };
    let hang = Reply::hang;
    let slow = |millis| busy().after(ms(millis));
    for Row { label, limits, attempts, wait, method, reply, end } in [
        row(
            "the worst case of attempts: attempts x timeout, and the waits",
            [100, 0, 0],
            3,
            10,
            "GET",
            hang(),
            (3, 320, Back::Timeout, AttemptsExhausted),
        ),
        row(
            "the same by the head timeout",
            [0, 100, 0],
            3,
            10,
            "GET",
            hang(),
            (3, 320, Back::HeadTimeout, AttemptsExhausted),
        ),
        row(
            "of two the shorter",
            [100, 50, 0],
            2,
            10,
            "GET",
            hang(),
            (2, 110, Back::HeadTimeout, AttemptsExhausted),
        ),
        row(
            "the deadline cuts the attempt on the wire",
            [0, 0, 250],
            3,
            10,
            "GET",
            hang(),
            (1, 250, Back::Deadline, DeadlinePassed),
        ),
        row(
            "what is left is computed anew for each attempt",
            [100, 0, 250],
            10,
            0,
            "GET",
            hang(),
            (3, 250, Back::Deadline, DeadlinePassed),
        ),
        row(
            "waits count",
            [100, 0, 250],
            10,
            20,
            "GET",
            hang(),
            (3, 250, Back::Deadline, DeadlinePassed),
        ),
        row(
            "a wait that can't end before it never starts",
            [100, 0, 250],
            10,
            150,
            "GET",
            hang(),
            (1, 100, Back::Timeout, DeadlineWouldPass),
        ),
        row(
            "and gives the answer in hand",
            [0, 0, 250],
            10,
            150,
            "GET",
            slow(100),
            (1, 100, Back::Status(503), DeadlineWouldPass),
        ),
        row(
            "a POST is cut by the deadline too",
            [0, 0, 250],
            3,
            10,
            "POST",
            hang(),
            (1, 250, Back::Deadline, DeadlinePassed),
        ),
        row(
            "a POST that the head timeout cut is not sent again",
            [0, 100, 0],
            3,
            10,
            "POST",
            hang(),
            (1, 100, Back::HeadTimeout, NotIdempotent),
        ),
        row(
            "an answer in time",
            [100, 90, 250],
            3,
            10,
            "GET",
            fine().after(ms(80)),
            (1, 80, Back::Status(200), Completed),
        ),
    ] {
        let limit = |millis: u64| (millis > 0).then(|| ms(millis));
        let policy = waiting(ms(wait))
            .max_attempts(attempts)
            .attempt_timeout(limit(limits[0]))
            .head_timeout(limit(limits[1]))
            .deadline(limit(limits[2]));
        let (sent, after, back, stop) = end;
        let expected = End { sent, after: ms(after), back, stop };
        assert_eq!(run(policy, method, &Script::always(reply)).await, expected, "{label}");
    }
}

/// A timer that fires late, on a busy thread or after a suspended laptop's sleep.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_after_the_deadline_is_followed_by_no_attempt() {
    let script = Script::always(busy());
    let tracker = RetryTracker::new();
    let client = super::client(waiting(ms(100)).deadline(ms(150)), &script);
    let request = client.get(URL).with_extension(tracker.clone());
    let call = tokio::spawn(async move { Back::of(&request.send().await) });
    while script.received().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(ms(200)).await;
    assert_eq!(call.await.unwrap(), Back::Deadline);
    assert_eq!(script.received().len(), 1);
    let history = tracker.history().unwrap();
    assert_eq!(history.stop_reason(), DeadlinePassed);
    // What there was is not lost.
    assert_eq!(history.attempts()[0].outcome().status(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert!(history.to_string().ends_with("\nstop: deadline_passed"), "{history}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_attempt_is_a_timeout_that_proves_nothing() {
    for policy in [waiting(ms(0)).head_timeout(ms(100)), waiting(ms(0)).deadline(ms(100))] {
        let tracker = RetryTracker::new();
        let client = super::client(policy.max_attempts(1), &Script::always(Reply::hang()));
        client.get(URL).with_extension(tracker.clone()).send().await.unwrap_err();
        let outcome = tracker.history().unwrap().attempts()[0].outcome();
        assert_eq!(outcome, AttemptOutcome::Fault(Fault::unknown(FaultKind::Timeout)));
    }
}

// Errors

#[tokio::test(start_paused = true)]
async fn an_error_of_the_layers_own_says_which_call_it_ends() {
    let script = Script::new([busy(), Reply::hang()]);
    let policy = waiting(ms(100)).deadline(ms(250));
    let error = super::client(policy, &script).get(URL).send().await.unwrap_err();
    let ours = error.retry_error().unwrap();
    assert_eq!((ours.attempts(), ours.elapsed()), (2, ms(250)));
    assert_eq!(ours.stop_reason(), Some(DeadlinePassed));
    assert_eq!(
        ours.to_string(),
        "the deadline passed (GET http://service.test, attempts: 2, stop: deadline_passed)"
    );
    assert!(error.timed_out() && error.reqwest_error().is_none());
}

#[tokio::test(start_paused = true)]
async fn wrapped_errors_tell_how_often_for_how_long_and_why_no_more() {
    struct Row(&'static str, Reply, u32, u64, StopReason, bool);
    let io = || Reply::error(|| Error::middleware(std::io::Error::other("an inner middleware")));
    for Row(label, reply, attempts, elapsed, stop, timed_out) in [
        Row("refused", Reply::connect_error(), 3, 20, AttemptsExhausted, false),
        Row("timeout", Reply::hang(), 3, 320, AttemptsExhausted, true),
        Row("an inner error", io(), 1, 0, StopReason::Permanent, false),
    ] {
        let policy = waiting(ms(10)).attempt_timeout(ms(100)).build().unwrap();
        let retry = RetryMiddleware::builder(policy).wrap_errors().build().unwrap();
        let script = Script::always(reply);
        let client = ClientBuilder::new(Client::new()).with(retry).with(script).build();
        let error = client.get(URL).send().await.unwrap_err();
        let ours = error.retry_error().unwrap();
        assert_eq!(ours.attempts(), attempts, "{label}");
        assert_eq!(ours.elapsed(), ms(elapsed), "{label}");
        assert_eq!(ours.stop_reason(), Some(stop), "{label}");
        assert_eq!((error.timed_out(), ours.is_timeout()), (timed_out, timed_out), "{label}");
        assert_eq!(error.reqwest_error().is_some(), label != "an inner error", "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_response_is_never_an_error_and_no_error_is_wrapped_twice() {
    let wrapping =
        |policy: RetryPolicy| RetryMiddleware::builder(policy).wrap_errors().build().unwrap();
    let policy = waiting(ms(10)).max_attempts(2).deadline(ms(50)).build().unwrap();
    let client = ClientBuilder::new(Client::new())
        .with(wrapping(policy.clone()))
        .with(wrapping(policy.clone()))
        .with(Script::new([busy(), busy()]))
        .build();
    let response = client.get(URL).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.extensions().get::<RetryHistory>().is_some());

    let client = ClientBuilder::new(Client::new())
        .with(wrapping(policy.clone()))
        .with(wrapping(policy))
        .with(Script::always(Reply::hang()))
        .build();
    let error = client.get(URL).send().await.unwrap_err();
    let ours = error.retry_error().unwrap();
    assert!(ours.is_deadline() && std::error::Error::source(ours).is_none(), "{ours:?}");
}

#[tokio::test(start_paused = true)]
async fn without_that_an_error_comes_as_it_was_made() {
    let client = super::client(waiting(ms(0)), &Script::always(Reply::connect_error()));
    let error = client.get(URL).send().await.unwrap_err();
    assert!(error.is_connect() && error.retry_error().is_none() && error.reqwest_error().is_some());
    let client = super::client(waiting(ms(0)), &Script::always(fine()));
    assert_eq!(client.get(URL).send().await.unwrap().status(), StatusCode::OK);
}

// F091, F092: as many attempts as are allowed, or as long as it may take, whichever comes first.
#[tokio::test(start_paused = true)]
async fn each_limit_that_ends_a_call_names_itself() {
    let rows = [
        ("attempts", waiting(ms(1)).max_attempts(4).deadline(ms(60_000)), 4, AttemptsExhausted),
        ("deadline", waiting(ms(300)).max_attempts(100).deadline(ms(1_000)), 4, DeadlineWouldPass),
        (
            "a deadline leaves the default count",
            waiting(ms(10)).deadline(ms(200)),
            3,
            AttemptsExhausted,
        ),
        (
            "… unless there is none",
            waiting(ms(10)).unlimited_attempts().deadline(ms(200)),
            20,
            DeadlineWouldPass,
        ),
    ];
    for (label, policy, sent, stop) in rows {
        let end = run(policy, "GET", &Script::always(busy())).await;
        assert_eq!((end.sent, end.stop), (sent, stop), "{label}");
        assert_eq!(end.back, Back::Status(503), "{label}");
    }
}

/// An inner middleware that asks another service by a client of its own, which has a retry layer too.
struct Asks(reqwest_middleware::ClientWithMiddleware);

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Asks {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        self.0.get(URL).send().await.map_err(|error| match error {
            Error::Middleware(error) => Error::Middleware(error.context("asking")),
            error => error,
        })?;
        next.run(request, extensions).await
    }
}

/// What another client's layer says of its own call is none of ours, and passed on as it is.
#[tokio::test(start_paused = true)]
async fn the_error_of_another_call_is_not_taken_for_one_of_this() {
    let other = super::client(waiting(ms(0)).deadline(ms(100)), &Script::always(Reply::hang()));
    for wraps in [false, true] {
        // It ends just as the deadline of this call does.
        let policy = waiting(ms(0)).max_attempts(2).deadline(ms(200)).build().unwrap();
        let retry = RetryMiddleware::builder(policy);
        let retry = if wraps { retry.wrap_errors() } else { retry };
        let tracker = RetryTracker::new();
        let client = ClientBuilder::new(Client::new())
            .with(retry.build().unwrap())
            .with(Asks(other.clone()))
            .with(Script::always(fine()))
            .build();
        let error = client.get(URL).with_extension(tracker.clone()).send().await.unwrap_err();
        assert_eq!(error.to_string(), "asking", "{wraps}");
        let ours = error.retry_error().unwrap();
        assert_eq!((ours.attempts(), ours.elapsed()), (1, ms(100)), "{wraps}");
        let history = tracker.history().unwrap();
        // A timeout like others.
        let reasons = history.attempts().iter().map(|it| it.decision().stop_reason());
        let expected = [None, Some(AttemptsExhausted)];
        assert_eq!(reasons.collect::<Vec<_>>(), expected, "{wraps}: {history}");
    }
}
