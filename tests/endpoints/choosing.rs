//! Which of several endpoints a request belongs to, and when that is settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join;
use http::{Extensions, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::Script;
use reqwest_typed_retry::{
    Backoff, Endpoint, EndpointBuilder, KeyFormat, RetryMiddleware, RetryMiddlewareBuilder,
    RetryPolicy, RetryRequestExt as _, RetryScope, SharedSession,
};
use tokio_util::sync::CancellationToken;

use crate::{BeforeSend, Told, URL, at, busy, chain, client, fine, http, ms, sends, spec};

fn retry(count: u32) -> RetryMiddlewareBuilder {
    RetryMiddleware::builder(sends(count).build().unwrap()).without_budget()
}

fn with_sends(endpoint: EndpointBuilder, count: u32) -> Endpoint {
    endpoint.policy(sends(count).build().unwrap()).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Every second endpoint has rules of its own; each of them sends so often as its number, and two.
    #[test]
    fn of_several_endpoints_the_first_that_matches_holds_for_every_attempt(
        specs in vec(spec::endpoints(), 1..5),
        request in spec::requests(),
    ) {
        const CLIENTS: u32 = 7;
        let told = Told::default();
        let mut retry = retry(CLIENTS).observer(told.clone());
        for (at, spec) in (0..).zip(&specs) {
            let endpoint = spec.builder(&format!("number {at}"));
            let own = with_sends(endpoint.clone(), at + 2);
            retry = retry.endpoint(if at % 2 == 0 { own } else { endpoint.build().unwrap() });
        }
        let first = specs.iter().position(|spec| spec.holds(&request));
        let expected = match first.map(|at| u32::try_from(at).unwrap()) {
            Some(at) if at % 2 == 0 => at + 2,
            _ => CLIENTS,
        };
        let script = Script::always(busy());
        let client = client(retry, &script);
        // No driver of any kind: nothing waits here.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(client.execute(request.build())).unwrap();
        prop_assert_eq!(script.received().len(), usize::try_from(expected).unwrap());
        let name = first.map(|at| format!("number {at}"));
        prop_assert_eq!(told.attempts(), vec![name; script.received().len()]);
    }
}

/// How often a request to `url` is sent.
async fn sent(client: &ClientWithMiddleware, url: &str, script: &Script) -> usize {
    let before = script.received().len();
    client.get(url).send().await.unwrap();
    script.received().len() - before
}

#[tokio::test(start_paused = true)]
async fn the_order_in_which_endpoints_are_added_decides_not_how_narrow_they_are() {
    let narrow = || with_sends(at("/v1/orders"), 5);
    let wide = || with_sends(at("/v1"), 2);
    for (label, endpoints, orders, others) in
        [("narrow first", [narrow(), wide()], 5, 2), ("wide first", [wide(), narrow()], 2, 2)]
    {
        let script = Script::always(busy());
        let retry = endpoints.into_iter().fold(retry(1), RetryMiddlewareBuilder::endpoint);
        let client = client(retry, &script);
        assert_eq!(sent(&client, "http://h.test/v1/orders/7", &script).await, orders, "{label}");
        assert_eq!(sent(&client, "http://h.test/v1/items", &script).await, others, "{label}");
        assert_eq!(sent(&client, "http://h.test/", &script).await, 1, "{label}: none of them");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_of_very_many_endpoints_is_found_and_told_like_any_other() {
    let told = Told::default();
    let retry = (0..1_000).fold(retry(1).observer(told.clone()), |retry, number| {
        retry.endpoint(with_sends(at(&format!("/{number}")), 2))
    });
    let script = Script::always(busy());
    let client = client(retry, &script);
    for number in [0, 255, 256, 999] {
        assert_eq!(sent(&client, &format!("http://h.test/{number}"), &script).await, 2);
        assert_eq!(told.attempts(), vec![Some(format!("/{number}")); 2]);
    }
}

// F129
#[tokio::test(start_paused = true)]
async fn a_policy_for_one_host_sends_nothing_again_to_another() {
    let script = Script::new([busy(), fine(), busy(), fine()]);
    let only = with_sends(Endpoint::named("a").host("a.test"), 3);
    let never = RetryMiddleware::builder(RetryPolicy::never()).endpoint(only);
    let client = client(never, &script);
    assert_eq!(sent(&client, "http://a.test/", &script).await, 2);
    assert_eq!(sent(&client, "http://b.test/", &script).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_is_that_of_the_request_as_the_caller_made_it_whatever_is_sent() {
    for (label, caller, sent_path, count) in
        [("into it", "/outside", "/inside", 2), ("out of it", "/inside", "/outside", 4)]
    {
        let told = Told::default();
        let inside = with_sends(at("/inside").method(Method::GET), 4);
        let retry = retry(2).endpoint(inside).observer(told.clone());
        let script = Script::always(busy());
        let moves = BeforeSend(move |request: &mut Request| {
            request.url_mut().set_path(sent_path);
            let method = if sent_path == "/inside" { Method::GET } else { Method::DELETE };
            *request.method_mut() = method;
        });
        let client = chain(retry).with(moves).with(script.clone()).build();
        client.get(format!("http://h.test{caller}")).send().await.unwrap();
        let received = script.received();
        assert!(received.iter().all(|it| it.url.path() == sent_path), "{label}: {received:?}");
        assert_eq!(received.len(), count, "{label}");
        let name = (caller == "/inside").then(|| "/inside".to_owned());
        assert_eq!(told.attempts(), vec![name; count], "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_middleware_before_the_retry_makes_of_a_request_counts() {
    let moves = BeforeSend(|request: &mut Request| request.url_mut().set_path("/inside"));
    let retry = retry(1).endpoint(with_sends(at("/inside"), 3)).build().unwrap();
    let script = Script::always(busy());
    let chain = ClientBuilder::new(http()).with(moves).with(retry);
    chain.with(script.clone()).build().get(URL).send().await.unwrap();
    assert_eq!(script.received().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn closures_are_asked_once_a_call_up_to_the_first_that_matches() {
    let asked = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let counting = |number: usize, says: bool| {
        let asked = asked[number].clone();
        let endpoint = Endpoint::named(number.to_string()).when(move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
            says
        });
        with_sends(endpoint, 3)
    };
    let retry = retry(1).endpoint(counting(0, false)).endpoint(counting(1, true));
    let script = Script::always(busy());
    let client = client(retry.endpoint(counting(2, true)), &script);
    assert_eq!(sent(&client, URL, &script).await, 3);
    assert_eq!(asked.map(|asked| asked.load(Ordering::Relaxed)), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_closure_sees_the_callers_fields_and_body_and_nothing_that_the_retry_adds() {
    let caller = |request: &Request| {
        request.headers().contains_key("x-batch")
            && !request.headers().contains_key("idempotency-key")
            && !request.headers().contains_key("x-attempt")
            && request.body().and_then(reqwest::Body::as_bytes) == Some(b"order")
    };
    let endpoint = with_sends(Endpoint::named("batch").when(caller), 3);
    let keys = sends(1).generate_idempotency_keys(KeyFormat::Bare).build().unwrap();
    let retry = RetryMiddleware::builder(keys)
        .attempt_header(http::HeaderName::from_static("x-attempt"))
        .endpoint(endpoint);
    let script = Script::always(busy());
    let client = client(retry, &script);
    client.post(URL).header("x-batch", "1").body("order").send().await.unwrap();
    assert_eq!(script.received().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn two_calls_at_once_are_of_the_endpoint_of_each() {
    let told = Told::default();
    let retry = retry(1).endpoint(with_sends(at("/a"), 2)).endpoint(with_sends(at("/b"), 3));
    let script = Script::always(busy());
    let client = client(retry.observer(told.clone()), &script);
    let call = |path| client.get(format!("http://h.test{path}")).send();
    let (a, b) = join(call("/a"), call("/b")).await;
    assert_eq!([a.unwrap().status(), b.unwrap().status()], [StatusCode::SERVICE_UNAVAILABLE; 2]);
    let of = |path| script.received().iter().filter(|it| it.url.path() == path).count();
    assert_eq!((of("/a"), of("/b")), (2, 3));
    let mut names = told.attempts();
    names.sort();
    let [a, b] = ["/a", "/b"].map(|name| Some(name.to_owned()));
    assert_eq!(names, [a.clone(), a, b.clone(), b.clone(), b]);
}

/// Asks for a token before each send, by a client of its own.
struct Authorises(ClientWithMiddleware);

#[async_trait]
impl Middleware for Authorises {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.0.get("http://tokens.test/inside").send().await?;
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_inside_another_has_its_own_endpoints_and_no_others() {
    let (script, tokens) = (Script::always(busy()), Script::always(busy()));
    let (told, token_told) = (Told::default(), Told::default());
    let own = retry(1).endpoint(with_sends(Endpoint::named("tokens").host("tokens.test"), 2));
    let authorises = Authorises(client(own.observer(token_told.clone()), &tokens));
    let outer = retry(1).endpoint(with_sends(at("/inside"), 3)).observer(told.clone());
    let client = chain(outer).with(authorises).with(script.clone()).build();
    client.get("http://h.test/inside").send().await.unwrap();
    assert_eq!((script.received().len(), tokens.received().len()), (3, 6));
    assert_eq!(told.attempts(), vec![Some("/inside".to_owned()); 3]);
    assert_eq!(token_told.attempts(), vec![Some("tokens".to_owned()); 6]);
}

#[tokio::test(start_paused = true)]
async fn of_two_layers_in_one_chain_only_the_outer_ones_endpoints_hold() {
    for (label, outer, expected) in [
        ("it has one", retry(2).endpoint(with_sends(at("/path"), 3)), 3),
        ("it has none", retry(2), 2),
    ] {
        let script = Script::always(busy());
        let inner = retry(1).endpoint(with_sends(at("/path"), 5)).build().unwrap();
        let client = chain(outer).with(inner).with(script.clone()).build();
        client.get(URL).send().await.unwrap();
        assert_eq!(script.received().len(), expected, "{label}");
    }
}

fn cut() -> std::io::Error {
    std::io::ErrorKind::ConnectionReset.into()
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_of_by_the_endpoint_of_each_of_its_requests() {
    let told = Told::default();
    let retry = retry(1).endpoint(with_sends(at("/a"), 2)).observer(told.clone());
    let client = client(retry, &Script::always(fine()));
    let session = SharedSession::new(sends(9).build().unwrap());
    for (path, name) in [("/a", Some("/a")), ("/b", None), ("/a/b", Some("/a"))] {
        let request = client.get(format!("http://h.test{path}")).retry_session(&session);
        request.send().await.unwrap();
        session.resend_after(cut()).await.unwrap();
        // Once by its head, and once by its body.
        assert_eq!(told.attempts(), vec![name.map(str::to_owned); 2], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_wait_is_cancelled_is_told_of_by_its_endpoint() {
    for (label, cancelled_at) in [("before the wait", ms(0)), ("in the wait", ms(10))] {
        let told = Told::default();
        let retry = retry(1).endpoint(with_sends(at("/a"), 2)).observer(told.clone());
        let client = client(retry, &Script::always(fine()));
        let policy = sends(9).backoff(Backoff::constant(ms(1_000))).build().unwrap();
        let session = SharedSession::new(policy);
        client.get("http://h.test/a").retry_session(&session).send().await.unwrap();
        let gone = CancellationToken::new();
        let cancels = async {
            tokio::time::sleep(cancelled_at).await;
            gone.cancel();
        };
        let waits = RetryScope::new().cancel_on(gone.clone()).run(session.resend_after(cut()));
        let ((), result) = join(cancels, waits).await;
        assert!(result.is_err(), "{label}");
        assert_eq!(told.given_up(), [Some("/a".to_owned())], "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_is_told_of_by_its_endpoint() {
    let told = Told::default();
    let retry = retry(2).endpoint(with_sends(at("/a"), 3)).observer(told.clone());
    let client = client(retry, &Script::always(busy()));
    for (path, name) in [("/a", Some("/a")), ("/b", None)] {
        client.get(format!("http://h.test{path}")).send().await.unwrap();
        assert_eq!(told.given_up(), [name.map(str::to_owned)], "{path}");
    }
}
