//! The work that a frame may cost: `docs/FORMAT.md`, "Work".

use crate::error::FrameError;

/// Units that a frame may take for each byte of its block.
const PER_BYTE: u64 = 16;
/// Units that any frame may take.
const BASE: u64 = 1024;

/// For each operation, source, and piece of a zstd block that is written.
pub(in crate::inside) const STEP: u64 = 16;
/// For each token while there are no bends.
pub(in crate::inside) const TOKEN: u64 = 1;
/// For each token that is handled individually: moved, skipped, or copied while there are bends.
pub(in crate::inside) const SINGLE: u64 = 4;
/// For each description of a code.
pub(in crate::inside) const DESCRIPTION: u64 = 512;
/// For each code that is built, in addition to its description.
pub(in crate::inside) const CODE: u64 = 2048;
/// For each sequence.
pub(in crate::inside) const SEQUENCE: u64 = 4;
/// For each literal.
pub(in crate::inside) const LITERAL: u64 = 1;
/// Bytes of a zstd block in several sources that are joined for a unit.
pub(in crate::inside) const JOINED: usize = 16;
/// For each shift.
pub(in crate::inside) const SHIFT: u64 = 4;

/// Counts the work of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    done: u64,
    limit: u64,
    is_exceeded: bool,
}

impl Work {
    /// For a frame with a block of this many bytes.
    pub(crate) fn of(block_len: usize) -> Work {
        Work { done: 0, limit: BASE + PER_BYTE * block_len as u64, is_exceeded: false }
    }

    /// Units so far, without those refused.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Whether a request exceeded the limit.
    pub(in crate::inside) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Units available.
    pub(in crate::inside) fn left(&self) -> u64 {
        self.limit - self.done
    }

    /// Adds `count * units`, before the work is done.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] if that exceeds the limit.
    #[inline(always)]
    pub(in crate::inside) fn add(&mut self, count: u64, units: u64) -> Result<(), FrameError> {
        let value = self.done.saturating_add(count.saturating_mul(units));
        if value > self.limit {
            self.is_exceeded = true;
            return Err(FrameError::TooLarge { field: "work", value, limit: self.limit });
        }
        self.done = value;
        Ok(())
    }
}
