//! MODP: Rabin fingerprints that are 0 mod p.

use super::{Sampler, Sampling};
use oncewire_kernels::Sampled;
use oncewire_kernels::family::greatest_rabin_fingerprint;

/// MODP (Spring and Wetherall, SIGCOMM 2000; thesis section 2.2; EndRE section 5.1.1): a position
/// is a marker if the Rabin fingerprint of its window is 0 mod p.
///
/// As in the thesis, a block without any marker gets one if it was searched from its start. The
/// thesis does not say where; here it is the window with the greatest fingerprint, the leftmost of
/// equal ones.
///
/// Beyond the papers, a position whose fingerprint equals that of the previous position in the
/// block is no marker. Otherwise a run of one byte, such as zeros, would have a marker at every
/// byte. So the choice depends on the window and the byte before it.
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
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, from } = sampling;
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
