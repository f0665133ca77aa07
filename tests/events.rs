//! The events of the feature `tracing`: which, when, and nothing secret in them.

#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(feature = "tracing")]

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use http::header::RETRY_AFTER;
use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Jitter, RetryMiddleware, RetryPolicy, RetryRequestExt as _, SharedSession,
};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Writes each event of ours as one line: level, message, fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "reqwest_typed_retry" {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}:").unwrap(),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).unwrap();
    }
}

impl Lines {
    /// As long as the guard lives.
    fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    fn without_secrets(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap().clone();
        for line in &lines {
            assert!(!line.contains("secret"), "{line}");
        }
        lines
    }
}

const URL: &str = "https://user:secret@service.test:8443/token/secret?key=secret#secret";

async fn events(method: &str, replies: Vec<Reply>, layers: usize) -> Vec<String> {
    let lines = Lines::default();
    let _guard = lines.listen();
    let policy = RetryPolicy::builder().jitter(Jitter::None).build().unwrap();
    let mut client = ClientBuilder::new(Client::new());
    for _ in 0..layers {
        client = client.with(RetryMiddleware::new(policy.clone()));
    }
    let request = client.with(Script::new(replies)).build().request(method.parse().unwrap(), URL);
    let _ = request.header("authorization", "secret").send().await;
    lines.without_secrets()
}

#[tokio::test(start_paused = true)]
async fn a_loop_around_a_body_tells_the_same() {
    let lines = Lines::default();
    let _guard = lines.listen();
    let policy = RetryPolicy::builder().max_attempts(2).jitter(Jitter::None).build().unwrap();
    let session = SharedSession::new(policy);
    let script = Script::always(Reply::status(StatusCode::OK));
    let client = ClientBuilder::new(Client::new()).with(RetryMiddleware::default()).with(script);
    client.build().get(URL).retry_session(&session).send().await.unwrap();
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "secret");
    session.resend_after(cut()).await.unwrap();
    session.resend_after(cut()).await.unwrap_err();
    let expected = [
        "INFO retry 1 of 1: retry=1 max_retries=1 method=GET origin=https://service.test:8443 \
         reason=connection_lost delay=100ms delay_source=backoff",
        "WARN giving up: attempts=2 method=GET origin=https://service.test:8443 \
         outcome=fault connection_lost (delivery unknown) reason=attempts_exhausted",
    ];
    assert_eq!(lines.without_secrets(), expected);
}

#[tokio::test(start_paused = true)]
async fn each_resend_and_each_giving_up_is_told_once_and_a_first_try_not_at_all() {
    let fine = || Reply::status(StatusCode::OK);
    let busy = || Reply::status(StatusCode::SERVICE_UNAVAILABLE).header(RETRY_AFTER, 2);
    let resend = "INFO retry 1 of 2: retry=1 max_retries=2 method=GET origin=https://service.test:8443 \
                  reason=status 503 delay=2s delay_source=server server_delay=2s";
    let lost = "INFO retry 2 of 2: retry=2 max_retries=2 method=GET origin=https://service.test:8443 \
                reason=connect delay=200ms delay_source=backoff";
    let given_up = "WARN giving up: attempts=3 method=GET origin=https://service.test:8443 outcome=status 503 reason=attempts_exhausted";
    let not_resent = "DEBUG not resent: attempts=1 method=POST origin=https://service.test:8443 outcome=status 503 reason=not_idempotent";
    let recovered = "DEBUG recovered: attempts=2 method=GET origin=https://service.test:8443 \
                     outcome=status 200 elapsed=2s";
    let nested = "DEBUG nested retry middleware passes through:";
    let not_found = Reply::status(StatusCode::NOT_FOUND);
    for (label, method, replies, layers, expected) in [
        ("success", "GET", vec![fine()], 1, vec![]),
        ("not found", "GET", vec![not_found], 1, vec![]),
        ("success after a resend", "GET", vec![busy(), fine()], 1, vec![resend, recovered]),
        (
            "given up",
            "GET",
            vec![busy(), Reply::connect_error(), busy()],
            1,
            vec![resend, lost, given_up],
        ),
        ("a POST", "POST", vec![busy()], 1, vec![not_resent]),
        ("two layers", "GET", vec![fine()], 2, vec![nested]),
    ] {
        assert_eq!(events(method, replies, layers).await, expected, "{label}");
    }
}
