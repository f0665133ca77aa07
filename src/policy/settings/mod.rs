//! A policy as settings: what a file, or any other source that serde reads, says of it.
//!
//! Values are taken as they come (`value`), read by the rule of their type (`words`, `backoff`, `profile`),
//! and the builder has the last word, as it has in code.

mod backoff;
mod profile;
mod value;
mod words;

pub(crate) use self::value::{Setting, Table, Value};
use self::words::{ByProfile, MaxAttempts};
use super::{PolicyError, RetryPolicy};

impl RetryPolicy {
    /// This policy, but for what `table` says.
    ///
    /// # Errors
    /// The first setting that is unknown or breaks a rule, by its path.
    pub(crate) fn with_settings(&self, mut table: Table) -> Result<Self, PolicyError> {
        let path = table.path_of("");
        let mut policy = self.to_builder();
        match table.take::<MaxAttempts>("max_attempts")? {
            Some(MaxAttempts(Some(max))) => policy = policy.max_attempts(max),
            Some(MaxAttempts(None)) => policy = policy.unlimited_attempts(),
            None => {}
        }
        if let Some(table) = table.take_table("backoff")? {
            policy = policy.backoff(backoff::read(table)?);
        }
        if let Some(table) = table.take_table("throttle_backoff")? {
            policy = policy.throttle_backoff(backoff::read(table)?);
        }
        policy = table.apply(policy, "jitter", |policy, it| policy.jitter(it))?;
        policy = table.apply(policy, "retry_statuses", |policy, it| policy.retry_statuses(it))?;
        policy = table.apply(policy, "retry_faults", |policy, it| policy.retry_faults(it))?;
        policy = table.apply(policy, "not_processed_statuses", |policy, it| {
            policy.not_processed_statuses(it)
        })?;
        policy = table
            .apply(policy, "honour_idempotency_keys", |policy, ByProfile(it)| policy.honours(it))?;
        policy = table.apply(policy, "idempotency_key_fields", |policy, it: Vec<_>| {
            policy.idempotency_key_fields(it)
        })?;
        policy = table.apply(policy, "generate_idempotency_keys", |policy, it: Option<_>| {
            policy.generate_idempotency_keys(it)
        })?;
        policy =
            table.apply(policy, "assume_idempotent", |policy, it| policy.assume_idempotent(it))?;
        policy = table.apply(policy, "server_delays", |policy, it| policy.server_delays(it))?;
        policy = table
            .apply(policy, "attempt_timeout", |policy, it: Option<_>| policy.attempt_timeout(it))?;
        policy =
            table.apply(policy, "head_timeout", |policy, it: Option<_>| policy.head_timeout(it))?;
        policy = table.apply(policy, "deadline", |policy, it: Option<_>| policy.deadline(it))?;
        if let Some(value) = table.take_value("profile")? {
            policy = policy.profile(profile::read(table.path_of("profile"), value)?);
        }
        table.close()?;
        policy.build().map_err(|error| error.within(path.trim_end_matches('.')))
    }

    /// All that settings can say of it: everything but its classifiers.
    pub(crate) fn to_settings(&self) -> Value {
        let rules = self.rules();
        Value::table([
            ("max_attempts", MaxAttempts::of(rules.max_attempts).write()),
            ("jitter", rules.jitter.write()),
            ("retry_statuses", rules.retry_statuses.write()),
            ("retry_faults", rules.retry_faults.write()),
            ("not_processed_statuses", rules.not_processed_statuses.write()),
            ("honour_idempotency_keys", ByProfile(rules.honour_idempotency_keys).write()),
            ("idempotency_key_fields", rules.idempotency_key_fields.write()),
            ("generate_idempotency_keys", rules.generate_idempotency_keys.write()),
            ("assume_idempotent", rules.assume_idempotent.write()),
            ("server_delays", rules.server_delays.write()),
            ("attempt_timeout", rules.attempt_timeout.write()),
            ("head_timeout", rules.head_timeout.write()),
            ("deadline", rules.deadline.write()),
            ("backoff", backoff::write(&rules.backoff)),
            ("throttle_backoff", backoff::write(&rules.throttle_backoff)),
            ("profile", profile::write(&rules.profile)),
        ])
    }
}
