//! What a study runs: which algorithms, with which parameters, for which figures.

use super::{FigureId, Settings};
use crate::algorithm::{
    Bound, ChunkRun, Coder, Grouping, MaxMatchParams, MaxMatchRun, OncewireRun, PairLimits, PairRun, PayloadRun, Run, Sizes,
    Source, Tally, Units, WindowRun,
};
use crate::batch::{Charge, Direction};
use oncewire_codec::SamplerKind;
use oncewire_codec::chunk::ChunkForm;
use oncewire_codec::sampler::Modp;
use std::collections::BTreeSet;

/// One row of figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Algorithm {
    Gzip,
    GzipWindow,
    GzipFlow,
    ZstdWindow,
    ZstdFlow,
    Payload,
    PayloadGzip,
    Modp,
    Maxp,
    Fixed,
    SampleByte,
    SampleHash,
    Peaks,
    Chunk,
    ChunkWindow,
    MaxpQuad,
    MaxpGzip,
    MaxpZstd,
    Pairs,
    Shared,
    Optimal,
    Packets,
    Tunnel,
}

impl Algorithm {
    /// All, in the order of the table.
    pub const ALL: [Algorithm; 23] = [
        Algorithm::Gzip,
        Algorithm::GzipWindow,
        Algorithm::GzipFlow,
        Algorithm::ZstdWindow,
        Algorithm::ZstdFlow,
        Algorithm::Payload,
        Algorithm::PayloadGzip,
        Algorithm::Modp,
        Algorithm::Maxp,
        Algorithm::Fixed,
        Algorithm::SampleByte,
        Algorithm::SampleHash,
        Algorithm::Peaks,
        Algorithm::Chunk,
        Algorithm::ChunkWindow,
        Algorithm::MaxpQuad,
        Algorithm::MaxpGzip,
        Algorithm::MaxpZstd,
        Algorithm::Pairs,
        Algorithm::Shared,
        Algorithm::Optimal,
        Algorithm::Packets,
        Algorithm::Tunnel,
    ];

    /// Those that also a long trace is worth: each adds a new insight and keeps to a core's few hundred megabytes a second, compression
    /// over windows aside.
    pub const LEAN: [Algorithm; 7] = [
        Algorithm::GzipWindow,
        Algorithm::Payload,
        Algorithm::Modp,
        Algorithm::Maxp,
        Algorithm::SampleByte,
        Algorithm::Packets,
        Algorithm::Tunnel,
    ];

    /// Its name for `--algorithms`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Gzip => "gzip",
            Algorithm::GzipWindow => "gzip-10ms",
            Algorithm::GzipFlow => "gzip-10ms-flow",
            Algorithm::ZstdWindow => "zstd-10ms",
            Algorithm::ZstdFlow => "zstd-10ms-flow",
            Algorithm::Payload => "payload",
            Algorithm::PayloadGzip => "payload+gzip",
            Algorithm::Modp => "modp",
            Algorithm::Maxp => "maxp",
            Algorithm::Fixed => "fixed",
            Algorithm::SampleByte => "samplebyte",
            Algorithm::SampleHash => "samplehash",
            Algorithm::Peaks => "peaks",
            Algorithm::Chunk => "chunk",
            Algorithm::ChunkWindow => "chunk-martynov",
            Algorithm::MaxpQuad => "maxp-4x",
            Algorithm::MaxpGzip => "re+gzip-10ms",
            Algorithm::MaxpZstd => "re+zstd-10ms",
            Algorithm::Pairs => "samplebyte-pairs",
            Algorithm::Shared => "samplebyte-2g",
            Algorithm::Optimal => "optimal",
            Algorithm::Packets => "oncewire-link",
            Algorithm::Tunnel => "oncewire-tunnel",
        }
    }

    /// What it is, in a few words.
    pub fn what(self) -> &'static str {
        match self {
            Algorithm::Gzip => "DEFLATE 6 of each payload",
            Algorithm::GzipWindow => "DEFLATE 6 over 10 ms, flows mixed",
            Algorithm::GzipFlow => "DEFLATE 6 over 10 ms of a flow",
            Algorithm::ZstdWindow => "zstd 3 over 10 ms, flows mixed",
            Algorithm::ZstdFlow => "zstd 3 over 10 ms of a flow",
            Algorithm::Payload => "whole payloads by name, LRU (Santos and Wetherall)",
            Algorithm::PayloadGzip => "payload-match, then DEFLATE of each payload",
            Algorithm::Modp => "max-match, MODP",
            Algorithm::Maxp => "max-match, MAXP",
            Algorithm::Fixed => "max-match, FIXED",
            Algorithm::SampleByte => "max-match, SAMPLEBYTE",
            Algorithm::SampleHash => "max-match, SAMPLEHASH (ours)",
            Algorithm::Peaks => "max-match, PEAKS (ours)",
            Algorithm::Chunk => "chunk-match, SAMPLEBYTE (EndRE)",
            Algorithm::ChunkWindow => "chunk-match, MODP, chunk ends with the window (Martynov)",
            Algorithm::MaxpQuad => "max-match, MAXP, four times the cache",
            Algorithm::MaxpGzip => "the reference, then DEFLATE over 10 ms",
            Algorithm::MaxpZstd => "the reference, then zstd over 10 ms",
            Algorithm::Pairs => "max-match, SAMPLEBYTE, 10 MB per pair of hosts (EndRE)",
            Algorithm::Shared => "max-match, SAMPLEBYTE, 2 GB shared (EndRE's WAN optimizer)",
            Algorithm::Optimal => "upper bound by a Bloom filter (thesis)",
            Algorithm::Packets => "our codec, a frame for each packet",
            Algorithm::Tunnel => "our codec, TCP flows, frames of up to 10 ms or 64 KiB",
        }
    }

    /// The algorithm of that name.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// What identifies a run: two figures that need the same get one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    MaxMatch { sampler: &'static str, period: usize, cache: u64 },
    Other(Algorithm),
}

