//! Selects the settings and rivals to measure.

use super::Figures;
use super::candidate::Candidate;
use super::family::{Modified, Payload};
use super::ours::Oncewire;
use super::rivals::{CopyAndChecksum, Gzip, Lz4, Zstd};
use crate::args::{BenchArgs, MatcherName, Switch};
use crate::defaults::{BENCH_CACHE, PACKET};
use crate::failure::{Failure, Outcome};
use crate::family::{EntropyName, SamplerName, TableName, policy_name};
use crate::setup;
use oncewire_codec::sampler::Sampling;
use oncewire_codec::{CachePolicy, Decoder, Encoder, Entropy, Kernels};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind};
use oncewire_flash::IndexSearch;

/// A candidate to measure.
pub(super) struct Plan {
    pub(super) block: usize,
    pub(super) make: Box<dyn Fn() -> Outcome<Box<dyn Candidate>>>,
    pub(super) figures: Figures,
}

/// One of our settings.
#[derive(Clone)]
struct Setting {
    block: usize,
    cache: u64,
    sampler: SamplerName,
    kind: SamplerKind,
    matcher: MatcherName,
    window: usize,
    period: usize,
    table: TableName,
    policy: CachePolicy,
    max_fingerprints: usize,
    max_matches: usize,
    entropy: Entropy,
    inside: Switch,
}

impl Setting {
    /// Omits defaults.
    fn name(&self) -> String {
        let mut name = match self.matcher {
            MatcherName::Max => format!("oncewire {}", self.sampler),
            MatcherName::Published => format!("published {}", self.sampler),
            MatcherName::Chunk => format!("chunk {}", self.sampler),
            MatcherName::ChunkMartynov => format!("chunk-martynov {}", self.sampler),
            // The rolling fingerprint is also its sampler.
            MatcherName::Modified => {
                return format!("modified (forgeable) p={} w={} none", self.period, self.window);
            }
            MatcherName::Payload => return "payload-match, whole blocks".into(),
        };
        name += &format!(" p={} w={} {}", self.period, self.window, self.entropy);
        if self.table != TableName::COMPACT {
            name += &format!(" {}", self.table);
        }
        if self.policy != CachePolicy::All {
            name += &format!(" {}", policy_name(self.policy));
        }
        if self.max_fingerprints > 0 {
            name += &format!(" F={}", self.max_fingerprints);
        }
        if self.max_matches > 0 {
            name += &format!(" k={}", self.max_matches);
        }
        if self.inside == Switch::Off {
            name += " inside off";
        }
        name
    }

    /// Resets parameters that the matcher does not use to their defaults, so that settings that
    /// differ in nothing else are measured once.
    fn reduced(mut self) -> Setting {
        let encoder = !matches!(self.matcher, MatcherName::Modified | MatcherName::Payload);
        if !matches!(self.matcher, MatcherName::Max | MatcherName::Published) {
            (self.table, self.policy) = (TableName::COMPACT, CachePolicy::All);
        }
        if self.matcher != MatcherName::Published {
            self.max_fingerprints = 0;
        }
        if !encoder {
            (self.max_matches, self.entropy) = (0, Entropy::None);
        }
        let opens = matches!(self.matcher, MatcherName::Max | MatcherName::Published)
            && matches!(self.entropy, Entropy::Coded { .. })
            && self.policy == CachePolicy::All;
        if !opens {
            self.inside = Switch::On;
        }
        self
    }

