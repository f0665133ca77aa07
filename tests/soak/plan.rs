//! What a call asks for, and how its caller leaves it: drawn by lot.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Method;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Body;
use reqwest_middleware::RequestBuilder;
use reqwest_typed_retry::{IdempotencyKey, KeyFormat, ReplayBody, RetryRequestExt as _};

use super::clients::{Contestant, Kind};
use super::faulty_server::Protocol;
use super::world::World;

/// What kind of request the operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Repeatable(&'static str),
    Keyed(&'static str),
    Unmarked(&'static str),
}

const CLASSES: [Class; 7] = [
    Class::Repeatable("GET"),
    Class::Repeatable("PUT"),
    Class::Repeatable("DELETE"),
    Class::Keyed("POST"),
    Class::Keyed("PATCH"),
    Class::Unmarked("POST"),
    Class::Unmarked("PATCH"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upload {
    Nothing,
    Bytes,
    /// A stream, which can't be sent again.
    Stream,
    /// A stream that is made anew for each attempt; it fails by chance.
    Factory {
        seed: u64,
    },
}

/// How the caller leaves the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Never,
    /// By `select!`.
    Select(Duration),
    /// Dropped after so many polls.
    Polls(u32),
    /// A task of its own, which is aborted.
    Abort(Duration),
    /// By a token of its own.
    Token(Duration),
}

/// How long a call takes, as its caller wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    OfRequest(Duration),
    OfScope(Duration),
}

/// What ends a call soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Policy,
    /// Nothing but its deadline.
    Deadline,
    /// Nothing but its token, once it waits.
    Token,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) operation: usize,
    pub(crate) class: Class,
    pub(crate) upload: Upload,
    pub(crate) leaving: Leaving,
    pub(crate) limit: Limit,
    /// Whether it can be cancelled by the token that all share, and nobody cancels.
    pub(crate) shares_token: bool,
    pub(crate) is_session: bool,
    pub(crate) reads_body: bool,
    pub(crate) sends_once: bool,
    pub(crate) ends: Ends,
}

impl Plan {
    pub(crate) fn draw(rng: &mut SmallRng, contestant: &Contestant, world: &World) -> Self {
        let longest = u64::try_from(world.attempt_timeout.as_millis()).unwrap();
        let up_to =
            |rng: &mut SmallRng, most: u64| Duration::from_millis(rng.random_range(1..=most));
        let class = CLASSES[rng.random_range(0..CLASSES.len())];
        let is_read = matches!(class, Class::Repeatable("GET" | "DELETE"));
        let upload = match rng.random_range(0..6) {
            _ if is_read => Upload::Nothing,
            0 => Upload::Nothing,
            1..4 => Upload::Bytes,
            4 => Upload::Stream,
            _ => Upload::Factory { seed: rng.random() },
        };
        let leaving = match rng.random_range(0..20) {
            0 => Leaving::Select(up_to(rng, longest)),
            1 => Leaving::Select(up_to(rng, longest / 10)),
            2 => Leaving::Polls(rng.random_range(0..6)),
            3 => Leaving::Abort(up_to(rng, longest / 2)),
            4 => Leaving::Token(up_to(rng, longest / 2)),
            _ => Leaving::Never,
        };
        let limit = match rng.random_range(0..5) {
            0 => Limit::OfRequest(up_to(rng, 3 * longest)),
            1 => Limit::OfScope(up_to(rng, 3 * longest)),
            _ => Limit::None,
        };
        let is_session = is_read && rng.random_bool(0.5);
        let ends = match (limit, leaving) {
            _ if is_session || rng.random_bool(0.5) => Ends::Policy,
            (Limit::None, Leaving::Token(_)) => Ends::Token,
            (Limit::None, _) => Ends::Policy,
            _ => Ends::Deadline,
        };
        let is_http2 = contestant.protocol == Protocol::Http2;
        Self {
            operation: world.ledger.begin(is_http2, contestant.kind == Kind::DefaultRetry),
            class,
            upload,
            leaving,
            limit,
            shares_token: rng.random_bool(0.2),
            is_session,
            ends,
            reads_body: ends != Ends::Deadline && rng.random_bool(0.7),
            sends_once: rng.random_bool(0.03),
        }
    }

    pub(crate) fn request(&self, contestant: &Contestant, world: &World) -> RequestBuilder {
        let (Class::Repeatable(method) | Class::Keyed(method) | Class::Unmarked(method)) =
            self.class;
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let port = world.port(contestant.protocol, self.operation);
        let operation = self.operation;
        let url = format!("http://server.test:{port}/op/{operation}");
        let mut request = contestant.client.request(method, url);
        if let Class::Keyed(_) = self.class {
            let key = format!("{}-{operation}", world.seed);
            // By one of the ways to say so.
            request = if operation % 2 == 0 {
                request.header("idempotency-key", key)
            } else {
                request.idempotency_key(IdempotencyKey::new(key, KeyFormat::Bare).unwrap())
            };
        }
        if let (Limit::OfRequest(deadline), false) = (self.limit, self.is_session) {
            request = request.retry_deadline(deadline);
        }
        request = match self.ends {
            Ends::Policy => request,
            Ends::Deadline => request.retry_policy(contestant.patient.clone()),
            Ends::Token => request.retry_policy(contestant.waiting.clone()),
        };
        if self.sends_once && !self.is_session {
            request = request.no_retry();
        }
        match self.upload {
            Upload::Nothing => request,
            Upload::Bytes => request.body(Bytes::from_static(&[b'x'; 64])),
            Upload::Stream => request.body(streamed()),
            Upload::Factory { seed } => {
                let made = Arc::new(AtomicU32::new(0));
                request.body_factory(move || {
                    let number = made.fetch_add(1, Ordering::SeqCst);
                    let mut rng = SmallRng::seed_from_u64(seed ^ u64::from(number));
                    async move {
                        if rng.random_bool(0.3) {
                            tokio::task::yield_now().await;
                        }
                        if rng.random_bool(0.05) {
                            return Err(io::Error::other("no body today").into());
                        }
                        let body = ReplayBody::new(streamed());
                        Ok(if rng.random_bool(0.5) { body.with_length(LENGTH) } else { body })
                    }
                })
            }
        }
    }
}

const PIECES: [&[u8]; 3] = [&[b'a'; 100], &[b'b'; 1_000], &[b'c'; 10]];
const LENGTH: u64 = 1_110;

fn streamed() -> Body {
    let pieces = PIECES.map(|piece| Ok::<_, io::Error>(Bytes::from_static(piece)));
    Body::wrap_stream(stream::iter(pieces))
}
