//! Files that decide whom we trust must be ours, and where nobody else can exchange them: what `StrictModes` of OpenSSH asks of
//! `authorized_keys`.
//!
//! The file must belong to us or to root, and so must every directory above it, up to `/`, as the path is once its links are followed. None of
//! these directories may be writable for others. Two kinds are excepted, where OpenSSH is stricter or stops at the home directory: one with the
//! sticky bit, such as `/tmp`, in which others cannot rename or remove what is ours; and one that only our private group may write, whose number
//! is our user's (the convention of `useradd`, under which `umask` is 002).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file that somebody else has made, or could exchange.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The file belongs to another user.
    #[error("{} belongs to user {owner}, not to user {user}, who runs this, or to root: run `chown {user} {}`", path.display(), path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// A directory above the file belongs to another user.
    #[error("{} belongs to user {owner}, who can exchange {}: move the file to a directory of your own", directory.display(), path.display())]
    DirectoryOwner {
        /// The directory.
        directory: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The file.
        path: PathBuf,
    },
    /// Others may write to a directory above the file.
    #[error(
        "others may write to {} (its mode is {mode:04o}) and exchange {}: run `chmod go-w {}`, or move the file",
        directory.display(), path.display(), directory.display()
    )]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The file.
        path: PathBuf,
    },
    /// The system does not say.
    #[error("cannot find out who may exchange {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

/// Whether an open file is ours, and nobody else can put another in its place. What is no regular file, such as a pipe, has no place.
#[cfg(unix)]
pub(crate) fn check(path: &Path, file: &File) -> Result<(), PlaceError> {
    use std::os::unix::fs::MetadataExt;
    let io = |source| PlaceError::Io { path: path.to_path_buf(), source };
    let meta = file.metadata().map_err(io)?;
    let user = nix::unistd::geteuid().as_raw();
    if ![0, user].contains(&meta.uid()) {
        return Err(PlaceError::Owner { path: path.to_path_buf(), owner: meta.uid(), user });
    }
    if meta.is_file() { check_directories(path, &path.canonicalize().map_err(io)?) } else { Ok(()) }
}

/// Whether nobody else can put something in the place of a file that is to be made.
#[cfg(unix)]
pub(crate) fn check_new(path: &Path) -> Result<(), PlaceError> {
    let io = |source| PlaceError::Io { path: path.to_path_buf(), source };
    let name = path.file_name().unwrap_or_default();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_directories(path, &directory.canonicalize().map_err(io)?.join(name))
}

#[cfg(unix)]
fn check_directories(path: &Path, real: &Path) -> Result<(), PlaceError> {
    use std::os::unix::fs::MetadataExt;
    let user = nix::unistd::geteuid().as_raw();
    for directory in real.ancestors().skip(1) {
        let meta = std::fs::metadata(directory).map_err(|source| PlaceError::Io { path: path.to_path_buf(), source })?;
        let (mode, owner) = (meta.mode() & 0o7777, meta.uid());
        if ![0, user].contains(&owner) {
            return Err(PlaceError::DirectoryOwner { directory: directory.into(), owner, path: path.into() });
        }
        let private_group = user != 0 && meta.gid() == user;
        let writers = if private_group { 0o002 } else { 0o022 };
        if mode & writers != 0 && mode & 0o1000 == 0 {
            return Err(PlaceError::Directory { directory: directory.into(), mode, path: path.into() });
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check(_: &Path, _: &File) -> Result<(), PlaceError> {
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check_new(_: &Path) -> Result<(), PlaceError> {
    Ok(())
}
