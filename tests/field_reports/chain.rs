//! Section K, and what belongs to it from others: the middlewares around the retry, state of one
//! call, and calls side by side.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use http::{Extensions, Method, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Error, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, Outcome, ResendCount, RetryMiddleware, RetryPolicy, RetryTracker, StopReason,
};
use wiremock::{Mock, MockServer, matchers};

use crate::support::{
    Act, BeforeSend, CREATED, CUT, HALF_A_HEAD, HANGING, RefusedPort, SCRIPTED, Seen, UNAVAILABLE,
    WireServer, chain, client, ms, no_waits, reply, requests, scripted, secs, server, waits,
};

// F072
#[test]
fn any_number_of_attempts_needs_no_more_stack_than_one() {
    const STACK: usize = 512 * 1024;
    const RESENDS: usize = 500;
    let unavailable = || Reply::status(StatusCode::SERVICE_UNAVAILABLE);
    let replies = std::iter::repeat_with(unavailable).take(RESENDS);
    let script = Script::new(replies.chain([Reply::status(StatusCode::OK)]));
    let policy = no_waits().max_attempts(501).build().unwrap();
    let retry = RetryMiddleware::builder(policy).without_budget().build().unwrap();
    let client =
        ClientBuilder::new(reqwest::Client::new()).with(retry).with(script.clone()).build();
    let call = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let call = client.get(SCRIPTED).send();
        runtime.unwrap().block_on(call).unwrap().status()
    };
    let thread = thread::Builder::new().stack_size(STACK).spawn(call).unwrap();
    assert_eq!(thread.join().unwrap(), 200);
    assert_eq!(script.received().len(), RESENDS + 1);
}

// F104
#[tokio::test]
async fn an_inner_signer_signs_each_attempt_afresh() {
    let server = server([reply(503), reply(503), reply(200)]).await;
    let signed = AtomicU32::new(0);
    let sign = BeforeSend(move |request: &mut Request, _: &mut Extensions| {
        let signature = signed.fetch_add(1, Ordering::SeqCst) + 1;
        request.headers_mut().append("signature", signature.into());
    });
    let client = chain(no_waits()).with(sign).build();
    assert_eq!(client.get(server.uri()).send().await.unwrap().status(), 200);
    let requests = requests(&server).await;
    let signatures = requests.iter().map(|request| {
        let values = request.headers.get_all("signature").iter();
        values.map(|value| value.to_str().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(signatures.collect::<Vec<_>>(), [["1"], ["2"], ["3"]]);
}

// F106
#[tokio::test]
async fn what_an_inner_layer_appends_does_not_pile_up() {
    let server = server([reply(503)]).await;
    let append = BeforeSend(|request: &mut Request, _: &mut Extensions| {
        request.headers_mut().append("traceparent", "inner".parse().unwrap());
    });
    let client = chain(no_waits().max_attempts(5)).with(append).build();
    let get = client.get(server.uri()).header("traceparent", "callers");
    get.send().await.unwrap();
    let requests = requests(&server).await;
    assert_eq!(requests.len(), 5);
    for request in requests {
        let values: Vec<_> = request.headers.get_all("traceparent").iter().collect();
        assert_eq!(values, ["callers", "inner"]);
    }
}

/// An inner middleware that notes [`ResendCount::of`] for each attempt.
fn noting_resends() -> (Arc<Mutex<Vec<u32>>>, impl Middleware) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let note = BeforeSend(move |_: &mut Request, extensions: &mut Extensions| {
        log.lock().unwrap().push(ResendCount::of(extensions));
    });
    (seen, note)
}

// F107
#[tokio::test]
async fn an_inner_layer_knows_which_resend_it_sees() {
    let (seen, note) = noting_resends();
    let script = Script::always(Reply::status(StatusCode::BAD_GATEWAY));
    let client = chain(no_waits()).with(note).with(script.clone()).build();
    client.get(SCRIPTED).send().await.unwrap();
    assert_eq!(seen.lock().unwrap()[..], [0, 1, 2]);
}

// F107
#[tokio::test]
async fn resends_are_counted_from_nought_for_each_call() {
    let (seen, note) = noting_resends();
    let script = Script::always(Reply::status(StatusCode::BAD_GATEWAY));
    let client = chain(no_waits().max_attempts(2)).with(note).with(script).build();
    let mut extensions = Extensions::new();
    for _ in 0..2 {
        let request = client.get(SCRIPTED).build().unwrap();
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
    }
    assert_eq!(seen.lock().unwrap()[..], [0, 1, 0, 1]);
}

// F107
#[tokio::test]
async fn an_outer_layer_sees_one_call_and_its_outcome() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let outer = BeforeSend(move |_: &mut Request, _: &mut Extensions| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let script =
        Script::new([503, 503, 200].map(|code| Reply::status(StatusCode::from_u16(code).unwrap())));
    let client = ClientBuilder::new(crate::support::http())
        .with(outer)
        .with(RetryMiddleware::new(no_waits().build().unwrap()))
        .with(script.clone())
        .build();
    assert_eq!(client.get(SCRIPTED).send().await.unwrap().status(), 200);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(script.received().len(), 3);
}

#[derive(Clone, Debug, PartialEq)]
struct Marker(u32);

/// Leaves a mark in the extensions, and fails where one is already.
struct Marking {
    attempts: AtomicU32,
}

#[async_trait]
impl Middleware for Marking {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let attempt = self.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(marker) = extensions.insert(Marker(attempt)) {
            let stale = std::io::Error::other(format!("{marker:?} is still there"));
            return Err(Error::middleware(stale));
        }
        // What the caller put there is as it was, too.
        let callers = extensions.get_mut::<String>().map(|value| {
            let found = value.clone();
            value.push_str(", changed");
            found
        });
        assert_eq!(callers.as_deref(), Some("the caller's"), "attempt {attempt}");
        next.run(request, extensions).await
    }
}

// F108
#[tokio::test]
async fn an_attempt_starts_from_the_callers_extensions_and_the_last_one_leaves_its_own() {
    let ok = StatusCode::OK;
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    for (label, statuses, sent) in [
        ("first try", vec![ok], 1),
        ("recovered", vec![unavailable, unavailable, ok], 3),
        ("given up", vec![unavailable; 3], 3),
    ] {
        let script = Script::new(statuses.into_iter().map(Reply::status));
        let marking = Marking { attempts: AtomicU32::new(0) };
        let client = chain(no_waits()).with(marking).with(script.clone()).build();
        let mut extensions = Extensions::new();
        extensions.insert(String::from("the caller's"));
        let request = client.get(SCRIPTED).build().unwrap();
        let result = client.execute_with_extensions(request, &mut extensions).await;
        result.unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_eq!(extensions.get(), Some(&Marker(sent)), "{label}");
        let callers = extensions.get::<String>().map(String::as_str);
        assert_eq!(callers, Some("the caller's, changed"), "{label}");
        assert_eq!(script.received().len(), usize::try_from(sent).unwrap(), "{label}");
    }
}

// F109
#[tokio::test]
async fn calls_side_by_side_count_their_attempts_apart() {
    const CALLS: usize = 100;
    let server = MockServer::start().await;
    let seen: Mutex<HashMap<String, u32>> = Mutex::default();
    Mock::given(matchers::any())
        .respond_with(move |request: &wiremock::Request| {
            let mut seen = seen.lock().unwrap();
            let sent = seen.entry(request.url.path().into()).or_default();
            *sent += 1;
            reply(if *sent == 1 { 503 } else { 200 })
        })
        .mount(&server)
        .await;
    let client = client(no_waits().max_attempts(2));
    let calls = (0..CALLS).map(|call| client.get(format!("{}/{call}", server.uri())).send());
    for (call, result) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(result.unwrap().status(), 200, "call {call}");
    }
    assert_eq!(requests(&server).await.len(), 2 * CALLS);
}

