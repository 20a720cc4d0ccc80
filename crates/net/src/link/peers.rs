//! The keys of a link that are in force: found by the index in each datagram.

use super::seal::{Cipher, DirectionKey};
use super::status::Traffic;
use crate::sync::lock;
use oncewire_session::link::{Receiver, Sender};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Indices have 24 bits.
pub(super) const INDICES: u32 = 1 << 24;
/// Most keys that open at a time. A link needs three: previous, current and next. More come from a
/// peer that connects again and again, or from handshakes that were given up half way.
const MOST_KEYS: usize = 16;

/// Counters and logs of both directions. They outlive the keys of a connection, as long as both ends
/// have them.
#[derive(Debug)]
pub(super) struct Association {
    pub(super) sender: Mutex<Sender>,
    /// The sender's next counter, for the other direction.
    pub(super) next: AtomicU64,
    pub(super) receiver: Mutex<Receiver>,
    /// Datagrams that did not open.
    pub(super) forged: AtomicU64,
}

impl Association {
    /// Nothing was sent or received. Sends datagrams of up to `largest` bytes.
    pub(super) fn new(largest: usize) -> Association {
        Association {
            sender: Mutex::new(Sender::new(largest)),
            next: AtomicU64::new(0),
            receiver: Mutex::default(),
            forged: AtomicU64::new(0),
        }
    }

    fn traffic(&self) -> Traffic {
        let (sent, received) = (lock(&self.sender).stats(), lock(&self.receiver).stats());
        Traffic { sent, received, forged: self.forged.load(Relaxed) }
    }
}

/// What names an association in HELLO. Both ends export it from the connection that began it. Zeros
/// name none.
pub(super) type AssociationId = [u8; 16];

/// The keys of one handshake.
pub(super) struct Keyed {
    /// The index in datagrams to this end.
    pub(super) our_index: u32,
    /// The index in datagrams to the peer.
    pub(super) their_index: u32,
    pub(super) cipher: Cipher,
    pub(super) sealing: DirectionKey,
    pub(super) opening: DirectionKey,
    pub(super) association: Arc<Association>,
    /// Where the newest datagram that opened came from: the peer may have moved.
    pub(super) address: Mutex<SocketAddr>,
    pub(super) since: Instant,
    pub(super) connection: quinn::Connection,
}

impl Keyed {
    /// Datagrams sealed or opened with these keys, whichever are more.
    pub(super) fn used(&self) -> u64 {
        self.sealing.used().max(self.opening.used())
    }
}

/// All keys in force, and those that this end seals with.
#[derive(Default)]
pub(super) struct Keys {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that open: current, next and previous.
    opening: Vec<Arc<Keyed>>,
    sealing: Option<Arc<Keyed>>,
    /// The newest association, and what names it.
    association: Option<(AssociationId, Arc<Association>)>,
    /// Traffic of associations that have ended.
    earlier: Traffic,
}

impl State {
    /// Counts what `gone` has carried, unless its association goes on.
    fn forget(&mut self, gone: &Keyed) {
        let is_newest =
            |(_, newest): &(_, Arc<Association>)| Arc::ptr_eq(newest, &gone.association);
        let goes_on = self.association.as_ref().is_some_and(is_newest)
            || self.opening.iter().any(|other| Arc::ptr_eq(&other.association, &gone.association));
        if !goes_on {
            self.earlier += gone.association.traffic();
        }
    }
}

impl Keys {
    /// Opens datagrams with these keys, too, from now on. If there are too many, the oldest are
    /// forgotten, and their connections end.
    pub(super) fn add(&self, keyed: Arc<Keyed>) {
        let surplus = {
            let mut state = lock(&self.state);
            state.opening.push(keyed);
            let State { opening, sealing, .. } = &mut *state;
            let surplus = surplus(opening, sealing.as_ref());
            for keyed in &surplus {
                state.forget(keyed);
            }
            surplus
        };
        for keyed in surplus {
            keyed.connection.close(quinn::VarInt::from_u32(0), b"too many connections");
        }
    }

    /// Seals with these keys from now on. Returns those that were used before.
    pub(super) fn seal_with(&self, keyed: &Arc<Keyed>) -> Option<Arc<Keyed>> {
        lock(&self.state).sealing.replace(keyed.clone())
    }

    /// Forgets keys. Returns whether this end sealed with them: it then has none.
    pub(super) fn remove(&self, keyed: &Arc<Keyed>) -> bool {
        let mut state = lock(&self.state);
        if let Some(at) = state.opening.iter().position(|other| Arc::ptr_eq(other, keyed)) {
            state.opening.remove(at);
            state.forget(keyed);
        }
        state.sealing.take_if(|sealing| Arc::ptr_eq(sealing, keyed)).is_some()
    }

