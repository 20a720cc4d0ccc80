//! Frames in datagrams, which may be lost, repeated and reordered: the codec of a packet link.
//!
//! [`DatagramEncoder`] searches a run of content once and deals it to datagrams as slices, of which
//! each decodes alone. [`DatagramDecoder`] decodes whichever arrive, and keeps a log with holes where
//! others were lost. Which content a slice may refer to is the caller's policy ([`Reach`]): all that
//! was sent, only what was sent several times, or only what the decoder is known to have.
//!
//! `docs/LINK.md`, "Frames", specifies the bytes. A datagram that was altered on the way must be
//! dropped before it gets here.
//!
//! [`Reach`]: crate::Reach

mod decoder;
mod encoder;
mod frame;
mod pending;
mod run;
mod sights;
mod window;

pub use crate::entropy::{
    ContextError, FrozenContext, MAX_CODES, MAX_PREFIX, MAX_TRAINING, Trained, Training,
};
pub use decoder::{DatagramDecoded, DatagramDecoder};
pub use encoder::{Class, DatagramEncoder, Indexing};
pub use run::{Limits, RunTokens};

/// Whether a sample of `content` is distributed unevenly enough to be compressible. Compressed and
/// encrypted content is not. Content of less than 512 bytes counts as compressible.
pub fn looks_compressible(content: &[u8]) -> bool {
    crate::encoder::looks_compressible(content)
}
