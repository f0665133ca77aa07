//! Servers that end connections, with many callers at a time.

use std::io;

use futures_util::future::join_all;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{RetryBudget, StopReason};

use crate::clock::Clock;
use crate::server::{Connection, Seen, Server};
use crate::world::{
    Back, End, KIB, MIB, assert_bounded, end, http, policy, retrying, run_in_real_time,
};

const CALLS: usize = 150;
const TOKENS: u32 = 50;

/// What became of many calls at a time, and what the server saw.
fn storm<F>(
    label: &str,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
) -> (Vec<End>, Seen)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, serve);
    let budget = RetryBudget::builder().capacity(TOKENS).build().unwrap();
    // Many calls at a time have no clock in common that could stand still for each of them.
    let (ends, memory) = run_in_real_time(async {
        let retry = retrying(policy()).budget(budget.clone()).build().unwrap();
        let client = ClientBuilder::new(http().build().unwrap()).with(retry).build();
        join_all((0..CALLS).map(|_| end(client.get(server.url())))).await
    });
    let seen = server.finish();
    println!("{label}: {seen:?}");
    assert_bounded(label, memory, MIB + 64 * KIB * CALLS as u64);
    (ends, seen)
}

/// Whatever it is that ends, all calls do, and all of them together send no more than the budget has.
fn check<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static, reads: bool)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (ends, seen) = storm(label, serve);
    let most = CALLS + usize::try_from(TOKENS).unwrap();
    let attempts: usize = ends.iter().map(|end| end.attempts).sum();
    assert_eq!(attempts, most, "{label}: every token is spent");
    for end in ends {
        let stops = [StopReason::AttemptsExhausted, StopReason::BudgetExhausted];
        assert!(stops.contains(&end.stop), "{label}: {end:?}");
        assert!(matches!(end.back, Back::Fault(_)), "{label}: {end:?}");
    }
    assert!(seen.connections <= most, "{label}: {seen:?}");
    assert_eq!(seen.requests, if reads { most } else { 0 }, "{label}");
}

#[test]
fn a_storm_of_connections_that_end_is_bounded_by_the_budget() {
    check("accepts and resets", async |it: Connection| it.reset(), false);
    check("accepts and closes", async |it: Connection| it.close(), false);
    check(
        "reads and resets",
        async |mut it: Connection| {
            it.read_request().await?;
            it.reset()
        },
        true,
    );
    check(
        "answers half and resets",
        async |mut it: Connection| {
            it.read_request().await?;
            it.write("HTTP/1.1 200 OK\r\nx: ").await?;
            it.reset()
        },
        true,
    );
}
