//! What becomes of a response that is not handed out. No sockets: its body says when it is read and
//! when it goes away, in tokio's own time, paused.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join;
use http::{Extensions, HeaderMap, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::{DrainLimits, RetryMiddleware};
use tokio::time::{Instant, Sleep};

use crate::held_clock::in_time;
use crate::support::{SCRIPTED, plain, waits};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// A body that follows a script

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A frame of so many bytes.
    Data(usize),
    Trailers,
    /// Nothing for so many milliseconds.
    Pause(u64),
    Fail,
    /// Nothing, ever.
    Silence,
    /// Frames of so many bytes, without an end.
    Forever(usize),
}

/// What happened to a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    polled: bool,
    frames: usize,
    ended: bool,
    /// Since the call began.
    dropped_at: Option<Duration>,
}

struct Scripted {
    steps: VecDeque<Step>,
    pause: Option<Pin<Box<Sleep>>>,
    says: Says,
    started: Instant,
    fate: Arc<Mutex<Fate>>,
}

/// More than any limit here asks for: a body that is read without a bound fails the test.
const TOO_MANY_FRAMES: usize = 100_000;

impl HttpBody for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let mut fate = this.fate.lock().unwrap();
        fate.polled = true;
        if let Some(&Step::Pause(millis)) = this.steps.front() {
            let pause = this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(ms(millis))));
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
            this.steps.pop_front();
        }
        let data = |length| Ok(Frame::data(Bytes::from(vec![b'x'; length])));
        let frame = match this.steps.front() {
            None => {
                fate.ended = true;
                return Poll::Ready(None);
            }
            Some(Step::Silence) => return Poll::Pending,
            Some(Step::Pause(_)) => panic!("one pause is enough"),
            Some(&Step::Data(length) | &Step::Forever(length)) => data(length),
            Some(Step::Trailers) => Ok(Frame::trailers(HeaderMap::new())),
            Some(Step::Fail) => Err(io::ErrorKind::ConnectionReset.into()),
        };
        if !matches!(this.steps.front(), Some(Step::Forever(_))) {
            this.steps.pop_front();
        }
        fate.frames += 1;
        assert!(fate.frames < TOO_MANY_FRAMES, "read without a bound");
        Poll::Ready(Some(frame))
    }

    fn size_hint(&self) -> SizeHint {
        self.says.hint()
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        // A test that has failed while it held the lock says more than this.
        if let Ok(mut fate) = self.fate.lock() {
            fate.dropped_at = Some(self.started.elapsed());
        }
    }
}

// The chain

/// A final middleware: the first response is busy and has the body of the test; then all is fine.
struct Answers {
    first: Mutex<Option<Scripted>>,
    arrivals: Arc<Mutex<Vec<Duration>>>,
    started: Instant,
}

#[async_trait]
impl Middleware for Answers {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        self.arrivals.lock().unwrap().push(self.started.elapsed());
        let Some(body) = self.first.lock().unwrap().take() else {
            return Ok(http::Response::new("").into());
        };
        let mut response = http::Response::new(Body::wrap(body));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok(response.into())
    }
}

struct Scene {
    client: ClientWithMiddleware,
    fate: Arc<Mutex<Fate>>,
    arrivals: Arc<Mutex<Vec<Duration>>>,
}

impl Scene {
    fn new(attempts: u32, wait: Duration, drain: Option<DrainLimits>, body: &Announced) -> Self {
        let (fate, arrivals) = (Arc::<Mutex<Fate>>::default(), Arc::default());
        let started = Instant::now();
        let body = Scripted {
            steps: body.steps.to_vec().into(),
            pause: None,
            says: body.says,
            started,
            fate: fate.clone(),
        };
        let answers =
            Answers { first: Mutex::new(Some(body)), arrivals: Arc::clone(&arrivals), started };
        let policy = waits(wait).max_attempts(attempts).build().unwrap();
        let mut retry = RetryMiddleware::builder(policy);
        if let Some(drain) = drain {
            retry = retry.drain(drain);
        }
        let client = ClientBuilder::new(plain().build().unwrap())
            .with(retry.build().unwrap())
            .with(answers)
            .build();
        Self { client, fate, arrivals }
    }

    fn fate(&self) -> Fate {
        *self.fate.lock().unwrap()
    }

    fn arrivals(&self) -> Vec<Duration> {
        self.arrivals.lock().unwrap().clone()
    }
}

/// A body and what it says of its length.
struct Announced {
    says: Says,
    steps: &'static [Step],
}

#[derive(Clone, Copy)]
enum Says {
    Nothing,
    Exactly(u64),
    AtLeast(u64),
    AtMost(u64),
}

impl Says {
    fn hint(self) -> SizeHint {
        let mut hint = SizeHint::new();
        match self {
            Self::Nothing => {}
            Self::Exactly(bytes) => hint.set_exact(bytes),
            Self::AtLeast(bytes) => hint.set_lower(bytes),
            Self::AtMost(bytes) => hint.set_upper(bytes),
        }
        hint
    }
}

// The table

