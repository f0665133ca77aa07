//! What is kept for a resend: copies are counted, and the bytes of a body tell when they are gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Extensions, Method, StatusCode};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, RequestBuilder, Result};
use reqwest_typed_retry::{
    DeliveryProof, ReplayBody, RetryMiddleware, RetryPolicy, RetryRequestExt as _,
};

use crate::sources::streamed;
use crate::support::{SCRIPTED, no_waits, plain};

/// An extension of the request that counts the copies made of it.
struct Copied(Arc<AtomicUsize>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        Self(self.0.clone())
    }
}

/// An extension that an attempt leaves behind.
#[derive(Clone)]
struct Sent;

/// Bytes that live as long as a handle on them.
struct Owner {
    _alive: Arc<()>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"two gigabytes"
    }
}

/// A final middleware that drops each request, answers, and notes whether the body's bytes are still
/// held.
struct Answers {
    statuses: Mutex<Vec<StatusCode>>,
    alive: Weak<()>,
    kept: Arc<Mutex<Vec<bool>>>,
}

#[async_trait]
impl Middleware for Answers {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        _: Next<'_>,
    ) -> Result<Response> {
        assert!(extensions.get::<Copied>().is_some(), "the caller's extensions");
        assert!(extensions.insert(Sent).is_none(), "and no others");
        drop(request);
        self.kept.lock().unwrap().push(self.alive.strong_count() > 0);
        let mut response = http::Response::new("");
        *response.status_mut() = self.statuses.lock().unwrap().remove(0);
        Ok(response.into())
    }
}

/// What a request has as its body, given shared bytes.
type Attach = fn(RequestBuilder, Bytes) -> RequestBuilder;

const BYTES: Attach = |request, bytes| request.body(bytes);
const NOTHING: Attach = |request, _| request;
const STREAM: Attach = |request, _| request.body(streamed());
const FACTORY: Attach =
    |request, _| request.body_factory(|| async { Ok(ReplayBody::new(streamed())) });
/// Of the two bodies the factory's is sent, so that the other one need not be held.
const FACTORY_OVER_BYTES: Attach = |request, bytes| FACTORY(BYTES(request, bytes), Bytes::new());

struct Row {
    label: &'static str,
    policy: RetryPolicy,
    method: Method,
    proof: bool,
    attach: Attach,
    statuses: &'static [u16],
    copies: usize,
    /// Whether the bytes were held after each attempt had been sent.
    kept: &'static [bool],
}

fn rows() -> Vec<Row> {
    let of = |label, policy: RetryPolicy, method, attach, statuses, copies, kept| Row {
        label,
        policy,
        method,
        proof: false,
        attach,
        statuses,
        copies,
        kept,
    };
    let attempts = |max_attempts| no_waits().max_attempts(max_attempts).build().unwrap();
    let assumed = no_waits().assume_idempotent(true).build().unwrap();
    let proven = |row| Row { proof: true, ..row };
    let (put, post) = (|| Method::PUT, || Method::POST);
    vec![
        of("one attempt", attempts(1), put(), BYTES, &[503], 0, &[false]),
        of("one attempt, a factory", attempts(1), put(), FACTORY, &[503], 0, &[false]),
        of("never", RetryPolicy::never(), put(), BYTES, &[503], 0, &[false]),
        of("never, no body", RetryPolicy::never(), Method::GET, NOTHING, &[503], 0, &[false]),
        of("not idempotent", attempts(3), post(), BYTES, &[503], 0, &[false]),
        of("not idempotent, a factory", attempts(3), post(), FACTORY, &[503], 0, &[false]),
        of("assumed idempotent", assumed, post(), BYTES, &[503; 3], 2, &[true, true, false]),
        proven(of("may be proven", attempts(3), post(), BYTES, &[503], 1, &[true])),
        proven(of("never proven", attempts(3), post(), FACTORY, &[503], 0, &[false])),
        proven(of("never proven, a stream", attempts(3), post(), STREAM, &[503], 0, &[false])),
        proven(of("one attempt, proof", attempts(1), post(), BYTES, &[503], 0, &[false])),
        of("can't be copied", attempts(3), put(), STREAM, &[503], 0, &[false]),
        of("the first one works", attempts(3), put(), BYTES, &[200], 1, &[true]),
        of("two attempts", attempts(2), put(), BYTES, &[503, 503], 1, &[true, false]),
        of("the second one works", attempts(3), put(), BYTES, &[503, 200], 2, &[true, true]),
        of("all fail", attempts(3), put(), BYTES, &[503; 3], 2, &[true, true, false]),
        of("all fail, no body", attempts(3), Method::GET, NOTHING, &[503; 3], 2, &[false; 3]),
        of("all fail, a factory", attempts(3), put(), FACTORY, &[503; 3], 2, &[false; 3]),
        of("both bodies", attempts(3), put(), FACTORY_OVER_BYTES, &[503; 3], 2, &[false; 3]),
    ]
}

#[tokio::test]
async fn a_request_is_copied_once_for_each_resend_that_can_follow_and_never_for_the_last() {
    for Row { label, policy, method, proof, attach, statuses, copies, kept } in rows() {
        let (copied, found) = (Arc::<AtomicUsize>::default(), Arc::default());
        let alive = Arc::new(());
        let statuses = statuses.iter().map(|code| StatusCode::from_u16(*code).unwrap()).collect();
        let answers = Answers {
            statuses: Mutex::new(statuses),
            alive: Arc::downgrade(&alive),
            kept: Arc::clone(&found),
        };
        let (http, delivery) = DeliveryProof::build(plain()).unwrap();
        let mut retry = RetryMiddleware::builder(policy);
        if proof {
            retry = retry.delivery_proof(delivery);
        }
        let client = ClientBuilder::new(http).with(retry.build().unwrap()).with(answers).build();
        let request = client.request(method, SCRIPTED).with_extension(Copied(copied.clone()));
        let bytes = Bytes::from_owner(Owner { _alive: alive });
        attach(request, bytes).send().await.unwrap();
        assert_eq!(copied.load(Ordering::SeqCst), copies, "{label}");
        assert_eq!(*found.lock().unwrap(), kept, "{label}");
    }
}

/// The control of the table above: a copy of a body is a handle on the same bytes.
#[test]
fn a_kept_copy_is_noticed() {
    let alive = Arc::new(());
    let held = Arc::downgrade(&alive);
    let copy = Bytes::from_owner(Owner { _alive: alive });
    let body = Body::from(copy.clone());
    drop(body);
    assert_eq!(held.strong_count(), 1);
    drop(copy);
    assert_eq!(held.strong_count(), 0);
}
