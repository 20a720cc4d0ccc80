//! A study as one HTML file that needs nothing else: no server, no network, no other file.

use crate::format::{self, part};
use crate::page::{self, COLOURS, SCRIPT, STYLE, UPLOT_SCRIPT, UPLOT_STYLE, capital, data, escape, fill, long, policy};
use crate::quantity::{binary, bytes};
use oncewire_trace::results::{Deploy, Figure, Input, Report, Share, Unit, Verdict};
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");

/// The page.
pub(crate) fn render(report: &Report) -> String {
    fill(PAGE, |name, out| match name {
        "policy" => out.push_str(&policy(&[UPLOT_SCRIPT, SCRIPT])),
        "title" => out.push_str(&escape(&title(&report.input))),
        "style" => out.extend([UPLOT_STYLE, "\n", STYLE]),
        "about" => about(out, report),
        "verdict" => verdict(out, &report.verdict),
        "input" => input(out, report),
        "accounting" => accounting(out, report),
        "navigation" => navigation(out, &report.figures),
        "figures" => figures(out, &report.figures),
        "footer" => footer(out, report),
        "data" => data(out, &report.figures.iter().flat_map(|figure| &figure.charts).collect::<Vec<_>>()),
        "uplot" => out.push_str(UPLOT_SCRIPT),
        "script" => out.push_str(SCRIPT),
        _ => debug_assert!(false, "page.html asks for {name}"),
    })
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
            page::chart(out, chart, charts);
            charts += 1;
        }
        out.push_str("</div>");
        for chart in later {
            page::chart(out, chart, charts);
            charts += 1;
        }
        for table in &figure.tables {
            page::table(out, table, &[]);
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

fn footer(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "Made by oncewire {} study: {} figures. Shares are of one hundred; sizes have decimal prefixes (1 MB = 1,000,000 bytes), caches and \
         memory binary ones where they are round in them (1 MiB = 1,048,576 bytes). The same numbers are in --json and --csv.",
        env!("CARGO_PKG_VERSION"),
        report.figures.len()
    );
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use oncewire_trace::results::Chart;

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
}
