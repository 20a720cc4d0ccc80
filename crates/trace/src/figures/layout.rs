//! Tables and charts without their content.

use crate::results::{Axis, Chart, ChartKind, Column, Series, Table, Unit};

/// A table without rows.
pub(super) fn table<'a>(
    id: &'static str,
    caption: impl Into<String>,
    columns: impl IntoIterator<Item = (&'a str, Unit)>,
) -> Table {
    let columns = columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect();
    Table { id, caption: caption.into(), columns, rows: Vec::new() }
}

/// A chart without series.
pub(super) fn chart(
    id: &'static str,
    caption: impl Into<String>,
    kind: ChartKind,
    x: Axis,
    y: Axis,
) -> Chart {
    Chart { id, caption: caption.into(), kind, x, y, right: None, series: Vec::new() }
}

/// An axis of shares.
pub(super) fn shares(label: &str) -> Axis {
    Axis::new(label, Unit::Share)
}

/// Adds a series, unless it has no points.
pub(super) fn add_series(chart: &mut Chart, name: impl Into<String>, points: Vec<(f64, f64)>) {
    if !points.is_empty() {
        chart.series.push(Series::new(name, points));
    }
}

/// The charts that have series.
pub(super) fn drawn(charts: impl IntoIterator<Item = Chart>) -> Vec<Chart> {
    charts.into_iter().filter(|chart| !chart.series.is_empty()).collect()
}
