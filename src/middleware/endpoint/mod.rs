//! Rules for some of a client's requests.

mod pattern;

use std::fmt;
use std::sync::Arc;

use http::Method;
use reqwest::Request;

use self::pattern::{HostPattern, PathPrefix};
use super::DrainLimits;
use crate::policy::{PolicyError, RetryPolicy};

/// Rules for the requests that go to one place, instead of those of the client.
///
/// A request belongs to the **first** endpoint that matches it, in the order in which they were
/// [added](crate::RetryMiddlewareBuilder::endpoint); that is settled before its first send, on the request
/// as the caller made it. What an endpoint says nothing of is as the client has it. The budget and the
/// cooldown are by origin, for all of a client's endpoints together.
///
/// Redirects are followed below the retry layer: wherever they lead, the rules of the request as the caller
/// made it hold. An endpoint that says that something may be sent twice says so for where its server
/// redirects to.
///
/// An endpoint matches if each kind of condition that it has does: one of its methods, one of its hosts, one
/// of its paths, and its closure.
///
/// ```
/// use reqwest::{Method, StatusCode};
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{Endpoint, RetryMiddleware, RetryPolicy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::answering(|request| match request.resend_count {
/// #     0 => Reply::status(StatusCode::SERVICE_UNAVAILABLE),
/// #     _ => Reply::status(StatusCode::OK),
/// # });
/// let policy = RetryPolicy::default();
/// let search = Endpoint::named("search")
///     .method(Method::POST)
///     .path("/v1/search")
///     .policy(policy.to_builder().assume_idempotent(true).build()?)
///     .build()?;
/// assert_eq!(search.name(), "search");
/// assert!(search.policy().is_some());
/// let retry = RetryMiddleware::builder(policy).endpoint(search).build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
///
/// // Of a server whose first answer is a 503: the search is sent again, the order is not.
/// let searched = client.post("http://api.test/v1/search").send().await?;
/// assert_eq!(searched.status(), StatusCode::OK);
/// let ordered = client.post("http://api.test/v1/orders").send().await?;
/// assert_eq!(ordered.status(), StatusCode::SERVICE_UNAVAILABLE);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    pub(super) name: Arc<str>,
    methods: Vec<Method>,
    hosts: Vec<HostPattern>,
    paths: Vec<PathPrefix>,
    when: Option<When>,
    pub(super) policy: Option<RetryPolicy>,
    pub(super) buffer_body: Option<u64>,
    pub(super) drain: Option<DrainLimits>,
}

type When = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

impl Endpoint {
    /// A builder of an endpoint with this name. It is part of logs, metrics and reports, so let it say nothing
    /// secret.
    pub fn named(name: impl Into<String>) -> EndpointBuilder {
        EndpointBuilder {
            name: name.into(),
            methods: Vec::new(),
            hosts: Vec::new(),
            paths: Vec::new(),
            when: None,
            policy: None,
            buffer_body: None,
            drain: None,
        }
    }

    /// Its name in logs, metrics and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its own policy. `None`: that of the client.
    #[must_use]
    pub fn policy(&self) -> Option<&RetryPolicy> {
        self.policy.as_ref()
    }

    /// Its methods, hosts and paths, as they are written.
    #[cfg(feature = "serde")]
    pub(super) fn conditions(&self) -> [Vec<String>; 3] {
        fn texts<T: ToString>(items: &[T]) -> Vec<String> {
            items.iter().map(T::to_string).collect()
        }
        [texts(&self.methods), texts(&self.hosts), texts(&self.paths)]
    }

    /// Whether this request, as the caller made it, belongs here.
    ///
    /// ```
    /// use reqwest::{Client, Method};
    /// use reqwest_typed_retry::Endpoint;
    ///
    /// let endpoint = Endpoint::named("v1").host("*.example.com").path("/v1").build()?;
    /// let matches = |url| Ok::<_, reqwest::Error>(endpoint.matches(&Client::new().get(url).build()?));
    /// assert!(matches("https://api.example.com/v1/orders")?);
    /// assert!(!matches("https://api.example.com/v10")?); // not a segment
    /// assert!(!matches("https://example.com/v1")?); // not below the domain
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn matches(&self, request: &Request) -> bool {
        fn one<T>(conditions: &[T], holds: impl Fn(&T) -> bool) -> bool {
            conditions.is_empty() || conditions.iter().any(holds)
        }
        one(&self.methods, |method| method == request.method())
            && one(&self.hosts, |host| host.matches(request.url()))
            && one(&self.paths, |path| path.matches(request.url()))
            && self.when.as_ref().is_none_or(|when| when(request))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("conditions", &format_args!("{self}"))
            .field("policy", &self.policy)
            .field("buffer_body", &self.buffer_body)
            .field("drain", &self.drain)
            .finish()
    }
}

/// What it matches: `POST, PUT to *.example.com below /v1`.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: ToString>(items: &[T], none: &str) -> String {
            let items = items.iter().map(T::to_string).collect::<Vec<_>>();
            if items.is_empty() { none.to_owned() } else { items.join(", ") }
        }
        write!(f, "{} to {}", list(&self.methods, "any method"), list(&self.hosts, "any host"))?;
        if !self.paths.is_empty() {
            write!(f, " below {}", list(&self.paths, ""))?;
        }
        match self.when {
            Some(_) => f.write_str(" where a closure says so"),
            None => Ok(()),
        }
    }
}

