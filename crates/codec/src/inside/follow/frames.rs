//! Finds the blocks of zstd frames in a flow: RFC 8878, section 3.1.1.

use std::ops::Range;

/// Magic number of a frame.
pub(in crate::inside) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes of the header of a block.
pub(in crate::inside) const BLOCK_HEADER: usize = 3;
/// Most pieces of a block in the log; a block with more is ignored. Most servers of HTTP/2 send
/// 8 or 16 KiB in a frame.
pub(in crate::inside) const MAX_PIECES: usize = 16;

/// Most zstd blocks that may end in a block of the codec; more are ignored.
const MAX_ENDED: usize = 1 << 9;

/// The type of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inside) enum Kind {
    /// Raw or RLE: it regenerates this many bytes.
    Plain(u32),
    Compressed,
}

/// A complete block of a zstd frame.
#[derive(Clone, Debug)]
pub(in crate::inside) struct Block {
    /// Its pieces in the log; empty if there are too many.
    pub(in crate::inside) pieces: Vec<Range<u64>>,
    pub(in crate::inside) kind: Kind,
    /// It is the first of its frame, or the first that was found.
    pub(in crate::inside) is_first: bool,
    /// It is the last one.
    pub(in crate::inside) is_last: bool,
    /// Its frame ends with a checksum.
    pub(in crate::inside) has_checksum: bool,
    /// The stream of HTTP/2 that carries it; 0 if there is none.
    pub(in crate::inside) stream: u32,
}

impl Block {
    /// Memory in bytes of the blocks that end in a block of the codec, at most.
    pub(in crate::inside) const MOST_MEMORY: usize =
        2 * MAX_ENDED * (size_of::<Block>() + 2 * MAX_PIECES * size_of::<Range<u64>>());

    /// Memory in bytes.
    pub(in crate::inside) fn memory(&self) -> usize {
        size_of::<Block>() + self.pieces.capacity() * size_of::<Range<u64>>()
    }
}

/// Position in a frame.
#[derive(Clone, Debug)]
pub(in crate::inside) enum Step {
    Header,
    BlockHeader,
    /// In a block with this many bytes left.
    Body {
        left: usize,
        kind: Kind,
        is_last: bool,
    },
    Checksum,
}

/// Position of a flow in a zstd frame.
#[derive(Clone, Debug)]
pub(in crate::inside) struct Frame {
    pub(in crate::inside) step: Step,
    has_checksum: bool,
    is_first: bool,
    /// Pieces of the current block so far.
    pieces: Vec<Range<u64>>,
}

/// Result of a step.
pub(in crate::inside) enum Next {
    /// Continue after this many bytes.
    At(usize),
    /// This many bytes were used, and more are needed.
    More(usize),
    /// The frame ended after this many bytes.
    End(usize),
    Broken,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame { step: Step::Header, has_checksum: false, is_first: true, pieces: Vec::new() }
    }
}

pub(in crate::inside::follow) fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Length of the frame header at the front of `data`; `None` if it is incomplete.
fn header_len(data: &[u8]) -> Option<usize> {
    let descriptor = *data.get(4)?;
    let is_single = descriptor >> 5 & 1;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
    Some(5 + usize::from(1 - is_single) + dictionary + content).filter(|&len| len <= data.len())
}

/// Length of the header of the frame that begins with these bytes, if one does.
pub(in crate::inside::follow) fn begins(data: &[u8]) -> Option<usize> {
    header_len(data).filter(|_| may_begin(data))
}

/// Whether a frame may begin with these bytes, which may be incomplete.
pub(in crate::inside) fn may_begin(data: &[u8]) -> bool {
    let is_magic = data.iter().zip(MAGIC).all(|(&byte, of)| byte == of);
    // The reserved bit, and dictionaries, whose tables are unknown.
    is_magic && data.get(4).is_none_or(|descriptor| descriptor & 0b1011 == 0)
}

