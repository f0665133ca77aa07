//! How fast the server works, and when.

use super::world::{Sickness, World};

/// The work that the server can do from the start to any time: a line with three slopes.
#[derive(Clone, Debug)]
pub(crate) struct Works {
    /// Begin in seconds, the work that could be done up to it, and what can be done in a second.
    pieces: [(f64, f64, f64); 3],
}

impl Works {
    pub(crate) fn new(world: &World) -> Self {
        let speed = world.capacity;
        let sick = match world.sickness {
            Sickness::Slow(share) => speed * share,
            Sickness::Refusing(_) => speed, // what had queued is worked off
        };
        let (start, end) = (f64::from(world.outage.start), f64::from(world.outage.end));
        let at_start = start * speed;
        let at_end = at_start + (end - start) * sick;
        Self { pieces: [(0.0, 0.0, speed), (start, at_start, sick), (end, at_end, speed)] }
    }

    /// The work that could be done up to `time`.
    pub(crate) fn done_by(&self, time: f64) -> f64 {
        let [first, ..] = self.pieces;
        let piece = self.pieces.iter().rev().find(|(begin, ..)| time >= *begin);
        let (begin, done, speed) = *piece.unwrap_or(&first);
        done + (time - begin) * speed
    }

    /// When so much work could be done.
    pub(crate) fn time_of(&self, work: f64) -> f64 {
        let [first, ..] = self.pieces;
        let piece = self.pieces.iter().rev().find(|(_, done, _)| work >= *done);
        let (begin, done, speed) = *piece.unwrap_or(&first);
        begin + (work - done) / speed
    }
}
