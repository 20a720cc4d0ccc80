//! Figure 8: how long matches are, and whether whole packets repeat (thesis, section 2.4,
//! "Redundancy: Spatial View", Figure 2.7).

use super::layout::{add_series, chart, drawn, shares, table};
use super::tally::{ByDirection, CHARGED, Histogram, Merge, savings, share};
use super::{Figure, FigureId, Finding, Observer};
use crate::batch::View;
use crate::results::{Axis, Chart, ChartKind, Table, Unit};
use oncewire_report::format::{counted, share as percent};

/// The distribution of the lengths of matches, and the share of those that cover a packet.
#[derive(Debug)]
pub struct Lengths {
    counts: ByDirection<Counts>,
    memory: u64,
    /// Packets with a match whose payload was truncated in the capture.
    truncated: u64,
}

impl Lengths {
    /// Takes 21 KB per direction. With less `memory` (bytes) the charts get coarser, down to 1 KB
    /// per direction. Tables stay exact.
    pub fn new(memory: u64) -> Lengths {
        Lengths { counts: ByDirection::default(), memory, truncated: 0 }
    }
}

/// The longest match of each row of the table, in bytes, and its label. The thesis mentions 50, 150
/// and 1,500 bytes.
const BINS: [(u32, &str); 8] = [
    (50, "1 to 50"),
    (99, "51 to 99"),
    (149, "100 to 149"),
    (249, "150 to 249"),
    (499, "250 to 499"),
    (999, "500 to 999"),
    (1399, "1,000 to 1,399"),
    (u32::MAX, "1,400 and more"),
];

/// What a match covers.
const COVERS: [&str; 3] =
    ["part of the payload", "the whole payload", "the whole payload, from one whole payload"];

#[derive(Clone, Debug)]
struct Counts {
    by_length: [MatchSum; BINS.len()],
    by_cover: [MatchSum; COVERS.len()],
    by_count: Histogram,
    by_savings: Histogram,
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        let sums = self.by_length.iter_mut().chain(&mut self.by_cover);
        for (mine, theirs) in sums.zip(other.by_length.iter().chain(&other.by_cover)) {
            mine.add(*theirs);
        }
        self.by_count.merge(&other.by_count);
        self.by_savings.merge(&other.by_savings);
    }
}

impl Counts {
    /// `memory` (bytes) is shared by two histograms for each of six directions and the total.
    fn new(memory: u64) -> Counts {
        let histogram = Histogram::new(65_535, 7, memory / 14);
        Counts {
            by_length: Default::default(),
            by_cover: Default::default(),
            by_count: histogram.clone(),
            by_savings: histogram,
        }
    }
}

impl Observer for Lengths {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            if packet.len == 0 {
                continue;
            }
            let counts = self.counts.at(packet.direction, || Counts::new(self.memory));
            self.truncated += u64::from(packet.missing > 0 && !view.matches.of(i).is_empty());
            for (found, saved) in savings(view, i) {
                let bin = BINS.partition_point(|(longest, _)| *longest < found.len);
                counts.by_count.add(found.len.into(), 1.0);
                counts.by_savings.add(found.len.into(), saved);
                let whole = found.len == packet.len;
                let of_whole = |cached: &crate::Cached| {
                    cached.offset == found.source && cached.len == found.len
                };
                let cover = match whole {
                    false => 0,
                    true if view.origin(packet, &found).is_some_and(of_whole) => 2,
                    true => 1,
                };
                let one = MatchSum { matches: 1, saved };
                counts.by_length[bin].add(one);
                counts.by_cover[cover].add(one);
            }
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Lengths(self.compute())
    }
}

/// Figure 8: lengths of matches, and what they cover.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchLengths {
    /// Each direction with packets; the total comes last if there are several.
    pub directions: Vec<DirectionLengths>,
    /// Packets with matches whose payload was truncated in the capture.
    pub truncated_packets: u64,
    /// Largest relative error of a length in the distributions.
    pub error: f64,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Lengths of matches in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionLengths {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Matches by length: up to 50, 99, 149, 249, 499, 999, 1,399 bytes, and longer.
    pub by_length: [MatchSum; BINS.len()],
    /// Matches by what they cover: part of the payload, the whole payload, the whole payload from
    /// one whole payload.
    pub by_cover: [MatchSum; COVERS.len()],
    /// Length in bytes, and the share of matches up to that length.
    pub matches_up_to: Vec<(f64, f64)>,
    /// Length in bytes, and the share of savings by matches up to that length.
    pub savings_up_to: Vec<(f64, f64)>,
}

