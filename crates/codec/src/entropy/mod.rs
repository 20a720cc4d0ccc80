//! The entropy stage: compression of literals and match descriptors.

mod context;
mod descriptors;
mod price;
mod symbols;
mod transcode;

pub(crate) use context::{ReadContext, WriteContext};
pub(crate) use descriptors::{DescriptorModels, DescriptorWriter, FixedWidth};
pub(crate) use price::Price;
pub(crate) use transcode::{CodeAt, Operation, TranscodeModels, TranscodeReader, TranscodeWriter};

use crate::error::ConfigError;

/// The entropy stage of an encoder. Decoders handle all of them, frame by frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Raw literals, plain descriptors. Frames are independent.
    None,
    /// Literals compressed with LZ4, plain descriptors. Frames are independent.
    Lz4,
    /// Literals through one zstd stream per context, flushed at each frame; descriptors coded by
    /// adaptive models. The best ratio.
    Zstd {
        /// zstd's compression level, 1 to 3.
        level: i32,
    },
}

impl Entropy {
    /// The default: zstd at level 3. Over ten kinds of content an encoder needs an eighth more time
    /// than with level 1, for 3 % fewer bytes.
    pub const DEFAULT: Entropy = Entropy::Zstd { level: 3 };

    pub(crate) fn check(self) -> Result<(), ConfigError> {
        match self {
            Entropy::Zstd { level } if !(1..=3).contains(&level) => {
                Err(ConfigError::Level { level })
            }
            _ => Ok(()),
        }
    }
}

impl Default for Entropy {
    fn default() -> Entropy {
        Entropy::DEFAULT
    }
}

impl std::fmt::Display for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Entropy::None => f.write_str("none"),
            Entropy::Lz4 => f.write_str("lz4"),
            Entropy::Zstd { level } => write!(f, "zstd-{level}"),
        }
    }
}
