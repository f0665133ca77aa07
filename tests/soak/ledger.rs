//! What the servers saw of each operation, and what the client says of it: held against each other.
//!
//! Its memory is fixed. Operations share slots: one is checked and gives way when a later one needs its
//! slot, many thousands of operations on. What arrives later than that is counted as a stray.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest_typed_retry::{AttemptOutcome, AttemptRecord};

use super::fates;
use super::faulty_server::{Arrival, Fate, Witness};

/// One more than the highest attempt number.
pub(crate) const NUMBERS: usize = 8;
/// The field that tells the server which attempt it gets.
pub(crate) const ATTEMPT: &str = "x-attempt";

/// One bit an attempt, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempts(u8);

impl Attempts {
    pub(crate) fn add(&mut self, number: usize) {
        assert!(number < NUMBERS, "attempt {number}");
        self.0 |= 1 << number;
    }

    pub(crate) fn has(self, number: usize) -> bool {
        self.0 & (1 << number) != 0
    }
}

/// An operation.
#[derive(Debug, Default)]
struct Slot {
    operation: usize,
    is_used: bool,
    in_flight: bool,
    is_http2: bool,
    /// Whether reqwest itself may send an attempt again.
    resends_below: bool,
    // What the servers saw
    arrived: Attempts,
    acted: Attempts,
    redirected: Attempts,
    arrivals: u8,
    effects: u8,
    // What the client says
    sent: Attempts,
    not_processed: Attempts,
    outcomes: [Option<AttemptOutcome>; NUMBERS],
}

/// What has been counted of the operations whose slots were given away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    /// Arrivals of an attempt that had arrived already.
    pub(crate) again: u64,
    pub(crate) effects: u64,
    /// Attempts that never arrived, by how they ended: over HTTP/1.1 and HTTP/2.
    pub(crate) never_arrived: BTreeMap<&'static str, [u64; 2]>,
    pub(crate) proven: u64,
}

/// The idempotency keys that a server knows: the last so many.
#[derive(Default)]
struct Keys {
    known: HashSet<u64>,
    in_order: VecDeque<u64>,
}

const KEYS: usize = 1 << 17;

impl Keys {
    /// Whether the key is a new one.
    fn add(&mut self, key: u64) -> bool {
        if !self.known.insert(key) {
            return false;
        }
        if self.in_order.len() == KEYS {
            let oldest = self.in_order.pop_front().unwrap();
            self.known.remove(&oldest);
        }
        self.in_order.push_back(key);
        true
    }
}

pub(crate) struct Ledger {
    seed: u64,
    /// One arrival over HTTP/2 in so many takes its connection with it, and all that share that.
    connection_odds: u32,
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
    keys: Mutex<Keys>,
    hasher: RandomState,
    tally: Mutex<Tally>,
    connections: AtomicU64,
    pub(crate) closed_unread: AtomicU64,
    pub(crate) deduplicated: AtomicU64,
    /// Counted as they come.
    pub(crate) arrivals: AtomicU64,
    pub(crate) effects: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) strays: AtomicU64,
    broken: Mutex<Vec<String>>,
}

impl Ledger {
    pub(crate) fn new(seed: u64, connection_odds: u32, slots: usize) -> Arc<Self> {
        let keys = Keys {
            known: HashSet::with_capacity(2 * KEYS),
            in_order: VecDeque::with_capacity(KEYS + 1),
        };
        Arc::new(Self {
            seed,
            connection_odds,
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            keys: Mutex::new(keys),
            hasher: RandomState::new(),
            tally: Mutex::default(),
            connections: AtomicU64::new(0),
            closed_unread: AtomicU64::new(0),
            deduplicated: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            effects: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            broken: Mutex::default(),
        })
    }

    /// A rule was broken. The first few are kept.
    pub(crate) fn broken(&self, what: impl FnOnce() -> String) {
        let broken = &mut *self.broken.lock().unwrap();
        if broken.len() < 20 {
            broken.push(what());
        }
    }

    pub(crate) fn assert_nothing_is_broken(&self) {
        let broken = self.broken.lock().unwrap();
        assert!(broken.is_empty(), "seed {}:\n{}", self.seed, broken.join("\n"));
    }

    /// A new operation: over which protocol, and whether reqwest itself may send its attempts again.
    pub(crate) fn begin(&self, is_http2: bool, resends_below: bool) -> usize {
        loop {
            let operation = self.next.fetch_add(1, Ordering::SeqCst);
            let slot = &mut *self.slot(operation).lock().unwrap();
            if slot.in_flight {
                continue;
            }
            self.check(slot);
            *slot = Slot {
                operation,
                is_used: true,
                in_flight: true,
                is_http2,
                resends_below,
                ..Slot::default()
            };
            return operation;
        }
    }

    /// The call has ended, or was dropped.
    pub(crate) fn end(&self, operation: usize, sent: Attempts, records: &[AttemptRecord]) {
        let slot = &mut *self.slot(operation).lock().unwrap();
        assert_eq!(slot.operation, operation);
        (slot.in_flight, slot.sent) = (false, sent);
        for record in records {
            let number = usize::try_from(record.number()).unwrap();
            // A cut that a session tells is told of an attempt that had ended already.
            slot.outcomes[number].get_or_insert(record.outcome());
            if record.proven_not_processed() {
                slot.not_processed.add(number);
            }
        }
    }

    /// How often the operation took effect, so far.
    pub(crate) fn effects_of(&self, operation: usize) -> u8 {
        self.slot(operation).lock().unwrap().effects
    }

