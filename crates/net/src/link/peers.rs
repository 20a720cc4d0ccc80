//! The peers of a link, the networks behind them, and the keys that are in force.

use super::headers::layout;
use super::seal::{Cipher, DirectionKey};
use crate::keys::{Peer as Name, PublicKey};
use crate::status::{DropCounters, Traffic};
use crate::sync::lock;
use crate::target::Target;
use ipnet::IpNet;
use oncewire_codec::Sharing;
use oncewire_packet::prefix::Prefixes;
use oncewire_session::link::{LogOffer, LogSettings, Policy, Receiver, Sender};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// Most peers of a link.
pub const MAX_PEERS: usize = 1024;
/// Indices have 24 bits.
pub(super) const INDICES: u32 = 1 << 24;
/// Most keys of a peer that open at a time. A link needs three: previous, current and next. More come
/// from a peer that connects again and again, or from handshakes that were given up half way.
const MOST_KEYS: usize = 16;

/// A peer as it is configured.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its key, what log lines and the status call it, and when the key expires.
    pub peer: Name,
    /// Where it listens. `None` waits for it to connect.
    pub address: Option<Target>,
    /// Networks behind it: what is routed to it, and the only sources that are accepted from it.
    pub allowed: Vec<IpNet>,
}

impl PeerConfig {
    /// What messages call the peer: its name, or else its key.
    pub fn label(&self) -> String {
        self.peer.name.clone().unwrap_or_else(|| self.peer.key.to_string())
    }
}

/// Peers that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeersError {
    /// There is none.
    #[error("a link needs a peer")]
    None,
    /// There are too many.
    #[error("{count} peers, more than {MAX_PEERS}")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A peer has the key of this end.
    #[error("the key of {peer} is this end's own; give that of the other end")]
    Own {
        /// The peer.
        peer: String,
        /// Which of the peers, counted from 0.
        at: usize,
    },
    /// Two peers have one key.
    #[error("{peer} has the key of {other}")]
    Repeated {
        /// The second peer.
        peer: String,
        /// The first.
        other: String,
        /// Which of the peers is the second, counted from 0.
        at: usize,
    },
    /// Nothing is behind a peer.
    #[error("no network is behind {peer}")]
    NoNetwork {
        /// The peer.
        peer: String,
        /// Which of the peers, counted from 0.
        at: usize,
    },
    /// A network is behind two peers.
    #[error("{network} behind {peer} overlaps {other_network} behind {other}")]
    Overlap {
        /// The second peer.
        peer: String,
        /// Its network.
        network: IpNet,
        /// The first peer.
        other: String,
        /// Its network.
        other_network: IpNet,
        /// Which of the peers is the second, counted from 0.
        at: usize,
        /// Which of its networks, counted from 0.
        network_at: usize,
    },
}

/// Which peer a network is behind.
#[derive(Debug, Default)]
pub(super) struct Routes(Prefixes);

impl Routes {
    /// Checks that the peers go together.
    pub(super) fn new(own: &PublicKey, peers: &[PeerConfig]) -> Result<Routes, PeersError> {
        if peers.is_empty() {
            return Err(PeersError::None);
        }
        if peers.len() > MAX_PEERS {
            return Err(PeersError::TooMany { count: peers.len() });
        }
        let mut keys = HashMap::new();
        let mut networks: Vec<(IpNet, usize, usize)> = Vec::new();
        for (at, peer) in peers.iter().enumerate() {
            if peer.peer.key == *own {
                return Err(PeersError::Own { peer: peer.label(), at });
            }
            if let Some(other) = keys.insert(peer.peer.key, at) {
                let other = peers[other].label();
                return Err(PeersError::Repeated { peer: peer.label(), other, at });
            }
            if peer.allowed.is_empty() {
                return Err(PeersError::NoNetwork { peer: peer.label(), at });
            }
            networks.extend(peer.allowed.iter().zip(0..).map(|(net, nth)| (net.trunc(), at, nth)));
        }
        // Of networks in order of their addresses, one that overlaps others overlaps a neighbor: the
        // last one that began before it and was not inside another.
        networks.sort_by_key(|(net, ..)| (net.network(), net.prefix_len()));
        let mut last: Option<(IpNet, usize, usize)> = None;
        for &(net, at, nth) in &networks {
            match last {
                Some((outer, other, other_nth)) if outer.contains(&net) => {
                    if other != at {
                        let ((at, network_at, network), (other, other_network)) = if at > other {
                            ((at, nth, net), (other, outer))
                        } else {
                            ((other, other_nth, outer), (at, net))
                        };
                        return Err(PeersError::Overlap {
                            peer: peers[at].label(),
                            network,
                            other: peers[other].label(),
                            other_network,
                            at,
                            network_at,
                        });
                    }
                }
                _ => last = Some((net, at, nth)),
            }
        }
        // Every peer has a network, so the table numbers them in their order.
        let mut text = String::new();
        for (at, peer) in peers.iter().enumerate() {
            for net in &peer.allowed {
                text.push_str(&format!("{} {at}\n", net.trunc()));
            }
        }
        // Cannot fail: these are networks already, and each has one owner.
        Ok(Routes(Prefixes::parse(&text).unwrap_or_default()))
    }

