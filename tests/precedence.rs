//! Whose rules hold: the request beats the scope, the scope beats the endpoint, the endpoint beats the
//! client. No sockets but where a proof needs one: the script answers, and time is tokio's own, paused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use futures_util::{StreamExt as _, stream};
use http::{Extensions, HeaderValue, Method, StatusCode};
use reqwest::{Body, Client, Request, Response};
use reqwest_middleware::{
    ClientBuilder, ClientWithMiddleware, Middleware, Next, RequestBuilder, Result,
};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, DrainLimits, Endpoint, IdempotencyKey, Jitter, KeyFormat, ReplayBody,
    RetryErrorExt as _, RetryMiddleware, RetryMiddlewareBuilder, RetryPolicy, RetryPolicyBuilder,
    RetryRequestExt as _, RetryScope, RetryTracker, SharedSession, StopReason,
};

const URL: &str = "http://service.test/path";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE)
}

/// One for all tests, since it takes a while to make: nothing is sent by it.
fn http() -> Client {
    static HTTP: LazyLock<Client> = LazyLock::new(Client::new);
    HTTP.clone()
}

/// How long a call takes that only a deadline ends.
async fn ends_after(call: impl Future<Output = Result<Response>>) -> Duration {
    let started = tokio::time::Instant::now();
    let result = tokio::time::timeout(ms(3_600_000), call).await;
    let error = result.expect("nothing ends it").unwrap_err();
    assert!(error.retry_error().unwrap().is_deadline(), "{error:?}");
    started.elapsed()
}

// Who can have a policy

/// From the strongest to the weakest. Each has a policy of its own, told by the number of its sends, by
/// its wait and by its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Giver {
    Session,
    Request,
    Scope,
    Endpoint,
    Client,
}

impl Giver {
    const fn sends(self) -> u32 {
        match self {
            Self::Session => 7,
            Self::Request => 6,
            Self::Scope => 5,
            Self::Endpoint => 4,
            Self::Client => 2,
        }
    }

    /// Of the resends.
    fn wait(self) -> Duration {
        ms(100 * u64::from(self.sends()))
    }

    fn timeout(self) -> Duration {
        ms(10 * u64::from(self.sends()))
    }

    fn builder(self) -> RetryPolicyBuilder {
        RetryPolicy::builder()
            .max_attempts(self.sends())
            .backoff(Backoff::constant(self.wait()))
            .jitter(Jitter::None)
            .attempt_timeout(self.timeout())
    }
}

/// Who has one in a row of the table.
#[derive(Clone, Debug, PartialEq)]
struct Row(Vec<Giver>);

impl Row {
    /// Each of these there or not.
    fn all<const N: usize>(givers: [Giver; N]) -> Vec<Self> {
        let has = |row: usize, at: usize| row >> at & 1 == 1;
        (0..1 << N)
            .map(|row| Self((0..N).filter(|at| has(row, *at)).map(|at| givers[at]).collect()))
            .collect()
    }

    fn has(&self, giver: Giver) -> bool {
        self.0.contains(&giver)
    }

    fn first(&self) -> Option<Giver> {
        self.0.iter().min().copied()
    }

