//! What the caller gets.

use std::time::Duration;

use super::Row;
use crate::behaviours::answer::{Answer, Ending};
use crate::behaviours::contender::{Contender, Setup};
use crate::behaviours::seen::{Ended, Seen};
use crate::behaviours::server::Script;

const LIMIT: Duration = Duration::from_secs(1);

pub(super) fn rows() -> Vec<Row> {
    let timeout = Setup { timeout: Some(LIMIT), ..Setup::default() };
    vec![
        Row::new("503 each time", Script::Http1(|_| Answer::new(503)), last_answer),
        Row::new(
            "503, then 200: attempts that the response tells of",
            Script::Http1(|arrival| Answer::new(if arrival == 1 { 503 } else { 200 })),
            |seen| match seen.ended {
                Ended::Answer { attempts_known: Some(attempts), .. } => attempts.to_string(),
                _ => "none".to_owned(),
            },
        )
        .only(|contender| contender != Contender::Bare),
        Row::new("nobody listens: the error's `is_connect()`", Script::Nobody, |seen| {
            match seen.ended {
                Ended::Failed { is_connect, .. } => is_connect.to_string(),
                _ => seen.ended.word(),
            }
        }),
        Row::new(
            "a server that never answers, a timeout: the error's `is_timeout()`",
            Script::Http1(|_| Answer::ending(Ending::Silence)),
            |seen| match seen.ended {
                Ended::Failed { is_timeout, .. } => is_timeout.to_string(),
                _ => seen.ended.word(),
            },
        )
        .setup(timeout),
        Row::new(
            "a server that does not answer once, then 200: is the timeout that of an attempt?",
            Script::Http1(|arrival| {
                if arrival == 1 { Answer::ending(Ending::Silence) } else { Answer::new(200) }
            }),
            Seen::outcome,
        )
        .setup(timeout),
        Row::new(
            "a server that never answers, a limit of 1 s for all attempts together, no timeout",
            Script::Http1(|_| Answer::ending(Ending::Silence)),
            Seen::outcome,
        )
        .setup(Setup { limit: Some(LIMIT), ..Setup::default() }),
    ]
}

fn last_answer(seen: &Seen) -> String {
    match &seen.ended {
        Ended::Answer { body: Some(body), .. } if !body.is_empty() => "the last 503, with its body",
        Ended::Answer { .. } => "the last 503",
        Ended::Failed { status: Some(_), .. } => "an error, with the status alone",
        Ended::Failed { .. } => "an error",
        Ended::Waiting => "nothing",
    }
    .to_owned()
}
