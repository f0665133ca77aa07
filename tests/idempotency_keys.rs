//! Idempotency keys, as the server sees them: each row counts the requests that it received, and what
//! stood in their fields.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Backoff, Endpoint, IdempotencyKey, Jitter, KeyFormat, ReplayBody, RetryMiddleware,
    RetryPolicy, RetryPolicyBuilder, RetryRequestExt as _, RetryTracker, SharedSession, StopReason,
};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

const FIELD: HeaderName = HeaderName::from_static("idempotency-key");
const OTHER: HeaderName = HeaderName::from_static("x-request-id");

// The server

fn reply(status: u16) -> ResponseTemplate {
    ResponseTemplate::new(status)
}

/// A server that gives these answers one after the other, and the last one again and again.
async fn server<const N: usize>(replies: [ResponseTemplate; N]) -> MockServer {
    let server = MockServer::start().await;
    let served = AtomicUsize::new(0);
    Mock::given(matchers::any())
        .respond_with(move |_: &wiremock::Request| {
            let at = served.fetch_add(1, Ordering::SeqCst);
            replies[at.min(N - 1)].clone()
        })
        .mount(&server)
        .await;
    server
}

async fn busy() -> MockServer {
    server([reply(503)]).await
}

/// Every line of `field` in each request that the server received.
async fn lines(server: &MockServer, field: &HeaderName) -> Vec<Vec<String>> {
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let requests = server.received_requests().await.unwrap();
    requests.iter().map(|it| it.headers.get_all(field).iter().map(text).collect()).collect()
}

/// The only key in each request.
async fn keys(server: &MockServer) -> Vec<String> {
    let one = |lines: Vec<String>| {
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.concat()
    };
    lines(server, &FIELD).await.into_iter().map(one).collect()
}

// The client

/// Three sends without waits.
fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder().backoff(Backoff::constant(Duration::ZERO)).jitter(Jitter::None)
}

fn generating() -> RetryPolicyBuilder {
    policy().generate_idempotency_keys(KeyFormat::Bare)
}

fn http() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

fn chain(policy: RetryPolicyBuilder) -> ClientBuilder {
    ClientBuilder::new(http()).with(RetryMiddleware::new(policy.build().unwrap()))
}

fn client(policy: RetryPolicyBuilder) -> ClientWithMiddleware {
    chain(policy).build()
}

fn key(key: &str, format: KeyFormat) -> IdempotencyKey {
    IdempotencyKey::new(key, format).unwrap()
}

/// A UUID of version 4.
fn is_random(key: &str) -> bool {
    let hex = |text: &str| text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let parts: Vec<_> = key.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts.iter().all(|part| hex(part))
        && parts[2].starts_with('4')
        && parts[3].starts_with(['8', '9', 'a', 'b'])
}

// Generated keys

#[tokio::test]
async fn a_generated_key_is_one_for_all_attempts_of_a_call_and_new_for_the_next() {
    for method in [Method::POST, Method::PATCH] {
        for (format, quote) in [(KeyFormat::Quoted, "\""), (KeyFormat::Bare, "")] {
            let label = format!("{method} {format:?}");
            let server = busy().await;
            let client = client(policy().generate_idempotency_keys(format));
            for _ in 0..3 {
                client.request(method.clone(), server.uri()).body("order").send().await.unwrap();
            }
            let mut keys = keys(&server).await;
            assert_eq!(keys.len(), 9, "{label}");
            for call in keys.chunks(3) {
                assert!(call.iter().all(|key| *key == call[0]), "{label}: {keys:?}");
                let bare = call[0].strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
                assert!(bare.is_some_and(is_random), "{label}: {}", call[0]);
            }
            keys.dedup();
            assert_eq!(keys.len(), 3, "{label}: {keys:?}");
        }
    }
}

