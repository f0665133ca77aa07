//! The table of a backoff.

use std::time::Duration;

use super::value::{Setting as _, Table, Value};
use crate::policy::backoff::Shape;
use crate::policy::{Backoff, PolicyError, constants};

/// Its `kind`, and what that kind needs.
pub(super) fn read(mut table: Table) -> Result<Backoff, PolicyError> {
    let path = table.path_of("kind");
    let rule = "it must be one of \"constant\", \"linear\", \"exponential\", \"decorrelated\", \
        \"schedule\"";
    let kind = match table.take_value("kind")? {
        Some(Value::Text(kind)) => kind,
        Some(other) => return Err(PolicyError::new(path, other, rule)),
        None => return Err(PolicyError::new(path, format_args!("missing"), rule)),
    };
    let within = {
        let path = table.path_of("");
        move |error: PolicyError| error.within(path.trim_end_matches('.'))
    };
    let backoff = match &*kind {
        "constant" => Backoff::constant(table.require("delay")?),
        "linear" => {
            let (base, max) = base_and_max(&mut table)?;
            Backoff::linear(base, max).map_err(within)?
        }
        "exponential" => {
            let (base, max) = base_and_max(&mut table)?;
            let factor = table.take("factor")?.unwrap_or(constants::FACTOR);
            let backoff = Backoff::exponential(base, max);
            backoff.and_then(|backoff| backoff.with_factor(factor)).map_err(within)?
        }
        "decorrelated" => {
            let (base, max) = base_and_max(&mut table)?;
            Backoff::decorrelated(base, max).map_err(within)?
        }
        "schedule" => {
            Backoff::schedule(table.require::<Vec<Duration>>("schedule")?).map_err(within)?
        }
        _ => return Err(PolicyError::new(path, kind, rule)),
    };
    table.close()?;
    Ok(backoff)
}

fn base_and_max(table: &mut Table) -> Result<(Duration, Duration), PolicyError> {
    Ok((table.require("base_delay")?, table.require("max_delay")?))
}

pub(super) fn write(backoff: &Backoff) -> Value {
    let with_kind = |kind: &str, base: &Duration, max: &Duration| {
        [("kind", Value::text(kind)), ("base_delay", base.write()), ("max_delay", max.write())]
    };
    match &backoff.shape {
        Shape::Constant(delay) => {
            Value::table([("kind", Value::text("constant")), ("delay", delay.write())])
        }
        Shape::Linear { base, max } => Value::table(with_kind("linear", base, max)),
        Shape::Exponential { base, max, factor } => {
            let [kind, base, max] = with_kind("exponential", base, max);
            Value::table([kind, base, max, ("factor", factor.write())])
        }
        Shape::Decorrelated { base, max } => Value::table(with_kind("decorrelated", base, max)),
        Shape::Schedule(delays) => Value::table([
            ("kind", Value::text("schedule")),
            ("schedule", Value::list(delays.iter().copied())),
        ]),
    }
}
