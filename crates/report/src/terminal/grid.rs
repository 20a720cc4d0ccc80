//! Tables of text, laid out to the width of a page.

use super::Page;
use crate::text::{columns, cut, sanitize, wrap};
use crate::{Table, Unit, format};
use std::io::{self, Write};

/// Spaces between two columns.
const GAP: usize = 2;
/// Narrowest column of words.
const NARROWEST: usize = 12;
/// Lines of a cell of words. Names from a capture or a topology can be of any length.
const CELL_LINES: usize = 3;

/// A table of text that is laid out to the width of a page.
pub struct Grid {
    heads: Vec<String>,
    units: Vec<Unit>,
    rows: Vec<Vec<String>>,
    /// The first columns, which even a narrow page shows.
    required: usize,
}

impl Grid {
    /// A table with these columns. Text is aligned left, numbers right.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Unit)>) -> Grid {
        let (heads, units): (Vec<String>, Vec<Unit>) =
            columns.into_iter().map(|(head, unit)| (head.into(), unit)).unzip();
        let required = heads.len();
        Grid { heads, units, rows: Vec::new(), required }
    }

    /// The grid of a table, its numbers with their units.
    pub fn of(table: &Table) -> Grid {
        let mut grid =
            Grid::new(table.columns.iter().map(|column| (column.name.clone(), column.unit)));
        for row in &table.rows {
            grid.row(
                row.iter()
                    .zip(&table.columns)
                    .map(|(cell, column)| format::cell(cell, column.unit)),
            );
        }
        grid
    }

    /// Keeps the first `count` rows.
    pub fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
    }

    /// Makes all but the first `count` columns optional. A line below the table names the columns
    /// that a narrow page omits.
    pub fn require(mut self, count: usize) -> Grid {
        self.required = count;
        self
    }

    /// Appends a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Width of a line with columns of these widths.
    fn total(widths: &[usize]) -> usize {
        widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    }

    /// Widths of the columns that fit into `room`.
    ///
    /// Headings wrap first; then optional columns are omitted, then words wrap, and finally every
    /// column but the first may be omitted. Numbers are never cut.
    fn layout(&self, room: usize) -> Vec<usize> {
        let word = |text: &str| text.split(' ').map(columns).max().unwrap_or(0);
        let cells: Vec<usize> = (0..self.heads.len())
            .map(|at| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .map(|cell| columns(cell))
                    .max()
                    .unwrap_or(0)
                    .max(1)
            })
            .collect();
        let shrink = |widths: &mut Vec<usize>, least: &dyn Fn(usize) -> usize| {
            while Grid::total(widths) > room {
                let wide = (0..widths.len())
                    .filter(|&at| widths[at] > least(at))
                    .max_by_key(|&at| widths[at]);
                match wide {
                    Some(at) => widths[at] -= 1,
                    None => return false,
                }
            }
            true
        };
        let natural = |count: usize| {
            (0..count).map(|at| cells[at].max(columns(&self.heads[at]))).collect::<Vec<_>>()
        };
        // Long words of a heading are broken only as a last resort.
        let of_head = |at: usize| cells[at].max(word(&self.heads[at]).min(2 * NARROWEST));
        let of_words = |at: usize| {
            if self.units[at] == Unit::Text { of_head(at).min(NARROWEST) } else { of_head(at) }
        };
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

