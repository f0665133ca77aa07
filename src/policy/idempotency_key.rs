//! The key that lets a server tell a resend from a new request.

use std::fmt;

use http::HeaderValue;
use rand::Rng;

use super::PolicyError;

/// How a key stands in its field.
///
/// ```
/// use reqwest_typed_retry::{IdempotencyKey, KeyFormat};
///
/// let value = |format| IdempotencyKey::new("order-17", format).map(|key| key.as_value().clone());
/// assert_eq!(value(KeyFormat::Quoted)?, "\"order-17\"");
/// assert_eq!(value(KeyFormat::Bare)?, "order-17");
/// assert_eq!((KeyFormat::Bare.as_str(), KeyFormat::Quoted.to_string().as_str()), ("bare", "quoted"));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyFormat {
    /// As a Structured Fields String (RFC 9651 3.3.3), in quotation marks
    /// (draft-ietf-httpapi-idempotency-key-header).
    Quoted,
    /// As it is: Stripe, Adyen, PayPal and most others.
    Bare,
}

impl KeyFormat {
    /// A stable name: that of settings files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quoted => "quoted",
            Self::Bare => "bare",
        }
    }
}

impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An idempotency key, as it goes into its field. The same key on two requests tells the server that
/// they are one.
///
/// It is not secret, yet its `Debug` does not show it: what is made of an order number is nobody's
/// business.
///
/// ```
/// use reqwest_typed_retry::{IdempotencyKey, KeyFormat};
///
/// let key = IdempotencyKey::new("order-17", KeyFormat::Quoted)?;
/// assert_eq!(key.as_value(), "\"order-17\"");
/// assert!(IdempotencyKey::new(" ", KeyFormat::Bare).is_err());
///
/// let random = IdempotencyKey::generate(KeyFormat::Bare, &mut rand::rng());
/// assert_eq!(random.as_value().len(), 36); // a UUID of version 4
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    value: HeaderValue,
}

impl IdempotencyKey {
    /// A key of the caller's own, such as the identifier of an order. It must not be used again for
    /// anything else. A request carries it by
    /// [`idempotency_key`](crate::RetryRequestExt::idempotency_key).
    ///
    /// # Errors
    /// If there is nothing in it but spaces and quotation marks, or anything that is not printable ASCII.
    /// A bare key can't begin or end with a space, which gets lost on the way.
    pub fn new(key: impl AsRef<str>, format: KeyFormat) -> Result<Self, PolicyError> {
        let key = key.as_ref();
        // Nor do errors show it.
        let length = key.chars().count();
        let error = |rule| {
            // Not by a name: before Rust 1.89 it would not live so long.
            Err(PolicyError::new("idempotency_key", format_args!("{length} characters long"), rule))
        };
        if !key.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return error("it must be printable ASCII");
        }
        if key.trim_matches([' ', '"']).is_empty() {
            return error("it must not be empty");
        }
        if format == KeyFormat::Bare && key.trim() != key {
            return error("the space around a bare key would get lost");
        }
        Ok(Self::format(key, format))
    }

    /// A random one: a UUID of version 4 (RFC 9562 5.4). The generator must be seeded at random: two
    /// processes that draw the same key are one request to the server.
    #[must_use]
    pub fn generate<R: Rng + ?Sized>(format: KeyFormat, rng: &mut R) -> Self {
        let mut bytes = [0; 16];
        rng.fill_bytes(&mut bytes);
        let bits = u128::from_ne_bytes(bytes);
        let version = bits & !(0xf << 76) | (0x4 << 76);
        let uuid = format!("{:032x}", version & !(0b11 << 62) | (0b10 << 62));
        let mut key = String::with_capacity(36);
        for (at, digit) in uuid.chars().enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                key.push('-');
            }
            key.push(digit);
        }
        Self::format(&key, format)
    }

    #[expect(clippy::expect_used, reason = "`key` is printable ASCII, which is a field value")]
    fn format(key: &str, format: KeyFormat) -> Self {
        let text = match format {
            KeyFormat::Bare => key.to_owned(),
            KeyFormat::Quoted => {
                format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
            }
        };
        Self { value: HeaderValue::try_from(text).expect("a key is printable ASCII") }
    }

    /// The value of the field, in its [`KeyFormat`].
    #[must_use]
    pub fn as_value(&self) -> &HeaderValue {
        &self.value
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Draws the same byte for ever.
    struct Stuck(u8);

    impl rand::TryRng for Stuck {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(u32::from_ne_bytes([self.0; 4]))
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(u64::from_ne_bytes([self.0; 8]))
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    #[test]
    fn a_random_key_is_a_uuid_of_version_4() {
        for (byte, expected) in [
            (0, "00000000-0000-4000-8000-000000000000"),
            (u8::MAX, "ffffffff-ffff-4fff-bfff-ffffffffffff"),
        ] {
            let key = |format| IdempotencyKey::generate(format, &mut Stuck(byte));
            assert_eq!(key(KeyFormat::Bare).as_value(), expected);
            assert_eq!(key(KeyFormat::Quoted).as_value(), &format!("\"{expected}\""));
        }
    }

    #[test]
    fn a_key_of_the_callers_own_is_written_as_its_format_says_or_refused() {
        use KeyFormat::{Bare, Quoted};
        let ascii = "it must be printable ASCII";
        let empty = "it must not be empty";
        let space = "the space around a bare key would get lost";
        for (key, format, expected) in [
            ("order-17", Bare, Ok("order-17")),
            ("order-17", Quoted, Ok("\"order-17\"")),
            ("a \"b\" \\c", Quoted, Ok("\"a \\\"b\\\" \\\\c\"")),
            ("a \"b\" \\c", Bare, Ok("a \"b\" \\c")),
            (" a ", Quoted, Ok("\" a \"")),
            (" a ", Bare, Err(space)),
            (" a", Bare, Err(space)),
            ("a ", Bare, Err(space)),
            ("", Bare, Err(empty)),
            (" ", Quoted, Err(empty)),
            ("\"\"", Bare, Err(empty)),
            ("\" \"", Bare, Err(empty)),
            ("a\tb", Quoted, Err(ascii)),
            ("a\nb", Bare, Err(ascii)),
            ("a\x7fb", Bare, Err(ascii)),
            ("schl\u{fc}ssel", Quoted, Err(ascii)),
        ] {
            let actual = IdempotencyKey::new(key, format);
            match (actual, expected) {
                (Ok(actual), Ok(expected)) => assert_eq!(actual.as_value(), expected, "{key:?}"),
                (Err(error), Err(rule)) => {
                    let length = key.chars().count();
                    let expected =
                        format!("idempotency_key is {length} characters long, but {rule}");
                    assert_eq!(error.to_string(), expected);
                }
                (actual, expected) => panic!("{key:?}: {actual:?}, expected {expected:?}"),
            }
        }
    }
}
