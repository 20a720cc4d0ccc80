//! HTTP/2 in a flow: which of its bytes belong to which stream. Frames of different streams
//! interleave, so each stream has an opener of its own. Only the content of DATA frames is opened.

use crate::inside::follow::cut::Walks;
use crate::inside::follow::http2::{FrameHeader, PADDED, kind};
use crate::inside::follow::opener::Opener;
use crate::inside::follow::streams::StreamCounts;

/// Most streams of a connection that are followed at once; the least recently used is dropped.
pub(in crate::inside) const MOST_STREAMS: usize = 8;
/// The first bytes of a client: RFC 9113, section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most settings of the frame that begins a connection. RFC 9113 and later ones define ten.
const MAX_SETTINGS: u64 = 32;

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

    /// Where a block that holds the first `most` bytes of `content`, which follow in the connection,
    /// ends best: where a block of zstd begins that would be divided, if the next block can hold all
    /// of that. `None` if there is none, as far as can be told.
    pub(in crate::inside) fn cut(&self, content: &[u8], most: usize) -> Option<usize> {
        let mut walk = Connection { header: self.header.clone(), ..Connection::at(self.at) };
        let mut walks = Walks::default();
        let mut at = 0;
        while at < most {
            match walk.step(content.get(at..most)?) {
                Next::Skip(len) => at += len,
                Next::Content { len, stream } => {
                    let known = || self.streams[self.nth(stream)?].1.walk();
                    if !walks.pass(stream, known, &content[at..at + len], at) {
                        return None;
                    }
                    at += len;
                }
                Next::Lost => return None,
            }
        }
        walks.cut(most)
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
