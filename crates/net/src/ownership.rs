//! Who owns a file and the directories above it: whether somebody else can change or replace a file
//! that decides whom an end trusts. OpenSSH's `StrictModes` asks the same of `authorized_keys`.
//!
//! The file and every directory above it, up to `/` and after following links, must belong to the
//! user of this process or to root. None of the directories may be writable by others, with two
//! exceptions, where OpenSSH is stricter or stops at the home directory: directories with the sticky
//! bit, such as `/tmp`, in which others cannot rename or remove the user's files; and directories
//! writable only by the user's private group, which has the user's number (the convention of
//! `useradd`, with a `umask` of 002).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file that somebody else made, or can replace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnershipError {
    /// The file belongs to another user.
    #[error(
        "{0} belongs to user {owner}, not to user {user}, who runs this, or to root: run `chown {user} {0}`",
        path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner's user number.
        owner: u32,
        /// The user number of this process.
        user: u32,
    },
    /// A directory above the file belongs to another user.
    #[error(
        "{} belongs to user {owner}, who can replace {}: move the file to a directory that belongs to you",
        directory.display(), path.display()
    )]
    DirectoryOwner {
        /// The directory.
        directory: PathBuf,
        /// Its owner's user number.
        owner: u32,
        /// The file.
        path: PathBuf,
    },
    /// Others may write to a directory above the file.
    #[error(
        "others can write to {0} (mode {mode:04o}) and replace {1}: run `chmod go-w {0}`, or move the file",
        directory.display(), path.display()
    )]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The file.
        path: PathBuf,
    },
    /// The system does not tell.
    #[error("cannot determine who can replace {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Checks that an open file belongs to this process's user or root, and that nobody else can replace
/// it. Files that are not regular, such as pipes, have no directories to check.
#[cfg(unix)]
pub(crate) fn check(path: &Path, file: &File) -> Result<(), OwnershipError> {
    use std::os::unix::fs::MetadataExt;
    let io = |source| OwnershipError::Io { path: path.to_path_buf(), source };
    let meta = file.metadata().map_err(io)?;
    let user = nix::unistd::geteuid().as_raw();
    if ![0, user].contains(&meta.uid()) {
        return Err(OwnershipError::Owner { path: path.to_path_buf(), owner: meta.uid(), user });
    }
    if meta.is_file() { check_directories(path, &path.canonicalize().map_err(io)?) } else { Ok(()) }
}

/// Checks that nobody else could replace a file that is about to be created.
#[cfg(unix)]
pub(crate) fn check_new(path: &Path) -> Result<(), OwnershipError> {
    let io = |source| OwnershipError::Io { path: path.to_path_buf(), source };
    let name = path.file_name().unwrap_or_default();
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_directories(path, &directory.canonicalize().map_err(io)?.join(name))
}

#[cfg(unix)]
fn check_directories(path: &Path, real: &Path) -> Result<(), OwnershipError> {
    use std::os::unix::fs::MetadataExt;
    let user = nix::unistd::geteuid().as_raw();
    for directory in real.ancestors().skip(1) {
        let meta = std::fs::metadata(directory)
            .map_err(|source| OwnershipError::Io { path: path.to_path_buf(), source })?;
        let (mode, owner) = (meta.mode() & 0o7777, meta.uid());
        if ![0, user].contains(&owner) {
            return Err(OwnershipError::DirectoryOwner {
                directory: directory.into(),
                owner,
                path: path.into(),
            });
        }
        let private_group = user != 0 && meta.gid() == user;
        let writers = if private_group { 0o002 } else { 0o022 };
        if mode & writers != 0 && mode & 0o1000 == 0 {
            return Err(OwnershipError::Directory {
                directory: directory.into(),
                mode,
                path: path.into(),
            });
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check(_: &Path, _: &File) -> Result<(), OwnershipError> {
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check_new(_: &Path) -> Result<(), OwnershipError> {
    Ok(())
}
