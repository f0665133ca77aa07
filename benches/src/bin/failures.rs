//! What a call costs that succeeds at its third attempt, after two 503 with bodies: time, memory and connections
//! opened, over HTTP/1.1 and HTTP/2 on loopback. Prints Markdown tables.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin failures [rounds]`
//!
//! - Bodies come whole, with their length; `in 2 parts` over HTTP/1.1 has 0.3 ms between them, so that a response
//!   that is dropped at once has not arrived.
//! - A round is 100 logical requests in a row with a client of its own, which therefore has no connection yet. The
//!   contenders take turns, and another begins in each round; what is printed is the median of all rounds.
//!   Where there is a wait a quarter of the rounds must do. Nothing depends on times.
//! - The client is on one thread, with all its connections, and only what this thread allocates is counted; the
//!   server is on another. The CPU time is that of the client's thread.
//! - Nobody has jitter, and nobody a budget but `ours, all on`: one that suffices. Waits are of tokio's timer, which
//!   rounds up to the next millisecond; where the wait is zero ours, tower and reqwest's own retry, which has no
//!   waits, do without it.
//! - Each logical request must end with a 200 after exactly three arrivals, or the run fails.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cpu_time::ThreadTime;
use peers::around::{self, Again};
use peers::contenders::all_on;
use peers::counting::{Counting, Memory};
use peers::numbers::{median, ratios};
use peers::servers::{Flaky, Protocol};
use peers::targets;
use reqwest::{Client, Method, Request, Response, StatusCode, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_typed_retry::{
    Backoff, Jitter, RetryBudget, RetryMiddleware, RetryPolicy, RetryPolicyBuilder,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tower::retry::Retry;
use tower::util::ServiceExt as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CALLS: usize = 100;
const ATTEMPTS: u32 = 3;
/// Of one turn; it takes much less.
const AT_MOST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    ReqwestRetry,
    Ours,
    /// With everything on, and a budget that suffices.
    OursAll,
    ReqwestsOwn,
    Backon,
    Tower,
}

impl Contender {
    const ALL: [Self; 6] = [
        Self::ReqwestRetry,
        Self::Ours,
        Self::OursAll,
        Self::ReqwestsOwn,
        Self::Backon,
        Self::Tower,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ReqwestRetry => "reqwest-retry",
            Self::Ours => "ours",
            Self::OursAll => "ours, all on",
            Self::ReqwestsOwn => "reqwest's own retry",
            Self::Backon => "backon around reqwest",
            Self::Tower => "tower around reqwest",
        }
    }

    fn caller(self, protocol: Protocol, wait: Duration) -> Result<Caller> {
        let http = Client::builder().no_proxy();
        let http = match protocol {
            Protocol::Http1 => http,
            Protocol::Http2 => http.http2_prior_knowledge(),
        };
        Ok(match self {
            Self::ReqwestRetry => {
                let backoff = ExponentialBackoff::builder()
                    .retry_bounds(wait, wait)
                    .jitter(reqwest_retry::Jitter::None)
                    .build_with_max_retries(ATTEMPTS - 1);
                chain(http.build()?, RetryTransientMiddleware::new_with_policy(backoff))
            }
            Self::Ours => {
                let retry = RetryMiddleware::builder(policy(wait).build()?);
                chain(http.build()?, retry.without_budget().build()?)
            }
            Self::OursAll => {
                let budget = RetryBudget::builder().capacity(1_000).build()?;
                chain(http.build()?, all_on(policy(wait))?.budget(budget).build()?)
            }
            Self::ReqwestsOwn => {
                let retry = around::reqwests_own(ATTEMPTS - 1).no_budget();
                Caller::Plain(http.retry(retry).build()?)
            }
            Self::Backon => Caller::Backon(http.build()?, wait),
            Self::Tower => Caller::Tower(around::tower(http.build()?, ATTEMPTS - 1, wait)),
        })
    }
}

fn policy(wait: Duration) -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .max_attempts(ATTEMPTS)
        .backoff(Backoff::constant(wait))
        .throttle_backoff(Backoff::constant(wait))
        .jitter(Jitter::None)
}

fn chain(http: Client, retry: impl Middleware) -> Caller {
    Caller::Chain(ClientBuilder::new(http).with(retry).build())
}

enum Caller {
    Chain(ClientWithMiddleware),
    Plain(Client),
    Backon(Client, Duration),
    Tower(Retry<Again, Client>),
}

impl Caller {
    async fn call(&self, request: Request) -> Result<Response> {
        Ok(match self {
            Self::Chain(client) => client.execute(request).await?,
            Self::Plain(client) => client.execute(request).await?,
            Self::Backon(client, wait) => {
                let retries = usize::try_from(ATTEMPTS - 1)?;
                around::backon(request, retries, *wait, |request| client.execute(request)).await?
            }
            Self::Tower(retry) => retry.clone().oneshot(request).await?,
        })
    }
}

struct Scene {
    protocol: Protocol,
    body: usize,
    /// The body's.
    parts: usize,
    wait: Duration,
}

/// One contender, round by round.
struct Cost {
    contender: Contender,
    /// Of a logical request.
    micros: Vec<f64>,
    /// Of a logical request.
    cpu_micros: Vec<f64>,
    /// Of a logical request.
    allocations: Vec<f64>,
    /// Of a logical request.
    bytes: Vec<f64>,
    /// Of all logical requests.
    connections: Vec<f64>,
}

