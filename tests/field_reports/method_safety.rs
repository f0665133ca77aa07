//! Section A: which requests may be sent again at all.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use http::{HeaderMap, Method, StatusCode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{
    DeliveryProof, FaultKind, FaultSet, KeyFormat, RetryMiddleware, RetryTracker, RetryableMethod,
    StopReason,
};

use crate::support::{
    Act, CREATED, CUT, HANGING, RefusedPort, Seen, WireServer, client, no_waits, reply, requests,
    server, stop_reason,
};

// F001
#[tokio::test]
async fn a_post_is_not_sent_again_unless_somebody_said_so() {
    for (method, sent, status) in [(Method::POST, 1, 503), (Method::GET, 2, 201)] {
        let server = server([reply(503), reply(201)]).await;
        let request = client(no_waits()).request(method.clone(), server.uri());
        let response = request.json(&["order"]).send().await.unwrap();
        assert_eq!(response.status(), status, "{method}");
        assert_eq!(requests(&server).await.len(), sent, "{method}");
    }
}

// F002
#[tokio::test]
async fn a_request_whose_answer_was_cut_is_repeated_only_if_it_is_idempotent() {
    let created = Some(StatusCode::CREATED);
    for (method, sent, status) in [(Method::POST, 1, None), (Method::PUT, 2, created)] {
        let server = WireServer::start(&[CUT, CREATED]).await;
        let request = client(no_waits()).request(method.clone(), server.url());
        let result = request.body("an order").send().await;
        let answer = result.as_ref().ok().map(reqwest::Response::status);
        assert_eq!(answer, status, "{method}: {result:?}");
        assert_eq!(server.finish().await.requests, sent, "{method}");
    }
}

// F004
#[tokio::test]
async fn a_post_that_is_not_resent_says_why() {
    let server = server([reply(502)]).await;
    let client = client(no_waits().max_attempts(4));
    let tracker = RetryTracker::new();
    let post = client.post(server.uri()).with_extension(tracker.clone());
    let response = post.send().await.unwrap();
    assert_eq!(requests(&server).await.len(), 1);
    assert_eq!(stop_reason(&response), Some(StopReason::NotIdempotent));
    let tracked = tracker.history().map(|history| history.stop_reason());
    assert_eq!(tracked, Some(StopReason::NotIdempotent), "tracker");
}

// F005
#[tokio::test]
async fn a_key_makes_a_post_repeatable_where_keys_are_honoured() {
    for (label, honoured, name, key, sent) in [
        ("honoured", true, "idempotency-key", "k1", 2),
        ("in another case", true, "IDEMPOTENCY-Key", "k1", 2),
        ("empty", true, "Idempotency-Key", "", 1),
        ("blank", true, "Idempotency-Key", " ", 1),
        ("without the policy's word", false, "Idempotency-Key", "k1", 1),
        ("another field", true, "X-Request-Id", "k1", 1),
    ] {
        let server = server([reply(503), reply(200)]).await;
        let client = client(no_waits().honour_idempotency_keys(honoured));
        let post = client.post(server.uri()).header(name, key).body("charge");
        let response = post.send().await.unwrap();
        assert_eq!(requests(&server).await.len(), sent, "{label}: {response:?}");
    }
}

// F005
#[tokio::test]
async fn the_field_of_the_key_is_for_the_application_to_name() {
    let field = http::HeaderName::from_static("x-request-id");
    for (name, sent) in [("X-Request-Id", 2), ("Idempotency-Key", 1)] {
        let server = server([reply(503), reply(200)]).await;
        let policy =
            no_waits().honour_idempotency_keys(true).idempotency_key_fields([field.clone()]);
        let post = client(policy).post(server.uri()).header(name, "k1");
        post.send().await.unwrap();
        assert_eq!(requests(&server).await.len(), sent, "{name}");
    }
}

// F006
#[tokio::test]
async fn the_callers_key_goes_out_once_and_unchanged_each_time() {
    let server = server([reply(503), reply(200)]).await;
    let client = client(no_waits().honour_idempotency_keys(true));
    let post = client.post(server.uri()).header("Idempotency-Key", "mine").body("charge");
    assert_eq!(post.send().await.unwrap().status(), 200);
    let requests = requests(&server).await;
    assert_eq!(requests.len(), 2);
    for request in requests {
        let keys: Vec<_> = request.headers.get_all("idempotency-key").iter().collect();
        assert_eq!(keys, ["mine"]);
    }
}

