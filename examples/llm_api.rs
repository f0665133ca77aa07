//! A client of an LLM API, and what its resends cost.
//!
//! What it shows:
//!
//! - a rate limit (429 with `retry-after-ms`) and an overloaded model (529) are waited for, and cost nothing;
//! - `x-should-retry: false` ends the call at once;
//! - a streamed answer takes longer than the time limit to its head, which does not cut it; an attempt timeout does;
//! - an answer that gets lost after it was generated is billed twice where the client sends again, and is paid for
//!   and not had where it does not; an idempotency key brings it for the price of one, if the server honours it.
//!
//! The server is at the end of this file, listens on a loopback port that the system picks, and counts the tokens
//! that it bills.
//!
//! Run it: `cargo run --example llm_api`. It ends by itself in about 3 seconds; the exit code is 0 only if all went
//! as described. Some of what it prints:
//!
//! ```text
//! A lost answer, sent again
//!   attempt 1: status 502; retry in 81.22ms (set by the backoff): status 502
//!   attempt 2 after 83.31ms: status 200; stop: completed
//!   end: 200, answered; billed: 24 tokens, 12 of them for nothing
//!   ok
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::stream;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_typed_retry::{
    ApiProfile, KeyFormat, PolicyError, RetryMiddleware, RetryPolicy, RetryRequestExt as _,
    RetryTracker, StopReason,
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    let limit = Duration::from_secs(30); // whatever goes wrong, this does not hang
    match tokio::time::timeout(limit, run()).await {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error:#}"),
        Err(_) => eprintln!("not finished after {limit:?}"),
    }
    ExitCode::FAILURE
}

// What an application does.

/// How long the client waits for the first token. An answer that is not streamed has no head before it is done:
/// there this must be longer than the longest completion.
const TO_THE_HEAD: Duration = Duration::from_secs(1);

/// A completion is a POST that changes nothing: a second one costs money, and nothing else.
fn policy() -> Result<RetryPolicy, PolicyError> {
    RetryPolicy::builder()
        .profile(ApiProfile::openai())
        .assume_idempotent(true)
        .head_timeout(TO_THE_HEAD)
        .deadline(Duration::from_secs(20))
        .build()
}

fn client() -> anyhow::Result<ClientWithMiddleware> {
    let http = reqwest::Client::builder()
        .no_proxy() // loopback needs none
        .connect_timeout(Duration::from_secs(3))
        .read_timeout(Duration::from_secs(5)) // between two tokens
        .build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy()?)).build())
}

#[derive(Deserialize, Serialize)]
struct Completion {
    prompt: Prompt,
    stream: bool,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
}

