//! A plan as one HTML file that needs nothing else. What it has in common with the page of a study is [`crate::page`]'s.

use super::super::document::{Document, IngressRow};
use super::{map, tables};
use crate::format;
use crate::page::{self, SCRIPT, STYLE, UPLOT_SCRIPT, UPLOT_STYLE, capital, escape, fill, policy};
use oncewire_trace::results::{Axis, Chart, ChartKind, Series, Table, Unit};
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const MAP_STYLE: &str = include_str!("page.css");
const MAP_SCRIPT: &str = include_str!("page.js");
/// Points of a line.
const MOST_POINTS: usize = 1_000;

/// A part of the page.
struct Part {
    id: &'static str,
    title: &'static str,
    html: String,
}

/// The page.
pub(crate) fn render(document: &Document) -> String {
    let mut charts = Vec::new();
    let parts = parts(document, &mut charts);
    fill(PAGE, |name, out| match name {
        "policy" => out.push_str(&policy(&[UPLOT_SCRIPT, SCRIPT, MAP_SCRIPT])),
        "title" => out.push_str(&escape(if document.network.name.is_empty() { "no name" } else { &document.network.name })),
        "style" => out.extend([UPLOT_STYLE, "\n", STYLE, "\n", MAP_STYLE]),
        "about" => about(out, document),
        "navigation" => navigation(out, &parts),
        "verdict" => verdict(out, document),
        "parts" => {
            for Part { id, title, html } in &parts {
                let _ = write!(out, "<section id=\"{id}\"><h2>{title}</h2>{html}</section>");
            }
        }
        "footer" => {
            let _ = write!(
                out,
                "Made by oncewire {} plan. Sizes have decimal prefixes (1 MB = 1,000,000 bytes); a footprint is bytes summed over the links that carry them; all is per \
                 retention epoch where nothing else is said. The same numbers are in --json and --csv.",
                env!("CARGO_PKG_VERSION")
            );
        }
        "data" => page::data(out, &charts.iter().collect::<Vec<_>>()),
        "uplot" => out.push_str(UPLOT_SCRIPT),
        "script" => out.push_str(SCRIPT),
        "map" => out.push_str(MAP_SCRIPT),
        _ => debug_assert!(false, "page.html asks for {name}"),
    })
}

fn about(out: &mut String, document: &Document) {
    let network = &document.network;
    let count = |count: usize| format::count_of(count as u64);
    let _ = write!(
        out,
        "{} nodes, {} directed links, {} paths from {} ingresses, {} devices.",
        count(network.nodes),
        count(network.links),
        count(network.paths),
        count(network.ingresses),
        count(network.devices)
    );
}

