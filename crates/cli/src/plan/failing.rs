//! Single failures, in words and numbers.

use super::document::{FailureRow, FailureTotals};
use oncewire_plan::failures::{Effect, Failed, Failure};
use oncewire_plan::{Instance, LinkId, NodeId};
use oncewire_report::{Unit, format};

/// Each failure, and which are the worst. `label` names a node.
pub(super) fn rows<'a>(
    instance: &Instance,
    failures: &[Failure],
    label: &dyn Fn(NodeId) -> &'a str,
) -> Vec<FailureRow> {
    let network = &instance.network;
    let id = |node: NodeId| network.nodes[node].id.clone();
    let arrow = |link: LinkId| {
        let link = network.links[link];
        format!("{} -> {}", label(link.from), label(link.to))
    };
    let whole: f64 = instance.paths.iter().map(|path| path.volume).sum();
    let busiest = |effect: &Effect| effect.busiest.map(|one| arrow(one.link));
    let bytes = |effect: &Effect| effect.busiest.map(|one| one.bytes);
    let used = |effect: &Effect| effect.busiest.and_then(|one| one.utilization);
    let row = |failure: &Failure| {
        let (kind, name, shown) = match failure.what {
            Failed::Link(link) => {
                let link = network.links[link];
                let ends =
                    |of: &dyn Fn(NodeId) -> String| format!("{} - {}", of(link.from), of(link.to));
                ("link", ends(&id), ends(&|node| label(node).to_owned()))
            }
            Failed::Node(node) => ("node", id(node), label(node).to_owned()),
        };
        let anew = failure.anew.as_ref();
        FailureRow {
            kind,
            name,
            label: shown,
            rerouted_paths: failure.rerouted,
            cut_paths: failure.cut,
            cut_share: failure.cut_bytes / whole,
            footprint_before: failure.kept.footprint.before,
            reduction: failure.kept.footprint.reduction(),
            busiest_link: busiest(&failure.kept),
            busiest_bytes: bytes(&failure.kept),
            busiest_utilization: used(&failure.kept),
            reduction_anew: anew.map(|effect| effect.footprint.reduction()),
            busiest_link_anew: anew.and_then(busiest),
            busiest_bytes_anew: anew.and_then(bytes),
            busiest_utilization_anew: anew.and_then(used),
        }
    };
    failures.iter().map(row).collect()
}

/// The worst of these failures; `None` if there are none with traffic left.
pub(super) fn totals(rows: &[FailureRow], intact: &Effect) -> Option<FailureTotals> {
    let left = || rows.iter().filter(|row| row.footprint_before > 0.0);
    let least = left().min_by(|a, b| a.reduction.total_cmp(&b.reduction))?;
    let load = |row: &FailureRow| row.busiest_utilization.or(row.busiest_bytes).unwrap_or(0.0);
    let busiest = left().max_by(|a, b| load(a).total_cmp(&load(b)))?;
    Some(FailureTotals {
        links: rows.iter().filter(|row| row.kind == "link").count(),
        nodes: rows.iter().filter(|row| row.kind == "node").count(),
        intact_reduction: intact.footprint.reduction(),
        intact_bytes: intact.busiest.map(|one| one.bytes),
        intact_utilization: intact.busiest.and_then(|one| one.utilization),
        least: least.clone(),
        busiest: busiest.clone(),
    })
}

/// The worst failures in a sentence for the headline.
pub(super) fn headline(totals: &FailureTotals) -> String {
    let share = |share| format::number(share, Unit::Share);
    let what = |row: &FailureRow| format!("{} {}", row.kind, row.label);
    let load = |utilization: Option<f64>, bytes: Option<f64>| match (utilization, bytes) {
        (Some(utilization), _) => share(utilization),
        (None, Some(bytes)) => format::number(bytes, Unit::Bytes),
        (None, None) => format::MISSING.into(),
    };
    let FailureTotals { least, busiest, .. } = totals;
    format!(
        "The worst single failures: without {}, {} is saved instead of {}; without {}, the busiest link {} {} instead of {}.",
        what(least),
        share(least.reduction),
        share(totals.intact_reduction),
        if busiest.name == least.name { "it".into() } else { what(busiest) },
        if busiest.busiest_utilization.is_some() { "is loaded to" } else { "carries" },
        load(busiest.busiest_utilization, busiest.busiest_bytes),
        load(totals.intact_utilization, totals.intact_bytes),
    )
}
