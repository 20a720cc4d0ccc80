//! Records between nodes of a network (`docs/NETWORK.md`): what a node's hop carries instead of packets
//! of a link. The session carries their bodies, and does not read them.

/// What a record between nodes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A packet on its path.
    Path,
    /// An answer, against the direction of a path.
    Back,
}

/// A record between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRecord<'a> {
    /// What it is.
    pub kind: NodeKind,
    /// The two low bits of its first byte.
    pub bits: u8,
    /// What follows.
    pub body: &'a [u8],
}

/// The bits that a record between nodes may have in its first byte, beside kind and *last*.
pub(super) const NODE_BITS: u8 = 0b11;

/// Records between nodes that were received, in order.
#[derive(Debug, Default)]
pub(super) struct NodeRecords {
    bytes: Vec<u8>,
    /// Kind, bits, and where the body ends.
    ends: Vec<(NodeKind, u8, usize)>,
}

impl NodeRecords {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, record: NodeRecord<'_>) {
        self.bytes.extend_from_slice(record.body);
        self.ends.push((record.kind, record.bits, self.bytes.len()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeRecord<'_>> {
        self.ends.iter().scan(0, |from, &(kind, bits, end)| {
            let body = &self.bytes[std::mem::replace(from, end)..end];
            Some(NodeRecord { kind, bits, body })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::start;
    use super::super::{Batch, Delivered, HEADER, Receiver, RecordError, Sender, TAG, Violation};
    use super::*;
    use proptest::prelude::*;

    fn receive(receiver: &mut Receiver, batch: &mut Batch, out: &mut Delivered) {
        for (counter, datagram) in batch.datagrams_mut() {
            let plain = &datagram[HEADER..datagram.len() - TAG];
            receiver.receive(counter, plain, 0, start(), out).unwrap();
        }
    }

    proptest! {
        /// What one node adds, the next one gets, in order, and each datagram is acknowledged.
        #[test]
        fn records_arrive_as_they_were_added(
            records in proptest::collection::vec((any::<bool>(), 0u8..4, proptest::collection::vec(any::<u8>(), 0..1200)), 0..40),
            ecn in proptest::collection::vec(0u8..4, 40),
        ) {
            let (mut sender, mut batch) = (Sender::new(1000), Batch::default());
            let (mut receiver, mut out) = (Receiver::default().for_node(), Delivered::with_room(0));
            let mut expected = Vec::new();
            for ((is_path, bits, body), ecn) in records.iter().zip(ecn) {
                let kind = if *is_path { NodeKind::Path } else { NodeKind::Back };
                sender.set_ecn(ecn);
                let (head, tail) = body.split_at(body.len() / 3);
                match sender.enqueue_node(kind, *bits, &[head, tail]) {
                    Ok(_) => expected.push(NodeRecord { kind, bits: *bits, body }),
                    Err(_) => prop_assert!(body.len() + 1 > 1000 - HEADER - TAG),
                }
            }
            sender.transmit(start(), &mut batch);
            prop_assert!(batch.datagrams_mut().all(|(_, datagram)| datagram.len() <= 1000));
            receive(&mut receiver, &mut batch, &mut out);
            prop_assert_eq!(out.nodes().collect::<Vec<_>>(), expected);
            prop_assert!(out.is_empty(), "no packets of a link");
        }
    }

    /// A link takes no records of nodes, and a node none of a link.
    #[test]
    fn nodes_and_links_do_not_mix() {
        let (mut link, mut node) = (Receiver::default(), Receiver::default().for_node());
        let mut out = Delivered::with_room(0);
        let mut refused = |receiver: &mut Receiver, counter, plain: &[u8]| {
            receiver.receive(counter, plain, 0, start(), &mut out).err()
        };
        let kind = |kind| Some(Violation::Record(RecordError::Kind { kind }));
        assert_eq!(refused(&mut link, 0, &[0xd0, 1]), kind(6));
        assert_eq!(refused(&mut link, 1, &[0xf0, 1]), kind(7));
        assert_eq!(refused(&mut node, 0, &[0xd0, 1]), None);
        assert_eq!(refused(&mut node, 1, &[0xf3, 1]), None);
        for (counter, head) in [(2, 0x30), (3, 0x50), (4, 0x90), (5, 0xb0)] {
            assert_eq!(refused(&mut node, counter, &[head, 0, 4, 0]), kind(head >> 5), "{head:#x}");
        }
        let reserved = Some(Violation::Record(RecordError::Reserved { head: 0xd4 }));
        assert_eq!(refused(&mut node, 6, &[0xd4, 1]), reserved);
    }
}
