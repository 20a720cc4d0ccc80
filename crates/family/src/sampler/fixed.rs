//! FIXED: every p-th byte.

use super::{Sampler, Sampling};
use oncewire_kernels::Sampled;

/// FIXED (EndRE section 5.1.3): every `p`-th byte of the block is a marker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed;

impl Sampler for Fixed {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { block, window, period, from, .. } = sampling;
        let end = (block.len() + 1).saturating_sub(window);
        let mut at = from.next_multiple_of(period);
        let mut count = 0;
        while at < end && count < markers.len() {
            markers[count] = at as u32;
            count += 1;
            at += period;
        }
        Sampled { count, resume: at }
    }

    fn expected_rate(&self, period: usize) -> f64 {
        period as f64
    }
}
