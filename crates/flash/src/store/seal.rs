//! Sealing: who may read what is written, and whether it is what was written there.
//!
//! Each time a log is opened, it draws a salt of 16 random bytes. Everything that is written until
//! it is closed is sealed with one key, which HKDF (RFC 5869) derives from the log's data key and
//! that salt, and with a nonce that counts from 0. So no crash and no restored copy makes it use a
//! nonce twice: nothing on disk says where to continue.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A secret of 256 bits. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(super) [u8; 32]);

impl Secret {
    /// Derives a secret from another one of any length, for one purpose (HKDF-SHA256, RFC 5869).
    #[must_use]
    pub fn derive(from: &[u8], salt: &[u8], purpose: &'static str) -> Secret {
        struct Len;
        impl hkdf::KeyType for Len {
            fn len(&self) -> usize {
                32
            }
        }
        let mut key = [0; 32];
        let _ = hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
            .extract(from)
            .expand(&[purpose.as_bytes()], Len)
            .and_then(|okm| okm.fill(&mut key));
        Secret(key)
    }

    pub(super) fn random() -> Result<Secret, NoRandom> {
        Ok(Secret(random()?))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

/// Random bytes of the system.
pub(super) fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}

/// An authenticated cipher with associated data (RFC 5116): 256 bits of key, 96 of nonce, 128 of
/// tag.
pub trait Cipher: Send + Sync + fmt::Debug {
    /// Encrypts `content` in place and returns its tag. No pair of key and nonce comes twice.
    fn seal(&self, key: &Secret, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> [u8; 16];

    /// Decrypts `content` in place. `false` if it, its tag or `aad` is not what was sealed; the
    /// content is useless then.
    fn open(
        &self,
        key: &Secret,
        nonce: [u8; 12],
        aad: &[u8],
        tag: [u8; 16],
        content: &mut [u8],
    ) -> bool;
}

/// AES-256-GCM (NIST SP 800-38D).
#[derive(Clone, Copy, Debug, Default)]
pub struct AesGcm;

impl AesGcm {
    fn key(key: &Secret) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &key.0).ok().map(LessSafeKey::new)
    }
}

impl Cipher for AesGcm {
    fn seal(&self, key: &Secret, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = AesGcm::key(key)
            .and_then(|key| key.seal_in_place_separate_tag(nonce, Aad::from(aad), content).ok());
        let mut tag = [0; 16];
        match sealed {
            Some(sealed) => tag.copy_from_slice(sealed.as_ref()),
            // Impossible for a key of 32 bytes and less than 64 GiB. Nothing must be written in the
            // clear, and what has no valid tag counts as lost.
            None => content.fill(0),
        }
        tag
    }

    fn open(
        &self,
        key: &Secret,
        nonce: [u8; 12],
        aad: &[u8],
        tag: [u8; 16],
        content: &mut [u8],
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(nonce);
        AesGcm::key(key).is_some_and(|key| {
            key.open_in_place_separate_tag(nonce, Aad::from(aad), Tag::from(tag), content, 0..)
                .is_ok()
        })
    }
}

/// No cipher: the tag is XXH3-128 of associated data and content. It notices decay, but not whoever
/// changes content and tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Plain {
    fn tag(aad: &[u8], content: &[u8]) -> [u8; 16] {
        let mut hash = Xxh3::new();
        hash.update(aad);
        hash.update(content);
        hash.digest128().to_le_bytes()
    }
}

impl Cipher for Plain {
    fn seal(&self, _: &Secret, _: [u8; 12], aad: &[u8], content: &mut [u8]) -> [u8; 16] {
        Plain::tag(aad, content)
    }

    fn open(&self, _: &Secret, _: [u8; 12], aad: &[u8], tag: [u8; 16], content: &mut [u8]) -> bool {
        Plain::tag(aad, content) == tag
    }
}

