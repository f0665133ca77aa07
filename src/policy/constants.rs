//! Every default of [`RetryPolicy`](super::RetryPolicy) and [`RetryBudget`](crate::RetryBudget), with the
//! reason for the number.
//!
//! How many sends, and the waits between them:
//!
//! ```
//! use std::time::Duration;
//! use reqwest_typed_retry::{Backoff, constants};
//!
//! let ms = Duration::from_millis;
//! assert_eq!(constants::MAX_ATTEMPTS.get(), 3);
//!
//! let backoff = Backoff::exponential(constants::BASE_DELAY, constants::MAX_DELAY)?;
//! assert_eq!([1, 2, 8].map(|retry| backoff.delay(retry)), [ms(100), ms(200), ms(10_000)]);
//! assert_eq!(backoff.clone().with_factor(constants::FACTOR)?, backoff);
//!
//! let after_429 =
//!     Backoff::exponential(constants::THROTTLE_BASE_DELAY, constants::THROTTLE_MAX_DELAY)?;
//! assert_eq!([1, 2, 6].map(|retry| after_429.delay(retry)), [ms(1_000), ms(2_000), ms(20_000)]);
//! # Ok::<(), reqwest_typed_retry::PolicyError>(())
//! ```
//!
//! The delays that servers ask for, and the budget:
//!
//! ```
//! use std::time::Duration;
//! use reqwest_typed_retry::{RetryBudget, constants};
//!
//! // A minute is waited for in 60 to 65 s. A shorter delay than 50 s is stretched by less than 5 s.
//! let (longest, stretch) = (constants::MAX_SERVER_DELAY, constants::MAX_SERVER_DELAY_SPREAD);
//! assert_eq!((longest, stretch), (Duration::from_secs(60), Duration::from_secs(5)));
//! assert_eq!(stretch * constants::SERVER_DELAY_SPREAD_DIVISOR, Duration::from_secs(50));
//!
//! assert_eq!(constants::BUDGET_CAPACITY, 100);
//! assert_eq!(RetryBudget::default().level(&"http://localhost/".parse()?), 100.0);
//! assert_eq!(1.0 / constants::BUDGET_REFILL_PER_ANSWER, 5.0); // answers for one resend
//! assert_eq!(constants::BUDGET_REFILL_AFTER, Duration::from_secs(60));
//!
//! assert_eq!(constants::IDEMPOTENCY_KEY, "idempotency-key");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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

/// A wait that a server asked for is stretched by up to a tenth of itself (the delay, divided by 10), so
/// that the clients it told the same number do not all return in the same instant.
pub const SERVER_DELAY_SPREAD_DIVISOR: u32 = 10;

/// The stretch of a server's delay never exceeds 5 s: beyond 50 s it is no tenth any more.
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

/// The request field that carries an idempotency key, in lower case as
/// [`HeaderName`](http::HeaderName) has it (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
