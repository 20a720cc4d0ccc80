//! The directory of a store.

use super::error::{HeaderError, LogName, StoreError};
use super::layout::{LogHeader, MAX_ABOUT, MAX_STATE, Shape, StorePage};
use super::log::DiskLog;
use super::seal::{AesGcm, Cipher, Plain, Sealer, Secret, random};
use super::traffic::{Counted, Traffic};
use super::{Id, Peer, Side};
use crate::device::{Device, DeviceError, FileDevice, PAGE};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// A directory of logs, open in this process only.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    page: StorePage,
    key: Secret,
    cipher: Arc<dyn Cipher>,
    /// Most bytes of all files.
    size: u64,
    /// Locked while the store is open; `None` if nothing is written, or no more.
    lock: Mutex<Option<File>>,
    /// What was read and written.
    traffic: Arc<Traffic>,
}

/// A log to be made.
#[derive(Clone, Debug, Default)]
pub struct NewLog {
    /// Public key of the peer.
    pub peer: Peer,
    /// Which end of its direction keeps it.
    pub side: Side,
    /// Bytes of content to keep.
    pub capacity: u64,
    /// Largest state of its owner, in bytes; 0 for [`MAX_STATE`].
    pub state: u32,
    /// Units of a segment; 0 lets the capacity choose.
    pub units: u32,
    /// Whatever its owner wants to know of it.
    pub about: Vec<u8>,
}

/// A log's file.
#[derive(Debug)]
pub struct LogFile {
    /// Its id.
    pub name: LogName,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Its header, or what is wrong with it. Such a file is left as it is.
    pub header: Result<LogHeader, HeaderError>,
}

const STORE_FILE: &str = "store";
const LOG: &str = "log";
const NEW: &str = "new";

impl Store {
    /// Opens the store in a directory, or makes an empty one if there is no such directory or it is
    /// empty. Without a `key`, it is not encrypted. All files together take at most `size` bytes.
    /// Returns the logs that are there.
    ///
    /// # Errors
    /// If the directory holds something else, or is of another key or version, or open in another
    /// process, or can be used by others; and if the file system fails.
    pub fn open(
        path: &Path,
        key: Option<&Secret>,
        size: u64,
    ) -> Result<(Store, Vec<LogFile>), StoreError> {
        let cipher: Arc<dyn Cipher> = match key {
            Some(_) => Arc::new(AesGcm),
            None => Arc::new(Plain),
        };
        Store::with_cipher(path, key, size, cipher)
    }

