//! The packet store of an ingress, and its matcher.
//!
//! The codec's matchers work over one log that is one FIFO. A store of SmartRE is many FIFO
//! buckets, parts of its packets are null, and some of what it finds must not be used; so this
//! takes the codec's parts (sampler, fingerprints, fingerprint table, comparison of bytes) and
//! grows matches within what is not null. Packets have addresses in a virtual ring, by which the
//! table knows them: [`RING`] times what the buckets hold, so that a bucket may keep its packets
//! that many times longer than the average bucket before the table loses them.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use oncewire_codec::{
    Geometry, Kernels,
    sampler::{Sampler, Sampling},
    table::{CompactTable, FingerprintTable, Markers, NO_OFFSET},
};
use oncewire_family::SamplerKind;

use super::shim::MAX_PAYLOAD;
use crate::{DeviceId, Error, HeaderHash, error::EmulationError};

/// Ratio of the virtual ring to the store, for a store of many buckets.
pub(super) const RING: u64 = 4;
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

/// A packet in the store.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) path: u32,
    pub(super) name: u64,
    pub(super) hash: HeaderHash,
    /// The device that caches it.
    pub(super) device: DeviceId,
    /// Version of the allocation that assigned it.
    pub(super) version: u32,
    /// Key of five-tuple and payload.
    pub(super) copy: u64,
    pub(super) payload: Arc<[u8]>,
    /// Null regions, which nothing may refer to: `from..to`, ascending and disjoint.
    pub(super) nulls: Vec<(u32, u32)>,
    /// Bytes that it takes in its bucket.
    pub(super) size: u64,
    /// Virtual address.
    start: u64,
}

/// A match that was found: `length` bytes at `at` of the packet are those at `offset` of the stored
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) slot: u32,
    pub(super) at: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl Found {
    pub(super) fn end(&self) -> u32 {
        self.at + self.length
    }
}

#[derive(Debug, Default)]
struct Bucket {
    capacity: u64,
    used: u64,
    queue: VecDeque<u32>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets stored under the name of another stored packet.
    pub(super) collisions: u64,
    /// Hits that could not be grown because the bytes are null.
    pub(super) gaps: u64,
    /// Hits on other bytes, or on evicted packets.
    pub(super) false_hits: u64,
}

pub(super) struct Store {
    kernels: Kernels,
    sampler: Box<dyn Sampler>,
    window: usize,
    period: usize,
    key: u64,
    table: CompactTable<u64>,
    geometry: Geometry,
    /// Size of the ring over that of what is stored.
    slack: u64,
    /// Largest ring in bytes.
    most: u64,
    expected_rate: f64,
    /// Bytes of the payloads in the store.
    held: u64,
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
    copies: HashMap<u64, u32>,
    pub(super) counts: Counts,
    markers: Vec<u32>,
    fingerprints: Vec<u64>,
    hits: Vec<u64>,
}

impl Store {
    /// An empty store that is to hold about `bytes`, with a ring of `slack` times what it holds:
    /// [`RING`], or 1 for a single bucket.
    pub(super) fn new(finding: &Finding, key: u64, bytes: u64, slack: u64) -> Result<Self, Error> {
        let expected_rate = finding.sampler.expected_rate(finding.period);
        let (geometry, table) = ring(MIN_RING, expected_rate)?;
        Ok(Self {
            slack,
            // What is left at the ring's end is lost to it.
            most: bytes
                .saturating_mul(slack)
                .saturating_add(2 * MAX_PAYLOAD as u64)
                .clamp(MIN_RING, Geometry::MAX_CAPACITY),
            expected_rate,
            held: 0,
            kernels: Kernels::detect(),
            sampler: finding.sampler.boxed(),
            window: finding.window,
            period: finding.period,
            key,
            table,
            geometry,
            end: 0,
            addresses: VecDeque::new(),
            packets: Vec::new(),
            free: Vec::new(),
            buckets: BTreeMap::new(),
            names: HashMap::new(),
            lingering: HashSet::new(),
            copies: HashMap::new(),
            counts: Counts::default(),
            markers: Vec::new(),
            fingerprints: Vec::new(),
            hits: Vec::new(),
        })
    }

