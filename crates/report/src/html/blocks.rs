//! The contents of sections as HTML.

use super::clean;
use crate::text::{capitalized, sanitize};
use crate::{Block, Breakdown, Cell, Chart, Figure, Part, Section, Table, Unit, format, map};
use maud::{Markup, html};

/// Rows of a page. CSV files have more.
pub(super) const MOST_ROWS: usize = 1_000;
/// Rows on paper.
const PRINTED_ROWS: usize = 40;
/// Rows above which a table says how many it has.
const SHORT: usize = 15;
/// Rows above which a table scrolls within itself.
const TALL: usize = 60;
/// Colors of `page.css` for parts of a bar.
const COLORS: usize = 7;

/// Renders blocks, and collects the charts that `page.js` draws.
#[derive(Default)]
pub(super) struct Blocks<'a> {
    /// In the order of their places in the page.
    pub(super) charts: Vec<&'a Chart>,
    /// Number of maps.
    pub(super) maps: usize,
    /// Whether the page keeps itself up to date: then what is empty now has a place, too.
    pub(super) is_live: bool,
}

impl<'a> Blocks<'a> {
    pub(super) fn block(&mut self, section: &Section, block: &'a Block) -> Markup {
        match block {
            Block::Text(text) => html! { p { (clean(text)) } },
            Block::Facts(facts) => self::facts(facts),
            Block::Table(view) => table(&view.table, &view.gauges, self.is_live),
            Block::Chart(chart) => self.chart(chart),
            Block::Figure(figure) => self.figure(section, figure),
            Block::Breakdown(parts) => html! { @for one in parts { (breakdown(one)) } },
            Block::Map(map) => {
                self.maps += 1;
                let (drawing, remarks) = map::render(map);
                html! { figure.atlas { (drawing) } (notes(&remarks)) }
            }
            Block::Notes(lines) => notes(lines),
            Block::Damage(kind, inputs) => html! {
                div.damaged {
                    h3 { (capitalized(kind)) }
                    p { "What comes before the damage is in the figures." }
                    ul { @for (name, why) in inputs { li { bdi { (clean(name)) } ": " (clean(why)) } } }
                }
            },
        }
    }

    /// The place where `page.js` draws a chart.
    fn chart(&mut self, chart: &'a Chart) -> Markup {
        let at = self.charts.len();
        self.charts.push(chart);
        html! {
            figure.chart data-chart=(at) {
                figcaption { (clean(&chart.caption)) }
                @if chart.is_empty() && !self.is_live { p.empty { "No data." } }
            }
        }
    }

    fn figure(&mut self, section: &Section, figure: &'a Figure) -> Markup {
        // On paper, the first chart stays with its heading.
        let mut charts = figure.charts.iter();
        let first = charts.next().map(|chart| self.chart(chart));
        let later: Vec<Markup> = charts.map(|chart| self.chart(chart)).collect();
        html! {
            div.lead {
                h2 { a href=(format!("#{}", section.id)) { "Figure " (figure.number) } " " (clean(figure.title)) }
                @if !figure.finding.is_empty() { p.finding { (clean(&figure.finding)) } }
                @if let Some(chart) = first { (chart) }
            }
            @for chart in later { (chart) }
            @for one in &figure.tables { (table(one, &[], false)) }
            @if figure.charts.is_empty() && figure.tables.is_empty() {
                p.empty { "There is nothing to show for this traffic." }
            }
            (notes(&figure.notes))
            details {
                summary { "Definition and source" }
                p { (clean(&figure.definition)) }
                @if !figure.source.is_empty() { p { "Source: " (clean(figure.source)) "." } }
                @if figure.memory > 0 {
                    p { "Memory of this figure, without shared caches: " (format::binary(figure.memory)) "." }
                }
            }
        }
    }
}

fn facts(facts: &[(String, Vec<String>)]) -> Markup {
    html! {
        dl.list {
            @for (name, lines) in facts {
                dt { (clean(&capitalized(name))) }
                dd { @for (at, line) in lines.iter().enumerate() { @if at > 0 { br; } bdi { (clean(line)) } } }
            }
        }
    }
}

fn notes(lines: &[String]) -> Markup {
    html! { @if !lines.is_empty() { ul.notes { @for line in lines { li { (clean(line)) } } } } }
}

