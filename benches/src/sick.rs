//! A budget whose origins are sick.

use std::time::Duration;

use reqwest::{Client, Url};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{Backoff, RetryBudget, RetryMiddleware, RetryPolicy};
use tokio::runtime::Runtime;

use crate::canned::Canned;

/// With this many other origins sick, and that of `own` if there is one. They stay so: nothing is refilled.
/// `http` sends nothing; to make one for each of many budgets would take long.
///
/// # Errors
/// If something does not build, or others are sick than were asked for.
pub fn budget(
    runtime: &Runtime,
    http: &Client,
    others: usize,
    own: Option<&str>,
) -> Result<RetryBudget, Box<dyn std::error::Error>> {
    let stays = Duration::from_secs(86_400);
    let budget = RetryBudget::builder().refill_per_answer(0.0).refill_after(stays).build()?;
    let policy = RetryPolicy::builder()
        .max_attempts(2)
        .backoff(Backoff::constant(Duration::from_micros(1)))
        .build()?;
    let retry = RetryMiddleware::builder(policy).budget(budget.clone()).build()?;
    let client = ClientBuilder::new(http.clone()).with(retry).with(Canned).build();
    let others_urls = (0..others).map(|other| format!("http://{other}.test/"));
    for origin in others_urls.chain(own.map(str::to_owned)) {
        runtime.block_on(client.get(origin + "sick").send())?;
    }
    let own_is_sick = match own {
        Some(own) => budget.level(&Url::parse(own)?) < 100.0,
        None => false,
    };
    let expected = others + usize::from(own_is_sick);
    if budget.sick_origins() != expected || own_is_sick != own.is_some() || expected == 0 {
        return Err(format!("{} origins are sick, not {expected}", budget.sick_origins()).into());
    }
    Ok(budget)
}
