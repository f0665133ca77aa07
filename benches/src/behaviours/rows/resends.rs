//! What is sent again.

use std::time::Duration;

use h2::Reason;
use http::{Method, StatusCode};
use reqwest_typed_retry::{
    ApiProfile, Backoff, KeyFormat, ReplayBody, RetryRequestExt as _, StatusSet,
};

use super::Row;
use crate::behaviours::answer::{Answer, Ending};
use crate::behaviours::contender::{Contender, Setup};
use crate::behaviours::request::{Payload, Wanted, streamed};
use crate::behaviours::seen::Seen;
use crate::behaviours::server::Script;

const WAIT: Duration = Duration::from_millis(10);
const THROTTLED_ONCE: Script =
    Script::Http1(|arrival| Answer::new(if arrival == 1 { 429 } else { 200 }));
const SICK: Script = Script::Http1(|_| Answer::new(503));

fn sick_twice(arrival: usize) -> Answer {
    Answer::new(if arrival <= 2 { 503 } else { 200 })
}

/// It acts, and the connection ends, once.
fn dies_once(arrival: usize) -> Answer {
    if arrival == 1 { Answer::ending(Ending::NoAnswer) } else { Answer::new(200) }
}

pub(super) fn rows() -> Vec<Row> {
    [safe(), unsafe_methods(), statuses(), wire(), bodies()].into_iter().flatten().collect()
}

fn safe() -> Vec<Row> {
    vec![
        Row::new("GET: 503, 503, then 200", Script::Http1(sick_twice), Seen::outcome),
        Row::new(
            "GET: acts, its connection ends without an answer, then 200",
            Script::Http1(dies_once),
            Seen::outcome,
        ),
    ]
}

fn unsafe_methods() -> Vec<Row> {
    let post = || Wanted::new(Method::POST);
    let patient = Setup { wait: Duration::from_secs(2), ..Setup::default() };
    let honours =
        Setup { policy: |policy| policy.honour_idempotency_keys(true), ..Setup::default() };
    vec![
        Row::new("POST: 503 each time", SICK, Seen::sends).wanted(post()).by_rule(),
        Row::new(
            "POST: the server acts, the connection ends without an answer, each time: effects",
            Script::Http1(|_| Answer::ending(Ending::NoAnswer)),
            |seen| seen.arrivals.len().to_string(),
        )
        .wanted(post())
        .by_rule(),
        Row::new(
            "POST with an `Idempotency-Key`, which is honoured: 503 each time: sends, keys",
            SICK,
            keys,
        )
        .wanted(Wanted { idempotency_key: Some("order-1"), ..post() })
        .setup(honours)
        .by_rule(),
        Row::new("POST with a key that the layer makes: 503 each time: sends, keys", SICK, keys)
            .wanted(post())
            .setup(Setup {
                policy: |policy| policy.generate_idempotency_keys(KeyFormat::Bare),
                ..Setup::default()
            })
            .only(|contender| contender == Contender::Ours),
        Row::new("POST: 429, which had no effect, then 200", THROTTLED_ONCE, Seen::outcome)
            .wanted(post())
            .by_rule(),
        Row::new(
            "the same, where that is said of 429 (`not_processed_statuses`, with a `DeliveryProof`)",
            THROTTLED_ONCE,
            Seen::outcome,
        )
        .wanted(post())
        .setup(Setup {
            has_proof: true,
            policy: |policy| {
                let throttled = StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS);
                policy.not_processed_statuses(throttled).throttle_backoff(Backoff::constant(WAIT))
            },
            ..Setup::default()
        })
        .only(|contender| contender == Contender::Ours),
        Row::new(
            "POST: nobody listens for 1 s, a backoff of 2 s",
            Script::NobodyFor(Duration::from_secs(1)),
            Seen::outcome,
        )
        .wanted(post())
        .setup(patient)
        .by_rule(),
        Row::new(
            "the same with a `DeliveryProof`",
            Script::NobodyFor(Duration::from_secs(1)),
            Seen::outcome,
        )
        .wanted(post())
        .setup(Setup { has_proof: true, ..patient })
        .only(|contender| contender == Contender::Ours),
        Row::new("POST that the call site calls idempotent: 503 each time", SICK, Seen::sends)
            .wanted(post())
            .setup(Setup { request: |request| request.assume_idempotent(), ..Setup::default() })
            .only(|contender| contender == Contender::Ours),
        Row::new("GET that the call site does not want resent: 503 each time", SICK, Seen::sends)
            .setup(Setup { request: |request| request.no_retry(), ..Setup::default() })
            .only(|contender| contender == Contender::Ours),
    ]
}