/// What of a stream of events is text.
fn text_of(events: &str) -> String {
    events.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

// What shows that it works.

struct Scenes {
    client: ClientWithMiddleware,
    server: LlmServer,
    failed: u32,
}

async fn run() -> anyhow::Result<()> {
    let mut scenes = Scenes { client: client()?, server: LlmServer::start().await?, failed: 0 };
    let careful = policy()?.to_builder().assume_idempotent(false).build()?;
    let keyed = careful.to_builder().generate_idempotency_keys(KeyFormat::Bare).build()?;
    let impatient = RetryPolicy::builder().attempt_timeout(ATTEMPT_TIMEOUT).build()?;

    println!("A rate limit");
    let sent = scenes.complete(Prompt::Limited, |call| call).await?;
    let waited = sent.waits.first().is_some_and(|wait| *wait >= LIMITED_FOR);
    scenes.check(sent, "answered", 2, StopReason::Completed, [TOKENS, 0], waited);

    println!("An overloaded model");
    let sent = scenes.complete(Prompt::Overloaded, |call| call).await?;
    scenes.check(sent, "answered", 2, StopReason::Completed, [TOKENS, 0], true);

    println!("A quota that is used up, of which the server says that a resend is of no use");
    let sent = scenes.complete(Prompt::Spent, |call| call).await?;
    scenes.check(sent, "no answer", 1, StopReason::ServerRefused, [0, 0], true);

    println!("A stream of {STREAM_TIME:?}, with {TO_THE_HEAD:?} to its head");
    let sent = scenes.stream(|call| call).await?;
    scenes.check(sent, "answered", 1, StopReason::Completed, [TOKENS, 0], true);

    println!("The same, with an attempt timeout of {ATTEMPT_TIMEOUT:?}");
    let sent = scenes.stream(|call| call.retry_policy(impatient).no_retry()).await?;
    let stop = sent.stop;
    scenes.check(sent, "cut by a time limit", 1, stop, [TOKENS, TOKENS], true);

    println!("A lost answer, sent again");
    let sent = scenes.complete(Prompt::Lost, |call| call).await?;
    scenes.check(sent, "answered", 2, StopReason::Completed, [2 * TOKENS, TOKENS], true);

    println!("A lost answer, not sent again: assume_idempotent(false)");
    let sent = scenes.complete(Prompt::Lost, |call| call.retry_policy(careful)).await?;
    scenes.check(sent, "no answer", 1, StopReason::NotIdempotent, [TOKENS, TOKENS], true);

    println!("A lost answer, sent again with an idempotency key that the server honours");
    let sent = scenes.complete(Prompt::Lost, |call| call.retry_policy(keyed)).await?;
    scenes.check(sent, "answered", 2, StopReason::Completed, [TOKENS, 0], true);

    ensure!(scenes.failed == 0, "{} of 8 did not go as described", scenes.failed);
    println!("All 8 went as described.");
    Ok(())
}

/// What became of a call.
struct Sent {
    end: &'static str,
    attempts: usize,
    waits: Vec<Duration>,
    stop: StopReason,
    billed: u64,
    for_nothing: u64,
}

impl Scenes {
    fn post(&self, prompt: Prompt, stream: bool) -> RequestBuilder {
        let url = format!("http://{}/v1/completions", self.server.address);
        self.client.post(url).json(&Completion { prompt, stream })
    }

    async fn complete(
        &mut self,
        prompt: Prompt,
        options: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> anyhow::Result<Sent> {
        let tracker = RetryTracker::new();
        let request = options(self.post(prompt, false)).with_extension(tracker.clone());
        let response = request.send().await?;
        let (status, body) = (response.status(), response.text().await?);
        let answer = serde_json::from_str(&body).is_ok_and(|Answer { text }| text == whole_text());
        let end = if answer { "answered" } else { "no answer" };
        self.sent(&tracker, &format!("{}, {end}", status.as_u16()), end)
    }

    async fn stream(
        &mut self,
        options: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> anyhow::Result<Sent> {
        let tracker = RetryTracker::new();
        let request = options(self.post(Prompt::Plain, true)).with_extension(tracker.clone());
        let end = match events(request).await {
            Ok(events) if text_of(&events) == whole_text() => "answered",
            Ok(_) => "no answer",
            Err(error) if error.is_timeout() => "cut by a time limit",
            Err(error) => return Err(error.into()),
        };
        self.sent(&tracker, end, end)
    }

    /// Tells what happened to the call, and takes the bill.
    fn sent(&self, tracker: &RetryTracker, told: &str, end: &'static str) -> anyhow::Result<Sent> {
        let history = tracker.history().context("the client has no retry layer")?;
        for attempt in history.attempts() {
            println!("  {attempt}");
        }
        let billed = std::mem::take(&mut *lock(&self.server.ledger)).billed;
        let had = if end == "answered" { TOKENS } else { 0 };
        let for_nothing = billed.saturating_sub(had);
        println!("  end: {told}; billed: {billed} tokens, {for_nothing} of them for nothing");
        Ok(Sent {
            end,
            attempts: history.attempts().len(),
            waits: history.attempts().iter().filter_map(|it| it.decision().delay()).collect(),
            stop: history.stop_reason(),
            billed,
            for_nothing,
        })
    }

    /// Counts it if that is not what should have happened.
    fn check(
        &mut self,
        sent: Sent,
        end: &str,
        attempts: usize,
        stop: StopReason,
        bill: [u64; 2],
        more: bool,
    ) {
        let is_so = sent.end == end && sent.attempts == attempts && sent.stop == stop;
        let holds = is_so && [sent.billed, sent.for_nothing] == bill && more;
        println!("  {}\n", if holds { "ok" } else { "FAILED" });
        self.failed += u32::from(!holds);
    }
}

async fn events(request: RequestBuilder) -> reqwest_middleware::Result<String> {
    Ok(request.send().await?.error_for_status()?.text().await?)
}

// What stands in for the API.

/// What the server does with a prompt when it first sees it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Prompt {
    /// It answers.
    Plain,
    /// 429, for a while.
    Limited,
    /// 529.
    Overloaded,
    /// 429, for good.
    Spent,
    /// It generates the answer, which a gateway in front of it loses.
    Lost,
}

/// What an answer has, and costs.
const TOKENS: u64 = 12;
const LIMITED_FOR: Duration = Duration::from_millis(300);
const BETWEEN_TOKENS: Duration = Duration::from_millis(100);
const STREAM_TIME: Duration = Duration::from_millis(1200); // of all tokens
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(300);

fn token(number: u64) -> String {
    format!("token {number} ")
}

fn whole_text() -> String {
    (1..=TOKENS).map(token).collect()
}

#[derive(Default)]
struct Ledger {
    requests: u64,
    billed: u64,
    /// What was generated, by the key of its request.
    answers: HashMap<String, String>,
}

impl Ledger {
    /// Generates an answer, and bills it; unless that was done for this key before.
    fn answer(&mut self, key: Option<&str>) -> String {
        if let Some(answer) = key.and_then(|key| self.answers.get(key)) {
            return answer.clone();
        }
        let answer = whole_text();
        self.billed += TOKENS;
        if let Some(key) = key {
            self.answers.insert(key.to_owned(), answer.clone());
        }
        answer
    }
}

struct LlmServer {
    address: SocketAddr,
    /// Of the current call.
    ledger: Arc<Mutex<Ledger>>,
}

impl LlmServer {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Self { address: listener.local_addr()?, ledger: Arc::default() };
        let router = Router::new().route("/v1/completions", post(complete));
        let router = router.with_state(server.ledger.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(server)
    }
}

async fn complete(
    State(ledger): State<Arc<Mutex<Ledger>>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let Ok(Completion { prompt, stream }) = serde_json::from_str(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let mut ledger = lock(&ledger);
    ledger.requests += 1;
    let is_first = ledger.requests == 1;
    match prompt {
        Prompt::Limited if is_first => {
            let milliseconds = LIMITED_FOR.as_millis().to_string();
            let fields = [("retry-after-ms", milliseconds)];
            (StatusCode::TOO_MANY_REQUESTS, fields).into_response()
        }
        Prompt::Overloaded if is_first => {
            StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE).into_response()
        }
        Prompt::Spent => {
            (StatusCode::TOO_MANY_REQUESTS, [("x-should-retry", "false")]).into_response()
        }
        Prompt::Lost if is_first => {
            ledger.answer(key);
            StatusCode::BAD_GATEWAY.into_response()
        }
        _ if stream => {
            ledger.answer(key);
            streamed()
        }
        _ => serde_json::json!({ "text": ledger.answer(key) }).to_string().into_response(),
    }
}

/// The head at once, then one token after another.
fn streamed() -> Response {
    let events = stream::unfold(1, |number| async move {
        tokio::time::sleep(BETWEEN_TOKENS).await;
        let event = format!("data: {}\n\n", token(number));
        (number <= TOKENS).then_some((Ok::<_, Infallible>(event), number + 1))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}
