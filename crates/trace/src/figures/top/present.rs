//! Figure 16 as tables, charts and text.

use super::super::layout::{add_series, chart, drawn, shares, table};
use super::super::tally::share;
use super::super::{Figure, FigureId};
use super::{Conversation, Ranking, SHOWN, Sum, TopSavings};
use crate::results::{Axis, Cell, Chart, ChartKind, Table, Unit};
use crate::service;
use oncewire_report::format::{counted, share as percent, time};

/// Places in a chart.
const CHARTED: usize = 8;

impl TopSavings {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Top.number(),
            id: FigureId::Top.name(),
            title: "Top hosts, conversations, services, hours and kinds of content",
            source: "Oncewire",
            definition: format!(
                "Savings of the reference algorithm as in figure 1, by where the packet is from that repeats. A host counts what it sends and \
                 receives, so each packet counts for two. A conversation is all that two hosts exchange over a service (figure 5). Hours begin \
                 at full hours, UTC. Kinds of content go by what the flow said last: the type of an HTTP response, or the beginning of a file \
                 or record; otherwise by whether nine of ten bytes are text. First bytes are the {SHOWN} bytes that a match begins with \
                 (--show-content)."
            ),
            finding: self.finding().unwrap_or_default(),
            brief: self.brief().unwrap_or_default(),
            tables: self.tables(),
            charts: drawn([self.chart()]),
            notes: self.notes(),
            memory: self.memory,
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            self.ranking("hosts", "host", "host", &self.hosts, |host| host.to_string()),
            self.ranking(
                "conversations",
                "conversation",
                "conversation",
                &self.conversations,
                conversation,
            ),
            self.ranking("services", "service", "service", &self.services, Clone::clone),
            self.hours(),
            self.ranking("kinds", "kind of content", "kind", &self.kinds, Clone::clone),
        ];
        tables.extend(self.content.as_ref().map(|content| {
            let caption = "What repeats most, by its first bytes";
            let columns = [("first bytes", Unit::Text), ("times repeated", Unit::Count)];
            let more = [("bytes repeated", Unit::Bytes), ("bytes saved", Unit::Bytes)];
            let mut shown = table("content", caption, columns.into_iter().chain(more));
            shown.rows.extend(content.rows.iter().map(|(bytes, sum)| {
                vec![printable(bytes).into(), sum.packets.into(), sum.wire.into(), sum.saved.into()]
            }));
            shown
        }));
        tables
    }

    fn ranking<K>(
        &self,
        id: &'static str,
        column: &'static str,
        noun: &str,
        ranking: &Ranking<K>,
        name: impl Fn(&K) -> String,
    ) -> Table {
        let caption = format!("By {column}, most savings first");
        let mut by = table(id, caption, columns(column));
        by.rows.extend(ranking.rows.iter().map(|(key, sum)| self.row(name(key).into(), *sum)));
        let others = ranking.all - ranking.rows.len() as u64;
        if others > 0 {
            by.rows
                .push(self.row(counted(others, &format!("other {noun}")).into(), ranking.others));
        }
        by
    }

    fn hours(&self) -> Table {
        let mut hours = table("hours", "By hour", columns("hour"));
        hours.rows.extend(self.hours.iter().map(|&(from, sum)| self.row(time(from).into(), sum)));
        hours
    }

    fn row(&self, name: Cell, sum: Sum) -> Vec<Cell> {
        let of = |part: u64, whole: u64| Cell::from(share(part as f64, whole as f64));
        vec![
            name,
            sum.packets.into(),
            sum.wire.into(),
            of(sum.wire, self.total.wire),
            sum.saved.into(),
            of(sum.saved, sum.wire),
            of(sum.saved, self.total.saved),
        ]
    }

    fn chart(&self) -> Chart {
        let charted = || self.hosts.rows.iter().take(CHARTED).enumerate();
        let names = charted().map(|(_, (host, _))| host.to_string()).collect();
        let axis = Axis::of("host", names);
        let caption = "Share of all bytes and of all savings that a host sends or receives";
        let mut hosts = chart("hosts", caption, ChartKind::Bars, axis, shares("share"));
        let mut add = |name: &str, of: &dyn Fn(&Sum) -> Option<f64>| {
            let points = charted().filter_map(|(x, (_, sum))| Some((x as f64, of(sum)?)));
            add_series(&mut hosts, name, points.collect());
        };
        add("bytes", &|sum| share(sum.wire as f64, self.total.wire as f64));
        add("savings", &|sum| share(sum.saved as f64, self.total.saved as f64));
        hosts
    }

    fn brief(&self) -> Option<String> {
        let (best, sum) = self.conversations.rows.first().filter(|(_, sum)| sum.saved > 0)?;
        let (kind, _) = self.kinds.rows.first()?;
        let of = percent(share(sum.saved as f64, self.total.saved as f64)?);
        let service = service::label(best.service.0, best.service.1);
        Some(format!("{of} of the savings: one pair over {service}; most is {kind}"))
            .filter(|brief| brief.chars().count() <= 60)
            .or_else(|| Some(format!("{of} of the savings: one pair over {service}")))
    }

    fn finding(&self) -> Option<String> {
        let (best, sum) = self.conversations.rows.first().filter(|(_, sum)| sum.saved > 0)?;
        let (kind, of_kind) = self.kinds.rows.first()?;
        let of = |sum: &Sum| share(sum.saved as f64, self.total.saved as f64).map(percent);
        Some(format!(
            "Most savings, {}, are of {}. By kind of content, most are {kind}: {}.",
            of(sum)?,
            conversation(best),
            of(of_kind)?
        ))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let evicted = [
            ("host", self.hosts.evicted),
            ("conversation", self.conversations.evicted),
            ("kind", self.kinds.evicted),
        ];
        for (what, evicted) in evicted.into_iter().filter(|(_, evicted)| *evicted > 0) {
            notes.push(format!(
                "To stay within its memory limit, the figure forgot {}, which are among the others.",
                counted(evicted, what)
            ));
        }
        notes
    }
}

fn columns(first: &'static str) -> impl Iterator<Item = (&'static str, Unit)> {
    let first = [(first, Unit::Text), ("packets", Unit::Count), ("bytes on the wire", Unit::Bytes)];
    let saved = [("share of bytes", Unit::Share), ("bytes saved", Unit::Bytes)];
    let shares = [("savings", Unit::Share), ("share of savings", Unit::Share)];
    first.into_iter().chain(saved).chain(shares)
}

fn conversation(of: &Conversation) -> String {
    let Conversation { hosts: (a, b), service: (protocol, port) } = of;
    format!("{a} and {b}, {}", service::label(*protocol, *port))
}

/// Bytes as text; what does not print is a dot.
fn printable(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| if matches!(byte, b' '..=b'~') { byte as char } else { '.' }).collect()
}
