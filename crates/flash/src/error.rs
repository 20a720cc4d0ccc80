//! Errors.

use crate::device::DeviceError;
use crate::format::FormatError;
use thiserror::Error;

/// Why an index cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The device holds something else, which is not overwritten.
    #[error("the device is not empty, and holds no index")]
    Foreign,
    /// Both superblocks are damaged.
    #[error("both superblocks are corrupt: {0}")]
    Corrupt(FormatError),
    /// The index was created with other sizes.
    #[error("the index has {found} {what}, not {asked}")]
    Differs {
        /// What differs.
        what: &'static str,
        /// As it was created.
        found: u64,
        /// As the options say.
        asked: u64,
    },
    /// The index was created with another order of slots.
    #[error("the index was created with another list")]
    DiffersInList,
    /// The index was created with another layout.
    #[error("the index was created with another layout")]
    DiffersInLayout,
    /// An option is out of range.
    #[error("{what}: {value}; must be {least} to {most}")]
    Option {
        /// The option.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// The device cannot hold an index like this.
    #[error("the device is too small: {0}")]
    Geometry(FormatError),
    /// The device is smaller than the index on it.
    #[error("the index ends at {end}, after the end of the device at {size}")]
    Truncated {
        /// End of the index in bytes.
        end: u64,
        /// Size of the device in bytes.
        size: u64,
    },
    /// The memory leaves less than a bit of filter for each entry.
    #[error("{memory} bytes of memory are too few: this index needs at least {least}")]
    Memory {
        /// As the options say.
        memory: u64,
        /// The least that is enough.
        least: u64,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum IndexError {
    /// Keys have a fixed length.
    #[error("a key of {len} bytes; this index has keys of {expected}")]
    Key {
        /// Its length in bytes.
        len: usize,
        /// Length of all keys.
        expected: usize,
    },
    /// Values have a fixed length.
    #[error("a value of {len} bytes; this index has values of {expected}")]
    Value {
        /// Its length in bytes.
        len: usize,
        /// Length of all values.
        expected: usize,
    },
    /// Pages of a partition cannot be read, so an iterator lacks their entries, and those of older
    /// ones that they may have replaced.
    #[error("{pages} pages of partition {partition} cannot be read: entries are missing")]
    Lost {
        /// The partition.
        partition: u32,
        /// Number of pages.
        pages: u32,
    },
    /// A sync failed, so inserts are refused. Look-ups still work.
    #[error("a sync of the device failed: the index accepts no more inserts")]
    Failed,
    /// The file system is full. What was inserted before stays in memory; try again when there is
    /// space.
    #[error("no space left for the index: {0}")]
    Full(DeviceError),
    /// The device failed.
    #[error(transparent)]
    Device(DeviceError),
}

impl From<DeviceError> for IndexError {
    fn from(error: DeviceError) -> IndexError {
        match error {
            DeviceError::NoSpace { .. } => IndexError::Full(error),
            DeviceError::Failed => IndexError::Failed,
            _ => IndexError::Device(error),
        }
    }
}
