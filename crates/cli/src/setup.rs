//! Encoder settings from arguments.

use crate::args::CodecArgs;
use crate::failure::{Failure, Outcome, plain};
use crate::quantity::{binary, size};
use oncewire_codec::{ConfigError, EncoderBuilder, Entropy};

impl CodecArgs {
    /// The entropy stage, from --entropy and --level.
    pub(crate) fn entropy(&self) -> Outcome<Entropy> {
        self.entropy.stage(self.level).map_err(Failure::usage)
    }

    /// An encoder with these settings, which looks inside compressed content or not. The caller sets
    /// the cache and block sizes.
    pub(crate) fn encoder(&self, inside: bool) -> Outcome<EncoderBuilder> {
        let builder = EncoderBuilder::default()
            .window(self.window)
            .period(self.period)
            .inside(inside)
            .sampler(self.sampler.kind()?);
        Ok(builder.entropy(self.entropy()?))
    }
}

/// An invalid parameter is a usage error; a failed allocation is not.
pub(crate) fn config_failure(error: ConfigError) -> Failure {
    match error {
        ConfigError::Memory { bytes, what, source } => Failure::failed(format!(
            "cannot get {} of memory for the {what}: {}; choose a smaller --cache",
            binary(bytes as u64),
            plain(&source)
        )),
        ConfigError::Capacity { capacity, max } => Failure::usage(format!(
            "--cache {} is out of range: it must hold at least one block, and at most {}",
            size(capacity),
            size(max)
        )),
        ConfigError::Table(_) => Failure::failed(error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}
