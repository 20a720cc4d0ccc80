//! Caches per pair of hosts by their size, and by algorithm (EndRE sections 8.2.1, 9.1 and 9.3,
//! Figures 8, 9 and 11, Tables 4 and 6).

use super::super::layout::{chart, shares, table};
use super::super::tally::share;
use super::blocks::{self, Blocks, ByBlock};
use super::chunks::Chunks;
use crate::algorithm::{PairRun, Run, WindowRun};
use crate::batch::Packet;
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_codec::ConfigError;
use oncewire_report::format::binary;

/// Sizes of a pair's cache in bytes. The paper's knee is 10 MB.
pub(crate) const SIZES: [u64; 10] = [
    62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 10_000_000, 16_000_000,
    LARGEST,
];

/// The largest one.
pub(crate) const LARGEST: u64 = 32_000_000;

/// The size of Table 4, and its place.
pub(crate) const OF_TABLE: u64 = 10_000_000;
const AT_TABLE: usize = 7;

/// The protocols of Figure 9, by port, and all others.
const PROTOCOLS: [(&str, &[u16]); 4] =
    [("HTTP", &[80, 8080]), ("SMB, NetBIOS", &[445, 139]), ("LDAP", &[389]), ("others", &[])];

/// Bytes of a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProtocolBySize {
    /// Bytes on the wire.
    pub wire: u64,
    /// Bytes saved with each size.
    pub saved: [u64; SIZES.len()],
}

/// Savings of caches per pair of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairSizes {
    /// HTTP, SMB and NetBIOS, LDAP, and others.
    pub protocols: [ProtocolBySize; PROTOCOLS.len()],
    /// Further samplers, each with the bytes saved with each size.
    pub samplers: Vec<(&'static str, [u64; SIZES.len()])>,
    /// Captured payload in bytes.
    pub payload: u64,
    /// What compression and chunk-match save, if that was asked for.
    pub others: Option<Others>,
}

/// What the study compares caches of 10 MB for each pair of hosts with, in bytes saved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Others {
    /// Gzip over 10 ms of a flow. `None` if it was not run.
    pub gzip: Option<u64>,
    /// The caches, then gzip over 10 ms of a flow.
    pub then_gzip: u64,
    /// Chunk-match with the same caches.
    pub chunks: u64,
    /// ZLIB by the size of its blocks.
    pub blocks: ByBlock,
}

/// The runs of [`Others`].
pub(crate) struct OtherRuns {
    gzip: WindowRun,
    chunks: Chunks,
    blocks: Blocks,
}

impl OtherRuns {
    /// `gzip` compresses what the caches leave. Names of chunks take `memory` bytes.
    pub(crate) fn new(gzip: WindowRun, window: usize, period: usize, memory: u64) -> OtherRuns {
        let chunks = Chunks::new(window, period, OF_TABLE, memory);
        OtherRuns { gzip, chunks, blocks: Blocks::new() }
    }

    /// Takes the next packet with payload, of which `pairs` has the matches.
    fn packet(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        pairs: &PairRun,
    ) -> Result<(), ConfigError> {
        let matches = pairs.matches().filter(|(_, distance)| *distance <= OF_TABLE);
        self.gzip.take_residue(packet, payload, matches)?;
        self.chunks.packet(packet, payload);
        self.blocks.packet(packet, payload);
        Ok(())
    }

    fn memory(&self) -> u64 {
        self.gzip.memory() + self.chunks.memory() + self.blocks.memory()
    }

    fn compute(mut self) -> Others {
        // Cannot fail: what it holds has been read from its source.
        let _ = self.gzip.finish();
        Others {
            gzip: None,
            then_gzip: self.gzip.tally().total(),
            chunks: self.chunks.saved(),
            blocks: self.blocks.compute(),
        }
    }
}

/// Adds what the newest packet saves with each size, by how far back its matches lie.
fn add_found(pairs: &PairRun, saved: &mut [u64; SIZES.len()]) {
    for (distance, bytes) in pairs.found() {
        let first = SIZES.partition_point(|&size| size < distance);
        for sum in &mut saved[first..] {
            *sum += u64::from(bytes);
        }
    }
}

/// Runs caches that are as large as any, and counts by how far back matches lie. A smaller cache may
/// save a little more, as in figure 3.
pub(super) struct Sweep {
    pairs: PairRun,
    samplers: Vec<PairRun>,
    others: Option<OtherRuns>,
    found: PairSizes,
}

