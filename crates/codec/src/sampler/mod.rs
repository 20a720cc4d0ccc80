//! Samplers: which positions of a block are markers.

mod fixed;
mod gear;
mod maxp;
mod modp;
mod sample_byte;
mod sample_hash;

pub use fixed::Fixed;
pub use gear::{FastCdc, Gear};
pub use maxp::{MAXIMUM_GAP_PERIODS, Maxp, Peaks};
pub use modp::Modp;
use oncewire_kernels::{Kernels, Sampled};
pub use sample_byte::SampleByte;
pub use sample_hash::SampleHash;

/// EndRE's SAMPLETABLE as trained on its authors' traces (section 5.1.4): these byte values mark.
pub const ENDRE_MARKER_BYTES: [u8; 8] = [0, 32, 48, 101, 105, 115, 116, 255];

/// Chooses markers. A type per algorithm, so that the matcher's loop is compiled for each.
pub trait Sampler: Send + 'static {
    /// Finds markers of windows of `window` bytes in `block[from..]` at sampling period `period`, as many as `markers` holds.
    ///
    /// Markers ascend. A call that fills `markers` can be continued at `resume`, exactly as if there had been one call with more room;
    /// otherwise the search is complete and `resume` is not before the last whole window. The level of `kernels` changes nothing.
    ///
    /// Whether a position is a marker depends on the bytes of the block around it, as stated with each sampler, so that equal content
    /// yields equal markers at either end and at any time. What lies before `from` counts for MODP and GEAR (one byte before the
    /// window), MAXP and PEAKS (half a period before). For those that skip (SAMPLEBYTE, SAMPLEHASH, FASTCDC), and for markers made in
    /// gaps, it depends also on where the search began; FIXED goes by the position alone.
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled;

    /// As [`Sampler::sample`], with one marker in about a thousand bytes of evenly distributed values, nothing skipped, and no marker
    /// made where there is none: for content of high entropy, which repeats whole or not at all. Whether a position is a marker
    /// depends on the bytes at it alone, so that however a repeat is aligned to blocks, the same positions are found again at once.
    ///
    /// A sampler whose own markers follow from the bytes at them takes a part of those, so that content meets itself whichever way
    /// it was sampled before. Unless overridden, [`Kernels::sample_pair`].
    fn sample_sparsely(&self, kernels: Kernels, block: &[u8], window: usize, from: usize, markers: &mut [u32]) -> Sampled {
        kernels.sample_pair(block, window, from, markers)
    }

    /// Bytes per fingerprint that this sampler achieves on text at `period`. Sizes the table; the achieved rate on the data at
    /// hand is reported by [`crate::EncoderStats`].
    fn expected_rate(&self, period: usize) -> f64;
}

impl Sampler for Box<dyn Sampler> {
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        (**self).sample(kernels, block, window, period, from, markers)
    }

    fn sample_sparsely(&self, kernels: Kernels, block: &[u8], window: usize, from: usize, markers: &mut [u32]) -> Sampled {
        (**self).sample_sparsely(kernels, block, window, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        (**self).expected_rate(period)
    }
}

/// Sampling periods without a marker before one is made. Text at p = 32 goes 3 bytes without one on average, and evenly distributed
/// bytes go 256 without one three times in ten thousand.
pub const GAP_PERIODS: usize = 8;

/// Longest such gap of SAMPLEBYTE, and the most of a gap that is looked through for its strongest position, in bytes. That position is
/// often the first (in runs of all kinds), and inside a match the search happens every 256 bytes; so with 8 x 1024 bytes the
/// coarsest period would be the dearest.
pub const MAX_GAP: usize = 1024;

