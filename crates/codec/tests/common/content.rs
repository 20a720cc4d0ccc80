//! Synthetic content: random bytes, text, runs, and repeats of earlier content.

use oncewire_kernels::random::SplitMix64;
use proptest::prelude::*;

/// Tests chose their samples from this sequence (texts that compress, frames of each kind), so do
/// not change it.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(SplitMix64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Incompressible bytes.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(&rng.next().to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Lines of words from an invented language: a few short words are frequent, many long words rare.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut out = Vec::with_capacity(len + 32);
    while out.len() < len {
        // The product of two uniform numbers favors 0, as word frequencies do.
        let word = rng.below(60) * rng.below(60);
        let mut letters = Rng::new(word as u64);
        for _ in 0..2 + letters.below(4) + word / 700 {
            out.push(b"etaoinshrdlcumwfgypbvkjxqz"[letters.below(26).min(letters.below(26))]);
        }
        out.push(if rng.one_in(12) { b'\n' } else { b' ' });
        if rng.one_in(40) {
            out.extend_from_slice(rng.below(100_000).to_string().as_bytes());
        }
    }
    out.truncate(len);
    out
}

/// A part of a block.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Noise {
        seed: u64,
        len: Len,
    },
    Text {
        seed: u64,
        len: Len,
    },
    /// The same few bytes repeated.
    Run {
        period: usize,
        len: Len,
    },
    /// Earlier content, starting at the given position.
    Repeat {
        from: Fraction,
        len: Len,
    },
    /// Earlier content with a byte changed now and then.
    Edited {
        from: Fraction,
        len: Len,
        gap: usize,
        seed: u64,
    },
    /// Roughly the oldest content that a log of this size still holds.
    Oldest {
        slack: i32,
        len: Len,
    },
}

/// A length in bytes, or in thousandths of the largest block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Len {
    Bytes(usize),
    OfBlock(usize),
}

impl Len {
    fn of(self, max_block: usize) -> usize {
        match self {
            Len::Bytes(bytes) => bytes,
            Len::OfBlock(thousandths) => (max_block * thousandths).div_ceil(1000),
        }
    }
}

/// A position, in 2^16ths of all earlier content.
pub(crate) type Fraction = u16;

fn len() -> impl Strategy<Value = Len> {
    prop_oneof![
        (0usize..100).prop_map(Len::Bytes),
        (0usize..300).prop_map(Len::OfBlock),
        (0usize..=1000).prop_map(Len::OfBlock),
        Just(Len::OfBlock(1000)),
    ]
}

pub(crate) fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        2 => (any::<u64>(), len()).prop_map(|(seed, len)| Piece::Noise { seed, len }),
        3 => (0u64..50, len()).prop_map(|(seed, len)| Piece::Text { seed, len }),
        1 => (prop_oneof![Just(1usize), Just(2), Just(3), Just(7), 1usize..100], len())
            .prop_map(|(period, len)| Piece::Run { period, len }),
        4 => (any::<Fraction>(), len()).prop_map(|(from, len)| Piece::Repeat { from, len }),
        4 => (any::<Fraction>(), len(), 1usize..400, any::<u64>())
            .prop_map(|(from, len, gap, seed)| Piece::Edited { from, len, gap, seed }),
        2 => (-300i32..300, len()).prop_map(|(slack, len)| Piece::Oldest { slack, len }),
    ]
}

/// All content so far, with the current block at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) bytes: Vec<u8>,
}

impl History {
    /// Appends a block of `pieces`, at most `max_block` bytes long, and returns it.
    pub(crate) fn block(&mut self, pieces: &[Piece], max_block: usize, cache: u64) -> Vec<u8> {
        let start = self.bytes.len();
        for piece in pieces {
            self.append(piece, max_block, cache);
        }
        self.bytes.truncate(start + max_block);
        self.bytes[start..].to_vec()
    }

    fn append(&mut self, piece: &Piece, max_block: usize, cache: u64) {
        match *piece {
            Piece::Noise { seed, len } => {
                self.bytes.extend_from_slice(&noise(seed, len.of(max_block)))
            }
            Piece::Text { seed, len } => {
                self.bytes.extend_from_slice(&text(seed, len.of(max_block)))
            }
            Piece::Run { period, len } => {
                let len = len.of(max_block);
                let unit = text(period as u64, period);
                self.bytes.extend(unit.iter().cycle().take(len));
            }
            Piece::Repeat { from, len } => {
                let from = (self.bytes.len() * usize::from(from)) >> 16;
                self.copy(from, len.of(max_block));
            }
            Piece::Edited { from, len, gap, seed } => {
                let start = self.bytes.len();
                self.copy((start * usize::from(from)) >> 16, len.of(max_block));
                let mut rng = Rng::new(seed);
                let mut at = start + rng.below(gap);
                while at < self.bytes.len() {
                    self.bytes[at] = self.bytes[at].wrapping_add(1 + rng.below(5) as u8);
                    at += 1 + rng.below(2 * gap);
                }
            }
            Piece::Oldest { slack, len } => {
                let from = self.bytes.len() as i64 - cache as i64 + i64::from(slack);
                self.copy(
                    usize::try_from(from).unwrap_or(0).min(self.bytes.len()),
                    len.of(max_block),
                );
            }
        }
    }

    fn copy(&mut self, from: usize, len: usize) {
        let to = from.saturating_add(len).min(self.bytes.len());
        self.bytes.extend_from_within(from..to);
    }
}
