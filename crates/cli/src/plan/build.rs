//! From solution and evaluation to the document that is shown.

use super::common::MapFacts;
use super::document::{
    Bought, Changes, Deployed, DeviceRow, Document, FORMAT, Goal, IngressRow, LinkRow,
    ManifestFacts, NetworkFacts, NodeRow, Scheme, SolutionFacts, Upgrade, Verdict,
};
use super::scenario::{self, Scenario};
use super::watch::{Progress, stage_name};
use super::{about, choice, failing, money};
use crate::args::plan::MoneyArgs;
use crate::format::counted;
use crate::quantity::bytes;
use oncewire_plan::baseline::{self, Comparison};
use oncewire_plan::evaluate::{Evaluation, Footprint, Use};
use oncewire_plan::manifest::{self, Plan};
use oncewire_plan::network::Role;
use oncewire_plan::placement::{self, MORE_OPERATIONS, Resource};
use oncewire_plan::verdict::EQUAL;
use oncewire_plan::{EachIngress, Instance, LinkId, Outcome, Request, Solution};
use oncewire_plan::{NodeId, lp::Objective};
use std::collections::HashMap;

/// Changes of a plan that are told one by one.
const CHANGES: usize = 50;

/// What there is to show and to write.
pub(super) struct Built {
    pub(super) document: Document,
    pub(super) plan: Option<Plan>,
}

/// The document of a plan.
pub(super) fn whole(
    (request, prices): (&Request, &MoneyArgs),
    scenario: &mut Scenario,
    outcome: Outcome,
    watch: &Progress,
) -> Built {
    let mut notes = Vec::new();
    if let Some(node) = &request.single {
        notes.push(format!(
            "Only what enters at {node:?}, with its share of each device, by volume."
        ));
    }
    if !outcome.hours.is_empty() {
        let saved = |hour: &Footprint| format!("{:.1} %", 100.0 * hour.reduction());
        let saved: Vec<String> = outcome.hours.iter().map(saved).collect();
        notes.push(format!(
            "The plan is within every limit in each of the {} hours. In the order given it saves {} of their footprints. Volumes shown are their mean, and so is the footprint above; it is compared with no other scheme.",
            saved.len(),
            saved.join(", ")
        ));
    }
    if outcome.capacities_unknown {
        notes.push(
            "The map has no link capacities, so utilization is unknown. Set one with --capacity."
                .into(),
        );
    }
    if let (Some(capacity), 1..) = (request.capacity, outcome.assumed_capacities) {
        let rate = crate::format::number(capacity.0, oncewire_trace::results::Unit::BitsPerSecond);
        let all = outcome.assumed_capacities == outcome.instance.network.links.len();
        let count = if all { "all".to_owned() } else { outcome.assumed_capacities.to_string() };
        scenario.settings.push((
            "capacity".into(),
            format!("{rate} assumed for {count} links, whose own is not known"),
        ));
    }
    let document = document((request, prices), scenario, &outcome, seconds(watch), notes);
    Built { document, plan: Some(outcome.plan) }
}

/// Name and seconds of each stage.
fn seconds(watch: &Progress) -> Vec<(&'static str, f64)> {
    watch
        .seconds()
        .into_iter()
        .filter_map(|(stage, seconds)| Some((stage_name(stage)?, seconds)))
        .collect()
}

