//! GEAR and FASTCDC use the boundaries of content-defined chunking as markers.

use super::{Sampler, Sampling};
use oncewire_kernels::Sampled;
use oncewire_kernels::family::ChunkSizes;

/// GEAR: a position is a marker if the gear hash of its window (Xia et al., *Ddelta*, 2014), as a
/// fraction, is below 1/p; for a power of two, if its upper log2(p) bits are zero. It skips
/// nothing.
///
/// As with [`super::Modp`], a position whose hash equals that of the position before it is no
/// marker, so the choice depends on the window and the byte before it. Runs, and other content
/// without a marking window, stay unsampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gear;

impl Sampler for Gear {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, from } = sampling;
        kernels.gear(block, window, period, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        period as f64
    }
}

/// FASTCDC (Xia et al., USENIX ATC 2016): the chunk boundaries of a chunker with average size p are
/// markers: the first bytes of all chunks but the first, which begins where the search begins.
///
/// It skips a minimum of p/4 bytes, uses normalization level 2 (two mask bits more up to p bytes,
/// two fewer beyond), and limits chunks to 8p. The minimum is small because a larger one takes
/// longer to realign with an earlier copy of the content, and p is small.
///
/// As published, a boundary depends on up to `window` bytes *before* the marker, so a repeat is
/// recognized only that far after it begins. The other samplers look ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCdc;

impl Sampler for FastCdc {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, from } = sampling;
        let sizes = ChunkSizes { min: period / 4, average: period, max: 8 * period };
        kernels.fast_cdc(block, window, sizes, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        // The minimum adds to what the limits alone would give.
        1.1 * period as f64
    }
}
