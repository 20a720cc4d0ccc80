//! The tables of a plan, for all presenters.

use super::super::common;
use super::super::document::{Document, Goal, Limited, LinkRow, Standing};
use oncewire_report::{Cell, Table, Unit};
use std::cmp::Ordering;

/// Stands for an invalid index.
const UNKNOWN: &str = "?";

/// The name of a node: its label, or its id.
fn node(document: &Document, index: u32) -> &str {
    document
        .nodes
        .get(index as usize)
        .map_or(UNKNOWN, |node| if node.label.is_empty() { &node.id } else { &node.label })
}

/// Orders larger values first, and NaN last.
fn descending(a: f64, b: f64) -> Ordering {
    let key = |value: f64| if value.is_nan() { f64::NEG_INFINITY } else { value };
    key(b).total_cmp(&key(a))
}

/// 1 - after / before, if that is defined.
fn saved(before: f64, after: f64) -> Option<f64> {
    Some(1.0 - after / before).filter(|share| before > 0.0 && share.is_finite())
}

fn count(count: usize) -> Cell {
    Cell::Count(count as u64)
}

pub(super) fn summary(document: &Document) -> Table {
    let (network, verdict, solution) = (&document.network, &document.verdict, &document.solution);
    let rows: Vec<(&str, &str, Cell)> = vec![
        (
            "footprint without the plan",
            "bytes per epoch, summed over links",
            verdict.footprint_before.into(),
        ),
        (
            "footprint with the plan",
            "bytes per epoch, summed over links",
            verdict.footprint_after.into(),
        ),
        ("reduction", "share", verdict.reduction.into()),
        ("of Ideal", "share", verdict.of_ideal.into()),
        ("highest utilization without the plan", "share", verdict.utilization_before.into()),
        ("highest utilization with the plan", "share", verdict.utilization_after.into()),
        ("value of the objective", solution.objective.text(), solution.value.into()),
        ("bound of the objective", solution.objective.text(), solution.bound.into()),
        ("gap", "share", solution.gap.into()),
        ("iterations", "", Cell::Count(solution.iterations.into())),
        ("ranges", "", count(solution.ranges)),
        ("nodes", "", count(network.map.nodes)),
        ("links", "", count(network.map.links)),
        ("ingresses", "", count(network.map.ingresses)),
        ("paths", "", count(network.paths)),
        ("devices", "", count(network.devices)),
        ("variables", "", count(network.variables)),
        ("mean hops", "links", network.mean_hops.into()),
        ("epoch", "s", network.epoch_seconds.into()),
        ("mean packet", "bytes", network.packet_bytes.into()),
        ("volume", "bytes per epoch", network.volume_bytes.into()),
    ];
    let columns = [("what", Unit::Text), ("unit", Unit::Text), ("value", Unit::Number)];
    let rows =
        rows.into_iter().map(|(what, unit, value)| vec![what.into(), unit.into(), value]).collect();
    Table::new("summary", "The plan in numbers", &columns, rows)
}

fn settings(document: &Document) -> Table {
    common::settings(&document.settings)
}

pub(super) fn schemes(document: &Document) -> Table {
    let rows = document.schemes.iter();
    let rows = rows.map(|one| {
        vec![
            one.name.clone().into(),
            one.reduction.into(),
            one.of_ideal.into(),
            one.devices.map_or(Cell::None, count),
            one.memory_bytes.into(),
            one.operations_per_second.into(),
            one.about.into(),
        ]
    });
    Table::new(
        "schemes",
        "Footprint reduction by scheme",
        &[
            ("scheme", Unit::Text),
            ("reduction", Unit::Share),
            ("of Ideal", Unit::Share),
            ("devices", Unit::Count),
            ("memory", Unit::Bytes),
            ("operations per second", Unit::Number),
            ("what it is", Unit::Text),
        ],
        rows.collect(),
    )
}

