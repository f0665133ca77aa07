//! Against a server on a socket, counted there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{
    Backoff, Cooldown, RetryMiddleware, RetryMiddlewareBuilder, RetryPolicy, RetryScope,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::ms;

/// Answers 503 as long as it is sick, on as many connections as there are.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<Instant>>>,
    /// How many more requests it refuses.
    sick: Arc<AtomicUsize>,
}

const FOR_EVER: usize = usize::MAX / 2;

impl Server {
    async fn start(sick: usize, retry_after: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = Self { url, requests: Arc::default(), sick: Arc::new(AtomicUsize::new(sick)) };
        let (requests, sick) = (server.requests.clone(), server.sick.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, requests.clone(), sick.clone(), retry_after));
            }
        });
        server
    }

    async fn count(&self) -> usize {
        self.requests.lock().await.len()
    }
}

async fn serve(
    mut stream: TcpStream,
    requests: Arc<Mutex<Vec<Instant>>>,
    sick: Arc<AtomicUsize>,
    retry_after: &'static str,
) {
    let mut unread = Vec::new();
    while stream.read_buf(&mut unread).await.is_ok_and(|count| count > 0) {
        // Requests without a body, and one at a time.
        let Some(end) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        unread.drain(..end + 4);
        requests.lock().await.push(Instant::now());
        let is_sick = sick
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        let head = if is_sick { "503 Service Unavailable" } else { "200 OK" };
        let retry_after = if is_sick { retry_after } else { "" };
        let response = format!("HTTP/1.1 {head}\r\n{retry_after}content-length: 0\r\n\r\n");
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn client(
    attempts: u32,
    with: impl FnOnce(RetryMiddlewareBuilder) -> RetryMiddlewareBuilder,
) -> ClientWithMiddleware {
    let policy = RetryPolicy::builder()
        .max_attempts(attempts)
        .backoff(Backoff::constant(ms(1)))
        .deadline(ms(60_000))
        .build()
        .unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let retry = with(RetryMiddleware::builder(policy)).build().unwrap();
    ClientBuilder::new(http).with(retry).build()
}

/// How many of so many calls, 20 at a time, bring a 200.
async fn successes(client: &ClientWithMiddleware, server: &Server, calls: usize) -> usize {
    stream::iter(0..calls)
        .map(|_| async { client.get(&server.url).send().await.unwrap().status() == 200 })
        .buffer_unordered(20)
        .filter(|is_success| std::future::ready(*is_success))
        .count()
        .await
}

#[tokio::test]
async fn an_outage_reaches_a_server_at_most_1_1_times() {
    let server = Server::start(FOR_EVER, "").await;
    // The usual settings of others, and the default.
    for attempts in [4, 3] {
        let before = server.count().await;
        let started = Instant::now();
        assert_eq!(successes(&client(attempts, |retry| retry), &server, 2_000).await, 0);
        let sends = server.count().await - before;
        println!("{attempts} attempts: 2000 requests, {sends} sends, {:?}", started.elapsed());
        // A bucket for each whole minute, should the machine be that slow.
        let minutes = usize::try_from(started.elapsed().as_secs() / 60).unwrap();
        assert!(sends >= 2_100 && sends <= 2_100 + 100 * minutes, "{sends}");
    }
    let before = server.count().await;
    successes(&client(4, |retry| retry.without_budget()), &server, 300).await;
    assert_eq!(server.count().await - before, 1_200, "without a budget");
}

#[tokio::test]
async fn after_the_outage_retries_work_again() {
    let server = Server::start(FOR_EVER, "").await;
    let client = client(3, |retry| retry);
    successes(&client, &server, 500).await;
    let sends = server.count().await;
    assert_eq!(successes(&client, &server, 1).await, 0);
    assert!(server.count().await <= sends + 3);

    server.sick.store(0, Ordering::SeqCst);
    assert_eq!(successes(&client, &server, 100).await, 100);
    // Twenty resends' worth of answers.
    server.sick.store(10, Ordering::SeqCst);
    assert_eq!(successes(&client, &server, 10).await, 10);
}

#[tokio::test]
async fn while_an_origin_is_closed_it_is_sent_nothing() {
    let server = Server::start(1, "retry-after: 1\r\n").await;
    let client = client(3, |retry| retry.cooldown(Cooldown::by_origin()));
    // Learnt by a call that does not wait for itself.
    let once = RetryScope::new().policy(RetryPolicy::never());
    assert_eq!(once.run(client.get(&server.url).send()).await.unwrap().status(), 503);
    assert_eq!(successes(&client, &server, 50).await, 50);

    let requests = server.requests.lock().await;
    let (first, others) = requests.split_first().unwrap();
    assert_eq!(others.len(), 50);
    // By the server's clock: the client learnt of it later, and so waited longer.
    let waited = others.iter().map(|at| *at - *first).min().unwrap();
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
}
