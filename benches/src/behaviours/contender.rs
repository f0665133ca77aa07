//! Who does it: each with three attempts, and the same wait between them.

use std::time::Duration;

use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use reqwest_typed_retry::{
    Backoff, DeliveryProof, RetryMiddleware, RetryMiddlewareBuilder, RetryPolicy,
    RetryPolicyBuilder,
};
use tokio::time::timeout;
use tower::retry::Retry;
use tower::util::{BoxCloneSyncService, ServiceExt as _};

use super::Result;
use super::request::Wanted;
use super::seen::Ended;
use super::told::{self, Rule};

const ATTEMPTS: u32 = 3;
const RETRIES: u32 = ATTEMPTS - 1;
/// What `reads_body` reads at most.
const BODY: u64 = 1 << 20;

/// By their names in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Bare,
    ReqwestRetry,
    ReqwestsOwn,
    Backon,
    Tower,
    Ours,
}

/// What a row needs besides three attempts.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Between two attempts.
    pub wait: Duration,
    /// Of each attempt, or of what the contender has instead.
    pub timeout: Option<Duration>,
    /// Of all attempts together.
    pub limit: Option<Duration>,
    /// Two layers instead of one.
    pub is_nested: bool,
    pub is_http2: bool,
    /// The body is read before somebody decides whether to resend.
    pub reads_body: bool,
    /// Ours has a delivery proof.
    pub has_proof: bool,
    /// What our policy has besides.
    pub policy: fn(RetryPolicyBuilder) -> RetryPolicyBuilder,
    /// What our middleware has besides.
    pub middleware: fn(RetryMiddlewareBuilder) -> RetryMiddlewareBuilder,
    /// What our call sites may say.
    pub request: fn(RequestBuilder) -> RequestBuilder,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            wait: Duration::from_millis(10),
            timeout: None,
            limit: None,
            is_nested: false,
            is_http2: false,
            reads_body: false,
            has_proof: false,
            policy: |policy| policy,
            middleware: |middleware| middleware,
            request: |request| request,
        }
    }
}

impl Contender {
    pub const ALL: [Self; 6] =
        [Self::Bare, Self::ReqwestRetry, Self::ReqwestsOwn, Self::Backon, Self::Tower, Self::Ours];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "reqwest alone",
            Self::ReqwestRetry => "reqwest-retry",
            Self::ReqwestsOwn => "reqwest's own retry",
            Self::Backon => "backon",
            Self::Tower => "tower",
            Self::Ours => "this crate",
        }
    }

    /// Whether it resends what its caller tells it to, and nothing else.
    #[must_use]
    pub fn is_told(self) -> bool {
        matches!(self, Self::ReqwestsOwn | Self::Backon | Self::Tower)
    }

    /// # Errors
    /// If something does not build.
    pub fn caller(self, setup: &Setup) -> Result<Caller> {
        let Setup { wait, .. } = *setup;
        // Without the certificates of the system, which take long to load: nobody here has one of them.
        let mut http = Client::builder().no_proxy().tls_certs_only([]);
        if setup.is_http2 {
            http = http.http2_prior_knowledge();
        }
        // Ours has settings for both; reqwest-retry for the second.
        let (timeout, limit) = match self {
            Self::Ours => (None, None),
            Self::Bare | Self::ReqwestsOwn => (setup.timeout.or(setup.limit), None),
            Self::ReqwestRetry => (setup.timeout, None),
            Self::Backon | Self::Tower => (setup.timeout, setup.limit),
        };
        if let Some(timeout) = timeout {
            http = http.timeout(timeout);
        }
        if self == Self::ReqwestsOwn {
            http = http.retry(told::reqwests_own(RETRIES));
        }
        let (http, proof) = if setup.has_proof && self == Self::Ours {
            let (http, proof) = DeliveryProof::build(http)?;
            (http, Some(proof))
        } else {
            (http.build()?, None)
        };
        let way = match self {
            Self::Bare | Self::ReqwestsOwn => Way::Plain(http),
            Self::ReqwestRetry => {
                let chain = with_reqwest_retry(ClientBuilder::new(http), setup);
                let chain = if setup.is_nested { with_reqwest_retry(chain, setup) } else { chain };
                Way::Chain(chain.build())
            }
            Self::Ours => {
                let chain = ClientBuilder::new(http).with(ours(setup, proof.as_ref())?);
                let chain =
                    if setup.is_nested { chain.with(ours(setup, proof.as_ref())?) } else { chain };
                Way::Chain(chain.build())
            }
            Self::Backon => Way::Backon(http),
            Self::Tower => {
                let reads_body = setup.reads_body;
                let send =
                    tower::service_fn(move |request| send(http.clone(), request, reads_body));
                let once = Retry::new(Rule::new(RETRIES, wait), BoxCloneSyncService::new(send));
                Way::Tower(if setup.is_nested {
                    BoxCloneSyncService::new(Retry::new(Rule::new(RETRIES, wait), once))
                } else {
                    BoxCloneSyncService::new(once)
                })
            }
        };
        Ok(Caller { way, setup: *setup, limit })
    }
}

