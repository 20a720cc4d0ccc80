//! Where a store is, how large it may be, and who can read it.

use crate::keys::SecretKey;
use crate::ownership::{self, OwnershipError};
use oncewire_flash::store::Secret;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where a store is, how large it may be, and who can read it.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Its directory.
    pub dir: PathBuf,
    /// Most bytes of all its files.
    pub size: u64,
    /// Bytes of each log on disk, if that is more than memory holds.
    pub log: u64,
    /// Most bytes that are written to its device within 24 hours, if that is limited. Content beyond
    /// is not kept. Each start allows a twenty-fourth more.
    pub writes: Option<u64>,
    /// Who can read it.
    pub secret: StoreSecret,
}

/// What a store is encrypted with.
#[derive(Clone, Debug, Default)]
pub enum StoreSecret {
    /// The key of this end.
    #[default]
    Own,
    /// Another secret.
    Other(Secret),
    /// Nothing: it is not encrypted.
    Plain,
}

/// Bytes that a key file must have, and may have.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 32..=65_536;

/// Why a key file is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreKeyError {
    /// It cannot be read.
    #[error("cannot read the key of the store, {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Others can read it.
    #[error("others can use {0} (mode {mode:04o}): run `chmod 600 {0}`", path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is too short to be secret, or too long.
    #[error(
        "{0} has {bytes} bytes, where a key has 32 to 65,536: make one with `umask 077; head -c 32 /dev/urandom > FILE`",
        path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its size, at most one more than the limit.
        bytes: usize,
    },
    /// Others can replace it.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
}

impl StoreSecret {
    /// Reads a key file.
    ///
    /// # Errors
    /// [`StoreKeyError`].
    pub fn load(path: &Path) -> Result<StoreSecret, StoreKeyError> {
        let failed = |source| StoreKeyError::Read { path: path.into(), source };
        let mut file = File::open(path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
            if mode & 0o077 != 0 {
                return Err(StoreKeyError::Permissions { path: path.into(), mode });
            }
        }
        ownership::check(path, &file)?;
        let mut key = Vec::new();
        let limit = *KEY_BYTES.end() as u64 + 1;
        file.by_ref().take(limit).read_to_end(&mut key).map_err(failed)?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(StoreKeyError::Length { path: path.into(), bytes: key.len() });
        }
        Ok(StoreSecret::Other(Secret::derive(&key, b"", "oncewire store key file 1")))
    }

    /// The store's key, if it is encrypted. `own` is this end's.
    #[must_use]
    pub fn secret(&self, own: &SecretKey) -> Option<Secret> {
        match self {
            StoreSecret::Own => Some(Secret::derive(own.pkcs8(), b"", "oncewire store own key 1")),
            StoreSecret::Other(secret) => Some(secret.clone()),
            StoreSecret::Plain => None,
        }
    }
}
