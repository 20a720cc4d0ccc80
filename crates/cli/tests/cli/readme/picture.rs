//! The picture in the README: the output of `oncewire demo` as in a terminal.
//!
//! The test compares its text with what the demo prints. `ONCEWIRE_BLESS=1 cargo test -p oncewire
//! --test cli picture` draws it again.

use super::{checkout, output_of, root, same_line};
use std::fmt::Write;

const PICTURE: &str = "docs/figures/demo.svg";
const COMMAND: &str = "oncewire demo";
/// The picture ends with the last row of the table: the demo's explanations are in the guide.
const LAST_LINE: &str = "   all  transfers";

/// Width of a column and height of a line, in pixels at a font size of 14.
const COLUMN: f64 = 8.4;
const LINE: f64 = 19.0;
const COLUMNS: f64 = 80.0;
const MARGIN: f64 = 22.0;
/// Height of the title bar.
const BAR: f64 = 34.0;

#[test]
fn the_picture_shows_what_the_demo_prints() {
    let printed = output_of(&checkout(), COMMAND);
    let shown = shown(&printed);
    assert!(shown.len() >= 13, "the demo prints little:\n{printed}");
    assert!(printed.lines().count() <= 22, "a terminal of 24 lines shows all:\n{printed}");
    let path = root().join(PICTURE);
    if std::env::var_os("ONCEWIRE_BLESS").is_some() {
        std::fs::write(&path, draw(&shown)).expect("the picture is written");
    }
    let picture = std::fs::read_to_string(&path).expect("the picture");
    let mut lines = text_of(&picture).into_iter();
    assert_eq!(lines.next().as_deref(), Some("$ oncewire demo"));
    for line in shown.iter().filter(|line| !line.is_empty()) {
        let drawn = lines.next().unwrap_or_default();
        assert!(same_line(&drawn, line), "{PICTURE} shows\n{drawn}\nbut the demo prints\n{line}");
    }
    assert_eq!(lines.next(), None, "{PICTURE} shows more than the demo prints");
}

/// The printed lines that the picture shows.
fn shown(printed: &str) -> Vec<&str> {
    let last =
        printed.lines().position(|line| line.starts_with(LAST_LINE)).expect("the demo sums up");
    printed.lines().take(last + 1).collect()
}

/// The text of each terminal line, which is a line of the file with one or two `text` elements.
fn text_of(picture: &str) -> Vec<String> {
    let lines = picture.lines().filter(|line| line.starts_with("<text"));
    lines
        .map(|line| {
            let mut text = String::new();
            for part in line.split('<') {
                text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
            }
            text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        })
        .collect()
}

/// A terminal window of its own colors, so that it reads the same on a light and on a dark page.
fn draw(lines: &[&str]) -> String {
    let (width, height) =
        (COLUMNS * COLUMN + 2.0 * MARGIN, BAR + LINE * (lines.len() + 1) as f64 + 1.5 * MARGIN);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>Output of oncewire demo</title>
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d7de; white-space: pre; }}
.rule {{ fill: #57606a; }}
.head {{ fill: #8b949e; }}
.ours {{ fill: #56d364; }}
</style>
<rect x="0.5" y="0.5" width="{}" height="{}" rx="8" fill="#0d1117" stroke="#444c56"/>
<g fill="#444c56"><circle cx="22" cy="18" r="6"/><circle cx="42" cy="18" r="6"/><circle cx="62" cy="18" r="6"/></g>
"##,
        width - 1.0,
        height - 1.0
    );
    let mut columns = None;
    for (row, line) in std::iter::once(&"$ oncewire demo").chain(lines).enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        if line.contains("  Oncewire  ") {
            // Our two columns of the first table: bytes on the wire and savings.
            columns = line.find("Oncewire").map(|at| at.saturating_sub(2));
        }
        let class = match line.trim_start() {
            rest if rest.starts_with('\u{2500}') => "rule",
            rest if rest.starts_with("client") || rest.starts_with("zstd") => "head",
            _ => "text",
        };
        let transfer =
            line.contains("GET ") || line.contains("PUT ") || line.starts_with(LAST_LINE);
        let (before, ours) = match columns {
            Some(at) if transfer && line.is_char_boundary(at) => line.split_at(at),
            _ => (*line, ""),
        };
        let y = BAR + LINE * (row as f64 + 1.0);
        let mut column = 0;
        for (part, class) in [(before, class), (ours, "ours")] {
            if !part.is_empty() {
                let (x, length) =
                    (MARGIN + COLUMN * column as f64, COLUMN * part.chars().count() as f64);
                let text = part.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let _ = write!(
                    svg,
                    r#"<text x="{x:.1}" y="{y}" class="{class}" xml:space="preserve" textLength="{length:.1}">{text}</text>"#
                );
                column += part.chars().count();
            }
        }
        svg.push('\n');
    }
    svg + "</svg>\n"
}
