//! Errors.

use super::Id;
use super::seal::NoRandom;
use crate::device::DeviceError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a header is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Another program's file.
    #[error("not an Oncewire content cache")]
    Foreign,
    /// Another version's file.
    #[error("of version {0}, which this program does not read")]
    Version(u8),
    /// Shorter than its header says.
    #[error("truncated")]
    Truncated,
    /// A checksum is wrong, or a value is out of range.
    #[error("corrupt")]
    Corrupt,
    /// It was copied from another directory.
    #[error("of another directory")]
    OtherStore,
    /// Its name is that of another log.
    #[error("renamed: its name does not match its content")]
    Renamed,
    /// The key does not open it.
    #[error("encrypted with another key")]
    OtherKey,
}

/// Why a store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The directory holds something else.
    #[error(
        "{} is not empty and holds no content cache: choose an empty or a new directory",
        path.display()
    )]
    NotAStore {
        /// The directory.
        path: PathBuf,
    },
    /// There is no such directory.
    #[error("{} holds no content cache", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// Its file `store` cannot be read.
    #[error("{} is {problem}: restore it, or move the directory away to begin an empty cache", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: HeaderError,
    },
    /// It was made with another key.
    #[error(
        "{} was made with another key: name that key's file, or move the directory away to begin an empty cache",
        path.display()
    )]
    OtherKey {
        /// The directory.
        path: PathBuf,
    },
    /// It is encrypted, or not, and the options say otherwise.
    #[error("{} is {is}encrypted, and the options say otherwise", path.display(), is = if *sealed { "" } else { "not " })]
    OtherMode {
        /// The directory.
        path: PathBuf,
        /// Whether it is encrypted.
        sealed: bool,
    },
    /// Its logs are of packs, and a tunnel was to use it.
    #[error("{} has the content of packs: a tunnel needs a directory of its own", path.display())]
    OfPacks {
        /// The directory.
        path: PathBuf,
    },
    /// Another process has it open.
    #[error("another process uses {}", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// Others can read or change it.
    #[error(
        "others can use {} (mode {mode:04o}): run `chmod 700 {}`",
        path.display(), path.display()
    )]
    Permissions {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to another user.
    #[error(
        "{} belongs to user {owner}, not to user {user}, who runs this: run `chown -R {user} {}`",
        path.display(), path.display()
    )]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Its owner's user number.
        owner: u32,
        /// The user number of this process.
        user: u32,
    },
    /// The logs would be larger than the store may be.
    #[error("a cache of {asked} bytes does not fit: {used} of {size} bytes are in use")]
    OverQuota {
        /// Bytes of the new log's file.
        asked: u64,
        /// Bytes of all files.
        used: u64,
        /// Bytes allowed.
        size: u64,
    },
    /// A size is out of range.
    #[error("a cache of {0} bytes, or what describes it, is out of range")]
    Range(u64),
    /// There is no log of this id.
    #[error("no content cache {0}")]
    NoLog(LogName),
    /// A log cannot be read.
    #[error("{} is {problem}", path.display())]
    Log {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        problem: HeaderError,
    },
    /// The file system does not do what it should.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The medium fails.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// No salt, no key.
    #[error(transparent)]
    Random(#[from] NoRandom),
}

/// The medium of a log failed. What was committed before is still there when the store is opened
/// again; nothing more is written until then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Failed(pub String);

impl From<DeviceError> for Failed {
    fn from(error: DeviceError) -> Failed {
        Failed(error.to_string())
    }
}

/// Why bytes are not appended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// A commit must come first.
    #[error("a commit must come first")]
    NeedsCommit,
    /// The offset is below the end, or the gap is larger than any padding.
    #[error("bytes at {offset} do not follow {end}")]
    Gap {
        /// Offset of the bytes.
        offset: u64,
        /// End of the log.
        end: u64,
    },
    /// The medium failed, now or earlier.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// Bytes that cannot be read: never written, overwritten, corrupt or unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("offsets {start} to {end} are lost")]
pub struct Lost {
    /// First offset of the unit.
    pub start: u64,
    /// Offset after it.
    pub end: u64,
}

/// A log's id as text, 32 hexadecimal digits: the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName(pub Id);

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for LogName {
    type Err = ();

    fn from_str(text: &str) -> Result<LogName, ()> {
        if text.len() != 32 || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| ())?;
        Ok(LogName(number.to_be_bytes()))
    }
}
