//! Hop-by-hop redundancy elimination: an encoder and a decoder at the ends of each link.

use crate::engine::{
    Body, Cache, CacheTask, Finding, Format, Found, HeaderHasher, Identity, InFlight, Packet,
    Processed, Refusal, Shim, ShimError, Store, Stored, literals, spec,
};
use crate::{DeviceId, Error};

/// Limits of a link's pair of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Bytes of either cache.
    pub(super) memory: u64,
    /// Share of packets, by hash, that is fingerprinted.
    pub(super) coded: f64,
    /// Packets fingerprinted per epoch.
    pub(super) encodings: f64,
    /// Packets cached and matches decoded per epoch.
    pub(super) operations: f64,
}

/// A packet on a link.
#[derive(Clone, Copy)]
pub(super) struct Crossing<'a> {
    pub(super) format: &'a Format,
    pub(super) hash: &'a HeaderHasher,
    /// Bytes under one fingerprint.
    pub(super) window: usize,
    pub(super) packet: &'a Packet,
    pub(super) identity: Identity,
}

/// The encoder and decoder of one link. The decoder restores every packet, so nothing is null.
pub(super) struct Pair {
    store: Store,
    cache: Cache,
    limits: Limits,
    encodings: f64,
    operations: f64,
}

/// A pair has a single path.
const PATH: u32 = 0;
/// The only device of a pair.
const DEVICE: DeviceId = DeviceId(0);

impl Pair {
    pub(super) fn new(
        finding: &Finding,
        key: u64,
        limits: Limits,
        copies: u8,
    ) -> Result<Self, Error> {
        let mut store = Store::new(finding, key, limits.memory, 1, copies)?;
        let mut cache = Cache::default();
        store.resize(PATH, DEVICE, limits.memory);
        cache.resize(PATH, limits.memory);
        Ok(Self { store, cache, limits, encodings: 0.0, operations: 0.0 })
    }

    pub(super) fn new_epoch(&mut self) {
        (self.encodings, self.operations) = (0.0, 0.0);
    }

    pub(super) fn collisions(&self) -> u64 {
        self.store.counts.collisions
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Encodes a packet at the upstream device.
    pub(super) fn encode(
        &mut self,
        Crossing { format, hash, window, packet, identity }: Crossing<'_>,
    ) -> Result<InFlight, Error> {
        let payload = &packet.payload;
        let mut flight = InFlight { shim: Vec::new(), body: Body::Whole(payload.clone()) };
        let below = f64::from(identity.hash().0) < self.limits.coded * 4_294_967_296.0;
        if payload.len() < window || !below || self.encodings + 1.0 > self.limits.encodings {
            return Ok(flight);
        }
        self.encodings += 1.0;
        let copy = hash.copy(&packet.header, payload);
        let again = self.store.has_copy(copy);
        let mut matches = Vec::new();
        let (used, limit) = (self.operations, self.limits.operations);
        let judge = |store: &Store, stored: &Stored, found: &Found, before: &[Found]| {
            if again {
                Err(Refusal::Again)
            } else if found.length as usize <= spec(stored, found).bytes(format, PATH, 0) {
                Err(Refusal::Short)
            } else if store.ambiguous(PATH, stored.name) {
                Err(Refusal::Ambiguous)
            } else if used + before.len() as f64 + 1.0 > limit {
                Err(Refusal::Overloaded)
            } else {
                Ok(found.length.into())
            }
        };
        let most = usize::from(format.max_matches);
        self.store.search(payload, most, &mut matches, judge, |_, _, _| ());
        let most = most.min((limit - used).clamp(0.0, most as f64) as usize);
        if matches.len() > most {
            matches.sort_by_key(|found| (std::cmp::Reverse(found.length), found.at));
            matches.truncate(most);
            matches.sort_by_key(|found| found.at);
        }
        self.operations += matches.len() as f64;
        let size = payload.len() as u64 + u64::from(packet.header_bytes);
        let cached =
            self.operations + 1.0 <= self.limits.operations && self.store.takes(PATH, DEVICE, size);
        let shim = Shim {
            path: PATH,
            cache: cached.then_some(false),
            check: hash.check(payload),
            matches: matches.iter().map(|found| spec(self.store.get(found.slot), found)).collect(),
        };
        shim.write(format, &mut flight.shim);
        if !shim.matches.is_empty() {
            flight.body = Body::Literals(literals(payload, &shim.matches));
        }
        if cached {
            self.operations += 1.0;
            let name = identity.name(format.name_bytes);
            let stored = Stored::new(
                PATH,
                (PATH, name, identity.hash()),
                (DEVICE, 0),
                copy,
                payload.clone(),
                size,
            );
            self.store.insert(stored, &matches)?;
        }
        Ok(flight)
    }

    /// Decodes a packet at the downstream device.
    pub(super) fn decode(
        &mut self,
        Crossing { format, hash, window, packet, identity }: Crossing<'_>,
        flight: &mut InFlight,
    ) -> Result<Processed, ShimError> {
        let task = CacheTask {
            holds: [true; 2],
            name: identity.name(format.name_bytes),
            header_bytes: packet.header_bytes,
            path: PATH,
            queue: PATH,
            window,
        };
        self.cache.receive(format, hash, &task, flight)
    }
}
