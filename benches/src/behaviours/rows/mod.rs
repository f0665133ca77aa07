//! The rows of the tables.

mod load;
mod outcomes;
mod resends;
mod waits;

use super::Result;
use super::contender::{Contender, Setup};
use super::request::Wanted;
use super::seen::Seen;
use super::server::Script;

pub use load::{outage, second_request};

/// A table.
pub struct Group {
    pub title: &'static str,
    pub rows: Vec<Row>,
}

/// All but what needs more than one call.
#[must_use]
pub fn all() -> Vec<Group> {
    vec![
        Group { title: "What is sent again", rows: resends::rows() },
        Group { title: "When", rows: waits::rows() },
        Group { title: "What the caller gets", rows: outcomes::rows() },
        Group { title: "What the server gets", rows: load::rows() },
    ]
}

/// One call by everybody.
pub struct Row {
    name: &'static str,
    script: Script,
    cell: fn(&Seen) -> String,
    wanted: Wanted,
    setup: Setup,
    /// It depends on what the callers of those that must be told have told them.
    is_by_rule: bool,
    takes_part: fn(Contender) -> bool,
}

impl Row {
    fn new(name: &'static str, script: Script, cell: fn(&Seen) -> String) -> Self {
        Self {
            name,
            script,
            cell,
            wanted: Wanted::default(),
            setup: Setup::default(),
            is_by_rule: false,
            takes_part: |_| true,
        }
    }

    fn wanted(self, wanted: Wanted) -> Self {
        Self { wanted, ..self }
    }

    fn setup(self, setup: Setup) -> Self {
        Self { setup, ..self }
    }

    fn by_rule(self) -> Self {
        Self { is_by_rule: true, ..self }
    }

    /// The others have nothing like it.
    fn only(self, takes_part: fn(Contender) -> bool) -> Self {
        Self { takes_part, ..self }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// # Errors
    /// If it could not be measured.
    pub async fn cell(&self, contender: Contender) -> Result<String> {
        if !(self.takes_part)(contender) {
            return Ok("–".to_owned());
        }
        let seen = Seen::call(contender, self.script, &self.setup, &self.wanted).await?;
        let mark = if self.is_by_rule && contender.is_told() { " ¹" } else { "" };
        Ok((self.cell)(&seen) + mark)
    }
}
