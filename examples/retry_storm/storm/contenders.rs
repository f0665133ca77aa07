//! The policies that are compared, in one table.

use std::time::Duration;

use rand::Rng;
use reqwest_typed_retry::{
    Backoff, Cooldown, Jitter, PolicyError, RetryBudget, RetryMiddleware, RetryPolicy, ServerDelays,
};

use super::world::World;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NoRetries,
    FixedWait,
    Peer,
    NoJitter,
    WithoutBudget,
    /// A budget that each client has for itself: what a client has by default.
    OwnBudget,
    /// A budget that the clients of a process share.
    Budget,
    /// And a cooldown that they share: requests are held while the server asks for quiet.
    Cooldown,
    /// And a deadline, so that few are held.
    CooldownDeadline,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::NoRetries,
        Self::FixedWait,
        Self::Peer,
        Self::NoJitter,
        Self::WithoutBudget,
        Self::OwnBudget,
        Self::Budget,
        Self::Cooldown,
        Self::CooldownDeadline,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoRetries => "no retries",
            Self::FixedWait => "fixed wait of 1 s, 4 attempts",
            Self::Peer => "usual peer settings, 4 attempts",
            Self::NoJitter => "exponential, no jitter",
            Self::WithoutBudget => "default, without budget",
            Self::OwnBudget => "default, a budget a client",
            Self::Budget => "default, a budget a process",
            Self::Cooldown => "… and a cooldown",
            Self::CooldownDeadline => "… and a deadline of 2 s",
        }
    }

    /// Its line in the picture, if it has one: name and colour; the colour-blind tell these apart.
    pub(crate) fn line(self) -> Option<(&'static str, (u8, u8, u8))> {
        let colour = match self {
            Self::NoRetries => (130, 130, 130),
            Self::FixedWait => (213, 94, 0),
            Self::Peer => (230, 159, 0),
            Self::NoJitter => (204, 121, 167),
            Self::WithoutBudget => (86, 180, 233),
            Self::Budget => (0, 114, 178),
            Self::CooldownDeadline => (0, 158, 115),
            // The line of `WithoutBudget`, to the pixel; a saw that hides the others.
            Self::OwnBudget | Self::Cooldown => return None,
        };
        let name = match self {
            Self::CooldownDeadline => "… and cooldown, deadline",
            named => named.name(),
        };
        Some((name, colour))
    }
}

/// A policy and what the clients have besides it.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) kind: Kind,
    policy: RetryPolicy,
}

impl Contender {
    /// The one of this kind, for the clients of `world`.
    pub(crate) fn new(kind: Kind, world: &World) -> Result<Self, PolicyError> {
        let seconds = Duration::from_secs;
        // The same patience for all; the time limit that holds inner middlewares too, since the
        // server is one.
        let patient = RetryPolicy::builder().head_timeout(world.patience);
        // What most code does: it never reads `Retry-After`.
        let deaf = patient.clone().server_delays(ServerDelays::Ignored);
        let policy = match kind {
            Kind::NoRetries => patient.max_attempts(1),
            Kind::FixedWait => {
                deaf.max_attempts(4).backoff(Backoff::constant(seconds(1))).jitter(Jitter::None)
            }
            // reqwest-retry's `ExponentialBackoff` as it is by default, with three retries.
            Kind::Peer => deaf
                .max_attempts(4)
                .backoff(Backoff::exponential(seconds(1), seconds(30 * 60))?)
                .jitter(Jitter::Full),
            Kind::NoJitter => deaf.jitter(Jitter::None),
            Kind::WithoutBudget | Kind::OwnBudget | Kind::Budget => patient,
            // It must have one: this ends nothing.
            Kind::Cooldown => patient.deadline(seconds(3_600)),
            Kind::CooldownDeadline => patient.deadline(seconds(2)),
        };
        Ok(Self { kind, policy: policy.build()? })
    }

    /// The middleware of one client.
    pub(crate) fn middleware(
        &self,
        process: &Process,
        generator: impl Rng + Send + 'static,
    ) -> Result<RetryMiddleware, PolicyError> {
        let retry = RetryMiddleware::builder(self.policy.clone()).generator(generator);
        match self.kind {
            Kind::OwnBudget => retry,
            Kind::Budget => retry.budget(process.budget.clone()),
            Kind::Cooldown | Kind::CooldownDeadline => {
                retry.budget(process.budget.clone()).cooldown(process.cooldown.clone())
            }
            _ => retry.without_budget(),
        }
        .build()
    }
}

/// What the clients of one process may share.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    budget: RetryBudget,
    cooldown: Cooldown,
}

impl Process {
    pub(crate) fn new() -> Self {
        Self { budget: RetryBudget::default(), cooldown: Cooldown::by_origin() }
    }
}
