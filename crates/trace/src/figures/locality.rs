//! Figure 9: how far back matches reach (thesis, section 2.4, "Redundancy: Temporal View", Figure
//! 2.8).

use super::layout::{add_series, chart, drawn, shares, table};
use super::sampled::Sampled;
use super::tally::{
    self, ByDirection, CHARGED, Histogram, Merge, merge_equal, percentile, savings, share,
};
use super::{Figure, FigureId, Finding, Observer};
use crate::batch::{Direction, View};
use crate::results::{Axis, Cell, Chart, ChartKind, Table, Unit};
use oncewire_report::format::{number, share as percent};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Measures how far back matches reach, in cache and in time, and for how long chunks keep being
/// matched.
#[derive(Debug)]
pub struct Locality {
    counts: ByDirection<Counts>,
    chunks: Sampled<Chunk>,
    histogram: u64,
    /// Size of the cache.
    cache: u64,
}

impl Locality {
    /// A quarter of `memory` (bytes) is for distances: 24 KB per direction. With less, the ages in
    /// charts get coarser, down to 9 KB per direction. The rest is for chunks, about 90 bytes each
    /// including the final computation; if they do not fit, they are sampled.
    pub fn new(memory: u64) -> Locality {
        let chunks = Sampled::new(memory / 4 * 3);
        Locality {
            counts: ByDirection::default(),
            chunks,
            histogram: (memory / 4 / 7).saturating_sub(FIXED),
            cache: 0,
        }
    }
}

/// A chunk that was matched.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// Times of the first and the last match, in nanoseconds since the Unix epoch.
    first: i64,
    last: i64,
    /// Number of matches, and their direction.
    matches: u32,
    direction: Direction,
}

/// The cache is divided into thousandths.
const PARTS: u64 = 1000;

/// Parts of the cache in the table, in thousandths, counted from the most recent.
const RECENT: [u64; 9] = [1, 10, 50, 100, 200, 300, 500, 750, 1000];

/// Times in the table, in seconds.
const TIMES: [u64; 9] = [1, 10, 60, 100, 300, 600, 1000, 3600, 36_000];

/// Bytes of [`Counts`] without its histogram.
const FIXED: u64 = PARTS * 8 + size_of::<Counts>() as u64;

#[derive(Clone, Debug)]
struct Counts {
    /// Savings by distance, in thousandths of the cache.
    distance: Vec<f64>,
    /// Savings by time since the origin, in nanoseconds.
    time: Histogram,
    /// Savings within each of [`TIMES`].
    within: [f64; TIMES.len()],
    /// Savings whose origin is known.
    known: f64,
    saved: f64,
    /// The greatest distance, in bytes.
    farthest: u64,
}

impl Counts {
    fn new(histogram: u64) -> Counts {
        Counts {
            distance: vec![0.0; PARTS as usize],
            time: Histogram::new(1 << 58, 5, histogram),
            within: [0.0; TIMES.len()],
            known: 0.0,
            saved: 0.0,
            farthest: 0,
        }
    }
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        self.distance.iter_mut().zip(&other.distance).for_each(|(mine, theirs)| *mine += theirs);
        self.time.merge(&other.time);
        self.within.iter_mut().zip(&other.within).for_each(|(mine, theirs)| *mine += theirs);
        self.known += other.known;
        self.saved += other.saved;
        self.farthest = self.farthest.max(other.farthest);
    }
}

