//! A client's rules as settings.

use http::{HeaderName, Method};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{DrainLimits, Endpoint, EndpointBuilder, RetryMiddleware, RetryMiddlewareBuilder};
use crate::RetryBudget;
use crate::origin::{Cooldown, RetryBudgetBuilder};
use crate::policy::settings::{Setting as _, Table, Value};
use crate::policy::{PolicyError, RetryPolicy};

/// A client's policy, endpoints and options as an application keeps them: in TOML, JSON, YAML, environment
/// variables, or whatever else describes its own values to serde. Feature `serde`.
///
/// Everything has a default, so an empty table is the default client. The names are those of the setters in
/// code, and the same rules hold: what loads builds (but for `not_processed_statuses`, which need a
/// [`delivery_proof`](RetryMiddlewareBuilder::delivery_proof) that code adds). A setting that is unknown or
/// breaks a rule is an error that says where it stands, what it is, and the rule. Durations are texts with their
/// unit (`"250ms"`, `"1m 30s"`); `"none"` switches off what can be. In an endpoint's `policy` stands what differs
/// from the client's.
///
/// Closures (classifiers, endpoints by [`when`](crate::EndpointBuilder::when)), shared budgets and cooldowns
/// by key are for code: [`builder`](Self::builder) takes them on top.
///
/// The format must describe its values. Where it has no types, as environment variables, a text will do for a
/// number, and for one item of a list. What is not set is left out; a null is refused. Crates that merge
/// sources (`config`, `figment`) can so override a single value of the client; a backoff only as a whole, and
/// the list of endpoints only as a whole.
///
/// Every setting, with its default where there is one (`examples/retry.toml`):
///
/// ```toml
#[doc = include_str!("../../examples/retry.toml")]
/// ```
///
/// ```
/// use std::time::Duration;
/// use reqwest_typed_retry::{RetryMiddleware, RetrySettings};
///
/// let settings: RetrySettings = toml::from_str(
///     r#"
///     [policy]
///     attempt_timeout = "10s"
///
///     [[endpoint]]
///     name = "search"
///     path = "/v1/search"
///     policy.assume_idempotent = true
///     "#,
/// )?;
/// assert_eq!(settings.policy().attempt_timeout(), Some(Duration::from_secs(10)));
/// assert_eq!(settings.endpoints()[0].to_string(), "any method to any host below /v1/search");
/// let retry = RetryMiddleware::from_settings(&settings)?;
///
/// let error = toml::from_str::<RetrySettings>("policy.max_attempts = 0").unwrap_err();
/// assert_eq!(
///     error.message(),
///     "policy.max_attempts is 0, but it counts the first send too: it must be at least 1"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetrySettings {
    policy: RetryPolicy,
    endpoints: Vec<Endpoint>,
    buffer_body: u64,
    drain: DrainLimits,
    budget: Option<RetryBudgetBuilder>,
    cooldown: bool,
    wrap_errors: bool,
    attempt_header: Option<HeaderName>,
}

