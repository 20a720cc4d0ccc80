//! What an ingress has sent encoded of late, so that it can send a packet again whole.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::Identity;

/// Bytes that an entry counts beside its packet, also once it was taken out: entries are bounded, too.
const ENTRY: usize = 128;

/// A packet that was sent encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// Its path.
    pub path: u32,
    /// Hash of its headers.
    pub identity: Identity,
    /// Its headers.
    pub header: Box<[u8]>,
    /// Its payload.
    pub payload: Arc<[u8]>,
    /// Paths and names of the packets that it referred to, and its own if a device was to cache it.
    pub names: Vec<(u32, u64)>,
}

/// The newest packets that were sent encoded, up to a number of bytes.
#[derive(Debug)]
pub struct SentPackets {
    most: usize,
    bytes: usize,
    /// In order; `None` for those that were taken out.
    packets: VecDeque<Option<SentPacket>>,
    /// How many were dropped at the front.
    first: u64,
    by_identity: HashMap<(u32, u64), u64>,
}

impl SentPackets {
    /// None yet; up to `most` bytes are kept.
    pub fn new(most: usize) -> Self {
        Self { most, bytes: 0, packets: VecDeque::new(), first: 0, by_identity: HashMap::new() }
    }

    /// Adds a packet. Of two with one identity, the newer counts.
    pub fn push(&mut self, packet: SentPacket) {
        let number = self.first + self.packets.len() as u64;
        self.by_identity.insert((packet.path, packet.identity.0), number);
        self.bytes += ENTRY + bytes(&packet);
        self.packets.push_back(Some(packet));
        while self.bytes > self.most || self.packets.front().is_some_and(Option::is_none) {
            let Some(oldest) = self.packets.pop_front() else { break };
            if let Some(packet) = oldest {
                let key = (packet.path, packet.identity.0);
                if self.by_identity.get(&key) == Some(&self.first) {
                    self.by_identity.remove(&key);
                }
                self.bytes -= bytes(&packet);
            }
            self.bytes -= ENTRY;
            self.first += 1;
        }
    }

    /// Takes a packet out, if it is there: it is sent again once.
    pub fn take(&mut self, path: u32, identity: Identity) -> Option<SentPacket> {
        let number = self.by_identity.remove(&(path, identity.0))?;
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.packets.get_mut(at)?.take()?;
        self.bytes -= bytes(&packet);
        Some(packet)
    }
}

fn bytes(packet: &SentPacket) -> usize {
    packet.header.len() + packet.payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(path: u32, identity: u64, len: usize) -> SentPacket {
        let (header, payload) = (vec![1; 20].into(), vec![identity as u8; len].into());
        SentPacket { path, identity: Identity(identity), header, payload, names: Vec::new() }
    }

    proptest! {
        /// As a list of the newest packets, of which some were taken out.
        #[test]
        fn the_newest_are_kept_and_taken_once(steps in proptest::collection::vec((any::<bool>(), 0u32..3, 0u64..8, 0usize..500), 0..200)) {
            let (mut sent, mut list) = (SentPackets::new(2000), Vec::<(SentPacket, bool)>::new());
            for (adds, path, identity, len) in steps {
                let new = packet(path, identity, len);
                let is_it = |one: &SentPacket| (one.path, one.identity) == (path, Identity(identity));
                if adds {
                    sent.push(new.clone());
                    // An older one of the same identity is not found any more.
                    list.push((new, false));
                    let bytes = |list: &[(SentPacket, bool)]| -> usize {
                        list.iter().map(|(one, taken)| ENTRY + if *taken { 0 } else { bytes(one) }).sum()
                    };
                    while bytes(&list) > 2000 || list.first().is_some_and(|one| one.1) {
                        list.remove(0);
                    }
                } else {
                    let newest = list.iter_mut().rev().find(|(one, _)| is_it(one));
                    let expected = newest.filter(|one| !one.1).map(|one| { one.1 = true; one.0.clone() });
                    prop_assert_eq!(sent.take(path, Identity(identity)), expected);
                }
                prop_assert!(sent.bytes <= 2000 && sent.packets.len() == list.len());
                prop_assert!(sent.by_identity.len() <= sent.packets.len());
            }
        }
    }
}
