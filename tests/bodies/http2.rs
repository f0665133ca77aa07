//! The drain over HTTP/2: a stream, not a connection, is what a discarded response holds.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{DrainLimits, RetryMiddleware};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::held_clock::{HeldClock, in_time};
use crate::support::{plain, waits};
use crate::watch::{Gone, Watch};

const ATTEMPTS: u32 = 5;
const KIB_64: usize = 64 * 1024;
const WAIT: Duration = Duration::from_millis(500);

/// When the server writes the body of a response.
#[derive(Clone, Debug)]
enum Bodies {
    /// Once the client has had the head.
    AfterTheHead(watch::Receiver<usize>),
    /// Never, but for the last response: it waits until the stream is reset.
    AfterAReset,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    resets: AtomicUsize,
}

async fn start(bodies: Bodies) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::<Counts>::default();
    let counted = counts.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counted.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(stream, bodies.clone(), counted.clone()));
        }
    });
    (address, counts)
}

async fn serve(stream: TcpStream, bodies: Bodies, counts: Arc<Counts>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    // Ends when the client leaves.
    while let Some(Ok((_, respond))) = connection.accept().await {
        tokio::spawn(answer(respond, bodies.clone(), counts.clone()));
    }
}

async fn answer(
    mut respond: h2::server::SendResponse<Bytes>,
    bodies: Bodies,
    counts: Arc<Counts>,
) -> io::Result<()> {
    let number = counts.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let mut stream = respond.send_response(head, false).map_err(io::Error::other)?;
    match bodies {
        Bodies::AfterTheHead(mut heads) => {
            heads.wait_for(|heads| *heads >= number).await.map_err(io::Error::other)?;
        }
        Bodies::AfterAReset if number < ATTEMPTS as usize => {
            poll_fn(|cx| stream.poll_reset(cx)).await.map_err(io::Error::other)?;
            counts.resets.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        Bodies::AfterAReset => {}
    }
    stream.send_data(vec![b'x'; KIB_64].into(), true).map_err(io::Error::other)
}

/// What becomes of the bodies of a call whose every attempt is busy.
async fn discarded(drain: DrainLimits) -> (Vec<Gone>, Arc<Counts>) {
    let watch = Watch::new();
    let bodies = match drain == DrainLimits::none() {
        true => Bodies::AfterAReset,
        false => Bodies::AfterTheHead(watch.heads()),
    };
    let (address, counts) = start(bodies).await;
    let policy = waits(WAIT).max_attempts(ATTEMPTS).build().unwrap();
    let retry = RetryMiddleware::builder(policy).drain(drain).build().unwrap();
    let http = plain().http2_prior_knowledge().build().unwrap();
    let client = ClientBuilder::new(http).with(retry).with(watch.clone()).build();
    let clock = HeldClock::hold();
    let call = async {
        let response = client.get(format!("http://{address}/")).send().await.unwrap();
        let discarded = watch.bodies();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.bytes().await.unwrap().len(), KIB_64, "the last one is whole");
        discarded
    };
    let discarded = tokio::select! {
        discarded = in_time(call) => discarded,
        () = clock.advance_with(watch.gone(), WAIT) => unreachable!(),
    };
    (discarded, counts)
}

#[tokio::test(start_paused = true)]
async fn one_connection_serves_every_attempt_and_no_stream_is_reset_before_its_end() {
    for (drain, ended, resets) in
        [(DrainLimits::default(), true, 0), (DrainLimits::none(), false, ATTEMPTS as usize - 1)]
    {
        let (discarded, counts) = discarded(drain).await;
        let waits = (0..ATTEMPTS - 1).map(|number| Gone { ended, at: number * WAIT });
        assert_eq!(discarded, waits.collect::<Vec<_>>(), "{drain:?}");
        assert_eq!(counts.connections.load(Ordering::SeqCst), 1, "{drain:?}");
        assert_eq!(counts.requests.load(Ordering::SeqCst), ATTEMPTS as usize, "{drain:?}");
        assert_eq!(counts.resets.load(Ordering::SeqCst), resets, "{drain:?}");
    }
}
