//! HTTP/2 in a flow: which of its bytes belong to which stream. Frames of different streams
//! interleave, so each stream has an opener of its own. Only the content of DATA frames is opened.

use crate::inside::follow::opener::Opener;
use crate::inside::follow::streams::StreamCounts;

/// Most streams of a connection that are followed at once; the least recently used is dropped.
pub(in crate::inside) const MOST_STREAMS: usize = 8;
/// Longer frames are taken for something else. Nearly all senders stay with 16 KiB.
const MAX_FRAME: u64 = 1 << 20;
/// Shorter DATA frames do not prove a connection whose beginning was not seen.
const MIN_FRAME: u64 = 64;
/// Nor do streams with greater numbers: few connections have half a million requests.
const MOST_LIKELY: u32 = 1 << 20;
/// The first bytes of a client: RFC 9113, section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most settings of the frame that begins a connection. RFC 9113 and later ones define ten.
const MAX_SETTINGS: u64 = 32;

/// Types of frames: RFC 9113, section 6.
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const PRIORITY: u8 = 2;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PUSH_PROMISE: u8 = 5;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;
    /// The last type that a few later RFCs define.
    pub(super) const LAST: u8 = 0x10;
}

/// Flag of DATA frames: RFC 9113, section 6.1.
const PADDED: u8 = 8;

/// The header of a frame: RFC 9113, section 4.1.
#[derive(Clone, Copy, Debug)]
struct FrameHeader {
    len: u64,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHeader {
    const LEN: usize = 9;

    fn of(&[a, b, c, kind, flags, s, t, u, v]: &[u8; FrameHeader::LEN]) -> FrameHeader {
        let len = u64::from(u32::from_be_bytes([0, a, b, c]));
        FrameHeader { len, kind, flags, stream: u32::from_be_bytes([s, t, u, v]) & (u32::MAX >> 1) }
    }

    /// Whether a connection may have such a frame.
    fn is_plausible(&self) -> bool {
        let on_stream = self.stream > 0;
        self.len <= MAX_FRAME
            && match self.kind {
                kind::DATA | kind::HEADERS | kind::CONTINUATION => on_stream,
                kind::PRIORITY => on_stream && self.len == 5,
                kind::RST_STREAM => on_stream && self.len == 4,
                kind::PUSH_PROMISE => on_stream && self.len >= 4,
                kind::SETTINGS => !on_stream && self.len.is_multiple_of(6),
                kind::PING => !on_stream && self.len == 8,
                kind::GOAWAY => !on_stream && self.len >= 8,
                kind::WINDOW_UPDATE => self.len == 4,
                other => other <= kind::LAST,
            }
    }
}

/// The DATA frame whose content begins after `content`, if any, as its stream and the bytes left of
/// it: the content itself begins, or a message of gRPC, which a flag and its length precede.
pub(in crate::inside) fn data_before(content: &[u8]) -> Option<(u32, u64)> {
    let header = |content: &[u8]| {
        let frame = FrameHeader::of(content.last_chunk()?);
        // Streams of clients have odd numbers.
        let is_number = frame.stream % 2 == 1 && frame.stream < MOST_LIKELY;
        let fits = frame.kind == kind::DATA && frame.flags & !1 == 0 && is_number;
        (fits && (MIN_FRAME..=MAX_FRAME).contains(&frame.len)).then_some(frame)
    };
    let message = || match content.split_last_chunk::<5>() {
        Some((content, [1, ..])) => header(content).map(|frame| (frame, 5)),
        _ => None,
    };
    let (frame, used) = header(content).map(|frame| (frame, 0)).or_else(message)?;
    Some((frame.stream, frame.len - used))
}

/// Position in the frames of a connection.
#[derive(Clone, Copy, Debug)]
enum At {
    Header,
    /// At the length of the padding of a DATA frame, with `left` bytes from there on.
    PadLength {
        left: u64,
        stream: u32,
    },
    /// In the content of a DATA frame, which `padding` follows.
    Data {
        left: u64,
        padding: u64,
        stream: u32,
    },
    /// In something that is not opened.
    Skipped {
        left: u64,
    },
}

/// What the next bytes are.
pub(in crate::inside) enum Next {
    /// So many are not opened.
    Skip(usize),
    /// So many are content of a stream: [`Connection::stream`].
    Content { len: usize, stream: u32 },
    /// These are no frames.
    Lost,
}

/// A connection of HTTP/2, in one direction.
#[derive(Debug)]
pub(in crate::inside) struct Connection {
    at: At,
    /// The header of the current frame so far.
    header: Vec<u8>,
    /// The most recently used is last.
    streams: Vec<(u32, Box<Opener>)>,
    /// Of streams that ended.
    counts: StreamCounts,
}

impl Connection {
    /// Memory in bytes without the openers, at most. The list grows by doubling.
    pub(in crate::inside) const MEMORY: usize = size_of::<Connection>()
        + 2 * FrameHeader::LEN
        + MOST_STREAMS * 2 * size_of::<(u32, Box<Opener>)>();

    /// Streams that have an opener.
    pub(in crate::inside) fn streams(&self) -> usize {
        self.streams.len()
    }

