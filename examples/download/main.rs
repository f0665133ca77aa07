//! Downloads that survive what happens to downloads.
//!
//! What it shows: a body that is streamed to a file and, when it is cut, asked for from where it ended. The function
//! to copy is in `download.rs`. A server on loopback (`server.rs`) gives it reasons to. For each file this prints
//! what the server will do, what it was asked and answered, the end, and `ok` or `FAILED`. On a terminal there is a
//! progress bar, too.
//!
//! Run it: `cargo run --example download`. It ends by itself in seconds; the exit code is 0 only if all went as
//! described. Some of what it prints:
//!
//! ```text
//! /weak
//!   The ETag is weak, so it does not say that two parts fit. The client starts over.
//!   request 1: all of it      -> 200, cut after 2000000 bytes
//!   request 2: all of it      -> 200
//!   resends left in the budget: 100 of 100
//!   end: 4194304 bytes; attempts: 2, cuts: 1, restarts: 1
//! ```

mod download;
mod server;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{Backoff, RetryBudget, RetryMiddleware, RetryPolicy};

use self::download::{Download, download};
use self::server::{Server, digest};

#[tokio::main]
async fn main() -> ExitCode {
    let limit = Duration::from_secs(60); // whatever goes wrong, this does not hang
    match tokio::time::timeout(limit, run()).await {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error:#}"),
        Err(_) => eprintln!("not finished after {limit:?}"),
    }
    ExitCode::FAILURE
}

/// A file of the server's, and how its download should end.
struct Scene {
    path: &'static str,
    story: &'static str,
    attempts: usize,
    restarts: u32,
    /// How many resends the client's budget allows at first, and what is left of them.
    tokens: (u32, f64),
    /// The error begins with this, if it should end in one.
    error: Option<&'static str>,
}

const SCENES: [Scene; 7] = [
    Scene {
        path: "/cut",
        story: "The server answers 503 once and cuts the body three times. The middleware sends\n  \
                again after the 503, the loop asks for the rest after a cut; they share a count.",
        attempts: 5,
        restarts: 0,
        tokens: (100, 97.2), // three resends were cut; the last was answered, which is a fifth more
        error: None,
    },
    Scene {
        path: "/changed",
        story: "There is another file after the first cut. By If-Range the server sees that the\n  \
                client has a part of the old one, and sends all of the new one.",
        attempts: 3,
        restarts: 1,
        tokens: (100, 99.2),
        error: None,
    },
    Scene {
        path: "/weak",
        story: "The ETag is weak, so it does not say that two parts fit. The client starts over.",
        attempts: 2,
        restarts: 1,
        tokens: (100, 100.0),
        error: None,
    },
    Scene {
        path: "/open-end",
        story: "All of a chunked body arrives but its end. There is no more, says the 416.",
        attempts: 2,
        restarts: 0,
        tokens: (100, 100.0),
        error: None,
    },
    Scene {
        path: "/no-if-range",
        story: "There is another file after the cut, and the server does not know If-Range. The\n  \
                client sees by the ETag that the part does not fit, and starts over.",
        attempts: 3,
        restarts: 1,
        tokens: (100, 99.2),
        error: None,
    },
    Scene {
        path: "/misplaced",
        story: "The server sends another part than the one it was asked for. The client fails.",
        attempts: 2,
        restarts: 0,
        tokens: (100, 100.0),
        error: Some("asked for bytes from 1000000 on, got Some(\"bytes 1000001-4194303/4194304\")"),
    },
    Scene {
        path: "/sick",
        story: "The server cuts every body. The policy would allow five requests, but the budget of\n  \
                the client is for the loop too, and there are two tokens in it.",
        attempts: 3,
        restarts: 0,
        tokens: (2, 0.0),
        error: Some("given up after 3000000 bytes"),
    },
];

async fn run() -> anyhow::Result<()> {
    let http = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(3))
        .read_timeout(Duration::from_secs(5)) // the server's silence, not the whole download
        .no_gzip() // ranges count the bytes on the wire
        .no_proxy() // loopback needs none
        .build()?;
    let server = Server::start().await?;
    let directory = tempfile::tempdir()?;
    let mut failed = 0;
    for scene in &SCENES {
        failed += play(&http, &server, scene, &directory.path().join("file")).await?;
    }
    anyhow::ensure!(failed == 0, "{failed} of {} did not go as described", SCENES.len());
    println!("All {} went as described.", SCENES.len());
    Ok(())
}

/// Downloads a file, tells what happened, and counts 1 if that is not what should have.
async fn play(
    http: &reqwest::Client,
    server: &Server,
    scene: &Scene,
    file: &Path,
) -> anyhow::Result<u32> {
    println!("{}\n  {}", scene.path, scene.story);
    let url = format!("http://{}{}", server.address, scene.path);
    let policy = RetryPolicy::builder()
        .max_attempts(5)
        .backoff(Backoff::exponential(Duration::from_millis(50), Duration::from_millis(200))?)
        .build()?;
    // A client has a budget of its own anyhow. This one is looked at.
    let (tokens, left) = scene.tokens;
    let budget = RetryBudget::builder().capacity(tokens).build()?;
    let retry = RetryMiddleware::builder(RetryPolicy::default()).budget(budget.clone()).build()?;
    let client = ClientBuilder::new(http.clone()).with(retry).build();
    let style = ProgressStyle::with_template("  {bar:50} {bytes} of {total_bytes}")?;
    let bar = ProgressBar::no_length().with_style(style); // drawn only if stderr is a terminal
    let result = download(&client, &url, file, policy, |download| show(&bar, download)).await;
    bar.finish_and_clear();

    let log = server.log(scene.path).await;
    for (number, line) in (1..).zip(&log) {
        println!("  request {number}: {line}");
    }
    let mut wrong = Vec::new();
    let mut check = |what, holds: bool| wrong.extend((!holds).then_some(what));
    check("requests that the server saw", log.len() == scene.attempts);
    let level = budget.level(&url.parse()?);
    println!("  resends left in the budget: {level} of {tokens}");
    check("resends left in the budget", level == left);
    check("success or failure", result.is_ok() == scene.error.is_none());
    match result {
        Ok(download) => {
            let Download { received, attempts, cuts, restarts, .. } = download;
            println!(
                "  end: {received} bytes; attempts: {attempts}, cuts: {cuts}, restarts: {restarts}"
            );
            let ours = digest(&tokio::fs::read(file).await?);
            println!("  checksum of the file: {ours}");
            let theirs = download.digest.as_ref().and_then(|field| field.to_str().ok());
            let mut theirs = theirs.unwrap_or_default().split(',').map(str::trim);
            check("checksum, as the server has it", theirs.any(|theirs| theirs == ours));
            check("count of attempts", usize::try_from(attempts)? == scene.attempts);
            check("restarts", restarts == scene.restarts);
        }
        Err(error) => {
            let error = format!("{error:#}");
            println!("  end: {error}");
            check("error", scene.error.is_some_and(|start| error.starts_with(start)));
        }
    }
    if wrong.is_empty() {
        println!("  ok\n");
        return Ok(0);
    }
    println!("  FAILED: {}\n", wrong.join(", "));
    Ok(1)
}

fn show(bar: &ProgressBar, download: &Download) {
    if let Some(total) = download.total {
        bar.set_length(total);
    }
    bar.set_position(download.received);
}
