//! Which content looks compressed.
//!
//! A compressor codes a block with a code that depends on all of the block. So chunks that hold
//! nothing secret themselves show which of a few codes the block has, and with it something of a
//! secret elsewhere in it. Such chunks are shared only in the middle of long equal runs.

/// Bytes that are judged at once.
const PIECE: usize = 256;
/// More different bytes than this in a piece look compressed. Evenly distributed bytes have 162 on
/// average, with a standard deviation of 5; text has 64 at most in whatever alphabet of base 64, and
/// machine code about 100.
const MOST_DIFFERENT: usize = 128;
/// Bytes behind a chunk that are judged with it: wherever compressed content begins in the chunk, a
/// whole piece of it is seen.
pub(super) const BEHIND: usize = 2 * PIECE;

/// Whether any piece of the content looks compressed.
pub(super) fn looks_compressed(content: &[u8]) -> bool {
    content.as_chunks::<PIECE>().0.iter().any(|piece| {
        let mut seen = [0u8; 256];
        piece.iter().for_each(|&byte| seen[usize::from(byte)] = 1);
        seen.iter().map(|&seen| usize::from(seen)).sum::<usize>() > MOST_DIFFERENT
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_bytes_look_compressed_wherever_they_begin_and_text_does_not() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        for _ in 0..200 {
            let even: [u8; BEHIND] = std::array::from_fn(|_| random());
            let text = even.map(|byte| b' ' + byte % 64);
            assert!(!looks_compressed(&text));
            for plain in [0, 1, 100, 255, 256, 700] {
                assert!(looks_compressed(&[&text.repeat(2)[..plain], &even].concat()), "{plain}");
            }
        }
    }
}
