//! Metrics by the `metrics` facade.

use std::time::Duration;

use http::Method;
use metrics::{Label, Unit, counter, describe_counter, describe_histogram, histogram};

use super::{ObservedCall, RetryObserver};
use crate::middleware::history::{AttemptOutcome, AttemptRecord, RetryHistory};
use crate::policy::{RetryDecision, RetryReason};

const ATTEMPTS: &str = "http_client_retry_attempts_total";
const RESENDS: &str = "http_client_retry_resends_total";
const WAIT: &str = "http_client_retry_wait_seconds";
const HELD_BACK: &str = "http_client_retry_held_back_seconds";
const GIVEN_UP: &str = "http_client_retry_given_up_total";
const RECOVERED: &str = "http_client_retry_recovered_total";

/// Counts what a client does, by the [`metrics`](https://docs.rs/metrics) facade. The metrics are listed in
/// the documentation of the crate, under "Telemetry".
///
/// ```
/// use metrics_util::debugging::{DebugValue, DebuggingRecorder};
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{MetricsObserver, RetryMiddleware, RetryPolicy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([Reply::connect_error(), Reply::status(StatusCode::OK)]);
/// let recorder = DebuggingRecorder::new(); // stands for an exporter
/// let _installed = metrics::set_default_local_recorder(&recorder);
/// let retry = RetryMiddleware::builder(RetryPolicy::default())
///     .observer(MetricsObserver::new().by_origin())
///     .build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
/// client.get("http://api.test/").send().await?; // a connection fails first
///
/// let counted = recorder.snapshotter().snapshot().into_vec();
/// let resends = counted.iter().find_map(|(key, _, _, value)| {
///     (key.key().name() == "http_client_retry_resends_total").then_some((key.key(), value))
/// });
/// let (key, value) = resends.ok_or("a resend was counted")?;
/// assert_eq!(*value, DebugValue::Counter(1));
/// let labels = key.labels().map(|label| (label.key(), label.value()));
/// assert_eq!(
///     labels.collect::<Vec<_>>(),
///     [("method", "GET"), ("origin", "http://api.test"), ("reason", "connect"), ("source", "backoff")]
/// );
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MetricsObserver {
    by_origin: bool,
}

impl MetricsObserver {
    /// Without the label `origin`. Make it after the recorder is installed, which is told what the metrics
    /// mean.
    pub fn new() -> Self {
        describe_counter!(ATTEMPTS, Unit::Count, "Attempts that have ended");
        describe_counter!(RESENDS, Unit::Count, "Resends that were decided on");
        describe_histogram!(WAIT, Unit::Seconds, "Time to wait before a resend");
        describe_histogram!(HELD_BACK, Unit::Seconds, "Time to wait at a cooldown");
        describe_counter!(GIVEN_UP, Unit::Count, "Calls that ended with a transient failure");
        describe_counter!(RECOVERED, Unit::Count, "Calls that ended well after a resend");
        Self { by_origin: false }
    }

    /// Adds the label `origin` (scheme, host, port): for clients whose origins are few.
    pub fn by_origin(self) -> Self {
        Self { by_origin: true }
    }

    fn labels<const N: usize>(
        &self,
        call: &ObservedCall<'_>,
        more: [(&'static str, String); N],
    ) -> Vec<Label> {
        let method = Label::from_static_parts("method", known(call.method()));
        let origin = call.origin().filter(|_| self.by_origin);
        let origin = origin.map(|origin| Label::new("origin", origin));
        let more = more.into_iter().map(|(name, value)| Label::new(name, value));
        [method].into_iter().chain(origin).chain(more).collect()
    }
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryObserver for MetricsObserver {
    fn attempt_ended(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let outcome = match attempt.outcome() {
            AttemptOutcome::Status(status) => status.as_str().to_owned(),
            AttemptOutcome::Fault(fault) => fault.kind().as_str().to_owned(),
        };
        counter!(ATTEMPTS, self.labels(call, [("outcome", outcome)])).increment(1);
    }

    fn resending(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let RetryDecision::RetryAfter { delay, reason, source } = attempt.decision() else {
            return;
        };
        let reason = match reason {
            RetryReason::Status(status) => status.as_str().to_owned(),
            other => other.as_str().to_owned(),
        };
        let why = [("reason", reason), ("source", source.as_str().to_owned())];
        counter!(RESENDS, self.labels(call, why)).increment(1);
        let source = [("source", source.as_str().to_owned())];
        histogram!(WAIT, self.labels(call, source)).record(delay);
    }

    fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        histogram!(HELD_BACK, self.labels(call, [])).record(wait);
    }

    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let reason = history.stop_reason().as_str().to_owned();
        counter!(GIVEN_UP, self.labels(call, [("reason", reason)])).increment(1);
    }

    fn recovered(&self, call: &ObservedCall<'_>, _: &RetryHistory) {
        counter!(RECOVERED, self.labels(call, [])).increment(1);
    }
}

/// A method of the caller's own invention is no label, as in the conventions of OpenTelemetry for
/// `http.request.method`.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => "_OTHER",
    }
}
