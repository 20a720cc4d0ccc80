//! Numbers and content from the input of a fuzz target.
#![allow(dead_code)] // Each user takes its part.

use std::ops::Range;

/// Takes numbers and bytes off the front of the input, then zeros when it is used up.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> usize {
        usize::from(self.u8()) | usize::from(self.u8()) << 8
    }

    pub(crate) fn u64(&mut self) -> u64 {
        (0..8).fold(0, |value, i| value | u64::from(self.u8()) << (8 * i))
    }

    /// At most `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (now, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        now
    }
}

/// Pseudorandom bytes, the same for the same seed. Corpus seeds depend on this sequence, so do not
/// change it.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Lines of a few words, with many bytes that are markers.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "the ", "state ", "is ", "ready\n", "log ", "of ", "200 ", "bytes ", "sent ", "in ", "3 ",
        "ms\n", "wire ", "once ", "GET ", "/index ",
    ];
    let picks = noise(seed ^ 0x7e87, len);
    picks.iter().flat_map(|pick| WORDS[usize::from(pick >> 4)].bytes()).take(len).collect()
}

/// Whether two ranges share an offset.
pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Appends a part of a block to `history`.
pub(crate) fn piece(input: &mut Input<'_>, history: &mut Vec<u8>) {
    let kind = input.u8();
    match kind % 6 {
        0 => {
            let len = input.u8().into();
            history.extend_from_slice(input.bytes(len));
        }
        1 => history.extend_from_slice(&text(input.u8().into(), input.u16() % 5000)),
        2 => history.extend_from_slice(&noise(input.u8().into(), input.u16() % 3000)),
        3 => {
            let (period, len) = (1 + usize::from(input.u8() % 16), input.u16());
            let unit = text(period as u64, period);
            history.extend(unit.iter().cycle().take(len));
        }
        _ => {
            let (back, len, edit) =
                (input.u16() * usize::from(1 + kind / 64), input.u16(), input.u16());
            let start = history.len();
            let from = start.saturating_sub(back);
            history.extend_from_within(from..(from + len).min(start));
            if kind % 6 == 5 {
                history[start..]
                    .iter_mut()
                    .skip(edit % 64)
                    .step_by(1 + edit)
                    .for_each(|byte| *byte ^= 0x15);
            }
        }
    }
}
