//! SAMPLEHASH.

use super::{AnySampler, GAP_PERIODS, Sampler, Sampling, filling_gaps};
use oncewire_kernels::Sampled;

/// SAMPLEHASH: SAMPLEBYTE's loop (EndRE Figure 3) with a 16-bit hash of four bytes instead of a
/// table lookup of one byte. A position whose hash, as a fraction, is below 2/p is a marker; then
/// the search skips `p/2` bytes.
///
/// The rate hardly depends on the content, while SAMPLEBYTE's follows the letters of its table.
/// Four bytes agree by chance more rarely than one, so two misaligned searches realign sooner. A
/// gap of [`GAP_PERIODS`] periods gets a marker at the strongest position of its first
/// [`super::MAX_GAP`] bytes.
///
/// The choice depends on the four bytes at a position and on the position of the previous marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleHash;

/// Markers at this period, after each of which `skip` bytes are skipped.
#[inline(always)]
fn skipping(sampling: Sampling<'_>, skip: usize, markers: &mut [u32]) -> Sampled {
    let Sampling { kernels, block, window, period, .. } = sampling;
    let limit = (65536 / (period - period / 2) - 1) as u16;
    let spacing = (skip, GAP_PERIODS * period);
    filling_gaps(sampling, spacing, markers, |skip, gap, at, markers| {
        kernels.sample_hash(limit, block, window, skip, gap, at, markers)
    })
}

/// Greatest hash of a sparse marker: one position in 1,024.
const SPARSE_LIMIT: u16 = 65_536u32.div_euclid(1024) as u16 - 1;

impl Sampler for SampleHash {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        skipping(sampling, sampling.period / 2, markers)
    }

    fn sample_apart(&self, sampling: Sampling<'_>, step: usize, markers: &mut [u32]) -> usize {
        skipping(sampling, step - 1, markers).count
    }

    fn sample_sparsely(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, from, .. } = sampling;
        kernels.sample_hash(SPARSE_LIMIT, block, window, 0, usize::MAX, from, markers)
    }

    fn erase(self) -> AnySampler {
        AnySampler::SampleHash(self)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        // The skip, and about as many bytes until a hash is low enough; text has fewer distinct
        // hashes than noise.
        0.82 * period as f64
    }
}
