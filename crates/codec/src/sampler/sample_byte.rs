//! SAMPLEBYTE.

use super::{
    AnySampler, ENDRE_MARKER_BYTES, GAP_PERIODS, MAX_GAP, Sampler, Sampling, filling_gaps,
};
use oncewire_kernels::{ByteSet, Sampled};

/// SAMPLEBYTE (EndRE section 5.1.4, Figure 3): a byte of a given set is a marker; then the search
/// skips `p/2` bytes.
///
/// As in the published loop, the next byte examined after a marker at `i` is `i + p/2 + 1`. The
/// published loop stops one window short of the end of the block; here the last window counts.
///
/// Beyond the paper, content without marker bytes (a genome, hexadecimal dumps, a run of `a`) is
/// sampled, too: after [`GAP_PERIODS`] periods, but at most [`MAX_GAP`] bytes, without a marker,
/// the position with the strongest hash becomes one.
#[derive(Clone, Debug)]
pub struct SampleByte {
    set: ByteSet,
}

impl SampleByte {
    /// With a custom table, for instance one trained on your own traffic.
    pub fn new(set: ByteSet) -> SampleByte {
        SampleByte { set }
    }
}

impl Default for SampleByte {
    /// With EndRE's table.
    fn default() -> SampleByte {
        SampleByte::new(ENDRE_MARKER_BYTES.into_iter().collect())
    }
}

impl Sampler for SampleByte {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, .. } = sampling;
        let spacing = (period / 2, (GAP_PERIODS * period).min(MAX_GAP));
        filling_gaps(sampling, spacing, markers, |skip, gap, at, markers| {
            kernels.sample_byte(&self.set, block, window, skip, gap, at, markers)
        })
    }

    fn erase(self) -> AnySampler {
        AnySampler::SampleByte(self)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        // The skip, the marker itself, and about two bytes until the next: e, i, s, t and space are
        // two fifths of text.
        period as f64 / 2.0 + 3.0
    }
}