/// Some matches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatchSum {
    /// How many.
    pub matches: u64,
    /// Bytes they save.
    pub saved: f64,
}

impl MatchSum {
    pub(super) fn add(&mut self, other: MatchSum) {
        self.matches += other.matches;
        self.saved += other.saved;
    }

    pub(super) fn of(sums: &[MatchSum]) -> MatchSum {
        let mut sum = MatchSum::default();
        sums.iter().for_each(|one| sum.add(*one));
        sum
    }
}

impl Lengths {
    fn compute(self) -> MatchLengths {
        let rows = self.counts.rows();
        let first = rows.first().map(|(_, counts)| &counts.by_count);
        let each = first.map_or(0, |histogram| histogram.memory() * 2 + size_of::<Counts>() as u64);
        MatchLengths {
            truncated_packets: self.truncated,
            error: first.map_or(0.0, Histogram::error),
            memory: rows.len() as u64 * each,
            directions: rows
                .into_iter()
                .map(|(direction, counts)| DirectionLengths {
                    direction,
                    by_length: counts.by_length,
                    by_cover: counts.by_cover,
                    matches_up_to: counts.by_count.cdf(),
                    savings_up_to: counts.by_savings.cdf(),
                })
                .collect(),
        }
    }
}

impl MatchLengths {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let (tables, charts) = self.layout();
        Figure {
            number: FigureId::Lengths.number(),
            id: FigureId::Lengths.name(),
            title: "Lengths of matches",
            source: "thesis, section 2.4, Figure 2.7",
            definition: format!(
                "Length in bytes of payload of every match of the reference algorithm, by number of matches and by bytes saved. A \
                 match covers the whole payload if it begins at the first byte and ends at the last. It comes from one whole payload \
                 if it is also the entire payload of the packet it was taken from; a hash of whole payloads would find such a match. \
                 {CHARGED} A match shorter than the charge saves nothing but is counted."
            ),
            finding: self.directions.last().and_then(DirectionLengths::finding).unwrap_or_default(),
            brief: self.directions.last().and_then(DirectionLengths::brief).unwrap_or_default(),
            memory: self.memory,
            tables,
            charts,
            notes: self.notes(),
        }
    }

    fn layout(&self) -> (Vec<Table>, Vec<Chart>) {
        if self.directions.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let columns = |first| {
            [
                ("direction", Unit::Text),
                (first, Unit::Text),
                ("matches", Unit::Count),
                ("share of matches", Unit::Share),
                ("saved", Unit::Bytes),
                ("share of savings", Unit::Share),
            ]
        };
        let mut lengths =
            table("lengths", "Matches and savings by length of match", columns("length in bytes"));
        let mut covers = table(
            "packets",
            "Matches and savings by what the match covers",
            columns("match covers"),
        );
        let axis = || Axis::log("length of match", Unit::Bytes);
        let step = |id, caption, y| chart(id, caption, ChartKind::Step, axis(), shares(y));
        let mut by_count = step("matches", "Matches up to a length", "share of matches");
        let mut by_savings =
            step("savings", "Savings by matches up to a length", "share of savings");
        for of in &self.directions {
            let all = MatchSum::of(&of.by_length);
            let row = |label: &str, sum: &MatchSum| {
                vec![
                    of.direction.into(),
                    label.into(),
                    sum.matches.into(),
                    share(sum.matches as f64, all.matches as f64).into(),
                    sum.saved.into(),
                    share(sum.saved, all.saved).into(),
                ]
            };
            lengths
                .rows
                .extend(BINS.iter().zip(&of.by_length).map(|((_, bin), sum)| row(bin, sum)));
            covers.rows.extend(COVERS.iter().zip(&of.by_cover).map(|(cover, sum)| row(cover, sum)));
            add_series(&mut by_count, of.direction, of.matches_up_to.clone());
            add_series(&mut by_savings, of.direction, of.savings_up_to.clone());
        }
        (vec![lengths, covers], drawn([by_count, by_savings]))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.error > 0.01 {
            notes.push(format!(
                "To stay within its memory limit, the charts show lengths to within {}.",
                percent(self.error)
            ));
        }
        if self.truncated_packets > 0 {
            notes.push(format!(
                "{} with matches {} truncated in the capture. Their matches could be longer, and a match that covers all captured \
                 bytes counts as whole.",
                counted(self.truncated_packets, "packet"),
                if self.truncated_packets == 1 { "was" } else { "were" }
            ));
        }
        notes
    }
}

