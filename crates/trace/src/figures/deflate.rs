//! Figure 15: what of the traffic is deflate or zstd, and what looking inside saves on top
//! (`docs/INSIDE.md`).

use super::layout::{chart, shares, table};
use super::protocols::SERVICES;
use super::tally::share;
use super::{Figure, FigureId};
use crate::results::{Axis, Chart, ChartKind, Series, Table, Unit};
use oncewire_codec::{Carrier, StreamCounts};
use oncewire_report::format::share as percent;

/// Services in the chart.
const CHARTED: usize = 8;

/// Figure 15: the tunnel with and without a look inside deflate streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeflateSavings {
    /// The services with the most deflate, most first.
    pub services: Vec<DeflateRow>,
    /// Number of all services.
    pub all_services: usize,
    /// All services.
    pub total: DeflateRow,
    /// Compressed streams, by what carries them.
    pub streams: StreamCounts,
    /// Bytes on the wire of the whole trace.
    pub wire: u64,
    /// Share of all bytes on the wire that the tunnel saves. `None` without bytes on the wire.
    pub savings: Option<f64>,
    /// The same with `--inside off`.
    pub savings_closed: Option<f64>,
    /// Memory of both tunnels in bytes.
    pub memory: u64,
}

/// One service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeflateRow {
    /// Its label: `tcp/80 http`.
    pub label: String,
    /// Bytes of its flows, each counted once.
    pub content: u64,
    /// Those in deflate streams.
    pub deflate: u64,
    /// Bytes that the tunnel sends.
    pub sent: u64,
    /// Bytes that it sends with `--inside off`.
    pub sent_closed: u64,
}

impl DeflateRow {
    /// Share of the content that is deflate. `None` without content.
    pub fn deflate_share(&self) -> Option<f64> {
        share(self.deflate as f64, self.content as f64)
    }

    /// Share of the content that the tunnel saves, with and without a look inside.
    fn savings(&self) -> (Option<f64>, Option<f64>) {
        let saved =
            |sent: u64| share(self.content.saturating_sub(sent) as f64, self.content as f64);
        (saved(self.sent), saved(self.sent_closed))
    }
}

impl DeflateSavings {
    /// Share of all bytes on the wire that a look inside saves on top. `None` if it was not
    /// measured.
    pub fn on_top(&self) -> Option<f64> {
        Some(self.savings? - self.savings_closed?)
    }

    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let mut notes = vec![
            "Segments that the capture lacks end a stream here (cut off): the rest of it counts as other content. A tunnel sees all of it. Streams \
             that are found as bytes from some place on count as cut off, too."
                .to_owned(),
        ];
        if self.all_services > SERVICES {
            notes.push(format!(
                "The trace has {} services over TCP; the table shows the {SERVICES} with the most compressed content.",
                self.all_services
            ));
        }
        Figure {
            number: FigureId::Deflate.number(),
            id: FigureId::Deflate.name(),
            title: "Compressed content, and what opening it saves",
            source: "Oncewire (docs/INSIDE.md)",
            definition: "Deflate is what gzip, zlib, zip and PNG contain: packages, office files, images, most web pages; others are zstd. A \
                         change of one byte changes all compressed bytes behind it, so nothing repeats, unless the compressed streams are taken apart. TCP streams \
                         are put together again, and each goes through the tunnel as in figure 1, once as it is by default and once with \
                         --inside off. Compressed is the content in streams whose beginning was seen, in gzip, zlib, zip, PNG, zstd, and chunks \
                         of HTTP and frames of HTTP/2. Savings of a service: 1 - bytes sent / content of its flows."
                .into(),
            finding: self.finding().unwrap_or_default(),
            brief: self.brief().unwrap_or_default(),
            tables: [self.table()].into_iter().chain(self.streams()).collect(),
            charts: vec![self.chart()],
            notes,
            memory: self.memory,
        }
    }

    fn table(&self) -> Table {
        let columns = [
            ("service", Unit::Text),
            ("content", Unit::Bytes),
            ("compressed", Unit::Bytes),
            ("share compressed", Unit::Share),
            ("savings, closed", Unit::Share),
            ("savings, opened", Unit::Share),
        ];
        let mut services =
            table("services", "Content in deflate streams and zstd frames by service", columns);
        services.rows.extend(self.services.iter().chain([&self.total]).map(|of| {
            let (opened, closed) = of.savings();
            vec![
                of.label.clone().into(),
                of.content.into(),
                of.deflate.into(),
                of.deflate_share().into(),
                closed.into(),
                opened.into(),
            ]
        }));
        services
    }

    /// `None` if there are no streams.
    fn streams(&self) -> Option<Table> {
        let columns = [
            ("carried by", Unit::Text),
            ("streams begun", Unit::Count),
            ("followed to the end", Unit::Share),
            ("broken", Unit::Share),
            ("cut off", Unit::Share),
        ];
        let mut streams = table("streams", "Compressed streams by what carries them", columns);
        streams.rows.extend(Carrier::ALL.into_iter().filter_map(|carrier| {
            let count = self.streams.get(carrier);
            let of_all = |part: u64| share(part as f64, count.begun as f64);
            let cut = count.begun.saturating_sub(count.ended + count.broken);
            (count.begun > 0).then(|| {
                vec![
                    carrier.name().into(),
                    count.begun.into(),
                    of_all(count.ended).into(),
                    of_all(count.broken).into(),
                    of_all(cut).into(),
                ]
            })
        }));
        (!streams.rows.is_empty()).then_some(streams)
    }

    fn chart(&self) -> Chart {
        let charted: Vec<_> = self.services.iter().take(CHARTED).collect();
        let names = charted.iter().map(|of| of.label.clone()).collect();
        let axis = Axis::of("service", names);
        let caption =
            "Share of the content that is compressed, and savings with and without opening it";
        let mut services = chart("services", caption, ChartKind::Bars, axis, shares("share"));
        let mut add = |name: &str, of: &dyn Fn(&DeflateRow) -> Option<f64>| {
            let points = charted.iter().enumerate();
            let points = points.filter_map(|(x, row)| Some((x as f64, of(row)?)));
            services.series.push(Series::new(name, points.collect()));
        };
        add("compressed", &|row| row.deflate_share());
        add("savings, closed", &|row| row.savings().1);
        add("savings, opened", &|row| row.savings().0);
        services
    }

    fn brief(&self) -> Option<String> {
        let (deflate, on_top) = (self.total.deflate_share()?, self.on_top()?);
        Some(format!(
            "{} of TCP content is compressed; opening it saves {}",
            percent(deflate),
            percent(on_top.max(0.0))
        ))
    }

    fn finding(&self) -> Option<String> {
        let (deflate, on_top) = (self.total.deflate_share()?, self.on_top()?);
        Some(if deflate < 0.0005 {
            "Next to nothing of the content of TCP flows is deflate or zstd that could be opened."
                .to_owned()
        } else if on_top < 0.0005 {
            format!(
                "{} of the content of TCP flows is compressed (deflate or zstd), and opening it saves nothing on top: what repeats in it repeats as bytes.",
                percent(deflate)
            )
        } else {
            format!(
                "{} of the content of TCP flows is compressed (deflate or zstd); opening it saves {} of all bytes on the wire on top of {}.",
                percent(deflate),
                percent(on_top),
                percent(self.savings_closed?)
            )
        })
    }
}
