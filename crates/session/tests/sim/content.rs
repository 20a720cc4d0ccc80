//! What applications send: quotes from a pool of documents, so that content repeats.

use crate::dice::Dice;

/// Documents that flows quote from.
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub(crate) fn new(dice: &mut Dice, documents: usize, len: usize) -> Pool {
        let words: Vec<Vec<u8>> = (0..200)
            .map(|_| (0..2 + dice.below(9)).map(|_| b'a' + dice.below(26) as u8).collect())
            .collect();
        let document = |dice: &mut Dice| {
            if dice.one_in(4) {
                return dice.bytes(len);
            }
            let mut text = Vec::with_capacity(len + 16);
            while text.len() < len {
                text.extend_from_slice(&words[dice.below(words.len())]);
                text.push(b" \n"[dice.below(2)]);
            }
            text.truncate(len);
            text
        };
        Pool((0..documents).map(|_| document(dice)).collect())
    }

    /// What one end of a flow sends: at most `most` bytes, and at least half of that as a rule if
    /// `large`.
    pub(crate) fn content(&self, dice: &mut Dice, most: usize, large: bool) -> Vec<u8> {
        match dice.below(10) {
            0 => Vec::new(),
            1 => {
                let len = 1 + dice.below(40);
                dice.bytes(len)
            }
            2 => {
                let len = dice.size(most);
                dice.bytes(len)
            }
            _ => {
                let len = if large { most / 2 + dice.below(most / 2) } else { dice.size(most) };
                let mut out = Vec::with_capacity(len);
                while out.len() < len {
                    let document = &self.0[dice.below(self.0.len())];
                    let start = if dice.one_in(2) { 0 } else { dice.below(document.len()) };
                    let take = (len - out.len()).min(document.len() - start);
                    let at = out.len();
                    out.extend_from_slice(&document[start..start + take]);
                    if dice.one_in(3) && take > 0 {
                        for _ in 0..1 + dice.below(5) {
                            let edit = at + dice.below(take);
                            out[edit] ^= 1 + dice.below(255) as u8;
                        }
                    }
                }
                out
            }
        }
    }
}

/// Bytes that do not repeat and are the same forever: the regression worlds depend on them.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect()
}
