//! Where blocks of zstd begin and end in the streams of an HTTP/2 connection, before these are read:
//! for [`Connection::cut`](crate::inside::follow::connection::Connection::cut).

use crate::inside::follow::frames::{BLOCK_HEADER, Frame, Step, begins, number};

/// Frames of HTTP/2 that are looked at, at most.
const MOST_FRAMES: usize = 512;

/// Position of a stream in a zstd frame.
#[derive(Clone, Debug)]
pub(in crate::inside::follow) struct Walk {
    /// Bytes until the header of the next block.
    left: usize,
    /// Bytes of that header so far.
    header: [u8; BLOCK_HEADER],
    seen: usize,
    is_last: bool,
    /// Where the current block begins, if that was seen, and whether it is compressed.
    start: Option<usize>,
    is_compressed: bool,
}

impl Walk {
    /// After `left` bytes a header follows, unless the block is the last one.
    fn new(left: usize, is_last: bool) -> Walk {
        let header = [0; BLOCK_HEADER];
        Walk { left, header, seen: 0, is_last, start: None, is_compressed: true }
    }

    /// Where a frame is, of which `carry` is seen but not read.
    pub(in crate::inside::follow) fn of(frame: &Frame, carry: &[u8]) -> Option<Walk> {
        match frame.step {
            Step::BlockHeader if carry.len() < BLOCK_HEADER => {
                let mut walk = Walk::new(0, false);
                walk.header[..carry.len()].copy_from_slice(carry);
                walk.seen = carry.len();
                Some(walk)
            }
            Step::Body { left, is_last, .. } => Some(Walk::new(left, is_last)),
            _ => None,
        }
    }

    /// Goes over a piece of the stream, at `at` of the content. Returns whether the frame continues.
    fn pass(&mut self, mut piece: &[u8], mut at: usize) -> bool {
        while !piece.is_empty() {
            let taken = if self.left > 0 {
                let taken = self.left.min(piece.len());
                self.left -= taken;
                taken
            } else if self.is_last {
                return false;
            } else {
                if self.seen == 0 {
                    self.start = Some(at);
                }
                let taken = (BLOCK_HEADER - self.seen).min(piece.len());
                self.header[self.seen..self.seen + taken].copy_from_slice(&piece[..taken]);
                self.seen += taken;
                if self.seen == BLOCK_HEADER {
                    let head = number(&self.header);
                    let (kind, len) = (head >> 1 & 3, head >> 3);
                    (self.is_last, self.is_compressed) = (head & 1 == 1, kind == 2);
                    self.left = if kind == 1 { 1 } else { len };
                    self.seen = 0;
                }
                taken
            };
            (piece, at) = (&piece[taken..], at + taken);
        }
        self.left > 0 || self.seen > 0 || !self.is_last
    }

    /// Whether it is within a block.
    fn is_open(&self) -> bool {
        self.left > 0 || self.seen > 0
    }
}

/// Positions of the streams of a connection.
#[derive(Debug, Default)]
pub(in crate::inside::follow) struct Walks {
    all: Vec<(u32, Option<Walk>)>,
    frames: usize,
}

impl Walks {
    /// Goes over content of a stream, which is at `at` of all. `known` is the stream's position
    /// before, if it is in a zstd frame. Returns whether to go on.
    pub(in crate::inside::follow) fn pass(
        &mut self,
        stream: u32,
        known: impl FnOnce() -> Option<Walk>,
        piece: &[u8],
        mut at: usize,
    ) -> bool {
        self.frames += 1;
        let nth = self.all.iter().position(|(of, _)| *of == stream).unwrap_or_else(|| {
            self.all.push((stream, known()));
            self.all.len() - 1
        });
        let walk = &mut self.all[nth].1;
        let mut rest = piece;
        if walk.is_none()
            && let Some(header) = begins(piece)
        {
            *walk = Some(Walk::new(0, false));
            (rest, at) = (&piece[header..], at + header);
        }
        let goes_on = walk.as_mut().is_some_and(|walk| walk.pass(rest, at));
        if !goes_on {
            *walk = None;
        }
        self.frames < MOST_FRAMES
    }

    /// Where a block of `most` bytes ends best, which the content that was passed fills. Where several
    /// blocks of zstd take turns, one of them is divided anyway.
    pub(in crate::inside::follow) fn cut(&self, most: usize) -> Option<usize> {
        let mut open =
            self.all.iter().filter_map(|(_, walk)| walk.as_ref()).filter(|of| of.is_open());
        let (Some(walk), None) = (open.next(), open.next()) else { return None };
        let at = walk.start.filter(|&at| at > 0 && walk.is_compressed)?;
        // What follows of it, and the frames around that.
        let left = walk.left + walk.left / 256 + 16;
        (most - at + left <= most).then_some(at)
    }
}
