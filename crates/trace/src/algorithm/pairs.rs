//! A cache for each pair of hosts, as EndRE has at its clients and servers (sections 4 and 8.2).

use super::{Run, Tally};
use crate::batch::{Charge, Packet, View};
use oncewire_codec::matcher::{Density, Match, Matcher};
use oncewire_codec::sampler::Sampler;
use oncewire_codec::table::{CompactTable, FingerprintTable};
use oncewire_codec::{ConfigError, Geometry, Kernels, Log};
use oncewire_family::PublishedMaxMatch;
use oncewire_family::SamplerKind;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// How large a pair's cache may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairLimits {
    /// That many bytes.
    Fixed(u64),
    /// By what runs between the two (EndRE section 8.2.1): see [`service_limit`].
    ByService,
}

/// EndRE's cache limits in bytes: HTTP, SMB and NetBIOS file sharing, others.
pub(crate) const HTTP_LIMIT: u64 = 10_000_000;
pub(crate) const SMB_LIMIT: u64 = 4_000_000;
pub(crate) const OTHER_LIMIT: u64 = 1_000_000;

/// The limit that one packet's service asks for, in bytes.
pub(crate) fn service_limit(packet: &Packet) -> u64 {
    match packet.service {
        80 | 8080 | 8000 | 8001 | 3128 => HTTP_LIMIT,
        445 | 139 => SMB_LIMIT,
        _ => OTHER_LIMIT,
    }
}

/// A cache as small as what it holds: it doubles until it reaches its limit.
struct PairCache {
    log: Log,
    matcher: PublishedMaxMatch<CompactTable<u32>>,
    /// Lengths of the packets in the log, as long as it may still grow.
    lengths: Vec<u32>,
    limit: u64,
    used: u64,
}

/// First capacity of a pair's log in bytes.
const FIRST: u64 = 4 << 10;

/// Most pairs at once: each has two mappings, of which a process may have 65,530 on Linux.
const MAX_PAIRS: usize = 16 << 10;

/// Smallest mapping, and what a pair takes beside its mappings, in bytes.
const PAGE: u64 = 4 << 10;
const OVERHEAD: u64 = 2 << 10;

impl PairCache {
    fn new(
        run: &PairParams,
        capacity: u64,
        limit: u64,
        used: u64,
    ) -> Result<PairCache, ConfigError> {
        let geometry = Geometry::new(capacity, 0)?;
        let entries = (capacity as f64 / run.sampler.expected_rate(run.period) * 2.0) as u64;
        let table = CompactTable::new(geometry, entries.max(64))?;
        let matcher = PublishedMaxMatch::new(
            run.sampler.boxed(),
            table,
            Kernels::detect(),
            run.window,
            0,
            None,
        );
        Ok(PairCache {
            log: Log::new(geometry)?,
            matcher: matcher.with_reach(limit),
            lengths: Vec::new(),
            limit,
            used,
        })
    }

    fn memory(&self) -> u64 {
        let table = FingerprintTable::memory(self.matcher.table()) as u64;
        // While it grows, the lengths of packets too.
        let lengths = self.lengths.capacity() as u64 * 4;
        self.log.geometry().capacity().max(PAGE) + table.max(PAGE) + lengths + OVERHEAD
    }

    /// The same content in a log of the given capacity. Only while nothing has been evicted.
    fn grown(&self, run: &PairParams, capacity: u64) -> Result<PairCache, ConfigError> {
        let mut next = PairCache::new(run, capacity, self.limit, self.used)?;
        let mut at = 0;
        for &len in &self.lengths {
            let payload = self.log.read(at..at + u64::from(len));
            let offset = next.log.append(payload);
            next.matcher.note(payload, offset, Density::Period(run.period));
            at += u64::from(len);
        }
        next.lengths.clone_from(&self.lengths);
        Ok(next)
    }
}

/// How a [`PairRun`] works.
pub(crate) struct PairParams {
    pub(crate) sampler: SamplerKind,
    pub(crate) window: usize,
    pub(crate) period: usize,
    pub(crate) charge: Charge,
    pub(crate) limits: PairLimits,
    /// Most memory of all caches together, in bytes.
    pub(crate) memory: u64,
}

