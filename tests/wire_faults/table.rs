//! The rows, and the run of one: its four requests, each with a server and a client of its own.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use reqwest_typed_retry::{AttemptOutcome, Fault, FaultKind, RetryTracker, fault_source};

use crate::expect::{Expect, ensure};
use crate::scene::{Kind, Scene};

/// Requests under way at a time: each holds a handful of sockets.
const AT_A_TIME: usize = 8;

pub(crate) struct Row {
    label: &'static str,
    scene: Scene,
    expect: Expect,
    /// Where a stream fares differently.
    stream: Option<Expect>,
    /// How the body of the response fails.
    cut: Option<FaultKind>,
}

pub(crate) fn row(label: &'static str, scene: Scene, expect: Expect) -> Row {
    Row { label, scene, expect, stream: None, cut: None }
}

impl Row {
    pub(crate) fn label(&self) -> &'static str {
        self.label
    }

    /// See [`Expect::documents`].
    pub(crate) fn documents(&self) -> Vec<(Fault, [bool; 3])> {
        let expects = [Some(&self.expect), self.stream.as_ref()];
        expects.into_iter().flatten().flat_map(Expect::documents).collect()
    }

    /// How the body of the response fails, if it does.
    pub(crate) fn cut_kind(&self) -> Option<FaultKind> {
        self.cut
    }

    pub(crate) fn stream(self, expect: Expect) -> Self {
        Self { stream: Some(expect), ..self }
    }

    pub(crate) fn cut(self, kind: FaultKind) -> Self {
        Self { cut: Some(kind), ..self }
    }

    async fn run(&self, kind: Kind) -> Result<(), String> {
        let expect = match (&self.stream, kind) {
            (Some(expect), Kind::StreamPost) => expect,
            _ => &self.expect,
        };
        let stage = self.scene.start().await;
        let client = self.scene.build_client(&stage);
        let tracker = RetryTracker::new();
        let request = self.scene.build_request(kind, &client, &stage);
        let result = request.with_extension(tracker.clone()).send().await;
        stage.call_returned();
        let (end, came_back) = match result {
            Ok(response) => {
                let end = AttemptOutcome::Status(response.status());
                (end, self.check_body(response).await)
            }
            Err(reqwest_middleware::Error::Reqwest(error)) => {
                let end = AttemptOutcome::Fault(fault_source::classify(&error));
                (end, expect.check_error(&flags(&error)))
            }
            Err(error) => return Err(format!("{}, {kind:?}: {error:?}", self.label)),
        };
        drop(client);
        let seen = stage.finish().await;
        let history = tracker.history().ok_or("no history")?;
        println!("{}, {kind:?}: {seen:?}; {history}", self.label);
        let last = history.attempts().last().map(|attempt| attempt.outcome());
        expect
            .check(kind, &history, seen)
            .and(came_back)
            .and(ensure(last == Some(end), || format!("{end:?} came back, not {last:?}")))
            .map_err(|complaint| {
                format!("{}, {kind:?}: {complaint}\n{history}\n{seen:?}", self.label)
            })
    }

    async fn check_body(&self, response: reqwest::Response) -> Result<(), String> {
        let Some(kind) = self.cut else { return Ok(()) };
        match response.json::<serde_json::Value>().await {
            Ok(body) => Err(format!("a whole body: {body}")),
            Err(error) => {
                let fault = fault_source::classify(&error);
                let expected = Fault::unknown(kind);
                ensure(fault == expected, || format!("the body failed with {fault}: {error:?}"))
            }
        }
    }
}

/// The names of reqwest's `is_…` that hold.
fn flags(error: &reqwest::Error) -> String {
    let flags = [
        ("builder", error.is_builder()),
        ("redirect", error.is_redirect()),
        ("status", error.is_status()),
        ("timeout", error.is_timeout()),
        ("request", error.is_request()),
        ("connect", error.is_connect()),
        ("dns", error.is_dns()),
        ("body", error.is_body()),
        ("decode", error.is_decode()),
    ];
    let set = flags.iter().filter(|(_, holds)| *holds).map(|(name, _)| *name);
    set.collect::<Vec<_>>().join("+")
}

/// Every row with each of its four requests, some at a time.
pub(crate) async fn check(rows: Vec<Row>) {
    let failures = cases(rows)
        .map(|(row, kind)| tokio::spawn(async move { row.run(kind).await }))
        .buffer_unordered(AT_A_TIME)
        .filter_map(|result| async { result.unwrap().err() })
        .collect::<Vec<_>>();
    report(&failures.await);
}

/// One after the other, for scenes that move a clock.
pub(crate) async fn check_in_turn(rows: Vec<Row>) {
    let failures = cases(rows)
        .then(|(row, kind)| async move { row.run(kind).await })
        .filter_map(|result| async { result.err() })
        .collect::<Vec<_>>();
    report(&failures.await);
}

fn cases(rows: Vec<Row>) -> impl futures_util::Stream<Item = (Arc<Row>, Kind)> {
    stream::iter(
        rows.into_iter().map(Arc::new).flat_map(|row| Kind::ALL.map(|kind| (row.clone(), kind))),
    )
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} fail:\n\n{}", failures.len(), failures.join("\n\n"));
}
