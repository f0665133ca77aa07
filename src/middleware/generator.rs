//! Where the randomness of the waits comes from.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use rand::Rng;

/// The thread's generator, or one that the caller brought.
#[derive(Default)]
pub(super) enum Generator {
    #[default]
    Thread,
    Given(Mutex<Box<dyn Rng + Send>>),
}

impl Generator {
    pub(super) fn new(rng: impl Rng + Send + 'static) -> Self {
        Self::Given(Mutex::new(Box::new(rng)))
    }

    /// Only asked after a failure, so that a lock does no harm.
    pub(super) fn with<T>(&self, draw: impl FnOnce(&mut dyn Rng) -> T) -> T {
        match self {
            Self::Thread => draw(&mut rand::rng()),
            Self::Given(rng) => draw(&mut **rng.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "Thread",
            Self::Given(_) => "Given",
        })
    }
}
