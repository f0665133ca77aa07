//! What lives: bytes by a counting allocator, the resident set, tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::GLOBAL;
use super::world::{Size, alive_tasks};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) live: i64,
    pub(crate) resident: i64,
    pub(crate) tasks: i64,
}

/// Bytes that are allocated, and not freed.
fn live_bytes() -> i64 {
    let stats = GLOBAL.stats();
    i64::try_from(stats.bytes_allocated).unwrap() - i64::try_from(stats.bytes_deallocated).unwrap()
}

/// A size in bytes by its name in `/proc/self/status`; 0 where there is none.
pub(crate) fn of_process(name: &str) -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim_matches([':', '\t', ' ']).split(' ').next());
    kib.and_then(|kib| kib.parse::<i64>().ok()).unwrap_or(0) * 1_024
}

impl Sample {
    fn take() -> Self {
        let (live, resident) = (live_bytes(), of_process("VmRSS"));
        Self { live, resident, tasks: i64::try_from(alive_tasks()).unwrap() }
    }
}

#[derive(Default)]
struct Taken {
    /// Of the current round.
    loaded: Vec<Sample>,
    rounds: Vec<Round>,
}

/// What one round was like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// How many calls have ended, since the beginning of all.
    pub(crate) calls: u64,
    pub(crate) mean: Sample,
    pub(crate) max: Sample,
    pub(crate) at_rest: Sample,
}

pub(crate) struct Samples {
    is_loaded: AtomicBool,
    taken: Mutex<Taken>,
}

impl Samples {
    pub(crate) fn new(size: Size) -> Arc<Self> {
        let (time, _) = size.round;
        let most = (2 * time.as_millis() / size.sample_every.as_millis()).max(1_000);
        let loaded = Vec::with_capacity(most.try_into().unwrap());
        let rounds = Vec::with_capacity((size.rounds + 1).try_into().unwrap()); // the first one, too
        let taken = Mutex::new(Taken { loaded, rounds });
        Arc::new(Self { is_loaded: AtomicBool::new(false), taken })
    }

    pub(crate) fn set_loaded(&self, is_loaded: bool) {
        self.is_loaded.store(is_loaded, Ordering::Relaxed);
    }

    /// Takes a sample now and then, as long as there is a load.
    pub(crate) async fn take(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            if self.is_loaded.load(Ordering::Relaxed) {
                let sample = Sample::take();
                self.taken.lock().unwrap().loaded.push(sample);
            }
        }
    }

    /// The round is over, and all is quiet.
    pub(crate) fn at_rest(&self, calls: u64) {
        let at_rest = Sample::take();
        let taken = &mut *self.taken.lock().unwrap();
        let (mean, max) = (mean(&taken.loaded), max(&taken.loaded));
        taken.loaded.clear();
        taken.rounds.push(Round { calls, mean, max, at_rest });
    }

    pub(crate) fn rounds(&self) -> Vec<Round> {
        self.taken.lock().unwrap().rounds.clone()
    }
}

fn mean(samples: &[Sample]) -> Sample {
    assert!(!samples.is_empty(), "the round was too short");
    let count = i64::try_from(samples.len()).unwrap();
    let of = |what: fn(&Sample) -> i64| samples.iter().map(what).sum::<i64>() / count;
    Sample {
        live: of(|sample| sample.live),
        resident: of(|sample| sample.resident),
        tasks: of(|sample| sample.tasks),
    }
}

fn max(samples: &[Sample]) -> Sample {
    let of = |what: fn(&Sample) -> i64| samples.iter().map(what).max().unwrap();
    Sample {
        live: of(|sample| sample.live),
        resident: of(|sample| sample.resident),
        tasks: of(|sample| sample.tasks),
    }
}

/// The rounds of one third of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Third {
    pub(crate) calls: u64,
    pub(crate) mean: Sample,
    pub(crate) max: Sample,
    pub(crate) at_rest: Sample,
}

impl Third {
    pub(crate) fn of(rounds: &[Round]) -> Self {
        let each = |what: fn(&Round) -> Sample| rounds.iter().map(what).collect::<Vec<_>>();
        Self {
            calls: rounds.last().unwrap().calls,
            mean: mean(&each(|round| round.mean)),
            max: max(&each(|round| round.max)),
            at_rest: mean(&each(|round| round.at_rest)),
        }
    }
}
