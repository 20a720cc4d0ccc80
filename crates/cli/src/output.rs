//! Files that a run writes, for every verb.
//!
//! All outputs are compared with all inputs, by device and inode, before anything is opened for writing. A regular file is then
//! written beside its place, under a name of ours, and moved there when it is complete: an error, a full disk or a signal leaves
//! what was there before. What a killed run left is removed by the next one that writes to the same directory.

use crate::failure::{Failure, Outcome};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// Most links that lead from one name to the next, as in Linux.
const LINKS_MAX: usize = 40;

/// Whether no file is named, or `-`.
pub(crate) fn is_standard(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path == Path::new("-"))
}

/// What tells two names of the same file from names of two files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    /// A disk. Pipes, terminals and the like are not compared: writing to them destroys nothing.
    Disk {
        number: u64,
    },
    /// Not there yet: the directory, and the name in it.
    New {
        device: u64,
        inode: u64,
        name: OsString,
    },
}

impl Identity {
    fn of(meta: &Metadata) -> Option<Identity> {
        let kind = meta.file_type();
        if kind.is_file() {
            return Some(Identity::File { device: meta.dev(), inode: meta.ino() });
        }
        kind.is_block_device().then(|| Identity::Disk { number: meta.rdev() })
    }
}

/// A standard stream as a file of ours, without the library's buffer.
fn standard(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// The inputs and outputs of one run. Outputs are named here first, and opened when all of them have been found good.
pub(crate) struct Outputs {
    inputs: Vec<(Identity, String)>,
    outputs: Vec<(Identity, String)>,
}

impl Outputs {
    /// For a run that reads these files; `-` is standard input.
    ///
    /// An input that cannot be looked at is left out: opening it will tell why.
    ///
    /// # Errors
    ///
    /// If standard output was redirected to one of the inputs.
    pub(crate) fn beside<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Outcome<Outputs> {
        let mut outputs = Outputs { inputs: Vec::new(), outputs: Vec::new() };
        for path in inputs {
            let stdin = path == Path::new("-");
            let meta = if stdin { standard(&io::stdin()).and_then(|file| file.metadata()) } else { fs::metadata(path) };
            if let Some(identity) = meta.ok().as_ref().and_then(Identity::of) {
                let name = if stdin { "standard input".into() } else { path.display().to_string() };
                outputs.inputs.push((identity, name));
            }
        }
        let stdout = standard(&io::stdout()).and_then(|file| file.metadata()).ok();
        if let Some(identity) = stdout.as_ref().and_then(Identity::of) {
            outputs.take(identity, "standard output".into())?;
        }
        Ok(outputs)
    }

    /// Adds an output, unless it is an input or another output.
    fn take(&mut self, identity: Identity, name: String) -> Outcome {
        if let Some((_, input)) = self.inputs.iter().find(|(other, _)| *other == identity) {
            return Err(Failure::usage(format!("{name} would overwrite the input {input}; choose another output file")));
        }
        if let Some((_, other)) = self.outputs.iter().find(|(other, _)| *other == identity) {
            return Err(Failure::usage(format!("{other} and {name} are the same file; choose two output files")));
        }
        self.outputs.push((identity, name));
        Ok(())
    }

    /// Checks where `option` writes to: `path`, or standard output for none and `-`. Nothing is opened.
    ///
    /// # Errors
    ///
    /// If it is an input, another output or a directory, or if it can be no file.
    pub(crate) fn file(&mut self, option: &str, path: Option<&Path>) -> Outcome<Destination> {
        let Some(path) = path.filter(|path| !is_standard(Some(path))) else {
            return Ok(Destination { name: "standard output".into(), way: Way::Standard });
        };
        let name = path.display().to_string();
        let fail = |error: &io::Error| Failure::io("create", &name, error);
        let existing = match fs::metadata(path) {
            Ok(meta) => Some(meta),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(&error)),
        };
        if existing.as_ref().is_some_and(Metadata::is_dir) {
            return Err(Failure::failed(format!("cannot write {name}: it is a directory; name a file in it")));
        }
        if path.file_name().is_none() || name.ends_with('/') {
            return Err(Failure::failed(format!("cannot create {name}: it names no file")));
        }
        // A link is followed, so that the file it names is replaced and not the link.
        let target = follow(path).map_err(|error| fail(&error))?;
        let way = match &existing {
            _ if target == descriptors().join("1") => Way::Standard,
            Some(meta) if !meta.is_file() || is_descriptor(&target) => Way::Direct { path: target, append: meta.is_file() },
            _ => Way::Beside(target),
        };
        let identity = match (&existing, &way) {
            (Some(meta), Way::Direct { .. } | Way::Beside(_)) => Identity::of(meta),
            (None, Way::Beside(target)) => Some(new(target).map_err(|error| fail(&error))?),
            _ => None,
        };
        if let Some(identity) = identity {
            self.take(identity, format!("{option} {name}"))?;
        }
        Ok(Destination { name, way })
    }

    /// Checks the files that `option` writes into the directory `path`: those whose names are `ours`. Comes after the other outputs.
    ///
    /// # Errors
    ///
    /// If one of them is an input or another output.
    pub(crate) fn directory(&mut self, option: &str, path: &Path, ours: impl Fn(&str) -> bool) -> Outcome {
        // If there is none, there is nothing in it.
        let (Ok(meta), Ok(entries)) = (fs::metadata(path), fs::read_dir(path)) else { return Ok(()) };
        let inside = |name: &OsStr| format!("{option} {}", path.join(name).display());
        let mut found = Vec::new();
        for (identity, _) in &self.outputs {
            if let Identity::New { device, inode, name } = identity
                && (*device, *inode) == (meta.dev(), meta.ino())
                && name.to_str().is_some_and(&ours)
            {
                found.push((identity.clone(), inside(name)));
            }
        }
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(&ours)
                && let Some(identity) = fs::metadata(entry.path()).ok().as_ref().and_then(Identity::of)
            {
                found.push((identity, inside(&name)));
            }
        }
        found.into_iter().try_for_each(|(identity, name)| self.take(identity, name))
    }
}

