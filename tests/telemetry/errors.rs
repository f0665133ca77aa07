//! The errors of the layer's own: what each says of its call. Nobody listens: that must make no difference.

use std::error::Error as _;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join};
use http::Method;
use reqwest::Response;
use reqwest_middleware::{ClientWithMiddleware, Error, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Cooldown, DrainLimits, ReplayBody, RetryError, RetryErrorExt as _, RetryMiddleware,
    RetryMiddlewareBuilder, RetryPolicy, RetryPolicyBuilder, RetryRequestExt as _, RetryScope,
    SharedSession, StopReason,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{ORIGIN, URL, asking, ms, policy, reply, world};

/// An error of the application's own.
#[derive(Debug, PartialEq)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret cause")
    }
}

impl std::error::Error for Broken {}

fn client_of(retry: RetryMiddlewareBuilder, replies: Vec<Reply>) -> ClientWithMiddleware {
    world::client(retry.build().unwrap(), &Script::new(replies))
}

fn retry(policy: RetryPolicyBuilder) -> RetryMiddlewareBuilder {
    RetryMiddleware::builder(policy.build().unwrap())
}

fn client(policy: RetryPolicyBuilder, replies: Vec<Reply>) -> ClientWithMiddleware {
    client_of(retry(policy), replies)
}

/// A PUT or POST whose body can be made so often.
async fn making(method: Method, times: u32, replies: Vec<Reply>) -> Result<Response> {
    let made = AtomicU32::new(0);
    let make = move || {
        let is_broken = made.fetch_add(1, Ordering::Relaxed) >= times;
        async move { if is_broken { Err(Broken.into()) } else { Ok(ReplayBody::new("")) } }
    };
    client(policy(), replies).request(method, URL).body_factory(make).send().await
}

async fn cancelled(after: Option<u64>, replies: Vec<Reply>) -> Result<Response> {
    let token = CancellationToken::new();
    let client = client_of(retry(policy()).drain(DrainLimits::none()), replies);
    let call = RetryScope::new().cancel_on(token.clone()).run(client.get(URL).send());
    let cancel = async {
        match after {
            Some(millis) => sleep(ms(millis)).await,
            None => token.cancel(),
        }
        token.cancel();
    };
    join(cancel, call).await.1
}

fn wrapping(policy: RetryPolicyBuilder, reply: Reply) -> ClientWithMiddleware {
    world::client(retry(policy).wrap_errors().build().unwrap(), &Script::always(reply))
}

struct Case {
    label: &'static str,
    call: LocalBoxFuture<'static, Result<Response>>,
    /// What it says yes to.
    is: &'static [&'static str],
    display: &'static str,
    attempts: u32,
    elapsed: Duration,
    stop: StopReason,
    method: Method,
}

fn case(
    label: &'static str,
    call: impl Future<Output = Result<Response>> + 'static,
    is: &'static [&'static str],
    display: &'static str,
    (attempts, millis, stop, method): (u32, u64, StopReason, Method),
) -> Case {
    let elapsed = ms(millis);
    Case { label, call: Box::pin(call), is, display, attempts, elapsed, stop, method }
}

impl Case {
    async fn check(self) {
        let Self { label, call, is, display, attempts, elapsed, stop, method } = self;
        let error = call.await.expect_err(label);
        let ours = error.retry_error().unwrap_or_else(|| panic!("{label}: {error:?}"));
        assert_eq!(ours.to_string(), display, "{label}");
        assert_eq!(says(ours), is, "{label}");
        assert_eq!(error.timed_out(), ours.is_timeout(), "{label}");
        let seen = (ours.attempts(), ours.elapsed(), ours.stop_reason());
        assert_eq!(seen, (attempts, elapsed, Some(stop)), "{label}");
        assert_eq!((ours.method(), ours.origin()), (Some(&method), Some(ORIGIN)), "{label}");
        for shown in [format!("{ours}"), format!("{ours:?}"), format!("{ours:#?}")] {
            assert!(!shown.contains("secret"), "{label}: {shown}");
            assert!(shown.contains(ORIGIN), "{label}: {shown}");
        }
    }
}

