//! A plan as a summary for a terminal, or for a file.

use super::super::document::Document;
use super::tables;
use crate::format;
use crate::terminal::Page;
use oncewire_trace::results::Unit;
use std::io::{self, Write};

/// Rows of a table. All are in `--csv`.
const ROWS: usize = 10;

/// Writes the summary in lines of at most `width` characters, which is taken as 80 to 120; with bold and dim text if `colour`.
///
/// # Errors
///
/// If `out` cannot be written.
pub(crate) fn write(document: &Document, out: &mut impl Write, width: usize, colour: bool) -> io::Result<()> {
    let mut page = Page::new(out, width, colour);
    page.headline(&document.verdict.headline)?;
    page.line("")?;
    page.facts(&facts(document))?;
    page.heading("", "Network")?;
    page.facts(&network(document))?;
    let mut tables = vec![("Schemes", tables::schemes(document), usize::MAX)];
    tables.push(("Links", tables::without(tables::links(document), &["capacity", "device"]), ROWS));
    tables.push(("Devices", tables::without(tables::devices(document), &["id", "at"]), ROWS));
    tables.push(("Upgrades", tables::without(tables::upgrades(document), &["id"]), ROWS));
    tables.push(("Deployment", tables::without(tables::deployment(document), &["id"]), 2 * ROWS));
    for (title, mut table, most) in tables {
        if table.rows.is_empty() {
            continue;
        }
        page.heading("", title)?;
        let more = table.rows.len().saturating_sub(most);
        table.rows.truncate(most);
        page.table(&table)?;
        if more > 0 {
            page.dim(&format!("... {} more rows in --csv", format::count_of(more as u64)))?;
        }
    }
    if let Some(changes) = &document.changes {
        page.heading("", &format!("Changes against version {}", changes.from_version))?;
        let bytes = format::number(changes.lost_bytes, Unit::Bytes);
        let moved = format::number(changes.moved, Unit::Share);
        let devices = format::count_of(changes.devices as u64);
        page.facts(&[("devices", devices), ("hash space moved", moved), ("cached bytes lost", bytes)])?;
        for line in changes.lines.iter().take(ROWS) {
            page.wrapped("- ", line)?;
        }
        if changes.lines.len() > ROWS {
            page.dim(&format!("... {} more in --csv", format::count_of((changes.lines.len() - ROWS) as u64)))?;
        }
    }
    if let Some(facts) = &document.manifests {
        page.heading("", "Manifests")?;
        let bytes = |bytes: f64| format::number(bytes, Unit::Bytes);
        page.facts(&[
            ("version", facts.version.to_string()),
            ("devices", format::count_of(facts.devices as u64)),
            ("of a device", format!("{} on average, {} at most", bytes(facts.mean_bytes), bytes(facts.largest_bytes as f64))),
            ("of an ingress", format!("{} on average", bytes(facts.ingress_mean_bytes))),
        ])?;
    }
    if !document.notes.is_empty() {
        page.heading("", "Notes")?;
        for note in &document.notes {
            page.wrapped("- ", note)?;
        }
    }
    page.line("")
}

fn facts(document: &Document) -> Vec<(&'static str, String)> {
    let (verdict, solution) = (&document.verdict, &document.solution);
    let bytes = |value| format::number(value, Unit::Bytes);
    let share = |value| format::number(value, Unit::Share);
    let (before, after) = (bytes(verdict.footprint_before), bytes(verdict.footprint_after));
    let mut facts = vec![
        ("footprint", format!("{after} per epoch, summed over links, instead of {before}")),
        ("reduction", share(verdict.reduction)),
    ];
    if let Some(of_ideal) = verdict.of_ideal {
        facts.push(("of Ideal", format!("{} of what hop-by-hop elimination without limits would save", share(of_ideal))));
    }
    if let (Some(before), Some(after)) = (verdict.utilization_before, verdict.utilization_after) {
        facts.push(("busiest link", format!("{} instead of {} of its capacity", share(after), share(before))));
    }
    facts.push(("gap", format!("{}: no plan is better by more", share(solution.gap))));
    let seconds: f64 = solution.seconds.iter().map(|(_, seconds)| seconds).sum();
    let time = format::number(seconds, Unit::Seconds);
    let iterations = match solution.iterations {
        0 => String::new(),
        count => format!(", {} iterations", format::count_of(count.into())),
    };
    facts.push(("solved by", format!("{}{iterations}, {time} in all", solution.method)));
    facts
}

