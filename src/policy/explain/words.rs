//! What each word of the table means.

use super::outcomes::{
    Cell, Outcomes, has_rows_of_keys, ranges, short_verdict_field, verdict_fields,
};
use super::page::Page;
use crate::policy::{FaultKind, KeyFormat, RetryPolicy, RetryableMethod, StopReason};

/// The methods are those that are met most.
pub(super) fn head(policy: &RetryPolicy, class: RetryableMethod) -> &'static str {
    let rules = policy.rules();
    match class {
        RetryableMethod::Idempotent if rules.assume_idempotent && counts_keys(policy) => {
            "every other request"
        }
        RetryableMethod::Idempotent if rules.assume_idempotent => "every request",
        RetryableMethod::Idempotent => "idempotent\nGET, HEAD, PUT,\nDELETE, ...",
        RetryableMethod::IdempotentWithToken if policy.honours_idempotency_keys() => {
            "with a key\nPOST, PATCH\n(honoured)"
        }
        RetryableMethod::IdempotentWithToken => "with a key\nPOST, PATCH\n(not honoured)",
        RetryableMethod::NonIdempotent if rules.generate_idempotency_keys.is_some() => {
            "other\nLOCK, CONNECT, ..."
        }
        RetryableMethod::NonIdempotent => "other\nPOST, PATCH, ...\nwithout a key",
    }
}

pub(super) fn column(
    page: &Page,
    policy: &RetryPolicy,
    class: RetryableMethod,
) -> (String, String) {
    let rules = policy.rules();
    let (term, meaning) = match class {
        RetryableMethod::Idempotent if rules.assume_idempotent => {
            let meaning = format!(
                "idempotent, because the policy says that each may be sent twice ({}): a POST is treated \
                 like a GET.{}",
                page.code("assume_idempotent"),
                new_keys(page, policy)
            );
            let term = if counts_keys(policy) { "every other request" } else { "every request" };
            (term, meaning)
        }
        RetryableMethod::Idempotent => {
            let meaning = format!(
                "GET, HEAD, PUT, DELETE and every other method that is registered as idempotent: \
                 sent twice, it is taken to have the effect of one. And every request that says so of itself ({}).",
                page.code("assume_idempotent"),
            );
            ("idempotent", meaning)
        }
        RetryableMethod::IdempotentWithToken => ("with a key", keys(page, policy)),
        RetryableMethod::NonIdempotent => ("other", without_key(policy).to_owned()),
    };
    (term.to_owned(), meaning)
}

/// Whether a key is worth a column under a policy that takes every request for idempotent.
fn counts_keys(policy: &RetryPolicy) -> bool {
    policy.honours_idempotency_keys()
        && !policy.rules().idempotency_key_fields.is_empty()
        && has_rows_of_keys(policy)
}

fn without_key(policy: &RetryPolicy) -> &'static str {
    let rules = policy.rules();
    if rules.idempotency_key_fields.is_empty() {
        "POST and PATCH (the policy knows no field for idempotency keys), and every method that is not \
         registered as idempotent."
    } else if rules.generate_idempotency_keys.is_some() {
        "every other method, and a POST or PATCH whose caller left the field for the key empty."
    } else {
        "POST and PATCH without a key, and every other method that is not registered as idempotent."
    }
}

/// What a key is, and who says that it counts.
fn keys(page: &Page, policy: &RetryPolicy) -> String {
    let rules = policy.rules();
    let fields: Vec<_> =
        rules.idempotency_key_fields.iter().map(|field| page.code(field.as_str())).collect();
    let honour = page.code("honour_idempotency_keys");
    let by = [
        (rules.honour_idempotency_keys == Some(true), honour.clone()),
        (rules.profile.honours_keys, "the profile of the API".to_owned()),
        (rules.generate_idempotency_keys.is_some(), page.code("generate_idempotency_keys")),
    ];
    let by: Vec<_> = by.into_iter().filter_map(|(says, who)| says.then_some(who)).collect();
    let honoured = if !policy.honours_idempotency_keys() {
        let nobody = match rules.honour_idempotency_keys {
            Some(_) => "the policy denies",
            None => "nothing says",
        };
        format!(
            "Such a key changes nothing here, because {nobody} that the server honours it ({honour}), \
             unless the request itself asks for it ({}).",
            page.code("idempotency_key")
        )
    } else {
        format!("The server honours it, according to {}.", by.join(" and "))
    };
    format!(
        "POST and PATCH with an idempotency key in {}. {honoured}{}",
        fields.join(" or "),
        new_keys(page, policy)
    )
}