impl Cost {
    fn round(&mut self, runtime: &Runtime, scene: &Scene, flaky: &Flaky) -> Result<()> {
        let caller = self.contender.caller(scene.protocol, scene.wait)?;
        let url = Url::parse(&flaky.server.url())?;
        let urls = (0..CALLS).map(|call| url.join(&call.to_string()));
        let urls = urls.collect::<std::result::Result<Vec<_>, _>>()?;
        let (connections, arrivals) = (flaky.server.connections(), flaky.arrivals());
        let (memory, time, cpu) = runtime.block_on(async {
            let all = async {
                for url in urls {
                    let response = caller.call(Request::new(Method::GET, url)).await?;
                    let status = response.status();
                    let length = response.bytes().await?.len();
                    if (status, length) != (StatusCode::OK, scene.body) {
                        return Err(format!("a call ended with {status}, {length} bytes").into());
                    }
                }
                Result::Ok(())
            };
            let (before, started, cpu) = (Memory::so_far(), Instant::now(), ThreadTime::now());
            timeout(AT_MOST, all).await??;
            Result::Ok((Memory::so_far() - before, started.elapsed(), cpu.elapsed()))
        })?;
        let arrivals = flaky.arrivals() - arrivals;
        if arrivals != CALLS * usize::try_from(ATTEMPTS)? {
            return Err(format!("{arrivals} requests arrived").into());
        }
        self.micros.push(time.as_secs_f64() * 1e6 / CALLS as f64);
        self.cpu_micros.push(cpu.as_secs_f64() * 1e6 / CALLS as f64);
        self.allocations.push(memory.allocations as f64 / CALLS as f64);
        self.bytes.push(memory.bytes as f64 / CALLS as f64);
        self.connections.push((flaky.server.connections() - connections) as f64);
        Ok(())
    }
}

fn report(scene: &Scene, costs: &[Cost]) -> Result<()> {
    let Scene { protocol, body, parts, wait } = scene;
    let in_parts = if *parts > 1 { format!(" in {parts} parts") } else { String::new() };
    println!("\n### {protocol:?}, bodies of {body} bytes{in_parts}, a wait of {wait:?}\n");
    println!(
        "| | µs | to reqwest-retry | µs of CPU | to reqwest-retry | allocations | to reqwest-retry | \
         bytes | to reqwest-retry | connections for {CALLS} logical requests |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let peer = costs.first().ok_or("nobody was measured")?;
    let middle = |numbers: &[f64]| median(numbers.iter().copied());
    for cost in costs {
        println!(
            "| {} | {:.0} | {:.2} | {:.0} | {:.2} | {:.1} | {:.2} | {:.0} | {:.2} | {} |",
            cost.contender.name(),
            middle(&cost.micros),
            median(ratios(&cost.micros, &peer.micros)),
            middle(&cost.cpu_micros),
            median(ratios(&cost.cpu_micros, &peer.cpu_micros)),
            middle(&cost.allocations),
            middle(&cost.allocations) / middle(&peer.allocations),
            middle(&cost.bytes),
            middle(&cost.bytes) / middle(&peer.bytes),
            middle(&cost.connections),
        );
    }
    // Over HTTP/2, and where bodies are small, nobody opens more than one.
    if (*protocol, *body) == (Protocol::Http1, 64 << 10) {
        let ours = costs.iter().find(|cost| cost.contender == Contender::Ours);
        let ours = middle(&ours.ok_or("ours was not measured")?.connections);
        let peers = middle(&peer.connections);
        println!();
        targets::print(
            &format!(
                "ours: connections for {CALLS} calls that fail twice, bodies of 64 KiB{in_parts}, a wait of {wait:?}"
            ),
            "1",
            &format!("{ours} where reqwest-retry opens {peers}"),
            ours <= 1.0,
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>());
    let rounds = numbers.next().transpose()?.unwrap_or(8).max(1);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let with_wait = rounds.div_ceil(4);
    println!(
        "{rounds} rounds of {CALLS} logical requests of {ATTEMPTS} attempts, {with_wait} where there is a wait."
    );
    for wait in [Duration::ZERO, Duration::from_millis(2)] {
        let rounds = if wait.is_zero() { rounds } else { with_wait };
        for protocol in [Protocol::Http1, Protocol::Http2] {
            for (body, parts) in [(100, 1), (64 << 10, 1), (64 << 10, 2)] {
                if parts > 1 && protocol == Protocol::Http2 {
                    continue; // No connection hangs on it.
                }
                let scene = Scene { protocol, body, parts, wait };
                let part = Bytes::from(vec![b'x'; body / parts]);
                let flaky = Flaky::start(protocol, vec![part; parts])?;
                let takes_part = |contender: &Contender| {
                    // It has no waits.
                    *contender != Contender::ReqwestsOwn || wait.is_zero()
                };
                let new = |contender| Cost {
                    contender,
                    micros: Vec::new(),
                    cpu_micros: Vec::new(),
                    allocations: Vec::new(),
                    bytes: Vec::new(),
                    connections: Vec::new(),
                };
                let contenders = Contender::ALL.into_iter().filter(takes_part);
                let mut costs = contenders.map(new).collect::<Vec<_>>();
                for round in 0..rounds {
                    for turn in 0..costs.len() {
                        let which = (round + turn) % costs.len();
                        costs[which].round(&runtime, &scene, &flaky)?;
                    }
                }
                report(&scene, &costs)?;
            }
        }
    }
    Ok(())
}
