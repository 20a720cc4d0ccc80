//! Martynov's score of encoders (M. Martynov, *Experimental study of protocol-independent redundancy elimination algorithms*,
//! WOSP/SIPEW 2010): which algorithm, cache policy, distance between fingerprints and layer gives links of all speeds the most.
//!
//! Savings alone favour slow encoders, and speed alone those that find nothing. The score joins the two: [`benefit`] of a configuration for
//! one link, integrated over links from 256 kbit/s to the fastest that the encoder can feed ([`value`]), and summed over tests by weight.
//!
//! What is as in the paper: both algorithms, encoding only, Rabin markers with a window of 32 bytes, an unlimited cache, no entropy
//! stage, buffers of 512 B to 256 KiB with 5 % variance, TCP buffers or IP packets of a trace, the weights. What is not, or is not stated there:
//!
//! - The cache is memory, its pages touched before; the paper's are files on a disk. So storing costs less here, and a look-up that
//!   reads the cache too.
//! - What is saved is counted on bytes really written (the form is that of a match as three varints); the paper gives no form. Matches that
//!   follow each other in unit and cache are one, in both algorithms.
//! - *original* looks every special fingerprint up outside the match before, compares, and grows the hit both ways; then all of the unit's
//!   enter the index. So matches refer to earlier units.
//! - *modified* names chunks by a polynomial modulo 2^61 - 1 over digits of seven bytes, not one of single bytes: the same names for
//!   the same chunks, in less time than the paper's "doubled arithmetic". The end of a unit ends a chunk (the paper is silent), and chunks
//!   are 32 bytes or longer. It never reads what it stored. Chunks of equal names and different content are counted by a separate pass that is not timed
//!   ([`Options::check`]): each would be wrong bytes at the other end. The codec's [`oncewire_codec::chunk`] is what to use on a link.
//! - *new only* puts the literals of each unit in the cache, one run after another.
//! - Time is CPU time of the encoding thread, the median of several runs, all configurations in turn. Vector instructions are used
//!   where the codec's kernels have them: for markers, fingerprints and comparisons. Comparing and growing are then cheaper than
//!   naming every byte, so the paper's order of the two algorithms need not come out. Where markers are found by vectors, those see
//!   eight bits of the Rabin fingerprint: distances above 256 B pay for a look at every 256th position, and have a lower Tmax than 256 B.

mod encoding;
mod units;
mod value;

pub use units::{Buffers, Units};
pub use value::{benefit, value};

use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use cpu_time::ThreadTime;
use encoding::{Counts, Encoding};
use oncewire_codec::ConfigError;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes under one fingerprint (section 3.3).
pub const WINDOW: usize = 32;
/// The slowest link of the paper, bits per second.
pub const SLOWEST_LINK: f64 = 256e3;
/// The paper's weights of three benchmarks: twice the same random file, trees of source code, web content (section 5).
pub const PAPER_WEIGHTS: [f64; 3] = [0.02, 0.49, 0.49];

/// How repeats are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Max-match: each special fingerprint is looked up, and hits are compared and grown (section 3).
    Original,
    /// Chunks between special fingerprints are named by a second fingerprint, and hits are believed (section 4).
    Modified,
}

impl Algorithm {
    /// The paper's word.
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
    /// The paper's word.
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
    /// What of a TCP connection is read at once.
    Tcp,
    /// A packet.
    Ip,
}

