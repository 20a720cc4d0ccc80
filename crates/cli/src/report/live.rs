//! The page of the admin address: what a process carries now.

use super::TEXTS;
use super::present::{columns, percent, reasons, row, share, signed};
use super::sums::saved;
use crate::failure::without_number;
use crate::price::Price;
use crate::quantity::binary;
use crate::top::model::{Moment, Peer};
use oncewire_net::admin::{Page, Pages, View};
use oncewire_net::history::{Amounts, Record};
use oncewire_net::status::{Document, HistoryStatus, ServiceStatus};
use oncewire_report::html::{self, Live};
use oncewire_report::{
    Axis, Block, Cell, Chart, Fact, Report, Section, Series, Summary, Table, TableView, Unit,
    format,
};
use std::sync::Arc;

/// How far the chart of rates goes back, in seconds.
const RECENT: u64 = 600;
/// Seconds of a point of the chart of the last hour.
const MINUTE: u64 = 60;
/// Seconds over which the rate now is an average.
const NOW: u64 = 5;
/// Longest time that one point of the chart of flows stands for, in seconds.
const POINT: u64 = 15;
/// Most peers of the table, those with the most bytes.
const MOST_PEERS: usize = 200;
/// Where the page asks for new data.
const PATH: &str = "update";

/// The page of a process, with this price unless a reader writes another one.
pub(crate) fn pages(price: Option<Price>) -> Pages {
    let at_first = price.clone();
    let page = move |view: &View<'_>| {
        let report = report(view, at_first.as_ref());
        let price = at_first.as_ref().map(ToString::to_string).unwrap_or_default();
        let made = html::live(&report, &TEXTS, &Live { path: PATH, price: Some(&price) });
        Page { html: made.html, policy: made.policy }
    };
    let update = |view: &View<'_>| {
        let written = view.price.map(str::trim).filter(|price| !price.is_empty());
        let (price, problem) = match written.map(str::parse::<Price>) {
            Some(Ok(price)) => (Some(price), None),
            Some(Err(problem)) => (None, Some(problem.to_string())),
            None => (None, None),
        };
        html::update(&report(view, price.as_ref()), problem.as_deref())
    };
    Pages { page: Arc::new(page), update: Arc::new(update) }
}

/// The sections, facts, series and columns are always the same: a page that is open can show what
/// changed.
fn report(view: &View<'_>, price: Option<&Price>) -> Report {
    let moment = Moment::brief(view.document);
    let (hour, charts, flows, now) = view.history.recent(|records| {
        let until = records.last().map_or(0, |last| last.time);
        let hour = records.iter().fold(Record::default(), |mut sum, record| {
            sum.add(record);
            sum
        });
        let charts = [rates(records, until), minutes(records, until)];
        (hour.amounts, charts, flows(records, until), now(records, until))
    });
    let carried = Amounts {
        sent_bytes: moment.content[0],
        received_bytes: moment.content[1],
        wire_sent_bytes: moment.wire[0],
        wire_received_bytes: moment.wire[1],
        ..Amounts::default()
    };
    let traffic = charts.map(Block::Chart).into_iter();
    let traffic = traffic.fold(Section::new("traffic", "Traffic"), Section::with);
    let mut sections = vec![traffic, peers(&moment.peers, price)];
    if let Document::Tunnel(status) = view.document {
        sections.push(services(&status.services, price));
        sections.push(Section::new("connections", "Connections").with(Block::Chart(flows)));
    }
    sections.push(reasons(&hour));
    sections.push(health(view.document, &moment));
    Report {
        kind: "Oncewire",
        title: format!("{} on {}", moment.role, moment.listening),
        about: format!(
            "Version {}, up {}.",
            moment.version.trim_start_matches("oncewire "),
            format::number(moment.uptime.as_secs() as f64, Unit::Seconds)
        ),
        summary: summary(&carried, &hour, &now, price),
        sections,
        footer: "On the wire: bytes on all transports with encryption, without headers of TCP, UDP and IP; those of a tunnel's \
                 peer are counted before encryption. Metrics for Prometheus are at /metrics, the state as JSON at /status. \
                 oncewire report has more than an hour."
            .into(),
    }
}

