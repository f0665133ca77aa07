//! What a request asks for is asked of its own call, and of no other.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, IdempotencyKey, KeyFormat, ReplayBody, RetryMiddleware, RetryPolicy,
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

/// Once the call is over, posts about it by the same client, with what the request carried.
struct Audits(ClientWithMiddleware);

#[async_trait::async_trait]
impl Middleware for Audits {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let response = next.run(request, extensions).await?;
        let audit = self.0.post("http://audit.test/").build().unwrap();
        self.0.execute_with_extensions(audit, extensions).await?;
        Ok(response)
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_made_for_a_request_is_that_of_no_other() {
    let script = Script::always(Reply::status(StatusCode::OK));
    let generates = policy().to_builder().generate_idempotency_keys(KeyFormat::Bare);
    let retry = || RetryMiddleware::new(generates.clone().build().unwrap());
    let plain = ClientBuilder::new(Client::new()).with(retry()).with(script.clone()).build();
    let client = ClientBuilder::new(Client::new())
        .with(Audits(plain))
        .with(retry())
        .with(script.clone())
        .build();
    client.post("http://service.test/").send().await.unwrap();
    let keys = keys(&script);
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
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