/// The directory of this process's open files; a path that is none where the system has no such thing.
fn descriptors() -> PathBuf {
    fs::canonicalize("/proc/self/fd").unwrap_or_default()
}

fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/proc") && path.parent().and_then(Path::file_name) == Some(OsStr::new("fd"))
}

/// The file that a name leads to through all links, which need not be there. An open file of a process is not followed.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = fs::canonicalize(parent)?;
        path = directory.join(name);
        if is_descriptor(&path) {
            return Ok(path);
        }
        match fs::read_link(&path) {
            Ok(link) => path = directory.join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// What a file that is not there yet will be.
fn new(target: &Path) -> io::Result<Identity> {
    let directory = fs::metadata(target.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    Ok(Identity::New { device: directory.dev(), inode: directory.ino(), name })
}

/// Where an output goes, checked and not yet opened.
#[derive(Debug)]
pub(crate) struct Destination {
    name: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Standard,
    /// A pipe, a device or an open file of a process: written as it is, after what is in it already.
    Direct {
        path: PathBuf,
        append: bool,
    },
    Beside(PathBuf),
}

impl Destination {
    /// A file of a directory that was checked by [`Outputs::directory`].
    ///
    /// # Errors
    ///
    /// If it can be no file.
    pub(crate) fn within(directory: &Path, name: &str) -> Outcome<Destination> {
        Outputs { inputs: Vec::new(), outputs: Vec::new() }.file("", Some(&directory.join(name)))
    }

    /// Opens it. A regular file is written beside its place and moved there by [`Output::finish`]; dropping it without that
    /// removes it.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub(crate) fn open(self) -> Outcome<Output> {
        let Destination { name, way } = self;
        let fail = |error: io::Error| Failure::io("create", &name, &error);
        let target = match way {
            Way::Standard => return Ok(Output::over(Box::new(standard(&io::stdout()).map_err(fail)?), name)),
            Way::Direct { path, append } => {
                let file = OpenOptions::new().write(true).append(append).open(path).map_err(fail)?;
                return Ok(Output::over(Box::new(file), name));
            }
            Way::Beside(target) => target,
        };
        let existing = fs::metadata(&target).ok();
        let pending = Pending::beside(target).map_err(fail)?;
        if let Some(meta) = existing {
            let now = pending.file.metadata().map_err(fail)?;
            if (now.uid(), now.gid()) != (meta.uid(), meta.gid()) {
                // As root, the file stays its owner's. Others cannot give files away, and need not.
                let _ = std::os::unix::fs::fchown(&pending.file, Some(meta.uid()), Some(meta.gid()));
            }
            pending.file.set_permissions(meta.permissions()).map_err(fail)?;
        }
        let writer = pending.file.try_clone().map_err(fail)?;
        Ok(Output { pending: Some(pending), ..Output::over(Box::new(writer), name) })
    }
}

/// Names of unfinished files. Short, lest they exceed what a name may have.
fn unfinished_name(process: u32, number: u32) -> String {
    format!(".oncewire-{process}-{number}.unfinished")
}

fn is_unfinished_name(name: &OsStr) -> bool {
    let numbers = name.to_str().and_then(|name| name.strip_prefix(".oncewire-")?.strip_suffix(".unfinished"));
    let number = |text: &str| !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.and_then(|numbers| numbers.split_once('-')).is_some_and(|(process, count)| number(process) && number(count))
}

/// The unfinished files of this process, to be removed when it is interrupted. While this is locked, none is made or moved.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is written beside its place, and removed unless it gets there.
struct Pending {
    beside: PathBuf,
    target: PathBuf,
    /// Locked for as long as it is open.
    file: File,
    moved: bool,
}

impl Pending {
    fn beside(target: PathBuf) -> io::Result<Pending> {
        let directory = target.parent().unwrap_or(Path::new("/")).to_path_buf();
        let mut all = unfinished();
        // Where there is one of ours, it was swept before.
        if !all.iter().any(|other| other.parent() == Some(&directory)) {
            sweep(&directory);
        }
        let mut number = 0;
        loop {
            let beside = directory.join(unfinished_name(std::process::id(), number));
            number += 1;
            let file = match OpenOptions::new().write(true).create_new(true).open(&beside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => continue,
                result => result?,
            };
            // Another run may just be sweeping, and take the file for a dead one's before it is locked: then that removes it.
            let swept = match file.try_lock() {
                Err(TryLockError::WouldBlock) => true,
                // Where there are no locks, nothing is ever swept.
                Err(TryLockError::Error(_)) => false,
                Ok(()) => file.metadata()?.nlink() == 0,
            };
            if !swept {
                all.push(beside.clone());
                return Ok(Pending { beside, target, file, moved: false });
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.moved {
            let mut all = unfinished();
            let _ = fs::remove_file(&self.beside);
            all.retain(|path| *path != self.beside);
        }
    }
}

/// Removes what killed runs left in a directory: files with a name of ours that no living process has locked.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| is_unfinished_name(&entry.file_name())) {
        let path = entry.path();
        // Neither through a link nor waiting for a pipe, whoever made it.
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        let open = |write: bool| OpenOptions::new().read(!write).write(write).custom_flags(flags).open(&path);
        // Some network file systems lock only what can be written.
        let Ok(file) = open(true).or_else(|_| open(false)) else { continue };
        let same =
            |meta: &Metadata| fs::symlink_metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (meta.dev(), meta.ino()));
        if file.try_lock().is_ok() && file.metadata().is_ok_and(|meta| meta.is_file() && same(&meta)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Removes unfinished files and ends the program when a signal asks for that.
pub(crate) fn clean_up_on_signal() {
    // Without a handler, an interrupted run leaves its unfinished files to the next one: no reason to refuse to work.
    let _ = ctrlc::set_handler(|| end(130));
}

/// Removes unfinished files and ends the program. Files that are being moved to their places get there first.
pub(crate) fn end(code: i32) -> ! {
    let all = unfinished();
    for path in &*all {
        let _ = fs::remove_file(path);
    }
    // With the lock held, so that nothing comes after it.
    std::process::exit(code)
}

/// Ends the program at once, since another thread may be waiting for an input that stays quiet.
pub(crate) fn give_up(failure: &Failure) -> ! {
    failure.tell();
    end(failure.exit as i32)
}

/// What is written. It is buffered; whoever has a reader waiting calls [`Output::flush`].
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: String,
    /// Of a regular file.
    pending: Option<Pending>,
    written: u64,
}

impl Output {
    /// Writes to something that is open already.
    pub(crate) fn over(writer: Box<dyn Write + Send>, name: String) -> Output {
        Output { writer: BufWriter::with_capacity(BUFFER, writer), name, pending: None, written: 0 }
    }

    /// Refuses to pour binary data onto a screen.
    pub(crate) fn refuse_terminal(path: Option<&Path>, what: &str) -> Outcome {
        if is_standard(path) && io::stdout().is_terminal() {
            return Err(Failure::usage(format!("{what} would go to the terminal; name a file with -o, or pipe it")));
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.write_all(bytes).map_err(|error| self.failure(&error))
    }

    /// Hands on all that was written so far.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.writer.flush().map_err(|error| self.failure(&error))
    }

    /// Says that it could not be written.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::io("write to", &self.name, error)
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Makes sure that all is written, and moves a new file to its place.
    ///
    /// # Errors
    ///
    /// If the file could not be written; then what was there before is still there.
    pub(crate) fn finish(self) -> Outcome {
        finish([self])
    }
}

/// [`Output::finish`] for several: none is moved to its place before all are complete and on the disk.
///
/// # Errors
///
/// As there.
pub(crate) fn finish(outputs: impl IntoIterator<Item = Output>) -> Outcome {
    let mut outputs: Vec<Output> = outputs.into_iter().collect();
    for output in &mut outputs {
        output.flush()?;
        if let Some(pending) = &output.pending {
            pending.file.sync_all().map_err(|error| output.failure(&error))?;
        }
    }
    let mut directories = BTreeSet::new();
    let mut all = unfinished();
    for output in &mut outputs {
        let Some(pending) = &mut output.pending else { continue };
        if let Err(error) = fs::rename(&pending.beside, &pending.target) {
            // Dropping the others takes the lock.
            drop(all);
            return Err(Failure::io("move the finished file to", &output.name, &error));
        }
        pending.moved = true;
        all.retain(|path| *path != pending.beside);
        directories.extend(pending.target.parent().map(Path::to_path_buf));
    }
    drop(all);
    for directory in directories {
        // The files are complete and in their places; not every file system can do more for them.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unfinished_files() {
        assert!(is_unfinished_name(OsStr::new(&unfinished_name(1, 0))));
        assert!(is_unfinished_name(OsStr::new(&unfinished_name(u32::MAX, 999))));
        for other in [
            ".oncewire-1.unfinished",
            ".oncewire--0.unfinished",
            ".oncewire-1-.unfinished",
            ".oncewire-1-0-0.unfinished",
            ".oncewire-+1-0.unfinished",
            ".oncewire-12345678901-0.unfinished",
            "oncewire-1-0.unfinished",
            ".oncewire-1-0.unfinished~",
        ] {
            assert!(!is_unfinished_name(OsStr::new(other)), "{other}");
        }
    }

    #[test]
    fn several_appear_together_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let open = |name| Destination::within(place.path(), name).unwrap().open().unwrap();
        let names = || fs::read_dir(place.path()).unwrap().count();
        let (mut one, mut two) = (open("one"), open("two"));
        one.write(b"1").unwrap();
        two.write(b"2").unwrap();
        assert!(!place.path().join("one").exists());
        finish([one, two]).unwrap();
        assert_eq!((fs::read(place.path().join("one")).unwrap(), names()), (b"1".to_vec(), 2));
        if !cfg!(target_os = "linux") {
            return;
        }
        // One that cannot be completed keeps back the others.
        let (mut one, mut full) = (open("one"), Destination::within(Path::new("/dev"), "full").unwrap().open().unwrap());
        one.write(b"new").unwrap();
        full.write(b"x").unwrap();
        assert!(finish([one, full]).is_err());
        assert_eq!((fs::read(place.path().join("one")).unwrap(), names()), (b"1".to_vec(), 2));
    }

    /// Whoever opens a file for writing elsewhere loses all that this module promises.
    #[test]
    fn nothing_else_writes_files() {
        let mut open = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut seen = 0;
        while let Some(directory) = open.pop() {
            for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let name = path.file_name().unwrap().to_str().unwrap();
                // This one, and what is compiled for tests only.
                if !name.ends_with(".rs") || matches!(name, "output.rs" | "browser.rs" | "sample.rs") {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                for word in ["File::create", "OpenOptions", "fs::write", "fs::rename", "fs::copy"] {
                    assert!(!code.contains(word), "{} has {word}", path.display());
                }
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen}");
    }
}
