//! MAXP, and PEAKS, which is MAXP over a hash.

use super::{Sampler, Sampling};
use oncewire_kernels::Sampled;

/// Sampling periods without a local maximum before a marker is forced, for [`Maxp`] and [`Peaks`].
pub const MAXIMUM_GAP_PERIODS: usize = 4;

/// MAXP (thesis section 2.2; EndRE section 5.1.2): a position is a marker if its next eight bytes,
/// as a big-endian number, are greater than at each of the `h = p/2` positions before it and not
/// less than at each of the `h` after it, as far as they exist.
///
/// In content without local maxima (a run, ascending or descending bytes) the greatest of
/// [`MAXIMUM_GAP_PERIODS`] periods, the leftmost of equal ones, becomes a marker. Guarantees for
/// one search: two markers are more than `h` apart, and after a marker at `i` the next is at
/// `i + h + 4p` or before, if the block reaches that far. Unlike with MODP, no long stretch stays
/// unsampled.
///
/// The choice depends on the `h` bytes before a position and the `h + 8` after it; those before may
/// lie before `from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maxp;

impl Sampler for Maxp {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, from } = sampling;
        kernels.maxp(block, window, period / 2, MAXIMUM_GAP_PERIODS * period, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        maxima_rate(period)
    }
}

/// [`Maxp`] as published, which forces no marker: content without local maxima, as a run of one byte,
/// has none, however long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxpPublished;

impl Sampler for MaxpPublished {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, from } = sampling;
        kernels.maxp(block, window, period / 2, usize::MAX, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        maxima_rate(period)
    }
}

/// PEAKS: [`Maxp`] with a 16-bit hash of four bytes instead of eight bytes as a number.
///
/// It is between MAXP and winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003), which also
/// hashes but requires a marker in every stretch of p positions and so has up to twice as many. A
/// hash is independent of the letters, has fewer ties, and fits vector comparisons. Distances are
/// guaranteed as with MAXP.
///
/// The choice depends on the `h = p/2` bytes before a position and the `h + 4` after it; those
/// before may lie before `from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks;

impl Sampler for Peaks {
    #[inline]
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, period, from } = sampling;
        kernels.peaks(block, window, period / 2, MAXIMUM_GAP_PERIODS * period, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        maxima_rate(period)
    }
}

/// One of `2 h + 1` positions is the greatest.
fn maxima_rate(period: usize) -> f64 {
    (period / 2 * 2 + 1) as f64
}
