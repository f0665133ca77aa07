//! The server: a limited capacity, one queue, an outage.
//!
//! What is modelled:
//!
//! - It works off one request after the other, in the order of their arrival, each with the same
//!   work.
//! - It does not notice that a client has given up: the work for that request is done all the same.
//! - A request that finds the queue full is shed: 503, after 10 ms.
//! - While it is sick it is slow, or gives each request a 503 after 10 ms; see
//!   [`Sickness`](super::world::Sickness).
//! - Every 503 carries `Retry-After`. Whether it is obeyed is the client's policy.
//!
//! What is not: connections, the network, bodies, and the cost of a 503 (a proxy in front gives
//! it). A real server that also spends work on what it sheds fares worse.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Extensions, StatusCode, header};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use reqwest_typed_retry::ResendCount;
use tokio::time::{Instant, sleep, sleep_until};

use super::tally::{Client, Second, Tally};
use super::works::Works;
use super::world::{Purpose, Sickness, World};

/// The time that a 503 takes.
const REFUSAL: Duration = Duration::from_millis(10);

/// The server, and the counts. Clones are the same server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    world: World,
    works: Works,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the last admitted request is done, told by the work that can be done up to then: see
    /// [`Works`].
    promised: f64,
    refusals: SmallRng,
    tally: Tally,
}

impl Server {
    pub(crate) fn new(world: &World) -> Self {
        let started = Instant::now();
        let seconds = usize::try_from(world.measured + world.tail).unwrap_or(usize::MAX);
        let clients = usize::try_from(world.clients).unwrap_or(usize::MAX);
        Self {
            shared: Arc::new(Shared {
                world: world.clone(),
                works: Works::new(world),
                started,
                state: Mutex::new(State {
                    promised: 0.0,
                    refusals: SmallRng::seed_from_u64(world.seed_of(0, Purpose::Refusals)),
                    tally: Tally::new(seconds, clients),
                }),
            }),
        }
    }

    /// The way of one client to this server: a last middleware that sends nothing on.
    pub(crate) fn door(&self, client: usize) -> Door {
        Door { server: self.clone(), client }
    }

    /// A request begins.
    pub(crate) fn offered(&self) {
        let now = Instant::now();
        self.lock().second(self.since_start(now), |second| second.offered += 1);
    }

    /// A request that began then has got its useful answer.
    pub(crate) fn answered(&self, began: Instant) {
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.lock().second(self.since_start(began), |second| {
            second.answered += 1;
            second.took_ms += took;
        });
    }

    /// The counts so far.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().tally.clone()
    }

    /// Takes a send in, and says when its answer will be there; `None` for a 503.
    fn admit(&self, client: usize, is_resend: bool) -> Option<Instant> {
        let Shared { world, works, started, .. } = &*self.shared;
        let since_start = self.since_start(Instant::now());
        let mut state = self.lock();
        state.second(since_start, |second| second.sends += 1);
        state.client(client, |client| {
            client.sends += 1;
            client.resends += u64::from(is_resend);
        });
        let is_sick =
            u32::try_from(since_start.as_secs()).is_ok_and(|second| world.outage.contains(&second));
        let done = works.done_by(since_start.as_secs_f64());
        let begins = state.promised.max(done);
        let is_refused = match world.sickness {
            Sickness::Refusing(share) if is_sick => state.refusals.random_bool(share),
            _ => false,
        };
        if is_refused || begins - done >= world.queue {
            return None;
        }
        state.promised = begins + 1.0;
        state.tally.worked += 1;
        state.tally.wasted += 1; // until somebody is there to take the answer
        Some(*started + Duration::from_secs_f64(works.time_of(state.promised)))
    }

    /// A client takes an answer.
    fn taken(&self, client: usize, is_resend: bool) {
        let mut state = self.lock();
        state.tally.wasted -= 1;
        state.client(client, |client| {
            client.answers += 1;
            client.answered_resends += u64::from(is_resend);
        });
    }

    fn since_start(&self, instant: Instant) -> Duration {
        instant - self.shared.started
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn second(&mut self, since_start: Duration, count: impl FnOnce(&mut Second)) {
        let second = usize::try_from(since_start.as_secs()).unwrap_or(usize::MAX);
        self.tally.seconds.get_mut(second).map(count);
    }

    fn client(&mut self, client: usize, count: impl FnOnce(&mut Client)) {
        self.tally.clients.get_mut(client).map(count);
    }
}

/// What one client sees of the server.
#[derive(Debug)]
pub(crate) struct Door {
    server: Server,
    client: usize,
}

#[async_trait::async_trait]
impl Middleware for Door {
    async fn handle(
        &self,
        _request: Request,
        extensions: &mut Extensions,
        _next: Next<'_>,
    ) -> Result<Response> {
        let is_resend = ResendCount::of(extensions) > 0;
        let response = http::Response::builder();
        let response = match self.server.admit(self.client, is_resend) {
            Some(done) => {
                sleep_until(done).await; // a client that gives up drops this here
                self.server.taken(self.client, is_resend);
                response
            }
            None => {
                sleep(REFUSAL).await;
                response
                    .status(StatusCode::SERVICE_UNAVAILABLE)
                    .header(header::RETRY_AFTER, self.server.shared.world.retry_after)
            }
        };
        Ok(Response::from(response.body("").map_err(Error::middleware)?))
    }
}