impl<W: Write> Page<'_, W> {
    /// Writes a table.
    pub fn grid(&mut self, mut grid: Grid) -> io::Result<()> {
        for text in grid.heads.iter_mut().chain(grid.rows.iter_mut().flatten()) {
            *text = sanitize(text).into_owned();
        }
        let widths = grid.layout(self.width);
        let empty = String::new();
        // The lines of one row. Cells are aligned at the top, headings at the bottom.
        let lines = |cells: &[String], bottom: bool| {
            let cells: Vec<Vec<String>> = widths
                .iter()
                .enumerate()
                .map(|(at, &width)| cell_lines(cells.get(at).unwrap_or(&empty), width))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            (0..height)
                .map(|line| {
                    let mut text = String::new();
                    for (at, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                        let from = if bottom { height - cell.len() } else { 0 };
                        let part = line
                            .checked_sub(from)
                            .and_then(|line| cell.get(line))
                            .unwrap_or(&empty);
                        let pad = " ".repeat(width.saturating_sub(columns(part)));
                        let gap = if at == 0 { "" } else { &" ".repeat(GAP) };
                        text += &if grid.units[at] == Unit::Text {
                            format!("{gap}{part}{pad}")
                        } else {
                            format!("{gap}{pad}{part}")
                        };
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
            self.caption(&format!(
                "Also in {}: {}.",
                self.complete_in,
                grid.heads[widths.len()..].join(", ")
            ))?;
        }
        Ok(())
    }
}

/// A cell in lines of that width. An ellipsis replaces what does not fit. Leading spaces are kept.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(grid: Grid, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        Page::new(&mut out, width, false).grid(grid).unwrap();
        String::from_utf8(out).unwrap().lines().map(String::from).collect()
    }

    #[test]
    fn columns_are_aligned() {
        let mut grid = Grid::new([("name", Unit::Text), ("bytes", Unit::Bytes)]);
        grid.row(["one", "5 B"]);
        grid.row(["a longer one", "1.23 MB"]);
        let lines = [
            "name            bytes",
            "─────────────────────",
            "one               5 B",
            "a longer one  1.23 MB",
        ];
        assert_eq!(shown(grid, 80), lines);
    }

    #[test]
    fn words_wrap_and_numbers_are_never_cut() {
        let number = "1,234,567,890";
        for count in 1..12 {
            for name in [
                "x",
                "a name of several words that is longer than it should be in a table",
                &"y".repeat(300),
            ] {
                let heads = (0..count).map(|at| (format!("heading number {at}"), Unit::Count));
                let mut grid =
                    Grid::new([("name".to_string(), Unit::Text)].into_iter().chain(heads));
                grid.row(
                    [name.to_string()].into_iter().chain((0..count).map(|_| number.to_string())),
                );
                for width in [80, 120] {
                    let lines = shown(
                        Grid {
                            heads: grid.heads.clone(),
                            units: grid.units.clone(),
                            rows: grid.rows.clone(),
                            ..grid
                        },
                        width,
                    );
                    let text = lines.join("\n");
                    assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {text}");
                    let there = text.matches(number).count();
                    assert!(
                        there == count || text.contains("Also in --csv: "),
                        "{there} of {count} in {width}: {text}"
                    );
                    // A number is shown completely, or its column is named below.
                    assert!(
                        text.matches(',').count() >= 3 * there && !text.contains("1,234,567…"),
                        "{text}"
                    );
                    assert!(
                        there >= count.min((width - NARROWEST) / (number.len() + GAP)),
                        "{there} of {count} in {width}: {text}"
                    );
                }
            }
        }
    }

    #[test]
    fn optional_columns_are_omitted_before_words_wrap() {
        let name = "a name that takes thirty places";
        let mut grid = Grid::new([
            ("name", Unit::Text),
            ("one", Unit::Count),
            ("two", Unit::Count),
            ("three", Unit::Count),
        ])
        .require(2);
        grid.row([name, "123,456,789,012,345", "123,456,789,012,345", "123,456,789,012,345"]);
        let lines = shown(grid, 80);
        assert!(lines[2].contains(name) && lines[2].matches("012,345").count() == 2, "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "Also in --csv: three.");
    }

    #[test]
    fn cells_keep_their_indent_and_are_cut() {
        assert_eq!(cell_lines("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(cell_lines("  short", 9), ["  short"]);
        let long = cell_lines(&"word ".repeat(100), 10);
        assert!(
            long.len() == CELL_LINES
                && long[2].ends_with('…')
                && long.iter().all(|line| columns(line) <= 10),
            "{long:?}"
        );
    }
}
