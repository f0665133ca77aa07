//! The stops of a shared session: final until its next request, however they came about, and told once.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;
use http::StatusCode;
use reqwest::{Body, Client};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    AttemptRecord, Backoff, Endpoint, Jitter, ObservedCall, RetryHistory, RetryMiddleware,
    RetryObserver, RetryPolicy, RetryRequestExt as _, RetryScope, SharedSession, StopReason,
};
use tokio_util::sync::CancellationToken;

const URL: &str = "http://a.test/";
const DELAY: Duration = Duration::from_secs(1);

/// What an observer was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl RetryObserver for Told {
    fn attempt_ended(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let of = call.endpoint().map_or_else(String::new, |name| format!(" of {name}"));
        self.0.lock().unwrap().push(format!("attempt {}{of}", attempt.number()));
    }

    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let end = format!("gave up {}: {}", call.method(), history.stop_reason());
        self.0.lock().unwrap().push(end);
    }
}

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Its own policy never resends: all that is sent again is the session's.
fn client(script: &Script, told: &Told) -> ClientWithMiddleware {
    let retry = RetryMiddleware::builder(RetryPolicy::never()).observer(told.clone());
    let http = ClientBuilder::new(Client::new()).with(retry.build().unwrap());
    http.with(script.clone()).build()
}

fn session() -> SharedSession {
    let policy = RetryPolicy::builder().backoff(Backoff::constant(DELAY)).jitter(Jitter::None);
    SharedSession::new(policy.build().unwrap())
}

fn cut(status: u16) -> Reply {
    Reply::status(StatusCode::from_u16(status).unwrap()).body("half").cut()
}

fn stream() -> Body {
    Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("piece")]))
}

