//! One OpenTelemetry span for each attempt, all in one trace.
//!
//! What it shows: a server on loopback answers 503 twice, then 200; the spans that were exported, the events of the
//! retry layer, and what the server was told. The part to copy is in `attempt_span.rs`: the span of an attempt, with
//! `http.request.resend_count`. reqwest-tracing makes one whenever a request is sent, since it is added after the
//! retry layer, and gives it to the server in the field `traceparent`. What the retry layer has to say ("retry 1 of
//! 2") becomes events of the application's own span around the call. The exporter keeps everything in memory; an
//! application has one of opentelemetry-otlp in its place.
//!
//! Run it: `cargo run --example opentelemetry`. It ends by itself in a second; the exit code is 0 only if all went as
//! described. Some of what it prints:
//!
//! ```text
//! Events of the span "load report":
//!   retry 1 of 2  reason: status 503, delay: 58.215493ms, outcome: -
//!   retry 2 of 2  reason: status 503, delay: 130.6205ms, outcome: -
//!   recovered     reason: -, delay: -, outcome: status 200
//! ```

mod attempt_span;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_tracing::TracingMiddleware;
use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
use tokio::net::TcpListener;
use tracing::{Instrument as _, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use self::attempt_span::AttemptSpan;

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

/// The retry layer comes first: what is added after it runs for each attempt.
fn client() -> anyhow::Result<ClientWithMiddleware> {
    let policy = RetryPolicy::builder().attempt_timeout(Duration::from_secs(5)).build()?;
    let http = reqwest::Client::builder().no_proxy().build()?; // loopback needs no proxy
    Ok(ClientBuilder::new(http)
        .with(RetryMiddleware::new(policy))
        .with(TracingMiddleware::<AttemptSpan>::new())
        .build())
}

fn export_spans(provider: &SdkTracerProvider) -> anyhow::Result<()> {
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new()); // `traceparent`
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    let filter =
        Targets::new().with_default(Level::INFO).with_target("reqwest_typed_retry", Level::DEBUG); // "recovered", too
    let subscriber = tracing_subscriber::registry().with(spans.with_filter(filter));
    Ok(tracing::subscriber::set_global_default(subscriber)?)
}

async fn load_report(client: &ClientWithMiddleware, server: SocketAddr) -> anyhow::Result<String> {
    let url = format!("http://{server}/report");
    Ok(client.get(url).send().await?.error_for_status()?.text().await?)
}

// What shows that it works.

/// The field `traceparent` of each request that the server has had.
type TraceParents = Arc<Mutex<Vec<String>>>;

/// Fails twice.
async fn report(
    State(seen): State<TraceParents>,
    headers: HeaderMap,
) -> (StatusCode, &'static str) {
    let traceparent = headers.get("traceparent").and_then(|field| field.to_str().ok());
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.push(traceparent.unwrap_or("none").to_owned());
    if seen.len() > 2 {
        (StatusCode::OK, "a report")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "")
    }
}

async fn run() -> anyhow::Result<()> {
    let seen = TraceParents::default();
    let listener = TcpListener::bind("127.0.0.1:0").await?; // the system picks the port
    let server = listener.local_addr()?;
    let router = Router::new().route("/report", get(report)).with_state(seen.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    export_spans(&provider)?;
    let body = load_report(&client()?, server).instrument(info_span!("load report")).await?;
    provider.force_flush()?;
    let spans = exporter.get_finished_spans()?; // in the order in which they ended
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();

    println!("Spans, their parents and traces:");
    let heads = ["span", "id", "parent", "trace", "resend_count", "status_code", "error.type"];
    print_row(heads.map(str::to_owned));
    for span in &spans {
        let parent = spans.iter().find(|it| it.span_context.span_id() == span.parent_span_id);
        print_row([
            span.name.to_string(),
            span.span_context.span_id().to_string(),
            parent.map_or("-".to_owned(), |parent| parent.name.to_string()),
            span.span_context.trace_id().to_string(),
            show(&span.attributes, "http.request.resend_count"),
            show(&span.attributes, "http.response.status_code"),
            show(&span.attributes, "error.type"),
        ]);
    }
    let (load, attempts) = spans.split_last().context("no span was exported")?;
    println!("\nEvents of the span {:?}:", load.name);
    for event in load.events.iter() {
        let [reason, delay, outcome] =
            ["reason", "delay", "outcome"].map(|name| show(&event.attributes, name));
        println!("  {:<13} reason: {reason}, delay: {delay}, outcome: {outcome}", event.name);
    }
    println!("\nWhat the server was told (traceparent: version, trace, span, flags):");
    seen.iter().for_each(|traceparent| println!("  {traceparent}"));

    anyhow::ensure!(body == "a report" && load.name == "load report", "another end");
    let told: Vec<_> = attempts.iter().map(told).collect();
    let expected = [(None, Some(503)), (Some(1), Some(503)), (Some(2), Some(200))];
    anyhow::ensure!(told == expected, "other attempts: {told:?}");
    let trace = load.span_context.trace_id();
    let same_trace = |span: &SpanData| span.span_context.trace_id() == trace;
    anyhow::ensure!(attempts.iter().all(same_trace), "more than one trace");
    let is_child = |span: &SpanData| span.parent_span_id == load.span_context.span_id();
    anyhow::ensure!(attempts.iter().all(is_child), "another parent");
    let events: Vec<_> = load.events.iter().map(|event| &event.name).collect();
    anyhow::ensure!(events == ["retry 1 of 2", "retry 2 of 2", "recovered"], "other events");
    let sent = |span: &SpanData| format!("00-{trace}-{}-01", span.span_context.span_id());
    anyhow::ensure!(seen == attempts.iter().map(sent).collect::<Vec<_>>(), "other traceparents");
    println!("\nAll went as described.");
    Ok(())
}

/// Resend count and status of an attempt.
fn told(attempt: &SpanData) -> (Option<i64>, Option<i64>) {
    let number = |name| match find(&attempt.attributes, name) {
        Some(Value::I64(number)) => Some(*number),
        _ => None,
    };
    (number("http.request.resend_count"), number("http.response.status_code"))
}

fn find<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|it| it.key.as_str() == name).map(|it| &it.value)
}

fn show(attributes: &[KeyValue], name: &str) -> String {
    find(attributes, name).map_or("-".to_owned(), Value::to_string)
}

fn print_row([span, id, parent, trace, resends, status, error]: [String; 7]) {
    println!("  {span:11} {id:16} {parent:11} {trace:<8.8} {resends:12} {status:11} {error}");
}
