//! A report as one HTML file that needs no server, network or other file; or as a page that asks
//! its server for new data.
//!
//! Tables and the map can be read without JavaScript; `page.js` draws charts with uPlot from data
//! in the page, and `map.js` zooms the map. Text from captures and topologies is hostile: it passes
//! `clean` and the escaping of maud here, and the scripts only set text, never HTML. The page's
//! Content-Security-Policy admits its own scripts by their hashes, and no request at all, or only
//! those to the server that a live page is from.

mod blocks;
mod charts;
mod update;

use crate::text::{capitalized, sanitize};
use crate::{Fact, Report, Section, Summary};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blocks::Blocks;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use sha2::{Digest, Sha256};
pub use update::update;

const PAGE_STYLE: &str = include_str!("../../assets/page.css");
const PAGE_SCRIPT: &str = include_str!("../../assets/page.js");
const LIVE_SCRIPT: &str = include_str!("../../assets/live.js");
const MAP_STYLE: &str = include_str!("../../assets/map.css");
const MAP_SCRIPT: &str = include_str!("../../assets/map.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// Words of a page that depend on what the report is about.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// What its first section is called, in upper case.
    pub summary: &'static str,
    /// What has every number, for readers without JavaScript: `--csv`.
    pub numbers: &'static str,
}

/// Those of a report that recommends something.
const VERDICT: Texts = Texts { summary: "Verdict", numbers: "--csv" };

/// A page that keeps itself up to date.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// Where [`update`] is answered, relative to the page. It gets the query `price=` with what the
    /// reader wrote.
    pub path: &'a str,
    /// The price in the page's field, such as `0.09/GB`; or empty. Without one, the page has no such
    /// field.
    pub price: Option<&'a str>,
}

/// A page and the policy for its `Content-Security-Policy` header, which the page has itself, too.
#[derive(Clone, Debug)]
pub struct Page {
    /// The HTML document.
    pub html: String,
    /// The policy.
    pub policy: String,
}

/// The report as an HTML document.
pub fn render(report: &Report) -> String {
    render_with(report, &VERDICT)
}

/// The report as an HTML document, with these words.
pub fn render_with(report: &Report, texts: &Texts) -> String {
    document(report, texts, None).html
}

/// The report as a page that asks its server for [`update`]s.
pub fn live(report: &Report, texts: &Texts, live: &Live<'_>) -> Page {
    document(report, texts, Some(live))
}

fn document(report: &Report, texts: &Texts, live: Option<&Live<'_>>) -> Page {
    let mut blocks = Blocks { is_live: live.is_some(), ..Blocks::default() };
    let sections: Vec<Markup> =
        report.sections.iter().map(|section| self::section(section, &mut blocks)).collect();
    let has_map = blocks.maps > 0;
    let mut scripts = vec![UPLOT_SCRIPT, PAGE_SCRIPT];
    if has_map {
        scripts.push(MAP_SCRIPT);
    }
    if live.is_some() {
        scripts.push(LIVE_SCRIPT);
    }
    let policy = policy(&scripts, live.is_some());
    let page = html! {
        (DOCTYPE)
        html lang="en" data-live=[live.map(|live| live.path)] data-shape=[live.map(|_| update::shape(report))] {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                // Otherwise a browser asks for one.
                @if live.is_some() { link rel="icon" href="data:,"; }
                title { (report.kind) ": " (clean(&report.title)) }
                style {
                    (PreEscaped(UPLOT_STYLE)) "\n" (PreEscaped(PAGE_STYLE))
                    @if has_map { "\n" (PreEscaped(MAP_STYLE)) }
                }
            }
            body {
                a.skip href="#verdict" { "Skip to the " (texts.summary.to_lowercase()) }
                header {
                    div.bar {
                        p.kind { (report.kind) }
                        @if let Some(live) = live { (controls(live)) }
                        button #theme type="button" hidden { "Dark" }
                    }
                    h1 { bdi { (clean(&report.title)) } }
                    p.about { (clean(&report.about)) }
                }
                div.columns {
                    nav aria-label="Contents" {
                        details open { summary { "Contents" } (navigation(&report.sections, texts)) }
                    }
                    main {
                        (summary(&report.summary, texts))
                        noscript {
                            p.empty {
                                "Charts need JavaScript. Everything else is here without it, and " (texts.numbers) " has every number."
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
    Page { html: page.into_string(), policy }
}

/// What a live page has beside the colors: its state, a pause, and the price.
fn controls(live: &Live<'_>) -> Markup {
    html! {
        form.price hidden data-none[live.price.is_none()] {
            label for="price" { "Price" }
            input #price type="text" maxlength="32" size="9" placeholder="0.09/GB" autocomplete="off" spellcheck="false"
                aria-describedby="wrong" value=(live.price.unwrap_or_default());
            span #wrong role="status" {}
        }
        p #live {}
        button #pause type="button" hidden { "Pause" }
    }
}

/// Text without control characters, to be escaped by maud. A percent sign stays on the line of its
/// number.
struct Clean<'a>(&'a str);

impl Render for Clean<'_> {
    fn render_to(&self, out: &mut String) {
        cleaned(self.0).render_to(out);
    }
}

fn cleaned(text: &str) -> String {
    sanitize(text).replace(" %", "\u{a0}%")
}

fn clean(text: &str) -> Clean<'_> {
    Clean(text)
}

/// The Content-Security-Policy of a page that runs these scripts and no other.
fn policy(scripts: &[&str], is_live: bool) -> String {
    let hash = |script: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
    let hashes: Vec<String> = scripts.iter().map(hash).collect();
    let connect = if is_live { "; connect-src 'self'" } else { "" };
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {}; img-src data:; base-uri 'none'; form-action 'none'{connect}",
        hashes.join(" ")
    )
}

/// Links to all sections, those of numbered figures below the others.
fn navigation(sections: &[Section], texts: &Texts) -> Markup {
    let link = |section: &Section| {
        html! { li { a href=(format!("#{}", section.id)) {
            @if section.number > 0 { span.number { (section.number) } " " }
            (clean(&section.title))
        } } }
    };
    let numbered = sections.iter().any(|section| section.number > 0);
    html! {
        ol class=[numbered.then_some("plain")] {
            li { a href="#verdict" { (texts.summary) } }
            @for section in sections.iter().filter(|section| section.number == 0) { (link(section)) }
        }
        @if numbered {
            ol { @for section in sections.iter().filter(|section| section.number > 0) { (link(section)) } }
        }
    }
}

/// The value of a fact; a number stays with its unit.
fn value(fact: &Fact) -> String {
    sanitize(&fact.value).replace(' ', "\u{a0}")
}

fn note(fact: &Fact) -> &str {
    fact.note.trim_start_matches([',', ':', ' '])
}

fn summary(summary: &Summary, texts: &Texts) -> Markup {
    // Text between backticks is a command.
    let reason = |text: &str| {
        html! { @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (clean(part)) } } @else { (clean(part)) }
        } }
    };
    html! {
        section #verdict .verdict .nothing[!summary.positive] {
            h2 { (texts.summary) }
            p.headline { (clean(&summary.headline)) }
            dl.facts {
                @for fact in &summary.facts {
                    div { dt { (capitalized(fact.name)) } dd { (value(fact)) small { (clean(note(fact))) } } }
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
