//! What the pure core costs, without any I/O, beside the peers' equivalents. Prints a Markdown table.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin core [rounds] [calls]`
//!
//! - Memory is counted by the allocator, exactly. With `--gate` nothing else is measured, and the exit code is 1
//!   where anything allocates, ours or a peer's; that holds for a debug build, too.
//! - Times are medians, ratios those of two medians in one run. All take turns, and another begins in each
//!   round. Nothing depends on times.
//! - reqwest-retry reads the clock when it decides, and no field; ours is told the time, so there is a row where
//!   the clock is read for each decision. backon draws with a smaller generator than the others.
//! - The errors are real ones of reqwest's, made before anything is measured: nothing leaves this machine.

use std::error::Error as StdError;
use std::hint::black_box;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use peers::counting::{Counting, Memory};
use peers::numbers::median;
use peers::targets;
use rand::rngs::ThreadRng;
use reqwest::{Client, Response};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{RetryPolicy as _, default_on_request_failure, default_on_request_success};
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, Fault, FaultKind, Jitter, Outcome, RetryDecision, RetryPolicy,
    RetrySession, RetryableMethod, fault_source, retry_after,
};

type Result<T> = std::result::Result<T, Box<dyn StdError>>;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// 2026-11-29 12:00:00.
const NOW: Duration = Duration::from_secs(1_795_953_600);
const IMF_FIXDATE: &str = "Sun, 29 Nov 2026 12:00:30 GMT";
const RFC850_DATE: &str = "Sunday, 29-Nov-26 12:00:30 GMT";
const ASCTIME_DATE: &str = "Sun Nov 29 12:00:30 2026";

/// What is measured.
struct Case {
    name: String,
    /// The equivalent of a peer's: its name.
    beside: Option<&'static str>,
    /// Ours does no more than that, and must not take longer.
    must_match: bool,
    /// So many calls.
    calls: Box<dyn FnMut(usize)>,
    times: Vec<Duration>,
}

impl Case {
    fn new<T>(name: impl Into<String>, mut call: impl FnMut() -> T + 'static) -> Self {
        let calls = move |calls| {
            for _ in 0..calls {
                black_box(call());
            }
        };
        let (name, calls) = (name.into(), Box::new(calls));
        Self { name, beside: None, must_match: false, calls, times: Vec::new() }
    }

    fn beside(mut self, peer: &'static str) -> Self {
        self.beside = Some(peer);
        self
    }

    fn no_slower_than(self, peer: &'static str) -> Self {
        Self { must_match: true, ..self.beside(peer) }
    }

    /// Whether it is this crate's; the peers' names begin with theirs.
    fn is_ours(&self) -> bool {
        !["reqwest-retry:", "backon:", "httpdate:", "http, std:"]
            .iter()
            .any(|peer| self.name.starts_with(peer))
    }

    /// The exact memory of one call; that of several must be a multiple of it.
    fn memory(&mut self) -> Result<Memory> {
        const CALLS: usize = 64;
        (self.calls)(CALLS); // warm
        let before = Memory::so_far();
        (self.calls)(CALLS);
        let many = Memory::so_far() - before;
        let one = Memory { allocations: many.allocations / CALLS, bytes: many.bytes / CALLS };
        if one.allocations * CALLS != many.allocations || one.bytes * CALLS != many.bytes {
            return Err(format!("{}: {many:?} is no multiple of {CALLS} calls", self.name).into());
        }
        Ok(one)
    }

    fn nanos(&self, calls: usize) -> f64 {
        median(self.times.iter().map(|time| time.as_nanos() as f64 / calls as f64))
    }
}

/// What each is compared with.
const SHOULD_RETRY: &str = "reqwest-retry: should_retry";
const DECIDES: &str = "reqwest-retry: default_on_request_success, should_retry: 503";
const ENDS: &str = "reqwest-retry: default_on_request_success: 404";
const FAULT_DECIDES: &str = "reqwest-retry: default_on_request_failure, should_retry: refused";
/// No peer reads the field: what one writes by hand, by httpdate where it is a date.
const SECONDS: &str = "http, std: HeaderValue::to_str, parse: seconds";
const BACKON: &str = "backon: ExponentialBuilder, next";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + NOW
}

