//! Figure 9: how far back matches reach (thesis, section 2.4, "Redundancy: Temporal View", Figure 2.8).

use super::sampled::Sampled;
use super::tally::{self, ByDirection, CHARGED, Histogram, Merge, merge_equal, percent, percentile, savings, share};
use crate::batch::{Direction, Observer, View};
use crate::results::{Axis, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How far back matches reach, in cache and in time, and for how long a chunk goes on being matched.
#[derive(Debug)]
pub struct Locality {
    counts: ByDirection<Counts>,
    chunks: Sampled<Chunk>,
    histogram: u64,
    /// Size of the cache.
    cache: u64,
}

impl Locality {
    /// A quarter of `memory` (bytes) is for distances: 24 KB a direction, with less the times in charts get coarser, but 9 KB a direction
    /// at least. The rest is for chunks, which are sampled when they are more than fit: about 90 bytes each, the work at the end included.
    pub fn new(memory: u64) -> Locality {
        let chunks = Sampled::new(memory / 4 * 3);
        Locality { counts: ByDirection::default(), chunks, histogram: (memory / 4 / 7).saturating_sub(FIXED), cache: 0 }
    }
}

/// A chunk that was matched.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// Times of the first and the last match, in nanoseconds since the Unix epoch.
    first: i64,
    last: i64,
    /// Number of matches, and where.
    matches: u32,
    direction: Direction,
}

/// The cache is divided into thousandths.
const PARTS: u64 = 1000;

/// Ages of the cache in the table, in thousandths.
const RECENT: [u64; 9] = [1, 10, 50, 100, 200, 300, 500, 750, 1000];

/// Times in the table, in seconds.
const TIMES: [u64; 9] = [1, 10, 60, 100, 300, 600, 1000, 3600, 36_000];