/// SAMPLEBYTE's and SAMPLEHASH's loop: `search` with its skip, gap, beginning and room, and a marker in every gap.
#[inline(always)]
fn filling_gaps(
    kernels: Kernels,
    block: &[u8],
    window: usize,
    (skip, gap): (usize, usize),
    from: usize,
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
        let found = sampler.sample(Kernels::detect(), block, 32, period, 0, &mut markers);
        markers.truncate(found.count);
        markers
    }

    #[test]
    fn sample_byte_achieves_about_one_in_nineteen_on_text() {
        let text =
            "It keeps the recent past of a link at both ends and sends a short reference wherever the new bytes were there \
                    already, whatever the protocol is that the applications speak to each other. "
                .repeat(40);
        let rate = text.len() as f64 / sample(&SampleByte::default(), text.as_bytes(), 32).len() as f64;
        assert!((17.5..20.5).contains(&rate), "{rate}");
    }

    #[test]
    fn a_run_of_a_marker_byte_is_sampled_every_half_period_and_one() {
        assert_eq!(sample(&SampleByte::default(), &[0; 100], 32), [0, 17, 34, 51, 68]);
    }

    #[test]
    fn content_without_marker_bytes_is_sampled_by_its_strongest_positions() {
        let mut state = 1u64;
        let genome: Vec<u8> = (0..4000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                b"ACGU"[(state >> 62) as usize]
            })
            .collect();
        let markers = sample(&SampleByte::default(), &genome, 32);
        assert!((16..80).contains(&markers.len()), "{}", markers.len());
        // They follow the content: most are found again when it has moved.
        let moved = [b"GATTACA".as_slice(), &genome].concat();
        let again = sample(&SampleByte::default(), &moved, 32);
        let same = markers.iter().filter(|&&marker| again.contains(&(marker + 7))).count();
        assert!(same * 4 > markers.len() * 3, "{same} of {}", markers.len());
        // However long the period, no more than a kilobyte is looked through for one.
        let distances: Vec<u32> =
            sample(&SampleByte::default(), &genome, 1024).windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(distances.len() > 1 && distances.iter().all(|distance| (513..513 + 1024).contains(distance)), "{distances:?}");
        // A run: the first of each gap, then the skip.
        assert_eq!(sample(&SampleByte::default(), &[b'a'; 1000], 32)[..3], [0, 17, 34]);
    }

    fn all() -> Vec<(&'static str, Box<dyn Sampler>)> {
        vec![
            ("samplebyte", Box::new(SampleByte::default())),
            ("fixed", Box::new(Fixed)),
            ("modp", Box::new(Modp::default())),
            ("published modp", Box::new(Modp::published())),
            ("maxp", Box::new(Maxp)),
            ("gear", Box::new(Gear)),
            ("fastcdc", Box::new(FastCdc)),
            ("samplehash", Box::new(SampleHash)),
            ("peaks", Box::new(Peaks)),
        ]
    }

    fn noise(seed: u64, len: usize, letters: u64) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % letters) as u8
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    fn in_batches(sampler: &dyn Sampler, kernels: Kernels, block: &[u8], window: usize, period: usize, batch: usize) -> Vec<u32> {
        let (mut found, mut from, mut markers) = (Vec::new(), 0, vec![0; batch]);
        loop {
            let step = sampler.sample(kernels, block, window, period, from, &mut markers);
            found.extend_from_slice(&markers[..step.count]);
            from = step.resume;
            if step.count < batch {
                return found;
            }
        }
    }

    #[test]
    fn batches_and_levels_change_nothing_and_every_marker_has_its_window() {
        let pieces =
            [noise(1, 700, 256), vec![0; 900], noise(2, 900, 3), (0..=255).collect(), vec![101; 300], noise(3, 200, 256)];
        let block = pieces.concat();
        for (name, sampler) in all() {
            for (window, period) in [(12, 4), (32, 32), (33, 100), (64, 256), (64, 1024)] {
                for len in [0, 1, window - 1, window, window + 1, 1000, block.len()] {
                    let block = &block[..len];
                    let whole = in_batches(&*sampler, Kernels::detect(), block, window, period, block.len() + 1);
                    assert!(whole.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
                    assert!(whole.last().is_none_or(|&last| last as usize + window <= len), "{name}");
                    for kernels in Kernels::available() {
                        for batch in [1, 2, 3, 16, 64] {
                            let found = in_batches(&*sampler, kernels, block, window, period, batch);
                            assert_eq!(found, whole, "{name}, {}, batch {batch}", kernels.level());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_rate_on_noise_is_about_the_period() {
        let block = noise(4, 1 << 16, 256);
        for (name, sampler) in all() {
            for period in [8, 32, 100, 256] {
                let rate = block.len() as f64 / in_batches(&*sampler, Kernels::detect(), &block, 32, period, 64).len() as f64;
                // SAMPLEBYTE with eight bytes marks one in 32.
                let slack = if name == "samplebyte" { 5.0 } else { 1.3 };
                let (least, most) = (period as f64 / 2.0_f64.min(slack), period as f64 * slack + 2.0);
                assert!((least..most).contains(&rate), "{name}: {rate} at {period}");
            }
        }
    }

    #[test]
    fn markers_fall_into_step_after_an_insertion() {
        let before = noise(5, 20_000, 26);
        let after = [&before[..3000], b"inserted", &before[3000..]].concat();
        for (name, sampler) in all() {
            let old = in_batches(&*sampler, Kernels::detect(), &before, 32, 32, 64);
            let new = in_batches(&*sampler, Kernels::detect(), &after, 32, 32, 64);
            let behind: Vec<u32> = old.into_iter().filter(|&marker| marker >= 5000).collect();
            let moved: Vec<u32> = new.into_iter().filter(|&marker| marker >= 5008).map(|marker| marker - 8).collect();
            // 2,000 bytes behind the insertion all markers are the same again, but those that go by the position.
            assert_eq!(behind == moved, name != "fixed", "{name}");
        }
    }

    #[test]
    fn a_run_is_not_a_marker_at_every_byte() {
        for (name, sampler) in all() {
            for byte in [0, 32, 97, 255] {
                let found = in_batches(&*sampler, Kernels::detect(), &[byte; 10_000], 32, 32, 64).len();
                // As published, MODP takes all of a run whose fingerprint is 0 mod p: zeros always.
                if name != "published modp" {
                    assert!(found <= 10_000 / 9, "{name}: {found} of byte {byte}");
                } else if byte == 0 {
                    assert_eq!(found, 9969);
                }
            }
        }
    }

    #[test]
    fn modp_marks_the_greatest_fingerprint_of_a_block_without_any() {
        let block = noise(6, 60, 256);
        let fingerprints: Vec<u64> = block.windows(32).map(oncewire_kernels::rabin_fingerprint).collect();
        assert!(fingerprints.iter().all(|fingerprint| fingerprint % 1024 != 0), "or choose other noise");
        let greatest = (0..fingerprints.len()).max_by_key(|&i| fingerprints[i]).unwrap();
        assert_eq!(in_batches(&Modp::default(), Kernels::detect(), &block, 32, 1024, 1), [greatest as u32]);
        // Not where the search begins behind the start.
        let found = Modp::default().sample(Kernels::detect(), &block, 32, 1024, 1, &mut [0; 4]);
        assert_eq!(found.count, 0);
    }

    #[test]
    fn fixed_counts_from_the_start_of_the_block() {
        assert_eq!(sample(&Fixed, &[9; 128], 32), [0, 32, 64, 96]);
        assert_eq!(sample(&Fixed, &[9; 127], 32), [0, 32, 64]);
        let mut markers = [0; 4];
        let found = Fixed.sample(Kernels::detect(), &[9; 128], 32, 32, 33, &mut markers);
        assert_eq!(markers[..found.count], [64, 96]);
    }
}