struct Row {
    label: &'static str,
    /// `None`: the default.
    drain: Option<DrainLimits>,
    wait: u64,
    body: Announced,
    expected: Read,
}

#[derive(Clone, Copy)]
enum Read {
    /// To its end, and let go then.
    ToTheEnd { frames: usize, at: u64 },
    /// Let go after so many frames.
    Part { frames: usize, at: u64 },
    /// Let go at once, never polled.
    Never,
}

impl Read {
    fn fate(self) -> Fate {
        let (polled, frames, ended, at) = match self {
            Self::ToTheEnd { frames, at } => (true, frames, true, at),
            Self::Part { frames, at } => (true, frames, false, at),
            Self::Never => (false, 0, false, 0),
        };
        Fate { polled, frames, ended, dropped_at: Some(ms(at)) }
    }
}

/// Longer than the default's one second.
const LONG: u64 = 5_000;
const SHORT: u64 = 300;
const KIB_64: usize = 64 * 1024;

fn rows() -> Vec<Row> {
    use Read::{Never, Part, ToTheEnd};
    use Says::{AtLeast, AtMost, Exactly, Nothing};
    use Step::{Data, Fail, Forever, Pause, Silence, Trailers};

    fn row(
        label: &'static str,
        drain: impl Into<Option<DrainLimits>>,
        wait: u64,
        (says, steps): (Says, &'static [Step]),
        expected: Read,
    ) -> Row {
        Row { label, drain: drain.into(), wait, body: Announced { says, steps }, expected }
    }
    let ten = || DrainLimits::new(10, ms(1_000));
    let none = DrainLimits::none;
    let end = |frames, at| ToTheEnd { frames, at };
    let part = |frames, at| Part { frames, at };
    vec![
        // The default
        row("64 KiB, known", None, LONG, (Exactly(65_536), &[Data(KIB_64)]), end(1, 0)),
        row("64 KiB, not known", None, LONG, (Nothing, &[Data(KIB_64)]), end(1, 0)),
        row("one more, known", None, LONG, (Exactly(65_537), &[Data(KIB_64), Data(1)]), Never),
        row("one more, not known", None, LONG, (Nothing, &[Data(KIB_64), Data(1)]), part(2, 0)),
        row("never comes", None, LONG, (Exactly(10), &[Silence]), part(0, 1_000)),
        row("endless", None, LONG, (Nothing, &[Forever(1_024)]), part(65, 0)),
        // The byte bound
        row("the limit, known", ten(), LONG, (Exactly(10), &[Data(4), Data(6)]), end(2, 0)),
        row("the limit, later", ten(), LONG, (Nothing, &[Pause(99), Data(10)]), end(1, 99)),
        row("an end later", ten(), LONG, (Nothing, &[Data(10), Pause(99)]), end(1, 99)),
        row("beyond, in one frame", ten(), LONG, (Nothing, &[Data(11)]), part(1, 0)),
        row("beyond, later", ten(), LONG, (Nothing, &[Data(10), Pause(99), Data(1)]), part(2, 99)),
        row("beyond, known", ten(), LONG, (Exactly(11), &[Data(11)]), Never),
        row("beyond, at least", ten(), LONG, (AtLeast(11), &[Data(11)]), Never),
        row("perhaps the limit", ten(), LONG, (AtLeast(10), &[Data(10)]), end(1, 0)),
        row("perhaps beyond", ten(), LONG, (AtMost(99), &[Data(10)]), end(1, 0)),
        row("an endless one", ten(), LONG, (Nothing, &[Forever(3)]), part(4, 0)),
        // An empty piece counts as one byte; trailers, which come once, do not.
        row("trailers", ten(), LONG, (Nothing, &[Data(10), Trailers]), end(2, 0)),
        row("an empty frame", ten(), LONG, (Nothing, &[Data(9), Data(0)]), end(2, 0)),
        row("an empty frame beyond", ten(), LONG, (Nothing, &[Data(10), Data(0)]), part(2, 0)),
        row("empty frames forever", ten(), LONG, (Nothing, &[Forever(0)]), part(11, 0)),
        // The time bound
        row("its time passes", ten(), LONG, (Nothing, &[Data(1), Silence]), part(1, 1_000)),
        row("just in time", ten(), LONG, (Nothing, &[Data(1), Pause(999)]), end(1, 999)),
        row("just too late", ten(), LONG, (Nothing, &[Data(1), Pause(1_001)]), part(1, 1_000)),
        row("the wait passes", ten(), SHORT, (Nothing, &[Data(1), Silence]), part(1, SHORT)),
        row("both pass", ten(), 1_000, (Nothing, &[Data(1), Silence]), part(1, 1_000)),
        row("an end in the wait", ten(), SHORT, (Nothing, &[Pause(299), Data(1)]), end(1, 299)),
        row("an end after it", ten(), SHORT, (Nothing, &[Pause(301), Data(1)]), part(0, SHORT)),
        row(
            "drop by drop",
            ten(),
            LONG,
            (
                Nothing,
                &[
                    Pause(300),
                    Data(1),
                    Pause(300),
                    Data(1),
                    Pause(300),
                    Data(1),
                    Pause(300),
                    Data(1),
                ],
            ),
            part(3, 1_000),
        ),
        // Without a wait, what is there already.
        row("no wait", ten(), 0, (Nothing, &[Data(4), Data(6)]), end(2, 0)),
        row("no wait, silent", ten(), 0, (Nothing, &[Data(4), Silence]), part(1, 0)),
        row("no wait, endless", ten(), 0, (Nothing, &[Forever(3)]), part(4, 0)),
        // Failures
        row("a failure", ten(), LONG, (Exactly(9), &[Data(4), Fail, Silence]), part(2, 0)),
        row("a later one", ten(), LONG, (Exactly(9), &[Data(4), Pause(99), Fail]), part(2, 99)),
        // Nothing to read
        row("no body", ten(), LONG, (Exactly(0), &[]), Never),
        // No drain
        row("none", none(), LONG, (Exactly(1), &[Data(1)]), Never),
        row("none, not known", none(), LONG, (Nothing, &[Data(0)]), Never),
        row("none, empty", none(), LONG, (Exactly(0), &[Data(0)]), Never),
        row("none, no wait", none(), 0, (Exactly(1), &[Data(1)]), Never),
        row("no bytes", DrainLimits::new(0, ms(1_000)), LONG, (Nothing, &[Data(1)]), Never),
        row("no time", DrainLimits::new(10, ms(0)), LONG, (Nothing, &[Data(1)]), end(1, 0)),
        row(
            "no time, silent",
            DrainLimits::new(10, ms(0)),
            LONG,
            (Nothing, &[Silence]),
            part(0, 0),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_discarded_body_is_read_within_its_bounds_and_never_delays_the_resend() {
    for Row { label, drain, wait, body, expected } in rows() {
        let scene = Scene::new(2, ms(wait), drain, &body);
        let response = in_time(scene.client.get(SCRIPTED).send()).await;
        assert_eq!(response.unwrap().status(), StatusCode::OK, "{label}");
        assert_eq!(scene.fate(), expected.fate(), "{label}");
        assert_eq!(scene.arrivals(), [ms(0), ms(wait)], "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_handed_out_is_not_read() {
    let body = Announced { says: Says::Exactly(5), steps: &[Step::Data(2), Step::Data(3)] };
    let scene = Scene::new(1, ms(100), None, &body);
    let response = scene.client.get(SCRIPTED).send().await.unwrap();
    assert_eq!(scene.fate(), Fate::default());
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.bytes().await.unwrap(), "xxxxx");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_in_the_wait_takes_the_discarded_response_with_it() {
    let body = Announced { says: Says::Nothing, steps: &[Step::Data(1), Step::Silence] };
    let scene = Scene::new(2, ms(LONG), None, &body);
    let call = scene.client.get(SCRIPTED).send();
    tokio::time::timeout(ms(SHORT), call).await.unwrap_err();
    assert_eq!(scene.fate(), Read::Part { frames: 1, at: SHORT }.fate());
    assert_eq!(scene.arrivals(), [ms(0)]);
}

/// With no bound but time, only a body that gives way lets time pass.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_always_ready_keeps_neither_the_thread_nor_the_wait() {
    let drain = DrainLimits::new(u64::MAX, ms(1_000));
    let body = Announced { says: Says::Nothing, steps: &[Step::Forever(1)] };
    let scene = Scene::new(2, ms(LONG), Some(drain), &body);
    let clock = async {
        tokio::time::advance(ms(1_000)).await;
        tokio::task::yield_now().await;
        assert_eq!(scene.fate().dropped_at, Some(ms(1_000)));
    };
    let (response, ()) = join(scene.client.get(SCRIPTED).send(), clock).await;
    assert_eq!(response.unwrap().status(), StatusCode::OK);
    assert!(!scene.fate().ended);
    assert_eq!(scene.arrivals(), [ms(0), ms(LONG)]);
}

/// A body of which nothing comes, and which counts how often it is asked.
struct Silent(Arc<AtomicUsize>);

impl HttpBody for Silent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Poll::Pending
    }
}

struct AnswersSilently(Arc<AtomicUsize>);

#[async_trait]
impl Middleware for AnswersSilently {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let response = http::Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
        Ok(response.body(Body::wrap(Silent(self.0.clone()))).unwrap().into())
    }
}

/// A turn more is taken only where there was something to read: turns of other tasks take time.
#[tokio::test(start_paused = true)]
async fn without_a_wait_nothing_is_waited_for() {
    let polls = Arc::new(AtomicUsize::new(0));
    let retry = RetryMiddleware::new(crate::support::no_waits().max_attempts(2).build().unwrap());
    let client = ClientBuilder::new(plain().build().unwrap())
        .with(retry)
        .with(AnswersSilently(polls.clone()));
    client.build().get(SCRIPTED).send().await.unwrap();
    let polls = polls.load(Ordering::SeqCst);
    assert!((1..=2).contains(&polls), "asked {polls} times");
}
