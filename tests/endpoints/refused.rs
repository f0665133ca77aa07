//! Conditions that cannot be meant.

use http::{Method, StatusCode};
use reqwest_typed_retry::{
    ApiProfile, DeliveryProof, Endpoint, EndpointBuilder, PolicyError, RetryMiddleware,
    RetryPolicy, StatusSet,
};

fn error(endpoint: EndpointBuilder) -> PolicyError {
    let shown = format!("{endpoint:?}");
    match endpoint.build() {
        Ok(endpoint) => panic!("{endpoint} was built of {shown}"),
        Err(error) => error,
    }
}

#[test]
fn a_host_that_is_none_is_refused_by_name_value_and_rule() {
    let rule = "it must be a host such as api.test, api.test:8080 or *.api.test, without a scheme \
                or a path";
    let domain = "only a domain has names below it";
    for (label, host, rule) in [
        ("empty", "", rule),
        ("a scheme", "https://api.test", rule),
        ("a scheme and a port", "https://api.test:8080", rule),
        ("a path", "api.test/v1", rule),
        ("a final slash", "api.test/", rule),
        ("a query", "api.test?a", rule),
        ("a fragment", "api.test#a", rule),
        ("a backslash", r"api.test\v1", rule),
        ("a user", "user@api.test", rule),
        ("a user with a password", "user:secret@api.test", rule),
        ("a space", "api .test", rule),
        ("a space before it", " api.test", rule),
        ("a line break", "api.test\n", rule),
        ("a control", "api\u{7f}.test", rule),
        ("any host", "*", rule),
        ("nothing below which", "*.", rule),
        ("a dot alone", ".", rule),
        ("an asterisk inside", "api.*.test", rule),
        ("an asterisk in a label", "api*.test", rule),
        ("two asterisks", "*.*.test", rule),
        ("an asterisk without a dot", "*api.test", rule),
        ("a port alone", ":8080", rule),
        ("an empty port", "api.test:", rule),
        ("any port", "api.test:*", rule),
        ("a port that is a word", "api.test:http", rule),
        ("a signed port", "api.test:+80", rule),
        ("a negative port", "api.test:-1", rule),
        ("a port too high", "api.test:65536", rule),
        ("two ports", "api.test:8080:8080", rule),
        ("two ports, the first a default", "api.test:80:8080", rule),
        ("two colons", "api.test::8080", rule),
        ("an IPv6 address without brackets", "::1", rule),
        ("an IPv6 address cut off", "[::1", rule),
        ("an IPv6 address and more", "[::1]8080", rule),
        ("an IPv6 address and two ports", "[::1]:80:80", rule),
        ("a forbidden character", "api|test", rule),
        ("an IPv4 address that is none", "1.2.3.256", rule),
        ("below an IPv4 address", "*.127.0.0.1", domain),
        ("below an IPv6 address", "*.[::1]", domain),
        ("below an IPv4 address, with a port", "*.127.0.0.1:80", domain),
    ] {
        // One that is good does not help.
        let error = error(Endpoint::named("e").host("api.test").host(host));
        assert_eq!(
            error.to_string(),
            format!("endpoint.e.host is {host:?}, but {rule}"),
            "{label}"
        );
        assert_eq!(error.setting(), "endpoint.e.host", "{label}");
    }
}

#[test]
fn a_path_that_is_none_is_refused_by_name_value_and_rule() {
    let slash = "it must begin with a slash";
    let alone = "it must be a path alone: queries are not looked at";
    let prefix = "it is a prefix of whole segments already: it has no wildcards";
    let space = "it must not have space around it, which a URL never has";
    let all = "it comes to /, which is every path";
    let one = "it must be one path: several are several settings";
    for (label, path, rule) in [
        ("empty", "", slash),
        ("no slash", "v1", slash),
        ("a URL", "http://api.test/v1", slash),
        ("a space before it", " /v1", slash),
        ("an asterisk alone", "*", slash),
        ("a query", "/v1?page=1", alone),
        ("an empty query", "/v1?", alone),
        ("a fragment", "/v1#top", alone),
        ("everything below it", "/v1/*", prefix),
        ("everything that begins so", "/v1*", prefix),
        ("everything of any depth", "/v1/**", prefix),
        ("everything in its place", "/v*/a", prefix),
        ("what comes to that", "/v1/*/", prefix),
        ("a parameter", "/{id}/orders", prefix),
        ("a space behind it", "/v1 ", space),
        ("a tab in it", "/v1\t/a", space),
        ("two slashes", "//", all),
        ("a dot", "/.", all),
        ("the way back", "/v1/..", all),
        ("a backslash", "/\\", all),
        ("two paths", "/a,/b", one),
    ] {
        let error = error(Endpoint::named("e").path("/v1").path(path));
        assert_eq!(
            error.to_string(),
            format!("endpoint.e.path is {path:?}, but {rule}"),
            "{label}"
        );
        assert_eq!(error.setting(), "endpoint.e.path", "{label}");
    }
}

