//! Tokens and their text form.

use crate::keys::{PublicKey, crc16};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::str::FromStr;

/// Start of every token as text.
const PREFIX: &str = "ow1join-";
/// Bytes of the secret.
pub(super) const SECRET: usize = 16;
/// Bytes of a token: key, secret, checksum.
const BYTES: usize = 32 + SECRET + 2;
/// Characters of a token as text.
const TEXT: usize = PREFIX.len() + (BYTES * 8).div_ceil(6);

/// What a peer needs to join a server: the server's key, and the secret of one invitation.
///
/// As text it is one word of 75 characters: `ow1join-`, then the URL-safe base64 without padding of
/// the key's 32 bytes, the secret's 16, and the CRC-16/IBM-3740 of both, as in a [`PublicKey`].
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    server: PublicKey,
    secret: [u8; SECRET],
}

/// A text that is not a token. It is not quoted: it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It does not start like a token.
    #[error("not a token: tokens start with {PREFIX}")]
    Prefix,
    /// It is too short or too long.
    #[error("a token has {TEXT} characters, this one has {0}")]
    Length(usize),
    /// The checksum is wrong, or a character is not allowed.
    #[error("the token is mistyped: its checksum does not match")]
    Check,
}

impl Token {
    /// A token with a new secret. `None` if the system gives no random numbers.
    pub(super) fn new(server: PublicKey) -> Option<Token> {
        let mut secret = [0; SECRET];
        SystemRandom::new().fill(&mut secret).ok()?;
        Some(Token { server, secret })
    }

    /// The key of the server that it is for.
    pub fn server(&self) -> PublicKey {
        self.server
    }

    pub(super) fn secret(&self) -> &[u8; SECRET] {
        &self.secret
    }
}

/// What stands for a secret in the server's directory: 64 characters, the SHA-256 in hexadecimal.
pub(super) fn name_of(secret: &[u8; SECRET]) -> String {
    use std::fmt::Write;
    digest(&SHA256, secret).as_ref().iter().fold(String::new(), |mut name, byte| {
        // Writing to a string does not fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

impl fmt::Display for Token {
    /// The whole token, secret included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&self.server.0);
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(&crc16(&bytes).to_be_bytes());
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for Token {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("server", &self.server).finish_non_exhaustive()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        let code = text.strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        if text.len() != TEXT {
            return Err(TokenError::Length(text.chars().count()));
        }
        let bytes = URL_SAFE_NO_PAD.decode(code).map_err(|_| TokenError::Check)?;
        let (content, check) = bytes.split_last_chunk::<2>().ok_or(TokenError::Check)?;
        if crc16(content).to_be_bytes() != *check {
            return Err(TokenError::Check);
        }
        let (server, secret) = content.split_first_chunk::<32>().ok_or(TokenError::Check)?;
        let secret = secret.try_into().map_err(|_| TokenError::Check)?;
        Ok(Token { server: PublicKey(*server), secret })
    }
}