fn headers<const N: usize>(fields: [(&'static str, &'static str); N]) -> HeaderMap {
    fields
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .into_iter()
        .collect()
}

fn response(status: StatusCode) -> Result<Response> {
    Ok(http::Response::builder().status(status).body("")?.into())
}

/// A refused connection, a timeout, a request that can't be built.
fn errors() -> Result<[(&'static str, reqwest_middleware::Error); 3]> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::builder().no_proxy().build()?;
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let closed = TcpListener::bind("127.0.0.1:0")?;
    let [silent_url, closed_url] =
        [silent.local_addr()?, closed.local_addr()?].map(|address| format!("http://{address}/"));
    drop(closed);
    let late = client.get(silent_url).timeout(Duration::from_millis(50));
    let refused = runtime.block_on(async { client.get(closed_url).send().await }).err();
    let late = runtime.block_on(async { late.send().await }).err();
    let invalid = client.get("http://[broken").build().err();
    let refused = refused.filter(reqwest::Error::is_connect).ok_or("nothing was refused")?;
    let late = late.filter(reqwest::Error::is_timeout).ok_or("nothing was late")?;
    let invalid = invalid.filter(reqwest::Error::is_builder).ok_or("it was built")?;
    Ok([("refused", refused.into()), ("timeout", late.into()), ("builder", invalid.into())])
}

fn decide(
    policy: &RetryPolicy,
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
    rng: &mut ThreadRng,
) -> RetryDecision {
    let outcome = Outcome::response(status, headers);
    let attempt = Attempt::new(1, RetryableMethod::Idempotent, &Method::GET, outcome, now);
    policy.decide(&attempt, rng)
}

fn decisions() -> Result<Vec<Case>> {
    let (busy, limited) = (StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS);
    let policy = RetryPolicy::default();
    let peer = ExponentialBackoff::builder().build_with_max_retries(2);
    let decides = |status, fields: HeaderMap| {
        let policy = policy.clone();
        let mut rng = rand::rng(); // an argument, like the clock
        move || decide(&policy, black_box(status), &fields, now(), &mut rng)
    };
    let (its_busy, its_missing) = (response(busy)?, response(StatusCode::NOT_FOUND)?);
    let [(_, refused), ..] = errors()?;
    let clock = policy.clone();
    let session = policy.clone();
    let (fault, of_error) = (policy.clone(), policy.clone());
    let [(_, same), ..] = errors()?;
    Ok(vec![
        Case::new(DECIDES, move || {
            default_on_request_success(black_box(&its_busy))
                .map(|_| peer.should_retry(now(), black_box(0)))
        }),
        Case::new(FAULT_DECIDES, move || {
            default_on_request_failure(black_box(&refused))
                .map(|_| peer.should_retry(now(), black_box(0)))
        }),
        Case::new(ENDS, move || default_on_request_success(black_box(&its_missing))),
        Case::new("RetryPolicy::decide: 503", decides(busy, HeaderMap::new()))
            .no_slower_than(DECIDES),
        Case::new("RetryPolicy::decide: 503, the clock and the generator got too", move || {
            decide(&clock, black_box(busy), &HeaderMap::new(), SystemTime::now(), &mut rand::rng())
        })
        .beside(DECIDES),
        Case::new(
            "RetryPolicy::decide: 503, Retry-After in seconds",
            decides(busy, headers([("retry-after", "30")])),
        )
        .beside(DECIDES),
        Case::new(
            "RetryPolicy::decide: 503, Retry-After as an HTTP-date",
            decides(busy, headers([("retry-after", IMF_FIXDATE)])),
        )
        .beside(DECIDES),
        Case::new(
            "RetryPolicy::decide: 429, RateLimit",
            decides(limited, headers([("ratelimit", r#""default";r=0;t=30"#)])),
        )
        .beside(DECIDES),
        Case::new("RetryPolicy::decide: connect fault", move || {
            let outcome = Outcome::fault(black_box(Fault::not_processed(FaultKind::Connect)));
            let class = RetryableMethod::Idempotent;
            let attempt = Attempt::new(1, class, &Method::GET, outcome, now());
            fault.decide(&attempt, &mut rand::rng())
        }),
        Case::new("fault_source::classify, RetryPolicy::decide: refused", move || {
            let outcome = Outcome::error(fault_source::classify(black_box(&same)), &same);
            let class = RetryableMethod::Idempotent;
            let attempt = Attempt::new(1, class, &Method::GET, outcome, now());
            of_error.decide(&attempt, &mut rand::rng())
        })
        .beside(FAULT_DECIDES),
        Case::new("RetryPolicy::decide: 404", decides(StatusCode::NOT_FOUND, HeaderMap::new()))
            .no_slower_than(ENDS),
        Case::new("RetrySession: new, attempt_ended, decide: 503", move || {
            let fields = HeaderMap::new();
            let mut session = RetrySession::new(session.clone(), RetryableMethod::Idempotent);
            let outcome = Outcome::response(black_box(busy), &fields);
            let attempt = session.attempt_ended(&Method::GET, outcome, now());
            session.decide(&attempt, &mut rand::rng())
        })
        .beside(DECIDES),
    ])
}

fn backoffs() -> Result<Vec<Case>> {
    let peer = ExponentialBackoff::builder().build_with_max_retries(20);
    let (base, max) = (Duration::from_secs(1), Duration::from_secs(1_800));
    let [exponential, decorrelated] =
        [Backoff::exponential(base, max)?, Backoff::decorrelated(base, max)?];
    let mut waits = ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(base)
        .with_max_delay(max)
        .with_factor(1.0) // so that it is never at its end, where there is nothing to compute
        .without_max_times()
        .build();
    let draw = |backoff: Backoff| {
        move || {
            let previous = Some(Duration::from_secs(3));
            backoff.draw(black_box(4), previous, Jitter::Full, &mut rand::rng())
        }
    };
    Ok(vec![
        Case::new(SHOULD_RETRY, move || peer.should_retry(now(), black_box(3))),
        Case::new(BACKON, move || waits.next()),
        Case::new("Backoff::draw: exponential", draw(exponential)).beside(BACKON),
        Case::new("Backoff::draw: decorrelated", draw(decorrelated)).beside(BACKON),
    ])
}

fn parsers() -> Vec<Case> {
    let parse =
        |value: &'static str| move || retry_after([black_box(value).as_bytes()], None, None, now());
    let seconds = HeaderValue::from_static("120");
    let mut cases = vec![
        Case::new(SECONDS, move || {
            let value = black_box(&seconds);
            value.to_str().ok().and_then(|text| text.parse().ok()).map(Duration::from_secs)
        }),
        Case::new("retry_after: seconds", parse("120")).beside(SECONDS),
        Case::new("retry_after: junk", parse("in two minutes")),
    ];
    for (floor, name, date) in [
        ("httpdate: IMF-fixdate", "retry_after: IMF-fixdate", IMF_FIXDATE),
        ("httpdate: rfc850-date", "retry_after: rfc850-date", RFC850_DATE),
        ("httpdate: asctime-date", "retry_after: asctime-date", ASCTIME_DATE),
    ] {
        let value = HeaderValue::from_static(date);
        cases.push(Case::new(floor, move || {
            let text = black_box(&value).to_str().ok()?;
            Some(httpdate::parse_http_date(text).ok()?.duration_since(now()).unwrap_or_default())
        }));
        cases.push(Case::new(name, parse(date)).no_slower_than(floor));
    }
    let millis = headers([("retry-after-ms", "1500"), ("retry-after", "2")]);
    let quota = headers([
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-remaining-tokens", "1000"),
        ("x-ratelimit-reset-requests", "1m30.5s"),
        ("x-ratelimit-reset-tokens", "20ms"),
    ]);
    let instant = headers([("anthropic-ratelimit-requests-reset", "2026-11-29T12:00:20.5Z")]);
    for (name, fields) in [
        ("retry-after-ms", millis),
        ("quotas", quota),
        ("an instant", instant),
        ("nothing", headers([])),
    ] {
        let profile = ApiProfile::openai();
        cases.push(Case::new(format!("ApiProfile::openai, server_delay: {name}"), move || {
            profile.server_delay(black_box(&fields), now())
        }));
    }
    cases
}

fn classifiers() -> Result<Vec<Case>> {
    let names = [
        "reqwest-retry: default_on_request_failure: refused",
        "reqwest-retry: default_on_request_failure: timeout",
        "reqwest-retry: default_on_request_failure: builder",
    ];
    let mut cases = Vec::new();
    for ((peer, (name, error)), (_, same)) in names.into_iter().zip(errors()?).zip(errors()?) {
        cases.push(Case::new(peer, move || default_on_request_failure(black_box(&error))));
        let ours = format!("fault_source::classify: {name}");
        cases.push(Case::new(ours, move || fault_source::classify(black_box(&same))).beside(peer));
    }
    Ok(cases)
}

fn all() -> Result<Vec<Case>> {
    Ok([decisions()?, backoffs()?, parsers(), classifiers()?].into_iter().flatten().collect())
}

fn gate() -> Result<bool> {
    let mut holds = true;
    for mut case in all()? {
        let memory = case.memory()?;
        let verdict = if memory.allocations == 0 { "must be 0: met" } else { "must be 0: MISSED" };
        holds &= memory.allocations == 0;
        println!("{}: {} allocations, {verdict}", case.name, memory.allocations);
    }
    Ok(holds)
}

fn measure(rounds: usize, calls: usize) -> Result<()> {
    let mut cases = all()?;
    for case in &mut cases {
        (case.calls)(calls); // warm
    }
    for round in 0..rounds {
        for turn in 0..cases.len() {
            let which = (round + turn) % cases.len();
            if let Some(case) = cases.get_mut(which) {
                let started = Instant::now();
                (case.calls)(calls);
                case.times.push(started.elapsed());
            }
        }
    }
    println!("{rounds} rounds of {calls} calls; times are medians.\n");
    println!("| | ns | allocations | bytes | ns, as a ratio | to that of |");
    println!("|---|---|---|---|---|---|");
    let nanos = cases.iter().map(|case| (case.name.clone(), case.nanos(calls))).collect::<Vec<_>>();
    let (mut matches, mut most) = (Vec::new(), 0);
    for case in &mut cases {
        let (memory, its) = (case.memory()?, case.nanos(calls));
        if case.is_ours() {
            most = most.max(memory.allocations);
        }
        let peer = case.beside.and_then(|peer| nanos.iter().find(|(name, _)| name == peer));
        if let Some((name, peer)) = peer.filter(|_| case.must_match) {
            matches.push((format!("{}: ns, to {name}", case.name), its / peer));
        }
        let (peer, ratio) = peer.map_or_else(Default::default, |(name, peer)| {
            (name.as_str(), format!("{:.2}", its / peer))
        });
        let Memory { allocations, bytes } = memory;
        println!("| {} | {its:.1} | {allocations} | {bytes} | {ratio} | {peer} |", case.name);
    }
    println!();
    let what = "decide, Backoff, retry_after, classify: allocations, the most";
    targets::print(what, "0", &most.to_string(), most == 0);
    for (what, ratio) in matches {
        targets::print(&what, "at most 1", &format!("{ratio:.2}"), ratio <= 1.0);
    }
    Ok(())
}

fn main() -> Result<ExitCode> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--gate"] => {
            return Ok(if gate()? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        [] => measure(101, 2_000)?,
        [rounds, calls] => measure(rounds.parse()?, calls.parse()?)?,
        _ => return Err("core [--gate | ROUNDS CALLS]".into()),
    }
    Ok(ExitCode::SUCCESS)
}
