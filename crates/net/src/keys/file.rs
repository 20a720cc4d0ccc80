//! Files that decide whom an end trusts: read within a limit, and only if nobody else can change
//! or replace them.

use crate::ownership::{self, OwnershipError};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
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
}

impl FileKind {
    /// Longest file, in bytes: a secret key has about 130; a list has room for 10,000 peers.
    const fn limit(self) -> usize {
        match self {
            FileKind::SecretKey => 4 << 10,
            FileKind::AuthorizedPeers => 1 << 20,
        }
    }

    /// Permission bits that the file must not have.
    const fn forbidden(self) -> u32 {
        match self {
            FileKind::SecretKey => 0o077,
            FileKind::AuthorizedPeers => 0o022,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::SecretKey => "secret key",
            FileKind::AuthorizedPeers => "list of authorized peers",
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
            (FileProblem::Permissions(mode), FileKind::SecretKey) => {
                write!(
                    f,
                    "others can use the secret key {path} (mode {mode:04o}): run `chmod 600 {path}`"
                )
            }
            (FileProblem::Permissions(mode), FileKind::AuthorizedPeers) => {
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
            (FileProblem::Content, FileKind::AuthorizedPeers) => {
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
pub(super) fn read(path: &Path, kind: FileKind) -> Result<String, FileError> {
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

/// The permission bits of a file; `None` where the system has none.
pub(super) fn mode_of(file: &File) -> io::Result<Option<u32>> {
    #[cfg(unix)]
    return Ok(Some(
        std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o7777,
    ));
    #[cfg(not(unix))]
    return Ok(file.metadata().map(|_| None)?);
}
