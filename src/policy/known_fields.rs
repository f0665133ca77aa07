//! Request fields that have a meaning of their own.

use http::HeaderName;

/// Whether a request has this field anyway, or it frames the message: of use neither for a key, which would
/// make POSTs repeatable, nor for anything else of ours.
pub(crate) fn has_a_meaning(field: &HeaderName) -> bool {
    FIELDS.contains(&field.as_str())
}

const FIELDS: [&str; 48] = [
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
    "early-data",
    "expect",
    "forwarded",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "max-forwards",
    "origin",
    "pragma",
    "prefer",
    "priority",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "repr-digest",
    "sec-websocket-key",
    "signature",
    "signature-input",
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

#[cfg(test)]
mod tests {
    use http::header;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Those that http knows are spelt as it spells them.
    #[test]
    fn fields_of_requests_and_of_framing_have_a_meaning_and_others_have_none() {
        for field in [
            header::ACCEPT,
            header::ACCEPT_ENCODING,
            header::ACCEPT_LANGUAGE,
            header::AUTHORIZATION,
            header::CACHE_CONTROL,
            header::CONNECTION,
            header::CONTENT_ENCODING,
            header::CONTENT_LENGTH,
            header::CONTENT_LOCATION,
            header::CONTENT_RANGE,
            header::CONTENT_TYPE,
            header::COOKIE,
            header::DATE,
            header::EXPECT,
            header::HOST,
            header::IF_MATCH,
            header::IF_MODIFIED_SINCE,
            header::IF_NONE_MATCH,
            header::IF_RANGE,
            header::IF_UNMODIFIED_SINCE,
            header::MAX_FORWARDS,
            header::ORIGIN,
            header::PROXY_AUTHORIZATION,
            header::RANGE,
            header::REFERER,
            header::SEC_WEBSOCKET_KEY,
            header::TE,
            header::TRAILER,
            header::TRANSFER_ENCODING,
            header::UPGRADE,
            header::USER_AGENT,
            header::VIA,
        ] {
            assert!(has_a_meaning(&field), "{field}");
        }
        for field in ["idempotency-key", "x-request-id", "x-attempt"] {
            assert!(!has_a_meaning(&HeaderName::from_static(field)), "{field}");
        }
    }

    #[test]
    fn each_is_a_name_and_there_once() {
        for field in FIELDS {
            assert_eq!(HeaderName::from_static(field).as_str(), field);
        }
        assert!(FIELDS.is_sorted_by(|a, b| a < b));
    }
}