impl Observer for Locality {
    fn batch(&mut self, view: &View<'_>) {
        self.cache = view.cache;
        for (i, packet) in view.batch.packets().iter().enumerate() {
            if packet.len == 0 {
                continue;
            }
            let counts = self.counts.at(packet.direction, || Counts::new(self.histogram));
            let payload = view.batch.payload(packet);
            for (found, saved) in savings(view, i) {
                let distance = u128::from(view.distance(packet, &found)) * u128::from(PARTS)
                    / u128::from(view.cache.max(1));
                counts.distance[distance.min(u128::from(PARTS - 1)) as usize] += saved;
                counts.saved += saved;
                counts.farthest = counts.farthest.max(view.distance(packet, &found));
                if let Some(origin) = view.origin(packet, &found) {
                    // A packet that seems older than its origin is as old.
                    let time = packet.time.saturating_sub(origin.time).max(0) as u64;
                    counts.time.add(time, saved);
                    counts.known += saved;
                    for (within, seconds) in counts.within.iter_mut().zip(TIMES) {
                        if time <= seconds * 1_000_000_000 {
                            *within += saved;
                        }
                    }
                }
                let content = &payload[found.at as usize..found.end()];
                if let Some(chunk) =
                    self.chunks.at(xxh3_64_with_seed(content, packet.direction.index() as u64))
                {
                    if chunk.matches == 0 {
                        *chunk = Chunk {
                            first: packet.time,
                            last: packet.time,
                            matches: 0,
                            direction: packet.direction,
                        };
                    }
                    chunk.matches = chunk.matches.saturating_add(1);
                    chunk.first = chunk.first.min(packet.time);
                    chunk.last = chunk.last.max(packet.time);
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Locality(self.compute())
    }
}

/// Figure 9: how far back matches reach, and for how long chunks keep being matched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchLocality {
    /// Each direction with packets; the total comes last if there are several.
    pub directions: Vec<DirectionLocality>,
    /// Size of the cache in bytes.
    pub cache: u64,
    /// Largest relative error of the distribution and the median of ages.
    pub error: f64,
    /// How chunks were sampled. `None` if all are known.
    pub sampled: Option<String>,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Locality of the matches of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionLocality {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Bytes saved.
    pub saved: f64,
    /// Bytes saved by matches whose origin is known.
    pub known: f64,
    /// Largest distance of a match in bytes.
    pub farthest: u64,
    /// Bytes saved by matches at each distance, in thousandths of the cache.
    pub by_distance: Vec<f64>,
    /// Bytes saved by matches with packets at most 1, 10, 60, 100, 300, 600, 1,000, 3,600 and
    /// 36,000 seconds old.
    pub within: [f64; TIMES.len()],
    /// Median age in seconds of the packets that matches are taken from, weighted by bytes saved.
    pub median_age: Option<f64>,
    /// Age in seconds, and the share of savings by matches with packets up to that age.
    pub savings_by_age: Vec<(f64, f64)>,
    /// Lives of chunks. `None` if no chunk was matched.
    pub chunks: Option<ChunkLives>,
}

/// How long chunks keep being matched: the time from the first to the last match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkLives {
    /// Chunks in the sample.
    pub sampled: u64,
    /// Estimated number of chunks.
    pub chunks: u64,
    /// Share of the chunks that were matched once.
    pub once: Option<f64>,
    /// Share of the chunks with a life of at most 1, 10, 60, 100, 300, 600, 1,000, 3,600 and 36,000
    /// seconds.
    pub within: [Option<f64>; TIMES.len()],
    /// Life in seconds, and the share of chunks with at most that life.
    pub lives: Vec<(f64, f64)>,
    /// The same for chunks that were matched more than once.
    pub lives_if_repeated: Vec<(f64, f64)>,
}

impl Locality {
    fn compute(self) -> MatchLocality {
        let Locality { counts, chunks, cache, .. } = self;
        let mut lives = lives(&chunks);
        let (rate, sampled) = (chunks.rate(), chunks.note("chunks"));
        let chunk_memory = chunks.memory(2 * size_of::<(u64, u32)>());
        drop(chunks);
        let rows = counts.rows();
        let of_counts = rows.len() as u64 * FIXED
            + rows.iter().map(|(_, counts)| counts.time.memory()).sum::<u64>();
        MatchLocality {
            cache,
            error: rows.first().map_or(0.0, |(_, counts)| counts.time.error()),
            sampled,
            memory: of_counts + chunk_memory,
            directions: rows
                .into_iter()
                .map(|(direction, counts)| DirectionLocality {
                    direction,
                    saved: counts.saved,
                    known: counts.known,
                    farthest: counts.farthest,
                    within: counts.within,
                    median_age: counts.time.quantile(0.5).map(|nanos| nanos as f64 / 1e9),
                    savings_by_age: merge_equal(
                        counts
                            .time
                            .cdf()
                            .into_iter()
                            .map(|(nanos, share)| (visible(nanos), share))
                            .collect(),
                    ),
                    by_distance: counts.distance,
                    chunks: lives
                        .iter_mut()
                        .find(|(of, _)| *of == direction)
                        .map(|(_, lives)| ChunkLives::of(lives, rate)),
                })
                .collect(),
        }
    }
}

/// Nanoseconds in seconds, at least a microsecond: zero has no place on a logarithmic axis.
fn visible(nanos: f64) -> f64 {
    nanos.max(1e3) / 1e9
}

impl ChunkLives {
    /// Of chunks as nanoseconds from the first to the last match and number of matches, sampled at
    /// `rate`.
    fn of(chunks: &mut [(u64, u32)], rate: f64) -> ChunkLives {
        chunks.sort_unstable();
        let all = chunks.len() as f64;
        let once = chunks.iter().filter(|(_, matches)| *matches == 1).count() as f64;
        let repeated: Vec<_> = chunks.iter().filter(|(_, matches)| *matches > 1).copied().collect();
        let distribution = |chunks: &[(u64, u32)]| {
            let points = (0..=1000).filter_map(|i| {
                let share = f64::from(i) / 1000.0;
                Some((visible(percentile(chunks, share)?.0 as f64), share))
            });
            merge_equal(points.collect())
        };
        ChunkLives {
            sampled: chunks.len() as u64,
            chunks: (all / rate).round() as u64,
            once: share(once, all),
            within: TIMES.map(|time| share(within(chunks, time), all)),
            lives: distribution(chunks),
            lives_if_repeated: distribution(&repeated),
        }
    }
}

impl MatchLocality {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Locality.number(),
            id: FigureId::Locality.name(),
            title: "Temporal locality of matches",
            source: "thesis, section 2.4, Figure 2.8",
            definition: format!(
                "(a) Distance of a match: bytes of payload that entered the cache between the most recent copy, which the match is taken \
                 from, and the match itself, as a share of the cache size; and the time between the two packets in seconds. Shares are of \
                 bytes saved. {CHARGED} (b) For each chunk, the time from its first match to its last in the whole trace, however often \
                 it left the cache in between. A chunk is the content of a match, identified by a 64-bit hash. The packet that first \
                 carried it is not a match, and a chunk that was matched once has time 0. Each direction has its own chunks. Times below \
                 1 µs are shown as 1 µs."
            ),
            finding: self
                .directions
                .last()
                .and_then(DirectionLocality::finding)
                .unwrap_or_default(),
            brief: self.directions.last().and_then(DirectionLocality::brief).unwrap_or_default(),
            memory: self.memory,
            tables: if self.directions.is_empty() { Vec::new() } else { self.tables().into() },
            charts: self.charts(),
            notes: self.notes(),
        }
    }