fn network(document: &Document) -> Vec<(&str, String)> {
    let network = &document.network;
    let count = |count: usize| format::count_of(count as u64);
    let mut facts = vec![("name", network.name.clone())];
    if !network.source.is_empty() {
        facts.push(("source", network.source.clone()));
    }
    for (at, line) in network.derivation.iter().enumerate() {
        facts.push((if at == 0 { "made by" } else { "" }, line.clone()));
    }
    let hops = format::number(network.mean_hops, Unit::Number);
    let (nodes, links, devices) = (count(network.nodes), count(network.links), count(network.devices));
    facts.push(("size", format!("{nodes} nodes, {links} directed links, {devices} devices")));
    facts.push((
        "paths",
        format!("{} from {} ingresses, {hops} links long on average", count(network.paths), count(network.ingresses)),
    ));
    let (epoch, volume) =
        (format::number(network.epoch_seconds, Unit::Seconds), format::number(network.volume_bytes, Unit::Bytes));
    facts.push(("epoch", format!("{epoch}, in which {volume} enter")));
    facts.extend(document.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
    facts
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::terminal::columns;

    fn text(document: &Document, width: usize, colour: bool) -> String {
        let mut out = Vec::new();
        write(document, &mut out, width, colour).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_fits_and_nothing_steers_the_terminal() {
        for document in [sample::document(), sample::empty(), sample::invented(30)] {
            for width in [0, 80, 97, 120, 500] {
                let text = text(&document, width, false);
                for line in text.lines() {
                    assert!(columns(line) <= width.clamp(80, 120), "{width}: {line}");
                    assert_eq!(line, line.trim_end());
                }
                assert!(!text.contains(['\u{1b}', '\u{202e}', '\t', '\r']));
                assert!(!text.contains("NaN") && !text.contains(" inf"));
            }
        }
    }

    #[test]
    fn the_headline_comes_first_and_every_part_follows() {
        let document = sample::invented(30);
        let text = text(&document, 100, false);
        assert!(text.starts_with(&document.verdict.headline[..40]));
        let parts = [
            "Network",
            "Schemes",
            "Links",
            "Devices",
            "Upgrades",
            "Deployment",
            "Changes against version 6",
            "Manifests",
            "Notes",
        ];
        let mut from = 0;
        for part in parts {
            let at = text[from..].find(&format!("\n{part}\n")).unwrap_or_else(|| panic!("{part} after {from}: {text}"));
            from += at;
        }
        let left = document.links.len() - ROWS;
        assert!(text.contains(&format!("... {left} more rows in --csv")));
        if let Some(dir) = std::env::var_os("ONCEWIRE_REPORT_SHOTS") {
            std::fs::write(std::path::Path::new(&dir).join("plan-terminal.txt"), &text).unwrap();
        }
    }

    #[test]
    fn colour_is_only_added() {
        let document = sample::document();
        let mut coloured = text(&document, 100, true);
        assert!(coloured.contains("\x1b[1m"));
        for style in ["\x1b[0m", "\x1b[1m", "\x1b[2m"] {
            coloured = coloured.replace(style, "");
        }
        assert_eq!(text(&document, 100, false), coloured);
    }

    #[test]
    fn an_empty_plan_has_no_empty_parts() {
        let text = text(&sample::empty(), 80, false);
        for part in ["Schemes", "Links", "Devices", "Upgrades", "Deployment", "Changes", "Manifests", "Notes"] {
            assert!(!text.contains(&format!("\n{part}\n")), "{part}");
        }
    }
}
