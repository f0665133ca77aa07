//! Everything that lives as long as the soak: the servers, the clients, what is counted; and the load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::calls;
use super::clients::{Contestant, KINDS};
use super::counts::Totals;
use super::faulty_server::{self, Protocol};
use super::ledger::Ledger;
use super::memory::Samples;

/// How much there is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) in_flight: u64,
    /// A round is over after so much time, and so many calls.
    pub(crate) round: (Duration, u64),
    /// A first one is not counted: it fills pools, maps and the allocator.
    pub(crate) rounds: u32,
    pub(crate) attempt_timeout: Duration,
    /// One arrival over HTTP/2 in so many takes its connection with it.
    pub(crate) connection_odds: u32,
    /// How many operations the ledger knows at a time.
    pub(crate) slots: usize,
    pub(crate) sample_every: Duration,
}

/// A budget, a cooldown and a pool each are by origin.
const ORIGINS: usize = 4;

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) attempt_timeout: Duration,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) contestants: Vec<Arc<Contestant>>,
    /// Lives as long as the soak, and is never cancelled.
    pub(crate) token: CancellationToken,
    pub(crate) totals: Mutex<Totals>,
    ports: [Vec<u16>; 2],
    servers: Vec<JoinHandle<()>>,
    helpers: Vec<JoinHandle<()>>,
    /// The most that a timer was late, in microseconds.
    lag: Arc<AtomicU64>,
    pub(crate) samples: Arc<Samples>,
}

pub(crate) fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

impl World {
    pub(crate) async fn start(seed: u64, size: Size) -> Arc<Self> {
        let ledger = Ledger::new(seed, size.connection_odds, size.slots);
        let (mut ports, mut servers) = ([vec![], vec![]], vec![]);
        for (protocol, ports) in [Protocol::Http1, Protocol::Http2].into_iter().zip(&mut ports) {
            for _ in 0..ORIGINS {
                let (address, server) = faulty_server::start(protocol, ledger.clone()).await;
                ports.push(address.port());
                servers.push(server);
            }
        }
        let protocols = [Protocol::Http1, Protocol::Http2];
        let each = protocols.into_iter().flat_map(|protocol| KINDS.map(|kind| (kind, protocol)));
        let timeout = size.attempt_timeout;
        let contestants = each
            .map(|(kind, protocol)| Arc::new(Contestant::new(kind, protocol, timeout, &ledger)))
            .collect();
        let (lag, samples) = (Arc::new(AtomicU64::new(0)), Samples::new(size));
        let helpers = vec![
            tokio::spawn(watch_the_clock(lag.clone())),
            tokio::spawn(samples.clone().take(size.sample_every)),
        ];
        Arc::new(Self {
            seed,
            attempt_timeout: timeout,
            ledger,
            contestants,
            token: CancellationToken::new(),
            totals: Mutex::default(),
            ports,
            servers,
            helpers,
            lag,
            samples,
        })
    }

    pub(crate) fn port(&self, protocol: Protocol, operation: usize) -> u16 {
        let ports = &self.ports[usize::from(protocol == Protocol::Http2)];
        ports[operation % ports.len()]
    }

    /// The most that a timer was late: how busy the machine is.
    pub(crate) fn lag(&self) -> Duration {
        Duration::from_micros(self.lag.load(Ordering::SeqCst))
    }

    /// So many calls at a time, until the round is over; and then until all of them have ended, and no
    /// connection is left.
    pub(crate) async fn round(self: &Arc<Self>, number: u32, size: Size) {
        let (time, calls) = size.round;
        let (started, before) = (Instant::now(), self.calls());
        let is_over = Arc::new(AtomicBool::new(false));
        let mut workers = JoinSet::new();
        for worker in 0..size.in_flight {
            let (world, is_over) = (self.clone(), is_over.clone());
            let chance = (u64::from(number) << 32) | worker;
            let seed = self.seed ^ chance.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            workers.spawn(async move {
                let mut rng = SmallRng::seed_from_u64(seed);
                // Not all at once.
                let at_most = world.attempt_timeout.as_micros().try_into().unwrap();
                sleep(Duration::from_micros(rng.random_range(0..at_most))).await;
                while !is_over.load(Ordering::Relaxed) {
                    calls::call(&world, &mut rng).await;
                }
            });
        }
        loop {
            sleep(Duration::from_millis(20)).await;
            assert!(workers.try_join_next().is_none(), "a worker panicked");
            let (elapsed, done) = (started.elapsed(), self.calls() - before);
            // Not while the load begins.
            self.samples.set_loaded(elapsed >= time / 5 && done >= calls / 5);
            if elapsed >= time && done >= calls {
                break;
            }
        }
        self.samples.set_loaded(false);
        is_over.store(true, Ordering::Relaxed);
        while let Some(worker) = workers.join_next().await {
            worker.unwrap(); // a call can't be stuck: it is given up
        }
        // Pools without a connection have no task.
        let resting = self.servers.len() + self.helpers.len();
        assert_tasks_end(resting, self.attempt_timeout).await;
        self.ledger.assert_nothing_is_broken();
    }

    pub(crate) fn calls(&self) -> u64 {
        self.totals.lock().unwrap().calls
    }

    /// Ends everything.
    pub(crate) fn end(self: Arc<Self>) {
        self.servers.iter().chain(&self.helpers).for_each(JoinHandle::abort);
        drop(Arc::into_inner(self).unwrap()); // nobody else has it
    }
}

/// Within a time that bounds what a server still waits for; twenty times that, for a slow machine.
pub(crate) async fn assert_tasks_end(at_most: usize, longest: Duration) {
    let started = Instant::now();
    while alive_tasks() > at_most {
        let waited = started.elapsed();
        let tasks = alive_tasks();
        assert!(waited < 20 * longest, "{tasks} tasks, not {at_most}, {waited:?} after the end");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Notes how late timers are.
async fn watch_the_clock(lag: Arc<AtomicU64>) {
    const TICK: Duration = Duration::from_millis(10);
    loop {
        let started = Instant::now();
        sleep(TICK).await;
        let late = started.elapsed().saturating_sub(TICK).as_micros();
        lag.fetch_max(u64::try_from(late).unwrap(), Ordering::SeqCst);
    }
}
