//! Which methods may be sent twice.

use std::fmt;

use http::{HeaderMap, HeaderName, Method};

/// May this request be sent again although the first send might have taken effect?
///
/// The class is taken from the request before its first send and never changes after that.
///
/// ```
/// use http::{HeaderMap, Method};
/// use reqwest_typed_retry::{RetryPolicy, RetryableMethod};
///
/// fn needs_care(class: RetryableMethod) -> bool {
///     match class {
///         RetryableMethod::Idempotent => false,
///         _ => true, // with a key it depends on the server
///     }
/// }
/// let class = |method| RetryPolicy::default().method_class(&method, &HeaderMap::new());
/// assert!(needs_care(class(Method::POST)) && !needs_care(class(Method::DELETE)));
/// assert_eq!(class(Method::POST).as_str(), "non_idempotent");
/// assert_eq!(RetryableMethod::IdempotentWithToken.to_string(), "idempotent_with_token");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryableMethod {
    /// The method is registered as idempotent (RFC 9110 9.2.2), or the policy, or the request itself,
    /// says that this one is: sent twice, it has the effect of sending it once.
    Idempotent,
    /// A POST or PATCH that carries an idempotency key. It counts as idempotent only where the
    /// policy says that the server [honours](crate::RetryPolicy::honours_idempotency_keys) keys.
    IdempotentWithToken,
    /// Everything else, unknown methods included. It is sent again only where it is
    /// proven that the server did not act: see [`Attempt::with_sole_exchange`](crate::Attempt::with_sole_exchange).
    NonIdempotent,
}

impl RetryableMethod {
    /// The class of a request with this method and these fields, where each of `key_fields` may
    /// carry an idempotency key. An empty key does not count. What a policy
    /// [assumes](crate::RetryPolicyBuilder::assume_idempotent) is in
    /// [`RetryPolicy::method_class`](crate::RetryPolicy::method_class) alone.
    ///
    /// The idempotent methods are those of the IANA HTTP Method Registry (RFC 9110 16.1.1): GET, HEAD, PUT,
    /// DELETE, OPTIONS, TRACE, QUERY, the idempotent ones of WebDAV. Names are case-sensitive.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderName, HeaderValue, Method};
    /// use reqwest_typed_retry::RetryableMethod;
    ///
    /// let keys = [HeaderName::from_static("idempotency-key")];
    /// let class = |method, headers: &HeaderMap| RetryableMethod::of(&method, headers, &keys);
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(class(Method::PUT, &headers), RetryableMethod::Idempotent);
    /// assert_eq!(class(Method::POST, &headers), RetryableMethod::NonIdempotent);
    /// headers.insert("Idempotency-Key", HeaderValue::from_static("8e03978e"));
    /// assert_eq!(class(Method::POST, &headers), RetryableMethod::IdempotentWithToken);
    /// ```
    #[must_use]
    #[inline]
    pub fn of(method: &Method, headers: &HeaderMap, key_fields: &[HeaderName]) -> Self {
        if is_idempotent(method) {
            Self::Idempotent
        } else if takes_key(method) && has_key(headers, key_fields) {
            Self::IdempotentWithToken
        } else {
            Self::NonIdempotent
        }
    }

    /// A stable, low-cardinality label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idempotent => "idempotent",
            Self::IdempotentWithToken => "idempotent_with_token",
            Self::NonIdempotent => "non_idempotent",
        }
    }
}

impl fmt::Display for RetryableMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The idempotent rows of the IANA HTTP Method Registry (2026-06-17). `http`'s own
/// `Method::is_idempotent` knows only those of RFC 9110. Names are case-sensitive (RFC 9110 9.1).
/// `PRI` is registered too, yet it is the HTTP/2 preface and never a request.
fn is_idempotent(method: &Method) -> bool {
    matches!(
        method.as_str(),
        "GET"
            | "HEAD"
            | "PUT"
            | "DELETE"
            | "OPTIONS"
            | "TRACE"
            | "ACL"
            | "BASELINE-CONTROL"
            | "BIND"
            | "CHECKIN"
            | "CHECKOUT"
            | "COPY"
            | "LABEL"
            | "LINK"
            | "MERGE"
            | "MKACTIVITY"
            | "MKCALENDAR"
            | "MKCOL"
            | "MKREDIRECTREF"
            | "MKWORKSPACE"
            | "MOVE"
            | "ORDERPATCH"
            | "PROPFIND"
            | "PROPPATCH"
            | "QUERY"
            | "REBIND"
            | "REPORT"
            | "SEARCH"
            | "UNBIND"
            | "UNCHECKOUT"
            | "UNLINK"
            | "UNLOCK"
            | "UPDATE"
            | "UPDATEREDIRECTREF"
            | "VERSION-CONTROL"
    )
}

/// The methods that an idempotency key makes repeatable.
pub(super) fn takes_key(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PATCH)
}

/// Whether the request carries a key.
pub(super) fn has_key(headers: &HeaderMap, key_fields: &[HeaderName]) -> bool {
    key_fields
        .iter()
        .flat_map(|name| headers.get_all(name))
        .any(|value| !is_empty(value.as_bytes()))
}

/// Blank, bare or as the Structured Fields string (`""`) that the key draft puts on the wire.
fn is_empty(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let quoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    quoted.unwrap_or(value).trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn post_with_key(value: &'static str) -> RetryableMethod {
        let key = HeaderName::from_static("idempotency-key");
        let headers = HeaderMap::from_iter([(key.clone(), value.parse().unwrap())]);
        RetryableMethod::of(&Method::POST, &headers, &[key])
    }

    #[test]
    fn an_empty_key_does_not_count() {
        for value in ["", "  ", "\"\"", " \"\" ", "\" \""] {
            assert_eq!(post_with_key(value), RetryableMethod::NonIdempotent, "{value:?}");
        }
        assert_eq!(post_with_key("\"k\""), RetryableMethod::IdempotentWithToken);
    }

    #[test]
    fn a_key_makes_no_difference_to_methods_other_than_post_and_patch() {
        let key = HeaderName::from_static("idempotency-key");
        let headers = HeaderMap::from_iter([(key.clone(), "k".parse().unwrap())]);
        let class = |name: &str| {
            RetryableMethod::of(&name.parse().unwrap(), &headers, std::slice::from_ref(&key))
        };
        assert_eq!(class("PATCH"), RetryableMethod::IdempotentWithToken);
        assert_eq!(class("LOCK"), RetryableMethod::NonIdempotent);
        assert_eq!(class("post"), RetryableMethod::NonIdempotent);
        assert_eq!(class("GET"), RetryableMethod::Idempotent);
    }
}