/// SmartRE, and hop-by-hop elimination with different limits on what it takes.
pub(super) fn choice(document: &Document) -> Table {
    let rows = document.choice.iter().flat_map(|choice| {
        let whole = |name: &str, one: &Standing| -> Vec<Cell> {
            vec![
                name.into(),
                one.reduction.into(),
                one.reduction.into(),
                count(one.devices()),
                one.memory_bytes.into(),
                one.operations_per_second.into(),
            ]
        };
        let limited = |name: &str, one: &Limited| -> Vec<Cell> {
            let (found, bound) = (one.reduction.into(), one.bound.into());
            vec![name.into(), found, bound, Cell::None, Cell::None, Cell::None]
        };
        let lean = choice.smartre_lean.as_ref();
        let lean = lean.map(|lean| whole("SmartRE, fewest for 95 %", lean));
        let others = [
            whole("hop-by-hop", &choice.hop_by_hop),
            limited("hop-by-hop, as many devices", &choice.at_devices),
            limited("hop-by-hop, as much memory", &choice.at_memory),
            limited("hop-by-hop, as many operations", &choice.at_operations),
            limited("hop-by-hop, all three limits", &choice.at_all),
        ];
        let ours = [whole("SmartRE", &choice.smartre)];
        ours.into_iter().chain(lean).chain(others).collect::<Vec<_>>()
    });
    let columns = [
        ("scheme", Unit::Text),
        ("reduction", Unit::Share),
        ("at most", Unit::Share),
        ("devices", Unit::Count),
        ("memory", Unit::Bytes),
        ("operations per second", Unit::Number),
    ];
    Table::new("choice", "SmartRE and hop-by-hop, encoders and decoders", &columns, rows.collect())
}

/// Columns with gauges.
pub(super) const SCHEME_GAUGES: [&str; 2] = ["reduction", "of Ideal"];

/// Most volume first.
pub(super) fn ingresses(document: &Document) -> Table {
    let mut rows: Vec<_> = document.ingresses.iter().collect();
    rows.sort_by(|a, b| descending(a.volume_bytes, b.volume_bytes));
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.schemes) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut columns = vec![
        ("ingress", Unit::Text),
        ("id", Unit::Text),
        ("paths", Unit::Count),
        ("enters per epoch", Unit::Bytes),
        ("reduction", Unit::Share),
        ("packet store used", Unit::Share),
    ];
    columns.extend(names.iter().map(|&name| (name, Unit::Share)));
    let rows = rows.iter().map(|row| {
        let mut cells: Vec<Cell> = vec![
            row.label.clone().into(),
            row.node.clone().into(),
            count(row.paths),
            row.volume_bytes.into(),
            row.reduction.into(),
            row.memory_share.into(),
        ];
        let of =
            |name| row.schemes.iter().find(|(other, _)| other == name).map(|(_, share)| *share);
        cells.extend(names.iter().map(|&name| Cell::from(of(name))));
        cells
    });
    Table::new("ingresses", "Ingresses, most traffic first", &columns, rows.collect())
}

/// In the order of the document.
pub(super) fn nodes(document: &Document) -> Table {
    let rows = document.nodes.iter().map(|node| {
        let [latitude, longitude] = node.position.map_or([None, None], |at| at.map(Some));
        vec![
            node.id.clone().into(),
            node.label.clone().into(),
            Cell::Count(node.pop.into()),
            node.role.into(),
            latitude.into(),
            longitude.into(),
            node.population.into(),
            node.volume_bytes.into(),
        ]
    });
    let columns = [
        ("id", Unit::Text),
        ("label", Unit::Text),
        ("PoP", Unit::Count),
        ("role", Unit::Text),
        ("latitude", Unit::Number),
        ("longitude", Unit::Number),
        ("population", Unit::Count),
        ("enters and leaves per epoch", Unit::Bytes),
    ];
    Table::new("nodes", "Nodes", &columns, rows.collect())
}

/// Most loaded first: by utilization if that of any link is known, otherwise by bytes.
fn busiest(document: &Document) -> Vec<&LinkRow> {
    let mut links: Vec<&LinkRow> = document.links.iter().collect();
    let known = links.iter().any(|link| link.utilization_before.is_some());
    let load = |link: &LinkRow| {
        if known { link.utilization_before.unwrap_or(f64::NAN) } else { link.before_bytes }
    };
    links.sort_by(|a, b| {
        descending(load(a), load(b)).then(descending(a.before_bytes, b.before_bytes))
    });
    links
}

