//! The entropy stage: compression of literals and match descriptors.

mod columns;
mod context;
mod descriptors;
mod frozen;
mod literals;
mod planes;
mod price;
mod symbols;
mod training;
mod transcode;

pub(crate) use columns::NewCodes;
pub(crate) use context::{DescriptorBuffers, ReadContext, WriteContext};
use descriptors::{DescriptorModels, DescriptorWriter};
pub(crate) use descriptors::{DescriptorSection, FixedWidth};
pub use frozen::{ContextError, FrozenContext, MAX_CODES, MAX_PREFIX};
pub(crate) use frozen::{FrozenReader, FrozenWriter};
pub(crate) use literals::{ColumnBuffers, LiteralBuffers, search_effort};
pub(crate) use price::Price;
pub use training::{MAX_TRAINING, Trained, Training};
pub(crate) use transcode::{CodeAt, Operation, TranscodeModels, TranscodeReader, TranscodeWriter};

use crate::error::ConfigError;

/// The entropy stage of an encoder. Decoders handle all of them, frame by frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Raw literals, plain descriptors. Frames are independent.
    None,
    /// Literals compressed with LZ4, plain descriptors. Frames are independent.
    Lz4,
    /// Literals by short matches and Huffman codes, descriptors by adaptive models or in columns.
    /// Both continue those of the frames before in their context. The best ratio.
    Coded {
        /// How hard short matches are sought, 1 to 3.
        level: i32,
    },
}

impl Entropy {
    /// The default: level 3. On the kinds of content of docs/PERFORMANCE.md it takes 2 to 8 % fewer
    /// bytes than level 1, in 1.1 to 1.7 times the time.
    pub const DEFAULT: Entropy = Entropy::Coded { level: 3 };

    pub(crate) fn check(self) -> Result<(), ConfigError> {
        match self {
            Entropy::Coded { level } if !(1..=3).contains(&level) => {
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
            Entropy::Coded { level } => write!(f, "coded-{level}"),
        }
    }
}
