//! A study as a summary for a terminal, or for a file: the verdict, what was read, and of every figure what stands out.

use crate::format::{self, part};
use crate::quantity::bytes;
use crate::terminal::{Grid, LINES, Page};
use oncewire_trace::results::{Figure, Report, Share, Unit};
use std::io::{self, Write};

/// Writes the summary in lines of at most `width` characters, which is taken as 80 to 120; with bold and dim text if `colour`.
///
/// # Errors
///
/// If `out` cannot be written.
pub(crate) fn write(report: &Report, out: &mut impl Write, width: usize, colour: bool) -> io::Result<()> {
    let mut page = Page::new(out, width, colour);
    page.verdict(report)?;
    page.input(report)?;
    page.accounting(report)?;
    for figure in &report.figures {
        page.figure(figure)?;
    }
    page.line("")
}

/// Writes one figure alone, as [`write()`] would.
///
/// # Errors
///
/// If `out` cannot be written.
pub(crate) fn figure(figure: &Figure, out: &mut impl Write, width: usize, colour: bool) -> io::Result<()> {
    Page::new(out, width, colour).figure(figure)
}

impl<W: Write> Page<'_, W> {
    fn verdict(&mut self, report: &Report) -> io::Result<()> {
        let verdict = &report.verdict;
        self.headline(&verdict.headline)?;
        self.line("")?;
        let mut facts = vec![("savings", format!("{} of all wire bytes", format::share(verdict.savings)))];
        if let Some((low, high)) = verdict.spread {
            let range = format!("{}, 10th to 90th percentile over time", format::range(low, high));
            facts.push(("usual range", range));
        }
        if let Some(cache) = verdict.cache {
            facts.push(("cache", format!("{} for each direction", format::cache(cache))));
        }
        if let Some(money) = &verdict.money {
            let (before, after) = (format::money(money.month_before), format::money(money.month_after));
            let saved = format::money(money.month_before - money.month_after);
            let price = format::money(money.per_gigabyte);
            facts.push(("saved in 30 days", format!("{saved}: {after} instead of {before}, at {price} per GB")));
        }
        if let Some(time) = &verdict.time {
            let seconds = |value| format::number(value, Unit::Seconds);
            let link = format::number(time.link, Unit::BitsPerSecond);
            facts
                .push(("link busy", format!("{} instead of {}, at {link}", seconds(time.busy_after), seconds(time.busy_before))));
        }
        self.facts(&facts)?;
        self.line("")?;
        for reason in &verdict.reasons {
            self.wrapped("- ", reason)?;
        }
        Ok(())
    }

    fn input(&mut self, report: &Report) -> io::Result<()> {
        let input = &report.input;
        self.heading("", "Input")?;
        let mut facts = Vec::new();
        for (at, name) in input.captures.iter().take(LINES).enumerate() {
            facts.push((if at == 0 { "captures" } else { "" }, name.clone()));
        }
        if input.captures.len() > LINES {
            facts.push(("", format!("... {} more", input.captures.len() - LINES)));
        }
        if let Some(start) = input.start {
            facts.push(("time", format!("{} from {}", format::number(input.duration, Unit::Seconds), format::time(start))));
        }
        facts.push(("packets", format::count_of(input.packets)));
        let captured = part(input.captured_bytes, input.wire_bytes);
        facts.push(("wire bytes", format!("{}, {captured} of them captured", bytes(input.wire_bytes))));
        facts.extend(report.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
        self.facts(&facts)?;
        for (name, why) in &input.damaged {
            self.wrapped("  damaged: ", &format!("{name}: {why}"))?;
        }
        Ok(())
    }

    fn accounting(&mut self, report: &Report) -> io::Result<()> {
        let accounting = &report.accounting;
        self.heading("", "Accounting")?;
        let whole = report.input.wire_bytes;
        let row = |share: &Share, of: u64, counted: bool| {
            let packets = if counted { format::count_of(share.packets) } else { String::new() };
            vec![share.name.clone(), packets, bytes(share.bytes), part(share.bytes, of)]
        };
        let columns = [("", Unit::Text), ("packets", Unit::Count), ("wire bytes", Unit::Bytes), ("share", Unit::Share)];
        let mut grid = Grid::new(columns);
        let indented = |mut row: Vec<String>| {
            row[0].insert_str(0, "  ");
            row
        };
        let mut part = |name: &str, shares: &[Share], of: u64, counted: &dyn Fn(&Share) -> bool| {
            grid.row([name, "", "", ""]);
            for share in shares {
                grid.row(indented(row(share, of, counted(share))));
            }
        };
        part("used:", &accounting.used, whole, &|_| true);
        part("not used:", &accounting.unused, whole, &|_| true);
        if !accounting.layers.is_empty() {
            part("within (a packet may have several):", &accounting.layers, whole, &|_| true);
        }
        let of = accounting.bytes.iter().map(|share| share.bytes).sum();
        part("bytes of the used packets:", &accounting.bytes, of, &|share| share.packets > 0);
        self.grid(grid)
    }

    fn figure(&mut self, figure: &Figure) -> io::Result<()> {
        // What is no figure of the study has no number.
        let number = if figure.number == 0 { String::new() } else { format!("Figure {}  ", figure.number) };
        self.heading(&number, figure.title)?;
        if !figure.finding.is_empty() {
            self.wrapped("", &figure.finding)?;
        }
        if let Some(chart) = figure.charts.iter().find(|chart| chart.series.iter().any(|series| !series.points.is_empty())) {
            self.line("")?;
            self.chart(chart)?;
        }
        match figure.tables.iter().find(|table| !table.rows.is_empty()) {
            Some(table) => {
                self.line("")?;
                self.table(table)?;
            }
            None if figure.charts.iter().all(|chart| chart.series.iter().all(|series| series.points.is_empty())) => {
                self.line("There is nothing to show for this traffic.")?;
            }
            None => {}
        }
        let (tables, charts) = (figure.tables.len().saturating_sub(1), figure.charts.len().saturating_sub(1));
        let plural = |count: usize, what: &str| format!("{count} more {what}{}", if count == 1 { "" } else { "s" });
        let more = match (tables, charts) {
            (0, 0) => None,
            (tables, 0) => Some(plural(tables, "table")),
            (0, charts) => Some(plural(charts, "chart")),
            (tables, charts) => Some(format!("{} and {}", plural(tables, "table"), plural(charts, "chart"))),
        };
        if let Some(more) = more {
            self.dim(&format!("... {more} in --report and --csv"))?;
        }
        for note in &figure.notes {
            self.wrapped("Note: ", note)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::terminal::columns;

    fn text(width: usize, colour: bool) -> String {
        let mut out = Vec::new();
        write(&sample::report(), &mut out, width, colour).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_fits_and_nothing_steers_the_terminal() {
        for width in [0, 80, 97, 120, 500] {
            let text = text(width, false);
            if let Some(dir) = std::env::var_os("ONCEWIRE_REPORT_SHOTS") {
                std::fs::write(std::path::Path::new(&dir).join(format!("terminal-{width}.txt")), &text).unwrap();
            }
            for line in text.lines() {
                assert!(columns(line) <= width.clamp(80, 120), "{width}: {line}");
                assert_eq!(line, line.trim_end());
            }
            assert!(!text.contains(['\u{1b}', '\u{202e}', '\t', '\r']));
        }
    }

    #[test]
    fn the_verdict_comes_first_and_all_figures_follow() {
        let text = text(100, false);
        assert!(text.starts_with("Deploy the tunnel"));
        for figure in &sample::report().figures {
            assert!(text.contains(&format!("Figure {}  {}", figure.number, figure.title)));
        }
        assert!(text.contains("... 108 more rows in --csv"));
        assert!(text.contains("There is nothing to show for this traffic."));
        assert!(text.contains("IPsec"), "reasons why packets were not used");
    }

    #[test]
    fn colour_is_only_added() {
        let plain: String = text(100, false);
        let mut coloured = text(100, true);
        assert!(coloured.contains("\x1b[1m"));
        for style in ["\x1b[0m", "\x1b[1m", "\x1b[2m"] {
            coloured = coloured.replace(style, "");
        }
        assert_eq!(plain, coloured);
    }
}
