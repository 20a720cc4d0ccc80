//! The tables of routes, for all presenters, and as CSV files (RFC 4180).

use super::document::Document;
use crate::csv_files::Files;
use crate::failure::Outcome;
use crate::output::Output;
use crate::plan::common;
use oncewire_report::{Cell, Table, Unit, csv};
use std::path::Path;

const IDS: [&str; 5] = ["summary", "settings", "schemes", "ingresses", "links"];

/// Whether a file of this name is one that [`write()`] writes.
pub(super) fn is_ours(name: &str) -> bool {
    name.strip_suffix(".csv").is_some_and(|name| IDS.contains(&name))
}

/// Writes a file for each table into `dir`, which is made if there is none.
///
/// # Errors
/// If the directory or a file cannot be written.
pub(super) fn write(document: &Document, dir: &Path) -> Outcome<Vec<Output>> {
    let mut files = Files::new(dir)?;
    let tables = [
        summary(document),
        common::settings(&document.settings),
        schemes(document),
        ingresses(document),
        links(document),
    ];
    for table in tables {
        files.write(format!("{}.csv", table.id), |out| csv::table(&table, out))?;
    }
    Ok(files.written)
}

fn count(count: usize) -> Cell {
    Cell::Count(count as u64)
}

fn summary(document: &Document) -> Table {
    let (network, verdict, solution) = (&document.network, &document.verdict, &document.solution);
    let rows: Vec<(&str, &str, Cell)> = vec![
        ("reduction on shortest paths", "share", verdict.shortest_reduction.into()),
        ("reduction", "share", verdict.reduction.into()),
        ("highest utilization on shortest paths", "share", verdict.shortest_utilization.into()),
        ("highest utilization", "share", verdict.utilization.into()),
        ("value of the objective", "", solution.value.into()),
        ("bound of the objective", "", solution.bound.into()),
        ("gap", "share", solution.gap.into()),
        ("cost of making paths trees", "share", solution.repair.into()),
        ("trees", "", count(solution.trees)),
        ("nodes", "", count(network.map.nodes)),
        ("links", "", count(network.map.links)),
        ("ingresses", "", count(network.map.ingresses)),
        ("pairs", "", count(network.pairs)),
    ];
    let columns = [("what", Unit::Text), ("unit", Unit::Text), ("value", Unit::Number)];
    let rows =
        rows.into_iter().map(|(what, unit, value)| vec![what.into(), unit.into(), value]).collect();
    Table::new("summary", "The routes in numbers", &columns, rows)
}

/// Columns with gauges.
pub(super) const SCHEME_GAUGES: [&str; 2] = ["reduction", "busiest link"];

pub(super) fn schemes(document: &Document) -> Table {
    let rows = document.schemes.iter().map(|scheme| {
        vec![
            scheme.name.into(),
            scheme.reduction.into(),
            scheme.utilization.into(),
            scheme.about.into(),
        ]
    });
    let columns = [
        ("scheme", Unit::Text),
        ("reduction", Unit::Share),
        ("busiest link", Unit::Share),
        ("what it is", Unit::Text),
    ];
    let table = Table::new("schemes", "Footprint saved, by scheme", &columns, rows.collect());
    match document.verdict.utilization {
        Some(_) => table,
        None => table.without(&["busiest link"]),
    }
}

pub(super) fn ingresses(document: &Document) -> Table {
    let mut rows: Vec<_> = document.ingresses.iter().collect();
    rows.sort_by(|one, other| other.volume_bytes.total_cmp(&one.volume_bytes));
    let rows = rows.into_iter().map(|of| {
        vec![
            of.label.clone().into(),
            of.node.clone().into(),
            count(of.egresses),
            of.volume_bytes.into(),
            of.shortest_reduction.into(),
            of.reduction.into(),
            of.bound.into(),
            of.gap.into(),
            count(of.trees),
        ]
    });
    Table::new(
        "ingresses",
        "Ingresses, most traffic first",
        &[
            ("ingress", Unit::Text),
            ("id", Unit::Text),
            ("egresses", Unit::Count),
            ("enters", Unit::Bytes),
            ("SP-RE", Unit::Share),
            ("RA", Unit::Share),
            ("bound", Unit::Share),
            ("gap", Unit::Share),
            ("trees", Unit::Count),
        ],
        rows.collect(),
    )
}

/// Busiest first, by utilization or else by bytes.
pub(super) fn links(document: &Document) -> Table {
    let mut rows: Vec<_> = document.links.iter().collect();
    rows.sort_by(|one, other| {
        let key = |value: Option<f64>| value.unwrap_or(-1.0);
        key(other.utilization)
            .total_cmp(&key(one.utilization))
            .then(other.bytes.total_cmp(&one.bytes))
    });
    let name = |node: u32| document.nodes[node as usize].label.as_str();
    let rows = rows.into_iter().map(|link| {
        vec![
            format!("{} -> {}", name(link.from), name(link.to)).into(),
            link.plain_bytes.into(),
            link.shortest_bytes.into(),
            link.bytes.into(),
            link.capacity.into(),
            link.shortest_utilization.into(),
            link.utilization.into(),
            link.price.into(),
        ]
    });
    let table = Table::new(
        "links",
        "Links, busiest first",
        &[
            ("link", Unit::Text),
            ("SP", Unit::Bytes),
            ("SP-RE", Unit::Bytes),
            ("RA", Unit::Bytes),
            ("capacity", Unit::BitsPerSecond),
            ("SP-RE use", Unit::Share),
            ("RA use", Unit::Share),
            ("price", Unit::Number),
        ],
        rows.collect(),
    );
    match document.verdict.utilization {
        Some(_) => table,
        None => table.without(&["capacity", "SP-RE use", "RA use", "price"]),
    }
}