/// What a server saw of one call, how many attempts that call counts, and why it made no more.
async fn one_call(method: &Method, act: Act, tls: bool) -> (Seen, usize, Option<StopReason>) {
    let server = WireServer::start(&[act]).await;
    let url = if tls { server.https_url() } else { server.url() };
    let timeout = matches!(act, Act::Hang).then_some(HANGING);
    let policy = no_waits().max_attempts(2).attempt_timeout(timeout);
    let tracker = RetryTracker::new();
    let request = client(policy).request(method.clone(), url).body("order");
    // The call's outcome matters elsewhere.
    let _ = request.with_extension(tracker.clone()).send().await;
    let history = tracker.history().unwrap();
    (server.finish().await, history.attempts().len(), Some(history.stop_reason()))
}

// F111
#[tokio::test]
async fn no_failure_makes_a_post_be_sent_twice() {
    for (label, act, tls, requests) in [
        ("timeout", Act::Hang, false, 1),
        ("cut after read", CUT, false, 1),
        ("reset after read", Act::Reset, false, 1),
        ("half a response head", HALF_A_HEAD, false, 1),
        ("no HTTP", Act::Write("220 mail.test ESMTP\r\n"), false, 1),
        ("status", UNAVAILABLE, false, 1),
        ("TLS cut", Act::Close, true, 0),
    ] {
        let (post, get) =
            join(one_call(&Method::POST, act, tls), one_call(&Method::GET, act, tls)).await;
        let seen = |sent| Seen { connections: sent, requests: sent * requests };
        let stopped = Some(StopReason::NotIdempotent);
        assert_eq!(post, (seen(1), 1, stopped), "{label}");
        // So it is the method that stops it, not the failure.
        let exhausted = Some(StopReason::AttemptsExhausted);
        assert_eq!(get, (seen(2), 2, exhausted), "{label}");
    }
}

// F111
#[tokio::test]
async fn a_refused_post_is_attempted_once() {
    let nobody = RefusedPort::new();
    let tracker = RetryTracker::new();
    let post = client(no_waits()).post(nobody.url());
    let error = post.with_extension(tracker.clone()).send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    let history = tracker.history().unwrap();
    assert_eq!(history.attempts().len(), 1, "{history}");
    assert_eq!(history.stop_reason(), StopReason::NotIdempotent, "{history}");
}

