//! Martynov's score of encoders (M. Martynov, *Experimental study of protocol-independent
//! redundancy elimination algorithms*, WOSP/SIPEW 2010): which algorithm, cache policy, distance
//! between fingerprints and layer benefits links of all speeds most.
//!
//! Savings alone favor slow encoders, and speed alone favors encoders that find nothing. The score
//! combines both: the [`benefit`] of a configuration for one link, integrated over links from 256
//! kbit/s to the fastest that the encoder can feed ([`value`]), and summed over tests by weight.
//!
//! As in the paper: both algorithms, encoding only, Rabin markers with a window of 32 bytes, an
//! unlimited cache, no entropy stage, buffers of 512 B to 256 KiB with 5 % variance, TCP buffers or
//! IP packets of a trace, the weights. Different from the paper, or not stated there:
//!
//! - The cache is in memory, with its pages touched in advance; the paper's caches are files on a
//!   disk. So writing the cache, and lookups that read it, cost less here.
//! - Savings are computed from bytes actually written (a match is three varints); the paper gives
//!   no encoding. Matches that are adjacent in both unit and cache are merged, in both algorithms.
//! - *original* looks up every special fingerprint outside the previous match, compares, and grows
//!   the hit in both directions. Then all fingerprints of the unit enter the index, so matches
//!   refer to earlier units.
//! - *modified* names chunks by a polynomial modulo 2^61 - 1 over digits of seven bytes, not one of
//!   single bytes: the same names for the same chunks, in less time than the paper's "doubled
//!   arithmetic". The end of a unit ends a chunk (not stated in the paper), and chunks are 32 bytes
//!   or longer. It never reads what it stored. A separate pass, which is not timed, counts chunks
//!   with equal names and different content ([`Options::check`]): each would deliver wrong bytes.
//!   Never use it on a link.
//! - *new only* appends the literals of each unit to the cache.
//! - Time is CPU time of the encoding thread: the median of several runs, with all configurations
//!   in turn. The codec's kernels use vector instructions for markers, fingerprints and
//!   comparisons. Comparing and growing are then cheaper than naming every byte, so the two
//!   algorithms need not rank as in the paper. Vector marker search sees eight bits of the Rabin
//!   fingerprint, so distances above 256 B still examine every 256th position and have a lower Tmax
//!   than 256 B.

mod encoding;
mod present;
mod units;
mod value;

pub use units::{Buffers, Units};
pub use value::{benefit, value};

use cpu_time::ThreadTime;
use encoding::{Counts, Encoding};
use oncewire_codec::ConfigError;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes under one fingerprint (section 3.3).
pub const WINDOW: usize = 32;
/// The slowest link of the paper, in bits per second.
pub const SLOWEST_LINK: f64 = 256e3;
/// The paper's weights of its three benchmarks: the same random file twice, source code trees, web
/// content (section 5).
pub const PAPER_WEIGHTS: [f64; 3] = [0.02, 0.49, 0.49];

/// How repeats are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Max-match: each special fingerprint is looked up, and hits are compared and grown (section
    /// 3).
    Original,
    /// Chunks between special fingerprints are named by a second fingerprint, and equal names are
    /// trusted (section 4).
    Modified,
}

impl Algorithm {
    /// The paper's term.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Original => "original",
            Algorithm::Modified => "modified",
        }
    }
}

/// What enters the cache (section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Write {
    /// All data.
    All,
    /// New data only.
    New,
}

impl Write {
    /// The paper's term.
    pub fn name(self) -> &'static str {
        match self {
            Write::All => "all",
            Write::New => "new",
        }
    }
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Buffers cut from files.
    Buffers,
    /// The bytes of a TCP connection that are read at once.
    Tcp,
    /// A packet.
    Ip,
}

impl Layer {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Buffers => "buffers",
            Layer::Tcp => "TCP",
            Layer::Ip => "IP",
        }
    }
}

/// One way to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// How repeats are found.
    pub algorithm: Algorithm,
    /// What enters the cache.
    pub write: Write,
    /// Expected distance between special fingerprints, bytes.
    pub distance: u32,
    /// What a unit is. For a link, TCP or IP can be chosen; [`Layer::Buffers`] is for files.
    pub layer: Layer,
}