#[tokio::test]
async fn no_other_method_than_post_and_patch_gets_a_key() {
    for (method, sent) in [
        ("GET", 3),
        ("HEAD", 3),
        ("PUT", 3),
        ("DELETE", 3),
        ("OPTIONS", 3),
        ("PROPFIND", 3),
        ("LOCK", 1),
        ("PURGE", 1),
        ("post", 1),
        ("Patch", 1),
    ] {
        let server = busy().await;
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        client(generating()).request(method.clone(), server.uri()).send().await.unwrap();
        assert_eq!(lines(&server, &FIELD).await, vec![Vec::<String>::new(); sent], "{method}");
    }
}

// F006
#[tokio::test]
async fn a_key_of_the_callers_stays_alone_and_as_it_is() {
    let mine = &["mine"][..];
    let lists = || generating().idempotency_key_fields([FIELD, OTHER]);
    for (label, policy, name, values, sent) in [
        ("bare", generating(), "idempotency-key", mine, 3),
        ("in another case", generating(), "IDEMPOTENCY-Key", mine, 3),
        ("quoted", generating(), "Idempotency-Key", &["\"mine\""], 3),
        ("in several lines", generating(), "Idempotency-Key", &["mine", "also mine"], 3),
        ("an empty line and one that is not", generating(), "Idempotency-Key", &["", "mine"], 3),
        ("in the second field", lists(), "X-Request-Id", mine, 3),
        ("in the second field, in another case", lists(), "x-REQUEST-id", mine, 3),
        // What has an empty key has none, and is not to get one: it is sent once.
        ("empty", generating(), "Idempotency-Key", &[""], 1),
        ("blank", generating(), "Idempotency-Key", &["  "], 1),
        ("empty in quotes", generating(), "Idempotency-Key", &["\"\""], 1),
        ("empty in the second field", lists(), "X-Request-Id", &[""], 1),
    ] {
        let server = busy().await;
        let mut post = client(policy).post(server.uri()).body("charge");
        for value in values {
            post = post.header(name, *value);
        }
        post.send().await.unwrap();
        let name: HeaderName = name.parse().unwrap();
        let others = if name == FIELD { OTHER } else { FIELD };
        let values: Vec<_> = values.iter().map(|value| value.trim().to_owned()).collect();
        assert_eq!(lines(&server, &name).await, vec![values; sent], "{label}");
        assert!(lines(&server, &others).await.concat().is_empty(), "{label}");
    }
}

#[tokio::test]
async fn a_field_that_the_policy_does_not_list_is_no_key() {
    let server = busy().await;
    let post = client(generating()).post(server.uri()).header(&OTHER, "mine");
    post.send().await.unwrap();
    assert_eq!(lines(&server, &OTHER).await, vec![["mine"]; 3]);
    assert!(keys(&server).await.iter().all(|key| is_random(key)));
}

#[tokio::test]
async fn a_generated_key_goes_into_the_first_of_the_listed_fields() {
    let fields = [OTHER, FIELD];
    let server = busy().await;
    client(generating().idempotency_key_fields(fields)).post(server.uri()).send().await.unwrap();
    let sent = lines(&server, &OTHER).await;
    assert!(sent.len() == 3 && sent.iter().all(|lines| lines.len() == 1), "{sent:?}");
    assert!(is_random(&sent[0][0]) && sent[1] == sent[0] && sent[2] == sent[0], "{sent:?}");
    assert!(lines(&server, &FIELD).await.concat().is_empty());
}

