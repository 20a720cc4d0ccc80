//! Names of payloads.

/// The name of a payload: 128 bits, as the paper's MD5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub [u8; Name::BYTES]);

impl Name {
    /// Size of a name in bytes.
    pub const BYTES: usize = 16;
}

/// How payloads are named. The same at both ends: equal payloads must have equal names. Different
/// payloads may have equal names.
pub trait Naming: Send {
    /// The name of `payload`.
    fn name(&self, payload: &[u8]) -> Name;
}

/// The first 128 bits of keyed BLAKE3. Without the key, nobody can prepare payloads whose names
/// collide.
#[derive(Clone)]
pub struct KeyedBlake3 {
    key: [u8; 32],
}

impl KeyedBlake3 {
    /// Names under `key`: secret, the same at both ends, of one session.
    pub fn new(key: [u8; 32]) -> KeyedBlake3 {
        KeyedBlake3 { key }
    }
}

impl std::fmt::Debug for KeyedBlake3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedBlake3").finish_non_exhaustive()
    }
}

impl Naming for KeyedBlake3 {
    fn name(&self, payload: &[u8]) -> Name {
        let hash = blake3::keyed_hash(&self.key, payload);
        Name(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_payload_count() {
        let naming = KeyedBlake3::new([1; 32]);
        let name = naming.name(b"payload");
        assert_eq!(name, naming.clone().name(b"payload"));
        assert_ne!(name, naming.name(b"payloae"));
        assert_ne!(name, KeyedBlake3::new([2; 32]).name(b"payload"));
        assert!(!format!("{naming:?}").contains("[1"), "the key is not printed");
    }
}