    fn tables(&self) -> [Table; 3] {
        let within = || TIMES.map(|time| format!("within {}", number(time as f64, Unit::Seconds)));
        let recent = RECENT.map(|parts| format!("within {}", percent(parts as f64 / PARTS as f64)));
        let of_shares = |id, caption: &str, first: &[(&str, Unit)], names: &[String]| {
            let names = names.iter().map(|name| (name.as_str(), Unit::Share));
            table(id, caption, first.iter().copied().chain(names))
        };
        let direction = ("direction", Unit::Text);
        let mut distance = of_shares(
            "distance",
            "Share of savings from the most recent part of the cache",
            &[direction],
            &recent,
        );
        let caption =
            "Share of savings from packets of at most some age, and the median age by savings";
        let mut time =
            of_shares("time", caption, &[direction, ("median", Unit::Seconds)], &within());
        let caption = "Share of chunks whose last match follows the first within a time";
        let counts = [
            ("chunks in sample", Unit::Count),
            ("chunks", Unit::Count),
            ("matched once", Unit::Share),
        ];
        let mut life =
            of_shares("chunks", caption, &[&[direction][..], &counts].concat(), &within());
        for of in &self.directions {
            let mut row = vec![of.direction.into()];
            row.extend(RECENT.map(|parts| Cell::from(of.recent(parts))));
            distance.rows.push(row);
            let mut row = vec![of.direction.into(), of.median_age.into()];
            row.extend(of.within.map(|within| Cell::from(share(within, of.known))));
            time.rows.push(row);
            if let Some(chunks) = &of.chunks {
                let mut row = vec![
                    of.direction.into(),
                    chunks.sampled.into(),
                    chunks.chunks.into(),
                    chunks.once.into(),
                ];
                row.extend(chunks.within.map(Cell::from));
                life.rows.push(row);
            }
        }
        [distance, time, life]
    }

