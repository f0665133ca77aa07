//! Any JSON, any TOML, and settings that are mostly valid: what loads builds, is written and loads as the same;
//! what is refused is refused in few words.

#![no_main]

use std::sync::LazyLock;

use arbitrary::{Arbitrary, Unstructured};
use fuzz::policies::{Policy, Wait};
use libfuzzer_sys::fuzz_target;
use reqwest::{Method, Request, Url};
use reqwest_typed_retry::{DeliveryProof, Endpoint, RetrySettings};
use serde_json::{Map, Value, json};

/// Characters of a message: 200 of a path, 200 of a value, and the longest rule.
const MOST_SAID: usize = 800;

static PROOF: LazyLock<DeliveryProof> =
    LazyLock::new(|| DeliveryProof::build(reqwest::Client::builder()).unwrap().1);

#[derive(Arbitrary, Debug)]
enum Text {
    Usual(u8),
    Own(String),
}

impl Text {
    fn of(&self, usual: &[&str]) -> Value {
        match self {
            Self::Usual(at) => usual[usize::from(*at) % usual.len()].into(),
            Self::Own(text) => text.as_str().into(),
        }
    }
}

const NAMES: [&str; 4] = ["search", "billing v2", "a", "none"];
const METHODS: [&str; 5] = ["GET", "POST", "PURGE", "post", "*"];
const HOSTS: [&str; 7] =
    ["a.test", "*.b.test", "c.test:8080", "[::1]", "*.a.test:443", "A.test.", "0x7f.1"];
const PATHS: [&str; 6] = ["/", "/v1", "/v1/", "/a b/%2e%2e/c", "/v1//x", "/\u{fc}"];
const FIELDS: [&str; 5] = ["x-attempt", "none", "Idempotency-Key", "x a", "authorization"];

#[derive(Arbitrary, Debug)]
struct Place {
    name: Text,
    methods: Vec<Text>,
    hosts: Vec<Text>,
    paths: Vec<Text>,
    policy: Option<(Policy, u32)>,
    buffer_body: Option<u64>,
    drain: Option<(u64, Wait)>,
}

#[derive(Arbitrary, Debug)]
enum Junk {
    Null,
    Bool(bool),
    Int(i64),
    Long(u64),
    Float(f64),
    Text(String),
    Duration(u32, u8),
    Nothing,
    List(Vec<i8>),
    Table(Vec<(String, bool)>),
    Rename(String),
    Remove,
    InList,
}

#[derive(Arbitrary, Debug)]
struct Document {
    policy: Option<(Policy, u32)>,
    endpoints: Vec<Place>,
    budget: Option<(u32, u16, Wait)>,
    drain: Option<(u64, Wait)>,
    buffer_body: Option<u64>,
    cooldown: Option<bool>,
    wrap_errors: Option<bool>,
    attempt_header: Option<Text>,
    changes: Vec<(Vec<u8>, Junk)>,
}

fn text(wait: Wait) -> Value {
    humantime::format_duration(wait.0).to_string().into()
}

fn drain((bytes, time): (u64, Wait)) -> Value {
    json!({ "bytes": bytes, "time": text(time) })
}

/// Some of the settings of a valid policy.
fn policy((policy, which): &(Policy, u32)) -> Value {
    let mut value = serde_json::to_value(policy.build().settings()).unwrap()["policy"].take();
    if let Value::Object(table) = &mut value {
        let mut at = 0;
        table.retain(|_, _| {
            at += 1;
            which & 1 << (at % 32) == 0
        });
    }
    value
}

