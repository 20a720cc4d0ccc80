//! Plans of invented numbers: over a given map, over an invented one, with names and numbers that mean harm, and of nothing.

use super::super::common::MapFacts;
use super::super::document::{
    Bought, BoughtDevice, Changes, Choice, Deployed, DeviceRow, Document, FORMAT, FailureRow, Goal,
    IngressRow, Limited, LinkRow, ManifestFacts, Money, NetworkFacts, NodeRow, Payback, Scheme,
    SolutionFacts, Standing, Upgrade, Verdict,
};
pub(super) use oncewire_testkit::figures::HOSTILE;
use oncewire_testkit::figures::noise;
use std::collections::VecDeque;

/// A PoP: its name, where it is, how many live there.
pub(super) struct Pop {
    pub(super) label: String,
    pub(super) position: Option<[f64; 2]>,
    pub(super) population: f64,
}

/// A plan over that map, with that many access routers per PoP.
pub(super) fn plan(name: &str, pops: &[Pop], cables: &[(usize, usize)], access: usize) -> Document {
    let nodes = node_rows(pops, access);
    let (links, devices) = link_rows(pops, cables, access, &nodes);
    let sum = |of: fn(&LinkRow) -> f64| links.iter().map(of).sum::<f64>();
    let (before, after) = (sum(|link| link.before_bytes), sum(|link| link.after_bytes));
    let highest = |of: fn(&LinkRow) -> Option<f64>| links.iter().filter_map(of).fold(0.0, f64::max);
    let reduction = if before > 0.0 { 1.0 - after / before } else { 0.0 };
    let ingresses = ingress_rows(&nodes, access, reduction);
    let wires: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    Document {
        format: FORMAT,
        network: NetworkFacts {
            map: MapFacts {
                name: name.into(),
                source: "Rocketfuel ISP maps 2002 (Spring, Mahajan, Wetherall, SIGCOMM 2002)"
                    .into(),
                derivation: vec![
                    format!("{access} access routers added to each of {} PoPs", pops.len()),
                    "Shortest paths by weight".into(),
                ],
                nodes: nodes.len(),
                links: links.len(),
                ingresses: ingresses.len(),
            },
            paths: ingresses.len() * ingresses.len().saturating_sub(1),
            devices: devices.len(),
            variables: 410_233,
            mean_hops: 5.3,
            epoch_seconds: 10.0,
            packet_bytes: 1000.0,
            volume_bytes: 3e9 * pops.len() as f64,
        },
        settings: [
            ("traffic", "gravity, by the cities' populations"),
            ("load", "50 % of the ingress rate at the largest ingress"),
            ("profile", "synthetic, gamma 50 %, intra-PoP 50 %, intra-path 50 %"),
            ("ingress memory", "3 GB at 2.4 Gbit/s"),
            ("devices", "6 GB inside, 3 GB at edges, 2.5 million operations per second"),
            ("seed", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        verdict: Verdict {
            headline: format!(
                "SmartRE would carry this traffic with {:.1} % less footprint, 86 % of what is possible at all.",
                reduction * 100.0
            ),
            footprint_before: before,
            footprint_after: after,
            reduction,
            of_ideal: Some(0.861),
            by_all_copies: None,
            utilization_before: Some(highest(|link| link.utilization_before)),
            utilization_after: Some(highest(|link| link.utilization_after)),
        },
        solution: SolutionFacts {
            objective: Goal::Footprint,
            value: before - after,
            bound: (before - after) * 1.000_000_4,
            gap: 4e-7,
            method: "interior point on the prices of devices".into(),
            iterations: 23,
            seconds: vec![("paths", 0.02), ("profile", 0.31), ("solution", 0.71), ("schemes", 1.9)],
            ranges: 77_000,
        },
        choice: Some(choice(reduction)),
        schemes: schemes(reduction),
        ingresses,
        upgrades: upgrades(&wires),
        bought: Some(bought(&wires)),
        money: Some(Money {
            price_device: Some(8_000.0),
            price_link: Some(0.002),
            smartre: Payback { price: Some(2e6), saved_per_month: Some(1e5), months: Some(20.0) },
            ..Money::default()
        }),
        failures: failures(&wires),
        worst_failures: None,
        deployment: deployment(&wires, reduction),
        manifests: Some(ManifestFacts {
            version: 7,
            devices: devices.len(),
            mean_bytes: 1_530.0,
            largest_bytes: 4_211,
            ingress_mean_bytes: 8_200.0,
        }),
        changes: Some(changes(&wires)),
        notes: vec![
            "Mean packet size and offered load are not measured: they are what was assumed.".into(),
            "Reduced to the PoPs of highest degree, ties by id.".into(),
        ],
        nodes,
        links,
        devices,
    }
}

/// Bytes from PoP to PoP on each cable, without and with the plan: gravity traffic on shortest paths.
fn loads(pops: &[Pop], cables: &[(usize, usize)]) -> Vec<Vec<(f64, f64)>> {
    let mut neighbours = vec![Vec::new(); pops.len()];
    for &(a, b) in cables {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let whole: f64 = pops.iter().map(|pop| pop.population).sum();
    let mut loads = vec![vec![(0.0, 0.0); pops.len()]; pops.len()];
    for from in 0..pops.len() {
        let mut parent = vec![usize::MAX; pops.len()];
        parent[from] = from;
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &next in &neighbours[at] {
                if parent[next] == usize::MAX {
                    parent[next] = at;
                    queue.push_back(next);
                }
            }
        }
        for to in 0..pops.len() {
            let volume = 3e9 * pops.len() as f64 * pops[from].population / whole
                * pops[to].population
                / whole;
            let mut way = vec![to];
            while parent[*way.last().unwrap()] != usize::MAX && *way.last().unwrap() != from {
                way.push(parent[*way.last().unwrap()]);
            }
            for (hops, pair) in way.windows(2).rev().enumerate() {
                let load = &mut loads[pair[1]][pair[0]];
                load.0 += volume;
                load.1 += volume * (1.0 - 0.47 / (1.0 + hops as f64 * 0.2));
            }
        }
    }
    loads
}

fn node_rows(pops: &[Pop], access: usize) -> Vec<NodeRow> {
    let whole: f64 = pops.iter().map(|pop| pop.population).sum();
    let mut nodes = Vec::new();
    for (at, pop) in pops.iter().enumerate() {
        let volume = 6e9 * pops.len() as f64 * pop.population / whole;
        for router in 0..=access {
            nodes.push(NodeRow {
                id: if router == 0 { format!("{at}") } else { format!("{at}+{router}") },
                label: if router == 0 {
                    pop.label.clone()
                } else {
                    format!("{} access {router}", pop.label)
                },
                pop: at as u32,
                role: if router == 0 { "backbone" } else { "access" },
                position: pop.position,
                population: Some(pop.population),
                volume_bytes: if access == 0 {
                    volume
                } else if router == 0 {
                    0.0
                } else {
                    volume / access as f64
                },
            });
        }
    }
    nodes
}

fn link_rows(
    pops: &[Pop],
    cables: &[(usize, usize)],
    access: usize,
    nodes: &[NodeRow],
) -> (Vec<LinkRow>, Vec<DeviceRow>) {
    let mut random = noise(11);
    let whole: f64 = pops.iter().map(|pop| pop.population).sum();
    let loads = loads(pops, cables);
    let core = |pop: usize| (pop * (access + 1)) as u32;
    let (mut links, mut devices) = (Vec::new(), Vec::new());
    let mut add =
        |from: u32, to: u32, (before, after): (f64, f64), interior: bool, capacity: f64| {
            let fill = (before / 2.0e10).min(1.0);
            let (memory, limit) = if interior { (6e9, 2.5e7) } else { (3e9, 2.5e7) };
            let memory_share = (0.25 + 0.9 * fill + 0.3 * random()).min(1.0);
            let operations_share = (0.05 + 1.4 * fill + 0.1 * random()).min(1.0);
            let name = |node: u32| nodes[node as usize].label.clone();
            links.push(LinkRow {
                from,
                to,
                before_bytes: before,
                after_bytes: after,
                capacity: Some(capacity),
                utilization_before: Some(before * 8.0 / 10.0 / capacity),
                utilization_after: Some(after * 8.0 / 10.0 / capacity),
                device: Some(devices.len() as u32),
            });
            devices.push(DeviceRow {
                name: format!("{} -> {}", name(from), name(to)),
                label: format!("{} -> {}", name(from), name(to)),
                node: to,
                ranges: (40.0 * fill * random()) as usize,
                memory_used: memory * memory_share,
                memory_share: Some(memory_share),
                operations_used: limit * operations_share,
                operations_share: Some(operations_share),
            });
        };
    for &(a, b) in cables {
        for (a, b) in [(a, b), (b, a)] {
            let capacity = if pops[a].population + pops[b].population > 2e6 { 4e10 } else { 1e10 };
            add(core(a), core(b), loads[a][b], true, capacity);
        }
    }
    for (pop, facts) in pops.iter().enumerate() {
        for router in 1..=access as u32 {
            let volume = 3e9 * pops.len() as f64 * facts.population / whole / access as f64;
            add(core(pop) + router, core(pop), (volume, volume), false, 1e10);
            add(core(pop), core(pop) + router, (volume, volume * 0.8), false, 1e10);
        }
    }
    (links, devices)
}

fn ingress_rows(nodes: &[NodeRow], access: usize, reduction: f64) -> Vec<IngressRow> {
    let mut random = noise(5);
    let entering: Vec<u32> = (0..nodes.len() as u32)
        .filter(|&at| access == 0 || !(at as usize).is_multiple_of(access + 1))
        .collect();
    entering
        .iter()
        .map(|&at| {
            let node = &nodes[at as usize];
            let smart = reduction * (0.8 + 0.4 * random());
            IngressRow {
                node: node.label.clone(),
                label: node.label.clone(),
                paths: entering.len().saturating_sub(1),
                volume_bytes: node.volume_bytes / 2.0,
                reduction: smart,
                schemes: vec![
                    ("Ideal".into(), smart / (0.85 + 0.1 * random())),
                    ("Hop-by-hop".into(), smart * (0.4 + 0.2 * random())),
                    ("Edge-only".into(), smart * (0.2 + 0.2 * random())),
                ],
                memory_share: random(),
            }
        })
        .collect()
}

fn schemes(reduction: f64) -> Vec<Scheme> {
    let scheme = |name: &str, of_ideal: f64, about| Scheme {
        name: name.into(),
        reduction: reduction / 0.86 * of_ideal,
        of_ideal,
        devices: Some(321),
        memory_bytes: Some(1.5e12 * of_ideal),
        operations_per_second: Some(2e8 * of_ideal),
        about,
    };
    vec![
        scheme("Ideal", 1.0, "hop-by-hop elimination without any limit"),
        scheme("SmartRE", 0.861, "this plan"),
        scheme("SmartRE, no memory limits", 0.902, "caches as large as needed"),
        scheme("SmartRE, no processing limits", 0.883, "as many operations as needed"),
        scheme("Heur2", 0.71, "ranges by distance from the ingress, cut at the limits"),
        scheme("Heur1", 0.62, "equal ranges, cut at the limits"),
        scheme("Hop-by-hop", 0.44, "each link on its own, with the same limits"),
        scheme("Edge-only", 0.31, "the ends of each path only"),
    ]
}

fn bought(wires: &[String]) -> Bought {
    let device = |wire: &String| BoughtDevice {
        what: "decoder",
        name: wire.clone(),
        label: wire.clone(),
        price: 8_030.0,
    };
    Bought {
        cost: 4e5,
        reduction: 0.2,
        whole_cost: 2e6,
        whole_reduction: 0.25,
        proven: false,
        devices: wires.iter().take(30).map(device).collect(),
    }
}

fn failures(wires: &[String]) -> Vec<FailureRow> {
    let row = |wire: &String| FailureRow {
        kind: "link",
        name: wire.clone(),
        label: wire.clone(),
        rerouted_paths: 1_234,
        cut_paths: 2,
        cut_share: 0.001,
        footprint_before: 1e12,
        reduction: 0.21,
        busiest_link: Some(wire.clone()),
        busiest_bytes: Some(3e9),
        busiest_utilization: Some(0.93),
        reduction_anew: Some(0.24),
        busiest_link_anew: Some(wire.clone()),
        busiest_bytes_anew: Some(2.9e9),
        busiest_utilization_anew: Some(0.91),
    };
    wires.iter().take(30).map(row).collect()
}

fn choice(reduction: f64) -> Choice {
    let standing = |reduction, times: usize| Standing {
        reduction,
        encoders: 40,
        decoders: 281 * times,
        memory_bytes: 1.5e12 * times as f64,
        operations_per_second: 2e8 * times as f64,
    };
    let limited = |share| Limited { reduction: reduction * share, bound: reduction * share * 1.01 };
    Choice {
        winner: "SmartRE",
        winner_at_equal_cost: "SmartRE",
        smartre: standing(reduction, 1),
        hop_by_hop: standing(reduction * 0.5, 2),
        at_devices: limited(0.45),
        at_memory: limited(0.3),
        at_operations: limited(0.35),
        at_all: limited(0.25),
        smartre_from_load: Some(0.3),
        encoded_there: Some(0.98),
        ..Choice::default()
    }
}

fn upgrades(wires: &[String]) -> Vec<Upgrade> {
    (0..12.min(wires.len()))
        .map(|at| Upgrade {
            device: wires[at].clone(),
            label: wires[at].clone(),
            resource: if at % 3 == 1 { "operations" } else { "memory" },
            by: if at % 3 == 1 { "10 %".into() } else { "1 GB".into() },
            gain: (at < 10).then_some(4e9 / (at + 1) as f64),
            gain_share: (at < 10).then_some(0.004 / (at + 1) as f64),
            bound: 5e9 / (at + 1) as f64,
            bound_share: 0.005 / (at + 1) as f64,
        })
        .collect()
}

fn deployment(wires: &[String], reduction: f64) -> Vec<Deployed> {
    wires
        .iter()
        .take(40)
        .enumerate()
        .map(|(at, link)| Deployed {
            link: link.clone(),
            label: link.clone(),
            reduction: reduction * (1.0 - (-(at as f64 + 1.0) / 12.0).exp()),
        })
        .collect()
}

fn changes(wires: &[String]) -> Changes {
    Changes {
        from_version: 6,
        devices: 41,
        moved: 0.083,
        lost_bytes: 3.1e9,
        lines: wires
            .iter()
            .take(14)
            .map(|name| format!("{name}: caches 12.0 % of the hash space instead of 31.0 %"))
            .collect(),
    }
}

/// Over that many invented cities, mostly in a ring, with chords.
pub(super) fn invented(count: usize) -> Document {
    let mut random = noise(3);
    let pops: Vec<Pop> = (0..count)
        .map(|at| Pop {
            label: format!("City {at}, Land"),
            position: Some([25.0 + 24.0 * random(), -120.0 + 50.0 * random()]),
            population: 1e5 + 4e6 * random().powi(3),
        })
        .collect();
    let mut cables: Vec<(usize, usize)> =
        (0..count).map(|at| (at, (at + 1) % count)).filter(|(a, b)| a != b).collect();
    cables.extend((0..count / 3).map(|at| (at, (at * 7 + 5) % count)).filter(|(a, b)| a != b));
    plan("invented", &pops, &cables, 0)
}

/// 350 routers, of which some have names and numbers that mean harm.
pub(super) fn document() -> Document {
    let mut random = noise(9);
    let pops: Vec<Pop> = (0..70)
        .map(|at| Pop {
            label: format!("PoP {at}"),
            position: Some([-50.0 + 110.0 * random(), 300.0 * random() - 170.0]),
            population: 1e4 + 8e6 * random().powi(4),
        })
        .collect();
    let mut cables: Vec<(usize, usize)> = (1..70).map(|at| (at, at / 3)).collect();
    cables.extend((0..40).map(|at| (at, (at * 11 + 17) % 70)).filter(|(a, b)| a != b));
    let mut document = plan(HOSTILE, &pops, &cables, 4);
    let nowhere = [
        None,
        Some([f64::NAN, 3.0]),
        Some([f64::INFINITY, 0.0]),
        Some([91.0, 0.0]),
        Some([0.0, 1e300]),
    ];
    for (pop, position) in nowhere.into_iter().enumerate() {
        for node in &mut document.nodes[pop * 5..pop * 5 + 5] {
            node.position = position;
        }
    }
    // Two at one place, and a pole.
    document.nodes[30].position = document.nodes[25].position;
    document.nodes[35].position = Some([-90.0, 180.0]);
    document.nodes[0].label = HOSTILE.into();
    document.nodes[5].label = "日本語の長い名前の都市、そしてもっと".into();
    document.nodes[10].label = String::new();
    document.nodes[15].label = "W".repeat(3_000);
    document.nodes[0].volume_bytes = f64::INFINITY;
    document.nodes[6].volume_bytes = f64::NAN;
    document.nodes[11].volume_bytes = -5.0;
    document.links[0].before_bytes = f64::INFINITY;
    document.links[1].after_bytes = f64::NAN;
    document.links[2].utilization_before = Some(f64::INFINITY);
    document.links[3].utilization_after = Some(f64::NAN);
    document.links[4].capacity = Some(0.0);
    document.links[5].device = Some(u32::MAX);
    document.links[6].to = u32::MAX;
    document.devices[0].memory_share = Some(f64::NAN);
    document.devices[1].memory_share = Some(f64::INFINITY);
    document.devices[2].operations_share = None;
    document.devices[3].operations_share = Some(-1.0);
    document.devices[4].node = u32::MAX;
    document.devices[5].name = HOSTILE.into();
    document.ingresses[0].node = HOSTILE.into();
    document.ingresses[0].schemes = vec![(HOSTILE.into(), f64::NAN)];
    document.ingresses[1].schemes = Vec::new();
    document.ingresses[2].reduction = f64::NAN;
    document.ingresses[3].volume_bytes = f64::NAN;
    document.schemes[1].name = HOSTILE.into();
    document.schemes[2].reduction = f64::NAN;
    document.settings.push((HOSTILE.into(), HOSTILE.into()));
    document.notes.push(HOSTILE.into());
    document.network.map.source = HOSTILE.into();
    document.network.map.derivation.push(HOSTILE.into());
    document.verdict.headline = HOSTILE.into();
    document.verdict.of_ideal = Some(f64::NAN);
    document.solution.method = HOSTILE.into();
    document.solution.gap = f64::INFINITY;
    document.upgrades[0].device = HOSTILE.into();
    document.upgrades[0].gain = Some(f64::NAN);
    document.upgrades[1].bound = f64::INFINITY;
    document.failures[0].label = HOSTILE.into();
    document.failures[0].busiest_link = Some(HOSTILE.into());
    document.failures[1].reduction = f64::NAN;
    document.failures[2].busiest_bytes = Some(f64::INFINITY);
    if let Some(bought) = &mut document.bought {
        bought.devices[0].label = HOSTILE.into();
        bought.cost = f64::NAN;
        bought.whole_cost = f64::INFINITY;
    }
    if let Some(money) = &mut document.money {
        money.smartre.price = Some(f64::NAN);
    }
    if let Some(choice) = &mut document.choice {
        choice.smartre.reduction = f64::NAN;
        choice.hop_by_hop.memory_bytes = f64::INFINITY;
    }
    document.upgrades[0].by = HOSTILE.into();
    document.deployment[0].link = HOSTILE.into();
    document.deployment[3].reduction = f64::NAN;
    if let Some(changes) = &mut document.changes {
        changes.lines[0] = HOSTILE.into();
    }
    document
}

/// A plan of nothing.
pub(super) fn empty() -> Document {
    Document {
        format: FORMAT,
        verdict: Verdict { headline: "There is nothing to plan.".into(), ..Verdict::default() },
        ..Document::default()
    }
}
