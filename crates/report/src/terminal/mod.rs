//! Text of fixed width for a terminal or a file: facts, tables and charts.
//!
//! Pages are 80 to 120 columns wide. Numbers are never cut; words wrap, and columns without room
//! are named below their table.

mod chart;
mod grid;
mod report;

pub use grid::Grid;

use crate::Table;
use crate::format;
use crate::text::{columns, cut, sanitize, wrap};
use std::io::{self, Write};

/// Rows of a table that are shown of a longer one.
const ROWS: usize = 12;
/// Narrowest page in columns. Files and pipes have this width.
pub const NARROWEST: usize = 80;
/// Widest page in columns. Longer lines are hard to follow.
pub const WIDEST: usize = 120;

/// A page that is written line by line.
pub struct Page<'a, W> {
    out: &'a mut W,
    width: usize,
    color: bool,
    /// The option that writes complete tables.
    complete_in: &'static str,
}

impl<'a, W: Write> Page<'a, W> {
    /// A page with lines of at most `width` columns, clamped to 80 to 120, and with bold and dim
    /// text if `color`.
    pub fn new(out: &'a mut W, width: usize, color: bool) -> Page<'a, W> {
        Page { out, width: width.clamp(NARROWEST, WIDEST), color, complete_in: "--csv" }
    }

    /// Names the option that writes complete tables. The default is `--csv`.
    pub fn complete_in(mut self, option: &'static str) -> Self {
        self.complete_in = option;
        self
    }

    /// Writes one line without trailing spaces.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", text.trim_end())
    }

    fn styled(&mut self, text: &str, style: &str) -> io::Result<()> {
        if self.color { writeln!(self.out, "\x1b[{style}m{text}\x1b[0m") } else { self.line(text) }
    }

    /// Writes text after `first`, wrapped and indented below it.
    pub fn wrapped(&mut self, first: &str, text: &str) -> io::Result<()> {
        for line in wrap(first, text, self.width) {
            self.line(&line)?;
        }
        Ok(())
    }

    /// Writes the headline.
    pub fn headline(&mut self, text: &str) -> io::Result<()> {
        for line in wrap("", text, self.width) {
            self.styled(&line, "1")?;
        }
        Ok(())
    }

    /// Writes names and values in two columns.
    pub fn facts<N: AsRef<str>, V: AsRef<str>>(&mut self, facts: &[(N, V)]) -> io::Result<()> {
        let name = |name: &str| cut(&sanitize(name), self.width / 3);
        let names: Vec<String> = facts.iter().map(|(fact, _)| name(fact.as_ref())).collect();
        let widest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        for ((_, value), name) in facts.iter().zip(&names) {
            let gap = " ".repeat(widest - columns(name));
            self.wrapped(&format!("  {name}{gap}  "), value.as_ref())?;
        }
        Ok(())
    }

    /// Writes a heading after two empty lines.
    pub fn heading(&mut self, first: &str, text: &str) -> io::Result<()> {
        self.line("")?;
        self.line("")?;
        for line in wrap(first, text, self.width) {
            self.styled(&line, "1")?;
        }
        Ok(())
    }

    /// Writes a line in dim text.
    pub fn dim(&mut self, text: &str) -> io::Result<()> {
        self.styled(text, "2")
    }

    fn caption(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        for line in wrap("", text, self.width) {
            self.dim(&line)?;
        }
        Ok(())
    }

    /// Writes the first rows of a table, or all of a short one.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        self.rows(table, default_rows(table), 0)
    }

    /// Writes the first `most` rows of a table. Its last columns may be optional.
    fn rows(&mut self, table: &Table, most: usize, optional: usize) -> io::Result<()> {
        self.caption(&table.caption)?;
        let mut grid = Grid::of(table).require(table.columns.len().saturating_sub(optional));
        grid.truncate(most);
        self.grid(grid)?;
        self.more(table.rows.len().saturating_sub(most), "rows ")
    }

    /// Says how many rows or lines are left out.
    fn more(&mut self, count: usize, what: &str) -> io::Result<()> {
        match count {
            0 => Ok(()),
            count => self.dim(&format!(
                "... {} more {what}in {}",
                format::count_of(count as u64),
                self.complete_in
            )),
        }
    }
}

/// Rows that are shown of a table: all of a short one.
fn default_rows(table: &Table) -> usize {
    if table.rows.len() <= 2 * ROWS { table.rows.len() } else { ROWS }
}
