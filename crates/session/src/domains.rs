//! Isolation domains of the sending direction: their names, and which of them have entropy contexts.

use crate::config::MAX_LANES;
use lru::LruCache;
use oncewire_codec::Domain;

/// Longest name of an isolation domain, in bytes.
pub const MAX_DOMAIN: usize = 64;
/// Most names that are remembered. A name that comes back later is a new domain: nothing that it
/// had before is found.
const MAX_NAMES: usize = 4096;

/// The names of isolation domains, which travel in OPEN. The empty name is the common domain.
pub(crate) struct Domains {
    names: LruCache<Box<[u8]>, Domain>,
    next: u64,
}

impl Domains {
    pub(crate) fn new() -> Domains {
        Domains { names: LruCache::unbounded(), next: Domain::COMMON.0 + 1 }
    }

    pub(crate) fn named(&mut self, name: &[u8]) -> Domain {
        if name.is_empty() {
            return Domain::COMMON;
        }
        if let Some(&domain) = self.names.get(name) {
            return domain;
        }
        let domain = Domain(self.next);
        self.next += 1;
        self.names.put(name.into(), domain);
        if self.names.len() > MAX_NAMES {
            self.names.pop_lru();
        }
        domain
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

    #[test]
    fn equal_names_are_one_domain_until_they_are_forgotten() {
        let mut domains = Domains::new();
        assert_eq!(domains.named(b""), Domain::COMMON);
        let first = domains.named(b"a");
        assert_ne!(first, Domain::COMMON);
        assert_ne!(first, domains.named(b"b"));
        for name in 0..MAX_NAMES as u64 - 2 {
            domains.named(&name.to_le_bytes());
            assert_eq!(domains.named(b"a"), first);
        }
        for name in 0..MAX_NAMES as u64 {
            domains.named(&name.to_be_bytes());
        }
        assert!(domains.named(b"a") > first, "forgotten, and never a number that was used before");
        assert!(domains.names.len() <= MAX_NAMES);
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
