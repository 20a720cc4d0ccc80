//! Packets and runs in batches of datagrams, and received packets joined into runs again.

use super::headers::Implied;
use super::nodes::{NodeRecord, NodeRecords};
use super::records::{PacketRecord, Segments};
use std::num::NonZeroU16;
use std::ops::Range;

/// Bytes of a sealed datagram before its records: `docs/LINK.md`, section 2.
pub const HEADER: usize = 8;
/// Bytes of its tag, after them.
pub const TAG: usize = 16;

/// Datagrams that are sent together, with consecutive counters. Each has room for its header and its
/// tag, which the caller fills in when it seals.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) bytes: Vec<u8>,
    /// Where each datagram ends.
    pub(super) ends: Vec<usize>,
    /// The ECN bits of each.
    pub(super) ecn: Vec<u8>,
    pub(super) first_counter: u64,
}

impl Batch {
    /// Whether there are no datagrams.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// All datagrams, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Each datagram with its counter.
    pub fn datagrams_mut(&mut self) -> impl Iterator<Item = (u64, &mut [u8])> {
        let mut rest = &mut self.bytes[..];
        let mut start = 0;
        self.ends.iter().zip(self.first_counter..).map(move |(&end, counter)| {
            let (datagram, after) = std::mem::take(&mut rest).split_at_mut(end - start);
            (rest, start) = (after, end);
            (counter, datagram)
        })
    }

    /// Groups of datagrams of one size, of which the last may be shorter, and of one ECN field: where
    /// each group is in [`Batch::bytes`], the size, and the two bits of the field. A group has at most `most` datagrams and `bytes` bytes, and at
    /// least one datagram.
    pub fn groups(
        &self,
        most: usize,
        bytes: usize,
    ) -> impl Iterator<Item = (Range<usize>, usize, u8)> + '_ {
        let mut at = 0;
        let start_of = |at: usize| if at == 0 { 0 } else { self.ends[at - 1] };
        std::iter::from_fn(move || {
            let start = start_of(at);
            let (size, ecn) = (self.ends.get(at)? - start, self.ecn[at]);
            let first = at;
            let mut is_last = false;
            while let Some(&end) = self.ends.get(at) {
                let len = end - start_of(at);
                let fits = at == first || (at - first < most && end - start <= bytes);
                if is_last || !fits || len > size || self.ecn[at] != ecn {
                    break;
                }
                is_last = len < size;
                at += 1;
            }
            Some((start..self.ends[at - 1], size, ecn))
        })
    }

    /// Keeps the first `len` datagrams.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.ecn.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.ecn.clear();
    }
}

/// A received packet or run, of which [`Delivered::packets_mut`] gives the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Start of the room before the packet.
    start: usize,
    end: usize,
    /// Bytes of headers.
    pub header: usize,
    /// Whether the transport checksum is open.
    pub open_checksum: bool,
    /// What the headers leave out.
    pub implied: Implied,
    /// Which segments it has. A run that was joined may have up to
    /// [`MAX_SEGMENTS`](super::MAX_SEGMENTS).
    pub segments: Option<Segments>,
    /// The ECN bits of the datagrams that it came in. Those of the packet itself are in its header.
    pub ecn: u8,
}

/// Packets and runs from one batch of received datagrams. Consecutive segments of a run become one
/// run again, so that they are written to the device in one call.
#[derive(Debug)]
pub struct Delivered {
    bytes: Vec<u8>,
    deliveries: Vec<Delivery>,
    room: usize,
    ecn: u8,
    nodes: NodeRecords,
}

impl Delivered {
    /// Leaves `room` bytes of zeros before each packet, for the device's header.
    pub fn with_room(room: usize) -> Delivered {
        Delivered {
            bytes: Vec::new(),
            deliveries: Vec::new(),
            room,
            ecn: 0,
            nodes: NodeRecords::default(),
        }
    }

    /// States the two ECN bits of the datagrams whose packets come next (RFC 3168 section 5).
    pub fn set_ecn(&mut self, ecn: u8) {
        self.ecn = ecn;
    }

    pub(super) fn ecn(&self) -> u8 {
        self.ecn
    }

    /// Forgets everything, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.deliveries.clear();
        self.nodes.clear();
    }

    /// Records between nodes, in the order in which they arrived.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRecord<'_>> {
        self.nodes.iter()
    }

    pub(super) fn push_node(&mut self, record: NodeRecord<'_>) {
        self.nodes.push(record);
    }

    /// Bytes held, with the room before packets.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Each packet or run, with the room before it.
    pub fn packets_mut(&mut self) -> impl Iterator<Item = (Delivery, &mut [u8])> {
        let mut rest = &mut self.bytes[..];
        self.deliveries.iter().map(move |&delivery| {
            let (packet, after) =
                std::mem::take(&mut rest).split_at_mut(delivery.end - delivery.start);
            rest = after;
            (delivery, packet)
        })
    }

    /// Adds a record with its restored header.
    pub(super) fn push(&mut self, record: &PacketRecord<'_>) {
        if let Some(segments) = record.segments
            && self.join(record, segments)
        {
            return;
        }
        let start = self.bytes.len();
        self.bytes.resize(start + self.room, 0);
        self.bytes.extend_from_slice(record.header);
        self.bytes.extend_from_slice(record.payload);
        self.deliveries.push(Delivery {
            start,
            end: self.bytes.len(),
            header: record.header.len(),
            open_checksum: record.open_checksum,
            implied: record.implied,
            segments: record.segments,
            ecn: self.ecn,
        });
    }

    /// Appends segments to the newest run if they follow it. Each packet of a run depends on its
    /// headers, its number and its payload only, so the result is right even if the headers are those
    /// of another run.
    fn join(&mut self, record: &PacketRecord<'_>, new: Segments) -> bool {
        let Some(newest) = self.deliveries.last_mut() else { return false };
        let Some(old) = &mut newest.segments else { return false };
        let packet = newest.start + self.room;
        let len = newest.end - packet;
        let follows = !old.ends
            && old.size == new.size
            && newest.ecn == self.ecn
            && usize::from(old.first) + usize::from(old.count) == usize::from(new.first)
            && len + record.payload.len() <= super::MAX_PACKET
            && self.bytes[packet..packet + newest.header] == *record.header;
        if follows {
            self.bytes.extend_from_slice(record.payload);
            newest.end = self.bytes.len();
            old.count += new.count;
            old.ends = new.ends;
        }
        follows
    }
}

