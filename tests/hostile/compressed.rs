//! Compressed bodies: small on the wire, large or endless when unpacked.

use std::io::{self, Write as _};
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest_typed_retry::FaultKind::{Decode, Timeout};
use reqwest_typed_retry::StopReason;

use crate::bodies::{A_CONNECTION, is_let_go_and_resent, is_let_go_in_time};
use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{
    A_CLIENT, Back, End, KIB, MIB, WAIT, assert_bounded, chain, end, http, ms, policy, retrying,
    run, send,
};

const PACKED: &str = "content-encoding: gzip\r\n\r\n";

/// The head of a packed body (RFC 1952 2.3).
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A block of nothing, which is not the last (RFC 1951 3.2.4).
const NOTHING: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// 1 MiB in 1 KiB; whole blocks, of which any number may follow each other.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 1_024 * 1_024]).unwrap();
    encoder.flush().unwrap();
    encoder.get_ref()[HEAD.len()..].to_vec()
});

async fn bomb(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.write(format!("HTTP/1.1 200 OK\r\n{PACKED}")).await?;
    it.write(HEAD).await?;
    it.flood(&*BOMB).await
}

/// The limit is on what is held, not on what came.
#[test]
fn a_bomb_is_held_up_to_the_limit_and_streams_on() {
    const LIMIT: u64 = MIB;
    assert!((BOMB.len() as u64) < 2 * KIB);
    let clock = Clock::default();
    let server = Server::start(&clock, bomb);
    let (got, memory) = run(&clock, async {
        let client = chain(http(), retrying(policy()).buffer_body(LIMIT), &clock);
        let (end, response, _) = send(client.get(server.url())).await;
        clock.hold();
        let (mut response, mut read) = (response.unwrap(), 0);
        while read < 5 * LIMIT {
            read += response.chunk().await.unwrap().unwrap().len() as u64;
        }
        end
    });
    assert_eq!((got.back, got.attempts), (Back::Status(200), 1));
    let seen = server.finish();
    assert_eq!((seen.connections, seen.requests), (1, 1));
    assert!(seen.written < A_CONNECTION);
    assert_bounded("a bomb", memory, A_CLIENT + 3 * LIMIT);
}

#[test]
fn a_bomb_that_nobody_wants_is_let_go_at_the_limit() {
    is_let_go_and_resent("a bomb", async |mut it: Connection| {
        it.write(format!("HTTP/1.1 503 Service Unavailable\r\n{PACKED}")).await?;
        it.write(HEAD).await?;
        it.flood(&*BOMB).await
    });
}

/// There is never a byte that a limit could count: it is time that bounds them.
#[test]
fn packed_nothing_without_an_end_ends_at_the_limits() {
    is_let_go_in_time(
        "503",
        "HTTP/1.1 503 Service Unavailable\r\ncontent-encoding: gzip\r\n\r\n",
        async |mut it: Connection| {
            it.write(HEAD).await?;
            it.in_bursts(NOTHING.repeat(20)).await
        },
    );
    let (limit, clock) = (ms(5_000), Clock::default());
    let server = Server::start(&clock, async |mut it: Connection| {
        it.read_request().await?;
        it.write(format!("HTTP/1.1 200 OK\r\n{PACKED}")).await?;
        it.write(HEAD).await?;
        it.trickle(NOTHING.repeat(20)).await
    });
    let (got, memory) = run(&clock, async {
        let retry = retrying(policy().attempt_timeout(limit)).buffer_body(MIB);
        end(chain(http(), retry, &clock).get(server.url())).await
    });
    let (back, stop) = (Back::Fault(Timeout), StopReason::AttemptsExhausted);
    assert_eq!(got, End { back, attempts: 3, stop, after: 3 * limit + 2 * WAIT });
    assert_eq!(server.finish().requests, 3);
    assert_bounded("packed nothing", memory, A_CLIENT);
}

#[test]
fn what_was_never_packed_is_bad_data() {
    let clock = Clock::default();
    let server = Server::start(&clock, async |mut it: Connection| {
        it.read_request().await?;
        it.write(format!("HTTP/1.1 200 OK\r\n{PACKED}")).await?;
        it.flood([b'x'; 1_000]).await
    });
    let (got, _) = run(&clock, async {
        let client = chain(http(), retrying(policy()).buffer_body(MIB), &clock);
        end(client.get(server.url())).await
    });
    let (back, stop) = (Back::Fault(Decode), StopReason::Permanent);
    assert_eq!(got, End { back, attempts: 1, stop, after: ms(0) });
    assert_eq!(server.finish().requests, 1);
}