fn with_reqwest_retry(chain: ClientBuilder, setup: &Setup) -> ClientBuilder {
    let backoff =
        ExponentialBackoff::builder().retry_bounds(setup.wait, setup.wait).jitter(Jitter::None);
    match setup.limit {
        Some(limit) => {
            let policy = backoff.build_with_total_retry_duration_and_max_retries(limit, RETRIES);
            chain.with(RetryTransientMiddleware::new_with_policy(policy))
        }
        None => {
            let policy = backoff.build_with_max_retries(RETRIES);
            chain.with(RetryTransientMiddleware::new_with_policy(policy))
        }
    }
}

fn ours(setup: &Setup, proof: Option<&DeliveryProof>) -> Result<RetryMiddleware> {
    let policy = RetryPolicy::builder()
        .max_attempts(ATTEMPTS)
        .backoff(Backoff::constant(setup.wait))
        .jitter(reqwest_typed_retry::Jitter::None)
        .attempt_timeout(setup.timeout)
        .deadline(setup.limit);
    let retry = RetryMiddleware::builder((setup.policy)(policy).build()?);
    let retry = if setup.reads_body { retry.buffer_body(BODY) } else { retry };
    let retry = match proof {
        Some(proof) => retry.delivery_proof(proof.clone()),
        None => retry,
    };
    Ok((setup.middleware)(retry).build()?)
}

/// The answer as it came, or with its body already here.
async fn send(
    client: Client,
    request: Request,
    reads_body: bool,
) -> std::result::Result<Response, reqwest::Error> {
    let response = client.execute(request).await?;
    if !reads_body {
        return Ok(response);
    }
    let mut read = http::Response::new(());
    *read.status_mut() = response.status();
    *read.headers_mut() = response.headers().clone();
    let body = response.bytes().await?;
    Ok(read.map(|()| body).into())
}

/// A client with its retries: what a program has one of.
pub struct Caller {
    way: Way,
    setup: Setup,
    limit: Option<Duration>,
}

enum Way {
    Plain(Client),
    Chain(ClientWithMiddleware),
    Backon(Client),
    Tower(BoxCloneSyncService<Request, Response, reqwest::Error>),
}

impl Caller {
    /// # Errors
    /// If there is no such request.
    pub async fn call(&self, wanted: &Wanted, url: &str) -> Result<Ended> {
        let request = wanted.request(url)?;
        let call = async {
            Result::Ok(match &self.way {
                Way::Plain(client) => Ended::of(client.execute(request).await).await,
                Way::Chain(client) => {
                    let request = RequestBuilder::from_parts(client.clone(), request);
                    Ended::of_chain((self.setup.request)(request).send().await).await
                }
                Way::Backon(client) => Ended::of(self.backon(client, wanted, url).await).await,
                Way::Tower(retry) => Ended::of(retry.clone().oneshot(request).await).await,
            })
        };
        match self.limit {
            Some(limit) => Ok(timeout(limit, call).await.unwrap_or(Ok(Ended::TIMEOUT))?),
            None => call.await,
        }
    }

    async fn backon(
        &self,
        client: &Client,
        wanted: &Wanted,
        url: &str,
    ) -> std::result::Result<Response, reqwest::Error> {
        let Setup { wait, reads_body, is_nested, .. } = self.setup;
        // It makes the request anew each time, as whoever puts backon around a call does.
        let once = async || match wanted.request(url) {
            Ok(request) => send(client.clone(), request, reads_body).await,
            Err(_) => client.get("no URL").send().await,
        };
        let retries = RETRIES as usize;
        let again = async || told::backon(&wanted.method, retries, wait, &once).await;
        if is_nested {
            told::backon(&wanted.method, retries, wait, again).await
        } else {
            again().await
        }
    }
}