    pub(super) fn get(&self, slot: u32) -> &Stored {
        self.packets[slot as usize].as_ref().expect("a slot of a packet in the store")
    }

    /// Whether more than one packet has this name, or a device may hold another one of it. A node
    /// might then take the wrong one.
    pub(super) fn ambiguous(&self, path: u32, name: u64) -> bool {
        self.names.get(&(path, name)).is_some_and(|&packets| packets > 1)
            || self.lingering.contains(&(path, name))
    }

    /// Buckets are about to be resized for another allocation. By now, devices have dropped what went
    /// when they were resized before.
    pub(super) fn begin_switch(&mut self) {
        self.lingering.clear();
    }

    /// Whether a packet with this key is here.
    pub(super) fn has_copy(&self, key: u64) -> bool {
        self.copies.contains_key(&key)
    }

    /// Sets the size of a bucket, and evicts packets that no longer fit.
    pub(super) fn resize(&mut self, path: u32, device: DeviceId, capacity: u64) {
        let bucket = self.buckets.entry((path, device)).or_default();
        bucket.capacity = capacity;
        self.make_room((path, device), 0, true);
        if capacity == 0 {
            self.buckets.remove(&(path, device));
        }
    }

    /// Buckets: path, device and size.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u32, DeviceId, u64)> + '_ {
        self.buckets.iter().map(|(&(path, device), bucket)| (path, device, bucket.capacity))
    }

    /// Whether a packet of this size fits its bucket.
    pub(super) fn takes(&self, path: u32, device: DeviceId, size: u64) -> bool {
        self.buckets.get(&(path, device)).is_some_and(|bucket| size <= bucket.capacity)
    }

    /// Looks for `payload` in the store. `judge` decides about each match whether it is used; those
    /// are disjoint, ascending, and go to `matches`.
    pub(super) fn search(
        &mut self,
        payload: &[u8],
        matches: &mut Vec<Found>,
        mut judge: impl FnMut(&Self, &Stored, &Found) -> bool,
    ) {
        self.sample(payload);
        let start = self.geometry.place(self.end, payload.len() + 1);
        self.hits.resize(self.markers.len(), 0);
        self.table.look_up(
            &self.fingerprints,
            Markers { block: start, positions: &self.markers },
            &mut self.hits,
        );
        let mut done = 0;
        // The last match that was not used: its other fingerprints find it again.
        let mut refused: Option<Found> = None;
        let (mut gaps, mut false_hits) = (0, 0);
        for i in 0..self.markers.len() {
            let marker = self.markers[i] as usize;
            if marker < done || self.hits[i] == NO_OFFSET {
                continue;
            }
            let Some((slot, position)) = self.resolve(self.hits[i]) else {
                false_hits += 1;
                continue;
            };
            let same = |found: &Found| {
                found.slot == slot
                    && marker < found.end() as usize
                    && position + found.at as usize == found.offset as usize + marker
            };
            if refused.as_ref().is_some_and(same) {
                continue;
            }
            let stored = self.get(slot);
            let (low, high) = extent(stored, position);
            if high < position + self.window {
                gaps += u64::from(high < stored.payload.len());
                false_hits += u64::from(high >= stored.payload.len());
                continue;
            }
            let forward =
                self.kernels.common_prefix(&payload[marker..], &stored.payload[position..high]);
            if forward < self.window {
                false_hits += 1;
                continue;
            }
            let back =
                self.kernels.common_suffix(&payload[done..marker], &stored.payload[low..position]);
            let found = Found {
                slot,
                at: (marker - back) as u32,
                offset: (position - back) as u32,
                length: (forward + back) as u32,
            };
            if judge(self, stored, &found) {
                done = found.end() as usize;
                matches.push(found);
            } else {
                refused = Some(found);
            }
        }
        self.counts.gaps += gaps;
        self.counts.false_hits += false_hits;
    }

    /// Stores a packet that [`Store::search`] has just looked up. Fingerprints inside `matches` are
    /// associated with the older packets there (thesis, section 3.4); the regions are null if
    /// `gaps`.
    ///
    /// # Errors
    /// No memory for a larger table.
    pub(super) fn insert(
        &mut self,
        mut stored: Stored,
        matches: &[Found],
        gaps: bool,
    ) -> Result<(), Error> {
        let bucket = (stored.path, stored.device);
        if !self.takes(bucket.0, bucket.1, stored.size) {
            return Ok(());
        }
        let start = self.geometry.place(self.end, stored.payload.len() + 1);
        self.end = start + stored.payload.len() as u64 + 1;
        stored.start = start;
        if gaps {
            stored.nulls = matches.iter().map(|found| (found.at, found.end())).collect();
            self.associate(start, matches);
        } else {
            self.table
                .insert(&self.fingerprints, Markers { block: start, positions: &self.markers });
        }
        // Evict only now: matched packets may be among those evicted.
        self.make_room(bucket, stored.size, false);
        let names = self.names.entry((stored.path, stored.name)).or_default();
        *names += 1;
        self.counts.collisions += u64::from(*names > 1);
        *self.copies.entry(stored.copy).or_default() += 1;
        self.held += stored.payload.len() as u64;
        let of = self.buckets.get_mut(&bucket).expect("it takes packets");
        of.used += stored.size;
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
        (self.geometry, self.table) =
            ring(self.most.min(self.geometry.capacity() * 2), self.expected_rate)?;
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
            let stored = self.packets[slot as usize].as_mut().expect("it was there just now");
            stored.start = start;
            for (&fingerprint, &marker) in self.fingerprints.iter().zip(&self.markers) {
                let end = marker + self.window as u32;
                if stored.nulls.iter().all(|&(from, to)| to <= marker || end <= from) {
                    self.table
                        .insert(&[fingerprint], Markers { block: start, positions: &[marker] });
                }
            }
        }
        Ok(())
    }

    fn associate(&mut self, start: u64, matches: &[Found]) {
        let mut matches = matches.iter().peekable();
        for (i, (&fingerprint, &marker)) in self.fingerprints.iter().zip(&self.markers).enumerate()
        {
            // A fingerprint belongs to where its window lies; one that reaches over the end of a
            // match is in no reference and no literal alone.
            while matches.peek().is_some_and(|found| found.end() <= marker) {
                matches.next();
            }
            let window = marker + self.window as u32;
            match matches.peek() {
                Some(found) if found.at <= marker && window <= found.end() => {
                    let older = self.packets[found.slot as usize]
                        .as_ref()
                        .expect("it was found just now")
                        .start;
                    let position = found.offset + (marker - found.at);
                    if self.hits[i] != older + u64::from(position) {
                        self.table.insert(
                            &[fingerprint],
                            Markers { block: older, positions: &[position] },
                        );
                    }
                }
                Some(found) if found.at < window => {}
                _ => self
                    .table
                    .insert(&[fingerprint], Markers { block: start, positions: &[marker] }),
            }
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
            self.held -= gone.payload.len() as u64;
            forget(&mut self.names, (gone.path, gone.name));
            if lingers {
                self.lingering.insert((gone.path, gone.name));
            }
            forget(&mut self.copies, gone.copy);
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

impl Stored {
    /// A packet without null regions.
    pub(super) fn new(
        (path, name, hash): (u32, u64, HeaderHash),
        (device, version): (DeviceId, u32),
        copy: u64,
        payload: Arc<[u8]>,
        size: u64,
    ) -> Self {
        Self { path, name, hash, device, version, copy, payload, nulls: Vec::new(), size, start: 0 }
    }
}

fn ring(capacity: u64, expected_rate: f64) -> Result<(Geometry, CompactTable<u64>), Error> {
    let failed = |reason: String| EmulationError::Store { bytes: capacity, reason };
    let geometry = Geometry::new(capacity, 0).map_err(|error| failed(error.to_string()))?;
    let entries = (capacity as f64 / expected_rate * ROOM).ceil() as u64;
    let table = CompactTable::new(geometry, entries).map_err(|error| failed(error.to_string()))?;
    Ok((geometry, table))
}

/// The region without null bytes around a position.
fn extent(stored: &Stored, position: usize) -> (usize, usize) {
    let mut low = 0;
    for &(from, to) in &stored.nulls {
        let (from, to) = (from as usize, to as usize);
        if position < from {
            return (low, from);
        }
        if position < to {
            return (position, position);
        }
        low = to;
    }
    (low, stored.payload.len())
}

fn forget<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: K) {
    if let std::collections::hash_map::Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}
