//! Text of fixed width, for a terminal or a file: facts, tables and charts that fit.

use crate::failure::{Failure, Outcome};
use crate::format::{self, tame};
use crate::report;
use oncewire_trace::results::{Chart, ChartKind, Series, Table, Unit};
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

/// Rows of a table. All are in `--csv`.
const ROWS: usize = 12;
/// Bars and lines of a chart.
pub(crate) const LINES: usize = 12;
/// Spaces between two columns.
const GAP: usize = 2;
/// Narrowest column of words, so that they can be told apart.
const NARROWEST: usize = 12;
/// Lines of a cell of words. Names from a capture or a topology can be of any length.
const CELL_LINES: usize = 3;
/// Widths that a page can have. Below, lines wrap; above, they are hard to follow.
const WIDTHS: std::ops::RangeInclusive<usize> = 80..=120;

/// A table of text, to be laid out to the width of a page.
pub(crate) struct Grid {
    heads: Vec<String>,
    units: Vec<Unit>,
    rows: Vec<Vec<String>>,
    /// Columns that a narrow page must have, too.
    required: usize,
}

impl Grid {
    /// With these columns; text is aligned left, every other unit right.
    pub(crate) fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Unit)>) -> Grid {
        let (heads, units): (Vec<String>, Vec<Unit>) = columns.into_iter().map(|(head, unit)| (head.into(), unit)).unzip();
        let required = heads.len();
        Grid { heads, units, rows: Vec::new(), required }
    }

    /// Only the first `count` columns must be shown. Where the page is too narrow for the others, a line below names them.
    pub(crate) fn require(mut self, count: usize) -> Grid {
        self.required = count;
        self
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Width of a line with columns that wide.
    fn total(widths: &[usize]) -> usize {
        widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    }

    /// How many columns fit into `room`, and how wide each is.
    ///
    /// Headings wrap first, then optional columns go, then words wrap, and last any column but the first goes. Numbers are never cut.
    fn layout(&self, room: usize) -> Vec<usize> {
        let word = |text: &str| text.split(' ').map(columns).max().unwrap_or(0);
        let cells: Vec<usize> = (0..self.heads.len())
            .map(|at| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell)).max().unwrap_or(0).max(1))
            .collect();
        let shrink = |widths: &mut Vec<usize>, least: &dyn Fn(usize) -> usize| {
            while Grid::total(widths) > room {
                let wide = (0..widths.len()).filter(|&at| widths[at] > least(at)).max_by_key(|&at| widths[at]);
                match wide {
                    Some(at) => widths[at] -= 1,
                    None => return false,
                }
            }
            true
        };
        let natural = |count: usize| (0..count).map(|at| cells[at].max(columns(&self.heads[at]))).collect::<Vec<_>>();
        // A long word of a heading is broken only where nothing else helps.
        let of_head = |at: usize| cells[at].max(word(&self.heads[at]).min(2 * NARROWEST));
        let of_words = |at: usize| if self.units[at] == Unit::Text { of_head(at).min(NARROWEST) } else { of_head(at) };
        for count in (self.required.max(1)..=self.heads.len()).rev() {
            let mut widths = natural(count);
            if shrink(&mut widths, &of_head) {
                return widths;
            }
        }
        for count in (2..=self.required).rev() {
            let mut widths = natural(count);
            if shrink(&mut widths, &of_head) || shrink(&mut widths, &of_words) {
                return widths;
            }
        }
        natural(self.heads.len().min(1)).into_iter().map(|width| width.min(room)).collect()
    }
}

/// A page that is written line by line.
pub(crate) struct Page<'a, W> {
    out: &'a mut W,
    width: usize,
    colour: bool,
    /// The option that writes everything.
    whole: &'static str,
}