    /// Sends a request as the row says, with `own` done to each policy and `ask` to the request.
    async fn run(
        &self,
        method: Method,
        own: impl Fn(RetryPolicyBuilder) -> RetryPolicyBuilder,
        ask: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Seen {
        let policy = |giver: Giver| own(giver.builder()).build().unwrap();
        let mut retry = RetryMiddleware::builder(if self.has(Giver::Client) {
            policy(Giver::Client)
        } else {
            RetryPolicy::builder().jitter(Jitter::None).build().unwrap()
        });
        if self.has(Giver::Endpoint) {
            let endpoint = Endpoint::named("e").path("/path").policy(policy(Giver::Endpoint));
            retry = retry.endpoint(endpoint.build().unwrap());
        }
        let script = Script::always(busy());
        let client = client(retry, &script);
        let tracker = RetryTracker::new();
        let mut request = client.request(method, URL).with_extension(tracker.clone());
        if self.has(Giver::Request) {
            request = request.retry_policy(policy(Giver::Request));
        }
        let session = self.has(Giver::Session).then(|| SharedSession::new(policy(Giver::Session)));
        if let Some(session) = &session {
            request = request.retry_session(session);
        }
        let call = ask(request).send();
        let result = if self.has(Giver::Scope) {
            RetryScope::new().policy(policy(Giver::Scope)).run(call).await
        } else {
            call.await
        };
        let received = script.received();
        let stop = tracker.history().unwrap().stop_reason();
        Seen {
            sends: u32::try_from(received.len()).unwrap(),
            wait: received.get(1).map(|second| second.at),
            timeouts: received.iter().map(|received| received.timeout).collect(),
            keys: received.iter().map(|it| it.headers.get("idempotency-key").cloned()).collect(),
            stop,
            is_answer: result.is_ok(),
        }
    }
}

/// What a request asks for.
type Ask = fn(RequestBuilder) -> RequestBuilder;

/// What the script received.
#[derive(Debug)]
struct Seen {
    sends: u32,
    wait: Option<Duration>,
    timeouts: Vec<Option<Duration>>,
    keys: Vec<Option<HeaderValue>>,
    stop: StopReason,
    is_answer: bool,
}

impl Seen {
    /// That the policy of this one holds: the defaults, if nobody has one.
    fn is_of(&self, giver: Option<Giver>, label: &str) {
        let (sends, wait) = giver.map_or((3, ms(100)), |giver| (giver.sends(), giver.wait()));
        assert_eq!((self.sends, self.wait), (sends, Some(wait)), "{label}: {self:?}");
        self.has_timeout_of(giver, label);
        assert_eq!(self.stop, StopReason::AttemptsExhausted, "{label}");
        assert!(self.is_answer, "{label}");
    }

