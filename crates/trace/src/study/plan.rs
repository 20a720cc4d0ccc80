//! Which algorithms a study runs, with which parameters, for which figures.

use crate::algorithm::{
    Algorithm, Bound, ChunkRun, Coder, Grouping, LinkRun, MaxMatchParams, MaxMatchRun, PairLimits,
    PairParams, PairRun, PayloadRun, Run, Source, Tally, TunnelRun, WindowRun,
};
use crate::batch::{Charge, Direction};
use crate::figures::FigureId;
use crate::figures::hosts::{Hosts, sweep};
use crate::figures::periods::PERIODS;
use crate::settings::Settings;
use oncewire_codec::sampler::Sampler;
use oncewire_family::SamplerKind;
use oncewire_family::chunk::ChunkForm;
use oncewire_family::sampler::Modp;
use std::collections::BTreeSet;

/// Identifies a run. Figures that need the same run share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    MaxMatch { sampler: &'static str, period: usize, cache: u64 },
    Other(Algorithm),
}

/// A subset of a study's algorithms: see [`Settings::parts`].
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub(super) keys: BTreeSet<Key>,
    pub(super) first: bool,
}

/// The samplers of figure 2.
pub(super) fn swept() -> [SamplerKind; 5] {
    let modp = SamplerKind::Modp(Modp::default());
    [
        modp,
        SamplerKind::Maxp,
        SamplerKind::Fixed,
        SamplerKind::sample_byte(),
        SamplerKind::SampleHash,
    ]
}

/// The shared cache of EndRE's reference, in bytes (section 9.1).
const SHARED: u64 = 2_000_000_000;

impl Settings {
    pub(super) fn max_match(&self, sampler: &SamplerKind, period: usize, cache: u64) -> Key {
        Key::MaxMatch { sampler: sampler.name(), period, cache: self.fit(cache) }
    }

    /// The reference algorithm.
    pub(super) fn reference(&self) -> Key {
        self.max_match(&self.sampler, self.period, self.cache)
    }

    /// The run of an algorithm in figure 1.
    pub(super) fn key(&self, algorithm: Algorithm) -> Key {
        let at = |sampler: SamplerKind, cache| self.max_match(&sampler, self.period, cache);
        match algorithm {
            Algorithm::Modp => at(SamplerKind::Modp(Modp::default()), self.cache),
            Algorithm::Maxp => at(SamplerKind::Maxp, self.cache),
            Algorithm::MaxpPublished => at(SamplerKind::MaxpPublished, self.cache),
            Algorithm::Fixed => at(SamplerKind::Fixed, self.cache),
            Algorithm::SampleByte => at(SamplerKind::sample_byte(), self.cache),
            Algorithm::SampleHash => at(SamplerKind::SampleHash, self.cache),
            Algorithm::Peaks => at(SamplerKind::Peaks, self.cache),
            Algorithm::MaxpQuad => at(SamplerKind::Maxp, self.cache.saturating_mul(4)),
            Algorithm::Shared => at(SamplerKind::sample_byte(), SHARED),
            other => Key::Other(other),
        }
    }

    /// All runs that the chosen figures need, the reference, and the products, which the verdict is
    /// about.
    pub(super) fn keys(&self) -> BTreeSet<Key> {
        let products = [Algorithm::Tunnel, Algorithm::Packets].map(Key::Other);
        let mut keys = BTreeSet::from([self.reference()]);
        keys.extend(products);
        if self.figures.contains(&FigureId::Algorithms) {
            keys.extend(self.algorithms.iter().map(|&algorithm| self.key(algorithm)));
        }
        if self.figures.contains(&FigureId::Periods) {
            for sampler in swept() {
                keys.extend(PERIODS.map(|period| self.max_match(&sampler, period, self.cache)));
            }
            keys.insert(Key::Other(Algorithm::Optimal));
        }
        if self.figures.contains(&FigureId::Deflate) {
            keys.extend([Algorithm::Tunnel, Algorithm::TunnelBytes].map(Key::Other));
        }
        let by_cache = [FigureId::Caches, FigureId::Protocols];
        if self.sweeps && by_cache.iter().any(|figure| self.figures.contains(figure)) {
            keys.extend(
                self.cache_sizes()
                    .into_iter()
                    .map(|size| self.max_match(&self.sampler, self.period, size)),
            );
        }
        keys
    }

