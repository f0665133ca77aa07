//! What is counted while a simulation runs.

use std::ops::Range;

/// The counts of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) seconds: Vec<Second>,
    pub(crate) clients: Vec<Client>,
    /// Requests that the server worked off.
    pub(crate) worked: u64,
    /// Those of them whose client had gone.
    pub(crate) wasted: u64,
}

/// One second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Second {
    /// Sends that reached the server in it.
    pub(crate) sends: u64,
    /// Requests that began in it, each counted once however often it was sent.
    pub(crate) offered: u64,
    /// Those of them that got a useful answer in the end.
    pub(crate) answered: u64,
    /// How long these took, all together, in milliseconds.
    pub(crate) took_ms: u64,
}

/// One client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) sends: u64,
    pub(crate) resends: u64,
    /// Useful answers that it got.
    pub(crate) answers: u64,
    /// Those of them that a resend got.
    pub(crate) answered_resends: u64,
}

impl Client {
    /// Resends that ended in a 503, or that the client gave up.
    pub(crate) fn failed_resends(&self) -> u64 {
        self.resends - self.answered_resends
    }
}

impl Tally {
    pub(crate) fn new(seconds: usize, clients: usize) -> Self {
        Self {
            seconds: vec![Second::default(); seconds],
            clients: vec![Client::default(); clients],
            worked: 0,
            wasted: 0,
        }
    }

    /// All seconds of `range` added up.
    pub(crate) fn during(&self, range: Range<u32>) -> Second {
        let start = usize::try_from(range.start).unwrap_or(usize::MAX);
        let mut sum = Second::default();
        for second in self.seconds.iter().skip(start).take(range.len()) {
            sum.sends += second.sends;
            sum.offered += second.offered;
            sum.answered += second.answered;
            sum.took_ms += second.took_ms;
        }
        sum
    }
}
