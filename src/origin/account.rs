//! What one call has with a budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Url;

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

#[derive(Debug)]
enum State {
    /// The resend has not been sent.
    Waiting,
    /// The resend is sent once this is true: its body has to be made first.
    Leaving(Arc<AtomicBool>),
    /// The attempt has been sent, with or without a token; how it ended is not known, or it failed.
    Sent,
    /// A server that is not sick answered the attempt.
    Answered,
}

impl Account {
    pub(super) fn new(budget: RetryBudget, key: Key) -> Self {
        Self { budget, key, token: None, state: State::Sent }
    }

    /// Whether it is with this budget, at the origin of `url`: the keys of another budget are others.
    pub(crate) fn is_with(&self, budget: &RetryBudget, url: &Url) -> bool {
        self.key == budget.key(url)
    }

    /// Takes a token for another resend.
    pub(crate) fn take(&mut self) -> bool {
        self.failed();
        self.token = self.budget.take(self.key);
        self.state = State::Waiting;
        self.token.is_some()
    }

    /// The resend is on its way, as soon as `has_left` is true, if there is that.
    pub(crate) fn sent(&mut self, has_left: Option<Arc<AtomicBool>>) {
        match has_left {
            Some(has_left) => self.state = State::Leaving(has_left),
            None => self.use_up(),
        }
    }

    /// Whether its resend is yet to be sent.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// The attempt brought an answer of a server that is not sick.
    pub(crate) fn answered(&mut self) {
        self.settle_leaving();
        self.state = State::Answered;
    }

    /// The attempt failed, whatever it brought first: its token is spent, if it was sent at all.
    pub(crate) fn failed(&mut self) {
        self.settle_leaving();
        if let (State::Waiting, Some(home)) = (&self.state, self.token) {
            self.budget.put_back(self.key, home);
        }
        self.token = None;
        self.state = State::Sent;
    }

    fn settle_leaving(&mut self) {
        if let State::Leaving(has_left) = &self.state {
            if has_left.load(Ordering::Relaxed) {
                self.use_up();
            } else {
                self.state = State::Waiting;
            }
        }
    }

    fn use_up(&mut self) {
        if let Some(home) = self.token {
            self.budget.use_up(self.key, home);
        }
        self.state = State::Sent;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let State::Answered = self.state {
            self.budget.answered(self.key, self.token);
        } else {
            self.failed();
        }
    }
}