fn rate(bytes: u64, seconds: u64) -> f64 {
    bytes as f64 * 8.0 / seconds.max(1) as f64
}

fn bits(rate: f64) -> String {
    format::number(rate, Unit::BitsPerSecond)
}

/// The sum of the last seconds.
fn now(records: &[Record], until: u64) -> Record {
    let latest = records.iter().rev().take_while(|record| until.saturating_sub(record.time) < NOW);
    latest.fold(Record::default(), |mut sum, record| {
        sum.add(record);
        sum
    })
}

fn summary(carried: &Amounts, hour: &Amounts, now: &Record, price: Option<&Price>) -> Summary {
    let content = carried.content();
    let headline = match content {
        0 => "Nothing was carried yet.".into(),
        _ if saved(carried) > 0 => format!(
            "{} of {} did not cross the wire since the start.",
            percent(carried),
            format::bytes(content)
        ),
        _ => format!("Nothing was saved of {} since the start.", format::bytes(content)),
    };
    let latest = &now.amounts;
    let [payload, wire] =
        [latest.content(), latest.wire()].map(|bytes| bits(rate(bytes, now.seconds)));
    let money = match price {
        Some(price) => Fact::new("money", price.of(saved(carried)), format!("saved, at {price}")),
        None => Fact::new("money", format::MISSING, "write a price above"),
    };
    Summary {
        headline,
        positive: saved(carried) > 0,
        facts: vec![
            Fact::new("now", payload, format!(", {wire} on the wire")),
            Fact::new("saved now", percent(latest), ", last seconds"),
            Fact::new(
                "saved in the last hour",
                percent(hour),
                format!(", of {}", format::bytes(hour.content())),
            ),
            Fact::new(
                "saved since the start",
                percent(carried),
                format!(", {}", signed(saved(carried))),
            ),
            money,
        ],
        reasons: Vec::new(),
    }
}

/// Points, with zeros where there are none for longer than `longest` seconds: no process ran.
fn with_gaps(points: Vec<(f64, f64)>, longest: u64) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    for point in points {
        if let Some(&(before, _)) = all.last()
            && point.0 - before > longest as f64
        {
            all.extend([(before + 1.0, 0.0), (point.0 - 1.0, 0.0)]);
        }
        all.push(point);
    }
    all
}

fn before(until: u64, time: u64) -> f64 {
    -(until.saturating_sub(time) as f64)
}

/// Rates of the last minutes.
fn rates(records: &[Record], until: u64) -> Chart {
    let begin = records.partition_point(|record| until.saturating_sub(record.time) >= RECENT);
    let points = |of: fn(&Amounts) -> u64| {
        let rate = |one: &Record| (before(until, one.time), rate(of(&one.amounts), one.seconds));
        with_gaps(records[begin..].iter().map(rate).collect(), NOW)
    };
    Chart {
        id: "rates",
        caption: "Payload and what crosses the wire, both directions, by second".into(),
        x: Axis::new("time before now", Unit::Seconds),
        y: Axis::new("rate", Unit::BitsPerSecond),
        series: vec![
            Series::new("payload", points(Amounts::content)),
            Series::new("on the wire", points(Amounts::wire)),
        ],
        ..Chart::default()
    }
}