/// Slices of a run: each has as many whole segments as `most`, the last the rest.
pub(super) fn slices(
    payload: &[u8],
    size: NonZeroU16,
    most: usize,
) -> impl Iterator<Item = (Segments, &[u8])> {
    let bytes = usize::from(size.get());
    let total = payload.len().div_ceil(bytes).max(1);
    (0..total).step_by(most.max(1)).map(move |first| {
        let count = most.min(total - first);
        let ends = first + count == total;
        let end = if ends { payload.len() } else { (first + count) * bytes };
        let segments = Segments { first: first as u8, count: count as u8, size, ends };
        (segments, &payload[first * bytes..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_cover_a_batch(sizes in proptest::collection::vec(1usize..5, 0..40), most in 1usize..8, bytes in 1usize..30) {
            let mut batch = Batch { first_counter: 7, ..Batch::default() };
            for (at, size) in sizes.iter().enumerate() {
                batch.bytes.resize(batch.bytes.len() + size, at as u8);
                batch.ends.push(batch.bytes.len());
                batch.ecn.push((at / 5 % 2) as u8);
            }
            let mut cut = Vec::new();
            let mut at = 0;
            for (range, size, ecn) in batch.groups(most, bytes) {
                prop_assert_eq!(range.start, at);
                let first = batch.ends.partition_point(|&end| end <= range.start);
                let last = batch.ends.partition_point(|&end| end < range.end);
                prop_assert!(batch.ecn[first..=last].iter().all(|&other| other == ecn));
                at = range.end;
                let group: Vec<&[u8]> = batch.bytes[range.clone()].chunks(size).collect();
                prop_assert!(group.len() <= most && (range.len() <= bytes || group.len() == 1));
                cut.extend(group.iter().map(|datagram| datagram.to_vec()));
            }
            let whole: Vec<_> = batch.datagrams_mut().map(|(counter, bytes)| (counter, bytes.to_vec())).collect();
            let expected: Vec<_> = sizes.iter().enumerate().map(|(at, &size)| vec![at as u8; size]).collect();
            prop_assert_eq!(&cut, &expected);
            prop_assert_eq!(whole, (7..).zip(expected.clone()).collect::<Vec<_>>());
            batch.truncate(most);
            let kept: Vec<_> = batch.datagrams_mut().map(|(_, bytes)| bytes.to_vec()).collect();
            prop_assert_eq!(&kept[..], &expected[..most.min(expected.len())]);
            prop_assert_eq!(batch.bytes().len(), kept.iter().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn segments_are_joined_only_where_they_follow() {
        let size = NonZeroU16::new(2).unwrap();
        let record = |first, ends, header, payload| PacketRecord {
            section: &[],
            header,
            implied: Implied::LengthsAndChecksum,
            open_checksum: true,
            segments: Some(Segments { first, count: 1, size, ends }),
            payload,
        };
        let mut delivered = Delivered::with_room(1);
        let mut push = |record: PacketRecord<'_>| {
            delivered.push(&record);
            delivered.deliveries.len()
        };
        assert_eq!(push(record(0, false, b"h", b"ab")), 1);
        assert_eq!(push(record(1, false, b"h", b"cd")), 1);
        assert_eq!(push(record(3, false, b"h", b"gh")), 2, "a gap");
        assert_eq!(push(record(2, false, b"h", b"ef")), 3, "the wrong order");
        assert_eq!(push(record(3, false, b"x", b"gh")), 4, "other headers");
        assert_eq!(push(record(4, true, b"x", b"i")), 4);
        assert_eq!(push(record(5, true, b"x", b"jk")), 5, "after the end");
        assert_eq!(push(PacketRecord { segments: None, ..record(0, true, b"x", b"") }), 6);
        delivered.push(&record(0, false, b"h", b"ab"));
        delivered.set_ecn(3);
        delivered.push(&record(1, false, b"h", b"cd"));
        assert_eq!(delivered.deliveries.len(), 8, "one of them met congestion");
        let packets: Vec<_> = delivered.packets_mut().map(|(_, bytes)| bytes.to_vec()).collect();
        assert_eq!(packets[0], b"\0habcd");
        assert_eq!(packets[3], b"\0xghi");
    }
}
