//! A report on a terminal: a summary of what a browser shows.

use super::{Grid, Page, default_rows};
use crate::{Block, Breakdown, Fact, Figure, Report, Section, TableView, Unit, format};
use std::io::{self, Write};

/// Lines of a list.
const LINES: usize = 12;

impl<W: Write> Page<'_, W> {
    /// Writes a report: its summary, and the sections that are not for browsers only.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn report(&mut self, report: &Report) -> io::Result<()> {
        self.headline(&report.summary.headline)?;
        let value = |fact: &Fact| {
            let gap =
                if fact.note.is_empty() || fact.note.starts_with([',', ':']) { "" } else { " " };
            (fact.name, format!("{}{gap}{}", fact.value, fact.note))
        };
        if !report.summary.facts.is_empty() {
            self.line("")?;
            self.facts(&report.summary.facts.iter().map(value).collect::<Vec<_>>())?;
        }
        if !report.summary.reasons.is_empty() {
            self.line("")?;
        }
        for reason in &report.summary.reasons {
            self.wrapped("- ", reason)?;
        }
        for section in report.sections.iter().filter(|section| section.brief) {
            self.section(section)?;
        }
        self.line("")
    }

    /// Writes a section.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn section(&mut self, section: &Section) -> io::Result<()> {
        if section.blocks.iter().all(|block| matches!(block, Block::Map(_) | Block::Chart(_))) {
            return Ok(());
        }
        let number = if section.number == 0 {
            String::new()
        } else {
            format!("Figure {}  ", section.number)
        };
        self.heading(&number, &section.title)?;
        section.blocks.iter().try_for_each(|block| self.block(block))
    }

    fn block(&mut self, block: &Block) -> io::Result<()> {
        match block {
            Block::Text(text) => self.wrapped("", text),
            Block::Facts(facts) => {
                let all = |(name, lines): &(String, Vec<String>)| some_lines(name, lines);
                self.facts(&facts.iter().flat_map(all).collect::<Vec<_>>())
            }
            Block::Table(view) => self.view(view),
            Block::Figure(figure) => self.figure(figure),
            Block::Breakdown(breakdowns) => self.breakdowns(breakdowns),
            Block::Notes(notes) => {
                notes.iter().take(LINES).try_for_each(|note| self.wrapped("- ", note))?;
                self.more(notes.len().saturating_sub(LINES), "")
            }
            Block::Damage(kind, inputs) => inputs.iter().try_for_each(|(name, why)| {
                self.wrapped(&format!("  {kind}: "), &format!("{name}: {why}"))
            }),
            Block::Chart(_) | Block::Map(_) => Ok(()),
        }
    }

    /// Writes a table as its hints ask for.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn view(&mut self, view: &TableView) -> io::Result<()> {
        let table = view.table.clone().without(&view.detail);
        let rows = view.rows.unwrap_or_else(|| default_rows(&table));
        self.rows(&table, rows, view.optional)
    }

    /// A finding, the first chart and the first table with content, and the notes.
    fn figure(&mut self, figure: &Figure) -> io::Result<()> {
        if !figure.finding.is_empty() {
            self.wrapped("", &figure.finding)?;
        }
        let chart = figure.charts.iter().find(|chart| !chart.is_empty());
        let table = figure.tables.iter().find(|table| !table.rows.is_empty());
        if let Some(chart) = chart {
            self.line("")?;
            self.chart(chart)?;
        }
        if let Some(table) = table {
            self.line("")?;
            self.table(table)?;
        }
        if chart.is_none() && table.is_none() {
            self.line("There is nothing to show for this traffic.")?;
        }
        let plural = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 more {what}")),
            count => Some(format!("{count} more {what}s")),
        };
        let tables = plural(figure.tables.len().saturating_sub(1), "table");
        let charts = plural(figure.charts.len().saturating_sub(1), "chart");
        let more: Vec<String> = tables.into_iter().chain(charts).collect();
        if !more.is_empty() {
            self.dim(&format!("... {} in --report and --csv", more.join(" and ")))?;
        }
        figure.notes.iter().try_for_each(|note| self.wrapped("Note: ", note))
    }

    /// All breakdowns in one table.
    fn breakdowns(&mut self, breakdowns: &[Breakdown]) -> io::Result<()> {
        let columns = [
            ("", Unit::Text),
            ("packets", Unit::Count),
            ("wire bytes", Unit::Bytes),
            ("share", Unit::Share),
        ];
        let mut grid = Grid::new(columns);
        for breakdown in breakdowns {
            for (name, parts) in &breakdown.groups {
                grid.row([&format!("{name}:"), "", "", ""]);
                for part in parts {
                    grid.row([
                        format!("  {}", part.name),
                        part.packets.map_or_else(String::new, format::count_of),
                        format::bytes(part.bytes),
                        format::part(part.bytes, breakdown.whole),
                    ]);
                }
            }
        }
        self.grid(grid)
    }
}

/// A name beside the first of its lines.
fn some_lines(name: &str, lines: &[String]) -> Vec<(String, String)> {
    let mut lines: Vec<String> = lines.to_vec();
    if lines.len() > LINES {
        let more = format!("... {} more", lines.len() - LINES);
        lines.truncate(LINES);
        lines.push(more);
    }
    let names = std::iter::once(name.to_owned()).chain(std::iter::repeat(String::new()));
    names.zip(lines).collect()
}