    fn plan(self, kernels: Kernels, table_entries: Option<u64>) -> Outcome<Plan> {
        let figures = Figures::new(self.name(), self.block, Some(self.window), Some(self.cache));
        let (block, cache, window, period) = (self.block, self.cache, self.window, self.period);
        // Also for candidates without our decoder: blocks and caches must be valid for all.
        let decoder = Decoder::builder()
            .cache(self.cache)
            .max_block(self.block)
            .policy(self.policy)
            .kernels(kernels);
        decoder.clone().build().map_err(setup::config_failure)?;
        let matcher = match self.matcher {
            MatcherName::Payload => {
                Payload::new(cache)?;
                return Ok(Plan {
                    block,
                    make: Box::new(move || Ok(Box::new(Payload::new(cache)?))),
                    figures,
                });
            }
            MatcherName::Modified => {
                Modified::new(cache, window, period, table_entries)?;
                let make = move || {
                    Ok(Box::new(Modified::new(cache, window, period, table_entries)?)
                        as Box<dyn Candidate>)
                };
                return Ok(Plan { block, make: Box::new(make), figures });
            }
            MatcherName::Max => MatcherKind::MaxMatch,
            MatcherName::Published => MatcherKind::Published {
                max_fingerprints: Some(self.max_fingerprints).filter(|&most| most > 0),
            },
            MatcherName::Chunk => MatcherKind::ChunkMatch { form: ChunkForm::StartsAtMarker },
            MatcherName::ChunkMartynov => {
                MatcherKind::ChunkMatch { form: ChunkForm::EndsWithWindow }
            }
        };
        let mut encoder = Encoder::builder()
            .cache(self.cache)
            .max_block(self.block)
            .window(self.window)
            .period(self.period)
            .sampler(self.kind.clone())
            .policy(self.policy)
            .entropy(self.entropy)
            .inside(self.inside == Switch::On)
            .kernels(kernels);
        let mut on_flash = None;
        encoder = match self.table {
            TableName::Memory(table) => encoder.search(FamilySearch::new(matcher).table(table)),
            TableName::Flash { memory, directory } => {
                if matcher != MatcherKind::MaxMatch {
                    return Err(Failure::usage("--tables flash: only with --matchers max"));
                }
                let search = on_flash.insert(IndexSearch::new(directory, memory));
                encoder.search(search.clone())
            }
        };
        if self.max_matches > 0 {
            encoder = encoder.max_matches(self.max_matches);
        }
        if let Some(entries) = table_entries {
            encoder = encoder.table_entries(entries);
        }
        // Report invalid parameters before hours of measuring. Building commits no memory.
        encoder.clone().build().map_err(setup::config_failure)?;
        Ok(Plan {
            block,
            make: Box::new(move || {
                let (encoder, decoder) = (encoder.clone(), decoder.clone());
                Ok(Box::new(Oncewire::new(encoder, decoder, on_flash.clone())?))
            }),
            figures,
        })
    }
}

/// All requested combinations, then the rivals, per block size.
pub(super) fn plans(args: &BenchArgs, kernels: Kernels, data: &[u8]) -> Outcome<Vec<Plan>> {
    let total = data.len() as u64;
    let blocks = if args.packets { vec![PACKET as u64] } else { args.block.clone() };
    // Room for all data and for the block being written, so that the repeat of a block does not
    // just miss its first copy.
    let caches = match &args.cache[..] {
        [] => vec![(total + total / 64 + (1 << 20)).clamp(BENCH_CACHE.start, BENCH_CACHE.end)],
        caches => caches.to_vec(),
    };
    let stages = stages(args)?;
    let samplers: Vec<(SamplerName, SamplerKind)> = args
        .samplers
        .iter()
        .map(|name| Ok((name.clone(), name.kind()?)))
        .collect::<Outcome<_>>()?;
    let mut plans = Vec::new();
    for &block in &blocks {
        let block = usize::try_from(block).unwrap_or(usize::MAX);
        for &cache in &caches {
            let mut names = Vec::new();
            for setting in settings(args, kernels, data, block, cache, &samplers, &stages)?
                .into_iter()
                .map(Setting::reduced)
            {
                let name = setting.name();
                if !names.contains(&name) {
                    plans.push(setting.plan(kernels, args.table_entries)?);
                    names.push(name);
                }
            }
        }
        if !args.no_rivals {
            rivals(&mut plans, block, total * u64::from(args.passes));
        }
    }
    Ok(plans)
}

/// The requested entropy stages. `--level` applies to those that have levels.
fn stages(args: &BenchArgs) -> Outcome<Vec<Entropy>> {
    let coded = args.entropy.iter().any(|name| matches!(name, EntropyName::Coded(_)));
    let level = |name| args.level.filter(|_| !coded || matches!(name, EntropyName::Coded(_)));
    args.entropy.iter().map(|&name| name.stage(level(name)).map_err(Failure::usage)).collect()
}

