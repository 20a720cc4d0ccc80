//! What was carried, as a report for presenters.

use super::sums::{DAY, Sums, clock, date, moment, saved};
use crate::price::Price;
use oncewire_net::history::{Amounts, PeerName};
use oncewire_report::{
    Axis, Block, Cell, Chart, ChartKind, Column, Fact, Report, Section, Series, Summary, Table,
    TableView, Unit, format,
};
use std::sync::Arc;

/// Bytes below which a share says nothing: handshakes and reports outweigh what is saved.
const LITTLE: u64 = 64 << 10;
/// Rows of peers on a terminal, and of days.
const ROWS: usize = 31;

/// The report of a period. `of` says whose history it is.
pub(super) fn report(sums: &Sums, price: Option<&Price>, of: &str) -> Report {
    let (since, until) = (moment(sums.since), moment(sums.until));
    let mut sections = vec![carried(sums, price)];
    if !sums.peers.is_empty() {
        sections.push(by_name(
            "peers",
            ["Peers", "By peer, before encryption", "peer"],
            &sums.peers,
            price,
        ));
    }
    if !sums.services.is_empty() {
        sections.push(by_name(
            "services",
            ["Services", "By service, before encryption", "service"],
            &sums.services,
            price,
        ));
    }
    if !sums.days.is_empty() {
        sections.push(days(sums, price));
    }
    sections.push(reasons(&sums.all.amounts));
    Report {
        kind: "What Oncewire saved",
        title: format!("{since} to {until} UTC"),
        about: format!("From {of}."),
        summary: summary(sums, price),
        sections,
        footer: format!(
            "Made by oncewire {} report. Sizes have decimal prefixes (1 GB = 1,000,000,000 bytes), days begin at midnight UTC. \
             On the wire: bytes on all transports with encryption, without headers of TCP, UDP and IP; those of a tunnel's peer \
             are counted before encryption.",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

/// The share of bytes that was saved, if it says anything.
pub(super) fn share(amounts: &Amounts) -> Cell {
    share_of(amounts.content(), amounts.wire())
}

fn share_of(content: u64, wire: u64) -> Cell {
    let says_nothing = content == 0 || wire / 2 > content || (wire > content && content < LITTLE);
    if says_nothing { Cell::None } else { (1.0 - wire as f64 / content as f64).into() }
}

/// The share in words.
pub(super) fn percent(amounts: &Amounts) -> String {
    format::cell(&share(amounts), Unit::Share)
}

fn summary(sums: &Sums, price: Option<&Price>) -> Summary {
    let all = &sums.all.amounts;
    let (content, wire) = (all.content(), all.wire());
    let days = (sums.until - sums.since).div_ceil(DAY);
    let period = match sums.until - sums.since {
        seconds if seconds < 2 * DAY => format::number(seconds as f64, Unit::Seconds),
        _ => format!("{days} days"),
    };
    let recorded = format::number(sums.all.seconds as f64, Unit::Seconds);
    let all_time = sums.until - sums.since;
    // A history that began lately says little of the period that was asked for.
    let is_covered = sums.all.seconds.saturating_mul(10) >= all_time.saturating_mul(9);
    let span = if is_covered || content == 0 {
        format!("the last {period}")
    } else {
        format!("the {recorded} recorded")
    };
    let money = price.map(|price| price.of(saved(all)));
    let headline = match (&share(all), &money) {
        _ if content == 0 => format!("Nothing was carried in {span}."),
        (Cell::Number(saved), Some(money)) if *saved > 0.0 => format!(
            "{} of {} did not cross the wire in {span}, which saved {money}.",
            percent(all),
            format::bytes(content)
        ),
        (Cell::Number(saved), None) if *saved > 0.0 => format!(
            "{} of {} did not cross the wire in {span}.",
            percent(all),
            format::bytes(content)
        ),
        _ => format!("Nothing was saved in {span}."),
    };
    let mut facts = vec![
        Fact::new("carried", format::bytes(content), "for applications, both directions"),
        Fact::new("on the wire", format::bytes(wire), "with encryption"),
        Fact::new("saved", percent(all), format!(", {}", signed(saved(all)))),
    ];
    if let (Some(price), Some(money)) = (price, money) {
        facts.push(Fact::new("money", money, format!("saved, at {price}")));
    }
    let covered = format::part(sums.all.seconds.min(all_time), all_time);
    facts.push(Fact::new("recorded", recorded, format!(", {covered} of the period")));
    if all.flows_opened > 0 {
        let most = format::count_of(sums.all.flows);
        let opened = format::count_of(all.flows_opened);
        facts.push(Fact::new("connections", opened, format!(", at most {most} at once")));
    }
    let mut reasons = Vec::new();
    if price.is_none() {
        reasons.push("For the savings in money, add a price: `--price 0.09/GB`.".into());
    } else {
        reasons.push(
            "Both directions are priced. Where only what is sent costs money, see the table by direction."
                .into(),
        );
    }
    Summary { headline, positive: saved(all) > 0, facts, reasons }
}

/// Bytes that may be negative.
pub(super) fn signed(bytes: i128) -> String {
    format::number(bytes as f64, Unit::Bytes)
}

/// The columns after the name of a row: bytes, share, and money if there is a price.
pub(super) fn columns(first: &str, priced: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::new(first, Unit::Text),
        Column::new("payload", Unit::Bytes),
        Column::new("on the wire", Unit::Bytes),
        Column::new("saved", Unit::Share),
    ];
    if priced {
        columns.push(Column::new("money saved", Unit::Number));
    }
    columns
}

pub(super) fn row(
    name: impl Into<Cell>,
    content: u64,
    wire: u64,
    price: Option<&Price>,
) -> Vec<Cell> {
    let mut row = vec![name.into(), content.into(), wire.into(), share_of(content, wire)];
    row.extend(price.map(|price| price.of(i128::from(content) - i128::from(wire)).into()));
    row
}

fn table(
    id: &'static str,
    caption: &str,
    first: &str,
    price: Option<&Price>,
    rows: Vec<Vec<Cell>>,
) -> TableView {
    let table =
        Table { id, caption: caption.into(), columns: columns(first, price.is_some()), rows };
    TableView { gauges: vec!["saved"], rows: Some(ROWS), ..table.into() }
}

fn carried(sums: &Sums, price: Option<&Price>) -> Section {
    let all = &sums.all.amounts;
    let rows = vec![
        row("sent", all.sent_bytes, all.wire_sent_bytes, price),
        row("received", all.received_bytes, all.wire_received_bytes, price),
        row("both", all.content(), all.wire(), price),
    ];
    Section::new("carried", "What was carried").with(Block::Chart(chart(sums))).table(table(
        "directions",
        "By direction",
        "direction",
        price,
        rows,
    ))
}

/// Payload beside bytes on the wire, and the share saved.
fn chart(sums: &Sums) -> Chart {
    let count = sums.bars.keys().next().map_or(0, |first| (sums.until - first) / sums.length + 1);
    let first = sums.bars.keys().next().copied().unwrap_or(sums.until);
    let times: Vec<u64> = (0..count).map(|at| first + at * sums.length).collect();
    let is_one_day = date(first) == date(sums.until);
    let name = |time: &u64| match &date(*time)[5..] {
        _ if is_one_day => clock(*time),
        day if sums.length == DAY => day.to_owned(),
        day => format!("{day} {}", clock(*time)),
    };
    let points = |of: fn(&Amounts) -> Option<f64>| -> Vec<(f64, f64)> {
        let bars = times.iter().enumerate();
        bars.filter_map(|(at, time)| Some((at as f64, of(sums.bars.get(time)?)?))).collect()
    };
    let length = match sums.length {
        60 => "minute".into(),
        3600 => "hour".into(),
        DAY => "day".into(),
        length if length < 3600 => format!("{} minutes", length / 60),
        length => format!("{} hours", length / 3600),
    };
    Chart {
        id: "carried",
        caption: format!("Payload and what crossed the wire, per {length}"),
        kind: ChartKind::Bars,
        x: Axis::of("begin (UTC)", times.iter().map(name).collect()),
        y: Axis::new("bytes", Unit::Bytes),
        right: Some(Axis::new("saved", Unit::Share)),
        series: vec![
            Series::new("payload", points(|one| Some(one.content() as f64))),
            Series::new("on the wire", points(|one| Some(one.wire() as f64))),
            Series {
                right: true,
                ..Series::new(
                    "saved",
                    points(|one| match share(one) {
                        Cell::Number(share) => Some(share.max(-1.0)),
                        _ => None,
                    }),
                )
            },
        ],
    }
}

fn by_name(
    id: &'static str,
    [title, caption, first]: [&str; 3],
    list: &[(Arc<PeerName>, Amounts)],
    price: Option<&Price>,
) -> Section {
    let rows = list
        .iter()
        .map(|(one, amounts)| row(one.label(), amounts.content(), amounts.wire(), price))
        .collect();
    Section::new(id, title).table(table(id, caption, first, price, rows))
}

fn days(sums: &Sums, price: Option<&Price>) -> Section {
    let rows = sums
        .days
        .iter()
        .rev()
        .map(|(day, one)| row(date(*day), one.amounts.content(), one.amounts.wire(), price))
        .collect();
    Section::new("days", "Days").table(table("days", "By day (UTC)", "day", price, rows))
}

/// What became of the bytes, and why some were not reduced. Only for tunnels do both ends count it.
pub(super) fn reasons(all: &Amounts) -> Section {
    let content = all.content();
    let row = |what: &str, bytes: u64| -> Option<Vec<Cell>> {
        let share = Cell::from((content > 0).then(|| bytes as f64 / content as f64));
        (bytes > 0).then(|| vec![what.into(), bytes.into(), share])
    };
    let told = [all.matched_bytes, all.encrypted_bytes, all.incompressible_bytes, all.small_bytes];
    // Links do not count what they found.
    let unique = if all.blocks > 0 {
        told.iter().fold(content, |left, part| left.saturating_sub(*part))
    } else {
        0
    };
    let rows: Vec<Vec<Cell>> = [
        row("repeats, sent as references", all.matched_bytes),
        row("not sent before, compressed if possible", unique),
        row("not sent before, of encrypted connections", all.encrypted_bytes),
        row("not sent before, looked compressed or random", all.incompressible_bytes),
        row("in blocks too small to be reduced", all.small_bytes),
        row("compressed content, opened to find repeats", all.opened_bytes),
        row("compressed, not opened: that had saved little", all.declined_bytes),
        row("compressed, not opened: sending was faster", all.unopened_bytes),
        row("of connections larger than the cache", all.large_flow_bytes),
        row("padding", all.padding_bytes),
        row("sent again after an outage", all.repeated_bytes),
    ]
    .into_iter()
    .flatten()
    .collect();
    let section = Section::new("reasons", "What was found, and what was not");
    let columns = [("what", Unit::Text), ("bytes", Unit::Bytes), ("share", Unit::Share)];
    let table = Table::new(
        "reasons",
        "Shares of the payload; a byte may count in several rows",
        &columns,
        rows,
    );
    section.table(TableView { gauges: vec!["share"], ..TableView::complete(table) })
}

#[cfg(test)]
mod tests {
    use super::super::sums::Sums;
    use super::*;
    use crate::terminal::{Page, columns};
    use oncewire_net::history::{PeerRecord, Record};
    use oncewire_report::html;

    const BEGIN: u64 = 1_790_000_000;

    /// Five days of two peers, one with a name that would clear the screen and end an element.
    fn sums() -> Sums {
        let records: Vec<Record> = (0..5 * 24 * 60)
            .map(|minute: u64| {
                let sent = 1_000_000 * (1 + minute % 60 * (minute / 1440));
                let amounts = Amounts {
                    sent_bytes: sent,
                    received_bytes: sent / 50,
                    wire_sent_bytes: sent / 3,
                    wire_received_bytes: sent / 60,
                    matched_bytes: sent / 2,
                    unopened_bytes: sent / 10,
                    blocks: 10,
                    incompressible_bytes: sent / 8,
                    encrypted_bytes: sent / 16,
                    flows_opened: 3,
                    ..Amounts::default()
                };
                let peer = |name: &str| PeerRecord {
                    peer: Arc::new(PeerName::new("ow1qqqqqqqqqqqqqqqq", Some(name))),
                    amounts,
                };
                let peers = vec![
                    peer("</script>\u{1b}[2J<b>"),
                    peer("branch-office-in-a-town-with-a-long-name"),
                ];
                Record {
                    time: BEGIN + 60 * minute,
                    seconds: 60,
                    flows: minute % 9,
                    amounts,
                    peers,
                    services: vec![PeerRecord {
                        peer: Arc::new(PeerName::of_service("<b>registry.example:443")),
                        amounts,
                    }],
                    ..Record::default()
                }
            })
            .collect();
        Sums::of(&records, BEGIN, BEGIN + 5 * DAY)
    }

    fn text(sums: &Sums, price: Option<&Price>) -> String {
        let mut out = Vec::new();
        Page::new(&mut out, 80, false)
            .complete_in("--json")
            .report(&report(sums, price, "/var/lib/h"))
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reports_fit_80_columns_and_say_what_was_saved() {
        let price = "0.08 EUR/GB".parse().unwrap();
        let text = text(&sums(), Some(&price));
        assert!(text.lines().all(|line| columns(line) <= 80) && !text.contains('\u{1b}'), "{text}");
        for shown in [
            "65.7 % of 441 GB did not cross the wire in the last 5 days, which saved 23.16\nEUR.",
            "5 d, 100.0 % of the period",
            "2026-09-21",
            "branch-office-in-a-town-",
            "By service, before encryption",
            "<b>registry.example:443",
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }

    #[test]
    fn pages_escape_what_others_said() {
        let page = html::render(&report(&sums(), None, "<i>"));
        assert!(!page.contains("<b>") && !page.contains("<i>") && !page.contains('\u{1b}'));
        assert!(page.contains("&lt;/script&gt;\u{fffd}[2J&lt;b&gt;"));
    }

    #[test]
    fn nothing_and_losses_are_no_savings() {
        let nothing = text(&Sums::of(&[], 0, 3600), None);
        assert!(nothing.contains("Nothing was carried in the last 60 min."), "{nothing}");
        let amounts =
            Amounts { sent_bytes: 1 << 20, wire_sent_bytes: 2 << 20, ..Amounts::default() };
        let lost = Record { time: 5, seconds: 1, amounts, ..Record::default() };
        let price = "$1000/TB".parse().unwrap();
        let lost = text(&Sums::of(&[lost], 0, 3600), Some(&price));
        assert!(
            lost.contains("Nothing was saved in the 1 s recorded.") && lost.contains("−$0.0010"),
            "{lost}"
        );
        assert!(lost.contains("−100.0 %"), "{lost}");
    }
}
