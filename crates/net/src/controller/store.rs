//! What a controller keeps: in a file of redb, or in etcd.

use super::place::ControllerStoreError;
use oncewire_plan::control::Record;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The one table: texts by name.
const TABLE: TableDefinition<'_, &str, &str> = TableDefinition::new("controller");
/// The name of the record.
const RECORD: &str = "record";

fn failed(error: impl Into<redb::Error>) -> ControllerStoreError {
    match error.into() {
        redb::Error::DatabaseAlreadyOpen => ControllerStoreError::InUse,
        redb::Error::Corrupted(_) => ControllerStoreError::Damaged,
        other => ControllerStoreError::File(other.to_string()),
    }
}

/// The store of a controller that runs.
#[derive(Clone)]
pub(super) enum Store {
    File(Arc<Disk>),
    #[cfg(feature = "etcd")]
    Etcd(Arc<super::etcd::Leader>),
}

impl Store {
    /// Replaces what is stored. It stays whatever happens when this returns.
    ///
    /// # Errors
    /// [`ControllerStoreError`]; what was stored before stays.
    pub(super) async fn write(&self, text: String) -> Result<(), ControllerStoreError> {
        match self {
            Store::File(disk) => {
                let disk = disk.clone();
                let work = tokio::task::spawn_blocking(move || disk.write(&text)).await;
                work.unwrap_or_else(|error| Err(ControllerStoreError::File(error.to_string())))
            }
            #[cfg(feature = "etcd")]
            Store::Etcd(leader) => leader.write(&text).await,
        }
    }
}

/// A file of redb. One process has it at a time.
pub(super) struct Disk(Database);

impl Disk {
    /// Opens the store, or makes one, and reads what is in it.
    ///
    /// # Errors
    /// [`ControllerStoreError`].
    pub(super) fn open(path: &Path) -> Result<(Disk, Record), ControllerStoreError> {
        // On damaged content, redb may panic.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let database = Database::create(path).map_err(failed)?;
            let record = {
                let read = database.begin_read().map_err(failed)?;
                match read.open_table(TABLE) {
                    Ok(table) => {
                        let text = table.get(RECORD).map_err(failed)?;
                        let record = text.map(|text| Record::from_json(text.value()));
                        record.transpose()?.unwrap_or_default()
                    }
                    Err(redb::TableError::TableDoesNotExist(_)) => Record::default(),
                    Err(error) => return Err(failed(error)),
                }
            };
            Ok((Disk(database), record))
        }));
        opened.unwrap_or(Err(ControllerStoreError::Damaged))
    }

    /// Replaces what is stored. It is on disk when this returns.
    ///
    /// # Errors
    /// [`ControllerStoreError`]; what was stored before stays.
    pub(super) fn write(&self, text: &str) -> Result<(), ControllerStoreError> {
        let written = catch_unwind(AssertUnwindSafe(|| {
            let transaction = self.0.begin_write().map_err(failed)?;
            transaction.open_table(TABLE).map_err(failed)?.insert(RECORD, text).map_err(failed)?;
            transaction.commit().map_err(failed)
        }));
        written.unwrap_or(Err(ControllerStoreError::Damaged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_plan::control::RecordError;

    #[test]
    fn a_record_comes_back_and_other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("net.redb");
        let (store, record) = Disk::open(&path).unwrap();
        assert_eq!(record, Record::default());
        assert!(matches!(Disk::open(&path), Err(ControllerStoreError::InUse)));
        let record = Record { drained: ["B".to_owned()].into(), ..Record::default() };
        store.write(&record.to_json()).unwrap();
        drop(store);
        let (store, found) = Disk::open(&path).unwrap();
        assert_eq!(found, record);
        store.write("{\"format\": 9}").unwrap();
        drop(store);
        assert!(matches!(
            Disk::open(&path),
            Err(ControllerStoreError::Record(RecordError::Format(9)))
        ));
        // Nothing is written over another file.
        let other = directory.path().join("other");
        std::fs::write(&other, "precious, and longer than nothing").unwrap();
        assert!(Disk::open(&other).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"precious, and longer than nothing");
    }
}