    /// As [`Store::open`], with another cipher.
    ///
    /// # Errors
    /// As there.
    pub fn with_cipher(
        path: &Path,
        key: Option<&Secret>,
        size: u64,
        cipher: Arc<dyn Cipher>,
    ) -> Result<(Store, Vec<LogFile>), StoreError> {
        make_directory(path)?;
        check_directory(path)?;
        let file = path.join(STORE_FILE);
        let sealed = key.is_some();
        let key = key.cloned().unwrap_or(Secret([0; 32]));
        if !file.exists() {
            check_empty(path)?;
            let id = random()?;
            let check = StorePage::check_of(cipher.as_ref(), &key, &id);
            create_whole(path, &file, &StorePage { id, sealed, check }.write())?;
        }
        let lock = OpenOptions::new().read(true).write(true).open(&file);
        let lock = lock.map_err(|source| io_error("open", &file, source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path: path.into() }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &file, source)),
        }
        let page = read_store(&file)?;
        let mut store = Store {
            path: path.into(),
            page,
            key,
            cipher,
            size,
            lock: Mutex::new(Some(lock)),
            traffic: Arc::default(),
        };
        store.check_key(sealed)?;
        store.remove_unfinished()?;
        let logs = store.logs()?;
        Ok((store, logs))
    }

    /// Opens the store to look at it: nothing is locked, written or made. Without a `key`, contents
    /// of an encrypted store cannot be read, but its headers can.
    ///
    /// # Errors
    /// As [`Store::open`], and [`StoreError::Missing`] if there is none.
    pub fn look(path: &Path, key: Option<&Secret>) -> Result<(Store, Vec<LogFile>), StoreError> {
        let file = path.join(STORE_FILE);
        if !file.exists() {
            return Err(StoreError::Missing { path: path.into() });
        }
        let page = read_store(&file)?;
        let cipher: Arc<dyn Cipher> = if page.sealed { Arc::new(AesGcm) } else { Arc::new(Plain) };
        let is_readable = key.is_some() || !page.sealed;
        let key = key.filter(|_| page.sealed).cloned().unwrap_or(Secret([0; 32]));
        let mut store = Store {
            path: path.into(),
            page,
            key,
            cipher,
            size: 0,
            lock: Mutex::default(),
            traffic: Arc::default(),
        };
        if is_readable {
            store.check_key(page.sealed)?;
        }
        let logs = store.logs()?;
        Ok((store, logs))
    }

    /// As [`Store::look`], but no other process may have it open.
    ///
    /// # Errors
    /// As there, and [`StoreError::Busy`].
    pub fn look_alone(
        path: &Path,
        key: Option<&Secret>,
    ) -> Result<(Store, Vec<LogFile>), StoreError> {
        let (mut store, logs) = Store::look(path, key)?;
        let file = path.join(STORE_FILE);
        let lock = File::open(&file).map_err(|source| io_error("open", &file, source))?;
        match lock.try_lock() {
            Ok(()) => store.lock = Mutex::new(Some(lock)),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path: path.into() }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &file, source)),
        }
        Ok((store, logs))
    }

    fn check_key(&mut self, sealed: bool) -> Result<(), StoreError> {
        let StorePage { id, check, .. } = self.page;
        if self.page.sealed != sealed {
            return Err(StoreError::OtherMode {
                path: self.path.clone(),
                sealed: self.page.sealed,
            });
        }
        if StorePage::check_of(self.cipher.as_ref(), &self.key, &id) != check {
            return Err(StoreError::OtherKey { path: self.path.clone() });
        }
        Ok(())
    }

    /// Whether it is encrypted.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.page.sealed
    }

    /// Two numbers of this store, which nobody knows without its key: for keyed hashes of its owner.
    #[must_use]
    pub fn numbers(&self) -> [u64; 2] {
        let Secret(bytes) = Secret::derive(&self.key.0, &self.page.id, "oncewire store numbers 1");
        [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n])))
    }

    /// When a log was last written.
    #[must_use]
    pub fn modified(&self, name: LogName) -> Option<SystemTime> {
        fs::metadata(self.file(name, LOG)).and_then(|meta| meta.modified()).ok()
    }

    /// All logs, in the order of their names.
    ///
    /// # Errors
    /// If the directory cannot be read. A log that cannot be read is no error.
    pub fn logs(&self) -> Result<Vec<LogFile>, StoreError> {
        let failed = |source| io_error("read", &self.path, source);
        let mut logs = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) = name_of(&path, LOG) else { continue };
            let (header, bytes) = self.header(&path, name);
            logs.push(LogFile { name, path, bytes, header });
        }
        logs.sort_by_key(|log| log.name);
        Ok(logs)
    }

    fn header(&self, path: &Path, name: LogName) -> (Result<LogHeader, HeaderError>, u64) {
        let Ok(file) = File::open(path) else { return (Err(HeaderError::Truncated), 0) };
        let bytes = file.metadata().map_or(0, |meta| meta.len());
        let mut result = Err(HeaderError::Truncated);
        for at in [0, PAGE as u64] {
            let mut page = [0; PAGE];
            if file.read_exact_at(&mut page, at).is_err() {
                continue;
            }
            result = LogHeader::read(&page);
            if result.is_ok() {
                break;
            }
        }
        let header = result.and_then(|header| {
            if header.store != self.page.id || header.sealed != self.page.sealed {
                return Err(HeaderError::OtherStore);
            }
            if header.id != name.0 {
                return Err(HeaderError::Renamed);
            }
            Ok(header)
        });
        (header, bytes)
    }

    /// Bytes of all logs.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn used(&self) -> Result<u64, StoreError> {
        Ok(self.logs()?.iter().map(|log| log.bytes).sum())
    }

    /// Bytes that a log would take; `None` if its sizes are out of range.
    #[must_use]
    pub fn bytes_of(new: &NewLog) -> Option<u64> {
        let state = if new.state == 0 { MAX_STATE } else { new.state };
        Shape::new(new.capacity, new.units, state).map(Shape::size)
    }

    /// Makes an empty log with a state of its owner. All of its space is allocated, and it is
    /// durable when this returns. `time`: seconds since 1970.
    ///
    /// # Errors
    /// If a size is out of range, or it does not fit into the store or the file system.
    pub fn create(&self, new: &NewLog, owner: &[u8], time: u64) -> Result<DiskLog, StoreError> {
        let state = if new.state == 0 { MAX_STATE } else { new.state };
        let shape = Shape::new(new.capacity, new.units, state)
            .filter(|_| new.about.len() <= MAX_ABOUT)
            .ok_or(StoreError::Range(new.capacity))?;
        let (asked, used) = (shape.size(), self.used()?);
        if used.saturating_add(asked) > self.size {
            return Err(StoreError::OverQuota { asked, used, size: self.size });
        }
        let (id, data) = (random()?, Secret::random()?);
        let mut header = LogHeader {
            store: self.page.id,
            id,
            sealed: self.page.sealed,
            side: new.side,
            peer: new.peer,
            shape,
            created: time,
            wrapped: vec![0; 32 + new.about.len()],
            wrap_tag: [0; 16],
        };
        header.wrap(self.cipher.as_ref(), &self.key, &data, &new.about);
        let (unfinished, path) = (self.file(LogName(id), NEW), self.file(LogName(id), LOG));
        let made = self.create_file(&unfinished, header, data, new, owner, time).and_then(|log| {
            fs::rename(&unfinished, &path).map_err(|source| io_error("rename", &path, source))?;
            sync_directory(&self.path)?;
            Ok(log)
        });
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made
    }

    fn create_file(
        &self,
        path: &Path,
        header: LogHeader,
        data: Secret,
        new: &NewLog,
        owner: &[u8],
        time: u64,
    ) -> Result<DiskLog, StoreError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(path).map_err(|source| io_error("create", path, source))?;
        let device = FileDevice::open(path, header.shape.size())
            .map_err(|source| io_error("allocate space for", path, source))?;
        let sealer = Sealer::new(self.cipher.clone(), data)?;
        let about = new.about.clone();
        Ok(DiskLog::create(self.counted(device), header, sealer, about, owner, time)?)
    }

    fn counted(&self, device: impl Device + 'static) -> Box<dyn Device> {
        Box::new(Counted { device, traffic: self.traffic.clone() })
    }

    /// Bytes read from all files of logs, and written to them, since the store was opened.
    #[must_use]
    pub fn traffic(&self) -> (u64, u64) {
        self.traffic.bytes()
    }

    /// Opens a log: to write, if the store was opened to write.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be read. It is left as it is.
    pub fn open_log(&self, name: LogName) -> Result<DiskLog, StoreError> {
        let path = self.file(name, LOG);
        if !path.exists() {
            return Err(StoreError::NoLog(name));
        }
        let problem = |problem| StoreError::Log { path: path.clone(), problem };
        let header = self.header(&path, name).0.map_err(problem)?;
        let unwrapped = header.unwrap(self.cipher.as_ref(), &self.key);
        let (data, about) = unwrapped.ok_or_else(|| problem(HeaderError::OtherKey))?;
        let sealer = Sealer::new(self.cipher.clone(), data)?;
        // Opened to read first: a file that was truncated is not grown.
        let reading = ReadOnly::open(&path).map_err(|source| io_error("open", &path, source))?;
        let is_whole = reading.size() >= header.shape.size();
        let device: Box<dyn Device> = if self.size > 0 && is_whole {
            let device = FileDevice::open(&path, 0);
            self.counted(device.map_err(|source| match source.kind() {
                ErrorKind::ResourceBusy => StoreError::Busy { path: path.clone() },
                _ => io_error("open", &path, source),
            })?)
        } else {
            self.counted(reading)
        };
        DiskLog::open(device, header, sealer, about).map_err(problem)
    }

    /// Lets another process open the store, once this one has closed its logs and writes no more.
    pub fn release(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Destroys a log: first its key, so that what may remain of it cannot be read.
    ///
    /// # Errors
    /// If there is none of this name, it is open, or the file system fails.
    pub fn forget(&self, name: LogName) -> Result<(), StoreError> {
        let path = self.file(name, LOG);
        let failed = |source| io_error("delete", &path, source);
        let file = match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StoreError::NoLog(name));
            }
            file => file.map_err(failed)?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Ok(()) => {}
        }
        file.write_all_at(&[0; 2 * PAGE], 0).and_then(|()| file.sync_data()).map_err(failed)?;
        fs::remove_file(&path).map_err(failed)?;
        sync_directory(&self.path)
    }

    fn file(&self, name: LogName, extension: &str) -> PathBuf {
        self.path.join(format!("{name}.{extension}"))
    }

    /// Removes logs whose making a crash interrupted. They were never in use.
    fn remove_unfinished(&self) -> Result<(), StoreError> {
        let failed = |source| io_error("read", &self.path, source);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if name_of(&path, NEW).is_some() {
                fs::remove_file(&path).map_err(|source| io_error("delete", &path, source))?;
            }
        }
        Ok(())
    }
}

