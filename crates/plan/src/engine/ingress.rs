//! Ingresses: store packets, find matches, and encode what a device downstream can decode.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use super::{
    Allocation, Body, Budget, Finding, Format, Found, Gaps, HeaderHasher, Identity, InFlight,
    Packet, Queues, Refusal, Refusals, Routes, Rules, Shim, Spec, Store, Stored, prices::Prices,
    store::RING,
};
use crate::{DeviceId, Error, HeaderHash};

/// Encoded packets outside the store that are remembered to detect retransmissions.
const REMEMBERED: usize = 1 << 16;

/// Longest chain of packets that may not have arrived yet, each with references to the next, if
/// [`Rules::confirm`] and no losses were seen; 1 after losses.
const DEPTH: u8 = 2;

/// Parameters shared by all ingresses.
#[derive(Clone, Copy)]
pub struct Common<'a> {
    /// The shim's format.
    pub format: &'a Format,
    /// The network's hash.
    pub hash: &'a HeaderHasher,
    /// Bytes under a fingerprint: shorter payloads are not encoded.
    pub window: usize,
    /// The routes that this ingress knows.
    pub known: &'a Routes,
    /// What ingresses and devices agree on.
    pub rules: Rules,
    /// Nanoseconds since the beginning of the run.
    pub now: u64,
    /// Nanoseconds after which a packet that was lost has been sent again.
    pub round_trip: u64,
    /// Part of an epoch's operations that may be used by now, 0 to 1.
    pub due: f64,
}

/// How an ingress encoded a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Matches that were taken out.
    pub matches: u32,
    /// Bytes of theirs.
    pub matched_bytes: u64,
    /// Whether the ingress has stored it, and a device is to cache it.
    pub stored: bool,
    /// Bytes of the shim.
    pub shim: u32,
}

/// Matches of a pair of paths: number and bytes.
pub type Pairs = BTreeMap<(u32, u32), (u64, u64)>;

/// An ingress: its packet store, and what it may encode against.
pub struct Ingress {
    pub(crate) store: Store,
    pub(crate) allocation: Arc<Allocation>,
    version: u32,
    /// First hash that is not fingerprinted.
    coded: u64,
    /// Budget of operations per epoch, per device.
    pub(crate) limits: Vec<Budget>,
    /// Operations used in this epoch, per device.
    used: Vec<f64>,
    /// Those for packets to cache.
    cached: Vec<f64>,
    prices: Prices,
    /// Matches found since the last report, used or not.
    pub(crate) pairs: Pairs,
    pub(crate) refusals: Refusals,
    /// Encoded packets that are not in the store, oldest first, and how often each is there.
    passed: VecDeque<u64>,
    passing: HashMap<u64, u32>,
    matches: Vec<Found>,
    /// Retention epochs, this one included, for which losses were seen lately.
    cautious: u8,
    /// Of 256 packets, those that may burden a device; all of them for most.
    spared: BTreeMap<DeviceId, u16>,
}

/// All packets may burden a device.
const ALL: u16 = 256;

/// Whether a packet with this draw, 0 to 255, leaves a device alone.
fn is_spared(spared: &BTreeMap<DeviceId, u16>, device: DeviceId, draw: u16) -> bool {
    !spared.is_empty() && spared.get(&device).is_some_and(|&share| draw >= share)
}

