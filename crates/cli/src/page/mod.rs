//! A report as one HTML file that needs nothing else: no server, no network, no other file.
//!
//! Tables are written here, so that they can be read without JavaScript; charts are drawn by `page.js` with uPlot, from data within
//! the page. Text from captures and topologies is hostile: here it passes [`escape`], and `page.js` only sets text, never HTML. Were
//! both wrong, the page's Content-Security-Policy still runs none but the page's own scripts, by their hashes, and lets no request leave.

use crate::format::{self, tame};
use oncewire_trace::results::{Cell, Chart, Table, Unit};
use ring::digest;
use std::fmt::Write;

#[cfg(test)]
pub(crate) mod browser;

pub(crate) const STYLE: &str = include_str!("page.css");
pub(crate) const SCRIPT: &str = include_str!("page.js");
pub(crate) const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
pub(crate) const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// Fills the places `{{name}}` of a template. What is put in is not looked at again: it may hold anything.
pub(crate) fn fill(template: &str, mut part: impl FnMut(&str, &mut String)) -> String {
    let mut out = String::with_capacity(256 << 10);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(before);
        part(name, &mut out);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The Content-Security-Policy of a page that runs these scripts and no other.
pub(crate) fn policy(scripts: &[&str]) -> String {
    let hashes: Vec<String> = scripts.iter().map(|script| format!("'sha256-{}'", base64(sha256(script).as_ref()))).collect();
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hashes.join(" ")
    )
}

/// More rows than these are left to CSV: a page of a hundred thousand rows helps nobody.
const MOST_ROWS: usize = 1_000;
/// More than these are not printed.
const PRINTED_ROWS: usize = 40;
/// Rows that show without scrolling.
const SHORT: usize = 15;
/// Colours of `page.css`, for parts of a bar.
pub(crate) const COLOURS: usize = 7;

fn sha256(text: &str) -> digest::Digest {
    digest::digest(&digest::SHA256, text.as_bytes())
}

/// RFC 4648, Section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= group.len() { digit as char } else { '=' });
        }
    }
    out
}

/// For text and for attributes in double quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in tame(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// With a capital at the beginning.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Where `page.js` draws the chart that stands at `at` in the data.
pub(crate) fn chart(out: &mut String, chart: &Chart, at: usize) {
    let _ = write!(out, "<figure class=\"chart\" data-chart=\"{at}\"><figcaption>{}</figcaption>", escape(&chart.caption));
    if chart.series.iter().all(|series| series.points.is_empty()) {
        out.push_str("<p class=\"empty\">No data.</p>");
    }
    out.push_str("</figure>");
}

/// A table. Cells of the columns `bars`, which are shares, have a bar below their number.
pub(crate) fn table(out: &mut String, table: &Table, bars: &[usize]) {
    let count = match table.rows.len() {
        0..=SHORT => String::new(),
        rows => format!(" <small>{} rows</small>", format::count_of(rows as u64)),
    };
    let _ = write!(out, "<figure class=\"table\"><figcaption>{}{count}</figcaption>", escape(&table.caption));
    if table.rows.is_empty() {
        out.push_str("<p class=\"empty\">No rows.</p></figure>");
        return;
    }
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    let class = |unit: Unit| if unit == Unit::Text { "" } else { " class=\"n\"" };
    for column in &table.columns {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column.unit), escape(&column.name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in table.rows.iter().take(MOST_ROWS) {
        out.push_str("<tr>");
        for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            let shown = escape(&format::cell(cell, column.unit));
            let _ = match (at, column.unit) {
                (0, Unit::Text) => write!(out, "<th scope=\"row\"{}>{shown}</th>", long(&shown)),
                (_, Unit::Text) => write!(out, "<td{}>{shown}</td>", long(&shown)),
                _ => match cell {
                    Cell::Number(share) if bars.contains(&at) && share.is_finite() => {
                        let percent = share.clamp(0.0, 1.0) * 100.0;
                        write!(out, "<td class=\"n bar\" style=\"--v:{percent:.1}%\"{}>{shown}</td>", value(cell))
                    }
                    _ => write!(out, "<td class=\"n\"{}>{shown}</td>", value(cell)),
                },
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    let rows = table.rows.len();
    if rows > MOST_ROWS {
        let _ = write!(out, "<p class=\"more\">… {} more rows in --csv</p>", format::count_of((rows - MOST_ROWS) as u64));
    }
    if rows > PRINTED_ROWS {
        let _ = write!(
            out,
            "<p class=\"more unprinted\">… {} more rows, not printed</p>",
            format::count_of((rows - PRINTED_ROWS) as u64)
        );
    }
    out.push_str("</figure>");
}

/// Words longer than any of a language may be broken anywhere.
pub(crate) fn long(text: &str) -> &'static str {
    if text.split(' ').any(|word| word.chars().count() > 24) { " class=\"long\"" } else { "" }
}

/// The attribute that rows are sorted by.
fn value(cell: &Cell) -> String {
    match cell {
        Cell::Count(count) => format!(" data-v=\"{count}\""),
        Cell::Number(value) if value.is_finite() => format!(" data-v=\"{value}\""),
        _ => String::new(),
    }
}

/// All charts as JSON, in the order in which they stand, without a character that could end the element around it.
pub(crate) fn data(out: &mut String, charts: &[&Chart]) {
    let text = serde_json::to_string(charts).unwrap_or_else(|_| "[]".into());
    for c in text.chars() {
        // All of these stand only in strings, where an escape means the same.
        if matches!(c, '<' | '>' | '&' | '\u{7f}') || !c.is_ascii() {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_by_the_rfc() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn vendored_files_are_those_their_readme_names() {
        let readme = include_str!("../../assets/uplot/README.md");
        for file in [UPLOT_SCRIPT, UPLOT_STYLE] {
            let sum: String = sha256(file).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(readme.contains(&sum), "{sum}");
        }
    }
}
