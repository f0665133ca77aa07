//! How long the schedules wait.

use std::time::Duration;

use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{Backoff, Jitter, PolicyError};
use serde::Deserialize;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{millis, run, same};

#[derive(Deserialize)]
struct BackoffCase {
    kind: String,
    base_ms: u64,
    factor: f64,
    max_ms: u64,
    retry: u32,
    jitter: String,
    prev_ms: Option<u64>,
    #[serde(default)]
    tolerance_ms: u64,
    expected: ExpectedDelay,
}

#[derive(Deserialize)]
struct ExpectedDelay {
    #[serde(default)]
    invalid_config: bool,
    delay_ms: Option<u64>,
    envelope_ms: Option<(u64, u64)>,
}

impl BackoffCase {
    fn backoff(&self) -> Result<Backoff, PolicyError> {
        let (base, max) = (Duration::from_millis(self.base_ms), Duration::from_millis(self.max_ms));
        match self.kind.as_str() {
            "exponential" => Backoff::exponential(base, max)?.with_factor(self.factor),
            "linear" => Backoff::linear(base, max),
            "constant" => Ok(Backoff::constant(base)),
            "decorrelated" => Backoff::decorrelated(base, max),
            kind => panic!("unknown kind {kind}"),
        }
    }

    fn jitter(&self) -> Jitter {
        match self.jitter.as_str() {
            "none" => Jitter::None,
            "full" => Jitter::Full,
            "equal" => Jitter::Equal,
            "proportional20" => Jitter::proportional(0.2).unwrap(),
            jitter => panic!("unknown jitter {jitter}"),
        }
    }
}

#[test]
fn delays_follow_the_schedule_and_stay_in_its_envelope() {
    run("backoff.json", include_str!("../data/backoff.json"), |case: &BackoffCase| {
        let backoff = case.backoff();
        same("refused", backoff.is_err(), case.expected.invalid_config)?;
        let Ok(backoff) = backoff else { return Ok(()) };
        let near = |what: &str, actual: Duration, expected: u64| {
            let off = millis(actual).abs_diff(expected);
            if off <= case.tolerance_ms {
                Ok(())
            } else {
                Err(format!("{what} is {actual:?}, expected {expected} ms"))
            }
        };
        if let Some(expected) = case.expected.delay_ms {
            near("delay", backoff.delay(case.retry), expected)?;
        }
        let previous = case.prev_ms.map(Duration::from_millis);
        let envelope = backoff.envelope(case.retry, previous, case.jitter());
        let (least, most) = case.expected.envelope_ms.unwrap();
        near("least", *envelope.start(), least)?;
        near("most", *envelope.end(), most)?;
        for seed in 0..50 {
            let rng = &mut seeded_jitter(seed);
            let drawn = backoff.draw(case.retry, previous, case.jitter(), rng);
            same("drawn inside", envelope.contains(&drawn), true)?;
        }
        Ok(())
    });
}
