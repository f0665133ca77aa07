//! The one place from which the middleware tells what it does.
//!
//! | event | level | fields | when |
//! |---|---|---|---|
//! | `resending` | INFO | `retry`, `method`, `origin`, `reason`, `delay`, `delay_source` | before each wait |
//! | `giving up` | WARN | `attempts`, `method`, `outcome`, `reason` | a transient failure is returned |
//! | `not resent` | DEBUG | the same | … because it might take effect twice |
//! | `nested retry middleware passes through` | DEBUG | | a second one in the same chain |
//! | `not_processed_statuses has no effect without a delivery proof` | DEBUG | | by `RetryMiddleware::new` |
//!
//! The target is `reqwest_typed_retry`. Nothing for a first-try success, a permanent failure, or a call
//! that a cancellation or a deadline ends before an attempt. No userinfo, path, query or field of the
//! request is in any of them. All need the feature `tracing`.

#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "tracing")]
pub(super) use self::tracing::{decided, nested, unproven_statuses};

#[cfg(not(feature = "tracing"))]
mod silent;
#[cfg(not(feature = "tracing"))]
pub(super) use self::silent::{decided, nested, unproven_statuses};
