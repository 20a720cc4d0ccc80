//! Files as memory.
//!
//! A mapped file has two dangers: if it is cut short, touching its end ends the process (SIGBUS),
//! and if it is overwritten, bytes change while they are used. So only two kinds of files are
//! mapped here. [`FilePages::leased`] takes a read lease (fcntl(2), `F_SETLEASE`): while it holds,
//! nobody has the file open for writing, and an `open` for writing or a `truncate` waits until the
//! lease is given back, or for the system's limit. [`FilePages::growing`] maps a file that this
//! process writes itself, and shows only what was written.
//!
//! Only file systems of the machine are mapped: others may change a file without the kernel.

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A file in memory, read only. Clones share it.
#[derive(Clone, Debug)]
pub struct FilePages(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    map: MmapRaw,
    /// Bytes that exist. They never become fewer.
    len: AtomicUsize,
    lease: Option<Lease>,
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The file cannot change.
    Held,
    /// Somebody waits to change the file, and can after this time at the earliest.
    Recalled(Duration),
    /// The file may have changed: what was read since the last answer cannot be relied upon.
    Lost,
}

#[derive(Debug)]
struct Lease {
    file: File,
    /// How long a process that wants to change the file has to wait.
    limit: Duration,
    /// When the lease was last known to be held.
    certain: Mutex<Instant>,
}

impl Lease {
    fn state(&self) -> LeaseState {
        let now = Instant::now();
        let held = sys::is_leased(&self.file);
        let mut certain = self.certain.lock().unwrap_or_else(PoisonError::into_inner);
        if held {
            *certain = now.max(*certain);
            return LeaseState::Held;
        }
        // The wait began after that time.
        match self.limit.checked_sub(certain.elapsed()) {
            Some(left) if !left.is_zero() => LeaseState::Recalled(left),
            _ => LeaseState::Lost,
        }
    }
}

impl FilePages {
    /// Maps the whole of `file` under a read lease that lasts as long as
    /// the pages. The caller asks for [`FilePages::lease`] every now and then, and touches nothing
    /// once `longest` or the system's limit (45 s) may be over: see [`LeaseState::Recalled`].
    ///
    /// # Errors
    /// The system's if it refuses the lease (somebody has the file open for writing, or another
    /// user owns it) or the mapping, and [`io::ErrorKind::Unsupported`] for file systems that are
    /// not of this machine, empty files and systems other than Linux. Read the file instead.
    pub fn leased(file: &File, longest: Duration) -> io::Result<FilePages> {
        let limit = sys::lease_limit()?.min(longest);
        sys::check_local(file)?;
        // The lease ends when this is closed, whatever else has the file open.
        let file = sys::open_again(file)?;
        sys::lease(&file)?;
        let lease = Lease { file, limit, certain: Mutex::new(Instant::now()) };
        // Its length cannot change any more.
        let len = usize::try_from(lease.file.metadata()?.len())
            .ok()
            .filter(|&len| len > 0 && isize::try_from(len).is_ok())
            .ok_or(io::ErrorKind::Unsupported)?;
        let map = MmapOptions::new().len(len).map_raw_read_only(&lease.file)?;
        Ok(FilePages(Arc::new(Mapped { map, len: AtomicUsize::new(len), lease: Some(lease) })))
    }

    /// Maps an empty file, which the caller created and nobody else writes to or cuts short, and
    /// returns a writer that appends to it. What was written can be read in the pages.
    ///
    /// # Errors
    /// The system's if there is not enough address space, and [`io::ErrorKind::Unsupported`] for
    /// file systems that are not of this machine and systems other than Linux.
    pub fn growing(file: File) -> io::Result<(FilePages, PagesWriter)> {
        sys::check_local(&file)?;
        if cfg!(not(target_pointer_width = "64")) || file.metadata()?.len() > 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Addresses only: more than any file will have where that is possible.
        let map = (40..=43)
            .rev()
            .find_map(|bits| MmapOptions::new().len(1 << bits).map_raw_read_only(&file).ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = FilePages(Arc::new(Mapped { map, len: AtomicUsize::new(0), lease: None }));
        Ok((pages.clone(), PagesWriter { file, pages }))
    }

    /// Whether the file is still protected from changes. [`LeaseState::Held`] for a file of our own.
    pub fn lease(&self) -> LeaseState {
        self.0.lease.as_ref().map_or(LeaseState::Held, Lease::state)
    }

    /// Prefetches the cache line of a byte. Ignores an index out of range.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        crate::pages::prefetch(self, index);
    }

    /// Says that a range will not be needed soon, so that its pages do not count as memory of this
    /// process. They can still be read.
    pub fn forget(&self, range: Range<usize>) {
        let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
        if start < end && end <= self.len() {
            // SAFETY: the range lies in the mapping, which is shared and read only; so its pages
            // come back with the same content when they are touched.
            let _ = unsafe {
                self.0.map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }
}

/// At least the size of a page, in bytes.
const PAGE: usize = 64 << 10;

impl Deref for FilePages {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        let len = self.0.len.load(Ordering::Acquire);
        // SAFETY: the mapping lives as long as `self`, and the file has at least `len` bytes: a
        // lease keeps it as it was when its length was asked for, or a `PagesWriter` wrote them and
        // nobody else may cut it short. They do not change: written bytes are never written again,
        // and for a leased file the caller stops when the lease ends.
        unsafe { std::slice::from_raw_parts(self.0.map.as_ptr(), len) }
    }
}

/// Appends to the file of [`FilePages::growing`].
#[derive(Debug)]
pub struct PagesWriter {
    file: File,
    pages: FilePages,
}

impl io::Write for PagesWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mapped = &*self.pages.0;
        let len = mapped.len.load(Ordering::Acquire);
        let room = mapped.map.len() - len;
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let bytes = &bytes[..bytes.len().min(room)];
        let written = sys::write_at(&self.file, bytes, len as u64)?;
        mapped.len.store(len + written, Ordering::Release);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod sys {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    /// Of fcntl(2), the same on all architectures of Linux that Rust has but PA-RISC.
    const F_SETSIG: libc::c_int = 10;

    /// Magic numbers of statfs(2): ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, overlayfs. Their files
    /// change through this kernel only.
    const LOCAL: [u64; 6] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x794c_7630];

