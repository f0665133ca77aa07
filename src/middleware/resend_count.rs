//! Which resend this is, for inner middlewares.

use http::Extensions;

/// How often the request has been sent before, for the middlewares inside the retry.
///
/// In the extensions of resends only; the first attempt has none, so read it with
/// [`ResendCount::of`]. This is what `http.request.resend_count` of the OpenTelemetry conventions
/// asks for.
///
/// ```
/// use http::Extensions;
/// use reqwest_typed_retry::ResendCount;
///
/// assert_eq!(ResendCount::of(&Extensions::new()), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResendCount(u32);

impl ResendCount {
    /// 0 on the first attempt, 1 on the first resend, and so on.
    #[must_use]
    pub fn of(extensions: &Extensions) -> u32 {
        extensions.get::<Self>().map_or(0, |count| count.0)
    }

    /// The count of the attempt with this number.
    pub(super) fn of_attempt(number: u32) -> Self {
        Self(number.saturating_sub(1))
    }

    /// The first attempt has none; an earlier call with the same map may have left one.
    #[inline]
    pub(super) fn put_into(self, extensions: &mut Extensions) {
        if self.0 > 0 {
            extensions.insert(self);
        } else if extensions.get::<Self>().is_some() {
            extensions.remove::<Self>();
        }
    }
}
