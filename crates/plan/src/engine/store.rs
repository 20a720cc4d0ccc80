//! The packet store of an ingress, and its matcher.
//!
//! The codec's matchers work over one log that is one FIFO. A store of SmartRE is many FIFO
//! buckets, parts of its packets are null, and some of what it finds must not be used; so this
//! takes the codec's parts (sampler, fingerprints, fingerprint table, comparison of bytes) and
//! grows matches within what is not null. Packets have addresses in a virtual ring, by which the
//! table knows them: [`RING`] times what the buckets hold, so that a bucket may keep its packets
//! that many times longer than the average bucket before the table loses them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use oncewire_codec::{
    Geometry, Kernels,
    sampler::{Sampler, Sampling},
};
use oncewire_family::SamplerKind;

use super::{
    index::Index,
    shim::MAX_PAYLOAD,
    stored::{Found, Stored},
};
use crate::{DeviceId, Error, error::EmulationError};

mod search;

/// Ratio of the virtual ring to the store, for a store of many buckets.
pub(crate) const RING: u64 = 4;
/// Ring to begin with in bytes: several packets of the largest size. It grows with what is stored,
/// as a table for all that could be would be touched all over.
const MIN_RING: u64 = 1 << 20;
/// Table entries per fingerprint that the ring is expected to have: the newest takes a slot, so
/// with one slot each, many would be lost.
const ROOM: f64 = 2.0;
/// Markers sought in one call of the sampler.
const SAMPLE_STEP: usize = 256;

/// How matches are found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Bytes under a fingerprint, the shortest match: 12..=64.
    pub window: usize,
    /// Sampling period in bytes: 4..=1024.
    pub period: usize,
    /// Sampler.
    pub sampler: SamplerKind,
}

impl Default for Finding {
    fn default() -> Self {
        Self { window: 32, period: 32, sampler: SamplerKind::sample_byte() }
    }
}

#[derive(Debug, Default)]
struct Bucket {
    capacity: u64,
    used: u64,
    queue: VecDeque<u32>,
    /// Bytes of each path that has any.
    of_paths: BTreeMap<u32, u64>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets stored under the name of another stored packet.
    pub(crate) collisions: u64,
    /// Hits that could not be grown because the bytes are null.
    pub(crate) gaps: u64,
    /// Hits on other bytes, or on evicted packets.
    pub(crate) false_hits: u64,
}

pub(crate) struct Store {
    kernels: Kernels,
    sampler: Box<dyn Sampler>,
    window: usize,
    period: usize,
    key: u64,
    index: Index,
    /// Most addresses of a fingerprint.
    copies: u8,
    geometry: Geometry,
    /// Size of the ring over that of what is stored.
    slack: u64,
    /// Largest ring in bytes.
    most: u64,
    expected_rate: f64,
    /// Bytes of the payloads in the store.
    held: u64,
    /// Retention epochs so far.
    epoch: u64,
    /// Where the next packet goes in the ring, padding aside.
    end: u64,
    /// Addresses and slots of packets that the table can know, ascending.
    addresses: VecDeque<(u64, u32)>,
    packets: Vec<Option<Stored>>,
    free: Vec<u32>,
    buckets: BTreeMap<(u32, DeviceId), Bucket>,
    names: HashMap<(u32, u64), u32>,
    /// Names of packets that went when buckets were resized: devices may hold them still.
    lingering: HashSet<(u32, u64)>,
    copies_of: HashMap<u64, u32>,
    /// Keys of packets that a host has sent again: devices may not have them.
    missing: HashSet<u64>,
    /// Names of packets that devices do not have, or not as they should.
    lost: HashSet<(u32, u64)>,
    pub(crate) counts: Counts,
    markers: Vec<u32>,
    fingerprints: Vec<u64>,
    hits: Vec<u64>,
}

