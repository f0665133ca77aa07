//! A history for machines: its `serde` form.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::history::{AttemptRecord, RetryHistory};
use crate::policy::RetryDecision;

/// Times are in seconds; names are those of `as_str`.
#[derive(Serialize)]
struct Report<'a> {
    attempts: &'a [AttemptRecord],
    stop_reason: &'static str,
    earlier_may_have_taken_effect: bool,
}

#[derive(Serialize)]
struct Attempt {
    number: u32,
    started_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<&'static str>,
    proven_not_processed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_delay_seconds: Option<f64>,
    #[serde(flatten)]
    decision: Decision,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Retry { delay_seconds: f64, reason: &'static str, delay_source: &'static str },
    Stop { reason: &'static str },
}

impl Serialize for RetryHistory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = Report {
            attempts: self.attempts(),
            stop_reason: self.stop_reason().as_str(),
            earlier_may_have_taken_effect: self.earlier_may_have_taken_effect(),
        };
        report.serialize(serializer)
    }
}

impl Serialize for AttemptRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fault = self.outcome().fault();
        let decision = match self.decision() {
            RetryDecision::RetryAfter { delay, reason, source } => Decision::Retry {
                delay_seconds: delay.as_secs_f64(),
                reason: reason.as_str(),
                delay_source: source.as_str(),
            },
            RetryDecision::DoNotRetry { reason } => Decision::Stop { reason: reason.as_str() },
        };
        let attempt = Attempt {
            number: self.number(),
            started_seconds: self.started().as_secs_f64(),
            status: self.outcome().status().map(|status| status.as_u16()),
            fault: fault.map(|fault| fault.kind().as_str()),
            delivery: fault.map(|fault| fault.delivery().as_str()),
            proven_not_processed: self.proven_not_processed(),
            server_delay_seconds: self.server_delay().as_ref().map(Duration::as_secs_f64),
            decision,
        };
        attempt.serialize(serializer)
    }
}