    /// Splits the algorithms so that each part takes about `memory` bytes at most, or has a single
    /// algorithm. Every part reads the whole trace. The first has the reference algorithm and all
    /// figures that observe its matches. What cannot be read twice takes one part: `u64::MAX`.
    pub fn parts(&self, memory: u64) -> Vec<Part> {
        let reference = self.reference();
        let mut parts = vec![Part { keys: BTreeSet::from([reference.clone()]), first: true }];
        let mut taken = vec![self.estimate(&reference)];
        let mut keys: Vec<(u64, Key)> =
            self.keys().into_iter().map(|key| (self.estimate(&key), key)).collect();
        keys.retain(|(_, key)| *key != reference);
        // Runs that need the reference's matches first, then the largest.
        let of_matches =
            |key: &Key| matches!(key, Key::Other(Algorithm::MaxpGzip | Algorithm::MaxpZstd));
        keys.sort_by(|a, b| {
            of_matches(&b.1).cmp(&of_matches(&a.1)).then(b.0.cmp(&a.0)).then(a.1.cmp(&b.1))
        });
        for (bytes, key) in keys {
            let fits = |taken: &u64| taken.saturating_add(bytes) <= memory;
            match taken.iter().position(fits) {
                _ if of_matches(&key) => {
                    parts[0].keys.insert(key);
                }
                Some(part) => {
                    parts[part].keys.insert(key);
                    taken[part] = taken[part].saturating_add(bytes);
                }
                None => {
                    parts.push(Part { keys: BTreeSet::from([key]), first: false });
                    taken.push(bytes);
                }
            }
        }
        parts
    }

    /// Approximate final memory of a run in bytes, without the shared logs.
    fn estimate(&self, key: &Key) -> u64 {
        let per_direction = |cache: u64, of: &dyn Fn(u64) -> f64| -> u64 {
            let sizes = self.sizes(cache);
            let used = Direction::ALL.into_iter().filter(|&direction| {
                self.survey
                    .map_or(direction == Direction::All, |survey| survey.payload(direction) > 0)
            });
            used.map(|direction| of(sizes.of(direction)) as u64).sum()
        };
        match key {
            Key::MaxMatch { sampler, period, cache } => {
                let rate = SamplerKind::named(sampler)
                    .map_or(*period as f64, |sampler| sampler.expected_rate(*period));
                per_direction(*cache, &|cache| cache as f64 / rate * 8.0)
            }
            Key::Other(Algorithm::Optimal) => per_direction(
                self.cache,
                &|cache| if cache < self.cache { 3.0 } else { 9.0 } * cache as f64,
            ),
            Key::Other(Algorithm::Packets | Algorithm::TunnelBytes) => {
                per_direction(self.cache, &|cache| 1.25 * cache as f64)
            }
            Key::Other(Algorithm::Tunnel) => {
                per_direction(self.cache, &|cache| 1.35 * cache as f64)
            }
            Key::Other(Algorithm::Chunk | Algorithm::ChunkWindow) => {
                per_direction(self.cache, &|cache| {
                    cache as f64 / self.period as f64 * 2.0 * 64.0 / 3.0
                })
            }
            Key::Other(Algorithm::Payload | Algorithm::PayloadGzip) => {
                per_direction(self.cache, &|cache| 1.2 * cache as f64)
            }
            Key::Other(Algorithm::Pairs) => {
                self.pair_memory.min(2 * self.survey.map_or(u64::MAX / 2, |survey| survey.total()))
            }
            Key::Other(_) => 1 << 20,
        }
    }

    /// The reach of the shared logs in bytes.
    pub(super) fn longest_reach(&self, keys: &BTreeSet<Key>, first: bool) -> u64 {
        let of_runs = keys
            .iter()
            .map(|key| if let Key::MaxMatch { cache, .. } = key { *cache } else { 0 })
            .max();
        let hosts =
            if first && self.figures.contains(&FigureId::Hosts) { self.fit(SHARED) } else { 0 };
        of_runs.unwrap_or(0).max(hosts)
    }

    /// The shared cache of figure 12: without a shim, as those of pairs, so that only the caches
    /// differ.
    fn shared_params(&self) -> MaxMatchParams {
        let charge = Charge { per_packet: 0, ..self.charge() };
        let params = self.params(SamplerKind::sample_byte(), self.period, self.fit(SHARED));
        MaxMatchParams { charge, ..params }
    }

    fn params(&self, sampler: SamplerKind, period: usize, cache: u64) -> MaxMatchParams {
        MaxMatchParams {
            sampler,
            window: self.window,
            period,
            sizes: self.sizes(cache),
            charge: self.charge(),
        }
    }