impl Frame {
    /// Where a block of the codec ends best that holds the first `most` bytes of `content`, which
    /// follow in the frame: where the block of zstd begins that would be divided, if the next block
    /// of the codec can hold all of that. `None` if none is divided, as far as can be told.
    pub(in crate::inside) fn cut(&self, content: &[u8], most: usize) -> Option<usize> {
        let (mut at, mut has_checksum) = (0, self.has_checksum);
        // Where a frame begins, or went on, its next header is found.
        let begin = |at: usize| {
            let rest = content.get(at..).filter(|rest| may_begin(rest))?;
            Some((at + header_len(rest)?, rest[4] & 4 != 0))
        };
        match self.step {
            Step::Header => (at, has_checksum) = begin(0)?,
            Step::BlockHeader => {}
            Step::Body { left, is_last: false, .. } => at = left,
            Step::Body { left, is_last: true, .. } => {
                (at, has_checksum) = begin(left + 4 * usize::from(has_checksum))?;
            }
            Step::Checksum => (at, has_checksum) = begin(4)?,
        }
        while at < most {
            let head = content.get(at..at + 3).map(number)?;
            let (is_last, kind, len) = (head & 1 == 1, head >> 1 & 3, head >> 3);
            let end = at + 3 + if kind == 1 { 1 } else { len };
            if end > most {
                let fits = end - at <= most && kind == 2;
                return (fits && at > 0).then_some(at);
            }
            at = end;
            if is_last {
                (at, has_checksum) = begin(end + 4 * usize::from(has_checksum))?;
            }
        }
        None
    }

    /// At the header of a block in a frame whose beginning was not sent.
    pub(in crate::inside) fn middle() -> Frame {
        // A checksum is skipped like anything else between two frames.
        Frame { step: Step::BlockHeader, ..Frame::default() }
    }

    /// In a compressed block of which `before` in the log has been seen and `left` bytes follow.
    pub(in crate::inside) fn within(
        before: Range<u64>,
        left: usize,
        is_last: bool,
        has_checksum: bool,
    ) -> Frame {
        let step = match (left, is_last) {
            (0, false) => Step::BlockHeader,
            (0, true) => Step::Checksum,
            _ => Step::Body { left, kind: Kind::Compressed, is_last },
        };
        Frame { step, has_checksum, is_first: false, pieces: vec![before] }
    }

    /// Continues with `data`, at `at` in the log. Appends completed blocks to `blocks`.
    pub(in crate::inside) fn step(
        &mut self,
        data: &[u8],
        at: u64,
        blocks: &mut Vec<Block>,
    ) -> Next {
        match &mut self.step {
            Step::Header => {
                if !may_begin(data) {
                    return Next::Broken;
                }
                let Some(len) = header_len(data) else { return Next::More(0) };
                self.has_checksum = data[4] & 4 != 0;
                self.step = Step::BlockHeader;
                Next::At(len)
            }
            Step::BlockHeader => {
                let Some(head) = data.get(..3).map(number) else { return Next::More(0) };
                let len = head >> 3;
                let (left, kind) = match head >> 1 & 3 {
                    0 => (len, Kind::Plain(len as u32)),
                    1 => (1, Kind::Plain(len as u32)),
                    2 if len > 0 => (len, Kind::Compressed),
                    _ => return Next::Broken,
                };
                if len > crate::zstd_block::MAX_ZSTD_BLOCK {
                    return Next::Broken;
                }
                self.pieces.clear();
                self.step = Step::Body { left, kind, is_last: head & 1 == 1 };
                Next::At(3)
            }
            Step::Body { left, kind, is_last } => {
                let taken = (*left).min(data.len());
                *left -= taken;
                if taken > 0 && *kind == Kind::Compressed && self.pieces.len() <= MAX_PIECES {
                    let end = at + taken as u64;
                    match self.pieces.last_mut().filter(|last| last.end == at) {
                        Some(last) => last.end = end,
                        None => self.pieces.push(at..end),
                    }
                }
                if *left > 0 {
                    return Next::More(taken);
                }
                if blocks.len() == MAX_ENDED {
                    return Next::Broken;
                }
                let mut pieces = std::mem::take(&mut self.pieces);
                if pieces.len() > MAX_PIECES {
                    pieces.clear();
                }
                let is_first = std::mem::take(&mut self.is_first);
                let (is_last, has_checksum) = (*is_last, self.has_checksum);
                let kind = *kind;
                blocks.push(Block { pieces, kind, is_first, is_last, has_checksum, stream: 0 });
                if !is_last {
                    self.step = Step::BlockHeader;
                } else if has_checksum {
                    self.step = Step::Checksum;
                } else {
                    return Next::End(taken);
                }
                Next::At(taken)
            }
            Step::Checksum => {
                if data.len() < 4 {
                    Next::More(0)
                } else {
                    Next::End(4)
                }
            }
        }
    }
}
