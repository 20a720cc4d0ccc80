//! New data for a page that is open.

use super::blocks::gauge;
use super::{cleaned, note, value};
use crate::{Block, Cell, Chart, Map, Report, TableView, Unit, format, map};
use serde::Serialize;

/// What `live.js` and `page.js` put in the places of the old.
#[derive(Serialize)]
struct Update<'a> {
    shape: String,
    about: String,
    headline: String,
    positive: bool,
    facts: Vec<(String, String)>,
    reasons: Vec<String>,
    charts: Vec<&'a Chart>,
    /// Rows of cells: text, the number to sort by, and the length of a gauge in percent.
    tables: Vec<Vec<Vec<Shown>>>,
    /// Maps as HTML, with their legends. Names in them are escaped.
    maps: Vec<String>,
    /// Why the price of the page's field cannot be used.
    problem: Option<&'a str>,
}

type Shown = (String, Option<f64>, Option<f64>);

fn charts(report: &Report) -> impl Iterator<Item = &Chart> {
    blocks(report).filter_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    })
}

fn tables(report: &Report) -> impl Iterator<Item = &TableView> {
    blocks(report).filter_map(|block| match block {
        Block::Table(view) => Some(view),
        _ => None,
    })
}

fn maps(report: &Report) -> impl Iterator<Item = &Map> {
    blocks(report).filter_map(|block| match block {
        Block::Map(map) => Some(map),
        _ => None,
    })
}

fn blocks(report: &Report) -> impl Iterator<Item = &Block> {
    report.sections.iter().flat_map(|section| &section.blocks)
}

/// What an update cannot change: the title, sections, series and columns. If it differs, the page
/// has to be loaded again. Of other blocks than charts, tables and maps, nothing is updated.
pub(super) fn shape(report: &Report) -> String {
    let mut parts = vec![report.title.clone()];
    parts.extend(report.sections.iter().map(|section| section.id.to_owned()));
    parts.extend(report.summary.facts.iter().map(|fact| fact.name.to_owned()));
    parts.push(report.summary.reasons.is_empty().to_string());
    parts.extend(charts(report).map(|chart| {
        let names: Vec<&str> = chart.series.iter().map(|one| &*one.name).collect();
        format!("{} {}", chart.id, names.join(","))
    }));
    parts.extend(tables(report).map(|view| {
        let names: Vec<&str> = view.table.columns.iter().map(|column| &*column.name).collect();
        format!("{} {}", view.table.id, names.join(","))
    }));
    parts.push(format!("{} maps", maps(report).count()));
    cleaned(&parts.join("|"))
}

/// What changed of a live page since it was rendered, as JSON. `problem` says why the price that
/// came with the request cannot be used.
pub fn update(report: &Report, problem: Option<&str>) -> String {
    let summary = &report.summary;
    let row = |view: &TableView, row: &[Cell]| -> Vec<Shown> {
        let cells = row.iter().zip(&view.table.columns);
        cells
            .map(|(cell, column)| {
                let number = match cell {
                    _ if column.unit == Unit::Text => None,
                    Cell::Count(count) => Some(*count as f64),
                    Cell::Number(number) => Some(*number),
                    Cell::Text(_) | Cell::None => None,
                };
                let text = cleaned(&format::cell(cell, column.unit));
                (text, number, gauge(cell, &column.name, &view.gauges))
            })
            .collect()
    };
    let update = Update {
        shape: shape(report),
        about: cleaned(&report.about),
        headline: cleaned(&summary.headline),
        positive: summary.positive,
        facts: summary.facts.iter().map(|fact| (value(fact), cleaned(note(fact)))).collect(),
        reasons: summary.reasons.iter().map(|text| cleaned(text)).collect(),
        charts: charts(report).collect(),
        tables: tables(report)
            .map(|view| {
                let rows = view.table.rows.iter().take(super::blocks::MOST_ROWS);
                rows.map(|one| row(view, one)).collect()
            })
            .collect(),
        maps: maps(report).map(|one| map::render(one).0.into_string()).collect(),
        problem,
    };
    serde_json::to_string(&update).unwrap_or_default()
}
