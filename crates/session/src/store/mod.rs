//! Logs that outlive the process: what a driver with a store writes, and what it gives back after a
//! restart. There is no I/O here.
//!
//! A log on disk follows the one in memory at some distance. Session and driver speak of it in the
//! order of [`Unwritten`]; whatever suffix of that a crash takes back, what is left is a log that
//! ended earlier, and both ends go on from the highest [`Place`] that they have in common.

mod places;
mod queue;
mod repeats;
mod restore;

pub(crate) use places::{MAX_PLACES, Places};
pub(crate) use queue::{Block, Content, Queue};
pub use repeats::Repeat;
pub(crate) use restore::{Finished, RestoredReceiving, RestoredSending};
pub use restore::{FinishedLog, LogRecord, RestoreError, RestoredLog};

use crate::epoch::Epoch;
use oncewire_codec::{Domain, Sharing};
use siphasher::sip::SipHasher24;

/// One of the two logs of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The log of this end's encoder.
    Sending,
    /// The log of this end's decoder.
    Receiving,
}

/// An offset of a log where a block ends, and the hash chain of all content below it
/// (`docs/PROTOCOL.md`, "Chain"). Logs of one id with equal chains at an offset are equal below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In bytes.
    pub offset: u64,
    /// The chain there.
    pub chain: u64,
}

/// Consecutive content of one owner: from `start` to the start of the next run. Only the sending
/// log has owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First offset, in bytes.
    pub start: u64,
    /// A number that stands for the isolation domain, the same after a restart as long as
    /// [`StoreKey`] is. It says nothing by itself.
    pub owner: u64,
}

/// What does not change while a log lasts, but for the number of its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// Its id, and how often it was rewound.
    pub epoch: Epoch,
    /// Its size in bytes: byte `o` lies at position `o mod capacity` of the ring.
    pub capacity: u64,
    /// The key of its fingerprints: secret. 0 for a receiving log.
    pub key: u64,
}

/// Keys the numbers of isolation domains, so that they survive a restart: secret and random, made
/// once with the store of a peer. With another key, restored content is found by nobody.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreKey(pub [u64; 2]);

impl std::fmt::Debug for StoreKey {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("StoreKey(secret)")
    }
}

/// What a driver with a store does next with the log of one side, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// An empty log begins at offset 0, with a chain of 0. What was stored of this side is of no
    /// use any more. Of the sending side: [`Session::committed`](crate::Session::committed) once
    /// this is durable.
    Begin(LogHeader),
    /// The log continues in another epoch from an earlier place on: content, places and runs above
    /// it are dropped. Of the sending side: [`Session::committed`](crate::Session::committed) once
    /// this is durable.
    Rewind {
        /// The id is that of the log; the number is new.
        epoch: Epoch,
        /// Where the log ends now.
        to: Place,
        /// Size of the log in memory from now on, in bytes. It may differ from the one before: then
        /// memory begins empty at `to`, and what was stored stays as it is. Padding below `to` that
        /// does not end at a multiple of it is no place for [`LogRecord::from`] to lie below.
        capacity: u64,
    },
    /// Content follows.
    Content(Piece),
    /// The log was given up, or is in doubt. What is stored of it must not come back.
    Drop,
}

/// Whole blocks of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where the bytes begin.
    pub offset: u64,
    /// Bytes of padding before them: `offset - padding` is the end of the piece before. If that is
    /// above the end of what was stored, the driver was too slow: the ring has overwritten what lies
    /// between, and the log on disk begins here.
    pub padding: u64,
    /// One block at least, and at most two blocks of the largest size.
    pub bytes: Vec<u8>,
    /// The chain at the end of the bytes.
    pub chain: u64,
    /// The end is one of the places that the driver keeps.
    pub is_place: bool,
    /// Of a sending log: whose the bytes are. The first run begins at or below `offset`.
    pub runs: Vec<Run>,
    /// Which of the bytes equal earlier content of the log: ascending and disjoint. Not all that do
    /// are known.
    pub repeats: Vec<Repeat>,
}

