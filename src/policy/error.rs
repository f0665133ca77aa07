//! What a refused policy says.

use std::borrow::Cow;
use std::fmt;

/// Characters of a value: who made a mistake in a list of a thousand statuses need not see all of them.
const MOST_SHOWN: usize = 200;

/// A policy, or a part of one, that breaks a rule and therefore was not built.
///
/// The message names the setting, its value and the rule:
///
/// ```
/// use reqwest_typed_retry::RetryPolicy;
///
/// let error = RetryPolicy::builder().max_attempts(0).build().unwrap_err();
/// assert_eq!(error.setting(), "max_attempts");
/// assert_eq!(
///     error.to_string(),
///     "max_attempts is 0, but it counts the first send too: it must be at least 1"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    setting: Cow<'static, str>,
    value: String,
    rule: Cow<'static, str>,
}

impl PolicyError {
    pub(crate) fn new(
        setting: impl Into<Cow<'static, str>>,
        value: impl fmt::Debug,
        rule: impl Into<Cow<'static, str>>,
    ) -> Self {
        let value = shown(format!("{value:?}"));
        Self { setting: setting.into(), value, rule: rule.into() }
    }

    /// The same, of a part of something larger: `outer.setting`.
    pub(crate) fn within(self, outer: &str) -> Self {
        Self { setting: format!("{outer}.{}", self.setting).into(), ..self }
    }

    /// What was refused, by the name of its setter or argument, or by its path where it is
    /// part of something larger: `endpoint.search.policy.deadline`.
    #[must_use]
    pub fn setting(&self) -> &str {
        &self.setting
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = shown(self.setting.escape_debug().to_string());
        write!(f, "{setting} is {}, but {}", self.value, self.rule)
    }
}

impl std::error::Error for PolicyError {}

/// As much of `text` as a message repeats.
pub(crate) fn shown(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}