/// Rates and savings of the last hour.
fn minutes(records: &[Record], until: u64) -> Chart {
    let mut minutes: Vec<Record> = Vec::new();
    for record in records {
        let begin = record.time - record.time % MINUTE;
        match minutes.last_mut().filter(|minute| minute.time == begin) {
            Some(minute) => minute.add(record),
            None => minutes.push(Record { time: begin, ..record.clone() }),
        }
    }
    let points = |of: fn(&Amounts) -> u64| {
        let rate = |one: &Record| (before(until, one.time), rate(of(&one.amounts), one.seconds));
        with_gaps(minutes.iter().map(rate).collect(), 2 * MINUTE)
    };
    let shares = minutes.iter().filter_map(|one| match share(&one.amounts) {
        Cell::Number(share) => Some((before(until, one.time), share.max(-1.0))),
        _ => None,
    });
    Chart {
        id: "minutes",
        caption: "The last hour, by minute".into(),
        x: Axis::new("time before now", Unit::Seconds),
        y: Axis::new("rate", Unit::BitsPerSecond),
        right: Some(Axis::new("saved", Unit::Share)),
        series: vec![
            Series::new("payload", points(Amounts::content)),
            Series::new("on the wire", points(Amounts::wire)),
            Series { right: true, ..Series::new("saved", shares.collect()) },
        ],
        ..Chart::default()
    }
}

/// Connections open in the last hour.
fn flows(records: &[Record], until: u64) -> Chart {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for record in records {
        let at = before(until, record.time - record.time % POINT);
        let flows = record.flows as f64;
        match points.last_mut().filter(|(x, _)| *x == at) {
            Some((_, most)) => *most = most.max(flows),
            None => points.push((at, flows)),
        }
    }
    Chart {
        id: "flows",
        caption: "Connections open at once, the most in 15 seconds".into(),
        x: Axis::new("time before now", Unit::Seconds),
        y: Axis::new("connections", Unit::Count),
        series: vec![Series::new("connections", with_gaps(points, 3 * POINT))],
        ..Chart::default()
    }
}

fn peers(peers: &[Peer], price: Option<&Price>) -> Section {
    let sum = |[sent, received]: [u64; 2]| sent.saturating_add(received);
    let mut peers: Vec<&Peer> = peers.iter().collect();
    peers.sort_by_key(|peer| std::cmp::Reverse(sum(peer.content)));
    let rows = peers.iter().take(MOST_PEERS).map(|peer| {
        let mut cells = row(peer.name.clone(), sum(peer.content), sum(peer.wire), price);
        if price.is_none() {
            cells.push(Cell::None);
        }
        let rtt = peer.rtt.map(|rtt| rtt.as_secs_f64());
        cells.extend([peer.state.clone().into(), peer.flows.into(), rtt.into()]);
        cells
    });
    let mut columns = columns("peer", true);
    columns.extend([
        oncewire_report::Column::new("state", Unit::Text),
        oncewire_report::Column::new("connections", Unit::Count),
        oncewire_report::Column::new("round trip", Unit::Seconds),
    ]);
    let caption = match peers.len() {
        count if count > MOST_PEERS => {
            format!("Sessions with peers: {MOST_PEERS} of {}", format::count_of(count as u64))
        }
        _ => "Sessions with peers, since they began".into(),
    };
    let table = Table { id: "peers", caption, columns, rows: rows.collect() };
    let view = TableView { gauges: vec!["saved"], ..table.into() };
    Section::new("peers", "Peers").table(view)
}

/// What each target's connections carried, and what of that was not reduced.
fn services(services: &[ServiceStatus], price: Option<&Price>) -> Section {
    let rows = services.iter().map(|ServiceStatus { name, counters }| {
        let mut cells = row(name.clone(), counters.content(), counters.wire(), price);
        if price.is_none() {
            cells.push(Cell::None);
        }
        cells.extend([counters.flows.into(), counters.main_residue().unwrap_or("").into()]);
        cells
    });
    let mut columns = columns("service", true);
    columns.extend([
        oncewire_report::Column::new("connections", Unit::Count),
        oncewire_report::Column::new("sent here and not reduced", Unit::Text),
    ]);
    let caption = "By target, since the start, before encryption".into();
    let table = Table { id: "services", caption, columns, rows: rows.collect() };
    Section::new("services", "Services").table(TableView { gauges: vec!["saved"], ..table.into() })
}