fn new_keys(page: &Page, policy: &RetryPolicy) -> String {
    let rules = policy.rules();
    let field = rules.idempotency_key_fields.first();
    let (Some(format), Some(field)) = (rules.generate_idempotency_keys, field) else {
        return String::new();
    };
    let format = match format {
        KeyFormat::Quoted => "in quotation marks",
        KeyFormat::Bare => "without quotation marks",
    };
    let field = page.code(field.as_str());
    format!(" A POST or PATCH without a key gets a new one in {field}, {format}.")
}

pub(super) fn rows(
    page: &Page,
    policy: &RetryPolicy,
    outcomes: &Outcomes<'_>,
) -> Vec<(String, String)> {
    let mut terms = Vec::new();
    if outcomes.needs_delay() {
        let meaning =
            "the response says when to come back, in one of the fields that are listed below.";
        terms.push(("server delay".to_owned(), meaning.to_owned()));
    }
    let fields = verdict_fields(policy);
    if !fields.is_empty() && short_verdict_field(policy).is_none() {
        let fields: Vec<_> = fields.iter().map(|field| page.code(field.as_str())).collect();
        let meaning = "the first of these response fields that is exactly true or false:";
        terms.push(("verdict".to_owned(), format!("{meaning} {}", fields.join(", "))));
    }
    let kinds = FaultKind::ALL.map(|kind| format!("{} ({})", kind.as_str(), fault(kind)));
    terms.push(("fault".to_owned(), format!("{}.", kinds.join(", "))));
    terms
}

pub(super) fn cell(page: &Page, cell: Cell, outcomes: &Outcomes<'_>) -> String {
    match cell {
        Cell::Resend => {
            "sent again after a wait, within the limits below, if its body can be sent again and the \
             client's retry budget, where it has one, allows it."
                .to_owned()
        }
        Cell::IfNotProcessed => {
            let promised = outcomes.on_proof();
            let evidence = if promised.is_empty() {
                "a fault that leaves no doubt".to_owned()
            } else {
                let promised = ranges(promised);
                format!(
                    "either a fault that leaves no doubt or a status by which the API promises it \
                     ({promised})"
                )
            };
            format!(
                "a resend where it is proven that the server did not act on the request, else no: \
                 not_idempotent. The proof takes a {} in the client, and {evidence}.",
                page.code("DeliveryProof"),
            )
        }
        Cell::No(reason) => match reason {
            StopReason::Completed => "it is an answer, whatever it says.",
            StopReason::Permanent => "it would most likely end the same way again.",
            StopReason::NotIdempotent => {
                "the server may have acted on the request, and would act twice."
            }
            StopReason::ServerRefused => "the server says that it is of no use.",
            _ => "a limit is reached.",
        }
        .to_owned(),
    }
}

fn fault(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Dns => "host name not resolved",
        FaultKind::Connect => "no connection came about",
        FaultKind::Tls => "certificate or TLS version rejected",
        FaultKind::Timeout => "time limit passed",
        FaultKind::ConnectionLost => "ended before the response head",
        FaultKind::Network => "failed in a browser, which does not say why",
        FaultKind::Refused => "declined by an HTTP/2 server",
        FaultKind::Protocol => "broken by the peer, or stream reset",
        FaultKind::Body => "response body cut, where the attempt reads it",
        FaultKind::Decode => "response body is not what it claims to be",
        FaultKind::Invalid => "request can't be sent",
        FaultKind::Other => "anything else",
    }
}
