//! Chunk-match with a cache for each pair of hosts (EndRE section 5.2.1, Table 4), by names of chunks
//! alone, of which a sample is kept.

use crate::batch::Packet;
use oncewire_codec::Kernels;
use oncewire_codec::sampler::{Sampler, Sampling};
use oncewire_family::SamplerKind;
use std::collections::HashMap;
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Longest chunk in bytes, of which the pointer has the length in a byte (section 5.2.1).
pub(super) const LONGEST: usize = 256;

/// Bytes of a pointer that replaces a chunk: offset and length.
const POINTER: u64 = 4;

/// Bytes of an entry of the map of names: the name, its place, and the map's control byte. Seven in
/// eight entries may be used, and a map that grows has the old one beside it.
const ENTRY: usize = 3 * (size_of::<([u64; 2], u64)>() + 1) * 8 / 7;

/// Most pairs of hosts. Packets of others save nothing.
const MAX_PAIRS: usize = 1 << 16;

/// Markers per call of the sampler.
const STEP: usize = 256;

/// Finds chunks that a pair of hosts had before.
pub(super) struct Chunks {
    sampler: Box<dyn Sampler>,
    kernels: Kernels,
    window: usize,
    period: usize,
    /// Bytes that a pair's cache holds.
    reach: u64,
    /// Payload of each pair so far, with the pair's number.
    pairs: HashMap<(IpAddr, IpAddr), (u64, u64)>,
    /// Where a chunk was last, in payload of its pair, by its name and the pair.
    seen: HashMap<[u64; 2], u64>,
    /// Most names.
    most: usize,
    /// One name in 2^level is kept.
    level: u32,
    markers: Vec<u32>,
    saved: u64,
}

impl Chunks {
    /// `memory` is in bytes.
    pub(super) fn new(window: usize, period: usize, reach: u64, memory: u64) -> Chunks {
        Chunks {
            sampler: SamplerKind::sample_byte().boxed(),
            kernels: Kernels::detect(),
            window,
            period,
            reach,
            pairs: HashMap::new(),
            seen: HashMap::new(),
            most: (memory as usize / ENTRY).max(1024),
            level: 0,
            markers: Vec::new(),
            saved: 0,
        }
    }

    /// Takes the next packet with payload.
    pub(super) fn packet(&mut self, packet: &Packet, payload: &[u8]) {
        let Some(flow) = packet.flow else { return };
        let key = (flow.source, flow.destination);
        let number = self.pairs.len();
        if number >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        let (number, before) = {
            let pair = self.pairs.entry(key).or_insert((number as u64, 0));
            let before = pair.1;
            pair.1 += payload.len() as u64;
            (pair.0, before)
        };
        self.mark(payload);
        let markers = std::mem::take(&mut self.markers);
        let mut start = 0;
        let ends = markers.iter().map(|&marker| marker as usize).chain([payload.len()]);
        for end in ends {
            while start < end {
                let chunk = &payload[start..end.min(start + LONGEST)];
                self.chunk(chunk, number, before, before + start as u64);
                start += chunk.len();
            }
        }
        self.markers = markers;
    }

    /// Fills `markers` with the beginnings of chunks.
    fn mark(&mut self, payload: &[u8]) {
        self.markers.clear();
        let mut from = 0;
        loop {
            let start = self.markers.len();
            let room = (payload.len().saturating_sub(from) + 1).min(STEP);
            self.markers.resize(start + room, 0);
            let Chunks { kernels, window, period, .. } = *self;
            let sampling = Sampling { kernels, block: payload, window, period, from };
            let sampled = self.sampler.sample(sampling, &mut self.markers[start..]);
            self.markers.truncate(start + sampled.count);
            from = sampled.resume;
            if sampled.count < room {
                return;
            }
        }
    }

    /// A chunk at `at` in the payload of a pair. The packet begins at `packet`: as in the other rows,
    /// only earlier packets count.
    fn chunk(&mut self, chunk: &[u8], pair: u64, packet: u64, at: u64) {
        let hash = xxh3_128_with_seed(chunk, pair);
        let name = [hash as u64, (hash >> 64) as u64];
        if name[0].trailing_zeros() < self.level {
            return;
        }
        let last = self.seen.insert(name, at);
        if last.is_some_and(|last| last < packet && at - last <= self.reach) {
            self.saved += (chunk.len() as u64).saturating_sub(POINTER) << self.level;
        }
        while self.seen.len() > self.most && self.level < 40 {
            self.level += 1;
            let level = self.level;
            self.seen.retain(|name, _| name[0].trailing_zeros() >= level);
        }
    }

    /// Bytes saved: an estimate if names are sampled.
    pub(super) fn saved(&self) -> u64 {
        self.saved
    }

    /// Memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.seen.len().min(self.most) * ENTRY) as u64 + self.pairs.len() as u64 * 128
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise};

    fn saved(memory: u64, reach: u64, payloads: &[(&str, Vec<u8>)]) -> u64 {
        let mut chunks = Chunks::new(32, 32, reach, memory);
        for (client, payload) in payloads {
            let made = Made::tcp("10.0.0.1:80", client).payload(payload);
            chunks.packet(&made.packet, payload);
        }
        chunks.saved()
    }

    #[test]
    fn a_pair_finds_its_own_chunks_within_its_cache() {
        let content = noise(1, 1000);
        let (one, other) = ("10.0.1.1:5000", "10.0.1.2:5000");
        let to = |client: &'static str| (client, content.clone());
        let twice = saved(1 << 20, 1 << 20, &[to(one), to(one)]);
        // All but four bytes for each of some 30 chunks.
        assert!((700..=960).contains(&twice), "{twice}");
        assert_eq!(saved(1 << 20, 1 << 20, &[to(one), to(other)]), 0);
        assert_eq!(saved(1 << 20, 1 << 20, &[to(one), to(other), to(one)]), twice);
        // Not within a packet, and not beyond the cache.
        assert_eq!(saved(1 << 20, 1 << 20, &[(one, content.repeat(2))]), 0);
        assert_eq!(saved(1 << 20, 999, &[to(one), to(one)]), 0);
    }

    #[test]
    fn a_sample_estimates_the_same() {
        let payloads: Vec<_> =
            (0..600).map(|seed| ("10.0.1.1:5000", noise(seed % 300, 1000))).collect();
        let all = saved(64 << 20, 10 << 20, &payloads);
        let sampled = saved(100 << 10, 10 << 20, &payloads);
        assert!(sampled != all, "nothing was sampled");
        assert!((sampled as f64 / all as f64 - 1.0).abs() < 0.2, "{sampled}, {all}");
    }
}
