//! When it is sent again. A server that asks for a wait asks for some seconds; whoever does not hear it waits 10 ms.

use std::time::{Duration, SystemTime};

use reqwest_typed_retry::{ApiProfile, Backoff};

use super::Row;
use crate::behaviours::answer::Answer;
use crate::behaviours::contender::Setup;
use crate::behaviours::seen::{Ended, Seen};
use crate::behaviours::server::Script;

/// What the servers ask for.
const ASKED: Duration = Duration::from_secs(3);
/// So much is far from both waits, also where dates have no parts of a second.
const HALF: Duration = Duration::from_secs(2);

fn once(arrival: usize, answer: Answer) -> Answer {
    if arrival == 1 { answer } else { Answer::new(200) }
}

fn is_honoured(seen: &Seen) -> String {
    match seen.gap() {
        Some(gap) if gap >= HALF => "yes",
        Some(_) => "no",
        None => "no resend",
    }
    .to_owned()
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "503 with `Retry-After: 3`: waited for?",
            Script::Http1(|arrival| {
                once(arrival, Answer::new(503).field("retry-after", ASKED.as_secs()))
            }),
            is_honoured,
        ),
        Row::new(
            "the same as a date",
            Script::Http1(|arrival| {
                let date = httpdate::fmt_http_date(SystemTime::now() + ASKED);
                once(arrival, Answer::new(503).field("retry-after", date))
            }),
            is_honoured,
        ),
        Row::new(
            "429 with the field `RateLimit: \"default\";r=0;t=3` (IETF draft): waited for?",
            Script::Http1(|arrival| {
                once(arrival, Answer::new(429).field("ratelimit", "\"default\";r=0;t=3"))
            }),
            is_honoured,
        ),
        Row::new(
            "429 with `retry-after-ms: 3000`, with the profile for that API: waited for?",
            Script::Http1(|arrival| once(arrival, Answer::new(429).field("retry-after-ms", 3_000))),
            is_honoured,
        )
        .setup(Setup { policy: |policy| policy.profile(ApiProfile::openai()), ..Setup::default() }),
        Row::new(
            "503 with `Retry-After: 3600` each time",
            Script::Http1(|_| Answer::new(503).field("retry-after", 3_600)),
            |seen| match seen.ended {
                Ended::Waiting => format!("{}, waits", seen.sends()),
                _ => format!("{} at once", seen.outcome()),
            },
        ),
        Row::new(
            "429 without a delay, a backoff of 3 s for that alone: waited for?",
            Script::Http1(|arrival| once(arrival, Answer::new(429))),
            is_honoured,
        )
        .setup(Setup {
            policy: |policy| policy.throttle_backoff(Backoff::constant(ASKED)),
            ..Setup::default()
        }),
        Row::new(
            "503 each time, a backoff of 2 s: the wait after the last attempt",
            Script::Http1(|_| Answer::new(503)),
            |seen| if seen.after_last < HALF { "none" } else { "2 s" }.to_owned(),
        )
        .setup(Setup { wait: HALF, ..Setup::default() }),
    ]
}
