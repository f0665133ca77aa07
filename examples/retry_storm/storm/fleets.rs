//! How far budgets bound a fleet: counted resends beside the bound from the counted requests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::contenders::{Contender, Kind};
use super::fleet::simulate;
use super::measures::ratio;
use super::table::Table;
use super::tally::{Client, Tally};
use super::world::{Sickness, World};

/// The rate of requests is told for so many seconds.
const WINDOW: u32 = 30;
/// Before the outage, so that it does not begin with the first request.
const HEALTHY: u32 = 2;
/// What a full budget holds, and what an answer gives: the defaults of the crate.
const CAPACITY: f64 = 100.0;
const REFILL: f64 = 0.2;
/// A budget without a debit for so long is full again.
const FORGOTTEN_AFTER: u32 = 60;
/// Resends of a request that the policy allows.
const RESENDS: u64 = 2;

/// Fleets with so many requests are run with budgets only: three times as many sends take minutes, and
/// show what the smaller ones show.
const LARGE: u64 = 5_000_000;

/// A fleet in an outage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) clients: u32,
    /// Requests of each client in half a minute.
    pub(crate) requests: u32,
    /// How long the outage is, in seconds.
    pub(crate) outage: u32,
    /// The share of requests that the server refuses in it.
    pub(crate) refused: f64,
    /// So many processes, each with one budget for its clients; if not, each client has one.
    pub(crate) processes: Option<u32>,
}

/// The cases of the documentation.
pub(crate) fn cases() -> Vec<Case> {
    let whole = |clients, requests| Case {
        clients,
        requests,
        outage: WINDOW,
        refused: 1.0,
        processes: None,
    };
    let few = [100, 1_000, 10_000].map(|clients| whole(clients, 10));
    let shared = Case { processes: Some(10), ..whole(10_000, 10) };
    let many = [100, 1_000, 10_000].map(|clients| whole(clients, 1_000));
    let partial = Case { refused: 0.8, ..whole(1_000, 1_000) };
    let long = Case { outage: 150, ..whole(100, 1_000) };
    few.into_iter().chain([shared]).chain(many).chain([partial, long]).collect()
}

/// What a case comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fleet {
    /// Sends over requests in the outage, with budgets.
    pub(crate) load: f64,
    /// The same without; none where that was not run.
    pub(crate) load_without: Option<f64>,
    /// Resends that failed, with budgets.
    pub(crate) failed: u64,
    /// The most that may.
    pub(crate) bound: f64,
}

impl Case {
    pub(crate) fn run(&self, seed: u64) -> Result<Fleet> {
        let kind = if self.processes.is_some() { Kind::Budget } else { Kind::OwnBudget };
        let load_without = match u64::from(self.clients) * u64::from(self.requests) {
            LARGE.. => None,
            _ => Some(self.simulate(seed, Kind::WithoutBudget)?.1),
        };
        let (tally, load) = self.simulate(seed, kind)?;
        let failed = tally.clients.iter().map(Client::failed_resends).sum();
        Ok(Fleet { load, load_without, failed, bound: self.bound(&tally) })
    }

    fn simulate(&self, seed: u64, kind: Kind) -> Result<(Tally, f64)> {
        let world = self.world(seed);
        let tally = simulate(&world, &Contender::new(kind, &world)?)?;
        let outage = tally.during(world.outage);
        Ok((tally, ratio(outage.sends, outage.offered)))
    }

    fn world(&self, seed: u64) -> World {
        let offered = f64::from(self.clients) * f64::from(self.requests) / f64::from(WINDOW);
        let end = HEALTHY + self.outage;
        World {
            seed,
            clients: self.clients,
            processes: self.processes.unwrap_or(self.clients),
            offered,
            // It never fails for want of capacity.
            capacity: offered * 10.0,
            queue: f64::INFINITY,
            patience: Duration::from_secs(1),
            outage: HEALTHY..end,
            sickness: Sickness::Refusing(self.refused),
            retry_after: 0, // asks for nothing, so that resends fall into the outage, too
            measured: end,
            tail: 0,
        }
    }

    /// The sum over the budgets of the lesser of what the policy would resend, and what the budget
    /// grants: a full one, again for each minute, and a share of each answer.
    fn bound(&self, tally: &Tally) -> f64 {
        let full = CAPACITY * f64::from(1 + self.outage / FORGOTTEN_AFTER);
        let mut budgets = BTreeMap::<u32, (u64, u64)>::new();
        for (number, client) in (0..).zip(&tally.clients) {
            let budget = self.processes.map_or(number, |processes| number % processes);
            let (wanted, answers) = budgets.entry(budget).or_default();
            *wanted += RESENDS * (client.sends - client.resends);
            *answers += client.answers;
        }
        let granted = |answers| full + REFILL * ratio(answers, 1);
        budgets.values().map(|(wanted, answers)| ratio(*wanted, 1).min(granted(*answers))).sum()
    }
}

/// A row for each case. It says on stderr which one is running: the large ones take minutes.
pub(crate) fn table(cases: &[Case], seed: u64) -> Result<Table> {
    let mut table = Table::new([
        "clients",
        "requests of each in 30 s",
        "budget",
        "outage",
        "refused",
        "load without budget",
        "load",
        "failed resends",
        "at most",
    ]);
    for case in cases {
        eprintln!("{case:?}");
        let fleet = case.run(seed)?;
        table.row([
            grouped(&case.clients.to_string()),
            grouped(&case.requests.to_string()),
            match case.processes {
                Some(processes) => format!("in {processes} processes"),
                None => "each its own".into(),
            },
            format!("{} s", case.outage),
            format!("{:.0} %", case.refused * 100.0),
            fleet.load_without.map_or("not run".into(), |load| format!("{load:.2}")),
            format!("{:.2}", fleet.load),
            grouped(&fleet.failed.to_string()),
            grouped(&format!("{:.0}", fleet.bound)),
        ]);
    }
    Ok(table)
}

/// With commas between the thousands.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
