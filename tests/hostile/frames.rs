//! HTTP/2 frames as bytes (RFC 9113 4 and 6), and a server's end of a connection by them.

use std::io;

use crate::server::Connection;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Settings (6.5.2).
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

const PREFACE_LENGTH: usize = 24;
const HEAD_LENGTH: usize = 9;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, l0, l1, l2] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![l0, l1, l2, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A head: its status, and fields by a block of theirs.
pub(crate) fn head(status: u16, flags: u8, stream: u32, fields: &[u8]) -> Vec<u8> {
    // A literal field without indexing, named by entry 8: ":status".
    let block = [&[0x08, 3], status.to_string().as_bytes(), fields].concat();
    frame(HEADERS, flags, stream, &block)
}

/// A literal field without indexing, of a short name and a value of less than 127 bytes.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

pub(crate) fn reset(stream: u32, reason: h2::Reason) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &u32::from(reason).to_be_bytes())
}

pub(crate) fn go_away(last: u32, reason: h2::Reason) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), u32::from(reason).to_be_bytes()].concat())
}

impl Connection {
    /// Reads the preface, and says these settings.
    pub(crate) async fn greet(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        self.take(PREFACE_LENGTH).await?;
        let settings = settings
            .iter()
            .flat_map(|(id, value)| id.to_be_bytes().into_iter().chain(value.to_be_bytes()));
        self.write(frame(SETTINGS, 0, 0, &settings.collect::<Vec<_>>())).await
    }

    /// Reads up to the next head, and gives its stream.
    pub(crate) async fn read_stream(&mut self) -> io::Result<u32> {
        loop {
            let (kind, stream) = self.next_frame().await?;
            if kind == HEADERS {
                self.count_request();
                return Ok(stream);
            }
        }
    }

    async fn next_frame(&mut self) -> io::Result<(u8, u32)> {
        const ACK: u8 = 1;
        let head = self.take(HEAD_LENGTH).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        self.take(usize::try_from(length).unwrap()).await?;
        let (kind, flags) = (head[3], head[4]);
        if kind == SETTINGS && flags & ACK == 0 {
            self.write(frame(SETTINGS, ACK, 0, &[])).await?;
        }
        Ok((kind, u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]])))
    }
}