pub(super) fn links(document: &Document) -> Table {
    let links = busiest(document);
    let known =
        links.iter().any(|link| link.capacity.is_some() || link.utilization_before.is_some());
    let devices = links.iter().any(|link| link.device.is_some());
    let mut columns = vec![
        ("from", Unit::Text),
        ("to", Unit::Text),
        ("before", Unit::Bytes),
        ("after", Unit::Bytes),
        ("saved", Unit::Share),
    ];
    if known {
        columns.extend([
            ("load before", Unit::Share),
            ("load after", Unit::Share),
            ("capacity", Unit::BitsPerSecond),
        ]);
    }
    if devices {
        columns.push(("device", Unit::Text));
    }
    let rows = links.iter().map(|link| {
        let mut cells: Vec<Cell> = vec![
            node(document, link.from).into(),
            node(document, link.to).into(),
            link.before_bytes.into(),
            link.after_bytes.into(),
            saved(link.before_bytes, link.after_bytes).into(),
        ];
        if known {
            cells.extend([
                link.utilization_before.into(),
                link.utilization_after.into(),
                Cell::from(link.capacity),
            ]);
        }
        if devices {
            let device = link
                .device
                .map(|at| document.devices.get(at as usize).map_or(UNKNOWN, |device| &device.name));
            cells.push(device.map_or(Cell::None, Cell::from));
        }
        cells
    });
    Table::new(
        "links",
        "Links, most loaded without the plan first; bytes per epoch",
        &columns,
        rows.collect(),
    )
}

/// Columns with gauges.
pub(super) const LINK_GAUGES: [&str; 2] = ["load before", "load after"];

/// Fullest first.
pub(super) fn devices(document: &Document) -> Table {
    let mut devices: Vec<_> = document.devices.iter().collect();
    let fill = |share: Option<f64>| share.filter(|share| share.is_finite()).unwrap_or(-1.0);
    devices.sort_by(|a, b| {
        let fullest = |memory, operations| fill(memory).max(fill(operations));
        let (of_a, of_b) = (
            fullest(a.memory_share, a.operations_share),
            fullest(b.memory_share, b.operations_share),
        );
        descending(of_a, of_b)
            .then(descending(
                fill(a.memory_share) + fill(a.operations_share),
                fill(b.memory_share) + fill(b.operations_share),
            ))
            .then(descending(a.memory_used, b.memory_used))
    });
    let rows = devices.iter().map(|device| {
        vec![
            device.label.clone().into(),
            device.name.clone().into(),
            node(document, device.node).into(),
            count(device.ranges),
            device.memory_used.into(),
            device.memory_share.into(),
            device.operations_used.into(),
            device.operations_share.into(),
        ]
    });
    let columns = [
        ("device", Unit::Text),
        ("id", Unit::Text),
        ("at", Unit::Text),
        ("ranges", Unit::Count),
        ("cached", Unit::Bytes),
        ("cache used", Unit::Share),
        ("operations per epoch", Unit::Number),
        ("operations used", Unit::Share),
    ];
    Table::new("devices", "Devices, fullest first", &columns, rows.collect())
}

/// Columns with gauges.
pub(super) const DEVICE_GAUGES: [&str; 2] = ["cache used", "operations used"];

pub(super) fn upgrades(document: &Document) -> Table {
    let load = document.solution.objective == Goal::LinkLoad;
    let rows = document.upgrades.iter().map(|one| {
        vec![
            one.label.clone().into(),
            one.device.clone().into(),
            one.resource.into(),
            one.by.clone().into(),
            one.gain_share.into(),
            one.gain.into(),
            one.bound_share.into(),
            one.bound.into(),
        ]
    });
    let columns = [
        ("device", Unit::Text),
        ("id", Unit::Text),
        ("resource", Unit::Text),
        ("more of it", Unit::Text),
        (if load { "of the busiest link" } else { "of the footprint" }, Unit::Share),
        ("gain per epoch", if load { Unit::Number } else { Unit::Bytes }),
        ("at most", Unit::Share),
        ("gain at most", if load { Unit::Number } else { Unit::Bytes }),
    ];
    let caption = "Upgrades by what a new plan with each gains, and by the bound from its price";
    Table::new("upgrades", caption, &columns, rows.collect())
}

pub(super) fn deployment(document: &Document) -> Table {
    let rows = document.deployment.iter().enumerate();
    let rows = rows.map(|(at, one)| {
        vec![count(at + 1), one.label.clone().into(), one.link.clone().into(), one.reduction.into()]
    });
    let columns = [
        ("links", Unit::Count),
        ("with", Unit::Text),
        ("id", Unit::Text),
        ("reduction", Unit::Share),
    ];
    Table::new(
        "deployment",
        "Reduction with the first links, in the order of choice",
        &columns,
        rows.collect(),
    )
}

/// Encoders, then decoders.
pub(super) fn bought(document: &Document) -> Table {
    let rows = document.bought.iter().flat_map(|bought| &bought.devices);
    let rows = rows.map(|one| {
        vec![one.what.into(), one.label.clone().into(), one.name.clone().into(), one.price.into()]
    });
    let columns =
        [("what", Unit::Text), ("at", Unit::Text), ("id", Unit::Text), ("price", Unit::Number)];
    Table::new("bought", "Encoders and decoders to buy", &columns, rows.collect())
}

