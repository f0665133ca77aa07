//! Inside the retry layer, reqwest-tracing makes one span an attempt, told apart by
//! `http.request.resend_count`. The span is that of the example `opentelemetry`.
//! No sockets: the script answers, and time is tokio's own, paused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../examples/opentelemetry/attempt_span.rs"]
mod attempt_span;

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use opentelemetry::trace::{SpanId, SpanKind, Status, TraceId, TracerProvider as _};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_tracing::TracingMiddleware;
use reqwest_typed_retry::test_util::{Received, Reply, Script};
use reqwest_typed_retry::{Jitter, RetryMiddleware, RetryPolicy, RetryPolicyBuilder};
use tracing::{Instrument as _, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use self::attempt_span::AttemptSpan;

const URL: &str = "https://user:secret@service.test:8443/token/secret?key=secret#secret";

/// What was exported, and what the server got.
struct Seen {
    attempts: Vec<SpanData>,
    parent: SpanData,
    received: Vec<Received>,
}

/// One call in the application's span `load report`.
async fn call(policy: RetryPolicyBuilder, replies: impl IntoIterator<Item = Reply>) -> Seen {
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let filter =
        Targets::new().with_default(Level::INFO).with_target("reqwest_typed_retry", Level::DEBUG);
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
    let _guard = tracing::subscriber::set_default(subscriber);

    let script = Script::new(replies);
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(policy.jitter(Jitter::None).build().unwrap()))
        .with(TracingMiddleware::<AttemptSpan>::new())
        .with(script.clone())
        .build();
    let request = client.get(URL).header("authorization", "secret");
    let _ = request.send().instrument(info_span!("load report")).await;

    provider.force_flush().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    for span in &spans {
        assert!(!format!("{span:?}").contains("secret"), "{span:?}");
    }
    let (parents, attempts): (Vec<_>, Vec<_>) =
        spans.into_iter().partition(|span| span.name == "load report");
    let [parent] = parents.try_into().unwrap();
    Seen { attempts, parent, received: script.received() }
}

impl Seen {
    fn trace(&self) -> TraceId {
        self.parent.span_context.trace_id()
    }

    fn each<T>(&self, of: impl FnMut(&SpanData) -> T) -> Vec<T> {
        self.attempts.iter().map(of).collect()
    }

    /// An attribute of each attempt.
    fn all(&self, name: &str) -> Vec<Option<Value>> {
        self.each(|span| attribute(&span.attributes, name))
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<Value> {
    let mut named = attributes.iter().filter(|it| it.key.as_str() == name);
    let value = named.next().map(|it| it.value.clone());
    assert!(named.next().is_none(), "{name} twice");
    value
}

fn number(value: i64) -> Option<Value> {
    Some(Value::I64(value))
}

fn text(value: &'static str) -> Option<Value> {
    Some(Value::String(value.into()))
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE)
}

fn fine() -> Reply {
    Reply::status(StatusCode::OK)
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_span_of_its_own_in_one_trace_and_the_resends_are_counted() {
    let seen = call(RetryPolicy::builder(), [busy(), busy(), fine()]).await;
    assert_eq!(seen.all("http.request.resend_count"), [None, number(1), number(2)]);
    assert_eq!(seen.all("http.response.status_code"), [number(503), number(503), number(200)]);
    assert_eq!(seen.all("error.type"), [text("503"), text("503"), None]);
    assert_eq!(seen.each(|span| span.span_context.trace_id()), [seen.trace(); 3]);
    assert_eq!(seen.each(|span| span.parent_span_id), [seen.parent.span_context.span_id(); 3]);
    assert_eq!(seen.parent.parent_span_id, SpanId::INVALID);

    assert_eq!(seen.each(|span| span.name.clone()), ["GET"; 3]);
    assert_eq!(seen.each(|span| span.span_kind.clone()), vec![SpanKind::Client; 3]);
    let failed = Status::error("");
    assert_eq!(seen.each(|span| span.status.clone()), [failed.clone(), failed, Status::Unset]);
    assert_eq!(seen.all("http.request.method"), vec![text("GET"); 3]);
    assert_eq!(seen.all("server.address"), vec![text("service.test"); 3]);
    assert_eq!(seen.all("server.port"), vec![number(8443); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_first_try_success_is_one_span_without_a_count_and_no_event() {
    let seen = call(RetryPolicy::builder(), [fine()]).await;
    assert_eq!(seen.all("http.request.resend_count"), [None]);
    assert_eq!(seen.all("http.response.status_code"), [number(200)]);
    assert_eq!(seen.all("error.type"), [None]);
    assert_eq!(seen.each(|span| span.status.clone()), [Status::Unset]);
    assert_eq!(seen.each(|span| span.parent_span_id), [seen.parent.span_context.span_id()]);
    assert!(seen.parent.events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_server_is_told_which_attempt_it_gets() {
    let seen = call(RetryPolicy::builder(), [busy(), busy(), fine()]).await;
    let sent: Vec<_> = seen
        .received
        .iter()
        .map(|received| received.headers["traceparent"].to_str().unwrap().to_owned())
        .collect();
    let trace = seen.trace();
    let own = seen.each(|span| format!("00-{trace}-{}-01", span.span_context.span_id()));
    assert_eq!(sent, own);
    assert_eq!(BTreeSet::from_iter(&own).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_an_error_by_its_kind_and_has_no_status() {
    let timeout = RetryPolicy::builder().attempt_timeout(Duration::from_secs(5));
    let seen = call(timeout, [Reply::connect_error(), Reply::hang(), fine()]).await;
    assert_eq!(seen.all("error.type"), [text("connect"), text("timeout"), None]);
    assert_eq!(seen.all("http.response.status_code"), [None, None, number(200)]);
    assert_eq!(seen.all("http.request.resend_count"), [None, number(1), number(2)]);
    let failed = Status::error("");
    assert_eq!(seen.each(|span| span.status.clone()), [failed.clone(), failed, Status::Unset]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_dropped_has_a_span_without_an_end() {
    let limit = Duration::from_secs(5);
    let seen = call(RetryPolicy::builder().head_timeout(limit), [Reply::hang(), fine()]).await;
    assert_eq!(seen.all("error.type"), [None, None]);
    assert_eq!(seen.all("http.response.status_code"), [None, number(200)]);
    assert_eq!(seen.all("http.request.resend_count"), [None, number(1)]);

    let seen = call(RetryPolicy::builder().deadline(limit), [Reply::hang()]).await;
    assert_eq!(seen.all("error.type"), [None]);
    assert_eq!(seen.each(|span| span.status.clone()), [Status::Unset]);
}

#[cfg(feature = "tracing")]
#[tokio::test(start_paused = true)]
async fn what_the_retry_layer_says_is_in_the_span_around_the_call() {
    let seen = call(RetryPolicy::builder(), [busy(), busy(), fine()]).await;
    let events: Vec<_> = seen.parent.events.iter().map(|event| event.name.clone()).collect();
    assert_eq!(events, ["retry 1 of 2", "retry 2 of 2", "recovered"]);
    let delays: Vec<_> =
        seen.parent.events.iter().map(|event| attribute(&event.attributes, "delay")).collect();
    assert_eq!(delays, [text("100ms"), text("200ms"), None]);
    assert!(seen.attempts.iter().all(|span| span.events.is_empty()));

    let seen = call(RetryPolicy::builder().max_attempts(2), [busy(), busy()]).await;
    let events: Vec<_> = seen.parent.events.iter().map(|event| event.name.clone()).collect();
    assert_eq!(events, ["retry 1 of 1", "giving up"]);
}