    fn has_timeout_of(&self, giver: Option<Giver>, label: &str) {
        let is_it = |timeout: &Option<Duration>| *timeout == giver.map(Giver::timeout);
        assert!(self.timeouts.iter().all(is_it), "{label}: {self:?}");
    }
}

fn client(retry: RetryMiddlewareBuilder, script: &Script) -> ClientWithMiddleware {
    ClientBuilder::new(http()).with(retry.build().unwrap()).with(script.clone()).build()
}

/// The sixteen rows without a session.
fn rows() -> Vec<Row> {
    Row::all([Giver::Request, Giver::Scope, Giver::Endpoint, Giver::Client])
}

fn same(policy: RetryPolicyBuilder) -> RetryPolicyBuilder {
    policy
}

// Policies

#[tokio::test(start_paused = true)]
async fn of_all_policies_that_of_the_strongest_holds_whole() {
    let rows = rows();
    assert_eq!(rows.len(), 16);
    for row in rows {
        row.run(Method::GET, same, |it| it).await.is_of(row.first(), &format!("{row:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_beats_all_and_what_else_the_request_asks_has_no_effect() {
    let asks: [(&str, Ask); 5] = [
        ("nothing", |it| it),
        ("once", |it| it.no_retry()),
        ("a short deadline", |it| it.retry_deadline(ms(1))),
        ("a long deadline", |it| it.retry_deadline(ms(600_000))),
        ("another policy", |it| it.retry_policy(RetryPolicy::never())),
    ];
    for row in rows() {
        for (asked, ask) in asks {
            let with_session = Row([&[Giver::Session][..], &row.0].concat());
            let seen = with_session.run(Method::GET, same, ask).await;
            seen.is_of(Some(Giver::Session), &format!("{row:?}, {asked}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_retry_sends_once_and_keeps_all_else_of_the_policy_that_holds() {
    for row in rows() {
        let label = format!("{row:?}");
        let seen = row.run(Method::GET, same, |it| it.no_retry()).await;
        assert_eq!((seen.sends, seen.stop), (1, StopReason::AttemptsExhausted), "{label}");
        seen.has_timeout_of(row.first(), &label);
        // Whatever else is asked, before it or after it.
        let retries = || RetryPolicy::builder().max_attempts(9).build().unwrap();
        let seen = row.run(Method::GET, same, |it| it.no_retry().retry_policy(retries())).await;
        assert_eq!((seen.sends, &seen.timeouts[..]), (1, &[None][..]), "{label}, then a policy");
        let all = |it: RequestBuilder| it.assume_idempotent().no_retry().retry_deadline(ms(99_999));
        let seen = row.run(Method::POST, same, all).await;
        assert_eq!((seen.sends, seen.stop), (1, StopReason::AttemptsExhausted), "{label}, all");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_once_keeps_the_deadline_of_the_policy_that_holds() {
    let policy = RetryPolicy::builder().deadline(ms(300)).build().unwrap();
    let client = client(RetryMiddleware::builder(policy), &Script::always(Reply::hang()));
    assert_eq!(ends_after(client.get(URL).no_retry().send()).await, ms(300));
}

#[tokio::test(start_paused = true)]
async fn what_a_request_says_of_its_safety_holds_under_every_policy() {
    for row in rows() {
        let label = format!("{row:?}");
        let seen = row.run(Method::POST, same, |it| it).await;
        assert_eq!((seen.sends, seen.stop), (1, StopReason::NotIdempotent), "{label}");
        let seen = row.run(Method::POST, same, |it| it.assume_idempotent()).await;
        seen.is_of(row.first(), &label);
        assert!(seen.keys.iter().all(Option::is_none), "{label}");

        let key = || IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap();
        for method in [Method::POST, Method::PATCH] {
            let seen = row.run(method, same, |it| it.idempotency_key(key())).await;
            seen.is_of(row.first(), &label);
            let has_key = |sent: &Option<HeaderValue>| sent.as_ref() == Some(key().as_value());
            assert!(seen.keys.iter().all(has_key), "{label}: {seen:?}");
        }
    }
    // … of a session too, which is no part of what the request says.
    let session = Row(vec![Giver::Session, Giver::Client]);
    session
        .run(Method::POST, same, |it| it.assume_idempotent())
        .await
        .is_of(Some(Giver::Session), "");
    let key = IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap();
    session
        .run(Method::POST, same, |it| it.idempotency_key(key))
        .await
        .is_of(Some(Giver::Session), "");
}

// Deadlines

/// The sends of a policy that are allowed before this deadline: a wait that would end with it is refused.
fn sends_before(giver: Option<Giver>, deadline: Duration) -> u32 {
    let (most, wait) = giver.map_or((3, ms(100)), |giver| (giver.sends(), giver.wait()));
    // Without a giver, the second wait is twice the first.
    let at =
        |resend: u32| if giver.is_some() { wait * resend } else { wait * (2_u32.pow(resend) - 1) };
    (1..most).take_while(|resend| at(*resend) < deadline).last().map_or(1, |last| last + 1)
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_request_takes_the_place_of_its_policys() {
    for row in rows() {
        let first = row.first();
        let wait = first.map_or(ms(100), Giver::wait);
        let own = |policy: RetryPolicyBuilder| policy.deadline(ms(750));
        let policys = if first.is_some() { ms(750) } else { Duration::MAX };
        for (asked, deadline) in [
            (None, policys),
            (Some(wait / 2), wait / 2),
            (Some(wait), wait),
            (Some(wait + ms(1)), wait + ms(1)),
            (Some(ms(2_001)), ms(2_001)),
            (Some(Duration::MAX), Duration::MAX),
        ] {
            let ask = |it: RequestBuilder| match asked {
                Some(deadline) => it.retry_deadline(deadline),
                None => it,
            };
            let label = format!("{row:?}, {asked:?}");
            let seen = row.run(Method::GET, own, ask).await;
            let sends = sends_before(first, deadline);
            assert_eq!(seen.sends, sends, "{label}: {seen:?}");
            let most = first.map_or(3, Giver::sends);
            let stop = if sends == most {
                StopReason::AttemptsExhausted
            } else {
                StopReason::DeadlineWouldPass
            };
            assert_eq!(seen.stop, stop, "{label}");
            seen.has_timeout_of(first, &label);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_scope_tightens_that_of_the_request_and_never_loosens_it() {
    for (label, policys, requests, scopes, expected) in [
        ("shorter than the request's", None, Some(900), 300, 300),
        ("longer than the request's", None, Some(300), 900, 300),
        ("shorter than the policy's", Some(900), None, 300, 300),
        ("longer than the policy's", Some(300), None, 900, 300),
        ("between the policy's and the longer one of the request", Some(300), Some(900), 600, 600),
        ("between the request's and the longer one of the policy", Some(900), Some(300), 600, 300),
    ] {
        let policy = RetryPolicy::builder().deadline(policys.map(ms)).build().unwrap();
        let client = client(RetryMiddleware::builder(policy), &Script::always(Reply::hang()));
        let mut request = client.get(URL);
        if let Some(deadline) = requests {
            request = request.retry_deadline(ms(deadline));
        }
        let scope = RetryScope::new().deadline_in(ms(scopes));
        assert_eq!(ends_after(scope.run(request.send())).await, ms(expected), "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_scope_tightens_that_of_a_session_too() {
    let client =
        client(RetryMiddleware::builder(RetryPolicy::never()), &Script::always(Reply::hang()));
    for (sessions, scopes, expected) in [(900, 300, 300), (300, 900, 300)] {
        let policy = RetryPolicy::builder().deadline(ms(sessions)).build().unwrap();
        let session = SharedSession::new(policy);
        // A deadline of the request has no effect here.
        let request = client.get(URL).retry_session(&session).retry_deadline(ms(1));
        let scope = RetryScope::new().deadline_in(ms(scopes));
        let took = ends_after(scope.run(request.send())).await;
        assert_eq!(took, ms(expected), "{sessions}, {scopes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_nothing_sends_nothing() {
    let script = Script::always(busy());
    let client = client(RetryMiddleware::builder(RetryPolicy::default()), &script);
    let call = client.get(URL).retry_deadline(Duration::ZERO).send();
    assert_eq!(ends_after(call).await, Duration::ZERO);
    assert_eq!(script.received().len(), 0);
}

// Bodies

/// A final middleware whose bodies are cut after so many bytes.
struct CutAfter(usize);

#[async_trait]
impl Middleware for CutAfter {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let pieces = [Ok(vec![b'x'; self.0]), Err(std::io::ErrorKind::ConnectionReset)];
        Ok(http::Response::new(Body::wrap_stream(stream::iter(
            pieces.map(|it| it.map_err(std::io::Error::from)),
        )))
        .into())
    }
}

/// A limit of somebody, if he has said one.
type Said = Option<u64>;

/// How much of a body is read, by the cuts that are noticed: nothing, 10 or 100 bytes.
async fn read(request: Said, endpoint: Said, client: Said, scope: Option<RetryPolicy>) -> u64 {
    let mut noticed = Vec::new();
    for cut in [0, 5, 50, 500] {
        let mut rules = Endpoint::named("e").path("/path");
        if let Some(limit) = endpoint {
            rules = rules.buffer_body(limit);
        }
        let mut retry = RetryMiddleware::builder(RetryPolicy::never());
        if let Some(limit) = client {
            retry = retry.buffer_body(limit);
        }
        let retry = retry.endpoint(rules.build().unwrap()).build().unwrap();
        let client = ClientBuilder::new(http()).with(retry).with(CutAfter(cut)).build();
        let mut get = client.get(URL);
        if let Some(limit) = request {
            get = get.buffer_body(limit);
        }
        let result = match scope.clone() {
            Some(policy) => RetryScope::new().policy(policy).run(get.send()).await,
            None => get.send().await,
        };
        noticed.push(result.is_err());
    }
    match noticed[..] {
        [false, false, false, false] => 0,
        [true, true, false, false] => 10,
        [true, true, true, false] => 100,
        _ => u64::MAX,
    }
}

#[tokio::test(start_paused = true)]
async fn how_much_of_a_body_is_read_is_said_by_the_request_else_the_endpoint_else_the_client() {
    let all = [None, Some(0), Some(10), Some(100)];
    for request in all {
        for endpoint in all {
            for client in all {
                let expected = request.or(endpoint).or(client).unwrap_or(0);
                let label = format!("{request:?}, {endpoint:?}, {client:?}");
                assert_eq!(read(request, endpoint, client, None).await, expected, "{label}");
            }
        }
        // A policy has no say in it, wherever it comes from.
        let policy = Some(RetryPolicy::never());
        let expected = request.unwrap_or(10);
        assert_eq!(read(request, None, Some(10), policy).await, expected, "{request:?}");
    }
}

/// A final middleware: busy, with a body that counts how much of it was read.
struct Counting(Arc<AtomicUsize>);

#[async_trait]
impl Middleware for Counting {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let count = self.0.clone();
        let pieces = stream::iter(0..4).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(vec![b'x'; 10])
        });
        let mut response = http::Response::new(Body::wrap_stream(pieces));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok(response.into())
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_read_of_a_discarded_response_is_said_by_the_endpoint_else_the_client() {
    let limits = |bytes| DrainLimits::new(bytes, ms(1_000));
    // So many pieces are looked at: the one that is too many is taken and dropped.
    let all = [(None, 4), (Some(DrainLimits::none()), 0), (Some(limits(15)), 2)];
    for (endpoint, endpoints) in all {
        for (client, clients) in all {
            let mut rules = Endpoint::named("e").path("/path");
            if let Some(limits) = endpoint {
                rules = rules.drain(limits);
            }
            let mut retry = RetryMiddleware::builder(Giver::Client.builder().build().unwrap());
            if let Some(limits) = client {
                retry = retry.drain(limits);
            }
            let count = Arc::default();
            let retry = retry.endpoint(rules.build().unwrap()).build().unwrap();
            let chain = ClientBuilder::new(http()).with(retry).with(Counting(Arc::clone(&count)));
            chain.build().get(URL).send().await.unwrap();
            let expected = if endpoint.is_some() { endpoints } else { clients };
            assert_eq!(count.load(Ordering::Relaxed), expected, "{endpoint:?}, {client:?}");
        }
    }
}

// Requests next to each other

#[tokio::test(start_paused = true)]
async fn what_one_request_asks_holds_for_none_before_after_or_beside_it() {
    let script = Script::always(busy());
    let client =
        client(RetryMiddleware::builder(Giver::Client.builder().build().unwrap()), &script);
    let sends = |path: &str| script.received().iter().filter(|it| it.url.path() == path).count();
    let get = |path: &str| client.get(format!("http://service.test{path}"));
    let (before, plain) = (get("/before"), get("/beside"));
    let asks = get("/asks").retry_policy(Giver::Request.builder().build().unwrap());
    before.send().await.unwrap();
    let (asks, beside) = join(asks.send(), plain.send()).await;
    assert_eq!(
        (asks.unwrap().status(), beside.unwrap().status()),
        (StatusCode::SERVICE_UNAVAILABLE, StatusCode::SERVICE_UNAVAILABLE)
    );
    get("/once").no_retry().send().await.unwrap();
    get("/after").send().await.unwrap();
    for (path, expected) in
        [("/before", 2), ("/beside", 2), ("/asks", 6), ("/once", 1), ("/after", 2)]
    {
        assert_eq!(sends(path), expected, "{path}");
    }
    let post = || client.post("http://service.test/post");
    let key = IdempotencyKey::new("mine", KeyFormat::Bare).unwrap();
    let (one, other) = join(post().idempotency_key(key).send(), post().send()).await;
    assert!(one.is_ok() && other.is_ok());
    let keys: Vec<_> = script.received()[13..]
        .iter()
        .map(|received| received.headers.contains_key("idempotency-key"))
        .collect();
    assert_eq!(keys.iter().filter(|has_key| **has_key).count(), 2, "{keys:?}");
    assert_eq!(keys.len(), 3, "the one without a key is sent once");
}

#[tokio::test(start_paused = true)]
async fn the_clone_of_a_request_asks_for_the_same_and_goes_its_own_way_from_there() {
    let script = Script::always(busy());
    let client =
        client(RetryMiddleware::builder(Giver::Client.builder().build().unwrap()), &script);
    let bodies = Arc::new(AtomicUsize::new(0));
    let made = bodies.clone();
    let first = client
        .post(URL)
        .retry_policy(Giver::Request.builder().build().unwrap())
        .idempotency_key(IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap())
        .body_factory(move || {
            let number = made.fetch_add(1, Ordering::Relaxed).to_string();
            async { Ok(ReplayBody::new(number)) }
        });
    let clone = first.try_clone().unwrap();
    let once = first.try_clone().unwrap().no_retry();
    let mut at = 0;
    for (label, request, sends) in [("itself", first, 6), ("once", once, 1), ("clone", clone, 6)] {
        request.send().await.unwrap();
        let received = script.received().split_off(at);
        assert_eq!(received.len(), sends, "{label}");
        for sent in received {
            assert_eq!(sent.headers["idempotency-key"], "order-17", "{label}");
            assert_eq!(sent.body.as_deref(), Some(at.to_string().as_bytes()), "{label}");
            at += 1;
        }
    }
    assert_eq!(bodies.load(Ordering::Relaxed), 13);
}

#[tokio::test(start_paused = true)]
async fn each_of_two_clones_has_a_generated_key_of_its_own() {
    let script = Script::always(busy());
    let policy =
        Giver::Client.builder().generate_idempotency_keys(KeyFormat::Bare).build().unwrap();
    let client = client(RetryMiddleware::builder(policy), &script);
    let first = client.post(URL).no_retry();
    let clone = first.try_clone().unwrap();
    for request in [first, clone] {
        request.send().await.unwrap();
    }
    let [one, other] = [0, 1].map(|at| script.received()[at].headers["idempotency-key"].clone());
    assert_ne!(one, other);
}

#[tokio::test(start_paused = true)]
async fn of_two_calls_of_one_method_the_later_counts() {
    let script = Script::always(busy());
    let client =
        client(RetryMiddleware::builder(Giver::Client.builder().build().unwrap()), &script);
    let policy = |giver: Giver| giver.builder().build().unwrap();
    let key = |key| IdempotencyKey::new(key, KeyFormat::Bare).unwrap();
    let sends = async |request: RequestBuilder| {
        let before = script.received().len();
        let result = request.send().await;
        (script.received().split_off(before), result)
    };
    let get = || client.get(URL);

    let asks = get().retry_policy(policy(Giver::Scope)).retry_policy(policy(Giver::Request));
    assert_eq!(sends(asks).await.0.len(), 6);
    let asks = get().retry_deadline(ms(1)).retry_deadline(ms(99_999));
    assert_eq!(sends(asks).await.0.len(), 2);
    let asks = get().retry_deadline(ms(99_999)).retry_deadline(ms(1));
    assert_eq!(sends(asks).await.0.len(), 1);

    let asks = client.post(URL).idempotency_key(key("a")).idempotency_key(key("b"));
    let keys = sends(asks).await.0;
    let keys: Vec<_> = keys.iter().flat_map(|it| it.headers.get_all("idempotency-key")).collect();
    assert_eq!(keys, ["b", "b"]);

    let [one, other] =
        [Giver::Scope, Giver::Request].map(|giver| SharedSession::new(policy(giver)));
    assert_eq!(sends(get().retry_session(&one).retry_session(&other)).await.0.len(), 6);
    assert_eq!((one.attempts(), other.attempts()), (1, 6));

    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let asks = client
        .put(URL)
        .body_factory(|| async { Err("the first factory".into()) })
        .body_factory(move || {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(ReplayBody::new("second")) }
        });
    assert!(sends(asks).await.1.is_ok());
    assert_eq!(made.load(Ordering::Relaxed), 2);

    let retry = RetryMiddleware::builder(RetryPolicy::never()).build().unwrap();
    let cut = ClientBuilder::new(http()).with(retry).with(CutAfter(50)).build();
    assert!(cut.get(URL).buffer_body(0).buffer_body(100).send().await.is_err());
    assert!(cut.get(URL).buffer_body(100).buffer_body(0).send().await.is_ok());
}

/// Before each send it makes a call of its own, with all that the request carries.
struct Carries(ClientWithMiddleware);

#[async_trait]
impl Middleware for Carries {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let own = self.0.post("http://tokens.test/").build().unwrap();
        self.0.execute_with_extensions(own, &mut extensions.clone()).await?;
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_request_asks_is_not_asked_of_another_client_on_its_way() {
    let (script, tokens) = (Script::always(busy()), Script::always(busy()));
    let own = Giver::Client.builder().assume_idempotent(true).build().unwrap();
    let carries = Carries(client(RetryMiddleware::builder(own), &tokens));
    let retry = RetryMiddleware::builder(Giver::Client.builder().build().unwrap()).build().unwrap();
    let chain = ClientBuilder::new(http()).with(retry).with(carries).with(script.clone());
    let client = chain.build();
    let key = IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap();
    let policy = Giver::Request.builder().build().unwrap();
    for (label, request, sends) in [
        ("a policy", client.get(URL).retry_policy(policy), 6),
        ("once", client.get(URL).no_retry(), 1),
        ("a key", client.post(URL).idempotency_key(key), 2),
    ] {
        let before = (script.received().len(), tokens.received().len());
        request.send().await.unwrap();
        assert_eq!(script.received().len() - before.0, sends, "{label}");
        let own = tokens.received().split_off(before.1);
        assert_eq!(own.len(), 2 * sends, "{label}: two for each send");
        assert!(own.iter().all(|it| !it.headers.contains_key("idempotency-key")), "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_built_asks_for_nothing_any_more() {
    let script = Script::always(busy());
    let client =
        client(RetryMiddleware::builder(Giver::Client.builder().build().unwrap()), &script);
    let request = client.get(URL).no_retry().build().unwrap();
    client.execute(request).await.unwrap();
    assert_eq!(script.received().len(), 2);
}

// Promises that nobody has checked

/// By 429 the server promises that it did not act.
fn promised() -> RetryPolicy {
    let statuses = [StatusCode::TOO_MANY_REQUESTS].into_iter().collect();
    let policy = RetryPolicy::builder().not_processed_statuses(statuses).jitter(Jitter::None);
    policy.throttle_backoff(Backoff::constant(Duration::ZERO)).build().unwrap()
}

#[cfg(feature = "tracing")]
mod told {
    use std::fmt::{Debug, Write as _};
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::{Context, Layer};

    /// Level and message of each event.
    #[derive(Clone, Default)]
    pub(crate) struct Told(pub(crate) Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Told {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            if event.metadata().target() == "reqwest_typed_retry" {
                let mut line = Line(event.metadata().level().to_string());
                event.record(&mut line);
                self.0.lock().unwrap().push(line.0);
            }
        }
    }

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                write!(self.0, " {value:?}").unwrap();
            }
        }
    }
}

#[cfg(feature = "tracing")]
#[tokio::test(start_paused = true)]
async fn a_promise_without_a_proof_has_no_effect_and_is_told_once_a_middleware() {
    use tracing_subscriber::layer::SubscriberExt as _;

    const TOLD: &str = "DEBUG not_processed_statuses has no effect without a delivery proof";
    let told = told::Told::default();
    let subscriber = tracing_subscriber::registry().with(told.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let told = || {
        let mut lines = std::mem::take(&mut *told.0.lock().unwrap());
        lines.retain(|line| line == TOLD);
        lines.len()
    };
    type Post = fn(&ClientWithMiddleware) -> futures_util::future::BoxFuture<'_, ()>;
    let ways: [(&str, Post); 3] = [
        ("request", |client| {
            Box::pin(async {
                client.post(URL).retry_policy(promised()).send().await.unwrap();
            })
        }),
        ("scope", |client| {
            let post = client.post(URL).send();
            let call = RetryScope::new().policy(promised()).run(post);
            Box::pin(async {
                call.await.unwrap();
            })
        }),
        ("session", |client| {
            let session = SharedSession::new(promised());
            Box::pin(async move {
                client.post(URL).retry_session(&session).send().await.unwrap();
            })
        }),
    ];
    let script = Script::always(Reply::status(StatusCode::TOO_MANY_REQUESTS));
    for (label, post) in ways {
        let client = client(RetryMiddleware::builder(RetryPolicy::default()), &script);
        assert_eq!(told(), 0, "{label}: before");
        let before = script.received().len();
        for number in 0..3 {
            post(&client).await;
            assert_eq!(told(), usize::from(number == 0), "{label}, call {number}");
        }
        assert_eq!(script.received().len() - before, 3, "{label}: a POST was sent again");
    }
    // One that was told when it was made is not told of again; one that has no such policy never.
    for (label, policy, made) in
        [("made with it", promised(), 1), ("plain", RetryPolicy::default(), 0)]
    {
        let retry = RetryMiddleware::new(policy);
        let client = ClientBuilder::new(http()).with(retry).with(script.clone()).build();
        client.post(URL).send().await.unwrap();
        assert_eq!(told(), made, "{label}");
        for (_, post) in ways {
            post(&client).await;
        }
        assert_eq!(told(), 1 - made, "{label}");
    }
}

#[tokio::test]
async fn a_promise_of_a_request_or_a_scope_has_an_effect_where_the_client_has_a_proof() {
    use reqwest_typed_retry::DeliveryProof;
    use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

    for (label, by_scope) in [("request", false), ("scope", true)] {
        let server = MockServer::start().await;
        Mock::given(matchers::any()).respond_with(ResponseTemplate::new(429)).mount(&server).await;
        let (http, proof) = DeliveryProof::build(Client::builder().no_proxy()).unwrap();
        let retry = RetryMiddleware::builder(RetryPolicy::default()).delivery_proof(proof);
        let client = ClientBuilder::new(http).with(retry.build().unwrap()).build();
        let post = client.post(server.uri()).body("order");
        if by_scope {
            RetryScope::new().policy(promised()).run(post.send()).await.unwrap();
        } else {
            post.retry_policy(promised()).send().await.unwrap();
        }
        assert_eq!(server.received_requests().await.unwrap().len(), 3, "{label}");
    }
}
