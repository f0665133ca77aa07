//! Everybody who can be told: an observer, a subscriber of events, a recorder of metrics.

use std::fmt::{Debug, Display, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use reqwest_typed_retry::{AttemptRecord, ObservedCall, RetryHistory, RetryObserver};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::ORIGIN;

/// Text that must not hold a secret.
#[derive(Clone, Default)]
pub(crate) struct Shown(Arc<Mutex<String>>);

impl Shown {
    pub(crate) fn debug(&self, value: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{value:?}\n{value:#?}").unwrap();
    }

    pub(crate) fn display(&self, value: &dyn Display) {
        writeln!(self.0.lock().unwrap(), "{value}\n{value:#}").unwrap();
    }

    pub(crate) fn history(&self, history: &RetryHistory) {
        self.debug(history);
        self.display(history);
        self.display(&serde_json::to_string(history).unwrap());
    }

    pub(crate) fn assert_nothing_secret(&self, label: &str) {
        let text = self.0.lock().unwrap();
        let secret = text.lines().find(|line| line.contains("secret"));
        assert_eq!(secret, None, "{label}");
    }
}

/// Writes each hook as one line: when, the method, what.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) shown: Shown,
}

impl Hooks {
    fn hook(&self, call: &ObservedCall<'_>, what: String) {
        assert_eq!(call.origin().as_deref(), Some(ORIGIN));
        self.shown.debug(call);
        let line = format!("{:?} {} {what}", call.elapsed(), call.method());
        self.lines.lock().unwrap().push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl RetryObserver for Hooks {
    fn attempt_ended(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        self.shown.debug(attempt);
        self.shown.display(attempt);
        self.hook(call, format!("ended: {attempt}"));
    }

    fn resending(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let of = call.max_retries().map_or("no limit".to_owned(), |max| max.to_string());
        let (number, delay) = (attempt.number(), attempt.decision().delay().unwrap());
        self.hook(call, format!("resending: {number} of {of} in {delay:?}"));
    }

    fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        self.hook(call, format!("held back: {wait:?}"));
    }

    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        self.shown.history(history);
        let (attempts, reason) = (history.attempts().len(), history.stop_reason());
        self.hook(call, format!("gave up: {attempts}, {reason}"));
    }

    fn recovered(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        self.shown.history(history);
        let (attempts, reason) = (history.attempts().len(), history.stop_reason());
        self.hook(call, format!("recovered: {attempts}, {reason}"));
    }
}

/// Writes each event of ours as one line: level, message, fields.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "reqwest_typed_retry" {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}:").unwrap(),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).unwrap();
    }
}

/// What was told.
pub(crate) struct Told {
    pub(crate) hooks: Vec<String>,
    pub(crate) events: Vec<String>,
    pub(crate) metrics: Vec<String>,
}

/// Listens while `run` runs.
pub(crate) async fn listen<F: Future<Output = ()>>(run: impl FnOnce(Hooks) -> F) -> Told {
    let (hooks, events) = (Hooks::default(), Events::default());
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    {
        let subscriber = tracing_subscriber::registry().with(events.clone());
        let _events = tracing::subscriber::set_default(subscriber);
        let _metrics = metrics::set_default_local_recorder(&recorder);
        run(hooks.clone()).await;
    }
    let events = events.0.lock().unwrap().clone();
    Told { hooks: hooks.lines(), events, metrics: readings(&snapshotter) }
}

/// Each metric as one line: its name but for what all share, its labels, its values; sorted.
fn readings(snapshotter: &Snapshotter) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, unit, described, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        assert!(unit.is_some() && described.is_some(), "{key:?}");
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        let name = key.name().strip_prefix("http_client_retry_").unwrap();
        let labels = labels.collect::<Vec<_>>().join(",");
        let value = match value {
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Histogram(all) => {
                format!("{:?}", all.iter().map(|it| it.0).collect::<Vec<_>>())
            }
            DebugValue::Gauge(_) => panic!("{name} is no gauge"),
        };
        lines.push(format!("{name}{{{labels}}} {value}"));
    }
    lines.sort();
    lines
}