/// Some of a study's algorithms: see [`Settings::parts`].
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub(super) keys: BTreeSet<Key>,
    pub(super) first: bool,
}

/// The sampling periods of figure 2, in bytes.
pub(super) const PERIODS: [usize; 8] = [4, 8, 16, 32, 64, 128, 256, 512];

/// The samplers of figure 2.
pub(super) fn swept() -> [SamplerKind; 5] {
    let modp = SamplerKind::Modp(Modp::default());
    [modp, SamplerKind::Maxp, SamplerKind::Fixed, SamplerKind::sample_byte(), SamplerKind::SampleHash]
}

/// The shared cache of EndRE's reference, in bytes (section 9.1).
const SHARED: u64 = 2_000_000_000;

impl Settings {
    /// No cache needs to be larger than what it is to hold.
    pub(crate) fn fit(&self, cache: u64) -> u64 {
        self.survey.map_or(cache, |survey| cache.min(survey.most().max(1 << 20)))
    }

    /// Sizes of the caches of all directions.
    fn sizes(&self, cache: u64) -> Sizes {
        Sizes::new(cache, self.survey)
    }

    pub(super) fn charge(&self) -> Charge {
        Charge { per_match: 4, per_packet: self.shim }
    }

    /// Cache sizes of figure 3, ascending: from four times the cache down by halves. Of those that hold the whole trace, one.
    pub(super) fn cache_sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> =
            (0..14).map(|halvings| self.cache.saturating_mul(4) >> halvings).filter(|&size| size >= 64 << 10).collect();
        sizes.reverse();
        if let Some(enough) = self.survey.and_then(|survey| sizes.iter().position(|&size| size >= survey.most())) {
            sizes.truncate(enough + 1);
        }
        sizes
    }

    pub(super) fn max_match(&self, sampler: &SamplerKind, period: usize, cache: u64) -> Key {
        Key::MaxMatch { sampler: sampler.name(), period, cache: self.fit(cache) }
    }

    /// The reference algorithm.
    pub(super) fn reference(&self) -> Key {
        self.max_match(&self.sampler, self.period, self.cache)
    }

    /// The run that a row of figure 1 needs.
    pub(super) fn key(&self, algorithm: Algorithm) -> Key {
        let at = |sampler: SamplerKind, cache| self.max_match(&sampler, self.period, cache);
        match algorithm {
            Algorithm::Modp => at(SamplerKind::Modp(Modp::default()), self.cache),
            Algorithm::Maxp => at(SamplerKind::Maxp, self.cache),
            Algorithm::Fixed => at(SamplerKind::Fixed, self.cache),
            Algorithm::SampleByte => at(SamplerKind::sample_byte(), self.cache),
            Algorithm::SampleHash => at(SamplerKind::SampleHash, self.cache),
            Algorithm::Peaks => at(SamplerKind::Peaks, self.cache),
            Algorithm::MaxpQuad => at(SamplerKind::Maxp, self.cache.saturating_mul(4)),
            Algorithm::Shared => at(SamplerKind::sample_byte(), SHARED),
            other => Key::Other(other),
        }
    }

    /// All runs that the chosen figures need, the reference among them.
    pub(super) fn keys(&self) -> BTreeSet<Key> {
        let mut keys = BTreeSet::from([self.reference()]);
        if self.figures.contains(&FigureId::Algorithms) {
            keys.extend(self.algorithms.iter().map(|&algorithm| self.key(algorithm)));
        }
        if self.figures.contains(&FigureId::Periods) {
            for sampler in swept() {
                keys.extend(PERIODS.map(|period| self.max_match(&sampler, period, self.cache)));
            }
            keys.insert(Key::Other(Algorithm::Optimal));
        }
        if self.figures.contains(&FigureId::Caches) || self.figures.contains(&FigureId::Protocols) {
            keys.extend(self.cache_sizes().into_iter().map(|size| self.max_match(&self.sampler, self.period, size)));
        }
        keys
    }

    /// Splits the algorithms so that each part takes about `memory` bytes at most, or has one algorithm only. Every part goes through the whole
    /// trace; the first has the reference algorithm and all figures that look at its matches. One part if nothing is known of the
    /// trace's length.
    pub fn parts(&self, memory: u64) -> Vec<Part> {
        let reference = self.reference();
        let mut parts = vec![Part { keys: BTreeSet::from([reference.clone()]), first: true }];
        let mut taken = vec![self.estimate(&reference)];
        let mut keys: Vec<(u64, Key)> = self.keys().into_iter().map(|key| (self.estimate(&key), key)).collect();
        keys.retain(|(_, key)| *key != reference);
        // Those that need the reference's matches first, then the largest.
        let of_matches = |key: &Key| matches!(key, Key::Other(Algorithm::MaxpGzip | Algorithm::MaxpZstd));
        keys.sort_by(|a, b| of_matches(&b.1).cmp(&of_matches(&a.1)).then(b.0.cmp(&a.0)).then(a.1.cmp(&b.1)));
        for (bytes, key) in keys {
            let fits = |taken: &u64| self.survey.is_none() || taken.saturating_add(bytes) <= memory;
            match taken.iter().position(fits) {
                _ if of_matches(&key) => {
                    parts[0].keys.insert(key);
                }
                Some(part) => {
                    parts[part].keys.insert(key);
                    taken[part] += bytes;
                }
                None => {
                    parts.push(Part { keys: BTreeSet::from([key]), first: false });
                    taken.push(bytes);
                }
            }
        }
        parts
    }

    /// About how much memory the run of a key takes in the end, in bytes, logs that all share aside.
    fn estimate(&self, key: &Key) -> u64 {
        let per_direction = |cache: u64, of: &dyn Fn(u64) -> f64| -> u64 {
            let sizes = self.sizes(cache);
            let used = Direction::ALL
                .into_iter()
                .filter(|&direction| self.survey.map_or(direction == Direction::All, |survey| survey.payload(direction) > 0));
            used.map(|direction| of(sizes.of(direction)) as u64).sum()
        };
        match key {
            Key::MaxMatch { sampler, period, cache } => {
                let rate = SamplerKind::named(sampler).map_or(*period as f64, |sampler| sampler.expected_rate(*period));
                per_direction(*cache, &|cache| cache as f64 / rate * 8.0)
            }
            Key::Other(Algorithm::Optimal) => {
                per_direction(self.cache, &|cache| if cache < self.cache { 2.0 } else { 9.0 } * cache as f64)
            }
            Key::Other(Algorithm::Packets | Algorithm::Tunnel) => per_direction(self.cache, &|cache| 1.25 * cache as f64),
            Key::Other(Algorithm::Chunk | Algorithm::ChunkWindow) => {
                per_direction(self.cache, &|cache| cache as f64 / self.period as f64 * 2.0 * 64.0 / 3.0)
            }
            Key::Other(Algorithm::Payload | Algorithm::PayloadGzip) => per_direction(self.cache, &|cache| 1.2 * cache as f64),
            Key::Other(Algorithm::Pairs) => self.pair_memory.min(2 * self.survey.map_or(u64::MAX / 2, |survey| survey.total())),
            Key::Other(_) => 1 << 20,
        }
    }

    /// How far back the shared logs must reach, in bytes.
    pub(super) fn longest_reach(&self, keys: &BTreeSet<Key>, first: bool) -> u64 {
        let of_runs = keys.iter().map(|key| if let Key::MaxMatch { cache, .. } = key { *cache } else { 0 }).max();
        let hosts = if first && self.figures.contains(&FigureId::Hosts) { self.fit(SHARED) } else { 0 };
        of_runs.unwrap_or(0).max(hosts)
    }

    /// The shared cache of figure 12.
    pub(crate) fn shared_params(&self) -> MaxMatchParams {
        self.params(SamplerKind::sample_byte(), self.period, self.fit(SHARED))
    }

    fn params(&self, sampler: SamplerKind, period: usize, cache: u64) -> MaxMatchParams {
        MaxMatchParams { sampler, window: self.window, period, sizes: self.sizes(cache), charge: self.charge() }
    }

    /// The caches per host pair of figures 1 and 12.
    pub(crate) fn pairs(&self, limits: PairLimits) -> PairRun {
        let charge = Charge { per_match: 4, per_packet: 0 };
        PairRun::new(SamplerKind::sample_byte(), self.window, self.period, charge, limits, self.pair_memory)
    }

    pub(super) fn max_match_run(&self, sampler: &str, period: usize, cache: u64) -> MaxMatchRun {
        let kind = SamplerKind::named(sampler).unwrap_or_else(|| self.sampler.clone());
        let kind = if kind.name() == self.sampler.name() { self.sampler.clone() } else { kind };
        let services = kind.name() == self.sampler.name() && period == self.period;
        let tally = if services { Tally::by_service() } else { Tally::default() };
        MaxMatchRun::new(self.params(kind, period, cache), tally)
    }

    /// The run of a key.
    pub(super) fn run(&self, key: &Key) -> Box<dyn Run> {
        let (cache, charge) = (self.sizes(self.cache), self.charge());
        let window = |coder, grouping, source| Box::new(WindowRun::new(coder, grouping, source, self.compression_window));
        let chunk = |form, sampler| Box::new(ChunkRun::new(form, sampler, self.window, self.period, cache, charge));
        match *key {
            Key::MaxMatch { sampler, period, cache } => Box::new(self.max_match_run(sampler, period, cache)),
            Key::Other(algorithm) => match algorithm {
                Algorithm::Gzip => window(Coder::Deflate, Grouping::Packet, Source::Payload),
                Algorithm::GzipWindow => window(Coder::Deflate, Grouping::Direction, Source::Payload),
                Algorithm::GzipFlow => window(Coder::Deflate, Grouping::Flow, Source::Payload),
                Algorithm::ZstdWindow => window(Coder::Zstd, Grouping::Direction, Source::Payload),
                Algorithm::ZstdFlow => window(Coder::Zstd, Grouping::Flow, Source::Payload),
                Algorithm::MaxpGzip => window(Coder::Deflate, Grouping::Direction, Source::Residue),
                Algorithm::MaxpZstd => window(Coder::Zstd, Grouping::Direction, Source::Residue),
                Algorithm::PayloadGzip => {
                    window(Coder::Deflate, Grouping::Packet, Source::Names(Box::new(PayloadRun::new(self.cache))))
                }
                Algorithm::Payload => Box::new(PayloadRun::new(self.cache)),
                Algorithm::Chunk => chunk(ChunkForm::StartsAtMarker, SamplerKind::sample_byte()),
                Algorithm::ChunkWindow => chunk(ChunkForm::EndsWithWindow, SamplerKind::Modp(Modp::default())),
                Algorithm::Pairs => Box::new(self.pairs(PairLimits::Fixed(crate::algorithm::HTTP_LIMIT))),
                Algorithm::Optimal => Box::new(Bound::new(self.window, cache, charge)),
                Algorithm::Packets => Box::new(OncewireRun::new(Units::Packets, cache, self.compression_window)),
                Algorithm::Tunnel => Box::new(OncewireRun::new(Units::Tunnel, cache, self.compression_window)),
                Algorithm::Modp
                | Algorithm::Maxp
                | Algorithm::Fixed
                | Algorithm::SampleByte
                | Algorithm::SampleHash
                | Algorithm::Peaks
                | Algorithm::MaxpQuad
                | Algorithm::Shared => unreachable!("a max-match has a key of its own"),
            },
        }
    }
}