fn document(
    (request, prices): (&Request, &MoneyArgs),
    scenario: &Scenario,
    outcome: &Outcome,
    seconds: Vec<(&'static str, f64)>,
    mut notes: Vec<String>,
) -> Document {
    let Outcome { instance, solution, evaluation, schemes, plan, .. } = outcome;
    let labels = Labels::new(instance);
    let footprint = evaluation.footprint;
    let ideal = of(schemes, baseline::Scheme::Ideal).map(|ideal| ideal.footprint.reduction());
    let utilization = outcome.highest_utilization();
    let choice = outcome.verdict.as_ref().map(|verdict| choice::choice(instance, verdict));
    let with = decoders(request, outcome);
    let failures = failing::rows(instance, &outcome.failures, &|node| labels.node(node));
    let worst_failures = failing::totals(&failures, &outcome.intact);
    let mut verdict = Verdict {
        headline: match (request.objective, utilization) {
            (Objective::LinkLoad { .. }, Some([before, after])) => format!(
                "{}{with} loads the busiest link to {:.1} % of its capacity instead of {:.1} %, and cuts the bytes carried by all links by {:.1} %.{}",
                plan_of(solution.gap()),
                100.0 * after,
                100.0 * before,
                100.0 * footprint.reduction(),
                hop_by_hop_load(instance, schemes, after)
            ),
            _ => match &choice {
                Some(choice) => choice::headline(choice, &with, solution.gap() <= BEST),
                None => headline(&with, footprint.reduction(), solution.gap()),
            },
        },
        footprint_before: footprint.before,
        footprint_after: footprint.after(),
        reduction: footprint.reduction(),
        of_ideal: ideal.map(|ideal| share(footprint.reduction(), ideal)),
        by_all_copies: outcome.copies.map(|copies| match copies.taken {
            true => copies.best,
            false => copies.optimum,
        }),
        utilization_before: utilization.map(|both| both[0]),
        utilization_after: utilization.map(|both| both[1]),
    };
    if let Some(hours) = in_each(&outcome.hours) {
        verdict.headline = format!("{} {hours}", verdict.headline);
    }
    if let Some(worst) = &worst_failures {
        verdict.headline = format!("{} {}", verdict.headline, failing::headline(worst));
    }
    if let Some(copies) = &outcome.copies {
        if copies.taken {
            verdict.headline = format!("{} {}", verdict.headline, choice::taken(copies));
        } else {
            notes.extend(choice::offer(copies));
        }
    }
    if let Some(note) = coding_note(instance) {
        notes.push(note);
    }
    Document {
        format: FORMAT,
        network: facts(instance),
        settings: scenario.settings.clone(),
        verdict,
        choice,
        solution: SolutionFacts {
            objective: match request.objective {
                Objective::Footprint => Goal::Footprint,
                Objective::LinkLoad { .. } => Goal::LinkLoad,
            },
            value: solution.objective,
            bound: solution.bound,
            gap: solution.gap(),
            method: solution.method.to_string(),
            iterations: solution.iterations,
            seconds,
            ranges: plan.paths().iter().map(|path| path.ranges.len()).sum(),
        },
        schemes: scheme_rows(instance, schemes),
        ingresses: ingress_rows(instance, &labels, evaluation, schemes),
        nodes: node_rows(instance, &labels),
        links: link_rows(instance, evaluation),
        devices: device_rows(instance, &labels, evaluation, solution),
        upgrades: upgrades(request.objective, outcome, &labels),
        bought: bought(request, outcome, &labels),
        money: outcome.verdict.as_ref().and_then(|verdict| money::money(prices, instance, verdict)),
        failures,
        worst_failures,
        deployment: outcome
            .deployment
            .iter()
            .map(|&oncewire_plan::Deployed { device, reduction }| Deployed {
                link: instance.device_name(device.index()),
                label: labels.device(instance, device.index()),
                reduction,
            })
            .collect(),
        manifests: Some(manifests(plan)),
        changes: request.against.as_ref().map(|old| changes(instance, &labels, old, plan)),
        notes,
    }
}

/// The document of `--single all`: each ingress alone.
pub(super) fn singles(scenario: &Scenario, outcome: &EachIngress, watch: &Progress) -> Built {
    let EachIngress { instance, schemes: outcomes } = outcome;
    let labels = Labels::new(instance);
    let mut sums: Vec<(baseline::Scheme, f64, f64)> = Vec::new();
    let mut ingresses = Vec::new();
    let mut worst_gap = 0.0f64;
    for (slices, schemes) in instance.stores().zip(outcomes) {
        let ingress = &instance.ingresses[slices.start];
        for (at, scheme) in schemes.iter().enumerate() {
            if sums.len() == at {
                sums.push((scheme.scheme, 0.0, 0.0));
            }
            sums[at].1 += scheme.footprint.before;
            sums[at].2 += scheme.footprint.saved;
            worst_gap = worst_gap.max(scheme.gap);
        }
        let smart = of(schemes, baseline::Scheme::SmartRe);
        let ours = smart.map_or(0.0, |ours| ours.footprint.reduction());
        // The shares of its paths' hops alone.
        let mut shares = smart.and_then(|ours| ours.cached.as_deref()).unwrap_or_default().iter();
        let covered = |path: usize| {
            shares.by_ref().take(instance.paths[path].hops.len()).sum::<f64>()
                * instance.paths[path].volume
        };
        let paths = || slices.clone().flat_map(|slice| instance.paths_of(slice));
        let stored: f64 = paths().map(covered).sum();
        ingresses.push(IngressRow {
            node: instance.network.nodes[ingress.node].id.clone(),
            label: labels.node(ingress.node).to_owned(),
            paths: paths().count(),
            volume_bytes: paths().map(|path| instance.paths[path].volume).sum(),
            reduction: ours,
            schemes: schemes
                .iter()
                .map(|scheme| (scheme.scheme.name().to_owned(), scheme.footprint.reduction()))
                .collect(),
            memory_share: share(stored, ingress.memory),
        });
    }
    let total =
        |scheme| sums.iter().find(|sum| sum.0 == scheme).map_or((0.0, 0.0), |sum| (sum.1, sum.2));
    let (before, saved) = total(baseline::Scheme::SmartRe);
    let ideal = share(total(baseline::Scheme::Ideal).1, before);
    let mut reductions: Vec<f64> = ingresses.iter().map(|row| row.reduction).collect();
    reductions.sort_by(f64::total_cmp);
    let median = reductions.get(reductions.len() / 2).copied().unwrap_or(0.0);
    let (least, most) =
        (reductions.first().copied().unwrap_or(0.0), reductions.last().copied().unwrap_or(0.0));
    let document = Document {
        format: FORMAT,
        network: facts(instance),
        settings: scenario.settings.clone(),
        verdict: Verdict {
            headline: format!(
                "Alone, with its share of the devices, an ingress saves {:.1} % of its footprint at the median, {:.1} to {:.1} % over all.",
                100.0 * median,
                100.0 * least,
                100.0 * most
            ),
            footprint_before: before,
            footprint_after: before - saved,
            reduction: share(saved, before),
            of_ideal: Some(share(share(saved, before), ideal)),
            by_all_copies: None,
            utilization_before: None,
            utilization_after: None,
        },
        solution: SolutionFacts {
            objective: Goal::FootprintOfEach,
            value: saved,
            bound: saved / (1.0 - worst_gap),
            gap: worst_gap,
            method: "one program for each ingress".into(),
            iterations: 0,
            seconds: seconds(watch),
            ranges: 0,
        },
        schemes: sums
            .iter()
            .map(|&(scheme, before, saved)| Scheme {
                name: scheme.name().to_owned(),
                reduction: share(saved, before),
                of_ideal: share(share(saved, before), ideal),
                devices: None,
                memory_bytes: None,
                operations_per_second: None,
                about: about(scheme),
            })
            .collect(),
        ingresses,
        nodes: node_rows(instance, &labels),
        notes: vec!["Each ingress alone, with its share of each device, by volume.".into()],
        ..Document::default()
    };
    Built { document, plan: None }
}

/// Gap up to which a plan is called the best one.
const BEST: f64 = 1e-3;

fn plan_of(gap: f64) -> &'static str {
    if gap <= BEST { "The best plan" } else { "The plan found" }
}

