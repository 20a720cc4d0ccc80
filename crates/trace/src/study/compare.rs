//! The figures that compare algorithms: 1, 2, 3 and 5.

use super::plan::{Key, PERIODS, swept};
use super::{Algorithm, FigureId, Pass, Settings, verdict};
use crate::algorithm::{Outcome, Tally};
use crate::batch::Direction;
use crate::results::{Accounting, Axis, Cell, Chart, ChartKind, Column, Figure, Input, Report, Series, Table, Unit};
use crate::service;

/// Rows of the table of services.
const SERVICES: usize = 25;
/// Services in the chart.
const CHARTED: usize = 8;

impl Pass {
    /// Directions that had packets.
    fn directions(&self) -> Vec<Direction> {
        Direction::ALL.into_iter().filter(|direction| self.volumes[direction.index()].packets > 0).collect()
    }

    fn wire(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.wire).sum()
    }

    /// What the run of a key saved. `None` if it did not run.
    pub(super) fn tally(&self, key: &Key) -> Option<&Tally> {
        self.run(key).map(|run| &run.tally)
    }

    fn run(&self, key: &Key) -> Option<&Outcome> {
        self.outcomes.get(key)
    }

    /// Savings over all wire bytes. `None` if the run did not run or there are none.
    pub(super) fn savings(&self, key: &Key) -> Option<f64> {
        share(self.tally(key)?.total(), self.wire())
    }

    /// Savings of the reference by cache size, ascending. Empty if the sweep did not run.
    pub(super) fn curve(&self) -> Vec<(u64, f64)> {
        let settings = &self.settings;
        let sizes = settings.cache_sizes().into_iter();
        let savings =
            sizes.map(|size| Some((size, self.savings(&settings.max_match(&settings.sampler, settings.period, size))?)));
        savings.collect::<Option<_>>().unwrap_or_default()
    }

    pub(super) fn report(self, input: Input, accounting: Accounting) -> Report {
        let settings = &self.settings;
        let mut figures = Vec::new();
        for &figure in &settings.figures {
            match figure {
                FigureId::Algorithms => figures.push(self.algorithms()),
                FigureId::Periods => figures.push(self.periods()),
                FigureId::Caches => figures.push(self.by_cache()),
                FigureId::Protocols => figures.push(self.protocols()),
                _ => {}
            }
        }
        figures.extend(self.figures.iter().cloned());
        figures.sort_by_key(|figure| figure.number);
        let verdict = verdict::verdict(&self, &input, &figures);
        Report { input, settings: settings.words(), accounting, verdict, figures }
    }

    fn algorithms(&self) -> Figure {
        let settings = &self.settings;
        let directions = self.directions();
        let mut columns = vec![
            Column::new("algorithm", Unit::Text),
            Column::new("what it is", Unit::Text),
            Column::new("savings", Unit::Share),
        ];
        if directions.len() > 1 {
            columns.extend(directions.iter().map(|direction| Column::new(direction.name(), Unit::Share)));
        }
        columns.push(Column::new("memory", Unit::Bytes));
        let (mut rows, mut bars, mut names, mut notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &algorithm in &settings.algorithms {
            let key = settings.key(algorithm);
            let (Some(run), Some(savings)) = (self.run(&key), self.savings(&key)) else { continue };
            let mut row: Vec<Cell> = vec![algorithm.name().into(), algorithm.what().into(), savings.into()];
            if directions.len() > 1 {
                let of = |direction: &Direction| share(run.tally.of(*direction), self.volumes[direction.index()].wire);
                row.extend(directions.iter().map(|direction| Cell::from(of(direction))));
            }
            row.push(run.memory.into());
            bars.push((names.len() as f64, savings));
            names.push(algorithm.name().to_owned());
            rows.push(row);
            notes.extend(run.notes.iter().cloned());
        }
        let volume = Table {
            id: "volume",
            caption: "What went which way".into(),
            columns: vec![
                Column::new("direction", Unit::Text),
                Column::new("packets", Unit::Count),
                Column::new("bytes on the wire", Unit::Bytes),
                Column::new("captured payload", Unit::Bytes),
            ],
            rows: directions
                .iter()
                .map(|direction| {
                    let volume = &self.volumes[direction.index()];
                    vec![direction.name().into(), volume.packets.into(), volume.wire.into(), volume.payload.into()]
                })
                .collect(),
        };
        let by = |wanted: Algorithm| self.savings(&settings.key(wanted));
        let mut finding = String::new();
        if let (Some(gzip), Some(re)) = (by(Algorithm::GzipWindow), self.savings(&settings.reference())) {
            finding = match re - gzip {
                gap if gap > 0.02 => format!(
                    "Redundancy elimination saves {} of all bytes, compression over 10 ms {}: most of what repeats lies further back than a \
                     compressor sees.",
                    percent(re),
                    percent(gzip)
                ),
                gap if gap < -0.02 => format!(
                    "Compression over 10 ms saves {}, redundancy elimination {}: this traffic is compressible rather than repetitive, so an \
                     entropy stage matters more than a large cache.",
                    percent(gzip),
                    percent(re)
                ),
                _ => {
                    format!("Redundancy elimination ({}) and compression over 10 ms ({}) save alike.", percent(re), percent(gzip))
                }
            };
            if let Some(link) = larger(by(Algorithm::Packets), by(Algorithm::Tunnel)) {
                finding += &format!(" Our codec, which does both, saves {}.", percent(link));
            }
        }
        Figure {
            number: FigureId::Algorithms.number(),
            id: FigureId::Algorithms.name(),
            title: "Savings by algorithm and direction",
            source: "thesis section 2.3, Tables 2.2 and 2.3; EndRE section 9.1, Table 4; Santos and Wetherall, Table 2",
            definition: format!(
                "Savings are 1 - reduced bytes / bytes, both on the wire with all headers as seen. A cache holds {} of payload (its index comes on \
                 top) in each direction and forgets the oldest first. Windows of {} bytes, sampling period {}. A match is charged 4 bytes, a packet \
                 with matches {} more (the shim); caches per pair of hosts have no shim, as EndRE works above the packet. A payload's name is \
                 charged 16 bytes. Compression is charged its DEFLATE or zstd bytes; what it does not shrink is sent as it is. Each compression \
                 window has fresh state, opens at its first packet and closes 10 ms later. Our codec is charged its whole frames, checksums \
                 included; headers of packets are never counted as saved, though a tunnel would save acknowledgements too. Segments that TCP sent \
                 again are in the trace, and count as repeats for all, though a tunnel's own connection would not see them. Matches may go on \
                 across the border of two packets that are neighbours in the cache. Matches refer to packets seen before, as if none were lost.",
                bytes(settings.cache),
                settings.window,
                settings.period,
                settings.shim
            ),
            finding,
            tables: vec![Table { id: "savings", caption: "Savings over all bytes on the wire".into(), columns, rows }, volume],
            charts: vec![Chart {
                id: "savings",
                caption: "Savings over all bytes on the wire".into(),
                kind: ChartKind::Bars,
                x: Axis::of("algorithm", names),
                y: Axis::new("savings", Unit::Share),
                right: None,
                series: vec![Series::new("savings", bars)],
            }],
            notes,
            memory: 0,
        }
    }

    fn periods(&self) -> Figure {
        let settings = &self.settings;
        let optimal = self.run(&Key::Other(Algorithm::Optimal));
        let bound = self.savings(&Key::Other(Algorithm::Optimal));
        let (mut rows, mut series) = (Vec::new(), Vec::new());
        let mut at_32 = Vec::new();
        for sampler in swept() {
            let mut points = Vec::new();
            for period in PERIODS {
                let key = settings.max_match(&sampler, period, settings.cache);
                let (Some(run), Some(savings)) = (self.run(&key), self.savings(&key)) else { continue };
                let of_bound = bound.filter(|&bound| bound > 0.0).map(|bound| savings / bound);
                rows.push(vec![
                    sampler.name().into(),
                    (period as u64).into(),
                    run.bytes_per_fingerprint.into(),
                    savings.into(),
                    of_bound.into(),
                ]);
                points.push((period as f64, savings));
                if period == 32 {
                    at_32.push((savings, sampler.name()));
                }
            }
            series.push(Series::new(sampler.name(), points));
        }
        if let Some(bound) = bound {
            series.push(Series::new("optimal", PERIODS.map(|period| (period as f64, bound)).to_vec()));
        }
        at_32.sort_by(|a, b| b.0.total_cmp(&a.0));
        let finding = match (&at_32[..], bound) {
            ([(best, name), .., (least, worst)], Some(bound)) if bound > 0.005 => format!(
                "At a period of 32 {name} finds most ({}, {} of the bound) and {worst} least ({}).",
                percent(*best),
                percent(best / bound),
                percent(*least)
            ),
            _ => String::new(),
        };
        Figure {
            number: FigureId::Periods.number(),
            id: FigureId::Periods.name(),
            title: "Savings by sampling period",
            source: "thesis section 2.2, Fig. 2.2; EndRE section 8.1, Fig. 7",
            definition: "Savings over all bytes on the wire, as in figure 1, of max-match with each sampler at sampling periods of 4 to 512 bytes. A \
                         sampler is meant to choose one fingerprint per period; how many bytes it has for each is in the table. Optimal \
                         indexes every window (thesis section 2.2), so it has no period. Tables have two slots for each fingerprint that the \
                         cache is expected to hold."
                .into(),
            finding,
            tables: vec![Table {
                id: "periods",
                caption: "Savings by sampler and period".into(),
                columns: vec![
                    Column::new("sampler", Unit::Text),
                    Column::new("period", Unit::Bytes),
                    Column::new("bytes per fingerprint", Unit::Number),
                    Column::new("savings", Unit::Share),
                    Column::new("share of optimal", Unit::Share),
                ],
                rows,
            }],
            charts: vec![Chart {
                id: "periods",
                caption: "Savings by sampling period".into(),
                kind: ChartKind::Line,
                x: Axis::log("sampling period", Unit::Bytes),
                y: Axis::new("savings", Unit::Share),
                right: None,
                series,
            }],
            notes: optimal.map(|run| run.notes.clone()).unwrap_or_default(),
            memory: 0,
        }
    }

    fn by_cache(&self) -> Figure {
        let settings = &self.settings;
        let curve = self.curve();
        let directions = self.directions();
        let mut columns = vec![Column::new("cache", Unit::Bytes), Column::new("savings", Unit::Share)];
        let mut series = vec![Series::new("savings", curve.iter().map(|&(size, savings)| (size as f64, savings)).collect())];
        let several = directions.len() > 1;
        if several {
            columns.extend(directions.iter().map(|direction| Column::new(direction.name(), Unit::Share)));
            series.extend(directions.iter().map(|direction| Series::new(direction.name(), Vec::new())));
        }
        let rows = curve
            .iter()
            .map(|&(size, savings)| {
                let mut row: Vec<Cell> = vec![size.into(), savings.into()];
                if let (true, Some(tally)) = (several, self.tally(&settings.max_match(&settings.sampler, settings.period, size)))
                {
                    for (index, direction) in directions.iter().enumerate() {
                        let savings = share(tally.of(*direction), self.volumes[direction.index()].wire);
                        series[index + 1].points.extend(savings.map(|savings| (size as f64, savings)));
                        row.push(savings.into());
                    }
                }
                row
            })
            .collect();
        let finding = match knee(&curve) {
            Some(size) => {
                let at = |wanted| curve.iter().find(|&&(size, _)| size == wanted).map_or(0.0, |&(_, savings)| savings);
                let most = curve.last().map_or(0.0, |&(_, savings)| savings);
                format!(
                    "The knee lies at {}: that much cache in each direction saves {} of all bytes; the largest cache tried saves {}.",
                    bytes(size),
                    percent(at(size)),
                    percent(most)
                )
            }
            None => "No cache size stands out: too little is saved at any of them.".to_owned(),
        };
        let mut notes = Vec::new();
        if settings.survey.is_some_and(|survey| survey.most() <= settings.cache.saturating_mul(4)) {
            notes.push("The largest cache shown holds the whole trace: a longer trace might gain from more.".to_owned());
        }
        Figure {
            number: FigureId::Caches.number(),
            id: FigureId::Caches.name(),
            title: "Savings by cache size",
            source: "thesis section 2.4, Fig. 2.9; EndRE section 8.2.1, Fig. 8",
            definition: format!(
                "Savings over all bytes on the wire, as in figure 1, of max-match with {}, for caches of payload in each direction. The knee is the \
                 point furthest above the straight line from the first to the last point, over the logarithm of the size (Satopaa et al., \
                 Kneedle, 2011); if the smallest cache already saves 95 % of what the largest does, it is the smallest.",
                settings.sampler.name()
            ),
            finding,
            tables: vec![Table { id: "caches", caption: "Savings by cache size".into(), columns, rows }],
            charts: vec![Chart {
                id: "caches",
                caption: "Savings by cache size".into(),
                kind: ChartKind::Line,
                x: Axis::log("cache of payload in each direction", Unit::Bytes),
                y: Axis::new("savings", Unit::Share),
                right: None,
                series,
            }],
            notes,
            memory: 0,
        }
    }

    fn protocols(&self) -> Figure {
        let settings = &self.settings;
        let mut services: Vec<_> = self.services.iter().collect();
        services.sort_by(|a, b| b.1.wire.cmp(&a.1.wire).then(a.0.cmp(b.0)));
        let wire = self.wire();
        let Some(reference) = self.tally(&settings.reference()) else { unreachable!("the reference always runs") };
        let rows: Vec<Vec<Cell>> = services
            .iter()
            .take(SERVICES)
            .map(|&(&key, volume)| {
                let saved = reference.of_service(key);
                vec![
                    service::label(key.0, key.1).into(),
                    volume.packets.into(),
                    volume.wire.into(),
                    share(volume.wire, wire).into(),
                    share(saved, volume.payload).into(),
                    share(saved, volume.wire).into(),
                    share(saved, reference.total()).into(),
                ]
            })
            .collect();
        let sizes = settings.cache_sizes();
        let series = services
            .iter()
            .take(CHARTED)
            .map(|&(&key, volume)| {
                let points = sizes.iter().filter_map(|&size| {
                    let tally = self.tally(&settings.max_match(&settings.sampler, settings.period, size))?;
                    Some((size as f64, share(tally.of_service(key), volume.wire)?))
                });
                Series::new(service::label(key.0, key.1), points.collect())
            })
            .collect();
        let gains = services.iter().max_by_key(|(key, _)| reference.of_service(**key));
        let finding = gains
            .filter(|(key, _)| reference.of_service(**key) > 0)
            .map(|&(&key, volume)| {
                format!(
                    "{} of the savings come from {}, which is {} of the bytes.",
                    percent(share(reference.of_service(key), reference.total()).unwrap_or(0.0)),
                    service::label(key.0, key.1),
                    percent(share(volume.wire, wire).unwrap_or(0.0))
                )
            })
            .unwrap_or_default();
        let notes = (services.len() > SERVICES)
            .then(|| format!("{} services in all; those of fewer bytes are left out.", services.len()))
            .into_iter()
            .collect();
        Figure {
            number: FigureId::Protocols.number(),
            id: FigureId::Protocols.name(),
            title: "Savings by protocol and port",
            source: "thesis section 2.3, Table 2.4; EndRE section 8.2.1, Fig. 9",
            definition: "A packet belongs to the service of its well-known port, or of the lower one. The reference algorithm's savings as in figure \
                         1, the cache shared by all services. Redundancy: bytes saved / captured payload; savings: bytes saved / bytes on the \
                         wire. The chart has the services of most bytes, over the cache sizes of figure 3."
                .into(),
            finding,
            tables: vec![Table {
                id: "services",
                caption: "The services of most bytes".into(),
                columns: vec![
                    Column::new("service", Unit::Text),
                    Column::new("packets", Unit::Count),
                    Column::new("bytes on the wire", Unit::Bytes),
                    Column::new("share of bytes", Unit::Share),
                    Column::new("redundancy", Unit::Share),
                    Column::new("savings", Unit::Share),
                    Column::new("share of savings", Unit::Share),
                ],
                rows,
            }],
            charts: vec![Chart {
                id: "services",
                caption: "Savings of the services of most bytes by cache size".into(),
                kind: ChartKind::Line,
                x: Axis::log("cache of payload in each direction", Unit::Bytes),
                y: Axis::new("savings", Unit::Share),
                right: None,
                series,
            }],
            notes,
            memory: 0,
        }
    }
}