/// Max-match with a cache for each ordered pair of addresses.
pub(crate) struct PairRun {
    params: PairParams,
    pairs: HashMap<(IpAddr, IpAddr), PairCache>,
    /// Pairs by when they were last used.
    recent: BTreeMap<u64, (IpAddr, IpAddr)>,
    clock: u64,
    /// Memory that the caches take now, and took at most, in bytes.
    now: u64,
    most: u64,
    evicted: u64,
    tally: Tally,
    /// Matches of the newest packet, and where it ends in its log.
    scratch: Vec<Match>,
    end: u64,
}

impl PairRun {
    pub(crate) fn new(params: PairParams) -> PairRun {
        PairRun {
            params,
            pairs: HashMap::new(),
            recent: BTreeMap::new(),
            clock: 0,
            now: 0,
            most: 0,
            evicted: 0,
            tally: Tally::default(),
            scratch: Vec::new(),
            end: 0,
        }
    }

    /// Takes one packet with payload; returns the bytes it saves.
    pub(crate) fn packet(&mut self, packet: &Packet, payload: &[u8]) -> Result<u32, ConfigError> {
        self.scratch.clear();
        let Some(flow) = packet.flow else { return Ok(0) };
        let key = (flow.source, flow.destination);
        let asked = match self.params.limits {
            PairLimits::Fixed(limit) => limit,
            PairLimits::ByService => service_limit(packet),
        };
        self.clock += 1;
        let params = &self.params;
        let pair = match self.pairs.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let pair = PairCache::new(params, FIRST, asked, self.clock)?;
                self.now += pair.memory();
                entry.insert(pair)
            }
        };
        self.recent.remove(&pair.used);
        pair.used = self.clock;
        self.recent.insert(self.clock, key);
        if asked > pair.limit {
            pair.limit = asked;
            pair.matcher.set_reach(asked);
        }
        let before = pair.memory();
        let capacity = pair.log.geometry().capacity();
        // Room for the limit and the packet in work, so that the log never evicts within reach.
        let full = pair.limit + (64 << 10);
        let needed = pair.log.end() + payload.len() as u64;
        if needed > capacity && capacity < full && pair.log.end() <= capacity {
            *pair = pair.grown(params, needed.next_power_of_two().min(full))?;
        }
        let offset = pair.log.geometry().place(pair.log.end(), payload.len());
        pair.matcher.find(
            &pair.log,
            payload,
            offset,
            Density::Period(params.period),
            &mut self.scratch,
        );
        pair.log.append(payload);
        self.end = offset + payload.len() as u64;
        if pair.log.end() <= pair.log.geometry().capacity() {
            pair.lengths.push(packet.len);
        } else {
            pair.lengths = Vec::new();
        }
        self.now = self.now - before + pair.memory();
        let saved = params.charge.saved(&self.scratch);
        self.tally.add(packet, u64::from(saved));
        self.most = self.most.max(self.now);
        while (self.now > self.params.memory || self.pairs.len() > MAX_PAIRS)
            && self.pairs.len() > 1
            && let Some((_, oldest)) = self.recent.pop_first()
        {
            let gone = self.pairs.remove(&oldest).expect("every pair is in both maps");
            self.now -= gone.memory();
            self.evicted += 1;
        }
        Ok(saved)
    }
}

impl PairRun {
    /// Of the matches of the newest packet: how far back each begins from its end, in bytes of the
    /// pair's payload, and the bytes that it saves.
    pub(crate) fn found(&self) -> impl Iterator<Item = (u64, u32)> {
        let per_match = self.params.charge.per_match;
        self.matches().map(move |(found, distance)| (distance, found.len.saturating_sub(per_match)))
    }

    /// The matches of the newest packet, each with how far back it begins from its end.
    pub(crate) fn matches(&self) -> impl Iterator<Item = (Match, u64)> {
        self.scratch.iter().map(|found| (*found, self.end - found.source))
    }
}

impl Run for PairRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for packet in view.batch.packets().iter().filter(|packet| packet.len > 0) {
            self.packet(packet, view.batch.payload(packet))?;
        }
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        self.most
    }

    fn notes(&self) -> Vec<String> {
        if self.evicted == 0 {
            return Vec::new();
        }
        vec![format!(
            "Caches per host pair reached the limit of {} MiB or {MAX_PAIRS} pairs; {} least recently used ones were evicted early, and their \
             content was no longer found.",
            self.params.memory >> 20,
            self.evicted
        )]
    }
}