/// What hop-by-hop elimination loads the busiest link to, and which of the two is better for that.
fn hop_by_hop_load(instance: &Instance, schemes: &[Comparison], ours: f64) -> String {
    let Some(hop) = of(schemes, baseline::Scheme::HopByHop) else { return String::new() };
    let loads = instance.network.links.iter().zip(&hop.links).filter_map(|(link, bytes)| {
        link.capacity.map(|capacity| bytes * 8.0 / instance.epoch.0 / capacity.0)
    });
    let theirs = loads.fold(0.0, f64::max);
    let less = |one: f64, other: f64| one < other * (1.0 - EQUAL);
    let best = match (less(theirs, ours), less(ours, theirs)) {
        (true, _) => "hop-by-hop",
        (_, true) => "SmartRE",
        _ => "neither",
    };
    format!(
        " Hop-by-hop elimination with the same devices loads it to {:.1} %: {best} is better for that.",
        100.0 * theirs
    )
}

/// Where decoders are, if only some links were to have them.
fn decoders(request: &Request, outcome: &Outcome) -> String {
    if let Some(bought) = &outcome.purchase {
        return format!(
            " with {} and {}",
            counted(bought.encoders.len() as u64, "encoder"),
            counted(bought.decoders.len() as u64, "decoder")
        );
    }
    let Some(deploy) = request.deploy else { return String::new() };
    let candidates = placement::interior(&outcome.instance).len();
    let built = outcome.deployment.len();
    if built == deploy.links {
        format!(" with decoders on {built} of {candidates} links")
    } else {
        format!(" with decoders on {built} of {candidates} links, as more save nothing,")
    }
}