impl RetrySettings {
    /// The client's policy: that of every request that belongs to no endpoint.
    #[must_use]
    pub fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// The endpoints, in the order in which they are asked.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// A builder with all of it, for what code alone can add. Each builder has a budget of its own, which
    /// [`budget`](RetryMiddlewareBuilder::budget) replaces.
    ///
    /// ```
    /// use reqwest_typed_retry::{Attempt, RetrySettings, Verdict};
    ///
    /// let settings = RetrySettings::default();
    /// // A classifier for the client and for each endpoint that has a policy of its own.
    /// let builder = settings.builder().map_policies(|_endpoint, policy| {
    ///     policy.classifier(|attempt: &Attempt<'_>| {
    ///         attempt.path().starts_with("/legacy/").then_some(Verdict::Permanent)
    ///     })
    /// })?;
    /// let retry = builder.build()?;
    /// assert!(format!("{retry:?}").contains("classifiers: 1"));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn builder(&self) -> RetryMiddlewareBuilder {
        let mut builder = RetryMiddleware::builder(self.policy.clone())
            .buffer_body(self.buffer_body)
            .drain(self.drain);
        for endpoint in &self.endpoints {
            builder = builder.endpoint(endpoint.clone());
        }
        builder = match self.budget.clone().map(RetryBudgetBuilder::build) {
            Some(Ok(budget)) => builder.budget(budget),
            // A budget that was loaded builds.
            Some(Err(_)) | None => builder.without_budget(),
        };
        if self.cooldown {
            builder = builder.cooldown(Cooldown::by_origin());
        }
        if self.wrap_errors {
            builder = builder.wrap_errors();
        }
        match self.attempt_header.clone() {
            Some(name) => builder.attempt_header(name),
            None => builder,
        }
    }

    fn read(value: Value) -> Result<Self, PolicyError> {
        let mut settings = Self::default();
        let mut table = Table::open("", value)?;
        if let Some(table) = table.take_table("policy")? {
            settings.policy = settings.policy.with_settings(table)?;
        }
        settings.buffer_body = table.take("buffer_body")?.unwrap_or(settings.buffer_body);
        if let Some(table) = table.take_table("drain")? {
            settings.drain = read_drain(table, settings.drain)?;
        }
        match table.take_value("budget")? {
            Some(Value::Text(text)) if text == "none" => settings.budget = None,
            Some(value @ Value::Table(_)) => {
                settings.budget = Some(read_budget(Table::open("budget", value)?)?);
            }
            Some(value) => {
                let rule = r#"it must be a table of settings, or "none""#;
                return Err(PolicyError::new("budget", value, rule));
            }
            None => {}
        }
        settings.cooldown = table.take("cooldown")?.unwrap_or(settings.cooldown);
        settings.wrap_errors = table.take("wrap_errors")?.unwrap_or(settings.wrap_errors);
        settings.attempt_header = table.take("attempt_header")?.unwrap_or(settings.attempt_header);
        // Not one alone: a source that adds a part of one would replace them all.
        let items = match table.take_value("endpoint")? {
            Some(Value::List(items)) => items,
            Some(other) => {
                let rule = "it must be a list of tables: [[endpoint]]";
                return Err(PolicyError::new("endpoint", other, rule));
            }
            None => Vec::new(),
        };
        for (at, item) in items.into_iter().enumerate() {
            let table = Table::open(format!("endpoint.{at}"), item)?;
            settings.endpoints.push(read_endpoint(table, &settings)?);
        }
        table.close()?;
        settings.builder().check()?;
        Ok(settings)
    }

    fn write(&self) -> Value {
        let budget = self.budget.as_ref().map_or_else(|| Value::text("none"), write_budget);
        Value::table([
            ("buffer_body", self.buffer_body.write()),
            ("cooldown", self.cooldown.write()),
            ("wrap_errors", self.wrap_errors.write()),
            ("attempt_header", self.attempt_header.write()),
            ("policy", self.policy.to_settings()),
            ("drain", write_drain(&self.drain)),
            ("budget", budget),
            ("endpoint", Value::List(self.endpoints.iter().map(write_endpoint).collect())),
        ])
    }
}

fn read_drain(mut table: Table, default: DrainLimits) -> Result<DrainLimits, PolicyError> {
    let bytes = table.take("bytes")?.unwrap_or(default.bytes);
    let time = table.take("time")?.unwrap_or(default.time);
    table.close()?;
    Ok(DrainLimits::new(bytes, time))
}

fn write_drain(drain: &DrainLimits) -> Value {
    Value::table([("bytes", drain.bytes.write()), ("time", drain.time.write())])
}

fn read_budget(mut table: Table) -> Result<RetryBudgetBuilder, PolicyError> {
    let mut budget = RetryBudget::builder();
    budget = table.apply(budget, "capacity", RetryBudgetBuilder::capacity)?;
    budget = table.apply(budget, "refill_per_answer", RetryBudgetBuilder::refill_per_answer)?;
    budget = table.apply(budget, "refill_after", RetryBudgetBuilder::refill_after)?;
    table.close()?;
    budget.clone().build().map_err(|error| error.within("budget"))?;
    Ok(budget)
}

fn write_budget(budget: &RetryBudgetBuilder) -> Value {
    Value::table([
        ("capacity", budget.capacity.write()),
        ("refill_per_answer", budget.refill_per_answer.write()),
        ("refill_after", budget.refill_after.write()),
    ])
}

