//! Waits of every size, and what makes them.

use std::time::Duration;

use proptest::prelude::*;
use reqwest_typed_retry::{Backoff, Jitter};

/// Of every size, mostly one that people set.
pub(crate) fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0_u64..=u64::MAX, 0_u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n)),
        (0_u64..100_000).prop_map(Duration::from_millis),
        (0_u64..100_000).prop_map(Duration::from_nanos),
        Just(Duration::ZERO),
        Just(Duration::MAX),
        Just(Duration::from_nanos(1)),
    ]
}

/// Of retries and of attempts.
pub(crate) fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..100, any::<u32>(), Just(u32::MAX), (0_u32..32).prop_map(|bit| 1 << bit)]
}

fn factors() -> impl Strategy<Value = f64> {
    prop_oneof![
        1.0_f64..4.0,
        (1_u32..20).prop_map(f64::from),
        Just(1.0),
        Just(1.0 + f64::EPSILON),
        (0.0_f64..1e-9).prop_map(|little| 1.0 + little),
        Just(1e300),
        Just(f64::MAX),
    ]
}

pub(crate) fn backoffs() -> impl Strategy<Value = Backoff> {
    let bounds = (durations(), durations()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    (bounds, factors(), prop::collection::vec(durations(), 1..6), 0..5).prop_map(
        |((base, max), factor, mut list, shape)| {
            list.sort();
            match shape {
                0 => Ok(Backoff::constant(base)),
                1 => Backoff::linear(base, max),
                2 => Backoff::exponential(base, max).and_then(|it| it.with_factor(factor)),
                3 => Backoff::decorrelated(base, max),
                _ => Backoff::schedule(list),
            }
            .unwrap()
        },
    )
}

pub(crate) fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        (0.0_f64..=1.0).prop_map(|share| Jitter::proportional(share).unwrap()),
    ]
}
