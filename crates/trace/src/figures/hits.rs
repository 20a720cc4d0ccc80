//! Figure 10: how often each chunk is matched (thesis, section 2.4, "Redundancy: Hit Distribution",
//! Figure 2.10).

use super::layout::{add_series, chart, drawn, shares, table};
use super::sampled::Sampled;
use super::tally::{self, CHARGED, savings, share, varies};
use super::{Figure, FigureId, Finding, Observer};
use crate::batch::{Direction, View};
use crate::results::{Axis, Cell, Chart, ChartKind, Table, Unit};
use oncewire_report::format::share as percent;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Measures hits by rank of the chunk, the exponent of the Zipf law that fits, and the share of
/// savings by share of chunks.
#[derive(Debug)]
pub struct Hits {
    chunks: Sampled<Chunk>,
}

impl Hits {
    /// `memory` (bytes) is for chunks, about 72 bytes each including the final computation; if they
    /// do not fit, they are sampled.
    pub fn new(memory: u64) -> Hits {
        Hits { chunks: Sampled::new(memory / 3 * 2) }
    }
}

/// A chunk that was matched.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    hits: u32,
    direction: Direction,
    saved: f64,
}

/// Ranks that the fit of the bulk leaves out, as in the thesis.
const TOP: f64 = 100.0;

impl Observer for Hits {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            let payload = view.batch.payload(packet);
            for (found, saved) in savings(view, i) {
                let content = &payload[found.at as usize..found.end()];
                if let Some(chunk) =
                    self.chunks.at(xxh3_64_with_seed(content, packet.direction.index() as u64))
                {
                    chunk.hits = chunk.hits.saturating_add(1);
                    chunk.saved += saved;
                    chunk.direction = packet.direction;
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Hits(self.compute())
    }
}

/// Figure 10: how often chunks are matched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkHits {
    /// Each direction with matches; the total comes last if there are several.
    pub directions: Vec<DirectionHits>,
    /// Chunks that each chunk of the sample stands for; 1 if all are known.
    pub scale: f64,
    /// How chunks were sampled. `None` if all are known.
    pub sampled: Option<String>,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Hits of the chunks of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionHits {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Estimated number of chunks.
    pub chunks: u64,
    /// Estimated number of hits.
    pub hits: u64,
    /// Hits of the most popular chunk.
    pub most: Option<u64>,
    /// Share of the chunks with one hit.
    pub once: Option<f64>,
    /// Exponent of hits by rank: least squares over the bulk.
    pub bulk: Option<f64>,
    /// Exponent of hits by rank: least squares over all ranks.
    pub all_ranks: Option<f64>,
    /// Exponent of hits by rank: maximum likelihood.
    pub most_likely: Option<f64>,
    /// Rank and hits, thinned to about 100 points per power of ten.
    pub by_rank: Vec<(f64, f64)>,
    /// Share of savings by the 0.1, 1, 5, 10, 20, 50 and 80 % of the chunks that save most.
    pub top: [Option<f64>; CONTRIBUTION.len()],
    /// Share of the chunks that 80 % of the savings take.
    pub for_80: Option<f64>,
    /// Share of the chunks, those that save most first, and their share of savings.
    pub contribution: Vec<(f64, f64)>,
}

impl Hits {
    fn compute(self) -> ChunkHits {
        let Hits { chunks } = self;
        let scale = 1.0 / chunks.rate();
        let mut groups: Vec<(&'static str, Vec<(u32, f64)>)> = Vec::new();
        for direction in Direction::ALL {
            let of = chunks.iter().filter(|(_, chunk)| chunk.direction == direction);
            let of: Vec<_> = of.map(|(_, chunk)| (chunk.hits, chunk.saved)).collect();
            if !of.is_empty() {
                groups.push((direction.name(), of));
            }
        }
        if groups.len() > 1 {
            let all = groups.iter().flat_map(|(_, of)| of).copied().collect();
            groups.push((tally::TOTAL, all));
        }
        let (memory, sampled) = (chunks.memory(2 * size_of::<(u32, f64)>()), chunks.note("chunks"));
        drop(chunks);
        let directions = groups
            .iter_mut()
            .map(|(direction, chunks)| DirectionHits::of(direction, chunks, scale))
            .collect();
        ChunkHits { directions, scale, sampled, memory }
    }
}

impl DirectionHits {
    /// Of chunks as hits and bytes saved; each stands for `scale` chunks.
    fn of(direction: &'static str, chunks: &mut [(u32, f64)], scale: f64) -> DirectionHits {
        chunks.sort_unstable_by_key(|chunk| std::cmp::Reverse(chunk.0));
        let hits: Vec<u32> = chunks.iter().map(|chunk| chunk.0).collect();
        let count = chunks.len() as f64;
        let once = hits.iter().filter(|hits| **hits == 1).count() as f64;
        let total: f64 = hits.iter().map(|hits| f64::from(*hits)).sum();

        chunks.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
        let saved: f64 = chunks.iter().map(|chunk| chunk.1).sum();
        let mut sum = 0.0;
        // sums[i] is the share of savings of the first i chunks.
        let sums: Vec<f64> = std::iter::once(0.0)
            .chain(chunks.iter().map(|chunk| {
                sum += chunk.1;
                share(sum, saved).unwrap_or(0.0).min(1.0)
            }))
            .collect();
        let mut contribution = Vec::new();
        if saved > 0.0 {
            let places = (0..=1000).map(|i| (sums.len() - 1) * i / 1000);
            contribution.extend(places.map(|place| (place as f64 / count, sums[place])));
            contribution.dedup();
        }
        DirectionHits {
            direction,
            chunks: (count * scale) as u64,
            hits: (total * scale) as u64,
            most: hits.first().map(|hits| u64::from(*hits)),
            once: share(once, count),
            bulk: least_squares(&hits, scale, |rank, hits| rank > TOP && hits > 1),
            all_ranks: least_squares(&hits, scale, |_, _| true),
            most_likely: most_likely(&hits, scale),
            by_rank: rank_points(&hits, scale),
            top: CONTRIBUTION.map(|part| (saved > 0.0).then(|| interpolate(&sums, part))),
            for_80: (saved > 0.0)
                .then(|| sums.partition_point(|share| *share < 0.8) as f64 / count),
            contribution,
        }
    }