#[test]
fn a_method_that_differs_from_a_known_one_by_case_is_refused() {
    let method = |name: &str| Method::from_bytes(name.as_bytes()).unwrap();
    let known = ["get", "Head", "post", "pUT", "Delete", "options", "tracE", "connect", "Patch"];
    for name in known {
        let error = error(Endpoint::named("e").method(Method::GET).method(method(name)));
        let rule = "methods are case-sensitive: it must be in capitals";
        assert_eq!(error.to_string(), format!("endpoint.e.method is {name:?}, but {rule}"));
        assert_eq!(error.setting(), "endpoint.e.method");
    }
    // One's own may be called anything.
    for name in ["PURGE", "purge", "GET", "Postpone"] {
        Endpoint::named("e").method(method(name)).build().unwrap();
    }
}

#[test]
fn a_name_that_says_nothing_and_an_endpoint_without_conditions_are_refused() {
    let name = "reports call it so: it must be up to 64 letters, digits, spaces and -_./:";
    let none =
        "it needs a method, host, path or closure: the policy for every request is the client's";
    let policy = RetryPolicy::never();
    for (label, endpoint, expected) in [
        ("empty", Endpoint::named("").path("/"), format!("endpoint.name is \"\", but {name}")),
        (
            "blank",
            Endpoint::named(" \t").path("/"),
            format!("endpoint.name is \" \\t\", but {name}"),
        ),
        (
            "no condition",
            Endpoint::named("e"),
            format!("endpoint.e.conditions is none, but {none}"),
        ),
        (
            "rules alone",
            Endpoint::named("the rest").policy(policy).buffer_body(1),
            format!("endpoint.the rest.conditions is none, but {none}"),
        ),
    ] {
        assert_eq!(error(endpoint).to_string(), expected, "{label}");
    }
}

fn endpoint(name: &str) -> Endpoint {
    Endpoint::named(name).path("/").build().unwrap()
}

#[test]
fn two_endpoints_of_one_name_are_refused() {
    let built = |names: &[&str]| {
        let retry = RetryMiddleware::builder(RetryPolicy::default());
        let retry = names.iter().fold(retry, |retry, name| retry.endpoint(endpoint(name)));
        retry.build().map(drop).map_err(|error| error.to_string())
    };
    let twice =
        |name| Err(format!("endpoint.name is {name:?}, but another endpoint has that name"));
    for (names, expected) in [
        (&["a", "b", "A"][..], Ok(())),
        (&["a", "a"], twice("a")),
        (&["a", "b", "c", "b"], twice("b")),
    ] {
        assert_eq!(built(names), expected, "{names:?}");
    }
}

#[test]
fn there_are_at_most_65535_endpoints() {
    let retry = RetryMiddleware::builder(RetryPolicy::default());
    let most = (1..=65_535_u32).fold(retry, |retry, at| retry.endpoint(endpoint(&at.to_string())));
    let error = most.endpoint(endpoint("one more")).build().unwrap_err();
    let expected = "endpoint.name is \"one more\", but there can't be more than 65535 endpoints";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_promise_that_nothing_can_prove_is_refused_in_an_endpoint_too() {
    let limited = StatusCode::TOO_MANY_REQUESTS;
    let listed = StatusSet::empty().with(limited);
    let by_policy = RetryPolicy::builder().not_processed_statuses(listed).build().unwrap();
    let profile = ApiProfile::standard().not_processed_statuses([limited]);
    let by_profile = RetryPolicy::builder().profile(profile).build().unwrap();
    for (label, policy) in [("policy", by_policy), ("profile", by_profile)] {
        let promises = || Endpoint::named("e").path("/").policy(policy.clone()).build().unwrap();
        let retry = || RetryMiddleware::builder(RetryPolicy::default());
        let error = retry().endpoint(endpoint("other")).endpoint(promises()).build().unwrap_err();
        let rule = "without a delivery proof the list has no effect: add one, or leave it empty";
        let expected = format!("endpoint.e.policy.not_processed_statuses is {{429}}, but {rule}");
        assert_eq!(error.to_string(), expected, "{label}");
        let (_, proof) = DeliveryProof::build(reqwest::Client::builder()).unwrap();
        retry().endpoint(promises()).delivery_proof(proof).build().unwrap();
    }
}
