//! The loop inside a client chain: what inner middlewares see, what the caller gets, what it costs.
//! No sockets: the script answers, and time is tokio's own, paused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::future::join;
use futures_util::{FutureExt as _, StreamExt as _};
use http::header::RETRY_AFTER;
use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script, ScriptExhausted, TestClock, seeded_jitter};
use reqwest_typed_retry::{
    Attempt, Backoff, Fault, FaultKind, Jitter, ResendCount, RetryHistory, RetryMiddleware,
    RetryPolicy, RetryPolicyBuilder, RetryTracker, StatusSet, StopReason, Verdict,
};

const URL: &str = "http://service.test/path";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE)
}

fn fine() -> Reply {
    Reply::status(StatusCode::OK)
}

/// Exact waits: 100 ms, 200 ms, …
fn exact() -> RetryPolicyBuilder {
    RetryPolicy::builder().jitter(Jitter::None)
}

fn client(policy: RetryPolicy, script: &Script) -> ClientWithMiddleware {
    ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(policy))
        .with(script.clone())
        .build()
}

fn arrivals(script: &Script) -> Vec<Duration> {
    script.received().iter().map(|received| received.at).collect()
}

/// Runs a closure for each attempt, on its way in.
struct Inspect<F>(F);

#[async_trait::async_trait]
impl<F: Fn(&mut Request, &mut Extensions) -> Result<()> + Send + Sync + 'static> Middleware
    for Inspect<F>
{
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(&mut request, extensions)?;
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn waits_follow_the_backoff_to_the_millisecond_and_none_follows_the_last_attempt() {
    let script = Script::always(busy());
    let started = tokio::time::Instant::now();
    let response = client(exact().max_attempts(4).build().unwrap(), &script).get(URL).send().await;
    assert_eq!(response.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(arrivals(&script), [ms(0), ms(100), ms(300), ms(700)]);
    assert_eq!(started.elapsed(), ms(700));
}

#[tokio::test(start_paused = true)]
async fn a_server_delay_is_honoured_exactly_without_jitter_and_never_undercut_with_it() {
    let replies = || [busy().header(RETRY_AFTER, 7), fine()];
    let script = Script::new(replies());
    client(exact().build().unwrap(), &script).get(URL).send().await.unwrap();
    assert_eq!(arrivals(&script), [ms(0), ms(7_000)]);

    let mut seen = Vec::new();
    for seed in 0..20 {
        let script = Script::new(replies());
        let retry = RetryMiddleware::builder(RetryPolicy::default())
            .generator(seeded_jitter(seed))
            .build()
            .unwrap();
        let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
        client.get(URL).send().await.unwrap();
        seen.push(script.received().last().unwrap().at);
    }
    assert!(seen.iter().all(|at| (ms(7_000)..=ms(7_701)).contains(at)), "{seen:?}");
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 10, "spread: {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_date_is_read_against_the_wall_clock_of_the_client_where_the_response_has_none() {
    let clock = TestClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_953_600));
    let date = http::HeaderValue::from_static("Sun, 29 Nov 2026 12:00:20 GMT");
    let script = Script::new([busy().header(RETRY_AFTER, date), fine()]);
    let retry = RetryMiddleware::builder(exact().build().unwrap())
        .wall_clock(clock.reader())
        .build()
        .unwrap();
    clock.advance(Duration::from_secs(5));
    let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
    client.get(URL).send().await.unwrap();
    assert_eq!(arrivals(&script), [ms(0), ms(15_000)]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_attempts_and_waits_and_stops_before_a_wait_that_would_pass_it() {
    // 0 + 400 busy, wait 100, 500 + 400 busy, wait 200 would end at 1.1 s.
    let script = Script::always(busy().after(ms(400)).body("busy"));
    let policy = exact().max_attempts(9).deadline(ms(1_100)).build().unwrap();
    let started = tokio::time::Instant::now();
    let response = client(policy, &script).get(URL).send().await.unwrap();
    assert_eq!(started.elapsed(), ms(900));
    assert_eq!(arrivals(&script), [ms(0), ms(500)]);
    let history = response.extensions().get::<RetryHistory>().unwrap().clone();
    assert_eq!(history.stop_reason(), StopReason::DeadlineWouldPass, "{history}");
    assert_eq!(response.text().await.unwrap(), "busy");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_alone_can_end_the_attempts() {
    let script = Script::always(busy());
    let policy = RetryPolicy::builder()
        .unlimited_attempts()
        .deadline(ms(1_000))
        .backoff(Backoff::constant(ms(10)))
        .jitter(Jitter::None)
        .build()
        .unwrap();
    client(policy, &script).get(URL).send().await.unwrap();
    assert_eq!(script.received().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_the_smaller_of_our_timeout_and_the_requests_own() {
    for (ours, own, expected) in [
        (None, None, None),
        (Some(ms(500)), None, Some(ms(500))),
        (None, Some(ms(300)), Some(ms(300))),
        (Some(ms(500)), Some(ms(300)), Some(ms(300))),
        (Some(ms(200)), Some(ms(300)), Some(ms(200))),
    ] {
        let script = Script::new([busy(), busy(), fine()]);
        let policy = exact().attempt_timeout(ours).build().unwrap();
        let mut request = client(policy, &script).get(URL);
        if let Some(own) = own {
            request = request.timeout(own);
        }
        request.send().await.unwrap();
        let timeouts: Vec<_> = script.received().iter().map(|received| received.timeout).collect();
        assert_eq!(timeouts, [expected; 3], "{ours:?} {own:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_attempt_is_cut_and_its_error_is_reqwests_own_timeout() {
    let script = Script::always(Reply::hang());
    let policy = exact().attempt_timeout(ms(1_000)).build().unwrap();
    let tracker = RetryTracker::new();
    let request = client(policy, &script).get(URL).with_extension(tracker.clone());
    let error = request.send().await.unwrap_err();
    assert!(error.is_timeout() && !error.is_middleware(), "{error:?}");
    assert_eq!(arrivals(&script), [ms(0), ms(1_100), ms(2_300)]);
    let history = tracker.history().unwrap();
    assert_eq!(history.stop_reason(), StopReason::AttemptsExhausted);
    assert!(history.earlier_may_have_taken_effect());
    for attempt in history.attempts() {
        let fault = attempt.outcome().fault();
        assert_eq!(fault.map(Fault::kind), Some(FaultKind::Timeout));
    }
}

#[tokio::test(start_paused = true)]
async fn two_retry_layers_in_one_chain_do_not_multiply() {
    let script = Script::always(busy());
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::default())
        .with(RetryMiddleware::default())
        .with(script.clone())
        .build();
    client.get(URL).send().await.unwrap();
    assert_eq!(script.received().len(), 3);
}

/// Gives way once, so that what comes after it runs in another poll of the attempt.
struct GivingWay;

#[async_trait::async_trait]
impl Middleware for GivingWay {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        tokio::task::yield_now().await;
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_layer_is_known_in_every_poll_and_after_a_call_of_another_client() {
    let tokens = Script::always(fine());
    for token in [false, true] {
        let script = Script::always(busy());
        let mut client = ClientBuilder::new(Client::new()).with(RetryMiddleware::default());
        client = client.with(GivingWay);
        if token {
            client = client.with(Token(self::client(RetryPolicy::default(), &tokens)));
        }
        let client = client.with(RetryMiddleware::default()).with(script.clone()).build();
        client.get(URL).send().await.unwrap();
        assert_eq!(script.received().len(), 3, "with a token: {token}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_outermost_policy_decides() {
    let script = Script::always(busy());
    let seven = RetryMiddleware::new(RetryPolicy::builder().max_attempts(7).build().unwrap());
    let base = ClientBuilder::new(Client::new()).with(seven).build();
    let client = ClientBuilder::from_client(base)
        .with(RetryMiddleware::new(RetryPolicy::never()))
        .with(script.clone())
        .build();
    client.get(URL).send().await.unwrap();
    assert_eq!(script.received().len(), 7);
}

/// Fetches a token with a client of its own before each send.
struct Token(ClientWithMiddleware);

#[async_trait::async_trait]
impl Middleware for Token {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.0.get("http://tokens.test/").send().await?.error_for_status()?;
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_its_own_inside_an_inner_middleware_keeps_its_retries() {
    let tokens = Script::new([busy(), busy(), fine(), busy(), fine()]);
    let script = Script::new([busy(), fine()]);
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::default())
        .with(Token(client(RetryPolicy::default(), &tokens)))
        .with(script.clone())
        .build();
    assert_eq!(client.get(URL).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!((tokens.received().len(), script.received().len()), (5, 2));
}

#[tokio::test(start_paused = true)]
async fn two_calls_joined_in_one_task_do_not_take_each_other_for_nested() {
    let scripts = [Script::new([busy(), fine()]), Script::new([busy(), fine()])];
    let call = |script: &Script| client(RetryPolicy::default(), script).get(URL).send();
    let (left, right) = join(call(&scripts[0]), call(&scripts[1])).await;
    assert_eq!([left.unwrap().status(), right.unwrap().status()], [StatusCode::OK; 2]);
    assert_eq!(scripts.map(|script| script.received().len()), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_attempt_leaves_nothing_behind_on_the_thread() {
    let mut extensions = Extensions::new();
    let script = Script::new([busy(), fine()]);
    let panicking = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::default())
        .with(Inspect(|_: &mut Request, _: &mut Extensions| panic!("an inner middleware")))
        .build();
    let request = || Client::new().get(URL).build().unwrap();
    // The same map, so at the same address: what the panicking call left would look like nesting.
    let call = panicking.execute_with_extensions(request(), &mut extensions);
    AssertUnwindSafe(call).catch_unwind().await.unwrap_err();
    let client = client(RetryPolicy::default(), &script);
    client.execute_with_extensions(request(), &mut extensions).await.unwrap();
    assert_eq!(script.received().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_the_map_of_an_earlier_one_starts_at_its_first_attempt() {
    let script = Script::new([busy(), fine(), busy(), fine()]);
    let client = client(RetryPolicy::default(), &script);
    let mut extensions = Extensions::new();
    for _ in 0..2 {
        let request = Client::new().get(URL).build().unwrap();
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
    }
    let counts: Vec<_> = script.received().iter().map(|received| received.resend_count).collect();
    assert_eq!(counts, [0, 1, 0, 1]);
}

#[derive(Clone)]
struct Marker;

#[tokio::test(start_paused = true)]
async fn each_attempt_starts_from_the_callers_extensions_and_the_last_one_leaves_its_own() {
    #[derive(Clone, PartialEq, Debug)]
    struct Callers(u32);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let inspect = Inspect(move |_: &mut Request, extensions: &mut Extensions| {
        let had_marker = extensions.insert(Marker).is_some();
        let callers = extensions.get::<Callers>().cloned();
        extensions.insert(Callers(99));
        record.lock().unwrap().push((callers, had_marker, ResendCount::of(extensions)));
        Ok(())
    });
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::default())
        .with(inspect)
        .with(Script::always(busy()))
        .build();
    for callers in [Some(Callers(1)), None] {
        let script_request = Client::new().get(URL).build().unwrap();
        let mut extensions = Extensions::new();
        if let Some(callers) = &callers {
            extensions.insert(callers.clone());
        }
        let _ = client.execute_with_extensions(script_request, &mut extensions).await;
        assert!(extensions.get::<Marker>().is_some(), "the last attempt's values stay");
        let callers = || callers.clone();
        let expected = [(callers(), false, 0), (callers(), false, 1), (callers(), false, 2)];
        assert_eq!(*seen.lock().unwrap(), expected);
        seen.lock().unwrap().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_error_passes_unchanged_and_is_not_taken_for_a_network_fault() {
    // An io error of a middleware's own: of a token file, perhaps.
    let script = Script::always(Reply::error(|| {
        reqwest_middleware::Error::middleware(io::Error::from(io::ErrorKind::ConnectionReset))
    }));
    let error = client(RetryPolicy::default(), &script).get(URL).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error:?}") };
    assert!(error.downcast_ref::<io::Error>().is_some(), "{error:?}");
    assert_eq!(script.received().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_an_inner_middleware_made_an_error_is_retried_as_the_status_it_is() {
    struct Strict;
    #[async_trait::async_trait]
    impl Middleware for Strict {
        async fn handle(
            &self,
            request: Request,
            extensions: &mut Extensions,
            next: Next<'_>,
        ) -> Result<Response> {
            Ok(next.run(request, extensions).await?.error_for_status()?)
        }
    }
    for (status, attempts) in [(StatusCode::SERVICE_UNAVAILABLE, 3), (StatusCode::NOT_FOUND, 1)] {
        let script = Script::always(Reply::status(status));
        let client = ClientBuilder::new(Client::new())
            .with(RetryMiddleware::default())
            .with(Strict)
            .with(script.clone())
            .build();
        let error = client.get(URL).send().await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert_eq!(script.received().len(), attempts, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_carries_a_history_only_if_there_is_something_to_tell() {
    let not_found = || Reply::status(StatusCode::NOT_FOUND);
    for (label, method, replies, told) in [
        ("success", "GET", vec![fine()], None),
        ("not found", "GET", vec![not_found()], None),
        ("success after a resend", "GET", vec![busy(), fine()], Some(StopReason::Completed)),
        ("not found after one", "GET", vec![busy(), not_found()], Some(StopReason::Permanent)),
        ("exhausted", "GET", vec![busy(); 3], Some(StopReason::AttemptsExhausted)),
        ("not idempotent", "POST", vec![busy()], Some(StopReason::NotIdempotent)),
    ] {
        let attempts = replies.len();
        let script = Script::new(replies);
        let tracker = RetryTracker::new();
        let request = client(RetryPolicy::default(), &script).request(method.parse().unwrap(), URL);
        let response = request.with_extension(tracker.clone()).send().await.unwrap();
        let history = response.extensions().get::<RetryHistory>();
        assert_eq!(history.map(RetryHistory::stop_reason), told, "{label}");
        // The tracker is told every time.
        assert_eq!(tracker.history().unwrap().attempts().len(), attempts, "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_tells_what_happened_without_any_part_of_the_url() {
    let script = Script::new([
        busy().header(RETRY_AFTER, 2),
        Reply::connect_error(),
        Reply::status(StatusCode::TOO_MANY_REQUESTS),
    ]);
    let request = client(exact().build().unwrap(), &script).get(URL);
    let response = request.send().await.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(
        history.to_string(),
        "attempt 1: status 503; retry in 2.00s (set by the server): status 503\n\
         attempt 2 after 2.00s: fault connect (seems not processed); retry in 200.00ms (set by the backoff): connect\n\
         attempt 3 after 2.20s: status 429; stop: attempts_exhausted"
    );
    assert_eq!(history.resends(), 2);
    assert_eq!(history.server_delay(), Some(ms(2_000)));

    let script = Script::new([2, 5, 3].map(|delay| busy().header(RETRY_AFTER, delay)));
    let response = client(exact().build().unwrap(), &script).get(URL).send().await.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(history.server_delay(), Some(ms(3_000)), "the last one");
    assert!(history.earlier_may_have_taken_effect());
}

#[tokio::test(start_paused = true)]
async fn without_a_proof_any_earlier_attempt_may_have_taken_effect() {
    // Not even a refused connection tells: a redirect may have led there.
    for first in [Reply::connect_error(), Reply::dns_error(), busy(), Reply::hang()] {
        let label = format!("{first:?}");
        let script = Script::new([first, Reply::status(StatusCode::NOT_FOUND)]);
        let policy = exact().attempt_timeout(ms(50)).build().unwrap();
        let response = client(policy, &script).delete(URL).send().await.unwrap();
        let history = response.extensions().get::<RetryHistory>().unwrap();
        assert!(history.earlier_may_have_taken_effect(), "{label}: {history}");
    }
    let script = Script::new([Reply::status(StatusCode::NOT_FOUND)]);
    let tracker = RetryTracker::new();
    let request = client(RetryPolicy::default(), &script).delete(URL);
    request.with_extension(tracker.clone()).send().await.unwrap();
    assert!(
        !tracker.history().unwrap().earlier_may_have_taken_effect(),
        "there was no earlier one"
    );
}

#[tokio::test(start_paused = true)]
async fn classifiers_see_where_the_request_went_on_every_attempt_also_of_one_that_is_not_kept() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let policy = exact()
        .max_attempts(2)
        .classifier(move |attempt: &Attempt<'_>| {
            let target = format!("{} {}{}", attempt.number(), attempt.host(), attempt.path());
            record.lock().unwrap().push(target);
            Some(Verdict::Transient { delay: None })
        })
        .build()
        .unwrap();
    let client = client(policy, &Script::always(fine()));
    client.get(URL).send().await.unwrap();
    client.post(URL).send().await.unwrap();
    let expected = ["1 service.test/path", "2 service.test/path", "1 service.test/path"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_zero_wait_gives_way() {
    let script = Script::always(busy());
    let policy = exact().backoff(Backoff::constant(Duration::ZERO)).build().unwrap();
    let client = client(policy, &script);
    assert!(client.get(URL).send().now_or_never().is_none(), "it could not be dropped");
    assert_eq!(script.received().len(), 1);
    client.get(URL).send().await.unwrap();
    assert_eq!(script.received().len(), 1 + 3);
}

/// Tells when the body of a response goes away.
struct Body(Arc<Mutex<bool>>);

impl Drop for Body {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = true;
    }
}

/// Answers 503 with such a body.
struct BusyWithBody(Arc<Mutex<bool>>);

#[async_trait::async_trait]
impl Middleware for BusyWithBody {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let body = Body(self.0.clone());
        let chunks = futures_util::stream::iter([(); 1]).map(move |()| {
            let _held = &body;
            Ok::<_, io::Error>("busy")
        });
        let mut response = http::Response::new(reqwest::Body::wrap_stream(chunks));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok(response.into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_returned_is_dropped_before_the_wait() {
    let dropped = Arc::new(Mutex::new(false));
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(exact().build().unwrap()))
        .with(BusyWithBody(dropped.clone()))
        .build();
    let in_the_middle_of_the_wait = async {
        tokio::time::sleep(ms(50)).await;
        assert!(*dropped.lock().unwrap(), "held through the wait");
    };
    let (result, ()) = join(client.get(URL).send(), in_the_middle_of_the_wait).await;
    result.unwrap();
}

#[test]
fn classifiers_of_two_calls_may_wait_for_each_other_under_one_generator() {
    let together = Arc::new(std::sync::Barrier::new(2));
    let policy = exact().max_attempts(2).classifier(move |_: &Attempt<'_>| {
        together.wait();
        None
    });
    let retry = RetryMiddleware::builder(policy.jitter(Jitter::Full).build().unwrap())
        .generator(seeded_jitter(1))
        .build()
        .unwrap();
    let client = ClientBuilder::new(Client::new()).with(retry).with(Script::always(busy())).build();
    let (done, ended) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let (client, done) = (client.clone(), done.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(client.get(URL).send()).unwrap();
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(Duration::from_secs(60)).expect("they do not wait for the generator");
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_that_runs_out_says_so() {
    let script = Script::new([]);
    let error = client(RetryPolicy::default(), &script).get(URL).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error:?}") };
    assert!(error.is::<ScriptExhausted>(), "{error:?}");
}

#[test]
fn statuses_said_to_be_unprocessed_are_refused_where_nothing_can_prove_it() {
    let statuses = StatusSet::from_iter([StatusCode::TOO_MANY_REQUESTS]);
    let policy = RetryPolicy::builder().not_processed_statuses(statuses).build().unwrap();
    let error = RetryMiddleware::builder(policy).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy.not_processed_statuses is {429}, but without a delivery proof the list has no effect: \
         add one, or leave it empty"
    );
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_sends_once_decides_also_right_above_another() {
    let script = Script::new([busy(), fine()]);
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(RetryPolicy::never()))
        .with(RetryMiddleware::default())
        .with(script.clone())
        .build();
    assert_eq!(client.get(URL).send().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(script.received().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_once_has_no_resend_count_of_an_earlier_call() {
    let script = Script::new([busy(), fine(), fine()]);
    let client = client(RetryPolicy::default(), &script);
    let mut extensions = Extensions::new();
    for request in [client.get(URL), client.post(URL)] {
        let request = request.build().unwrap();
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
    }
    let counts = script.received().iter().map(|it| it.resend_count).collect::<Vec<_>>();
    assert_eq!(counts, [0, 1, 0]);
}

/// Does its work in `handle` itself, and hands on.
struct Eager<F>(F);

impl<F: Fn() + Send + Sync + 'static> Middleware for Eager<F> {
    fn handle<'this, 'ext, 'next, 'call>(
        &'this self,
        request: Request,
        extensions: &'ext mut Extensions,
        next: Next<'next>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response>> + Send + 'call>>
    where
        'this: 'call,
        'ext: 'call,
        'next: 'call,
        Self: 'call,
    {
        (self.0)();
        next.run(request, extensions)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_poll_leaves_nothing_behind() {
    let mut extensions = Extensions::new();
    let panics = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(RetryPolicy::never()))
        .with(Eager(|| panic!("in handle itself")))
        .build();
    let request = panics.get(URL).build().unwrap();
    let call = panics.execute_with_extensions(request, &mut extensions);
    assert!(AssertUnwindSafe(call).catch_unwind().await.is_err());
    let script = Script::new([busy(), fine()]);
    let good = client(RetryPolicy::default(), &script);
    let request = good.get(URL).build().unwrap();
    good.execute_with_extensions(request, &mut extensions).await.unwrap();
    assert_eq!(script.received().len(), 2);
}

/// What a client in flight costs beyond its chain: measured, so that it does not creep.
#[tokio::test(start_paused = true)]
async fn the_future_of_the_first_attempt_stays_small() {
    for (policy, most) in [(RetryPolicy::default(), 448), (RetryPolicy::never(), 136)] {
        let (retry, size) = (RetryMiddleware::new(policy), Arc::new(Mutex::new(0)));
        let measure = Hand { retry, size: size.clone(), is_dropped: false };
        let script = Script::new([fine()]);
        let client = ClientBuilder::new(Client::new()).with(measure).with(script).build();
        client.get(URL).send().await.unwrap();
        let size = *size.lock().unwrap();
        println!("{size} bytes; a request has {}", size_of::<Request>());
        assert!(size <= most, "{size} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_call_that_nobody_polls_the_next_handle_runs_only_if_it_is_nothing_but_one_send() {
    let limited = RetryPolicy::builder().max_attempts(1).head_timeout(ms(1)).build().unwrap();
    for (policy, handled) in [(RetryPolicy::default(), 0), (limited, 0), (RetryPolicy::never(), 1)]
    {
        let retry = RetryMiddleware::new(policy);
        let drops = Hand { retry, size: Arc::default(), is_dropped: true };
        let count = Arc::new(Mutex::new(0));
        let counted = count.clone();
        let eager = Eager(move || *counted.lock().unwrap() += 1);
        let script = Script::new([fine()]);
        let chain = ClientBuilder::new(Client::new()).with(drops).with(eager).with(script.clone());
        assert!(chain.build().get(URL).send().await.unwrap_err().is_middleware());
        assert_eq!((*count.lock().unwrap(), script.received().len()), (handled, 0));
    }
}

/// Looks at what a retry middleware returns, and polls it or drops it.
struct Hand {
    retry: RetryMiddleware,
    size: Arc<Mutex<usize>>,
    is_dropped: bool,
}

#[async_trait::async_trait]
impl Middleware for Hand {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let call = self.retry.handle(request, extensions, next);
        *self.size.lock().unwrap() = size_of_val(&*call);
        if self.is_dropped {
            return Err(reqwest_middleware::Error::middleware(io::Error::other("dropped")));
        }
        call.await
    }
}
