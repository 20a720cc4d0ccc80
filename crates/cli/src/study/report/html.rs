//! A study as one HTML file that needs nothing else: no server, no network, no other file.
//!
//! Tables are written here, so that they can be read without JavaScript; charts are drawn by `page.js` with uPlot, from data within
//! the page. Text from captures is hostile: here it passes [`escape`], and `page.js` only sets text, never HTML. Were both wrong, the
//! page's Content-Security-Policy still runs none but these two scripts, by their hashes, and lets no request leave.

use super::format::{self, part, tame};
use crate::quantity::{binary, bytes};
use oncewire_trace::results::{Cell, Chart, Deploy, Figure, Input, Report, Share, Table, Unit, Verdict};
use ring::digest;
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const UPLOT_STYLE: &str = include_str!("../../../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../../../assets/uplot/uPlot.iife.min.js");

/// More rows than these are left to CSV: a page of a hundred thousand rows helps nobody.
const MOST_ROWS: usize = 1_000;
/// More than these are not printed.
const PRINTED_ROWS: usize = 40;
/// Rows that show without scrolling.
const SHORT: usize = 15;
/// Colours of `page.css`, for parts of a bar.
const COLOURS: usize = 7;

/// The page.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::with_capacity(256 << 10);
    let mut rest = PAGE;
    // What is put in is not looked at again: it may hold anything.
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(before);
        match name {
            "policy" => out.push_str(&policy()),
            "title" => out.push_str(&escape(&title(&report.input))),
            "style" => out.extend([UPLOT_STYLE, "\n", STYLE]),
            "about" => about(&mut out, report),
            "verdict" => verdict(&mut out, &report.verdict),
            "input" => input(&mut out, report),
            "accounting" => accounting(&mut out, report),
            "navigation" => navigation(&mut out, &report.figures),
            "figures" => figures(&mut out, &report.figures),
            "footer" => footer(&mut out, report),
            "data" => data(&mut out, &report.figures),
            "uplot" => out.push_str(UPLOT_SCRIPT),
            "script" => out.push_str(SCRIPT),
            _ => debug_assert!(false, "page.html asks for {name}"),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn policy() -> String {
    let hashes: Vec<String> = [UPLOT_SCRIPT, SCRIPT].map(|script| format!("'sha256-{}'", base64(sha256(script).as_ref()))).into();
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hashes.join(" ")
    )
}

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
fn escape(text: &str) -> String {
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

fn title(input: &Input) -> String {
    match &input.captures[..] {
        [] => "no capture".into(),
        // The whole name is below.
        [one] => one.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(one).to_owned(),
        many => format!("{} captures", many.len()),
    }
}

fn about(out: &mut String, report: &Report) {
    let Input { packets, wire_bytes, start, duration, .. } = &report.input;
    let _ = write!(out, "{} packets, {} on the wire", format::count_of(*packets), bytes(*wire_bytes));
    if let Some(start) = start {
        let _ = write!(out, ", in {} from {}", format::number(*duration, Unit::Seconds), format::time(*start));
    }
    out.push('.');
}

fn verdict(out: &mut String, verdict: &Verdict) {
    let class = if verdict.deploy == Deploy::Nothing { "verdict nothing" } else { "verdict" };
    let _ = write!(
        out,
        "<section class=\"{class}\" id=\"verdict\"><h2>Verdict</h2><p class=\"headline\">{}</p>",
        escape(&verdict.headline)
    );
    out.push_str("<dl class=\"facts\">");
    let mut fact = |name: &str, value: String, note: String| {
        // A number stays with its unit.
        let value = value.replace(' ', "\u{a0}");
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>");
    };
    fact("Savings", format::share(verdict.savings), "of all wire bytes".into());
    if let Some((low, high)) = verdict.spread {
        fact("Usual range", format::range(low, high), "10th to 90th percentile over time".into());
    }
    if let Some(cache) = verdict.cache {
        fact("Cache", format::cache(cache), "for each direction".into());
    }
    if let Some(money) = &verdict.money {
        let saved = format::money(money.month_before - money.month_after);
        let (before, after) = (format::money(money.month_before), format::money(money.month_after));
        fact("Saved in 30 days", saved, format!("{after} instead of {before}, at {} per GB", format::money(money.per_gigabyte)));
    }
    if let Some(time) = &verdict.time {
        let seconds = |value| format::number(value, Unit::Seconds);
        let link = format::number(time.link, Unit::BitsPerSecond);
        let before = seconds(time.busy_before);
        fact("Link busy", seconds(time.busy_after), format!("instead of {before}, at {link}"));
    }
    out.push_str("</dl>");
    if !verdict.reasons.is_empty() {
        out.push_str("<ul class=\"reasons\">");
        for reason in &verdict.reasons {
            // What stands between backticks is to be typed.
            let parts = reason.split('`').enumerate();
            let marked = parts.map(|(i, part)| if i % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(part) });
            let _ = write!(out, "<li>{}</li>", marked.collect::<String>());
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>");
}

fn input(out: &mut String, report: &Report) {
    let Input { captures, damaged, packets, wire_bytes, captured_bytes, start, duration } = &report.input;
    out.push_str("<section id=\"input\"><h2>Input</h2><dl class=\"list\">");
    let mut item = |name: &str, value: String| {
        let _ = write!(out, "<dt>{name}</dt><dd>{value}</dd>");
    };
    let lines =
        |lines: &[String]| lines.iter().map(|line| format!("<bdi>{}</bdi>", escape(line))).collect::<Vec<_>>().join("<br>");
    item(if captures.len() == 1 { "Capture" } else { "Captures" }, lines(captures));
    if let Some(start) = start {
        item("First packet", format::time(*start));
        item("Duration", format::number(*duration, Unit::Seconds));
    }
    item("Packets", format::count_of(*packets));
    item("Wire bytes", format!("{} ({})", bytes(*wire_bytes), format::count_of(*wire_bytes)));
    item("Captured", format!("{}, {} of the wire bytes", bytes(*captured_bytes), part(*captured_bytes, *wire_bytes)));
    for (name, value) in &report.settings {
        item(&escape(&capital(name)), escape(value));
    }
    out.push_str("</dl>");
    if !damaged.is_empty() {
        out.push_str("<div class=\"damaged\"><h3>Damaged captures</h3><p>What came before the damage is in the figures.</p><ul>");
        for (name, why) in damaged {
            let _ = write!(out, "<li><bdi>{}</bdi>: {}</li>", escape(name), escape(why));
        }
        out.push_str("</ul></div>");
    }
    out.push_str("</section>");
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn accounting(out: &mut String, report: &Report) {
    let accounting = &report.accounting;
    let sum = |shares: &[Share]| {
        shares.iter().fold((0u64, 0u64), |(packets, bytes), share| (packets + share.packets, bytes + share.bytes))
    };
    let unused = sum(&accounting.unused);
    out.push_str("<section id=\"accounting\"><h2>Accounting</h2>");
    let whole = report.input.wire_bytes;
    let _ = write!(
        out,
        "<p>{} of {} packets, with {} of the wire bytes, could not be used.</p>",
        format::count_of(unused.0),
        format::count_of(report.input.packets),
        part(unused.1, whole)
    );
    let all: Vec<(&str, &Share)> = accounting
        .used
        .iter()
        .map(|share| ("used", share))
        .chain(accounting.unused.iter().map(|share| ("not used", share)))
        .collect();
    shares(out, "What the packets are, and why some could not be used", "packets", Some("use"), &all, whole);
    let of_used: Vec<(&str, &Share)> = accounting.bytes.iter().map(|share| ("", share)).collect();
    shares(out, "What the bytes of the used packets are", "bytes", None, &of_used, sum(&accounting.bytes).1);
    if !accounting.layers.is_empty() {
        let layers: Vec<(&str, &Share)> = accounting.layers.iter().map(|share| ("", share)).collect();
        shares(out, "Encapsulations crossed; a packet may have several", "layers", None, &layers, whole);
    }
    out.push_str("</section>");
}

/// A table of shares, and, where they add up to the whole, a bar made of them.
fn shares(out: &mut String, caption: &str, id: &str, group: Option<&str>, shares: &[(&str, &Share)], whole: u64) {
    let stacked = id != "layers";
    let counted = shares.iter().any(|(_, share)| share.packets > 0);
    let _ = write!(out, "<figure class=\"share\"><figcaption>{}</figcaption>", escape(caption));
    if stacked && whole > 0 {
        out.push_str("<div class=\"stack\" role=\"img\" aria-label=\"The shares of the table below as parts of a bar\">");
        for (at, (_, share)) in shares.iter().enumerate().filter(|(_, (_, share))| share.bytes > 0) {
            let width = share.bytes as f64 / whole as f64 * 100.0;
            let (colour, name, part) = (at % COLOURS, escape(&share.name), part(share.bytes, whole));
            let _ = write!(out, "<span class=\"c{colour}\" style=\"flex-basis:{width:.3}%\" title=\"{name}: {part}\"></span>");
        }
        out.push_str("</div>");
    }
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">which</th>");
    out.push_str("<th scope=\"col\" class=\"n\">share</th><th scope=\"col\" class=\"n\">wire bytes</th>");
    if counted {
        out.push_str("<th scope=\"col\" class=\"n\">packets</th>");
    }
    if let Some(group) = group {
        let _ = write!(out, "<th scope=\"col\">{group}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for (at, (kind, share)) in shares.iter().enumerate() {
        let swatch = if stacked { format!("<i class=\"swatch c{}\"></i>", at % COLOURS) } else { String::new() };
        let name = escape(&share.name);
        let _ = write!(out, "<tr><th scope=\"row\"{}>{swatch}{name}</th>", long(&name));
        let (count, shown, part) = (share.bytes, bytes(share.bytes), part(share.bytes, whole));
        let _ = write!(out, "<td class=\"n\" data-v=\"{count}\">{part}</td><td class=\"n\" data-v=\"{count}\">{shown}</td>");
        if counted {
            let _ = write!(out, "<td class=\"n\" data-v=\"{}\">{}</td>", share.packets, format::count_of(share.packets));
        }
        if group.is_some() {
            let _ = write!(out, "<td>{kind}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></figure>");
}

fn navigation(out: &mut String, figures: &[Figure]) {
    out.push_str("<ol class=\"plain\"><li><a href=\"#verdict\">Verdict</a></li><li><a href=\"#input\">Input</a></li>");
    out.push_str("<li><a href=\"#accounting\">Accounting</a></li></ol><ol>");
    for figure in figures {
        let _ = write!(
            out,
            "<li><a href=\"#{}\"><span class=\"number\">{}</span> {}</a></li>",
            escape(figure.id),
            figure.number,
            escape(figure.title)
        );
    }
    out.push_str("</ol>");
}

fn figures(out: &mut String, figures: &[Figure]) {
    let mut charts = 0;
    for figure in figures {
        let (id, number, title) = (escape(figure.id), figure.number, escape(figure.title));
        let _ = write!(
            out,
            "<section class=\"figure\" id=\"{id}\"><div class=\"lead\"><h2><a href=\"#{id}\">Figure {number}</a> {title}</h2>"
        );
        if !figure.finding.is_empty() {
            let _ = write!(out, "<p class=\"finding\">{}</p>", escape(&figure.finding));
        }
        // The first chart stays with its heading on paper.
        let (first, later) = figure.charts.split_at(figure.charts.len().min(1));
        for chart in first {
            self::chart(out, chart, charts);
            charts += 1;
        }
        out.push_str("</div>");
        for chart in later {
            self::chart(out, chart, charts);
            charts += 1;
        }
        for table in &figure.tables {
            self::table(out, table);
        }
        if figure.charts.is_empty() && figure.tables.is_empty() {
            out.push_str("<p class=\"empty\">There is nothing to show for this traffic.</p>");
        }
        if !figure.notes.is_empty() {
            out.push_str("<ul class=\"notes\">");
            for note in &figure.notes {
                let _ = write!(out, "<li>{}</li>", escape(note));
            }
            out.push_str("</ul>");
        }
        let _ = write!(out, "<details><summary>Definition and source</summary><p>{}</p>", escape(&figure.definition));
        if !figure.source.is_empty() {
            let _ = write!(out, "<p>Source: {}.</p>", escape(figure.source));
        }
        if figure.memory > 0 {
            let _ = write!(out, "<p>Memory of this figure, caches it shares not counted: {}.</p>", binary(figure.memory));
        }
        out.push_str("</details></section>");
    }
}

fn chart(out: &mut String, chart: &Chart, at: usize) {
    let _ = write!(out, "<figure class=\"chart\" data-chart=\"{at}\"><figcaption>{}</figcaption>", escape(&chart.caption));
    if chart.series.iter().all(|series| series.points.is_empty()) {
        out.push_str("<p class=\"empty\">No data.</p>");
    }
    out.push_str("</figure>");
}

fn table(out: &mut String, table: &Table) {
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
                _ => write!(out, "<td class=\"n\"{}>{shown}</td>", value(cell)),
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
fn long(text: &str) -> &'static str {
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

fn footer(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "Made by oncewire {} study: {} figures. Shares are of one hundred; sizes have decimal prefixes (1 MB = 1,000,000 bytes), caches and \
         memory binary ones where they are round in them (1 MiB = 1,048,576 bytes). The same numbers are in --json and --csv.",
        env!("CARGO_PKG_VERSION"),
        report.figures.len()
    );
}

/// All charts as JSON, in the order in which they stand, without a character that could end the element around it.
fn data(out: &mut String, figures: &[Figure]) {
    let charts: Vec<&Chart> = figures.iter().flat_map(|figure| &figure.charts).collect();
    let text = serde_json::to_string(&charts).unwrap_or_else(|_| "[]".into());
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
    use super::super::sample;
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let page = render(&sample::report());
        for bad in ["<script>alert", "<img", "onerror=alert(2)>", "\u{1b}", "\u{202e}"] {
            assert!(!page.contains(bad), "{bad:?}");
        }
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "it is shown");
        // Both scripts, the data, and nothing else; comments none.
        assert_eq!(page.matches("<script").count(), 3);
        assert_eq!(page.matches("</script").count(), 3);
        assert!(!page.contains("<!--"));
        // A placeholder in a name is not filled.
        assert!(page.contains("{{data}}"));
    }

    #[test]
    fn the_data_comes_back() {
        let report = sample::report();
        let page = render(&report);
        let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        assert!(data.is_ascii());
        let charts: Vec<&Chart> = report.figures.iter().flat_map(|figure| &figure.charts).collect();
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        // Not with the charts themselves: a number that is read may differ in its last bit.
        assert!(read(data) == read(&serde_json::to_string(&charts).unwrap()));
    }

    #[test]
    fn nothing_is_fetched() {
        // Of a report without hostile names, whose letters are no tags.
        let mut report = sample::report();
        report.figures.truncate(12);
        report.input.captures.truncate(1);
        report.input.damaged.clear();
        let page = render(&report);
        // uPlot's code names its place on the web in a comment.
        let page = page.replace(UPLOT_SCRIPT, "");
        for attribute in
            [" src=", "@import", "url(", "<link", "<iframe", "<object", "<base", "<form", "http-equiv=\"refresh\"", "fetch("]
        {
            assert!(!page.contains(attribute), "{attribute}");
        }
    }

    #[test]
    fn long_tables_are_cut() {
        let mut report = sample::report();
        report.figures.truncate(1);
        let table = &mut report.figures[0].tables[0];
        let row = table.rows[0].clone();
        table.rows = vec![row; 1_500];
        assert!(render(&report).contains("… 500 more rows in --csv"));
    }

    #[test]
    fn base64_by_the_rfc() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn vendored_files_are_those_their_readme_names() {
        let readme = include_str!("../../../assets/uplot/README.md");
        for file in [UPLOT_SCRIPT, UPLOT_STYLE] {
            let sum: String = sha256(file).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(readme.contains(&sum), "{sum}");
        }
    }
}
