//! MAXP.

use super::Sampler;
use oncewire_kernels::{Kernels, Sampled};

/// MAXP (thesis section 2.2; EndRE section 5.1.2): a position is a marker if its next eight bytes, as a big-endian number, are greater than
/// at each of the `h = p/2` positions before it and not less than at each of the `h` behind it.
///
/// In content without local maxima (a run, ascending or descending bytes) the greatest of every [`MAXP_GAP_PERIODS`] periods is
/// made a marker. Guaranteed: two markers found in one search are more than `h` apart; behind a marker, no more than
/// `h + 4p` positions are without one.
///
/// The choice depends on the `h` bytes before a position and the `h + 8` behind it; they may lie before `from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maxp;

/// Sampling periods without a local maximum before a marker is made.
pub const MAXP_GAP_PERIODS: usize = 4;

impl Sampler for Maxp {
    #[inline]
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        kernels.maxp(block, window, period / 2, MAXP_GAP_PERIODS * period, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        // Of 2 h + 1 positions one is the greatest.
        period as f64
    }
}