/// What it does not say is as the client has it.
fn read_endpoint(mut table: Table, client: &RetrySettings) -> Result<Endpoint, PolicyError> {
    let name = table.require::<String>("name")?;
    table.rename(format!("endpoint.{name}"));
    let mut endpoint = Endpoint::named(name);
    for method in table.take::<Vec<Method>>("method")?.unwrap_or_default() {
        endpoint = endpoint.method(method);
    }
    for host in table.take::<Vec<String>>("host")?.unwrap_or_default() {
        endpoint = endpoint.host(host);
    }
    for path in table.take::<Vec<String>>("path")?.unwrap_or_default() {
        endpoint = endpoint.path(path);
    }
    endpoint = table.apply(endpoint, "buffer_body", EndpointBuilder::buffer_body)?;
    if let Some(table) = table.take_table("drain")? {
        endpoint = endpoint.drain(read_drain(table, client.drain)?);
    }
    if let Some(table) = table.take_table("policy")? {
        endpoint = endpoint.policy(client.policy.with_settings(table)?);
    }
    table.close()?;
    endpoint.build()
}

fn write_endpoint(endpoint: &Endpoint) -> Value {
    let mut entries = vec![("name", Value::text(endpoint.name()))];
    let [methods, hosts, paths] = endpoint.conditions();
    for (name, texts) in [("method", methods), ("host", hosts), ("path", paths)] {
        if !texts.is_empty() {
            entries.push((name, Value::list(texts)));
        }
    }
    if let Some(limit) = endpoint.buffer_body {
        entries.push(("buffer_body", limit.write()));
    }
    if let Some(drain) = &endpoint.drain {
        entries.push(("drain", write_drain(drain)));
    }
    if let Some(policy) = &endpoint.policy {
        entries.push(("policy", policy.to_settings()));
    }
    Value::Table(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The default client.
impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            policy: RetryPolicy::default(),
            endpoints: Vec::new(),
            buffer_body: 0,
            drain: DrainLimits::default(),
            budget: Some(RetryBudget::builder()),
            cooldown: false,
            wrap_errors: false,
            attempt_header: None,
        }
    }
}

/// If they say the same.
impl PartialEq for RetrySettings {
    fn eq(&self, other: &Self) -> bool {
        self.write() == other.write()
    }
}

impl<'de> Deserialize<'de> for RetrySettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Every setting, defaults included.
impl Serialize for RetrySettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write().serialize(serializer)
    }
}

impl RetryPolicy {
    /// The settings of a client that has this policy and nothing else. Classifiers are not in them. Feature
    /// `serde`.
    ///
    /// ```
    /// use reqwest_typed_retry::{RetryPolicy, RetrySettings};
    ///
    /// let settings = RetryPolicy::builder().max_attempts(5).build()?.settings();
    /// let text = toml::to_string(&settings)?; // for a file to begin with
    /// assert!(text.contains("max_attempts = 5"), "{text}");
    /// assert_eq!(toml::from_str::<RetrySettings>(&text)?, settings);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn settings(&self) -> RetrySettings {
        RetrySettings { policy: self.without_classifiers(), ..RetrySettings::default() }
    }
}

impl RetryMiddleware {
    /// The middleware of these settings. For a delivery proof, observers, or classifiers, take their
    /// [`builder`](RetrySettings::builder). Feature `serde`.
    ///
    /// # Errors
    /// If a policy lists `not_processed_statuses`: they need a proof.
    ///
    /// ```
    /// use reqwest_typed_retry::{RetryMiddleware, RetrySettings};
    ///
    /// let settings: RetrySettings = toml::from_str("buffer_body = 65536")?;
    /// let retry = RetryMiddleware::from_settings(&settings)?;
    /// assert!(retry.explain().to_string().contains("up to 65536 bytes"));
    ///
    /// let settings: RetrySettings = toml::from_str("policy.not_processed_statuses = [429]")?;
    /// let error = RetryMiddleware::from_settings(&settings).unwrap_err();
    /// assert_eq!(error.setting(), "policy.not_processed_statuses");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_settings(settings: &RetrySettings) -> Result<Self, PolicyError> {
        settings.builder().build()
    }
}
