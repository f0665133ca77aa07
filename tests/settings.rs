//! Settings: what loads, what is refused and how, and that nothing gets lost.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, Cooldown, DelayHint, DeliveryProof, DrainLimits, Endpoint,
    FaultKind, FaultSet, HintUnit, Jitter, KeyFormat, RetryBudget, RetryMiddleware, RetryPolicy,
    RetryPolicyBuilder, RetrySettings, ServerDelays, StatusCondition, StatusSet,
};

const ANNOTATED: &str = include_str!("../examples/retry.toml");

fn load(text: &str) -> RetrySettings {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn the_annotated_file_loads_and_its_client_is_the_default_one() {
    let settings = load(ANNOTATED);
    let client = ANNOTATED.split("[[endpoint]]").next().unwrap();
    assert_eq!(load(client), RetrySettings::default());
    assert_eq!(settings.endpoints().len(), 3);
    RetryMiddleware::from_settings(&settings).unwrap();
}

/// The keys of all tables in `value`, wherever they are.
fn keys(value: &serde_json::Value, into: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(table) => {
            for (key, value) in table {
                into.insert(key.clone());
                keys(value, into);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
        _ => {}
    }
}

#[test]
fn the_annotated_file_has_every_setting() {
    let (mut shown, mut known) = (BTreeSet::new(), BTreeSet::new());
    keys(&toml::from_str::<serde_json::Value>(ANNOTATED).unwrap(), &mut shown);
    keys(&serde_json::to_value(load(ANNOTATED)).unwrap(), &mut known);
    assert_eq!(shown, known);
}

#[test]
fn what_is_written_loads_as_it_was() {
    for text in ["", ANNOTATED] {
        let settings = load(text);
        let toml = toml::to_string(&settings).unwrap();
        assert_eq!(load(&toml), settings, "{toml}");
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<RetrySettings>(&json).unwrap(), settings, "{json}");
    }
}

#[test]
fn the_default_policy_has_the_default_settings() {
    assert_eq!(RetryPolicy::default().settings(), RetrySettings::default());
    assert_ne!(RetryPolicy::never().settings(), RetrySettings::default());
    // Code can't be written down, so it is not there at all.
    let judged = RetryPolicy::builder().classifier(|_: &Attempt<'_>| None).build().unwrap();
    let debug = |policy: &RetryPolicy| format!("{policy:?}");
    assert!(debug(&judged).contains("classifiers: 1 of"), "{judged:?}");
    assert_eq!(debug(judged.settings().policy()), debug(&RetryPolicy::default()));
}

/// A setting, and what is said of it.
const REFUSED: &[(&str, &str)] = &[
    // Numbers.
    (
        "policy.max_attempts = 0",
        "policy.max_attempts is 0, but it counts the first send too: it must be at least 1",
    ),
    (
        "policy.max_attempts = -1",
        "policy.max_attempts is -1, but it must be a whole number from 1 up, or \"unlimited\"",
    ),
    (
        "policy.max_attempts = 2.0",
        "policy.max_attempts is 2.0, but it must be a whole number from 1 up, or \"unlimited\"",
    ),
    (
        "policy.max_attempts = 4294967296",
        "policy.max_attempts is 4294967296, but it must be a whole number from 1 up, or \"unlimited\"",
    ),
    (
        "policy.max_attempts = 'unlimited'",
        "policy.deadline is none, but unlimited attempts need a deadline to end them",
    ),
    ("buffer_body = -1", "buffer_body is -1, but it must be a whole number from 0 up"),
    (
        "buffer_body = '64 KiB'",
        "buffer_body is \"64 KiB\", but it must be a whole number from 0 up",
    ),
    (
        "budget.capacity = 5000000000",
        "budget.capacity is 5000000000, but it must not be more than 4294967295",
    ),
    ("budget.capacity = nan", "budget.capacity is NaN, but it must be a whole number from 0 up"),
    (
        "budget.refill_per_answer = nan",
        "budget.refill_per_answer is NaN, but it must be between 0 and 1, in whole thousandths",
    ),
    (
        "budget.refill_per_answer = 'much'",
        "budget.refill_per_answer is \"much\", but it must be a number",
    ),
    ("budget = 'off'", "budget is \"off\", but it must be a table of settings, or \"none\""),
    ("cooldown = 'no'", "cooldown is \"no\", but it must be true or false"),
    ("cooldown = 1", "cooldown is 1, but it must be true or false"),
    (
        "cooldown = true",
        "policy.deadline is none, but a cooldown holds calls for as long as a server asks for quiet: \
         a deadline must end that",
    ),
    (
        "cooldown = true\npolicy.deadline = '9s'\n\
         endpoint = [{ name = 'a', path = '/a', policy.deadline = 'none' }]",
        "endpoint.a.policy.deadline is none, but a cooldown holds calls for as long as a server asks for \
         quiet: a deadline must end that",
    ),
    (
        "attempt_header = 'x y'",
        "attempt_header is \"x y\", but it must be the name of a header field, or \"none\"",
    ),
    // Durations.
    (
        "policy.deadline = 30",
        "policy.deadline is 30, but it must be a duration with its unit, such as \"250ms\", \"30s\" or \
         \"1m 30s\", or \"none\"",
    ),
    (
        "policy.head_timeout = '30'",
        "policy.head_timeout is \"30\", but it must be a duration with its unit, such as \"250ms\", \
         \"30s\" or \"1m 30s\", or \"none\"",
    ),
    (
        "policy.attempt_timeout = '5 parsecs'",
        "policy.attempt_timeout is \"5 parsecs\", but it must be a duration with its unit, such as \
         \"250ms\", \"30s\" or \"1m 30s\", or \"none\"",
    ),
    (
        "policy.deadline = '-5s'",
        "policy.deadline is \"-5s\", but it must be a duration with its unit, such as \"250ms\", \"30s\" \
         or \"1m 30s\", or \"none\"",
    ),
    (
        "policy.deadline = 'NaN'",
        "policy.deadline is \"NaN\", but it must be a duration with its unit, such as \"250ms\", \"30s\" \
         or \"1m 30s\", or \"none\"",
    ),
    (
        "policy.deadline = '1M'",
        "policy.deadline is \"1M\", but it must be a duration with its unit, such as \"250ms\", \"30s\" \
         or \"1m 30s\", or \"none\"",
    ),
    (
        "drain.time = '1M 1s'",
        "drain.time is \"1M 1s\", but it must be a duration with its unit, such as \"250ms\", \"30s\" or \
         \"1m 30s\"",
    ),
    (
        "drain.time = '0'",
        "drain.time is \"0\", but it must be a duration with its unit, such as \"250ms\", \"30s\" or \
         \"1m 30s\"",
    ),
    (
        "drain.time = 'none'",
        "drain.time is \"none\", but it must be a duration with its unit, such as \"250ms\", \"30s\" or \
         \"1m 30s\"",
    ),
    (
        "policy.deadline = '0s'",
        "policy.deadline is 0ns, but nothing can be done in no time: it must be longer than zero",
    ),
    (
        "policy.deadline = '5s'\npolicy.attempt_timeout = '10s'",
        "policy.attempt_timeout is 10s, but it must not be longer than the deadline of 5s",
    ),
    (
        "budget.refill_after = '10ms'",
        "budget.refill_after is 10ms, but it must be at least 1s: less would leave no budget",
    ),
    // Typos.
    ("drain.byte = 1", "drain.byte is unknown, but the settings here are bytes, time"),
    (
        "budget.size = 1",
        "budget.size is unknown, but the settings here are capacity, refill_per_answer, \
         refill_after",
    ),
    (
        "max_attempts = 3",
        "max_attempts is unknown, but the settings here are policy, buffer_body, drain, \
         budget, cooldown, wrap_errors, attempt_header, endpoint",
    ),
    (
        "policy.max_retry = 3",
        "policy.max_retry is unknown, but the settings here are max_attempts, backoff, \
         throttle_backoff, jitter, retry_statuses, retry_faults, not_processed_statuses, \
         honour_idempotency_keys, idempotency_key_fields, generate_idempotency_keys, \
         assume_idempotent, server_delays, attempt_timeout, head_timeout, deadline, profile",
    ),
    ("policy = 3", "policy is 3, but it must be a table of settings"),
    // Backoff and jitter.
    (
        "policy.backoff = { kind = 'exponential', base_delay = '10s', max_delay = '1s' }",
        "policy.backoff.max_delay is 1s, but it must not be shorter than the base delay of 10s",
    ),
    (
        "policy.throttle_backoff = { kind = 'linear', base_delay = '10s', max_delay = '1s' }",
        "policy.throttle_backoff.max_delay is 1s, but it must not be shorter than the base delay of 10s",
    ),
    (
        "policy.backoff = { kind = 'decorrelated', base_delay = '10s', max_delay = '1s' }",
        "policy.backoff.max_delay is 1s, but it must not be shorter than the base delay of 10s",
    ),
    (
        "policy.backoff.kind = 1",
        "policy.backoff.kind is 1, but it must be one of \"constant\", \"linear\", \"exponential\", \
         \"decorrelated\", \"schedule\"",
    ),
    (
        "policy.backoff.base_delay = '1s'",
        "policy.backoff.kind is missing, but it must be one of \"constant\", \"linear\", \
         \"exponential\", \"decorrelated\", \"schedule\"",
    ),
    (
        "policy.backoff = { kind = 'decorrelated', base_delay = '10s' }",
        "policy.backoff.max_delay is missing, but there is no default for it",
    ),
    (
        "policy.backoff = { kind = 'exponential', base_delay = '1s', max_delay = '10s', factor = nan }",
        "policy.backoff.factor is NaN, but it must be a finite number of at least 1",
    ),
    (
        "policy.backoff = { kind = 'exponential', base_delay = '1s', max_delay = '10s', factor = 0.5 }",
        "policy.backoff.factor is 0.5, but it must be a finite number of at least 1",
    ),
    (
        "policy.backoff = { kind = 'linear', base_delay = '1s', max_delay = '10s', factor = 2 }",
        "policy.backoff.factor is unknown, but the settings here are kind, base_delay, max_delay",
    ),
    (
        "policy.backoff = { kind = 'exponential', base_delay = 'NaN', max_delay = '10s' }",
        "policy.backoff.base_delay is \"NaN\", but it must be a duration with its unit, such as \
         \"250ms\", \"30s\" or \"1m 30s\"",
    ),
    (
        "policy.backoff = { kind = 'schedule', schedule = [] }",
        "policy.backoff.schedule is [], but it needs at least one delay",
    ),
    (
        "policy.backoff = { kind = 'schedule', schedule = ['5s', '1s'] }",
        "policy.backoff.schedule is [5s, 1s], but no delay may be shorter than the one before it",
    ),
    (
        "policy.backoff.kind = 'cubic'",
        "policy.backoff.kind is \"cubic\", but it must be one of \"constant\", \"linear\", \
         \"exponential\", \"decorrelated\", \"schedule\"",
    ),
    ("policy.backoff = 'cubic'", "policy.backoff is \"cubic\", but it must be a table of settings"),
    (
        "policy.jitter = 2.5",
        "policy.jitter is 2.5, but it must be \"equal\", \"full\", \"none\", or a share between 0 and 1",
    ),
    (
        "policy.jitter = nan",
        "policy.jitter is NaN, but it must be \"equal\", \"full\", \"none\", or a share between 0 and 1",
    ),
    (
        "policy.jitter = 'some'",
        "policy.jitter is \"some\", but it must be \"equal\", \"full\", \"none\", or a share between 0 and 1",
    ),
    // Sets and words.
    (
        "policy.retry_statuses = [200]",
        "policy.retry_statuses is 200, but a status below 400 is an answer: only 400 and above can be \
         listed",
    ),
    (
        "policy.retry_statuses = ['5xx']",
        "policy.retry_statuses is [\"5xx\"], but each must be a status from 400 to 999, \"transient\" or \
         \"cloudflare\"",
    ),
    (
        "policy.retry_faults = 'offline'",
        "policy.retry_faults is \"offline\", but it must be one of \"dns\", \"connect\", \"tls\", \
         \"timeout\", \"connection_lost\", \"network\", \"refused\", \"protocol\", \"body\", \"decode\", \
         \"invalid\", \"other\", \"transient\"",
    ),
    (
        "policy.server_delays = '60s'",
        "policy.server_delays is \"60s\", but it must be \"ignored\", { up_to = \"60s\" } or \
         { clamped_to = \"60s\" }",
    ),
    (
        "policy.server_delays = { at_most = '60s' }",
        "policy.server_delays is {at_most: \"60s\"}, but it must be \"ignored\", { up_to = \"60s\" } or \
         { clamped_to = \"60s\" }",
    ),
    (
        "policy.server_delays = { up_to = 60 }",
        "policy.server_delays is {up_to: 60}, but it must be a duration with its unit, such as \"250ms\", \
         \"30s\" or \"1m 30s\"",
    ),
    (
        "policy.server_delays = { clamped_to = '0s' }",
        "policy.server_delays is ClampedTo(0ns), but a server that asked for time would get none: ignore \
         its delays instead",
    ),
    (
        "policy.generate_idempotency_keys = true",
        "policy.generate_idempotency_keys is true, but it must be one of \"quoted\", \"bare\", or \"none\"",
    ),
    (
        "policy.generate_idempotency_keys = 'bare'\npolicy.idempotency_key_fields = []",
        "policy.idempotency_key_fields is [], but keys that are generated need a field to go into",
    ),
    (
        "policy.generate_idempotency_keys = 'bare'\npolicy.honour_idempotency_keys = false",
        "policy.honour_idempotency_keys is false, but keys that are generated need a server that honours \
         them",
    ),
    (
        "policy.idempotency_key_fields = ['x-key', 'Authorization']",
        "policy.idempotency_key_fields is \"authorization\", but that field has a meaning of its own",
    ),
    (
        "policy.honour_idempotency_keys = 'yes'",
        "policy.honour_idempotency_keys is \"yes\", but it must be true, false or \"by_profile\"",
    ),
    (
        "attempt_header = 'X-Key'\npolicy.idempotency_key_fields = ['y-key', 'x-key']",
        "attempt_header is \"x-key\", but it is a field for idempotency keys: each attempt would have \
         another key",
    ),
    (
        "attempt_header = 'x-key'\n\
         endpoint = [{ name = 'a', path = '/a', policy.idempotency_key_fields = 'x-key' }]",
        "attempt_header is \"x-key\", but it is a field for idempotency keys: each attempt would have \
         another key",
    ),
    (
        "attempt_header = 'If-Match'",
        "attempt_header is \"if-match\", but that field has a meaning of its own",
    ),
    (
        "attempt_header = 'content-length'",
        "attempt_header is \"content-length\", but that field has a meaning of its own",
    ),
    (
        "attempt_header = 'None'",
        "attempt_header is \"None\", but it must be the name of a header field, or \"none\"",
    ),
    (
        "policy.idempotency_key_fields = 'none'",
        "policy.idempotency_key_fields is \"none\", but it must be the name of a header field",
    ),
    // Profiles.
    (
        "policy.profile.retry_with_honoured_key = 409\npolicy.profile.honours_idempotency_keys = false",
        "policy.profile.honours_idempotency_keys is false, but retry_with_honoured_key says that the API \
         honours them",
    ),
    (
        "policy.profile.hint = { field = 'a', unit = 'seconds', only_if = { field = 'b', is = '0', or = 1 } }",
        "policy.profile.hint.0.only_if.or is unknown, but the settings here are field, is",
    ),
    (
        "policy.profile.hint = [{ field = 'a', unit = 'seconds' }, { field = 'a', unit = 'millis', gate = 1 }]",
        "policy.profile.hint.1.gate is unknown, but the settings here are field, unit, only_if, \
         unless_left",
    ),
    (
        "policy.profile = 'anthropics'",
        "policy.profile is \"anthropics\", but it must be one of \"standard\", \"openai\", \"anthropic\", \"azure\", \
         \"stripe\", \"github\", or a table",
    ),
    ("policy.profile = 7", "policy.profile is 7, but it must be a name or a table"),
    (
        "policy.profile.hint = { field = 'x', unit = 'minutes' }",
        "policy.profile.hint.0.unit is \"minutes\", but it must be one of \"seconds\", \
         \"decimal_seconds\", \"millis\", \"epoch_seconds\", \"epoch_millis\", \"rfc3339\", \"go_duration\"",
    ),
    (
        "policy.profile.hint = { field = 'x' }",
        "policy.profile.hint.0.unit is missing, but there is no default for it",
    ),
    (
        "policy.profile.hint = { field = 'x', unit = 'millis', unless_left = 'y', only_if = { field = 'y', is = '0' } }",
        "policy.profile.hint.0.unless_left is \"y\", but a hint has one condition: only_if or unless_left",
    ),
    (
        "policy.profile.retry_always = [302]",
        "policy.profile is 302, but a status below 400 is an answer: only 400 and above can be listed",
    ),
    (
        "policy.profile.retry = [503]",
        "policy.profile.retry is unknown, but the settings here are hint_before, hint, \
         verdict_field, retry_always, retry_with_server_delay, retry_with_honoured_key, \
         not_processed_statuses, honours_idempotency_keys",
    ),
    // Endpoints.
    (
        "endpoint.search.path = '/a'",
        "endpoint is {search: {path: \"/a\"}}, but it must be a list of tables: [[endpoint]]",
    ),
    (
        "endpoint = [{ name = 'a', method = '*' }]",
        "endpoint.a.method is \"*\", but for every method, leave it out",
    ),
    ("endpoint = [{ host = 'a' }]", "endpoint.0.name is missing, but there is no default for it"),
    (
        "endpoint = [{ name = '', host = 'a' }]",
        "endpoint.name is \"\", but reports call it so: it must be up to 64 letters, digits, spaces and -_./:",
    ),
    (
        "endpoint = [{ name = 'a' }]",
        "endpoint.a.conditions is none, but it needs a method, host, path or closure: the policy for every \
         request is the client's",
    ),
    (
        "endpoint = [{ name = 'a', host = 'https://a' }]",
        "endpoint.a.host is \"https://a\", but it must be a host such as api.test, api.test:8080 or \
         *.api.test, without a scheme or a path",
    ),
    (
        "endpoint = [{ name = 'a', host = 'a.test,b.test' }]",
        "endpoint.a.host is \"a.test,b.test\", but it must be a host such as api.test, api.test:8080 or \
         *.api.test, without a scheme or a path",
    ),
    (
        "endpoint = [{ name = 'a', path = '/a,/b' }]",
        "endpoint.a.path is \"/a,/b\", but it must be one path: several are several settings",
    ),
    (
        "endpoint = [{ name = 'a', path = '/a*/' }]",
        "endpoint.a.path is \"/a*/\", but it is a prefix of whole segments already: it has no wildcards",
    ),
    (
        "endpoint = [{ name = 'a', method = 'post' }]",
        "endpoint.a.method is \"post\", but methods are case-sensitive: it must be in capitals",
    ),
    (
        "endpoint = [{ name = 'a', method = 'P T' }]",
        "endpoint.a.method is \"P T\", but it must be the name of a method",
    ),
    (
        "endpoint = [{ name = 'a', path = 'v1' }]",
        "endpoint.a.path is \"v1\", but it must begin with a slash",
    ),
    (
        "endpoint = [{ name = 'a', path = '/a' }, { name = 'a', path = '/b' }]",
        "endpoint.name is \"a\", but another endpoint has that name",
    ),
    (
        "endpoint = [{ name = 'a', path = '/a', policy.max_attempts = 0 }]",
        "endpoint.a.policy.max_attempts is 0, but it counts the first send too: it must be at least 1",
    ),
    (
        "endpoint = [{ name = 'a', path = '/a', polcy = {} }]",
        "endpoint.a.polcy is unknown, but the settings here are name, method, host, path, \
         buffer_body, drain, policy",
    ),
    (
        "policy.attempt_timeout = '10s'\nendpoint = [{ name = 'a', path = '/a', policy.deadline = '5s' }]",
        "endpoint.a.policy.attempt_timeout is 10s, but it must not be longer than the deadline of 5s",
    ),
];

#[test]
fn each_bad_setting_is_refused_by_its_path_its_value_and_the_rule() {
    for (text, expected) in REFUSED {
        let error = toml::from_str::<RetrySettings>(text).unwrap_err();
        assert_eq!(error.message(), *expected, "{text}");
        // Whatever the format: here one that can say nothing of places. It has no NaN.
        let json = toml::from_str::<serde_json::Value>(text).unwrap();
        if !text.contains("= nan") {
            let error = serde_json::from_value::<RetrySettings>(json).unwrap_err();
            assert_eq!(error.to_string(), *expected, "{text}");
        }
    }
}

/// What each setting is in the file, and what it must be in code.
#[test]
fn each_option_of_the_middleware_is_the_same_in_a_file_and_in_code() {
    let builder = || RetryMiddleware::builder(RetryPolicy::default());
    let cooling = || {
        let policy = RetryPolicy::builder().deadline(Duration::from_secs(9)).build().unwrap();
        RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin())
    };
    let budget = RetryBudget::builder().capacity(7).refill_per_answer(0.5);
    let budget = budget.refill_after(Duration::from_secs(9)).build().unwrap();
    for (text, expected) in [
        ("", builder()),
        ("buffer_body = ' 7 '", builder().buffer_body(7)),
        ("cooldown = 'false'", builder()),
        ("cooldown = ' TRUE '\npolicy.deadline = '9s'", cooling()),
        ("budget.refill_per_answer = '0.2'", builder()),
        (
            "drain = { bytes = 7, time = '9ms' }\n\
             endpoint = [{ name = 'a', path = '/a', drain.bytes = 8 }, { name = 'b', path = '/b', drain.time = '8ms' }]",
            builder()
                .drain(drain(7, 9))
                .endpoint(Endpoint::named("a").path("/a").drain(drain(8, 9)).build().unwrap())
                .endpoint(Endpoint::named("b").path("/b").drain(drain(7, 8)).build().unwrap()),
        ),
        ("buffer_body = 7", builder().buffer_body(7)),
        ("drain = { bytes = 7, time = '9ms' }", builder().drain(drain(7, 9))),
        ("drain = { bytes = 7 }", builder().drain(drain(7, 1_000))),
        ("drain = { time = '9ms' }", builder().drain(drain(65_536, 9))),
        ("budget = 'none'", builder().without_budget()),
        ("budget = {}", builder()),
        (
            "budget = { capacity = 7, refill_per_answer = 0.5, refill_after = '9s' }",
            builder().budget(budget),
        ),
        ("cooldown = true\npolicy.deadline = '9s'", cooling()),
        ("wrap_errors = true", builder().wrap_errors()),
        ("attempt_header = 'X-Attempt'", builder().attempt_header(field("x-attempt"))),
        (
            "endpoint = [{ name = 'a', path = '/a', buffer_body = 0, drain = { bytes = 7 } }]",
            builder().endpoint(
                Endpoint::named("a")
                    .path("/a")
                    .buffer_body(0)
                    .drain(drain(7, 1_000))
                    .build()
                    .unwrap(),
            ),
        ),
        (
            "policy.max_attempts = 5\n\
             endpoint = [{ name = 'a', method = ['PUT', 'POST'], host = 'A.test' }, \
             { name = 'b', path = '/b/', policy.jitter = 'none' }]",
            RetryMiddleware::builder(five().build().unwrap())
                .endpoint(
                    Endpoint::named("a")
                        .method(Method::PUT)
                        .method(Method::POST)
                        .host("a.test")
                        .build()
                        .unwrap(),
                )
                .endpoint(
                    Endpoint::named("b")
                        .path("/b")
                        .policy(five().jitter(Jitter::None).build().unwrap())
                        .build()
                        .unwrap(),
                ),
        ),
    ] {
        assert_eq!(format!("{:?}", load(text).builder()), format!("{expected:?}"), "{text}");
    }
}

#[test]
fn each_setting_of_a_policy_is_the_same_in_a_file_and_in_code() {
    let new = RetryPolicy::builder;
    let second = Duration::from_secs(1);
    let minute = Duration::from_secs(60);
    let statuses = |codes: &[u16]| {
        codes.iter().map(|code| StatusCode::from_u16(*code).unwrap()).collect::<StatusSet>()
    };
    for (text, expected) in [
        ("max_attempts = 5", new().max_attempts(5)),
        ("max_attempts = '5'", new().max_attempts(5)),
        (
            "max_attempts = 'unlimited'\ndeadline = '1s'",
            new().unlimited_attempts().deadline(second),
        ),
        ("attempt_timeout = '1s'", new().attempt_timeout(second)),
        ("head_timeout = '1000ms'", new().head_timeout(second)),
        ("deadline = '1m'", new().deadline(minute)),
        ("deadline = 'none'", new()),
        ("jitter = 'none'", new().jitter(Jitter::None)),
        ("jitter = 'full'", new().jitter(Jitter::Full)),
        ("jitter = 0.25", new().jitter(Jitter::proportional(0.25).unwrap())),
        ("jitter = 1", new().jitter(Jitter::proportional(1.0).unwrap())),
        ("retry_statuses = [500]", new().retry_statuses(statuses(&[500]))),
        (
            "retry_statuses = ['transient', 'cloudflare', 403]",
            new().retry_statuses(
                StatusSet::transient().union(StatusSet::cloudflare()).with(StatusCode::FORBIDDEN),
            ),
        ),
        ("retry_statuses = []", new().retry_statuses(StatusSet::empty())),
        ("not_processed_statuses = [429]", new().not_processed_statuses(statuses(&[429]))),
        (
            "retry_faults = ['dns', 'network', 'tls']",
            new().retry_faults(faults(&[FaultKind::Dns, FaultKind::Network, FaultKind::Tls])),
        ),
        (
            "retry_faults = ['tls', 'transient']",
            new().retry_faults(FaultSet::transient().with(FaultKind::Tls)),
        ),
        (
            "backoff = { kind = 'exponential', base_delay = '1s', max_delay = '1m', factor = '3' }",
            new().backoff(Backoff::exponential(second, minute).unwrap().with_factor(3.0).unwrap()),
        ),
        ("profile.retry_with_honoured_key = []\nprofile.honours_idempotency_keys = false", new()),
        (
            "profile.hint = { field = 'a', unit = 'seconds', only_if = { field = 'b', is = 0 } }",
            new().profile(
                ApiProfile::standard()
                    .hint(DelayHint::new(field("a"), HintUnit::Seconds).only_if(field("b"), "0")),
            ),
        ),
        // Whatever the order, it is GitHub's.
        (
            "profile.retry_with_server_delay = [429, 403]\n\
             profile.hint = { field = 'x-ratelimit-reset', unit = 'epoch_seconds', \
             unless_left = 'x-ratelimit-remaining' }",
            new().profile(ApiProfile::github()),
        ),
        (
            "retry_faults = ['transient', 'tls']",
            new().retry_faults(FaultSet::transient().with(FaultKind::Tls)),
        ),
        ("server_delays = 'ignored'", new().server_delays(ServerDelays::Ignored)),
        ("server_delays.up_to = '1s'", new().server_delays(ServerDelays::UpTo(second))),
        ("server_delays.clamped_to = '1s'", new().server_delays(ServerDelays::ClampedTo(second))),
        ("honour_idempotency_keys = true", new().honour_idempotency_keys(true)),
        ("honour_idempotency_keys = 'True'", new().honour_idempotency_keys(true)),
        ("honour_idempotency_keys = 'by_profile'", new()),
        (
            "honour_idempotency_keys = false\nprofile = 'stripe'",
            new().honour_idempotency_keys(false).profile(ApiProfile::stripe()),
        ),
        ("assume_idempotent = 'false'", new()),
        ("deadline = ' 1m '", new().deadline(minute)),
        ("deadline = '1min'", new().deadline(minute)),
        ("deadline = '1day'", new().deadline(24 * 60 * minute)),
        ("assume_idempotent = true", new().assume_idempotent(true)),
        (
            "idempotency_key_fields = ['X-Key', 'y-key']",
            new().idempotency_key_fields([field("x-key"), field("y-key")]),
        ),
        ("generate_idempotency_keys = 'bare'", new().generate_idempotency_keys(KeyFormat::Bare)),
        (
            "generate_idempotency_keys = 'quoted'",
            new().generate_idempotency_keys(KeyFormat::Quoted),
        ),
        ("profile = 'standard'", new().profile(ApiProfile::standard())),
        ("profile = 'openai'", new().profile(ApiProfile::openai())),
        ("profile = 'anthropic'", new().profile(ApiProfile::openai())),
        ("profile = 'azure'", new().profile(ApiProfile::azure())),
        ("profile = 'stripe'", new().profile(ApiProfile::stripe())),
        ("profile = 'github'", new().profile(ApiProfile::github())),
        ("backoff = { kind = 'constant', delay = '1s' }", new().backoff(Backoff::constant(second))),
        (
            "backoff = { kind = 'linear', base_delay = '1s', max_delay = '1m' }",
            new().backoff(Backoff::linear(second, minute).unwrap()),
        ),
        (
            "backoff = { kind = 'exponential', base_delay = '1s', max_delay = '1m' }",
            new().backoff(Backoff::exponential(second, minute).unwrap()),
        ),
        (
            "backoff = { kind = 'exponential', base_delay = '1s', max_delay = '1m', factor = 1.5 }",
            new().backoff(Backoff::exponential(second, minute).unwrap().with_factor(1.5).unwrap()),
        ),
        (
            "throttle_backoff = { kind = 'decorrelated', base_delay = '1s', max_delay = '1m' }",
            new().throttle_backoff(Backoff::decorrelated(second, minute).unwrap()),
        ),
        (
            "throttle_backoff = { kind = 'schedule', schedule = ['1s', '1m'] }",
            new().throttle_backoff(Backoff::schedule([second, minute]).unwrap()),
        ),
        (
            "profile.hint = [{ field = 'a', unit = 'seconds' }, \
             { field = 'b', unit = 'rfc3339', unless_left = 'c' }]\n\
             profile.hint_before = { field = 'd', unit = 'millis', only_if = { field = 'e', is = 'f' } }",
            new().profile(
                ApiProfile::standard()
                    .hint(DelayHint::new(field("a"), HintUnit::Seconds))
                    .hint(DelayHint::new(field("b"), HintUnit::Rfc3339).unless_left(field("c")))
                    .hint_before(
                        DelayHint::new(field("d"), HintUnit::Millis).only_if(field("e"), "f"),
                    ),
            ),
        ),
        (
            "profile.verdict_field = 'a'\nprofile.honours_idempotency_keys = true",
            new().profile(
                ApiProfile::standard().verdict_field(field("a")).honours_idempotency_keys(),
            ),
        ),
        (
            "profile.retry_always = 529\nprofile.retry_with_server_delay = [403]\n\
             profile.retry_with_honoured_key = [409]\nprofile.not_processed_statuses = [429]",
            new().profile(
                ApiProfile::standard()
                    .retry_statuses(statuses(&[529]).iter(), StatusCondition::Always)
                    .retry_statuses([StatusCode::FORBIDDEN], StatusCondition::WithServerDelay)
                    .retry_statuses([StatusCode::CONFLICT], StatusCondition::WithHonouredKey)
                    .not_processed_statuses([StatusCode::TOO_MANY_REQUESTS]),
            ),
        ),
    ] {
        let settings = load(&format!("[policy]\n{text}"));
        let expected = expected.build().unwrap();
        assert_eq!(format!("{:?}", settings.policy()), format!("{expected:?}"), "{text}");
        assert_eq!(settings, expected.settings(), "{text}");
    }
}

fn five() -> RetryPolicyBuilder {
    RetryPolicy::builder().max_attempts(5)
}

fn field(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

fn faults(kinds: &[FaultKind]) -> FaultSet {
    kinds.iter().copied().collect()
}

fn drain(bytes: u64, millis: u64) -> DrainLimits {
    DrainLimits::new(bytes, Duration::from_millis(millis))
}

#[test]
fn what_an_endpoint_leaves_out_is_as_the_client_has_it_wherever_that_stands_in_the_file() {
    let settings = load(
        "
        endpoint = [{ name = 'a', path = '/a', policy.max_attempts = 7 }, { name = 'b', path = '/b' }]
        policy.attempt_timeout = '10s'
        ",
    );
    let [a, b] = settings.endpoints() else { panic!("{settings:?}") };
    let policy = a.policy().unwrap();
    assert_eq!(policy.max_attempts().map(|max| max.get()), Some(7));
    assert_eq!(policy.attempt_timeout(), Some(Duration::from_secs(10)));
    assert!(b.policy().is_none());
}

#[test]
fn a_null_is_refused_and_a_name_can_not_be_there_twice() {
    let load = |text: &str| serde_json::from_str::<RetrySettings>(text);
    let null = "is null, but that says nothing: leave it out, or write \"none\" where it can be";
    for (text, expected) in [
        (r#"{ "policy": null }"#, &*format!("policy {null}")),
        (r#"{ "policy": { "deadline": null } }"#, &format!("policy.deadline {null}")),
        (r#"{ "policy": { "profile": null } }"#, &format!("policy.profile {null}")),
        (r#"{ "attempt_header": null }"#, &format!("attempt_header {null}")),
        (r#"{ "budget": null }"#, &format!("budget {null}")),
        (r#"{ "endpoint": null }"#, &format!("endpoint {null}")),
        (r#"{ "cooldown": true, "cooldown": true }"#, "\"cooldown\" is there twice"),
        (r#"{ "\u001b[1m": 1 }"#, "\\u{1b}[1m is unknown"),
        ("[]", "the settings is [], but it must be a table of settings"),
        ("3", "the settings is 3, but it must be a table of settings"),
    ] {
        let error = load(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn what_no_setting_can_be_is_refused_by_its_type() {
    let bytes = serde::de::value::BytesDeserializer::<serde::de::value::Error>::new(b"17");
    let error = <RetrySettings as serde::Deserialize>::deserialize(bytes).unwrap_err();
    assert_eq!(error.to_string(), "invalid type: byte array, expected settings");
}

#[test]
fn an_error_shows_neither_what_is_in_the_wrong_place_nor_all_of_what_is_long() {
    let load = |text: &str| toml::from_str::<RetrySettings>(text).unwrap_err().message().to_owned();
    assert!(!load("password = 'hunter2'").contains("hunter2"));
    let many = (0..10_000).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
    let error = load(&format!("policy.retry_statuses = [{many}]"));
    assert!(error.len() < 400 && error.contains("..."), "{error}");
}

#[test]
fn numbers_as_large_as_they_get_are_written_and_loaded() {
    let settings = serde_json::from_str::<RetrySettings>(&format!(
        r#"{{ "buffer_body": {}, "policy": {{ "max_attempts": {} }} }}"#,
        u64::MAX,
        u32::MAX
    ));
    let settings = settings.unwrap();
    let json = serde_json::to_string(&settings).unwrap();
    assert!(json.contains("18446744073709551615"), "{json}");
    assert_eq!(serde_json::from_str::<RetrySettings>(&json).unwrap(), settings);
}

#[test]
fn settings_are_part_of_those_of_an_application() {
    #[derive(serde::Deserialize)]
    struct Application {
        name: String,
        #[serde(default)]
        retry: RetrySettings,
    }
    let load = |text: &str| toml::from_str::<Application>(text).unwrap();
    let application = load("name = 'a'\nretry.policy.max_attempts = 7");
    assert_eq!(application.name, "a");
    assert_eq!(application.retry.policy().max_attempts().map(|max| max.get()), Some(7));
    assert_eq!(load("name = 'a'").retry, RetrySettings::default());
}

#[test]
fn statuses_that_need_a_proof_are_refused_until_code_adds_one() {
    for text in [
        "policy.not_processed_statuses = [429]",
        "policy.profile.not_processed_statuses = [429]",
        "endpoint = [{ name = 'a', path = '/a', policy.not_processed_statuses = [429] }]",
    ] {
        let settings = load(text);
        let error = RetryMiddleware::from_settings(&settings).unwrap_err();
        assert!(error.setting().ends_with("not_processed_statuses"), "{error}");
        let (_, proof) = DeliveryProof::build(reqwest::Client::builder()).unwrap();
        settings.builder().delivery_proof(proof).build().unwrap();
    }
}

#[test]
fn the_longest_delays_that_code_can_set_can_be_written_and_loaded() {
    for max in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::new(1, 1)] {
        let policy = RetryPolicy::new(u32::MAX, Duration::ZERO, max).unwrap();
        let policy = policy.to_builder().deadline(max).build().unwrap();
        let json = serde_json::to_string(&policy.settings()).unwrap();
        let loaded = serde_json::from_str::<RetrySettings>(&json).unwrap();
        assert_eq!(loaded, policy.settings(), "{json}");
    }
}
