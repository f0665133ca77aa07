//! What a simulation comes to.

use super::tally::Tally;
use super::world::World;

/// The results of one policy.
///
/// - *Load*: sends that reach the server in a second, over its capacity.
/// - *Extra sends*: sends over requests that began, less one.
/// - *Goodput*: of the requests that began, the share that got a useful answer in the end, however
///   late, and however often they were sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measures {
    /// The load of each measured second.
    pub(crate) load: Vec<f64>,
    /// The highest load from the beginning of the outage on.
    pub(crate) peak: f64,
    /// The load of the last ten measured seconds.
    pub(crate) end: f64,
    pub(crate) extra_in_outage: f64,
    /// From the beginning of the outage on.
    pub(crate) extra: f64,
    /// Seconds from the end of the outage until goodput is at least 95 %, and stays there; none if
    /// it is not by the end of what is measured.
    pub(crate) recovery: Option<u32>,
    /// Seconds from the end of the outage to the end of what is measured.
    pub(crate) watched: u32,
    pub(crate) goodput_in_outage: f64,
    /// After the outage.
    pub(crate) goodput_after: f64,
    /// How long the useful answers took on average that were asked for in or after the outage.
    pub(crate) wait: f64,
    /// Of the requests that the server worked off, the share whose client had gone.
    pub(crate) wasted: f64,
}

/// Goodput at and above which the service is back.
const BACK: f64 = 0.95;

impl Measures {
    pub(crate) fn new(world: &World, tally: &Tally) -> Self {
        let load = |range| ratio(tally.during(range).sends, 1) / world.capacity;
        let seconds: Vec<f64> = (0..world.measured).map(|at| load(at..at + 1)).collect();
        let outage = tally.during(world.outage.clone());
        let after = tally.during(world.aftermath());
        let all = tally.during(world.outage.start..world.measured);
        let is_back = |second: &u32| {
            let second = tally.during(*second..*second + 1);
            ratio(second.answered, second.offered) >= BACK
        };
        let good = world.aftermath().rev().take_while(is_back).count();
        let bad = u32::try_from(world.aftermath().len() - good).unwrap_or(u32::MAX);
        Self {
            peak: (world.outage.start..world.measured)
                .map(|at| load(at..at + 1))
                .fold(0.0, f64::max),
            end: load(world.measured - 10..world.measured) / 10.0,
            load: seconds,
            extra_in_outage: ratio(outage.sends, outage.offered) - 1.0,
            extra: ratio(all.sends, all.offered) - 1.0,
            watched: world.measured - world.outage.end,
            recovery: (bad < world.measured - world.outage.end).then_some(bad),
            goodput_in_outage: ratio(outage.answered, outage.offered),
            goodput_after: ratio(after.answered, after.offered),
            wait: ratio(all.took_ms, all.answered) / 1000.0,
            wasted: ratio(tally.wasted, tally.worked),
        }
    }
}

/// `part` over `whole`; 0 of nothing is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    let (part, whole) = (part as f64, whole as f64);
    if whole == 0.0 { 0.0 } else { part / whole }
}
