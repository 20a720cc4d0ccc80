//! What a controller keeps: in a file of redb, or in etcd.

use oncewire_plan::control::{Record, RecordError};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The one table: texts by name.
const TABLE: TableDefinition<'_, &str, &str> = TableDefinition::new("controller");
/// The name of the record.
const RECORD: &str = "record";

/// Where a controller keeps its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAt {
    /// A file, for the only controller.
    File(PathBuf),
    /// etcd, for one of several.
    Etcd(EtcdAt),
}

/// Where etcd is, and under which name controllers of a network share a plan there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAt {
    /// Its members, `host:port`.
    pub endpoints: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
}

impl StoreAt {
    /// The path of a file, or `etcd://HOST:PORT[,HOST:PORT...]/PREFIX`.
    ///
    /// # Errors
    /// One line that says what is wrong with an address of etcd.
    pub fn parse(text: &Path) -> Result<StoreAt, String> {
        let Some(etcd) = text.to_str().and_then(|text| text.strip_prefix("etcd://")) else {
            return Ok(StoreAt::File(text.into()));
        };
        let (members, prefix) = etcd.split_once('/').unwrap_or((etcd, ""));
        let endpoints: Vec<String> = members.split(',').map(str::to_owned).collect();
        let has_port = |member: &String| {
            let port = member.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        };
        if let Some(wrong) = endpoints.iter().find(|member| !has_port(member)) {
            return Err(format!("{wrong:?} is no HOST:PORT of an etcd"));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() {
            return Err("it has no name after the members: write etcd://HOST:PORT/NETWORK".into());
        }
        Ok(StoreAt::Etcd(EtcdAt { endpoints, prefix: prefix.into() }))
    }
}

impl fmt::Display for StoreAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAt::File(path) => path.display().fmt(f),
            StoreAt::Etcd(at) => at.fmt(f),
        }
    }
}

impl fmt::Display for EtcdAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}/{}", self.endpoints.join(","), self.prefix)
    }
}

#[cfg(feature = "etcd")]
impl EtcdAt {
    /// A key.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }
}

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerStoreError {
    /// Another process has it open.
    #[error("another process uses it")]
    InUse,
    /// It cannot be read or written.
    #[error("{0}")]
    File(String),
    /// It is damaged, or another kind of file.
    #[error("it is damaged, or not a controller's store")]
    Damaged,
    /// Its content.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// This program cannot speak with etcd.
    #[error("this program is built without etcd; build it with `--features etcd`")]
    NoEtcd,
    /// etcd does not do what it is asked for.
    #[error("{0}")]
    Etcd(String),
    /// Another controller leads.
    #[error("this controller leads no more")]
    Deposed,
}

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

    #[test]
    fn stores_are_files_or_etcd() {
        let parse = |text: &str| StoreAt::parse(Path::new(text));
        assert_eq!(parse("a/b.redb"), Ok(StoreAt::File("a/b.redb".into())));
        let text = "etcd://10.0.0.1:2379,h:1,[::1]:2/a/net";
        let at = parse(text).unwrap();
        let StoreAt::Etcd(etcd) = &at else { panic!("{at:?}") };
        assert_eq!((etcd.endpoints.len(), etcd.prefix.as_str()), (3, "a/net"));
        assert_eq!(at.to_string(), text);
        for wrong in
            ["etcd://", "etcd:///a", "etcd://h/a", "etcd://h:x/a", "etcd://h:1", "etcd://h:1,/a"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

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
