//! The pairs of `docs/migrating-from-reqwest-retry.md`: each block of the guide is a file here, and what the guide
//! says of the two is what they do.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests")]

mod as_before;
mod backoff_after;
mod backoff_before;
mod classifier_after;
mod classifier_before;
mod error_strategy_after;
mod error_strategy_before;
mod errors_after;
mod errors_before;
mod from_error_after;
mod from_error_before;
mod limit_after;
mod limit_before;
mod setup_after;
mod setup_before;
mod strategy_after;
mod strategy_before;

use std::sync::LazyLock;
use std::time::Duration;

use http::Extensions;
use reqwest::{Client, Method, Request, Response, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_typed_retry::RetryErrorExt as _;
use reqwest_typed_retry::test_util::{Reply, Script};

const URL: &str = "http://service.test/";

static HTTP: LazyLock<Client> = LazyLock::new(Client::new);

fn http() -> Client {
    HTTP.clone()
}

fn with(chain: ClientBuilder, script: &Script) -> ClientWithMiddleware {
    chain.with(script.clone()).build()
}

fn status(code: u16) -> Reply {
    Reply::status(StatusCode::from_u16(code).unwrap())
}

/// How many requests arrive if each is answered like this.
async fn sends(chain: ClientBuilder, method: Method, reply: Reply) -> usize {
    let script = Script::always(reply);
    let request = with(chain, &script).request(method, URL).timeout(Duration::from_secs(1));
    drop(request.send().await);
    script.received().len()
}

/// The waits of a GET that is answered with 503 each time.
async fn waits(chain: ClientBuilder) -> Vec<Duration> {
    let script = Script::always(status(503));
    with(chain, &script).get(URL).send().await.unwrap();
    let received = script.received();
    received.windows(2).map(|sends| sends[1].at - sends[0].at).collect()
}

#[test]
fn the_guide_has_these_blocks() {
    let guide = include_str!("../../../docs/migrating-from-reqwest-retry.md");
    let blocks = [
        ("rust,ignore", include_str!("setup_before.rs")),
        ("rust", include_str!("setup_after.rs")),
        ("rust,ignore", include_str!("backoff_before.rs")),
        ("rust", include_str!("backoff_after.rs")),
        ("rust,ignore", include_str!("limit_before.rs")),
        ("rust", include_str!("limit_after.rs")),
        ("rust,ignore", include_str!("strategy_before.rs")),
        ("rust", include_str!("strategy_after.rs")),
        ("rust,ignore", include_str!("classifier_before.rs")),
        ("rust", include_str!("classifier_after.rs")),
        ("rust,ignore", include_str!("error_strategy_before.rs")),
        ("rust", include_str!("error_strategy_after.rs")),
        ("rust,ignore", include_str!("errors_before.rs")),
        ("rust", include_str!("errors_after.rs")),
        ("rust,ignore", include_str!("from_error_before.rs")),
        ("rust", include_str!("from_error_after.rs")),
        ("rust", include_str!("as_before.rs")),
    ];
    for (kind, code) in blocks {
        assert!(guide.contains(&format!("```{kind}\n{code}```\n")), "not in the guide:\n{code}");
    }
    let ignored = guide.matches("```rust,ignore").count();
    assert_eq!(ignored, 8, "each block that is no doctest is one of these");
}

#[tokio::test(start_paused = true)]
async fn three_retries_are_four_attempts() {
    assert_eq!(sends(setup_before::chain(http()), Method::GET, status(503)).await, 4);
    assert_eq!(sends(setup_after::chain(http()).unwrap(), Method::GET, status(503)).await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_post_is_not_resent_any_more() {
    assert_eq!(sends(setup_before::chain(http()), Method::POST, status(503)).await, 4);
    assert_eq!(sends(setup_after::chain(http()).unwrap(), Method::POST, status(503)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_waits_are_the_same() {
    let nominal = [500, 1_500, 4_500, 13_500, 30_000].map(Duration::from_millis);
    assert_eq!(waits(backoff_after::chain(http()).unwrap()).await, nominal);
    // It counts by the system's clock, which goes on meanwhile.
    let before = waits(backoff_before::chain(http())).await;
    assert_eq!(before.len(), nominal.len());
    for (wait, nominal) in before.into_iter().zip(nominal) {
        assert!(wait <= nominal && wait > nominal / 2, "{wait:?} for {nominal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_all_attempts_ends_one_that_hangs() {
    let hang = || Script::always(Reply::hang());
    let started = tokio::time::Instant::now();
    let after = with(limit_after::chain(http()).unwrap(), &hang()).get(URL).send().await;
    assert!(after.unwrap_err().timed_out());
    assert_eq!(started.elapsed(), Duration::from_secs(30));

    let before = with(limit_before::chain(http()), &hang());
    let minute = tokio::time::timeout(Duration::from_secs(60), before.get(URL).send());
    minute.await.unwrap_err(); // It did not end in twice the time.
}

#[tokio::test(start_paused = true)]
async fn the_same_statuses_are_transient() {
    for (code, expected) in [(409, 4), (502, 1), (503, 4), (404, 1), (200, 1)] {
        let before = sends(strategy_before::chain(http()), Method::GET, status(code)).await;
        let after = sends(strategy_after::chain(http()).unwrap(), Method::GET, status(code)).await;
        assert_eq!([before, after], [expected; 2], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_responses_are_transient() {
    for (reply, expected) in [
        (status(200).header("x-busy", "1"), 4),
        (status(404).header("x-busy", "1"), 4),
        (status(404), 1),
        (status(503), 4),
    ] {
        let before = sends(classifier_before::chain(http()), Method::GET, reply.clone()).await;
        let after =
            sends(classifier_after::chain(http()).unwrap(), Method::GET, reply.clone()).await;
        assert_eq!([before, after], [expected; 2], "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_errors_are_transient() {
    use reqwest_middleware::Error;

    let before = || error_strategy_before::chain(http());
    let after = || error_strategy_after::chain(http()).unwrap();
    let own = Reply::error(|| Error::middleware(error_strategy_before::NoKeyYet));
    assert_eq!(sends(before(), Method::GET, own).await, 4);
    let own = Reply::error(|| Error::middleware(error_strategy_after::NoKeyYet));
    assert_eq!(sends(after(), Method::GET, own).await, 4);

    let other = || Reply::error(|| Error::middleware(std::fmt::Error));
    for (reply, expected) in [(other(), 1), (Reply::connect_error(), 4), (status(503), 4)] {
        let before = sends(before(), Method::GET, reply.clone()).await;
        let after = sends(after(), Method::GET, reply.clone()).await;
        assert_eq!([before, after], [expected; 2], "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_say_the_same() {
    let refused = || Script::always(Reply::connect_error());
    let before = with(setup_before::chain(http()), &refused());
    assert_eq!(errors_before::call(&before, URL).await, Some((true, 3)));
    let after = with(setup_after::chain(http()).unwrap(), &refused());
    assert_eq!(errors_after::call(&after, URL).await, Some((true, 3)));

    // Without the downcast it says no, also of a call that was sent once.
    assert!(!before.get(URL).send().await.unwrap_err().is_connect());
    let never = ExponentialBackoff::builder().build_with_max_retries(0);
    let never = ClientBuilder::new(http()).with(RetryTransientMiddleware::new_with_policy(never));
    assert!(!with(never, &refused()).get(URL).send().await.unwrap_err().is_connect());
    assert!(after.get(URL).send().await.unwrap_err().is_connect());
}

#[tokio::test(start_paused = true)]
async fn errors_are_taken_apart_in_one_place() {
    // What hangs is ended by the timeout of the request.
    for (reply, is_connect, is_timeout) in
        [(Reply::connect_error(), true, false), (Reply::hang(), false, true)]
    {
        let request = |chain| {
            let client = with(chain, &Script::always(reply.clone()));
            client.get(URL).timeout(Duration::from_secs(1)).send()
        };
        let error = request(setup_before::chain(http())).await.unwrap_err();
        let before = from_error_before::Failure::from(error);
        let expected = from_error_before::Failure { retries: 3, is_connect, is_timeout };
        assert_eq!(before, expected);

        let error = request(from_error_after::chain(http()).unwrap()).await.unwrap_err();
        // Of an error that is wrapped reqwest-middleware's own questions are answered with no.
        assert!(!error.is_connect() && !error.is_timeout());
        let after = from_error_after::Failure::from(error);
        let expected = from_error_after::Failure { retries: 3, is_connect, is_timeout };
        assert_eq!(after, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_did_before_can_be_had() {
    let codes = [200, 204, 301, 304, 400, 404, 408, 409, 425, 429, 500, 501, 503, 505, 507, 599];
    let statuses = codes.map(|code| (code.to_string(), status(code)));
    let faults = [
        ("connect".to_owned(), Reply::connect_error()),
        ("dns".to_owned(), Reply::dns_error()),
        ("timeout".to_owned(), Reply::hang()),
        ("Retry-After".to_owned(), status(503).header("retry-after", 3_600)),
    ];
    for (what, reply) in statuses.into_iter().chain(faults) {
        for method in [Method::GET, Method::POST, Method::PATCH] {
            let before = sends(setup_before::chain(http()), method.clone(), reply.clone()).await;
            let after = as_before::chain(http(), 3).unwrap();
            let after = sends(after, method.clone(), reply.clone()).await;
            assert_eq!(before, after, "{method} {what}");
        }
    }
    for _ in 0..20 {
        let waits = waits(as_before::chain(http(), 3).unwrap()).await;
        let longest = [1, 2, 4].map(Duration::from_secs);
        assert!(waits.iter().zip(longest).all(|(wait, longest)| *wait <= longest), "{waits:?}");
    }
}

/// Leaves a mark in the extensions; counts those that were there already.
struct Marks;

#[derive(Clone, Copy)]
struct Seen(usize);

#[async_trait::async_trait]
impl Middleware for Marks {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let seen = extensions.get::<Seen>().map_or(0, |seen| seen.0);
        extensions.insert(Seen(seen + 1));
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_does_not_see_the_extensions_of_the_one_before() {
    let chains = [(setup_before::chain(http()), 3), (setup_after::chain(http()).unwrap(), 1)];
    for (chain, marks) in chains {
        let script = Script::new([status(503), status(503), status(200)]);
        let client = with(chain.with(Marks), &script);
        let mut extensions = Extensions::new();
        let request = Request::new(Method::GET, URL.parse().unwrap());
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
        assert_eq!(extensions.get::<Seen>().map(|seen| seen.0), Some(marks));
    }
}
