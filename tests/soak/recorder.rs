//! The third of the client's counters: its metrics.
//!
//! A recorder that keeps sums alone. One that keeps the values of histograms, too, would grow.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// The sum of a counter, or how many values a histogram has had: by the name, whatever the labels.
#[derive(Default)]
struct Sum(AtomicU64);

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, _: u64) {
        panic!("a counter that is set");
    }
}

impl HistogramFn for Sum {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Default)]
struct Sums(Arc<Mutex<HashMap<String, Arc<Sum>>>>);

impl Sums {
    fn of(&self, name: &str) -> Arc<Sum> {
        let sums = &mut *self.0.lock().unwrap();
        match sums.get(name) {
            Some(sum) => sum.clone(),
            None => sums.entry(name.to_owned()).or_default().clone(),
        }
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key.name()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key.name()))
    }
}

/// What has been counted from now on.
pub(crate) struct Metrics {
    sums: Sums,
    before: HashMap<String, u64>,
}

impl Metrics {
    /// Of this process: it has one recorder.
    pub(crate) fn new() -> Self {
        static SUMS: OnceLock<Sums> = OnceLock::new();
        let sums = SUMS.get_or_init(|| {
            let sums = Sums::default();
            metrics::set_global_recorder(sums.clone()).map_err(|_| "there is one").unwrap();
            sums
        });
        let known = sums.0.lock().unwrap();
        let before = known.iter().map(|(name, sum)| (name.clone(), sum.0.load(Ordering::SeqCst)));
        Self { before: before.collect(), sums: sums.clone() }
    }

    pub(crate) fn sum(&self, name: &str) -> u64 {
        let name = format!("http_client_retry_{name}");
        let before = self.before.get(&name).copied().unwrap_or(0);
        self.sums.of(&name).0.load(Ordering::SeqCst) - before
    }
}
