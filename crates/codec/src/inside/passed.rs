//! Content of a flow that goes by without being looked at, because it is a repeat or because opening
//! is off.

use std::ops::Range;

/// Content of a flow that was not looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed {
    /// Where it lies in the log, in order; nothing if that is too much to be looked at later.
    pub(super) pieces: Vec<Range<u64>>,
    /// The last of these, which is known whatever their number.
    pub(super) last: Range<u64>,
    /// Bytes of all.
    pub(super) len: u64,
    /// Where what follows it lies in the log, if the log had that before.
    pub(super) source: Option<u64>,
    /// The log had not all of it before.
    pub(super) is_new: bool,
}

impl Passed {
    /// Pieces that are remembered.
    const MOST_PIECES: usize = 128;
    /// Bytes that are remembered: a stream that is longer goes on without being opened.
    const MOST: u64 = 4 << 20;
    /// Memory of the pieces in bytes, at most. The list grows by doubling.
    pub(super) const MEMORY: usize = 2 * Passed::MOST_PIECES * size_of::<Range<u64>>();

    /// The flow goes on with this piece of the log, which had that before up to `source`.
    pub(super) fn push(&mut self, piece: Range<u64>, source: Option<u64>) {
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
