//! Public keys and their text form.

use super::file::SECRET_PREFIX;
use super::secret::is_secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::str::FromStr;

/// Start of every public key as text. The digit changes if the format ever does.
const PUBLIC_PREFIX: &str = "ow1";

/// Length of a public key as text: `ow1`, then 34 bytes in base64.
const PUBLIC_TEXT: usize = 3 + 46;

/// DER before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410 section 4, example
/// in 10.1).
const SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A peer's Ed25519 public key.
///
/// As text it is one word of 49 characters: `ow1`, then the URL-safe base64 without padding (RFC
/// 4648 section 5) of 34 bytes: the key and a checksum, the CRC-16/IBM-3740 (polynomial 0x1021,
/// initial value 0xffff, high byte first) of the key. The checksum detects every single wrong
/// character, every swap of two neighbors, and all but one in 65,536 of other mistakes.
///
/// Any 32 bytes make a `PublicKey`. If they are not a point on the curve, no signature verifies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

/// A text or an encoding that is not a public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// It does not start like a public key.
    #[error("not a public key: public keys start with {PUBLIC_PREFIX}")]
    Prefix,
    /// It is a secret key.
    #[error(
        "this is a secret key: use its public key, and make a new pair if anybody may have seen this one"
    )]
    Secret,
    /// It is too short or too long.
    #[error("a public key has {PUBLIC_TEXT} characters, this one has {len}")]
    Length {
        /// Its length in characters.
        len: usize,
    },
    /// A character outside `A-Z a-z 0-9 - _`.
    #[error(
        "character {position} of the public key is {found:?}: allowed are letters, digits, - and _"
    )]
    Character {
        /// Its position, counted from 1.
        position: usize,
        /// The character.
        found: char,
    },
    /// The checksum is wrong.
    #[error("the public key is mistyped: its checksum does not match")]
    Check,
    /// A SubjectPublicKeyInfo of another algorithm or length.
    #[error(
        "not an Ed25519 public key: {len} bytes of SubjectPublicKeyInfo that RFC 8410 does not describe"
    )]
    Spki {
        /// Length of the SubjectPublicKeyInfo in bytes.
        len: usize,
    },
}

/// CRC-16/IBM-3740, bit by bit: a table would not pay for 32 bytes.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

impl PublicKey {
    /// The key as a SubjectPublicKeyInfo in DER, 44 bytes (RFC 8410 section 4): what a TLS peer sends (RFC 7250).
    pub fn to_spki(&self) -> [u8; 44] {
        let mut spki = [0; 44];
        spki[..12].copy_from_slice(&SPKI_PREFIX);
        spki[12..].copy_from_slice(&self.0);
        spki
    }

    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// [`PublicKeyError::Spki`] unless it is exactly what [`PublicKey::to_spki`] writes.
    pub fn from_spki(spki: &[u8]) -> Result<PublicKey, PublicKeyError> {
        let key = spki.strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok());
        key.map(PublicKey).ok_or(PublicKeyError::Spki { len: spki.len() })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 34];
        bytes[..32].copy_from_slice(&self.0);
        bytes[32..].copy_from_slice(&crc16(&self.0).to_be_bytes());
        f.write_str(PUBLIC_PREFIX)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<PublicKey, PublicKeyError> {
        if text.starts_with(SECRET_PREFIX) || is_secret(text) {
            return Err(PublicKeyError::Secret);
        }
        let code = text.strip_prefix(PUBLIC_PREFIX).ok_or(PublicKeyError::Prefix)?;
        if let Some((index, found)) = text
            .chars()
            .enumerate()
            .find(|(_, c)| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        {
            return Err(PublicKeyError::Character { position: index + 1, found });
        }
        if text.len() != PUBLIC_TEXT {
            return Err(PublicKeyError::Length { len: text.len() });
        }
        // Length and characters are right, so this fails only if the 4 spare bits are not 0.
        let bytes = URL_SAFE_NO_PAD.decode(code).map_err(|_| PublicKeyError::Check)?;
        let (key, check) =
            bytes.split_first_chunk::<32>().ok_or(PublicKeyError::Length { len: text.len() })?;
        if check != crc16(key).to_be_bytes() {
            return Err(PublicKeyError::Check);
        }
        Ok(PublicKey(*key))
    }
}
