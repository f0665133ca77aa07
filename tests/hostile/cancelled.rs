//! Thousands of calls that are cancelled or dropped at once, at every stage: all end, and nothing is left.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use allocation_counter::measure;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::poll;
use http::{Extensions, StatusCode};
use hyper::body::{Body as HttpBody, Frame};
use reqwest::{Body, Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::{
    Backoff, Cooldown, ReplayBody, RetryBudget, RetryRequestExt as _, RetryScope, ServerDelays,
    StopReason,
};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{Back, End, chain, end, http, ms, policy, retrying, run};

/// Calls of each stage.
const CALLS: usize = 1_000;

/// Every wait.
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Held back by a cooldown, before anything is sent.
    HeldBack,
    /// The factory makes the body.
    MakingBody,
    /// The request is sent, and not answered.
    Sending,
    /// The answer is a 503 whose body is being read.
    Draining,
    /// Nothing is left but the wait for the resend.
    Waiting,
}

impl Stage {
    const ALL: [Self; 5] =
        [Self::HeldBack, Self::MakingBody, Self::Sending, Self::Draining, Self::Waiting];

    fn url(self) -> String {
        format!("http://{self:?}.test/")
    }
}

/// A final middleware that does to each request what its stage takes.
#[derive(Clone)]
struct Upstream {
    arrived: Arc<AtomicUsize>,
    /// Bodies and answers that somebody holds.
    held: Arc<()>,
    released: watch::Receiver<bool>,
}

#[async_trait]
impl Middleware for Upstream {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        let held = self.held.clone();
        let body = match request.url().host_str().unwrap() {
            "sending.test" => {
                self.released.clone().wait_for(|released| *released).await.unwrap();
                Body::from("")
            }
            "draining.test" => Body::wrap(Silent { held, begun: false }),
            _ => Body::from(""),
        };
        let response = http::Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
        let response = match request.url().path() {
            "/closes" => response.header("retry-after", 3_000),
            _ => response,
        };
        Ok(response.body(body).unwrap().into())
    }
}

/// A byte, and then nothing.
struct Silent {
    #[expect(dead_code, reason = "only its life counts")]
    held: Arc<()>,
    begun: bool,
}

