//! Isolation domains of the sending direction: whose flows are, and which of them have entropy
//! contexts.

use crate::limits::MAX_LANES;
use crate::store::{StoreKey, UNREPEATED, domain_of};
use lru::LruCache;
use oncewire_codec::{Domain, Stream};
use xxhash_rust::xxh3::xxh3_64;

/// Most names of one client that are remembered, its own empty one included: those used last. A
/// name that comes back later is a new domain: nothing that it had before is found.
const MAX_NAMES_OF_CLIENT: usize = 256;
/// Most names of all clients that are remembered. Beyond that, the client with the most names
/// loses one.
const MAX_NAMES: usize = 4096;

/// Whose a flow is, as its opener says in OPEN. Equal owners are one isolation domain.
///
/// A *client* is somebody who cannot be several at will, such as the address of a machine or one of
/// its users. Names divide a client's flows further; whoever invents them displaces and counts as
/// no other client. The default is the common owner, a client like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The client, at most [`MAX_DOMAIN`](crate::MAX_DOMAIN) bytes.
    pub client: Vec<u8>,
    /// A name within the client, at most [`MAX_DOMAIN`](crate::MAX_DOMAIN) bytes; empty for the client itself.
    pub name: Vec<u8>,
}

impl Owner {
    /// The client of flows whose owner could not be found out.
    const UNKNOWN: &[u8] = b"?";

    /// Somebody who could not be found out: each such flow is a domain of its own that shares
    /// nothing, and of which nothing is remembered.
    pub fn unknown() -> Owner {
        Owner { client: Owner::UNKNOWN.into(), name: Vec::new() }
    }
}

impl From<&[u8]> for Owner {
    /// A client without a name.
    fn from(client: &[u8]) -> Owner {
        Owner { client: client.into(), name: Vec::new() }
    }
}

impl<const N: usize> From<&[u8; N]> for Owner {
    /// A client without a name.
    fn from(client: &[u8; N]) -> Owner {
        client[..].into()
    }
}

/// The domains of a client by its names.
type Names = LruCache<Box<[u8]>, Domain>;

/// The domains of owners.
pub(crate) struct Domains {
    clients: LruCache<Box<[u8]>, Names>,
    /// Names of all clients.
    names: usize,
    /// Keys the numbers of names, if they are to survive a restart.
    key: Option<StoreKey>,
    /// The next number of a domain without such a name.
    next: u64,
    /// Names that were forgotten to make room.
    pub(crate) forgotten: u64,
    /// Flows of unknown owners.
    pub(crate) unknown: u64,
}

impl Domains {
    /// Numbers of names are a hash under `key`, if there is one.
    pub(crate) fn new(key: Option<StoreKey>) -> Domains {
        Domains {
            clients: LruCache::unbounded(),
            names: 0,
            key,
            next: if key.is_some() { UNREPEATED } else { Domain::COMMON.0 + 1 },
            forgotten: 0,
            unknown: 0,
        }
    }

    /// Names that are remembered now.
    pub(crate) fn len(&self) -> usize {
        self.names
    }

    /// The beginning of a flow of an owner.
    pub(crate) fn stream(&mut self, owner: &Owner) -> Stream {
        if owner.client == Owner::UNKNOWN {
            self.unknown += 1;
            return Stream::unshared(self.fresh());
        }
        // From its name, so that a client that was forgotten does not count twice.
        Stream::of_client(self.of(owner), xxh3_64(&owner.client))
    }

    fn fresh(&mut self) -> Domain {
        self.next += 1;
        Domain(self.next - 1)
    }

    fn of(&mut self, owner: &Owner) -> Domain {
        if *owner == Owner::default() {
            return Domain::COMMON;
        }
        let known = self.clients.get_mut(&owner.client[..]);
        if let Some(&domain) = known.and_then(|names| names.get(&owner.name[..])) {
            return domain;
        }
        let domain = match self.key {
            Some(key) => domain_of(key, &owner.client, &owner.name),
            None => self.fresh(),
        };
        let names = self.clients.get_or_insert_mut(owner.client[..].into(), Names::unbounded);
        names.put(owner.name[..].into(), domain);
        self.names += 1;
        if names.len() > MAX_NAMES_OF_CLIENT {
            names.pop_lru();
            self.names -= 1;
            self.forgotten += 1;
        } else if self.names > MAX_NAMES {
            self.forget_one();
        }
        domain
    }

    /// Takes the name used longest ago from the client with the most names; of several, the one
    /// used longest ago.
    fn forget_one(&mut self) {
        let most = self.clients.iter().max_by_key(|(_, names)| names.len());
        let Some(client) = most.map(|(client, _)| client.clone()) else { return };
        if let Some(names) = self.clients.peek_mut(&client) {
            names.pop_lru();
            if names.is_empty() {
                self.clients.pop(&client);
            }
        }
        self.names -= 1;
        self.forgotten += 1;
    }
}

/// Which domain each entropy context serves. A context remembers literals, so domains do not share
/// one: it is reset before another domain uses it.
pub(crate) struct ContextPool {
    slots: Vec<Slot>,
    /// Contexts of a lane that may be used.
    per_lane: usize,
    clock: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// `None` as long as nobody has used the context.
    domain: Option<Domain>,
    last_used: u64,
}

impl ContextPool {
    /// `per_lane` contexts for each lane.
    pub(crate) fn new(per_lane: usize) -> ContextPool {
        ContextPool { slots: vec![Slot::default(); per_lane * MAX_LANES], per_lane, clock: 0 }
    }

