//! Reads a file from a copy in memory.

use super::record::{PeerName, Record, RecordError};
use super::tables::{ABOUT, MINUTES_TABLE, NAMES, SECONDS_TABLE, builder};
use super::{FORMAT, HistoryError, THREAD, failure};
use redb::backends::InMemoryBackend;
use redb::{ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Largest file that is read: a month with [`MOST_PEERS`](super::MOST_PEERS) busy peers and as
/// many services as a record has in every minute takes half.
const LARGEST: u64 = 512 << 20;
/// What a file of redb begins with.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Times that a file is read that seems corrupt: a process may just be writing to it.
const TRIES: usize = 4;
/// Time between them.
const PAUSE: Duration = Duration::from_millis(150);

/// What a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Records of single seconds, ascending in time.
    pub seconds: Vec<Record>,
    /// Records of minutes, ascending in time. They include the seconds.
    pub minutes: Vec<Record>,
    /// All peers, by their numbers in the file.
    pub(super) peers: BTreeMap<u32, Arc<PeerName>>,
}

/// Reads a file, also while a process records to it. Nothing is written to it.
///
/// # Errors
/// [`HistoryError`].
pub fn read(path: &Path) -> Result<Recorded, HistoryError> {
    let mut tries = 1;
    loop {
        let bytes = bytes(path)?;
        // On damaged content, redb may panic.
        let reader =
            std::thread::Builder::new().name(THREAD.into()).spawn(move || parse(&bytes))?;
        let inconsistent = || HistoryError::Damaged("inconsistent".into());
        let recorded = reader.join().unwrap_or_else(|_| Err(inconsistent()));
        // It was read from memory, so the system has no part in it.
        let recorded = recorded.map_err(|error| match error {
            HistoryError::Io(_) => inconsistent(),
            error => error,
        });
        match recorded {
            Err(HistoryError::Damaged(_)) if tries < TRIES && is_recorded_to(path)? => tries += 1,
            recorded => return recorded,
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a process has it open to write.
fn is_recorded_to(path: &Path) -> Result<bool, HistoryError> {
    match File::open(path)?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, HistoryError> {
    // A pipe or device could block for ever, already when it is opened, or have no end.
    if !fs::metadata(path)?.is_file() {
        return Err(HistoryError::Foreign);
    }
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(HistoryError::TooLarge);
    }
    if !bytes.starts_with(MAGIC) {
        return Err(HistoryError::Foreign);
    }
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Recorded, HistoryError> {
    let memory = InMemoryBackend::new();
    memory.set_len(bytes.len() as u64)?;
    memory.write(0, bytes)?;
    // Repairs what a process left that was killed, in this copy.
    let mut database = builder().create_with_backend(memory).map_err(failure)?;
    database.check_integrity().map_err(failure)?;
    let from = database.begin_read().map_err(failure)?;
    let about = match from.open_table(ABOUT) {
        Ok(about) => about,
        // Another program's database.
        Err(
            redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. },
        ) => {
            return Err(HistoryError::Foreign);
        }
        Err(error) => return Err(failure(error)),
    };
    match about.get("format").map_err(failure)?.map(|format| format.value()) {
        Some(FORMAT) => {}
        Some(other) => return Err(HistoryError::Format(other)),
        None => return Err(HistoryError::Foreign),
    }
    let mut peers = BTreeMap::new();
    for entry in from.open_table(NAMES).map_err(failure)?.iter().map_err(failure)? {
        let (number, name) = entry.map_err(failure)?;
        let (key, name) = name.value();
        // Bounded and clean, whatever the file says.
        peers.insert(number.value(), Arc::new(PeerName::new(key, Some(name))));
    }
    Ok(Recorded {
        seconds: records(&from, SECONDS_TABLE, &peers)?,
        minutes: records(&from, MINUTES_TABLE, &peers)?,
        peers,
    })
}

fn records(
    from: &ReadTransaction,
    table: TableDefinition<'static, u64, &'static [u8]>,
    peers: &BTreeMap<u32, Arc<PeerName>>,
) -> Result<Vec<Record>, HistoryError> {
    let damaged = |error: RecordError| HistoryError::Damaged(error.to_string());
    let table = from.open_table(table).map_err(failure)?;
    let read = |entry: Result<_, redb::StorageError>| {
        let (time, value): (redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>) =
            entry.map_err(failure)?;
        Record::read(time.value(), value.value(), peers).map_err(damaged)
    };
    table.iter().map_err(failure)?.map(read).collect()
}