impl HttpBody for Silent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if std::mem::replace(&mut self.begun, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

struct World {
    client: ClientWithMiddleware,
    budget: RetryBudget,
    upstream: Upstream,
    release: watch::Sender<bool>,
}

/// A whole round, the same each time.
async fn round(world: &World, drops: bool) -> BTreeMap<(Stage, String), usize> {
    let World { client, budget, upstream, release } = world;
    release.send_replace(false);
    let (before, tasks_before) = (upstream.arrived.load(Ordering::SeqCst), tasks());
    let held_before = Arc::strong_count(&upstream.held);
    let closes = format!("{}closes", Stage::HeldBack.url());
    client.post(closes).send().await.unwrap();

    let token = CancellationToken::new();
    let mut calls = Vec::new();
    for stage in Stage::ALL {
        for _ in 0..CALLS {
            let request = client.get(stage.url());
            let request = match stage {
                Stage::MakingBody => {
                    let (held, released) = (upstream.held.clone(), upstream.released.clone());
                    request.body_factory(move || {
                        let held = held.clone();
                        let mut released = released.clone();
                        async move {
                            released.wait_for(|released| *released).await.unwrap();
                            drop(held);
                            Ok(ReplayBody::new(""))
                        }
                    })
                }
                _ => request,
            };
            let scope = RetryScope::new().cancel_on(token.clone());
            calls.push(Box::pin(scope.run(async move { (stage, end(request).await) })));
        }
    }
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    advance(ms(10)).await;
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    let sent = before + 1 + 3 * CALLS;
    assert_eq!(upstream.arrived.load(Ordering::SeqCst), sent, "sending, draining, waiting");
    assert_eq!(tasks(), tasks_before, "a call is no task");

    let mut ends = BTreeMap::new();
    if drops {
        drop(calls);
    } else {
        token.cancel();
        release.send_replace(true);
        for (stage, end) in join_all(calls).await {
            assert!(end.after <= ms(20), "{stage:?}: {end:?}");
            let shown = format!("{:?} after {} attempts, {}", end.back, end.attempts, end.stop);
            *ends.entry((stage, shown)).or_default() += 1;
        }
    }
    assert_eq!(Arc::strong_count(&upstream.held), held_before, "nobody holds a body");
    for stage in Stage::ALL {
        assert_eq!(budget.level(&stage.url().parse().unwrap()), 100_000.0, "{stage:?}");
    }
    assert_eq!(budget.sick_origins(), 0, "all tokens are back, and not by the time");
    // For long enough that every wait would be over.
    advance(2 * HOUR).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(upstream.arrived.load(Ordering::SeqCst), sent, "nothing is sent any more");
    assert_eq!(tasks(), tasks_before);
    ends
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

fn expected() -> BTreeMap<(Stage, String), usize> {
    let rows = [
        (Stage::HeldBack, "Cancelled after 0 attempts, cancelled"),
        (Stage::MakingBody, "Cancelled after 1 attempts, cancelled"),
        (Stage::Sending, "Status(503) after 1 attempts, cancelled"),
        (Stage::Draining, "Status(503) after 1 attempts, cancelled"),
        (Stage::Waiting, "Status(503) after 1 attempts, cancelled"),
    ];
    rows.map(|(stage, shown)| ((stage, shown.to_owned()), CALLS)).into()
}

#[test]
fn nothing_is_left_of_thousands_of_calls_at_every_stage() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
    let world = runtime.block_on(async {
        let (release, released) = watch::channel(false);
        let upstream = Upstream { arrived: Arc::default(), held: Arc::default(), released };
        let budget = RetryBudget::builder().capacity(100_000).build().unwrap();
        let policy =
            policy().backoff(Backoff::constant(HOUR)).server_delays(ServerDelays::UpTo(HOUR));
        let policy = policy.deadline(Duration::MAX);
        let retry = retrying(policy).budget(budget.clone()).cooldown(Cooldown::by_origin());
        let client = ClientBuilder::new(Client::new())
            .with(retry.build().unwrap())
            .with(upstream.clone())
            .build();
        World { client, budget, upstream, release }
    });
    for drops in [true, false] {
        // What is made once and stays is made in the first round.
        for is_first in [true, false] {
            let mut ends = BTreeMap::new();
            let memory = measure(|| ends = runtime.block_on(round(&world, drops)));
            println!("drops: {drops}, {ends:?}");
            assert_eq!(ends, if drops { BTreeMap::new() } else { expected() });
            let (left, most) = (memory.bytes_current, memory.bytes_max);
            println!("{left} bytes left of {most}, {} a call", most / 5 / CALLS as u64);
            drop(ends);
            assert!(is_first || left < 16_384, "{left} bytes left");
        }
    }
}

/// The same over sockets: the server, which is asked to go on sending its body, sees no request after the calls are
/// gone, and its connections end.
#[test]
fn no_server_sees_a_request_of_a_call_that_is_gone() {
    const CALLS: usize = 100;
    const WAIT: Duration = Duration::from_secs(600);
    for drops in [true, false] {
        let clock = Clock::until_the_server_says();
        let server = Server::start(&clock, async |mut it: Connection| {
            loop {
                it.read_request().await?;
                let head = "HTTP/1.1 503 a\r\ncontent-length: 10\r\n\r\nhalf";
                it.write(head).await?;
            }
        });
        let (ends, _) = run(&clock, async {
            let token = CancellationToken::new();
            let policy = policy().backoff(Backoff::constant(WAIT));
            let client = chain(http(), retrying(policy), &clock);
            let calls = (0..CALLS).map(|_| {
                let call = end(client.get(server.url()));
                tokio::spawn(RetryScope::new().cancel_on(token.clone()).run(call))
            });
            let calls: Vec<_> = calls.collect();
            let began = Instant::now();
            while server.seen().requests < CALLS && began.elapsed() < Duration::from_secs(30) {
                tokio::task::yield_now().await;
            }
            // Some wait, some drain, some have not seen their answers.
            let mut ends = Vec::new();
            if drops {
                calls.iter().for_each(tokio::task::JoinHandle::abort);
            } else {
                token.cancel();
                for call in calls {
                    ends.push(call.await.unwrap());
                }
            }
            clock.pass();
            tokio::time::sleep(2 * WAIT).await;
            ends
        });
        let seen = server.finish();
        println!("{seen:?}");
        assert_eq!((seen.requests, seen.connections), (CALLS, CALLS));
        assert_eq!(ends.len(), if drops { 0 } else { CALLS });
        for end in ends {
            // What was read of a body that did not come in time is lost.
            assert!(matches!(end.back, Back::Status(503) | Back::Cancelled), "{end:?}");
            let expected = End { attempts: 1, stop: StopReason::Cancelled, after: ms(0), ..end };
            assert_eq!(end, expected);
        }
    }
}