impl std::fmt::Display for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Configuration { algorithm, write, distance, layer } = self;
        write!(f, "{}, {}, {distance} B, {}", algorithm.name(), write.name(), layer.name())
    }
}

/// Content to encode, with the units of one test.
pub struct Test<'a> {
    /// Index of the benchmark.
    pub benchmark: usize,
    /// What its units are.
    pub layer: Layer,
    /// Base size of the units in bytes, if they are [`Layer::Buffers`].
    pub base: Option<usize>,
    /// The units.
    pub units: Box<dyn Units + 'a>,
}

impl<'a> Test<'a> {
    /// The tests of a file set: one for each of the paper's base sizes.
    pub fn of_files(
        benchmark: usize,
        files: &'a [Vec<u8>],
        seed: u64,
    ) -> impl Iterator<Item = Test<'a>> {
        Buffers::paper_sizes().map(move |base| Test {
            benchmark,
            layer: Layer::Buffers,
            base: Some(base),
            units: Box::new(Buffers::new(files, base, seed)),
        })
    }

    /// The test of a capture at a layer.
    pub fn of_capture(benchmark: usize, layer: Layer, units: impl Units + 'a) -> Test<'a> {
        Test { benchmark, layer, base: None, units: Box::new(units) }
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Expected distances, bytes, 1 and up. Default 32 to 2,048 in powers of two.
    pub distances: Vec<u32>,
    /// Runs of each configuration on each test, 1 and up; medians are taken. Default 3.
    pub repeats: usize,
    /// Slowest link, bits per second. Default [`SLOWEST_LINK`].
    pub slowest_link: f64,
    /// Whether collisions of the modified algorithm are counted, in one more pass for each
    /// distance. Default yes.
    pub check: bool,
    /// Most bytes of a test. It bounds the memory: the cache holds all of them, and the index at a
    /// distance of 32 bytes takes as much again; with small units up to 32 bytes for each unit
    /// more. Default 1 GiB.
    pub max_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            distances: (5..=11).map(|power| 1 << power).collect(),
            repeats: 3,
            slowest_link: SLOWEST_LINK,
            check: true,
            max_bytes: 1 << 30,
        }
    }
}

/// Why a score cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// There is nothing to encode.
    #[error("test {test} has no bytes to encode")]
    Empty {
        /// Index of the test.
        test: usize,
    },
    /// A test exceeds the size limit.
    #[error(
        "test {test} has more than {max} bytes, and its cache must hold all of them: use less input or raise the limit"
    )]
    TooLarge {
        /// Index of the test.
        test: usize,
        /// The bound.
        max: u64,
    },
    /// Units were not the same in every pass.
    #[error("test {test} had {then} bytes at first and {now} later: its input changed")]
    Changed {
        /// Index of the test.
        test: usize,
        /// Bytes of the first pass.
        then: u64,
        /// Bytes of a later one.
        now: u64,
    },
    /// Options that cannot work.
    #[error("{0}")]
    Options(&'static str),
    /// A cache or its index cannot be allocated.
    #[error("cache or index: {0}")]
    Memory(#[from] ConfigError),
}

/// The result of one configuration on one test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The configuration.
    pub configuration: Configuration,
    /// Index of the benchmark.
    pub benchmark: usize,
    /// Base size of the units, bytes, if there is one.
    pub base: Option<usize>,
    /// `r`: 1 - encoded bytes / bytes. Negative if encoding adds bytes.
    pub savings: f64,
    /// `Tmax`: bits of input per second of CPU time, the median of the runs.
    pub throughput: f64,
    /// Mean bytes of a unit.
    pub mean_unit: f64,
    /// Chunks of equal names and different content, if they were counted.
    pub collisions: Option<u64>,
}

/// A configuration and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The configuration.
    pub configuration: Configuration,
    /// `S`: the weighted sum of [`value`] over the tests, in Mbit/s. The paper states no unit. Its
    /// Table 1 has 23.51 for the best: an integral in Mbit/s has that size (21 % savings at 100
    /// Mbit/s come to 23.5), a mean benefit or one in bit/s cannot.
    pub score: f64,
    /// The weighted mean of the benefit over links from the slowest to the `Tmax` of the test's
    /// fastest configuration, beyond its own `Tmax` counted as 0, as if it were switched off there.
    /// The ranges are common to all configurations: the mean over its own range would say nothing
    /// of a configuration's speed, since it tends to `-ln(1 - r)`.
    pub mean_benefit: f64,
    /// Weighted mean of the savings.
    pub savings: f64,
    /// Weighted mean of `Tmax`, bits per second.
    pub throughput: f64,
}