pub(super) fn money(document: &Document) -> Table {
    let rows = document.money.iter().flat_map(|money| {
        [("SmartRE", &money.smartre), ("hop-by-hop", &money.hop_by_hop)].map(|(name, one)| {
            vec![name.into(), one.price.into(), one.saved_per_month.into(), one.months.into()]
        })
    });
    let columns = [
        ("scheme", Unit::Text),
        ("price", Unit::Number),
        ("saves a month", Unit::Number),
        ("months until paid back", Unit::Number),
    ];
    Table::new("money", "What it costs and saves", &columns, rows.collect())
}

/// Those with which least is saved first.
pub(super) fn failures(document: &Document) -> Table {
    let mut rows: Vec<_> = document.failures.iter().collect();
    rows.sort_by(|a, b| descending(b.reduction, a.reduction));
    let text = |text: &Option<String>| text.clone().map_or(Cell::None, Cell::from);
    let anew = rows.iter().any(|row| row.reduction_anew.is_some());
    let mut columns = vec![
        ("fails", Unit::Text),
        ("what", Unit::Text),
        ("id", Unit::Text),
        ("reduction", Unit::Share),
        ("busiest link", Unit::Text),
        ("it carries", Unit::Bytes),
        ("its load", Unit::Share),
        ("cut off", Unit::Share),
        ("paths rerouted", Unit::Count),
    ];
    if anew {
        columns.extend([
            ("with a new plan", Unit::Share),
            ("busiest link then", Unit::Text),
            ("it carries then", Unit::Bytes),
            ("its load then", Unit::Share),
        ]);
    }
    let rows = rows.into_iter().map(|row| {
        let mut cells: Vec<Cell> = vec![
            row.kind.into(),
            row.label.clone().into(),
            row.name.clone().into(),
            row.reduction.into(),
            text(&row.busiest_link),
            row.busiest_bytes.into(),
            row.busiest_utilization.into(),
            row.cut_share.into(),
            count(row.rerouted_paths),
        ];
        if anew {
            cells.extend([
                row.reduction_anew.into(),
                text(&row.busiest_link_anew),
                row.busiest_bytes_anew.into(),
                row.busiest_utilization_anew.into(),
            ]);
        }
        cells
    });
    let caption = "Single failures, those with which least is saved first; bytes per epoch";
    Table::new("failures", caption, &columns, rows.collect())
}

pub(super) fn changes(document: &Document) -> Table {
    let lines = document.changes.iter().flat_map(|changes| &changes.lines);
    Table::new(
        "changes",
        "Changes, largest first",
        &[("change", Unit::Text)],
        lines.map(|line| vec![line.clone().into()]).collect(),
    )
}

pub(super) fn steps(document: &Document) -> Table {
    let rows =
        document.solution.seconds.iter().map(|&(name, seconds)| vec![name.into(), seconds.into()]);
    Table::new(
        "steps",
        "Time taken",
        &[("step", Unit::Text), ("time", Unit::Seconds)],
        rows.collect(),
    )
}

pub(super) fn manifests(document: &Document) -> Table {
    let rows = document.manifests.iter().map(|facts| {
        vec![
            Cell::Count(facts.version),
            count(facts.devices),
            facts.mean_bytes.into(),
            count(facts.largest_bytes),
            facts.ingress_mean_bytes.into(),
        ]
    });
    let columns = [
        ("version", Unit::Count),
        ("devices", Unit::Count),
        ("mean of a device", Unit::Bytes),
        ("largest", Unit::Bytes),
        ("mean of an ingress", Unit::Bytes),
    ];
    Table::new("manifests", "Manifests", &columns, rows.collect())
}

/// Names of all tables.
pub(super) const IDS: [&str; 16] = [
    "summary",
    "choice",
    "money",
    "bought",
    "failures",
    "schemes",
    "ingresses",
    "links",
    "devices",
    "nodes",
    "upgrades",
    "deployment",
    "changes",
    "manifests",
    "settings",
    "steps",
];

/// All tables, in the order of [`IDS`].
pub(super) fn all(document: &Document) -> Vec<Table> {
    [
        summary, choice, money, bought, failures, schemes, ingresses, links, devices, nodes,
        upgrades, deployment, changes, manifests, settings, steps,
    ]
    .map(|make| make(document))
    .into()
}