/// Every combination for one block size and cache.
fn settings(
    args: &BenchArgs,
    kernels: Kernels,
    data: &[u8],
    block: usize,
    cache: u64,
    samplers: &[(SamplerName, SamplerKind)],
    stages: &[Entropy],
) -> Outcome<Vec<Setting>> {
    let mut settings = Vec::new();
    for &matcher in &args.matchers {
        for (sampler, kind) in samplers {
            for &window in &args.windows {
                let periods = match &args.rates[..] {
                    [] => args.periods.clone(),
                    rates => rates
                        .iter()
                        .map(|&rate| period_for(kind, kernels, data, block, window, rate))
                        .collect::<Outcome<_>>()?,
                };
                for period in periods {
                    for &entropy in stages {
                        for table in &args.tables {
                            for &policy in &args.policies {
                                for &max_fingerprints in &args.max_fingerprints {
                                    for (&max_matches, &inside) in
                                        pairs(&args.max_matches, &args.inside)
                                    {
                                        settings.push(Setting {
                                            block,
                                            cache,
                                            sampler: sampler.clone(),
                                            kind: kind.clone(),
                                            matcher,
                                            window,
                                            period,
                                            table: table.clone(),
                                            policy,
                                            max_fingerprints,
                                            max_matches,
                                            entropy,
                                            inside,
                                        });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(settings)
}

/// Every combination of two.
fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first.iter().flat_map(move |one| second.iter().map(move |other| (one, other)))
}

/// Content on which the achieved rate is measured, in bytes.
const RATE_SAMPLE: usize = 8 << 20;

/// The sampling period at which the sampler's achieved bytes per fingerprint come closest to `rate`
/// on this data, matches ignored.
fn period_for(
    kind: &SamplerKind,
    kernels: Kernels,
    data: &[u8],
    block: usize,
    window: usize,
    rate: f64,
) -> Outcome<usize> {
    if !(2.0..=2048.0).contains(&rate) {
        return Err(Failure::usage(format!(
            "a rate of {rate} bytes per fingerprint is out of range: use 2 to 2048"
        )));
    }
    let sampler = kind.boxed();
    let sample = &data[..data.len().min(RATE_SAMPLE)];
    let mut markers = vec![0; 4096];
    let mut achieved = |period: usize| {
        let mut count = 0;
        for block in sample.chunks(block.max(1)) {
            let mut at = 0;
            loop {
                let found = sampler
                    .sample(Sampling { kernels, block, window, period, from: at }, &mut markers);
                count += found.count;
                at = found.resume;
                if found.count < markers.len() {
                    break;
                }
            }
        }
        sample.len() as f64 / count.max(1) as f64
    };
    // The rate grows with the period, though not strictly.
    let (mut low, mut high) = (4, 1024);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if achieved(middle) < rate { low = middle } else { high = middle }
    }
    let miss = |achieved: f64| (achieved / rate).ln().abs();
    Ok(if miss(achieved(low)) <= miss(achieved(high)) { low } else { high })
}

fn rivals(plans: &mut Vec<Plan>, block: usize, whole: u64) {
    let mut rival = |name: &str, make: Box<dyn Fn() -> Outcome<Box<dyn Candidate>>>| {
        plans.push(Plan {
            block,
            make,
            figures: Figures::new(name.to_string(), block, None, None),
        });
    };
    rival("copy + xxh3 (the floor)", Box::new(|| Ok(Box::new(CopyAndChecksum::default()))));
    rival("lz4 (lz4_flex), each block", Box::new(|| Ok(Box::new(Lz4::default()))));
    rival("zstd -1, stream flushed", Box::new(|| Ok(Box::new(Zstd::flushed(1)?))));
    rival("zstd -3, stream flushed", Box::new(|| Ok(Box::new(Zstd::flushed(3)?))));
    rival("zstd -1 --long=27, file", Box::new(move || Ok(Box::new(Zstd::long(1, 27, whole)?))));
    rival("zstd -1 --long=31, file", Box::new(move || Ok(Box::new(Zstd::long(1, 31, whole)?))));
    rival("zstd -3 --long=31, file", Box::new(move || Ok(Box::new(Zstd::long(3, 31, whole)?))));
    rival("gzip -6 (zlib-rs), file", Box::new(|| Ok(Box::new(Gzip::new(6)))));
}
