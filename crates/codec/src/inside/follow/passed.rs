//! Content of a flow that is skipped, because it is a repeat or because opening is off.

use std::ops::Range;

/// Skipped content of a flow.
#[derive(Clone, Debug, Default)]
pub(in crate::inside) struct Passed {
    /// Its places in the log, in order; empty if there is too much to open later.
    pub(in crate::inside) pieces: Vec<Range<u64>>,
    /// The last of these, known even if there are too many.
    pub(in crate::inside) last: Range<u64>,
    /// Total bytes.
    pub(in crate::inside) len: u64,
    /// Place in the log of what follows it, if the log had it before.
    pub(in crate::inside) source: Option<u64>,
    /// Part of it is new to the log.
    pub(in crate::inside) is_new: bool,
}

impl Passed {
    /// Most pieces that are kept.
    const MOST_PIECES: usize = 128;
    /// Most bytes that are kept: after more, the stream is not opened any more.
    const MOST: u64 = 4 << 20;
    /// Memory of the pieces in bytes, at most. The list grows by doubling.
    pub(in crate::inside) const MEMORY: usize = 2 * Passed::MOST_PIECES * size_of::<Range<u64>>();

    /// The flow continues with this piece of the log, which equals earlier content that ends at
    /// `source`.
    pub(in crate::inside) fn push(&mut self, piece: Range<u64>, source: Option<u64>) {
        self.source = source;
        self.is_new |= source.is_none();
        let is_first = self.len == 0;
        self.len += piece.end - piece.start;
        if !is_first && self.last.end == piece.start {
            self.last.end = piece.end;
            if let Some(last) = self.pieces.last_mut() {
                last.end = piece.end;
            }
        } else {
            self.last = piece.clone();
            if is_first || !self.pieces.is_empty() {
                self.pieces.push(piece);
            }
        }
        if self.len > Passed::MOST || self.pieces.len() > Passed::MOST_PIECES {
            self.pieces.clear();
        }
    }
}
