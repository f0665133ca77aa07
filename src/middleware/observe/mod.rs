//! The one place from which the middleware tells what it does. What it tells is in the documentation of
//! the crate, under "Events".

#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "tracing")]
pub(super) use self::tracing::{decided, nested, unproven_statuses};

#[cfg(not(feature = "tracing"))]
mod silent;
#[cfg(not(feature = "tracing"))]
pub(super) use self::silent::{decided, nested, unproven_statuses};