impl Ingress {
    /// An ingress with an empty store that is to hold about `bytes`, with up to `copies` addresses
    /// for a fingerprint. It fingerprints the share `coded` of its packets, by hash, and causes at
    /// each device no more operations in an epoch than `limits` says. `key` is the network's seed.
    /// Buckets have no room before [`Ingress::switch`].
    ///
    /// # Errors
    /// No memory for the fingerprint table.
    pub fn new(
        (finding, key): (&Finding, u64),
        bytes: u64,
        copies: u8,
        allocation: Arc<Allocation>,
        coded: f64,
        limits: Vec<Budget>,
    ) -> Result<Self, Error> {
        let store = Store::new(finding, key, bytes, RING, copies)?;
        Ok(Self {
            store,
            allocation,
            version: 0,
            coded: (coded.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64,
            used: vec![0.0; limits.len()],
            cached: vec![0.0; limits.len()],
            prices: Prices::new(limits.len()),
            limits,
            pairs: Pairs::new(),
            refusals: Refusals::default(),
            passed: VecDeque::new(),
            passing: HashMap::new(),
            matches: Vec::new(),
            cautious: 0,
            spared: BTreeMap::new(),
        })
    }

    /// A host has sent a packet again, by its key of five-tuple and payload.
    pub fn sent_again(&mut self, copy: u64) {
        self.store.miss(copy);
        self.cautious = 2;
    }

    /// Devices do not have the packets of these paths and names, or not as they should: they are
    /// referred to no more.
    pub fn lost(&mut self, names: &[(u32, u64)]) {
        names.iter().for_each(|&(path, name)| self.store.lose(path, name));
        self.cautious = 2;
    }

    /// A device has restarted with an empty cache.
    pub fn forget(&mut self, device: DeviceId) {
        self.store.forget(device);
    }

    /// A device has more to do than it can: only this share of the packets that burden it now, 0 to 1,
    /// still do (thesis, section 3.4: overloaded nodes get no more to decode).
    pub fn spare(&mut self, device: DeviceId, share: f64) {
        let now = self.spared.get(&device).copied().unwrap_or(ALL);
        // At least one of 256, so that what the device can do is found again.
        let less = (f64::from(now) * share.clamp(0.0, 1.0)).floor().max(1.0);
        self.spared.insert(device, less as u16);
    }

    /// A quarter more packets may burden devices that were overloaded. True if any is spared still.
    pub fn recover(&mut self) -> bool {
        self.spared.retain(|_, share| {
            *share += (*share / 4).max(1);
            *share < ALL
        });
        !self.spared.is_empty()
    }

    /// Starts an epoch: budgets are full again.
    pub fn new_epoch(&mut self) {
        self.used.fill(0.0);
        self.cached.fill(0.0);
        self.store.new_epoch();
        self.cautious = self.cautious.saturating_sub(1);
    }

    /// A later allocation may have so many bytes in all buckets.
    pub fn expect(&mut self, bytes: u64) {
        self.store.expect(bytes);
    }

    /// Switches to another allocation. Queues that keep their device keep their packets.
    pub fn switch(
        &mut self,
        allocation: Arc<Allocation>,
        version: u32,
        paths: impl IntoIterator<Item = u32>,
        limits: Vec<Budget>,
        rules: Rules,
    ) {
        let mut sizes: BTreeMap<(u32, DeviceId), u64> =
            self.store.buckets().map(|(queue, device, _)| ((queue, device), 0)).collect();
        for path in paths {
            for share in allocation.shares(path) {
                *sizes.entry((queue_of(rules, path), share.device)).or_default() += share.bytes;
            }
        }
        self.store.begin_switch();
        for ((queue, device), bytes) in sizes {
            self.store.resize(queue, device, bytes);
        }
        (self.allocation, self.version, self.limits) = (allocation, version, limits);
    }

    /// Encodes a packet that enters, and stores it if a device downstream caches it.
    ///
    /// # Errors
    /// No memory for a larger fingerprint table.
    pub fn encode(
        &mut self,
        common: &Common<'_>,
        packet: &Packet,
        identity: Identity,
    ) -> Result<(InFlight, Sent), Error> {
        let payload = &packet.payload;
        let hash = identity.hash();
        if payload.len() < common.window || u64::from(hash) >= self.coded {
            return Ok((
                InFlight { shim: Vec::new(), body: Body::Whole(payload.clone()) },
                Sent::default(),
            ));
        }
        let copy = common.hash.copy(&packet.header, payload);
        self.matches.clear();
        // Another part of the hash than ranges depend on.
        let draw = (identity.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u16;
        if self.store.has_copy(copy) || self.passing.contains_key(&copy) {
            self.refusals.retransmission += 1;
            let again = |_: &_, _: &_, _: &_, _: &[_]| Err(Refusal::Again);
            self.store.search(payload, 1, &mut self.matches, again, |_, _, _| ());
        } else {
            self.find(common, packet, draw);
        }

        let shim = Shim {
            path: packet.path,
            cache: self.place(common, packet, hash, draw),
            check: 0,
            matches: Vec::new(),
        };
        let shim = self.describe(common, packet, shim);
        let mut flight = InFlight { shim: Vec::new(), body: Body::Whole(payload.clone()) };
        shim.write(common.format, &mut flight.shim);
        if !shim.matches.is_empty() {
            flight.body = Body::Literals(literals(payload, &shim.matches));
        }
        let sent = Sent {
            matches: shim.matches.len() as u32,
            matched_bytes: shim.matches.iter().map(|spec| u64::from(spec.length)).sum(),
            stored: shim.cache.is_some(),
            shim: flight.shim.len() as u32,
        };
        for found in &self.matches {
            self.used[self.store.get(found.slot).device] += 1.0;
        }
        if shim.cache.is_some() {
            let share = *self
                .allocation
                .holder(packet.path, hash)
                .expect("it is stored because it has one");
            self.used[share.device] += 1.0;
            self.cached[share.device] += 1.0;
            let name = identity.name(common.format.name_bytes);
            let size = payload.len() as u64 + u64::from(packet.header_bytes);
            let mut stored = Stored::new(
                queue_of(common.rules, packet.path),
                (packet.path, name, hash),
                (share.device, self.version),
                copy,
                payload.clone(),
                size,
            );
            stored.time = common.now;
            stored.depth = self.depth(common);
            stored.nulls = self.nulls(common, packet.path, share.device);
            self.store.insert(stored, &self.matches)?;
        } else if !self.matches.is_empty() {
            self.remember(copy);
        }
        Ok((flight, sent))
    }

    /// Fills `matches` with the matches to encode.
    fn find(&mut self, common: &Common<'_>, packet: &Packet, draw: u16) {
        let Self {
            store,
            allocation,
            version,
            limits,
            used,
            prices,
            pairs,
            refusals,
            matches,
            cautious,
            spared,
            ..
        } = self;
        let (allocation, version) = (&**allocation, *version);
        let cautious = *cautious > 0;
        let path = packet.path;
        let route = common.known.of(path);
        let as_planned = |path: u32| common.known.of(path).meets(allocation.devices(path));
        let here = as_planned(path);
        let judge = |store: &Store, stored: &Stored, found: &Found, before: &[Found]| {
            // Overlap bounds are those of the manifests' routes, and of what is cached by these
            // manifests; else the device itself counts.
            let within = if here && stored.version == version && as_planned(stored.path) {
                u64::from(stored.hash) < allocation.overlap(path, stored.path)
            } else {
                route.distance(stored.device).is_some()
            };
            let Some(links) = route.distance(stored.device).filter(|_| within) else {
                debug_assert!(!within, "the overlap bound holds what this path's devices cache");
                return Err(Refusal::Overlap);
            };
            if store.ambiguous(stored.path, stored.name) {
                return Err(Refusal::Ambiguous);
            }
            if store.has_lost(stored) {
                return Err(Refusal::Unconfirmed);
            }
            let young = common.now - stored.time < common.round_trip;
            let may_lack = young && stored.depth >= if cautious { 1 } else { DEPTH };
            if common.rules.confirm && (may_lack || store.misses(stored)) {
                return Err(Refusal::Unconfirmed);
            }
            if is_spared(spared, stored.device, draw) {
                return Err(Refusal::Overloaded);
            }
            // The first regions count before it is known which are kept: `used` is charged
            // afterwards.
            let there = |found: &&Found| store.get(found.slot).device == stored.device;
            let before = before.iter().filter(there).count() as f64;
            if used[stored.device] + before + 1.0 > limits[stored.device].all {
                return Err(Refusal::Overloaded);
            }
            if found.length as usize <= spec(stored, found).bytes(common.format, path, 0) {
                return Err(Refusal::Short);
            }
            let whole = u64::from(found.length) * u64::from(links);
            let worth = if common.rules.priced {
                let ahead = used[stored.device] > limits[stored.device].all * common.due;
                prices.note(stored.device, whole, ahead);
                prices.less(stored.device, whole).ok_or(Refusal::Overloaded)?
            } else {
                whole
            };
            // Of copies as good, rather one that has arrived: the first loss is still to be seen.
            let sure = common.rules.confirm && !young;
            Ok(2 * worth + u64::from(sure))
        };
        let settle = |stored: &Stored, found: &Found, refusal: Option<Refusal>| {
            let pair = pairs.entry((path, stored.path)).or_default();
            pair.0 += 1;
            pair.1 += u64::from(found.length);
            match refusal {
                None | Some(Refusal::Again) => {}
                Some(Refusal::Overlap) => refusals.overlap += 1,
                Some(Refusal::Ambiguous) => refusals.ambiguous += 1,
                Some(Refusal::Overloaded) => refusals.overloaded += 1,
                Some(Refusal::Short) => refusals.short += 1,
                Some(Refusal::Unconfirmed) => refusals.unconfirmed += 1,
            }
        };
        let most = usize::from(common.format.max_matches);
        store.search(&packet.payload, most, matches, judge, settle);
        let links =
            |found: &Found| u64::from(route.distance(store.get(found.slot).device).unwrap_or(0));
        if matches.len() > most {
            refusals.many += (matches.len() - most) as u64;
            let worth = |found: &Found| u64::from(found.length) * links(found);
            matches.sort_by_key(|found| (std::cmp::Reverse(worth(found)), found.at));
            matches.truncate(most);
            matches.sort_by_key(|found| found.at);
        }
        // Each was judged as if it were alone.
        let mut taken: Vec<DeviceId> = Vec::with_capacity(matches.len());
        matches.retain(|found| {
            let device = store.get(found.slot).device;
            let before = taken.iter().filter(|&&other| other == device).count() as f64;
            let fits = used[device] + before + 1.0 <= limits[device].all;
            refusals.overloaded += u64::from(!fits);
            taken.extend(fits.then_some(device));
            fits
        });
    }

    /// Which version, if any, makes a device downstream cache the packet.
    fn place(
        &self,
        common: &Common<'_>,
        packet: &Packet,
        hash: HeaderHash,
        draw: u16,
    ) -> Option<bool> {
        let share = self.allocation.holder(packet.path, hash)?;
        if is_spared(&self.spared, share.device, draw) {
            return None;
        }
        let size = packet.payload.len() as u64 + u64::from(packet.header_bytes);
        let ahead = common.known.of(packet.path).distance(share.device).is_some();
        let queue = queue_of(common.rules, packet.path);
        let room = self.store.takes(queue, share.device, size)
            && !(common.rules.queues == Queues::Fair
                && self.store.presses((queue, share.device), packet.path, size, share.bytes));
        // This packet's own matches there come first.
        let own = self
            .matches
            .iter()
            .filter(|found| self.store.get(found.slot).device == share.device)
            .count();
        let budget = self.limits[share.device];
        let used = self.used[share.device] + own as f64 + 1.0;
        // When operations are short, caching has those that the plan expects, and decoding the rest.
        let due = !common.rules.priced
            || used <= budget.all * common.due
            || self.cached[share.device] < budget.caching * common.due;
        let idle = due && used <= budget.all;
        (ahead && room && idle).then_some(self.version & 1 == 1)
    }

    /// The shim with the matches, if they save more than they cost.
    fn describe(&mut self, common: &Common<'_>, packet: &Packet, mut shim: Shim) -> Shim {
        if self.matches.is_empty() {
            return shim;
        }
        let bytes = |shim: &Shim| {
            let mut out = Vec::with_capacity(64);
            shim.write(common.format, &mut out);
            out.len() as u64
        };
        let plain = bytes(&shim);
        shim.matches =
            self.matches.iter().map(|found| spec(self.store.get(found.slot), found)).collect();
        let saved: u64 = self.matches.iter().map(|found| u64::from(found.length)).sum();
        if saved <= bytes(&shim) - plain {
            self.refusals.short += self.matches.len() as u64;
            self.matches.clear();
            shim.matches.clear();
        } else {
            shim.check = common.hash.check(&packet.payload);
        }
        shim
    }

    /// How many packets that may not have arrived yet a packet with these matches depends on, one
    /// through the other.
    fn depth(&self, common: &Common<'_>) -> u8 {
        let of = |found: &Found| {
            let stored = self.store.get(found.slot);
            let young = common.now - stored.time < common.round_trip;
            if young { stored.depth.saturating_add(1) } else { 0 }
        };
        self.matches.iter().map(of).max().unwrap_or(0)
    }

    /// Regions that the device that caches the packet does not have.
    fn nulls(&self, common: &Common<'_>, path: u32, holder: DeviceId) -> Vec<(u32, u32)> {
        let route = common.known.of(path);
        // Within a PoP, links do not count, but a device comes after another.
        let place = |device: DeviceId| route.distance(device);
        let lacks = |found: &&Found| match common.rules.gaps {
            Gaps::Matched => true,
            Gaps::Undecoded => place(self.store.get(found.slot).device) > place(holder),
        };
        self.matches.iter().filter(lacks).map(|found| (found.at, found.end())).collect()
    }

    fn remember(&mut self, copy: u64) {
        if self.passed.len() == REMEMBERED
            && let Some(oldest) = self.passed.pop_front()
            && let Some(count) = self.passing.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.passing.remove(&oldest);
            }
        }
        self.passed.push_back(copy);
        *self.passing.entry(copy).or_default() += 1;
    }
}

/// The FIFO queue of a path's packets, with those of one device.
pub(crate) fn queue_of(rules: Rules, path: u32) -> u32 {
    match rules.queues {
        Queues::Paths => path,
        Queues::Ingress | Queues::Fair => 0,
    }
}

pub(crate) fn spec(stored: &Stored, found: &Found) -> Spec {
    Spec {
        path: stored.path,
        name: stored.name,
        at: found.at,
        offset: found.offset,
        length: found.length,
    }
}

/// The unmatched bytes.
pub(crate) fn literals(payload: &[u8], matches: &[Spec]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len());
    let mut at = 0;
    for spec in matches {
        out.extend_from_slice(&payload[at..spec.at as usize]);
        at = spec.end() as usize;
    }
    out.extend_from_slice(&payload[at..]);
    out
}
