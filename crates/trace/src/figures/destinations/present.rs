//! Figure 13 as tables, charts and text.

use super::super::layout::{add_series, chart, drawn, shares, table};
use super::super::tally::share;
use super::super::{Figure, FigureId};
use super::{CHUNK, ChunkDestinations, DirectionDestinations, MARK, NUMBERS};
use crate::results::{Axis, Chart, ChartKind, Table, Unit};
use oncewire_report::format::share as percent;

impl ChunkDestinations {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Destinations.number(),
            id: FigureId::Destinations.name(),
            title: "Duplication across destinations",
            source: "thesis, section 6.4, Figure 6.3",
            definition: definition(),
            finding: self
                .directions
                .last()
                .and_then(DirectionDestinations::finding)
                .unwrap_or_default(),
            brief: self
                .directions
                .last()
                .and_then(DirectionDestinations::brief)
                .unwrap_or_default(),
            tables: if self.directions.is_empty() { Vec::new() } else { self.tables().into() },
            charts: self.charts(),
            notes: self.notes(),
            memory: self.memory,
        }
    }

    fn tables(&self) -> [Table; 3] {
        let mut by_number = table(
            "destinations",
            "Chunks by number of destination prefixes",
            [
                ("direction", Unit::Text),
                ("destinations", Unit::Text),
                ("chunks", Unit::Count),
                ("share of chunks", Unit::Share),
                ("share of repeated chunks", Unit::Share),
            ],
        );
        let mut bytes = table(
            "bytes",
            "Redundant bytes, and those across destinations",
            [
                ("direction", Unit::Text),
                ("in chunks", Unit::Bytes),
                ("redundant", Unit::Bytes),
                ("share redundant", Unit::Share),
                ("of these across destinations", Unit::Share),
                ("of these in chunks with several destinations", Unit::Share),
            ],
        );
        let mut pairs = table(
            "pairs",
            "Pairs of prefixes that share most",
            [
                ("direction", Unit::Text),
                ("prefix", Unit::Text),
                ("other prefix", Unit::Text),
                ("shared", Unit::Bytes),
                ("share of redundant bytes", Unit::Share),
            ],
        );
        for of in &self.directions {
            by_number.rows.extend(NUMBERS.iter().enumerate().map(|(i, (_, label))| {
                let shares = (of.chunk_shares[i], of.repeated_shares[i]);
                vec![
                    of.direction.into(),
                    (*label).into(),
                    of.chunks[i].into(),
                    shares.0.into(),
                    shares.1.into(),
                ]
            }));
            bytes.rows.push(vec![
                of.direction.into(),
                of.bytes.into(),
                of.redundant.into(),
                of.redundant_share.into(),
                of.across.into(),
                of.shared.into(),
            ]);
            pairs.rows.extend(of.top_pairs.iter().map(|pair| {
                vec![
                    of.direction.into(),
                    pair.first.clone().into(),
                    pair.second.clone().into(),
                    pair.bytes.into(),
                    pair.share.into(),
                ]
            }));
        }
        [by_number, bytes, pairs]
    }

    fn charts(&self) -> Vec<Chart> {
        let axis = Axis::log("destination prefixes", Unit::Count);
        let caption = "Chunks by number of destination prefixes, at most";
        let mut by_number =
            chart("destinations", caption, ChartKind::Step, axis, shares("share of chunks"));
        let axis = Axis::log("share of redundant bytes that a pair shares", Unit::Share);
        let caption = "Pairs of prefixes by what they share, at most";
        let mut pairs = chart("pairs", caption, ChartKind::Step, axis, shares("share of pairs"));
        for of in &self.directions {
            add_series(&mut by_number, format!("{}, all chunks", of.direction), of.up_to.clone());
            add_series(
                &mut by_number,
                format!("{}, repeated chunks", of.direction),
                of.repeated_up_to.clone(),
            );
            add_series(&mut pairs, of.direction, of.pairs_up_to.clone());
        }
        drawn([by_number, pairs])
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.named {
            notes.push(
                "No prefix table was given (--prefixes), so destinations are grouped by /16 (IPv4) and /32 (IPv6) instead of by route."
                    .into(),
            );
        }
        if let Some(share) =
            share(self.in_chunks as f64, (self.payload - self.without_prefix) as f64)
        {
            notes.push(format!(
                "Chunks cover {} of the payload. Shares refer to the bytes in chunks.",
                percent(share)
            ));
        }
        if self.without_prefix > 0 {
            let share = self.without_prefix as f64 / self.payload as f64;
            notes.push(format!(
                "{} of the payload goes to addresses in no prefix of the table and is left out.",
                percent(share)
            ));
        }
        notes.extend(self.sampled.clone());
        if self.not_paired > 0 {
            notes.push(format!(
                "Pairs are counted between the {} prefixes with the most chunks that were also sent elsewhere; {} more {} left out.",
                self.paired,
                self.not_paired,
                if self.not_paired == 1 { "prefix is" } else { "prefixes are" }
            ));
        }
        notes
    }
}

impl DirectionDestinations {
    fn brief(&self) -> Option<String> {
        let one = percent(self.chunk_shares[0]?);
        Some(format!("{one} of the chunks go to a single prefix"))
    }

    fn finding(&self) -> Option<String> {
        let (one, across) = (self.chunk_shares[0]?, self.across?);
        let mut finding = format!(
            "{} of the chunks go to a single prefix. {} of the redundant bytes are first copies to a further prefix: {}.",
            percent(one),
            percent(across),
            if across >= 0.1 {
                "routing that puts such destinations on common links can save them"
            } else {
                "with so few, redundancy-aware routing gains little over shortest paths"
            }
        );
        if self.strong_pairs > 0 {
            finding += &format!(
                " {} of {} pairs of prefixes {} 5 % of the redundant bytes or more.",
                self.strong_pairs,
                self.pairs,
                if self.strong_pairs == 1 { "shares" } else { "share" }
            );
        }
        Some(finding)
    }
}

fn definition() -> String {
    format!(
        "A chunk is {CHUNK} bytes of a packet's payload. It begins where a hash of {MARK} bytes is smaller than at the 63 positions before, and no \
         larger than at the 63 positions after, among the positions of the packet where a chunk can begin. So chunks do not overlap, and equal \
         content is cut into equal chunks wherever it lies in packets, except for its first 63 and last 126 bytes; a run of one byte has one chunk \
         at most. A chunk is identified by a 64-bit hash, and each direction has its own chunks. The number of destinations of a chunk is the \
         number of prefixes that its copies were sent to in the whole trace, whatever the cache. Repeated chunks have two copies or more. A chunk \
         of n copies to d prefixes has {CHUNK} (n - 1) redundant bytes; {CHUNK} (d - 1) of them are across destinations: the first copy to each \
         further prefix. Two prefixes share {CHUNK} bytes of each chunk that was sent to both, however often, as in the redundancy profiles of \
         the thesis, section 6.2. Shares are of the redundant bytes; they can add up to more than 100 %, since several pairs can share a chunk."
    )
}
