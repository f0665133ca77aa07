//! Many calls at a time through one client, which therefore share its budget: calls a second from 1 to 10,000 at a
//! time, and how that changes. Prints a Markdown table; nothing goes over the network.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin scale [rounds] [calls]`
//!
//! - Two worker threads. So many tasks make their calls in a row, and each call gives way once on its way, so that
//!   all tasks have one in flight. What is measured begins with the first task's start and ends with the last one's
//!   end.
//! - The slope is the rate at that many over the rate at 1; ours should not be below that of the bare chain. To
//!   compare the two, each rate is taken by its ratio to the bare chain's in the same round. The clients take turns,
//!   and another begins in each round. Nothing depends on times.
//! - The slope is no measure of contention alone: one task leaves the second thread idle, and two threads may share
//!   a core. That is what the clients are for that no two tasks share: what one client for all makes slower is its
//!   ratio to them.

use std::time::{Duration, Instant};

use peers::canned::CannedInFlight;
use peers::contenders::Contender;
use peers::numbers::{median, ratios};
use peers::sick;
use peers::targets;
use reqwest::{Client, Method, Request, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const OWN: &str = "http://own.test/";
const AT_ONCE: [usize; 5] = [1, 10, 100, 1_000, 10_000];
/// Of one turn; it takes much less.
const AT_MOST: Duration = Duration::from_secs(60);

const HEALTHY: &str = "ours, healthy";
const SICK: &str = "ours, its own origin sick";
/// The least that one client for all may have of the rate of a client for each task: less is more than chance.
const SHARED: f64 = 0.95;

struct Contestant {
    name: &'static str,
    /// One for all tasks, or one for each.
    clients: Vec<ClientWithMiddleware>,
    /// Calls a second of all rounds, for each of `AT_ONCE`.
    rates: [Vec<f64>; AT_ONCE.len()],
}

/// The bare chain begins; after each shared one comes its like with a client for each task.
fn contestants(runtime: &Runtime) -> Result<Vec<Contestant>> {
    let http = Client::new();
    let chain = || ClientBuilder::new(http.clone());
    let end = |chain: ClientBuilder| chain.with(CannedInFlight).build();
    let retry = || RetryMiddleware::builder(RetryPolicy::default());
    let bare = || Result::Ok(end(chain()));
    let healthy = || Result::Ok(end(chain().with(retry().build()?)));
    let sick = || {
        let budget = sick::budget(runtime, &http, 0, Some(OWN))?;
        Result::Ok(end(chain().with(retry().budget(budget).build()?)))
    };
    fn for_each(
        new: impl Fn() -> Result<ClientWithMiddleware>,
    ) -> Result<Vec<ClientWithMiddleware>> {
        (0..AT_ONCE.into_iter().max().unwrap_or(1)).map(|_| new()).collect()
    }
    let peer = || Contender::ReqwestRetry.client(http.clone(), CannedInFlight);
    let all_on = || Contender::OursAll.client(http.clone(), CannedInFlight);
    let clients = [
        ("bare reqwest-middleware", vec![bare()?]),
        ("bare, a client for each task", for_each(bare)?),
        ("reqwest-retry", vec![peer()?]),
        ("reqwest-retry, a client for each task", for_each(peer)?),
        (HEALTHY, vec![healthy()?]),
        ("ours, healthy, a client for each task", for_each(healthy)?),
        ("ours, all on", vec![all_on()?]),
        ("ours, all on, a client for each task", for_each(all_on)?),
        (SICK, vec![sick()?]),
        ("ours, its own origin sick, a client for each task", for_each(sick)?),
    ];
    let new = |(name, clients)| Contestant { name, clients, rates: Default::default() };
    Ok(clients.into_iter().map(new).collect())
}

/// Calls a second.
fn run(
    runtime: &Runtime,
    clients: &[ClientWithMiddleware],
    at_once: usize,
    calls: usize,
) -> Result<f64> {
    let each = (calls / at_once).max(1);
    let url = Url::parse(OWN)?;
    let time = runtime.block_on(async {
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for client in clients.iter().cycle().take(at_once) {
            let (client, url) = (client.clone(), url.clone());
            tasks.spawn(async move {
                for _ in 0..each {
                    client.execute(Request::new(Method::GET, url.clone())).await?;
                }
                Ok::<_, reqwest_middleware::Error>(())
            });
        }
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            Result::Ok(())
        };
        timeout(AT_MOST, all).await??;
        Result::Ok(started.elapsed())
    })?;
    Ok((each * at_once) as f64 / time.as_secs_f64())
}

fn report(all: &[Contestant]) -> Result<()> {
    println!(
        "| | at a time | calls a second | its ratio to bare | slope | slope to bare's | ratio to a client for each task |"
    );
    println!("|---|---|---|---|---|---|---|");
    let bare = all.first().ok_or("nobody was measured")?;
    let least = |numbers: &[f64]| numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let (mut least_slopes, mut least_shared) = (Vec::new(), Vec::new());
    for pair in all.chunks(2) {
        for this in pair {
            let to = |other: &Contestant| -> [f64; AT_ONCE.len()] {
                std::array::from_fn(|at| median(ratios(&this.rates[at], &other.rates[at])))
            };
            let rate = this.rates.each_ref().map(|rates| median(rates.iter().copied()));
            let slopes = rate.map(|its| its / rate[0]);
            let (to_bare, to_unshared) = (to(bare), pair.last().map(to).ok_or("it has no pair")?);
            least_slopes.push((this.name, least(&slopes)));
            least_shared.push((this.name, least(&to_unshared)));
            for (at, at_once) in AT_ONCE.into_iter().enumerate() {
                println!(
                    "| {} | {at_once} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} |",
                    this.name,
                    rate[at],
                    to_bare[at],
                    slopes[at],
                    to_bare[at] / to_bare[0],
                    to_unshared[at],
                );
            }
        }
    }
    let of = |numbers: &[(&str, f64)], name: &str| {
        let found = numbers.iter().find(|(its, _)| *its == name).map(|(_, number)| *number);
        found.ok_or("somebody was not measured")
    };
    println!();
    let (ours, bares) = (of(&least_slopes, HEALTHY)?, of(&least_slopes, bare.name)?);
    targets::print(
        "ours, healthy: calls a second at 10 to 10,000 at a time, to 1 at a time, the least",
        &format!("at least 1, or the bare chain's {bares:.2} if that is less"),
        &format!("{ours:.2}"),
        ours >= bares.min(1.0),
    );
    for name in [HEALTHY, SICK] {
        let ratio = of(&least_shared, name)?;
        targets::print(
            &format!(
                "{name}: calls a second through one client, to a client for each task, the least"
            ),
            &format!("at least {SHARED}"),
            &format!("{ratio:.3}"),
            ratio >= SHARED,
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>());
    let rounds = numbers.next().transpose()?.unwrap_or(21).max(1);
    let calls = numbers.next().transpose()?.unwrap_or(20_000).max(1);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let mut all = contestants(&runtime)?;
    for contestant in &all {
        for at_once in AT_ONCE {
            run(&runtime, &contestant.clients, at_once, calls)?; // warm
        }
    }
    for round in 0..rounds {
        for (at, at_once) in AT_ONCE.into_iter().enumerate() {
            for turn in 0..all.len() {
                let which = (round + turn) % all.len();
                let Contestant { clients, rates, .. } = &mut all[which];
                rates[at].push(run(&runtime, clients, at_once, calls)?);
            }
        }
    }
    println!("{rounds} rounds of {calls} calls, by 2 threads.\n");
    report(&all)
}
