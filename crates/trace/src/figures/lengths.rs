//! Figure 8: how long matches are, and whether whole packets repeat (thesis, section 2.4, "Redundancy: Spatial View", Figure 2.7).

use super::tally::{ByDirection, CHARGED, Histogram, Merge, percent, savings, share};
use crate::batch::{Observer, View};
use crate::results::{Axis, Chart, ChartKind, Column, Figure, Series, Table, Unit};

/// The distribution of the lengths of matches, and the share of those that cover a packet.
#[derive(Debug)]
pub struct Lengths {
    counts: ByDirection<Counts>,
    memory: u64,
    /// Packets with a match whose payload was not captured whole.
    cut: u64,
}

impl Lengths {
    /// Needs 21 KB a direction; with less `memory` the charts get coarser, down to 1 KB a direction. Tables are exact in any case.
    pub fn new(memory: u64) -> Lengths {
        Lengths { counts: ByDirection::default(), memory, cut: 0 }
    }
}

/// The longest match in each row of the table, and its name. The thesis speaks of 50, 150 and 1,500 bytes.
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
const COVERS: [&str; 3] = ["part of the payload", "the whole payload", "the whole payload, from one whole payload"];

#[derive(Clone, Debug)]
struct Counts {
    matches: [u64; BINS.len()],
    saved: [f64; BINS.len()],
    covers: [(u64, f64); COVERS.len()],
    by_count: Histogram,
    by_savings: Histogram,
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        for i in 0..BINS.len() {
            self.matches[i] += other.matches[i];
            self.saved[i] += other.saved[i];
        }
        for (mine, theirs) in self.covers.iter_mut().zip(other.covers) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.by_count.merge(&other.by_count);
        self.by_savings.merge(&other.by_savings);
    }
}

impl Counts {
    /// Two histograms for each direction and, at the end, the total.
    fn new(memory: u64) -> Counts {
        let histogram = Histogram::new(65_535, 7, memory / 14);
        Counts {
            matches: [0; BINS.len()],
            saved: [0.0; BINS.len()],
            covers: [(0, 0.0); COVERS.len()],
            by_count: histogram.clone(),
            by_savings: histogram,
        }
    }

    fn all_matches(&self) -> f64 {
        self.matches.iter().sum::<u64>() as f64
    }

    fn all_saved(&self) -> f64 {
        self.saved.iter().sum()
    }
}

