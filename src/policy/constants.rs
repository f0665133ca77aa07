//! Every default of [`RetryPolicy`](super::RetryPolicy) and [`RetryBudget`](crate::RetryBudget), with the
//! reason for the number.

use std::num::NonZeroU32;
use std::time::Duration;

/// Sends of one logical request, the first included: 3.
///
/// The SRE book's bound: a third send still rides out a restart or a lost connection, while more
/// multiply the load of an outage for little gain.
pub const MAX_ATTEMPTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// First backoff delay: 100 ms, long enough for a connection to be replaced or a process to be
/// swapped, short enough that a caller who waits does not notice.
pub const BASE_DELAY: Duration = Duration::from_millis(100);

/// Longest backoff delay: 10 s. Beyond that a caller is better served by an answer.
pub const MAX_DELAY: Duration = Duration::from_secs(10);

/// First delay after a 429 without a server delay: 1 s.
///
/// Limiters count in windows of seconds or more, so the ordinary 100 ms would be spent inside the
/// same window. AWS SDKs separate the two in the same way.
pub const THROTTLE_BASE_DELAY: Duration = Duration::from_secs(1);

/// Longest delay after a 429 without a server delay: 20 s.
pub const THROTTLE_MAX_DELAY: Duration = Duration::from_secs(20);

/// Growth of the exponential backoff from one resend to the next: 2.
pub const FACTOR: f64 = 2.0;

/// Longest delay that a server may ask for: 60 s.
///
/// A server controls this number, so it needs a bound; a minute covers the usual limiter window.
pub const MAX_SERVER_DELAY: Duration = Duration::from_secs(60);

/// A wait that a server asked for is stretched by up to a tenth of itself, so that the clients it
/// told the same number do not all return in the same instant.
pub const SERVER_DELAY_SPREAD_DIVISOR: u32 = 10;

/// The stretch of a server's delay never exceeds 5 s.
pub const MAX_SERVER_DELAY_SPREAD: Duration = Duration::from_secs(5);

/// Tokens of a full retry budget, for each origin: 100 resends.
///
/// Enough for a burst of failures at a client of ordinary size; a client that sends a thousand requests
/// into an outage adds a tenth to them.
pub const BUDGET_CAPACITY: u32 = 100;

/// What an answer that is not transient adds to the budget: 0.2 tokens, so one resend for five answers,
/// the ratio of Finagle's and tower's budgets.
pub const BUDGET_REFILL_PER_ANSWER: f64 = 0.2;

/// Without a debit for 60 s the budget of an origin is full again: a client that asks seldom is not locked
/// out, and an outage costs at most one bucket a minute.
pub const BUDGET_REFILL_AFTER: Duration = Duration::from_secs(60);

/// The request field that carries an idempotency key
/// (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
