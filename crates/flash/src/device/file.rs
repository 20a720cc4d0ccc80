//! A file or block device.

use super::{Aligned, Device, DeviceError, check};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file or block device, without the page cache of the system where that is possible.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    size: u64,
    direct: bool,
    failed: AtomicBool,
}

impl FileDevice {
    /// Opens a block device, or a file, which is created and grown to `size` bytes if it is
    /// shorter. A block device ignores `size`. The space is allocated where the file system can do
    /// that, so that it cannot run out later.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or grown, or another process has it open as a device.
    pub fn open(path: &Path, size: u64) -> io::Result<FileDevice> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        FileDevice::with(&options, path, size)
    }

    /// A new file without a name in a directory, which the system removes when the process ends.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or allocated.
    pub fn temporary(directory: &Path, size: u64) -> io::Result<FileDevice> {
        let path = directory.join(format!(".oncewire-{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let device = FileDevice::with(&options, &path, size);
        match std::fs::remove_file(&path) {
            Err(error) if device.is_ok() => Err(error),
            _ => device,
        }
    }

    fn with(options: &OpenOptions, path: &Path, size: u64) -> io::Result<FileDevice> {
        let (file, direct) = open_direct(options, path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(ErrorKind::ResourceBusy, "another process uses it"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut len = (&file).seek(SeekFrom::End(0))?;
        if file.metadata()?.is_file() && len < size {
            allocate(&file, size)?;
            len = size;
        }
        Ok(FileDevice { file, size: len, direct, failed: AtomicBool::new(false) })
    }

    /// Whether reads and writes bypass the page cache. File systems such as tmpfs cannot.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

#[cfg(target_os = "linux")]
fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    let flag = rustix::fs::OFlags::DIRECT.bits() as i32;
    match options.clone().custom_flags(flag).open(path) {
        // A new file may exist by now.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            let mut options = options.clone();
            options.create_new(false).create(true);
            Ok((options.open(path)?, false))
        }
        file => Ok((file?, true)),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    Ok((options.clone().custom_flags(0).open(path)?, false))
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, size: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &File, size: u64) -> io::Result<()> {
    file.set_len(size)
}

fn failure(what: &'static str, at: u64, len: usize, source: io::Error) -> DeviceError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DeviceError::NoSpace { at, len },
        _ => DeviceError::Io { what, at, len, source },
    }
}

impl Device for FileDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        check(self.size, at, into.len())?;
        let len = into.len();
        let failed = |error| failure("read", at, len, error);
        if self.direct && !Aligned::is_aligned(into) {
            let mut copy = Aligned::new(len);
            self.file.read_exact_at(&mut copy, at).map_err(failed)?;
            into.copy_from_slice(&copy);
            return Ok(());
        }
        self.file.read_exact_at(into, at).map_err(failed)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check(self.size, at, bytes.len())?;
        if self.failed.load(Ordering::Acquire) {
            return Err(DeviceError::Failed);
        }
        let failed = |error| failure("write", at, bytes.len(), error);
        if self.direct && !Aligned::is_aligned(bytes) {
            let mut copy = Aligned::new(bytes.len());
            copy.copy_from_slice(bytes);
            return self.file.write_all_at(&copy, at).map_err(failed);
        }
        self.file.write_all_at(bytes, at).map_err(failed)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(DeviceError::Failed);
        }
        self.file.sync_data().map_err(|error| {
            self.failed.store(true, Ordering::Release);
            failure("sync", 0, 0, error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::PAGE;

    #[test]
    fn content_survives_and_the_device_is_exclusive() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("index");
        let device = FileDevice::open(&path, 4 * PAGE as u64).expect("opens");
        assert_eq!(device.size(), 4 * PAGE as u64);
        // Neither buffer is aligned.
        let mut bytes = vec![7; 2 * PAGE + 1];
        device.write(PAGE as u64, &bytes[1..]).expect("writes");
        device.sync().expect("syncs");
        assert_eq!(FileDevice::open(&path, 0).expect_err("locked").kind(), ErrorKind::ResourceBusy);
        drop(device);
        let device = FileDevice::open(&path, 0).expect("opens");
        device.read(2 * PAGE as u64, &mut bytes[1..]).expect("reads");
        assert!(bytes[1..=PAGE].iter().all(|&byte| byte == 7));
        assert!(bytes[PAGE + 1..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn ranges_are_checked() {
        let dir = tempfile::tempdir().expect("a directory");
        let device = FileDevice::temporary(dir.path(), 2 * PAGE as u64).expect("opens");
        assert_eq!(std::fs::read_dir(dir.path()).expect("lists").count(), 0);
        let mut page = Aligned::new(PAGE);
        let unaligned = device.read(512, &mut page);
        assert!(matches!(unaligned, Err(DeviceError::Unaligned { at: 512, .. })), "{unaligned:?}");
        for at in [2 * PAGE as u64, u64::MAX - PAGE as u64 + 1] {
            let beyond = device.write(at, &page);
            assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })), "{beyond:?}");
        }
        device.read(PAGE as u64, &mut page).expect("the last page");
    }
}
