//! Our formats: the frame and the pack container. `docs/FORMAT.md` is their specification.

mod checksum;
mod frame;
pub mod pack;
pub mod varint;

pub use checksum::ChecksumSeed;
pub(crate) use frame::{Descriptors, Head, LiteralCoding, MAX_OFFSET, hull, read_plain, write_head, write_plain};
pub use frame::{FrameView, Scan};