fn says(error: &RetryError) -> Vec<&'static str> {
    [
        ("body", error.is_body()),
        ("timeout", error.is_timeout()),
        ("deadline", error.is_deadline()),
        ("cancelled", error.is_cancelled()),
        ("held back", error.is_held_back()),
        ("source", error.source().is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is)| is.then_some(name))
    .collect()
}

use StopReason::{
    AttemptsExhausted, Cancelled, DeadlinePassed, DeadlineWouldPass, NotIdempotent, Permanent,
};

#[tokio::test(start_paused = true)]
async fn those_of_a_body_say_which_attempt_was_not_sent() {
    let cases = [
        case(
            "the first",
            making(Method::POST, 0, vec![]),
            &["body", "source"],
            "the request body could not be made \
             (POST https://service.test:8443, attempts: 1, stop: permanent)",
            (1, 0, Permanent, Method::POST),
        ),
        case(
            "the second",
            making(Method::PUT, 1, vec![reply(503).after(ms(30))]),
            &["body", "source"],
            "the request body could not be made \
             (PUT https://service.test:8443, attempts: 2, stop: permanent)",
            (2, 130, Permanent, Method::PUT),
        ),
    ];
    for case in cases {
        case.check().await;
    }
    let error = making(Method::POST, 0, vec![]).await.unwrap_err();
    let source = error.retry_error().unwrap().source().unwrap();
    assert_eq!(source.downcast_ref(), Some(&Broken));
}

