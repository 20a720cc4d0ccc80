//! The frame format. `docs/FORMAT.md` is its specification.

mod checksum;
mod frame;
pub mod varint;

pub use checksum::ChecksumSeed;
pub(crate) use frame::{
    Descriptors, Head, LiteralCoding, NOT_A_FRAME, dependency_range, read_plain, write_head,
    write_plain,
};
pub use frame::{FrameView, Scan, plain_frame_len};
