//! Secret keys and their files.

use super::PublicKey;
use super::file::{self, CreateError, FileError, FileKind, FileProblem, SECRET_PREFIX};
use crate::ownership::OwnershipError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Occurs near the start of the base64 of every Ed25519 secret key in PKCS#8, whoever made it: the
/// algorithm and the length of the key.
const SECRET_PKCS8: &str = "wBQYDK2VwBCIEI";

/// This end's Ed25519 key pair, kept as PKCS#8 version 2 (RFC 5958), which holds both halves, so
/// that corruption is noticed.
///
/// In a file it is one line: `ow1secret-`, then the PKCS#8 encoding in URL-safe base64 without
/// padding.
#[derive(Clone)]
pub struct SecretKey {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

/// A secret key that cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretKeyError {
    /// The system gives no random numbers.
    #[error("cannot make a key: the system gives no random numbers")]
    Random,
    /// The file cannot be read, or others can use or replace it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file cannot be written.
    #[error("cannot write the secret key {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file exists.
    #[error(
        "{} exists and is not overwritten: choose another name, or move it away if no peer accepts its key any more",
        path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A new file would be in a directory where others can replace it.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// The file holds a corrupt key.
    #[error("the secret key in {} is corrupt: restore it from a backup, or make a new pair", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
    },
}

impl SecretKeyError {
    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        let SecretKeyError::File(FileError { problem: FileProblem::Read(error), .. }) = self else {
            return false;
        };
        error.kind() == io::ErrorKind::NotFound
    }
}

impl SecretKey {
    /// Makes a new pair from the system's random numbers.
    ///
    /// # Errors
    /// [`SecretKeyError::Random`].
    pub fn generate() -> Result<SecretKey, SecretKeyError> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| SecretKeyError::Random)?;
        SecretKey::from_pkcs8(pkcs8.as_ref().to_vec()).ok_or(SecretKeyError::Random)
    }

    /// `None` unless it is an Ed25519 key in PKCS#8 version 2 whose halves match.
    fn from_pkcs8(pkcs8: Vec<u8>) -> Option<SecretKey> {
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8).ok()?;
        let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(SecretKey { pkcs8, public })
    }

    /// Reads a file that [`SecretKey::save`] wrote.
    ///
    /// # Errors
    /// [`SecretKeyError::File`] if the file cannot be read, if its group or others can read or
    /// change it, if it belongs to another user than this process's and root, or if others can
    /// write to a directory above it. [`SecretKeyError::Corrupt`] if the key in it is corrupt.
    pub fn load(path: &Path) -> Result<SecretKey, SecretKeyError> {
        let kind = FileKind::SecretKey;
        let text = file::read(path, kind)?;
        let other = || FileError { kind, path: path.to_path_buf(), problem: FileProblem::Content };
        let code = text.trim_end().strip_prefix(SECRET_PREFIX).ok_or_else(other)?;
        let key = URL_SAFE_NO_PAD.decode(code).ok().and_then(SecretKey::from_pkcs8);
        key.ok_or_else(|| SecretKeyError::Corrupt { path: path.to_path_buf() })
    }

    /// Writes the pair to a new file with mode 0600, and waits until it is on disk.
    ///
    /// # Errors
    /// [`SecretKeyError::Exists`]: existing files stay as they are.
    /// [`SecretKeyError::Ownership`] if [`SecretKey::load`] would refuse a file there.
    /// [`SecretKeyError::Write`].
    pub fn save(&self, path: &Path) -> Result<(), SecretKeyError> {
        let line = format!("{SECRET_PREFIX}{}\n", URL_SAFE_NO_PAD.encode(&self.pkcs8));
        file::create(path, true, line.as_bytes()).map_err(|error| match error {
            CreateError::Exists => SecretKeyError::Exists { path: path.to_path_buf() },
            CreateError::Ownership(error) => error.into(),
            CreateError::Write(source) => {
                SecretKeyError::Write { path: path.to_path_buf(), source }
            }
        })
    }

    /// The half that peers may know.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// PKCS#8 version 2, for the TLS stack.
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

impl fmt::Debug for SecretKey {
    /// Shows only the public half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Whether a text contains a secret key, with or without its prefix.
pub(super) fn is_secret(text: &str) -> bool {
    // The prefix alone gives nothing away.
    let after = text.split_once(SECRET_PREFIX).map_or(0, |(_, after)| after.len());
    after >= 4 || text.contains(SECRET_PKCS8)
}

/// Replaces every word that contains a secret key. Use it for messages that quote user input: they
/// end up in logs.
pub fn redact(text: &str) -> Cow<'_, str> {
    if !is_secret(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // Words are runs of characters of either base64 alphabet.
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '/');
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        shown.push_str(if is_secret(word) { "[a secret key, not shown]" } else { word });
        let next = after.find(in_word).unwrap_or(after.len());
        shown.push_str(&after[..next]);
        rest = &after[next..];
    }
    Cow::Owned(shown)
}
