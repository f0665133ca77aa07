//! All policies through one outage, and what they come to.

use anyhow::{Context as _, Result};

use super::chart::{Line, chart};
use super::contenders::{Contender, Kind};
use super::fleet::simulate_all;
use super::measures::Measures;
use super::report::report;
use super::table::Table;
use super::world::World;

/// The results, in the order of the kinds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    results: Vec<(Kind, Measures)>,
}

impl Outcome {
    pub(crate) fn of(world: &World, kinds: &[Kind]) -> Result<Self> {
        let contenders = kinds.iter().map(|kind| Contender::new(*kind, world));
        let tallies = simulate_all(world, &contenders.collect::<Result<Vec<_>, _>>()?)?;
        let measures = tallies.iter().map(|tally| Measures::new(world, tally));
        Ok(Self { results: kinds.iter().copied().zip(measures).collect() })
    }

    pub(crate) fn measures(&self, kind: Kind) -> Result<&Measures> {
        let found = self.results.iter().find(|(it, _)| *it == kind);
        let (_, measures) = found.with_context(|| format!("{} was not run", kind.name()))?;
        Ok(measures)
    }

    pub(crate) fn table(&self) -> Table {
        report(self.results.iter().map(|(kind, measures)| (kind.name(), measures)))
    }

    pub(crate) fn chart(&self, world: &World) -> Result<String> {
        let line = |(kind, measures): &(Kind, Measures)| {
            let (name, colour) = kind.line()?;
            Some(Line { name, colour, load: measures.load.clone() })
        };
        chart(world, &self.results.iter().filter_map(line).collect::<Vec<_>>())
    }
}
