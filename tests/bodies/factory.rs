//! What each attempt sends, and how often a body is made.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Extensions, HeaderValue, Method, StatusCode};
use reqwest::{Body, Request};
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, AttemptOutcome, DeliveryProof, Fault, FaultKind, FaultSet, ReplayBody, RetryError,
    RetryHistory, RetryMiddleware, RetryRequestExt as _, RetryTracker, StopReason, Verdict,
};

use crate::held_clock::{HeldClock, in_time};
use crate::server::{Answer, BUSY, Framing, Received, Server, bound_socket};
use crate::sources::{
    BoxError, Calls, FACTORIES, ONCE, PLAIN_BYTES, Says, Source, content, form, made_by, streamed,
};
use crate::support::{BeforeSend, SCRIPTED, chain, client, no_waits, plain};

const FINE: &str = "200 OK";

/// Busy so often, then fine.
fn busy(times: usize) -> impl Iterator<Item = Answer> {
    std::iter::repeat_n(Answer::status(BUSY), times).chain([Answer::status(FINE)])
}

fn stop_reason(tracker: &RetryTracker) -> Option<StopReason> {
    Some(tracker.history().unwrap().stop_reason())
}

/// The error of the retry's own that is in there.
fn retry_error(error: &Error) -> &RetryError {
    let Error::Middleware(error) = error else { panic!("{error:?}") };
    error.downcast_ref().unwrap()
}

/// Checks one request of a source; gives back its boundary, if it is a form.
fn check(source: &Source, request: &Received) -> Option<String> {
    let label = source.label;
    let body = &request.body;
    let framing = match source.says {
        Says::Length => Framing::Length(body.len()),
        Says::Chunked => Framing::Chunked,
    };
    assert_eq!(request.framing(), framing, "{label}");
    if !source.is_form {
        assert!(*body == content(), "{label}: {} bytes, not the same", body.len());
        return None;
    }
    let content_types = request.values("content-type");
    let [content_type] = content_types[..] else { panic!("{label}: {content_types:?}") };
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    // To the last byte, so that the length is the real one.
    let expected = [
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\na form\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; \
             filename=\"file.json\"\r\n\r\n"
        )
        .into_bytes(),
        content(),
        format!("\r\n--{boundary}--\r\n").into_bytes(),
    ];
    assert!(*body == expected.concat(), "{label}: {}", String::from_utf8_lossy(body));
    Some(boundary.to_owned())
}

#[tokio::test]
async fn every_attempt_sends_the_same_bytes_and_length_from_a_body_of_its_own() {
    for source in FACTORIES.iter().chain([&PLAIN_BYTES]) {
        let label = source.label;
        let (server, calls) = (Server::start(busy(2)).await, Calls::default());
        let put = (source.attach)(client(no_waits()).put(server.url()), &calls);
        assert_eq!(put.send().await.unwrap().status(), StatusCode::OK, "{label}");
        let requests = server.finish().await.requests;
        assert_eq!(requests.len(), 3, "{label}");
        let boundaries = requests.iter().map(|request| check(source, request)).collect::<Vec<_>>();
        if source.is_form {
            let different = boundaries[0] != boundaries[1] && boundaries[1] != boundaries[2];
            assert!(different, "{label}: {boundaries:?}");
        }
        let made = if label == PLAIN_BYTES.label { 0 } else { 3 };
        assert_eq!(calls.get(), made, "{label}");
    }
}