/// All measurements and the ranking computed from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Names of the benchmarks.
    pub benchmarks: Vec<String>,
    /// Their weights; they add up to 1.
    pub weights: Vec<f64>,
    /// Slowest link, bits per second.
    pub slowest_link: f64,
    /// Each configuration on each of its tests.
    pub measurements: Vec<Measurement>,
    /// Configurations, the best first.
    pub ranking: Vec<Ranked>,
    /// Most memory of a cache and its index, bytes.
    pub memory: u64,
    /// Chunk names that found no room in the index of a run, at most over all runs.
    pub dropped: u64,
}

/// The paper's weights for three benchmarks, otherwise equal weights. They add up to 1.
pub fn weights(benchmarks: usize) -> Vec<f64> {
    if benchmarks == PAPER_WEIGHTS.len() {
        PAPER_WEIGHTS.to_vec()
    } else {
        vec![1.0 / benchmarks.max(1) as f64; benchmarks]
    }
}

/// Ranks configurations by their score (section 5), the best first. `weights` are those of the
/// benchmarks; a benchmark's is shared evenly by the tests that a configuration has in it.
pub fn rank(measurements: &[Measurement], weights: &[f64], slowest_link: f64) -> Vec<Ranked> {
    // A test is a benchmark with a base size; layers of a capture are not compared test by test,
    // but as configurations.
    let mut fastest: BTreeMap<(usize, Option<usize>), f64> = BTreeMap::new();
    let mut by_configuration: BTreeMap<Configuration, Vec<&Measurement>> = BTreeMap::new();
    for measurement in measurements {
        let fastest = fastest.entry((measurement.benchmark, measurement.base)).or_default();
        *fastest = fastest.max(measurement.throughput);
        by_configuration.entry(measurement.configuration).or_default().push(measurement);
    }
    let mut ranking: Vec<Ranked> = by_configuration
        .into_iter()
        .map(|(configuration, tests)| {
            let mut ranked = Ranked {
                configuration,
                score: 0.0,
                mean_benefit: 0.0,
                savings: 0.0,
                throughput: 0.0,
            };
            for test in &tests {
                let sharers =
                    tests.iter().filter(|other| other.benchmark == test.benchmark).count();
                let weight = weights.get(test.benchmark).copied().unwrap_or(0.0) / sharers as f64;
                let value = value(test.savings, test.throughput, slowest_link);
                let range = fastest[&(test.benchmark, test.base)] - slowest_link;
                ranked.score += weight * value / 1e6;
                ranked.mean_benefit += if range > 0.0 { weight * value / range } else { 0.0 };
                ranked.savings += weight * test.savings;
                ranked.throughput += weight * test.throughput;
            }
            ranked
        })
        .collect();
    ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranking
}

/// Bytes of units that are encoded between two readings of the clock.
const BATCH: usize = 4 << 20;

