//! The work that a frame may cause: `docs/FORMAT.md`, "Work".

use crate::error::FrameError;

/// Units that a frame may take for each byte of its block.
const PER_BYTE: u64 = 16;
/// Units that every frame may take.
const BASE: u64 = 1024;

/// Each operation, source, and zstd block that is written.
pub(super) const STEP: u64 = 16;
/// Each token, while no distance bends.
pub(super) const TOKEN: u64 = 1;
/// Each token that is read for itself: it is moved, skipped, or comes while distances bend.
pub(super) const SINGLE: u64 = 4;
/// Each description of a code.
pub(super) const DESCRIPTION: u64 = 512;
/// Each code that is built, beyond its description.
pub(super) const CODE: u64 = 2048;
/// Each sequence.
pub(super) const SEQUENCE: u64 = 4;
/// Each literal.
pub(super) const LITERAL: u64 = 1;
/// Each shift.
pub(super) const SHIFT: u64 = 4;

/// Counts the work of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    done: u64,
    limit: u64,
    is_exceeded: bool,
}

impl Work {
    /// For the frame of a block of this many bytes.
    pub(crate) fn of(block_len: usize) -> Work {
        Work { done: 0, limit: BASE + PER_BYTE * block_len as u64, is_exceeded: false }
    }

    /// Units so far, without what was refused.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Whether more was asked for than the frame may take.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Units that are left.
    pub(super) fn left(&self) -> u64 {
        self.limit - self.done
    }

    /// Adds `count` times so many units, before the work is done.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] if the frame takes more than it may.
    #[inline(always)]
    pub(super) fn add(&mut self, count: u64, units: u64) -> Result<(), FrameError> {
        let value = self.done.saturating_add(count.saturating_mul(units));
        if value > self.limit {
            self.is_exceeded = true;
            return Err(FrameError::TooLarge { field: "work", value, limit: self.limit });
        }
        self.done = value;
        Ok(())
    }
}
