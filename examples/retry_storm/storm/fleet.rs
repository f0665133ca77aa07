//! The clients: each is a real client with the crate's own middleware, on tokio's paused time.
//!
//! One thread, one seed, no clock of the machine: a run depends on nothing but its arguments.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use rand::{Rng, RngExt as _};
use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::RetryMiddleware;
use reqwest_typed_retry::test_util::seeded_jitter;
use tokio::time::{Instant, sleep_until};

use super::contenders::{Contender, Process};
use super::server::Server;
use super::tally::Tally;
use super::world::{Purpose, World};

/// Lets the fleet live through the outage under one policy.
pub(crate) fn simulate(world: &World, contender: &Contender) -> anyhow::Result<Tally> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(run(world, contender))
    // Dropping the runtime drops what has not ended.
}

/// The same under each of these policies, as many at a time as there are processors. Each has a
/// thread and a runtime of its own, so that none sees another.
pub(crate) fn simulate_all(world: &World, contenders: &[Contender]) -> anyhow::Result<Vec<Tally>> {
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(contender) = contenders.get(number) else { return done };
            done.push((number, simulate(world, contender)));
        }
    };
    let mut tallies = thread::scope(|scope| -> anyhow::Result<Vec<_>> {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow::anyhow!("a simulation panicked"))?);
        }
        Ok(all)
    })?;
    tallies.sort_by_key(|(number, _)| *number);
    tallies.into_iter().map(|(_, tally)| tally).collect()
}

async fn run(world: &World, contender: &Contender) -> anyhow::Result<Tally> {
    let started = Instant::now();
    let server = Server::new(world);
    let http = reqwest::Client::builder().no_proxy().build()?; // never asked to send anything
    let url = Url::parse("http://service.test/")?;
    let processes: Vec<_> = (0..world.processes).map(|_| Process::new()).collect();
    // As many clients in one process as in the other.
    for (number, process) in (0..world.clients).zip(processes.iter().cycle()) {
        let generator = seeded_jitter(world.seed_of(number, Purpose::Jitter));
        let retry = contender.middleware(process, generator)?;
        let client = client(&http, retry, &server, number)?;
        let arrivals = seeded_jitter(world.seed_of(number, Purpose::Arrivals));
        let rate = world.offered / f64::from(world.clients);
        tokio::spawn(live(client, url.clone(), server.clone(), arrivals, rate));
    }
    sleep_until(started + Duration::from_secs(u64::from(world.measured + world.tail))).await;
    Ok(server.tally())
}

fn client(
    http: &reqwest::Client,
    retry: RetryMiddleware,
    server: &Server,
    number: u32,
) -> anyhow::Result<ClientWithMiddleware> {
    let door = server.door(usize::try_from(number)?);
    Ok(ClientBuilder::new(http.clone()).with(retry).with(door).build())
}

/// One client: requests begin at random times, `rate` a second on average, whether or not those
/// before have ended.
async fn live(
    client: ClientWithMiddleware,
    url: Url,
    server: Server,
    mut arrivals: impl Rng,
    rate: f64,
) {
    let mut next = Instant::now();
    loop {
        let evenly: f64 = arrivals.random();
        next += Duration::from_secs_f64(-(1.0 - evenly).ln() / rate);
        sleep_until(next).await;
        tokio::spawn(call(client.clone(), url.clone(), server.clone()));
    }
}

/// One request, as an application makes it.
async fn call(client: ClientWithMiddleware, url: Url, server: Server) {
    let began = Instant::now();
    server.offered();
    let answer = client.get(url).send().await;
    if answer.is_ok_and(|response| response.status() == StatusCode::OK) {
        server.answered(began);
    }
}
