//! Text of fixed width, for a terminal or a file: facts, tables and charts that fit.

use crate::format::{self, tame};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid, TableStyle, Width};
use oncewire_trace::results::{Chart, ChartKind, Series, Table, Unit};
use std::io::{self, Write};

/// Rows of a table. All are in `--csv`.
const ROWS: usize = 12;
/// Bars and lines of a chart.
pub(crate) const LINES: usize = 12;
/// Lines above, below the heading, and below; none between rows.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));
/// Narrowest column of words, so that they can be told apart.
const NARROWEST: usize = 12;

/// A page that is written line by line.
pub(crate) struct Page<'a, W> {
    out: &'a mut W,
    width: usize,
    colour: bool,
}

impl<'a, W: Write> Page<'a, W> {
    /// With lines of at most `width` characters, which is taken as 80 to 120; with bold and dim text if `colour`.
    pub(crate) fn new(out: &'a mut W, width: usize, colour: bool) -> Page<'a, W> {
        Page { out, width: width.clamp(80, 120), colour }
    }

    /// One line, without spaces at its end.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", text.trim_end())
    }

    fn styled(&mut self, text: &str, style: &str) -> io::Result<()> {
        if self.colour { writeln!(self.out, "\x1b[{style}m{text}\x1b[0m") } else { self.line(text) }
    }

    /// Words from `first`, wrapped, later lines below the text of the first.
    pub(crate) fn wrapped(&mut self, first: &str, text: &str) -> io::Result<()> {
        for line in wrap(first, text, self.width) {
            self.line(&line)?;
        }
        Ok(())
    }

    /// What comes first.
    pub(crate) fn headline(&mut self, text: &str) -> io::Result<()> {
        for line in wrap("", text, self.width) {
            self.styled(&line, "1")?;
        }
        Ok(())
    }

    /// Names and values, values below each other.
    pub(crate) fn facts(&mut self, facts: &[(&str, String)]) -> io::Result<()> {
        let widest = facts.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
        for (name, value) in facts {
            let gap = " ".repeat(widest - columns(name));
            self.wrapped(&format!("  {name}{gap}  "), value)?;
        }
        Ok(())
    }

    /// A heading after two empty lines.
    pub(crate) fn heading(&mut self, first: &str, text: &str) -> io::Result<()> {
        self.line("")?;
        self.line("")?;
        for line in wrap(first, text, self.width) {
            self.styled(&line, "1")?;
        }
        Ok(())
    }

    /// A line of less weight.
    pub(crate) fn dim(&mut self, text: &str) -> io::Result<()> {
        self.styled(text, "2")
    }

    fn caption(&mut self, text: &str) -> io::Result<()> {
        for line in wrap("", text, self.width) {
            self.dim(&line)?;
        }
        Ok(())
    }

