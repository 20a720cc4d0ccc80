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

/// The keys of one handshake, and the state of both directions under them.
pub(super) struct Keyed {
    /// The index in datagrams to this end.
    pub(super) our_index: u32,
    /// The index in datagrams to the peer.
    pub(super) their_index: u32,
    pub(super) cipher: Cipher,
    pub(super) sealing: DirectionKey,
    pub(super) opening: DirectionKey,
    pub(super) sender: Mutex<Sender>,
    /// The sender's next counter, for the other direction.
    pub(super) next: AtomicU64,
    pub(super) receiver: Mutex<Receiver>,
    /// Where the newest datagram that opened came from: the peer may have moved.
    pub(super) address: Mutex<SocketAddr>,
    pub(super) since: Instant,
    /// Datagrams that did not open.
    pub(super) forged: AtomicU64,
    pub(super) connection: quinn::Connection,
}

impl Keyed {
    /// Datagrams sealed or opened with these keys, whichever are more.
    pub(super) fn used(&self) -> u64 {
        let sent = lock(&self.sender).next_counter();
        sent.max(lock(&self.receiver).window().next())
    }

    pub(super) fn traffic(&self) -> Traffic {
        let (sent, received) = (lock(&self.sender).stats(), lock(&self.receiver).stats());
        Traffic { sent, received, forged: self.forged.load(Relaxed) }
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
    /// Traffic under keys that are no longer in force.
    earlier: Traffic,
}

impl Keys {
    /// Opens datagrams with these keys, too, from now on. If there are too many, the oldest are
    /// forgotten, and their connections end.
    pub(super) fn add(&self, keyed: Arc<Keyed>) {
        let surplus = {
            let mut state = lock(&self.state);
            let State { opening, sealing, earlier } = &mut *state;
            opening.push(keyed);
            let surplus = surplus(opening, sealing.as_ref());
            for keyed in &surplus {
                *earlier += keyed.traffic();
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
        let State { opening, sealing, earlier } = &mut *state;
        opening.retain(|other| {
            let is_other = !Arc::ptr_eq(other, keyed);
            if !is_other {
                *earlier += other.traffic();
            }
            is_other
        });
        sealing.take_if(|sealing| Arc::ptr_eq(sealing, keyed)).is_some()
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
        for keyed in &state.opening {
            traffic += keyed.traffic();
        }
        traffic
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