/// Builds an [`Endpoint`]; [`build`](Self::build) checks it.
///
/// ```
/// use std::time::Duration;
/// use reqwest::{Client, Method};
/// use reqwest_typed_retry::{DrainLimits, Endpoint, RetryPolicy};
///
/// let reports = Endpoint::named("reports")
///     .method(Method::GET)
///     .host("*.example.com")
///     .path("/reports")
///     .path("/v2/reports")
///     .when(|request| request.url().query().is_none())
///     .policy(RetryPolicy::builder().attempt_timeout(Duration::from_secs(60)).build()?)
///     .buffer_body(1 << 20)
///     .drain(DrainLimits::none())
///     .build()?;
/// assert_eq!(
///     reports.to_string(),
///     "GET to *.example.com below /reports, /v2/reports where a closure says so"
/// );
/// let client = Client::new();
/// assert!(reports.matches(&client.get("https://eu.example.com/v2/reports/7").build()?));
/// assert!(!reports.matches(&client.get("https://eu.example.com/v2/reports/7?raw").build()?));
/// assert!(!reports.matches(&client.put("https://eu.example.com/v2/reports/7").build()?));
///
/// let error = Endpoint::named("reports").host("https://example.com/").build().unwrap_err();
/// assert_eq!(error.setting(), "endpoint.reports.host");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct EndpointBuilder {
    name: String,
    methods: Vec<Method>,
    hosts: Vec<String>,
    paths: Vec<String>,
    when: Option<When>,
    policy: Option<RetryPolicy>,
    buffer_body: Option<u64>,
    drain: Option<DrainLimits>,
}

impl EndpointBuilder {
    /// Matches this method; of several, any. Names of methods are case-sensitive. **Default**: every method.
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Matches this host, `api.test`; or all hosts below a domain, `*.api.test`, which does not match
    /// `api.test` itself; at any port, or at one: `api.test:8080`. Of several, any. **Default**: every host.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Matches this path and all below it, by whole segments: `/v1` matches `/v1` and `/v1/orders`, not
    /// `/v10`. A final slash makes no difference. Compared as it stands in the URL: case and percent-encoding
    /// count, so that `/v1/%2e%2e%2f` is below `/v1`; the query does not. Of several, any. **Default**: every
    /// path.
    pub fn path(mut self, prefix: impl Into<String>) -> Self {
        self.paths.push(prefix.into());
        self
    }

