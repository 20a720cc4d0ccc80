//! Sealing and opening datagrams: `docs/LINK.md`, sections 2 and 3.

use oncewire_session::link::{HEADER, SEAL, TAG};
use ring::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// First byte of a sealed datagram. RFC 9443 leaves 4 to 15 free; packets of QUIC have 64 or more.
pub(super) const SEALED: u8 = 0x08;
/// The label with which both ends export keys from TLS (RFC 8446 section 7.5).
pub(super) const EXPORTER: &[u8] = b"EXPORTER-oncewire-link";
/// That of the name of an association that begins with the connection.
pub(super) const ASSOCIATION_EXPORTER: &[u8] = b"EXPORTER-oncewire-link-association";
/// Most datagrams under one key: RFC 9001 appendix B.1.1 for AES-GCM and packets of up to 2,048
/// bytes. ChaCha20-Poly1305 would allow more.
pub(super) const MOST_DATAGRAMS: u64 = 1 << 28;
/// Most datagrams that may fail to open under one key: RFC 9001 section 6.6 for ChaCha20-Poly1305.
/// AES-GCM would allow more.
pub(super) const MOST_FORGED: u64 = 1 << 36;

const KEY: usize = 32;
const IV: usize = 12;

/// Bytes that TLS exports: key and IV of the client, then of the server.
pub(super) type Exported = [u8; 2 * (KEY + IV)];

/// The cipher of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM, if both ends have instructions for it.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Cipher {
    fn algorithm(self) -> &'static Algorithm {
        match self {
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}

/// Whether this machine has instructions for AES and for carry-less multiplication.
pub(super) fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// A datagram that cannot be sealed: the key is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all datagrams that a key may seal were sealed")]
pub(super) struct UsedUp;

/// The key of one direction.
pub(super) struct DirectionKey {
    key: LessSafeKey,
    iv: [u8; IV],
    /// Datagrams that it may seal.
    most: u64,
    /// Datagrams sealed or opened so far.
    used: AtomicU64,
    /// Datagrams that did not open.
    failed: AtomicU64,
}

impl DirectionKey {
    /// The keys of client and server. Each seals `most` datagrams.
    pub(super) fn both(exported: &Exported, cipher: Cipher, most: u64) -> [DirectionKey; 2] {
        let (client, server) = exported.split_at(KEY + IV);
        [client, server].map(|bytes| {
            let (key, iv) = bytes.split_at(KEY);
            // Cannot fail: both algorithms take 32 bytes.
            let key = UnboundKey::new(cipher.algorithm(), key).expect("a key of 32 bytes");
            let iv = iv.try_into().expect("an IV of 12 bytes");
            DirectionKey {
                key: LessSafeKey::new(key),
                iv,
                most,
                used: AtomicU64::new(0),
                failed: AtomicU64::new(0),
            }
        })
    }

    /// The nonce, as in TLS 1.3 (RFC 8446 section 5.3).
    fn nonce(&self, counter: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, counter) in nonce[IV - 8..].iter_mut().zip(counter.to_be_bytes()) {
            *byte ^= counter;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals a datagram in its place: header, records and tag. Each counter may be used once.
    pub(super) fn seal(&self, index: u32, counter: u64, datagram: &mut [u8]) -> Result<(), UsedUp> {
        if self.used.fetch_add(1, Relaxed) >= self.most {
            return Err(UsedUp);
        }
        let header = (u64::from(SEALED) | u64::from(index) << 8 | counter << 32).to_le_bytes();
        let (head, rest) = datagram.split_at_mut(HEADER);
        head.copy_from_slice(&header);
        let (records, tag) = rest.split_at_mut(rest.len() - TAG);
        let sealed = self
            .key
            .seal_in_place_separate_tag(self.nonce(counter), Aad::from(header), records)
            // Only for lengths that no datagram has.
            .map_err(|_| UsedUp)?;
        tag.copy_from_slice(sealed.as_ref());
        Ok(())
    }

    /// Opens a datagram in its place, and returns its records; `None` if it was not sealed by the
    /// peer with this counter.
    pub(super) fn open<'a>(&self, counter: u64, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let (head, sealed) = datagram.split_first_chunk_mut::<HEADER>()?;
        let opened = self.key.open_in_place(self.nonce(counter), Aad::from(*head), sealed);
        let count = if opened.is_ok() { &self.used } else { &self.failed };
        count.fetch_add(1, Relaxed);
        opened.ok().map(|records| &*records)
    }

