//! Caches per pair of hosts by their size, and by sampler (EndRE sections 8.2.1 and 9.1, Figures 8
//! and 9, Table 4).

use super::super::layout::{chart, shares, table};
use super::super::tally::share;
use crate::algorithm::PairRun;
use crate::batch::Packet;
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_codec::ConfigError;

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
    /// Further samplers, each with the bytes that caches of 10 MB save.
    pub samplers: Vec<(&'static str, u64)>,
}

/// Runs caches that are as large as any, and counts by how far back matches lie. A smaller cache may
/// save a little more, as in figure 3.
pub(super) struct Sweep {
    pairs: PairRun,
    others: Vec<(&'static str, PairRun)>,
    found: PairSizes,
}

impl Sweep {
    /// `pairs` with caches of [`LARGEST`], and runs with [`OF_TABLE`] of other samplers.
    pub(super) fn new(pairs: PairRun, others: Vec<(&'static str, PairRun)>) -> Sweep {
        Sweep { pairs, others, found: PairSizes::default() }
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
        for (distance, saved) in self.pairs.found() {
            let first = SIZES.partition_point(|&size| size < distance);
            for sum in &mut of.saved[first..] {
                *sum += u64::from(saved);
            }
        }
        for (_, run) in &mut self.others {
            run.packet(packet, payload)?;
        }
        Ok(())
    }

    pub(super) fn memory(&self) -> u64 {
        use crate::algorithm::Run;
        self.pairs.memory() + self.others.iter().map(|(_, run)| run.memory()).sum::<u64>()
    }

    pub(super) fn compute(self) -> (PairSizes, Vec<String>) {
        use crate::algorithm::Run;
        let Sweep { pairs, others, mut found } = self;
        found.samplers = others.iter().map(|(name, run)| (*name, run.tally().total())).collect();
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

    /// Savings by sampler. `None` if only one was run.
    pub(super) fn by_sampler(&self) -> Option<Table> {
        if self.samplers.is_empty() {
            return None;
        }
        let columns = [("sampler", Unit::Text), ("savings", Unit::Share)];
        let caption = "Savings by sampler, with 10 MB for each pair of hosts (Table 4)";
        let mut samplers = table("pair-samplers", caption, columns);
        let ours = ("samplebyte", self.saved()[AT_TABLE]);
        samplers.rows.extend(self.samplers.iter().chain([&ours]).map(|(name, saved)| {
            vec![(*name).into(), share(*saved as f64, self.wire() as f64).into()]
        }));
        Some(samplers)
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
