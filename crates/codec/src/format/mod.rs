//! The frame format. `docs/FORMAT.md` is its specification.

mod checksum;
mod frame;
pub mod varint;

pub use checksum::ChecksumSeed;
pub(crate) use frame::{
    DESCRIPTORS_MASK, Descriptors, Head, LiteralCoding, bad_width, dependency_range, is_transcoded,
    put_position, read_plain, take_position, write_head, write_plain,
};
pub use frame::{FrameView, Scan, plain_frame_len};
