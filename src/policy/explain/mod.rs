//! A policy as a table that people can read.
//!
//! Nothing here knows a rule: `outcomes` asks the policy about every outcome, `schedule` asks its backoff;
//! `words` says what the words mean, `page` how it all looks.

mod outcomes;
mod page;
mod schedule;
mod words;

use std::fmt;
use std::time::Duration;

use self::outcomes::{Cell, Outcomes};
pub(crate) use self::page::Page;
use super::RetryPolicy;

/// What a policy comes to, for people: by [`RetryPolicy::explain`].
///
/// Which outcomes are sent again, for which requests; how long each wait is; which limits there are. The
/// same policy gives the same text, so that it can be kept beside the code and compared in review.
///
/// `{}` is plain text with at most 100 columns, but for a name that is longer, `{:#}` is Markdown, whose
/// headings begin at level 3. Both end with a newline.
///
/// ```
/// use reqwest_typed_retry::RetryPolicy;
///
/// let text = RetryPolicy::default().explain().to_string();
/// let table = "\
/// outcome                                      idempotent       with a key          other
///                                              GET, HEAD, PUT,  POST, PATCH         POST, PATCH, ...
///                                              DELETE, ...      (not honoured)      without a key
/// -------------------------------------------  ---------------  ------------------  ------------------
/// below 400                                    no: completed    no: completed       no: completed
/// 408, 425, 429, 500, 502-504                  resend           no: not_idempotent  no: not_idempotent
/// every other status                           no: permanent    no: permanent       no: permanent
/// fault: dns, connect, timeout,                resend           if not processed    if not processed
///   connection_lost, network, refused,
///   protocol, body
/// fault: tls, decode, invalid, other           no: permanent    no: permanent       no: permanent
/// ";
/// assert!(text.contains(table), "{text}");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Explanation {
    /// Without its classifiers.
    policy: RetryPolicy,
    classifiers: usize,
    /// Whether the client could prove that a request was not processed.
    provable: bool,
}

impl RetryPolicy {
    /// What this policy comes to, to be read and reviewed: see [`Explanation`].
    ///
    /// Classifiers are counted and not called: what code would say can't be told.
    ///
    /// ```
    /// use reqwest_typed_retry::RetryPolicy;
    ///
    /// let text = RetryPolicy::default().explain().to_string();
    /// assert!(text.contains("3 (the first send and 2 resends)"), "{text}");
    /// ```
    pub fn explain(&self) -> Explanation {
        let classifiers = self.rules().classifiers.count();
        Explanation { policy: self.without_classifiers(), classifiers, provable: true }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = Page::new(f.alternate());
        self.write(&mut page, &mut Vec::new());
        f.write_str(&page.finish())
    }
}

impl Explanation {
    /// Of a policy in a client that has no proof.
    pub(crate) fn without_proof(self) -> Self {
        Self { provable: false, ..self }
    }

    /// Leaves out what the words mean that have been `explained` on this page already.
    pub(crate) fn write(&self, page: &mut Page, explained: &mut Vec<(String, String)>) {
        self.what_is_sent_again(page, explained);
        schedule::how_long_it_waits(page, &self.policy, self.classifiers > 0);
        self.limits(page);
    }

    fn what_is_sent_again(&self, page: &mut Page, explained: &mut Vec<(String, String)>) {
        page.heading("What is sent again");
        if !self.policy.attempts_left(1) {
            page.warning(
                "nothing is ever sent again, because max_attempts is 1. Where the table says resend, the \
                 outcome is returned all the same (attempts_exhausted).",
            );
        }
        page.paragraph(
            "An attempt ends with a status, or with a fault where no whole response came. The first row that \
             fits counts.",
        );
        if self.classifiers > 0 {
            let rules = match self.classifiers {
                1 => "one rule of the application's own (a classifier)".to_owned(),
                count => format!("{count} rules of the application's own (classifiers)"),
            };
            page.paragraph(&format!(
                "Asked before this table, about every outcome: {rules}. The first opinion counts in place of \
                 the row. It says that an outcome is worth a resend or that it is not, never that a request is safe \
                 to send twice. Rules are code, so that this can't show what they say."
            ));
        }
        let outcomes = Outcomes::of(&self.policy, self.provable);
        let classes = outcomes.classes.iter().copied();
        let head = std::iter::once("outcome")
            .chain(classes.clone().map(|class| words::head(&self.policy, class)));
        let head: Vec<_> = head.map(str::to_owned).collect();
        page.table(&head, &outcomes.rows(page));

        let columns = classes.map(|class| words::column(page, &self.policy, class)).collect();
        let mut is_short = false;
        let mut terms = |page: &mut Page, title: &str, mut terms: Vec<(String, String)>| {
            let count = terms.len();
            terms.retain(|term| !explained.contains(term));
            if !terms.is_empty() {
                page.terms(Some(title), &terms);
            }
            is_short |= terms.len() < count;
            explained.append(&mut terms);
        };
        terms(page, "Columns:", columns);
        let cells = outcomes.kinds_of_cells();
        let meaning = |cell: &Cell| (cell.label(), words::cell(page, *cell, &outcomes));
        let cells = cells.iter().map(meaning).collect();
        terms(page, "Cells (what is not sent again is returned):", cells);
        let rows = words::rows(page, &self.policy, &outcomes);
        terms(page, "Rows:", rows);
        if is_short {
            page.paragraph("Words that are not explained here are explained above.");
        }
    }

    fn limits(&self, page: &mut Page) {
        page.heading("Limits");
        let policy = &self.policy;
        let attempts = match policy.max_attempts().map(|max| max.get()) {
            None => "any number, up to the deadline".to_owned(),
            Some(1) => "1 (a request is sent once)".to_owned(),
            Some(2) => "2 (the first send and 1 resend)".to_owned(),
            Some(max) => format!("{max} (the first send and {} resends)", max - 1),
        };
        let limit = |limit: Option<Duration>, of: &str| match limit {
            Some(limit) => format!("{limit:?} {of}"),
            None => "none".to_owned(),
        };
        page.terms(None, &[
            ("attempts".to_owned(), attempts),
            (
                "attempt timeout".to_owned(),
                limit(policy.attempt_timeout(), "for each send, to the end of its response body"),
            ),
            (
                "head timeout".to_owned(),
                limit(policy.head_timeout(), "for each send, to the head of its response"),
            ),
            (
                "deadline".to_owned(),
                limit(
                    policy.deadline(),
                    "for all sends and waits together, up to the head of the last response; a wait that \
                     would not end before it never starts",
                ),
            ),
        ]);
        let limits = [policy.attempt_timeout(), policy.head_timeout(), policy.deadline()];
        if limits.iter().all(Option::is_none) {
            page.warning(
                "no time limit is set here. A server that accepts a request and never answers hangs the \
                 call, unless the client has a timeout of its own. Set attempt_timeout.",
            );
        }
    }
}
