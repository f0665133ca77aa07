//! In place of `src/origin/key.rs`, which needs URLs.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) u8);
