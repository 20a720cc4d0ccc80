//! SAMPLEBYTE.

use super::{ENDRE_MARKER_BYTES, Sampler};
use oncewire_kernels::{ByteSet, Kernels, Sampled};

/// SAMPLEBYTE (EndRE section 5.1.4, Figure 3): a byte of a given set is a marker; then `p/2` bytes are skipped.
///
/// The published loop increments once more after the skip, so the next byte examined after a marker at `i` is
/// `i + p/2 + 1`; that is kept. It also stops one window short of the end of the block; here the last window counts.
///
/// Beyond the paper, content without marker bytes (a genome, hexadecimal dumps, a run of `a`) is not left unsampled: after
/// [`GAP_PERIODS`] periods without a marker, the position with the strongest hash among them becomes one.
#[derive(Clone, Debug)]
pub struct SampleByte {
    set: ByteSet,
}

/// Sampling periods without a marker before one is made. Text at p = 32 goes 3 bytes without one on average, and evenly distributed
/// bytes go 256 without one three times in ten thousand.
pub const GAP_PERIODS: usize = 8;

impl SampleByte {
    /// With a table of one's own, for instance one trained on the traffic at hand.
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
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        let (skip, gap) = (period / 2, GAP_PERIODS * period);
        // Exclusive end of marker positions.
        let end = (block.len() + 1).saturating_sub(window);
        let (mut count, mut at) = (0, from);
        loop {
            let found = kernels.sample_byte(&self.set, block, window, skip, gap, at, &mut markers[count..]);
            count += found.count;
            if count == markers.len() || found.resume >= end {
                return Sampled { count, resume: found.resume };
            }
            let marker = kernels.strongest(block, found.resume - gap, found.resume);
            markers[count] = marker as u32;
            count += 1;
            at = marker + 1 + skip;
            if count == markers.len() {
                return Sampled { count, resume: at };
            }
        }
    }

    fn expected_rate(&self, period: usize) -> f64 {
        // The skip, the marker itself, and about two bytes until the next: e, i, s, t and space are two fifths of text.
        period as f64 / 2.0 + 3.0
    }
}
