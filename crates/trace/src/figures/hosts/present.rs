//! Figure 12 as tables, charts and text.

use super::super::layout::{chart, shares, table};
use super::super::tally::share;
use super::super::{Figure, FigureId};
use super::chunks::LONGEST;
use super::objects::CHUNK_NAME;
use super::{DirectionHosts, HostSavings};
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_report::format::{cache, counted, share as percent};

impl HostSavings {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Hosts.number(),
            id: FigureId::Hosts.name(),
            title: "End hosts against a middlebox",
            source: "EndRE sections 8.2, 9.1 and 9.3, Tables 4 and 6, Figs. 8 to 11",
            definition: format!(
                "Max-match with SAMPLEBYTE. Hosts: a cache for each ordered pair of addresses, of 10 MB once HTTP (ports 80, 3128, 8000, 8001, \
                 8080) runs between the two, 4 MB with SMB or NetBIOS (445, 139), otherwise 1 MB; 4 bytes per match. Middlebox: one cache of \
                 {} in each direction; neither has a shim, so that only the caches differ. + objects: consecutive packets of a flow less than 1 s apart form an object, which is \
                 cut into chunks by content as in DOT (at least 2 KiB, 6 KiB on average, at most 16 KiB). If a chunk was seen before, all of it \
                 that is not already saved counts as saved, less {CHUNK_NAME} bytes for its name: for the hosts only if the earlier copy passed \
                 between other hosts, for the middlebox only if it is older than the cache. Savings are shares of all bytes on the wire. Memory \
                 of a node: the sum over its pairs of the smaller of limit and bytes seen, at its maximum; a pair idle for 10 h is on disk. A \
                 server is a node that sends from a service's port. By size: the same caches with one limit for all pairs, by how far back matches \
                 lie in a cache of 32 MB; each protocol by its own bytes.{}",
                cache(self.shared_cache),
                self.pair_sizes.others.as_ref().map(|_| others()).unwrap_or_default()
            ),
            finding: self.total.finding().unwrap_or_default(),
            brief: self.total.brief().unwrap_or_default(),
            tables: [self.savings(), self.memories(), self.pair_sizes.table()]
                .into_iter()
                .chain(self.pair_sizes.sampler_table())
                .chain(self.pair_sizes.by_algorithm())
                .chain(self.pair_sizes.by_block())
                .collect(),
            charts: [self.chart(), self.pair_sizes.chart()]
                .into_iter()
                .chain(self.pair_sizes.sampler_chart())
                .chain(self.pair_sizes.block_chart())
                .collect(),
            notes: self.notes(),
            memory: self.memory,
        }
    }

    fn savings(&self) -> Table {
        let columns = [
            ("direction", Unit::Text),
            ("hosts", Unit::Share),
            ("hosts + objects", Unit::Share),
            ("middlebox", Unit::Share),
            ("middlebox + objects", Unit::Share),
            ("hosts / middlebox", Unit::Share),
        ];
        let mut savings =
            table("savings", "Savings of caches at the hosts and in the middle", columns);
        savings.rows.extend([&self.total].into_iter().chain(&self.directions).map(|of| {
            let of_wire = |saved: u64| Cell::from(share(saved as f64, of.wire as f64));
            vec![
                of.direction.into(),
                of_wire(of.hosts),
                of_wire(of.hosts + of.hosts_objects),
                of_wire(of.middlebox),
                of_wire(of.middlebox + of.middlebox_objects),
                of.hosts_share().into(),
            ]
        }));
        savings
    }

    fn nodes(&self) -> [(&'static str, &[u64]); 2] {
        [("clients", &self.clients), ("servers", &self.servers)]
    }

    fn memories(&self) -> Table {
        let columns = [
            ("nodes", Unit::Text),
            ("number", Unit::Count),
            ("median", Unit::Bytes),
            ("90 %", Unit::Bytes),
            ("99 %", Unit::Bytes),
            ("largest", Unit::Bytes),
        ];
        let mut memory =
            table("memory", "Largest memory that a node needs for its caches", columns);
        memory.rows.extend(self.nodes().map(|(name, sizes)| {
            let at = |quantile: f64| {
                let rank = (quantile * sizes.len() as f64).ceil() as usize;
                Cell::from(sizes.get(rank.max(1) - 1).copied())
            };
            vec![name.into(), (sizes.len() as u64).into(), at(0.5), at(0.9), at(0.99), at(1.0)]
        }));
        memory
    }

    fn chart(&self) -> Chart {
        let axis = Axis::log("memory for caches at a node", Unit::Bytes);
        let caption = "Nodes by the memory they need, at most";
        let mut memory = chart("memory", caption, ChartKind::Step, axis, shares("share of nodes"));
        memory.series.extend(self.nodes().map(|(name, sizes)| {
            let step = sizes.len().div_ceil(1000).max(1);
            let points = sizes
                .iter()
                .enumerate()
                .filter(|(i, _)| (i + 1) % step == 0 || i + 1 == sizes.len());
            let points =
                points.map(|(i, &size)| (size.max(1) as f64, (i + 1) as f64 / sizes.len() as f64));
            Series::new(name, points.collect())
        }));
        memory
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.pair_notes.clone();
        if self.packets_without_memory > 0 {
            notes.push(format!(
                "Memory was simulated for the first {}; {} of later pairs {} left out.",
                counted(self.max_pairs as u64, "host pair"),
                counted(self.packets_without_memory, "packet"),
                if self.packets_without_memory == 1 { "was" } else { "were" }
            ));
        }
        if self.objects_left_out > 0 {
            notes.push(format!(
                "The object analysis had no room for {}, so its gains may be larger.",
                counted(self.objects_left_out, "packet")
            ));
        }
        if let Some(error) = &self.error {
            notes.push(format!("The figure ends early: {error}."));
        }
        notes
    }
}

/// The definition of what the caches are compared with.
fn others() -> String {
    format!(
        " By algorithm: gzip is DEFLATE 6 with fresh state of what a flow sends within 10 ms, alone or of what max-match leaves. Chunk-match \
         replaces chunks between markers, of {LONGEST} bytes at most, by pointers of 4 bytes; beyond the figure's memory it knows a sample of the \
         chunks, which it takes for all. By size of block: ZLIB 6 of the payload of each flow, a packet or so many bytes at a time, each with fresh \
         state; of much content a part is measured, twice as sparse after each 4 MB. Energy, which the paper measured on phones, is not in a trace."
    )
}

impl DirectionHosts {
    fn brief(&self) -> Option<String> {
        let of_wire = |saved: u64| Some(percent(share(saved as f64, self.wire as f64)?));
        let (hosts, shared) = (of_wire(self.hosts)?, of_wire(self.middlebox)?);
        Some(format!("caches at the hosts save {hosts}, a shared one {shared}"))
    }

    fn finding(&self) -> Option<String> {
        let wire = self.wire as f64;
        Some(format!(
            "Caches at the hosts save {} of what one shared cache in the middle saves: {} against {} of all bytes.",
            percent(self.hosts_share()?),
            percent(share(self.hosts as f64, wire)?),
            percent(share(self.middlebox as f64, wire)?)
        ))
    }
}