    /// Uses no more than this number for each lane from now on, and not more than there are.
    pub(crate) fn limit(&mut self, per_lane: usize) {
        self.per_lane = per_lane.clamp(1, self.slots.len() / MAX_LANES);
    }

    /// The context of a domain on a lane, and whether it must be reset first: the one that it has,
    /// or else the one that was not used for the longest time.
    pub(crate) fn of(&mut self, lane: usize, domain: Domain) -> (usize, bool) {
        self.clock += 1;
        let of_lane = (lane..self.per_lane * MAX_LANES).step_by(MAX_LANES);
        let at = of_lane
            .clone()
            .find(|&at| self.slots[at].domain == Some(domain))
            .or_else(|| of_lane.min_by_key(|&at| self.slots[at].last_used))
            .unwrap_or(lane);
        let slot = &mut self.slots[at];
        let reset = slot.domain.is_some_and(|before| before != domain);
        *slot = Slot { domain: Some(domain), last_used: self.clock };
        (at, reset)
    }

    /// All contexts of a lane.
    pub(crate) fn of_lane(&self, lane: usize) -> impl Iterator<Item = usize> + use<> {
        (lane..self.slots.len()).step_by(MAX_LANES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(client: u64, name: u64) -> Owner {
        Owner { client: client.to_be_bytes().into(), name: name.to_be_bytes().into() }
    }

    #[test]
    fn equal_owners_are_one_domain_until_they_are_forgotten() {
        let mut domains = Domains::new(None);
        assert_eq!(domains.of(&Owner::default()), Domain::COMMON);
        let first = domains.of(&owner(1, 1));
        assert_ne!(first, Domain::COMMON);
        let others = [owner(1, 2), owner(2, 1), b"b".into(), b"a".into(), owner(2, 2)];
        for (at, other) in others.iter().enumerate() {
            assert_eq!(domains.of(other).0, first.0 + 1 + at as u64, "apart from all others");
        }
        for name in 0..MAX_NAMES as u64 {
            domains.of(&owner(1, 100 + name));
            assert_eq!(domains.of(&owner(1, 1)), first, "used last");
        }
        for name in 0..MAX_NAMES as u64 {
            domains.of(&owner(1, 100 + name));
        }
        assert!(domains.of(&owner(1, 1)) > first, "never a number that was used before");
    }

    #[test]
    fn with_a_key_names_have_their_numbers_again_and_others_do_not() {
        let key = Some(StoreKey([1, 2]));
        let (mut before, mut after) = (Domains::new(key), Domains::new(key));
        before.of(&owner(3, 3));
        assert_eq!(before.of(&owner(1, 1)), after.of(&owner(1, 1)));
        assert_eq!(after.of(&Owner::default()), Domain::COMMON);
        for domains in [&mut before, &mut after] {
            assert!(domains.stream(&Owner::unknown()).domain().0 >= UNREPEATED);
        }
    }

    #[test]
    fn names_of_one_client_displace_only_its_own() {
        let mut domains = Domains::new(None);
        let honest: Vec<Owner> = (0..200).map(|client| owner(client, 0)).collect();
        let before: Vec<Domain> = honest.iter().map(|owner| domains.of(owner)).collect();
        for name in 0..20_000 {
            domains.of(&owner(1000, name));
        }
        assert_eq!(domains.len(), 200 + MAX_NAMES_OF_CLIENT);
        assert_eq!(domains.forgotten, 20_000 - MAX_NAMES_OF_CLIENT as u64);
        // Nor do the names of many.
        for name in 0..400 {
            for client in 1000..1100 {
                domains.of(&owner(client, name));
            }
        }
        assert_eq!(domains.len(), MAX_NAMES);
        let after: Vec<Domain> = honest.iter().map(|owner| domains.of(owner)).collect();
        assert_eq!(before, after);
        for client in 0..20_000 {
            domains.of(&owner(client, 0));
        }
        assert_eq!(domains.len(), MAX_NAMES);
        assert_eq!(domains.clients.iter().map(|(_, names)| names.len()).sum::<usize>(), MAX_NAMES);
    }

    #[test]
    fn of_unknown_owners_nothing_is_remembered() {
        let mut domains = Domains::new(None);
        let first = domains.of(&owner(1, 1));
        let mut last = first;
        for _ in 0..3 * MAX_NAMES {
            let domain = domains.stream(&Owner::unknown()).domain();
            assert!(domain > last);
            last = domain;
        }
        assert_eq!((domains.len(), domains.forgotten), (1, 0));
        assert_eq!(domains.unknown, 3 * MAX_NAMES as u64);
        assert_eq!(domains.of(&owner(1, 1)), first);
    }

    #[test]
    fn a_context_changes_its_domain_only_with_a_reset() {
        let mut pool = ContextPool::new(2);
        let [a, b, c] = [1, 2, 3].map(Domain);
        assert_eq!(pool.of(3, a), (3, false));
        assert_eq!(pool.of(3, b), (3 + MAX_LANES, false));
        assert_eq!(pool.of(3, a), (3, false));
        assert_eq!(pool.of(3, c), (3 + MAX_LANES, true), "the one used longest ago");
        assert_eq!(pool.of(3, a), (3, false));
        assert_eq!(pool.of(4, c), (4, false), "lanes have contexts apart");
        pool.limit(1);
        assert_eq!(pool.of(3, b), (3, true));
        assert_eq!(pool.of(3, b), (3, false));
        assert_eq!(pool.of_lane(3).collect::<Vec<_>>(), [3, 3 + MAX_LANES]);
    }
}
