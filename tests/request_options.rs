//! What a request asks for is asked of it, as often as it is sent, and of no other.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, Endpoint, IdempotencyKey, KeyFormat, ReplayBody, RetryMiddleware, RetryPolicy,
    RetryRequestExt as _, SharedSession,
};

fn policy() -> RetryPolicy {
    RetryPolicy::builder().backoff(Backoff::constant(std::time::Duration::ZERO)).build().unwrap()
}

fn client(script: &Script) -> ClientWithMiddleware {
    let retry = RetryMiddleware::new(policy());
    ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build()
}

/// Asks for a token first, by a client of its own, with what the request carries.
struct Authorises(ClientWithMiddleware);

#[async_trait::async_trait]
impl Middleware for Authorises {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut carried = extensions.clone();
        let asks = self.0.post("http://tokens.test/").body("who am I").build().unwrap();
        self.0.execute_with_extensions(asks, &mut carried).await?;
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn another_call_with_the_same_extensions_is_not_asked_for_it() {
    let tokens = Script::always(Reply::status(StatusCode::OK));
    let busy = Reply::status(StatusCode::SERVICE_UNAVAILABLE);
    let script = Script::new([busy, Reply::status(StatusCode::OK)]);
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(policy()))
        .with(Authorises(client(&tokens)))
        .with(script.clone())
        .build();
    let session = SharedSession::new(policy());
    let upload = client
        .put("http://service.test/")
        .retry_session(&session)
        .body_factory(|| async { Ok(ReplayBody::new("secret")) });
    assert_eq!(upload.send().await.unwrap().status(), StatusCode::OK);

    let bodies = |script: &Script| {
        script.received().into_iter().map(|it| it.body.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(&script), [b"secret", b"secret"]);
    assert_eq!(bodies(&tokens), [b"who am I", b"who am I"]);
    assert_eq!(session.attempts(), 2);
}

/// Sends the request once more if its token was refused: a layer outside of the retries.
struct Refreshes;

#[async_trait::async_trait]
impl Middleware for Refreshes {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let again = request.try_clone().unwrap();
        let response = next.clone().run(request, extensions).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => next.run(again, extensions).await,
            _ => Ok(response),
        }
    }
}

/// 503, then 401, then 503 for ever: two passes of the outer layer.
fn refused_once() -> Script {
    let [busy, refused] = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED];
    let replies = [busy, refused].map(Reply::status);
    Script::new(replies.into_iter().chain((0..9).map(|_| Reply::status(busy))))
}

