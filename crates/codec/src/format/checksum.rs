//! The checksum of a block: 64 bits over its place and content, seeded per session.

use twox_hash::XxHash3_64;

/// Seed of a session's checksums. Both ends agree on it; frames of another session or epoch fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumSeed {
    /// Per session; unpredictable to outsiders where that matters.
    pub session: u64,
    /// The epoch within it.
    pub epoch: u64,
}

impl ChecksumSeed {
    /// XXH3-64 of the content, seeded by XXH3-64 of session, epoch, offset, the padding before it
    /// and the length (five little-endian 64-bit numbers).
    pub fn checksum(self, offset: u64, padding: u64, content: &[u8]) -> u64 {
        let mut place = [0; 40];
        let fields = [self.session, self.epoch, offset, padding, content.len() as u64];
        for (bytes, field) in place.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&place), content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_content_session_and_epoch_all_count() {
        let seed = ChecksumSeed { session: 1, epoch: 2 };
        let all = [
            seed.checksum(3, 0, b"block"),
            seed.checksum(3, 1, b"block"),
            seed.checksum(4, 0, b"block"),
            seed.checksum(3, 0, b"blocks"),
            seed.checksum(3, 0, b"bloc"),
            ChecksumSeed { epoch: 3, ..seed }.checksum(3, 0, b"block"),
            ChecksumSeed { session: 2, ..seed }.checksum(3, 0, b"block"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