/// What to look at when something is wrong.
fn health(document: &Document, moment: &Moment) -> Section {
    let up = moment.peers.iter().filter(|peer| peer.is_up).count() as u64;
    let peers = format::count_of(moment.peers.len() as u64);
    let none = || "none".to_owned();
    let mut rows: Vec<(&str, String)> = vec![
        ("peers connected", format!("{} of {peers}", format::count_of(up))),
        ("last problem", moment.problem.as_ref().map_or_else(none, without_number)),
    ];
    let (refused, history) = match document {
        Document::Tunnel(status) => {
            let failures: u64 = status.sessions.iter().map(|one| one.here.failures).sum();
            rows.extend([
                ("memory", format!("{} of {}", binary(status.memory), binary(status.memory_limit))),
                ("connections refused", format::count_of(status.refused_connections)),
                ("caches made smaller for lack of memory", format::count_of(status.shrunk)),
                ("corrupt blocks, sent again", format::count_of(failures)),
            ]);
            (status.refused_transports, &status.history)
        }
        Document::Link(status) => (status.refused_handshakes, &status.history),
    };
    rows.push(("handshakes refused", format::count_of(refused)));
    rows.push(("history", recording(history)));
    let rows = rows.into_iter().map(|(what, state)| vec![what.into(), state.into()]).collect();
    let columns = [("what", Unit::Text), ("state", Unit::Text)];
    let table = Table::new("health", "State of the process", &columns, rows);
    Section::new("health", "Health").table(TableView::complete(table))
}

fn recording(history: &Option<HistoryStatus>) -> String {
    match history {
        None => "not recorded to a file (--history)".into(),
        Some(HistoryStatus { file, failure: Some(why), .. }) => {
            format!("not recorded to {file}: {}", without_number(why))
        }
        Some(HistoryStatus { file, .. }) => format!("recorded to {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_go_back_an_hour_and_are_zero_where_nothing_ran() {
        let one = |time: u64| Record {
            time,
            seconds: 1,
            flows: time % 7,
            amounts: Amounts { sent_bytes: 1000, wire_sent_bytes: 250, ..Amounts::default() },
            ..Record::default()
        };
        // Nothing ran from 300 to 2400.
        let records: Vec<Record> = (0..300).chain(2400..3600).map(one).collect();
        let [seconds, minutes, flows] = [rates, minutes, flows].map(|of| of(&records, 3599));
        let points = &seconds.series[1].points;
        assert_eq!((points.len(), points[0], points[599]), (600, (-599.0, 2000.0), (0.0, 2000.0)));
        let points = &minutes.series[0].points;
        assert_eq!(points.len(), 25 + 2);
        assert_eq!(points[4..7], [(-3359.0, 8000.0), (-3358.0, 0.0), (-1200.0, 0.0)]);
        assert_eq!(minutes.series[2].points[0].1, 0.75);
        let points = &flows.series[0].points;
        assert_eq!((points.len(), points[0].1), (100 + 2, 6.0));
        assert!(
            seconds
                .series
                .iter()
                .chain(&minutes.series)
                .all(|one| one.points.is_sorted_by(|a, b| a.0 < b.0))
        );
        // Without records, too.
        assert!(rates(&[], 0).is_empty());
    }

    /// A history file may hold any numbers.
    #[test]
    fn huge_records_do_no_harm() {
        let amounts = Amounts { sent_bytes: u64::MAX, received_bytes: 1, ..Amounts::default() };
        let times = [0, 1 << 40, u64::MAX];
        let records = times.map(|time| Record { time, seconds: 1, amounts, ..Record::default() });
        let rate = u64::MAX as f64 * 8.0;
        let last = [rates, minutes].map(|of| of(&records, u64::MAX).series[0].points.pop());
        assert_eq!(last, [Some((0.0, rate)), Some((-((u64::MAX % MINUTE) as f64), rate))]);
        assert!(!flows(&records, u64::MAX).is_empty());
        assert_eq!(now(&records, u64::MAX).amounts.content(), u64::MAX);
    }
}
