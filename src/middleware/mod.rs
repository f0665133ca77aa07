//! The adapter: applies a policy inside a `reqwest-middleware` chain. All I/O is here.
//!
//! | question | file |
//! |---|---|
//! | what happens to a call? | `call` (the loop), `retry_middleware` (its entry), `builder` |
//! | what is sent again? | `replay` |
//! | what does an attempt know of itself? | `scope`, `resend_count` |
//! | what proves that it was not processed? | `proof` |
//! | what is told, and to whom? | `history` (the caller), `observe` (the operator) |
//! | where do time and randomness come from? | `time`, `generator` |

mod builder;
mod call;
mod generator;
mod history;
mod observe;
mod proof;
mod replay;
mod resend_count;
mod retry_middleware;
mod scope;
mod time;

use std::pin::Pin;

pub use builder::RetryMiddlewareBuilder;
pub use history::{AttemptOutcome, AttemptRecord, RetryHistory, RetryTracker};
pub use proof::DeliveryProof;
pub use resend_count::ResendCount;
pub use retry_middleware::RetryMiddleware;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
