//! HTTP/2 frames as bytes (RFC 9113, 4 and 6), for what no well-behaved library would send.

use h2::Reason;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
const GOAWAY: u8 = 7;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub(crate) const PREFACE_LENGTH: usize = 24;
pub(crate) const HEAD_LENGTH: usize = 9;

/// The last stream that a GOAWAY says it has processed, or might.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Last {
    None,
    /// That of the request.
    This,
    /// All that there can be: a graceful shutdown begins with it.
    Any,
}

/// A frame that a server sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frame {
    Head {
        status: u16,
        end: bool,
    },
    Data(&'static [u8]),
    Reset(Reason),
    GoAway(Last, Reason),
    /// Headers where none may be: on stream 0.
    HeadOfNoStream,
    /// Headers that refer to an entry that no table has.
    BadHead,
    /// Headers that can be read, and say no status.
    HeadWithoutStatus,
}

impl Frame {
    pub(crate) fn encode(self, stream: u32) -> Vec<u8> {
        match self {
            Self::Head { status, end } => {
                // A literal field without indexing, named by entry 8: ":status".
                let mut block = vec![0x08, 3];
                block.extend(status.to_string().bytes());
                let flags = END_HEADERS | if end { END_STREAM } else { 0 };
                frame(HEADERS, flags, stream, &block)
            }
            Self::Data(bytes) => frame(DATA, 0, stream, bytes),
            Self::Reset(reason) => frame(RST_STREAM, 0, stream, &u32::from(reason).to_be_bytes()),
            Self::GoAway(last, reason) => {
                let last: u32 = match last {
                    Last::None => 0,
                    Last::This => stream,
                    Last::Any => (1 << 31) - 1,
                };
                let payload = [last.to_be_bytes(), u32::from(reason).to_be_bytes()].concat();
                frame(GOAWAY, 0, 0, &payload)
            }
            Self::HeadOfNoStream => frame(HEADERS, END_HEADERS, 0, &[0x88]),
            Self::HeadWithoutStatus => {
                // A literal field without indexing, with a new name: "x: y".
                frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x00\x01x\x01y")
            }
            Self::BadHead => frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0xff; 6]),
        }
    }
}

/// A frame that has arrived, without its payload.
pub(crate) struct Received {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    flags: u8,
}

impl Received {
    pub(crate) fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    pub(crate) fn is_ack(&self) -> bool {
        self.flags & ACK != 0
    }
}

/// The head of a frame, and the length of its payload.
pub(crate) fn parse_head(head: &[u8]) -> (Received, usize) {
    let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *head else {
        panic!("the head of a frame is {HEAD_LENGTH} bytes long, not {}", head.len());
    };
    let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
    (Received { kind, flags, stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]) }, length)
}

pub(crate) fn settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}

pub(crate) fn settings_ack() -> Vec<u8> {
    frame(SETTINGS, ACK, 0, &[])
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, l0, l1, l2] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![l0, l1, l2, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}
