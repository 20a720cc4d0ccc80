//! Published samplers, and one name for each sampler, the codec's included.

mod fixed;
mod gear;
mod maxp;
mod modp;

pub use fixed::Fixed;
pub use gear::{FastCdc, Gear};
pub use maxp::{MAXIMUM_GAP_PERIODS, Maxp, MaxpPublished, Peaks};
pub use modp::Modp;
pub use oncewire_codec::sampler::{
    AnySampler, ENDRE_MARKER_BYTES, SampleByte, SampleHash, Sampler, Sampling,
};
use oncewire_kernels::{ByteSet, Sampled};

/// A sampler by name: the registry of all of them. It can be used wherever a [`Sampler`] is asked
/// for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplerKind {
    /// [`SampleByte`] with the given marker bytes.
    SampleByte(ByteSet),
    /// [`Fixed`].
    Fixed,
    /// [`Modp`].
    Modp(Modp),
    /// [`Maxp`].
    Maxp,
    /// [`MaxpPublished`].
    MaxpPublished,
    /// [`Gear`].
    Gear,
    /// [`FastCdc`].
    FastCdc,
    /// [`SampleHash`].
    SampleHash,
    /// [`Peaks`].
    Peaks,
}

/// Evaluates an expression with the sampler of a kind, as a value of the sampler's type.
macro_rules! with_sampler {
    ($kind:expr, $sampler:ident => $body:expr) => {
        match $kind {
            SamplerKind::SampleByte(set) => {
                let $sampler = SampleByte::new(*set);
                $body
            }
            SamplerKind::Modp(modp) => {
                let $sampler = *modp;
                $body
            }
            SamplerKind::Fixed => {
                let $sampler = Fixed;
                $body
            }
            SamplerKind::Maxp => {
                let $sampler = Maxp;
                $body
            }
            SamplerKind::MaxpPublished => {
                let $sampler = MaxpPublished;
                $body
            }
            SamplerKind::Gear => {
                let $sampler = Gear;
                $body
            }
            SamplerKind::FastCdc => {
                let $sampler = FastCdc;
                $body
            }
            SamplerKind::SampleHash => {
                let $sampler = SampleHash;
                $body
            }
            SamplerKind::Peaks => {
                let $sampler = Peaks;
                $body
            }
        }
    };
}

impl SamplerKind {
    /// SAMPLEBYTE with EndRE's table.
    pub fn sample_byte() -> SamplerKind {
        SamplerKind::SampleByte(ENDRE_MARKER_BYTES.into_iter().collect())
    }

    /// Every sampler, SAMPLEBYTE with EndRE's table.
    pub fn all() -> impl Iterator<Item = SamplerKind> {
        [
            SamplerKind::sample_byte(),
            SamplerKind::Fixed,
            SamplerKind::Modp(Modp { published: false }),
            SamplerKind::Modp(Modp { published: true }),
            SamplerKind::Maxp,
            SamplerKind::MaxpPublished,
            SamplerKind::Gear,
            SamplerKind::FastCdc,
            SamplerKind::SampleHash,
            SamplerKind::Peaks,
        ]
        .into_iter()
    }

    /// The sampler with this [`SamplerKind::name`], if there is one.
    pub fn named(name: &str) -> Option<SamplerKind> {
        SamplerKind::all().find(|kind| kind.name() == name)
    }

    /// The name used in the literature, in lower case.
    pub fn name(&self) -> &'static str {
        match self {
            SamplerKind::SampleByte(_) => "samplebyte",
            SamplerKind::Fixed => "fixed",
            SamplerKind::Modp(Modp { published: false }) => "modp",
            SamplerKind::Modp(Modp { published: true }) => "modp-published",
            SamplerKind::Maxp => "maxp",
            SamplerKind::MaxpPublished => "maxp-published",
            SamplerKind::Gear => "gear",
            SamplerKind::FastCdc => "fastcdc",
            SamplerKind::SampleHash => "samplehash",
            SamplerKind::Peaks => "peaks",
        }
    }

    /// The sampler itself.
    pub fn boxed(&self) -> Box<dyn Sampler> {
        with_sampler!(self, sampler => Box::new(sampler))
    }
}

impl Sampler for SamplerKind {
    fn sample(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        with_sampler!(self, sampler => sampler.sample(sampling, markers))
    }

    fn sample_sparsely(&self, sampling: Sampling<'_>, markers: &mut [u32]) -> Sampled {
        with_sampler!(self, sampler => sampler.sample_sparsely(sampling, markers))
    }

    fn expected_rate(&self, period: usize) -> f64 {
        with_sampler!(self, sampler => sampler.expected_rate(period))
    }