    fn brief(&self) -> Option<String> {
        let top = percent(self.top[TOP_FIFTH]?);
        Some(format!("20 % of the chunks bring {top} of the savings"))
    }

    fn finding(&self) -> Option<String> {
        let top = self.top[TOP_FIFTH]?;
        let mut finding = format!(
            "20 % of the chunks bring {} of the savings, and 80 % of the savings take {} of the chunks: {}.",
            percent(top),
            percent(self.for_80?),
            if top >= 0.6 {
                "popular content pays most, and a small cache gets the bulk"
            } else {
                "savings are spread over many chunks"
            }
        );
        if let Some(bulk) = self.bulk {
            finding += &format!(" Hits fall with rank as rank^{bulk:.2}; -1 would be Zipf's law.");
        }
        Some(finding)
    }
}

impl ChunkHits {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let (tables, charts) = self.layout();
        let mut notes = Vec::from_iter(self.sampled.clone());
        if self.sampled.is_some() {
            notes.push(format!(
                "Each chunk of the sample stands for {} ranks and is drawn at the middle one. The most popular chunks are probably not in \
                 the sample, so the head of the curves, the savings of the top chunks and the fit over all ranks are uncertain. The fit \
                 over the bulk is hardly affected.",
                self.scale
            ));
        }
        Figure {
            number: FigureId::Hits.number(),
            id: FigureId::Hits.name(),
            title: "Hits of chunks",
            source: "thesis, section 2.4, Figure 2.10",
            definition: format!(
                "How often each chunk is matched in the whole trace. A chunk is the content of a match of the reference algorithm, \
                 identified by a 64-bit hash. The packet that first carried it is not a match. Each direction has its own chunks. Rank 1 \
                 is the chunk with the most hits. The exponent a is that of hits proportional to rank^a. Bulk: least squares of log hits \
                 by log rank, each rank a point, without the first 100 ranks and the chunks hit once. All ranks: the same over all ranks. \
                 Most likely: the maximum likelihood if each hit falls on a rank with a probability proportional to rank^a. Contribution: \
                 chunks ordered by the bytes they save. {CHARGED}"
            ),
            finding: self.directions.last().and_then(DirectionHits::finding).unwrap_or_default(),
            brief: self.directions.last().and_then(DirectionHits::brief).unwrap_or_default(),
            tables,
            charts,
            notes,
            memory: self.memory,
        }
    }