#[tokio::test]
async fn a_body_is_made_once_for_one_attempt() {
    for source in &FACTORIES {
        for (label, method, max_attempts, answers, stop) in [
            ("one allowed", Method::PUT, 1, busy(1), StopReason::AttemptsExhausted),
            ("one needed", Method::PUT, 3, busy(0), StopReason::Completed),
            ("not idempotent", Method::POST, 3, busy(1), StopReason::NotIdempotent),
        ] {
            let label = format!("{}, {label}", source.label);
            let (server, calls) = (Server::start(answers).await, Calls::default());
            let tracker = RetryTracker::new();
            let client = client(no_waits().max_attempts(max_attempts));
            let request = client.request(method, server.url()).with_extension(tracker.clone());
            (source.attach)(request, &calls).send().await.unwrap();
            let requests = server.finish().await.requests;
            assert_eq!((requests.len(), calls.get()), (1, 1), "{label}");
            check(source, &requests[0]);
            assert_eq!(stop_reason(&tracker), Some(stop), "{label}");
        }
    }
}

#[tokio::test]
async fn a_post_that_may_be_repeated_is_sent_again_with_a_new_body() {
    for source in &FACTORIES {
        let label = source.label;
        let (server, calls) = (Server::start(busy(2)).await, Calls::default());
        let policy = no_waits().honour_idempotency_keys(true);
        let post = client(policy).post(server.url()).header("idempotency-key", "\"key\"");
        let response = (source.attach)(post, &calls).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{label}");
        let requests = server.finish().await.requests;
        assert_eq!((requests.len(), calls.get()), (3, 3), "{label}");
        for request in &requests {
            check(source, request);
            assert_eq!(request.values("idempotency-key"), ["\"key\""], "{label}");
        }
    }
}

#[tokio::test]
async fn a_body_that_can_be_sent_once_is_sent_once_and_its_response_comes_back() {
    for source in &ONCE {
        for (method, answers, status, reason) in [
            (Method::PUT, busy(0), StatusCode::OK, StopReason::Completed),
            (Method::POST, busy(0), StatusCode::OK, StopReason::Completed),
            (Method::PUT, busy(1), StatusCode::SERVICE_UNAVAILABLE, StopReason::BodyNotReplayable),
            (Method::POST, busy(1), StatusCode::SERVICE_UNAVAILABLE, StopReason::NotIdempotent),
        ] {
            let label = format!("{} {method} {status}", source.label);
            let server = Server::start(answers).await;
            let tracker = RetryTracker::new();
            let request = client(no_waits()).request(method, server.url());
            let request = (source.attach)(request, &Calls::default());
            let response = request.with_extension(tracker.clone()).send().await.unwrap();
            assert_eq!(response.status(), status, "{label}");
            let requests = server.finish().await.requests;
            assert_eq!(requests.len(), 1, "{label}");
            check(source, &requests[0]);
            assert_eq!(stop_reason(&tracker), Some(reason), "{label}");
            let told = response.extensions().get::<RetryHistory>();
            let told = told.map(RetryHistory::stop_reason);
            let failed = reason != StopReason::Completed;
            assert_eq!(told, failed.then_some(reason), "{label}");
        }
    }
}

/// Control: with bytes in its place, the same refusal is a proof.
#[tokio::test]
async fn a_post_with_a_factory_is_never_proven_unprocessed() {
    let exhausted = (3, Some(StopReason::AttemptsExhausted));
    let once = (1, Some(StopReason::NotIdempotent));
    let unproven = FACTORIES.iter().map(|source| (source, once, 1));
    for (source, ended, made) in unproven.chain([(&PLAIN_BYTES, exhausted, 0)]) {
        let refused = bound_socket();
        let url = format!("http://{}/", refused.local_addr().unwrap());
        let (http, proof) = DeliveryProof::build(plain()).unwrap();
        let policy = no_waits().build().unwrap();
        let retry = RetryMiddleware::builder(policy).delivery_proof(proof).build().unwrap();
        let client = ClientBuilder::new(http).with(retry).build();
        let (calls, tracker) = (Calls::default(), RetryTracker::new());
        let post = client.post(url).with_extension(tracker.clone());
        let error = (source.attach)(post, &calls).send().await.unwrap_err();
        assert!(error.is_connect(), "{}: {error:?}", source.label);
        let history = tracker.history().unwrap();
        let found = (history.attempts().len(), Some(history.stop_reason()));
        assert_eq!((found, calls.get()), (ended, made), "{}: {history}", source.label);
        let proven = history.attempts().iter().all(|attempt| attempt.proven_not_processed());
        assert_eq!(proven, made == 0, "{}: {history}", source.label);
    }
}