impl DiskLog {
    /// Its id.
    #[must_use]
    pub fn name(&self) -> LogName {
        LogName(self.header().id)
    }
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { what, path: path.into(), source }
}

fn name_of(path: &Path, extension: &str) -> Option<LogName> {
    let matches = path.extension().is_some_and(|found| found == extension);
    path.file_stem().filter(|_| matches)?.to_str()?.parse().ok()
}

fn read_store(file: &Path) -> Result<StorePage, StoreError> {
    let bytes = File::open(file).and_then(|open| {
        let mut page = vec![0; PAGE];
        let len = open.read_at(&mut page, 0)?;
        page.truncate(len);
        Ok(page)
    });
    let bytes = bytes.map_err(|source| io_error("read", file, source))?;
    StorePage::read(&bytes).map_err(|problem| StoreError::Header { path: file.into(), problem })
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(io_error("make", path, error))
        }
        _ => Ok(()),
    }
}

/// Nobody else may read it, or replace anything in it.
fn check_directory(path: &Path) -> Result<(), StoreError> {
    let meta = fs::metadata(path).map_err(|source| io_error("read", path, source))?;
    if !meta.is_dir() {
        return Err(io_error("use", path, ErrorKind::NotADirectory.into()));
    }
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(StoreError::Permissions { path: path.into(), mode });
    }
    #[cfg(target_os = "linux")]
    {
        let user = rustix::process::geteuid().as_raw();
        if ![0, user].contains(&meta.uid()) {
            return Err(StoreError::Owner { path: path.into(), owner: meta.uid(), user });
        }
    }
    Ok(())
}

