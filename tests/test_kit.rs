//! What the test kit promises to those who test with it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::test_util::{Reply, Script, TestClock};
use reqwest_typed_retry::{FaultKind, RetryMiddleware, RetryPolicy, fault_source};

const URL: &str = "http://service.test/";

fn client(script: &Script, buffer_body: u64) -> ClientWithMiddleware {
    let retry = RetryMiddleware::builder(RetryPolicy::default()).buffer_body(buffer_body);
    let http = ClientBuilder::new(reqwest::Client::new());
    http.with(retry.build().unwrap()).with(script.clone()).build()
}

fn fine() -> Reply {
    Reply::status(StatusCode::OK)
}

#[tokio::test(start_paused = true)]
async fn a_reply_can_depend_on_the_request_and_on_what_came_before() {
    let script = Script::answering(|request| match (request.url.path(), request.resend_count) {
        ("/sick", 0) => Reply::status(StatusCode::SERVICE_UNAVAILABLE),
        (path, resends) => fine().body(format!("{path} after {resends}")),
    });
    let client = client(&script, 0);
    let get = |path: &str| {
        let request = client.get(format!("http://service.test{path}"));
        async move { request.send().await.unwrap().text().await.unwrap() }
    };
    let (sick, well) = tokio::join!(get("/sick"), get("/well"));
    assert_eq!((sick.as_str(), well.as_str()), ("/sick after 1", "/well after 0"));
    assert_eq!(script.received().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_ask_the_script_what_it_has_received() {
    let itself = Arc::new(OnceLock::<Script>::new());
    let known = itself.clone();
    let script = Script::answering(move |_| {
        let received = known.get().map_or(0, |script| script.received().len());
        fine().body(received.to_string())
    });
    itself.set(script.clone()).unwrap();
    let response = client(&script, 0).get(URL).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_cut_body_is_one_for_the_reader_and_for_the_policy() {
    for (sent, buffered) in [("", false), ("half", false), ("", true), ("half", true)] {
        let script = Script::new([fine().body(sent).cut(), fine().body("whole")]);
        let response = client(&script, if buffered { 100 } else { 0 }).get(URL).send().await;
        let mut response = response.unwrap();
        if buffered {
            assert_eq!(response.text().await.unwrap(), "whole");
            assert_eq!(script.received().len(), 2);
            continue;
        }
        if !sent.is_empty() {
            assert_eq!(response.chunk().await.unwrap().unwrap(), sent);
        }
        let error = response.chunk().await.unwrap_err();
        assert_eq!(fault_source::classify(&error).kind(), FaultKind::Body);
        assert_eq!(script.received().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn fields_are_given_as_text_as_numbers_and_as_what_they_are() {
    let value = HeaderValue::from_static("x");
    let reply = fine().header("x-a", "one").header("x-a", 2).header(http::header::ETAG, value);
    let response = client(&Script::new([reply]), 0).get(URL).send().await.unwrap();
    let all: Vec<_> = response.headers().get_all("x-a").iter().collect();
    assert_eq!(all, ["one", "2"]);
    assert_eq!(response.headers()["etag"], "x");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_no_response_can_have_is_an_error_that_says_so() {
    for (reply, expected) in [
        (fine().header("no name", "x"), "the name of a field of the script's reply: invalid"),
        (fine().header("x-a", "two\nlines"), "the field x-a of the script's reply: failed"),
    ] {
        let script = Script::new([reply.body("unseen").cut()]);
        let error = client(&script, 0).get(URL).send().await.unwrap_err();
        let said = format!("{error}, {:?}", error.source());
        assert!(said.contains(expected), "{said}");
        assert_eq!(script.received().len(), 1, "it is nothing to send again");
    }
}

#[tokio::test(start_paused = true)]
async fn what_hangs_for_ever_fails_the_test_and_not_the_test_run() {
    let script = Script::always(Reply::hang());
    let error = client(&script, 0).get(URL).send().await.unwrap_err();
    assert!(error.to_string().contains("left hanging"), "{error}");
    assert_eq!(script.received().len(), 1, "it is nothing to send again");
}

#[tokio::test(start_paused = true)]
async fn a_script_says_which_request_had_no_reply_and_how_many_replies_nobody_had() {
    let script = Script::new([fine(), fine()]);
    assert_eq!(script.replies_left(), 2);
    for _ in 0..2 {
        client(&script, 0).get(URL).send().await.unwrap();
    }
    assert_eq!(script.replies_left(), 0);
    let error = client(&script, 0).put(URL).send().await.unwrap_err().to_string();
    assert!(error.contains("no reply left for its request 3, PUT http://service.test/"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_ticks_moves_with_the_waits_and_one_that_does_not_stays() {
    let (now, wait) = (SystemTime::UNIX_EPOCH, Duration::from_secs(30));
    for (clock, passed) in [(TestClock::ticking(now), wait), (TestClock::new(now), Duration::ZERO)]
    {
        tokio::time::advance(wait).await;
        assert_eq!(clock.now(), now + passed);
        clock.set(now);
        clock.advance(wait);
        tokio::time::advance(wait).await;
        assert_eq!((clock.reader())(), now + wait + passed);
    }
}

#[test]
fn the_readme_shows_a_test_that_runs() {
    let (_, shown) = include_str!("readme_testing.rs").split_once("\n\nuse ").unwrap();
    assert!(include_str!("../README.md").contains(&format!("```rust,ignore\nuse {shown}```\n")));
}