    /// The peer whose networks contain an address.
    pub(super) fn peer_of(&self, address: IpAddr) -> Option<usize> {
        // An IPv4 address written as IPv6 is not valid in packets (RFC 4942 section 2.2), and must not
        // pass for the IPv4 address.
        if address.is_ipv6() && address.to_canonical().is_ipv4() {
            return None;
        }
        self.0.lookup(address).map(|id| id.0 as usize)
    }
}

/// Where datagrams to a peer go, and from which address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) remote: SocketAddr,
    /// The address that the peer used, so that answers come from there, on a machine with several.
    /// `None` leaves it to the system's routes.
    pub(super) local: Option<IpAddr>,
}

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
    /// The sender has a message for the peer.
    pub(super) message: Notify,
}

/// How both directions find repeats.
#[derive(Clone, Copy, Debug)]
pub struct Matching {
    /// Largest content log of each direction, in bytes; 0 for none.
    pub cache: u64,
    /// What this end refers to.
    pub policy: Policy,
    /// Whether content of one inner source address may be found in that of another.
    pub sharing: Sharing,
}

impl Matching {
    /// The largest log that this end keeps of what a peer sends.
    pub(super) fn offer(&self) -> LogOffer {
        LogOffer::of(self.cache)
    }
}

impl Association {
    /// Nothing was sent or received. Sends datagrams of up to `largest` bytes. `key` is random.
    pub(super) fn new(largest: usize, matching: &Matching, key: u64) -> Association {
        let settings = LogSettings { capacity: matching.cache, sharing: matching.sharing, key };
        Association {
            sender: Mutex::new(
                Sender::new(largest).with_layout(layout).with_log(settings, matching.policy),
            ),
            next: AtomicU64::new(0),
            receiver: Mutex::new(
                Receiver::default().with_layout(layout).with_logs(matching.offer()),
            ),
            forged: AtomicU64::new(0),
            message: Notify::new(),
        }
    }

    /// The same between nodes of a network, which keep no logs.
    pub(super) fn of_nodes(largest: usize) -> Association {
        Association {
            sender: Mutex::new(Sender::new(largest)),
            next: AtomicU64::new(0),
            receiver: Mutex::new(Receiver::default().for_node()),
            forged: AtomicU64::new(0),
            message: Notify::new(),
        }
    }

    /// Frees the logs: another association is in use.
    fn retire(&self) {
        lock(&self.sender).retire();
        lock(&self.receiver).retire();
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
    /// Whose they are: a number of [`Shared::peers`](super::Shared).
    pub(super) peer: usize,
    /// Whether this end connected.
    pub(super) is_client: bool,
    /// The index in datagrams to this end.
    pub(super) our_index: u32,
    /// The index in datagrams to the peer.
    pub(super) their_index: u32,
    pub(super) cipher: Cipher,
    pub(super) sealing: DirectionKey,
    pub(super) opening: DirectionKey,
    pub(super) association: Arc<Association>,
    /// What names it.
    pub(super) association_id: AssociationId,
    /// What the peer keeps of what this end sends.
    pub(super) offer: LogOffer,
    /// That of the newest datagram that opened: the peer may have moved.
    pub(super) path: Mutex<Path>,
    /// Largest datagram that both ends are configured for, in bytes.
    pub(super) largest: usize,
    pub(super) since: Instant,
    pub(super) connection: quinn::Connection,
}

impl Keyed {
    /// Datagrams sealed or opened with these keys, whichever are more.
    pub(super) fn used(&self) -> u64 {
        self.sealing.used().max(self.opening.used())
    }
}

/// A peer, and its state.
pub(super) struct Peer {
    pub(super) config: PeerConfig,
    pub(super) keys: Keys,
    pub(super) drops: DropCounters,
    /// Addresses to which this end connects now, or did last.
    pub(super) dialed: Mutex<Vec<SocketAddr>>,
    pub(super) last_failure: Mutex<Option<String>>,
}

impl Peer {
    pub(super) fn new(config: PeerConfig) -> Peer {
        Peer {
            config,
            keys: Keys::default(),
            drops: DropCounters::default(),
            dialed: Mutex::default(),
            last_failure: Mutex::default(),
        }
    }