// Factories that fail

/// A factory that fails on this call of it.
fn failing_on(fails: usize, calls: &Calls) -> impl Fn() -> FailingBody + Send + Sync + use<> {
    let calls = calls.clone();
    move || {
        let failed = calls.count() == fails;
        std::future::ready(match failed {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "no such backup").into()),
            false => Ok(ReplayBody::new(streamed())),
        })
    }
}

type FailingBody = std::future::Ready<Result<ReplayBody, BoxError>>;

#[tokio::test]
async fn a_factory_that_fails_ends_the_call_with_its_own_error_and_nothing_is_sent() {
    let fault = AttemptOutcome::Fault(Fault::unknown(FaultKind::Invalid));
    let busy_once = AttemptOutcome::Status(StatusCode::SERVICE_UNAVAILABLE);
    for (fails, connections, requests, outcomes) in
        [(1, 0, 0, &[fault][..]), (2, 1, 1, &[busy_once, fault])]
    {
        let (server, calls) = (Server::start(busy(1)).await, Calls::default());
        let tracker = RetryTracker::new();
        let put = client(no_waits()).put(server.url()).body_factory(failing_on(fails, &calls));
        let error = put.with_extension(tracker.clone()).send().await.unwrap_err();

        let own = retry_error(&error);
        assert!(own.is_body(), "{own:?}");
        let said = format!(
            "the request body could not be made (PUT {}, attempts: {fails}, stop: permanent)",
            server.url().trim_end_matches('/')
        );
        assert_eq!(own.to_string(), said);
        let cause = std::error::Error::source(own).unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::NotFound);
        assert_eq!(cause.to_string(), "no such backup");

        let seen = server.finish().await;
        assert_eq!((seen.connections, seen.requests.len()), (connections, requests), "{fails}");
        assert_eq!(calls.get(), fails);
        let history = tracker.history().unwrap();
        let found = history.attempts().iter().map(|attempt| attempt.outcome()).collect::<Vec<_>>();
        assert_eq!(found, outcomes, "{history}");
        assert_eq!(history.stop_reason(), StopReason::Permanent, "{history}");
        assert_eq!(history.earlier_may_have_taken_effect(), fails == 2, "{history}");
    }
}

/// However eager a policy is: the call ends with the error.
#[tokio::test]
async fn no_policy_calls_a_factory_that_failed_again() {
    let every_fault = FaultSet::transient().with(FaultKind::Other).with(FaultKind::Invalid);
    for (label, policy) in [
        ("every fault", no_waits().retry_faults(every_fault)),
        (
            "a classifier",
            no_waits().classifier(|attempt: &Attempt<'_>| {
                attempt.outcome().status().is_none().then_some(Verdict::Transient { delay: None })
            }),
        ),
    ] {
        let (script, calls) = (Script::always(Reply::status(StatusCode::OK)), Calls::default());
        let client = chain(policy).with(script.clone()).build();
        let put = client.put(SCRIPTED).body_factory(failing_on(1, &calls));
        let result = put.send().await;
        assert_eq!((calls.get(), script.received().len()), (1, 0), "{label}");
        assert!(retry_error(&result.unwrap_err()).is_body(), "{label}");
    }
}

// What a factory's body replaces

/// What each of three attempts of a PUT sent, under a paused clock.
async fn three_requests(
    attach: impl FnOnce(reqwest_middleware::RequestBuilder) -> reqwest_middleware::RequestBuilder,
) -> Vec<Received> {
    let _clock = HeldClock::hold();
    let server = Server::start(busy(2)).await;
    let call = attach(client(no_waits()).put(server.url())).send();
    assert_eq!(in_time(call).await.unwrap().status(), StatusCode::OK);
    let requests = server.finish().await.requests;
    assert_eq!(requests.len(), 3);
    requests
}

