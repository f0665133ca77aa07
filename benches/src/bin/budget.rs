//! What the retry budget costs a call that succeeds at once: with all origins healthy, with others
//! sick, and with its own sick. Prints Markdown tables; nothing goes over the network.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin budget [rounds] [calls]`
//!
//! - Memory is counted by the allocator, exactly. Where all origins are healthy the budget must need none:
//!   if it does, the exit code is 1.
//! - Time is that of a whole call through the client, against the same call without a budget in the
//!   same round. The clients take turns, and another begins in each round. `none, again` is a second
//!   client without a budget: how far the machine alone moves the ratio. Nothing depends on times.
//! - With two threads each makes its calls by itself, on one client that both share; the time is that of
//!   both.

use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use http::Method;
use peers::canned::Canned;
use peers::counting::{Counting, Memory};
use peers::sick;
use reqwest::{Client, Request, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
use tokio::runtime::{Builder, Runtime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Contestant {
    name: &'static str,
    client: ClientWithMiddleware,
    memory: Memory,
    /// Times of all rounds: alone, and by two threads.
    times: [Vec<Duration>; 2],
}

const OWN: &str = "http://own.test/";

fn with(retry: RetryMiddleware) -> ClientWithMiddleware {
    ClientBuilder::new(Client::new()).with(retry).with(Canned).build()
}

fn contestants(runtime: &Runtime) -> Result<Vec<Contestant>> {
    let policy = RetryPolicy::default();
    let without = || RetryMiddleware::builder(policy.clone()).without_budget().build();
    let with_default = RetryMiddleware::builder(policy.clone()).build()?;
    let sick = |others, own| -> Result<ClientWithMiddleware> {
        let budget = sick::budget(runtime, &Client::new(), others, own)?;
        Ok(with(RetryMiddleware::builder(policy.clone()).budget(budget).build()?))
    };
    let clients = [
        ("none", with(without()?)),
        ("none, again", with(without()?)),
        ("all origins healthy", with(with_default)),
        ("1 other sick", sick(1, None)?),
        ("1,024 others sick", sick(1_024, None)?),
        ("its own sick", sick(0, Some(OWN))?),
    ];
    let new = |(name, client)| Contestant {
        name,
        client,
        memory: Memory::default(),
        times: [Vec::new(), Vec::new()],
    };
    Ok(clients.into_iter().map(new).collect())
}

/// The same call over and over. What it allocates and how long it takes, from the first to the last.
fn run(
    runtime: &Runtime,
    client: &ClientWithMiddleware,
    calls: usize,
) -> Result<(Memory, Duration)> {
    let url = Url::parse(OWN)?;
    runtime.block_on(async {
        let (before, started) = (Memory::so_far(), Instant::now());
        for _ in 0..calls {
            client.execute(Request::new(Method::GET, url.clone())).await?;
        }
        let (after, time) = (Memory::so_far(), started.elapsed());
        Ok((after - before, time))
    })
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_time().build()
}

/// Two threads with one client: the mean of their times.
fn run_two(
    runtimes: &[Runtime; 2],
    client: &ClientWithMiddleware,
    calls: usize,
) -> Result<Duration> {
    let start = Barrier::new(2);
    let work = |runtime: &Runtime| {
        start.wait();
        run(runtime, client, calls).map(|(_, time)| time).map_err(|error| error.to_string())
    };
    let times = thread::scope(|scope| {
        runtimes.each_ref().map(|runtime| scope.spawn(|| work(runtime))).map(|it| it.join())
    });
    let mut sum = Duration::ZERO;
    for time in times {
        sum += time.map_err(|_| "a thread panicked")??;
    }
    Ok(sum / 2)
}

/// Smallest, median, largest.
fn spread(mut numbers: Vec<f64>) -> Option<[f64; 3]> {
    numbers.sort_by(f64::total_cmp);
    Some([*numbers.first()?, *numbers.get(numbers.len() / 2)?, *numbers.last()?])
}

fn report(all: &[Contestant], calls: usize) -> Option<()> {
    println!(
        "| sick | allocations per call | bytes per call | one thread: ns per call | its ratio to none: \
         min, median, max | two threads: ns per call | ratio to none: min, median, max |"
    );
    println!("|---|---|---|---|---|---|---|");
    let none = all.first()?;
    let per_call = |number: usize| number as f64 / calls as f64;
    for this in all {
        let [one, two] = [0, 1].map(|threads| {
            let times = this.times[threads].iter();
            let nanos = times.clone().map(|time| time.as_nanos() as f64 / calls as f64);
            let pairs = times.zip(&none.times[threads]);
            let ratios = pairs.map(|(time, none)| time.as_secs_f64() / none.as_secs_f64());
            let [_, nanos, _] = spread(nanos.collect())?;
            let [min, median, max] = spread(ratios.collect())?;
            Some(format!("{nanos:.0} | {min:.3}, {median:.3}, {max:.3}"))
        });
        let (name, memory) = (this.name, this.memory);
        let (allocations, bytes) = (per_call(memory.allocations), per_call(memory.bytes));
        println!("| {name} | {allocations} | {bytes} | {} | {} |", one?, two?);
    }
    Some(())
}

fn main() -> Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>());
    let rounds = numbers.next().transpose()?.unwrap_or(1_001).max(1);
    let calls = numbers.next().transpose()?.unwrap_or(500).max(1);
    let main = runtime()?;
    let mut all = contestants(&main)?;
    for contestant in &mut all {
        run(&main, &contestant.client, calls)?; // warm
        contestant.memory = run(&main, &contestant.client, calls)?.0;
    }
    let runtimes = [runtime()?, runtime()?];
    for round in 0..rounds {
        for turn in 0..all.len() {
            let which = (round + turn) % all.len();
            let Contestant { client, times: [alone, by_two], .. } = &mut all[which];
            alone.push(run(&main, client, calls)?.1);
            by_two.push(run_two(&runtimes, client, calls)?);
        }
    }
    println!("{rounds} rounds of {calls} calls.\n");
    report(&all, calls).ok_or("nothing was measured")?;
    let memory = |name| all.iter().find(|it| it.name == name).map(|it| it.memory);
    if memory("none") == memory("all origins healthy") {
        println!("\nWith all origins healthy the budget allocates nothing.");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("\n**With all origins healthy the budget allocates.**");
        Ok(ExitCode::FAILURE)
    }
}
