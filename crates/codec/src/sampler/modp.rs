//! MODP.

use super::Sampler;
use oncewire_kernels::{Kernels, Sampled, greatest_rabin_fingerprint};

/// MODP (Spring and Wetherall, SIGCOMM 2000; thesis section 2.2; EndRE section 5.1.1): a position is a marker if the Rabin fingerprint of
/// its window is 0 mod p.
///
/// A block without any marker gets one, as in the thesis (which does not say where): the window with the greatest fingerprint, the
/// leftmost of equal ones, if the whole block was searched, from its start.
///
/// Beyond the papers, a position whose fingerprint equals that of the position before it in the block is no marker: otherwise a
/// run of one byte, zeros above all, has a marker at every byte. So the choice depends on the window and the byte before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modp {
    pub(crate) published: bool,
}

impl Modp {
    /// As published: every position whose fingerprint is 0 mod p, also in runs.
    pub const fn published() -> Modp {
        Modp { published: true }
    }
}

impl Sampler for Modp {
    #[inline]
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        let found = kernels.modp(block, window, period, self.published, from, markers);
        if from == 0
            && found.count == 0
            && let Some(first) = markers.first_mut()
            && let Some(greatest) = greatest_rabin_fingerprint(block, window)
        {
            *first = greatest as u32;
            return Sampled { count: 1, ..found };
        }
        found
    }

    fn expected_rate(&self, period: usize) -> f64 {
        period as f64
    }
}
