//! Content for tests of packs and zstd files.

use proptest::prelude::*;

/// Words, runs, noise, and copies of what was before, with a few changes.
pub(crate) fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0u8..8, any::<u64>(), 1usize..9000);
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| {
        let mut content: Vec<u8> = Vec::new();
        for (kind, seed, len) in pieces {
            let mut random = fastrand::Rng::with_seed(seed);
            let from = random.usize(..=content.len());
            match kind {
                0 => content.extend((0..len).map(|_| random.u8(..))),
                1 => content.extend((0..len).map(|_| random.u8(b'a'..b'f'))),
                2 => content.resize(content.len() + len, random.u8(..)),
                // Of a short period.
                3 => content.extend((0..len).map(|at| (at % (1 + seed as usize % 9)) as u8)),
                _ => {
                    let mut again = content[from..].to_vec();
                    again.truncate(len * 8);
                    for _ in 0..kind - 4 {
                        if !again.is_empty() {
                            let at = random.usize(..again.len());
                            again[at] = random.u8(..);
                        }
                    }
                    content.extend_from_slice(&again);
                }
            }
        }
        content
    })
}
