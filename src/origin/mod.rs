//! What the requests of a client know of each other, by the origin that they go to.
//!
//! | question | file |
//! |---|---|
//! | is there a token for this resend? | `budget` (the handle and its settings), `account` (one call's dealings with it) |
//! | which origins have state, and for how long? | `sick_origins`; `sick_origin` (that of one), `bucket` |
//! | is an origin closed for the moment? | `cooldown` |
//! | what is an origin? | `key` |

mod account;
mod bucket;
mod budget;
mod cooldown;
mod key;
mod sick_origin;
mod sick_origins;

pub(crate) use account::Account;
pub use budget::{RetryBudget, RetryBudgetBuilder};
pub use cooldown::Cooldown;
pub(crate) use key::Key;
