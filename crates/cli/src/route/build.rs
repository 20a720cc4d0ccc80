//! From an outcome to the document that is shown.

use super::document::{
    Document, FORMAT, IngressRow, LinkRow, NetworkFacts, NodeRow, SchemeRow, SolutionFacts, Verdict,
};
use crate::args::route::RouteArgs;
use crate::format;
use crate::plan::{common::MapFacts, scenario::label, watch::Progress};
use oncewire_plan::ra::{Cost, LoadLimit, Objective, Outcome, Request, Unfinished};
use oncewire_plan::{LinkId, Network, NodeId, network::Role};
use oncewire_report::Unit;

pub(super) fn document(
    args: &RouteArgs,
    request: &Request<'_>,
    outcome: &Outcome,
    watch: &Progress,
) -> Document {
    let network = request.network;
    let plain: f64 = outcome.shortest.plain.iter().sum();
    let reduction = |value: f64| share_saved(value, plain);
    let shortest_reduction = reduction(outcome.shortest.footprint);
    let of_routes = reduction(outcome.judged.footprint);
    let busiest = |loads: &[f64]| {
        let utilizations = loads.iter().zip(&outcome.capacities);
        utilizations.filter_map(|(load, capacity)| Some(load / (*capacity)?)).reduce(f64::max)
    };
    let mut volumes = vec![0.0; network.nodes.len()];
    for (ingress, classes) in &request.ingresses {
        volumes[*ingress] += classes.bytes() * outcome.scale;
    }
    let trees = |ingress: NodeId| outcome.routes.of(ingress).count();
    let egresses =
        |ingress: NodeId| outcome.routes.of(ingress).next().map_or(0, |slice| slice.paths.len());
    let mut notes = Vec::new();
    if outcome.repair > 1e-3 {
        notes.push(format!(
            "Making the paths of an ingress a tree has cost up to {} of its footprint.",
            percent(outcome.repair)
        ));
    }
    notes.extend(interrupted(outcome).into_iter().map(|note| note + "."));
    Document {
        format: FORMAT,
        network: NetworkFacts {
            map: MapFacts::new(network, outcome.ingresses.len()),
            pairs: outcome.ingresses.iter().map(|of| egresses(of.ingress)).sum(),
        },
        settings: settings(args, request, volumes.iter().sum()),
        verdict: Verdict {
            headline: headline(request, shortest_reduction, of_routes, outcome),
            shortest_reduction,
            reduction: of_routes,
            shortest_utilization: busiest(&outcome.shortest.loads),
            utilization: busiest(&outcome.judged.loads),
        },
        solution: SolutionFacts {
            objective: objective(request),
            value: outcome.value,
            bound: outcome.bound,
            gap: outcome.gap(),
            stopped: outcome.stopped,
            repair: outcome.repair,
            trees: outcome.routes.slices.len(),
            seconds: watch.seconds().iter().map(|(_, seconds)| seconds).sum(),
        },
        schemes: outcome
            .schemes
            .iter()
            .map(|scheme| SchemeRow {
                name: scheme.name,
                footprint: scheme.footprint,
                reduction: reduction(scheme.footprint),
                utilization: scheme.utilization,
                about: about(scheme.name),
            })
            .collect(),
        ingresses: outcome
            .ingresses
            .iter()
            .map(|of| IngressRow {
                node: network.nodes[of.ingress].id.clone(),
                label: label(network, of.ingress),
                egresses: egresses(of.ingress),
                volume_bytes: volumes[of.ingress],
                shortest_reduction: share_saved(of.shortest, of.plain),
                reduction: share_saved(of.value, of.plain),
                bound: of.bound.map(|bound| share_saved(bound, of.plain)),
                gap: of.gap(),
                trees: trees(of.ingress),
            })
            .collect(),
        nodes: nodes(network, &volumes),
        links: links(request, outcome),
        notes,
    }
}

fn nodes(network: &Network, volumes: &[f64]) -> Vec<NodeRow> {
    network
        .nodes
        .iter()
        .zip(NodeId::all())
        .map(|(node, number)| NodeRow {
            id: node.id.clone(),
            label: label(network, number),
            pop: node.pop,
            access: node.role == Role::Access,
            position: node.position,
            volume_bytes: volumes[number],
        })
        .collect()
}

fn links(request: &Request<'_>, outcome: &Outcome) -> Vec<LinkRow> {
    let network = request.network;
    network
        .links
        .iter()
        .zip(LinkId::all())
        .map(|(link, number)| {
            let capacity = outcome.capacities[number];
            LinkRow {
                from: link.from.0,
                to: link.to.0,
                eliminates: request.eliminates.get(number.index()) != Some(&false),
                plain_bytes: outcome.shortest.copies[number],
                shortest_bytes: outcome.shortest.loads[number],
                bytes: outcome.judged.loads[number],
                capacity: capacity.map(|bytes| bytes * 8.0 / request.interval.0),
                shortest_utilization: capacity.map(|bytes| outcome.shortest.loads[number] / bytes),
                utilization: capacity.map(|bytes| outcome.judged.loads[number] / bytes),
                price: outcome.link_prices[number],
            }
        })
        .collect()
}

