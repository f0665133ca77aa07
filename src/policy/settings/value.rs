//! Settings as any format gives them, before anybody has judged them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::policy::PolicyError;
use crate::policy::error::shown;

/// A value of a self-describing format. It is taken as it is and judged later, by the rule of a setting that
/// has a name: so the error of every format names it.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    Nothing,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Table(Vec<(String, Value)>),
}

/// What a value must be, where it is not.
pub(crate) type Rule = Cow<'static, str>;

/// What the value of a setting is read as, and written as.
pub(crate) trait Setting: Sized {
    fn read(value: Value) -> Result<Self, Rule>;

    fn write(&self) -> Value;
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A list of items, or one item alone.
    pub(crate) fn into_items(self) -> Vec<Self> {
        match self {
            Self::List(items) => items,
            item => vec![item],
        }
    }

    pub(crate) fn list<T: Setting>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|item| item.write()).collect())
    }

    pub(crate) fn table<const N: usize>(entries: [(&str, Self); N]) -> Self {
        Self::Table(entries.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// A table of settings while it is read.
pub(crate) struct Table {
    /// Where it stands, for errors.
    path: String,
    entries: Vec<(String, Value)>,
    /// The settings that were asked for.
    known: Vec<&'static str>,
}

impl Table {
    /// # Errors
    /// If it is none.
    pub(crate) fn open(path: impl Into<String>, value: Value) -> Result<Self, PolicyError> {
        let path = path.into();
        match value {
            Value::Table(entries) => Ok(Self { path, entries, known: Vec::new() }),
            other => {
                let what = if path.is_empty() { "the settings".to_owned() } else { path };
                Err(PolicyError::new(what, other, "it must be a table of settings"))
            }
        }
    }

    /// What it is, whatever it is.
    ///
    /// # Errors
    /// If it is nothing: that could be meant for "none", or for what is not set.
    pub(crate) fn take_value(&mut self, name: &'static str) -> Result<Option<Value>, PolicyError> {
        self.known.push(name);
        let Some(at) = self.entries.iter().position(|(entry, _)| entry == name) else {
            return Ok(None);
        };
        match self.entries.remove(at).1 {
            Value::Nothing => {
                let rule = "that says nothing: leave it out, or write \"none\" where it can be";
                Err(PolicyError::new(self.path_of(name), Value::Nothing, rule))
            }
            value => Ok(Some(value)),
        }
    }

    /// # Errors
    /// If it is there and breaks the rule of its type.
    pub(crate) fn take<T: Setting>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, PolicyError> {
        let Some(value) = self.take_value(name)? else { return Ok(None) };
        match T::read(value.clone()) {
            Ok(setting) => Ok(Some(setting)),
            Err(rule) => Err(PolicyError::new(self.path_of(name), value, rule)),
        }
    }

    /// Hands it to its setter, if it is there.
    pub(crate) fn apply<B, T: Setting>(
        &mut self,
        builder: B,
        name: &'static str,
        setter: impl FnOnce(B, T) -> B,
    ) -> Result<B, PolicyError> {
        Ok(match self.take(name)? {
            Some(setting) => setter(builder, setting),
            None => builder,
        })
    }

    /// # Errors
    /// If it is not there.
    pub(crate) fn require<T: Setting>(&mut self, name: &'static str) -> Result<T, PolicyError> {
        self.take(name)?.ok_or_else(|| {
            let missing = format_args!("missing");
            PolicyError::new(self.path_of(name), missing, "there is no default for it")
        })
    }

    /// A table in this one.
    pub(crate) fn take_table(&mut self, name: &'static str) -> Result<Option<Self>, PolicyError> {
        let value = self.take_value(name)?;
        value.map(|value| Self::open(self.path_of(name), value)).transpose()
    }

    /// # Errors
    /// If there is something in it that nobody asked for.
    pub(crate) fn close(self) -> Result<(), PolicyError> {
        let Some((name, _)) = self.entries.first() else { return Ok(()) };
        // Not its value: what is in the wrong place may be a secret.
        let rule = format!("the settings here are {}", self.known.join(", "));
        Err(PolicyError::new(self.path_of(name), format_args!("unknown"), rule))
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// For errors that are found only now what it is called.
    pub(crate) fn rename(&mut self, path: impl Into<String>) {
        self.path = path.into();
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(items) => f.debug_list().entries(items).finish(),
            Self::Table(entries) => {
                let mut map = f.debug_map();
                for (name, value) in entries {
                    map.entry(&format_args!("{}", name.escape_debug()), value);
                }
                map.finish()
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            // What is written is never below zero, and not every format has 128 bits.
            Self::Int(value) => match u64::try_from(*value) {
                Ok(value) => serializer.serialize_u64(value),
                Err(_) => serializer.serialize_i128(*value),
            },
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Table(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (name, value) in entries {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Int(value.try_into().unwrap_or(i128::MAX)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Vec::new();
        let mut names = BTreeSet::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            if !names.insert(name.clone()) {
                let name = shown(format!("{name:?}"));
                return Err(serde::de::Error::custom(format_args!("{name} is there twice")));
            }
            table.push((name, value));
        }
        Ok(Value::Table(table))
    }
}