impl Piece {
    /// Where the bytes end.
    pub fn end(&self) -> Place {
        Place { offset: self.offset + self.bytes.len() as u64, chain: self.chain }
    }
}

/// Content that is found by nobody.
const NOBODY: u64 = u64::MAX;
/// Content of an encoder that shared everything.
const EVERYBODY: u64 = u64::MAX - 1;
/// First number of domains that are never found again, such as those of unknown owners.
pub(crate) const UNREPEATED: u64 = 1 << 63;

/// The number of an owner's domain: the same whenever the key is. Below [`UNREPEATED`], and not 0,
/// which is [`Domain::COMMON`].
pub(crate) fn domain_of(key: StoreKey, client: &[u8], name: &[u8]) -> Domain {
    let StoreKey([low, high]) = key;
    let mut text = Vec::with_capacity(8 + client.len() + name.len());
    text.extend_from_slice(&(client.len() as u64).to_le_bytes());
    text.extend_from_slice(client);
    text.extend_from_slice(name);
    Domain((SipHasher24::new_with_keys(low, high).hash(&text) >> 1).max(1))
}

/// The number under which the content of a domain is stored.
fn owner_of(domain: Domain, sharing: Sharing) -> u64 {
    match sharing {
        Sharing::All if domain != Domain::NOBODY => EVERYBODY,
        _ if domain.0 >= UNREPEATED => NOBODY,
        _ => domain.0,
    }
}

/// The domain of stored content for an encoder with this sharing. Content that others were not to
/// find stays hidden, and so does content of which that was not noted.
pub(crate) fn domain_of_owner(owner: u64, sharing: Sharing) -> Domain {
    match (sharing, owner) {
        (Sharing::All, EVERYBODY) => Domain::COMMON,
        (Sharing::All, _) | (_, UNREPEATED..) => Domain::NOBODY,
        (_, number) => Domain(number),
    }
}

/// The runs of stored content.
pub(crate) fn runs_of(owners: Vec<(u64, Domain)>, sharing: Sharing) -> Vec<Run> {
    owners
        .into_iter()
        .map(|(start, domain)| Run { start, owner: owner_of(domain, sharing) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_content_is_found_by_whom_it_was_found_before_and_by_nobody_else() {
        let key = StoreKey([1, 2]);
        let (one, other) = (domain_of(key, b"a", b"bc"), domain_of(key, b"ab", b"c"));
        assert_ne!(one, other);
        assert_eq!(one, domain_of(key, b"a", b"bc"));
        assert_ne!(one, domain_of(StoreKey([1, 3]), b"a", b"bc"));
        assert!(one.0 < UNREPEATED && one != Domain::COMMON);
        for (before, domain, after, expected) in [
            (Sharing::None, one, Sharing::None, one),
            (Sharing::None, one, Sharing::Chunks, one),
            (Sharing::Chunks, Domain::COMMON, Sharing::None, Domain::COMMON),
            (Sharing::All, Domain::COMMON, Sharing::All, Domain::COMMON),
            // The content of all must not become that of flows without an owner.
            (Sharing::All, Domain::COMMON, Sharing::None, Domain::NOBODY),
            (Sharing::None, one, Sharing::All, Domain::NOBODY),
            (Sharing::None, Domain::COMMON, Sharing::All, Domain::NOBODY),
            (Sharing::None, Domain(UNREPEATED + 5), Sharing::None, Domain::NOBODY),
            (Sharing::All, Domain::NOBODY, Sharing::All, Domain::NOBODY),
            (Sharing::None, Domain::NOBODY, Sharing::None, Domain::NOBODY),
        ] {
            let stored = owner_of(domain, before);
            assert_eq!(domain_of_owner(stored, after), expected, "{before:?}, {domain:?}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", StoreKey([77, 88])), "StoreKey(secret)");
    }
}
