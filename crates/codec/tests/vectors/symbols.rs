//! Writes symbols by hand: section 6 of `docs/FORMAT.md`, "For writers".

use std::collections::HashMap;

/// Symbols, under models that begin as in a new context.
#[derive(Default)]
pub(crate) struct Symbols {
    models: HashMap<String, [i16; 16]>,
    /// The sum before each symbol, and its frequency.
    coded: Vec<(u32, u32)>,
}

impl Symbols {
    pub(crate) fn put(&mut self, model: &str, symbol: usize) {
        let new = std::array::from_fn(|nth| (2048 * nth) as i16);
        let sums = self.models.entry(model.to_owned()).or_insert(new);
        let end = if symbol < 15 { i32::from(sums[symbol + 1]) } else { 32_768 };
        let start = i32::from(sums[symbol]);
        self.coded.push((start as u32, (end - start) as u32));
        for (nth, sum) in sums.iter_mut().enumerate() {
            let low = 32 * nth as i32;
            let target = if nth <= symbol { low } else { 32_768 - 32 * (16 - nth as i32) };
            *sum += ((target - i32::from(*sum)) >> 5) as i16;
        }
    }

    /// A number below 16, which has no even bits.
    pub(crate) fn number(&mut self, model: &str, value: usize) {
        assert!(value < 16);
        let length = value.checked_ilog2().map_or(0, |log| log as usize + 1);
        self.put(&format!("{model}.length"), length);
        if length > 1 {
            self.put(&format!("{model}.mantissa[{length}]"), value - (1 << (length - 1)));
        }
    }

    pub(crate) fn finish(&self) -> Vec<u8> {
        let (mut state, mut words) = (1u32 << 16, Vec::new());
        for &(start, frequency) in self.coded.iter().rev() {
            if u64::from(state) >= u64::from(frequency) << 17 {
                words.push(state as u16);
                state >>= 16;
            }
            state = ((state / frequency) << 15) + state % frequency + start;
        }
        let words = words.iter().rev().flat_map(|word| word.to_le_bytes());
        state.to_le_bytes().into_iter().chain(words).collect()
    }
}
