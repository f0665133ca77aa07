//! Whatever settings there are: what loads builds, and says the same when it is written.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::LazyLock;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::TestCaseResult;
use reqwest_typed_retry::{DeliveryProof, RetrySettings};
use serde_json::{Map, Value, json};

fn text(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

static PROOF: LazyLock<DeliveryProof> =
    LazyLock::new(|| DeliveryProof::build(reqwest::Client::builder()).unwrap().1);

/// From none to the longest that the format of the texts has, with every digit.
fn durations() -> impl Strategy<Value = Duration> + Clone {
    prop_oneof![
        (0_u64..100, 0_u32..1_000_000_000).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
        any::<u64>().prop_map(Duration::from_nanos),
        (0_u64..100_000).prop_map(Duration::from_millis),
    ]
}

fn positive() -> impl Strategy<Value = Duration> {
    durations().prop_map(|duration| duration.max(Duration::from_nanos(1)))
}

/// Written as the crate writes them, so that they can be found again.
fn backoffs() -> BoxedStrategy<Value> {
    let base_and_max = (durations(), durations())
        .prop_map(|(one, other)| (text(one.min(other)), text(one.max(other))));
    let of_kind = |kind: &'static str| {
        base_and_max.clone().prop_map(
            move |(base, max)| json!({ "kind": kind, "base_delay": base, "max_delay": max }),
        )
    };
    prop_oneof![
        durations().prop_map(|delay| json!({ "kind": "constant", "delay": text(delay) })),
        of_kind("linear"),
        of_kind("decorrelated"),
        (of_kind("exponential"), 1.0..1e9_f64).prop_map(|(mut backoff, factor)| {
            backoff["factor"] = factor.into();
            backoff
        }),
        vec(durations(), 1..5).prop_map(|mut delays| {
            delays.sort();
            let delays = delays.into_iter().map(text).collect::<Vec<_>>();
            json!({ "kind": "schedule", "schedule": delays })
        }),
    ]
    .boxed()
}

fn statuses() -> impl Strategy<Value = Value> {
    proptest::collection::btree_set(400_u16..1000, 0..6).prop_map(|codes| json!(codes))
}

/// None that has a meaning of its own.
fn fields() -> impl Strategy<Value = String> {
    "x[a-z0-9-]{0,12}"
}

fn hints() -> BoxedStrategy<Value> {
    let units = [
        "seconds",
        "decimal_seconds",
        "millis",
        "epoch_seconds",
        "epoch_millis",
        "rfc3339",
        "go_duration",
    ];
    let gates = prop_oneof![
        Just(json!({})),
        fields().prop_map(|field| json!({ "unless_left": field })),
        (fields(), "[!-~]{0,5}")
            .prop_map(|(field, is)| json!({ "only_if": { "field": field, "is": is } })),
    ];
    let hint = (fields(), select(units.to_vec()), gates).prop_map(|(field, unit, mut gate)| {
        gate["field"] = field.into();
        gate["unit"] = unit.into();
        gate
    });
    vec(hint, 0..3).prop_map(Value::from).boxed()
}

fn profiles() -> BoxedStrategy<Value> {
    let table =
        (hints(), hints(), vec(fields(), 0..3), statuses(), statuses(), statuses(), statuses())
            .prop_map(|(before, after, verdicts, always, with_delay, with_key, promised)| {
                let honours = with_key != json!([]) || before == json!([]);
                json!({
                    "hint_before": before,
                    "hint": after,
                    "verdict_field": verdicts,
                    "retry_always": always,
                    "retry_with_server_delay": with_delay,
                    "retry_with_honoured_key": with_key,
                    "not_processed_statuses": promised,
                    "honours_idempotency_keys": honours,
                })
            });
    let names = ["standard", "openai", "azure", "stripe", "github"];
    prop_oneof![select(names.to_vec()).prop_map(Value::from), table].boxed()
}

fn server_delays() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("ignored")),
        durations().prop_map(|limit| json!({ "up_to": text(limit) })),
        positive().prop_map(|limit| json!({ "clamped_to": text(limit) })),
    ]
}

fn jitters() -> impl Strategy<Value = Value> {
    let words = ["none", "full", "equal"];
    prop_oneof![select(words.to_vec()).prop_map(Value::from), (0.0..=1.0_f64).prop_map(Value::from)]
}

const FAULTS: [&str; 12] = [
    "dns",
    "connect",
    "tls",
    "timeout",
    "connection_lost",
    "network",
    "refused",
    "protocol",
    "body",
    "decode",
    "invalid",
    "other",
];