    /// Notes why the peer could not be reached, or is no longer.
    pub(super) fn failed(&self, why: &dyn std::fmt::Display) {
        *lock(&self.last_failure) = Some(why.to_string());
    }

    /// Whether this end sends datagrams to an address, whatever its form.
    pub(super) fn is_at(&self, address: SocketAddr) -> bool {
        let is = |other: SocketAddr| crate::target::canonical(other) == address;
        self.keys.sealing().is_some_and(|keyed| is(lock(&keyed.path).remote))
            || lock(&self.dialed).iter().any(|&other| is(other))
    }
}

/// The keys of one peer that are in force, and those that this end seals with.
pub(super) struct Keys {
    state: Mutex<State>,
    /// Whether there are keys to seal with. Changed while `state` is locked.
    is_up: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// Those that open: current, next and previous.
    opening: Vec<Arc<Keyed>>,
    sealing: Option<Arc<Keyed>>,
    /// The newest association, and what names it.
    association: Option<(AssociationId, Arc<Association>)>,
    /// The only association that has logs: that of the connection in use, or of the last one.
    logged: Option<Arc<Association>>,
    /// Traffic of associations that have ended.
    earlier: Traffic,
}

impl State {
    /// Counts what an association that was left has carried, unless it goes on.
    fn left(&mut self, association: &Arc<Association>) {
        let is_newest = |(_, newest): &(_, Arc<Association>)| Arc::ptr_eq(newest, association);
        let goes_on = self.association.as_ref().is_some_and(is_newest)
            || self.opening.iter().any(|other| Arc::ptr_eq(&other.association, association));
        if !goes_on {
            self.earlier += association.traffic();
        }
    }

    /// Makes an association the newest one.
    fn set_newest(&mut self, id: AssociationId, association: &Arc<Association>) {
        let before = self.association.replace((id, association.clone()));
        if let Some((_, before)) = before {
            self.left(&before);
        }
    }
}

impl Default for Keys {
    fn default() -> Keys {
        Keys { state: Mutex::default(), is_up: watch::Sender::new(false) }
    }
}

/// Connections that both ends make within this time are made at the same time.
const SAME_TIME: Duration = Duration::from_secs(3);

/// Whether a connection stays in use although there is a newer one: both ends have just connected to
/// each other, and its client is the end with the lower key. Of both connections, this end knows
/// whether it is the client.
fn stays((is_client, age): (bool, Duration), newer_is_client: bool, has_lower_key: bool) -> bool {
    // Later, the peer has lost the connection, or it would not connect.
    is_client != newer_is_client && is_client == has_lower_key && age < SAME_TIME
}

/// What became of new keys.
pub(super) enum Installed {
    /// This end seals with them, and had none.
    Up,
    /// This end seals with them instead of these.
    Renewed(Arc<Keyed>),
    /// Both ends connected at the same time, and the other connection stays.
    Spare,
}

impl Keys {
    /// Opens datagrams with these keys, too, from now on. If there are too many, the oldest are
    /// returned, and are no longer in force.
    fn add(&self, keyed: Arc<Keyed>) -> Vec<Arc<Keyed>> {
        let mut state = lock(&self.state);
        state.opening.push(keyed);
        let State { opening, sealing, .. } = &mut *state;
        let surplus = surplus(opening, sealing.as_ref());
        for keyed in &surplus {
            state.left(&keyed.association);
        }
        surplus
    }

    /// Seals with these keys from now on, except if both ends have just connected to each other: then
    /// both keep the connection of the end with the lower key. `has_lower_key` says whether that is
    /// this end.
    pub(super) fn seal_with(&self, keyed: &Arc<Keyed>, has_lower_key: bool) -> Installed {
        let mut state = lock(&self.state);
        // If another connection has ended this one meanwhile, as one too many.
        if !state.opening.iter().any(|other| Arc::ptr_eq(other, keyed)) {
            return Installed::Spare;
        }
        let stays = |current: &Arc<Keyed>| {
            let age = current.since.elapsed();
            stays((current.is_client, age), keyed.is_client, has_lower_key)
        };
        let current = state.sealing.clone().filter(stays);
        let chosen = current.as_ref().unwrap_or(keyed);
        // What the next connection goes on with.
        state.set_newest(chosen.association_id, &chosen.association);
        let is_spare = current.is_some();
        let logged = state.logged.replace(chosen.association.clone());
        if let Some(logged) = logged.filter(|logged| !Arc::ptr_eq(logged, &chosen.association)) {
            logged.retire();
        }
        if is_spare {
            return Installed::Spare;
        }
        let before = state.sealing.replace(keyed.clone());
        self.is_up.send_replace(true);
        before.map_or(Installed::Up, Installed::Renewed)
    }

