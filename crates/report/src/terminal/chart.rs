//! Charts as lines of block characters.

use super::Page;
use crate::format;
use crate::text::{columns, cut, sanitize};
use crate::{Chart, ChartKind, Series};
use std::io::{self, Write};

/// Bars and lines of a chart that are shown of more.
const LINES: usize = 12;

impl<W: Write> Page<'_, W> {
    /// Writes a chart. Clouds of points are left to the HTML report.
    pub fn chart(&mut self, chart: &Chart) -> io::Result<()> {
        self.caption(&chart.caption)?;
        match chart.kind {
            ChartKind::Bars | ChartKind::StackedBars => self.bars(chart),
            ChartKind::Line | ChartKind::Step => self.lines(chart),
            ChartKind::Points => self.dim("(dots: see --report)"),
        }
    }

    /// A row of blocks for each series, with its lowest and highest value.
    fn lines(&mut self, chart: &Chart) -> io::Result<()> {
        let all = || chart.series.iter().filter(|series| !series.points.is_empty());
        let ends = |numbers: &mut dyn Iterator<Item = f64>| {
            numbers
                .filter(|number| number.is_finite())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
                    (low.min(number), high.max(number))
                })
        };
        let (first, last) =
            ends(&mut all().flat_map(|series| series.points.iter().map(|point| point.0)));
        let axis_of =
            |series: &Series| chart.right.as_ref().filter(|_| series.right).unwrap_or(&chart.y);
        let label = |series: &Series| cut(&sanitize(&series.name), self.width / 4);
        let names = all().take(LINES).map(|series| columns(&label(series))).max().unwrap_or(0);
        let range = |series: &Series| {
            let (low, high) = ends(&mut series.points.iter().map(|point| point.1));
            let unit = axis_of(series).unit;
            format!("{} to {}", format::number(low, unit), format::number(high, unit))
        };
        let ranges = all().take(LINES).map(|series| columns(&range(series))).max().unwrap_or(0);
        let room = self.width.saturating_sub(names + ranges + 4).clamp(8, 60);
        let mut lines = Vec::new();
        for series in all().take(LINES) {
            // Series of one axis share its scale.
            let (low, high) = ends(
                &mut all()
                    .filter(|other| other.right == series.right)
                    .flat_map(|other| other.points.iter().map(|point| point.1)),
            );
            let axis = axis_of(series);
            // Lines of numbers without a unit, such as logarithms, begin where the data do.
            let starts_at_data =
                axis.log || (chart.kind == ChartKind::Line && axis.unit == crate::Unit::Number);
            let low = if starts_at_data { low } else { low.min(0.0) };
            let blocks = spark(
                series,
                (first, last, chart.x.log),
                (low, high, axis.log),
                room,
                chart.kind == ChartKind::Step,
            );
            let name = label(series);
            lines.push(format!(
                "{name}{}  {blocks}  {}",
                " ".repeat(names - columns(&name)),
                range(series)
            ));
        }
        for line in lines {
            self.line(&line)?;
        }
        if all().count() > LINES {
            self.dim(&format!("... {} more in {}", all().count() - LINES, self.complete_in))?;
        }
        let (from, to) = (format::number(first, chart.x.unit), format::number(last, chart.x.unit));
        let scale = if chart.x.log { ", log scale" } else { "" };
        let right = chart
            .right
            .as_ref()
            .map_or_else(String::new, |right| format!(", or {}", sanitize(&right.label)));
        let text = format!(
            "{} from {from} to {to}{scale}; height: {}{right}",
            sanitize(&chart.x.label),
            sanitize(&chart.y.label)
        );
        self.caption(&text)
    }

    /// A bar for each category and each series.
    fn bars(&mut self, chart: &Chart) -> io::Result<()> {
        let bars = Bars::new(chart, self.width);
        for line in bars.lines() {
            self.line(&line)?;
        }
        if bars.is_stacked {
            let key = |(at, series): (usize, &&Series)| {
                format!("{} {}", FILLS[at % FILLS.len()], sanitize(&series.name))
            };
            let key: Vec<String> = bars.series.iter().enumerate().map(key).collect();
            self.caption(&key.join("   "))?;
        }
        let (places, shown) = (bars.places.len(), bars.shown);
        if places > shown {
            self.dim(&format!("... {} more in {}", places - shown, self.complete_in))?;
        }
        let scale = if chart.y.log { " (log scale)" } else { "" };
        self.caption(&format!(
            "{}{scale} by {}",
            sanitize(&chart.y.label),
            sanitize(&chart.x.label)
        ))
    }
}