impl Sweep {
    /// `pairs` with caches of [`LARGEST`], and the same of other samplers.
    pub(super) fn new(
        pairs: PairRun,
        samplers: Vec<(&'static str, PairRun)>,
        others: Option<OtherRuns>,
    ) -> Sweep {
        let (names, samplers): (Vec<_>, _) = samplers.into_iter().unzip();
        let none = [0; SIZES.len()];
        let of_samplers = names.into_iter().map(|name| (name, none)).collect();
        let found = PairSizes { samplers: of_samplers, ..PairSizes::default() };
        Sweep { pairs, samplers, others, found }
    }

    /// Takes the next packet, with payload or not.
    pub(super) fn packet(&mut self, packet: &Packet, payload: &[u8]) -> Result<(), ConfigError> {
        let named = |(_, ports): &(&str, &[u16])| ports.contains(&packet.service);
        let protocol = PROTOCOLS.iter().position(named).unwrap_or(PROTOCOLS.len() - 1);
        let of = &mut self.found.protocols[protocol];
        of.wire += u64::from(packet.wire);
        if payload.is_empty() {
            return Ok(());
        }
        self.pairs.packet(packet, payload)?;
        add_found(&self.pairs, &mut of.saved);
        self.found.payload += payload.len() as u64;
        if let Some(others) = &mut self.others {
            others.packet(packet, payload, &self.pairs)?;
        }
        for (run, (_, saved)) in self.samplers.iter_mut().zip(&mut self.found.samplers) {
            run.packet(packet, payload)?;
            add_found(run, saved);
        }
        Ok(())
    }

    pub(super) fn memory(&self) -> u64 {
        self.pairs.memory()
            + self.samplers.iter().map(Run::memory).sum::<u64>()
            + self.others.as_ref().map_or(0, OtherRuns::memory)
    }

    pub(super) fn compute(self) -> (PairSizes, Vec<String>) {
        let Sweep { pairs, others, mut found, .. } = self;
        found.others = others.map(OtherRuns::compute);
        (found, pairs.notes())
    }
}

impl PairSizes {
    fn wire(&self) -> u64 {
        self.protocols.iter().map(|of| of.wire).sum()
    }

    /// Bytes saved with each size.
    fn saved(&self) -> [u64; SIZES.len()] {
        std::array::from_fn(|at| self.protocols.iter().map(|of| of.saved[at]).sum())
    }

    /// The protocols with bytes.
    fn present(&self) -> impl Iterator<Item = (&'static str, &ProtocolBySize)> {
        let all = PROTOCOLS.iter().zip(&self.protocols).map(|((name, _), of)| (*name, of));
        all.filter(|(_, of)| of.wire > 0)
    }

    /// Savings by size of a pair's cache.
    pub(super) fn table(&self) -> Table {
        let columns = [("cache per pair", Unit::Bytes), ("all", Unit::Share)].into_iter();
        let columns = columns.chain(self.present().map(|(name, _)| (name, Unit::Share)));
        let caption = "Savings by the cache of a pair of hosts, and by protocol (Figs. 8 and 9)";
        let mut sizes = table("pair-sizes", caption, columns);
        let (wire, saved) = (self.wire(), self.saved());
        sizes.rows.extend(SIZES.iter().enumerate().map(|(at, &size)| {
            let of = |saved: u64, wire: u64| Cell::from(share(saved as f64, wire as f64));
            let mut row = vec![size.into(), of(saved[at], wire)];
            row.extend(self.present().map(|(_, protocol)| of(protocol.saved[at], protocol.wire)));
            row
        }));
        sizes
    }

    /// Each sampler with its savings by size of a pair's cache. None if only one was run.
    fn by_sampler(&self) -> Vec<(&'static str, [Option<f64>; SIZES.len()])> {
        let ours = (!self.samplers.is_empty()).then(|| ("samplebyte", self.saved()));
        let all = self.samplers.iter().copied().chain(ours);
        let wire = self.wire() as f64;
        all.map(|(name, saved)| (name, saved.map(|saved| share(saved as f64, wire)))).collect()
    }

    /// Savings by size of a pair's cache, and by sampler. `None` if only one was run.
    pub(super) fn sampler_table(&self) -> Option<Table> {
        let samplers = self.by_sampler();
        let columns = samplers.iter().map(|(name, _)| (*name, Unit::Share));
        let columns = [("cache per pair", Unit::Bytes)].into_iter().chain(columns);
        let caption = "Savings by the cache of a pair of hosts, and by sampler";
        let mut sizes = table("pair-samplers", caption, columns);
        sizes.rows.extend(SIZES.iter().enumerate().map(|(at, &size)| {
            let of = samplers.iter().map(|(_, saved)| Cell::from(saved[at]));
            [Cell::from(size)].into_iter().chain(of).collect::<Vec<_>>()
        }));
        (!samplers.is_empty()).then_some(sizes)
    }

