//! What the Retry-After field asks for.

use reqwest_typed_retry::retry_after;
use serde::Deserialize;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{instant, millis, run, same};

#[derive(Deserialize)]
struct RetryAfterCase {
    retry_after: Vec<String>,
    date: Option<String>,
    age: Option<String>,
    now: String,
    encoding: Option<String>,
    expected: ExpectedRetryAfter,
}

#[derive(Deserialize)]
struct ExpectedRetryAfter {
    delay_ms: Option<u64>,
    #[serde(default)]
    ignored: bool,
}

impl RetryAfterCase {
    fn bytes(&self, text: &str) -> Vec<u8> {
        match self.encoding.as_deref() {
            Some("latin1") => text.chars().map(|char| u8::try_from(char).unwrap()).collect(),
            Some(encoding) => panic!("unknown encoding {encoding}"),
            None => text.as_bytes().to_vec(),
        }
    }
}

#[test]
fn retry_after_is_read_as_the_standards_say() {
    run("retry_after.json", include_str!("../data/retry_after.json"), |case: &RetryAfterCase| {
        let lines: Vec<_> = case.retry_after.iter().map(|line| case.bytes(line)).collect();
        let field = |text: &Option<String>| text.as_ref().map(|text| case.bytes(text));
        let delay = retry_after(
            lines.iter().map(Vec::as_slice),
            field(&case.date).as_deref(),
            field(&case.age).as_deref(),
            instant(&case.now),
        );
        assert_eq!(case.expected.ignored, case.expected.delay_ms.is_none());
        same("delay in ms", delay.map(millis), case.expected.delay_ms)
    });
}
