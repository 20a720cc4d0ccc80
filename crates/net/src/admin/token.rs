//! The secret of an admin address.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Fewest characters of a token.
const SHORTEST: usize = 16;
/// Most bytes of a token's file.
const LONGEST: u64 = 4096;

/// A secret that requests must show, as its digest, so that comparing takes the same time whatever
/// is wrong.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// A token's file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The system's reason.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Other users can read it.
    #[error("others can read it: run chmod 600 on it")]
    Readable,
    /// It is short, long or not one word.
    #[error("a token is one line of {SHORTEST} or more printable characters without spaces")]
    Invalid,
}

impl Token {
    /// # Errors
    /// [`TokenError::Invalid`].
    pub fn new(text: &str) -> Result<Token, TokenError> {
        if text.len() < SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Invalid);
        }
        Ok(Token::of(text.as_bytes()))
    }

    /// Reads a file that only its owner can read.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn load(path: &Path) -> Result<Token, TokenError> {
        let file = File::open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(TokenError::Readable);
        }
        let mut text = String::new();
        let read = file.take(LONGEST + 1).read_to_string(&mut text);
        match read {
            Ok(len) if len as u64 <= LONGEST => Token::new(text.trim()),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(error.into()),
            _ => Err(TokenError::Invalid),
        }
    }

    fn of(secret: &[u8]) -> Token {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, secret).as_ref());
        Token(bytes)
    }

    /// Whether an `Authorization` header shows it: as a bearer token, as monitoring sends it, or as
    /// the password of any user, as browsers ask for it (RFC 6750, RFC 7617).
    pub(super) fn is_shown(&self, header: &[u8]) -> bool {
        let Some(space) = header.iter().position(|&byte| byte == b' ') else { return false };
        let (scheme, rest) = (&header[..space], header[space + 1..].trim_ascii());
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return Token::of(rest) == *self;
        }
        let Some(pair) = scheme
            .eq_ignore_ascii_case(b"basic")
            .then(|| BASE64_STANDARD.decode(rest).ok())
            .flatten()
        else {
            return false;
        };
        let colon = pair.iter().position(|&byte| byte == b':');
        colon.is_some_and(|at| Token::of(&pair[at + 1..]) == *self)
    }
}
