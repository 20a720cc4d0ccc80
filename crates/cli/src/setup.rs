//! From arguments to a codec.

use crate::args::CodecArgs;
use crate::failure::{Failure, Outcome};
use oncewire_codec::{ConfigError, EncoderBuilder, Entropy};

impl CodecArgs {
    /// The entropy stage asked for.
    pub(crate) fn entropy(&self) -> Outcome<Entropy> {
        self.entropy.stage(self.level).map_err(Failure::usage)
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