impl Layer {
    /// In words.
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
    /// What a unit is. A choice for a link; [`Layer::Buffers`] is none.
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
    /// Which of the benchmarks this belongs to: an index.
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
    pub fn of_files(benchmark: usize, files: &'a [Vec<u8>], seed: u64) -> impl Iterator<Item = Test<'a>> {
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
    /// Whether collisions of the modified algorithm are counted, in one more pass for each distance. Default yes.
    pub check: bool,
    /// Most bytes of a test. It bounds the memory: the cache holds all of them, and the index at a distance of 32 bytes takes as much
    /// again; with small units up to 32 bytes for each unit more. Default 1 GiB.
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

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// There is nothing to encode.
    #[error("test {test} has no bytes to encode")]
    Empty {
        /// Index of the test.
        test: usize,
    },
    /// A test is larger than allowed.
    #[error("test {test} has more than {max} bytes; its cache must hold all of them: take less, or allow more")]
    TooLarge {
        /// Index of the test.
        test: usize,
        /// The bound.
        max: u64,
    },
    /// Units were not the same in every pass.
    #[error("test {test} had {then} bytes at first and {now} later: its input changes")]
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
    /// No memory for a cache or its index.
    #[error("cache or index: {0}")]
    Memory(#[from] ConfigError),
}

/// What one configuration came to on one test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The configuration.
    pub configuration: Configuration,
    /// Index of the benchmark.
    pub benchmark: usize,
    /// Base size of the units, bytes, if there is one.
    pub base: Option<usize>,
    /// `r`: 1 - encoded bytes / bytes. Below 0 if encoding adds some.
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
    /// `S`: the weighted sum of [`value`] over the tests, in Mbit/s. The paper states no unit. Its Table 1 has 23.51 for the best: an
    /// integral in Mbit/s has that size (21 % savings at 100 Mbit/s come to 23.5), a mean benefit or one in bit/s cannot.
    pub score: f64,
    /// The weighted mean of the benefit over links from the slowest to the `Tmax` of the test's fastest configuration, beyond its
    /// own `Tmax` counted as 0, as if it were switched off there. The ranges are common to all configurations: the mean over its own range would say
    /// nothing of a configuration's speed, since it tends to `-ln(1 - r)`.
    pub mean_benefit: f64,
    /// Weighted mean of the savings.
    pub savings: f64,
    /// Weighted mean of `Tmax`, bits per second.
    pub throughput: f64,
}

/// All measurements and what follows from them.
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

/// The paper's weights if there are three benchmarks, else equal ones. They add up to 1.
pub fn weights(benchmarks: usize) -> Vec<f64> {
    if benchmarks == PAPER_WEIGHTS.len() { PAPER_WEIGHTS.to_vec() } else { vec![1.0 / benchmarks.max(1) as f64; benchmarks] }
}

/// Ranks configurations by their score (section 5), the best first. `weights` are those of the benchmarks; a benchmark's is shared evenly
/// by the tests that a configuration has in it.
pub fn rank(measurements: &[Measurement], weights: &[f64], slowest_link: f64) -> Vec<Ranked> {
    // A test is a benchmark with a base size; layers of a capture are not compared test by test, but as configurations.
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
            let mut ranked = Ranked { configuration, score: 0.0, mean_benefit: 0.0, savings: 0.0, throughput: 0.0 };
            for test in &tests {
                let sharers = tests.iter().filter(|other| other.benchmark == test.benchmark).count();
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

/// Bytes of units that are encoded between two looks at the clock.
const BATCH: usize = 4 << 20;

/// Measures every configuration on every test, and ranks them. `benchmarks` are the names that tests refer to. `progress` is told how many
/// runs of how many are done.
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
        return Err(ScoreError::Options("a score takes one run and one distance at least, and distances of 1 byte and more"));
    }
    if options.slowest_link.is_nan() || options.slowest_link <= 0.0 {
        return Err(ScoreError::Options("the slowest link of a score has a rate above 0"));
    }
    if tests.iter().any(|test| test.benchmark >= benchmarks.len()) {
        return Err(ScoreError::Options("a test of a score refers to a benchmark that is not there"));
    }
    let sizes = tests.iter_mut().enumerate().map(|(i, test)| size(i, test, options.max_bytes)).collect::<Result<Vec<_>, _>>()?;
    let choices: Vec<(Algorithm, Write, u32)> = [Algorithm::Original, Algorithm::Modified]
        .into_iter()
        .flat_map(|algorithm| [Write::All, Write::New].map(|write| (algorithm, write)))
        .flat_map(|(algorithm, write)| options.distances.iter().map(move |&distance| (algorithm, write, distance)))
        .collect();

    let total = tests.len() * choices.len() * options.repeats;
    let (mut measurements, mut memory, mut dropped, mut done) = (Vec::new(), 0, 0, 0);
    for (i, (test, &(units, bytes))) in tests.iter_mut().zip(&sizes).enumerate() {
        let configuration =
            |&(algorithm, write, distance): &(_, _, u32)| Configuration { algorithm, write, distance, layer: test.layer };
        let configurations: Vec<Configuration> = choices.iter().map(configuration).collect();
        let mut times = vec![Vec::new(); configurations.len()];
        let mut counts = vec![Counts::default(); configurations.len()];
        // In turn, so that a disturbance of the machine meets all alike.
        for _ in 0..options.repeats {
            for ((configuration, times), counts) in configurations.iter().zip(&mut times).zip(&mut counts) {
                let mut encoding = Encoding::new(*configuration, bytes, units, false)?;
                times.push(run(i, &mut *test.units, bytes, &mut encoding)?);
                *counts = encoding.counts();
                memory = memory.max(encoding.memory());
                dropped = dropped.max(counts.dropped);
                done += 1;
                progress(done, total);
            }
        }
        for ((configuration, mut times), counts) in configurations.into_iter().zip(times).zip(counts) {
            let checked = options.check && configuration.algorithm == Algorithm::Modified && configuration.write == Write::All;
            let collisions = if checked {
                let mut encoding = Encoding::new(configuration, bytes, units, true)?;
                run(i, &mut *test.units, bytes, &mut encoding)?;
                Some(encoding.counts().collisions)
            } else {
                None
            };
            times.sort_unstable();
            // Clocks have steps.
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
    Ok(Score { benchmarks, weights, slowest_link: options.slowest_link, measurements, ranking, memory, dropped })
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

/// Encodes all units; CPU time of the encoding alone.
fn run(index: usize, units: &mut dyn Units, bytes: u64, encoding: &mut Encoding) -> Result<Duration, ScoreError> {
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

impl Score {
    /// The score as a figure, outside the numbering of the study's: 0.
    pub fn figure(&self) -> Figure {
        let mut figure = Figure {
            number: 0,
            id: "score",
            title: "Score of encoder configurations",
            source: "Martynov, section 5 and Table 1",
            definition: format!(
                "Score: the benefit (min(Tmax, w / (1 - r)) - w) / w integrated over links w from {} to Tmax, in Mbit/s, summed over the tests by \
                 weight. r: savings, 1 - encoded bytes / bytes, all descriptors counted, no entropy stage. Tmax: bits per second of CPU \
                 time, encoding only, cache in memory. Mean benefit: the same integral divided by the range from the slowest link to the \
                 fastest configuration's Tmax; 1 is twice the throughput.",
                rate(self.slowest_link)
            ),
            finding: String::new(),
            tables: vec![self.ranking_table(), self.measurement_table()],
            charts: self.charts(),
            notes: vec![
                "The unit of the scores in the paper's Table 1 is not stated; theirs have the size of an integral in Mbit/s. Scores of \
                 different machines cannot be compared: they are in proportion to the speed."
                    .to_owned(),
            ],
            memory: self.memory,
        };
        if let Some(best) = self.ranking.first() {
            let Ranked { configuration, score, savings, throughput, .. } = best;
            figure.finding = format!(
                "The best is {configuration}: score {score:.1}, with {:.1} % savings at {}.",
                savings * 100.0,
                rate(*throughput)
            );
            if let Some(other) = self.ranking.iter().find(|other| other.configuration.algorithm != configuration.algorithm) {
                figure.finding += &format!(
                    " The best of the {} algorithm, {}, has {:.1}.",
                    other.configuration.algorithm.name(),
                    other.configuration,
                    other.score
                );
            }
        }
        let checked: Vec<u64> = self.measurements.iter().filter_map(|measurement| measurement.collisions).collect();
        if !checked.is_empty() {
            figure.notes.push(format!(
                "The modified algorithm believes its fingerprints. A check of {} passes found {} chunks of equal names and different content.",
                checked.len(),
                checked.iter().sum::<u64>()
            ));
        }
        if self.dropped > 0 {
            figure
                .notes
                .push(format!("In one run {} chunks found no room in the index of the modified algorithm.", self.dropped));
        }
        figure
    }

    fn ranking_table(&self) -> Table {
        let columns = [
            ("rank", Unit::Count),
            ("algorithm", Unit::Text),
            ("write", Unit::Text),
            ("distance", Unit::Bytes),
            ("layer", Unit::Text),
            ("score", Unit::Number),
            ("mean benefit", Unit::Number),
            ("savings", Unit::Share),
            ("Tmax", Unit::BitsPerSecond),
        ];
        let rows = self.ranking.iter().zip(1u64..).map(|(ranked, rank)| {
            let Ranked { configuration: Configuration { algorithm, write, distance, layer }, .. } = *ranked;
            vec![
                Cell::from(rank),
                algorithm.name().into(),
                write.name().into(),
                u64::from(distance).into(),
                layer.name().into(),
                ranked.score.into(),
                ranked.mean_benefit.into(),
                ranked.savings.into(),
                ranked.throughput.into(),
            ]
        });
        let weights: Vec<String> =
            self.benchmarks.iter().zip(&self.weights).map(|(name, weight)| format!("{name} {:.0} %", weight * 100.0)).collect();
        Table {
            id: "ranking",
            caption: format!(
                "Configurations by score in Mbit/s; savings and Tmax are means over the tests. Weights: {}.",
                weights.join(", ")
            ),
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            rows: rows.collect(),
        }
    }

    fn measurement_table(&self) -> Table {
        let columns = [
            ("benchmark", Unit::Text),
            ("base size", Unit::Bytes),
            ("algorithm", Unit::Text),
            ("write", Unit::Text),
            ("distance", Unit::Bytes),
            ("layer", Unit::Text),
            ("mean unit", Unit::Bytes),
            ("savings", Unit::Share),
            ("Tmax", Unit::BitsPerSecond),
            ("value", Unit::Number),
            ("collisions", Unit::Count),
        ];
        let rows = self.measurements.iter().map(|measurement| {
            let Measurement { configuration: Configuration { algorithm, write, distance, layer }, savings, throughput, .. } =
                *measurement;
            vec![
                Cell::from(&self.benchmarks[measurement.benchmark][..]),
                measurement.base.map(|base| base as u64).into(),
                algorithm.name().into(),
                write.name().into(),
                u64::from(distance).into(),
                layer.name().into(),
                measurement.mean_unit.into(),
                savings.into(),
                throughput.into(),
                (value(savings, throughput, self.slowest_link) / 1e6).into(),
                measurement.collisions.into(),
            ]
        });
        Table {
            id: "tests",
            caption: "Each configuration on each test; value in Mbit/s.".to_owned(),
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            rows: rows.collect(),
        }
    }

    fn charts(&self) -> Vec<Chart> {
        let distance = || Axis::log("expected distance between fingerprints", Unit::Bytes);
        let over_distance = |of: &dyn Fn(&Ranked) -> f64| {
            let mut lines: BTreeMap<(Layer, Algorithm, Write), Vec<(f64, f64)>> = BTreeMap::new();
            for ranked in &self.ranking {
                let Configuration { algorithm, write, distance, layer } = ranked.configuration;
                lines.entry((layer, algorithm, write)).or_default().push((f64::from(distance), of(ranked)));
            }
            let series = lines.into_iter().map(|((layer, algorithm, write), mut points)| {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Series::new(format!("{}, {}, {}", algorithm.name(), write.name(), layer.name()), points)
            });
            series.collect::<Vec<_>>()
        };
        let chart = |id, caption: &str, x, y, series| Chart {
            id,
            caption: caption.to_owned(),
            kind: ChartKind::Line,
            x,
            y,
            right: None,
            series,
        };
        let mut charts = vec![
            chart(
                "score",
                "Score by distance.",
                distance(),
                Axis::new("score, Mbit/s", Unit::Number),
                over_distance(&|ranked| ranked.score),
            ),
            chart(
                "savings",
                "Savings by distance.",
                distance(),
                Axis::new("savings", Unit::Share),
                over_distance(&|ranked| ranked.savings),
            ),
            chart(
                "throughput",
                "Throughput by distance.",
                distance(),
                Axis::new("Tmax", Unit::BitsPerSecond),
                over_distance(&|ranked| ranked.throughput),
            ),
        ];
        // How the best of each algorithm do on each link: from the means of their tests.
        let mut best: Vec<&Ranked> = Vec::new();
        for ranked in &self.ranking {
            if !best.iter().any(|other| other.configuration.algorithm == ranked.configuration.algorithm) {
                best.push(ranked);
            }
        }
        let series = best.into_iter().filter(|ranked| ranked.throughput > self.slowest_link).map(|ranked| {
            let ratio = ranked.throughput / self.slowest_link;
            let links = (0..=100).map(|step| self.slowest_link * ratio.powf(f64::from(step) / 100.0));
            let points = links.map(|link| (link, benefit(ranked.savings, ranked.throughput, link)));
            Series::new(ranked.configuration.to_string(), points.collect())
        });
        charts.push(chart(
            "benefit",
            "Benefit for a link, of the best configuration of each algorithm, by its mean savings and throughput.",
            Axis::log("link", Unit::BitsPerSecond),
            Axis::new("benefit", Unit::Number),
            series.collect(),
        ));
        charts.push(self.sizes_chart());
        charts
    }

    /// Savings and throughput of the best configuration by unit size (the paper's Figures 2 and 3).
    fn sizes_chart(&self) -> Chart {
        let mut series = Vec::new();
        if let Some(best) = self.ranking.first() {
            for (benchmark, name) in self.benchmarks.iter().enumerate() {
                let of = |value: &dyn Fn(&Measurement) -> f64| {
                    let tests = self
                        .measurements
                        .iter()
                        .filter(|test| test.benchmark == benchmark && test.configuration == best.configuration);
                    let mut points: Vec<_> = tests.filter_map(|test| Some((test.base? as f64, value(test)))).collect();
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    points
                };
                series.push(Series::new(format!("savings, {name}"), of(&|test| test.savings)));
                series.push(Series { right: true, ..Series::new(format!("Tmax, {name}"), of(&|test| test.throughput)) });
            }
            series.retain(|series| !series.points.is_empty());
        }
        Chart {
            id: "sizes",
            caption: "The best configuration by base size of its buffers.".to_owned(),
            kind: ChartKind::Line,
            x: Axis::log("base size", Unit::Bytes),
            y: Axis::new("savings", Unit::Share),
            right: Some(Axis::new("Tmax", Unit::BitsPerSecond)),
            series,
        }
    }
}

/// A rate for a sentence.
fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} Mbit/s", rate / 1e6),
        rate => format!("{:.0} kbit/s", rate / 1e3),
    }
}

#[cfg(test)]
mod tests;
