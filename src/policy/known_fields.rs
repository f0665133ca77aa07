//! Request fields that have a meaning of their own.

use http::HeaderName;

/// Whether a request has this field anyway, or it frames the message: of use neither for a key, which would
/// make POSTs repeatable, nor for anything else of ours.
pub(crate) fn has_a_meaning(field: &HeaderName) -> bool {
    FIELDS.contains(&field.as_str())
}

const FIELDS: [&str; 41] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "authorization",
    "baggage",
    "cache-control",
    "connection",
    "content-digest",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "max-forwards",
    "origin",
    "prefer",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "sec-websocket-key",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-forwarded-for",
];
