//! The directory: a record of 64 bytes for each slot.

use super::{DIRECTORY, Id, get32, get64, put, seed};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a record.
pub const BYTES: usize = 64;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the incarnation in the index.
    pub sequence: u64,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Number of the incarnation in its partition.
    pub count: u64,
    /// The records of all incarnations below this sequence were durable.
    pub durable: u64,
    /// The partition.
    pub partition: u32,
    /// Entries, deletes included.
    pub entries: u32,
    /// Deletes.
    pub deletes: u32,
}

/// What the bytes of a record say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Zeros: nothing was written, or it does not count.
    Empty,
    /// A record.
    Record(Record),
    /// Anything else.
    Damaged,
}

impl Record {
    /// Writes the record of a slot.
    pub fn write(&self, id: &Id, slot: u64, bytes: &mut [u8]) {
        bytes[..BYTES].fill(0);
        for (n, number) in
            [self.sequence, self.epoch, self.count, self.durable].into_iter().enumerate()
        {
            put(bytes, 8 + 8 * n, &number.to_le_bytes());
        }
        for (n, number) in [self.partition, self.entries, self.deletes].into_iter().enumerate() {
            put(bytes, 40 + 4 * n, &number.to_le_bytes());
        }
        let sum = xxh3_64_with_seed(&bytes[8..BYTES], seed(DIRECTORY, id, [slot, 0, 0, 0]));
        put(bytes, 0, &sum.to_le_bytes());
    }

    /// Reads the record of a slot.
    #[must_use]
    pub fn read(id: &Id, slot: u64, bytes: &[u8]) -> Entry {
        if bytes[..BYTES].iter().all(|&byte| byte == 0) {
            return Entry::Empty;
        }
        let sum = xxh3_64_with_seed(&bytes[8..BYTES], seed(DIRECTORY, id, [slot, 0, 0, 0]));
        let record = Record {
            sequence: get64(bytes, 8),
            epoch: get64(bytes, 16),
            count: get64(bytes, 24),
            durable: get64(bytes, 32),
            partition: get32(bytes, 40),
            entries: get32(bytes, 44),
            deletes: get32(bytes, 48),
        };
        let small = [record.sequence, record.epoch, record.count].iter().all(|&n| n < 1 << 60);
        if sum == get64(bytes, 0) && small && record.durable <= record.sequence {
            Entry::Record(record)
        } else {
            Entry::Damaged
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_belongs_to_its_slot_and_index() {
        let record = Record {
            sequence: 9,
            epoch: 2,
            count: 3,
            durable: 8,
            partition: 4,
            entries: 5,
            deletes: 1,
        };
        let mut bytes = [0xff; BYTES];
        assert_eq!(Record::read(&[1; 16], 7, &bytes), Entry::Damaged);
        record.write(&[1; 16], 7, &mut bytes);
        assert_eq!(Record::read(&[1; 16], 7, &bytes), Entry::Record(record));
        assert_eq!(Record::read(&[1; 16], 8, &bytes), Entry::Damaged);
        assert_eq!(Record::read(&[2; 16], 7, &bytes), Entry::Damaged);
        bytes[50] ^= 1;
        assert_eq!(Record::read(&[1; 16], 7, &bytes), Entry::Damaged);
        assert_eq!(Record::read(&[1; 16], 7, &[0; BYTES]), Entry::Empty);
        Record { durable: 10, ..record }.write(&[1; 16], 7, &mut bytes);
        assert_eq!(Record::read(&[1; 16], 7, &bytes), Entry::Damaged);
    }
}
