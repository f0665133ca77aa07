//! What the server gets of it.

use std::time::Duration;

use futures_util::future::try_join;
use futures_util::{StreamExt as _, stream};
use reqwest_typed_retry::Cooldown;

use super::Row;
use crate::behaviours::Result;
use crate::behaviours::answer::{Answer, Ending};
use crate::behaviours::contender::{Contender, Setup};
use crate::behaviours::request::Wanted;
use crate::behaviours::seen::Seen;
use crate::behaviours::server::{Script, Server};

const REQUESTS: usize = 2_000;
const AT_A_TIME: usize = 8;

/// Its second half comes 300 ms after its first.
fn sick_in_parts(arrival: usize) -> Answer {
    let late = Ending::Late(Duration::from_millis(300));
    if arrival <= 2 {
        Answer::new(503).body("x".repeat(60_000)).ends(late)
    } else {
        Answer::new(200)
    }
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("two layers, one in the other: 503 each time", SICK, Seen::sends)
            .setup(Setup { is_nested: true, ..Setup::default() })
            .only(|contender| !matches!(contender, Contender::Bare | Contender::ReqwestsOwn)),
        Row::new(
            "503, 503, 200, a backoff of 2 s, bodies of 60 kB that end 0.3 s after their heads: connections",
            Script::Http1(sick_in_parts),
            |seen| seen.connections.to_string(),
        )
        .setup(Setup { wait: Duration::from_secs(2), ..Setup::default() })
        .only(|contender| contender != Contender::Bare),
    ]
}

const SICK: Script = Script::Http1(|_| Answer::new(503));

/// What a second request does half a second after a first one was asked to come again after three.
///
/// # Errors
/// If something does not build.
pub async fn second_request(contender: Contender) -> Result<String> {
    let server = Server::start(Script::Http1(|arrival| match arrival {
        1 => Answer::new(503).field("retry-after", 3),
        _ => Answer::new(200),
    }))
    .await?;
    let setup = Setup {
        policy: |policy| policy.deadline(Duration::from_secs(20)),
        middleware: |middleware| middleware.cooldown(Cooldown::by_origin()),
        ..Setup::default()
    };
    let (caller, url) = (contender.caller(&setup)?, server.url());
    let (first, second) =
        (Wanted::default(), Wanted { idempotency_key: Some("2"), ..Wanted::default() });
    let second = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        caller.call(&second, &url).await
    };
    try_join(caller.call(&first, &url), second).await?;
    let arrivals = server.arrivals();
    let sent = arrivals.iter().find(|arrival| arrival.idempotency_key.is_some());
    let (Some(first), Some(second)) = (arrivals.first(), sent) else {
        return Err("a request did not arrive".into());
    };
    let is_held = second.at - first.at >= Duration::from_secs(2);
    Ok(if is_held { "held back" } else { "sent" }.to_owned())
}

/// The sends for each of 2,000 requests to a server that answers 503 to all.
///
/// # Errors
/// If something does not build.
pub async fn outage(contender: Contender) -> Result<String> {
    let server = Server::start(SICK).await?;
    let setup = Setup { wait: Duration::ZERO, ..Setup::default() };
    let (caller, wanted) = (contender.caller(&setup)?, Wanted::default());
    let calls = stream::iter(0..REQUESTS).map(|_| async {
        let url = server.url();
        caller.call(&wanted, &url).await
    });
    let mut ended = calls.buffer_unordered(AT_A_TIME);
    while let Some(call) = ended.next().await {
        call?;
    }
    Ok(format!("{:.2}", server.arrivals().len() as f64 / REQUESTS as f64))
}
