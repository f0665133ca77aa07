//! How each type of setting is written in a file.

use std::num::NonZeroU32;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

use super::value::{Rule, Setting, Value};
use crate::policy::{
    ApiProfile, FaultKind, FaultSet, HintUnit, Jitter, KeyFormat, ServerDelays, StatusSet,
};

/// Environments know nothing but text, so a number may be written as one.
impl Setting for u64 {
    fn read(value: Value) -> Result<Self, Rule> {
        let number = match value {
            Value::Int(number) => number.try_into().ok(),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.ok_or("it must be a whole number from 0 up".into())
    }

    fn write(&self) -> Value {
        Value::Int((*self).into())
    }
}

impl Setting for u32 {
    fn read(value: Value) -> Result<Self, Rule> {
        let number = u64::read(value)?;
        number.try_into().map_err(|_| "it must not be more than 4294967295".into())
    }

    fn write(&self) -> Value {
        Value::Int((*self).into())
    }
}

impl Setting for f64 {
    fn read(value: Value) -> Result<Self, Rule> {
        let number = match value {
            Value::Float(number) => Some(number),
            #[expect(
                clippy::cast_precision_loss,
                reason = "a factor or a share, as near as it gets"
            )]
            Value::Int(number) => Some(number as f64),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.ok_or("it must be a number".into())
    }

    fn write(&self) -> Value {
        Value::Float(*self)
    }
}

