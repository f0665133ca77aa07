//! One count of attempts for the middleware and a loop around a streamed body.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::{Extensions, Method, StatusCode};
use reqwest::{Body, Client, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script, seeded_jitter};
use reqwest_typed_retry::{
    Attempt, Backoff, DeliveryProof, FaultKind, Jitter, ResendCount, RetryDecision, RetryHistory,
    RetryMiddleware, RetryPolicy, RetryPolicyBuilder, RetryReason, RetryRequestExt as _,
    RetryScope, SharedSession, StopReason, Verdict,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What the final middleware answers.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Status(u16),
    /// 200, and a body that fails after four bytes.
    Cut,
    /// 200, and `whole`.
    Whole,
}

use Answer::{Cut, Status, Whole};

/// A final middleware: these answers, in order, and the last one again and again.
#[derive(Clone)]
struct Answers {
    list: Arc<[Answer]>,
    sent: Arc<AtomicUsize>,
    resend_counts: Arc<Mutex<Vec<u32>>>,
}

impl Answers {
    fn new(list: &[Answer]) -> Self {
        Self { list: list.into(), sent: Arc::default(), resend_counts: Arc::default() }
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// A client whose own policy never resends, so that all that is sent again is the session's.
    fn client(&self) -> ClientWithMiddleware {
        let retry = RetryMiddleware::new(RetryPolicy::never());
        let http = Client::builder().no_proxy().build().unwrap();
        ClientBuilder::new(http).with(retry).with(self.clone()).build()
    }
}

#[async_trait]
impl Middleware for Answers {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        _: Next<'_>,
    ) -> Result<Response> {
        self.resend_counts.lock().unwrap().push(ResendCount::of(extensions));
        let at = self.sent.fetch_add(1, Ordering::SeqCst);
        let (status, chunks) = match self.list[at.min(self.list.len() - 1)] {
            Status(status) => (status, vec![Ok("no")]),
            Cut => (200, vec![Ok("half"), Err(std::io::ErrorKind::ConnectionReset)]),
            Whole => (200, vec![Ok("whole")]),
        };
        let chunks = chunks.into_iter().map(|chunk| chunk.map_err(std::io::Error::from));
        let body = Body::wrap_stream(futures_util::stream::iter(chunks.collect::<Vec<_>>()));
        let response = http::Response::builder().status(status).url(request.url().clone());
        Ok(response.body(body).unwrap().into())
    }
}

const DELAY: Duration = Duration::from_secs(1);

fn policy(max_attempts: u32) -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .max_attempts(max_attempts)
        .backoff(Backoff::constant(DELAY))
        .jitter(Jitter::None)
}

fn session(policy: RetryPolicyBuilder) -> SharedSession {
    SharedSession::new(policy.build().unwrap())
}

/// The loop that the documentation shows.
async fn download(
    client: &ClientWithMiddleware,
    method: Method,
    session: &SharedSession,
) -> Result<String> {
    loop {
        let request = client.request(method.clone(), "http://service.test/");
        let response = request.retry_session(session).send().await?;
        match response.error_for_status()?.text().await {
            Ok(text) => return Ok(text),
            Err(error) => session.resend_after(error).await?,
        }
    }
}