    /// Matches where this closure says so, besides the other conditions, which are asked first. Another one
    /// replaces it. **Default**: none.
    pub fn when(mut self, when: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    /// Its own policy, whole: [`to_builder`](RetryPolicy::to_builder) of the client's changes parts of that.
    /// **Default**: the client's.
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// How much of a response's body is read inside the attempt, in bytes; 0 is nothing: see
    /// [`RetryMiddlewareBuilder::buffer_body`](crate::RetryMiddlewareBuilder::buffer_body). **Default**: as
    /// the client has it.
    pub fn buffer_body(mut self, limit: u64) -> Self {
        self.buffer_body = Some(limit);
        self
    }

    /// How much of a response that is not handed out is read. **Default**: as the client has it.
    pub fn drain(mut self, limits: DrainLimits) -> Self {
        self.drain = Some(limits);
        self
    }

    /// Checks the conditions.
    ///
    /// # Errors
    /// A name that is empty, longer than 64 characters, or has others in it than letters, digits, spaces and
    /// `-_./:`; no condition at all, since that is what the client's own policy is for; a host that is
    /// none; a path that does not begin with a slash, or is more than one; a method such as `post`, whose
    /// name is another one than `POST`.
    pub fn build(self) -> Result<Endpoint, PolicyError> {
        if !is_name(&self.name) {
            let rule = "reports call it so: it must be up to 64 letters, digits, spaces and -_./:";
            return Err(PolicyError::new("endpoint.name", &self.name, rule));
        }
        let within = |error: PolicyError| error.within(&format!("endpoint.{}", self.name));
        let error = |setting: &'static str, value: &str, rule| {
            within(PolicyError::new(setting, value, rule))
        };
        let has_none = self.methods.is_empty()
            && self.hosts.is_empty()
            && self.paths.is_empty()
            && self.when.is_none();
        if has_none {
            let rule = "it needs a method, host, path or closure: the policy for every request is the client's";
            return Err(within(PolicyError::new("conditions", format_args!("none"), rule)));
        }
        if let Some(method) = self.methods.iter().find(|method| is_misspelt(method)) {
            let rule = "methods are case-sensitive: it must be in capitals";
            return Err(error("method", method.as_str(), rule));
        }
        if self.methods.iter().any(|method| method.as_str() == "*") {
            return Err(error("method", "*", "for every method, leave it out"));
        }
        let parse_host =
            |text: &String| HostPattern::parse(text).map_err(|rule| error("host", text, rule));
        let parse_path =
            |text: &String| PathPrefix::parse(text).map_err(|rule| error("path", text, rule));
        Ok(Endpoint {
            hosts: self.hosts.iter().map(parse_host).collect::<Result<_, _>>()?,
            paths: self.paths.iter().map(parse_path).collect::<Result<_, _>>()?,
            name: self.name.into(),
            methods: self.methods,
            when: self.when,
            policy: self.policy,
            buffer_body: self.buffer_body,
            drain: self.drain,
        })
    }
}

impl fmt::Debug for EndpointBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointBuilder")
            .field("name", &self.name)
            .field("methods", &self.methods)
            .field("hosts", &self.hosts)
            .field("paths", &self.paths)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// It goes into logs, metrics and reports.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || " -_./:".contains(c);
    !name.trim().is_empty() && name.chars().count() <= 64 && name.chars().all(is_part)
}

/// `post` is a method of its own, and nobody means it.
fn is_misspelt(method: &Method) -> bool {
    let upper = method.as_str().to_ascii_uppercase();
    let is_known = Method::from_bytes(upper.as_bytes()).is_ok_and(|upper| {
        [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
            Method::CONNECT,
            Method::PATCH,
        ]
        .contains(&upper)
    });
    is_known && upper != method.as_str()
}

/// The endpoints of a client, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Endpoints(Vec<Endpoint>);

/// One of them, in two bytes: it is part of the future of every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndpointId(u16);

impl Endpoints {
    pub(super) fn add(&mut self, endpoint: Endpoint) {
        self.0.push(endpoint);
    }

    /// # Errors
    /// If two have the same name, or there are more than an [`EndpointId`] can tell apart.
    pub(super) fn check(&self) -> Result<(), PolicyError> {
        if let Some(most) = self.0.get(usize::from(u16::MAX)) {
            let rule = "there can't be more than 65535 endpoints";
            return Err(PolicyError::new("endpoint.name", &most.name, rule));
        }
        let mut names = std::collections::HashSet::new();
        match self.0.iter().find(|endpoint| !names.insert(endpoint.name())) {
            Some(second) => {
                let rule = "another endpoint has that name";
                Err(PolicyError::new("endpoint.name", second.name(), rule))
            }
            None => Ok(()),
        }
    }

    /// The first that matches.
    #[inline]
    pub(super) fn find(&self, request: &Request) -> Option<EndpointId> {
        let position = self.0.iter().position(|endpoint| endpoint.matches(request))?;
        u16::try_from(position).ok().map(EndpointId)
    }

    pub(super) fn get(&self, id: EndpointId) -> Option<&Endpoint> {
        self.0.get(usize::from(id.0))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        self.0.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter()
    }
}
