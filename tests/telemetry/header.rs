//! `attempt_header`: which attempt the server gets.

use http::{Extensions, HeaderName, HeaderValue};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_typed_retry::test_util::Script;
use reqwest_typed_retry::{
    ResendCount, RetryMiddleware, RetryMiddlewareBuilder, RetryRequestExt as _, SharedSession,
};

use super::{policy, reply};

const URL: &str = "http://service.test/";
const NAME: HeaderName = HeaderName::from_static("x-attempt");

/// Copies the field, as an inner middleware sees it, and the count that it is told.
struct Copies;

#[async_trait::async_trait]
impl Middleware for Copies {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let seen = request.headers().get(NAME).cloned();
        let seen = seen.unwrap_or(HeaderValue::from_static("nothing"));
        request.headers_mut().insert("x-seen", seen);
        request.headers_mut().insert("x-count", ResendCount::of(extensions).into());
        next.run(request, extensions).await
    }
}

/// What two attempts bring the server: the field, what an inner middleware saw of it, the resend count.
async fn sent(
    with: impl Fn(RetryMiddlewareBuilder) -> RetryMiddlewareBuilder,
    callers: Option<&'static str>,
    session: Option<&SharedSession>,
) -> Vec<[String; 3]> {
    let retry = || with(RetryMiddleware::builder(policy().build().unwrap())).build().unwrap();
    let script = Script::new([reply(503), reply(200)]);
    // A second one in the chain adds nothing.
    let client = ClientBuilder::new(Client::new()).with(retry()).with(retry());
    let mut request = client.with(Copies).with(script.clone()).build().get(URL);
    if let Some(value) = callers {
        request = request.header(NAME, value).header(NAME, "another");
    }
    if let Some(session) = session {
        request = request.retry_session(session);
    }
    assert_eq!(request.send().await.unwrap().status(), 200);
    let text = |values: Vec<&HeaderValue>| {
        values.iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(" and ")
    };
    let names = [NAME, HeaderName::from_static("x-seen"), HeaderName::from_static("x-count")];
    let of = |headers: &http::HeaderMap| {
        names.clone().map(|name| text(headers.get_all(name).iter().collect()))
    };
    script.received().iter().map(|received| of(&received.headers)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_attempt_says_its_number_if_that_is_asked_for() {
    let asked = |retry: RetryMiddlewareBuilder| retry.attempt_header(NAME);
    let numbered = [["1", "1", "0"], ["2", "2", "1"]];
    assert_eq!(sent(asked, None, None).await, numbered);
    assert_eq!(sent(asked, Some("7"), None).await, numbered, "it replaces the caller's");
}

// F119
#[tokio::test(start_paused = true)]
async fn by_default_there_is_none_and_the_callers_is_left_alone() {
    assert_eq!(sent(|retry| retry, None, None).await, [["", "nothing", "0"], ["", "nothing", "1"]]);
    let callers = "7 and another";
    let expected = [[callers, "7", "0"], [callers, "7", "1"]];
    assert_eq!(sent(|retry| retry, Some("7"), None).await, expected);
}

#[tokio::test(start_paused = true)]
async fn in_a_session_the_numbers_go_on() {
    let asked = |retry: RetryMiddlewareBuilder| retry.attempt_header(NAME);
    let session = SharedSession::new(policy().max_attempts(9).build().unwrap());
    let numbered = [["1", "1", "0"], ["2", "2", "1"]];
    assert_eq!(sent(asked, None, Some(&session)).await, numbered);
    session.resend_after(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)).await.unwrap();
    let numbered = [["3", "3", "2"], ["4", "4", "3"]];
    assert_eq!(sent(asked, None, Some(&session)).await, numbered);
}
