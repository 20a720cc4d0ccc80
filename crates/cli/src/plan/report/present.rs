//! A plan as a report for presenters.

use super::super::document::{Bought, DeviceRow, Document, Goal, IngressRow, LinkRow, NodeRow};
use super::super::{choice, common, money};
use super::tables;
use crate::terminal::Page;
use oncewire_plan::baseline::Scheme;
use oncewire_report::{
    Axis, Block, Cell, Chart, ChartKind, Fact, Map, MapDevice, MapLink, MapNode, Report, Section,
    Series, Summary, Table, TableView, Unit, format,
};
use std::io;

/// Most points of a line.
const MOST_POINTS: usize = 1_000;
/// Gap of a plan up to which the result does not speak of it.
const NO_GAP: f64 = 1e-4;
/// Rows of a table on a terminal.
const ROWS: usize = 10;

/// The report of a plan.
pub(crate) fn report(document: &Document) -> Report {
    let network = &document.network;
    let count = |count: usize| format::count_of(count as u64);
    Report {
        kind: "Network plan",
        title: network.map.title(),
        about: format!(
            "{} nodes, {} directed links, {} paths from {} ingresses, {} devices.",
            count(network.map.nodes),
            count(network.map.links),
            count(network.paths),
            count(network.map.ingresses),
            count(network.devices)
        ),
        summary: summary(document),
        sections: sections(document),
        footer: format!(
            "Made by oncewire {} plan. Sizes have decimal prefixes (1 MB = 1,000,000 bytes). A footprint is the sum of \
             the bytes on all links. Quantities are per retention epoch unless stated otherwise. The same numbers are in \
             --json and --csv.",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

/// Schemes of the result in brief: those that can be built, one of the heuristics, and Ideal.
const BRIEF: [Scheme; 5] =
    [Scheme::HopByHop, Scheme::EdgeOnly, Scheme::ByDistance, Scheme::SmartRe, Scheme::Ideal];

/// Writes the result, and the table that answers what was asked: the links of `--deploy`, the
/// changes of `--against`, what was bought, the failures, or else the schemes.
pub(crate) fn overview<W: io::Write>(
    page: &mut Page<'_, W>,
    document: &Document,
) -> io::Result<()> {
    let report = report(document);
    page.summary(&report.summary)?;
    let named = |id| report.sections.iter().find(|section| section.id == id);
    if let Some(section) =
        ["bought", "failures", "deployment", "changes", "schemes"].into_iter().find_map(named)
    {
        page.line("")?;
        let mut section = section.clone();
        for block in &mut section.blocks {
            if let Block::Table(view) = block
                && view.table.id == "schemes"
            {
                view.table.rows.retain(|row| match row.first() {
                    Some(Cell::Text(name)) => BRIEF.iter().any(|scheme| scheme.name() == name),
                    _ => false,
                });
            }
        }
        page.content(&section)?;
    }
    page.line("")?;
    page.dim("Links, devices, upgrades and the rest: --full; with a map: --report FILE.")
}

fn summary(document: &Document) -> Summary {
    let (verdict, solution) = (&document.verdict, &document.solution);
    let bytes = |value| format::number(value, Unit::Bytes);
    let share = |value| format::number(value, Unit::Share);
    let before =
        format!("per epoch, summed over links, instead of {}", bytes(verdict.footprint_before));
    let mut facts = vec![
        Fact::new("footprint", bytes(verdict.footprint_after), before),
        Fact::new("reduction", share(verdict.reduction), "of the footprint"),
    ];
    if let Some(of_ideal) = verdict.of_ideal {
        let note = "of what hop-by-hop elimination without limits would save";
        facts.push(Fact::new("of Ideal", share(of_ideal), note));
    }
    if let (Some(before), Some(after)) = (verdict.utilization_before, verdict.utilization_after) {
        let note = format!("of its capacity, instead of {}", share(before));
        facts.push(Fact::new("busiest link", share(after), note));
    }
    if solution.gap > NO_GAP {
        facts.push(Fact::new("gap", share(solution.gap), ": most that a better plan could gain"));
    }
    let mut reasons = document.choice.as_ref().map(choice::reasons).unwrap_or_default();
    reasons.extend(document.bought.iter().map(bought));
    reasons.extend(document.money.iter().flat_map(money::reasons));
    Summary { headline: verdict.headline.clone(), positive: true, facts, reasons }
}

/// What was bought, in a sentence.
fn bought(bought: &Bought) -> String {
    let share = |value| format::number(value, Unit::Share);
    let proof = if bought.proven {
        "No choice of devices is better."
    } else {
        "Found by leaving out what saves least for its price; a better choice may exist."
    };
    format!(
        "These devices cost {}; all that the plan would use cost {} and save {}. {proof}",
        money::amount(bought.cost),
        money::amount(bought.whole_cost),
        share(bought.whole_reduction)
    )
}

fn sections(document: &Document) -> Vec<Section> {
    let mut sections = vec![
        Section::new("map", "Map").with(Block::Map(map(document))),
        Section::new("network", "Network").with(Block::Facts(network(document))),
    ];
    let rows = |table: Table, rows| TableView { rows: Some(rows), ..table.without(&["id"]).into() };
    let mut add = |section: Section, view: TableView| {
        if !view.table.rows.is_empty() {
            sections.push(section.with(Block::Table(view)));
        }
    };
    let schemes = TableView {
        gauges: tables::SCHEME_GAUGES.into(),
        rows: Some(usize::MAX),
        ..tables::schemes(document).without(&["devices", "memory", "operations per second"]).into()
    };
    let choice = TableView { rows: Some(usize::MAX), ..tables::choice(document).into() };
    add(Section::new("choice", "SmartRE or hop-by-hop"), choice);
    add(Section::new("money", "Money"), rows(tables::money(document), ROWS));
    add(Section::new("bought", "Devices to buy"), rows(tables::bought(document), 2 * ROWS));
    let mut failures = rows(tables::failures(document), ROWS);
    failures.detail =
        vec!["paths rerouted", "busiest link then", "it carries then", "its load then"];
    if document.failures.iter().any(|row| row.busiest_utilization.is_some()) {
        failures.detail.push("it carries");
    } else {
        failures.table = failures.table.without(&["its load", "its load then"]);
    }
    add(Section::new("failures", "Failures"), failures);
    add(Section::new("schemes", "Schemes"), schemes);
    let section = Section::new("ingresses", "Ingresses").in_full();
    let section = if document.ingresses.len() > 1 {
        section.with(Block::Chart(distribution(document)))
    } else {
        section
    };
    add(section, tables::ingresses(document).without(&["id"]).into());
    let links = TableView {
        gauges: tables::LINK_GAUGES.into(),
        rows: Some(ROWS),
        detail: vec!["capacity"],
        ..tables::links(document).without(&["device"]).into()
    };
    add(Section::new("links", "Links"), links);
    let devices = TableView {
        gauges: tables::DEVICE_GAUGES.into(),
        rows: Some(ROWS),
        detail: vec!["id", "at"],
        ..tables::devices(document).into()
    };
    add(Section::new("devices", "Devices"), devices);
    let upgrades = TableView {
        detail: vec!["gain per epoch", "gain at most"],
        ..rows(tables::upgrades(document), ROWS)
    };
    add(Section::new("upgrades", "Upgrades"), upgrades);
    let section = Section::new("deployment", "Deployment").with(Block::Chart(curve(document)));
    add(section, rows(tables::deployment(document), 2 * ROWS));
    if let Some(changes) = &document.changes {
        let facts = facts([
            ("devices that change", format::count_of(changes.devices as u64)),
            (
                "hash space moved",
                format!("{} of a path's, on average", format::number(changes.moved, Unit::Share)),
            ),
            ("cached bytes lost", format::number(changes.lost_bytes, Unit::Bytes)),
        ]);
        let section =
            Section::new("changes", format!("Changes against version {}", changes.from_version));
        sections.push(
            section
                .with(Block::Facts(facts))
                .with(Block::Table(rows(tables::changes(document), ROWS))),
        );
    }
    if let Some(manifests) = &document.manifests {
        let bytes = |bytes: f64| format::number(bytes, Unit::Bytes);
        let (mean, largest) = (bytes(manifests.mean_bytes), bytes(manifests.largest_bytes as f64));
        let facts = facts([
            ("version", manifests.version.to_string()),
            ("devices", format::count_of(manifests.devices as u64)),
            ("of a device", format!("{mean} on average, {largest} at most")),
            ("of an ingress", format!("{} on average", bytes(manifests.ingress_mean_bytes))),
        ]);
        sections.push(Section::new("manifests", "Manifests").with(Block::Facts(facts)));
    }
    sections.push(solution(document));
    if !document.notes.is_empty() {
        sections.push(Section::new("notes", "Notes").with(Block::Notes(document.notes.clone())));
    }
    sections
}

/// Names with one line each.
fn facts<const N: usize>(facts: [(&str, String); N]) -> Vec<(String, Vec<String>)> {
    facts.map(|(name, value)| (name.to_owned(), vec![value])).into()
}

fn network(document: &Document) -> Vec<(String, Vec<String>)> {
    let network = &document.network;
    let count = |count: usize| format::count_of(count as u64);
    let mut lines = network.map.lines();
    let hops = format::number(network.mean_hops, Unit::Number);
    let (nodes, links, devices) =
        (count(network.map.nodes), count(network.map.links), count(network.devices));
    let (paths, ingresses) = (count(network.paths), count(network.map.ingresses));
    let (epoch, volume) = (
        format::number(network.epoch_seconds, Unit::Seconds),
        format::number(network.volume_bytes, Unit::Bytes),
    );
    lines.extend(facts([
        ("size", format!("{nodes} nodes, {links} directed links, {devices} devices")),
        ("paths", format!("{paths} from {ingresses} ingresses, {hops} links long on average")),
        ("epoch", format!("{epoch}, in which {volume} enter")),
    ]));
    lines.extend(document.settings.iter().map(|(name, value)| (name.clone(), vec![value.clone()])));
    lines
}

fn solution(document: &Document) -> Section {
    let solution = &document.solution;
    // A footprint is in bytes, a link load a share.
    let value = |value| match solution.objective {
        Goal::LinkLoad => format::number(value, Unit::Share),
        Goal::Footprint | Goal::FootprintOfEach => {
            format!("{}, summed over links", format::number(value, Unit::Bytes))
        }
    };
    let facts = facts([
        ("objective", solution.objective.text().into()),
        ("method", solution.method.clone()),
        ("value", value(solution.value)),
        ("bound", format!("{}; no plan has a better value", value(solution.bound))),
        ("gap", format::number(solution.gap, Unit::Share)),
        ("iterations", format::count_of(solution.iterations.into())),
        ("variables", format::count_of(document.network.variables as u64)),
        ("ranges", format!("{} that devices cache", format::count_of(solution.ranges as u64))),
    ]);
    let section = Section::new("solution", "Solution").in_full().with(Block::Facts(facts));
    match solution.seconds.is_empty() {
        true => section,
        false => section.with(Block::Table(tables::steps(document).into())),
    }
}

fn map(document: &Document) -> Map {
    let node = |node: &NodeRow| MapNode {
        id: node.id.clone(),
        label: node.label.clone(),
        pop: node.pop,
        core: node.role != "access",
        position: node.position,
        volume: node.volume_bytes,
        ..MapNode::default()
    };
    let link = |link: &LinkRow| MapLink {
        from: link.from,
        to: link.to,
        before: link.before_bytes,
        after: link.after_bytes,
        utilization: [link.utilization_before, link.utilization_after],
        is_down: false,
    };
    let device = |device: &DeviceRow| MapDevice {
        node: device.node,
        cache_use: device.memory_share,
        operations_use: device.operations_share,
    };
    Map {
        nodes: document.nodes.iter().map(node).collect(),
        links: document.links.iter().map(link).collect(),
        devices: document.devices.iter().map(device).collect(),
        views: ["Without the plan", "With the plan"],
        per: "epoch",
    }
}

/// The cumulative distribution of shares.
fn steps(mut shares: Vec<f64>) -> Vec<(f64, f64)> {
    shares.retain(|share| share.is_finite());
    shares.sort_by(f64::total_cmp);
    let whole = shares.len();
    let each = whole.div_ceil(MOST_POINTS).max(1);
    let kept =
        shares.into_iter().enumerate().filter(|(at, _)| (at + 1) % each == 0 || at + 1 == whole);
    kept.map(|(at, share)| (share, (at + 1) as f64 / whole as f64)).collect()
}

fn distribution(document: &Document) -> Chart {
    let rows = &document.ingresses;
    let mut series =
        vec![Series::new("this plan", steps(rows.iter().map(|row| row.reduction).collect()))];
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.schemes) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let of = |row: &IngressRow, name: &str| {
        row.schemes.iter().find(|(other, _)| other == name).map(|(_, share)| *share)
    };
    // With a plan for the footprint, the scheme SmartRE is this plan.
    let plan = Scheme::SmartRe.name();
    let once = document.solution.objective != Goal::LinkLoad;
    for name in names.into_iter().filter(|&name| !(once && name == plan)) {
        series
            .push(Series::new(name, steps(rows.iter().filter_map(|row| of(row, name)).collect())));
    }
    common::distribution(series)
}

fn curve(document: &Document) -> Chart {
    let points =
        document.deployment.iter().enumerate().filter(|(_, one)| one.reduction.is_finite());
    let points: Vec<(f64, f64)> =
        points.map(|(at, one)| ((at + 1) as f64, one.reduction)).collect();
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
    use crate::terminal::{Page, columns};
    use oncewire_report::html;

    fn page(document: &Document) -> String {
        html::render(&report(document))
    }

    fn text(document: &Document, width: usize, color: bool) -> String {
        let mut out = Vec::new();
        Page::new(&mut out, width, color).report(&report(document)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hostile_text_and_numbers_do_no_harm() {
        let page = page(&sample::document());
        for bad in [
            "<script>alert",
            "<img",
            "onerror=alert(2)>",
            "\u{1b}",
            "\u{202e}",
            "data-v=\"NaN",
            "data-v=\"inf",
        ] {
            assert!(!page.contains(bad), "{bad:?}");
        }
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "it is shown");
    }

    #[test]
    fn an_empty_plan_has_no_empty_sections() {
        let page = page(&sample::empty());
        for id in ["verdict", "map", "network", "solution"] {
            assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
        }
        for id in [
            "choice",
            "money",
            "bought",
            "failures",
            "schemes",
            "ingresses",
            "links",
            "devices",
            "upgrades",
            "deployment",
            "changes",
            "manifests",
            "notes",
        ] {
            assert!(!page.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }

    #[test]
    fn the_chart_of_ingresses_has_this_plan_once() {
        let mut document = sample::invented(30);
        for row in &mut document.ingresses {
            row.schemes = vec![("SmartRE".into(), row.reduction), ("Ideal".into(), 0.9)];
        }
        let names = |document: &Document| -> Vec<String> {
            distribution(document).series.into_iter().map(|series| series.name).collect()
        };
        assert_eq!(names(&document), ["this plan", "Ideal"]);
        // A plan for the load of links is another than the one for the footprint.
        document.solution.objective = Goal::LinkLoad;
        assert_eq!(names(&document), ["this plan", "SmartRE", "Ideal"]);
    }

    #[test]
    fn distributions_end_at_one() {
        assert_eq!(steps(vec![0.3, f64::NAN, 0.1]), [(0.1, 0.5), (0.3, 1.0)]);
        let many = steps((0..2_500).map(f64::from).collect());
        assert!(many.len() <= MOST_POINTS + 1);
        assert_eq!(many.last(), Some(&(2_499.0, 1.0)));
    }

    #[test]
    fn every_line_fits_and_no_control_characters() {
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
            let at = text[from..]
                .find(&format!("\n{part}\n"))
                .unwrap_or_else(|| panic!("{part} after {from}: {text}"));
            from += at;
        }
        let left = document.links.len() - ROWS;
        assert!(text.contains(&format!("... {left} more rows in --csv")));
    }

    #[test]
    fn an_empty_plan_has_no_empty_parts() {
        let text = text(&sample::empty(), 80, false);
        for part in [
            "Schemes",
            "Links",
            "Devices",
            "Upgrades",
            "Deployment",
            "Changes",
            "Manifests",
            "Notes",
        ] {
            assert!(!text.contains(&format!("\n{part}\n")), "{part}");
        }
    }
}