#[test]
fn keys_that_have_no_field_to_go_into_are_refused() {
    let error = generating().idempotency_key_fields([]).build().unwrap_err();
    let expected =
        "idempotency_key_fields is [], but keys that are generated need a field to go into";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_key_is_made_also_for_a_request_that_is_sent_once() {
    let never = || RetryPolicy::never().to_builder().generate_idempotency_keys(KeyFormat::Bare);
    let server = busy().await;
    client(never()).post(server.uri()).send().await.unwrap();
    client(generating()).post(server.uri()).no_retry().send().await.unwrap();
    let keys = keys(&server).await;
    assert!(keys.len() == 2 && keys.iter().all(|key| is_random(key)), "{keys:?}");
    // A policy that makes none puts none.
    client(RetryPolicy::never().to_builder()).post(server.uri()).send().await.unwrap();
    assert!(lines(&server, &FIELD).await[2].is_empty());
}

#[tokio::test]
async fn a_generator_with_a_seed_seeds_no_keys() {
    let server = busy().await;
    for _ in 0..2 {
        let retry = RetryMiddleware::builder(generating().build().unwrap())
            .generator(seeded_jitter(7))
            .build()
            .unwrap();
        let client = ClientBuilder::new(http()).with(retry).build();
        client.post(server.uri()).send().await.unwrap();
    }
    let keys = keys(&server).await;
    assert_eq!(keys.len(), 6);
    assert_ne!(keys[0], keys[3]);
}

#[tokio::test]
async fn only_the_endpoint_whose_server_honours_keys_gets_them() {
    let server = busy().await;
    let charges = Endpoint::named("charges").path("/charges");
    let charges = charges.policy(generating().build().unwrap()).build().unwrap();
    let retry = RetryMiddleware::builder(policy().build().unwrap()).endpoint(charges);
    let client = ClientBuilder::new(http()).with(retry.build().unwrap()).build();
    for (path, expected) in [("/charges", 3), ("/charges/7", 3), ("/search", 1)] {
        let before = server.received_requests().await.unwrap().len();
        client.post(server.uri() + path).send().await.unwrap();
        let lines = lines(&server, &FIELD).await.split_off(before);
        assert_eq!(lines.len(), expected, "{path}");
        let has_key = |lines: &Vec<String>| lines.len() == 1 && is_random(&lines[0]);
        assert!(lines.iter().all(|it| has_key(it) == (expected == 3)), "{path}: {lines:?}");
    }
    // … and where the endpoint makes none, the client's word does not reach it.
    let quiet = Endpoint::named("search").path("/search").policy(policy().build().unwrap());
    let retry = RetryMiddleware::builder(generating().build().unwrap())
        .endpoint(quiet.build().unwrap())
        .build()
        .unwrap();
    let client = ClientBuilder::new(http()).with(retry).build();
    client.post(server.uri() + "/search").send().await.unwrap();
    assert!(lines(&server, &FIELD).await.pop().unwrap().is_empty());
}

// Keys that the request asks for

#[tokio::test]
async fn a_key_that_is_asked_for_goes_out_with_each_attempt_and_makes_a_post_repeatable() {
    use KeyFormat::{Bare, Quoted};
    for (label, policy) in [
        ("not honouring", policy()),
        ("honouring", policy().honour_idempotency_keys(true)),
        ("generating", generating()),
        ("by its profile", policy().profile(ApiProfile::stripe())),
    ] {
        for (method, format, expected) in [
            (Method::POST, Quoted, "\"order \\\"17\\\"\""),
            (Method::POST, Bare, "order \"17\""),
            (Method::PATCH, Bare, "order \"17\""),
            (Method::PUT, Bare, "order \"17\""),
        ] {
            let server = server([reply(503), reply(503), reply(200)]).await;
            let request = client(policy.clone()).request(method.clone(), server.uri());
            let response = request.idempotency_key(key("order \"17\"", format)).send().await;
            assert_eq!(response.unwrap().status(), StatusCode::OK, "{label}, {method}");
            assert_eq!(keys(&server).await, [expected; 3], "{label}, {method}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_asked_for_gives_way_to_one_that_is_there() {
    let both = || policy().idempotency_key_fields([FIELD, OTHER]);
    for (label, name, value, first, second) in [
        ("there", FIELD, "mine", "mine", ""),
        ("there in the second field", OTHER, "mine", "", "mine"),
        // An empty field is none.
        ("empty", FIELD, "", "asked", ""),
        ("blank in quotes", FIELD, "\" \"", "asked", ""),
        ("empty in the second field", OTHER, "", "asked", ""),
    ] {
        let server = busy().await;
        let post = client(both()).post(server.uri()).header(name, value);
        post.idempotency_key(key("asked", KeyFormat::Bare)).send().await.unwrap();
        let expected = |value: &str| {
            let lines: Vec<String> =
                (!value.is_empty()).then(|| value.to_owned()).into_iter().collect();
            vec![lines; 3]
        };
        assert_eq!(lines(&server, &FIELD).await, expected(first), "{label}");
        assert_eq!(lines(&server, &OTHER).await, expected(second), "{label}");
    }
}

#[tokio::test]
async fn a_key_in_a_field_needs_the_policys_word_and_one_that_is_asked_for_does_not() {
    for (label, policy, asks, sent) in [
        ("a bare field", policy(), false, 1),
        ("a bare field, asked for too", policy(), true, 3),
        ("honoured", policy().honour_idempotency_keys(true), false, 3),
        ("honoured by the profile", policy().profile(ApiProfile::stripe()), false, 3),
        ("generated", generating(), false, 3),
    ] {
        let server = busy().await;
        let tracker = RetryTracker::new();
        let mut post = client(policy).post(server.uri()).header(&FIELD, "mine");
        if asks {
            post = post.idempotency_key(key("asked", KeyFormat::Bare));
        }
        post.with_extension(tracker.clone()).send().await.unwrap();
        assert_eq!(keys(&server).await, vec!["mine"; sent], "{label}");
        let stop = tracker.history().unwrap().stop_reason();
        let expected =
            if sent == 1 { StopReason::NotIdempotent } else { StopReason::AttemptsExhausted };
        assert_eq!(stop, expected, "{label}");
    }
}

#[tokio::test]
async fn a_key_makes_no_other_method_repeatable() {
    for method in ["LOCK", "PURGE", "CONNECTED", "post"] {
        for policy in [policy(), policy().honour_idempotency_keys(true), generating()] {
            let server = busy().await;
            let name = Method::from_bytes(method.as_bytes()).unwrap();
            let request = client(policy).request(name, server.uri());
            request.idempotency_key(key("k", KeyFormat::Bare)).send().await.unwrap();
            assert_eq!(keys(&server).await, ["k"], "{method}");
        }
    }
}

#[tokio::test]
async fn where_the_policy_lists_no_field_a_key_that_is_asked_for_has_no_effect() {
    let server = busy().await;
    let client = client(policy().idempotency_key_fields([]));
    client.post(server.uri()).idempotency_key(key("k", KeyFormat::Bare)).send().await.unwrap();
    assert_eq!(lines(&server, &FIELD).await, [Vec::<String>::new()]);
}

#[tokio::test]
async fn the_word_of_a_request_goes_with_a_key_that_is_not_honoured() {
    let server = busy().await;
    let post = client(policy()).post(server.uri()).header(&FIELD, "mine");
    post.assume_idempotent().send().await.unwrap();
    assert_eq!(keys(&server).await, ["mine"; 3]);
}

// Along the way of a request

#[tokio::test]
async fn a_body_that_is_made_anew_goes_out_under_one_key() {
    let server = busy().await;
    for asks in [false, true] {
        let made = AtomicUsize::new(0);
        let mut post = client(generating()).post(server.uri()).body_factory(move || {
            let number = made.fetch_add(1, Ordering::Relaxed).to_string();
            async { Ok(ReplayBody::new(number)) }
        });
        if asks {
            post = post.idempotency_key(key("asked", KeyFormat::Bare));
        }
        post.send().await.unwrap();
    }
    let bodies: Vec<_> = server.received_requests().await.unwrap();
    let bodies: Vec<_> = bodies.iter().map(|it| String::from_utf8_lossy(&it.body)).collect();
    assert_eq!(bodies, ["0", "1", "2", "0", "1", "2"]);
    let keys = keys(&server).await;
    assert!(is_random(&keys[0]) && keys[1] == keys[0] && keys[2] == keys[0], "{keys:?}");
    assert_eq!(keys[3..], ["asked"; 3]);
}

fn cut() -> std::io::Error {
    std::io::ErrorKind::ConnectionReset.into()
}

#[tokio::test]
async fn the_requests_of_a_session_are_one_and_have_one_key() {
    let server = server([reply(503), reply(200), reply(503), reply(200), reply(200)]).await;
    // The policy of the session decides, not that of the client.
    let client = client(policy());
    let session = || SharedSession::new(generating().max_attempts(9).build().unwrap());
    let (first, second) = (session(), session());
    client.post(server.uri()).retry_session(&first).send().await.unwrap();
    first.resend_after(cut()).await.unwrap();
    client.post(server.uri()).retry_session(&first.clone()).send().await.unwrap();
    assert_eq!(first.attempts(), 4);
    client.post(server.uri()).retry_session(&second).send().await.unwrap();
    let keys = keys(&server).await;
    assert_eq!(keys[..4], vec![keys[0].clone(); 4]);
    assert!(keys[4] != keys[0] && keys.len() == 5, "{keys:?}");
    assert!(keys.iter().all(|key| is_random(key)), "{keys:?}");
}

#[tokio::test]
async fn another_request_of_a_session_has_another_key() {
    let server = server([reply(200)]).await;
    let session = SharedSession::new(generating().build().unwrap());
    let client = client(policy());
    // What a stream carries nobody knows, so that it is like no other.
    let stream = || {
        let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>("a stream")]);
        reqwest::Body::wrap_stream(chunks)
    };
    for request in [
        client.post(server.uri()),
        client.patch(server.uri()),
        client.patch(format!("{}/refunds", server.uri())),
        client.patch(format!("{}/refunds?page=2", server.uri())),
        client.patch(format!("{}/refunds?page=2", server.uri())).body("one"),
        client.patch(format!("{}/refunds?page=2", server.uri())).body("two"),
        client.patch(format!("{}/refunds?page=2", server.uri())).body(stream()),
        client.patch(format!("{}/refunds?page=2", server.uri())).body(stream()),
    ] {
        request.retry_session(&session).send().await.unwrap();
    }
    let keys = keys(&server).await.into_iter().collect::<std::collections::HashSet<_>>();
    assert_eq!(keys.len(), 8, "{keys:?}");
}

#[tokio::test]
async fn in_a_session_too_a_key_of_the_callers_stays_and_a_get_has_none() {
    let server = server([reply(200)]).await;
    let client = client(policy());
    let session = SharedSession::new(generating().build().unwrap());
    let requests = [
        client.post(server.uri()),
        client.get(server.uri()),
        client.post(server.uri()).header(&FIELD, "mine"),
        client.post(server.uri()).idempotency_key(key("asked", KeyFormat::Bare)),
        client.post(server.uri()),
    ];
    for request in requests {
        request.retry_session(&session).send().await.unwrap();
    }
    let lines = lines(&server, &FIELD).await;
    assert!(lines[0].len() == 1 && is_random(&lines[0][0]), "{lines:?}");
    assert_eq!(lines[1], Vec::<String>::new());
    assert_eq!(
        (&lines[2][..], &lines[3][..]),
        (&["mine".to_owned()][..], &["asked".to_owned()][..])
    );
    // One logical request: what it was asked to carry is its key from then on.
    assert_eq!(lines[4], lines[3]);
}

/// An inner middleware that sees, and may change, each request before it is sent.
struct BeforeSend<F>(F);

#[async_trait]
impl<F: Fn(&mut Request) + Send + Sync + 'static> Middleware for BeforeSend<F> {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(&mut request);
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn an_inner_middleware_that_signs_sees_the_key_and_may_change_it_for_one_attempt() {
    let server = busy().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let signs = BeforeSend(move |request: &mut Request| {
        let headers = request.headers_mut();
        let key = headers[&FIELD].to_str().unwrap().to_owned();
        headers.insert("x-signature", format!("signed {key}").parse().unwrap());
        headers.insert(&FIELD, format!("{key} signed").parse().unwrap());
        log.lock().unwrap().push(key);
    });
    chain(generating()).with(signs).build().post(server.uri()).send().await.unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let [first, second, third] = &seen[..] else { panic!("{seen:?}") };
    assert!(is_random(first) && first == second && first == third, "{seen:?}");
    assert_eq!(keys(&server).await, vec![format!("{first} signed"); 3]);
    let signatures = lines(&server, &HeaderName::from_static("x-signature")).await;
    assert_eq!(signatures, vec![[format!("signed {first}")]; 3]);
}

#[tokio::test]
async fn a_key_is_the_callers_if_it_is_there_before_the_retry_and_only_then() {
    let sets = || {
        BeforeSend(|request: &mut Request| {
            request.headers_mut().insert(FIELD, HeaderValue::from_static("layer"));
        })
    };
    let retry = || RetryMiddleware::new(generating().build().unwrap());
    let defaults = [(FIELD, HeaderValue::from_static("default"))].into_iter().collect();
    let with_default = Client::builder().no_proxy().default_headers(defaults).build().unwrap();
    for (label, client, expected) in [
        ("a layer before", ClientBuilder::new(http()).with(sets()).with(retry()), Some("layer")),
        ("a layer after", ClientBuilder::new(http()).with(retry()).with(sets()), Some("layer")),
        // reqwest adds what is not there yet.
        ("a default of the client", ClientBuilder::new(with_default).with(retry()), None),
    ] {
        let server = busy().await;
        client.build().post(server.uri()).send().await.unwrap();
        let keys = keys(&server).await;
        assert_eq!(keys.len(), 3, "{label}");
        match expected {
            Some(expected) => assert_eq!(keys, [expected; 3], "{label}"),
            None => assert!(keys.iter().all(|key| is_random(key)), "{label}: {keys:?}"),
        }
    }
}

/// Redirects are reqwest's business: it takes the key along, to another origin too.
#[tokio::test]
async fn a_redirected_request_keeps_its_key() {
    for (status, method, elsewhere) in
        [(307, "POST", false), (308, "POST", true), (302, "GET", false), (303, "GET", true)]
    {
        let target = busy().await;
        let first = MockServer::start().await;
        let location = if elsewhere { target.uri() + "/there" } else { "/there".to_owned() };
        let moved = reply(status).insert_header("location", location);
        Mock::given(matchers::path("/")).respond_with(moved).mount(&first).await;
        Mock::given(matchers::path("/there")).respond_with(reply(503)).mount(&first).await;
        client(generating()).post(first.uri()).body("order").send().await.unwrap();
        let mut sent = first.received_requests().await.unwrap();
        sent.extend(target.received_requests().await.unwrap());
        let count = |method: &str, path: &str| {
            sent.iter().filter(|it| it.method == method && it.url.path() == path).count()
        };
        assert_eq!((count("POST", "/"), count(method, "/there")), (3, 3), "{status}");
        let mut keys: Vec<_> = sent.iter().map(|it| it.headers[&FIELD].clone()).collect();
        assert_eq!(keys.len(), 6, "{status}");
        keys.dedup();
        assert_eq!(keys.len(), 1, "{status}: {keys:?}");
    }
}

/// The number of the attempt in the field of the key would be another key for each attempt, and the same
/// for all orders.
#[tokio::test]
async fn the_number_of_an_attempt_never_takes_the_place_of_a_key() {
    let with_header = |policy: RetryPolicyBuilder| {
        RetryMiddleware::builder(policy.build().unwrap()).attempt_header(FIELD)
    };
    let rule = "attempt_header is \"idempotency-key\", but it is a field for idempotency keys: each \
                attempt would have another key";
    assert_eq!(with_header(policy()).build().unwrap_err().to_string(), rule);
    let other = || policy().idempotency_key_fields([OTHER]);
    let endpoint = Endpoint::named("e").path("/e").policy(generating().build().unwrap());
    let in_endpoint = with_header(other()).endpoint(endpoint.build().unwrap());
    assert_eq!(in_endpoint.build().unwrap_err().to_string(), rule);

    // A policy that a request brings is not checked by any build: there the number gives way.
    let server = busy().await;
    let client = ClientBuilder::new(http()).with(with_header(other()).build().unwrap()).build();
    let request = client.post(server.uri()).retry_policy(generating().build().unwrap());
    request.send().await.unwrap();
    let keys = keys(&server).await;
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 36), "{keys:?}");
}