    fn erase(self) -> AnySampler {
        with_sampler!(&self, sampler => sampler.erase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_kernels::Kernels;

    fn all() -> Vec<(&'static str, Box<dyn Sampler>)> {
        SamplerKind::all().map(|kind| (kind.name(), kind.boxed())).collect()
    }

    fn noise(seed: u64, len: usize, letters: u64) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| rng.u64(..letters) as u8).collect()
    }

    fn in_batches(
        sampler: &dyn Sampler,
        kernels: Kernels,
        block: &[u8],
        window: usize,
        period: usize,
        batch: usize,
    ) -> Vec<u32> {
        let (mut found, mut from, mut markers) = (Vec::new(), 0, vec![0; batch]);
        loop {
            let step =
                sampler.sample(Sampling { kernels, block, window, period, from }, &mut markers);
            found.extend_from_slice(&markers[..step.count]);
            from = step.resume;
            if step.count < batch {
                return found;
            }
        }
    }

    #[test]
    fn batches_and_levels_change_nothing_and_every_marker_has_its_window() {
        let pieces = [
            noise(1, 700, 256),
            vec![0; 900],
            noise(2, 900, 3),
            (0..=255).collect(),
            vec![101; 300],
            noise(3, 200, 256),
        ];
        let block = pieces.concat();
        for (name, sampler) in all() {
            for (window, period) in [(12, 4), (32, 32), (33, 100), (64, 256), (64, 1024)] {
                for len in [0, 1, window - 1, window, window + 1, 1000, block.len()] {
                    let block = &block[..len];
                    let whole = in_batches(
                        &*sampler,
                        Kernels::detect(),
                        block,
                        window,
                        period,
                        block.len() + 1,
                    );
                    assert!(whole.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
                    assert!(
                        whole.last().is_none_or(|&last| last as usize + window <= len),
                        "{name}"
                    );
                    for kernels in Kernels::available() {
                        for batch in [1, 2, 3, 16, 64] {
                            let found =
                                in_batches(&*sampler, kernels, block, window, period, batch);
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
                let rate = block.len() as f64
                    / in_batches(&*sampler, Kernels::detect(), &block, 32, period, 64).len() as f64;
                // SAMPLEBYTE with eight bytes marks one in 32.
                let slack = if name == "samplebyte" { 5.0 } else { 1.3 };
                let (least, most) =
                    (period as f64 / 2.0_f64.min(slack), period as f64 * slack + 2.0);
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
            let moved: Vec<u32> =
                new.into_iter().filter(|&marker| marker >= 5008).map(|marker| marker - 8).collect();
            // 2,000 bytes behind the insertion all markers are the same again, but those that go by
            // the position.
            assert_eq!(behind == moved, name != "fixed", "{name}");
        }
    }

    #[test]
    fn a_run_is_not_a_marker_at_every_byte() {
        for (name, sampler) in all() {
            for byte in [0, 32, 97, 255] {
                let found =
                    in_batches(&*sampler, Kernels::detect(), &[byte; 10_000], 32, 32, 64).len();
                // As published, MODP takes all of a run whose fingerprint is 0 mod p: zeros always.
                // MAXP takes its first position only, before which there is nothing.
                assert!(name != "maxp-published" || found == 1, "{found} of byte {byte}");
                if name != "modp-published" {
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
        let fingerprints: Vec<u64> =
            block.windows(32).map(oncewire_kernels::family::rabin_fingerprint).collect();
        assert!(
            fingerprints.iter().all(|fingerprint| fingerprint % 1024 != 0),
            "or choose other noise"
        );
        let greatest = (0..fingerprints.len()).max_by_key(|&i| fingerprints[i]).unwrap();
        assert_eq!(
            in_batches(&Modp::default(), Kernels::detect(), &block, 32, 1024, 1),
            [greatest as u32]
        );
        // Not where the search begins behind the start.
        let kernels = Kernels::detect();
        let sampling = Sampling { kernels, block: &block, window: 32, period: 1024, from: 1 };
        let found = Modp::default().sample(sampling, &mut [0; 4]);
        assert_eq!(found.count, 0);
    }

    #[test]
    fn fixed_counts_from_the_start_of_the_block() {
        assert_eq!(in_batches(&Fixed, Kernels::detect(), &[9; 128], 32, 32, 128), [0, 32, 64, 96]);
        assert_eq!(in_batches(&Fixed, Kernels::detect(), &[9; 127], 32, 32, 127), [0, 32, 64]);
        let mut markers = [0; 4];
        let kernels = Kernels::detect();
        let sampling = Sampling { kernels, block: &[9; 128], window: 32, period: 32, from: 33 };
        let found = Fixed.sample(sampling, &mut markers);
        assert_eq!(markers[..found.count], [64, 96]);
    }
}
