//! Sets of status codes.

use std::fmt;

use http::StatusCode;

pub(super) const FIRST: u16 = 100;
const WORDS: usize = 15; // 100..=999, 64 codes a word: all that `StatusCode` can hold

/// A set of status codes.
///
/// ```
/// use http::StatusCode;
/// use reqwest_typed_retry::StatusSet;
///
/// let set = StatusSet::transient().with(StatusCode::CONFLICT).without(StatusCode::TOO_EARLY);
/// assert!(set.contains(StatusCode::CONFLICT));
/// assert!(!set.contains(StatusCode::TOO_EARLY));
/// assert!(!set.contains(StatusCode::NOT_FOUND));
///
/// let own = StatusSet::from_iter([StatusCode::BAD_GATEWAY, StatusCode::LOCKED]);
/// assert_eq!(own.iter().map(|status| status.as_u16()).collect::<Vec<_>>(), [423, 502]);
/// assert_eq!(own, StatusSet::empty().with(StatusCode::LOCKED).with(StatusCode::BAD_GATEWAY));
/// assert!(StatusSet::empty().is_empty() && !own.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusSet {
    bits: [u64; WORDS],
}

/// Whether a server that answers so is not sick, whatever a policy makes of it.
pub(crate) fn is_well(status: StatusCode) -> bool {
    status.as_u16() < 500 && !StatusSet::transient().contains(status)
}

impl StatusSet {
    /// No status at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self { bits: [0; WORDS] }
    }

    /// The statuses that are retried by default: 408, 425, 429, 500, 502, 503, 504.
    ///
    /// 408 and 425 ask for a repetition (RFC 9110 15.5.9, RFC 8470 5.2); 429 asks for a later one
    /// (RFC 6585 4); 502, 503 and 504 come from a busy or restarting upstream, 500 often does. Not
    /// 501, 505 and the other permanent 5xx; not 507, which must not be repeated without the user
    /// (RFC 4918 11.5).
    #[must_use]
    pub fn transient() -> Self {
        Self::from_iter([
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::TOO_EARLY,
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ])
    }

    /// What Cloudflare answers for an origin that it can't reach or understand: 520 to 524.
    ///
    /// 521 and 523 say that the origin was not reached, 520, 522 and 524 leave that open, so none of them
    /// lifts method safety. Not 525 and 526, which a wrong set-up of TLS brings, nor 527 and 530.
    ///
    /// ```
    /// use http::StatusCode;
    /// use reqwest_typed_retry::{RetryPolicy, StatusSet};
    ///
    /// let statuses = StatusSet::transient().union(StatusSet::cloudflare());
    /// let timeout = StatusCode::from_u16(522)?;
    /// assert!(statuses.contains(timeout) && !StatusSet::transient().contains(timeout));
    /// let policy = RetryPolicy::builder().retry_statuses(statuses).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cloudflare() -> Self {
        (520..=524).filter_map(|code| StatusCode::from_u16(code).ok()).collect()
    }

    /// All statuses of this set and of the other one.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        other.iter().fold(self, Self::with)
    }

    /// This set and `status`.
    #[must_use]
    pub fn with(mut self, status: StatusCode) -> Self {
        let (word, bit) = place(status);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
        self
    }

    /// This set but not `status`.
    #[must_use]
    pub fn without(mut self, status: StatusCode) -> Self {
        let (word, bit) = place(status);
        if let Some(word) = self.bits.get_mut(word) {
            *word &= !bit;
        }
        self
    }

    /// Whether `status` is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, status: StatusCode) -> bool {
        let (word, bit) = place(status);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether no status is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::empty()
    }

    /// The statuses of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = StatusCode> + '_ {
        all().filter(|status| self.contains(*status))
    }
}

/// All that there are, in ascending order.
pub(super) fn all() -> impl Iterator<Item = StatusCode> {
    (FIRST..=999).filter_map(|code| StatusCode::from_u16(code).ok())
}

fn place(status: StatusCode) -> (usize, u64) {
    let offset = status.as_u16() - FIRST; // a StatusCode is never below 100
    (usize::from(offset / 64), 1 << (offset % 64))
}

impl FromIterator<StatusCode> for StatusSet {
    fn from_iter<I: IntoIterator<Item = StatusCode>>(statuses: I) -> Self {
        statuses.into_iter().fold(Self::empty(), Self::with)
    }
}

impl fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|status| status.as_u16())).finish()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn each_code_that_a_status_can_hold_goes_in_and_out_alone() {
        for status in (100..=999).map(|code| StatusCode::from_u16(code).unwrap()) {
            let set = StatusSet::empty().with(status);
            assert_eq!(set.iter().collect::<Vec<_>>(), [status]);
            assert!(set.without(status).is_empty(), "{status}");
        }
    }

    #[test]
    fn debug_lists_the_codes() {
        assert_eq!(format!("{:?}", StatusSet::transient()), "{408, 425, 429, 500, 502, 503, 504}");
    }
}
