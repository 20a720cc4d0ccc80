//! Writes a file.

use super::read::Recorded;
use super::record::{PeerName, Record};
use super::tables::{ABOUT, MINUTES_TABLE, NAMES, SECONDS_TABLE, builder};
use super::{FORMAT, HistoryError, MINUTES, SECONDS, failure};
use redb::{Database, ReadableTable, ReadableTableMetadata, Table};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// Most peers and services that a file names. What later ones carry is in the sums only.
const MOST_NAMES: usize = 4096;
/// From here on, only peers get numbers: clients choose the names of services.
const MOST_NAMES_WITH_SERVICES: usize = MOST_NAMES / 2;
/// Seconds of a record in [`MINUTES_TABLE`].
const MINUTE: u64 = 60;

/// An open file. No other process can open it to write.
pub(super) struct HistoryFile {
    database: Database,
    peers: BTreeMap<u32, Arc<PeerName>>,
    numbers: HashMap<Arc<PeerName>, u32>,
}

impl HistoryFile {
    /// Opens a file, or makes it, and returns what it has. A file that is something else or corrupt
    /// is left alone.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub(super) fn open(path: &Path) -> Result<(HistoryFile, Recorded), HistoryError> {
        if !path.try_exists()? {
            create(path)?;
        }
        // What is opened to be written is repaired; so a copy is opened first.
        let recorded = super::read(path)?;
        let database = builder().open(path).map_err(failure)?;
        let numbers = recorded.peers.iter().map(|(number, peer)| (peer.clone(), *number)).collect();
        Ok((HistoryFile { database, peers: recorded.peers.clone(), numbers }, recorded))
    }

    /// Adds records of seconds, in one transaction, and removes the oldest ones.
    ///
    /// # Errors
    /// [`HistoryError`]. After an error of the system, nothing can be added any more.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), HistoryError> {
        let transaction = self.database.begin_write().map_err(failure)?;
        {
            let mut names = transaction.open_table(NAMES).map_err(failure)?;
            let mut seconds = transaction.open_table(SECONDS_TABLE).map_err(failure)?;
            let mut minutes = transaction.open_table(MINUTES_TABLE).map_err(failure)?;
            for record in records {
                for (list, most) in
                    [(&record.peers, MOST_NAMES), (&record.services, MOST_NAMES_WITH_SERVICES)]
                {
                    for one in list {
                        self.number(&one.peer, most, &mut names)?;
                    }
                }
            }
            let numbers = &self.numbers;
            let put = |table: &mut Table<'_, u64, &[u8]>, time: u64, record: &Record| {
                // The clock may have been set back, and a process restarted within a minute.
                let earlier = table.get(time).map_err(failure)?;
                let earlier = earlier
                    .map(|value| Record::read(time, value.value(), &self.peers))
                    .transpose()
                    .map_err(|error| HistoryError::Damaged(error.to_string()))?;
                let sum = earlier.map(|mut sum| {
                    sum.add(record);
                    sum
                });
                let value = sum.as_ref().unwrap_or(record).write(|peer| numbers.get(peer).copied());
                table.insert(time, &*value).map(drop).map_err(failure)
            };
            for record in records {
                put(&mut seconds, record.time, record)?;
            }
            for (minute, record) in by_minutes(records) {
                put(&mut minutes, minute, &record)?;
            }
            keep(&mut seconds, SECONDS)?;
            keep(&mut minutes, MINUTES)?;
        }
        transaction.commit().map_err(failure)
    }

    /// Gives a peer or service a number, unless `most` are taken.
    fn number(
        &mut self,
        peer: &Arc<PeerName>,
        most: usize,
        names: &mut Table<'_, u32, (&str, &str)>,
    ) -> Result<(), HistoryError> {
        if self.numbers.contains_key(peer) || self.numbers.len() >= most {
            return Ok(());
        }
        let number = self.peers.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        names.insert(number, (&*peer.key, &*peer.name)).map_err(failure)?;
        self.peers.insert(number, peer.clone());
        self.numbers.insert(peer.clone(), number);
        Ok(())
    }
}

/// Sums by minute.
fn by_minutes(records: &[Record]) -> BTreeMap<u64, Record> {
    let mut minutes: BTreeMap<u64, Record> = BTreeMap::new();
    for record in records {
        let minute = record.time - record.time % MINUTE;
        minutes.entry(minute).or_default().add(record);
    }
    minutes
}

/// Removes the oldest records beyond this number. By number, not by time, so that a clock that was
/// wrong for a moment does not remove everything.
fn keep(table: &mut Table<'_, u64, &[u8]>, most: usize) -> Result<(), HistoryError> {
    while table.len().map_err(failure)? > most as u64 {
        table.pop_first().map_err(failure)?;
    }
    Ok(())
}

/// Makes an empty history. It gets its name when it is complete, so that a process that is killed
/// meanwhile leaves no unusable file.
fn create(path: &Path) -> Result<(), HistoryError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = Path::new(&name);
    let made = fill(new).and_then(|()| match fs::hard_link(new, path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => Ok(linked?),
    });
    let _ = fs::remove_file(new);
    made?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

fn fill(path: &Path) -> Result<(), HistoryError> {
    // One that an earlier process of this number left.
    let _ = fs::remove_file(path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let database = builder().create_file(file).map_err(failure)?;
    let transaction = database.begin_write().map_err(failure)?;
    transaction.open_table(ABOUT).map_err(failure)?.insert("format", FORMAT).map_err(failure)?;
    transaction.open_table(NAMES).map_err(failure)?;
    transaction.open_table(SECONDS_TABLE).map_err(failure)?;
    transaction.open_table(MINUTES_TABLE).map_err(failure)?;
    transaction.commit().map_err(failure)
}
