//! Figure 1: savings by algorithm and direction (thesis, section 2.3; EndRE section 9.1; Santos and
//! Wetherall).

use super::layout::{chart, shares, table};
use super::{Figure, FigureId};
use crate::algorithm::Algorithm;
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_report::format::{cache, share as percent};

/// Figure 1: savings of each algorithm over all bytes on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmSavings {
    /// The measured algorithms, in the order of the settings.
    pub algorithms: Vec<AlgorithmRow>,
    /// Savings of the reference algorithm. `None` without bytes on the wire.
    pub reference: Option<f64>,
    /// Savings of the tunnel, which the verdict is about. `None` without bytes on the wire.
    pub tunnel: Option<f64>,
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
            brief: self.brief().unwrap_or_default(),
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
             payload (the index is extra), first in, first out. Windows of {} bytes, sampling period {}, the same for all content. Max-match, \
             chunk-match, payload-match and the bound find repeats of earlier packets only; compressors and Oncewire's codec also find those \
             within a packet. In content without local maxima, as runs of zeros, maxp forces a marker after four periods; maxp-published \
             does not. A match is charged 4 bytes, and a packet with matches {} more (the shim). Caches per pair of hosts have no shim, as EndRE works above the packet. The name of a payload is \
             charged 16 bytes. Compression is charged its DEFLATE or zstd bytes; what it does not shrink is sent as is. Each compression window \
             starts with fresh state, opens at its first packet and closes 10 ms later. The tunnel is charged what its connection takes: whole frames \
             of what a flow sends within 10 ms or before it gets an answer, checksums included, also frames that are longer than their content; \
             records of TLS, and headers of Ethernet, IPv4 and TCP; what is sent again, as often as in the trace; and acknowledgments, as the trace has them for \
             as many segments. It saves the headers of segments, and packets that open and close connections, for which it is charged 40 bytes a flow. It samples \
             content that looks compressed at one position in 1,024. In the other rows, packet headers and acknowledgments never count as saved, and segments that TCP \
             retransmitted are in the trace and count as repeats. Matches may extend across two packets that are \
             neighbors in the cache. Matches refer to packets seen before, as if none were lost.",
            cache(self.cache),
            self.window,
            self.period,
            self.shim
        )
    }

    /// What max-match saves, with the name of its sampler if that is not the reference: one sampler
    /// may do badly on some content.
    fn max_match(&self) -> Option<(f64, String)> {
        const SAMPLERS: [Algorithm; 5] = [
            Algorithm::Modp,
            Algorithm::Maxp,
            Algorithm::SampleByte,
            Algorithm::SampleHash,
            Algorithm::Peaks,
        ];
        let rows = SAMPLERS.into_iter().filter_map(|of| Some((self.savings(of)?, of.name())));
        let best = rows.max_by(|a, b| a.0.total_cmp(&b.0));
        let reference = self.reference?;
        Some(match best.filter(|best| best.0 > reference + 0.02) {
            Some((savings, name)) => (savings, format!(" ({name})")),
            None => (reference, String::new()),
        })
    }

    /// What compression over windows saves, by DEFLATE or else by zstd.
    fn compression(&self) -> Option<f64> {
        self.savings(Algorithm::GzipWindow).or_else(|| self.savings(Algorithm::ZstdWindow))
    }

    fn brief(&self) -> Option<String> {
        let mut parts = Vec::new();
        let mut part = |name: &str, savings: Option<f64>| {
            parts.extend(savings.map(|savings| format!("{name} {}", percent(savings))));
        };
        part("tunnel", self.tunnel);
        if let Some((savings, sampler)) = self.max_match() {
            part(&format!("max-match{sampler}"), Some(savings));
        }
        part("compression", self.compression());
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn finding(&self) -> Option<String> {
        let gzip = self.compression()?;
        let (re, sampler) = self.max_match()?;
        let both = |name: &str| match self.savings(Algorithm::MaxpGzip) {
            Some(both) => format!("{name}, {} one after the other", percent(both)),
            None => name.to_owned(),
        };
        let mut finding = match re - gzip {
            gap if gap > 0.02 => format!(
                "Redundancy elimination{sampler} saves {} of all bytes, compression over 10 ms {}: most repeats lie further back than a compressor \
                 sees.",
                percent(re),
                percent(gzip)
            ),
            gap if gap < -0.02 => {
                let judgement = if re < 0.05 {
                    "this traffic can be compressed, but hardly repeats"
                } else {
                    "this traffic repeats, and what is new can be compressed"
                };
                format!(
                    "Compression over 10 ms saves {} of all bytes, {}: {judgement}.",
                    percent(gzip),
                    both(&format!("redundancy elimination{sampler} {}", percent(re)))
                )
            }
            _ => format!(
                "Redundancy elimination{sampler} ({}) and compression over 10 ms ({}) save about the same.",
                percent(re),
                percent(gzip)
            ),
        };
        if let Some(tunnel) = self.tunnel {
            finding += &format!(" Oncewire's tunnel, which does both, saves {}.", percent(tunnel));
        }
        Some(finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &[(Algorithm, f64)]) -> AlgorithmSavings {
        let row = |&(algorithm, savings): &(Algorithm, f64)| AlgorithmRow {
            algorithm,
            savings,
            by_direction: Vec::new(),
            memory: 0,
            notes: Vec::new(),
        };
        AlgorithmSavings {
            algorithms: rows.iter().map(row).collect(),
            reference: Some(0.04),
            tunnel: Some(0.8),
            ..AlgorithmSavings::default()
        }
    }

    #[test]
    fn one_sampler_does_not_decide_what_the_traffic_is() {
        // A dump that was sent twice: text, half of which repeats.
        let of = found(&[
            (Algorithm::GzipWindow, 0.7),
            (Algorithm::Maxp, 0.04),
            (Algorithm::SampleHash, 0.49),
            (Algorithm::MaxpGzip, 0.75),
        ]);
        let finding = of.finding().unwrap();
        for part in
            ["this traffic repeats", "elimination (samplehash) 49.0 %", "75.0 %", "saves 80.0 %."]
        {
            assert!(finding.contains(part), "{part:?} is not in {finding}");
        }
        assert_eq!(
            of.brief().unwrap(),
            "tunnel 80.0 %, max-match (samplehash) 49.0 %, compression 70.0 %"
        );
        let finding = found(&[(Algorithm::GzipWindow, 0.7)]).finding().unwrap();
        assert!(finding.contains("hardly repeats"), "{finding}");
    }
}
