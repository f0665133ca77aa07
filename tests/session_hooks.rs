//! What an application brings to a client (a clock, a generator, observers, classifiers) may use the session
//! that it serves, and may panic.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use http::StatusCode;
use rand::TryRng;
use reqwest::Client;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, AttemptRecord, ObservedCall, RetryBudget, RetryHistory, RetryMiddleware,
    RetryMiddlewareBuilder, RetryObserver, RetryPolicy, RetryRequestExt as _, RetryScope,
    SharedSession, StopReason,
};
use tokio_util::sync::CancellationToken;

const URL: &str = "http://a.test/";
const CAPACITY: u32 = 10;

/// Does this and that whenever it is asked, or dropped: as a clock, a generator, or an observer.
struct Asked<F: Fn(&'static str) + Send + Sync + 'static>(&'static str, F);

impl<F: Fn(&'static str) + Send + Sync> TryRng for Asked<F> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.1(self.0);
        Ok(0)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.1(self.0);
        Ok(0)
    }

    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
        panic!("waits need no bytes")
    }
}

impl<F: Fn(&'static str) + Send + Sync> RetryObserver for Asked<F> {
    fn attempt_ended(&self, _: &ObservedCall<'_>, _: &AttemptRecord) {
        self.1(self.0);
    }

    fn gave_up(&self, _: &ObservedCall<'_>, _: &RetryHistory) {
        self.1(self.0);
    }
}

fn clock(
    asked: Asked<impl Fn(&'static str) + Send + Sync>,
) -> impl Fn() -> SystemTime + Send + Sync {
    move || {
        asked.1(asked.0);
        SystemTime::UNIX_EPOCH
    }
}

/// All three of them.
fn asking<F: Fn(&'static str) + Clone + Send + Sync + 'static>(ask: F) -> RetryMiddlewareBuilder {
    RetryMiddleware::builder(RetryPolicy::never())
        .wall_clock(clock(Asked("clock", ask.clone())))
        .generator(Asked("generator", ask.clone()))
        .observer(Asked("observer", ask))
}

fn client(retry: RetryMiddlewareBuilder, script: &Script) -> ClientWithMiddleware {
    ClientBuilder::new(Client::new()).with(retry.build().unwrap()).with(script.clone()).build()
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn budget() -> RetryBudget {
    RetryBudget::builder().capacity(CAPACITY).build().unwrap()
}

fn level(budget: &RetryBudget) -> f64 {
    budget.level(&URL.parse().unwrap())
}

/// On a thread of its own, with a paused clock: what waits for itself fails, and does not hang.
fn on_a_thread<T: Send + 'static>(what: impl Future<Output = T> + Send + 'static) -> T {
    const AT_MOST: Duration = Duration::from_secs(60);
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        done.send(runtime.block_on(what)).unwrap();
    });
    result.recv_timeout(AT_MOST).unwrap_or_else(|error| match error {
        RecvTimeoutError::Timeout => panic!("it waits for itself"),
        RecvTimeoutError::Disconnected => panic!("it panicked"),
    })
}

/// A session that what it is made with can use.
type Later = Arc<OnceLock<SharedSession>>;

fn look_at(session: &Later) -> u32 {
    let session = session.get().unwrap();
    assert!(format!("{session:?}").contains("http://a.test"));
    session.attempts()
}

#[test]
fn whatever_is_asked_may_use_the_session() {
    let seen = on_a_thread(async {
        let (session, seen) = (Later::default(), Arc::<Mutex<Vec<_>>>::default());
        let ask = {
            let (session, seen) = (session.clone(), seen.clone());
            move |who| seen.lock().unwrap().push((who, look_at(&session)))
        };
        let rule = ask.clone();
        let policy = RetryPolicy::builder().max_attempts(3).classifier(move |_: &Attempt<'_>| {
            rule("classifier");
            None
        });
        let session = session.get_or_init(|| SharedSession::new(policy.build().unwrap()));
        let script = Script::new([
            Reply::status(StatusCode::SERVICE_UNAVAILABLE),
            Reply::status(StatusCode::OK),
        ]);
        let client = client(asking(ask), &script);
        client.get(URL).retry_session(session).send().await.unwrap();
        session.resend_after(cut()).await.unwrap();
        let seen = seen.lock().unwrap();
        seen.clone()
    });
    let of = |attempt| {
        let of = seen.iter().filter(|(_, attempts)| *attempts == attempt);
        of.map(|(who, _)| *who).collect::<Vec<_>>()
    };
    // The 503, in whose wait the session moves on; the head of the 200, and its cut.
    assert_eq!(of(1), ["clock", "classifier", "generator"]);
    let cut = ["clock", "classifier", "generator", "observer"];
    assert_eq!(of(2), [&["observer", "clock", "classifier", "observer"][..], &cut].concat());
    assert_eq!(of(3), [""; 0]);
}

