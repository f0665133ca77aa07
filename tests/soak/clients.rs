//! The clients, which live as long as the soak.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{
    ApiProfile, Backoff, Cooldown, DeliveryProof, KeyFormat, MetricsObserver, RetryBudget,
    RetryMiddleware, RetryPolicy, RetryPolicyBuilder, StatusSet,
};

use super::counts::{Observer, Sends};
use super::faulty_server::{NOBODY, Protocol, Witness as _};
use super::ledger::{ATTEMPT, Ledger};

pub(crate) const MAX_ATTEMPTS: u32 = 5;
const LONGEST_BACKOFF: Duration = Duration::from_millis(80);
/// More than servers ask for, and its spread.
const LONGEST_WAIT: Duration = Duration::from_millis(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With a proof; no limit but the number of attempts.
    Proven,
    /// Reads bodies; with a budget; makes keys for POST and PATCH.
    Buffered,
    /// Holds back what a server asks to be held back; with a budget and a deadline.
    Cooled,
    /// With the resends that reqwest makes by default, below us.
    DefaultRetry,
}

pub(crate) const KINDS: [Kind; 4] =
    [Kind::Proven, Kind::Buffered, Kind::Cooled, Kind::DefaultRetry];

/// One client.
pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    pub(crate) protocol: Protocol,
    pub(crate) client: ClientWithMiddleware,
    /// The deadline of its policy.
    pub(crate) deadline: Option<Duration>,
    /// The longest that a call takes without any.
    pub(crate) longest: Duration,
    /// Its policy, with nothing but a deadline to end an attempt soon.
    pub(crate) patient: RetryPolicy,
    /// Its policy, with nothing but a cancellation to end a wait soon.
    pub(crate) waiting: RetryPolicy,
}

impl Contestant {
    pub(crate) fn new(
        kind: Kind,
        protocol: Protocol,
        attempt_timeout: Duration,
        ledger: &Arc<Ledger>,
    ) -> Self {
        let deadline = (kind == Kind::Cooled).then_some(3 * attempt_timeout);
        let policy = policy().attempt_timeout(attempt_timeout).deadline(deadline);
        // These servers reject before they act; but a redirect may lead to a 429, too.
        let rejections = StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS);
        let policy = match kind {
            Kind::Proven => policy.not_processed_statuses(rejections),
            Kind::Buffered => policy.generate_idempotency_keys(KeyFormat::Bare),
            Kind::Cooled => policy.profile(ApiProfile::openai()),
            Kind::DefaultRetry => policy,
        };
        let policy = policy.build().unwrap();
        let patient = policy.to_builder().attempt_timeout(20 * attempt_timeout).deadline(None);
        let hours = Backoff::constant(Duration::from_secs(7_200));
        let waiting = policy.to_builder().backoff(hours.clone()).throttle_backoff(hours);
        let (patient, waiting) =
            (patient.build().unwrap(), waiting.deadline(None).build().unwrap());
        let retry = RetryMiddleware::builder(policy);
        let http = http(protocol, attempt_timeout, ledger);
        let never = reqwest::retry::never;
        let (http, retry) = match kind {
            Kind::Proven => {
                let (http, proof) = DeliveryProof::build(http).unwrap();
                (http, retry.delivery_proof(proof).without_budget())
            }
            Kind::Buffered => {
                let budget = RetryBudget::builder().capacity(5).refill_per_answer(0.1);
                let budget = budget.refill_after(Duration::from_secs(1)).build().unwrap();
                let retry = retry.budget(budget).buffer_body(64 * 1024);
                (http.retry(never()).build().unwrap(), retry)
            }
            Kind::Cooled => {
                (http.retry(never()).build().unwrap(), retry.cooldown(Cooldown::by_origin()))
            }
            Kind::DefaultRetry => (http.build().unwrap(), retry.without_budget().wrap_errors()),
        };
        let retry = retry
            .attempt_header(HeaderName::from_static(ATTEMPT))
            .observer(Observer)
            .observer(MetricsObserver::new())
            .build()
            .unwrap();
        let client = ClientBuilder::new(http).with(retry).with(Sends).build();
        let longest = MAX_ATTEMPTS * (attempt_timeout + LONGEST_WAIT);
        Self { kind, protocol, client, deadline, longest, patient, waiting }
    }
}

/// What is the same for all.
pub(crate) fn policy() -> RetryPolicyBuilder {
    let backoff = || Backoff::exponential(Duration::from_millis(5), LONGEST_BACKOFF).unwrap();
    RetryPolicy::builder()
        .max_attempts(MAX_ATTEMPTS)
        .backoff(backoff())
        .throttle_backoff(backoff())
        .honour_idempotency_keys(true)
}

fn http(
    protocol: Protocol,
    connect_timeout: Duration,
    ledger: &Arc<Ledger>,
) -> reqwest::ClientBuilder {
    let http = reqwest::Client::builder()
        .no_proxy()
        .dns_resolver(Resolver(ledger.clone()))
        .connect_timeout(connect_timeout)
        // At rest there is no connection, and so no task.
        .pool_idle_timeout(Duration::from_millis(200));
    match protocol {
        Protocol::Http1 => http,
        Protocol::Http2 => http.http2_prior_knowledge(),
    }
}

/// Sends one connection in ten to nobody, and does not know one in forty.
struct Resolver(Arc<Ledger>);

impl Resolve for Resolver {
    fn resolve(&self, _: Name) -> Resolving {
        if self.0.connection_meets(40) {
            let unknown = io::Error::from(io::ErrorKind::NotFound);
            return Box::pin(std::future::ready(Err(unknown.into())));
        }
        let ip = if self.0.connection_meets(10) { NOBODY } else { Ipv4Addr::LOCALHOST };
        let address: Addrs = Box::new([SocketAddr::new(IpAddr::V4(ip), 0)].into_iter());
        Box::pin(std::future::ready(Ok(address)))
    }
}
