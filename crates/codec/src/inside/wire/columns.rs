//! The columns of a residual of zstd blocks: `docs/FORMAT.md`, "Sequences of zstd".

use crate::error::FrameError;
use crate::format::varint;
use crate::inside::wire::clause::Clause;

/// Steps between places are smaller than this.
const MAX_STEP: u64 = 1 << 44;

/// Columns whose lengths are stated; `bytes` follows them.
pub(in crate::inside) const COLUMNS: usize = 5;

pub(in crate::inside) fn zigzag(value: i64) -> u64 {
    (value as u64) << 1 ^ (value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Columns of the residual.
pub(super) struct Residual<'a> {
    pub(super) control: &'a [u8],
    pub(super) lengths: &'a [u8],
    pub(super) matches: &'a [u8],
    pub(super) offsets: &'a [u8],
    pub(super) changes: &'a [u8],
    pub(super) bytes: &'a [u8],
}

pub(super) fn number(column: &mut &[u8]) -> Result<u64, FrameError> {
    varint::field(column, "transcoded literals")
}

pub(super) fn small(column: &mut &[u8]) -> Result<u32, FrameError> {
    u32::try_from(number(column)?).map_err(|_| Clause::Number.into())
}

pub(super) fn signed(column: &mut &[u8]) -> Result<i64, FrameError> {
    // Keeps sums from overflowing.
    Some(unzigzag(number(column)?))
        .filter(|value| value.unsigned_abs() < MAX_STEP)
        .ok_or_else(|| Clause::Signed.into())
}

pub(super) fn bytes<'a>(column: &mut &'a [u8], count: usize) -> Result<&'a [u8], FrameError> {
    let (front, rest) = column.split_at_checked(count).ok_or(Clause::ColumnEnd)?;
    *column = rest;
    Ok(front)
}

impl<'a> Residual<'a> {
    pub(super) fn new(mut all: &'a [u8]) -> Result<Residual<'a>, FrameError> {
        let mut lens = [0; COLUMNS];
        for len in &mut lens {
            *len = small(&mut all)? as usize;
        }
        let [control, lengths, matches, offsets, changes] = lens;
        Ok(Residual {
            control: bytes(&mut all, control)?,
            lengths: bytes(&mut all, lengths)?,
            matches: bytes(&mut all, matches)?,
            offsets: bytes(&mut all, offsets)?,
            changes: bytes(&mut all, changes)?,
            bytes: all,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        [self.control, self.lengths, self.matches, self.offsets, self.changes, self.bytes]
            .iter()
            .all(|column| column.is_empty())
    }
}