/// Of a failure that was given up its message may be read, and that may be cut.
#[tokio::test(start_paused = true)]
async fn a_stop_is_final_until_the_next_request() {
    for (reply, name) in
        [(cut(503).header("retry-after", 3_600), "server_delay_too_long"), (cut(404), "permanent")]
    {
        let script = Script::new([reply, cut(200), cut(200)]);
        let (http, session) = (client(&script, &Told::default()), session());
        let get = || http.get(URL).retry_session(&session).send();
        let failed = get().await.unwrap();
        let error = failed.text().await.unwrap_err();
        for _ in 0..2 {
            let stop = session.decide_after(&error).stop_reason().unwrap();
            assert_eq!(stop.as_str(), name);
        }
        assert!(session.resend_after(error).await.is_err());
        assert_eq!(session.attempts(), 1);

        let error = get().await.unwrap().text().await.unwrap_err();
        assert!(session.decide_after(&error).delay().is_some(), "{name}");
        // What is no fault of the body, and then one.
        let cut = get().await.unwrap().text().await.unwrap_err();
        let other = std::io::Error::other("no transport error");
        for error in [&other as &(dyn std::error::Error + 'static), &cut] {
            let stop = session.decide_after(error).stop_reason();
            assert_eq!(stop, Some(StopReason::Permanent), "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_no_less_judged_because_the_request_was_a_stream_and_its_end_is_told_once() {
    for reads_body in [true, false] {
        let (script, told) = (Script::always(cut(503).header("retry-after", 30)), Told::default());
        let (http, session) = (client(&script, &told), session());
        let put = http.put(URL).body(stream()).retry_session(&session).send().await.unwrap();
        let error = match reads_body {
            true => put.text().await.unwrap_err(),
            false => put.error_for_status().unwrap_err(),
        };
        let stop = session.decide_after(&error).stop_reason();
        assert_eq!(stop, Some(StopReason::BodyNotReplayable));
        assert!(session.resend_after(error).await.is_err());
        assert_eq!(told.take(), ["attempt 1", "gave up PUT: body_not_replayable"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_met_no_status_can_be_made_anew_and_its_end_is_told_once() {
    let (script, told) = (Script::always(Reply::connect_error()), Told::default());
    let (http, session) = (client(&script, &told), session());
    let error = http.put(URL).body(stream()).retry_session(&session).send().await.unwrap_err();
    assert_eq!(told.take(), ["attempt 1", "gave up PUT: body_not_replayable"]);
    // Nobody waits that long: the stop that counts in the end was told as another.
    let scope = RetryScope::new().deadline_in(DELAY / 2);
    let stop = scope.run(async { session.decide_after(&error).stop_reason() }).await;
    assert_eq!((stop, told.take()), (Some(StopReason::DeadlineWouldPass), vec![]));

    let error = http.put(URL).body(stream()).retry_session(&session).send().await.unwrap_err();
    assert!(session.resend_after(error).await.is_ok());
    assert_eq!(session.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_was_cancelled_in_the_wait_of_the_middleware_stays_so() {
    let (script, told) = (Script::always(Reply::connect_error()), Told::default());
    let (http, session) = (client(&script, &told), session());
    let token = CancellationToken::new();
    let scope = RetryScope::new().cancel_on(token.clone());
    let cancel = async {
        tokio::time::sleep(DELAY / 2).await;
        token.cancel();
    };
    let send = scope.run(http.get(URL).retry_session(&session).send());
    let (result, ()) = join(send, cancel).await;
    let stop = session.decide_after(&result.unwrap_err()).stop_reason();
    assert_eq!((stop, script.received().len()), (Some(StopReason::Cancelled), 1));
    assert_eq!(told.take(), ["attempt 1", "gave up GET: cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_cut_is_told_of_the_endpoint_that_its_request_belongs_to() {
    let (script, told) = (Script::always(cut(200)), Told::default());
    let retry = RetryMiddleware::builder(RetryPolicy::never())
        .endpoint(Endpoint::named("search").path("/search").build().unwrap())
        .observer(told.clone());
    let http = ClientBuilder::new(Client::new()).with(retry.build().unwrap()).with(script).build();
    let session = session();
    for path in ["search", "other"] {
        let get = http.get(format!("{URL}{path}")).retry_session(&session);
        session.resend_after(get.send().await.unwrap().text().await.unwrap_err()).await.unwrap();
    }
    let attempts = ["attempt 1 of search", "attempt 1 of search", "attempt 2", "attempt 2"];
    assert_eq!(told.take(), attempts);
}

/// For a loop that waits by itself: nothing is counted for a wait that may not begin.
#[tokio::test(start_paused = true)]
async fn whoever_is_cancelled_before_the_wait_is_told_so_at_once() {
    let (script, told) = (Script::always(cut(200)), Told::default());
    let (http, session) = (client(&script, &told), session());
    let token = CancellationToken::new();
    let scope = RetryScope::new().cancel_on(token.clone());
    let stop = scope.run(async {
        let error = http.get(URL).retry_session(&session).send().await.unwrap().text().await;
        token.cancel();
        session.decide_after(&error.unwrap_err()).stop_reason()
    });
    assert_eq!((stop.await, session.attempts()), (Some(StopReason::Cancelled), 1));
    assert_eq!(told.take(), ["attempt 1", "attempt 1", "gave up GET: cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_before_it_was_sent_is_not_sent_by_the_loop() {
    let script = Script::always(cut(200));
    let (http, session) = (client(&script, &Told::default()), session());
    let scope = RetryScope::new().deadline_in(Duration::ZERO);
    let refused = scope.run(http.get(URL).retry_session(&session).send()).await.unwrap_err();
    let stop = session.decide_after(&refused).stop_reason();
    assert_eq!((stop, session.attempts()), (Some(StopReason::DeadlinePassed), 1));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cancelled_stops_no_later_request() {
    let (script, told) = (Script::always(cut(200)), Told::default());
    let (http, session) = (client(&script, &told), session());
    let token = CancellationToken::new();
    let scope = RetryScope::new().cancel_on(token.clone());
    let get = http.get(URL).retry_session(&session).send().await.unwrap();
    let error = get.text().await.unwrap_err();
    let mut wait = Box::pin(scope.run(session.resend_after(error)));
    assert!(futures_util::poll!(&mut wait).is_pending());
    let later = http.put(URL).retry_session(&session).send().await.unwrap();
    token.cancel();
    assert!(wait.await.is_err());
    let error = later.text().await.unwrap_err();
    assert_eq!(session.decide_after(&error).delay(), Some(DELAY));
    assert!(!told.take().iter().any(|told| told.starts_with("gave up")));
}

#[tokio::test(start_paused = true)]
async fn a_later_request_is_judged_and_told_for_itself_even_if_it_was_dropped() {
    let told = Told::default();
    let script = Script::new([cut(404), Reply::hang(), Reply::hang()]);
    let (http, session) = (client(&script, &told), session());
    let not_found = http.get(URL).retry_session(&session).send().await.unwrap();
    let error = not_found.text().await.unwrap_err();
    assert_eq!(session.decide_after(&error).stop_reason(), Some(StopReason::Permanent));
    let other = std::io::Error::other("no transport error");
    let _ = told.take();
    let dropped = async || {
        let send = http.put(URL).retry_session(&session).send();
        tokio::time::timeout(DELAY, send).await.unwrap_err();
    };
    dropped().await;
    assert_eq!(session.decide_after(&other).stop_reason(), Some(StopReason::Permanent));
    assert_eq!(told.take(), ["attempt 1"]);
    dropped().await;
    assert!(session.decide_after(&error).delay().is_some());
}
