//! HTTP/2 servers that refuse, go away, flood, and let nothing through.

use std::io;

use h2::Reason;
use reqwest_typed_retry::FaultKind::{Body, Protocol, Refused, Timeout};
use reqwest_typed_retry::StopReason;

use crate::clock::Clock;
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS, PING, PRIORITY, PUSH_PROMISE, SETTINGS, WINDOW_UPDATE, field, frame,
    go_away, head, reset,
};
use crate::server::{Connection, Seen, Server};
use crate::world::{
    A_CLIENT, Back, End, MIB, WAIT, assert_bounded, chain, end, http, ms, policy, retrying, run,
};

const LIMIT: u64 = 5_000;

/// A PUT of a large body, by a client whose own resends are off: all of them are ours then.
fn call<F>(
    label: &str,
    clock: Clock,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
) -> (End, Seen)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let server = Server::start(&clock, serve);
    let (end, memory) = run(&clock, async {
        let http = http().http2_prior_knowledge().retry(reqwest::retry::never());
        let retry = retrying(policy().attempt_timeout(ms(LIMIT))).buffer_body(MIB);
        end(chain(http, retry, &clock).put(server.url()).body(vec![b'x'; 200_000])).await
    });
    let seen = server.finish();
    println!("{label}: {end:?}, {seen:?}");
    assert_bounded(label, memory, A_CLIENT + MIB);
    (end, seen)
}

fn three(back: Back) -> End {
    End { back, attempts: 3, stop: StopReason::AttemptsExhausted, after: 2 * WAIT }
}

/// What the client itself takes for a fault, at once.
fn is_a_fault<F>(
    label: &str,
    back: Back,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
) -> Seen
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (end, seen) = call(label, Clock::default(), serve);
    assert_eq!(end, three(back), "{label}");
    assert!(seen.requests <= 3 && seen.connections <= 3, "{label}");
    seen
}

/// What only the attempt timeout ends.
fn takes_its_time<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (end, seen) = call(label, Clock::for_the_first(), serve);
    let after = 3 * ms(LIMIT) + 2 * WAIT;
    assert_eq!(end, End { after, ..three(Back::Fault(Timeout)) }, "{label}");
    assert!(seen.requests <= 3 && seen.connections <= 3, "{label}");
}

#[test]
fn a_server_that_refuses_every_stream_sees_each_attempt_once() {
    let seen = is_a_fault("refuses", Back::Fault(Refused), async |mut it: Connection| {
        it.greet(&[]).await?;
        loop {
            let stream = it.read_stream().await?;
            it.write(reset(stream, Reason::REFUSED_STREAM)).await?;
        }
    });
    assert_eq!((seen.requests, seen.connections), (3, 1));
}

/// By itself reqwest sends each of them twice more.
#[test]
fn the_resends_of_reqwest_itself_are_bounded_too() {
    let clock = Clock::default();
    let server = Server::start(&clock, async |mut it: Connection| {
        it.greet(&[]).await?;
        loop {
            let stream = it.read_stream().await?;
            it.write(reset(stream, Reason::REFUSED_STREAM)).await?;
        }
    });
    let (got, _) = run(&clock, async {
        let http = http().http2_prior_knowledge();
        end(chain(http, retrying(policy()), &clock).get(server.url())).await
    });
    assert_eq!((got, server.finish().requests), (three(Back::Fault(Refused)), 9));
}

#[test]
fn a_server_that_always_goes_away_has_a_connection_an_attempt() {
    let seen = is_a_fault("goes away", Back::Fault(Refused), async |mut it: Connection| {
        it.greet(&[]).await?;
        it.read_stream().await?;
        it.write(go_away(0, Reason::NO_ERROR)).await?;
        it.linger().await
    });
    assert_eq!((seen.requests, seen.connections), (3, 3));
    let seen = is_a_fault("goes at once", Back::Fault(Refused), async |mut it: Connection| {
        it.greet(&[]).await?;
        it.write(go_away(0, Reason::NO_ERROR)).await?;
        it.linger().await
    });
    assert_eq!(seen.connections, 3);
    // It says that it will answer, and only that. An attempt that still finds its connection is refused at once.
    let again_and_again = async |mut it: Connection| {
        it.greet(&[]).await?;
        let stream = it.read_stream().await?;
        it.trickle(go_away(stream, Reason::NO_ERROR).repeat(100)).await
    };
    let (end, seen) = call("goes away again and again", Clock::for_the_first(), again_and_again);
    assert!(matches!(end.back, Back::Fault(Timeout | Refused)), "{end:?}");
    assert_eq!((end.attempts, end.stop), (3, StopReason::AttemptsExhausted));
    assert!(end.after <= 3 * ms(LIMIT) + 2 * WAIT, "{end:?}");
    assert!(seen.requests <= 3 && seen.connections <= 3, "{seen:?}");
}

/// Frames that cost a server nothing, thousands of them, and never an answer.
#[test]
fn a_flood_of_frames_ends_at_the_limit() {
    macro_rules! flood {
        ($label:literal, $stream:ident => $piece:expr) => {
            takes_its_time($label, async |mut it: Connection| {
                it.greet(&[]).await?;
                let $stream = it.read_stream().await?;
                it.trickle($piece.repeat(100)).await
            });
        };
    }
    flood!("pings", _stream => frame(PING, 0, 0, &[0; 8]));
    flood!("settings", _stream => frame(SETTINGS, 0, 0, &[]));
    flood!("window updates", _stream => frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]));
    flood!("priorities", stream => frame(PRIORITY, 0, stream, &[0; 5]));
    flood!("frames of no kind", stream => frame(0xbe, 0, stream, &[0; 5]));
    flood!("early hints", stream => head(103, END_HEADERS, stream, &[]));
}

