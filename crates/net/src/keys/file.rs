//! Files that decide whom an end trusts: read within a limit, and only if nobody else can change
//! or replace them.

use crate::ownership::{self, OwnershipError};
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Start of every secret key as text.
pub(super) const SECRET_PREFIX: &str = "ow1secret-";

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A secret key, which only its owner may read or change.
    SecretKey,
    /// A list of authorized peers, which only its owner may change.
    AuthorizedPeers,
    /// A private key of a certificate in PEM, which only its owner may read or change.
    PrivateKey,
    /// Certificates in PEM, which only their owner may change.
    Certificates,
    /// Names and passwords, which only their owner may read or change.
    Passwords,
}

impl FileKind {
    /// Longest file, in bytes: a secret key has about 130; a list has room for 10,000 peers, and
    /// certificates for several times those that systems trust.
    const fn limit(self) -> usize {
        match self {
            FileKind::SecretKey => 4 << 10,
            FileKind::AuthorizedPeers | FileKind::Passwords => 1 << 20,
            FileKind::PrivateKey => 64 << 10,
            FileKind::Certificates => 4 << 20,
        }
    }

    /// Permission bits that the file must not have.
    const fn forbidden(self) -> u32 {
        match self {
            FileKind::SecretKey | FileKind::PrivateKey | FileKind::Passwords => 0o077,
            FileKind::AuthorizedPeers | FileKind::Certificates => 0o022,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::SecretKey => "secret key",
            FileKind::AuthorizedPeers => "list of authorized peers",
            FileKind::PrivateKey => "private key",
            FileKind::Certificates => "certificate file",
            FileKind::Passwords => "password file",
        })
    }
}

/// A file that cannot be read or must not be trusted.
#[derive(Debug)]
pub struct FileError {
    /// What it is for.
    pub kind: FileKind,
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: FileProblem,
}

/// What is wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileProblem {
    /// Reading failed.
    Read(io::Error),
    /// Others can read or change it: its permission bits.
    Permissions(u32),
    /// It belongs to somebody else, or somebody else can replace it.
    Ownership(OwnershipError),
    /// It is too long, not UTF-8, or does not start as it must.
    Content,
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            FileProblem::Read(error) => Some(error),
            FileProblem::Ownership(error) => Some(error),
            FileProblem::Permissions(_) | FileProblem::Content => None,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, path) = (self.kind, self.path.display());
        match (&self.problem, kind) {
            (FileProblem::Read(error), _) => write!(f, "cannot read the {kind} {path}: {error}"),
            (
                FileProblem::Permissions(mode),
                FileKind::SecretKey | FileKind::PrivateKey | FileKind::Passwords,
            ) => {
                write!(
                    f,
                    "others can use the {kind} {path} (mode {mode:04o}): run `chmod 600 {path}`"
                )
            }
            (FileProblem::Permissions(mode), _) => {
                write!(
                    f,
                    "others can change the {kind} {path} (mode {mode:04o}): run `chmod go-w {path}`"
                )
            }
            (FileProblem::Ownership(error), _) => error.fmt(f),
            (FileProblem::Content, FileKind::SecretKey) => {
                write!(
                    f,
                    "{path} is not a secret key: expected one line that starts with {SECRET_PREFIX}"
                )
            }
            (FileProblem::Content, _) => {
                write!(
                    f,
                    "{path} is not a {kind}: expected UTF-8 text of at most {} bytes",
                    kind.limit()
                )
            }
        }
    }
}

/// Reads a file after checking its permissions, its owner and the directories above it.
pub(crate) fn read(path: &Path, kind: FileKind) -> Result<String, FileError> {
    let checked = || {
        let file = File::open(path).map_err(FileProblem::Read)?;
        // Asks the open file, so that it cannot be exchanged in between.
        if let Some(mode) =
            mode_of(&file).map_err(FileProblem::Read)?.filter(|mode| mode & kind.forbidden() != 0)
        {
            return Err(FileProblem::Permissions(mode));
        }
        ownership::check(path, &file).map_err(FileProblem::Ownership)?;
        let mut bytes = Vec::new();
        file.take(kind.limit() as u64 + 1).read_to_end(&mut bytes).map_err(FileProblem::Read)?;
        if bytes.len() > kind.limit() {
            return Err(FileProblem::Content);
        }
        String::from_utf8(bytes).map_err(|_| FileProblem::Content)
    };
    checked().map_err(|problem| FileError { kind, path: path.to_path_buf(), problem })
}

/// Why a file was not created.
#[derive(Debug)]
pub(crate) enum CreateError {
    /// There is one already, which stays as it is.
    Exists,
    /// [`read`] would refuse a file there.
    Ownership(OwnershipError),
    /// It cannot be written.
    Write(io::Error),
}

/// Writes a new file, and waits until it is on disk. Only its owner can read it if it is `secret`.
pub(crate) fn create(path: &Path, secret: bool, content: &[u8]) -> Result<(), CreateError> {
    match ownership::check_new(path) {
        // Creating the file gives the better error.
        Ok(()) | Err(OwnershipError::Io { .. }) => {}
        Err(error) => return Err(CreateError::Ownership(error)),
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if secret { 0o600 } else { 0o644 });
    let mut file = options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CreateError::Exists,
        _ => CreateError::Write(source),
    })?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|source| {
        // Half a file is of no use. If it cannot be removed either, the first error matters.
        let _ = std::fs::remove_file(path);
        CreateError::Write(source)
    })
}

/// Puts new content in the place of a file, with its permissions and its owner, unless `check` does
/// not like the new file, which it is given under another name. Waits until it is on disk; a crash
/// leaves the old content or the new.
pub(super) fn replace<E>(
    path: &Path,
    content: &[u8],
    check: impl FnOnce(&Path) -> Result<(), E>,
    failed: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let new = path.with_file_name(name);
    let write = || {
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let old = std::fs::metadata(path)?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.set_permissions(old.permissions())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let ours = file.metadata()?;
            if (ours.uid(), ours.gid()) != (old.uid(), old.gid()) {
                std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        file.write_all(content)?;
        file.sync_all()
    };
    let replaced = write().map_err(&failed).and_then(|()| check(&new)).and_then(|()| {
        std::fs::rename(&new, path).map_err(&failed)?;
        // The name, too, must be on disk. Where a directory cannot be opened, nothing more can be done.
        path.parent()
            .and_then(|parent| File::open(parent).ok())
            .map_or(Ok(()), |directory| directory.sync_all().map_err(&failed))
    });
    if replaced.is_err() {
        // If it stays, the next one removes it.
        let _ = std::fs::remove_file(&new);
    }
    replaced
}

/// The permission bits of a file; `None` where the system has none.
pub(crate) fn mode_of(file: &File) -> io::Result<Option<u32>> {
    #[cfg(unix)]
    return Ok(Some(
        std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o7777,
    ));
    #[cfg(not(unix))]
    return Ok(file.metadata().map(|_| None)?);
}