#[tokio::test(start_paused = true)]
async fn the_fields_of_a_body_replace_the_requests_own_and_no_others() {
    let requests = three_requests(|put| {
        let put = put.header(CONTENT_TYPE, "text/plain").header(CONTENT_TYPE, "text/html");
        put.header(ACCEPT, "text/plain").header(ACCEPT, "text/html").body_factory(|| async {
            let json = HeaderValue::from_static("application/json");
            let body =
                ReplayBody::new("{}").with_field(CONTENT_TYPE, HeaderValue::from_static("?"));
            Ok(body.with_field(CONTENT_TYPE, json).with_field("x-made".parse()?, "yes".parse()?))
        })
    });
    for request in requests.await {
        assert_eq!(request.values("content-type"), ["application/json"]);
        assert_eq!(request.values("x-made"), ["yes"]);
        assert_eq!(request.values("accept"), ["text/plain", "text/html"]);
        assert_eq!(request.body, b"{}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_factory_takes_the_place_of_the_requests_own() {
    let pulled = Calls::default();
    let count = pulled.clone();
    let unread = stream::iter(["never sent"]).map(move |piece| {
        count.count();
        Ok::<_, io::Error>(piece)
    });
    let unread = Body::wrap_stream(unread);
    let made = |put: reqwest_middleware::RequestBuilder| {
        put.body_factory(|| async { Ok(ReplayBody::new("made")) })
    };
    for requests in [
        three_requests(|put| made(put.body("a body of the request's own"))).await,
        three_requests(|put| made(put.body(unread))).await,
    ] {
        for request in requests {
            assert_eq!(request.body, b"made");
            assert_eq!(request.framing(), Framing::Length(4));
        }
    }
    assert_eq!(pulled.get(), 0, "the stream was read");
}

#[tokio::test(start_paused = true)]
async fn no_field_of_a_form_is_left_by_the_factory_that_takes_its_place() {
    let requests = three_requests(|put| {
        let put = put.multipart(form());
        put.body_factory(|| async { Ok(ReplayBody::new("made")) })
    });
    for request in requests.await {
        assert_eq!(request.body, b"made");
        assert_eq!(request.framing(), Framing::Length(4));
    }
}

#[tokio::test]
async fn inner_middlewares_see_the_pristine_request_with_a_new_body_on_each_attempt() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let wrap = BeforeSend(move |request: &mut Request, _: &mut Extensions| {
        let body = request.body().and_then(Body::as_bytes).unwrap().to_vec();
        let headers = request.headers().clone();
        record.lock().unwrap().push((request.url().query().map(str::to_owned), headers, body));
        request.headers_mut().append("x-inner", HeaderValue::from_static("yes"));
        request.headers_mut().remove("x-callers");
        request.url_mut().query_pairs_mut().append_pair("inner", "yes");
        *request.body_mut() = Some("of the inner one".into());
    });
    let server = Server::start(busy(2)).await;
    let calls = Calls::default();
    let put = chain(no_waits()).with(wrap).build().put(server.url()).header("x-callers", "yes");
    let count = calls.clone();
    let put = put.body_factory(move || {
        let body = ReplayBody::new(format!("body {}", count.count()));
        std::future::ready(Ok(body.with_field(CONTENT_TYPE, HeaderValue::from_static("a/b"))))
    });
    put.send().await.unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.len(), 3);
    for (at, (query, headers, body)) in seen.iter().enumerate() {
        assert_eq!(*query, None, "{at}");
        assert_eq!(headers.len(), 2, "{at}: {headers:?}");
        assert_eq!(
            (&headers["x-callers"], &headers[CONTENT_TYPE]),
            (&"yes".parse().unwrap(), &"a/b".parse().unwrap())
        );
        assert_eq!(String::from_utf8_lossy(body), format!("body {}", at + 1));
    }
    for request in server.finish().await.requests {
        assert_eq!(request.values("x-inner"), ["yes"]);
        assert_eq!(request.body, b"of the inner one");
    }
}