/// Fills of stacked bars, one for each series.
const FILLS: [char; 6] = ['█', '▓', '▒', '░', '#', '='];

/// A chart of bars, laid out for a page.
struct Bars<'a> {
    chart: &'a Chart,
    /// Columns of the page.
    width: usize,
    is_stacked: bool,
    /// The series of the left axis that have points.
    series: Vec<&'a Series>,
    /// Where they have points, ascending; and how many of these places are shown.
    places: Vec<f64>,
    shown: usize,
    /// There is one bar for each place.
    is_alone: bool,
}

impl<'a> Bars<'a> {
    fn new(chart: &'a Chart, width: usize) -> Bars<'a> {
        let is_stacked = chart.kind == ChartKind::StackedBars;
        let has_bars = |series: &&Series| !series.right && !series.points.is_empty();
        let series: Vec<&Series> = chart.series.iter().filter(has_bars).collect();
        let mut places: Vec<f64> =
            series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let is_alone = series.len() == 1 || is_stacked;
        let shown = if is_alone { 2 * LINES } else { (2 * LINES / series.len().max(1)).max(3) };
        Bars { chart, width, is_stacked, series, places, shown, is_alone }
    }

    /// The name of a place.
    fn name(&self, place: f64) -> String {
        let x = &self.chart.x;
        let category = if place >= 0.0 { x.categories.get(place as usize) } else { None };
        let name = category.cloned().unwrap_or_else(|| format::number(place, x.unit));
        cut(&sanitize(&name), self.width / 4)
    }

    /// What a series of several is called.
    fn label(&self, series: &Series) -> String {
        cut(&sanitize(&series.name), self.width / 5)
    }

    /// The sum of all series at a place.
    fn sum(&self, place: f64) -> f64 {
        self.series.iter().filter_map(|series| value(series, place)).sum()
    }

    /// The longest bar.
    fn most(&self) -> f64 {
        if self.is_stacked {
            return self.places.iter().map(|&place| self.sum(place)).fold(0.0, f64::max);
        }
        self.values().filter(|y| y.is_finite()).fold(0.0, f64::max)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| &series.points).map(|point| point.1)
    }

    /// The bars, with their names and values.
    fn lines(&self) -> Vec<String> {
        let shown = || self.places.iter().copied().take(self.shown);
        let widest = shown().map(|place| columns(&self.name(place))).max().unwrap_or(0);
        let labels = if self.is_alone {
            0
        } else {
            self.series.iter().map(|series| columns(&self.label(series))).max().unwrap_or(0)
        };
        let room = self.width.saturating_sub(widest + labels + 18).clamp(8, 60);
        let most = self.most();
        if self.is_stacked {
            return shown().map(|place| self.stack(place, widest, most, room)).collect();
        }
        let least = self.values().filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
        let length = |value: f64| {
            let share = if self.chart.y.log {
                (value / least * 2.0).ln() / (most / least * 2.0).ln()
            } else {
                value / most
            };
            if share.is_finite() { share.clamp(0.0, 1.0) * room as f64 } else { 0.0 }
        };
        let mut lines = Vec::new();
        for place in shown() {
            for (at, series) in self.series.iter().enumerate() {
                let first = if at == 0 { self.name(place) } else { String::new() };
                let label = if self.is_alone {
                    String::new()
                } else {
                    format!("{}  ", pad(&self.label(series), labels))
                };
                let (bar, shown) = match value(series, place) {
                    Some(value) => {
                        (blocks(length(value)), format::number(value, self.chart.y.unit))
                    }
                    None => (String::new(), format::MISSING.into()),
                };
                let space = if bar.is_empty() { "" } else { " " };
                lines.push(format!("{}  {label}{bar}{space}{shown}", pad(&first, widest)));
            }
        }
        lines
    }