/// Some settings of a policy, all of them valid together.
fn policies() -> BoxedStrategy<Value> {
    // In the order in which they must be.
    let times = vec(positive(), 3).prop_map(|mut times| {
        times.sort();
        times.into_iter().map(text).collect::<Vec<_>>()
    });
    let formats = ["none", "quoted", "bare"];
    // Not false: it is refused where keys are made.
    let honours = vec![json!("by_profile"), json!(true)];
    let entries = (
        (times, 1_u32..=u32::MAX, backoffs(), backoffs(), jitters()),
        (statuses(), subsequence(FAULTS.to_vec(), 0..=12), statuses(), server_delays(), profiles()),
        (select(honours), any::<bool>(), select(formats.to_vec()), vec(fields(), 1..4)),
    );
    let all = entries.prop_map(|(one, two, three)| {
        let (times, max_attempts, backoff, throttle_backoff, jitter) = one;
        let (retry_statuses, retry_faults, not_processed, server_delays, profile) = two;
        let (honour, assume, generate, fields) = three;
        let [head_timeout, attempt_timeout, deadline] = &times[..] else { unreachable!() };
        json!({
            "max_attempts": max_attempts,
            "head_timeout": head_timeout,
            "attempt_timeout": attempt_timeout,
            "deadline": deadline,
            "backoff": backoff,
            "throttle_backoff": throttle_backoff,
            "jitter": jitter,
            "retry_statuses": retry_statuses,
            "retry_faults": retry_faults,
            "not_processed_statuses": not_processed,
            "server_delays": server_delays,
            "profile": profile,
            "honour_idempotency_keys": honour,
            "assume_idempotent": assume,
            "generate_idempotency_keys": generate,
            "idempotency_key_fields": fields,
        })
    });
    some_of(all).boxed()
}

/// A table with some of its entries.
fn some_of(tables: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    (tables, any::<u32>()).prop_map(|(table, which)| {
        let Value::Object(table) = table else { return table };
        let is_in = |at: usize| which & (1 << (at % 32)) != 0;
        let some = table.into_iter().enumerate().filter(|(at, _)| is_in(*at));
        some.map(|(_, entry)| entry).collect::<Map<_, _>>().into()
    })
}

fn drains() -> BoxedStrategy<Value> {
    (0_u64..1 << 40, durations())
        .prop_map(|(bytes, time)| json!({ "bytes": bytes, "time": text(time) }))
        .boxed()
}

fn endpoints() -> BoxedStrategy<Value> {
    let methods = vec(select(vec!["GET", "POST", "PURGE"]), 0..3);
    let hosts = vec(select(vec!["a.test", "*.b.test", "c.test:8080", "[::1]"]), 0..3);
    let endpoint = (methods, hosts, "/[a-z]{1,9}", option::of(policies()), 0_u64..9, drains())
        .prop_map(|(methods, hosts, path, policy, limit, drain)| {
            let mut endpoint = json!({ "path": [path], "buffer_body": limit, "drain": drain });
            if !methods.is_empty() {
                endpoint["method"] = methods.into();
            }
            if !hosts.is_empty() {
                endpoint["host"] = hosts.into();
            }
            if let Some(mut policy) = policy {
                // Not those that might be longer or shorter than what it inherits.
                let times = ["head_timeout", "attempt_timeout", "deadline"];
                if let Value::Object(policy) = &mut policy {
                    if !times.iter().all(|time| policy.contains_key(*time)) {
                        policy.retain(|name, _| !times.contains(&&**name));
                    }
                }
                endpoint["policy"] = policy;
            }
            endpoint
        });
    vec(endpoint, 0..3)
        .prop_map(|mut endpoints| {
            for (at, endpoint) in endpoints.iter_mut().enumerate() {
                endpoint["name"] = format!("endpoint {at}").into();
            }
            endpoints.into()
        })
        .boxed()
}

fn settings() -> BoxedStrategy<Value> {
    let budgets = prop_oneof![
        Just(json!("none")),
        (any::<u32>(), 0_u32..=1_000, 1_u64..1_000_000).prop_map(|(tokens, share, secs)| json!({
            "capacity": tokens,
            "refill_per_answer": f64::from(share) / 1_000.0,
            "refill_after": text(Duration::from_secs(secs)),
        })),
    ];
    let all = (
        (policies(), endpoints(), budgets, drains()),
        // No field for keys has an underscore here: one for both is refused.
        (0_u64..1 << 40, any::<bool>(), any::<bool>(), option::of("x_[a-z0-9-]{0,12}")),
    );
    some_of(all.prop_map(|((policy, endpoint, budget, drain), (limit, cooldown, wrap, header))| {
        json!({
            "policy": policy,
            "endpoint": endpoint,
            "budget": budget,
            "drain": drain,
            "buffer_body": limit,
            "cooldown": cooldown,
            "wrap_errors": wrap,
            "attempt_header": header.unwrap_or_else(|| "none".to_owned()),
        })
    }))
    .prop_map(without_endless_cooldown)
    .boxed()
}

