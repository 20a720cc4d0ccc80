//! What the index needs of a device, and the devices there are.
//!
//! | device | content | for |
//! |---|---|---|
//! | [`FileDevice`] | a file or block device, with `O_DIRECT` where the file system has it | use |
//! | [`Striped`] | that of several other devices | use of all their speed |
//! | [`Memory`] | memory | tests, and the content of a simulated chip |
//! | [`Chip`] | that of another device | costs of a published device, in virtual time |
//! | [`Crash`] | memory | what a crash leaves of writes that were not synced; faults on order |

mod aligned;
mod chip;
mod crash;
mod file;
mod memory;
pub(crate) mod pool;
mod striped;

pub use aligned::Aligned;
pub(crate) use aligned::PageBuffer;
pub use chip::{Chip, Used};
pub use crash::{Crash, Fault, Operation, SECTOR};
pub use file::FileDevice;
pub use memory::Memory;
pub use striped::Striped;

use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Unit of all reads and writes, in bytes.
pub const PAGE: usize = 4096;

/// A device that stores pages.
///
/// Offsets and lengths are multiples of [`PAGE`]; anything else is [`DeviceError::Unaligned`]. A
/// write is durable after a [`Device::sync`] that began after it returned. Until then, a crash may
/// leave any subset of its sectors.
pub trait Device: Send + Sync {
    /// Capacity in bytes.
    fn size(&self) -> u64;

    /// Fills `into` from offset `at`. An [`Aligned`] buffer saves a copy.
    ///
    /// # Errors
    ///
    /// If the range is not on the device, or the medium fails.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes `bytes` at offset `at`. An [`Aligned`] buffer saves a copy.
    ///
    /// # Errors
    ///
    /// If the range is not on the device, the medium fails, or no space is left for a sparse file.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    ///
    /// If the medium fails. The system may have dropped unsynced writes then, so every later write
    /// and sync fails, too, with [`DeviceError::Failed`].
    fn sync(&self) -> Result<(), DeviceError>;
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read(at, into)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        (**self).write(at, bytes)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        (**self).sync()
    }
}

/// Why a device did not do what it was asked for.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// Neither offset nor length may be anything but a multiple of [`PAGE`].
    #[error("{len} bytes at {at} are not whole pages of {PAGE} bytes")]
    Unaligned {
        /// Offset in bytes.
        at: u64,
        /// Length in bytes.
        len: usize,
    },
    /// The range ends after the end of the device.
    #[error("{len} bytes at {at} are beyond the end of a device of {size} bytes")]
    OutOfRange {
        /// Offset in bytes.
        at: u64,
        /// Length in bytes.
        len: usize,
        /// Capacity in bytes.
        size: u64,
    },
    /// The file system is full.
    #[error("no space left for {len} bytes at {at}")]
    NoSpace {
        /// Offset in bytes.
        at: u64,
        /// Length in bytes.
        len: usize,
    },
    /// The medium or the system failed.
    #[error("cannot {what} {len} bytes at {at}: {source}")]
    Io {
        /// Read, write or sync.
        what: &'static str,
        /// Offset in bytes.
        at: u64,
        /// Length in bytes.
        len: usize,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier sync failed.
    #[error("an earlier sync of the device failed, so writes may be lost")]
    Failed,
}

/// Checks a range before a device touches it.
fn check(size: u64, at: u64, len: usize) -> Result<(), DeviceError> {
    if !at.is_multiple_of(PAGE as u64) || !len.is_multiple_of(PAGE) {
        return Err(DeviceError::Unaligned { at, len });
    }
    match at.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(DeviceError::OutOfRange { at, len, size }),
    }
}
