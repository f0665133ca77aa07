//! The name or the table of a profile.

use http::HeaderName;

use super::value::{Rule, Setting, Table, Value};
use super::words::built_in_profile;
use crate::policy::delay_hint::Gate;
use crate::policy::{ApiProfile, DelayHint, PolicyError, StatusCondition, StatusSet};

/// The lists of statuses, each with its condition.
const STATUSES: [(&str, StatusCondition); 3] = [
    ("retry_always", StatusCondition::Always),
    ("retry_with_server_delay", StatusCondition::WithServerDelay),
    ("retry_with_honoured_key", StatusCondition::WithHonouredKey),
];

pub(super) fn read(path: String, value: Value) -> Result<ApiProfile, PolicyError> {
    let mut table = match value {
        Value::Table(_) => Table::open(path, value)?,
        Value::Text(name) => {
            return built_in_profile(&name).ok_or_else(|| {
                let names = ApiProfile::built_in().map(|(name, _)| format!("{name:?}"));
                let rule = format!("it must be one of {}, or a table", names.join(", "));
                PolicyError::new(path, name, rule)
            });
        }
        other => return Err(PolicyError::new(path, other, "it must be a name or a table")),
    };
    let mut profile = ApiProfile::standard();
    for hint in hints(&mut table, "hint_before")? {
        profile = profile.hint_before(hint);
    }
    for hint in hints(&mut table, "hint")? {
        profile = profile.hint(hint);
    }
    for field in table.take::<Vec<HeaderName>>("verdict_field")?.unwrap_or_default() {
        profile = profile.verdict_field(field);
    }
    for (name, condition) in STATUSES {
        if let Some(statuses) = table.take::<StatusSet>(name)? {
            if !statuses.is_empty() {
                profile = profile.retry_statuses(statuses.iter(), condition);
            }
        }
    }
    if let Some(statuses) = table.take::<StatusSet>("not_processed_statuses")? {
        profile = profile.not_processed_statuses(statuses.iter());
    }
    match table.take("honours_idempotency_keys")? {
        Some(true) => profile = profile.honours_idempotency_keys(),
        Some(false) if profile.honours_keys => {
            let rule = "retry_with_honoured_key says that the API honours them";
            return Err(PolicyError::new(table.path_of("honours_idempotency_keys"), false, rule));
        }
        _ => {}
    }
    table.close()?;
    Ok(profile)
}

fn hints(table: &mut Table, name: &'static str) -> Result<Vec<DelayHint>, PolicyError> {
    let items = table.take_value(name)?.map(Value::into_items).unwrap_or_default();
    let path = table.path_of(name);
    let items = items.into_iter().enumerate();
    items.map(|(at, item)| hint(Table::open(format!("{path}.{at}"), item)?)).collect()
}

fn hint(mut table: Table) -> Result<DelayHint, PolicyError> {
    let mut hint = DelayHint::new(table.require("field")?, table.require("unit")?);
    if let Some(mut gate) = table.take_table("only_if")? {
        hint = hint.only_if(gate.require("field")?, gate.require::<Is>("is")?.0);
        gate.close()?;
    }
    if let Some(remaining) = table.take::<HeaderName>("unless_left")? {
        if hint.gate.is_some() {
            let path = table.path_of("unless_left");
            let rule = "a hint has one condition: only_if or unless_left";
            return Err(PolicyError::new(path, remaining, rule));
        }
        hint = hint.unless_left(remaining);
    }
    table.close()?;
    Ok(hint)
}

/// What a field must say. Sources that guess at types make a number of `0`.
struct Is(String);

impl Setting for Is {
    fn read(value: Value) -> Result<Self, Rule> {
        match value {
            Value::Int(number) => Ok(Self(number.to_string())),
            value => String::read(value).map(Self),
        }
    }

    fn write(&self) -> Value {
        Value::text(&self.0)
    }
}

pub(super) fn write(profile: &ApiProfile) -> Value {
    let table = write_table(profile);
    let is_same = |(_, built_in): &(&str, ApiProfile)| write_table(built_in) == table;
    let built_in = ApiProfile::built_in().into_iter().find(is_same);
    built_in.map_or(table, |(name, _)| Value::text(name))
}

fn write_table(profile: &ApiProfile) -> Value {
    let hints = |hints: &[DelayHint]| Value::List(hints.iter().map(write_hint).collect());
    let statuses = |condition: StatusCondition| {
        let listed = profile.statuses.iter().filter(|(_, known)| *known == condition);
        listed.map(|(status, _)| *status).collect::<StatusSet>().write()
    };
    let [always, with_delay, with_key] =
        STATUSES.map(|(name, condition)| (name, statuses(condition)));
    let promised = profile.not_processed_statuses.iter().copied().collect::<StatusSet>();
    Value::table([
        ("verdict_field", profile.verdict_fields.write()),
        always,
        with_delay,
        with_key,
        ("not_processed_statuses", promised.write()),
        ("honours_idempotency_keys", profile.honours_keys.write()),
        ("hint_before", hints(&profile.hints_before)),
        ("hint", hints(&profile.hints_after)),
    ])
}

fn write_hint(hint: &DelayHint) -> Value {
    let mut entries = vec![("field", hint.field.write()), ("unit", hint.unit.write())];
    match &hint.gate {
        Some(Gate::Is { field, value }) => entries.push((
            "only_if",
            Value::table([("field", field.write()), ("is", Value::text(value))]),
        )),
        Some(Gate::NoneLeft { field }) => entries.push(("unless_left", field.write())),
        None => {}
    }
    Value::Table(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