    /// Forgets keys. Returns whether this end sealed with them: it then has none.
    fn remove(&self, keyed: &Arc<Keyed>) -> bool {
        let mut state = lock(&self.state);
        if let Some(at) = state.opening.iter().position(|other| Arc::ptr_eq(other, keyed)) {
            state.opening.remove(at);
            state.left(&keyed.association);
        }
        let is_down = state.sealing.take_if(|sealing| Arc::ptr_eq(sealing, keyed)).is_some();
        if is_down {
            self.is_up.send_replace(false);
        }
        is_down
    }

    /// The keys to seal with, unless the peer is not connected.
    pub(super) fn sealing(&self) -> Option<Arc<Keyed>> {
        lock(&self.state).sealing.clone()
    }

    /// All keys that open.
    pub(super) fn opening(&self) -> Vec<Arc<Keyed>> {
        lock(&self.state).opening.clone()
    }

    /// Whether this end seals with these keys.
    pub(super) fn is_sealing(&self, keyed: &Keyed) -> bool {
        let state = lock(&self.state);
        state.sealing.as_ref().is_some_and(|sealing| std::ptr::eq(&**sealing, keyed))
    }

    /// Waits until the peer is not connected.
    pub(super) async fn down(&self) {
        // Fails only without a sender, which is here.
        let _ = self.is_up.subscribe().wait_for(|is_up| !is_up).await;
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

    /// Whether an association may have logs.
    pub(super) fn is_logged(&self, association: &Arc<Association>) -> bool {
        lock(&self.state).logged.as_ref().is_some_and(|logged| Arc::ptr_eq(logged, association))
    }

    /// What names the association that this end holds; zeros for none.
    pub(super) fn association(&self) -> AssociationId {
        lock(&self.state).association.as_ref().map_or([0; 16], |(id, _)| *id)
    }

    /// The association of a new connection, and what names it: that which both ends name, or else a
    /// new one that `begin` makes and `exported` names from now on. Datagrams have up to `largest`
    /// bytes.
    pub(super) fn associate(
        &self,
        [ours, theirs]: [AssociationId; 2],
        exported: AssociationId,
        largest: usize,
        begin: impl FnOnce() -> Association,
    ) -> (AssociationId, Arc<Association>) {
        let mut state = lock(&self.state);
        if let Some((id, held)) = &state.association
            && ours == *id
            && theirs == *id
        {
            lock(&held.sender).set_largest(largest);
            return (*id, held.clone());
        }
        let new = Arc::new(begin());
        state.set_newest(exported, &new);
        (exported, new)
    }
}

/// All keys that open, of all peers, by the index in each datagram.
#[derive(Default)]
pub(super) struct Indices(RwLock<HashMap<u32, Arc<Keyed>>>);

impl Indices {
    /// The keys that an index names.
    pub(super) fn find(&self, index: u32) -> Option<Arc<Keyed>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&index).cloned()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Opens datagrams with these keys from now on. Returns false if another handshake took the
    /// index in the meantime.
    pub(super) fn add(&self, peer: &Peer, keyed: &Arc<Keyed>) -> bool {
        let mut indices = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if indices.contains_key(&keyed.our_index) {
            return false;
        }
        indices.insert(keyed.our_index, keyed.clone());
        let surplus = peer.keys.add(keyed.clone());
        for keyed in &surplus {
            indices.remove(&keyed.our_index);
        }
        drop(indices);
        for keyed in surplus {
            keyed.connection.close(quinn::VarInt::from_u32(0), b"too many connections");
        }
        true
    }

    /// Forgets keys. Returns whether this end sealed with them: the peer is then not connected.
    pub(super) fn remove(&self, peer: &Peer, keyed: &Arc<Keyed>) -> bool {
        let mut indices = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if indices.get(&keyed.our_index).is_some_and(|found| Arc::ptr_eq(found, keyed)) {
            indices.remove(&keyed.our_index);
        }
        peer.keys.remove(keyed)
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
mod tests;
