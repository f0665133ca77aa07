//! What one call has with a budget.

use super::RetryBudget;
use super::key::Key;
use super::sick_origins::Home;

/// One call's dealings with a budget, at one origin: a token for the resend that is to come or on its way,
/// and what becomes of it. Dropped before the resend is sent, it gives the token back.
#[derive(Debug)]
pub(crate) struct Account {
    budget: RetryBudget,
    key: Key,
    token: Option<Home>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The resend has not been sent.
    Waiting,
    /// The attempt has been sent, with or without a token; how it ended is not known, or it failed.
    Sent,
    /// A server that is not sick answered the attempt.
    Answered,
}

impl Account {
    pub(super) fn new(budget: RetryBudget, key: Key) -> Self {
        Self { budget, key, token: None, state: State::Sent }
    }

    /// Takes a token for another resend; that of the attempt before it is spent.
    pub(crate) fn take(&mut self) -> bool {
        self.token = self.budget.take(self.key);
        self.state = State::Waiting;
        self.token.is_some()
    }

    /// Goes on without a token: the server paces this resend.
    pub(crate) fn take_none(&mut self) {
        self.token = None;
        self.state = State::Waiting;
    }

    /// The resend is on its way.
    pub(crate) fn sent(&mut self) {
        self.state = State::Sent;
    }

    /// The attempt never left.
    pub(crate) fn not_sent(&mut self) {
        self.state = State::Waiting;
    }

    /// The attempt failed after all, whatever it brought.
    pub(crate) fn failed(&mut self) {
        self.token = None;
        self.state = State::Sent;
    }

    /// The attempt brought an answer that is not transient.
    pub(crate) fn answered(&mut self) {
        self.state = State::Answered;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        match self.state {
            State::Waiting => self.budget.give_back(self.key, self.token, false),
            State::Sent => {}
            State::Answered => self.budget.give_back(self.key, self.token, true),
        }
    }
}