    pub(super) fn check_local(file: &File) -> io::Result<()> {
        // SAFETY: zeros are a value of this plain structure.
        let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and `stat` is writable.
        if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // The type differs between architectures; magic numbers have 32 bits.
        #[allow(clippy::unnecessary_cast)]
        let kind = stat.f_type as u64 & 0xffff_ffff;
        if LOCAL.contains(&kind) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    pub(super) fn open_again(file: &File) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    pub(super) fn lease(file: &File) -> io::Result<()> {
        let fcntl = |command, argument: libc::c_int| {
            // SAFETY: these commands take a number and touch no memory of ours.
            match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        // Instead of SIGIO, which would end the process: this one is ignored unless a program wants
        // it. The state of the lease is asked for instead.
        fcntl(F_SETSIG, libc::SIGURG)?;
        fcntl(libc::F_SETLEASE, libc::c_int::from(libc::F_RDLCK as i16))
    }

    /// Whether the lease is held and nobody waits for its end.
    pub(super) fn is_leased(file: &File) -> bool {
        // SAFETY: this command takes no argument.
        let kind = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) };
        kind == libc::c_int::from(libc::F_RDLCK as i16)
    }

    /// How long a process that wants to change a leased file waits.
    pub(super) fn lease_limit() -> io::Result<Duration> {
        let text = std::fs::read_to_string("/proc/sys/fs/lease-break-time")?;
        let seconds: u64 = text.trim().parse().map_err(|_| io::ErrorKind::Unsupported)?;
        if seconds == 0 {
            Err(io::ErrorKind::Unsupported.into())
        } else {
            Ok(Duration::from_secs(seconds))
        }
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.write_at(bytes, at)
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod sys {
    use std::fs::File;
    use std::io;
    use std::time::Duration;

    pub(super) fn check_local(_: &File) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn open_again(_: &File) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn lease(_: &File) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn is_leased(_: &File) -> bool {
        false
    }

    pub(super) fn lease_limit() -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    /// A file that is removed at the end, if this machine's files can be leased.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str, content: &[u8]) -> Option<Place> {
            let path = std::env::temp_dir().join(format!("oncewire-{}-{name}", std::process::id()));
            std::fs::write(&path, content).unwrap();
            let place = Place(path);
            if sys::check_local(&place.open()).is_err() {
                eprintln!("skipped: {name}: the temporary directory is not on a local file system");
                return None;
            }
            Some(place)
        }

        fn open(&self) -> File {
            File::open(&self.0).unwrap()
        }

        /// Opens it for writing without waiting.
        fn change(&self) -> io::Result<File> {
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&self.0)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_leased_file_cannot_be_changed() {
        let Some(place) = Place::new("leased", b"content") else { return };
        let file = place.open();
        let pages = FilePages::leased(&file, LONG).unwrap();
        let other = FilePages::leased(&file, LONG).unwrap();
        assert_eq!((&pages[..], pages.lease()), (&b"content"[..], LeaseState::Held));
        assert_eq!(place.change().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(matches!(pages.lease(), LeaseState::Recalled(left) if left <= LONG));
        drop(other);
        assert_eq!(place.change().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(&pages.clone()[..], b"content");
        drop(pages);
        place.change().unwrap();
    }

    #[test]
    fn a_lease_that_was_recalled_ends() {
        let Some(place) = Place::new("recalled", b"content") else { return };
        let pages = FilePages::leased(&place.open(), Duration::ZERO).unwrap();
        assert_eq!(pages.lease(), LeaseState::Held);
        place.change().unwrap_err();
        assert_eq!(pages.lease(), LeaseState::Lost);
    }

    #[test]
    fn no_lease_beside_a_writer_or_for_nothing() {
        let Some(place) = Place::new("written", b"content") else { return };
        let writer = place.change().unwrap();
        assert!(FilePages::leased(&place.open(), LONG).is_err());
        writer.set_len(0).unwrap();
        drop(writer);
        assert!(FilePages::leased(&place.open(), LONG).is_err());
        assert!(FilePages::leased(&File::open("/proc/self/status").unwrap(), LONG).is_err());
    }

    #[test]
    fn what_was_written_can_be_read() {
        let Some(place) = Place::new("growing", b"") else { return };
        let file = OpenOptions::new().read(true).write(true).open(&place.0).unwrap();
        let (pages, mut writer) = FilePages::growing(file).unwrap();
        assert!(pages.is_empty());
        let mut expected = Vec::new();
        for nth in 0..50u8 {
            let part = vec![nth; 7000];
            writer.write_all(&part).unwrap();
            expected.extend(part);
            assert_eq!(&pages[..], expected);
            pages.forget(0..expected.len());
            pages.prefetch(expected.len() - 1);
            pages.prefetch(expected.len());
        }
        assert_eq!(std::fs::read(&place.0).unwrap(), expected);
        let again = OpenOptions::new().read(true).write(true).open(&place.0).unwrap();
        assert!(FilePages::growing(again).is_err());
    }
}
