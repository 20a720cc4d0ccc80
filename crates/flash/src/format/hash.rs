//! The hash of a key, from which everything else about its place follows.

use siphasher::sip128::SipHasher13;

/// The hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// Its partition.
    pub partition: u32,
    /// 64 bits for its place within the partition.
    pub inside: u64,
}

/// Hashes a key with a secret, so that nobody else can choose keys that collide.
#[must_use]
pub fn hash(secret: &[u8; 16], partitions: u32, key: &[u8]) -> Hash {
    // All at once, which takes half the time of writing to a hasher.
    let hash = SipHasher13::new_with_key(secret).hash(key);
    let partition = ((u128::from(hash.h1) * u128::from(partitions)) >> 64) as u32;
    Hash { partition, inside: hash.h2 }
}

/// Other bits from the same hash (the finalizer of SplitMix64).
#[must_use]
pub fn mix(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}
