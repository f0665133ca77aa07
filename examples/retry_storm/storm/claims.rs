//! What the documentation says of the simulation, so that it fails when that is no longer so.

use anyhow::Result;

use super::contenders::Kind;
use super::outcome::Outcome;
use super::world::{Sickness, World};

/// The claims that don't hold.
pub(crate) fn broken(world: &World, outcome: &Outcome) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let mut claim = |what: &str, holds: bool| {
        if !holds {
            broken.push(what.to_owned());
        }
    };
    let none = outcome.measures(Kind::NoRetries)?;
    let naive = outcome.measures(Kind::FixedWait)?;
    let peer = outcome.measures(Kind::Peer)?;
    let no_jitter = outcome.measures(Kind::NoJitter)?;
    let without = outcome.measures(Kind::WithoutBudget)?;
    let normal = world.normal_load();

    let is_slow = matches!(world.sickness, Sickness::Slow(_));

    claim("without retries the service comes back", none.recovery.is_some());
    for it in [naive, peer] {
        claim("four attempts make more than three of the load", it.extra_in_outage > 2.0);
        // Behind a server that refuses at once their storm may or may not take hold: in a small
        // fleet that is up to chance.
        claim("they keep the service down after the outage", !is_slow || it.recovery.is_none());
        claim("they keep the load beyond capacity", !is_slow || it.end > 3.0 * normal);
    }
    claim("three attempts without a budget keep it down, too", without.recovery.is_none());
    claim("so does a backoff without jitter, unless 503s come at once", {
        no_jitter.recovery.is_none() == is_slow
    });

    let own = outcome.measures(Kind::OwnBudget)?;
    claim("few requests a client: a budget of its own changes nothing", own == without);
    let budget = outcome.measures(Kind::Budget)?;
    let back = none.recovery.unwrap_or(0);
    // 100 tokens a process; and a little for what is answered in the outage, and for chance.
    let tokens = 100.0 * f64::from(world.processes);
    let requests = world.offered * f64::from(world.outage.end - world.outage.start);
    let holds = tokens / requests;
    claim("shared budgets add what they hold", budget.extra_in_outage <= 1.15 * holds);
    claim("with it the service comes back as without retries", {
        budget.recovery.is_some_and(|seconds| seconds <= back + 1)
    });
    claim("and the load is the normal one", (budget.end / normal - 1.0).abs() < 0.25);

    let held = outcome.measures(Kind::Cooldown)?;
    let deadline = outcome.measures(Kind::CooldownDeadline)?;
    for it in [held, deadline] {
        claim("a cooldown takes most of the load away", it.extra_in_outage < -0.5);
    }
    claim("what it holds without a deadline keeps the service down", held.recovery.is_none());
    // By chance the server asks for quiet once more, with one seed in ten twice.
    claim("with a deadline the service is back within three delays of the server's", {
        deadline.recovery.is_some_and(|seconds| seconds <= back + 3 * world.retry_after)
    });
    Ok(broken)
}