/// reqwest can't send a stream again, so its answer is the redirect, which is no failure.
#[tokio::test]
async fn a_redirect_that_keeps_the_body_is_followed_with_bytes_alone() {
    for source in FACTORIES.iter().chain([&PLAIN_BYTES]) {
        let label = source.label;
        let redirect = Answer::redirect("307 Temporary Redirect", "/next");
        let server = Server::start([redirect, Answer::status(FINE)]).await;
        let (calls, tracker) = (Calls::default(), RetryTracker::new());
        let put = client(no_waits()).put(server.url()).with_extension(tracker.clone());
        let response = (source.attach)(put, &calls).send().await.unwrap();
        let follows = ["bytes", "a file that is read", "plain bytes"].contains(&label);
        let (status, sent) = match follows {
            true => (StatusCode::OK, 2),
            false => (StatusCode::TEMPORARY_REDIRECT, 1),
        };
        assert_eq!(response.status(), status, "{label}");
        let requests = server.finish().await.requests;
        assert_eq!(requests.len(), sent, "{label}");
        for request in &requests {
            check(source, request);
        }
        assert_eq!(calls.get(), usize::from(label != PLAIN_BYTES.label), "{label}");
        assert_eq!(stop_reason(&tracker), Some(StopReason::Completed), "{label}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_before_its_length_is_an_error_that_is_not_sent_again() {
    let (server, calls) = (Server::start(busy(0)).await, Calls::default());
    let put = made_by(client(no_waits()).put(server.url()), &calls, || async {
        Ok(ReplayBody::new(streamed()).with_length(content().len() as u64 + 1))
    });
    let tracker = RetryTracker::new();
    put.with_extension(tracker.clone()).send().await.unwrap_err();
    let history = tracker.history().unwrap();
    let fault = history.attempts()[0].outcome().fault();
    assert_eq!(fault.map(Fault::kind), Some(FaultKind::Invalid), "{history}");
    assert_eq!((history.attempts().len(), calls.get()), (1, 1), "{history}");
    assert_eq!(server.finish().await.requests.len(), 0, "it was never whole");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_factory_counts_against_the_deadline_but_not_the_attempt_timeout() {
    const MAKING: Duration = Duration::from_secs(5);
    const TIMEOUT: Duration = Duration::from_secs(1);
    for (deadline, stop) in
        [(None, StopReason::AttemptsExhausted), (Some(2 * MAKING), StopReason::DeadlinePassed)]
    {
        let script = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
        let policy = no_waits().attempt_timeout(TIMEOUT).deadline(deadline);
        let client = chain(policy).with(script.clone()).build();
        let (calls, tracker) = (Calls::default(), RetryTracker::new());
        let put = made_by(client.put(SCRIPTED), &calls, || async {
            tokio::time::sleep(MAKING).await;
            Ok(ReplayBody::new("made"))
        });
        let result = put.with_extension(tracker.clone()).send().await;
        // The second body is made just as the deadline passes.
        assert_eq!(result.is_ok(), deadline.is_none(), "{result:?}");
        let received = script.received();
        let expected = (1..).map(|at| at * MAKING).take(if deadline.is_some() { 1 } else { 3 });
        let arrivals = received.iter().map(|received| received.at).collect::<Vec<_>>();
        assert_eq!(arrivals, expected.collect::<Vec<_>>(), "{deadline:?}");
        for received in &received {
            assert_eq!(received.timeout, Some(TIMEOUT));
            assert_eq!(received.body.as_deref(), Some(&b"made"[..]));
            assert!(!received.headers.contains_key(CONTENT_LENGTH));
        }
        assert_eq!(stop_reason(&tracker), Some(stop), "{deadline:?}");
    }
}