/// Their client is gone, so the session's next request is the end of them.
#[test]
fn whatever_served_an_earlier_request_may_use_the_session_as_it_goes() {
    struct Goes(Later, Arc<AtomicU32>);

    impl Drop for Goes {
        fn drop(&mut self) {
            self.1.fetch_add(look_at(&self.0), Ordering::SeqCst);
        }
    }

    let gone = on_a_thread(async {
        let (later, gone) = (Later::default(), Arc::<AtomicU32>::default());
        let session = later.get_or_init(|| SharedSession::new(RetryPolicy::default()));
        let script = Script::always(Reply::status(StatusCode::OK));
        let goes = || {
            let goes = Goes(later.clone(), gone.clone());
            move |_| assert!(goes.0.get().is_some())
        };
        let retry = RetryMiddleware::builder(RetryPolicy::never())
            .wall_clock(clock(Asked("clock", goes())))
            .generator(Asked("generator", goes()))
            .observer(Asked("observer", goes()));
        let earlier = client(retry, &script);
        earlier.get(URL).retry_session(session).send().await.unwrap();
        drop(earlier);
        assert_eq!(gone.load(Ordering::SeqCst), 0, "the loop may ask them");
        let plain = client(RetryMiddleware::builder(RetryPolicy::never()), &script);
        plain.get(URL).retry_session(session).send().await.unwrap();
        gone.load(Ordering::SeqCst)
    });
    assert_eq!(gone, 3);
}

#[tokio::test(start_paused = true)]
async fn whatever_panics_leaves_the_session_as_it_was() {
    for panics_at in ["clock", "generator", "observer"] {
        let (is_armed, budget) = (Arc::<AtomicU32>::default(), budget());
        let arm = is_armed.clone();
        let retry = asking(move |who| {
            if who == panics_at && arm.load(Ordering::SeqCst) > 0 {
                panic::resume_unwind(Box::new(who)); // without a message on stderr
            }
        });
        let client =
            client(retry.budget(budget.clone()), &Script::always(Reply::status(StatusCode::OK)));
        let session = SharedSession::new(RetryPolicy::default());
        client.get(URL).retry_session(&session).send().await.unwrap();
        is_armed.store(1, Ordering::SeqCst);
        for _ in 0..2 {
            let ended = AssertUnwindSafe(session.resend_after(cut())).catch_unwind().await;
            assert_eq!(ended.unwrap_err().downcast_ref(), Some(&panics_at));
            assert_eq!((session.attempts(), level(&budget)), (1, f64::from(CAPACITY)));
        }
        is_armed.store(0, Ordering::SeqCst);
        session.resend_after(cut()).await.unwrap();
        assert_eq!((session.attempts(), level(&budget)), (2, f64::from(CAPACITY - 1)));
    }
}

/// The wait had moved the session on, and held a token.
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_as_a_wait_is_cancelled_leaves_the_session_as_it_was() {
    struct Panics;

    impl RetryObserver for Panics {
        fn gave_up(&self, _: &ObservedCall<'_>, _: &RetryHistory) {
            panic::resume_unwind(Box::new("the hook"));
        }
    }

    let budget = budget();
    let retry = RetryMiddleware::builder(RetryPolicy::never()).observer(Panics);
    let script = Script::always(Reply::status(StatusCode::OK));
    let client = client(retry.budget(budget.clone()), &script);
    let session = SharedSession::new(RetryPolicy::default());
    client.get(URL).retry_session(&session).send().await.unwrap();
    let token = CancellationToken::new();
    let scope = RetryScope::new().cancel_on(token.clone());
    let mut wait =
        Box::pin(AssertUnwindSafe(scope.run(session.resend_after(cut()))).catch_unwind());
    assert!(futures_util::poll!(&mut wait).is_pending());
    assert_eq!((session.attempts(), level(&budget)), (2, f64::from(CAPACITY - 1)));
    token.cancel();
    assert_eq!(wait.await.unwrap_err().downcast_ref(), Some(&"the hook"));
    assert_eq!((session.attempts(), level(&budget)), (1, f64::from(CAPACITY)));
    // Nobody was told of an end, so it goes on.
    session.resend_after(cut()).await.unwrap();
    assert_eq!(session.attempts(), 2);
}