    fn charts(&self) -> Vec<Chart> {
        let savings = || shares("share of savings");
        let axis = shares("distance as share of the cache");
        let caption = "Savings by matches up to a distance, as a share of the cache";
        let mut by_distance = chart("distance", caption, ChartKind::Step, axis, savings());
        let axis = Axis::log("time since the matched packet", Unit::Seconds);
        let caption = "Savings by matches with packets up to an age";
        let mut by_time = chart("time", caption, ChartKind::Step, axis, savings());
        let axis = Axis::log("time from the first to the last match", Unit::Seconds);
        let caption = "Chunks whose last match follows the first within a time";
        let mut by_life =
            chart("chunks", caption, ChartKind::Step, axis, shares("share of chunks"));
        for of in &self.directions {
            if of.saved > 0.0 {
                let mut sum = 0.0;
                // To the farthest match: a cache that the trace does not fill says nothing more.
                let farthest = of.by_distance.iter().rposition(|saved| *saved > 0.0).unwrap_or(0);
                let points = of.by_distance[..=farthest].iter().enumerate().map(|(i, saved)| {
                    sum += saved;
                    ((i + 1) as f64 / PARTS as f64, (sum / of.saved).min(1.0))
                });
                add_series(&mut by_distance, of.direction, points.collect());
            }
            add_series(&mut by_time, of.direction, of.savings_by_age.clone());
            if let Some(chunks) = &of.chunks {
                add_series(&mut by_life, of.direction, chunks.lives.clone());
                let name = format!("{}, matched twice or more", of.direction);
                add_series(&mut by_life, name, chunks.lives_if_repeated.clone());
            }
        }
        drawn([by_distance, by_time, by_life])
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::from_iter(self.sampled.clone());
        if self.error > 0.04 {
            notes.push(format!(
                "To stay within its memory limit, the chart of ages and the median are accurate to within {}.",
                percent(self.error)
            ));
        }
        let Some(all) = self.directions.last() else { return notes };
        if all.known < all.saved {
            notes.push(
                "If the cache holds too many small packets, old ones are forgotten. Matches with them count in the distances but not in \
                 the ages."
                    .into(),
            );
        }
        if all.saved > 0.0 && all.farthest < self.cache / 2 {
            notes.push(format!(
                "No match reaches farther back than {} of the cache: the trace does not fill it, or repeats only recent content.",
                percent(all.farthest as f64 / self.cache as f64)
            ));
        }
        notes
    }
}

impl DirectionLocality {
    /// Share of the savings from the most recent `parts` thousandths of the cache.
    fn recent(&self, parts: u64) -> Option<f64> {
        share(self.by_distance[..parts as usize].iter().sum(), self.saved)
    }

    fn brief(&self) -> Option<String> {
        let recent = percent(self.recent(PARTS / 10)?);
        Some(format!("the newest 10 % of the cache bring {recent} of the savings"))
    }

    fn finding(&self) -> Option<String> {
        let recent = self.recent(PARTS / 10)?;
        let judgement = if recent >= 0.6 {
            "a much smaller cache would keep most of them, and first in, first out is a good policy"
        } else if recent >= 0.3 {
            "a smaller cache would keep a good part of them"
        } else {
            "matches reach far back, and a smaller cache would lose most of them"
        };
        let mut finding = format!(
            "{} of the savings come from the most recent 10 % of the cache: {judgement}.",
            percent(recent)
        );
        // The fourth of the times is 100 s.
        if let Some(share) = self.chunks.as_ref().and_then(|chunks| chunks.within[3]) {
            finding += &format!(
                " {} of the chunks have their last match within 100 s of the first.",
                percent(share)
            );
        }
        Some(finding)
    }
}

/// How many chunks have their last match at most `seconds` after the first. Chunks are
/// (nanoseconds, matches), ascending.
fn within(chunks: &[(u64, u32)], seconds: u64) -> f64 {
    chunks.partition_point(|(nanos, _)| *nanos <= seconds * 1_000_000_000) as f64
}

