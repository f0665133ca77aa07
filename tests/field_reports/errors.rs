//! Sections E and P: which errors are worth another send. What takes one server a fault is in
//! `tests/wire_faults` (F057, F059, F063, F067, F069, F151); by type alone in `tests/fault_kinds.rs`
//! (F061, F062); nesting in `tests/adapter.rs` (F066).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{DeliveryProof, RetryMiddleware};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use wiremock::{Mock, MockServer, matchers};

use crate::support::{client, no_waits, reply};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Reads one request without a body, or with one that comes together with its head.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return false;
        }
    }
    true
}

// F058
#[tokio::test]
async fn a_kept_alive_connection_that_dies_under_a_request_costs_a_get_nothing_but_a_resend() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Each connection answers its first request only: the second one finds it closed.
            for answered in [true, false] {
                if !read_request(&mut stream).await {
                    break;
                }
                count.fetch_add(1, Ordering::SeqCst);
                if answered {
                    stream.write_all(OK).await.unwrap();
                }
            }
        }
    });
    let client = client(no_waits());
    for _ in 0..2 {
        assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    }
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

// F152
#[tokio::test]
async fn a_post_after_the_server_closed_an_idle_connection_is_sent_once_and_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (closed, idle_is_over) = oneshot::channel();
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        assert!(read_request(&mut first).await);
        first.write_all(OK).await.unwrap();
        first.shutdown().await.unwrap();
        // The client has seen the end once it closes its own side.
        assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0);
        closed.send(()).unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        assert!(read_request(&mut second).await);
        second.write_all(OK).await.unwrap();
        second.shutdown().await.unwrap();
        read_request(&mut second).await
    });
    let client = client(no_waits());
    assert_eq!(client.post(&url).body("first").send().await.unwrap().status(), 200);
    idle_is_over.await.unwrap();
    assert_eq!(client.post(&url).body("second").send().await.unwrap().status(), 200);
    assert!(!server.await.unwrap(), "there was a third request");
}

// F064
#[tokio::test]
async fn a_graceful_goaway_on_the_first_stream_is_ridden_out_on_a_new_connection() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY_NO_ERROR_LAST_0: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const OK_END_OF_STREAM_1: [u8; 10] = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];
    /// Until the HEADERS of the request.
    async fn read_head(stream: &mut TcpStream) -> std::io::Result<()> {
        stream.read_exact(&mut [0; 24]).await?; // the preface
        stream.write_all(&SETTINGS).await?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            stream.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).await?;
            if head[3] == 1 {
                return Ok(());
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        for answer in [&GOAWAY_NO_ERROR_LAST_0[..], &OK_END_OF_STREAM_1] {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
            stream.write_all(answer).await.unwrap();
        }
    });
    // The observer takes the place of reqwest's own resends, which would ride it out below us.
    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge();
    let (http, proof) = DeliveryProof::build(http).unwrap();
    let retry = RetryMiddleware::builder(no_waits().build().unwrap()).delivery_proof(proof);
    let client = ClientBuilder::new(http).with(retry.build().unwrap()).build();
    let response = client.get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    server.await.unwrap();
}

// F071
#[tokio::test]
async fn a_failure_behind_a_redirect_starts_again_at_the_url_of_the_request() {
    let server = MockServer::start().await;
    let moved = reply(302).insert_header("location", "/store");
    Mock::given(matchers::path("/item")).respond_with(moved).expect(2).mount(&server).await;
    let store = || Mock::given(matchers::path("/store"));
    store().respond_with(reply(500)).up_to_n_times(1).expect(1).mount(&server).await;
    store().respond_with(reply(200)).expect(1).mount(&server).await;
    let response = client(no_waits()).get(format!("{}/item", server.uri())).send().await;
    assert_eq!(response.unwrap().status(), 200);
    server.verify().await;
}
