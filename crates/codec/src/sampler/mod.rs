//! Samplers choose the positions of a block that are markers.

mod sample_byte;
mod sample_hash;

use oncewire_kernels::{Kernels, Sampled};
pub use sample_byte::SampleByte;
pub use sample_hash::SampleHash;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

/// EndRE's SAMPLETABLE as trained on its authors' traces (section 5.1.4): these byte values mark.
pub const ENDRE_MARKER_BYTES: [u8; 8] = [0, 32, 48, 101, 105, 115, 116, 255];

/// Where markers are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// The kernels to search with. The result does not depend on their level.
    pub kernels: Kernels,
    /// The content.
    pub block: &'a [u8],
    /// Bytes of a window.
    pub window: usize,
    /// The sampling period in bytes: one marker in that many is the target.
    pub period: usize,
    /// The first position that may be a marker.
    pub from: usize,
}

/// Chooses markers. A type per algorithm, so that a matcher's loop can be compiled for each.
pub trait Sampler: Debug + Send + Sync + 'static {
    /// Finds markers, at most as many as `markers` holds.
    ///
    /// Markers ascend. After a call that fills `markers`, a call from `resume` continues exactly as
    /// one call with more room would. Otherwise the search is complete and `resume` is not before
    /// the last whole window.
    ///
    /// Whether a position is a marker depends on the bytes around it, as each sampler documents, so
    /// that equal content yields equal markers. MODP and GEAR also read one byte before the window,
    /// MAXP and PEAKS half a period before, even where that lies before `from`. Samplers that skip
    /// (SAMPLEBYTE, SAMPLEHASH, FASTCDC), and markers made in gaps, also depend on where the search
    /// started. FIXED depends on the position alone.
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled;

    /// As many calls of [`Sampler::sample`] for one marker each, of which each begins `step` bytes
    /// after the marker before: for a few markers of content that repeats. Does not say where to go
    /// on. Returns how many there are.
    fn sample_apart(&self, sampling: Sampling<'_>, step: usize, markers: &mut [u32]) -> usize {
        let mut sampling = sampling;
        for (count, marker) in markers.iter_mut().enumerate() {
            let marker = std::slice::from_mut(marker);
            if self.sample(sampling, marker).count == 0 {
                return count;
            }
            sampling.from = marker[0] as usize + step;
        }
        markers.len()
    }

    /// As [`Sampler::sample`], but whatever the period with about one marker in a thousand evenly
    /// distributed bytes, without skips and without markers forced in gaps: for content of high
    /// entropy, which repeats as a whole or not at all. Whether a position is a marker depends only
    /// on the bytes there, so the same positions are found again however a repeat is aligned to
    /// blocks.
    ///
    /// A sampler whose own markers depend on the bytes there returns a subset of those, so that
    /// content is found again whichever way it was sampled before. The default is
    /// [`Kernels::sample_pair`].
    fn sample_sparsely(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        let Sampling { kernels, block, window, from, .. } = sampling;
        kernels.sample_pair(block, window, from, markers)
    }

    /// Bytes per fingerprint that this sampler achieves on text at `period`. Determines the table's
    /// size; [`crate::EncoderStats`] reports the rate achieved on actual data.
    fn expected_rate(&self, period: usize) -> f64;

    /// Erases the type. A sampler that wraps another returns the other's erased form.
    fn erase(self) -> AnySampler
    where
        Self: Sized,
    {
        AnySampler::Other(Arc::new(self))
    }
}

/// A sampler chosen at run time. Encoders are compiled for the first two.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnySampler {
    /// [`SampleHash`].
    SampleHash(SampleHash),
    /// [`SampleByte`].
    SampleByte(SampleByte),
    /// Any other.
    Other(Arc<dyn Sampler>),
}

impl Deref for AnySampler {
    type Target = dyn Sampler;

    fn deref(&self) -> &(dyn Sampler + 'static) {
        match self {
            AnySampler::SampleHash(sampler) => sampler,
            AnySampler::SampleByte(sampler) => sampler,
            AnySampler::Other(sampler) => &**sampler,
        }
    }
}

macro_rules! delegate {
    ($name:ty, $erase:expr) => {
        impl Sampler for $name {
            fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
                (**self).sample(sampling, markers)
            }

            fn sample_apart(
                &self,
                sampling: Sampling<'_>,
                step: usize,
                markers: &mut [u32],
            ) -> usize {
                (**self).sample_apart(sampling, step, markers)
            }

            fn sample_sparsely(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
                (**self).sample_sparsely(sampling, markers)
            }

            fn expected_rate(&self, period: usize) -> f64 {
                (**self).expected_rate(period)
            }

            fn erase(self) -> AnySampler {
                $erase(self)
            }
        }
    };
}