    fn layout(&self) -> (Vec<Table>, Vec<Chart>) {
        if self.directions.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let columns = [
            ("direction", Unit::Text),
            ("chunks", Unit::Count),
            ("hits", Unit::Count),
            ("most hits", Unit::Count),
            ("chunks hit once", Unit::Share),
            ("exponent, bulk", Unit::Number),
            ("exponent, all ranks", Unit::Number),
            ("exponent, most likely", Unit::Number),
        ];
        let mut zipf = table("zipf", "Exponent of a Zipf law for hits by rank", columns);
        let names = CONTRIBUTION.map(|part| format!("top {}", percent(part)));
        let names = names.iter().map(|name| (name.as_str(), Unit::Share));
        let columns = [("direction", Unit::Text)]
            .into_iter()
            .chain(names)
            .chain([("chunks for 80 % of savings", Unit::Share)]);
        let caption = "Share of savings by share of chunks, those that save most first";
        let mut contribution = table("contribution", caption, columns);
        let axis = Axis::log("rank of the chunk by hits", Unit::Count);
        let mut ranks = chart(
            "ranks",
            "Hits of chunks by rank",
            ChartKind::Points,
            axis,
            Axis::log("hits", Unit::Count),
        );
        let caption = "Savings by share of chunks, those that save most first";
        let (x, y) = (shares("share of chunks"), shares("share of savings"));
        let mut curve = chart("contribution", caption, ChartKind::Line, x, y);
        for of in &self.directions {
            zipf.rows.push(vec![
                of.direction.into(),
                of.chunks.into(),
                of.hits.into(),
                of.most.into(),
                of.once.into(),
                of.bulk.into(),
                of.all_ranks.into(),
                of.most_likely.into(),
            ]);
            let mut row = vec![of.direction.into()];
            row.extend(of.top.map(Cell::from));
            row.push(of.for_80.into());
            contribution.rows.push(row);
            add_series(&mut ranks, of.direction, of.by_rank.clone());
            add_series(&mut curve, of.direction, of.contribution.clone());
        }
        (vec![zipf, contribution], drawn([ranks, curve]))
    }
}

/// Shares of chunks in the table.
const CONTRIBUTION: [f64; 7] = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 0.8];

/// Index of 20 % in [`CONTRIBUTION`].
const TOP_FIFTH: usize = 4;

/// The rank of the sampled chunk at `index`, which stands for `scale` chunks: the middle of their
/// ranks.
fn rank(index: usize, scale: f64) -> f64 {
    index as f64 * scale + (scale + 1.0) / 2.0
}

/// Slope of log hits by log rank over the ranks that `keep` accepts. `None` unless there are two
/// different ranks and frequencies.
fn least_squares(hits: &[u32], scale: f64, keep: impl Fn(f64, u32) -> bool) -> Option<f64> {
    let kept = || {
        let points = hits.iter().enumerate().map(|(i, hits)| (rank(i, scale), *hits));
        points
            .filter(|(rank, hits)| keep(*rank, *hits))
            .map(|(rank, hits)| (rank.ln(), f64::from(hits).ln()))
    };
    let (n, x, y) = kept().fold((0.0, 0.0, 0.0), |(n, sx, sy), (x, y)| (n + 1.0, sx + x, sy + y));
    let (mean_x, mean_y) = (x / n, y / n);
    let (xx, xy, yy) = kept().fold((0.0, 0.0, 0.0), |(xx, xy, yy), (x, y)| {
        let (x, y) = (x - mean_x, y - mean_y);
        (xx + x * x, xy + x * y, yy + y * y)
    });
    (varies(xx, mean_x, n) && varies(yy, mean_y, n)).then(|| xy / xx)
}

