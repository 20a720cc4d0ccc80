//! Samplers: which positions of a block are markers.

mod fixed;
mod gear;
mod maxp;
mod modp;
mod sample_byte;
mod stretch;

pub use fixed::Fixed;
pub use gear::{FastCdc, Gear};
pub use maxp::Maxp;
pub use modp::Modp;
use oncewire_kernels::{Kernels, Sampled};
pub use sample_byte::{GAP_PERIODS, SampleByte};
pub use stretch::Stretch;

/// EndRE's SAMPLETABLE as trained on its authors' traces (section 5.1.4): these byte values mark.
pub const ENDRE_MARKER_BYTES: [u8; 8] = [0, 32, 48, 101, 105, 115, 116, 255];

/// Chooses markers. A type per algorithm, so that the matcher's loop is compiled for each.
pub trait Sampler: Send + 'static {
    /// Finds markers of windows of `window` bytes in `block[from..]` at sampling period `period`, as many as `markers` holds.
    ///
    /// Marker positions depend only on the bytes of the block from `from` on (and, for FIXED, on the position itself), so
    /// that equal content yields equal markers at either end and at any time.
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled;

    /// Bytes per fingerprint that this sampler achieves on text at `period`. Sizes the table; the achieved rate on the data at
    /// hand is reported by [`crate::EncoderStats`].
    fn expected_rate(&self, period: usize) -> f64;
}

impl Sampler for Box<dyn Sampler> {
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, period: usize, from: usize, markers: &mut [u32]) -> Sampled {
        (**self).sample(kernels, block, window, period, from, markers)
    }

    fn expected_rate(&self, period: usize) -> f64 {
        (**self).expected_rate(period)
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
        // A run: the first of each gap, then the skip.
        assert_eq!(sample(&SampleByte::default(), &[b'a'; 1000], 32)[..3], [0, 17, 34]);
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