delegate!(AnySampler, std::convert::identity);
delegate!(Arc<dyn Sampler>, AnySampler::Other);
delegate!(Box<dyn Sampler>, |sampler| AnySampler::Other(Arc::from(sampler)));

/// Sampling periods without a marker before one is forced. With SAMPLEBYTE at p = 32, text goes 3
/// bytes without one on average, and evenly distributed bytes go 256 bytes without one three times
/// in ten thousand.
pub const GAP_PERIODS: usize = 8;

/// Longest such gap of SAMPLEBYTE, and the part of a gap that is searched for its strongest
/// position, in bytes. That position is often the first (in runs of all kinds), and inside a match
/// the search happens every 256 bytes; with 8 x 1024 bytes the coarsest period would be the
/// slowest.
pub const MAX_GAP: usize = 1024;

/// The loop of SAMPLEBYTE and SAMPLEHASH: calls `search` with skip, gap, start and room, and forces
/// a marker in every gap.
#[inline(always)]
fn filling_gaps(
    Sampling { kernels, block, window, from, .. }: Sampling<'_>,
    (skip, gap): (usize, usize),
    markers: &mut [u32],
    search: impl Fn(usize, usize, usize, &mut [u32]) -> Sampled,
) -> Sampled {
    // Exclusive end of marker positions.
    let end = (block.len() + 1).saturating_sub(window);
    let (mut count, mut at) = (0, from);
    loop {
        let found = search(skip, gap, at, &mut markers[count..]);
        count += found.count;
        if count == markers.len() || found.resume >= end {
            return Sampled { count, resume: found.resume };
        }
        let start = found.resume - gap;
        let marker = kernels.strongest(block, start, start + gap.min(MAX_GAP));
        markers[count] = marker as u32;
        count += 1;
        at = marker + 1 + skip;
        if count == markers.len() {
            return Sampled { count, resume: at };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sampler: &impl Sampler, block: &[u8], period: usize) -> Vec<u32> {
        let mut markers = vec![0; block.len()];
        let sampling = Sampling { kernels: Kernels::detect(), block, window: 32, period, from: 0 };
        let found = sampler.sample(sampling, &mut markers);
        markers.truncate(found.count);
        markers
    }

    #[test]
    fn sample_byte_achieves_about_one_in_nineteen_on_text() {
        let text =
            "It keeps the recent past of a link at both ends and sends a short reference wherever the new bytes were there \
                    already, whatever the protocol is that the applications speak to each other. "
                .repeat(40);
        let rate =
            text.len() as f64 / sample(&SampleByte::default(), text.as_bytes(), 32).len() as f64;
        assert!((17.5..20.5).contains(&rate), "{rate}");
    }

    #[test]
    fn a_run_of_a_marker_byte_is_sampled_every_half_period_and_one() {
        assert_eq!(sample(&SampleByte::default(), &[0; 100], 32), [0, 17, 34, 51, 68]);
    }

    #[test]
    fn content_without_marker_bytes_is_sampled_by_its_strongest_positions() {
        let mut rng = fastrand::Rng::with_seed(1);
        let genome: Vec<u8> = (0..4000).map(|_| b"ACGU"[rng.usize(..4)]).collect();
        let markers = sample(&SampleByte::default(), &genome, 32);
        assert!((16..80).contains(&markers.len()), "{}", markers.len());
        // They follow the content: most are found again when it has moved.
        let moved = [b"GATTACA".as_slice(), &genome].concat();
        let again = sample(&SampleByte::default(), &moved, 32);
        let same = markers.iter().filter(|&&marker| again.contains(&(marker + 7))).count();
        assert!(same * 4 > markers.len() * 3, "{same} of {}", markers.len());
        // However long the period, no more than a kilobyte is looked through for one.
        let distances: Vec<u32> = sample(&SampleByte::default(), &genome, 1024)
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        assert!(
            distances.len() > 1
                && distances.iter().all(|distance| (513..513 + 1024).contains(distance)),
            "{distances:?}"
        );
        // A run: the first of each gap, then the skip.
        assert_eq!(sample(&SampleByte::default(), &[b'a'; 1000], 32)[..3], [0, 17, 34]);
    }
}
