//! Sample reports, with hostile names and numbers, in every format for people.

use crate::support;

use oncewire_report::terminal::Page;
use oncewire_report::text::columns;
use oncewire_report::{Block, Report, html};
use support::reports;

fn all() -> [Report; 5] {
    [
        reports::study(),
        reports::network(70, 4, true),
        reports::network(30, 0, false),
        reports::network(1, 0, false),
        reports::empty(),
    ]
}

fn text(report: &Report, width: usize, color: bool) -> String {
    let mut out = Vec::new();
    Page::new(&mut out, width, color).report(report).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page without the content of its scripts and styles.
fn markup(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(at) = ["<style>", "<script"].iter().filter_map(|tag| rest.find(tag)).min() {
        out.push_str(&rest[..at]);
        let close = if rest[at..].starts_with("<style>") { "</style>" } else { "</script>" };
        rest = rest[at..].split_once(close).unwrap().1;
    }
    out + rest
}

#[test]
fn hostile_text_stays_text() {
    for (report, scripts) in [(reports::study(), 3), (reports::network(70, 4, true), 4)] {
        let page = html::render(&report);
        for bad in ["<script>alert", "<img", "onerror=alert(2)>", "\u{1b}", "\u{202e}"] {
            assert!(!page.contains(bad), "{bad:?}");
        }
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "it is shown");
        // The scripts, the data, and no comment.
        assert_eq!(page.matches("<script").count(), scripts);
        assert_eq!(page.matches("</script").count(), scripts);
        assert!(!page.contains("<!--"));
    }
}

#[test]
fn the_policy_names_every_script() {
    for report in all() {
        let page = html::render(&report);
        let scripts = page.matches("<script>").count();
        assert_eq!(page.matches("'sha256-").count(), scripts);
        assert!(
            page.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
                && scripts >= 2
        );
    }
}

#[test]
fn charts_are_in_the_page_as_json() {
    let report = reports::study();
    let page = html::render(&report);
    let (_, rest) = page
        .split_once("<script type=\"application/json\" id=\"data\">")
        .or_else(|| page.split_once("<script id=\"data\" type=\"application/json\">"))
        .unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    assert!(data.is_ascii());
    let figures = oncewire_testkit::figures::figures();
    let charts: Vec<_> = figures.iter().flat_map(|figure| &figure.charts).collect();
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    // Both are parsed, since parsing may change the last bit of a number.
    assert!(read(data) == read(&serde_json::to_string(&charts).unwrap()));
}

#[test]
fn nothing_is_fetched() {
    for report in [reports::network(30, 0, false), reports::empty()] {
        let page = html::render(&report);
        // uPlot has an address on the web in a comment.
        let page = page.replace(include_str!("../../assets/uplot/uPlot.iife.min.js"), "");
        for attribute in [
            " src=",
            "@import",
            "url(",
            "<link",
            "<iframe",
            "<object",
            "<base",
            "<form",
            "http-equiv=\"refresh\"",
            "fetch(",
        ] {
            assert!(!page.contains(attribute), "{attribute}");
        }
    }
}

/// Every element is closed where it was opened, and every attribute is in quotes.
#[test]
fn elements_nest() {
    for report in all() {
        let text = markup(&html::render(&report));
        let mut open: Vec<&str> = Vec::new();
        let mut rest = text.as_str();
        while let Some((_, after)) = rest.split_once('<') {
            let (tag, after) = after.split_once('>').unwrap();
            rest = after;
            if tag.starts_with('!') {
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let name = tag.trim_start_matches('/').split(' ').next().unwrap();
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(closed));
            } else if !["meta", "input", "br"].contains(&name) {
                open.push(name);
            }
        }
        assert_eq!(open, Vec::<&str>::new());
    }
}

#[test]
fn coordinates_are_finite() {
    for report in all() {
        let text = markup(&html::render(&report));
        for attribute in [
            "x",
            "y",
            "x1",
            "y1",
            "x2",
            "y2",
            "r",
            "width",
            "height",
            "stroke-width",
            "data-x",
            "data-y",
            "data-r",
            "data-v",
        ] {
            let start = format!(" {attribute}=\"");
            for (at, _) in text.match_indices(&start) {
                let value = text[at + start.len()..].split('"').next().unwrap();
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{attribute}={value}");
            }
        }
        for wrong in ["NaN", "inf\"", "inf ", "infinity"] {
            assert!(!text.contains(wrong), "{wrong}");
        }
    }
}

#[test]
fn long_tables_are_cut() {
    let mut report = reports::study();
    for block in report.sections.iter_mut().flat_map(|section| &mut section.blocks) {
        if let Block::Figure(figure) = block
            && figure.number == 1
        {
            let row = figure.tables[0].rows[0].clone();
            figure.tables[0].rows = vec![row; 1_500];
        }
    }
    assert!(html::render(&report).contains("… 500 more rows in --csv"));
}

#[test]
fn every_line_fits_and_has_no_control_characters() {
    for report in all() {
        for width in [0, 80, 97, 120, 500] {
            let text = text(&report, width, false);
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
fn a_terminal_shows_the_summary_and_every_figure() {
    let text = text(&reports::study(), 100, false);
    assert!(text.starts_with("Deploy the tunnel"));
    for figure in oncewire_testkit::figures::figures() {
        assert!(text.contains(&format!("Figure {}  {}", figure.number, figure.title)));
    }
    assert!(text.contains("... 108 more rows in --csv"));
    assert!(text.contains("There is nothing to show for this traffic."));
    assert!(text.contains("not IP"), "reasons why packets were skipped");
}

#[test]
fn color_is_only_added() {
    for report in all() {
        let mut colored = text(&report, 100, true);
        assert!(colored.contains("\x1b[1m") || report.summary.headline.is_empty());
        for style in ["\x1b[0m", "\x1b[1m", "\x1b[2m"] {
            colored = colored.replace(style, "");
        }
        // A line of spaces ends where its style does.
        let plain = text(&report, 100, false);
        assert_eq!(
            plain.lines().map(str::trim_end).collect::<Vec<_>>(),
            colored.lines().map(str::trim_end).collect::<Vec<_>>()
        );
    }
}