/// What an interruption has left out; empty without one.
pub(super) fn interrupted(outcome: &Outcome) -> Vec<String> {
    let Unfinished { scale, limit, schemes, prefixes, .. } = outcome.unfinished;
    let mut notes = Vec::new();
    if !outcome.stopped {
        return notes;
    }
    notes.push(match outcome.bound > 0.0 {
        true => "Interrupted: these are the best routes so far, with their gap".to_owned(),
        false => "Interrupted: these are the best routes so far, and there is no bound yet".into(),
    });
    let missing = [
        (limit, "The routes do not keep the limit yet"),
        (scale, "The traffic is scaled by the best routes without elimination so far"),
        (schemes, "The schemes that need other routes are missing"),
        (prefixes, "The sources are not divided among the trees"),
    ];
    notes.extend(missing.iter().filter(|note| note.0).map(|note| note.1.to_owned()));
    notes
}

/// The part of `whole` that `value` leaves out. What comes of sums in another order is none.
fn share_saved(value: f64, whole: f64) -> f64 {
    let share = if whole > 0.0 { 1.0 - value / whole } else { 0.0 };
    if share.abs() < 1e-9 { 0.0 } else { share }
}

fn percent(share: f64) -> String {
    format::number(share, Unit::Share)
}

fn headline(request: &Request<'_>, shortest: f64, reduction: f64, outcome: &Outcome) -> String {
    let no_bound = outcome.stopped && outcome.bound <= 0.0;
    if request.objective == Objective::Load {
        let of =
            |name: &str| outcome.schemes.iter().find(|scheme| scheme.name == name)?.utilization;
        let beside = of("SP-Optimal").map_or_else(String::new, |other| {
            format!(
                " Elimination on routes that ignore redundancy would reach {:.1} %.",
                100.0 * other
            )
        });
        let bound = match no_bound {
            true => "; there is no bound yet".to_owned(),
            false => format!(", and no routes to less than {:.1} %", 100.0 * outcome.bound),
        };
        return format!(
            "These routes load the busiest link to {:.1} %{bound}.{beside}",
            100.0 * outcome.value,
        );
    }
    let most = 100.0 * (1.0 - (1.0 - reduction) * (1.0 - outcome.gap()));
    let bound = match no_bound {
        true => "There is no bound yet.".to_owned(),
        false => format!("No routes cut more than {most:.1} %."),
    };
    format!(
        "These routes cut the footprint by {:.1} %, elimination on shortest paths by {:.1} %. {bound}",
        100.0 * reduction,
        100.0 * shortest,
    )
}

fn objective(request: &Request<'_>) -> String {
    let limit = match request.objective {
        Objective::Load => return "utilization of the busiest link".into(),
        Objective::Footprint => String::new(),
        Objective::FootprintWithin(LoadLimit::Given(limit)) => {
            format!("; no link above {}", percent(limit))
        }
        Objective::FootprintWithin(LoadLimit::Shortest(times)) => {
            format!("; no link above {times} times the busiest on shortest paths")
        }
        Objective::FootprintWithin(LoadLimit::Least(times)) => {
            format!("; no link above {times} times the least possible load")
        }
    };
    let footprint: String = match request.cost {
        Cost::Latency => "footprint: bytes times milliseconds of latency, over all links".into(),
        Cost::Hops => "footprint: bytes times links".into(),
    };
    footprint + &limit
}

fn about(scheme: &str) -> &'static str {
    match scheme {
        "SP" => "shortest paths, no elimination",
        "SP-RE" => "shortest paths, elimination on links",
        "LP-SP" => "least load without elimination",
        "SP-Optimal" => "elimination on LP-SP, ideal splits",
        "LP-SP with RE" => "elimination on LP-SP, as trees",
        "RA-Heuristic" => "packets choose among these paths",
        "RA" => "these routes",
        "RA by prefixes" => "each slice with its sources",
        _ => "",
    }
}

fn settings(args: &RouteArgs, request: &Request<'_>, bytes: f64) -> Vec<(String, String)> {
    let mut settings = match &args.profile {
        Some(path) => vec![("traffic", format!("as counted in {}", path.display()))],
        None => vec![
            ("traffic", "gravity, by population".to_owned()),
            ("rho", format!("{} of the traffic is redundant", percent(args.rho))),
            ("inter", format!("{} of the duplicates go to another egress", percent(args.inter))),
        ],
    };
    let rate = format::number(bytes * 8.0 / request.interval.0, Unit::BitsPerSecond);
    settings.extend([
        ("volume", format!("{rate} enter")),
        ("interval", format::number(request.interval.0, Unit::Seconds)),
        ("cost", if request.cost == Cost::Latency { "latency" } else { "hops" }.into()),
    ]);
    if let Some(load) = request.plain_load {
        settings.push((
            "scaled so that",
            format!("the least possible load without elimination is {}", percent(load)),
        ));
    }
    if let [capacity] = args.capacity[..] {
        let rate = format::number(capacity, Unit::BitsPerSecond);
        settings.push(("capacity", format!("{rate} where the map gives none")));
    }
    if request.safety_net {
        settings.push(("safety net", "all copies fit the capacities".into()));
    }
    if !request.eliminates.is_empty() {
        let links = request.eliminates.iter().filter(|&&eliminates| eliminates).count();
        settings.push(("elimination", format!("on {links} of {} links", request.eliminates.len())));
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
