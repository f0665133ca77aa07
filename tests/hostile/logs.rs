//! What a hostile server writes does not reach the logs by way of this crate: not by histories, not by errors, not
//! by events.

use std::fmt::{Debug, Write as _};
use std::io;
use std::sync::{Arc, Mutex};

use reqwest_typed_retry::{RetryErrorExt as _, RetryTracker};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{KIB, chain, http, ms, policy, retrying, run};

/// All texts of this crate's events.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<String>>);

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0, "{}={value:?}", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "reqwest_typed_retry" {
            event.record(&mut Text(&mut self.0.lock().unwrap()));
        }
    }
}

/// All that is shown of a call: nothing of it says "evil", and it is short and of printable characters.
fn check<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static) -> String
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, serve);
    let (events, mut shown) = (Events::default(), String::new());
    let subscriber = tracing_subscriber::registry().with(events.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    let ((), _) = run(&clock, async {
        let retry = retrying(policy().attempt_timeout(ms(5_000))).buffer_body(KIB).wrap_errors();
        let tracker = RetryTracker::new();
        let request = chain(http(), retry, &clock).get(server.url());
        let result = request.with_extension(tracker.clone()).send().await;
        let history = tracker.history().unwrap();
        writeln!(shown, "{history}\n{history:?}\n{tracker:?}").unwrap();
        writeln!(shown, "{}", serde_json::to_string(&history).unwrap()).unwrap();
        match result {
            Ok(response) => assert!(response.status().is_server_error(), "{label}"),
            Err(error) => {
                let ours = error.retry_error().unwrap();
                writeln!(shown, "{ours}\n{ours:?}\n{ours:#?}\n{error}").unwrap();
            }
        }
    });
    server.finish();
    shown.push_str(&events.0.lock().unwrap());
    assert!(!shown.contains("evil") && !shown.contains("EVIL"), "{label}: {shown}");
    let is_plain = |c: char| c == '\n' || c.is_ascii_graphic() || c == ' ' || c == '\u{b5}';
    assert!(shown.chars().all(is_plain), "{label}: {shown:?}");
    assert!(shown.len() < 8_000, "{label}: {} characters", shown.len());
    shown
}

async fn well_no_more(mut it: Connection) -> io::Result<()> {
    loop {
        it.read_request().await?;
        it.write("HTTP/1.1 503 a\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

#[test]
fn nothing_that_a_server_writes_is_shown() {
    // An event whose first time is in another test, right now, may be lost. After the first it is known.
    check("for the first time", well_no_more);
    tracing::callsite::rebuild_interest_cache();
    let shown = check("not at all", well_no_more);
    assert!(!cfg!(feature = "tracing") || shown.contains("giving up"), "{shown}");

    check("in every part of a 503", async |mut it: Connection| {
        loop {
            it.read_request().await?;
            let long = "evil".repeat(5_000);
            let fields = [
                "location: http://evil.test/evil?evil#evil",
                "set-cookie: evil=evil",
                "evil-name: a",
                "x: evil\tevil \u{202e}live\u{e9} %1b[2J${jndi:evil}",
                "x-should-retry: evil",
                "server: evil",
                &format!("x-long: {long}"),
                "retry-after: evil",
                "content-length: 4",
            ];
            let fields = fields.join("\r\n");
            it.write(format!("HTTP/1.1 503 evil {long}\r\n{fields}\r\n\r\nevil")).await?;
        }
    });
    check("in a body that is cut", async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 503 evil\r\ncontent-length: 10\r\n\r\nevil").await?;
        it.close()
    });
    check("in fields that are none", async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 503 evil\r\nevil: \x1b[2J\x07evil\0\r\n\r\n").await?;
        it.linger().await
    });
    check("in what is no HTTP", async |mut it: Connection| {
        it.read_request().await?;
        it.write("evil\x1b]0;evil\x07\r\n\r\n").await?;
        it.linger().await
    });
    // Wherever the last hop was, the origin that is shown is that of the request.
    check("in a redirect", async |mut it: Connection| {
        loop {
            it.read_request().await?;
            let location = "http://evil:evil@127.0.0.1:0/evil%0aevil?evil#evil";
            let fields = format!("location: {location}\r\ncontent-length: 0");
            it.write(format!("HTTP/1.1 302 evil\r\n{fields}\r\n\r\n")).await?;
        }
    });
    // reqwest's own error shows the URL of the last hop.
    check("in a loop of redirects", async |mut it: Connection| {
        loop {
            it.read_request().await?;
            it.write("HTTP/1.1 302 evil\r\nlocation: /evil\r\ncontent-length: 0\r\n\r\n").await?;
        }
    });
}
