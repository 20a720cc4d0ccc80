//! Figure 1: savings by algorithm and direction (thesis, section 2.3; EndRE section 9.1; Santos and
//! Wetherall).

use super::layout::{chart, shares, table};
use super::{Figure, FigureId};
use crate::algorithm::Algorithm;
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use crate::text::{bytes, percent};

/// Figure 1: savings of each algorithm over all bytes on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmSavings {
    /// The measured algorithms, in the order of the settings.
    pub algorithms: Vec<AlgorithmRow>,
    /// Savings of the reference algorithm. `None` without bytes on the wire.
    pub reference: Option<f64>,
    /// What each direction carried; only directions with packets.
    pub volumes: Vec<DirectionVolume>,
    /// Cache of each direction in bytes of payload.
    pub cache: u64,
    /// Window in bytes.
    pub window: usize,
    /// Sampling period in bytes.
    pub period: usize,
    /// Bytes charged for the shim of a packet with matches.
    pub shim: u32,
}

/// One algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct AlgorithmRow {
    /// Which.
    pub algorithm: Algorithm,
    /// Share of all bytes on the wire that it saves.
    pub savings: f64,
    /// The same for each direction in [`AlgorithmSavings::volumes`].
    pub by_direction: Vec<Option<f64>>,
    /// Memory in bytes, without the shared logs.
    pub memory: u64,
    /// What limits the result.
    pub notes: Vec<String>,
}

/// What a direction carried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionVolume {
    /// The direction.
    pub direction: &'static str,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire: u64,
    /// Captured payload in bytes.
    pub payload: u64,
}

impl AlgorithmSavings {
    /// Savings of an algorithm. `None` if it was not measured.
    pub fn savings(&self, algorithm: Algorithm) -> Option<f64> {
        self.algorithms.iter().find(|row| row.algorithm == algorithm).map(|row| row.savings)
    }

    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Algorithms.number(),
            id: FigureId::Algorithms.name(),
            title: "Savings by algorithm and direction",
            source: "thesis section 2.3, Tables 2.2 and 2.3; EndRE section 9.1, Table 4; Santos and Wetherall, Table 2",
            definition: self.definition(),
            finding: self.finding().unwrap_or_default(),
            tables: vec![self.table(), self.volume_table()],
            charts: vec![self.chart()],
            notes: self.algorithms.iter().flat_map(|row| row.notes.iter().cloned()).collect(),
            memory: 0,
        }
    }

    fn table(&self) -> Table {
        let several = self.volumes.len() > 1;
        let directions =
            self.volumes.iter().filter(|_| several).map(|of| (of.direction, Unit::Share));
        let columns =
            [("algorithm", Unit::Text), ("what it is", Unit::Text), ("savings", Unit::Share)];
        let columns = columns.into_iter().chain(directions).chain([("memory", Unit::Bytes)]);
        let mut savings = table("savings", "Savings over all bytes on the wire", columns);
        savings.rows.extend(self.algorithms.iter().map(|of| {
            let mut row: Vec<Cell> =
                vec![of.algorithm.name().into(), of.algorithm.what().into(), of.savings.into()];
            row.extend(
                of.by_direction.iter().filter(|_| several).map(|savings| Cell::from(*savings)),
            );
            row.push(of.memory.into());
            row
        }));
        savings
    }

    fn volume_table(&self) -> Table {
        let columns = [
            ("direction", Unit::Text),
            ("packets", Unit::Count),
            ("bytes on the wire", Unit::Bytes),
            ("captured payload", Unit::Bytes),
        ];
        let mut volume = table("volume", "Traffic of each direction", columns);
        volume.rows.extend(self.volumes.iter().map(|of| {
            vec![of.direction.into(), of.packets.into(), of.wire.into(), of.payload.into()]
        }));
        volume
    }

    fn chart(&self) -> Chart {
        let names = self.algorithms.iter().map(|row| row.algorithm.name().to_owned()).collect();
        let bars = self.algorithms.iter().enumerate().map(|(x, row)| (x as f64, row.savings));
        let axis = Axis::of("algorithm", names);
        let caption = "Savings over all bytes on the wire";
        let mut savings = chart("savings", caption, ChartKind::Bars, axis, shares("savings"));
        savings.series.push(Series::new("savings", bars.collect()));
        savings
    }

    fn definition(&self) -> String {
        format!(
            "Savings are 1 - reduced bytes / bytes, both on the wire with all headers as captured. The cache of each direction holds {} of \
             payload (the index is extra), first in, first out. Windows of {} bytes, sampling period {}. A match is charged 4 bytes, and a packet \
             with matches {} more (the shim). Caches per pair of hosts have no shim, as EndRE works above the packet. The name of a payload is \
             charged 16 bytes. Compression is charged its DEFLATE or zstd bytes; what it does not shrink is sent as is. Each compression window \
             starts with fresh state, opens at its first packet and closes 10 ms later. Oncewire's codec is charged its whole frames, checksums \
             included. Packet headers never count as saved, although a tunnel would save acknowledgments too. Segments that TCP retransmitted are \
             in the trace and count as repeats for all; the tunnel, which does not carry them, saves their payload whole. Matches may extend across two packets that are \
             neighbors in the cache. Matches refer to packets seen before, as if none were lost.",
            bytes(self.cache),
            self.window,
            self.period,
            self.shim
        )
    }

    fn finding(&self) -> Option<String> {
        let (gzip, re) = (self.savings(Algorithm::GzipWindow)?, self.reference?);
        let mut finding = match re - gzip {
            gap if gap > 0.02 => format!(
                "Redundancy elimination saves {} of all bytes, compression over 10 ms {}: most repeats lie further back than a compressor \
                 sees.",
                percent(re),
                percent(gzip)
            ),
            gap if gap < -0.02 => format!(
                "Compression over 10 ms saves {}, redundancy elimination {}: this traffic is compressible rather than repetitive, so an entropy \
                 stage matters more than a large cache.",
                percent(gzip),
                percent(re)
            ),
            _ => format!(
                "Redundancy elimination ({}) and compression over 10 ms ({}) save about the same.",
                percent(re),
                percent(gzip)
            ),
        };
        let codec =
            [Algorithm::Packets, Algorithm::Tunnel].into_iter().filter_map(|of| self.savings(of));
        if let Some(codec) = codec.reduce(f64::max) {
            finding += &format!(" Oncewire's codec, which does both, saves {}.", percent(codec));
        }
        Some(finding)
    }
}
