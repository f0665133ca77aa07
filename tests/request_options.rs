//! What a request asks for is asked of its own call, and of no other.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, ReplayBody, RetryMiddleware, RetryPolicy, RetryRequestExt as _, SharedSession,
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
