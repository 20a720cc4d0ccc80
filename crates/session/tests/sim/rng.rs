//! Numbers and contents that follow from a seed.

use std::ops::Range;

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start).max(1)
    }

    /// Once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Of any order of magnitude up to `limit`.
    pub(crate) fn size(&mut self, limit: usize) -> usize {
        let bits = usize::BITS - limit.leading_zeros();
        let limit = limit.min(1 << self.below(bits as usize + 1));
        self.below(limit + 1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.next().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}

/// Documents that flows quote from.
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub(crate) fn new(rng: &mut Rng, documents: usize, len: usize) -> Pool {
        let words: Vec<Vec<u8>> = (0..200).map(|_| (0..2 + rng.below(9)).map(|_| b'a' + rng.below(26) as u8).collect()).collect();
        let document = |rng: &mut Rng| {
            if rng.one_in(4) {
                return rng.bytes(len);
            }
            let mut text = Vec::with_capacity(len + 16);
            while text.len() < len {
                text.extend_from_slice(&words[rng.below(words.len())]);
                text.push(b" \n"[rng.below(2)]);
            }
            text.truncate(len);
            text
        };
        Pool((0..documents).map(|_| document(rng)).collect())
    }

    /// What one end of a flow sends.
    pub(crate) fn content(&self, rng: &mut Rng, most: usize, large: bool) -> Vec<u8> {
        match rng.below(10) {
            0 => Vec::new(),
            1 => {
                let len = 1 + rng.below(40);
                rng.bytes(len)
            }
            2 => {
                let len = rng.size(most);
                rng.bytes(len)
            }
            _ => {
                let len = if large { most / 2 + rng.below(most / 2) } else { rng.size(most) };
                let mut out = Vec::with_capacity(len);
                while out.len() < len {
                    let document = &self.0[rng.below(self.0.len())];
                    let start = if rng.one_in(2) { 0 } else { rng.below(document.len()) };
                    let take = (len - out.len()).min(document.len() - start);
                    let at = out.len();
                    out.extend_from_slice(&document[start..start + take]);
                    if rng.one_in(3) && take > 0 {
                        for _ in 0..1 + rng.below(5) {
                            let edit = at + rng.below(take);
                            out[edit] ^= 1 + rng.below(255) as u8;
                        }
                    }
                }
                out
            }
        }
    }
}