/// The exponent between -5 and 0 under which these hits are most likely. `None` with fewer than two
/// ranks.
fn most_likely(hits: &[u32], scale: f64) -> Option<f64> {
    if hits.len() < 2 {
        return None;
    }
    let total: f64 = hits.iter().map(|hits| f64::from(*hits)).sum();
    let logs: f64 =
        hits.iter().enumerate().map(|(i, hits)| f64::from(*hits) * rank(i, scale).ln()).sum();
    let mean_log = logs / total;
    // Ranks are scale * (i + offset); the scale cancels out.
    let offset = rank(0, scale) / scale;
    let mean_log = mean_log - scale.ln();
    // Log likelihood of a hit. It is concave in the exponent, so a ternary search finds the
    // maximum.
    let likelihood = |exponent: f64| exponent * mean_log - zeta(exponent, offset, hits.len()).ln();
    let (mut low, mut high) = (-5.0, 0.0);
    for _ in 0..60 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if likelihood(left) < likelihood(right) { low = left } else { high = right }
    }
    Some((low + high) / 2.0)
}

/// The sum of (i + offset)^exponent over i from 0 to `count` - 1: exact for the first 1,000 terms,
/// then the integral, with a relative error below 10^-6.
fn zeta(exponent: f64, offset: f64, count: usize) -> f64 {
    let exact = count.min(1000);
    let sum: f64 = (0..exact).map(|i| (i as f64 + offset).powf(exponent)).sum();
    let (from, to) = (exact as f64 + offset - 0.5, count as f64 + offset - 0.5);
    if count == exact {
        sum
    } else if (exponent + 1.0).abs() < 1e-9 {
        sum + (to / from).ln()
    } else {
        sum + (to.powf(exponent + 1.0) - from.powf(exponent + 1.0)) / (exponent + 1.0)
    }
}

/// Points (rank, hits), about 100 per power of ten of ranks at most.
fn rank_points(hits: &[u32], scale: f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (i, hits) in hits.iter().enumerate() {
        let rank = rank(i, scale);
        let apart = points.last().is_none_or(|(last, _)| rank >= last * 10f64.powf(0.01));
        if apart {
            points.push((rank, f64::from(*hits)));
        }
    }
    points
}

