//! The history of a process: what it carried, an hour by seconds and a month by minutes.
//!
//! [`Sampler`] turns two states of a process into a [`Record`] of what happened between them.
//! [`History`] keeps the last hour in memory, for the page of the admin address, and hands records
//! to a thread that writes them into a file. That file is a database of redb: the records of some
//! seconds are one transaction, so a process that is killed loses those seconds, and never the file.
//! [`read`] opens a copy of the file in memory, so it works while a process records, and a damaged
//! file is never written to.

mod file;
mod read;
mod record;
mod recorder;
mod sampler;
mod tables;
#[cfg(test)]
mod tests;

pub use read::{Recorded, read};
pub use record::{
    Amounts, MOST_PEERS, MOST_RECORDED_SERVICES, PeerName, PeerRecord, Record, RecordError,
};
pub use recorder::History;
pub(crate) use recorder::Recording;
pub use sampler::Sampler;

use std::io;

/// Number of the file's layout.
pub const FORMAT: u64 = 1;
/// Records by seconds that are kept: an hour.
pub const SECONDS: usize = 3600;
/// Records by minutes that are kept: 31 days.
pub const MINUTES: usize = 31 * 24 * 60;
/// Name of the thread that reads or writes a file. On a file that was damaged on purpose, redb
/// panics: a program's panic hook may be silent in this thread, because [`read`] and [`History`]
/// report it as [`HistoryError::Damaged`].
pub const THREAD: &str = "history";

/// Why a file cannot be used, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The system's reason.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another process has it open.
    #[error("another process records to it")]
    InUse,
    /// It is something else.
    #[error("it is not a history file")]
    Foreign,
    /// It is larger than any history.
    #[error("it is too large for a history file")]
    TooLarge,
    /// It is a history of another format.
    #[error("it has format {0}, and this program uses format {FORMAT}")]
    Format(u64),
    /// Its content is inconsistent.
    #[error("it is corrupt ({0})")]
    Damaged(String),
}

impl From<redb::Error> for HistoryError {
    fn from(error: redb::Error) -> HistoryError {
        match error {
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                HistoryError::Foreign
            }
            redb::Error::Io(error) => HistoryError::Io(error),
            redb::Error::DatabaseAlreadyOpen => HistoryError::InUse,
            error => HistoryError::Damaged(error.to_string()),
        }
    }
}

/// An error of redb, of whatever kind.
fn failure(error: impl Into<redb::Error>) -> HistoryError {
    error.into().into()
}
