//! What the retry layer counts, by the facade `metrics`.
//!
//! What it shows: a client with a `MetricsObserver`, a GET that recovers, a GET that is given up, and a POST that is
//! not sent again; then what was counted, as text like that of Prometheus. The recorder here keeps everything in
//! memory; an application installs that of an exporter in its place, before it makes the observer. What each metric
//! means is in the documentation of the crate, under "Telemetry".
//!
//! Run it: `cargo run --example metrics`. It ends by itself in a second; the exit code is 0 only if
//! all went as described. Some of what it prints:
//!
//! ```text
//! # HELP http_client_retry_resends_total Resends that were decided on
//! # TYPE http_client_retry_resends_total counter
//! http_client_retry_resends_total{method="GET",reason="503",source="backoff"} 3
//! ```

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{MetricsObserver, RetryMiddleware, RetryPolicy};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    let limit = Duration::from_secs(15); // whatever goes wrong, this does not hang
    match tokio::time::timeout(limit, run()).await {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error:#}"),
        Err(_) => eprintln!("not finished after {limit:?}"),
    }
    ExitCode::FAILURE
}

// What an application does.

fn client() -> anyhow::Result<ClientWithMiddleware> {
    let policy = RetryPolicy::builder().attempt_timeout(Duration::from_secs(5)).build()?;
    let retry = RetryMiddleware::builder(policy).observer(MetricsObserver::new()).build()?;
    let http = reqwest::Client::builder().no_proxy().build()?; // loopback needs no proxy
    Ok(ClientBuilder::new(http).with(retry).build())
}

// What shows that it works.

async fn run() -> anyhow::Result<()> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().map_err(|error| anyhow!("{error}"))?;
    let client = client()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?; // the system picks the port
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router()).await });
    let recovered = client.get(format!("{url}/flaky")).send().await?.status();
    let given_up = client.get(format!("{url}/sick")).send().await?.status();
    let not_resent = client.post(format!("{url}/sick")).body("an order").send().await?.status();
    println!("GET /flaky: {recovered}\nGET /sick: {given_up}\nPOST /sick: {not_resent}\n");

    let counted = exposition(&snapshotter);
    println!("{counted}");
    let expected = [
        "http_client_retry_attempts_total{method=\"GET\",outcome=\"200\"} 1",
        "http_client_retry_attempts_total{method=\"GET\",outcome=\"503\"} 4",
        "http_client_retry_attempts_total{method=\"POST\",outcome=\"503\"} 1",
        "http_client_retry_given_up_total{method=\"GET\",reason=\"attempts_exhausted\"} 1",
        "http_client_retry_given_up_total{method=\"POST\",reason=\"not_idempotent\"} 1",
        "http_client_retry_recovered_total{method=\"GET\"} 1",
        "http_client_retry_resends_total{method=\"GET\",reason=\"503\",source=\"backoff\"} 3",
        "http_client_retry_wait_seconds_count{method=\"GET\",source=\"backoff\"} 3",
    ];
    let is_sum = |line: &&str| line.starts_with("http_client_retry_wait_seconds_sum");
    let samples: Vec<_> = counted.lines().filter(|line| !line.starts_with('#')).collect();
    let (sums, counts): (Vec<_>, Vec<_>) = samples.into_iter().partition(is_sum);
    ensure!(counts == expected && sums.len() == 1, "it counted something else");
    println!("All was counted as described.");
    Ok(())
}

/// What was counted since the last snapshot, sorted.
fn exposition(snapshotter: &Snapshotter) -> String {
    let mut lines = BTreeSet::new();
    for (key, _unit, description, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let name = key.name();
        let labels = key.labels().map(|label| format!("{}={:?}", label.key(), label.value()));
        let labels = labels.collect::<Vec<_>>().join(",");
        let (kind, samples) = match value {
            DebugValue::Counter(count) => ("counter", vec![("", count.to_string())]),
            DebugValue::Gauge(gauge) => ("gauge", vec![("", gauge.to_string())]),
            DebugValue::Histogram(values) => {
                let sum: f64 = values.iter().map(|value| value.into_inner()).sum();
                let samples =
                    vec![("_count", values.len().to_string()), ("_sum", format!("{sum:.3}"))];
                ("summary", samples)
            }
        };
        // The comments of a metric come before its samples.
        if let Some(description) = description {
            lines.insert((name.to_owned(), 0, format!("# HELP {name} {description}")));
        }
        lines.insert((name.to_owned(), 1, format!("# TYPE {name} {kind}")));
        for (suffix, sample) in samples {
            lines.insert((name.to_owned(), 2, format!("{name}{suffix}{{{labels}}} {sample}")));
        }
    }
    lines.into_iter().map(|(_, _, line)| line + "\n").collect()
}

// What stands in for a service.

fn router() -> Router {
    let count = Arc::new(AtomicU32::new(0));
    let flaky = get(move || async move {
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        }
    });
    Router::new()
        .route("/flaky", flaky)
        .route("/sick", any(|| async { StatusCode::SERVICE_UNAVAILABLE }))
}