/// The share of savings of the first `part` of the chunks, interpolated linearly between whole
/// chunks.
fn interpolate(sums: &[f64], part: f64) -> f64 {
    let place = part * (sums.len() - 1) as f64;
    let (below, above) = (sums[place.floor() as usize], sums[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{self, Made, noise, observe};

    fn made(seed: u64, len: usize) -> Made {
        Made::udp("10.0.0.1:80", "10.0.0.2:1000").payload(&noise(seed, len))
    }

    fn value(table: &Table, column: &str) -> Cell {
        testing::value(table, table.rows.len() - 1, column)
    }

    #[test]
    fn hits_and_contributions_are_exact() {
        // Chunk 0 is matched 8 times, 1 to 4 once each: of 5 chunks the first, 20 %, saves 8 of 12.
        let mut packets: Vec<Made> =
            (0..5).flat_map(|seed| [made(seed, 104), made(seed, 104)]).collect();
        packets.extend((0..7).map(|_| made(0, 104)));
        let figure = observe(Box::new(Hits::new(1 << 20)), &packets, 1 << 20, 4);
        let [zipf, contribution] = &figure.tables[..] else { panic!() };
        assert_eq!(value(zipf, "chunks"), Cell::Count(5));
        assert_eq!(value(zipf, "hits"), Cell::Count(12));
        assert_eq!(value(zipf, "most hits"), Cell::Count(8));
        assert_eq!(value(zipf, "chunks hit once"), 0.8.into());
        assert_eq!(value(zipf, "exponent, bulk"), Cell::None);
        assert_eq!(value(contribution, "top 20.0 %"), (8.0 / 12.0).into());
        assert_eq!(value(contribution, "chunks for 80 % of savings"), 0.6.into());
        assert_eq!(
            figure.charts[0].series[0].points,
            [(1.0, 8.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0), (5.0, 1.0)]
        );
    }

    #[test]
    fn a_power_law_is_fitted() {
        for exponent in [-0.5, -0.97, -1.3] {
            let hits: Vec<u32> = (1..=20_000)
                .map(|rank| (1e7 * f64::from(rank).powf(exponent)).round() as u32)
                .collect();
            let bulk = least_squares(&hits, 1.0, |rank, hits| rank > TOP && hits > 1).unwrap();
            assert!((bulk - exponent).abs() < 0.01, "{exponent} {bulk}");
            assert!((most_likely(&hits, 1.0).unwrap() - exponent).abs() < 0.01);
            // One chunk in eight.
            let sample: Vec<u32> = hits.iter().copied().skip(4).step_by(8).collect();
            let bulk = least_squares(&sample, 8.0, |rank, hits| rank > TOP && hits > 1).unwrap();
            assert!((bulk - exponent).abs() < 0.01, "{exponent} {bulk}");
            // It leans on the head, where the middle of eight ranks is a rough guess.
            let likely = most_likely(&sample, 8.0).unwrap();
            assert!((likely - exponent).abs() < 0.05, "{exponent} {likely}");
        }
        assert_eq!(least_squares(&[3; 1000], 1.0, |_, _| true), None);
        assert_eq!(least_squares(&[], 1.0, |_, _| true), None);
        assert_eq!(most_likely(&[7], 1.0), None);
    }

    #[test]
    fn a_drawn_sample_is_fitted() {
        // 400,000 hits drawn from 5,000 chunks by rank^-0.9.
        let exponent = -0.9;
        let mut ends = Vec::new();
        let mut sum = 0.0;
        for rank in 1..=5000 {
            sum += f64::from(rank).powf(exponent);
            ends.push(sum);
        }
        let mut hits = vec![0u32; ends.len()];
        for n in 0..400_000u64 {
            let uniform = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()) as f64 / 2f64.powi(64) * sum;
            hits[ends.partition_point(|end| *end <= uniform).min(4999)] += 1;
        }
        hits.sort_unstable_by_key(|hits| std::cmp::Reverse(*hits));
        let bulk = least_squares(&hits, 1.0, |rank, hits| rank > TOP && hits > 1).unwrap();
        assert!((bulk - exponent).abs() < 0.05, "{bulk}");
        let likely = most_likely(&hits, 1.0).unwrap();
        assert!((likely - exponent).abs() < 0.02, "{likely}");
    }

    #[test]
    fn the_sum_of_powers_is_close() {
        for exponent in [-2.0, -1.0, -0.7, 0.0] {
            let naive: f64 = (1..=50_000).map(|i| f64::from(i).powf(exponent)).sum();
            assert!((zeta(exponent, 1.0, 50_000) / naive - 1.0).abs() < 1e-6);
            assert!(
                (zeta(exponent, 1.0, 10)
                    / (1..=10).map(|i| f64::from(i).powf(exponent)).sum::<f64>()
                    - 1.0)
                    .abs()
                    < 1e-12
            );
        }
    }

    #[test]
    fn chunks_are_sampled_within_the_memory() {
        let mut packets: Vec<Made> = Vec::new();
        for seed in 0..2000 {
            // Half the chunks are matched once, half three times: these bring 3/4.
            packets.extend((0..2 + seed % 2 * 2).map(|_| made(seed, 60)));
        }
        let budget = 24_000;
        let figure = observe(Box::new(Hits::new(budget)), &packets, 1 << 20, 1000);
        assert!(figure.memory <= budget);
        assert_eq!(figure.notes.len(), 2);
        let Cell::Number(once) = value(&figure.tables[0], "chunks hit once") else { panic!() };
        assert!((once - 0.5).abs() < 0.1, "{once}");
        let Cell::Number(top) = value(&figure.tables[1], "top 50.0 %") else { panic!() };
        assert!((top - 0.75).abs() < 0.06, "{top}");
        assert!(observe(Box::new(Hits::new(0)), &packets, 1 << 20, 1000).memory < 4000);
        assert!(observe(Box::new(Hits::new(0)), &[], 1 << 20, 1).tables.is_empty());
    }
}