/// Chunks of each direction that occurs, and of all if there are several, as nanoseconds from first
/// to last match, and matches.
fn lives(chunks: &Sampled<Chunk>) -> Vec<(&'static str, Vec<(u64, u32)>)> {
    let mut lives: Vec<(&'static str, Vec<(u64, u32)>)> = Vec::new();
    for direction in Direction::ALL {
        let of = chunks.iter().filter(|(_, chunk)| chunk.direction == direction);
        let of: Vec<_> =
            of.map(|(_, chunk)| (chunk.last.abs_diff(chunk.first), chunk.matches)).collect();
        if !of.is_empty() {
            lives.push((direction.name(), of));
        }
    }
    if lives.len() > 1 {
        let all = lives.iter().flat_map(|(_, of)| of).copied().collect();
        lives.push((tally::TOTAL, all));
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise, observe, value};

    fn made(seed: u64, seconds: f64) -> Made {
        Made::udp("10.0.0.1:80", "10.0.0.2:1000").at(seconds).payload(&noise(seed, 1004))
    }

    #[test]
    fn distances_and_times_are_exact() {
        // A cache of 10,040 bytes holds ten packets: distances of 1, 2 and 5 packets are 10, 20 and
        // 50 %.
        let packets = [
            made(1, 0.0),
            made(1, 5.0), // 10 %, 5 s
            made(2, 6.0),
            made(1, 15.0), // 20 %, 10 s
            made(3, 20.0),
            made(4, 21.0),
            made(5, 22.0),
            made(2, 76.0), // 50 %, 70 s
        ];
        let figure = observe(Box::new(Locality::new(1 << 20)), &packets, 10_040, 3);
        let [distance, time, chunks] = &figure.tables[..] else { panic!() };
        let third = |n: u8| Cell::Number(f64::from(n) / 3.0);
        // A distance of exactly 10 % lies in the next thousandth.
        assert_eq!(value(distance, 0, "within 10.0 %"), third(0));
        assert_eq!(value(distance, 0, "within 20.0 %"), third(1));
        assert_eq!(value(distance, 0, "within 30.0 %"), third(2));
        assert_eq!(value(distance, 0, "within 75.0 %"), third(3));
        assert_eq!(value(time, 0, "within 1 s"), third(0));
        assert_eq!(value(time, 0, "within 10 s"), third(2));
        assert_eq!(value(time, 0, "within 100 s"), third(3));
        let Cell::Number(median) = value(time, 0, "median") else { panic!() };
        assert!((10.0..10.4).contains(&median), "{median}");
        // Chunk 1 was matched at 5 and 15 s, chunk 2 once.
        assert_eq!(value(chunks, 0, "chunks"), Cell::Count(2));
        assert_eq!(value(chunks, 0, "matched once"), 0.5.into());
        assert_eq!(value(chunks, 0, "within 1 s"), 0.5.into());
        assert_eq!(value(chunks, 0, "within 10 s"), 1.0.into());
    }

    #[test]
    fn time_may_run_backwards() {
        let packets = [made(1, 10.0), made(1, 5.0), made(1, 7.0), made(1, 2.0)];
        let figure = observe(Box::new(Locality::new(1 << 20)), &packets, 1 << 20, 3);
        // From the first match in the order of time, at 2 s, to the last, at 7 s.
        let points = &figure.charts[2].series[0].points;
        assert_eq!(points.last(), Some(&(5.0, 1.0)));
    }

    #[test]
    fn chunks_are_sampled_within_the_memory() {
        // 2,000 chunks, one in four matched a second time 50 s later.
        let mut packets = Vec::new();
        let small = |seed: u64, time: f64| {
            Made::udp("10.0.0.1:80", "10.0.0.2:1000").at(time).payload(&noise(seed, 60))
        };
        for n in 0..2000 {
            packets.push(small(n, 0.0));
            packets.push(small(n, 1.0));
        }
        packets.extend((0..2000).step_by(4).map(|n| small(n, 51.0)));
        let budget = 100_000;
        let figure = observe(Box::new(Locality::new(budget)), &packets, 1 << 20, 1000);
        assert!(figure.memory <= budget, "{}", figure.memory);
        assert!(
            figure.notes.iter().any(|note| note.contains("sample of 1 in")),
            "{:?}",
            figure.notes
        );
        let Cell::Number(once) = value(&figure.tables[2], 0, "matched once") else { panic!() };
        assert!((once - 0.75).abs() < 0.06, "{once}");
        let Cell::Count(chunks) = value(&figure.tables[2], 0, "chunks") else { panic!() };
        assert!((1600..2400).contains(&chunks), "{chunks}");
        assert!(observe(Box::new(Locality::new(0)), &packets, 1 << 20, 1000).memory < 16_000);
    }

    #[test]
    fn nothing_is_nothing() {
        let figure = observe(Box::new(Locality::new(1 << 20)), &[], 1 << 20, 3);
        assert!(figure.tables.is_empty() && figure.charts.is_empty());
        let figure = observe(Box::new(Locality::new(1 << 20)), &[made(1, 0.0)], 1 << 20, 3);
        assert_eq!(value(&figure.tables[0], 0, "within 10.0 %"), Cell::None);
        assert!(figure.charts.is_empty());
    }
}