impl Observer for Lengths {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            if packet.len == 0 {
                continue;
            }
            let counts = self.counts.at(packet.direction, || Counts::new(self.memory));
            self.cut += u64::from(packet.missing > 0 && !view.matches.of(i).is_empty());
            for (found, saved) in savings(view, i) {
                let bin = BINS.partition_point(|(longest, _)| *longest < found.len);
                counts.matches[bin] += 1;
                counts.saved[bin] += saved;
                counts.by_count.add(found.len.into(), 1.0);
                counts.by_savings.add(found.len.into(), saved);
                let whole = found.len == packet.len;
                let of_whole = |cached: &crate::Cached| cached.offset == found.source && cached.len == found.len;
                let covers = match whole {
                    false => 0,
                    true if view.origin(packet, &found).is_some_and(of_whole) => 2,
                    true => 1,
                };
                counts.covers[covers].0 += 1;
                counts.covers[covers].1 += saved;
            }
        }
    }

    fn finish(self: Box<Self>) -> Figure {
        let cut = self.cut;
        let rows = self.counts.rows();
        let columns = |first: &str| {
            vec![
                Column::new("direction", Unit::Text),
                Column::new(first, Unit::Text),
                Column::new("matches", Unit::Count),
                Column::new("share of matches", Unit::Share),
                Column::new("saved", Unit::Bytes),
                Column::new("share of savings", Unit::Share),
            ]
        };
        let mut lengths = Table {
            id: "lengths",
            caption: "Matches and savings by length of match".into(),
            columns: columns("length in bytes"),
            rows: Vec::new(),
        };
        let mut packets = Table {
            id: "packets",
            caption: "Matches and savings by what the match covers".into(),
            columns: columns("match covers"),
            rows: Vec::new(),
        };
        let chart = |id, caption: &str, y: &str| Chart {
            id,
            caption: caption.into(),
            kind: ChartKind::Step,
            x: Axis::log("length of match", Unit::Bytes),
            y: Axis::new(y, Unit::Share),
            right: None,
            series: Vec::new(),
        };
        let mut by_count = chart("matches", "Matches up to a length", "share of matches");
        let mut by_savings = chart("savings", "Savings by matches up to a length", "share of savings");
        for (name, counts) in &rows {
            let row = |label: &str, matches: u64, saved: f64| {
                vec![
                    (*name).into(),
                    label.into(),
                    matches.into(),
                    share(matches as f64, counts.all_matches()).into(),
                    saved.into(),
                    share(saved, counts.all_saved()).into(),
                ]
            };
            lengths.rows.extend(BINS.iter().enumerate().map(|(i, (_, bin))| row(bin, counts.matches[i], counts.saved[i])));
            packets.rows.extend(COVERS.iter().zip(counts.covers).map(|(covers, (matches, saved))| row(covers, matches, saved)));
            for (chart, histogram) in [(&mut by_count, &counts.by_count), (&mut by_savings, &counts.by_savings)] {
                let points = histogram.cdf();
                if !points.is_empty() {
                    chart.series.push(Series::new(*name, points));
                }
            }
        }
        let mut notes = Vec::new();
        let error = rows.first().map_or(0.0, |(_, counts)| counts.by_count.error());
        if error > 0.01 {
            notes.push(format!("To stay in its memory, the charts show lengths to within {}.", percent(error)));
        }
        if cut > 0 {
            notes.push(format!(
                "{cut} packets with matches were not captured whole: their matches could be longer, and those that cover all that was \
                 captured count as whole."
            ));
        }
        Figure {
            number: 8,
            id: "lengths",
            title: "Lengths of matches",
            source: "thesis, section 2.4, Figure 2.7",
            definition: format!(
                "The length, in bytes of payload, of every match of the reference algorithm, by number of matches and by bytes saved. A match \
                 covers the whole payload if it begins at its first byte and ends at its last; it is from one whole payload if it is also \
                 all of the payload of the packet that it is taken from, so that a hash of whole payloads would find it. {CHARGED} A match \
                 shorter than the charge saves nothing but is counted."
            ),
            finding: rows.last().map(|(_, counts)| finding(counts)).unwrap_or_default(),
            memory: rows.len() as u64
                * rows.first().map_or(0, |(_, counts)| counts.by_count.memory() * 2 + size_of::<Counts>() as u64),
            tables: if rows.is_empty() { Vec::new() } else { vec![lengths, packets] },
            charts: [by_count, by_savings].into_iter().filter(|chart| !chart.series.is_empty()).collect(),
            notes,
        }
    }
}

fn finding(all: &Counts) -> String {
    let (matches, saved) = (all.all_matches(), all.all_saved());
    let short = (all.matches[..3].iter().sum::<u64>() as f64, all.saved[..3].iter().sum::<f64>());
    let whole = all.covers[1].1 + all.covers[2].1;
    let (Some(short_matches), Some(short_saved), Some(whole), Some(same)) =
        (share(short.0, matches), share(short.1, saved), share(whole, saved), share(all.covers[2].1, saved))
    else {
        return String::new();
    };
    format!(
        "{} of the matches are shorter than 150 bytes and bring {} of the savings; matches of whole payloads bring {}. An index of whole \
         packets alone, without fingerprints within them, would find {} of the savings.",
        percent(short_matches),
        percent(short_saved),
        percent(whole),
        percent(same)
    )
}

#[cfg(test)]
mod tests {
    use super::super::origins::cell;
    use super::*;
    use crate::batch::testing::{Made, noise, observe};

    fn packets() -> Vec<Made> {
        let made = |parts: &[(u64, usize)]| {
            let payload: Vec<u8> = parts.iter().flat_map(|(seed, len)| noise(*seed, *len)).collect();
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
        let expected = [(0u64, 0.0), (0, 0.0), (1, 100.0), (1, 200.0), (0, 0.0), (1, 800.0), (0, 0.0), (1, 1400.0)];
        for ((_, bin), (matches, saved)) in BINS.iter().zip(expected) {
            assert_eq!(cell(lengths, "all", bin, 2), matches.into(), "{bin}");
            assert_eq!(cell(lengths, "all", bin, 4), saved.into(), "{bin}");
            assert_eq!(cell(lengths, "all", bin, 5), (saved / 2500.0).into());
        }
        for (covers, (matches, saved)) in COVERS.iter().zip([(2u64, 300.0), (1, 800.0), (1, 1400.0)]) {
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
        assert_eq!(figure.tables[0].rows, observe(Box::new(Lengths::new(1 << 20)), &packets(), 1 << 20, 1).tables[0].rows);
        assert!(observe(Box::new(Lengths::new(0)), &[], 1 << 20, 1).tables.is_empty());
    }
}
