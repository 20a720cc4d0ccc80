//! What the tests of several marker searches share.

use crate::Sampled;
use proptest::prelude::*;

/// Blocks with what marker searches stumble over: noise, few letters, runs, slopes, in pieces of
/// all lengths; up to about 1,500 bytes.
pub(crate) fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..400),
        proptest::collection::vec(0u8..3, 0..300),
        (any::<u8>(), 0usize..500).prop_map(|(byte, len)| vec![byte; len]),
        (0usize..500).prop_map(|len| vec![0; len]),
        (any::<bool>(), 0usize..300).prop_map(|(up, len)| (0..len)
            .map(|i| if up { i } else { 400 - i } as u8 / 2)
            .collect()),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// All markers from `from` on, found `batch` at a time. `end` is that of the positions with a whole
/// window.
pub(crate) fn in_batches(
    batch: usize,
    from: usize,
    end: usize,
    search: impl Fn(usize, &mut [u32]) -> Sampled,
) -> Vec<u32> {
    let (mut found, mut at) = (Vec::new(), from);
    let mut markers = vec![0; batch];
    loop {
        let step = search(at, &mut markers);
        found.extend_from_slice(&markers[..step.count]);
        assert!(step.resume >= at, "a search never goes back");
        at = step.resume;
        if step.count < batch {
            assert!(at >= end, "a search that has room left is complete");
            return found;
        }
    }
}
