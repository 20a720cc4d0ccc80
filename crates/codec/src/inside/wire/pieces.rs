//! Zstd blocks that something divides, such as frames of HTTP/2: sources in several pieces of the
//! log, and written blocks with other bytes between their pieces. `docs/FORMAT.md`, "Sequences of
//! zstd".

use crate::error::FrameError;
use crate::inside::wire::clause::Clause;
use crate::inside::wire::columns::{number, signed};
use crate::inside::wire::work::{JOINED, Work};
use crate::limits::MAX_BLOCK;
use std::ops::Range;

/// Most zstd blocks that a frame may name. A reader keeps the tables after each.
pub(in crate::inside) const MAX_NAMED: usize = 64;

/// Most bytes of the sources that are in pieces.
pub(in crate::inside) const MAX_JOINED: usize = 1 << 19;
/// Most written blocks of which a piece is still to come.
pub(in crate::inside) const MAX_OPEN: usize = 8;
/// The kind of a source that the next one continues.
pub(in crate::inside) const CONTINUED: u64 = 4;

/// What is stated about a zstd block of the sources.
#[derive(Debug)]
pub(super) struct Stated {
    /// Its sources: more than one if it is in pieces.
    pieces: Range<usize>,
    /// Its bytes in [`Joined`], if it is in pieces.
    joined: Range<usize>,
    /// It takes no tables from the block before it.
    pub(super) is_fresh: bool,
    /// Distance of its content from that of the block before; `None` if it gives tables only.
    pub(super) step: Option<i64>,
}

/// Reads what is stated about the blocks of these sources.
pub(super) fn read(sources: &[&[u8]], control: &mut &[u8]) -> Result<Vec<Stated>, FrameError> {
    let mut all = Vec::with_capacity(sources.len().min(MAX_NAMED));
    let (mut first, mut len, mut joined) = (0, 0, 0);
    for (nth, source) in sources.iter().enumerate() {
        let kind = number(control)?;
        len += source.len();
        if kind == CONTINUED {
            continue;
        }
        if kind > CONTINUED {
            return Err(Clause::Kind.into());
        }
        if all.len() == MAX_NAMED {
            let (value, limit) = (MAX_NAMED as u64 + 1, MAX_NAMED as u64);
            return Err(FrameError::TooLarge { field: "zstd blocks", value, limit });
        }
        let pieces = first..nth + 1;
        let end = if pieces.len() > 1 { joined + len } else { joined };
        let step = if kind < 2 { Some(signed(control)?) } else { None };
        all.push(Stated { pieces, joined: joined..end, is_fresh: kind & 1 == 1, step });
        (first, len, joined) = (nth + 1, 0, end);
    }
    if first < sources.len() {
        return Err(Clause::Continued.into());
    }
    if joined > MAX_JOINED {
        return Err(Clause::Joined.into());
    }
    Ok(all)
}

/// The content of blocks in pieces. Kept between frames for its memory.
#[derive(Debug, Default)]
pub(super) struct Joined(Vec<u8>);

impl Joined {
    /// Memory in bytes, at most.
    pub(super) const MEMORY: usize = MAX_JOINED;

    pub(super) fn memory(&self) -> usize {
        self.0.capacity()
    }

    /// Joins the pieces. Adds the work that it takes.
    pub(super) fn join(
        &mut self,
        sources: &[&[u8]],
        all: &[Stated],
        work: &mut Work,
    ) -> Result<(), FrameError> {
        self.0.clear();
        for Stated { pieces, joined, .. } in all.iter().filter(|of| !of.joined.is_empty()) {
            work.add(joined.len().div_ceil(JOINED) as u64, 1)?;
            if self.0.capacity() == 0 {
                // A buffer that grows could take twice as much.
                self.0.reserve_exact(MAX_JOINED);
            }
            sources[pieces.clone()].iter().for_each(|piece| self.0.extend_from_slice(piece));
        }
        Ok(())
    }

    /// The content of a block.
    pub(super) fn block<'a>(&'a self, sources: &[&'a [u8]], of: &Stated) -> &'a [u8] {
        if of.joined.is_empty() { sources[of.pieces.start] } else { &self.0[of.joined.clone()] }
    }
}

/// Written blocks of which a piece is still to come, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Of each, its bytes, and how many of these are taken.
    blocks: Vec<(Vec<u8>, usize)>,
    /// Bytes that are still to come.
    left: usize,
}

impl Open {
    /// Memory in bytes, at most: all of it is literals of one block of the codec.
    pub(super) const MEMORY: usize = MAX_BLOCK + 2 * MAX_OPEN * size_of::<(Vec<u8>, usize)>();

    pub(super) fn memory(&self) -> usize {
        self.blocks.iter().map(|(block, _)| block.capacity()).sum()
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.left = 0;
    }

    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a block, which must fit in `room`.
    pub(super) fn add(&mut self, block: &[u8], room: usize) -> Result<(), FrameError> {
        if self.blocks.len() == MAX_OPEN {
            return Err(Clause::Open.into());
        }
        if block.is_empty() || block.len() > room {
            return Err(Clause::BlockLength.into());
        }
        self.left += block.len();
        self.blocks.push((block.to_vec(), 0));
        Ok(())
    }

    /// Bytes of `len` literals that other bytes may take, after those in `out`.
    pub(super) fn room(&self, len: usize, out: &[u8]) -> usize {
        len - out.len() - self.left
    }

    /// Appends the next `count` bytes of the `nth` block to `out`, or all that are left if that is 0.
    pub(super) fn take(
        &mut self,
        nth: usize,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let (block, taken) = self.blocks.get_mut(nth).ok_or(Clause::Missing)?;
        let left = &block[*taken..];
        if count >= left.len() {
            return Err(Clause::Piece.into());
        }
        let piece = if count == 0 { left } else { &left[..count] };
        out.extend_from_slice(piece);
        self.left -= piece.len();
        *taken += count;
        if count == 0 {
            self.blocks.remove(nth);
        }
        Ok(())
    }
}
