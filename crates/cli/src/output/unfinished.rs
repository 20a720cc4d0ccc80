//! Files being written: where they are until they are complete, and their removal when a run is
//! interrupted or killed.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of an unfinished file: short, to stay below the limit on names.
fn unfinished_name(process: u32, number: u32) -> String {
    format!(".oncewire-{process}-{number}.unfinished")
}

fn is_unfinished_name(name: &OsStr) -> bool {
    let numbers =
        name.to_str().and_then(|name| name.strip_prefix(".oncewire-")?.strip_suffix(".unfinished"));
    let number = |text: &str| {
        !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    numbers
        .and_then(|numbers| numbers.split_once('-'))
        .is_some_and(|(process, count)| number(process) && number(count))
}

/// The unfinished files of this process, which an interrupt removes. Files are created and moved
/// with the lock held only.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

pub(super) fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file written next to its place, and removed on drop unless it was moved there.
pub(super) struct Pending {
    pub(super) beside: PathBuf,
    pub(super) target: PathBuf,
    /// Locked while it is open.
    pub(super) file: File,
    pub(super) moved: bool,
}

impl Pending {
    pub(super) fn beside(target: PathBuf) -> io::Result<Pending> {
        let directory = target.parent().unwrap_or(Path::new("/")).to_path_buf();
        let mut all = unfinished();
        // A directory with a file of ours was swept before.
        if !all.iter().any(|other| other.parent() == Some(&directory)) {
            sweep(&directory);
        }
        let mut number = 0;
        loop {
            let beside = directory.join(unfinished_name(std::process::id(), number));
            number += 1;
            let file =
                match OpenOptions::new().read(true).write(true).create_new(true).open(&beside) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                        continue;
                    }
                    result => result?,
                };
            // A concurrent sweep may take the file for a dead run's before it is locked, and remove
            // it.
            let swept = match file.try_lock() {
                Err(TryLockError::WouldBlock) => true,
                // Without locks, nothing is ever swept.
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

/// Removes the files of killed runs from a directory: those with a name of ours that no process has
/// locked.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| is_unfinished_name(&entry.file_name())) {
        let path = entry.path();
        // Do not follow a link or block on a pipe.
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        let open = |write: bool| {
            OpenOptions::new().read(!write).write(write).custom_flags(flags).open(&path)
        };
        // Some network file systems lock only what can be written.
        let Ok(file) = open(true).or_else(|_| open(false)) else { continue };
        let same = |meta: &Metadata| {
            fs::symlink_metadata(&path)
                .is_ok_and(|now| (now.dev(), now.ino()) == (meta.dev(), meta.ino()))
        };
        if file.try_lock().is_ok()
            && file.metadata().is_ok_and(|meta| meta.is_file() && same(&meta))
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Makes signals that end the program remove unfinished files first.
pub(crate) fn clean_up_on_signal() {
    // If it fails, the next run removes the unfinished files of an interrupted one.
    let _ = ctrlc::set_handler(|| end(130));
}

/// Removes unfinished files and exits. Waits for files that are being moved to their places.
pub(crate) fn end(code: i32) -> ! {
    let all = unfinished();
    for path in &*all {
        let _ = fs::remove_file(path);
    }
    // With the lock held, so that no file is created after this.
    std::process::exit(code)
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
}