    /// The same as a chart.
    pub(super) fn sampler_chart(&self) -> Option<Chart> {
        let axis = Axis::log("cache of a pair of hosts", Unit::Bytes);
        let caption = "Savings by the cache of a pair of hosts, and by sampler";
        let mut sizes = chart("pair-samplers", caption, ChartKind::Line, axis, shares("savings"));
        sizes.series.extend(self.by_sampler().into_iter().map(|(name, saved)| {
            let points =
                SIZES.iter().zip(saved).filter_map(|(&size, saved)| Some((size as f64, saved?)));
            Series::new(name, points.collect())
        }));
        (!sizes.series.is_empty()).then_some(sizes)
    }

    /// Savings by algorithm. `None` if only one was run.
    pub(super) fn by_algorithm(&self) -> Option<Table> {
        if self.samplers.is_empty() {
            return None;
        }
        let columns = [("algorithm", Unit::Text), ("savings", Unit::Share)];
        let caption = "Savings by algorithm, with 10 MB for each pair of hosts (Table 4)";
        let mut algorithms = table("pair-algorithms", caption, columns);
        let mut row = |name: String, saved: u64| {
            let savings = share(saved as f64, self.wire() as f64);
            algorithms.rows.push(vec![name.into(), savings.into()]);
        };
        if let Some(saved) = self.others.as_ref().and_then(|others| others.gzip) {
            row("gzip over 10 ms of a flow".into(), saved);
        }
        let ours = ("samplebyte", self.saved());
        for (name, saved) in self.samplers.iter().chain([&ours]) {
            row(format!("max-match, {name}"), saved[AT_TABLE]);
        }
        if let Some(others) = &self.others {
            row("max-match, samplebyte, then gzip".into(), others.then_gzip);
            row("chunk-match, samplebyte".into(), others.chunks);
        }
        Some(algorithms)
    }

    /// What ZLIB saves with blocks of a size, and the caches whatever the size, of the payload.
    fn blocks(&self) -> Vec<(String, Option<f64>)> {
        let Some(Others { blocks: found, .. }) = &self.others else { return Vec::new() };
        let name = |size| if size == 0 { "a packet".to_owned() } else { binary(size as u64) };
        let rows = blocks::SIZES.into_iter().zip(found.saved);
        rows.map(|(size, saved)| (name(size), share(saved as f64, found.payload as f64))).collect()
    }

    fn of_payload(&self) -> Option<f64> {
        share(self.saved()[AT_TABLE] as f64, self.payload as f64)
    }

    /// ZLIB by size of block.
    pub(super) fn by_block(&self) -> Option<Table> {
        let columns = [("block", Unit::Text), ("zlib", Unit::Share), ("max-match", Unit::Share)];
        let caption = "ZLIB by size of block, and max-match with 10 MB for each pair of hosts, of the payload (Fig. 11, Table 6)";
        let mut blocks = table("blocks", caption, columns);
        let rows = self.blocks().into_iter();
        blocks.rows.extend(
            rows.map(|(name, saved)| vec![name.into(), saved.into(), self.of_payload().into()]),
        );
        (!blocks.rows.is_empty()).then_some(blocks)
    }

    /// The same as a chart.
    pub(super) fn block_chart(&self) -> Option<Chart> {
        let (names, saved): (Vec<String>, Vec<Option<f64>>) = self.blocks().into_iter().unzip();
        let ours = self.of_payload()?;
        if names.is_empty() {
            return None;
        }
        let caption =
            "ZLIB by size of block, and max-match with 10 MB for each pair of hosts (Fig. 11)";
        let axis = Axis::of("block", names);
        let y = shares("share of the payload that is saved");
        let mut blocks = chart("blocks", caption, ChartKind::Bars, axis, y);
        let zlib = saved.iter().enumerate().filter_map(|(x, saved)| Some((x as f64, (*saved)?)));
        blocks.series.push(Series::new("zlib", zlib.collect()));
        let ours = (0..saved.len()).map(|x| (x as f64, ours));
        blocks.series.push(Series::new("max-match", ours.collect()));
        Some(blocks)
    }

    /// The savings by size as a chart.
    pub(super) fn chart(&self) -> Chart {
        let axis = Axis::log("cache of a pair of hosts", Unit::Bytes);
        let caption = "Savings by the cache of a pair of hosts (Figs. 8 and 9)";
        let mut sizes = chart("pair-sizes", caption, ChartKind::Line, axis, shares("savings"));
        let series = |name: &'static str, saved: &[u64; SIZES.len()], wire: u64| {
            let points = SIZES.iter().zip(saved).filter_map(|(&size, &saved)| {
                Some((size as f64, share(saved as f64, wire as f64)?))
            });
            Series::new(name, points.collect())
        };
        sizes.series.push(series("all", &self.saved(), self.wire()));
        sizes.series.extend(self.present().map(|(name, of)| series(name, &of.saved, of.wire)));
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_the_table_is_one_of_the_sizes() {
        assert_eq!(SIZES[AT_TABLE], OF_TABLE);
        assert!(SIZES.is_sorted() && SIZES.last() == Some(&LARGEST));
    }
}