/// A table. Shares of the columns `gauges` have a bar beside their number.
fn table(table: &Table, gauges: &[&str], is_live: bool) -> Markup {
    let count = table.rows.len();
    html! {
        figure.table {
            figcaption {
                (clean(&table.caption))
                @if count > SHORT { " " small { (format::count_of(count as u64)) " rows" } }
            }
            @if count == 0 && !is_live {
                p.empty { "No rows." }
            } @else {
                div.scroll.tall[count > TALL || is_live] tabindex="0" {
                    table {
                        thead { tr {
                            @for column in &table.columns {
                                th scope="col" class=[(column.unit != Unit::Text).then_some("n")] { (clean(&column.name)) }
                            }
                        } }
                        tbody { @for row in table.rows.iter().take(MOST_ROWS) { (self::row(table, row, gauges)) } }
                    }
                }
            }
            @if count > MOST_ROWS { p.more { "… " (format::count_of((count - MOST_ROWS) as u64)) " more rows in --csv" } }
            @if count > PRINTED_ROWS {
                p.more.unprinted { "… " (format::count_of((count - PRINTED_ROWS) as u64)) " more rows, not printed" }
            }
        }
    }
}

fn row(table: &Table, row: &[Cell], gauges: &[&str]) -> Markup {
    html! {
        tr {
            @for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
                @let shown = format::cell(cell, column.unit);
                @match (at, column.unit) {
                    (0, Unit::Text) => th scope="row" class=[long(&shown)] { (clean(&shown)) },
                    (_, Unit::Text) => td class=[long(&shown)] { (clean(&shown)) },
                    _ => @if let Some(share) = gauge(cell, &column.name, gauges) {
                        td.n.gauge style=(format!("--v:{share:.1}")) data-v=[sort_key(cell)] { (clean(&shown)) }
                    } @else {
                        td.n data-v=[sort_key(cell)] { (clean(&shown)) }
                    },
                }
            }
        }
    }
}

/// Length of a gauge in percent.
pub(super) fn gauge(cell: &Cell, column: &str, gauges: &[&str]) -> Option<f64> {
    match cell {
        Cell::Number(share) if gauges.contains(&column) && share.is_finite() => {
            Some(share.clamp(0.0, 1.0) * 100.0)
        }
        _ => None,
    }
}

/// The class of text with words longer than those of languages. They are broken anywhere.
fn long(text: &str) -> Option<&'static str> {
    text.split(' ').any(|word| word.chars().count() > 24).then_some("long")
}

/// The number by which `page.js` sorts rows.
fn sort_key(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Count(count) => Some(count.to_string()),
        Cell::Number(value) if value.is_finite() => Some(value.to_string()),
        _ => None,
    }
}

/// A table of shares, and a bar if they add up to the whole.
fn breakdown(breakdown: &Breakdown) -> Markup {
    let whole = breakdown.whole;
    let parts: Vec<(&str, &Part)> = breakdown
        .groups
        .iter()
        .flat_map(|(name, parts)| parts.iter().map(move |part| (*name, part)))
        .collect();
    let counted = parts.iter().any(|(_, part)| part.packets.is_some());
    let grouped = breakdown.groups.len() > 1;
    let share = |part: &Part| format::part(part.bytes, whole);
    html! {
        figure.share {
            figcaption { (breakdown.caption) }
            @if breakdown.complete && whole > 0 {
                div.stack role="img" aria-label="The shares of the table below as parts of a bar" {
                    @for (at, (_, part)) in parts.iter().enumerate().filter(|(_, (_, part))| part.bytes > 0) {
                        span class=(format!("c{}", at % COLORS))
                            style=(format!("flex-basis:{:.3}%", part.bytes as f64 / whole as f64 * 100.0))
                            title=(format!("{}: {}", sanitize(&part.name), share(part))) {}
                    }
                }
            }
            div.scroll tabindex="0" {
                table {
                    thead { tr {
                        th scope="col" { "part" }
                        th.n scope="col" { "share" }
                        th.n scope="col" { "wire bytes" }
                        @if counted { th.n scope="col" { "packets" } }
                        @if grouped { th scope="col" { "use" } }
                    } }
                    tbody {
                        @for (at, (group, part)) in parts.iter().enumerate() {
                            tr {
                                th scope="row" class=[long(&part.name)] {
                                    @if breakdown.complete { i class=(format!("swatch c{}", at % COLORS)) {} }
                                    (clean(&part.name))
                                }
                                td.n data-v=(part.bytes) { (share(part)) }
                                td.n data-v=(part.bytes) { (format::bytes(part.bytes)) }
                                @if counted {
                                    td.n data-v=[part.packets] {
                                        (part.packets.map_or_else(String::new, format::count_of))
                                    }
                                }
                                @if grouped { td { (group) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