// F006
#[tokio::test]
async fn a_generated_key_never_takes_the_place_of_the_callers() {
    for name in ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"] {
        let server = server([reply(503), reply(200)]).await;
        let client = client(no_waits().generate_idempotency_keys(KeyFormat::Quoted));
        let post = client.post(server.uri()).header(name, "mine").body("charge");
        assert_eq!(post.send().await.unwrap().status(), 200, "{name}");
        let requests = requests(&server).await;
        assert_eq!(requests.len(), 2, "{name}");
        for request in requests {
            let keys: Vec<_> = request.headers.get_all("idempotency-key").iter().collect();
            assert_eq!(keys, ["mine"], "{name}");
        }
    }
}

// F007
#[tokio::test]
async fn a_charge_that_is_sent_again_is_the_same_charge_and_the_next_one_is_another() {
    let server = server([500, 500, 200, 500, 500, 200].map(reply)).await;
    let client = client(no_waits().generate_idempotency_keys(KeyFormat::Bare));
    for _ in 0..2 {
        let post = client.post(server.uri()).body("charge");
        assert_eq!(post.send().await.unwrap().status(), 200);
    }
    let requests = requests(&server).await;
    let keys: Vec<_> = requests.iter().map(|it| &it.headers["idempotency-key"]).collect();
    let [first, second] = [keys[0], keys[3]];
    assert_eq!(keys, [first, first, first, second, second, second]);
    assert_ne!(first, second);
}

// F009
#[tokio::test]
async fn no_status_is_taken_for_a_promise_that_a_post_was_not_processed() {
    for status in [429, 500, 502, 503, 504] {
        for (method, sent) in [
            (Method::GET, 2),
            (Method::PUT, 2),
            (Method::DELETE, 2),
            (Method::POST, 1),
            (Method::PATCH, 1),
        ] {
            let server = server([reply(status), reply(200)]).await;
            let request = client(no_waits()).request(method.clone(), server.uri());
            request.send().await.unwrap();
            assert_eq!(requests(&server).await.len(), sent, "{method} {status}");
        }
    }
}

/// A server of HTTP/2 that resets the first stream with this reason, and answers the others.
#[cfg(feature = "http2")]
async fn resets_first(reason: h2::Reason) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let acted = Arc::new(AtomicUsize::new(0));
    let count = acted.clone();
    tokio::spawn(async move {
        let mut is_first = true;
        while let Ok((stream, _)) = listener.accept().await {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                if std::mem::take(&mut is_first) {
                    respond.send_reset(reason);
                } else {
                    count.fetch_add(1, Ordering::SeqCst);
                    respond.send_response(http::Response::new(()), true).unwrap();
                }
            }
        }
    });
    (url, acted)
}

// F011: every other reset, and GOAWAY, is in `tests/wire_faults`.
#[cfg(feature = "http2")]
#[tokio::test]
async fn a_stream_that_the_server_refused_was_not_processed_and_a_cancelled_one_may_have_been() {
    for (reason, status, handled) in
        [(h2::Reason::REFUSED_STREAM, Some(StatusCode::OK), 1), (h2::Reason::CANCEL, None, 0)]
    {
        let (url, acted) = resets_first(reason).await;
        let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge();
        let (http, proof) = DeliveryProof::build(http).unwrap();
        let retry = RetryMiddleware::builder(no_waits().build().unwrap()).delivery_proof(proof);
        let client = ClientBuilder::new(http).with(retry.build().unwrap()).build();
        let result = client.post(url).body("order").send().await;
        let answer = result.as_ref().ok().map(reqwest::Response::status);
        assert_eq!(answer, status, "{reason:?}: {result:?}");
        assert_eq!(acted.load(Ordering::SeqCst), handled, "{reason:?}");
    }
}