    pub(in crate::inside) fn has(&self, stream: u32) -> bool {
        self.nth(stream).is_some()
    }

    /// Drops the least recently used stream, if there is any.
    pub(in crate::inside) fn drop_stream(&mut self) {
        if !self.streams.is_empty() {
            self.drop_nth(0);
        }
    }

    fn at(at: At) -> Connection {
        let (header, streams) = (Vec::new(), Vec::new());
        Connection { at, header, streams, counts: StreamCounts::default() }
    }

    /// The connection that begins with `content`, the first bytes of a flow, and how many of these
    /// to skip.
    pub(in crate::inside) fn beginning(content: &[u8]) -> Option<(Connection, usize)> {
        let preface = if content.starts_with(PREFACE) { PREFACE.len() } else { 0 };
        let frame = content[preface..].first_chunk().map(FrameHeader::of);
        let is_settings = |frame: FrameHeader| {
            let FrameHeader { kind, flags, len, .. } = frame;
            frame.is_plausible() && kind == kind::SETTINGS && flags == 0 && len <= 6 * MAX_SETTINGS
        };
        // A client's settings may come in a block of their own.
        let is_there = frame.map_or(preface > 0, is_settings);
        is_there.then(|| (Connection::at(At::Header), preface))
    }

    /// The connection around a DATA frame of which `left` bytes are left, and the opener of its
    /// stream, which is there.
    pub(in crate::inside) fn around(stream: u32, left: u64, opener: Opener) -> Connection {
        let at = At::Data { left, padding: 0, stream };
        let mut connection = Connection::at(at);
        connection.streams.push((stream, Box::new(opener)));
        connection
    }

    /// Goes over the next bytes, as far as they are of one kind.
    pub(in crate::inside) fn step(&mut self, content: &[u8]) -> Next {
        let taken = |left: &mut u64| {
            let len = content.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= len as u64;
            len
        };
        match &mut self.at {
            At::Header => {
                let missing = FrameHeader::LEN - self.header.len();
                let len = missing.min(content.len());
                self.header.extend_from_slice(&content[..len]);
                let Some(frame) = self.header.first_chunk().map(FrameHeader::of) else {
                    return Next::Skip(len);
                };
                self.header.clear();
                if !frame.is_plausible() {
                    return Next::Lost;
                }
                self.enter(frame);
                Next::Skip(len)
            }
            At::PadLength { left, stream } => {
                let (padding, stream) = (u64::from(content[0]), *stream);
                let Some(left) = (*left - 1).checked_sub(padding) else { return Next::Lost };
                self.at = At::Data { left, padding, stream };
                self.end_frame();
                Next::Skip(1)
            }
            At::Data { left, stream, .. } => {
                let next = Next::Content { len: taken(left), stream: *stream };
                self.end_frame();
                next
            }
            At::Skipped { left } => {
                let next = Next::Skip(taken(left));
                self.end_frame();
                next
            }
        }
    }

    /// The header of a frame is over.
    fn enter(&mut self, frame: FrameHeader) {
        let FrameHeader { len: left, kind, flags, stream } = frame;
        self.at = match kind {
            kind::DATA if flags & PADDED != 0 && left > 0 => At::PadLength { left, stream },
            kind::DATA => At::Data { left, padding: 0, stream },
            kind::RST_STREAM => {
                if let Some(nth) = self.nth(stream) {
                    self.drop_nth(nth);
                }
                At::Skipped { left }
            }
            _ => At::Skipped { left },
        };
        self.end_frame();
    }

    /// Goes on with what follows the current part of a frame, if that is over.
    fn end_frame(&mut self) {
        match self.at {
            At::Data { left: 0, padding: left, .. } if left > 0 => self.at = At::Skipped { left },
            At::Data { left: 0, .. } => self.at = At::Header,
            At::Skipped { left: 0 } => self.at = At::Header,
            _ => {}
        }
    }

    fn nth(&self, stream: u32) -> Option<usize> {
        self.streams.iter().rposition(|(known, _)| *known == stream)
    }

    /// The opener of a stream. If there are too many, the least recently used is dropped.
    pub(in crate::inside) fn stream(&mut self, stream: u32) -> &mut Opener {
        match self.nth(stream) {
            Some(nth) => self.streams[nth..].rotate_left(1),
            None => {
                if self.streams.len() == MOST_STREAMS {
                    self.drop_nth(0);
                }
                self.streams.push((stream, Box::new(Opener::of_stream())));
            }
        }
        let last = self.streams.len() - 1;
        &mut self.streams[last].1
    }

    fn drop_nth(&mut self, nth: usize) {
        let (_, mut opener) = self.streams.remove(nth);
        self.counts += std::mem::take(&mut opener.counts);
    }

    /// Takes the counts of all streams.
    pub(in crate::inside) fn take_counts(&mut self) -> StreamCounts {
        let mut counts = std::mem::take(&mut self.counts);
        for (_, opener) in &mut self.streams {
            counts += std::mem::take(&mut opener.counts);
        }
        counts
    }
}
