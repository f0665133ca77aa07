//! The workload of `tests/effects_oracle`, run through this crate and its peers: what took effect
//! twice, what was lost, and what it cost the server. Prints a Markdown table.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin effects [operations] [seeds]`

#[allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing, reason = "shared with a test")]
#[path = "../../../tests/effects_oracle/workload.rs"]
mod workload;

use std::time::Duration;

use http::StatusCode;
use reqwest::Client;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_typed_retry::{Backoff, DeliveryProof, RetryMiddleware, RetryPolicy, StatusSet};
use workload::{Protocol, Workload, may_be_repeated};

/// Seven resends for everybody, as good as at once.
const ATTEMPTS: u32 = 8;
const WAIT: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(2);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn with(http: Client, middleware: impl Middleware) -> ClientWithMiddleware {
    ClientBuilder::new(http).with(middleware).build()
}

fn policy() -> reqwest_typed_retry::RetryPolicyBuilder {
    RetryPolicy::builder()
        .max_attempts(ATTEMPTS)
        .backoff(Backoff::constant(WAIT))
        .throttle_backoff(Backoff::constant(WAIT))
        .honour_idempotency_keys(true)
        .attempt_timeout(TIMEOUT)
}

/// Each contestant by its name in the table. Ours without its budget, which would return the outcomes of
/// this many faults as they are.
fn client(name: &str, workload: &Workload) -> Result<ClientWithMiddleware> {
    let http = workload.http().timeout(TIMEOUT);
    Ok(match name {
        "reqwest, no retry layer" => ClientBuilder::new(http.build()?).build(),
        "reqwest-retry 0.9" => {
            let backoff = ExponentialBackoff::builder().retry_bounds(WAIT, WAIT);
            let policy = backoff.build_with_max_retries(ATTEMPTS - 1);
            with(http.build()?, RetryTransientMiddleware::new_with_policy(policy))
        }
        "this crate" => {
            let http = http.retry(reqwest::retry::never()).build()?;
            with(http, RetryMiddleware::builder(policy().build()?).without_budget().build()?)
        }
        "this crate, with a proof" => {
            let (http, proof) = DeliveryProof::build(http)?;
            let rejections = StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS);
            let policy = policy().not_processed_statuses(rejections).build()?;
            let retry = RetryMiddleware::builder(policy).delivery_proof(proof);
            with(http, retry.without_budget().build()?)
        }
        name => return Err(format!("no contestant is called {name}").into()),
    })
}

const NAMES: [&str; 4] =
    ["reqwest, no retry layer", "reqwest-retry 0.9", "this crate", "this crate, with a proof"];

#[tokio::main]
async fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let operations = usize::try_from(numbers.next().transpose()?.unwrap_or(6_000))?;
    let seeds = numbers.next().transpose()?.unwrap_or(3);
    println!(
        "| client | protocol | operations | POST, PATCH that took effect twice | repeatable \
         operations that failed | POST, PATCH that failed without effect | requests at the server |"
    );
    println!("|---|---|---|---|---|---|---|");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for name in NAMES {
            let (mut twice, mut failed, mut missed, mut arrivals) = (0, 0, 0, 0);
            for seed in 0..seeds {
                let workload = Workload::start(protocol, seed, operations).await;
                let client = client(name, &workload)?;
                let ended = workload.run(&client, |request| (request, ())).await;
                let effects = workload.effects();
                for ended in ended {
                    let served = matches!(ended.result, Ok(StatusCode::OK));
                    let effects = effects.get(ended.operation).copied().unwrap_or_default();
                    if may_be_repeated(ended.operation) {
                        failed += usize::from(!served);
                    } else {
                        twice += usize::from(effects > 1);
                        missed += usize::from(!served && effects == 0);
                    }
                }
                arrivals += workload.arrivals();
            }
            let operations = operations * usize::try_from(seeds)?;
            println!(
                "| {name} | {protocol:?} | {operations} | {twice} | {failed} | {missed} | {arrivals} |"
            );
        }
    }
    Ok(())
}
