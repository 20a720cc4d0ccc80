//! Tables and charts of the results.

use super::{Document, Measured, Results};
use crate::csv_files::Files;
use crate::failure::Outcome;
use crate::quantity::binary;
use oncewire_report::{
    Axis, Block, Cell, Chart, ChartKind, Figure, Report, Section, Series, Summary, Table, Unit,
    csv, format,
};

/// Names of the tables and charts, and so of the files.
const NAMES: [&str; 5] = ["links", "links-chart", "indexes", "objects", "objects-chart"];
/// Most points of a series.
const POINTS: usize = 2000;

/// Whether a file of this name is one that [`csv()`] writes.
pub(super) fn is_ours(name: &str) -> bool {
    name.strip_suffix(".csv").is_some_and(|name| NAMES.contains(&name))
}

pub(super) fn csv(figures: &[Figure], files: &mut Files<'_>) -> Outcome {
    for table in figures.iter().flat_map(|figure| &figure.tables) {
        files.write(format!("{}.csv", table.id), |out| csv::table(table, out))?;
    }
    for chart in figures.iter().flat_map(|figure| &figure.charts) {
        files.write(format!("{}.csv", chart.id), |out| csv::chart(chart, out))?;
    }
    Ok(())
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![links(document), objects(document)]
}

pub(super) fn report(document: &Document, figures: &[Figure]) -> Report {
    let times = if document.place.simulated { "of its reads and writes alone" } else { "measured" };
    let content = |trace: &Measured| {
        format!(
            "{}: {} objects, {} in {} chunks, {} redundant",
            trace.content,
            format::count_of(trace.objects),
            format::number(trace.bytes as f64, Unit::Bytes),
            format::count_of(trace.chunks),
            format::share(trace.redundancy)
        )
    };
    let setting = Block::Facts(vec![
        ("device".into(), vec![format!("{}, times {times}", document.place.device)]),
        (
            "index".into(),
            vec![format!(
                "{} with {} of memory, full before the content comes",
                binary(document.place.flash_bytes),
                binary(document.memory_bytes)
            )],
        ),
        ("content".into(), document.traces.iter().map(content).collect()),
    ]);
    Report {
        kind: "Redundancy elimination with an index",
        title: document.place.device.clone(),
        about: format!("Chunks of 1 to 2 KiB by {}", document.chunker),
        summary: Summary { headline: headline(document), ..Summary::default() },
        sections: [Section::new("setting", "Setting").with(setting)]
            .into_iter()
            .chain(figures.iter().map(Section::figure))
            .collect(),
        footer: "Anand, Redundancy Elimination as a Primitive, 2012, section 5.5.".into(),
    }
}

fn headline(document: &Document) -> String {
    let Some(trace) = document.traces.first() else { return String::new() };
    let until = |results: &Results| rate(results.useless_from_bits_per_second);
    match &trace.indexes[..] {
        [ours, other] => format!(
            "{} redundant content: BufferHash is useful on links up to {}, a table without buffers up to {}.",
            format::share(trace.redundancy),
            until(ours),
            until(other)
        ),
        _ => String::new(),
    }
}

fn rate(bits: f64) -> String {
    if bits.is_finite() { format::number(bits, Unit::BitsPerSecond) } else { "any speed".into() }
}

