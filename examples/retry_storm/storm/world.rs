//! What is simulated: a fleet of clients, a server, an outage.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The numbers of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// All randomness comes from it: when requests begin, and the jitter of every client.
    pub(crate) seed: u64,
    pub(crate) clients: u32,
    /// The processes that the clients live in, evenly.
    pub(crate) processes: u32,
    /// Requests that begin in a second, of all clients together. They don't slow down for a sick
    /// server: users and timers do not either.
    pub(crate) offered: f64,
    /// Requests that the server can work off in a second.
    pub(crate) capacity: f64,
    /// Requests that may be queued. The server sheds what comes when there are so many.
    pub(crate) queue: f64,
    /// How long a client waits for an answer. The work for one that no longer waits is done all
    /// the same.
    pub(crate) patience: Duration,
    /// The seconds in which the server is sick.
    pub(crate) outage: Range<u32>,
    pub(crate) sickness: Sickness,
    /// What its 503s ask for by `Retry-After`, in seconds.
    pub(crate) retry_after: u32,
    /// Seconds that are measured.
    pub(crate) measured: u32,
    /// Seconds that are simulated after that, requests still beginning, for the last measured ones
    /// to end under the same load.
    pub(crate) tail: u32,
}

/// What the server suffers from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sickness {
    /// It works at this share of its capacity: a lost replica, a cold cache, a slow disk. Its queue
    /// fills; what is queued comes too late, what is not is shed.
    Slow(f64),
    /// It answers 503 at once to this share of what comes: dead backends behind a proxy that lives.
    Refusing(f64),
}

impl World {
    /// The picture's: 10,000 clients in 5 processes, a server at 65 % of its capacity, half a
    /// minute at a tenth of it. The full queue is two seconds of work, more than the patience of the
    /// clients, as it easily is where nobody measured: that is what lets a storm outlive its cause.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            clients: 10_000,
            processes: 5,
            offered: 195.0,
            capacity: 300.0,
            queue: 600.0,
            patience: Duration::from_secs(1),
            outage: 5..35,
            sickness: Sickness::Slow(0.1),
            retry_after: 5,
            measured: 65,
            tail: 15,
        }
    }

    /// All seconds from the end of the outage on.
    pub(crate) fn aftermath(&self) -> Range<u32> {
        self.outage.end..self.measured
    }

    /// The load at which every request is sent once, in capacities.
    pub(crate) fn normal_load(&self) -> f64 {
        self.offered / self.capacity
    }

    /// One seed for each use, so that no draw depends on how many another use takes.
    pub(crate) fn seed_of(&self, client: u32, purpose: Purpose) -> u64 {
        // SplitMix64 after each part: neighbours in, strangers out. A mere sum would give client 1
        // of one seed what client 0 has of the next, and the fleet as a whole the same.
        let mut mixed = 0_u64;
        for part in [self.seed, u64::from(client), purpose as u64] {
            mixed = mixed.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
        }
        mixed
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, clients, processes, offered, capacity, queue, patience, .. } = self;
        let Range { start, end } = self.outage;
        writeln!(
            f,
            "{clients} clients in {processes} processes, {offered} requests a second, seed {seed}."
        )?;
        writeln!(
            f,
            "A server for {capacity} a second with a queue of {queue}; clients wait {patience:?}."
        )?;
        match self.sickness {
            Sickness::Slow(share) => {
                write!(f, "From {start} s to {end} s it works at {:.0} % of that.", share * 100.0)
            }
            Sickness::Refusing(share) => {
                write!(f, "From {start} s to {end} s it refuses {:.0} %.", share * 100.0)
            }
        }
    }
}

/// What a client's randomness is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Arrivals,
    Jitter,
    /// Which requests a server refuses that refuses a share; there is one, of client 0.
    Refusals,
}