/// What a plan for several hours saves in each.
fn in_each(hours: &[Footprint]) -> Option<String> {
    let saved = || hours.iter().map(|hour| 100.0 * hour.reduction());
    let (least, most) = (saved().reduce(f64::min)?, saved().reduce(f64::max)?);
    Some(format!("In each of the {} hours it saves {least:.1} to {most:.1} %.", hours.len()))
}

fn headline(with: &str, reduction: f64, gap: f64) -> String {
    let best = plan_of(gap);
    format!("{best}{with} cuts the bytes carried by all links by {:.1} %.", 100.0 * reduction)
}

/// An ingress that cannot fingerprint all its packets limits everything behind it: worth a word.
fn coding_note(instance: &Instance) -> Option<String> {
    let least = (0..instance.ingresses.len())
        .map(|ingress| instance.coded(ingress))
        .min_by(f64::total_cmp)?;
    (least < 1.0).then(|| {
        format!(
            "At the busiest ingress the encoder can fingerprint {:.0} % of the packets only; faster encoders would save more.",
            100.0 * least
        )
    })
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn of(schemes: &[Comparison], scheme: baseline::Scheme) -> Option<&Comparison> {
    schemes.iter().find(|outcome| outcome.scheme == scheme)
}

fn facts(instance: &Instance) -> NetworkFacts {
    let hops: usize = instance.paths.iter().map(|path| path.links.len()).sum();
    NetworkFacts {
        map: MapFacts::new(&instance.network, instance.store_count()),
        paths: instance.paths.len(),
        devices: instance.devices.len(),
        variables: instance.hop_count(),
        mean_hops: share(hops as f64, instance.paths.len() as f64),
        epoch_seconds: instance.epoch.0,
        packet_bytes: instance.packet.0,
        volume_bytes: instance.ingresses.iter().map(|ingress| ingress.volume).sum(),
    }
}

/// What people call a network's nodes: their labels, with ids where several have one.
struct Labels(Vec<String>);

impl Labels {
    fn new(instance: &Instance) -> Labels {
        let nodes = &instance.network.nodes;
        let mut owners: HashMap<&str, u32> = HashMap::new();
        nodes.iter().for_each(|node| *owners.entry(&node.label).or_default() += 1);
        let label = |node: &oncewire_plan::network::Node| match owners[node.label.as_str()] {
            _ if node.label.trim().is_empty() => node.id.clone(),
            1 => node.label.clone(),
            _ => format!("{} ({})", node.label, node.id),
        };
        Labels(nodes.iter().map(label).collect())
    }

    fn node(&self, node: NodeId) -> &str {
        &self.0[node]
    }

    fn device(&self, instance: &Instance, device: usize) -> String {
        let device = &instance.devices[device];
        match device.link.map(|link| &instance.network.links[link]) {
            Some(link) => format!("{} -> {}", self.node(link.from), self.node(link.to)),
            None => self.node(device.node).to_owned(),
        }
    }
}

fn scheme_rows(instance: &Instance, schemes: &[Comparison]) -> Vec<Scheme> {
    let ideal =
        of(schemes, baseline::Scheme::Ideal).map_or(0.0, |ideal| ideal.footprint.reduction());
    let row = |outcome: &Comparison| Scheme {
        name: outcome.scheme.name().to_owned(),
        reduction: outcome.footprint.reduction(),
        of_ideal: share(outcome.footprint.reduction(), ideal),
        devices: outcome.cost.map(|cost| cost.devices()),
        memory_bytes: outcome.cost.map(|cost| cost.work.memory),
        operations_per_second: outcome.cost.map(|cost| cost.work.operations / instance.epoch.0),
        about: about(outcome.scheme),
    };
    schemes.iter().map(row).collect()
}

fn ingress_rows(
    instance: &Instance,
    labels: &Labels,
    evaluation: &Evaluation,
    schemes: &[Comparison],
) -> Vec<IngressRow> {
    let row = |(at, ingress): (usize, &oncewire_plan::Ingress)| IngressRow {
        node: instance.network.nodes[ingress.node].id.clone(),
        label: scenario::of_slice(labels.node(ingress.node).to_owned(), ingress.slice),
        paths: ingress.paths.len(),
        volume_bytes: ingress.volume,
        reduction: evaluation.ingresses[at].footprint.reduction(),
        schemes: schemes
            .iter()
            .map(|scheme| (scheme.scheme.name().to_owned(), scheme.ingresses[at].reduction()))
            .collect(),
        memory_share: evaluation.ingresses[at].memory.share(),
    };
    instance.ingresses.iter().enumerate().map(row).collect()
}

fn node_rows(instance: &Instance, labels: &Labels) -> Vec<NodeRow> {
    let mut volumes = vec![0.0; instance.network.nodes.len()];
    for path in &instance.paths {
        volumes[instance.ingresses[path.ingress as usize].node] += path.volume;
        volumes[path.egress] += path.volume;
    }
    let row = |((node, label), volume): ((&oncewire_plan::network::Node, &String), f64)| NodeRow {
        id: node.id.clone(),
        label: label.clone(),
        pop: node.pop,
        role: match node.role {
            Role::Any => "router",
            Role::Access => "access",
            Role::Backbone => "backbone",
        },
        position: node.position,
        population: node.population,
        volume_bytes: volume,
    };
    instance.network.nodes.iter().zip(&labels.0).zip(volumes).map(row).collect()
}

fn link_rows(instance: &Instance, evaluation: &Evaluation) -> Vec<LinkRow> {
    let devices: HashMap<LinkId, u32> = (0..)
        .zip(&instance.devices)
        .filter_map(|(number, device)| device.link.map(|link| (link, number)))
        .collect();
    let row = |(at, link): (usize, &oncewire_plan::network::Link)| {
        let load = &evaluation.links[at];
        LinkRow {
            from: link.from.0,
            to: link.to.0,
            before_bytes: load.before,
            after_bytes: load.after,
            capacity: link.capacity.map(|rate| rate.0),
            utilization_before: load.utilization.map(|both| both[0]),
            utilization_after: load.utilization.map(|both| both[1]),
            device: devices.get(&LinkId::new(at)).copied(),
        }
    };
    instance.network.links.iter().enumerate().map(row).collect()
}

fn device_rows(
    instance: &Instance,
    labels: &Labels,
    evaluation: &Evaluation,
    solution: &Solution,
) -> Vec<DeviceRow> {
    let mut ranges = vec![0; instance.devices.len()];
    for (number, path) in instance.paths.iter().enumerate() {
        for (hop, &cached) in path.hops.iter().zip(solution.of_path(instance, number)) {
            ranges[hop.device] += usize::from(cached > 0.0);
        }
    }
    let part = |of: &Use| of.limit.is_finite().then(|| of.share());
    let row = |(at, device): (usize, &oncewire_plan::Device)| {
        let found = &evaluation.devices[at];
        DeviceRow {
            name: instance.device_name(at),
            label: labels.device(instance, at),
            node: device.node.0,
            ranges: ranges[at],
            memory_used: found.memory.used,
            memory_share: part(&found.memory),
            operations_used: found.operations.used,
            operations_share: part(&found.operations),
        }
    };
    instance.devices.iter().enumerate().map(row).collect()
}

fn bought(request: &Request, outcome: &Outcome, labels: &Labels) -> Option<Bought> {
    let (found, buy) = (outcome.purchase.as_ref()?, request.buy?);
    let instance = &outcome.instance;
    let decoder = |at: usize| (instance.device_name(at), labels.device(instance, at));
    let encoder = |at: usize| {
        let node = instance.ingresses[at].node;
        (instance.network.nodes[node].id.clone(), labels.node(node).to_owned())
    };
    Some(money::bought(found, (instance, &buy.tariff), decoder, encoder))
}

fn upgrades(objective: Objective, outcome: &Outcome, labels: &Labels) -> Vec<Upgrade> {
    let instance = &outcome.instance;
    let whole = match objective {
        Objective::Footprint => instance.footprint(),
        Objective::LinkLoad { .. } => 1.0,
    };
    let names = |at: usize| (instance.device_name(at), labels.device(instance, at));
    let row = |upgrade: &placement::Upgrade| {
        let ((device, label), resource, by) = match upgrade.resource {
            Resource::Memory(at) => (names(at), "cache", bytes(upgrade.amount as u64)),
            Resource::Operations(at) => {
                (names(at), "operations", format!("{:.0} %", 100.0 * MORE_OPERATIONS))
            }
            Resource::IngressMemory(at) => {
                let node = instance.ingresses[at].node;
                let names = (instance.network.nodes[node].id.clone(), labels.node(node).to_owned());
                (names, "packet store", bytes(upgrade.amount as u64))
            }
        };
        Upgrade {
            device,
            label,
            resource,
            by,
            gain: upgrade.gain,
            gain_share: upgrade.gain.map(|gain| share(gain, whole)),
            bound: upgrade.bound,
            bound_share: share(upgrade.bound, whole),
        }
    };
    outcome.upgrades.iter().map(row).collect()
}

fn manifests(plan: &Plan) -> ManifestFacts {
    let devices: Vec<usize> =
        plan.device_manifests().iter().map(|manifest| manifest.to_json().len()).collect();
    let ingresses: Vec<usize> =
        plan.ingress_manifests().iter().map(|manifest| manifest.to_json().len()).collect();
    let mean = |sizes: &[usize]| share(sizes.iter().sum::<usize>() as f64, sizes.len() as f64);
    ManifestFacts {
        version: plan.version(),
        devices: devices.len(),
        mean_bytes: mean(&devices),
        largest_bytes: devices.iter().copied().max().unwrap_or(0),
        ingress_mean_bytes: mean(&ingresses),
    }
}

fn changes(instance: &Instance, labels: &Labels, old: &Plan, new: &Plan) -> Changes {
    let found = manifest::diff(old, new);
    let mut devices: Vec<_> = found.devices.iter().collect();
    devices.sort_by(|a, b| b.useless.cmp(&a.useless).then_with(|| a.name.cmp(&b.name)));
    let known: HashMap<String, String> = (0..instance.devices.len())
        .map(|device| (instance.device_name(device), labels.device(instance, device)))
        .collect();
    let line = |device: &&manifest::DeviceDiff| {
        let lost = bytes(device.useless);
        format!(
            "{}: {} changed, {lost} of cache useless",
            known.get(&device.name).unwrap_or(&device.name),
            counted(device.changes.len() as u64, "range")
        )
    };
    Changes {
        from_version: found.from,
        devices: devices.len(),
        moved: found.totals.hands,
        lost_bytes: found.totals.useless as f64,
        lines: devices.iter().take(CHANGES).map(line).collect(),
    }
}
