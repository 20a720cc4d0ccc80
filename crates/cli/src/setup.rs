//! From arguments to a codec.

use crate::args::{CodecArgs, EntropyName};
use crate::failure::{Failure, Outcome};
use oncewire_codec::{ConfigError, EncoderBuilder, Entropy};

impl CodecArgs {
    /// The entropy stage asked for.
    pub(crate) fn entropy(&self) -> Outcome<Entropy> {
        match (self.entropy, self.level) {
            (EntropyName::Zstd, None) => Ok(Entropy::DEFAULT),
            (EntropyName::Zstd, Some(level)) => Ok(Entropy::Zstd { level }),
            (_, Some(_)) => Err(Failure::usage("--level belongs to --entropy zstd; leave one of them out")),
            (EntropyName::None, None) => Ok(Entropy::None),
            (EntropyName::Lz4, None) => Ok(Entropy::Lz4),
        }
    }

    /// An encoder of these settings; sizes are for the caller to add.
    pub(crate) fn encoder(&self) -> Outcome<EncoderBuilder> {
        let builder = EncoderBuilder::default().window(self.window).period(self.period).sampler(self.sampler.kind()?);
        Ok(builder.entropy(self.entropy()?))
    }
}

/// A parameter that cannot work is a wrong call; memory that cannot be had is a failure.
pub(crate) fn config_failure(error: ConfigError) -> Failure {
    match error {
        ConfigError::Memory { .. } => Failure::failed(format!("{error}; choose a smaller --cache")),
        _ => Failure::usage(error.to_string()),
    }
}