impl Setting for bool {
    fn read(value: Value) -> Result<Self, Rule> {
        match value {
            Value::Bool(value) => Ok(value),
            Value::Text(text) if text.trim().eq_ignore_ascii_case("true") => Ok(true),
            Value::Text(text) if text.trim().eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("it must be true or false".into()),
        }
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Setting for String {
    fn read(value: Value) -> Result<Self, Rule> {
        match value {
            Value::Text(text) => Ok(text),
            _ => Err("it must be a text".into()),
        }
    }

    fn write(&self) -> Value {
        Value::text(self)
    }
}

impl Setting for Duration {
    fn read(value: Value) -> Result<Self, Rule> {
        let text = match value {
            Value::Text(text) => text,
            _ => String::new(),
        };
        // The library takes a bare 0 for a duration, and an M for a month, which nobody means.
        let has_unit = text.trim_end().ends_with(|c: char| c.is_ascii_lowercase());
        let is_plain = has_unit && !text.contains('M');
        let duration = humantime::parse_duration(text.trim()).ok().filter(|_| is_plain);
        let rule = r#"it must be a duration with its unit, such as "250ms", "30s" or "1m 30s""#;
        duration.ok_or(rule.into())
    }

    fn write(&self) -> Value {
        Value::text(humantime::format_duration(*self).to_string())
    }
}

/// A list, or one item alone.
impl<T: Setting> Setting for Vec<T> {
    fn read(value: Value) -> Result<Self, Rule> {
        value.into_items().into_iter().map(T::read).collect()
    }

    fn write(&self) -> Value {
        Value::List(self.iter().map(T::write).collect())
    }
}

/// An endpoint can't leave out what it inherits, so nothing has a name.
impl<T: Setting> Setting for Option<T> {
    fn read(value: Value) -> Result<Self, Rule> {
        match value {
            Value::Text(text) if text == "none" => Ok(None),
            value => {
                T::read(value).map(Some).map_err(|rule| format!(r#"{rule}, or "none""#).into())
            }
        }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or_else(|| Value::text("none"), T::write)
    }
}

/// The most sends, if there is a limit.
pub(super) struct MaxAttempts(pub(super) Option<u32>);

impl MaxAttempts {
    pub(super) fn of(max: Option<NonZeroU32>) -> Self {
        Self(max.map(NonZeroU32::get))
    }
}

impl Setting for MaxAttempts {
    fn read(value: Value) -> Result<Self, Rule> {
        match value {
            Value::Text(text) if text == "unlimited" => Ok(Self(None)),
            value => {
                let rule = r#"it must be a whole number from 1 up, or "unlimited""#;
                u32::read(value).map(|max| Self(Some(max))).map_err(|_| rule.into())
            }
        }
    }

    fn write(&self) -> Value {
        self.0.map_or_else(|| Value::text("unlimited"), |max| max.write())
    }
}

/// What the profile says, unless the policy says it.
pub(super) struct ByProfile(pub(super) Option<bool>);

impl Setting for ByProfile {
    fn read(value: Value) -> Result<Self, Rule> {
        if value == Value::text("by_profile") {
            return Ok(Self(None));
        }
        let rule = r#"it must be true, false or "by_profile""#;
        bool::read(value).map(|honour| Self(Some(honour))).map_err(|_| rule.into())
    }

    fn write(&self) -> Value {
        self.0.map_or_else(|| Value::text("by_profile"), |honour| honour.write())
    }
}

impl Setting for HeaderName {
    fn read(value: Value) -> Result<Self, Rule> {
        let name = String::read(value)?;
        // A field of that name would be taken for none.
        let name = Some(name).filter(|name| !name.eq_ignore_ascii_case("none"));
        let name = name.and_then(|name| name.parse().ok());
        name.ok_or("it must be the name of a header field".into())
    }

    fn write(&self) -> Value {
        Value::text(self.as_str())
    }
}

impl Setting for Method {
    fn read(value: Value) -> Result<Self, Rule> {
        let name = String::read(value)?;
        name.parse().map_err(|_| "it must be the name of a method".into())
    }

    fn write(&self) -> Value {
        Value::text(self.as_str())
    }
}

impl Setting for StatusCode {
    fn read(value: Value) -> Result<Self, Rule> {
        let code = u64::read(value).ok().and_then(|code| u16::try_from(code).ok());
        let status = code.and_then(|code| Self::from_u16(code).ok());
        status.ok_or("it must be a status from 100 to 999".into())
    }

    fn write(&self) -> Value {
        Value::Int(self.as_u16().into())
    }
}

/// Numbers, and names of sets.
impl Setting for StatusSet {
    fn read(value: Value) -> Result<Self, Rule> {
        let mut set = Self::empty();
        for item in value.into_items() {
            let part = match &item {
                Value::Text(name) if name == "transient" => Self::transient(),
                Value::Text(name) if name == "cloudflare" => Self::cloudflare(),
                _ => {
                    let rule =
                        r#"each must be a status from 400 to 999, "transient" or "cloudflare""#;
                    Self::empty().with(StatusCode::read(item).map_err(|_| rule)?)
                }
            };
            set = set.union(part);
        }
        Ok(set)
    }

    fn write(&self) -> Value {
        Value::list(self.iter())
    }
}

impl Setting for FaultSet {
    fn read(value: Value) -> Result<Self, Rule> {
        let mut set = Self::empty();
        for item in value.into_items() {
            if item == Value::text("transient") {
                set = Self::transient().iter().fold(set, Self::with);
            } else {
                let kind = one_of(&FaultKind::ALL, FaultKind::as_str, &item);
                set = set.with(kind.map_err(|rule| format!(r#"{rule}, "transient""#))?);
            }
        }
        Ok(set)
    }

    fn write(&self) -> Value {
        Value::List(self.iter().map(|kind| Value::text(kind.as_str())).collect())
    }
}

impl Setting for KeyFormat {
    fn read(value: Value) -> Result<Self, Rule> {
        one_of(&[Self::Quoted, Self::Bare], Self::as_str, &value)
    }

    fn write(&self) -> Value {
        Value::text(self.as_str())
    }
}

impl Setting for HintUnit {
    fn read(value: Value) -> Result<Self, Rule> {
        one_of(&Self::ALL, Self::as_str, &value)
    }

    fn write(&self) -> Value {
        Value::text(self.as_str())
    }
}

/// A word, or the share of a proportional jitter.
impl Setting for Jitter {
    fn read(value: Value) -> Result<Self, Rule> {
        let named = |jitter: Self| match jitter {
            Self::None => "none",
            Self::Full => "full",
            Self::Equal => "equal",
            Self::Proportional(_) => "",
        };
        let rule = r#"it must be "equal", "full", "none", or a share between 0 and 1"#;
        if let Ok(jitter) = one_of(&[Self::None, Self::Full, Self::Equal], named, &value) {
            return Ok(jitter);
        }
        let share = f64::read(value).map_err(|_| rule)?;
        Self::proportional(share).map_err(|_| rule.into())
    }

    fn write(&self) -> Value {
        match self {
            Self::None => Value::text("none"),
            Self::Full => Value::text("full"),
            Self::Equal => Value::text("equal"),
            Self::Proportional(share) => Value::Float(share.get()),
        }
    }
}

/// How far they are followed; by the name of the variant.
impl Setting for ServerDelays {
    fn read(value: Value) -> Result<Self, Rule> {
        let rule = r#"it must be "ignored", { up_to = "60s" } or { clamped_to = "60s" }"#;
        match value {
            Value::Text(text) if text == "ignored" => Ok(Self::Ignored),
            Value::Table(entries) => match <[_; 1]>::try_from(entries) {
                Ok([(name, limit)]) if name == "up_to" => Duration::read(limit).map(Self::UpTo),
                Ok([(name, limit)]) if name == "clamped_to" => {
                    Duration::read(limit).map(Self::ClampedTo)
                }
                _ => Err(rule.into()),
            },
            _ => Err(rule.into()),
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::UpTo(limit) => Value::table([("up_to", limit.write())]),
            Self::ClampedTo(limit) => Value::table([("clamped_to", limit.write())]),
            Self::Ignored => Value::text("ignored"),
        }
    }
}

/// The item with this name.
pub(super) fn one_of<T: Copy>(
    items: &[T],
    name_of: impl Fn(T) -> &'static str,
    value: &Value,
) -> Result<T, Rule> {
    let is_it = |item: &T| matches!(value, Value::Text(name) if name == name_of(*item));
    items.iter().copied().find(is_it).ok_or_else(|| {
        let names = items.iter().map(|item| format!("{:?}", name_of(*item))).collect::<Vec<_>>();
        format!("it must be one of {}", names.join(", ")).into()
    })
}

/// The built-in profile with this name.
pub(super) fn built_in_profile(name: &str) -> Option<ApiProfile> {
    let mut built_in = ApiProfile::built_in().into_iter();
    built_in.find_map(|(known, profile)| (known == name).then_some(profile))
}