    /// A table of results, cut after some rows.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.caption(&table.caption)?;
        let heads: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
        let units: Vec<Unit> = table.columns.iter().map(|column| column.unit).collect();
        // One or two more are shown rather than counted.
        let shown = if table.rows.len() <= 2 * ROWS { table.rows.len() } else { ROWS };
        let rows = table
            .rows
            .iter()
            .take(shown)
            .map(|row| row.iter().zip(&units).map(|(cell, &unit)| format::cell(cell, unit)).collect());
        self.grid(&heads, &units, rows.collect())?;
        if table.rows.len() > shown {
            self.dim(&format!("... {} more rows in --csv", format::count_of((table.rows.len() - shown) as u64)))?;
        }
        Ok(())
    }

    /// A table that fits: headings wrap, words are cut, and if that is not enough the last columns are left to CSV.
    pub(crate) fn grid(&mut self, heads: &[String], units: &[Unit], mut rows: Vec<Vec<String>>) -> io::Result<()> {
        let heads: Vec<String> = heads.iter().map(|head| tame(head).into_owned()).collect();
        for cell in rows.iter_mut().flatten() {
            *cell = tame(cell).into_owned();
        }
        let word = |text: &str| text.split(' ').map(columns).max().unwrap_or(0);
        let cells = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell)).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..heads.len()).map(|at| cells(at).max(columns(&heads[at])).max(1)).collect();
        // Each column has a space at both sides, and one more to the next.
        let total = |widths: &[usize]| (widths.iter().map(|width| width + 3).sum::<usize>()).saturating_sub(1);
        let least = |at: usize, width: usize| {
            if units[at] == Unit::Text { width.min(NARROWEST) } else { cells(at).min(40).max(word(&heads[at]).min(20)) }
        };
        while total(&widths) > self.width {
            let widest = |least: &dyn Fn(usize) -> usize| {
                (0..widths.len()).filter(|&at| widths[at] > least(at)).max_by_key(|&at| widths[at])
            };
            // First headings are wrapped, then words are cut.
            match widest(&|at| cells(at).max(word(&heads[at]))).or_else(|| widest(&|at| least(at, widths[at]))) {
                Some(at) => widths[at] -= 1,
                None if widths.len() > 1 => drop(widths.pop()),
                None => break,
            }
        }
        let kept = widths.len();
        let mut grid = Grid::new();
        grid.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
        grid.set_header(heads[..kept].iter().zip(&widths).map(|(head, &width)| hyphenless(head, width)));
        for row in &rows {
            grid.add_row((0..kept).map(|at| row.get(at).map_or_else(String::new, |cell| cut(cell, widths[at]))));
        }
        for (at, &width) in widths.iter().enumerate() {
            if let Some(column) = grid.column_mut(at) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width as u16 + 2)));
                if units[at] != Unit::Text {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        for line in grid.to_string().lines() {
            self.line(line)?;
        }
        if kept < heads.len() {
            self.dim(&format!("... {} more columns in --csv", heads.len() - kept))?;
        }
        Ok(())
    }

    /// A chart as lines of blocks.
    pub(crate) fn chart(&mut self, chart: &Chart) -> io::Result<()> {
        self.caption(&chart.caption)?;
        match chart.kind {
            ChartKind::Bars | ChartKind::StackedBars => self.bars(chart),
            ChartKind::Line | ChartKind::Step => self.lines(chart),
            // Dots over and under each other make no line.
            ChartKind::Points => self.dim("(dots: see --report)"),
        }
    }

    /// Every line as a row of blocks, with the values at its ends.
    fn lines(&mut self, chart: &Chart) -> io::Result<()> {
        let all = || chart.series.iter().filter(|series| !series.points.is_empty());
        let ends = |numbers: &mut dyn Iterator<Item = f64>| {
            numbers
                .filter(|number| number.is_finite())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
        };
        let (first, last) = ends(&mut all().flat_map(|series| series.points.iter().map(|point| point.0)));
        let axis_of = |series: &Series| chart.right.as_ref().filter(|_| series.right).unwrap_or(&chart.y);
        let label = |series: &Series| cut(&tame(&series.name), self.width / 4);
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
            // Lines of one axis are drawn to one measure.
            let (low, high) = ends(
                &mut all().filter(|other| other.right == series.right).flat_map(|other| other.points.iter().map(|point| point.1)),
            );
            let axis = axis_of(series);
            let low = if axis.log { low } else { low.min(0.0) };
            let blocks = spark(series, (first, last, chart.x.log), (low, high, axis.log), room, chart.kind == ChartKind::Step);
            let name = label(series);
            lines.push(format!("{name}{}  {blocks}  {}", " ".repeat(names - columns(&name)), range(series)));
        }
        for line in lines {
            self.line(&line)?;
        }
        if all().count() > LINES {
            self.dim(&format!("... {} more in --csv", all().count() - LINES))?;
        }
        let (from, to) = (format::number(first, chart.x.unit), format::number(last, chart.x.unit));
        let scale = if chart.x.log { ", log scale" } else { "" };
        let right = chart.right.as_ref().map_or_else(String::new, |right| format!(", or {}", tame(&right.label)));
        let text = format!("{} from {from} to {to}{scale}; height: {}{right}", tame(&chart.x.label), tame(&chart.y.label));
        self.caption(&text)
    }

    /// A bar for every place, and within it for every series.
    fn bars(&mut self, chart: &Chart) -> io::Result<()> {
        const FILLS: [char; 6] = ['█', '▓', '▒', '░', '#', '='];
        let stacked = chart.kind == ChartKind::StackedBars;
        let series: Vec<&Series> = chart.series.iter().filter(|series| !series.right && !series.points.is_empty()).collect();
        let places: Vec<f64> = {
            let mut places: Vec<f64> = series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
            places.sort_by(f64::total_cmp);
            places.dedup();
            places
        };
        let name = |place: f64| {
            let category = if place >= 0.0 { chart.x.categories.get(place as usize) } else { None };
            let name = category.cloned().unwrap_or_else(|| format::number(place, chart.x.unit));
            cut(&tame(&name), self.width / 4)
        };
        let value = |series: &Series, place: f64| series.points.iter().find(|point| point.0 == place).map(|point| point.1);
        let alone = series.len() == 1 || stacked;
        let shown = if alone { 2 * LINES } else { (2 * LINES / series.len().max(1)).max(3) };
        let labels = if alone {
            0
        } else {
            series.iter().map(|series| columns(&cut(&tame(&series.name), self.width / 5))).max().unwrap_or(0)
        };
        let widest = places.iter().take(shown).map(|&place| columns(&name(place))).max().unwrap_or(0);
        let sum = |place: f64| series.iter().filter_map(|series| value(series, place)).sum::<f64>();
        let most = if stacked {
            places.iter().map(|&place| sum(place)).fold(0.0, f64::max)
        } else {
            series.iter().flat_map(|series| &series.points).map(|point| point.1).filter(|y| y.is_finite()).fold(0.0, f64::max)
        };
        let least = series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.1)
            .filter(|&y| y > 0.0)
            .fold(f64::INFINITY, f64::min);
        let room = self.width.saturating_sub(widest + labels + 18).clamp(8, 60);
        let length = |value: f64| {
            let share = if chart.y.log { (value / least * 2.0).ln() / (most / least * 2.0).ln() } else { value / most };
            if share.is_finite() { share.clamp(0.0, 1.0) * room as f64 } else { 0.0 }
        };
        let mut lines = Vec::new();
        for &place in places.iter().take(shown) {
            let pad = |text: &str, to: usize| format!("{text}{}", " ".repeat(to.saturating_sub(columns(text))));
            if stacked {
                let (mut bar, mut upto) = (String::new(), 0.0);
                for (at, series) in series.iter().enumerate() {
                    upto += value(series, place).unwrap_or(0.0).max(0.0);
                    let until = (upto / most * room as f64).round() as usize;
                    bar.extend(std::iter::repeat_n(FILLS[at % FILLS.len()], until.saturating_sub(columns(&bar))));
                }
                lines.push(format!("{}  {bar} {}", pad(&name(place), widest), format::number(sum(place), chart.y.unit)));
                continue;
            }
            for (at, series) in series.iter().enumerate() {
                let first = if at == 0 { name(place) } else { String::new() };
                let label =
                    if alone { String::new() } else { format!("{}  ", pad(&cut(&tame(&series.name), self.width / 5), labels)) };
                let (bar, shown) = match value(series, place) {
                    Some(value) => (blocks(length(value)), format::number(value, chart.y.unit)),
                    None => (String::new(), format::NOTHING.into()),
                };
                let space = if bar.is_empty() { "" } else { " " };
                lines.push(format!("{}  {label}{bar}{space}{shown}", pad(&first, widest)));
            }
        }
        for line in lines {
            self.line(&line)?;
        }
        if stacked {
            let key: Vec<String> = series
                .iter()
                .enumerate()
                .map(|(at, series)| format!("{} {}", FILLS[at % FILLS.len()], tame(&series.name)))
                .collect();
            self.caption(&key.join("   "))?;
        }
        if places.len() > shown {
            self.dim(&format!("... {} more in --csv", places.len() - shown))?;
        }
        let scale = if chart.y.log { " (log scale)" } else { "" };
        self.caption(&format!("{}{scale} by {}", tame(&chart.y.label), tame(&chart.x.label)))
    }
}