/// `lost+found` is there in the root of a file system. A page that a crash left is nothing.
fn check_empty(path: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(path).map_err(|source| io_error("read", path, source))? {
        let name = entry.map_err(|source| io_error("read", path, source))?.file_name();
        if name != "lost+found" && name != "store.new" {
            return Err(StoreError::NotAStore { path: path.into() });
        }
    }
    Ok(())
}

/// Makes a file that is there whole or not at all.
fn create_whole(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let unfinished = path.with_extension(NEW);
    let failed = |source| io_error("create", path, source);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(&unfinished).map_err(failed)?;
    file.write_all_at(bytes, 0).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&unfinished, path).map_err(failed)?;
    sync_directory(directory)
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| io_error("sync", path, source))
}

/// A file that is only read.
struct ReadOnly {
    file: File,
    size: u64,
}

impl ReadOnly {
    fn open(path: &Path) -> io::Result<ReadOnly> {
        let file = File::open(path)?;
        Ok(ReadOnly { size: file.metadata()?.len(), file })
    }
}

impl Device for ReadOnly {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let len = into.len();
        self.file.read_exact_at(into, at).map_err(|source| DeviceError::Io {
            what: "read",
            at,
            len,
            source,
        })
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let source = ErrorKind::ReadOnlyFilesystem.into();
        Err(DeviceError::Io { what: "write", at, len: bytes.len(), source })
    }

    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// For tests and tools: a log on a device of theirs, without a directory.
impl DiskLog {
    /// Makes an empty log on a device.
    ///
    /// # Errors
    /// If a size is out of range, or the device fails.
    pub fn create_on(
        device: Box<dyn Device>,
        cipher: Arc<dyn Cipher>,
        key: &Secret,
        new: &NewLog,
        owner: &[u8],
    ) -> Result<DiskLog, StoreError> {
        let state = if new.state == 0 { MAX_STATE } else { new.state };
        let shape =
            Shape::new(new.capacity, new.units, state).ok_or(StoreError::Range(new.capacity))?;
        let (store, id): (Id, Id) = (random()?, random()?);
        let data = Secret::random()?;
        let (side, peer, wrapped) = (new.side, new.peer, vec![0; 32 + new.about.len()]);
        let mut header = LogHeader {
            store,
            id,
            sealed: true,
            side,
            peer,
            shape,
            created: 0,
            wrapped,
            wrap_tag: [0; 16],
        };
        header.wrap(cipher.as_ref(), key, &data, &new.about);
        let sealer = Sealer::new(cipher, data)?;
        Ok(DiskLog::create(device, header, sealer, new.about.clone(), owner, 0)?)
    }

    /// Opens a log on a device.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn open_on(
        device: Box<dyn Device>,
        cipher: Arc<dyn Cipher>,
        key: &Secret,
    ) -> Result<DiskLog, HeaderError> {
        let mut pages = [[0; PAGE]; 2];
        let mut header = Err(HeaderError::Truncated);
        for (n, page) in pages.iter_mut().enumerate() {
            if device.read((n * PAGE) as u64, page).is_ok() {
                header = header.or_else(|_| LogHeader::read(page));
            }
        }
        let header = header?;
        let (data, about) = header.unwrap(cipher.as_ref(), key).ok_or(HeaderError::OtherKey)?;
        let sealer = Sealer::new(cipher, data).map_err(|_| HeaderError::Corrupt)?;
        DiskLog::open(device, header, sealer, about)
    }
}
