//! A service whose requests have a time limit, and end when nobody waits for them any more.
//!
//! What it shows: the service (axum) makes a page of what two upstreams say: the price, whose server fails every
//! other time, and the reviews, whose server is sick and asks for 20 s. Every request to it runs in a `RetryScope`:
//! the limits reach both calls, and the function that makes them knows nothing of it. Two clients want the page:
//!
//! - one in 10 s: the service does not wait for the reviews, and the page comes without them;
//! - one in a minute, so that the service does wait; but then the client goes away.
//!
//! All servers are in this file and listen on loopback ports that the system picks.
//!
//! Run it: `cargo run --example request_scope`. It ends by itself in a second; the exit code is 0 only if all went as
//! described. Some of what it prints:
//!
//! ```text
//! A client that wants the page in 10 s
//!   20 s are too long to wait for the reviews: the page comes without them.
//!   page: 9.99; no reviews
//!   the call for reviews ended after 933.0µs: deadline_would_pass
//! ```

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{RetryMiddleware, RetryPolicy, RetryScope, RetryTracker, StopReason};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

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

// What an application does: the service.

#[derive(Clone)]
struct Service {
    client: ClientWithMiddleware,
    prices: String,
    reviews: String,
    /// For this example only: how the calls for reviews ended.
    log: mpsc::UnboundedSender<CallEnd>,
}

async fn page(State(service): State<Service>, headers: HeaderMap) -> Response {
    // Dropped with this function's future: by axum, when the client goes away.
    let gone = CancellationToken::new();
    let _guard = gone.clone().drop_guard();
    RetryScope::new()
        .deadline_in(time_limit(&headers))
        .cancel_on(gone)
        .run(make_page(service))
        .await
}

fn time_limit(headers: &HeaderMap) -> Duration {
    let seconds = headers.get("x-time-limit").and_then(|seconds| seconds.to_str().ok());
    Duration::from_secs(seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(5))
}

async fn make_page(service: Service) -> Response {
    // A task of its own inherits nothing, and no drop reaches it: it has to take the scope along.
    let reviews = tokio::spawn(RetryScope::carry(reviews(service.clone())));
    let price = text(service.client.get(&service.prices)).await;
    let reviews = reviews.await.ok().flatten();
    match price {
        Ok(price) => {
            format!("{price}; {}", reviews.as_deref().unwrap_or("no reviews")).into_response()
        }
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// A page can do without them.
async fn reviews(service: Service) -> Option<String> {
    let (tracker, started) = (RetryTracker::new(), Instant::now());
    let request = service.client.get(&service.reviews).with_extension(tracker.clone());
    let reviews = text(request).await.ok();
    let history = tracker.history();
    let stop = history.as_ref().map(|history| history.stop_reason());
    let _ = service.log.send(CallEnd { stop, after: started.elapsed() }); // for the example's end
    reviews
}

async fn text(request: reqwest_middleware::RequestBuilder) -> reqwest_middleware::Result<String> {
    Ok(request.send().await?.error_for_status()?.text().await?)
}

// What shows that it works: two upstreams, two clients.

struct CallEnd {
    stop: Option<StopReason>,
    after: Duration,
}

/// How many requests an upstream has had.
#[derive(Clone)]
struct Count(watch::Sender<usize>);

impl Count {
    fn add(&self) -> usize {
        self.0.send_modify(|count| *count += 1);
        *self.0.borrow()
    }

    fn get(&self) -> usize {
        *self.0.borrow()
    }

    async fn reaches(&self, count: usize) -> anyhow::Result<()> {
        self.0.subscribe().wait_for(|now| *now >= count).await?;
        Ok(())
    }
}

/// Every other request fails.
async fn price(State(count): State<Count>) -> Response {
    match count.add() % 2 {
        1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => "9.99".into_response(),
    }
}

/// Every request is told to come back in 20 s.
async fn sick(State(count): State<Count>) -> Response {
    count.add();
    (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "20")]).into_response()
}

async fn start(router: Router) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?; // the system picks the port
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn run() -> anyhow::Result<()> {
    let (prices, reviews) = (Count(watch::Sender::new(0)), Count(watch::Sender::new(0)));
    let prices_at = start(Router::new().route("/", get(price)).with_state(prices.clone())).await?;
    let reviews_at = start(Router::new().route("/", get(sick)).with_state(reviews.clone())).await?;

    let policy = RetryPolicy::builder().attempt_timeout(Duration::from_secs(5)).build()?;
    let http = reqwest::Client::builder().no_proxy().build()?; // loopback needs no proxy
    let client = ClientBuilder::new(http.clone()).with(RetryMiddleware::new(policy)).build();
    let (log, mut ends) = mpsc::unbounded_channel();
    let (prices_url, reviews_url) =
        (format!("http://{prices_at}/"), format!("http://{reviews_at}/"));
    let service = Service { client, prices: prices_url, reviews: reviews_url, log };
    let service_at = start(Router::new().route("/", get(page)).with_state(service)).await?;
    let page =
        |seconds| http.get(format!("http://{service_at}/")).header("x-time-limit", seconds).send();

    println!("A client that wants the page in 10 s");
    println!("  20 s are too long to wait for the reviews: the page comes without them.");
    let page_in_10 = page("10").await?.error_for_status()?.text().await?;
    println!("  page: {page_in_10}");
    let end = ends.recv().await.context("the call for reviews has no end")?;
    report(&end, &prices, &reviews);
    anyhow::ensure!(page_in_10 == "9.99; no reviews", "another page");
    anyhow::ensure!(end.stop == Some(StopReason::DeadlineWouldPass), "another reason to stop");
    anyhow::ensure!((prices.get(), reviews.get()) == (2, 1), "another number of requests");

    println!("A client that wants the page in a minute, and goes away");
    println!("  There is time to wait for the reviews, but nobody to show them to.");
    let patience = async {
        reviews.reaches(2).await?;
        tokio::time::sleep(Duration::from_millis(300)).await; // by now the service waits
        anyhow::Ok(())
    };
    tokio::select! {
        _ = page("60") => anyhow::bail!("the page came without a wait"),
        gone = patience => gone?, // the request is dropped here, and its connection with it
    }
    let end = ends.recv().await.context("the call for reviews has no end")?;
    report(&end, &prices, &reviews);
    anyhow::ensure!(end.stop == Some(StopReason::Cancelled), "another reason to stop");
    anyhow::ensure!(reviews.get() == 2, "another number of requests");
    println!("All went as described.");
    Ok(())
}

fn report(end: &CallEnd, prices: &Count, reviews: &Count) {
    let stop = end.stop.map(|stop| stop.to_string()).unwrap_or_default();
    println!("  the call for reviews ended after {:.1?}: {stop}", end.after);
    println!("  requests so far: {} for prices, {} for reviews\n", prices.get(), reviews.get());
}