fn navigation(out: &mut String, parts: &[Part]) {
    out.push_str("<ol><li><a href=\"#verdict\">Verdict</a></li>");
    for Part { id, title, .. } in parts {
        let _ = write!(out, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    out.push_str("</ol>");
}

fn verdict(out: &mut String, document: &Document) {
    let (verdict, solution) = (&document.verdict, &document.solution);
    let _ = write!(
        out,
        "<section class=\"verdict\" id=\"verdict\"><h2>Verdict</h2><p class=\"headline\">{}</p><dl class=\"facts\">",
        escape(&verdict.headline)
    );
    let mut fact = |name: &str, value: String, note: String| {
        let value = escape(&value);
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{}</small></dd></div>", escape(&note));
    };
    // A number stays with its unit.
    let number = |value, unit| format::number(value, unit).replace(' ', "\u{a0}");
    let bytes = |value| number(value, Unit::Bytes);
    let share = |value| number(value, Unit::Share);
    fact("Reduction", share(verdict.reduction), "of the footprint".into());
    let before = bytes(verdict.footprint_before);
    fact("Footprint", bytes(verdict.footprint_after), format!("per epoch, summed over links, instead of {before}"));
    if let Some(of_ideal) = verdict.of_ideal {
        fact("Of Ideal", share(of_ideal), "what elimination without any limit would save".into());
    }
    if let (Some(before), Some(after)) = (verdict.utilization_before, verdict.utilization_after) {
        fact("Busiest link", share(after), format!("of its capacity, instead of {}", share(before)));
    }
    fact("Gap", share(solution.gap), "no plan is better by more".into());
    let seconds: f64 = solution.seconds.iter().map(|(_, seconds)| seconds).sum();
    fact("Time taken", number(seconds, Unit::Seconds), "for all steps".into());
    out.push_str("</dl></section>");
}

fn parts(document: &Document, charts: &mut Vec<Chart>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |id, title, html: String| parts.push(Part { id, title, html });

    let mut html = String::from("<figure class=\"atlas\">");
    let notes = map::draw(&mut html, document);
    html.push_str("</figure>");
    list(&mut html, "notes", &notes);
    add("map", "Map", html);

    let table = tables::schemes(document);
    if !table.rows.is_empty() {
        let mut html = String::new();
        page::table(&mut html, &table, &tables::SCHEME_BARS);
        add("schemes", "Schemes compared", html);
    }
    let table = tables::without(tables::ingresses(document), &["id"]);
    if !table.rows.is_empty() {
        let mut html = String::new();
        if document.ingresses.len() > 1 {
            chart(&mut html, distribution(document), charts);
        }
        page::table(&mut html, &table, &[]);
        add("ingresses", "Ingresses", html);
    }
    let simple = |table: &Table, bars: &[usize]| {
        let mut html = String::new();
        page::table(&mut html, table, bars);
        html
    };
    let table = tables::without(tables::links(document), &["device"]);
    // Without capacities there are other columns.
    let bars = if table.columns.get(5).is_some_and(|column| column.unit == Unit::Share) { &tables::LINK_BARS[..] } else { &[] };
    add("links", "Links", simple(&table, bars));
    add("devices", "Devices", simple(&tables::devices(document), &tables::DEVICE_BARS));
    let table = tables::without(tables::upgrades(document), &["id"]);
    if !table.rows.is_empty() {
        add("upgrades", "Upgrades", simple(&table, &[]));
    }
    let table = tables::without(tables::deployment(document), &["id"]);
    if !table.rows.is_empty() {
        let mut html = String::new();
        chart(&mut html, curve(document), charts);
        page::table(&mut html, &table, &[]);
        add("deployment", "Deployment", html);
    }
    if let Some(changes) = &document.changes {
        let mut html = String::new();
        items(
            &mut html,
            &[
                ("Plan in force", format!("version {}", changes.from_version)),
                ("Devices that change", format::count_of(changes.devices as u64)),
                ("Hash space moved", format!("{} of a path's, on average", format::number(changes.moved, Unit::Share))),
                ("Cached bytes lost", format::number(changes.lost_bytes, Unit::Bytes)),
            ],
        );
        let table = tables::changes(document);
        if !table.rows.is_empty() {
            page::table(&mut html, &table, &[]);
        }
        add("changes", "Changes against the plan in force", html);
    }
    if let Some(facts) = &document.manifests {
        let bytes = |bytes: f64| format::number(bytes, Unit::Bytes);
        let mut html = String::new();
        items(
            &mut html,
            &[
                ("Version", facts.version.to_string()),
                ("Devices", format::count_of(facts.devices as u64)),
                ("Of a device", format!("{} on average, {} at most", bytes(facts.mean_bytes), bytes(facts.largest_bytes as f64))),
                ("Of an ingress", format!("{} on average", bytes(facts.ingress_mean_bytes))),
            ],
        );
        add("manifests", "Manifests", html);
    }
    add("settings", "Network and settings", settings(document));
    add("solution", "How it was solved", solution(document));
    if !document.notes.is_empty() {
        let mut html = String::new();
        list(&mut html, "lines", &document.notes);
        add("notes", "Notes", html);
    }
    parts
}

/// Names, which are ours or foreign, and values, which are foreign.
fn items(out: &mut String, items: &[(&str, String)]) {
    out.push_str("<dl class=\"list\">");
    for (name, value) in items {
        let _ = write!(out, "<dt>{}</dt><dd><bdi>{}</bdi></dd>", escape(&capital(name)), escape(value));
    }
    out.push_str("</dl>");
}

fn list(out: &mut String, class: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "<ul class=\"{class}\">");
    for line in lines {
        let _ = write!(out, "<li>{}</li>", escape(line));
    }
    out.push_str("</ul>");
}

fn settings(document: &Document) -> String {
    let network = &document.network;
    let mut rows = vec![("Network", network.name.clone())];
    if !network.source.is_empty() {
        rows.push(("Source", network.source.clone()));
    }
    rows.extend(network.derivation.iter().enumerate().map(|(at, line)| (if at == 0 { "Made by" } else { "" }, line.clone())));
    let number = |value, unit| format::number(value, unit);
    rows.push(("Epoch", number(network.epoch_seconds, Unit::Seconds)));
    rows.push(("Enters in an epoch", number(network.volume_bytes, Unit::Bytes)));
    rows.push(("Mean path", format!("{} links", number(network.mean_hops, Unit::Number))));
    rows.extend(document.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let mut html = String::new();
    items(&mut html, &rows);
    html
}

fn solution(document: &Document) -> String {
    let solution = &document.solution;
    // A footprint is in bytes; a link load is a share.
    let value = |value| match solution.objective {
        objective if objective.starts_with("footprint") => format!("{}, summed over links", format::number(value, Unit::Bytes)),
        _ => format::number(value, Unit::Share),
    };
    let mut html = String::new();
    let count = |count: u64| format::count_of(count);
    items(
        &mut html,
        &[
            ("Objective", solution.objective.into()),
            ("Method", solution.method.clone()),
            ("Value", value(solution.value)),
            ("Bound", format!("{}; no plan has a better value", value(solution.bound))),
            ("Gap", format::number(solution.gap, Unit::Share)),
            ("Iterations", count(solution.iterations.into())),
            ("Variables", count(document.network.variables as u64)),
            ("Ranges", format!("{} that devices cache", count(solution.ranges as u64))),
        ],
    );
    if !solution.seconds.is_empty() {
        page::table(&mut html, &tables::steps(document), &[]);
    }
    html
}

fn chart(out: &mut String, chart: Chart, charts: &mut Vec<Chart>) {
    page::chart(out, &chart, charts.len());
    charts.push(chart);
}

/// Ascending shares as steps of a cumulative distribution.
fn steps(mut shares: Vec<f64>) -> Vec<(f64, f64)> {
    shares.retain(|share| share.is_finite());
    shares.sort_by(f64::total_cmp);
    let whole = shares.len();
    let each = whole.div_ceil(MOST_POINTS).max(1);
    let kept = shares.into_iter().enumerate().filter(|(at, _)| (at + 1) % each == 0 || at + 1 == whole);
    kept.map(|(at, share)| (share, (at + 1) as f64 / whole as f64)).collect()
}

fn distribution(document: &Document) -> Chart {
    let rows = &document.ingresses;
    let mut series = vec![Series::new("this plan", steps(rows.iter().map(|row| row.reduction).collect()))];
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.schemes) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let of = |row: &IngressRow, name: &str| row.schemes.iter().find(|(other, _)| other == name).map(|(_, share)| *share);
    for name in names {
        series.push(Series::new(name, steps(rows.iter().filter_map(|row| of(row, name)).collect())));
    }
    Chart {
        id: "distribution",
        caption: "Share of ingresses whose footprint is reduced by at most so much".into(),
        kind: ChartKind::Step,
        x: Axis::new("footprint reduction", Unit::Share),
        y: Axis::new("share of ingresses", Unit::Share),
        right: None,
        series,
    }
}

fn curve(document: &Document) -> Chart {
    let points = document.deployment.iter().enumerate().filter(|(_, one)| one.reduction.is_finite());
    let points: Vec<(f64, f64)> = points.map(|(at, one)| ((at + 1) as f64, one.reduction)).collect();
    let each = points.len().div_ceil(MOST_POINTS).max(1);
    Chart {
        id: "deployment",
        caption: "Footprint reduction by the number of links with decoders".into(),
        kind: ChartKind::Line,
        x: Axis::new("links with decoders", Unit::Count),
        y: Axis::new("footprint reduction", Unit::Share),
        right: None,
        series: vec![Series::new("reduction", points.into_iter().step_by(each).collect())],
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// The page without scripts and style, which are ours.
    fn markup(page: &str) -> String {
        let mut out = String::new();
        let mut rest = page;
        for (open, close) in [
            ("<style>", "</style>"),
            ("<script type", "</script>"),
            ("<script>", "</script>"),
            ("<script>", "</script>"),
            ("<script>", "</script>"),
        ] {
            let (before, after) = rest.split_once(open).unwrap();
            out.push_str(before);
            rest = after.split_once(close).unwrap().1;
        }
        out + rest
    }

    #[test]
    fn hostile_text_stays_text() {
        let page = render(&sample::document());
        for bad in ["<script>alert", "<img", "onerror=alert(2)>", "\u{1b}", "\u{202e}"] {
            assert!(!page.contains(bad), "{bad:?}");
        }
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "it is shown");
        assert_eq!(page.matches("<script").count(), 4);
        assert_eq!(page.matches("</script").count(), 4);
        assert!(!page.contains("<!--"));
        // A placeholder in a name is not filled.
        assert!(page.contains("{{data}}"));
    }

    /// Every element is closed where it was opened, and every attribute is in quotes.
    #[test]
    fn elements_nest() {
        for document in [sample::document(), sample::invented(30), sample::empty()] {
            let text = markup(&render(&document));
            let mut open: Vec<&str> = Vec::new();
            let mut rest = text.as_str();
            while let Some((_, after)) = rest.split_once('<') {
                let (tag, after) = after.split_once('>').unwrap();
                rest = after;
                if tag.starts_with('!') {
                    continue;
                }
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
                if let Some(closed) = tag.strip_prefix('/') {
                    assert_eq!(open.pop(), Some(closed));
                } else if !tag.ends_with('/') && !["meta", "input", "br"].contains(&name) {
                    open.push(name);
                }
            }
            assert_eq!(open, Vec::<&str>::new());
        }
    }

    #[test]
    fn numbers_are_numbers() {
        for document in [sample::document(), sample::invented(1), sample::invented(30), sample::empty()] {
            let text = markup(&render(&document));
            for attribute in
                ["x", "y", "x1", "y1", "x2", "y2", "r", "width", "height", "stroke-width", "data-x", "data-y", "data-r", "data-v"]
            {
                for (_, after) in
                    text.match_indices(&format!(" {attribute}=\"")).map(|(at, _)| text.split_at(at + attribute.len() + 3))
                {
                    let value = after.split('"').next().unwrap();
                    assert!(value.parse::<f64>().is_ok_and(|value| value.is_finite()), "{attribute}={value}");
                }
            }
            for wrong in ["NaN", "inf\"", "inf ", "infinity"] {
                assert!(!text.contains(wrong), "{wrong}");
            }
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let page = render(&sample::invented(30)).replace(UPLOT_SCRIPT, "");
        for attribute in
            [" src=", "@import", "url(", "<link", "<iframe", "<object", "<base", "<form", "http-equiv=\"refresh\"", "fetch("]
        {
            assert!(!page.contains(attribute), "{attribute}");
        }
    }

    #[test]
    fn a_plan_of_nothing_has_what_is_always_there() {
        let page = render(&sample::empty());
        for id in ["verdict", "map", "links", "devices", "settings", "solution"] {
            assert!(page.contains(&format!("<section id=\"{id}\"")) || page.contains(&format!("id=\"{id}\"")), "{id}");
        }
        for id in ["schemes", "ingresses", "upgrades", "deployment", "changes", "manifests", "notes"] {
            assert!(!page.contains(&format!("<section id=\"{id}\"")), "{id}");
        }
    }

    #[test]
    fn distributions_end_at_one() {
        assert_eq!(steps(vec![0.3, f64::NAN, 0.1]), [(0.1, 0.5), (0.3, 1.0)]);
        let many = steps((0..2_500).map(f64::from).collect());
        assert!(many.len() <= MOST_POINTS + 1);
        assert_eq!(many.last(), Some(&(2_499.0, 1.0)));
    }
}
