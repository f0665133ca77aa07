//! A caller that is made to ask ever new origins, all of them sick: what is kept of them is bounded.

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use async_trait::async_trait;
use futures_util::future::join_all;
use http::{Extensions, Method, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::{Cooldown, RetryBudget, ServerDelays, StopReason};
use tokio::runtime::Runtime;

use crate::world::{Back, End, end, policy, retrying};

const KIB: i64 = 1_024;

/// So many origins can be closed, or have less than a full budget: those that share one count as one.
const MOST_CLOSED: usize = 1_024;
const MOST_SICK: usize = 1_024 + 1;

/// Longer than all of it takes, in the client's time: nothing is forgotten for its age.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

const AT_ONCE: usize = 500;

/// A final middleware that keeps nothing. (A `Script` records what it has received.)
struct Sick;

#[async_trait]
impl Middleware for Sick {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let response = http::Response::builder();
        let response = match request.url().path() {
            // Closes its origin.
            "/closes" => {
                response.status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 80_000)
            }
            // Paces the resend.
            "/paces" => response.status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "1"),
            // Takes a token.
            _ => response.status(StatusCode::INTERNAL_SERVER_ERROR),
        };
        Ok(response.body("").unwrap().into())
    }
}

struct World {
    runtime: Runtime,
    client: ClientWithMiddleware,
    budget: RetryBudget,
    cooldown: Cooldown,
    asked: usize,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
        let _entered = runtime.enter();
        let budget = RetryBudget::builder().capacity(2).refill_after(LONG).build().unwrap();
        let cooldown = Cooldown::by_origin();
        let policy = policy().max_attempts(2).server_delays(ServerDelays::UpTo(LONG));
        let policy = policy.deadline(Duration::MAX);
        let retry = retrying(policy).budget(budget.clone()).cooldown(cooldown.clone());
        let client = ClientBuilder::new(Client::new()).with(retry.build().unwrap()).with(Sick);
        let client = client.build();
        drop(_entered);
        Self { runtime, client, budget, cooldown, asked: 0 }
    }

    /// Asks so many origins more.
    fn ask(&mut self, count: usize) -> AllocationInfo {
        measure(|| {
            for _ in 0..count / AT_ONCE {
                let from = self.asked;
                self.asked += AT_ONCE;
                self.runtime.block_on(join_all((from..self.asked).map(|number| {
                    let (method, path) = match number % 3 {
                        0 => (Method::POST, "closes"),
                        1 => (Method::GET, "paces"),
                        _ => (Method::GET, ""),
                    };
                    let request =
                        self.client.request(method, format!("http://o{number}.test/{path}"));
                    async { drop(request.send().await.unwrap()) }
                })));
                assert!(self.budget.sick_origins() <= MOST_SICK);
                assert!(self.closed() <= MOST_CLOSED);
            }
        })
    }

    fn closed(&self) -> usize {
        let shown = format!("{:?}", self.cooldown);
        let count = shown.split("closed: ").nth(1).unwrap().trim_end_matches(" }");
        count.parse().unwrap()
    }
}

/// Compares the live memory after a third with that at the end.
fn check(origins: usize) {
    let mut world = World::new();
    let third = origins / 3;
    let first = world.ask(third);
    assert_eq!((world.budget.sick_origins(), world.closed()), (MOST_SICK, MOST_CLOSED), "full");
    let rest = world.ask(origins - third);
    println!(
        "{} origins: {} KiB live after a third, {} bytes more at the end; at most {} KiB at once",
        world.asked,
        first.bytes_current / KIB,
        rest.bytes_current,
        first.bytes_max.max(rest.bytes_max) / 1_024,
    );
    assert!(rest.bytes_current < 16 * KIB, "{rest:?}");
    assert!(first.bytes_current < 1_024 * KIB, "{first:?}");

    // One more is asked all the same; its requests learn for themselves.
    let end = world.runtime.block_on(end(world.client.post("http://new.test/closes")));
    assert_eq!((end.back, end.attempts), (Back::Status(503), 1));
    let end = world.runtime.block_on(end_of(&world.client, "http://new.test/"));
    assert_eq!((end.attempts, end.stop), (1, StopReason::BudgetExhausted), "they share a budget");
}

async fn end_of(client: &ClientWithMiddleware, url: &str) -> End {
    end(client.get(url)).await
}

#[test]
fn what_is_kept_of_200_000_origins_is_bounded() {
    check(200_000);
}

#[test]
#[ignore = "takes minutes in a debug build"]
fn what_is_kept_of_millions_of_origins_is_bounded() {
    check(3_000_000);
}

/// A client that picks the names itself, as of the customers of an API, is bounded too.
#[test]
fn keys_of_any_length_are_kept_as_numbers() {
    let mut world = World::new();
    world.cooldown = Cooldown::by_key(|request| Some(request.url().path().repeat(1_000)));
    let retry = retrying(policy().server_delays(ServerDelays::UpTo(LONG)).deadline(Duration::MAX));
    let retry = retry.cooldown(world.cooldown.clone()).build().unwrap();
    world.client = ClientBuilder::new(Client::new()).with(retry).with(Closes).build();
    let memory = measure(|| {
        for number in 0..5_000 {
            let request = world.client.post(format!("http://service.test/{number}"));
            drop(world.runtime.block_on(request.send()).unwrap());
        }
    });
    assert_eq!(world.closed(), MOST_CLOSED);
    println!("{} KiB live", memory.bytes_current / KIB);
    assert!(memory.bytes_current < 256 * KIB, "{memory:?}");
}

struct Closes;

#[async_trait]
impl Middleware for Closes {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let response = http::Response::builder().status(503).header("retry-after", 80_000);
        Ok(response.body("").unwrap().into())
    }
}