/// How many were sent, and how many different keys they had.
fn keys(seen: &Seen) -> String {
    let mut keys = seen.arrivals.iter().filter_map(|arrival| arrival.idempotency_key.as_deref());
    let first = keys.next();
    let count = match first {
        None => "no key",
        Some(first) if keys.all(|key| key == first) => "one key",
        Some(_) => "several keys",
    };
    format!("{}, {count}", seen.sends())
}

fn statuses() -> Vec<Row> {
    let openai =
        Setup { policy: |policy| policy.profile(ApiProfile::openai()), ..Setup::default() };
    vec![
        Row::new(
            "GET: 501, which no resend mends, each time",
            Script::Http1(|_| Answer::new(501)),
            Seen::sends,
        )
        .by_rule(),
        Row::new(
            "GET: 425 (Too Early), then 200",
            Script::Http1(|arrival| Answer::new(if arrival == 1 { 425 } else { 200 })),
            Seen::outcome,
        )
        .by_rule(),
        Row::new("GET: 404", Script::Http1(|_| Answer::new(404)), Seen::sends),
        Row::new(
            "GET: 503 with `x-should-retry: false` each time, with the profile for that API",
            Script::Http1(|_| Answer::new(503).field("x-should-retry", false)),
            Seen::sends,
        )
        .setup(openai),
    ]
}

fn wire() -> Vec<Row> {
    let http2 = Setup { is_http2: true, ..Setup::default() };
    vec![
        Row::new(
            "GET: an answer that is no HTTP, then 200",
            Script::Http1(|arrival| {
                if arrival == 1 { Answer::ending(Ending::Gibberish) } else { Answer::new(200) }
            }),
            Seen::outcome,
        )
        .by_rule(),
        Row::new(
            "GET over HTTP/2: the stream refused (`REFUSED_STREAM`), then 200",
            Script::Http2Resets(1, Reason::REFUSED_STREAM),
            Seen::outcome,
        )
        .setup(http2),
        Row::new(
            "GET over HTTP/2: five streams refused, then 200",
            Script::Http2Resets(5, Reason::REFUSED_STREAM),
            Seen::outcome,
        )
        .setup(http2),
        Row::new(
            "GET over HTTP/2: the stream reset with `INTERNAL_ERROR`, then 200",
            Script::Http2Resets(1, Reason::INTERNAL_ERROR),
            Seen::outcome,
        )
        .setup(http2)
        .by_rule(),
        Row::new(
            "GET: a certificate that nobody has signed: connections",
            Script::SelfSigned,
            |seen| format!("{}, {}", seen.ended.word(), seen.connections),
        )
        .by_rule(),
    ]
}

fn bodies() -> Vec<Row> {
    let stream = || Wanted { body: Payload::Stream, ..Wanted::new(Method::PUT) };
    vec![
        Row::new("PUT of a stream, which can't be cloned: 503 each time", SICK, Seen::outcome)
            .wanted(stream())
            // It makes the request anew each time.
            .only(|contender| contender != Contender::Backon),
        Row::new("the same, with what makes the stream anew", SICK, Seen::outcome)
            .wanted(stream())
            .setup(Setup {
                request: |request| {
                    request.body_factory(|| async { Ok(ReplayBody::new(streamed())) })
                },
                ..Setup::default()
            })
            .only(|contender| matches!(contender, Contender::Backon | Contender::Ours)),
        Row::new("GET: half of a body, then the whole", Script::Http1(cut_once), Seen::outcome),
        Row::new(
            "the same, with the body read by what is retried",
            Script::Http1(cut_once),
            Seen::outcome,
        )
        .setup(Setup { reads_body: true, ..Setup::default() })
        .only(|contender| {
            matches!(contender, Contender::Backon | Contender::Tower | Contender::Ours)
        }),
    ]
}

fn cut_once(arrival: usize) -> Answer {
    if arrival == 1 { Answer::new(200).ends(Ending::Cut) } else { Answer::new(200) }
}