/// One request under two attempts against `url`: how many attempts there were, and why no more.
async fn two_attempts(method: &Method, marked: bool, url: &str) -> (usize, Option<StopReason>) {
    let policy = no_waits().max_attempts(2).assume_idempotent(marked);
    let client = client(policy.attempt_timeout(HANGING));
    let tracker = RetryTracker::new();
    let request = client.request(method.clone(), url).body("order");
    let result = request.with_extension(tracker.clone()).send().await;
    result.expect_err("no server here ever answers");
    let history = tracker.history().unwrap();
    (history.attempts().len(), Some(history.stop_reason()))
}

// F012: without a proof of delivery an unmarked POST isn't sent again even where nobody listens.
#[tokio::test]
async fn a_fault_is_ridden_out_for_what_is_idempotent_or_marked_as_such() {
    let cases = [
        ("GET", Method::GET, false, 2, StopReason::AttemptsExhausted),
        ("POST", Method::POST, false, 1, StopReason::NotIdempotent),
        ("marked POST", Method::POST, true, 2, StopReason::AttemptsExhausted),
    ];
    let all = cases.map(|(label, method, marked, sent, reason)| async move {
        let expected = (sent, Some(reason));
        let nobody = RefusedPort::new();
        let attempts = two_attempts(&method, marked, &nobody.url()).await;
        assert_eq!(attempts, expected, "{label}, refused");
        for (act_label, act) in [("cut after read", CUT), ("hang", Act::Hang)] {
            let server = WireServer::start(&[act]).await;
            let attempts = two_attempts(&method, marked, &server.url()).await;
            assert_eq!(attempts, expected, "{label}, {act_label}");
            let seen = Seen { connections: sent, requests: sent };
            assert_eq!(server.finish().await, seen, "{label}, {act_label}");
        }
    });
    join_all(all).await;
}

// F012
#[test]
fn the_class_of_a_request_is_known_before_it_is_sent() {
    let policy = |marked| no_waits().assume_idempotent(marked).build().unwrap();
    for (method, marked, class) in [
        (Method::GET, false, RetryableMethod::Idempotent),
        (Method::POST, false, RetryableMethod::NonIdempotent),
        (Method::POST, true, RetryableMethod::Idempotent),
    ] {
        let found = policy(marked).method_class(&method, &HeaderMap::new());
        assert_eq!(found, class, "{method}, marked: {marked}");
    }
}

/// Finds no address so often, and this one from then on.
struct FailsFirst {
    failures: usize,
    asked: AtomicUsize,
    address: SocketAddr,
}

impl Resolve for FailsFirst {
    fn resolve(&self, _name: Name) -> Resolving {
        let result: Result<Addrs, Box<dyn Error + Send + Sync>> =
            if self.asked.fetch_add(1, Ordering::SeqCst) < self.failures {
                Err("no such name".into())
            } else {
                Ok(Box::new(std::iter::once(self.address)))
            };
        Box::pin(std::future::ready(result))
    }
}

// F139: for a POST it takes a proof of delivery.
#[tokio::test]
async fn a_name_that_is_not_found_is_asked_for_again_whatever_the_method() {
    let permanent = || no_waits().retry_faults(FaultSet::transient().without(FaultKind::Dns));
    for (label, policy, failures, asked, sent) in [
        ("once", no_waits(), 1, 2, 1),
        ("always", no_waits(), usize::MAX, 3, 0),
        ("permanent by choice", permanent(), 1, 1, 0),
    ] {
        let server = server([reply(201)]).await;
        let names = FailsFirst { failures, asked: AtomicUsize::new(0), address: *server.address() };
        let names = Arc::new(names);
        let http = reqwest::Client::builder().no_proxy().dns_resolver(names.clone());
        let (http, proof) = DeliveryProof::build(http).unwrap();
        let retry = RetryMiddleware::builder(policy.build().unwrap()).delivery_proof(proof);
        let client = ClientBuilder::new(http).with(retry.build().unwrap()).build();
        let url = format!("http://service.test:{}/", server.address().port());
        let result = client.post(url).body("order").send().await;
        assert_eq!(result.is_ok(), sent == 1, "{label}: {result:?}");
        assert_eq!(names.asked.load(Ordering::SeqCst), asked, "{label}");
        assert_eq!(requests(&server).await.len(), sent, "{label}");
    }
}
