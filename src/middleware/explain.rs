//! All rules of a client in one place, for people.

use std::fmt;

use super::{DrainLimits, RetryMiddleware, buffer};
use crate::origin::{Cooldown, RetryBudget};
use crate::policy::{Explanation, Page, RetryPolicy};

/// What a [`RetryMiddleware`] comes to, for people: by [`RetryMiddleware::explain`].
///
/// Which endpoint has the say over which request, what the client does besides, and the
/// [explanation](Explanation) of every policy. `{}` is plain text with at most 100 columns, but for a name
/// that is longer, `{:#}` is Markdown, whose headings begin at level 2.
///
/// ```
/// use reqwest_typed_retry::{Endpoint, RetryMiddleware, RetryPolicy};
///
/// let search = Endpoint::named("search").path("/search").build()?;
/// let retry = RetryMiddleware::builder(RetryPolicy::default()).endpoint(search).build()?;
/// let text = retry.explain().to_string();
/// assert!(text.contains("1. search: any method to any host below /search"), "{text}");
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientExplanation {
    /// What an endpoint matches, and what it says.
    endpoints: Vec<Part>,
    options: Vec<(String, String)>,
    policy: Explanation,
}

#[derive(Clone, Debug)]
struct Part {
    name: String,
    matches: String,
    options: Vec<(String, String)>,
    policy: Option<Explanation>,
}

impl RetryMiddleware {
    /// All rules of the client, to be read and reviewed: see [`ClientExplanation`].
    ///
    /// ```
    /// use reqwest_typed_retry::RetryMiddleware;
    ///
    /// // As Markdown. Kept in a repository, and compared by a test, it shows each change of a rule.
    /// let rules = format!("{:#}", RetryMiddleware::default().explain());
    /// assert!(rules.starts_with("## Which rules hold for a request"), "{rules}");
    /// ```
    pub fn explain(&self) -> ClientExplanation {
        let explain = |policy: &RetryPolicy| match self.has_proof {
            true => policy.explain(),
            false => policy.explain().without_proof(),
        };
        let endpoints = self.endpoints.iter().map(|endpoint| {
            let limit = endpoint.buffer_body.map(|limit| term("bodies", &bodies(limit)));
            let drain = endpoint.drain.map(|drain| term("discarded bodies", &discarded(drain)));
            Part {
                name: endpoint.name().to_owned(),
                matches: endpoint.to_string(),
                options: limit.into_iter().chain(drain).collect(),
                policy: endpoint.policy.as_ref().map(explain),
            }
        });
        ClientExplanation {
            endpoints: endpoints.collect(),
            options: self.options(),
            policy: explain(&self.policy),
        }
    }

    fn options(&self) -> Vec<(String, String)> {
        let proof = if self.has_proof {
            "yes: where it says \"if not processed\", that may be proven"
        } else {
            "none: nothing can prove that a server did not act on a POST that failed"
        };
        let budget = self.budget.as_ref().map(RetryBudget::to_string);
        let cooldown = self.cooldown.as_ref().map(Cooldown::to_string);
        let header = self.attempt_header.as_ref().map(|name| name.to_string());
        let none = |text: Option<String>, none: &str| text.unwrap_or_else(|| none.to_owned());
        vec![
            term("delivery proof", proof),
            term(
                "budget",
                &none(budget, "none: whatever state a server is in, every resend is sent"),
            ),
            term("cooldown", &none(cooldown, "none: each request learns for itself")),
            term("bodies", &bodies(self.buffer_body.unwrap_or(0))),
            term("discarded bodies", &discarded(self.drain)),
            term(
                "errors",
                if self.wraps_errors {
                    "wrapped: they say how often the request was sent, for how long, and why no more"
                } else {
                    "as they were made"
                },
            ),
            term(
                "attempt header",
                &none(header, "none: the server is not told which attempt it gets"),
            ),
        ]
    }
}

fn term(term: &str, meaning: &str) -> (String, String) {
    (term.to_owned(), meaning.to_owned())
}

fn bodies(limit: u64) -> String {
    match limit {
        0 => "handed out unread, so that one which is cut is the caller's to ask for again"
            .to_owned(),
        _ => format!("read inside the attempt, up to {limit} bytes: one that is cut is a fault"),
    }
}

impl fmt::Display for ClientExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = Page::new(f.alternate());
        let mut explained = Vec::new();
        page.title("Which rules hold for a request");
        page.paragraph(
            "Those of the first that matches it, as the caller made it, before its first send. The policy of a \
             RetryScope and what a call asks for itself take precedence: in code, look for RetryScope and \
             RetryRequestExt.",
        );
        let endpoints =
            self.endpoints.iter().map(|it| format!("{}: {}", it.name, page.code(&it.matches)));
        let client = "the client's own: every other request".to_owned();
        let rules = endpoints.chain([client]).collect::<Vec<_>>();
        page.numbered(&rules);
        page.heading("What the client does besides");
        page.terms(None, &self.options);

        page.title("The client's own policy");
        self.policy.write(&mut page, &mut explained);
        for endpoint in &self.endpoints {
            page.title(&format!("Endpoint {}", endpoint.name));
            if !endpoint.options.is_empty() {
                page.terms(None, &endpoint.options);
            }
            match &endpoint.policy {
                Some(policy) => policy.write(&mut page, &mut explained),
                None => page.paragraph("The client's own policy."),
            }
        }
        f.write_str(&page.finish())
    }
}

fn discarded(drain: DrainLimits) -> String {
    if buffer::IS_POSSIBLE { drain.to_string() } else { "left to the browser".to_owned() }
}
