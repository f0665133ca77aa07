//! Which requests an endpoint matches.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderValue, Method};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Request;
use reqwest_typed_retry::Endpoint;

use crate::spec;

fn get(url: &str) -> Request {
    Request::new(Method::GET, url.parse().unwrap())
}

#[test]
fn an_endpoint_matches_by_labels_and_segments_and_every_kind_of_condition() {
    const CASES: u32 = 6_000;
    let mut runner = TestRunner::new(Config::with_cases(CASES));
    let (cases, matches) = (Cell::new(0_u32), Cell::new(0));
    let result = runner.run(&(spec::endpoints(), spec::requests()), |(endpoint, request)| {
        let built = endpoint.builder("e").build().unwrap();
        let holds = endpoint.holds(&request);
        prop_assert_eq!(built.matches(&request.build()), holds, "{}", built);
        cases.set(cases.get() + 1);
        matches.set(matches.get() + u32::from(holds));
        Ok(())
    });
    result.unwrap();
    let share = f64::from(matches.get()) / f64::from(cases.get());
    assert!((0.1..0.6).contains(&share), "too many agree by chance: {share} match");
}

#[test]
fn a_host_is_one_host_or_all_below_a_domain() {
    for (pattern, url, expected) in [
        ("api.test", "http://api.test/", true),
        ("api.test", "https://api.test:8443/", true),
        ("api.test", "http://API.Test./", true),
        ("Api.TEST.", "http://api.test/", true),
        ("api.test", "http://api.test../", false), // one dot is the root, two are no name
        ("api.test", "http://www.api.test/", false),
        ("api.test", "http://myapi.test/", false),
        ("api.test", "http://api.test.evil.test/", false),
        ("api.test", "http://user:api.test@other.test/", false),
        ("*.api.test", "http://www.api.test/", true),
        ("*.api.test", "http://a.b.api.test./", true),
        ("*.api.test", "http://api.test/", false),
        ("*.api.test", "http://.api.test/", false),
        ("*.api.test", "http://myapi.test/", false),
        ("*.test", "http://127.0.0.1/", false),
        ("*.api.test:8080", "http://www.api.test:8080/", true),
        ("*.api.test:8080", "http://www.api.test/", false),
        ("api.test:80", "http://api.test/", true),
        ("api.test:80", "http://api.test:80/", true),
        ("api.test:80", "https://api.test/", false),
        ("api.test:80", "https://api.test:80/", true),
        ("api.test:443", "https://api.test/", true),
        ("api.test:443", "http://api.test/", false),
        ("bücher.test", "http://xn--bcher-kva.test/", true),
        ("*.XN--BCHER-KVA.test", "http://a.BÜCHER.test/", true),
        ("[::1]", "http://[0:0:0:0:0:0:0:1]:8080/", true),
        ("[::1]:8080", "http://[::1]:8080/", true),
        ("[::1]:8080", "http://[::1]/", false),
        ("[::1]", "http://[::2]/", false),
        ("127.0.0.1", "http://0x7f.1/", true),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", false),
    ] {
        let endpoint = Endpoint::named("e").host(pattern).build().unwrap();
        assert_eq!(endpoint.matches(&get(url)), expected, "{pattern} and {url}");
    }
}

#[test]
fn a_path_is_itself_and_all_below_it() {
    for (prefix, url, expected) in [
        ("/", "http://h", true),
        ("/", "http://h/v1", true),
        ("/v1", "http://h/v1", true),
        ("/v1", "http://h/v1/", true),
        ("/v1/", "http://h/v1", true),
        ("/v1//", "http://h/v1", true),
        ("/v1", "http://h/v1/orders", true),
        ("/v1", "http://h/v1//orders", true),
        ("/v1", "http://h/v1?page=2", true),
        ("/v1", "http://h/v1#top", true),
        ("/v1", "http://h/v10", false),
        ("/v1", "http://h/v1%2Forders", false),
        ("/v1", "http://h/V1", false),
        ("/v1", "http://h/", false),
        ("/v1", "http://h/?/v1", false),
        ("/v1", "http://h/api/v1", false),
        ("/v1", "http://h//v1", false),
        ("//v1", "http://h//v1", true),
        ("/v1//orders", "http://h/v1/orders", false),
        ("/v1/orders", "http://h/v1", false),
        ("/a b", "http://h/a%20b/c", true),
        ("/%61", "http://h/a", false),
        ("/ü", "http://h/%C3%BC", true),
        ("/v1/../v2", "http://h/v2", true),
        ("/v1", "http://h/v1/../v2", false),
    ] {
        let endpoint = Endpoint::named("e").path(prefix).build().unwrap();
        assert_eq!(endpoint.matches(&get(url)), expected, "{prefix} and {url}");
    }
}

#[test]
fn a_closure_is_asked_last_and_the_last_of_several_counts() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let endpoint = Endpoint::named("e")
        .method(Method::POST)
        .host("api.test")
        .path("/v1")
        .when(|_| panic!("it was replaced"))
        .when(move |request| {
            count.fetch_add(1, Ordering::Relaxed);
            request.headers().contains_key("x-batch")
        })
        .build()
        .unwrap();
    let with = |method, url: &str, field| {
        let mut request = Request::new(method, url.parse().unwrap());
        request.headers_mut().insert(field, HeaderValue::from_static("1"));
        endpoint.matches(&request)
    };
    assert!(!with(Method::GET, "http://api.test/v1", "x-batch"));
    assert!(!with(Method::POST, "http://other.test/v1", "x-batch"));
    assert!(!with(Method::POST, "http://api.test/v2", "x-batch"));
    assert_eq!(asked.load(Ordering::Relaxed), 0, "asked where another condition fails");
    assert!(!with(Method::POST, "http://api.test/v1", "x-other"));
    assert!(with(Method::POST, "http://api.test/v1", "x-batch"));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn an_endpoint_says_what_it_matches() {
    let of = || Endpoint::named("e");
    for (endpoint, expected) in [
        (of().path("/v1/"), "any method to any host below /v1"),
        (of().path("/").host("Api.TEST.:80"), "any method to api.test:80 below /"),
        (
            of().method(Method::POST).method(Method::PUT).host("*.a.test").path("/b").path("/c"),
            "POST, PUT to *.a.test below /b, /c",
        ),
        (of().host("[0::1]").host("ü.test"), "any method to [::1], xn--tda.test"),
        (of().when(|_| true), "any method to any host where a closure says so"),
    ] {
        let endpoint = endpoint.build().unwrap();
        assert_eq!(endpoint.to_string(), expected);
        let debug = format!("{endpoint:?}");
        assert!(debug.contains(expected) && debug.contains("\"e\""), "{debug}");
        assert_eq!(endpoint.name(), "e");
    }
}