/// Without what is null.
fn table(entries: Value) -> Value {
    let Value::Object(entries) = entries else { return entries };
    entries.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

impl Document {
    fn value(&self) -> Value {
        let texts = |texts: &[Text], usual| match texts {
            [] => Value::Null,
            texts => texts.iter().map(|text| text.of(usual)).collect(),
        };
        let endpoints = self.endpoints.iter().take(4).map(|place| {
            table(json!({
                "name": place.name.of(&NAMES),
                "method": texts(&place.methods, &METHODS),
                "host": texts(&place.hosts, &HOSTS),
                "path": texts(&place.paths, &PATHS),
                "policy": place.policy.as_ref().map(policy),
                "buffer_body": place.buffer_body,
                "drain": place.drain.map(drain),
            }))
        });
        let budget = self.budget.map(|(capacity, share, after)| {
            json!({
                "capacity": capacity,
                "refill_per_answer": f64::from(share) / 65_535.0,
                "refill_after": text(after),
            })
        });
        let mut value = table(json!({
            "policy": self.policy.as_ref().map(policy),
            "endpoint": endpoints.collect::<Value>(),
            "budget": budget,
            "drain": self.drain.map(drain),
            "buffer_body": self.buffer_body,
            "cooldown": self.cooldown,
            "wrap_errors": self.wrap_errors,
            "attempt_header": self.attempt_header.as_ref().map(|name| name.of(&FIELDS)),
        }));
        for (path, junk) in self.changes.iter().take(4) {
            junk.change(&mut value, path);
        }
        value
    }
}

impl Junk {
    /// Changes what is at the end of the path, or as far as it leads.
    fn change(&self, value: &mut Value, path: &[u8]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = |length: usize| usize::from(*first) % length.max(1);
        match value {
            Value::Object(entries) => {
                let Some(name) = entries.keys().nth(at(entries.len())).cloned() else { return };
                match self {
                    Self::Rename(new) if rest.is_empty() => {
                        let value = entries.remove(&name).unwrap_or_default();
                        entries.insert(new.clone(), value);
                    }
                    Self::Remove if rest.is_empty() => drop(entries.remove(&name)),
                    _ => {
                        let value = entries.entry(name).or_insert(Value::Null);
                        self.change_or_replace(value, rest);
                    }
                }
            }
            Value::Array(items) => {
                let at = at(items.len());
                if let Some(item) = items.get_mut(at) {
                    self.change_or_replace(item, rest);
                }
            }
            _ => {}
        }
    }

    fn change_or_replace(&self, value: &mut Value, path: &[u8]) {
        if !path.is_empty() && (value.is_object() || value.is_array()) {
            self.change(value, path);
            return;
        }
        *value = match self {
            Self::Null => Value::Null,
            Self::Bool(it) => (*it).into(),
            Self::Int(it) => (*it).into(),
            Self::Long(it) => (*it).into(),
            Self::Float(it) => (*it).into(),
            Self::Text(it) => it.as_str().into(),
            Self::Duration(number, unit) => {
                let units = ["ns", "ms", "s", "m", "days", "years", "M", ""];
                format!("{number}{}", units[usize::from(*unit) % units.len()]).into()
            }
            Self::Nothing => "none".into(),
            Self::List(items) => items.clone().into(),
            Self::Table(entries) => {
                entries.iter().map(|(name, it)| (name.clone(), Value::from(*it))).collect()
            }
            Self::Rename(name) => name.as_str().into(),
            Self::Remove => return,
            Self::InList => Value::Array(vec![value.take()]),
        };
    }
}

/// Requests that the endpoints of these written settings tell apart.
fn requests(written: &Value) -> Vec<Request> {
    let texts = |endpoint: &Value, kind| {
        let texts = endpoint[kind].as_array().cloned().unwrap_or_default();
        texts.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut requests = Vec::new();
    for endpoint in written["endpoint"].as_array().unwrap() {
        let methods = texts(endpoint, "method");
        let method = methods.first().map_or(Method::GET, |method| method.parse().unwrap());
        let mut hosts = vec!["other.test".to_owned()];
        for host in texts(endpoint, "host") {
            let bare = host.trim_start_matches("*.");
            hosts.extend([bare.to_owned(), format!("x.{bare}")]);
        }
        let mut paths = vec!["/other".to_owned()];
        for path in texts(endpoint, "path") {
            paths.extend([format!("{path}/below"), format!("{path}0"), path]);
        }
        for (host, path) in hosts.iter().flat_map(|host| paths.iter().map(move |path| (host, path)))
        {
            if let Ok(url) = Url::parse(&format!("http://{host}{path}")) {
                requests.push(Request::new(method.clone(), url));
            }
        }
    }
    requests.truncate(64);
    requests
}

/// `as_written`: as settings put it, in an order that code may not have kept.
fn check(settings: &RetrySettings, as_written: bool) {
    let written = serde_json::to_value(settings).expect("what loads is written");
    let again = serde_json::from_value::<RetrySettings>(written.clone());
    let again = again.unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(&again, settings, "{written}");
    // Equal settings are those that are written in the same way: so look at what they came to, too.
    let rules = |settings: &RetrySettings| format!("{settings:?}");
    assert!(!as_written || rules(&again) == rules(settings), "{again:?} is not {settings:?}");
    assert_eq!(serde_json::to_value(&again).unwrap(), written);

    let toml = toml::to_string(settings).unwrap_or_else(|error| panic!("{error}: {written}"));
    let from_toml = toml::from_str::<RetrySettings>(&toml);
    let from_toml = from_toml.unwrap_or_else(|error| panic!("{error}: {toml}"));
    assert_eq!(&from_toml, settings, "{toml}");

    let built = settings.builder().delivery_proof(PROOF.clone()).build();
    assert!(built.is_ok(), "{:?}: {written}", built.err());

    for request in requests(&written) {
        let found = |settings: &RetrySettings| {
            settings.endpoints().iter().position(|endpoint: &Endpoint| endpoint.matches(&request))
        };
        assert_eq!(found(&again), found(settings), "{} under {written}", request.url());
    }
    // A policy has the settings that it was loaded from.
    let policy = settings.policy().settings();
    assert_eq!(serde_json::to_value(&policy).unwrap()["policy"], written["policy"]);
}

/// No control characters, either: it goes to a terminal.
fn is_in_few_words(message: &str) {
    let said = message.chars().count();
    assert!(said <= MOST_SAID, "{said} characters: {message}");
    assert!(!message.contains(char::is_control), "{message:?}");
}

fn judge(loaded: Result<RetrySettings, String>) {
    match loaded {
        Ok(settings) => check(&settings, true),
        Err(message) => is_in_few_words(&message),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    match kind {
        b'j' => judge(serde_json::from_slice(data).map_err(|error| error.to_string())),
        b't' => {
            let Ok(text) = std::str::from_utf8(data) else { return };
            let loaded = toml::from_str(text);
            // What is no TOML at all is said in the words of its parser.
            if loaded.is_ok() || toml::from_str::<Value>(text).is_ok() {
                judge(loaded.map_err(|error: toml::de::Error| error.message().to_owned()));
            }
        }
        _ => {
            let Ok(document) = Document::arbitrary(&mut Unstructured::new(data)) else { return };
            // All of a policy that was built in code can be written and loaded.
            if let (b'p', Some((policy, _))) = (kind, &document.policy) {
                return check(&policy.build().settings(), false);
            }
            judge(serde_json::from_value(document.value()).map_err(|error| error.to_string()));
        }
    }
});