/// Part of a whole; nothing if there is no whole.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The larger of two shares, if there is any.
pub(super) fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().reduce(f64::max)
}

/// `12.3 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `250 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if value.fract() == 0.0 || value >= 99.5 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// Memory, which is set in powers of 1,024: `64 MiB`.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Where more cache stops paying: see figure 3's definition. `None` if nothing is saved.
pub(super) fn knee(curve: &[(u64, f64)]) -> Option<u64> {
    let (&(first, low), &(last, high)) = (curve.first()?, curve.last()?);
    if high < 0.005 {
        return None;
    }
    if low >= high * 0.95 || first == last {
        return Some(first);
    }
    let x = |size: u64| ((size as f64).ln() - (first as f64).ln()) / ((last as f64).ln() - (first as f64).ln());
    let above = |&(size, savings): &(u64, f64)| (savings - low) / (high - low) - x(size);
    curve.iter().max_by(|a, b| above(a).total_cmp(&above(b))).map(|&(size, _)| size)
}

impl Settings {
    /// The settings in words.
    fn words(&self) -> Vec<(String, String)> {
        let mut words = vec![
            (
                "reference algorithm",
                format!("max-match over {}, window {} bytes, period {} bytes", self.sampler.name(), self.window, self.period),
            ),
            ("cache", format!("{} of payload in each direction, oldest out first; the index comes on top", bytes(self.cache))),
            ("charged", format!("4 bytes for each match, and a shim of {} bytes for each packet that has any", self.shim)),
            (
                "directions",
                match &self.inside {
                    Some(_) => "by the networks named inside".to_owned(),
                    None => "not told apart: one cache for all; name your networks with --inside".to_owned(),
                },
            ),
            (
                "memory",
                format!(
                    "{} for each figure's own state, {} for caches per host pair",
                    mebibytes(self.figure_memory),
                    mebibytes(self.pair_memory)
                ),
            ),
        ];
        if let Some(price) = self.price {
            words.push(("price", format!("{price} for a gigabyte")));
        }
        if let Some(link) = self.link {
            words.push(("link", format!("{} Mbit/s", link / 1e6)));
        }
        words.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_the_curve_bends() {
        let curve = [(1, 0.0), (2, 0.1), (4, 0.38), (8, 0.40), (16, 0.41), (32, 0.41)];
        assert_eq!(knee(&curve), Some(4));
        assert_eq!(knee(&[(1, 0.40), (2, 0.41)]), Some(1));
        assert_eq!(knee(&[(1, 0.0), (2, 0.001)]), None);
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&[(5, 0.3)]), Some(5));
    }

    #[test]
    fn bytes_are_written_for_reading() {
        assert_eq!(bytes(250_000_000), "250 MB");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(999_999_999_999_999), "1000.0 TB");
        assert_eq!(bytes(0), "0 B");
    }
}