/// The end that the hook is told of is that of the request before.
#[test]
fn a_request_that_begins_in_a_hook_is_not_stopped_by_the_end_of_another() {
    struct Sends(Later, ClientWithMiddleware);

    impl Sends {
        fn send(&self) {
            let request = self.1.get(URL).retry_session(self.0.get().unwrap());
            on_a_thread(request.send()).unwrap(); // nobody has cancelled it there
        }
    }

    impl RetryObserver for Sends {
        fn attempt_ended(&self, _: &ObservedCall<'_>, attempt: &AttemptRecord) {
            if attempt.decision().stop_reason() == Some(StopReason::Permanent) {
                self.send();
            }
        }

        fn gave_up(&self, _: &ObservedCall<'_>, history: &RetryHistory) {
            assert_eq!(history.stop_reason(), StopReason::Cancelled);
            self.send();
        }
    }

    for is_cancelled in [false, true] {
        let (sent, stop) = on_a_thread(async move {
            let session = Later::default();
            let script = Script::always(Reply::status(StatusCode::OK));
            let retry = || RetryMiddleware::builder(RetryPolicy::never());
            let sends = Sends(session.clone(), client(retry(), &script));
            let client = client(retry().observer(sends), &script);
            let session = session.get_or_init(|| SharedSession::new(RetryPolicy::default()));
            client.get(URL).retry_session(session).send().await.unwrap();
            if is_cancelled {
                let token = CancellationToken::new();
                let scope = RetryScope::new().cancel_on(token.clone());
                let mut wait = Box::pin(scope.run(session.resend_after(cut())));
                assert!(futures_util::poll!(&mut wait).is_pending());
                token.cancel();
                wait.await.unwrap_err();
            } else {
                session.resend_after(io::Error::other("no transport error")).await.unwrap_err();
            }
            (script.received().len(), session.decide_after(&cut()).stop_reason())
        });
        assert_eq!((sent, stop), (2, None), "{is_cancelled}");
    }
}

/// The last request's client is the one that is asked and told, and that pays.
#[tokio::test(start_paused = true)]
async fn two_clients_serve_each_the_loop_round_its_own_requests() {
    let script = Script::always(Reply::status(StatusCode::OK));
    let [(one, asked_1, budget_1), (two, asked_2, budget_2)] = [(); 2].map(|()| {
        let (asked, budget) = (Arc::<Mutex<Vec<_>>>::default(), budget());
        let ask = {
            let asked = asked.clone();
            move |who| asked.lock().unwrap().push(who)
        };
        (client(asking(ask).budget(budget.clone()), &script), asked, budget)
    });
    let policy = RetryPolicy::builder().max_attempts(100).build().unwrap();
    let session = SharedSession::new(policy);
    for turn in 1..=3 {
        let turns = [(&one, &asked_1, &asked_2), (&two, &asked_2, &asked_1)];
        for (client, asked, other) in turns {
            client.get(URL).retry_session(&session).send().await.unwrap();
            asked.lock().unwrap().clear();
            other.lock().unwrap().clear();
            session.resend_after(cut()).await.unwrap();
            assert_eq!(*asked.lock().unwrap(), ["clock", "generator", "observer"], "{turn}");
            assert_eq!(*other.lock().unwrap(), [""; 0], "{turn}");
        }
        // What one client's loop had taken is given back as the other sends.
        let held = (level(&budget_1), level(&budget_2));
        assert_eq!(held, (f64::from(CAPACITY), f64::from(CAPACITY - 1)), "{turn}");
    }
    assert_eq!(session.attempts(), 7);
    drop(session);
    assert_eq!(level(&budget_2), f64::from(CAPACITY));
}

/// No use of a session is worth a token that never comes back, or a wait for each other.
#[test]
fn decisions_side_by_side_on_threads_lose_no_token() {
    const THREADS: u32 = 4;
    const ATTEMPTS: u32 = 50;
    let budget = budget();
    let (session, given) = {
        let budget = budget.clone();
        on_a_thread(async move {
            let retry = RetryMiddleware::builder(RetryPolicy::never()).budget(budget);
            let client = client(retry, &Script::always(Reply::status(StatusCode::OK)));
            let policy = RetryPolicy::builder().max_attempts(ATTEMPTS).build().unwrap();
            let session = SharedSession::new(policy);
            client.get(URL).retry_session(&session).send().await.unwrap();
            (session, client)
        })
    };
    let (done, ended) = mpsc::channel();
    for _ in 0..THREADS {
        let (session, done) = (session.clone(), done.clone());
        thread::spawn(move || {
            let stop = loop {
                if let Some(reason) = session.decide_after(&cut()).stop_reason() {
                    break reason;
                }
            };
            drop(session);
            done.send(stop).unwrap();
        });
    }
    for _ in 0..THREADS {
        let stop = ended.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(matches!(stop, StopReason::AttemptsExhausted | StopReason::BudgetExhausted));
    }
    assert!((2..=ATTEMPTS).contains(&session.attempts()));
    drop((session, given));
    assert_eq!((level(&budget), budget.sick_origins()), (f64::from(CAPACITY), 0));
}
