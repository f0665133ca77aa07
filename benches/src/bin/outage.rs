//! What an outage costs the server: the sends that reach an origin which answers 503 to everything. Prints a
//! Markdown table; only reqwest's own retry, which sits below any middleware, goes over the network: loopback.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin outage [requests]`
//!
//! - All waits are zero, so that it takes no minutes; a budget depends on the number of resends, and ours is not
//!   refilled before 60 s. It is a fixed number of resends: with more requests the ratio is smaller.
//! - Counted by the last middleware, or by the server: 8 requests at a time, and all of them at once.
//! - With `--gate` the exit code is 1 where ours sends more than 1.1 times the requests; that holds for a debug
//!   build, too.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use peers::around::{self, Again};
use peers::canned::Counted;
use peers::servers::{Flaky, Protocol};
use peers::targets;
use reqwest::{Client, Method, Request, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use reqwest_typed_retry::{Backoff, RetryMiddleware, RetryPolicy};
use tokio::runtime::{Builder, Runtime};
use tower::retry::Retry;
use tower::util::ServiceExt as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const REQUESTS: usize = 2_000;
const AT_A_TIME: usize = 8;
const RETRIES: u8 = 3;
const URL: &str = "http://own.test/sick";
/// The most sends for each request by ours.
const MOST: f64 = 1.1;
/// A budget is full again after 60 s: by then the counts must be in.
const SOON: Duration = Duration::from_secs(50);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contender {
    Bare,
    ReqwestRetry,
    Backon,
    Tower,
    TowerWithBudget,
    ReqwestsOwn,
    OursWithoutBudget,
    Ours,
}

impl Contender {
    const ALL: [Self; 8] = [
        Self::Bare,
        Self::ReqwestRetry,
        Self::Backon,
        Self::Tower,
        Self::TowerWithBudget,
        Self::ReqwestsOwn,
        Self::OursWithoutBudget,
        Self::Ours,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "no retry",
            Self::ReqwestRetry => "reqwest-retry, 3 retries",
            Self::Backon => "backon, 3 retries",
            Self::Tower => "tower, 3 retries",
            Self::TowerWithBudget => "tower, 3 retries, its default budget",
            Self::ReqwestsOwn => "reqwest's own retry, 3 retries, its default budget",
            Self::OursWithoutBudget => "ours, 4 attempts, without budget",
            Self::Ours => "ours, 4 attempts, its default budget",
        }
    }

    fn caller(self, last: Counted) -> Result<Caller> {
        let chain = ClientBuilder::new(Client::new());
        let policy = RetryPolicy::builder()
            .max_attempts(u32::from(RETRIES) + 1)
            .backoff(Backoff::constant(Duration::ZERO))
            .build()?;
        let chain = match self {
            Self::Backon => return Ok(Caller::Backon(chain.with(last).build())),
            Self::Tower => {
                let chain = chain.with(last).build();
                return Ok(Caller::Tower(around::tower(chain, RETRIES.into(), Duration::ZERO)));
            }
            Self::TowerWithBudget => {
                let chain = chain.with(last).build();
                return Ok(Caller::Tower(around::tower_with_budget(chain, RETRIES.into())));
            }
            Self::ReqwestsOwn => {
                // One connection, however many are on their way.
                let http = Client::builder().no_proxy().http2_prior_knowledge();
                let http = http.retry(around::reqwests_own(RETRIES.into())).build()?;
                return Ok(Caller::Own(http, Flaky::for_ever(Protocol::Http2)?));
            }
            Self::Bare => chain,
            Self::ReqwestRetry => {
                let policy = ExponentialBackoff::builder()
                    .retry_bounds(Duration::ZERO, Duration::ZERO)
                    .jitter(Jitter::None)
                    .build_with_max_retries(RETRIES.into());
                chain.with(RetryTransientMiddleware::new_with_policy(policy))
            }
            Self::OursWithoutBudget => {
                chain.with(RetryMiddleware::builder(policy).without_budget().build()?)
            }
            Self::Ours => chain.with(RetryMiddleware::new(policy)),
        };
        Ok(Caller::Chain(chain.with(last).build()))
    }
}

enum Caller {
    Chain(ClientWithMiddleware),
    Backon(ClientWithMiddleware),
    Tower(Retry<Again, ClientWithMiddleware>),
    Own(Client, Flaky),
}

impl Caller {
    async fn call(&self) -> Result<()> {
        let request = Request::new(Method::GET, Url::parse(URL)?);
        match self {
            Self::Chain(client) => drop(client.execute(request).await?),
            Self::Backon(client) => {
                let send = |request| client.execute(request);
                // It ends with the last status as an error, as it must.
                let ended = around::backon(request, RETRIES.into(), Duration::ZERO, send).await;
                drop(ended.err().ok_or("a call succeeded")?);
            }
            Self::Tower(retry) => drop(retry.clone().oneshot(request).await?),
            Self::Own(client, flaky) => drop(client.get(flaky.server.url()).send().await?),
        }
        Ok(())
    }
}

/// The sends for so many requests, of which so many at a time are on their way.
fn sends(
    runtime: &Runtime,
    contender: Contender,
    requests: usize,
    at_a_time: usize,
) -> Result<usize> {
    let (last, started) = (Counted::default(), Instant::now());
    let caller = contender.caller(last.clone())?;
    let mut left = requests;
    while left > 0 {
        let now = left.min(at_a_time);
        runtime.block_on(try_join_all((0..now).map(|_| caller.call())))?;
        left -= now;
    }
    if started.elapsed() > SOON {
        return Err("it took so long that a budget may have been refilled".into());
    }
    Ok(match caller {
        Caller::Own(_, flaky) => flaky.arrivals(),
        _ => last.sends(),
    })
}

fn main() -> Result<ExitCode> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let (is_gate, requests) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--gate"] => (true, REQUESTS),
        [] => (false, REQUESTS),
        [requests] => (false, requests.parse::<usize>()?.max(1)),
        _ => return Err("outage [--gate | REQUESTS]".into()),
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    println!("{requests} requests.\n");
    println!(
        "| | sends, {AT_A_TIME} at a time | for each request | sends, all at once | for each request |"
    );
    println!("|---|---|---|---|---|");
    let mut most = 0.0_f64;
    for contender in Contender::ALL {
        let (sends, at_once) = (
            sends(&runtime, contender, requests, AT_A_TIME)?,
            sends(&runtime, contender, requests, requests)?,
        );
        let [share, of_all] = [sends, at_once].map(|sends| sends as f64 / requests as f64);
        println!("| {} | {sends} | {share:.3} | {at_once} | {of_all:.3} |", contender.name());
        if contender == Contender::Ours {
            most = share.max(of_all);
        }
    }
    let is_met = most <= MOST;
    println!();
    targets::print(
        &format!("ours, its default budget: sends for each of {requests} requests in an outage"),
        &format!("at most {MOST}"),
        &format!("{most:.2}"),
        is_met,
    );
    Ok(if is_met || !is_gate { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