    /// The keys to seal with, unless the link is down.
    pub(super) fn sealing(&self) -> Option<Arc<Keyed>> {
        lock(&self.state).sealing.clone()
    }

    /// The keys that an index names.
    pub(super) fn find(&self, index: u32) -> Option<Arc<Keyed>> {
        lock(&self.state).opening.iter().find(|keyed| keyed.our_index == index).cloned()
    }

    /// All traffic since the start.
    pub(super) fn traffic(&self) -> Traffic {
        let state = lock(&self.state);
        let mut traffic = state.earlier;
        let newest = state.association.iter().map(|(_, association)| association);
        let mut all: Vec<_> = state.opening.iter().map(|keyed| &keyed.association).collect();
        all.extend(newest);
        all.sort_by_key(|association| Arc::as_ptr(association));
        all.dedup_by(|one, other| Arc::ptr_eq(one, other));
        for association in all {
            traffic += association.traffic();
        }
        traffic
    }

    /// What names the association that this end holds; zeros for none.
    pub(super) fn association(&self) -> AssociationId {
        lock(&self.state).association.as_ref().map_or([0; 16], |(id, _)| *id)
    }

    /// The association of a new connection: that which both ends name, or else a new one for
    /// datagrams of up to `largest` bytes, which `exported` names from now on.
    pub(super) fn associate(
        &self,
        [ours, theirs]: [AssociationId; 2],
        exported: AssociationId,
        largest: usize,
    ) -> Arc<Association> {
        let mut state = lock(&self.state);
        if let Some((id, held)) = &state.association
            && ours == *id
            && theirs == *id
        {
            lock(&held.sender).set_largest(largest);
            return held.clone();
        }
        let new = Arc::new(Association::new(largest));
        let before = state.association.replace((exported, new.clone()));
        if let Some((_, before)) = before
            && !state.opening.iter().any(|keyed| Arc::ptr_eq(&keyed.association, &before))
        {
            state.earlier += before.traffic();
        }
        new
    }
}

/// Takes the oldest keys above [`MOST_KEYS`] out, but not those that this end seals with.
fn surplus<T>(opening: &mut Vec<Arc<T>>, sealing: Option<&Arc<T>>) -> Vec<Arc<T>> {
    let mut surplus = Vec::new();
    while opening.len() > MOST_KEYS {
        let in_use = |keyed: &Arc<T>| sealing.is_some_and(|sealing| Arc::ptr_eq(sealing, keyed));
        let Some(oldest) = opening.iter().position(|keyed| !in_use(keyed)) else { break };
        surplus.push(opening.remove(oldest));
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_association_goes_on_only_if_both_ends_name_it() {
        let keys = Keys::default();
        assert_eq!(keys.association(), [0; 16]);
        let first = keys.associate([[0; 16]; 2], [1; 16], 1400);
        assert_eq!(keys.association(), [1; 16]);
        first.forged.store(5, Relaxed);
        assert!(Arc::ptr_eq(&first, &keys.associate([[1; 16]; 2], [2; 16], 1400)));
        for (ours, theirs) in [([1; 16], [0; 16]), ([0; 16], [1; 16]), ([1; 16], [9; 16])] {
            let held = keys.associate([keys.association(); 2], [0; 16], 1400);
            let begun = keys.associate([ours, theirs], [1; 16], 1400);
            assert!(!Arc::ptr_eq(&held, &begun));
        }
        // This end has begun another one since it said HELLO.
        let held = keys.associate([[1; 16]; 2], [0; 16], 1400);
        assert!(!Arc::ptr_eq(&held, &keys.associate([[7; 16]; 2], [3; 16], 1400)));
        assert_eq!((keys.association(), keys.traffic().forged), ([3; 16], 5));
    }

    #[test]
    fn the_oldest_keys_go_but_never_those_in_use() {
        let (mut opening, mut gone) = (Vec::new(), Vec::new());
        let mut sealing = None;
        for nth in 0..100 {
            opening.push(Arc::new(nth));
            gone.extend(surplus(&mut opening, sealing.as_ref()).iter().map(|keyed| **keyed));
            assert!(opening.len() <= MOST_KEYS);
            if nth == 5 {
                sealing = opening.last().cloned();
            }
        }
        assert!(opening.iter().any(|keyed| **keyed == 5));
        let expected: Vec<_> = (0..=84).filter(|&nth| nth != 5).collect();
        assert_eq!(gone, expected);
    }
}
