//! The pure policy: what to send again, after how long, how many times.
//!
//! Nothing here does I/O, reads a clock or owns a generator: time and randomness are arguments.
//!
//! | question | file |
//! |---|---|
//! | which rule comes first? | `decide` |
//! | what can be set, what is refused? | `builder`, `constants`; `known_fields` (what no key may go into) |
//! | which methods, statuses, faults? | `method`, `status`, `fault` |
//! | how long? | `backoff`, `jitter`, `server_delay`, `retry_after`, `rate_limit` |
//! | what does one API say and promise? | `profile`, `delay_hint` |
//! | which key makes a POST repeatable? | `idempotency_key` |
//! | what does all that come to? | `explain` |
//! | what does a file say of it? | `settings` |

mod attempt;
mod backoff;
mod builder;
mod classifier;
pub mod constants;
mod decide;
mod decision;
mod delay_hint;
mod error;
mod explain;
mod fault;
mod http_date;
mod idempotency_key;
mod jitter;
mod known_fields;
mod method;
mod profile;
mod rate_limit;
mod retry_after;
mod retry_policy;
mod rfc3339;
mod server_delay;
mod session;
#[cfg(feature = "serde")]
pub(crate) mod settings;
mod status;

pub use attempt::{Attempt, Outcome};
pub use backoff::Backoff;
pub use builder::RetryPolicyBuilder;
pub use classifier::{Classifier, Verdict};
pub use decision::{DelaySource, RetryDecision, RetryReason, StopReason};
pub use delay_hint::{DelayHint, HintUnit};
pub use error::PolicyError;
pub use explain::Explanation;
pub(crate) use explain::Page;
pub use fault::{Delivery, Fault, FaultKind, FaultSet};
pub use idempotency_key::{IdempotencyKey, KeyFormat};
pub use jitter::{Jitter, Share};
pub(crate) use known_fields::has_a_meaning;
pub use method::RetryableMethod;
pub use profile::{ApiProfile, StatusCondition};
pub use retry_after::retry_after;
pub use retry_policy::RetryPolicy;
pub use server_delay::ServerDelays;
pub use session::RetrySession;
pub use status::StatusSet;
pub(crate) use status::is_well;
