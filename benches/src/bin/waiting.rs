//! The memory of a request that waits for its resend: bytes alive in the heap for each of 10,000 that sleep in
//! a backoff of an hour. Prints Markdown tables; nothing goes over the network, and nobody waits for the hour.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin waiting [requests]`
//!
//! - Each request is a task of one thread, and all share one client. A 503 has come, its body is empty.
//! - Counted by the allocator, exactly: what is alive when all sleep, less what was before they were made. So
//!   the request is in it, and the task with its future.
//! - With `--gate` the exit code is 1 where a target is missed; that holds for a debug build, too.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Extensions, Method};
use peers::canned::Counted;
use peers::counting::{Counting, alive};
use peers::requests::fields;
use reqwest::{Client, Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use reqwest_typed_retry::{Backoff, RetryMiddleware, RetryPolicy};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, spawn, yield_now};
use tokio::time::sleep;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const REQUESTS: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// So few at a time are made ready that the runtime's queue does not grow with their number.
const READY: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Put,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT, 8 fields, 64 B",
        }
    }

    /// The most for ours, as a ratio to reqwest-retry.
    fn most(self) -> f64 {
        match self {
            Self::Get => 0.80,
            Self::Put => 0.85,
        }
    }

    /// Nothing of it is shared with another request.
    fn request(self, url: &Url) -> Request {
        let mut request = Request::new(Method::GET, url.clone());
        if self == Self::Put {
            *request.method_mut() = Method::PUT;
            *request.headers_mut() = fields();
            *request.body_mut() = Some(vec![b'x'; 64].into());
        }
        request
    }
}

/// A middleware, and the size of the future that it returned last.
struct Measure<M> {
    inner: M,
    size: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl<M: Middleware> Middleware for Measure<M> {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let call = self.inner.handle(request, extensions, next);
        self.size.store(size_of_val(&*call), Ordering::Relaxed);
        call.await
    }
}

fn peer() -> impl Middleware {
    let policy = ExponentialBackoff::builder()
        .retry_bounds(HOUR, HOUR)
        .jitter(Jitter::None)
        .build_with_max_retries(2);
    RetryTransientMiddleware::new_with_policy(policy)
}

fn ours() -> Result<RetryMiddleware> {
    let policy = RetryPolicy::builder().backoff(Backoff::constant(HOUR)).build()?;
    Ok(RetryMiddleware::builder(policy).without_budget().build()?)
}

/// The size of the future that `retry` returns.
async fn future_size(retry: impl Middleware) -> Result<usize> {
    let size = Arc::new(AtomicUsize::new(0));
    let measure = Measure { inner: retry, size: size.clone() };
    let client = ClientBuilder::new(Client::new()).with(measure).with(Counted::default()).build();
    client.get("http://own.test/").send().await?;
    Ok(size.load(Ordering::Relaxed))
}

/// The bytes alive for each of so many tasks, once all of them sleep.
async fn asleep(tasks: usize, new: impl Fn() -> JoinHandle<()>) -> Result<f64> {
    let mut handles = Vec::with_capacity(tasks);
    let before = alive();
    for task in 0..tasks {
        handles.push(new());
        if task % READY == 0 {
            settle().await;
        }
    }
    settle().await;
    let all = alive() - before;
    settle().await;
    if all != alive() - before || handles.iter().any(JoinHandle::is_finished) {
        return Err("they do not all sleep".into());
    }
    for handle in &handles {
        handle.abort();
    }
    for handle in handles {
        let _ = handle.await; // cancelled
    }
    Ok(all as f64 / tasks as f64)
}

/// Lets all that is ready run.
async fn settle() {
    for _ in 0..2 * READY {
        yield_now().await;
    }
}

/// The bytes alive for each of so many requests that a middleware keeps waiting.
async fn waiting(retry: impl Middleware, kind: Kind, requests: usize) -> Result<f64> {
    let url = Url::parse("http://own.test/sick")?;
    let last = Counted::default();
    let chain = ClientBuilder::new(Client::new()).with(retry).with(last.clone());
    let client: Arc<ClientWithMiddleware> = Arc::new(chain.build());
    let new = || {
        let (client, request) = (client.clone(), kind.request(&url));
        spawn(async move { drop(client.execute(request).await) })
    };
    asleep(1, new).await?; // warm
    let bytes = asleep(requests, new).await?;
    if last.sends() != requests + 1 {
        return Err(format!("{} sends for {requests} requests", last.sends() - 1).into());
    }
    Ok(bytes)
}

async fn run(requests: usize) -> Result<bool> {
    let task = asleep(requests, || spawn(sleep(HOUR))).await?;
    println!("{requests} at a time.\n");
    println!("| asleep | bytes each | without the task that sleeps | to reqwest-retry |");
    println!("|---|---|---|---|");
    println!("| a task that only sleeps | {task:.0} | | |");
    let mut missed = Vec::new();
    for kind in [Kind::Get, Kind::Put] {
        let theirs = waiting(peer(), kind, requests).await?;
        let ours = waiting(ours()?, kind, requests).await?;
        for (who, bytes) in [("reqwest-retry", theirs), ("ours", ours)] {
            let (name, more, ratio) = (kind.name(), bytes - task, bytes / theirs);
            println!("| {who}: {name} | {bytes:.0} | {more:.0} | {ratio:.3} |");
        }
        if ours / theirs > kind.most() {
            missed.push(kind);
        }
    }
    println!("\n| the future that the middleware returns | bytes |\n|---|---|");
    println!("| reqwest-retry | {} |", future_size(peer()).await?);
    println!("| ours | {} |\n", future_size(ours()?).await?);
    for kind in [Kind::Get, Kind::Put] {
        let verdict = if missed.contains(&kind) { "MISSED" } else { "met" };
        println!("{}: at most {:.2} of reqwest-retry: {verdict}", kind.name(), kind.most());
    }
    Ok(missed.is_empty())
}

fn main() -> Result<ExitCode> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let (is_gate, requests) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--gate"] => (true, REQUESTS),
        [] => (false, REQUESTS),
        [requests] => (false, requests.parse::<usize>()?.max(1)),
        _ => return Err("waiting [--gate | REQUESTS]".into()),
    };
    let holds = Builder::new_current_thread().enable_time().build()?.block_on(run(requests))?;
    Ok(if holds || !is_gate { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
