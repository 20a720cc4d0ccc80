//! A report on a terminal: a summary of what a browser shows.

use super::{Grid, Page, default_rows};
use crate::{Block, Breakdown, Fact, Figure, Report, Section, Summary, TableView, Unit, format};
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
        self.summary(&report.summary)?;
        self.sections(report)?;
        self.line("")
    }

    /// Writes the sections that are not for browsers only.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn sections(&mut self, report: &Report) -> io::Result<()> {
        report
            .sections
            .iter()
            .filter(|section| section.brief)
            .try_for_each(|section| self.section(section))
    }

    /// Writes a short answer: the contents of the sections that are not for browsers only, without
    /// headings, and an empty line between them. Empty sections are left out.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn answer(&mut self, report: &Report) -> io::Result<()> {
        let sections = report.sections.iter().filter(|section| section.brief);
        for (at, section) in sections.filter(|section| !section.blocks.is_empty()).enumerate() {
            if at > 0 {
                self.line("")?;
            }
            self.content(section)?;
        }
        Ok(())
    }

    /// Writes the result: headline, facts and reasons.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn summary(&mut self, summary: &Summary) -> io::Result<()> {
        self.headline(&summary.headline)?;
        let value = |fact: &Fact| {
            let gap =
                if fact.note.is_empty() || fact.note.starts_with([',', ':']) { "" } else { " " };
            (fact.name, format!("{}{gap}{}", fact.value, fact.note))
        };
        if !summary.facts.is_empty() {
            self.line("")?;
            self.facts(&summary.facts.iter().map(value).collect::<Vec<_>>())?;
        }
        if !summary.reasons.is_empty() {
            self.line("")?;
        }
        summary.reasons.iter().try_for_each(|reason| self.wrapped("- ", reason))
    }

    /// Writes one line for each figure: number, name and finding in brief.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn figures<'f>(&mut self, figures: impl Iterator<Item = &'f Figure>) -> io::Result<()> {
        let figures: Vec<&Figure> = figures.collect();
        let widest = figures.iter().map(|figure| figure.id.len()).max().unwrap_or(0);
        for figure in figures {
            let brief = if figure.brief.is_empty() { "nothing to show" } else { &figure.brief };
            let first = format!("{:>3}  {:widest$}  ", figure.number, figure.id);
            self.wrapped(&first, brief)?;
        }
        Ok(())
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
        self.content(section)
    }

    /// Writes the contents of a section, without its heading.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn content(&mut self, section: &Section) -> io::Result<()> {
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
