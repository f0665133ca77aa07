//! What one API says in its response fields.

use std::time::{Duration, SystemTime};

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};

use super::rate_limit::rate_limit;
use super::retry_after::retry_after;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The fields by which an API says when, and whether, to send again, as data.
///
/// The standard fields are always on: `Retry-After` (RFC 9110 10.2.3), then the IETF `RateLimit`
/// (draft-ietf-httpapi-ratelimit-headers) of an exhausted quota. Everything else is an agreement
/// with one vendor and is inert until a profile names it.
///
/// ```
/// use http::HeaderName;
/// use reqwest_typed_retry::{ApiProfile, RetryPolicy};
///
/// let profile = ApiProfile::standard().verdict_field(HeaderName::from_static("x-should-retry"));
/// let policy = RetryPolicy::builder().profile(profile).build()?;
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ApiProfile {
    verdict_fields: Vec<HeaderName>,
}

impl ApiProfile {
    /// `Retry-After` and `RateLimit` only.
    #[must_use]
    pub const fn standard() -> Self {
        Self { verdict_fields: Vec::new() }
    }

    /// Also read this field, on 4xx and 5xx: exactly `true` makes the response transient, exactly
    /// `false` ends the request, whatever its status. Neither lifts method safety nor any limit.
    #[must_use]
    pub fn verdict_field(mut self, name: HeaderName) -> Self {
        self.verdict_fields.push(name);
        self
    }

    /// The first verdict that the server gave.
    pub(super) fn verdict(&self, headers: &HeaderMap) -> Option<bool> {
        self.verdict_fields.iter().flat_map(|name| headers.get_all(name)).find_map(|value| {
            match value.as_bytes() {
                b"true" => Some(true),
                b"false" => Some(false),
                _ => None,
            }
        })
    }

    /// The delay that the server asked for. Zero, or a date in the past, is an answer: it says that
    /// there is no minimum.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use reqwest_typed_retry::ApiProfile;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("RateLimit", r#""default";r=0;t=30"#.parse().unwrap());
    /// let delay = ApiProfile::standard().server_delay(&headers, SystemTime::UNIX_EPOCH);
    /// assert_eq!(delay, Some(Duration::from_secs(30)));
    /// ```
    #[must_use]
    pub fn server_delay(&self, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
        let lines = |name| headers.get_all(name).into_iter().map(http::HeaderValue::as_bytes);
        let age = lines(AGE).next();
        // Retry-After takes precedence over RateLimit, also where it is the shorter one.
        retry_after(lines(RETRY_AFTER), lines(DATE).next(), age, now)
            .or_else(|| rate_limit(lines(RATE_LIMIT), age))
    }
}