fn keys(script: &Script) -> Vec<String> {
    let key = |headers: &http::HeaderMap| headers["idempotency-key"].to_str().unwrap().to_owned();
    script.received().iter().map(|it| key(&it.headers)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_sends_it_once_more_sends_it_as_it_was_asked_for() {
    let outer = |policy: RetryPolicy, script: &Script| {
        ClientBuilder::new(Client::new())
            .with(Refreshes)
            .with(RetryMiddleware::new(policy))
            .with(script.clone())
            .build()
    };
    let url = "http://service.test/";

    // Two sends of the first pass, three of the second.
    let script = refused_once();
    let key = IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap();
    outer(policy(), &script).post(url).idempotency_key(key).send().await.unwrap();
    assert_eq!(keys(&script), ["order-17"; 5]);

    let script = refused_once();
    let generates = policy().to_builder().generate_idempotency_keys(KeyFormat::Bare);
    let client = outer(generates.build().unwrap(), &script);
    client.post(url).send().await.unwrap();
    let of_one_call = keys(&script);
    assert_eq!(of_one_call, vec![of_one_call[0].clone(); 5]);
    client.post(url).send().await.unwrap();
    assert_ne!(keys(&script)[5], of_one_call[0], "another call");

    let script = refused_once();
    let upload = outer(policy(), &script).put(url);
    let upload = upload.body_factory(|| async { Ok(ReplayBody::new("whole")) });
    upload.send().await.unwrap();
    let bodies = script.received().into_iter().map(|it| it.body.unwrap()).collect::<Vec<_>>();
    assert_eq!(bodies, [b"whole"; 5]);

    let script =
        Script::new([StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE].map(Reply::status));
    outer(policy(), &script).get(url).no_retry().send().await.unwrap();
    assert_eq!(script.received().len(), 2);
}

/// After a 401, posts for a token through its own chain, on the only extensions that it has, and goes on.
struct Tokens(&'static str);

#[async_trait::async_trait]
impl Middleware for Tokens {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let again = request.try_clone().unwrap();
        let response = next.clone().run(request, extensions).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let asks = Client::new().post(self.0).body("who am I").build().unwrap();
        next.clone().run(asks, extensions).await?;
        next.run(again, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_layer_outside_makes_in_between_is_asked_for_nothing() {
    let [refused, busy] = [StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE];
    let outer = |policy: RetryPolicy, script: &Script| {
        ClientBuilder::new(Client::new())
            .with(Tokens("http://tokens.test/"))
            .with(RetryMiddleware::new(policy))
            .with(script.clone())
            .build()
    };
    let script = || {
        let replies = [refused].into_iter().chain([busy; 9]);
        Script::new(replies.map(Reply::status))
    };
    let hosts = |script: &Script| {
        let host =
            |url: &reqwest::Url| url.host_str().unwrap().split('.').next().unwrap().to_owned();
        script.received().iter().map(|it| host(&it.url)).collect::<Vec<_>>()
    };
    let url = "http://service.test/";

    // The POST for the token once; what may be sent twice three times more.
    let log = script();
    let key = IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap();
    let search = outer(policy(), &log).post(url).assume_idempotent().idempotency_key(key);
    search.send().await.unwrap();
    assert_eq!(hosts(&log), ["service", "tokens", "service", "service", "service"]);
    let key = |at: usize| log.received()[at].headers.get("idempotency-key").cloned();
    assert_eq!(key(1), None);
    assert!([0, 2, 3, 4].iter().all(|at| key(*at).unwrap() == "order-17"));

    let log = script();
    let upload = outer(policy(), &log).put(url);
    upload.body_factory(|| async { Ok(ReplayBody::new("secret")) }).send().await.unwrap();
    let bodies = log.received().into_iter().map(|it| it.body.unwrap()).collect::<Vec<_>>();
    assert_eq!(bodies, [&b"secret"[..], b"who am I", b"secret", b"secret", b"secret"]);

    // A key that was made for the order is not that of the token.
    let log = script();
    let generates = policy().to_builder().generate_idempotency_keys(KeyFormat::Bare);
    outer(generates.build().unwrap(), &log).post(url).send().await.unwrap();
    let keys = keys(&log);
    assert_eq!(hosts(&log)[..2], ["service", "tokens"]);
    assert_ne!(keys[0], keys[1]);
}

/// The request in between has a key of its own, and leaves the other one as it was asked for.
#[tokio::test(start_paused = true)]
async fn a_request_in_between_takes_nothing_from_the_one_that_was_asked_for_more() {
    let [refused, fine] = [StatusCode::UNAUTHORIZED, StatusCode::OK];
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    let generates = policy().to_builder().generate_idempotency_keys(KeyFormat::Bare);
    let generates = generates.build().unwrap();
    let outer = |script: &Script| {
        ClientBuilder::new(Client::new())
            .with(Tokens("http://tokens.test/"))
            .with(RetryMiddleware::new(generates.clone()))
            .with(script.clone())
            .build()
    };
    let script = || Script::new([refused, fine, busy, busy, busy].map(Reply::status));
    let url = "http://service.test/";

    let log = script();
    outer(&log).post(url).body("order").send().await.unwrap();
    let made = keys(&log);
    assert_eq!(made[2..], vec![made[0].clone(); 3], "the order has one key");
    assert_ne!(made[1], made[0]);

    let log = script();
    let key = IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap();
    outer(&log).post(url).idempotency_key(key).send().await.unwrap();
    let brought = keys(&log);
    assert!(brought[0] == "order-17" && brought[2..] == ["order-17"; 3], "{brought:?}");
    assert_ne!(brought[1], "order-17");

    let log = script();
    outer(&log).put(url).no_retry().send().await.unwrap();
    assert_eq!(log.received().len(), 3);

    let log = script();
    let upload = outer(&log).put(url).body_factory(|| async { Ok(ReplayBody::new("whole")) });
    upload.no_retry().send().await.unwrap();
    let bodies = log.received().into_iter().map(|it| it.body.unwrap()).collect::<Vec<_>>();
    assert_eq!(bodies, [&b"whole"[..], b"who am I", b"whole"]);
}

/// Where everything has one URL, what a request carries tells it from others.
#[tokio::test(start_paused = true)]
async fn a_request_with_other_bytes_to_the_same_place_is_asked_for_nothing() {
    let url = "http://service.test/graphql";
    let [refused, busy] = [StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE];
    let outer = |script: &Script| {
        ClientBuilder::new(Client::new())
            .with(Tokens("http://service.test/graphql"))
            .with(RetryMiddleware::new(policy()))
            .with(script.clone())
            .build()
    };
    let script = || Script::new([refused, busy, StatusCode::OK].map(Reply::status));
    let bodies = |script: &Script| {
        script.received().into_iter().map(|it| it.body.unwrap()).collect::<Vec<_>>()
    };
    let log = script();
    outer(&log).post(url).body("query").assume_idempotent().send().await.unwrap();
    assert_eq!(bodies(&log), [&b"query"[..], b"who am I", b"query"]);

    let log = script();
    let upload = outer(&log).post(url).body_factory(|| async { Ok(ReplayBody::new("upload")) });
    upload.send().await.unwrap();
    assert_eq!(bodies(&log), [&b"upload"[..], b"who am I", b"upload"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_made_for_a_request_is_that_of_no_other() {
    let quoted = |policy: RetryPolicy| {
        policy.to_builder().generate_idempotency_keys(KeyFormat::Quoted).build().unwrap()
    };
    let bare = policy().to_builder().generate_idempotency_keys(KeyFormat::Bare).build().unwrap();
    let other = Endpoint::named("other").host("other.test").policy(quoted(policy()));
    let other = other.build().unwrap();
    let script = Script::always(Reply::status(StatusCode::OK));
    let retry = RetryMiddleware::builder(bare.clone()).endpoint(other).build().unwrap();
    let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
    let mut extensions = Extensions::new();
    for (method, url, body) in [
        ("POST", "http://service.test/", "one"),
        ("POST", "http://service.test/", "two"),
        ("PATCH", "http://service.test/", "two"),
        ("POST", "http://service.test/orders", "two"),
        ("POST", "http://other.test/orders", "two"),
        ("POST", "http://service.test/", ""),
    ] {
        let request = Client::new().request(method.parse().unwrap(), url).body(body);
        let request = request.build().unwrap();
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
    }
    let keys = keys(&script);
    let different = keys.iter().collect::<std::collections::HashSet<_>>();
    assert_eq!(different.len(), 6, "{keys:?}");
    assert!(keys[4].starts_with('"') && !keys[5].starts_with('"'), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_call_that_was_dropped_was_asked_for_is_there_for_the_next_pass() {
    let script = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
    let waits = RetryPolicy::builder().build().unwrap();
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(waits))
        .with(script.clone())
        .build();
    let (_, mut extensions) = {
        let request = client.get("http://service.test/");
        let mut request = request.no_retry();
        (script.received().len(), std::mem::take(request.extensions()))
    };
    let get = || Client::new().get("http://service.test/").build().unwrap();
    drop(client.execute_with_extensions(get(), &mut extensions)); // never polled
    for sends in 1..3 {
        client.execute_with_extensions(get(), &mut extensions).await.unwrap();
        assert_eq!(script.received().len(), sends);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_put_was_asked_for_is_not_asked_of_a_post_to_the_same_place() {
    let script = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
    let client = client(&script);
    let request = |method: reqwest::Method| {
        Client::new().request(method, "http://service.test/").build().unwrap()
    };
    let mut asked = client.put("http://service.test/").assume_idempotent();
    let mut extensions = std::mem::take(asked.extensions());
    for (method, sends) in [("PUT", 3), ("POST", 1), ("PUT", 3)] {
        let before = script.received().len();
        let request = request(method.parse().unwrap());
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
        assert_eq!(script.received().len() - before, sends, "{method}");
    }
}