/// Seals and opens the blocks of one log.
#[derive(Debug)]
pub(super) struct Sealer {
    cipher: Arc<dyn Cipher>,
    data: Secret,
    salt: [u8; 16],
    key: Secret,
    /// Nonce of the next block.
    counter: u64,
}

const PURPOSE: &str = "oncewire store block 1";

impl Sealer {
    /// Draws the salt of an opening.
    pub(super) fn new(cipher: Arc<dyn Cipher>, data: Secret) -> Result<Sealer, NoRandom> {
        let salt = random()?;
        let key = Secret::derive(&data.0, &salt, PURPOSE);
        Ok(Sealer { cipher, data, salt, key, counter: 0 })
    }

    /// Salt and counter of the next block.
    pub(super) fn next(&mut self) -> ([u8; 16], u64) {
        self.counter += 1;
        (self.salt, self.counter - 1)
    }

    pub(super) fn seal(&self, counter: u64, aad: &[u8], content: &mut [u8]) -> [u8; 16] {
        self.cipher.seal(&self.key, nonce(counter), aad, content)
    }

    pub(super) fn open(
        &self,
        salt: [u8; 16],
        counter: u64,
        aad: &[u8],
        tag: [u8; 16],
        content: &mut [u8],
    ) -> bool {
        if salt == self.salt {
            return self.cipher.open(&self.key, nonce(counter), aad, tag, content);
        }
        let key = Secret::derive(&self.data.0, &salt, PURPOSE);
        self.cipher.open(&key, nonce(counter), aad, tag, content)
    }
}

/// 4 zero bytes and the counter.
pub(super) fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_anywhere_is_noticed() {
        let ciphers: [Arc<dyn Cipher>; 2] = [Arc::new(AesGcm), Arc::new(Plain)];
        for cipher in ciphers {
            let mut sealer = Sealer::new(cipher.clone(), Secret([7; 32])).expect("random");
            let (salt, counter) = sealer.next();
            let mut sealed = *b"content";
            let tag = sealer.seal(counter, b"aad", &mut sealed);
            assert_eq!(sealed == *b"content", format!("{cipher:?}") == "Plain");
            let other = Sealer::new(cipher, Secret([7; 32])).expect("random");
            let mut opened = sealed;
            assert!(other.open(salt, counter, b"aad", tag, &mut opened));
            assert_eq!(opened, *b"content");
            for bit in 0..8 * sealed.len() {
                let mut changed = sealed;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(!other.open(salt, counter, b"aad", tag, &mut changed));
            }
            assert!(!other.open(salt, counter, b"aae", tag, &mut { sealed }));
        }
    }

    #[test]
    fn another_key_salt_or_counter_opens_nothing() {
        let cipher: Arc<dyn Cipher> = Arc::new(AesGcm);
        let mut sealer = Sealer::new(cipher.clone(), Secret([7; 32])).expect("random");
        let (salt, counter) = sealer.next();
        assert_eq!(sealer.next(), (salt, counter + 1));
        let mut sealed = *b"content";
        let tag = sealer.seal(counter, b"", &mut sealed);
        assert!(!sealer.open(salt, counter + 1, b"", tag, &mut { sealed }));
        assert!(!sealer.open([9; 16], counter, b"", tag, &mut { sealed }));
        let other = Sealer::new(cipher, Secret([8; 32])).expect("random");
        assert!(!other.open(salt, counter, b"", tag, &mut { sealed }));
        assert!(sealer.open(salt, counter, b"", tag, &mut sealed));
        assert_eq!(format!("{:?}", Secret([7; 32])), "Secret(..)");
    }

    /// RFC 5869, appendix A.3.
    #[test]
    fn secrets_are_derived_as_the_rfc_says() {
        let salt: Vec<u8> = (0..=0x0c).collect();
        let derived = Secret::derive(&[0x0b; 22], &[], "");
        assert_eq!(derived.0[..8], [0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f]);
        assert_ne!(Secret::derive(&[0x0b; 22], &salt, ""), derived);
    }
}