impl Store {
    /// An empty store that is to hold about `bytes`, with a ring of `slack` times what it holds:
    /// [`RING`], or 1 for a single bucket; and up to `copies` addresses for a fingerprint.
    pub(crate) fn new(
        finding: &Finding,
        key: u64,
        bytes: u64,
        slack: u64,
        copies: u8,
    ) -> Result<Self, Error> {
        let expected_rate = finding.sampler.expected_rate(finding.period);
        let (geometry, index) = ring(MIN_RING, expected_rate, copies)?;
        Ok(Self {
            copies,
            slack,
            most: largest_ring(bytes, slack),
            expected_rate,
            held: 0,
            epoch: 0,
            kernels: Kernels::detect(),
            sampler: finding.sampler.boxed(),
            window: finding.window,
            period: finding.period,
            key,
            index,
            geometry,
            end: 0,
            addresses: VecDeque::new(),
            packets: Vec::new(),
            free: Vec::new(),
            buckets: BTreeMap::new(),
            names: HashMap::new(),
            lingering: HashSet::new(),
            copies_of: HashMap::new(),
            missing: HashSet::new(),
            lost: HashSet::new(),
            counts: Counts::default(),
            markers: Vec::new(),
            fingerprints: Vec::new(),
            hits: Vec::new(),
        })
    }

    pub(crate) fn get(&self, slot: u32) -> &Stored {
        self.packets[slot as usize].as_ref().expect("a slot of a packet in the store")
    }

    /// Whether more than one packet has this name, or a device may hold another one of it. A node
    /// might then take the wrong one.
    pub(crate) fn ambiguous(&self, path: u32, name: u64) -> bool {
        self.names.get(&(path, name)).is_some_and(|&packets| packets > 1)
            || self.lingering.contains(&(path, name))
    }

    /// Buckets are about to be resized for another allocation. By now, devices have dropped what went
    /// when they were resized before.
    pub(crate) fn begin_switch(&mut self) {
        self.lingering.clear();
    }

    /// A host has sent a packet again: a device may not have it, or not all of it.
    pub(crate) fn miss(&mut self, key: u64) {
        if self.has_copy(key) {
            self.missing.insert(key);
        }
    }

    /// A device has lost all its packets: its buckets are empty again.
    pub(crate) fn forget(&mut self, device: DeviceId) {
        let keys: Vec<(u32, DeviceId)> =
            self.buckets.keys().filter(|key| key.1 == device).copied().collect();
        for key in keys {
            let Some(bucket) = self.buckets.get_mut(&key) else { continue };
            let capacity = std::mem::take(&mut bucket.capacity);
            self.make_room(key, 0, false);
            if let Some(bucket) = self.buckets.get_mut(&key) {
                bucket.capacity = capacity;
            }
        }
    }

    /// A device does not have a packet, or not as it should.
    pub(crate) fn lose(&mut self, path: u32, name: u64) {
        if self.names.contains_key(&(path, name)) {
            self.lost.insert((path, name));
        }
    }

    /// Whether it is known that a device does not have a packet.
    pub(crate) fn has_lost(&self, stored: &Stored) -> bool {
        self.lost.contains(&(stored.path, stored.name))
    }

    /// Whether a host has sent a packet again.
    pub(crate) fn misses(&self, stored: &Stored) -> bool {
        self.missing.contains(&stored.copy)
    }

    /// Whether a packet with this key is here.
    pub(crate) fn has_copy(&self, key: u64) -> bool {
        self.copies_of.contains_key(&key)
    }

    /// Sets the size of a bucket, and evicts packets that no longer fit.
    pub(crate) fn resize(&mut self, queue: u32, device: DeviceId, capacity: u64) {
        let bucket = self.buckets.entry((queue, device)).or_default();
        bucket.capacity = capacity;
        self.make_room((queue, device), 0, true);
        if capacity == 0 {
            self.buckets.remove(&(queue, device));
        }
    }