// F078, F079 (the resuming itself: `examples/download`)
#[tokio::test(start_paused = true)]
async fn the_middleware_and_the_loop_count_the_same_attempts() {
    for (answers, max_attempts, sent, succeeds) in [
        (vec![Whole], 3, 1, true),
        (vec![Cut, Cut, Whole], 3, 3, true),
        (vec![Cut, Cut, Whole], 2, 2, false),
        (vec![Status(503), Cut, Whole], 3, 3, true),
        (vec![Cut, Status(503), Whole], 3, 3, true),
        (vec![Status(503), Cut, Status(503), Cut, Whole], 5, 5, true),
        // Whose attempt the last one is makes no difference.
        (vec![Status(503), Cut, Status(503), Cut, Whole], 4, 4, false),
        (vec![Status(503), Cut, Status(503), Cut, Whole], 3, 3, false),
        (vec![Cut], 1, 1, false),
        (vec![Status(404)], 3, 1, false),
    ] {
        let label = format!("{answers:?}, {max_attempts} attempts");
        let script = Answers::new(&answers);
        let session = session(policy(max_attempts));
        let started = Instant::now();
        let result = download(&script.client(), Method::GET, &session).await;
        assert_eq!(result.as_deref().ok(), succeeds.then_some("whole"), "{label}: {result:?}");
        assert_eq!(script.sent(), sent, "{label}");
        assert_eq!(session.attempts() as usize, sent, "{label}");
        // One wait before each attempt but the first, each to the millisecond of the timer.
        let waited = usize::try_from(started.elapsed().as_secs()).unwrap();
        assert_eq!(waited, sent - 1, "{label}");
        let counts: Vec<_> = (0..u32::try_from(sent).unwrap()).collect();
        assert_eq!(*script.resend_counts.lock().unwrap(), counts, "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_history_of_a_request_goes_on_with_the_count() {
    let script = Answers::new(&[Cut, Status(503), Whole]);
    let (client, session) = (script.client(), session(policy(4)));
    let get = || client.get("http://service.test/").retry_session(&session).send();
    let error = get().await.unwrap().text().await.unwrap_err();
    session.resend_after(error).await.unwrap();
    let response = get().await.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    let numbers: Vec<_> = history.attempts().iter().map(|attempt| attempt.number()).collect();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_take_effect_twice_is_not_sent_again() {
    for (method, may, sent) in
        [(Method::POST, false, 1), (Method::POST, true, 2), (Method::PUT, false, 2)]
    {
        let script = Answers::new(&[Cut, Whole]);
        let session = session(policy(3).assume_idempotent(may));
        let result = download(&script.client(), method.clone(), &session).await;
        assert_eq!((script.sent(), result.is_ok()), (sent, sent == 2), "{method} {may}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_runs_from_the_making_of_the_session() {
    let session = session(policy(10).deadline(Duration::from_millis(2500)));
    let script = Answers::new(&[Cut]);
    assert!(download(&script.client(), Method::GET, &session).await.is_err());
    // At 0, 1 and 2 seconds; the next would be at 3.
    assert_eq!(script.sent(), 3);

    let script = Answers::new(&[Status(503)]);
    let response =
        script.client().get("http://service.test/").retry_session(&session).send().await.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(history.stop_reason(), StopReason::DeadlineWouldPass);
    assert_eq!(script.sent(), 1);
}

async fn body_error() -> reqwest::Error {
    let client = Answers::new(&[Cut]).client();
    client.get("http://service.test/").send().await.unwrap().bytes().await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn before_the_first_request_nothing_may_be_sent_twice() {
    let session = session(policy(3));
    let decision = session.decide_after(&body_error().await);
    assert_eq!(decision.stop_reason(), Some(StopReason::NotIdempotent));
}

/// As the documentation says: what is judged is the last request that the session was told of.
#[tokio::test(start_paused = true)]
async fn a_client_without_the_middleware_tells_the_session_nothing() {
    let answers = Answers::new(&[Whole]);
    let (told, untold) =
        (answers.client(), ClientBuilder::new(Client::new()).with(answers.clone()).build());
    let session = session(policy(3));
    for (client, method, stop) in [
        (&untold, Method::GET, Some(StopReason::NotIdempotent)),
        (&told, Method::GET, None),
        (&untold, Method::POST, None),
        (&told, Method::POST, Some(StopReason::NotIdempotent)),
        (&untold, Method::GET, Some(StopReason::NotIdempotent)),
    ] {
        // As long as nothing is known, the count does not move.
        let request = client.request(method.clone(), "http://service.test/");
        request.retry_session(&session).send().await.unwrap();
        let decision = session.decide_after(&body_error().await);
        assert_eq!(decision.stop_reason(), stop, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_the_body_decides() {
    let script = Answers::new(&[Whole]);
    let session = session(policy(3));
    script.client().get("http://service.test/").retry_session(&session).send().await.unwrap();
    let decision = session.clone().decide_after(&body_error().await);
    assert!(matches!(
        decision,
        RetryDecision::RetryAfter { delay: DELAY, reason: RetryReason::Fault(_), .. }
    ));
    assert_eq!(session.attempts(), 2, "clones share the count");
    let broken = serde_json::from_str::<u8>("").unwrap_err();
    let decision = session.decide_after(&broken);
    assert_eq!(decision.stop_reason(), Some(StopReason::Permanent));
    let error = session.resend_after(broken).await.unwrap_err();
    assert!(error.is_eof(), "the error itself comes back");
    assert_eq!(session.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_classifier_is_told_where_the_last_request_went() {
    let script = Answers::new(&[Whole]);
    let session = session(policy(3).classifier(|attempt: &Attempt<'_>| {
        // Of the cut: that the middleware tells where it went is another matter.
        let is_cut = attempt.outcome().status().is_none();
        let there = (attempt.host(), attempt.path()) == ("service.test", "/a");
        (is_cut && there).then_some(Verdict::Permanent)
    }));
    for (path, stop) in [("a", Some(StopReason::Permanent)), ("b", None)] {
        let url = format!("http://service.test/{path}?q");
        script.client().get(url).retry_session(&session).send().await.unwrap();
        let decision = session.decide_after(&body_error().await);
        assert_eq!(decision.stop_reason(), stop, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_has_been_judged_by_the_middleware() {
    let script = Answers::new(&[Status(503)]);
    let session = session(policy(1));
    let request = script.client().get("http://service.test/").retry_session(&session);
    let error = request.send().await.unwrap().error_for_status().unwrap_err();
    assert_eq!(session.decide_after(&error).stop_reason(), Some(StopReason::AttemptsExhausted));
}

/// Not what it is meant for; but no misuse makes a POST safe to repeat, or adds attempts.
#[tokio::test(start_paused = true)]
async fn requests_side_by_side_on_one_session_keep_their_own_class_and_one_count() {
    for (first, sent) in [(Method::POST, (1, 3)), (Method::HEAD, (2, 2))] {
        let slow = Reply::status(StatusCode::SERVICE_UNAVAILABLE).after(DELAY);
        let script = Script::always(slow);
        // With a proof every request is kept, so that it could be sent again.
        let proof = DeliveryProof::build(Client::builder()).unwrap().1;
        let retry = RetryMiddleware::builder(RetryPolicy::never()).delivery_proof(proof);
        let client = ClientBuilder::new(Client::new())
            .with(retry.build().unwrap())
            .with(script.clone())
            .build();
        let session = session(policy(3));
        let send = |method: Method, after: Duration| {
            let request = client.request(method, "http://service.test/").retry_session(&session);
            async move {
                tokio::time::sleep(after).await;
                request.send().await.unwrap();
            }
        };
        let second = send(Method::GET, DELAY / 2);
        futures_util::future::join(send(first.clone(), Duration::ZERO), second).await;
        let count = |method| script.received().iter().filter(|it| it.method == method).count();
        assert_eq!((count(first.clone()), count(Method::GET)), sent, "{first}");
        assert_eq!(session.attempts(), 3, "{first}");
    }
}

/// Also where another one, which may be repeated, moves the count on meanwhile.
#[tokio::test(start_paused = true)]
async fn a_resend_of_another_request_makes_the_last_one_no_more_repeatable() {
    let script = Script::answering(|request| match (&request.method, request.resend_count) {
        (&Method::GET, 0) => Reply::status(StatusCode::SERVICE_UNAVAILABLE).after(DELAY),
        _ => Reply::status(StatusCode::OK).after(DELAY),
    });
    let retry = RetryMiddleware::new(RetryPolicy::never());
    let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
    let session = session(policy(5));
    let send = |method: Method, after: Duration| {
        let request = client.request(method, "http://service.test/").retry_session(&session);
        async move {
            tokio::time::sleep(after).await;
            request.send().await.unwrap();
        }
    };
    futures_util::future::join(send(Method::GET, Duration::ZERO), send(Method::POST, DELAY / 2))
        .await;
    let sent: Vec<_> = script.received().into_iter().map(|request| request.method).collect();
    assert_eq!(sent, [Method::GET, Method::POST, Method::GET]);
    let decision = session.decide_after(&body_error().await);
    assert_eq!(decision.stop_reason(), Some(StopReason::NotIdempotent));
}

#[tokio::test(start_paused = true)]
async fn the_last_request_is_the_one_that_is_judged() {
    let script = Answers::new(&[Whole]);
    let session = session(policy(3));
    for (method, stop) in
        [(Method::GET, None), (Method::POST, Some(StopReason::NotIdempotent)), (Method::PUT, None)]
    {
        let request = script.client().request(method.clone(), "http://service.test/");
        request.retry_session(&session).send().await.unwrap();
        let decision = session.clone().decide_after(&body_error().await);
        assert_eq!(decision.stop_reason(), stop, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_limits_the_loop_too() {
    let script = Answers::new(&[Whole]);
    let token = CancellationToken::new();
    for (label, waited, stop) in [
        ("nothing", DELAY, None),
        ("a deadline", Duration::ZERO, Some(StopReason::DeadlineWouldPass)),
        ("a token, in the wait", DELAY / 2, None),
        ("a token, before", Duration::ZERO, Some(StopReason::Cancelled)),
    ] {
        let scope = match label {
            "nothing" => RetryScope::new(),
            "a deadline" => RetryScope::new().deadline_in(DELAY),
            _ => RetryScope::new().cancel_on(token.clone()),
        };
        let session = session(policy(3));
        script.client().get("http://service.test/").retry_session(&session).send().await.unwrap();
        let (error, again, started) = (body_error().await, body_error().await, Instant::now());
        let cancel = async {
            if label == "a token, in the wait" {
                tokio::time::sleep(DELAY / 2).await;
                token.cancel();
            }
        };
        let resend = scope.clone().run(session.resend_after(error));
        let ((), resent) = futures_util::future::join(cancel, resend).await;
        assert_eq!(started.elapsed(), waited, "{label}");
        assert_eq!(resent.is_ok(), label == "nothing", "{label}");
        let decision = scope.run(async { session.decide_after(&again) }).await;
        if stop.is_some() {
            assert_eq!(decision.stop_reason(), stop, "{label}");
        }
    }
}

/// The layer's own errors are read for what they are, whoever gives them to the session.
#[tokio::test(start_paused = true)]
async fn a_head_timeout_is_a_timeout() {
    let retry = RetryMiddleware::new(RetryPolicy::never());
    let hangs = Script::always(Reply::hang());
    let client = ClientBuilder::new(Client::new()).with(retry).with(hangs).build();
    let session = session(policy(3).head_timeout(DELAY));
    let stream = futures_util::stream::iter([Ok::<_, std::io::Error>("piece")]);
    let request = client.put("http://service.test/").body(Body::wrap_stream(stream));
    let error = request.retry_session(&session).send().await.unwrap_err();
    let decision = session.decide_after(&error);
    assert_eq!(decision.retry_reason(), Some(RetryReason::Fault(FaultKind::Timeout)));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_can_not_be_sent_again_moves_no_count() {
    let script = Answers::new(&[Status(503)]);
    let session = session(policy(3));
    let stream = futures_util::stream::iter([Ok::<_, std::io::Error>("piece")]);
    let request = script.client().put("http://service.test/").body(Body::wrap_stream(stream));
    let response = request.retry_session(&session).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((script.sent(), session.attempts()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_scope_does_not_count_from_the_making_of_the_session() {
    let session = session(policy(3));
    tokio::time::sleep(DELAY).await;
    let script = Answers::new(&[Status(503), Status(503), Whole]);
    let request = script.client().get("http://service.test/").retry_session(&session);
    // Time for one wait, not for two.
    let scope = RetryScope::new().deadline_in(DELAY * 3 / 2);
    let response = scope.run(request.send()).await.unwrap();
    assert_eq!((response.status(), script.sent()), (StatusCode::SERVICE_UNAVAILABLE, 2));
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(history.stop_reason(), StopReason::DeadlineWouldPass);
}

/// A wait that is given up puts everything back where it was, unless another request has begun meanwhile.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_makes_no_later_request_repeatable() {
    let answers = Answers::new(&[Cut]);
    let client = answers.client();
    let session = SharedSession::new(RetryPolicy::default());
    let url = "http://service.test/";
    client.get(url).retry_session(&session).send().await.unwrap();
    let mut wait = Box::pin(session.resend_after(body_error().await));
    assert!(futures_util::poll!(&mut wait).is_pending());
    client.post(url).retry_session(&session).send().await.unwrap();
    drop(wait);
    assert_eq!(session.attempts(), 2, "both were sent");
    let decision = session.decide_after(&body_error().await);
    assert_eq!(decision.stop_reason(), Some(StopReason::NotIdempotent));
}

/// What the loop decides, too.
#[tokio::test(start_paused = true)]
async fn the_clients_own_clock_and_generator_serve_the_loop() {
    let now = SystemTime::UNIX_EPOCH + DELAY;
    let waits = |seed| async move {
        let answers = Answers::new(&[Cut]);
        let retry = RetryMiddleware::builder(RetryPolicy::never())
            .generator(seeded_jitter(seed))
            .wall_clock(move || now)
            .build()
            .unwrap();
        let client = ClientBuilder::new(Client::new()).with(retry).with(answers).build();
        let rule = move |seen: &Attempt<'_>| {
            assert_eq!(seen.now(), now);
            None
        };
        let session = session(policy(8).jitter(Jitter::Full).classifier(rule));
        let mut waits = Vec::new();
        loop {
            let request = client.get("http://service.test/").retry_session(&session);
            let error = request.send().await.unwrap().text().await.unwrap_err();
            match session.decide_after(&error) {
                RetryDecision::RetryAfter { delay, .. } => waits.push(delay),
                _ => return waits,
            }
        }
    };
    let one = waits(7).await;
    assert_eq!((one.len(), &one), (7, &waits(7).await));
    assert_ne!(one, waits(8).await);
}