    /// Datagrams sealed or opened with this key.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Datagrams that this key did not open.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }
}

/// Index and low counter bits of a datagram that begins with [`SEALED`], if it is long enough.
pub(super) fn header(datagram: &[u8]) -> Option<(u32, u32)> {
    let head = datagram.first_chunk::<HEADER>().filter(|_| datagram.len() >= SEAL)?;
    let head = u64::from_le_bytes(*head);
    Some(((head >> 8) as u32 & 0xff_ffff, (head >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cipher: Cipher) -> [DirectionKey; 2] {
        let mut exported = [0; 88];
        exported.iter_mut().zip(0..).for_each(|(byte, at)| *byte = at);
        DirectionKey::both(&exported, cipher, MOST_DATAGRAMS)
    }

    fn datagram(records: &[u8]) -> Vec<u8> {
        [&[0; HEADER], records, &[0; TAG]].concat()
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_key_and_counter_only() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let [client, server] = keys(cipher);
            let mut sealed = datagram(b"records");
            client.seal(0x01_0203, 77, &mut sealed).unwrap();
            assert_eq!(sealed[..HEADER], [8, 3, 2, 1, 77, 0, 0, 0]);
            assert_eq!(header(&sealed), Some((0x01_0203, 77)));
            assert_eq!(client.open(77, &mut sealed.clone()), Some(&b"records"[..]));
            assert_eq!(client.open(78, &mut sealed.clone()), None);
            assert_eq!(client.open(77 + (1 << 32), &mut sealed.clone()), None);
            assert_eq!(server.open(77, &mut sealed.clone()), None);
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(client.open(77, &mut changed), None, "byte {at}");
            }
            let mut empty = datagram(b"");
            server.seal(1, 0, &mut empty).unwrap();
            assert_eq!(server.open(0, &mut empty), Some(&[][..]));
        }
    }

    /// The first datagram of a client under known keys: `docs/LINK.md` shows the same bytes.
    #[test]
    fn the_example_of_the_document() {
        let [client, _] = keys(Cipher::Aes256Gcm);
        let mut sealed = datagram(&[0x10]);
        client.seal(0xab_cdef, 1, &mut sealed).unwrap();
        let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LINK.md");
        let document = std::fs::read_to_string(document).unwrap();
        assert!(document.contains(&hex), "docs/LINK.md does not show {hex}");
    }

    #[test]
    fn a_key_is_used_up() {
        let [client, _] = keys(Cipher::Aes256Gcm);
        // Counters go on from key to key: what counts is how many this one has sealed.
        client.used.store(MOST_DATAGRAMS - 1, Relaxed);
        assert_eq!(client.seal(1, 1 << 40, &mut datagram(b"x")), Ok(()));
        assert_eq!(client.seal(1, (1 << 40) + 1, &mut datagram(b"x")), Err(UsedUp));
        assert!(client.used() >= MOST_DATAGRAMS);
    }

    #[test]
    fn short_datagrams_have_no_header() {
        assert_eq!(header(&[SEALED; SEAL - 1]), None);
        assert_eq!(header(&[SEALED; SEAL]), Some((0x08_0808, 0x0808_0808)));
        let [client, _] = keys(Cipher::ChaCha20Poly1305);
        assert_eq!(client.open(0, &mut [SEALED; 7]), None);
        assert_eq!(client.open(0, &mut [SEALED; 20]), None);
    }
}
