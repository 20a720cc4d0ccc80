//! Routes as a report for presenters.

use super::document::Document;
use super::tables;
use crate::plan::common;
use crate::terminal::Page;
use oncewire_report::{
    Block, Chart, Fact, Map, MapLink, MapNode, Report, Section, Series, Summary, TableView, Unit,
    format,
};
use std::io;

/// Rows of a table on a terminal.
const ROWS: usize = 10;

pub(super) fn report(document: &Document) -> Report {
    let network = &document.network;
    let count = |count: usize| format::count_of(count as u64);
    Report {
        kind: "Redundancy-aware routes",
        title: network.map.title(),
        about: format!(
            "{} nodes, {} directed links, {} pairs of {} ingresses with egresses.",
            count(network.map.nodes),
            count(network.map.links),
            count(network.pairs),
            count(network.map.ingresses)
        ),
        summary: summary(document),
        sections: sections(document),
        footer: format!(
            "Made by oncewire {} route. Sizes have decimal prefixes (1 MB = 1,000,000 bytes). Bytes are per interval. \
             SP: shortest paths without elimination; SP-RE: with elimination on links; RA: these routes. The same numbers \
             are in --json and --csv.",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

/// Writes the result and the schemes; of several ingresses, those with the most traffic.
pub(super) fn overview<W: io::Write>(
    page: &mut Page<'_, W>,
    document: &Document,
) -> io::Result<()> {
    let report = report(document);
    page.summary(&report.summary)?;
    if let Some(section) = report.sections.iter().find(|section| section.id == "schemes") {
        page.line("")?;
        page.content(section)?;
    }
    for note in &document.notes {
        page.line("")?;
        page.line(note)?;
    }
    page.line("")?;
    page.dim("Ingresses, links and the rest: --full; with a map: --report FILE.")
}

fn summary(document: &Document) -> Summary {
    let (verdict, solution) = (&document.verdict, &document.solution);
    let share = |value| format::number(value, Unit::Share);
    let mut facts = vec![
        Fact::new(
            "SP-RE",
            share(verdict.shortest_reduction),
            "of the footprint saved on shortest paths",
        ),
        Fact::new("RA", share(verdict.reduction), "saved on these routes"),
    ];
    if let (Some(before), Some(after)) = (verdict.shortest_utilization, verdict.utilization) {
        let note = format!("of its capacity, instead of {} on shortest paths", share(before));
        facts.push(Fact::new("busiest link", share(after), note));
    }
    facts.push(Fact::new(
        "gap",
        share(solution.gap),
        format!(
            ": most that better routes could gain; solved in {}",
            format::number(solution.seconds, Unit::Seconds)
        ),
    ));
    Summary { headline: verdict.headline.clone(), positive: true, facts, reasons: Vec::new() }
}

fn sections(document: &Document) -> Vec<Section> {
    let mut sections = vec![
        Section::new("map", "Map").with(Block::Map(map(document))),
        Section::new("network", "Network").with(Block::Facts(network(document))),
    ];
    let schemes = TableView {
        gauges: tables::SCHEME_GAUGES.into(),
        rows: Some(usize::MAX),
        ..tables::schemes(document).into()
    };
    sections.push(Section::new("schemes", "Schemes").with(Block::Table(schemes)));
    let mut section = Section::new("ingresses", "Ingresses").in_full();
    if document.ingresses.len() > 1 {
        section = section.with(Block::Chart(distribution(document)));
    }
    let table = tables::ingresses(document).without(&["id"]);
    sections.push(section.with(Block::Table(table.into())));
    let links = TableView { rows: Some(ROWS), ..tables::links(document).into() };
    sections.push(Section::new("links", "Links").with(Block::Table(links)));
    sections.push(solution(document));
    if !document.notes.is_empty() {
        sections.push(Section::new("notes", "Notes").with(Block::Notes(document.notes.clone())));
    }
    sections
}

fn network(document: &Document) -> Vec<(String, Vec<String>)> {
    let mut lines = document.network.map.lines();
    lines.extend(document.settings.iter().map(|(name, value)| (name.clone(), vec![value.clone()])));
    lines
}

fn solution(document: &Document) -> Section {
    let solution = &document.solution;
    let facts = [
        ("objective", solution.objective.clone()),
        ("value", format!("{:.6e}", solution.value)),
        (
            "bound",
            match solution.stopped && solution.bound <= 0.0 {
                true => "none yet".to_owned(),
                false => format!("{:.6e}; no trees are better", solution.bound),
            },
        ),
        ("gap", format::number(solution.gap, Unit::Share)),
        ("trees", format::count_of(solution.trees as u64)),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), vec![value])).into();
    Section::new("solution", "Solution").in_full().with(Block::Facts(facts))
}

fn map(document: &Document) -> Map {
    Map {
        nodes: document
            .nodes
            .iter()
            .map(|node| MapNode {
                id: node.id.clone(),
                label: node.label.clone(),
                pop: node.pop,
                core: !node.access,
                position: node.position,
                volume: node.volume_bytes,
                ..MapNode::default()
            })
            .collect(),
        links: document
            .links
            .iter()
            .map(|link| MapLink {
                from: link.from,
                to: link.to,
                before: link.shortest_bytes,
                after: link.bytes,
                utilization: [link.shortest_utilization, link.utilization],
                is_down: false,
            })
            .collect(),
        devices: Vec::new(),
        views: ["Shortest paths", "These routes"],
        per: "epoch",
    }
}

/// Cumulative distributions over ingresses (thesis, figure 6.5a).
fn distribution(document: &Document) -> Chart {
    let whole = document.ingresses.len() as f64;
    let steps = |of: fn(&super::document::IngressRow) -> f64| {
        let mut shares: Vec<f64> = document.ingresses.iter().map(of).collect();
        shares.retain(|share| share.is_finite());
        shares.sort_by(f64::total_cmp);
        (1..).zip(shares).map(|(at, share)| (share, f64::from(at) / whole)).collect()
    };
    common::distribution(vec![
        Series::new("RA", steps(|of| of.reduction)),
        Series::new("SP-RE", steps(|of| of.shortest_reduction)),
    ])
}
