//! Where the randomness of the waits comes from, and that of keys.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::{SysRng, ThreadRng};
use rand::{Rng, TryRng};

/// The thread's generator, or one that the caller brought. Clones draw from the same one.
#[derive(Clone, Default)]
pub(super) enum Generator {
    #[default]
    Thread,
    Given(Arc<Mutex<dyn Rng + Send>>),
}

impl Generator {
    pub(super) fn new(rng: impl Rng + Send + 'static) -> Self {
        Self::Given(Arc::new(Mutex::new(rng)))
    }

    pub(super) fn draws(&self) -> Draws<'_> {
        match self {
            Self::Thread => Draws::Thread(rand::rng()),
            Self::Given(rng) => Draws::Given(rng),
        }
    }
}

/// A generator for one decision. One that was given is locked for each draw alone: classifiers run
/// during a decision, and may wait for each other.
pub(super) enum Draws<'a> {
    Thread(ThreadRng),
    Given(&'a Mutex<dyn Rng + Send>),
}

impl Draws<'_> {
    fn with<T>(&mut self, draw: impl FnOnce(&mut dyn Rng) -> T) -> T {
        match self {
            Self::Thread(rng) => draw(rng),
            Self::Given(rng) => draw(&mut *rng.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl TryRng for Draws<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.with(|rng| rng.next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.with(|rng| rng.next_u64()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.with(|rng| rng.fill_bytes(bytes));
        Ok(())
    }
}

/// The operating system's own randomness: the thread's generator would draw the same on both sides of a
/// `fork`. It is better than none where the system has none to give.
pub(super) struct System;

impl TryRng for System {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        if SysRng.try_fill_bytes(bytes).is_err() {
            rand::rng().fill_bytes(bytes);
        }
        Ok(())
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
