//! Figure 5: savings by protocol and port (thesis, section 2.3; EndRE section 8.2.1).

use super::layout::{add_series, chart, drawn, shares, table};
use super::tally::share;
use super::{Figure, FigureId};
use crate::results::{Axis, Chart, ChartKind, Table, Unit};
use oncewire_report::format::{number, share as percent};

/// Services in the table.
pub(crate) const SERVICES: usize = 25;
/// Services in the chart.
pub(crate) const CHARTED: usize = 8;

/// Figure 5: savings of the reference algorithm by service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceSavings {
    /// The services with the most bytes on the wire, most first.
    pub services: Vec<ServiceRow>,
    /// Number of all services.
    pub all_services: usize,
    /// The service with the most savings. `None` if nothing is saved.
    pub best: Option<ServiceRow>,
    /// Bytes on the wire of the whole trace.
    pub wire: u64,
    /// Bytes saved of the whole trace.
    pub saved: u64,
    /// Shares of the services over time.
    pub over_time: SharesOverTime,
}

/// Shares of the bytes on the wire of TCP and UDP, by service and time (thesis, Figure 2.1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharesOverTime {
    /// When each part of the trace begins, in seconds after the first one. Parts without packets are
    /// left out.
    pub begins: Vec<f64>,
    /// The services with the most bytes and all others, each with its share in every part.
    pub services: Vec<(String, Vec<f64>)>,
}

/// One service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceRow {
    /// Its label: `tcp/80 http`.
    pub label: String,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire: u64,
    /// Captured payload in bytes.
    pub payload: u64,
    /// Bytes saved.
    pub saved: u64,
    /// Cache size in bytes and share of the service's bytes on the wire saved; for the first
    /// services only.
    pub by_cache: Vec<(f64, f64)>,
}

impl ServiceSavings {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let mut notes = Vec::new();
        if self.all_services > SERVICES {
            notes.push(format!(
                "The trace has {} services; the table shows the {SERVICES} with the most bytes.",
                self.all_services
            ));
        }
        Figure {
            number: FigureId::Protocols.number(),
            id: FigureId::Protocols.name(),
            title: "Savings by protocol and port",
            source: "thesis sections 2.1 and 2.3, Fig. 2.1, Table 2.4; EndRE section 8.2.1, Fig. 9",
            definition: "A packet belongs to the service of its well-known port, otherwise of the lower port. Savings of the reference algorithm \
                         as in figure 1, with one cache for all services. Redundancy: bytes saved / captured payload. Savings: bytes saved / \
                         bytes on the wire. Charts show the services with the most bytes, over the cache sizes of figure 3, and their shares of the bytes over time."
                .into(),
            finding: self.finding().unwrap_or_default(),
            brief: self.brief().unwrap_or_default(),
            tables: vec![self.table()],
            charts: drawn([self.chart(), self.over_time.chart()]),
            notes,
            memory: 0,
        }
    }

    fn table(&self) -> Table {
        let columns = [
            ("service", Unit::Text),
            ("packets", Unit::Count),
            ("bytes on the wire", Unit::Bytes),
            ("share of bytes", Unit::Share),
            ("redundancy", Unit::Share),
            ("savings", Unit::Share),
            ("share of savings", Unit::Share),
        ];
        let mut services = table("services", "The services with the most bytes", columns);
        services.rows.extend(self.services.iter().map(|of| {
            let saved = |whole: u64| share(of.saved as f64, whole as f64).into();
            vec![
                of.label.clone().into(),
                of.packets.into(),
                of.wire.into(),
                share(of.wire as f64, self.wire as f64).into(),
                saved(of.payload),
                saved(of.wire),
                saved(self.saved),
            ]
        }));
        services
    }

    fn chart(&self) -> Chart {
        let axis = Axis::log("cache of payload in each direction", Unit::Bytes);
        let caption = "Savings of the services with the most bytes by cache size";
        let mut services = chart("services", caption, ChartKind::Line, axis, shares("savings"));
        // A size alone is no curve.
        let charted = self.services.iter().take(CHARTED);
        for of in charted.filter(|of| of.by_cache.len() > 1) {
            add_series(&mut services, &of.label, of.by_cache.clone());
        }
        services
    }

    fn brief(&self) -> Option<String> {
        let best = self.best.as_ref()?;
        Some(format!(
            "{}: {} of the bytes, {} of the savings",
            best.label,
            percent(share(best.wire as f64, self.wire as f64)?),
            percent(share(best.saved as f64, self.saved as f64)?)
        ))
    }

    fn finding(&self) -> Option<String> {
        let best = self.best.as_ref()?;
        Some(format!(
            "{} of the savings come from {}, which is {} of the bytes.",
            percent(share(best.saved as f64, self.saved as f64)?),
            best.label,
            percent(share(best.wire as f64, self.wire as f64)?)
        ))
    }
}

impl SharesOverTime {
    /// Bars of shares; empty if the trace is shorter than two parts.
    fn chart(&self) -> Chart {
        let begins = self.begins.iter().map(|&seconds| number(seconds, Unit::Seconds)).collect();
        let axis = Axis::of("time from the beginning", begins);
        let caption = "Services by time (Fig. 2.1)";
        let y = shares("share of the bytes of TCP and UDP");
        let mut times = chart("shares", caption, ChartKind::StackedBars, axis, y);
        for (label, shares) in self.services.iter().filter(|_| self.begins.len() > 1) {
            let points = shares.iter().enumerate().map(|(part, &share)| (part as f64, share));
            add_series(&mut times, label, points.collect());
        }
        times
    }
}
