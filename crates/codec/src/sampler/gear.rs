//! The boundaries of content-defined chunking as markers.

use super::Sampler;
use oncewire_kernels::{ChunkSizes, Kernels, Sampled};

/// GEAR: a position is a marker if the gear hash of its window (Xia et al., Ddelta, 2014) is, as a fraction, below 1/p.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gear;

impl Sampler for Gear {
    #[inline]
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        kernels.gear(block, window, period, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        period as f64
    }
}

/// FASTCDC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCdc;

impl Sampler for FastCdc {
    #[inline]
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        let sizes = ChunkSizes { min: period / 4, average: period, max: 8 * period };
        kernels.fast_cdc(block, window, sizes, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        period as f64
    }
}