#[tokio::test(start_paused = true)]
async fn those_of_time_say_which_limit_it_was() {
    let late = |policy: RetryPolicyBuilder, method: Method, replies| async move {
        client(policy, replies).request(method, URL).send().await
    };
    let cases = [
        case(
            "a head timeout",
            late(policy().head_timeout(ms(10)), Method::POST, vec![Reply::hang()]),
            &["timeout"],
            "no response head came within the time limit \
             (POST https://service.test:8443, attempts: 1, stop: not_idempotent)",
            (1, 10, NotIdempotent, Method::POST),
        ),
        case(
            "two head timeouts",
            late(
                policy().head_timeout(ms(10)).max_attempts(2),
                Method::GET,
                vec![Reply::hang(), Reply::hang()],
            ),
            &["timeout"],
            "no response head came within the time limit \
             (GET https://service.test:8443, attempts: 2, stop: attempts_exhausted)",
            (2, 120, AttemptsExhausted, Method::GET),
        ),
        case(
            "in a session, made a second ago",
            async move {
                let policy = policy().head_timeout(ms(10)).build().unwrap();
                let session = SharedSession::new(policy);
                sleep(ms(1_000)).await;
                let client = client(super::policy(), vec![Reply::hang()]);
                client.post(URL).retry_session(&session).send().await
            },
            &["timeout"],
            "no response head came within the time limit \
             (POST https://service.test:8443, attempts: 1, stop: not_idempotent)",
            (1, 1_010, NotIdempotent, Method::POST),
        ),
        case(
            "a deadline, on the wire",
            late(policy().deadline(ms(150)), Method::GET, vec![reply(503), Reply::hang()]),
            &["timeout", "deadline"],
            "the deadline passed (GET https://service.test:8443, attempts: 2, stop: deadline_passed)",
            (2, 150, DeadlinePassed, Method::GET),
        ),
        case(
            "that of a scope, on the wire",
            async move {
                let late = late(policy(), Method::POST, vec![Reply::hang()]);
                RetryScope::new().deadline_in(ms(70)).run(late).await
            },
            &["timeout", "deadline"],
            "the deadline passed (POST https://service.test:8443, attempts: 1, stop: deadline_passed)",
            (1, 70, DeadlinePassed, Method::POST),
        ),
        case(
            "that of a scope, before the first attempt",
            RetryScope::new().deadline_in(ms(0)).run(late(policy(), Method::GET, vec![])),
            &["timeout", "deadline"],
            "the deadline passed (GET https://service.test:8443, attempts: 0, stop: deadline_passed)",
            (0, 0, DeadlinePassed, Method::GET),
        ),
        case(
            "that of a scope, before a cooldown",
            async {
                let retry = retry(policy().deadline(ms(60_000))).cooldown(Cooldown::by_origin());
                let client = client_of(retry, vec![asking(429, 2)]);
                let once = RetryScope::new().policy(RetryPolicy::never());
                once.run(client.get(URL).send()).await.unwrap();
                let soon = RetryScope::new().deadline_in(ms(1_000));
                soon.run(client.get(URL).send()).await
            },
            &["held back"],
            "the server asked for quiet for longer than the deadline allows \
             (GET https://service.test:8443, attempts: 0, stop: deadline_would_pass)",
            (0, 0, DeadlineWouldPass, Method::GET),
        ),
    ];
    for case in cases {
        case.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn those_of_a_cancellation_say_how_far_it_came() {
    let cases = [
        case(
            "before the first attempt",
            cancelled(None, vec![]),
            &["cancelled"],
            "the request was cancelled (GET https://service.test:8443, attempts: 0, stop: cancelled)",
            (0, 0, Cancelled, Method::GET),
        ),
        case(
            "during a wait, and what there was is lost",
            cancelled(Some(40), vec![reply(503)]),
            &["cancelled"],
            "the request was cancelled (GET https://service.test:8443, attempts: 1, stop: cancelled)",
            (1, 40, Cancelled, Method::GET),
        ),
    ];
    for case in cases {
        case.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_were_asked_for_wrap_the_last_error() {
    let send = |client: ClientWithMiddleware| async move { client.get(URL).send().await };
    let cases = [
        case(
            "a refused connection",
            send(wrapping(policy(), Reply::connect_error())),
            &["source"],
            "the request failed (GET https://service.test:8443, attempts: 3, stop: attempts_exhausted)",
            (3, 300, AttemptsExhausted, Method::GET),
        ),
        case(
            "reqwest's own timeout",
            send(wrapping(policy().attempt_timeout(ms(50)).max_attempts(1), Reply::hang())),
            &["timeout", "source"],
            "the request failed (GET https://service.test:8443, attempts: 1, stop: attempts_exhausted)",
            (1, 50, AttemptsExhausted, Method::GET),
        ),
        case(
            "one of another middleware",
            send(wrapping(policy(), Reply::error(|| Error::middleware(Broken)))),
            &["source"],
            "the request failed (GET https://service.test:8443, attempts: 1, stop: permanent)",
            (1, 0, Permanent, Method::GET),
        ),
        case(
            "one of ours is not wrapped again",
            send(wrapping(policy().head_timeout(ms(10)).max_attempts(1), Reply::hang())),
            &["timeout"],
            "no response head came within the time limit \
             (GET https://service.test:8443, attempts: 1, stop: attempts_exhausted)",
            (1, 10, AttemptsExhausted, Method::GET),
        ),
    ];
    for case in cases {
        case.check().await;
    }
}

/// What is inside is as it came, the URL too: it is not ours to change.
#[tokio::test(start_paused = true)]
async fn the_source_is_the_error_as_it_came() {
    let of = |policy: RetryPolicyBuilder, reply| async move {
        wrapping(policy.max_attempts(1), reply).get(URL).send().await.unwrap_err()
    };
    let refused = of(policy(), Reply::connect_error()).await;
    let late = of(policy().attempt_timeout(ms(50)), Reply::hang()).await;
    for (error, is_timeout) in [(&refused, false), (&late, true)] {
        let source = error.retry_error().unwrap().source().unwrap();
        let Some(Error::Reqwest(inner)) = source.downcast_ref() else { panic!("{source:?}") };
        assert_eq!((inner.is_timeout(), inner.is_connect()), (is_timeout, !is_timeout));
        assert_eq!(inner.url().unwrap().as_str(), URL);
        assert!(std::ptr::eq(error.reqwest_error().unwrap(), inner));
    }

    let broken = of(policy(), Reply::error(|| Error::middleware(Broken))).await;
    let source = broken.retry_error().unwrap().source().unwrap();
    let Some(Error::Middleware(inner)) = source.downcast_ref() else { panic!("{source:?}") };
    assert_eq!(inner.downcast_ref(), Some(&Broken));
}
