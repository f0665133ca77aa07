//! What a scripted server does with one request. It has acted on it before.

use std::time::Duration;

/// One answer over HTTP/1.1.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: String,
    pub ending: Ending,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Whole,
    /// Half of the body, then the end of the connection.
    Cut,
    /// Half of the body, the rest so much later.
    Late(Duration),
    /// The connection ends instead of an answer.
    NoAnswer,
    /// Nothing comes, and nothing ends.
    Silence,
    /// Bytes that are no HTTP.
    Gibberish,
}

impl Answer {
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self {
            status,
            fields: Vec::new(),
            body: format!("this is {status}"),
            ending: Ending::Whole,
        }
    }

    /// It ends as `ending` says; no more than that is known of it.
    #[must_use]
    pub fn ending(ending: Ending) -> Self {
        Self { ending, ..Self::new(200) }
    }

    #[must_use]
    pub fn field(mut self, name: &'static str, value: impl ToString) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    #[must_use]
    pub fn body(self, body: String) -> Self {
        Self { body, ..self }
    }

    #[must_use]
    pub fn ends(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// Its head, and the two halves of its body.
    #[must_use]
    pub fn parts(&self) -> (String, &str, &str) {
        let mut head =
            format!("HTTP/1.1 {} as told\r\ncontent-length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let (first, rest) = self.body.split_at(self.body.len() / 2);
        (head, first, rest)
    }
}