impl DirectionLengths {
    fn brief(&self) -> Option<String> {
        let all = MatchSum::of(&self.by_length);
        let short = MatchSum::of(&self.by_length[..3]);
        Some(format!(
            "{} are below 150 bytes and bring {} of the savings",
            percent(share(short.matches as f64, all.matches as f64)?),
            percent(share(short.saved, all.saved)?)
        ))
    }

    fn finding(&self) -> Option<String> {
        let all = MatchSum::of(&self.by_length);
        let short = MatchSum::of(&self.by_length[..3]);
        let [_, whole, from_whole] = self.by_cover;
        Some(format!(
            "{} of the matches are shorter than 150 bytes and bring {} of the savings; matches of whole payloads bring {}. An index \
             of whole packets alone, without fingerprints inside them, would find {} of the savings.",
            percent(share(short.matches as f64, all.matches as f64)?),
            percent(share(short.saved, all.saved)?),
            percent(share(whole.saved + from_whole.saved, all.saved)?),
            percent(share(from_whole.saved, all.saved)?)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::origins::cell;
    use super::*;
    use crate::batch::testing::{Made, noise, observe};

    fn packets() -> Vec<Made> {
        let made = |parts: &[(u64, usize)]| {
            let payload: Vec<u8> =
                parts.iter().flat_map(|(seed, len)| noise(*seed, *len)).collect();
            Made::udp("10.0.0.1:80", "10.0.0.2:1000").payload(&payload)
        };
        vec![
            made(&[(1, 1404)]),
            made(&[(2, 504)]),
            made(&[(6, 504)]),
            made(&[(1, 1404)]),                  // the whole of a whole: 1,400
            made(&[(1, 804)]),                   // whole, but part of its origin: 800
            made(&[(3, 10), (2, 104)]),          // part: 100
            made(&[(4, 10), (6, 204), (5, 10)]), // part: 200
        ]
    }

    #[test]
    fn bins_and_covers_are_exact() {
        let figure = observe(Box::new(Lengths::new(1 << 20)), &packets(), 1 << 20, 4);
        let lengths = &figure.tables[0];
        let expected = [
            (0u64, 0.0),
            (0, 0.0),
            (1, 100.0),
            (1, 200.0),
            (0, 0.0),
            (1, 800.0),
            (0, 0.0),
            (1, 1400.0),
        ];
        for ((_, bin), (matches, saved)) in BINS.iter().zip(expected) {
            assert_eq!(cell(lengths, "all", bin, 2), matches.into(), "{bin}");
            assert_eq!(cell(lengths, "all", bin, 4), saved.into(), "{bin}");
            assert_eq!(cell(lengths, "all", bin, 5), (saved / 2500.0).into());
        }
        for (covers, (matches, saved)) in
            COVERS.iter().zip([(2u64, 300.0), (1, 800.0), (1, 1400.0)])
        {
            assert_eq!(cell(&figure.tables[1], "all", covers, 2), matches.into(), "{covers}");
            assert_eq!(cell(&figure.tables[1], "all", covers, 4), saved.into(), "{covers}");
        }
        let points = &figure.charts[0].series[0].points;
        assert_eq!(points[0], (104.0, 0.25));
        assert_eq!(figure.charts[1].series[0].points.last().unwrap().1, 1.0);
        assert!(figure.finding.contains("would find 56.0 %"), "{}", figure.finding);
    }

    #[test]
    fn with_little_memory_the_table_stays_exact() {
        let figure = observe(Box::new(Lengths::new(0)), &packets(), 1 << 20, 1);
        assert!(figure.memory < 2000, "{}", figure.memory);
        assert_eq!(figure.notes.len(), 1);
        assert_eq!(
            figure.tables[0].rows,
            observe(Box::new(Lengths::new(1 << 20)), &packets(), 1 << 20, 1).tables[0].rows
        );
        assert!(observe(Box::new(Lengths::new(0)), &[], 1 << 20, 1).tables.is_empty());
    }
}
