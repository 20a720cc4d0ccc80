//! How many clients have sent a chunk.
//!
//! A chunk is shared once a secret number of different clients have sent it (D. Harnik, B. Pinkas
//! and A. Shulman-Peleg, "Side Channels in Cloud Services", IEEE Security & Privacy 8(6), 2010). So
//! nobody learns about a chunk that a single other client has sent, and whoever is several clients
//! learns little.

use twox_hash::XxHash3_64;

/// Fewest and most other clients that must have sent a chunk before it is shared.
const FEWEST: u32 = 2;
pub(super) const MOST: u32 = 5;
/// Bits of a client's short id; 0 is none.
const BITS: u32 = 6;
const IDS: u32 = (1 << BITS) - 1;
/// Short ids that are remembered. One more client sets [`MORE`].
const REMEMBERED: u32 = 5;
const MORE: u32 = 1 << (BITS * REMEMBERED);

/// How many other clients must have sent a chunk with this keyed hash.
pub(super) fn threshold(hash: u64) -> u32 {
    // Other bits than those that choose the entry.
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    FEWEST + (mixed % u64::from(MOST - FEWEST + 1)) as u32
}

/// Clients with a short id of their own: the first that send something. All others take turns at
/// the remaining ids. Two clients with one id count as one, so chunks are shared later, never
/// sooner.
const OWN_IDS: usize = 47;

/// The short ids of clients. A client keeps its id as long as the log lives: with another one, it
/// would count twice.
#[derive(Debug, Default)]
pub(super) struct Clients(Vec<u64>);

impl Clients {
    /// The id of a client, from 1 on.
    pub(super) fn id(&mut self, client: u64, key: u64) -> u32 {
        let own = match self.0.iter().position(|&known| known == client) {
            Some(own) => own,
            None if self.0.len() < OWN_IDS => {
                self.0.push(client);
                self.0.len() - 1
            }
            None => {
                let others = u64::from(IDS) - OWN_IDS as u64;
                let hash = XxHash3_64::oneshot_with_seed(key, &client.to_le_bytes());
                OWN_IDS + (hash % others) as usize
            }
        };
        own as u32 + 1
    }

    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

/// The clients that have sent a chunk, as far as it takes to decide whether it is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Senders(pub(super) u32);

impl Senders {
    fn ids(self) -> impl Iterator<Item = u32> {
        (0..REMEMBERED).map(move |at| self.0 >> (at * BITS) & IDS).take_while(|&id| id != 0)
    }

    /// With one more sender.
    pub(super) fn with(self, id: u32) -> Senders {
        if self.ids().any(|known| known == id) {
            return self;
        }
        match self.ids().count() as u32 {
            REMEMBERED => Senders(self.0 | MORE),
            count => Senders(self.0 | id << (count * BITS)),
        }
    }

    /// How many other clients than this one have sent it, as far as that matters.
    pub(super) fn others(self, id: u32) -> u32 {
        self.ids().filter(|&known| known != id).count() as u32 + u32::from(self.0 & MORE != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_counted_once_each_up_to_what_matters() {
        let mut senders = Senders::default();
        for (turn, id) in (1..=IDS).enumerate() {
            for other in 1..=IDS {
                let sent = turn as u32 - u32::from(other < id);
                // Beyond the sixth it is not known whether this client is the one too many.
                assert_eq!(
                    senders.others(other) >= MOST,
                    sent >= MOST || turn > 5,
                    "{turn} {other}"
                );
                if turn <= 5 {
                    assert_eq!(senders.others(other), sent, "{turn} {other}");
                }
            }
            senders = senders.with(id);
            assert_eq!(senders.with(id), senders, "the same client again");
        }
    }

    #[test]
    fn a_client_keeps_its_id_however_many_there_are() {
        let mut clients = Clients::default();
        let first: Vec<u32> = (0..3000).map(|client| clients.id(client * 7, 1)).collect();
        assert!(first[..OWN_IDS].iter().copied().eq(1..=OWN_IDS as u32));
        assert!(first[OWN_IDS..].iter().all(|id| (OWN_IDS as u32 + 1..=IDS).contains(id)));
        assert!((0..3000).map(|client| clients.id(client * 7, 1)).eq(first));
        assert!(clients.memory() <= 64 * size_of::<u64>());
    }

    #[test]
    fn thresholds_are_two_to_five() {
        let hash = |chunk: u64| XxHash3_64::oneshot_with_seed(7, &chunk.to_le_bytes());
        let mut counts = [0; 6];
        (0..4000).for_each(|chunk| counts[threshold(hash(chunk)) as usize] += 1);
        assert_eq!(counts[..2], [0, 0]);
        assert!(counts[2..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
