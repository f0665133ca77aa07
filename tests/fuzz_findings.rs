//! What the fuzz targets found, each as a plain test. The inputs are in `fuzz/regressions`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;
use std::{fmt, thread};

use reqwest_typed_retry::fault_source::classify;
use reqwest_typed_retry::{RetryErrorExt as _, RetrySettings};
use serde_json::json;

fn load(settings: serde_json::Value) -> Result<RetrySettings, String> {
    serde_json::from_value(settings).map_err(|error: serde_json::Error| error.to_string())
}

/// A path or host is normalised, and may come to what is refused, or to what matches more, only then.
#[test]
fn an_endpoint_is_judged_by_what_it_comes_to() {
    for (kind, text) in [
        ("path", "/a,\\b"),          // /a,/b
        ("host", "a%2Cb"),           // a,b
        ("host", "a%3Bb"),           // a;b
        ("host", "a\u{ff0c}b"),      // a,b
        ("host", "%2A.a.test"),      // *.a.test
        ("host", "\u{ff0a}.a.test"), // *.a.test
    ] {
        let error = load(json!({ "endpoint": [{ "name": "a", kind: text }] })).unwrap_err();
        assert!(error.starts_with(&format!("endpoint.a.{kind} is ")), "{kind} {text}: {error}");
    }
    for (kind, text) in [("path", "/a\\b"), ("host", "a%2Db"), ("host", "b\u{fc}cher.test")] {
        let settings = load(json!({ "endpoint": [{ "name": "a", kind: text }] })).unwrap();
        load(serde_json::to_value(&settings).unwrap()).unwrap();
    }
}

/// Values are cut at 200 characters, names are not.
#[test]
fn an_error_does_not_repeat_a_name_of_any_length() {
    let name = "x".repeat(100_000);
    for settings in [
        json!({ name.clone(): 1 }),
        json!({ "policy": { name.clone(): 1 } }),
        json!({ "endpoint": [{ "name": name.clone(), "polcy": {} }] }),
        json!({ "endpoint": [{ "name": name.clone(), "buffer_body": true }] }),
    ] {
        let length = load(settings).unwrap_err().len();
        assert!(length < 2_000, "{length} bytes");
    }
    let twice = format!("{{{name:?}: 1, {name:?}: 1}}");
    let length = serde_json::from_str::<RetrySettings>(&twice).unwrap_err().to_string().len();
    assert!(length < 2_000, "{length} bytes");
}

/// Of an endpoint's name, which is judged last, control characters reach the terminal.
#[test]
fn an_error_has_no_control_characters() {
    let name = "\u{1b}[2J";
    for settings in [
        json!({ "endpoint": [{ "name": name, "polcy": {} }] }),
        json!({ "cooldown": { name: true } }),
        json!({ "policy": { "jitter": [{ name: 1 }] } }),
    ] {
        let error = load(settings).unwrap_err();
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

/// An error whose sources never end.
#[derive(Debug)]
struct Ring;

static RING: Ring = Ring;

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ring")
    }
}

impl Error for Ring {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&RING)
    }
}

/// reqwest's own error of a body that failed so.
fn of_a_body(error: impl Error + Send + Sync + 'static) -> reqwest::Error {
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter([Err::<Vec<u8>, _>(error)]));
    let response = reqwest::Response::from(http::Response::new(body));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(response.bytes()).unwrap_err()
}

fn is_classified_in_time(error: reqwest::Error) -> bool {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let fault = classify(&error);
        let timed_out = reqwest_middleware::Error::from(error).timed_out();
        done.send((fault, timed_out))
    });
    is_done.recv_timeout(Duration::from_secs(5)).is_ok()
}

/// `chain` cuts a cycle, but reqwest's `is_timeout` and `is_dns` do not.
#[test]
fn a_cycle_below_an_error_of_reqwest_does_not_hang() {
    assert!(is_classified_in_time(of_a_body(Ring)));
}

/// reqwest's `is_timeout` looks at the sources of each of its errors in a chain again: twice as long for each.
#[test]
fn errors_of_reqwest_in_each_other_take_no_time() {
    let mut error = of_a_body(Plain);
    for _ in 0..30 {
        error = of_a_body(error);
    }
    assert!(is_classified_in_time(error)); // alone the walk would take minutes
}

#[derive(Debug)]
struct Plain;

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the last one")
    }
}

impl Error for Plain {}