impl<'a, W: Write> Page<'a, W> {
    /// With lines of at most `width` characters, which is taken as 80 to 120; with bold and dim text if `colour`.
    pub(crate) fn new(out: &'a mut W, width: usize, colour: bool) -> Page<'a, W> {
        Page { out, width: width.clamp(*WIDTHS.start(), *WIDTHS.end()), colour, whole: "--csv" }
    }

    /// The same page, which sends readers to that option for what it leaves out.
    pub(crate) fn whole_in(mut self, option: &'static str) -> Self {
        self.whole = option;
        self
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
        // Names may be foreign, as those of settings.
        let names: Vec<String> = facts.iter().map(|(name, _)| cut(&tame(name), self.width / 3)).collect();
        let widest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        for ((_, value), name) in facts.iter().zip(&names) {
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
        // One or two more are shown rather than counted.
        let shown = if table.rows.len() <= 2 * ROWS { table.rows.len() } else { ROWS };
        let mut grid = Grid::new(table.columns.iter().map(|column| (column.name.clone(), column.unit)));
        for row in table.rows.iter().take(shown) {
            grid.row(row.iter().zip(&table.columns).map(|(cell, column)| format::cell(cell, column.unit)));
        }
        self.grid(grid)?;
        if table.rows.len() > shown {
            let more = format::count_of((table.rows.len() - shown) as u64);
            self.dim(&format!("... {more} more rows in {}", self.whole))?;
        }
        Ok(())
    }

    /// A table that fits.
    pub(crate) fn grid(&mut self, mut grid: Grid) -> io::Result<()> {
        for text in grid.heads.iter_mut().chain(grid.rows.iter_mut().flatten()) {
            *text = tame(text).into_owned();
        }
        let widths = grid.layout(self.width);
        let empty = String::new();
        // Cells of one row as lines, which begin at the top, or in a heading end at the bottom.
        let lines = |cells: &[String], bottom: bool| {
            let cells: Vec<Vec<String>> =
                widths.iter().enumerate().map(|(at, &width)| cell_lines(cells.get(at).unwrap_or(&empty), width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            (0..height)
                .map(|line| {
                    let mut text = String::new();
                    for (at, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                        let from = if bottom { height - cell.len() } else { 0 };
                        let part = line.checked_sub(from).and_then(|line| cell.get(line)).unwrap_or(&empty);
                        let pad = " ".repeat(width.saturating_sub(columns(part)));
                        let gap = if at == 0 { "" } else { &" ".repeat(GAP) };
                        text +=
                            &if grid.units[at] == Unit::Text { format!("{gap}{part}{pad}") } else { format!("{gap}{pad}{part}") };
                    }
                    text
                })
                .collect::<Vec<_>>()
        };
        for line in lines(&grid.heads, true) {
            self.line(&line)?;
        }
        self.dim(&"─".repeat(Grid::total(&widths)))?;
        for row in &grid.rows {
            for line in lines(row, false) {
                self.line(&line)?;
            }
        }
        if widths.len() < grid.heads.len() {
            self.caption(&format!("Also in {}: {}.", self.whole, grid.heads[widths.len()..].join(", ")))?;
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
            self.dim(&format!("... {} more in {}", all().count() - LINES, self.whole))?;
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
            self.dim(&format!("... {} more in {}", places.len() - shown, self.whole))?;
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

/// A cell in lines of that width, with an ellipsis for what is beyond the last of them. Spaces at the beginning stay.
fn cell_lines(text: &str, width: usize) -> Vec<String> {
    if columns(text) <= width {
        return vec![text.to_owned()];
    }
    let indent = &text[..text.len() - text.trim_start().len()];
    let mut lines = wrap(indent, text.trim_start(), width);
    if lines.len() > CELL_LINES {
        lines.truncate(CELL_LINES);
        if let Some(last) = lines.last_mut() {
            *last = format!("{}…", cut(last, width - 1).trim_end_matches('…'));
        }
    }
    lines
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

/// Width of the page that standard output is, in characters, and whether it has colours.
///
/// `COLUMNS` comes first, as the user's word; then the terminal; then 80, for files and pipes.
pub(crate) fn page() -> (usize, bool) {
    let out = io::stdout();
    let terminal = out.is_terminal();
    let real = terminal_size::terminal_size_of(&out).filter(|_| terminal).map(|(width, _)| usize::from(width.0));
    let width = width_of(std::env::var_os("COLUMNS").as_deref(), real);
    (width, terminal && std::env::var_os("NO_COLOR").is_none())
}

fn width_of(wish: Option<&OsStr>, terminal: Option<usize>) -> usize {
    let wish = wish.and_then(OsStr::to_str).and_then(|text| text.trim().parse().ok()).filter(|&width: &usize| width > 0);
    wish.or(terminal.filter(|&width| width > 0)).unwrap_or(*WIDTHS.start())
}

/// Puts on standard output what `write` puts on a page of its width; `whole` is the option that writes everything.
pub(crate) fn print(whole: &'static str, write: impl FnOnce(&mut Page<'_, Vec<u8>>) -> io::Result<()>) -> Outcome {
    let (width, colour) = page();
    let mut text = Vec::new();
    write(&mut Page::new(&mut text, width, colour).whole_in(whole)).map_err(|error| Failure::report(&error))?;
    report::text(&String::from_utf8_lossy(&text))
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
    fn the_width_is_what_is_asked_for_or_the_terminals() {
        let of = |wish: &str, terminal| width_of(Some(OsStr::new(wish)), terminal);
        assert_eq!(of("100", None), 100);
        assert_eq!(of("100", Some(90)), 100);
        for nothing in ["", "0", "-1", "wide", "1e3"] {
            assert_eq!((of(nothing, Some(90)), of(nothing, None)), (90, 80), "{nothing:?}");
        }
        assert_eq!((width_of(None, Some(90)), width_of(None, Some(0)), width_of(None, None)), (90, 80, 80));
    }

    fn shown(grid: Grid, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        Page::new(&mut out, width, false).grid(grid).unwrap();
        String::from_utf8(out).unwrap().lines().map(String::from).collect()
    }

    #[test]
    fn a_grid_is_light_and_aligned() {
        let mut grid = Grid::new([("name", Unit::Text), ("bytes", Unit::Bytes)]);
        grid.row(["one", "5 B"]);
        grid.row(["a longer one", "1.23 MB"]);
        let lines = ["name            bytes", "─────────────────────", "one               5 B", "a longer one  1.23 MB"];
        assert_eq!(shown(grid, 80), lines);
    }

    #[test]
    fn words_give_way_and_numbers_do_not() {
        let number = "1,234,567,890";
        for count in 1..12 {
            for name in ["x", "a name of several words that is longer than it should be in a table", &"y".repeat(300)] {
                let heads = (0..count).map(|at| (format!("heading number {at}"), Unit::Count));
                let mut grid = Grid::new([("name".to_string(), Unit::Text)].into_iter().chain(heads));
                grid.row([name.to_string()].into_iter().chain((0..count).map(|_| number.to_string())));
                for width in [80, 120] {
                    let lines = shown(
                        Grid { heads: grid.heads.clone(), units: grid.units.clone(), rows: grid.rows.clone(), ..grid },
                        width,
                    );
                    let text = lines.join("\n");
                    assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {text}");
                    let there = text.matches(number).count();
                    assert!(there == count || text.contains("Also in --csv: "), "{there} of {count} in {width}: {text}");
                    // Each with its comma or none: what is not shown is named.
                    assert!(text.matches(',').count() >= 3 * there && !text.contains("1,234,567…"), "{text}");
                    assert!(
                        there >= count.min((width - NARROWEST) / (number.len() + GAP)),
                        "{there} of {count} in {width}: {text}"
                    );
                }
            }
        }
    }

    #[test]
    fn optional_columns_go_before_words_wrap() {
        let name = "a name that takes thirty places";
        let mut grid =
            Grid::new([("name", Unit::Text), ("one", Unit::Count), ("two", Unit::Count), ("three", Unit::Count)]).require(2);
        grid.row([name, "123,456,789,012,345", "123,456,789,012,345", "123,456,789,012,345"]);
        let lines = shown(grid, 80);
        assert!(lines[2].contains(name) && lines[2].matches("012,345").count() == 2, "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "Also in --csv: three.");
    }

    #[test]
    fn cells_keep_their_indent_and_end_somewhere() {
        assert_eq!(cell_lines("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(cell_lines("  short", 9), ["  short"]);
        let long = cell_lines(&"word ".repeat(100), 10);
        assert!(long.len() == CELL_LINES && long[2].ends_with('…') && long.iter().all(|line| columns(line) <= 10), "{long:?}");
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