    /// The bar of a place, all series on top of each other.
    fn stack(&self, place: f64, widest: usize, most: f64, room: usize) -> String {
        let (mut bar, mut upto) = (String::new(), 0.0);
        for (at, series) in self.series.iter().enumerate() {
            upto += value(series, place).unwrap_or(0.0).max(0.0);
            let until = (upto / most * room as f64).round() as usize;
            bar.extend(std::iter::repeat_n(
                FILLS[at % FILLS.len()],
                until.saturating_sub(columns(&bar)),
            ));
        }
        let sum = format::number(self.sum(place), self.chart.y.unit);
        format!("{}  {bar} {sum}", pad(&self.name(place), widest))
    }
}

fn value(series: &Series, place: f64) -> Option<f64> {
    series.points.iter().find(|point| point.0 == place).map(|point| point.1)
}

/// The text with spaces up to this width.
fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(columns(text))))
}

/// A bar of that many columns, in steps of an eighth.
fn blocks(length: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (length * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(PARTS[eighths % 8]);
    if bar.is_empty() && length > 0.0 {
        bar.push_str(PARTS[1]);
    }
    bar
}

/// A series as `room` blocks of eight heights. Each is the mean of the points in its part of the
/// axis, or else lies on the line between the points around it.
fn spark(
    series: &Series,
    x: (f64, f64, bool),
    y: (f64, f64, bool),
    room: usize,
    step: bool,
) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let place = |value: f64, (low, high, log): (f64, f64, bool)| {
        let share =
            if log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    };
    let points: Vec<(f64, f64)> =
        series.points.iter().map(|point| (place(point.0, x), place(point.1, y))).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return " ".repeat(room);
    };
    let half = 0.5 / room as f64;
    (0..room)
        .map(|at| {
            let (from, to) = (at as f64 / room as f64, (at + 1) as f64 / room as f64);
            let inside: Vec<f64> = points
                .iter()
                .filter(|point| point.0 >= from && (point.0 < to || at + 1 == room))
                .map(|point| point.1)
                .collect();
            let height = if !inside.is_empty() {
                inside.iter().sum::<f64>() / inside.len() as f64
            } else {
                let middle = from + half;
                if middle < first.0 || (middle > last.0 && !step) {
                    return ' ';
                }
                let after = points.partition_point(|point| point.0 <= middle);
                let before = points[after.saturating_sub(1)];
                match points.get(after) {
                    Some(next) if !step => {
                        before.1 + (next.1 - before.1) * (middle - before.0) / (next.0 - before.0)
                    }
                    _ => before.1,
                }
            };
            HEIGHTS[((height * 8.0) as usize).min(7)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_eighths() {
        assert_eq!(blocks(0.0), "");
        assert_eq!(blocks(0.01), "▏");
        assert_eq!(blocks(2.5), "██▌");
        let rising = Series::new("", vec![(0.0, 0.0), (8.0, 8.0)]);
        assert_eq!(spark(&rising, (0.0, 8.0, false), (0.0, 8.0, false), 8, false), "▁▂▃▄▅▆▇█");
        let step = Series::new("", vec![(0.0, 0.0), (4.0, 8.0)]);
        assert_eq!(spark(&step, (0.0, 8.0, false), (0.0, 8.0, false), 8, true), "▁▁▁▁████");
    }
}