// F111
#[tokio::test]
async fn a_method_nobody_knows_is_not_repeated() {
    for name in ["BREW", "get", "LOCK", "CONNECTED"] {
        let method = Method::from_bytes(name.as_bytes()).unwrap();
        let server = WireServer::start(&[CUT, CREATED]).await;
        let request = client(no_waits()).request(method, server.url());
        request.send().await.unwrap_err();
        assert_eq!(server.finish().await.requests, 1, "{name}");
    }
}

// F111
#[tokio::test]
async fn the_method_is_the_callers_whatever_an_inner_layer_makes_of_it() {
    for (callers, sent_as, sent) in [(Method::POST, Method::GET, 1), (Method::GET, Method::POST, 2)]
    {
        let script = Script::always(Reply::status(StatusCode::BAD_GATEWAY));
        let change = sent_as.clone();
        let inner = BeforeSend(move |request: &mut Request, _: &mut Extensions| {
            *request.method_mut() = change.clone();
        });
        let policy = no_waits().max_attempts(2);
        let client = chain(policy).with(inner).with(script.clone()).build();
        client.request(callers.clone(), SCRIPTED).send().await.unwrap();
        assert_eq!(script.received().len(), sent, "{callers}, sent as {sent_as}");
    }
}

// F154
#[tokio::test]
async fn a_cookie_of_a_failed_attempt_is_sent_with_the_next_one() {
    let server = server([reply(503).insert_header("set-cookie", "a=1"), reply(200)]).await;
    let http = reqwest::Client::builder().no_proxy().cookie_store(true).build();
    let client = ClientBuilder::new(http.unwrap())
        .with(RetryMiddleware::new(no_waits().build().unwrap()))
        .build();
    assert_eq!(client.get(server.uri()).send().await.unwrap().status(), 200);
    let requests = requests(&server).await;
    let cookies = requests.iter().map(|request| {
        let values = request.headers.get_all("cookie").iter();
        values.map(|value| value.to_str().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(cookies.collect::<Vec<_>>(), [&[][..], &["a=1"]]);
}

// F156
#[tokio::test]
async fn the_inner_chain_runs_in_full_for_each_attempt() {
    let statuses = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK];
    for (label, policy, sent) in [
        ("one attempt", no_waits().max_attempts(1), 1),
        ("never", RetryPolicy::never().to_builder(), 1),
        ("resent", no_waits(), 2),
    ] {
        let ways = Arc::new(Mutex::new(Vec::new()));
        let layer = |name| Passing { name, ways: Arc::clone(&ways) };
        let client = chain(policy)
            .with(layer("first"))
            .with(layer("second"))
            .with(Script::new(statuses.map(Reply::status)))
            .build();
        client.get(SCRIPTED).send().await.unwrap();
        let attempt = ["to first", "to second", "from second", "from first"];
        assert_eq!(ways.lock().unwrap()[..], attempt.repeat(sent), "{label}");
    }
}

/// Notes each way of a request and of its response.
struct Passing {
    name: &'static str,
    ways: Arc<Mutex<Vec<String>>>,
}

impl Passing {
    fn note(&self, way: &str) {
        self.ways.lock().unwrap().push(format!("{way} {}", self.name));
    }
}

#[async_trait]
impl Middleware for Passing {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.note("to");
        let result = next.run(request, extensions).await;
        self.note("from");
        result
    }
}

// F094
#[tokio::test(start_paused = true)]
async fn each_attempt_has_the_whole_timeout_to_itself() {
    for (label, policys, callers) in [
        ("the policy's", Some(ms(200)), None),
        ("the caller's", None, Some(ms(200))),
        ("the tighter of two", Some(secs(9)), Some(ms(200))),
        ("the tighter of two", Some(ms(200)), Some(secs(9))),
    ] {
        let ok = Reply::status(StatusCode::OK);
        let script = Script::new([Reply::hang(), Reply::hang(), ok.after(ms(150))]);
        let mut get = scripted(no_waits().attempt_timeout(policys), &script).get(SCRIPTED);
        if let Some(timeout) = callers {
            get = get.timeout(timeout);
        }
        assert_eq!(get.send().await.unwrap().status(), 200, "{label}");
        assert_eq!(waits(&script), [ms(200); 2], "{label}");
    }
}

// F086
#[tokio::test]
async fn a_classifier_reads_the_response_of_each_attempt_before_it_is_drained() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let policy = no_waits().classifier(move |attempt: &Attempt<'_>| {
        if let Outcome::Response { headers, .. } = attempt.outcome() {
            notes.lock().unwrap().push(headers["x-attempt"].to_str().unwrap().to_owned());
        }
        None
    });
    let busy = |number: u8| reply(503).insert_header("x-attempt", number.to_string().as_str());
    let fine = reply(200).insert_header("x-attempt", "3");
    let server = server([busy(1), busy(2), fine]).await;
    assert_eq!(client(policy).get(server.uri()).send().await.unwrap().status(), 200);
    assert_eq!(*seen.lock().unwrap(), ["1", "2", "3"]);
}