/// A bar of that many characters, to an eighth of one.
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

/// Points as blocks of eight heights over `room` places of equal width, each the mean of its points, or of a line to the next ones.
fn spark(series: &Series, x: (f64, f64, bool), y: (f64, f64, bool), room: usize, step: bool) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let place = |value: f64, (low, high, log): (f64, f64, bool)| {
        let share = if log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    };
    let points: Vec<(f64, f64)> = series.points.iter().map(|point| (place(point.0, x), place(point.1, y))).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return " ".repeat(room) };
    let half = 0.5 / room as f64;
    (0..room)
        .map(|at| {
            let (from, to) = (at as f64 / room as f64, (at + 1) as f64 / room as f64);
            let inside: Vec<f64> =
                points.iter().filter(|point| point.0 >= from && (point.0 < to || at + 1 == room)).map(|point| point.1).collect();
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
                    Some(next) if !step => before.1 + (next.1 - before.1) * (middle - before.0) / (next.0 - before.0),
                    _ => before.1,
                }
            };
            HEIGHTS[((height * 8.0) as usize).min(7)]
        })
        .collect()
}

/// Columns of a terminal that text takes: wide characters take two.
pub(crate) fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Text that is not wider, with an ellipsis for what was cut.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if columns(&out) + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) >= width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// A heading whose words are cut, not broken, where they are too wide.
fn hyphenless(head: &str, width: usize) -> String {
    let lines = wrap("", head, width);
    lines.iter().map(|line| cut(line.trim_end(), width)).take(3).collect::<Vec<_>>().join("\n")
}

/// Lines of words, the first after `first` and the others below it. A word too wide for a line is broken.
fn wrap(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(columns(first));
    let room = width.saturating_sub(indent.len()).max(1);
    let text = tame(text);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if columns(&line) + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) > room {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines.iter().enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { first } else { &indent })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_cut() {
        assert_eq!(wrap("- ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrap("", "abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrap("", "", 4), [""]);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("plain", 5), "plain");
    }

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
