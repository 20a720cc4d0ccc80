//! A candidate is anything that turns blocks into wire bytes and back.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::ops::Range;

/// Details of a pass that only our codec has.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Details {
    pub(super) matches: u64,
    pub(super) mean_match_bytes: Option<f64>,
    /// Achieved sampling rate where markers were sought.
    pub(super) bytes_per_fingerprint: Option<f64>,
    pub(super) false_hits: u64,
    pub(super) incompressible_blocks: u64,
    /// Bytes of deflate streams and zstd blocks that were taken apart, and bytes of them that were
    /// found only so.
    pub(super) opened_bytes: u64,
    pub(super) token_bytes: u64,
}

/// One way to send blocks. Each run creates a new one; the passes of a run share it.
pub(super) trait Candidate {
    /// Encodes `data` in blocks of `block` bytes. `last` marks the last pass.
    fn encode(&mut self, data: &[u8], block: usize, last: bool, wire: &mut Wire) -> Outcome;

    /// Decodes the output of [`Candidate::encode`] of the same pass, `len` bytes in blocks of
    /// `block`, and compares it with `check` if given.
    fn decode(&mut self, wire: &Wire, len: usize, block: usize, check: Option<&[u8]>) -> Outcome;

    /// Whether there is anything to decode.
    fn decodes(&self) -> bool {
        true
    }

    /// Touches the memory it will use.
    fn prefault(&mut self) -> Outcome {
        Ok(())
    }

    /// Memory of encoder and decoder in bytes, after use.
    fn memory(&self) -> (usize, usize);

    /// Details of the pass that only our codec has.
    fn details(&self) -> Option<Details> {
        None
    }
}

/// The wire: bytes in memory that was touched before, and where each block's bytes end.
///
/// Parts that lie in the block itself are recorded, not copied, as in a vectored write to a socket;
/// [`Wire::flatten`] copies them into place after the clock has stopped.
pub(super) struct Wire {
    bytes: Vec<u8>,
    /// Flattened content goes here, and the two are swapped, so that both stay touched.
    spare: Vec<u8>,
    pieces: Vec<Piece>,
    ends: Vec<usize>,
    /// Bytes that were counted but not written.
    counted: usize,
}

enum Piece {
    /// Up to here of what was written.
    Written(usize),
    /// This part of the data.
    Data(Range<usize>),
}

impl Wire {
    pub(super) fn new(len: usize) -> Wire {
        // An allocation of zeros would not be touched until written.
        let touched = || {
            let mut bytes = vec![1; len + len / 16 + (1 << 20)];
            bytes.clear();
            bytes
        };
        Wire {
            bytes: touched(),
            spare: touched(),
            pieces: Vec::with_capacity(1 << 16),
            ends: Vec::with_capacity(1 << 16),
            counted: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
        self.ends.clear();
        self.counted = 0;
    }

    /// Counts bytes of a candidate that produces figures only.
    pub(super) fn count(&mut self, bytes: usize) {
        self.counted += bytes;
    }

    /// The buffer to append to.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a block's bytes.
    pub(super) fn end_block(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Appends a part without copying it if it lies in `data`.
    pub(super) fn part(&mut self, part: &[u8], data: &[u8]) {
        let (start, begin) = (part.as_ptr() as usize, data.as_ptr() as usize);
        if !part.is_empty() && (begin..begin + data.len()).contains(&start) {
            self.pieces.push(Piece::Written(self.bytes.len()));
            self.pieces.push(Piece::Data(start - begin..start - begin + part.len()));
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Copies the recorded parts of `data` into place.
    pub(super) fn flatten(&mut self, data: &[u8]) {
        if self.pieces.is_empty() {
            return;
        }
        self.spare.clear();
        let mut done = 0;
        for piece in self.pieces.drain(..) {
            match piece {
                Piece::Written(end) => {
                    self.spare.extend_from_slice(&self.bytes[done..end]);
                    done = end;
                }
                Piece::Data(range) => self.spare.extend_from_slice(&data[range]),
            }
        }
        self.spare.extend_from_slice(&self.bytes[done..]);
        std::mem::swap(&mut self.bytes, &mut self.spare);
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.counted
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Each block's bytes, if [`Wire::end_block`] was used throughout.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let block = &self.bytes[start..end];
            start = end;
            block
        })
    }
}

/// Compares a decoded part with the original.
pub(super) fn compare(decoded: &[u8], at: usize, check: Option<&[u8]>, name: &str) -> Outcome {
    match check {
        Some(data) if data.get(at..at + decoded.len()) != Some(decoded) => Err(Failure::failed(
            format!("{name} returned wrong bytes near offset {at}: please report this"),
        )),
        _ => Ok(()),
    }
}
