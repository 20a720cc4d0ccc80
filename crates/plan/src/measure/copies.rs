//! How often content is repeated.

use std::collections::HashMap;

use super::Piece;

/// Bytes of content that are counted together.
const BLOCK: u64 = 64;
/// Of so many blocks, one is counted: the counts take a small part of what the store does.
const EACH: u64 = 8;
/// Blocks from which on those that have left the store are looked for.
const MANY: usize = 1 << 16;

/// Repeats of some of the content of each ingress's store.
#[derive(Default)]
pub(super) struct Copies {
    /// Per ingress and number of a block.
    blocks: HashMap<(u32, u64), u32>,
    /// Blocks after which the next look is taken.
    next: usize,
    repeats: u64,
    earlier: u64,
}

impl Copies {
    /// A piece of a packet repeats these bytes of the store.
    pub(super) fn repeat(&mut self, ingress: u32, piece: &Piece, counts: bool) {
        let first = piece.source.div_ceil(BLOCK).next_multiple_of(EACH);
        let end = (piece.source + piece.len as u64) / BLOCK;
        for block in (first..end).step_by(EACH as usize) {
            let before = self.blocks.entry((ingress, block)).or_default();
            if counts {
                self.repeats += 1;
                self.earlier += u64::from(*before);
            }
            *before += 1;
        }
    }

    /// Content before this offset has left the ingress's store.
    pub(super) fn forget(&mut self, ingress: u32, floor: u64) {
        if self.blocks.len() > self.next.max(MANY) {
            self.blocks.retain(|&(of, block), _| of != ingress || block * BLOCK >= floor);
            self.next = 2 * self.blocks.len();
        }
    }

    /// How often the bytes of a match had been repeated before, on average.
    pub(super) fn mean(&self) -> f64 {
        if self.repeats == 0 { 0.0 } else { self.earlier as f64 / self.repeats as f64 }
    }
}
