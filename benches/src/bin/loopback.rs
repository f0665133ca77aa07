//! The success path with a network in it: requests a second over loopback, HTTP/1.1 with connections kept, one at a
//! time and 64 at a time. Prints Markdown tables.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin loopback [rounds] [calls]`
//!
//! - All contenders share one `reqwest::Client`, so that they share its connections; but for reqwest's own retry,
//!   which is a setting of the client. They take turns, and another begins in each round; a ratio is that of one
//!   round. `again` is a second bare chain: how far the machine alone moves the ratio. Nothing depends on times.
//! - The clients are on one thread, the server on another. The CPU time is that of the clients' thread: it says the
//!   same where a shared machine leaves the clock's time to chance.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use futures_util::future::try_join_all;
use peers::around::{self, Again};
use peers::contenders::Contender;
use peers::numbers::{median, quartiles, ratios};
use peers::servers::Server;
use peers::targets;
use reqwest::{Client, Method, Request, Response, Url};
use reqwest_middleware::ClientWithMiddleware;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tower::retry::Retry;
use tower::util::ServiceExt as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Of one turn; it takes much less.
const AT_MOST: Duration = Duration::from_secs(60);
/// Ours against the bare chain.
const TARGET: f64 = 0.99;

/// Of those that are no middleware, as many as the middlewares have.
const RETRIES: u8 = 2;

enum Caller {
    Reqwest(Client),
    Chain(ClientWithMiddleware),
    Backon(Client),
    Tower(Retry<Again, Client>),
}

impl Caller {
    async fn call(&self, url: &Url) -> Result<Response> {
        let request = Request::new(Method::GET, url.clone());
        let response = match self {
            Self::Reqwest(client) => client.execute(request).await?,
            Self::Chain(client) => client.execute(request).await?,
            Self::Backon(client) => {
                let send = |request| client.execute(request);
                around::backon(request, RETRIES.into(), Duration::ZERO, send).await?
            }
            Self::Tower(retry) => retry.clone().oneshot(request).await?,
        };
        Ok(response.error_for_status()?)
    }

    /// Requests a second, and a second of CPU time.
    async fn run(&self, url: &Url, at_once: usize, calls: usize) -> Result<[f64; 2]> {
        let each = (calls / at_once).max(1);
        let (started, cpu) = (Instant::now(), ThreadTime::now());
        let in_a_row = async || -> Result<()> {
            for _ in 0..each {
                // To its end, so that the connection is free.
                self.call(url).await?.bytes().await?;
            }
            Ok(())
        };
        timeout(AT_MOST, try_join_all((0..at_once).map(|_| in_a_row()))).await??;
        let times = [started.elapsed(), cpu.elapsed()];
        Ok(times.map(|time| (each * at_once) as f64 / time.as_secs_f64()))
    }
}

struct Contestant {
    name: &'static str,
    caller: Caller,
    /// Of all rounds.
    rates: Vec<f64>,
    /// By CPU time.
    cpu_rates: Vec<f64>,
}

fn contestants(http: &Client) -> Result<Vec<Contestant>> {
    let chain =
        |contender: Contender| Result::Ok(Caller::Chain(contender.chain(http.clone())?.build()));
    let named = |contender: Contender| Result::Ok((contender.name(), chain(contender)?));
    let own = Client::builder().no_proxy().retry(around::reqwests_own(RETRIES.into())).build()?;
    let tower = around::tower(http.clone(), RETRIES.into(), Duration::ZERO);
    let callers = [
        named(Contender::Bare)?,
        ("bare reqwest-middleware, again", chain(Contender::Bare)?),
        ("bare reqwest", Caller::Reqwest(http.clone())),
        named(Contender::ReqwestRetry)?,
        named(Contender::Ours)?,
        named(Contender::OursAll)?,
        ("reqwest's own retry", Caller::Reqwest(own)),
        ("backon around reqwest", Caller::Backon(http.clone())),
        ("tower around reqwest", Caller::Tower(tower)),
    ];
    let new =
        |(name, caller)| Contestant { name, caller, rates: Vec::new(), cpu_rates: Vec::new() };
    Ok(callers.into_iter().map(new).collect())
}

fn report(at_once: usize, all: &[Contestant]) -> Result<()> {
    println!("\n### {at_once} at a time\n");
    println!(
        "| | requests a second | ratio to bare reqwest-middleware: quartile, median, quartile | µs of CPU per request | \
         ratio by CPU time: quartile, median, quartile |"
    );
    println!("|---|---|---|---|---|");
    let bare = all.first().ok_or("nobody was measured")?;
    for this in all {
        let to_bare = [(&this.rates, &bare.rates), (&this.cpu_rates, &bare.cpu_rates)];
        let [ratio, cpu_ratio] = to_bare.map(|(these, bare)| {
            quartiles(ratios(these, bare)).map(|ratio| format!("{ratio:.3}")).join(", ")
        });
        let rate = median(this.rates.iter().copied());
        let cpu = 1e6 / median(this.cpu_rates.iter().copied());
        println!("| {} | {rate:.0} | {ratio} | {cpu:.1} | {cpu_ratio} |", this.name);
    }
    let ours = all.iter().find(|it| it.name == Contender::Ours.name()).ok_or("ours is missing")?;
    let ratio = median(ratios(&ours.rates, &bare.rates));
    println!();
    targets::print(
        &format!("ours: requests a second on loopback, {at_once} at a time, to the bare chain's"),
        &format!("at least {TARGET}"),
        &format!("{ratio:.3}"),
        ratio >= TARGET,
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>());
    let rounds = numbers.next().transpose()?.unwrap_or(101).max(1);
    let calls = numbers.next().transpose()?.unwrap_or(512).max(1);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = Server::at_once()?;
    let url = Url::parse(&server.url())?;
    let http = Client::builder().no_proxy().build()?;
    println!("{rounds} rounds of {calls} calls.");
    for at_once in [1, 64] {
        let mut all = contestants(&http)?;
        for contestant in &all {
            runtime.block_on(contestant.caller.run(&url, at_once, calls))?; // warm
        }
        let opened = server.connections();
        for round in 0..rounds {
            for turn in 0..all.len() {
                let which = (round + turn) % all.len();
                let Contestant { caller, rates, cpu_rates, .. } = &mut all[which];
                let [rate, cpu_rate] = runtime.block_on(caller.run(&url, at_once, calls))?;
                rates.push(rate);
                cpu_rates.push(cpu_rate);
            }
        }
        report(at_once, &all)?;
        println!("\nConnections opened meanwhile: {}", server.connections() - opened);
    }
    Ok(())
}
