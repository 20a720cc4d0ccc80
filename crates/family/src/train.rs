//! Trains a marker table for SAMPLEBYTE on your own traffic, as EndRE did (section 5.1.4).
//!
//! "We first run MAXP to identify redundant content and then sort the characters in descending
//! order of their presence in the identified redundant content. We then add these characters one at
//! a time, setting the corresponding entries in the lookup table to 1, and stop this process when
//! we see diminishing gains in compression."

use crate::sampler::SamplerKind;
use oncewire_codec::{ConfigError, Encoder, EncoderBuilder, Entropy, Tokens};
use oncewire_kernels::ByteSet;

/// Settings of a training. Its encoders use them, without an entropy stage.
#[derive(Clone, Debug)]
pub struct Training {
    /// Window in bytes, 12..=64.
    pub window: usize,
    /// Sampling period in bytes, 4..=1024.
    pub period: usize,
    /// Size of the content log in bytes.
    pub cache: u64,
    /// Largest block in bytes.
    pub block: usize,
    /// A byte is a gain if it cuts the wire bytes by at least this share.
    pub min_gain: f64,
    /// The training ends after more than this many bytes in a row without a gain.
    pub patience: usize,
}

impl Default for Training {
    fn default() -> Training {
        Training {
            window: oncewire_codec::DEFAULT_WINDOW,
            period: oncewire_codec::DEFAULT_PERIOD,
            cache: oncewire_codec::DEFAULT_CACHE,
            block: oncewire_codec::DEFAULT_BLOCK,
            min_gain: 0.001,
            patience: 3,
        }
    }
}

/// One step of a training: the table with one more byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingStep {
    /// The byte added.
    pub byte: u8,
    /// Its share of the redundant content.
    pub presence: f64,
    /// Bytes on the wire with it.
    pub wire_bytes: u64,
    /// Whether it is in the table: it is a gain, or a gain came after it.
    pub kept: bool,
}

/// The result of a training.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The table.
    pub set: ByteSet,
    /// All steps tried, in order.
    pub steps: Vec<TrainingStep>,
    /// Bytes of redundant content that MAXP found.
    pub redundant_bytes: u64,
}

impl Training {
    /// Trains a table on `data`, sent once as one stream. Calls `progress` with each step as it is
    /// measured.
    ///
    /// The table is empty if nothing in the data is redundant.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid setting.
    pub fn train(
        &self,
        data: &[u8],
        mut progress: impl FnMut(&TrainingStep),
    ) -> Result<Trained, ConfigError> {
        let presence = self.presence(data)?;
        let redundant_bytes = presence.iter().sum::<u64>();
        let mut order: Vec<u8> =
            (0..=255).filter(|&byte| presence[usize::from(byte)] > 0).collect();
        order.sort_by_key(|&byte| (std::cmp::Reverse(presence[usize::from(byte)]), byte));

        let mut best = (ByteSet::default(), u64::MAX);
        let (mut set, mut steps, mut idle) = (ByteSet::default(), Vec::<TrainingStep>::new(), 0);
        for byte in order {
            set.insert(byte);
            let wire_bytes = self.wire_bytes(data, SamplerKind::SampleByte(set))?;
            let gain = (wire_bytes as f64) < best.1 as f64 * (1.0 - self.min_gain);
            let step = TrainingStep {
                byte,
                presence: presence[usize::from(byte)] as f64 / redundant_bytes as f64,
                wire_bytes,
                kept: gain,
            };
            progress(&step);
            steps.push(step);
            if gain {
                // Earlier bytes without a gain that this one needed are part of the table.
                steps.iter_mut().for_each(|step| step.kept = true);
                best = (set, wire_bytes);
                idle = 0;
            } else {
                idle += 1;
                if idle > self.patience {
                    break;
                }
            }
        }
        Ok(Trained { set: best.0, steps, redundant_bytes })
    }

    /// Wire bytes of `data` with a sampler, sent once as one stream.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid setting.
    pub fn wire_bytes(&self, data: &[u8], sampler: SamplerKind) -> Result<u64, ConfigError> {
        let mut encoder = self.encoder(sampler).build()?;
        let mut sum = 0;
        for block in data.chunks(self.block) {
            sum += encoder
                .encode_frame(block, 0)
                .expect("blocks of the size that the encoder was built for")
                .len() as u64;
        }
        Ok(sum)
    }

    fn encoder(&self, sampler: SamplerKind) -> EncoderBuilder {
        Encoder::builder()
            .window(self.window)
            .period(self.period)
            .cache(self.cache)
            .max_block(self.block)
            .entropy(Entropy::None)
            .sampler(sampler)
    }

    /// How often each byte value occurs in the content that MAXP finds to be redundant.
    fn presence(&self, data: &[u8]) -> Result<[u64; 256], ConfigError> {
        let (mut finder, _) = self.encoder(SamplerKind::Maxp).build_halves()?;
        let mut tokens = Tokens::default();
        let mut presence = [0; 256];
        for block in data.chunks(self.block) {
            finder
                .find(block, &mut tokens)
                .expect("blocks of the size that the finder was built for");
            for found in tokens.matches() {
                block[found.at as usize..found.end()]
                    .iter()
                    .for_each(|&byte| presence[usize::from(byte)] += 1);
            }
        }
        Ok(presence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of hexadecimal noise of which every other is one of a few: only digits and line ends
    /// can mark.
    fn log(len: usize) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(9);
        let mut out = Vec::new();
        while out.len() < len {
            let number = if out.len() % 2 == 0 { rng.u64(..16) } else { rng.u64(..) };
            for i in 0..5u64 {
                out.extend_from_slice(
                    format!("{:016X}", number.wrapping_mul(2 * i + 3)).as_bytes(),
                );
            }
            out.push(b'\n');
        }
        out.truncate(len);
        out
    }

    #[test]
    fn a_trained_table_beats_the_default_where_that_does_not_fit() {
        let data = log(400_000);
        let training = Training::default();
        let mut told = 0;
        let trained = training.train(&data, |_| told += 1).unwrap();
        assert_eq!(told, trained.steps.len());
        assert!(trained.redundant_bytes > 50_000);
        let kept = trained.steps.iter().filter(|step| step.kept).count();
        assert!(kept > 0 && trained.set.len() == kept, "{trained:?}");
        assert!(trained.steps.iter().all(|step| b"0123456789ABCDEF\n".contains(&step.byte)));
        let best = trained.steps.iter().map(|step| step.wire_bytes).min().unwrap();
        let with = training.wire_bytes(&data, SamplerKind::SampleByte(trained.set)).unwrap();
        // What was kept is the best but for gains too small to count.
        assert!(with as f64 <= best as f64 * (1.0 + training.min_gain), "{with}, {best}");
        assert!(with <= training.wire_bytes(&data, SamplerKind::sample_byte()).unwrap());
    }

    #[test]
    fn nothing_redundant_trains_nothing() {
        let mut rng = fastrand::Rng::with_seed(1);
        let noise: Vec<u8> = (0..100_000).map(|_| rng.u8(..)).collect();
        let trained = Training::default().train(&noise, |_| panic!("no step")).unwrap();
        assert_eq!((trained.set.len(), trained.redundant_bytes), (0, 0));
        assert!(Training { window: 11, ..Training::default() }.train(&noise, |_| {}).is_err());
    }
}
