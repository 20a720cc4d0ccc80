//! A report as one HTML file that needs no server, network or other file.
//!
//! Tables and the map can be read without JavaScript; `page.js` draws charts with uPlot from data
//! in the page, and `map.js` zooms the map. Text from captures and topologies is hostile: it passes
//! `clean` and the escaping of maud here, and the scripts only set text, never HTML. The page's
//! Content-Security-Policy admits its own scripts by their hashes and no request at all.

mod blocks;
mod charts;

use crate::text::{capitalized, sanitize};
use crate::{Fact, Report, Section, Summary};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blocks::Blocks;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use sha2::{Digest, Sha256};

const PAGE_STYLE: &str = include_str!("../../assets/page.css");
const PAGE_SCRIPT: &str = include_str!("../../assets/page.js");
const MAP_STYLE: &str = include_str!("../../assets/map.css");
const MAP_SCRIPT: &str = include_str!("../../assets/map.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// The report as an HTML document.
pub fn render(report: &Report) -> String {
    let mut blocks = Blocks::default();
    let sections: Vec<Markup> =
        report.sections.iter().map(|section| self::section(section, &mut blocks)).collect();
    let has_map = blocks.maps > 0;
    let mut scripts = vec![UPLOT_SCRIPT, PAGE_SCRIPT];
    if has_map {
        scripts.push(MAP_SCRIPT);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&scripts));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (report.kind) ": " (clean(&report.title)) }
                style {
                    (PreEscaped(UPLOT_STYLE)) "\n" (PreEscaped(PAGE_STYLE))
                    @if has_map { "\n" (PreEscaped(MAP_STYLE)) }
                }
            }
            body {
                a.skip href="#verdict" { "Skip to the verdict" }
                header {
                    div.bar {
                        p.kind { (report.kind) }
                        button #theme type="button" hidden { "Dark" }
                    }
                    h1 { bdi { (clean(&report.title)) } }
                    p.about { (clean(&report.about)) }
                }
                div.columns {
                    nav aria-label="Contents" {
                        details open { summary { "Contents" } (navigation(&report.sections)) }
                    }
                    main {
                        (summary(&report.summary))
                        noscript {
                            p.empty {
                                "Charts need JavaScript. Everything else is here without it, and --csv has every number."
                            }
                        }
                        @for section in sections { (section) }
                    }
                }
                footer {
                    p {
                        (clean(&report.footer)) " "
                        span.hint hidden { (hint(&blocks)) }
                    }
                }
                script #data type="application/json" { (charts::data(&blocks.charts)) }
                @for script in scripts { script { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string()
}

/// Text without control characters, to be escaped by maud. A percent sign stays on the line of its
/// number.
struct Clean<'a>(&'a str);

impl Render for Clean<'_> {
    fn render_to(&self, out: &mut String) {
        sanitize(self.0).replace(" %", "\u{a0}%").render_to(out);
    }
}

fn clean(text: &str) -> Clean<'_> {
    Clean(text)
}

/// The Content-Security-Policy of a page that runs these scripts and no other.
fn policy(scripts: &[&str]) -> String {
    let hash = |script: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
    let hashes: Vec<String> = scripts.iter().map(hash).collect();
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hashes.join(" ")
    )
}

/// Links to all sections, those of numbered figures below the others.
fn navigation(sections: &[Section]) -> Markup {
    let link = |section: &Section| {
        html! { li { a href=(format!("#{}", section.id)) {
            @if section.number > 0 { span.number { (section.number) } " " }
            (clean(&section.title))
        } } }
    };
    let numbered = sections.iter().any(|section| section.number > 0);
    html! {
        ol class=[numbered.then_some("plain")] {
            li { a href="#verdict" { "Verdict" } }
            @for section in sections.iter().filter(|section| section.number == 0) { (link(section)) }
        }
        @if numbered {
            ol { @for section in sections.iter().filter(|section| section.number > 0) { (link(section)) } }
        }
    }
}

fn summary(summary: &Summary) -> Markup {
    // A number stays with its unit.
    let value = |text: &str| sanitize(text).replace(' ', "\u{a0}");
    let note = |fact: &Fact| fact.note.trim_start_matches([',', ':', ' ']).to_owned();
    // Text between backticks is a command.
    let reason = |text: &str| {
        html! { @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (clean(part)) } } @else { (clean(part)) }
        } }
    };
    html! {
        section #verdict .verdict .nothing[!summary.positive] {
            h2 { "Verdict" }
            p.headline { (clean(&summary.headline)) }
            dl.facts {
                @for fact in &summary.facts {
                    div { dt { (capitalized(fact.name)) } dd { (value(&fact.value)) small { (clean(&note(fact))) } } }
                }
            }
            @if !summary.reasons.is_empty() {
                ul.reasons { @for text in &summary.reasons { li { (reason(text)) } } }
            }
        }
    }
}

fn section<'a>(section: &'a Section, blocks: &mut Blocks<'a>) -> Markup {
    let content: Vec<Markup> =
        section.blocks.iter().map(|block| blocks.block(section, block)).collect();
    html! {
        section #(section.id) class=[(section.number > 0).then_some("figure")] {
            // A figure brings its heading along.
            @if section.number == 0 { h2 { (clean(&section.title)) } }
            @for block in content { (block) }
        }
    }
}

/// How to use what the page contains.
fn hint(blocks: &Blocks<'_>) -> String {
    let mut hints = Vec::new();
    if !blocks.charts.is_empty() {
        hints.push("drag across a chart to zoom in and double-click to zoom out");
        hints.push("click a name in a legend to hide it");
    }
    if blocks.maps > 0 {
        hints.push("zoom into the map, then drag it");
    }
    hints.push("click a heading to sort a table");
    format!("{}.", capitalized(&hints.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_stays_with_its_number() {
        let text = clean("59.9 % of <all> bytes, 3 times").render().into_string();
        assert_eq!(text, "59.9\u{a0}% of &lt;all&gt; bytes, 3 times");
    }

    #[test]
    fn vendored_files_match_the_sums_in_their_readme() {
        let readme = include_str!("../../assets/uplot/README.md");
        for file in [UPLOT_SCRIPT, UPLOT_STYLE] {
            let sum: String =
                Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(readme.contains(&sum), "{sum}");
        }
    }
}