/// Stripe's 409 says that the first request with the key is still being worked on.
#[tokio::test]
async fn who_says_that_a_request_is_idempotent_does_not_lose_what_the_key_is_worth() {
    let stripe = || policy().profile(ApiProfile::stripe());
    let with_key = |client: &ClientWithMiddleware, uri: String| {
        client.post(uri).header(FIELD, HeaderValue::from_static("mine"))
    };
    for (label, policy, assumes, sends) in [
        ("nobody says so", stripe(), false, 3),
        ("the policy says so", stripe().assume_idempotent(true), false, 3),
        ("the request says so", stripe(), true, 3),
        ("the policy denies keys", stripe().honour_idempotency_keys(false), false, 1),
        // Then 409 is no reason either, whoever says what.
        ("and the request says so", stripe().honour_idempotency_keys(false), true, 1),
    ] {
        let server = server([reply(409)]).await;
        let client = chain(policy).build();
        let request = with_key(&client, server.uri());
        let request = if assumes { request.assume_idempotent() } else { request };
        request.send().await.unwrap();
        assert_eq!(keys(&server).await, vec!["mine"; sends], "{label}");
    }
}

#[tokio::test]
async fn what_code_adds_to_every_policy_reaches_endpoints_too() {
    let own = Endpoint::named("own").path("/own").policy(policy().max_attempts(5).build().unwrap());
    let client = Endpoint::named("as the client has it").path("/client");
    let retry = RetryMiddleware::builder(policy().build().unwrap())
        .endpoint(own.clone().build().unwrap())
        .endpoint(client.build().unwrap())
        .map_policies(|endpoint, policy| match endpoint {
            None | Some("own") => policy.retry_statuses([StatusCode::GONE].into_iter().collect()),
            Some(name) => panic!("{name} has no policy of its own"),
        })
        .unwrap();
    let error = RetryMiddleware::builder(RetryPolicy::default())
        .map_policies(|_, policy| policy.max_attempts(0))
        .unwrap_err();
    assert_eq!(error.setting(), "max_attempts");
    let error = RetryMiddleware::builder(RetryPolicy::default())
        .endpoint(own.build().unwrap())
        .map_policies(|endpoint, policy| policy.max_attempts(3 * u32::from(endpoint.is_none())))
        .unwrap_err();
    assert_eq!(error.setting(), "endpoint.own.policy.max_attempts");
    let server = server([reply(410)]).await;
    let client = ClientBuilder::new(http()).with(retry.build().unwrap()).build();
    for (path, sends) in [("/", 3), ("/own", 5), ("/client", 3)] {
        client.get(format!("{}{path}", server.uri())).send().await.unwrap();
        let received = server.received_requests().await.unwrap();
        assert_eq!(received.iter().filter(|it| it.url.path() == path).count(), sends, "{path}");
    }
}