/// A cooldown needs a deadline in each policy.
fn without_endless_cooldown(mut settings: Value) -> Value {
    let is_none = |policy: &Value| policy["deadline"] == "none";
    let client = &settings["policy"];
    let is_endless = is_none(client) || client["deadline"].is_null();
    let endpoints = settings["endpoint"].as_array().into_iter().flatten();
    if is_endless || { endpoints }.any(|endpoint| is_none(&endpoint["policy"])) {
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("cooldown");
        }
    }
    settings
}

/// Whether all that `part` says stands in `whole`.
fn is_in(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|whole| is_in(value, whole))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len()
                && part.iter().zip(whole).all(|(part, whole)| is_in(part, whole))
        }
        // A table that says nothing but the standard is written by its name.
        (Value::Object(_), Value::String(name)) => name == "standard" || name == "stripe",
        _ => part == whole,
    }
}

fn load(settings: &Value) -> Result<RetrySettings, TestCaseError> {
    let loaded = serde_json::from_value(settings.clone());
    loaded.map_err(|error| TestCaseError::fail(format!("{settings}: {error}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn settings_build_what_they_say_and_are_written_as_they_were(input in settings()) {
        let settings = load(&input)?;
        let written = serde_json::to_value(&settings).unwrap();
        prop_assert!(is_in(&input, &written), "{} is not in {}", input, written);
        prop_assert_eq!(&load(&written)?, &settings);
        let toml = toml::to_string(&settings).unwrap();
        prop_assert_eq!(&toml::from_str::<RetrySettings>(&toml).unwrap(), &settings, "{}", toml);

        prop_assert!(settings.builder().delivery_proof(PROOF.clone()).build().is_ok());
    }

    #[test]
    fn a_policy_that_was_loaded_has_the_settings_that_it_was_loaded_from(input in policies()) {
        let settings = load(&json!({ "policy": input }))?;
        prop_assert_eq!(&settings.policy().settings(), &settings);
        // One of an endpoint, too, whatever the client's is.
        let endpoint = json!({ "name": "a", "path": "/a", "policy": settings_of_policy(&settings) });
        let client = json!({ "policy": { "max_attempts": 7, "deadline": "99years" } });
        let with_endpoint = json!({ "policy": client["policy"], "endpoint": [endpoint] });
        let with_endpoint = load(&with_endpoint)?;
        let policy = with_endpoint.endpoints()[0].policy().unwrap();
        prop_assert_eq!(&policy.settings(), &settings);
    }

    #[test]
    fn whatever_a_setting_is_it_loads_or_is_refused_by_its_path(
        base in settings(),
        which in any::<Index>(),
        junk in junk(),
    ) {
        let mut paths = Vec::new();
        collect(&base, "", &mut paths);
        prop_assume!(!paths.is_empty());
        let path = which.get(&paths).clone();
        let mut changed = base.clone();
        *changed.pointer_mut(&path).unwrap() = junk;
        is_refused_by_a_path(&changed)?;
    }
}

fn settings_of_policy(settings: &RetrySettings) -> Value {
    serde_json::to_value(settings).unwrap()["policy"].take()
}

fn junk() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,9}".prop_map(Value::from),
        "[0-9]{1,30}(ns|ms|s|m|h|d|years)?".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(("[a-z_]{1,9}", inner), 0..3)
                .prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
    .boxed()
}

/// Where everything stands, as JSON pointers.
fn collect(value: &Value, path: &str, into: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(table) => table.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{path}/{name}");
        into.push(path.clone());
        collect(child, &path, into);
    }
}

fn is_refused_by_a_path(settings: &Value) -> TestCaseResult {
    if let Err(error) = serde_json::from_value::<RetrySettings>(settings.clone()) {
        let error = error.to_string();
        let tops = ["policy", "endpoint", "budget", "drain", "buffer_body", "cooldown"];
        let tops = tops.iter().chain(&["wrap_errors", "attempt_header"]);
        let mut tops = tops.filter(|top| error.starts_with(**top));
        prop_assert!(tops.next().is_some(), "{}", error);
        prop_assert!(error.contains(" is ") && error.contains(", but "), "{}", error);
    }
    Ok(())
}