    /// Buckets: queue, device and size.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u32, DeviceId, u64)> + '_ {
        self.buckets.iter().map(|(&(queue, device), bucket)| (queue, device, bucket.capacity))
    }

    /// Bytes of memory of the fingerprint table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.index.memory() as u64
    }

    /// Whether a path would have more than twice its `share` and half of a bucket with so many bytes
    /// more, and drive out what other paths have stored lately.
    pub(crate) fn presses(
        &self,
        (queue, device): (u32, DeviceId),
        path: u32,
        size: u64,
        share: u64,
    ) -> bool {
        let Some(bucket) = self.buckets.get(&(queue, device)) else { return false };
        let mut over = (bucket.used + size).saturating_sub(bucket.capacity);
        let with = bucket.of_paths.get(&path).copied().unwrap_or(0) + size;
        if over == 0 || with <= (2 * share).max(bucket.capacity / 2) {
            return false;
        }
        for &slot in &bucket.queue {
            if over == 0 {
                break;
            }
            let first = self.get(slot);
            if first.path != path && first.epoch + 1 >= self.epoch {
                return true;
            }
            over = over.saturating_sub(first.size);
        }
        false
    }

    /// The buckets may grow to so many bytes.
    pub(crate) fn expect(&mut self, bytes: u64) {
        self.most = self.most.max(largest_ring(bytes, self.slack));
    }

    /// Starts a retention epoch.
    pub(crate) fn new_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Whether a packet of this size fits its bucket.
    pub(crate) fn takes(&self, queue: u32, device: DeviceId, size: u64) -> bool {
        self.buckets.get(&(queue, device)).is_some_and(|bucket| size <= bucket.capacity)
    }

    /// Stores a packet that [`Store::search`] has just looked up. Fingerprints within its null
    /// regions are associated with the older packets of `matches` there (thesis, section 3.4).
    ///
    /// # Errors
    /// No memory for a larger table.
    pub(crate) fn insert(&mut self, mut stored: Stored, matches: &[Found]) -> Result<(), Error> {
        let bucket = (stored.queue, stored.device);
        if !self.takes(bucket.0, bucket.1, stored.size) {
            return Ok(());
        }
        let start = self.geometry.place(self.end, stored.payload.len() + 1);
        self.end = start + stored.payload.len() as u64 + 1;
        (stored.start, stored.epoch) = (start, self.epoch);
        self.associate(start, &stored.nulls, matches);
        // Evict only now: matched packets may be among those evicted.
        self.make_room(bucket, stored.size, false);
        let names = self.names.entry((stored.path, stored.name)).or_default();
        *names += 1;
        self.counts.collisions += u64::from(*names > 1);
        *self.copies_of.entry(stored.copy).or_default() += 1;
        self.held += stored.payload.len() as u64;
        let of = self.buckets.get_mut(&bucket).expect("it takes packets");
        of.used += stored.size;
        *of.of_paths.entry(stored.path).or_default() += stored.size;
        let slot = self.free.pop().unwrap_or(self.packets.len() as u32);
        of.queue.push_back(slot);
        if slot as usize == self.packets.len() {
            self.packets.push(Some(stored));
        } else {
            self.packets[slot as usize] = Some(stored);
        }
        self.addresses.push_back((start, slot));
        let floor = self.end.saturating_sub(self.geometry.capacity());
        while self.addresses.front().is_some_and(|&(start, _)| start < floor) {
            self.addresses.pop_front();
        }
        if self.held * self.slack > self.geometry.capacity() && self.geometry.capacity() < self.most
        {
            self.grow()
        } else {
            Ok(())
        }
    }

    /// Twice the ring, with all packets in it.
    fn grow(&mut self) -> Result<(), Error> {
        (self.geometry, self.index) =
            ring(self.most.min(self.geometry.capacity() * 2), self.expected_rate, self.copies)?;
        let mut slots: Vec<(u64, u32)> = (0..)
            .zip(&self.packets)
            .filter_map(|(slot, packet)| packet.as_ref().map(|packet| (packet.start, slot)))
            .collect();
        slots.sort_unstable();
        self.addresses.clear();
        self.end = 0;
        for (_, slot) in slots {
            let payload = self.get(slot).payload.clone();
            self.sample(&payload);
            let start = self.geometry.place(self.end, payload.len() + 1);
            self.end = start + payload.len() as u64 + 1;
            self.addresses.push_back((start, slot));
            self.fingerprints.iter().for_each(|&fingerprint| self.index.prefetch(fingerprint));
            let stored = self.packets[slot as usize].as_mut().expect("it was there just now");
            stored.start = start;
            for (&fingerprint, &marker) in self.fingerprints.iter().zip(&self.markers) {
                let end = marker + self.window as u32;
                if stored.nulls.iter().all(|&(from, to)| to <= marker || end <= from) {
                    self.index.insert(fingerprint, start + u64::from(marker), self.end);
                }
            }
        }
        Ok(())
    }

    /// Adds the packet's fingerprints. A fingerprint belongs to where its window lies; one that
    /// reaches over the end of a null region is in no reference and no literal alone.
    fn associate(&mut self, start: u64, nulls: &[(u32, u32)], matches: &[Found]) {
        let (mut nulls, mut matches) = (nulls.iter().peekable(), matches.iter().peekable());
        for (&fingerprint, &marker) in self.fingerprints.iter().zip(&self.markers) {
            let window = marker + self.window as u32;
            while nulls.peek().is_some_and(|null| null.1 <= marker) {
                nulls.next();
            }
            let address = match nulls.peek() {
                Some(null) if null.0 < window => {
                    while matches.peek().is_some_and(|found| found.end() <= marker) {
                        matches.next();
                    }
                    let of = matches.peek().filter(|of| of.at <= marker && window <= of.end());
                    let Some(found) = of else { continue };
                    let older = self.packets[found.slot as usize]
                        .as_ref()
                        .expect("it was found just now")
                        .start;
                    older + u64::from(found.offset + (marker - found.at))
                }
                _ => start + u64::from(marker),
            };
            self.index.insert(fingerprint, address, self.end);
        }
    }

    /// Evicts packets until one of this size fits. Devices do the same; unless what goes `lingers`
    /// there.
    fn make_room(&mut self, key: (u32, DeviceId), size: u64, lingers: bool) {
        let Some(bucket) = self.buckets.get_mut(&key) else { return };
        while bucket.used + size > bucket.capacity {
            let Some(slot) = bucket.queue.pop_front() else { break };
            let gone =
                self.packets[slot as usize].take().expect("a bucket's packets are in the store");
            self.free.push(slot);
            bucket.used -= gone.size;
            if let std::collections::btree_map::Entry::Occupied(mut of) =
                bucket.of_paths.entry(gone.path)
            {
                *of.get_mut() -= gone.size;
                if *of.get() == 0 {
                    of.remove();
                }
            }
            self.held -= gone.payload.len() as u64;
            forget(&mut self.names, (gone.path, gone.name));
            if !self.names.contains_key(&(gone.path, gone.name)) {
                self.lost.remove(&(gone.path, gone.name));
            }
            if lingers {
                self.lingering.insert((gone.path, gone.name));
            }
            forget(&mut self.copies_of, gone.copy);
            if !self.copies_of.contains_key(&gone.copy) {
                self.missing.remove(&gone.copy);
            }
        }
    }

    /// The packet at a virtual address, and the position in its payload.
    fn resolve(&self, address: u64) -> Option<(u32, usize)> {
        let after = self.addresses.partition_point(|&(start, _)| start <= address);
        let (start, slot) = *self.addresses.get(after.checked_sub(1)?)?;
        let stored = self.packets[slot as usize].as_ref()?;
        let position = (address - start) as usize;
        (stored.start == start && position < stored.payload.len()).then_some((slot, position))
    }

    fn sample(&mut self, payload: &[u8]) {
        self.markers.clear();
        let mut at = 0;
        loop {
            let found = self.markers.len();
            self.markers.resize(found + SAMPLE_STEP, 0);
            let Self { kernels, window, period, .. } = *self;
            let sampling = Sampling { kernels, block: payload, window, period, from: at };
            let sampled = self.sampler.sample(sampling, &mut self.markers[found..]);
            self.markers.truncate(found + sampled.count);
            at = sampled.resume;
            if sampled.count < SAMPLE_STEP {
                break;
            }
        }
        self.fingerprints.resize(self.markers.len(), 0);
        self.kernels.fingerprints(
            payload,
            &self.markers,
            self.window,
            self.key,
            &mut self.fingerprints,
        );
    }
}

/// The largest ring of a store of so many bytes. What is left at the ring's end is lost to it.
fn largest_ring(bytes: u64, slack: u64) -> u64 {
    bytes
        .saturating_mul(slack)
        .saturating_add(2 * MAX_PAYLOAD as u64)
        .clamp(MIN_RING, Geometry::MAX_CAPACITY)
}

fn ring(capacity: u64, expected_rate: f64, copies: u8) -> Result<(Geometry, Index), Error> {
    let failed = |reason: String| EmulationError::Store { bytes: capacity, reason };
    let geometry = Geometry::new(capacity, 0).map_err(|error| failed(error.to_string()))?;
    let slots = (capacity as f64 / expected_rate * ROOM).ceil() as u64;
    let index = Index::new(geometry, slots, copies).map_err(failed)?;
    Ok((geometry, index))
}

fn forget<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: K) {
    if let std::collections::hash_map::Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}