/// Bytes of [`Counts`] beside its histogram.
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

    /// Share of the savings from the most recent `parts` thousandths of the cache.
    fn recent(&self, parts: u64) -> Option<f64> {
        share(self.distance[..parts as usize].iter().sum(), self.saved)
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
                let distance = u128::from(view.distance(packet, &found)) * u128::from(PARTS) / u128::from(view.cache.max(1));
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
                if let Some(chunk) = self.chunks.at(xxh3_64_with_seed(content, packet.direction.index() as u64)) {
                    if chunk.matches == 0 {
                        *chunk = Chunk { first: packet.time, last: packet.time, matches: 0, direction: packet.direction };
                    }
                    chunk.matches = chunk.matches.saturating_add(1);
                    chunk.first = chunk.first.min(packet.time);
                    chunk.last = chunk.last.max(packet.time);
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Figure {
        let Locality { counts, chunks, cache, .. } = *self;
        let mut lives = lives(&chunks);
        let (rate, sampled, chunk_memory) = (chunks.rate(), chunks.note("chunks"), chunks.memory(2 * size_of::<(u64, u32)>()));
        drop(chunks);
        let rows = counts.rows();
        let text = |name: &str| Column::new(name, Unit::Text);
        let of = |name: &str| Column::new(name, Unit::Share);
        let mut columns = vec![text("direction")];
        columns.extend(RECENT.map(|parts| of(&format!("within {}", percent(parts as f64 / PARTS as f64)))));
        let mut distance = Table {
            id: "distance",
            caption: "Share of savings from the most recent part of the cache".into(),
            columns,
            rows: Vec::new(),
        };
        let mut columns = vec![text("direction"), Column::new("median", Unit::Seconds)];
        columns.extend(TIMES.map(|time| of(&format!("within {}", tally::seconds(time as f64)))));
        let mut time = Table {
            id: "time",
            caption: "Share of savings from packets at most so old, and the median age by savings".into(),
            columns,
            rows: Vec::new(),
        };
        let mut columns = vec![
            text("direction"),
            Column::new("chunks in sample", Unit::Count),
            Column::new("chunks", Unit::Count),
            of("matched once"),
        ];
        columns.extend(TIMES.map(|time| of(&format!("within {}", tally::seconds(time as f64)))));
        let mut life = Table {
            id: "chunks",
            caption: "Share of chunks whose last match follows the first within a time".into(),
            columns,
            rows: Vec::new(),
        };
        let chart = |id, caption: &str, x, y: &str| Chart {
            id,
            caption: caption.into(),
            kind: ChartKind::Step,
            x,
            y: Axis::new(y, Unit::Share),
            right: None,
            series: Vec::new(),
        };
        let mut by_distance = chart(
            "distance",
            "Savings by matches no farther back than a share of the cache",
            Axis::new("distance as share of the cache", Unit::Share),
            "share of savings",
        );
        let mut by_time = chart(
            "time",
            "Savings by matches with packets no older than a time",
            Axis::log("time since the matched packet", Unit::Seconds),
            "share of savings",
        );
        let mut by_life = chart(
            "chunks",
            "Chunks whose last match follows the first within a time",
            Axis::log("time from the first to the last match", Unit::Seconds),
            "share of chunks",
        );
        let seconds = |nanos: f64| nanos.max(1e3) / 1e9;
        for (name, counts) in &rows {
            let mut row = vec![(*name).into()];
            row.extend(RECENT.map(|parts| counts.recent(parts).into()));
            distance.rows.push(row);
            let mut row = vec![(*name).into(), counts.time.quantile(0.5).map(|nanos| nanos as f64 / 1e9).into()];
            row.extend(counts.within.map(|within| share(within, counts.known).into()));
            time.rows.push(row);
            if counts.saved > 0.0 {
                let mut sum = 0.0;
                let points = counts.distance.iter().enumerate().map(|(i, saved)| {
                    sum += saved;
                    ((i + 1) as f64 / PARTS as f64, (sum / counts.saved).min(1.0))
                });
                by_distance.series.push(Series::new(*name, points.collect()));
            }
            let points: Vec<_> = counts.time.cdf().into_iter().map(|(nanos, share)| (seconds(nanos), share)).collect();
            if !points.is_empty() {
                by_time.series.push(Series::new(*name, merge_equal(points)));
            }
            let Some((_, chunks_of)) = lives.iter_mut().find(|(of, _)| of == name) else { continue };
            chunks_of.sort_unstable();
            let count = chunks_of.len() as f64;
            let once = chunks_of.iter().filter(|(_, matches)| *matches == 1).count() as f64;
            let estimate = (count / rate).round() as u64;
            let mut row = vec![(*name).into(), (chunks_of.len() as u64).into(), estimate.into(), share(once, count).into()];
            row.extend(TIMES.map(|time| share(within(chunks_of, time), count).into()));
            life.rows.push(row);
            let again: Vec<_> = chunks_of.iter().filter(|(_, matches)| *matches > 1).copied().collect();
            for (label, chunks) in [((*name).to_owned(), &*chunks_of), (format!("{name}, matched twice or more"), &again)] {
                let points = (0..=1000).filter_map(|i| {
                    let share = f64::from(i) / 1000.0;
                    Some((seconds(percentile(chunks, share)?.0 as f64), share))
                });
                let points = merge_equal(points.collect());
                if !points.is_empty() {
                    by_life.series.push(Series::new(label, points));
                }
            }
        }

        let mut notes = vec![];
        notes.extend(sampled);
        let error = rows.first().map_or(0.0, |(_, counts)| counts.time.error());
        if error > 0.04 {
            notes.push(format!(
                "To stay in its memory, the chart of times and the median show them to within {}.",
                percent(error)
            ));
        }
        if rows.last().is_some_and(|(_, counts)| counts.known < counts.saved) {
            notes.push(
                "Where the cache holds too many small packets, old ones are forgotten: matches with them are in the distances, not in the \
                 times."
                    .into(),
            );
        }
        if let Some((_, counts)) = rows.last()
            && counts.saved > 0.0
            && counts.farthest < cache / 2
        {
            notes.push(format!(
                "No match reaches farther back than {} of the cache: the trace does not fill it, or repeats only what is near.",
                percent(counts.farthest as f64 / cache as f64)
            ));
        }
        let used = rows.len() as u64 * FIXED + rows.iter().map(|(_, counts)| counts.time.memory()).sum::<u64>();
        let finding = rows.last().map(|(_, counts)| finding(counts, lives.last().map(|(_, lives)| lives.as_slice())));
        Figure {
            number: 9,
            id: "locality",
            title: "Temporal locality of matches",
            source: "thesis, section 2.4, Figure 2.8",
            definition: format!(
                "(a) The distance of a match: bytes of payload that entered the cache between the copy it is taken from, the most recent one, \
                 and itself, as a share of the size of the cache; also the time between the two packets, in seconds. Shares are of bytes \
                 saved. {CHARGED} (b) For each chunk, the time from its first match to its last in the whole trace, however often it left the \
                 cache in between. A chunk is the content of a match, known by a 64-bit hash; the packet that brought it first is not a \
                 match, and a chunk that was matched once has time 0. Directions have their own chunks. Times below 1 µs are shown as 1 µs."
            ),
            finding: finding.unwrap_or_default(),
            memory: used + chunk_memory,
            tables: if rows.is_empty() { Vec::new() } else { vec![distance, time, life] },
            charts: [by_distance, by_time, by_life].into_iter().filter(|chart| !chart.series.is_empty()).collect(),
            notes,
        }
    }
}

/// How many chunks have their last match at most `seconds` after the first. Chunks are (nanoseconds, matches), ascending.
fn within(chunks: &[(u64, u32)], seconds: u64) -> f64 {
    chunks.partition_point(|(nanos, _)| *nanos <= seconds * 1_000_000_000) as f64
}

/// Chunks of each direction that occurs, and of all if there are several, as nanoseconds from first to last match, and matches.
fn lives(chunks: &Sampled<Chunk>) -> Vec<(&'static str, Vec<(u64, u32)>)> {
    let mut lives: Vec<(&'static str, Vec<(u64, u32)>)> = Vec::new();
    for direction in Direction::ALL {
        let of = chunks.iter().filter(|(_, chunk)| chunk.direction == direction);
        let of: Vec<_> = of.map(|(_, chunk)| (chunk.last.abs_diff(chunk.first), chunk.matches)).collect();
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

fn finding(counts: &Counts, chunks: Option<&[(u64, u32)]>) -> String {
    let Some(recent) = counts.recent(PARTS / 10) else { return String::new() };
    let judgement = if recent >= 0.6 {
        "a much smaller cache would bring most of it, and first in, first out is a good rule"
    } else if recent >= 0.3 {
        "a smaller cache would bring a good part of it"
    } else {
        "matches reach far back: a smaller cache would lose most of it"
    };
    let mut finding = format!("{} of the savings come from the most recent 10 % of the cache: {judgement}.", percent(recent));
    if let Some(chunks) = chunks.filter(|chunks| !chunks.is_empty()) {
        let share = within(chunks, 100) / chunks.len() as f64;
        finding += &format!(" {} of the chunks are matched for the last time within 100 s of the first.", percent(share));
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise, observe};
    use crate::results::Cell;

    fn made(seed: u64, seconds: f64) -> Made {
        Made::udp("10.0.0.1:80", "10.0.0.2:1000").at(seconds).payload(&noise(seed, 1004))
    }

    fn value(table: &Table, row: usize, column: &str) -> Cell {
        let column =
            table.columns.iter().position(|c| c.name == column).unwrap_or_else(|| panic!("{column}: {:?}", table.columns));
        table.rows[row][column].clone()
    }

    #[test]
    fn distances_and_times_are_exact() {
        // A cache of 10,040 bytes holds ten packets: distances of 1, 2 and 5 packets are 10, 20 and 50 %.
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
        let small = |seed: u64, time: f64| Made::udp("10.0.0.1:80", "10.0.0.2:1000").at(time).payload(&noise(seed, 60));
        for n in 0..2000 {
            packets.push(small(n, 0.0));
            packets.push(small(n, 1.0));
        }
        packets.extend((0..2000).step_by(4).map(|n| small(n, 51.0)));
        let budget = 100_000;
        let figure = observe(Box::new(Locality::new(budget)), &packets, 1 << 20, 1000);
        assert!(figure.memory <= budget, "{}", figure.memory);
        assert!(figure.notes.iter().any(|note| note.contains("sample of 1 in")), "{:?}", figure.notes);
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