    /// Caches per host pair, which may take so many bytes together.
    fn pairs(&self, sampler: SamplerKind, limits: PairLimits, memory: u64) -> PairRun {
        let charge = Charge { per_match: 4, per_packet: 0 };
        let (window, period) = (self.window, self.period);
        PairRun::new(PairParams { sampler, window, period, charge, limits, memory })
    }

    /// Figure 12. Its runs share the memory of caches per host pair.
    pub(super) fn hosts(&self, memory: u64) -> Hosts {
        let others = match self.sweeps {
            true => vec![SamplerKind::Modp(Modp::default()), SamplerKind::Maxp, SamplerKind::Fixed],
            false => Vec::new(),
        };
        let each = self.pair_memory / (others.len() as u64 + 2);
        let sample_byte = |limits| self.pairs(SamplerKind::sample_byte(), limits, each);
        let others = others.into_iter().map(|sampler| {
            let name = sampler.name();
            (name, self.pairs(sampler, PairLimits::Fixed(sweep::LARGEST), each))
        });
        let beside = self.sweeps.then(|| {
            let (coder, flow) = (Coder::Deflate, Grouping::Flow);
            let gzip = WindowRun::new(coder, flow, Source::Payload, self.compression_window);
            sweep::OtherRuns::new(gzip, self.window, self.period, self.figure_memory / 4)
        });
        Hosts::new(
            sample_byte(PairLimits::ByService),
            self.shared_params(),
            sample_byte(PairLimits::Fixed(sweep::LARGEST)),
            others.collect(),
            beside,
            memory,
        )
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
        let window = |coder, grouping, source| {
            Box::new(WindowRun::new(coder, grouping, source, self.compression_window))
        };
        let chunk = |form, sampler| {
            Box::new(ChunkRun::new(form, sampler, self.window, self.period, cache, charge))
        };
        match *key {
            Key::MaxMatch { sampler, period, cache } => {
                Box::new(self.max_match_run(sampler, period, cache))
            }
            Key::Other(algorithm) => match algorithm {
                Algorithm::Gzip => window(Coder::Deflate, Grouping::Packet, Source::Payload),
                Algorithm::GzipWindow => {
                    window(Coder::Deflate, Grouping::Direction, Source::Payload)
                }
                Algorithm::GzipFlow => window(Coder::Deflate, Grouping::Flow, Source::Payload),
                Algorithm::ZstdWindow => window(Coder::Zstd, Grouping::Direction, Source::Payload),
                Algorithm::ZstdFlow => window(Coder::Zstd, Grouping::Flow, Source::Payload),
                Algorithm::MaxpGzip => window(Coder::Deflate, Grouping::Direction, Source::Residue),
                Algorithm::MaxpZstd => window(Coder::Zstd, Grouping::Direction, Source::Residue),
                Algorithm::PayloadGzip => window(
                    Coder::Deflate,
                    Grouping::Packet,
                    Source::Names(Box::new(PayloadRun::new(self.cache))),
                ),
                Algorithm::Payload => Box::new(PayloadRun::new(self.cache)),
                Algorithm::Chunk => chunk(ChunkForm::StartsAtMarker, SamplerKind::sample_byte()),
                Algorithm::ChunkWindow => {
                    chunk(ChunkForm::EndsWithWindow, SamplerKind::Modp(Modp::default()))
                }
                Algorithm::Pairs => {
                    let limit = PairLimits::Fixed(crate::algorithm::HTTP_LIMIT);
                    Box::new(self.pairs(SamplerKind::sample_byte(), limit, self.pair_memory))
                }
                Algorithm::Optimal => Box::new(Bound::new(self.window, cache, charge)),
                Algorithm::Packets => Box::new(LinkRun::new(cache, self.figure_memory / 4)),
                Algorithm::Tunnel | Algorithm::TunnelBytes => Box::new(TunnelRun::new(
                    cache,
                    self.compression_window,
                    algorithm == Algorithm::Tunnel,
                    self.figure_memory,
                )),
                Algorithm::Modp
                | Algorithm::Maxp
                | Algorithm::MaxpPublished
                | Algorithm::Fixed
                | Algorithm::SampleByte
                | Algorithm::SampleHash
                | Algorithm::Peaks
                | Algorithm::MaxpQuad
                | Algorithm::Shared => unreachable!("these are Key::MaxMatch"),
            },
        }
    }
}