/// Frames that want to be answered, to a client that nobody listens to: it stops reading.
#[test]
fn what_asks_for_answers_and_does_not_read_them_is_not_read() {
    takes_its_time("pings", async |mut it: Connection| {
        it.greet(&[]).await?;
        it.read_stream().await?;
        it.flood_until_stalled(frame(PING, 0, 0, &[0; 8]).repeat(1_000)).await
    });
    takes_its_time("settings", async |mut it: Connection| {
        it.greet(&[]).await?;
        it.read_stream().await?;
        it.flood_until_stalled(frame(SETTINGS, 0, 0, &[]).repeat(1_000)).await
    });
}

#[test]
fn frames_that_nobody_may_send_are_a_fault() {
    macro_rules! flood {
        ($label:literal, $kind:expr, $stream:ident => $piece:expr) => {
            let seen = is_a_fault($label, Back::Fault($kind), async |mut it: Connection| {
                it.greet(&[]).await?;
                let $stream = it.read_stream().await?;
                it.flood($piece.repeat(100)).await
            });
            assert_eq!((seen.requests, seen.connections), (3, 3), $label);
        };
    }
    flood!("resets", Protocol, stream => reset(stream + 2, Reason::CANCEL));
    flood!("pushes", Protocol, stream => frame(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, 0x82]));
}

#[test]
fn a_head_without_an_end_is_a_fault() {
    for with_fields in [false, true] {
        let fields =
            if with_fields { field("x", &"a".repeat(100)).repeat(100) } else { Vec::new() };
        let fields: &'static [u8] = fields.leak();
        is_a_fault("continued", Back::Fault(Protocol), move |mut it: Connection| async move {
            it.greet(&[]).await?;
            let stream = it.read_stream().await?;
            it.write(head(200, 0, stream, &[])).await?;
            it.flood(frame(CONTINUATION, 0, stream, fields)).await
        });
    }
}

/// hyper takes 16 KiB of fields, as a list (RFC 9113 10.5.1).
#[test]
fn a_head_that_is_too_large_is_a_fault() {
    fn answers(fields: usize) -> impl Fn(Connection) -> Answered + Copy + Send + 'static {
        move |mut it: Connection| {
            Box::pin(async move {
                it.greet(&[]).await?;
                loop {
                    let stream = it.read_stream().await?;
                    let block = field("x", &"a".repeat(100)).repeat(fields);
                    it.write(head(503, END_STREAM, stream, &[])).await?;
                    for piece in block.chunks(0x4000) {
                        it.write(frame(CONTINUATION, 0, stream, piece)).await?;
                    }
                    it.write(frame(CONTINUATION, END_HEADERS, stream, &[])).await?;
                }
            })
        }
    }
    let (end, seen) = call("15,000 bytes", Clock::default(), answers(110));
    assert_eq!((end, seen.requests), (three(Back::Status(503)), 3));
    is_a_fault("100,000 bytes", Back::Fault(Protocol), answers(1_000));
}

type Answered = std::pin::Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// An entry of the table, and many bytes that each mean the whole of it (RFC 7541 7.3).
#[test]
fn a_bomb_of_fields_is_a_fault() {
    is_a_fault("a bomb", Back::Fault(Protocol), async |mut it: Connection| {
        it.greet(&[]).await?;
        loop {
            let stream = it.read_stream().await?;
            // "x", indexed, of 127 + 1 + 30 * 128 bytes.
            let mut block = vec![0x08, 3, b'5', b'0', b'3', 0x40, 1, b'x', 0x7f, 0x81, 0x1e];
            block.extend([b'a'; 127 + 1 + 30 * 128]);
            block.extend([0xbe; 10_000]);
            it.write(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)).await?;
        }
    });
}

/// A body that never has a byte. h2 ends the connection, and a request that comes to it meanwhile may wait for the
/// limit.
#[test]
fn empty_data_without_an_end_ends_within_the_limits() {
    for status in [200, 503] {
        let clock = Clock::for_the_first();
        let (end, seen) = call("empty data", clock, move |mut it: Connection| async move {
            it.greet(&[]).await?;
            let stream = it.read_stream().await?;
            it.write(head(status, END_HEADERS, stream, &[])).await?;
            it.flood(frame(DATA, 0, stream, &[]).repeat(100)).await
        });
        assert!(matches!(end.back, Back::Fault(Body | Protocol | Timeout)), "{end:?}");
        assert_eq!((end.attempts, end.stop), (3, StopReason::AttemptsExhausted));
        assert!(end.after <= 3 * ms(LIMIT) + 2 * WAIT, "{end:?}");
        assert!(seen.requests <= 3 && seen.connections <= 3);
    }
}

#[test]
fn a_server_that_lets_nothing_through_meets_the_limit() {
    takes_its_time("no window", async |mut it: Connection| {
        it.greet(&[(INITIAL_WINDOW_SIZE, 0)]).await?;
        it.read_stream().await?;
        it.pass();
        loop {
            it.read_stream().await?;
        }
    });
    takes_its_time("no stream", async |mut it: Connection| {
        it.greet(&[(MAX_CONCURRENT_STREAMS, 0)]).await?;
        it.pass();
        loop {
            it.read_stream().await?;
        }
    });
}
