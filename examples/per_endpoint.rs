//! One client, three services, three sets of rules, all of them from a settings file.
//!
//! What it shows: the rules of `per_endpoint.toml`, next to this file, as the client understands them (`explain`);
//! then five calls, none of which knows anything of retries, and what happened to each:
//!
//! - a **charge** (POST), which takes effect at the first send, whose answer gets lost in a gateway (502), and which
//!   the service calls unfinished at the second (409): it is sent again with the same key, and takes effect once;
//! - a **search** (POST), which meets a rate limit and waits for as long as the service says;
//! - a **package**, which the scanner of its server has to look at first;
//! - a **note** to the payment service, a POST that is no charge: the client's own rules hold, so it is sent once;
//! - the **health** of the search service, which asks for one attempt itself.
//!
//! The services are in this file and listen on loopback ports that the system picks.
//!
//! Run it: `cargo run --example per_endpoint`. It ends by itself in a second; the exit code is 0 only if all went as
//! described. Some of what it prints:
//!
//! ```text
//! charge: 201 Created
//!   attempt 1: status 502; retry in 27.34ms (set by the backoff): status 502
//!   attempt 2 after 30.88ms: status 409; retry in 99.27ms (set by the backoff): status 409
//!   attempt 3 after 132.72ms: status 201; stop: completed
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_typed_retry::{
    AttemptRecord, RetryHistory, RetryMiddleware, RetryRequestExt as _, RetrySettings, RetryTracker,
};
use tokio::net::TcpListener;

const SETTINGS: &str = include_str!("per_endpoint.toml");

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

/// The services have names; here all of them are on the loopback.
fn client(services: &Services) -> anyhow::Result<ClientWithMiddleware> {
    let settings: RetrySettings = toml::from_str(SETTINGS)?;
    let retry = RetryMiddleware::from_settings(&settings)?;
    println!("{}", retry.explain());
    let mut http = reqwest::Client::builder().no_proxy();
    for (host, address) in &services.addresses {
        http = http.resolve(host, *address);
    }
    Ok(ClientBuilder::new(http.build()?).with(retry).build())
}

async fn calls(client: &ClientWithMiddleware, services: &Services) -> anyhow::Result<()> {
    let charge = client.post(services.url("payments.test", "/v1/charges")).body("9.99 EUR");
    let charge = call("charge", charge).await?;
    ensure!(charge.status == StatusCode::CREATED && charge.history.attempts().len() == 3);
    let charges = lock(&services.charges).len();
    println!("  charges at the service: {charges}\n");
    ensure!(charges == 1, "the charge took effect {charges} times");

    let search = client.post(services.url("search.test", "/v1/search")).body("rust");
    let search = call("search", search).await?;
    ensure!(search.status == StatusCode::OK && search.history.attempts().len() == 2);
    let asked = search.history.attempts().first().and_then(AttemptRecord::server_delay);
    ensure!(asked == Some(Duration::from_millis(150)), "{asked:?}");

    let package = client.get(services.url("eu.packages.test", "/pkg/serde"));
    let package = call("package", package).await?;
    ensure!(package.status == StatusCode::OK && package.history.attempts().len() == 4);

    let note = client.post(services.url("payments.test", "/v1/notes")).body("thanks");
    let note = call("note", note).await?;
    ensure!(note.status == StatusCode::SERVICE_UNAVAILABLE && note.history.attempts().len() == 1);

    let health = client.get(services.url("search.test", "/health")).no_retry();
    let health = call("health", health).await?;
    ensure!(health.status == StatusCode::SERVICE_UNAVAILABLE);
    ensure!(health.history.attempts().len() == 1);
    Ok(())
}

struct Ended {
    status: StatusCode,
    history: RetryHistory,
}

/// A call as any other; the tracker is there to print what happened.
async fn call(what: &str, request: RequestBuilder) -> anyhow::Result<Ended> {
    let tracker = RetryTracker::new();
    let response = request.with_extension(tracker.clone()).send().await?;
    let history = tracker.history().context("the client has no retry layer")?;
    println!("{what}: {}", response.status());
    for attempt in history.attempts() {
        println!("  {attempt}");
    }
    println!();
    Ok(Ended { status: response.status(), history })
}

// What stands in for the services.

#[derive(Default)]
struct Services {
    addresses: HashMap<&'static str, SocketAddr>,
    /// What was charged, by key.
    charges: Arc<Mutex<HashMap<String, usize>>>,
}

impl Services {
    fn url(&self, host: &str, path: &str) -> String {
        let port = self.addresses.get(host).map_or(0, SocketAddr::port);
        format!("http://{host}:{port}{path}")
    }

    async fn serve(&mut self, host: &'static str, router: Router) -> anyhow::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        self.addresses.insert(host, listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(())
    }
}

/// Charges once for each key. The first answer gets lost in a gateway, the second says that it is not done yet.
async fn charge(
    State(charges): State<Arc<Mutex<HashMap<String, usize>>>>,
    headers: HeaderMap,
) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mut charges = lock(&charges);
    let sends = charges.entry(key.to_owned()).or_default();
    *sends += 1;
    match *sends {
        1 => StatusCode::BAD_GATEWAY.into_response(),
        2 => StatusCode::CONFLICT.into_response(),
        _ => StatusCode::CREATED.into_response(),
    }
}

/// How often it was asked, so far.
type Count = Arc<Mutex<u32>>;

async fn search(State(count): State<Count>) -> Response {
    match next(&count) {
        1 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after-ms", "150")]).into_response(),
        _ => "1,234 results".into_response(),
    }
}

/// Two times it is still being looked at, then it is cut, then it is whole.
async fn package(State(count): State<Count>) -> Response {
    match next(&count) {
        1 | 2 => StatusCode::FORBIDDEN.into_response(),
        3 => {
            let cut = [Ok("half of a pack"), Err(std::io::Error::other("cut"))];
            Body::from_stream(futures_util::stream::iter(cut)).into_response()
        }
        _ => "a whole package".into_response(),
    }
}

fn next(count: &Count) -> u32 {
    let mut count = lock(count);
    *count += 1;
    *count
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn run() -> anyhow::Result<()> {
    let unavailable = || async { StatusCode::SERVICE_UNAVAILABLE };
    let mut services = Services::default();
    let payments = Router::new()
        .route("/v1/charges", post(charge))
        .with_state(services.charges.clone())
        .route("/v1/notes", post(unavailable));
    services.serve("payments.test", payments).await?;
    let searches = Router::new()
        .route("/v1/search", post(search))
        .with_state(Count::default())
        .route("/health", get(unavailable));
    services.serve("search.test", searches).await?;
    let packages = Router::new().route("/pkg/{name}", get(package)).with_state(Count::default());
    services.serve("eu.packages.test", packages).await?;
    calls(&client(&services)?, &services).await
}