    /// Checks all operations, none of which is in flight, and gives all that was counted.
    pub(crate) fn settle(&self) -> Tally {
        for slot in &self.slots {
            let slot = &mut *slot.lock().unwrap();
            assert!(!slot.in_flight);
            self.check(slot);
            *slot = Slot::default();
        }
        self.tally.lock().unwrap().clone()
    }

    fn slot(&self, operation: usize) -> &Mutex<Slot> {
        &self.slots[operation % self.slots.len()]
    }

    /// What the servers saw against what the client says.
    fn check(&self, slot: &Slot) {
        if !slot.is_used {
            return;
        }
        let broken = |what: &str, number: usize| {
            self.broken(|| format!("{what}, attempt {number}: {slot:?}"));
        };
        let mut tally = self.tally.lock().unwrap();
        let mut distinct = 0;
        for number in 0..NUMBERS {
            let (arrived, outcome) = (slot.arrived.has(number), slot.outcomes[number]);
            distinct += u8::from(arrived);
            tally.sent += u64::from(slot.sent.has(number));
            if arrived && !slot.sent.has(number) {
                broken("arrived, and was never sent", number);
            }
            if slot.sent.has(number) && !arrived {
                let by_protocol = tally.never_arrived.entry(label(outcome)).or_default();
                by_protocol[usize::from(slot.is_http2)] += 1;
                if !may_be_lost(outcome) {
                    broken("never arrived, for no known cause", number);
                }
            }
            let kind = outcome.and_then(AttemptOutcome::fault).map(|fault| fault.kind().as_str());
            let no_connection = matches!(kind, Some("dns" | "connect"));
            // A second exchange of the attempt may have met nobody: a redirect's, or reqwest's own resend's.
            let is_one = !slot.redirected.has(number) && !slot.resends_below;
            if no_connection && arrived && is_one {
                broken("no connection came about, and it arrived", number);
            }
            if slot.not_processed.has(number) && slot.acted.has(number) {
                broken("proven not to have been processed, and it took effect", number);
            }
            tally.proven += u64::from(slot.not_processed.has(number));
        }
        let again = slot.arrivals - distinct;
        if again > 0 && !slot.resends_below {
            broken("sent again below the middleware", 0);
        }
        tally.operations += 1;
        tally.arrived += u64::from(distinct);
        tally.again += u64::from(again);
        tally.effects += u64::from(slot.effects);
    }
}

fn label(outcome: Option<AttemptOutcome>) -> &'static str {
    match outcome {
        None => "dropped",
        Some(AttemptOutcome::Status(_)) => "status",
        Some(AttemptOutcome::Fault(fault)) => fault.kind().as_str(),
        Some(_) => "new",
    }
}

/// Whether an attempt that ends so need not have reached a server.
fn may_be_lost(outcome: Option<AttemptOutcome>) -> bool {
    matches!(
        label(outcome),
        // Cut off, by the caller or a time limit.
        "dropped" | "timeout"
        // No connection.
        | "dns" | "connect"
        // The server closed it before it read the request, or shut it down.
        | "connection_lost" | "refused" | "protocol"
    )
}

fn attempt(arrival: &Arrival) -> usize {
    arrival.headers[ATTEMPT].to_str().unwrap().parse().unwrap()
}

impl Witness for Ledger {
    /// The same for each arrival of an operation in each run of the seed.
    fn fate(&self, arrival: &Arrival) -> Fate {
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        let operation = arrival.operation;
        let slot = &mut *self.slot(operation).lock().unwrap();
        if slot.operation != operation || !slot.is_used {
            self.strays.fetch_add(1, Ordering::SeqCst);
            return Fate::Served;
        }
        let chance = (u64::try_from(operation).unwrap() << 8) | u64::from(slot.arrivals);
        slot.arrivals += 1;
        slot.arrived.add(attempt(arrival));
        let seed = self.seed ^ chance.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut rng = SmallRng::seed_from_u64(seed);
        let fate = fates::draw(&mut rng, arrival.protocol, self.connection_odds);
        if matches!(fate, Fate::RedirectedToNobody | Fate::RedirectedToRejection) {
            slot.redirected.add(attempt(arrival));
        }
        fate
    }

    fn act(&self, arrival: &Arrival) {
        let key = arrival.headers.get("idempotency-key");
        if let Some(key) = key {
            if !self.keys.lock().unwrap().add(self.hasher.hash_one(key)) {
                self.deduplicated.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
        let slot = &mut *self.slot(arrival.operation).lock().unwrap();
        if slot.operation != arrival.operation || !slot.is_used {
            self.strays.fetch_add(1, Ordering::SeqCst);
            return;
        }
        self.effects.fetch_add(1, Ordering::SeqCst);
        slot.acted.add(attempt(arrival));
        slot.effects += 1;
        let at_most_once = key.is_some() || matches!(&*arrival.method, "POST" | "PATCH");
        // What reqwest itself sends again by default is its own.
        if at_most_once && slot.effects > 1 && !slot.resends_below {
            self.duplicates.fetch_add(1, Ordering::SeqCst);
            let method = &arrival.method;
            self.broken(|| format!("{method}, key {key:?}, took effect twice: {slot:?}"));
        }
    }

    fn connection_meets(&self, odds: usize) -> bool {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst);
        SmallRng::seed_from_u64(self.seed.wrapping_add(connection)).random_range(0..odds) == 0
    }

    fn closed_unread(&self) {
        self.closed_unread.fetch_add(1, Ordering::SeqCst);
    }
}