/// Measures every configuration on every test, and ranks them. `benchmarks` are the names that
/// tests refer to. `progress` is called with the number of runs done and the total.
///
/// # Errors
/// [`ScoreError`].
pub fn score(
    benchmarks: Vec<String>,
    tests: &mut [Test<'_>],
    options: &Options,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Score, ScoreError> {
    if options.repeats == 0 || options.distances.is_empty() || options.distances.contains(&0) {
        return Err(ScoreError::Options(
            "a score needs at least one run and one distance, and distances of at least 1 byte",
        ));
    }
    if options.slowest_link.is_nan() || options.slowest_link <= 0.0 {
        return Err(ScoreError::Options("the slowest link of a score must have a positive rate"));
    }
    if tests.iter().any(|test| test.benchmark >= benchmarks.len()) {
        return Err(ScoreError::Options("a test of a score refers to an unknown benchmark"));
    }
    let sizes = tests
        .iter_mut()
        .enumerate()
        .map(|(i, test)| size(i, test, options.max_bytes))
        .collect::<Result<Vec<_>, _>>()?;
    let choices: Vec<(Algorithm, Write, u32)> = [Algorithm::Original, Algorithm::Modified]
        .into_iter()
        .flat_map(|algorithm| [Write::All, Write::New].map(|write| (algorithm, write)))
        .flat_map(|(algorithm, write)| {
            options.distances.iter().map(move |&distance| (algorithm, write, distance))
        })
        .collect();

    let total = tests.len() * choices.len() * options.repeats;
    let (mut measurements, mut memory, mut dropped, mut done) = (Vec::new(), 0, 0, 0);
    for (i, (test, &(units, bytes))) in tests.iter_mut().zip(&sizes).enumerate() {
        let configuration = |&(algorithm, write, distance): &(_, _, u32)| Configuration {
            algorithm,
            write,
            distance,
            layer: test.layer,
        };
        let configurations: Vec<Configuration> = choices.iter().map(configuration).collect();
        let mut times = vec![Vec::new(); configurations.len()];
        let mut counts = vec![Counts::default(); configurations.len()];
        // In turn, so that a disturbance of the machine affects all alike.
        for _ in 0..options.repeats {
            for ((configuration, times), counts) in
                configurations.iter().zip(&mut times).zip(&mut counts)
            {
                let mut encoding = Encoding::new(*configuration, bytes, units, false)?;
                times.push(run(i, &mut *test.units, bytes, &mut encoding)?);
                *counts = encoding.counts();
                memory = memory.max(encoding.memory());
                dropped = dropped.max(counts.dropped);
                done += 1;
                progress(done, total);
            }
        }
        for ((configuration, mut times), counts) in
            configurations.into_iter().zip(times).zip(counts)
        {
            let checked = options.check
                && configuration.algorithm == Algorithm::Modified
                && configuration.write == Write::All;
            let collisions = if checked {
                let mut encoding = Encoding::new(configuration, bytes, units, true)?;
                run(i, &mut *test.units, bytes, &mut encoding)?;
                Some(encoding.counts().collisions)
            } else {
                None
            };
            times.sort_unstable();
            // The clock may not have advanced.
            let median = times[times.len() / 2].max(Duration::from_nanos(1));
            measurements.push(Measurement {
                configuration,
                benchmark: test.benchmark,
                base: test.base,
                savings: 1.0 - counts.encoded as f64 / bytes as f64,
                throughput: bytes as f64 * 8.0 / median.as_secs_f64(),
                mean_unit: bytes as f64 / units as f64,
                collisions,
            });
        }
    }
    let weights = weights(benchmarks.len());
    let ranking = rank(&measurements, &weights, options.slowest_link);
    Ok(Score {
        benchmarks,
        weights,
        slowest_link: options.slowest_link,
        measurements,
        ranking,
        memory,
        dropped,
    })
}

/// Units and bytes of a test.
fn size(index: usize, test: &mut Test<'_>, max: u64) -> Result<(u64, u64), ScoreError> {
    let (mut units, mut bytes) = (0, 0u64);
    test.units.rewind();
    while let Some(unit) = test.units.next_unit() {
        units += 1;
        bytes += unit.len() as u64;
        if bytes > max {
            return Err(ScoreError::TooLarge { test: index, max });
        }
    }
    if bytes == 0 { Err(ScoreError::Empty { test: index }) } else { Ok((units, bytes)) }
}

/// Encodes all units. Returns the CPU time of encoding alone.
fn run(
    index: usize,
    units: &mut dyn Units,
    bytes: u64,
    encoding: &mut Encoding,
) -> Result<Duration, ScoreError> {
    let (mut batch, mut ends) = (Vec::with_capacity(BATCH), Vec::new());
    let (mut time, mut read, mut more) = (Duration::ZERO, 0, true);
    units.rewind();
    while more {
        batch.clear();
        ends.clear();
        // Reading a capture is not part of encoding it.
        while more && batch.len() < BATCH {
            match units.next_unit() {
                Some(unit) => {
                    batch.extend_from_slice(unit);
                    ends.push(batch.len());
                }
                None => more = false,
            }
        }
        read += batch.len() as u64;
        // More would leave the cache.
        if read > bytes || !more && read != bytes {
            return Err(ScoreError::Changed { test: index, then: bytes, now: read });
        }
        let clock = ThreadTime::now();
        let mut start = 0;
        for &end in &ends {
            std::hint::black_box(encoding.encode(&batch[start..end]));
            start = end;
        }
        time += clock.elapsed();
    }
    Ok(time)
}

#[cfg(test)]
mod tests;