/// Figure 5.8.
fn links(document: &Document) -> Figure {
    let mut rows = Vec::new();
    let mut series = Vec::new();
    let mut totals = Vec::new();
    for trace in &document.traces {
        let share = format::share(trace.redundancy);
        let [ours, other] = &trace.indexes[..] else { continue };
        for (ours, other) in ours.links.iter().zip(&other.links) {
            rows.push(vec![
                share.clone().into(),
                ours.bits_per_second.into(),
                trace.ideal.into(),
                ours.improvement.into(),
                other.improvement.into(),
            ]);
        }
        for results in &trace.indexes {
            let points = results.links.iter().map(|link| (link.bits_per_second, link.improvement));
            series.push(Series::new(format!("{}, {share}", results.index), points.collect()));
            totals.push(vec![
                share.clone().into(),
                results.index.into(),
                results.found.into(),
                results.seconds_per_chunk.into(),
                Some(results.useless_from_bits_per_second).filter(|it| it.is_finite()).into(),
                results.mean_object_improvement.into(),
            ]);
        }
    }
    Figure {
        id: "links",
        title: "Effective bandwidth",
        source: "thesis, Figure 5.8",
        definition: "Time to send all objects, which are there at the start, without an index, divided by the time with it.".into(),
        tables: vec![
            Table::new(
                "links",
                "Improvement of the bandwidth by link",
                &[
                    ("redundant", Unit::Text),
                    ("link", Unit::BitsPerSecond),
                    ("ideal", Unit::Number),
                    ("BufferHash", Unit::Number),
                    ("without buffers", Unit::Number),
                ],
                rows,
            ),
            Table::new(
                "indexes",
                "Indexes",
                &[
                    ("redundant", Unit::Text),
                    ("index", Unit::Text),
                    ("found", Unit::Share),
                    ("time for a chunk", Unit::Seconds),
                    ("useless from", Unit::BitsPerSecond),
                    ("by object", Unit::Number),
                ],
                totals,
            ),
        ],
        charts: vec![Chart {
            id: "links-chart",
            caption: "Improvement of the bandwidth by link".into(),
            x: Axis::log("link", Unit::BitsPerSecond),
            y: Axis::new("improvement", Unit::Number),
            series,
            ..Chart::default()
        }],
        ..Figure::default()
    }
}

/// Figure 5.9.
fn objects(document: &Document) -> Figure {
    let mut rows = Vec::new();
    for trace in &document.traces {
        let [ours, other] = &trace.indexes[..] else { continue };
        for (ours, other) in ours.by_size.iter().zip(&other.by_size) {
            let most = match ours.most_bytes {
                u64::MAX => Cell::from("more"),
                most => format!("to {}", format::number(most as f64, Unit::Bytes)).into(),
            };
            rows.push(vec![
                format::share(trace.redundancy).into(),
                most,
                ours.objects.into(),
                ours.mean_improvement.into(),
                ours.slower.into(),
                other.mean_improvement.into(),
                other.slower.into(),
            ]);
        }
    }
    let first = document.traces.first();
    let thinned = |points: &[(f64, f64)]| {
        points.iter().copied().step_by(points.len().div_ceil(POINTS).max(1)).collect()
    };
    let series = first.into_iter().flat_map(|trace| &trace.indexes);
    let link = rate(document.object_link_bits_per_second);
    let means = first.map(|trace| {
        let mean = |results: &Results| {
            let mean = format::number(results.mean_object_improvement, Unit::Number);
            format!("{mean} with {}", results.index.replace("without", "a table without"))
        };
        trace.indexes.iter().map(mean).collect::<Vec<_>>().join(", ")
    });
    Figure {
        id: "objects",
        title: "Objects under heavy load",
        source: "thesis, Figure 5.9",
        definition: format!(
            "Objects arrive as fast as a link of {link} could send them. For each, its throughput from arrival to its last byte, divided by that without an index."
        ),
        finding: means.map_or_else(String::new, |means| {
            format!("The mean object improves by a factor of {means}.")
        }),
        tables: vec![Table::new(
            "objects",
            format!("Mean improvement of an object, and how many are slower, at {link}"),
            &[
                ("redundant", Unit::Text),
                ("size", Unit::Text),
                ("objects", Unit::Count),
                ("BufferHash", Unit::Number),
                ("slower", Unit::Share),
                ("without buffers", Unit::Number),
                ("slower", Unit::Share),
            ],
            rows,
        )],
        charts: vec![Chart {
            id: "objects-chart",
            caption: format!("Improvement of each object at {link}"),
            kind: ChartKind::Points,
            x: Axis::log("size", Unit::Bytes),
            y: Axis::log("improvement", Unit::Number),
            series: series
                .map(|results| Series::new(results.index, thinned(&results.points)))
                .collect(),
            ..Chart::default()
        }],
        ..Figure::default()
    }
}
