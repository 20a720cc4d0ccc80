//! Times the planner's solver on a made-up network of the size of the largest in the papers, or
//! another.
//!
//! `cargo run --release -p oncewire-plan --example solve -- [PoPs] [access routers per PoP]
//! [footprint|load] [auto|simplex|highs|highs-interior|compare] [topology] [times what a store
//! holds]`
//!
//! `auto` also times re-plans. `compare` lets the methods take turns, five rounds, and gives the
//! median of each; with `--features highs` also HiGHS's dual simplex and interior point methods,
//! and for programs that are small enough the simplex method of `microlp`.
//!
//! With a topology (a file of a format that the planner reads, with populations), the PoPs of
//! highest degree are kept, and each ingress sends what its store holds in an epoch, or as many
//! times as much as is said. Otherwise PoPs lie at random in a square, each joined to its nearest
//! ones; populations are lognormal; volumes follow a gravity model; each ingress sends 0.5 to 1
//! times what its store holds in an epoch.

use std::{
    collections::{BTreeMap, BinaryHeap},
    time::Instant,
};

use oncewire_kernels::random::SplitMix64;
use oncewire_plan::{
    BitRate, Instance, LinkId, Network, NodeId, Placement, Profile, Provision, Synthetic,
    Unwatched,
    lp::{Method, Objective, Options, WarmStart, solve},
    network::{Link, Node, Role},
    path::Route,
    routing, topology, traffic,
};

fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

fn network(pops: usize, access: usize, random: &mut SplitMix64) -> Network {
    let mut nodes = Vec::new();
    for pop in 0..pops {
        nodes.push(Node {
            id: format!("p{pop}"),
            pop: pop as u32,
            position: Some([random.unit(), random.unit()]),
            population: Some((1.5 * normal(random)).exp()),
            role: if access > 0 { Role::Backbone } else { Role::Any },
            ..Node::default()
        });
    }
    let place: Vec<[f64; 2]> = nodes.iter().filter_map(|node| node.position).collect();
    let distance =
        |a: usize, b: usize| (place[a][0] - place[b][0]).hypot(place[a][1] - place[b][1]);
    let mut cables = BTreeMap::new();
    for a in 0..pops {
        let mut nearest: Vec<usize> = (0..pops).filter(|&b| b != a).collect();
        nearest.sort_by(|&b, &c| distance(a, b).total_cmp(&distance(a, c)));
        for &b in nearest.iter().take(2) {
            cables.insert((a.min(b), a.max(b)), distance(a, b));
        }
        // Joined to those before it, so that no PoP is alone.
        if let Some(b) = (0..a).min_by(|&b, &c| distance(a, b).total_cmp(&distance(a, c))) {
            cables.insert((b, a), distance(a, b));
        }
    }
    for pop in 0..pops {
        for number in 0..access {
            cables.insert((pop, nodes.len()), 0.01);
            nodes.push(Node {
                id: format!("p{pop}-{number}"),
                pop: pop as u32,
                role: Role::Access,
                ..Node::default()
            });
        }
    }
    let mut links = Vec::new();
    for ((a, b), weight) in cables {
        for (from, to) in [(a, b), (b, a)] {
            links.push(Link {
                from: NodeId::new(from),
                to: NodeId::new(to),
                weight,
                latency: weight,
                capacity: Some(BitRate(40e9)),
            });
        }
    }
    Network { name: "made up".into(), nodes, links, ..Network::default() }
}

/// Links of the shortest path tree from `from`: the link into each node.
fn tree(network: &Network, out: &[Vec<LinkId>], from: usize) -> Vec<Option<LinkId>> {
    let mut into = vec![None; network.nodes.len()];
    let mut best = vec![u64::MAX; network.nodes.len()];
    let mut queue = BinaryHeap::from([std::cmp::Reverse((0u64, from))]);
    best[from] = 0;
    while let Some(std::cmp::Reverse((length, node))) = queue.pop() {
        if length > best[node] {
            continue;
        }
        for &link in &out[node] {
            let to = network.links[link].to.index();
            let length = length + (network.links[link].weight * 1e9) as u64 + 1;
            if length < best[to] {
                best[to] = length;
                into[to] = Some(link);
                queue.push(std::cmp::Reverse((length, to)));
            }
        }
    }
    into
}

fn profile() -> Profile {
    Profile::Synthetic(Synthetic {
        gamma: 0.5,
        intrapop: 0.5,
        intrapath: 0.5,
        length: 1000.0,
        ingresses: BTreeMap::new(),
    })
}

fn read(
    file: &str,
    pops: usize,
    access: usize,
    load: f64,
) -> Result<Instance, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(file)?;
    let mut network = topology::read(
        topology::Format::detect(file, &text)?,
        &text,
        &topology::Options::default(),
    )?;
    if network.nodes.len() > pops {
        network = network.reduce(pops)?;
    }
    if access > 0 {
        network = network.with_access_routers(access as u32)?;
    }
    let provision = Provision::default();
    let routes = routing::shortest_paths(&network, &Unwatched)?;
    let matrix = traffic::gravity(&network)?;
    let scale = traffic::Scale::EqualIngress(load);
    let routes = traffic::assign(&network, routes, &matrix, scale, &provision)?;
    Ok(Instance::new(network, routes, &provision, &Placement::Links, profile())?)
}

fn instance(pops: usize, access: usize) -> Instance {
    let mut random = SplitMix64(7);
    let network = network(pops, access, &mut random);
    let provision = Provision::default();
    let ends: Vec<usize> = (0..network.nodes.len())
        .filter(|&node| network.nodes[node].role != Role::Backbone)
        .collect();
    let share: Vec<f64> = {
        let jitter: Vec<f64> = ends.iter().map(|_| 0.5 + random.unit()).collect();
        ends.iter()
            .zip(jitter)
            .map(|(&node, jitter)| {
                network.nodes[network.nodes[node].pop as usize].population.unwrap_or(1.0) * jitter
            })
            .collect()
    };
    let mut out = vec![Vec::new(); network.nodes.len()];
    network
        .links
        .iter()
        .enumerate()
        .for_each(|(number, link)| out[link.from.index()].push(LinkId::new(number)));
    let mut routes = Vec::new();
    for &from in &ends {
        let into = tree(&network, &out, from);
        let volume = provision.ingress_memory.0 * (0.5 + 0.5 * random.unit());
        // As in the papers: none between access routers of one PoP.
        let goes = |to: usize| to != from && network.nodes[to].pop != network.nodes[from].pop;
        let whole: f64 =
            ends.iter().zip(&share).filter(|(to, _)| goes(**to)).map(|(_, share)| share).sum();
        for (&to, share) in ends.iter().zip(&share).filter(|(to, _)| goes(**to)) {
            let mut links = Vec::new();
            let mut at = to;
            while let Some(link) = into[at].filter(|_| at != from) {
                links.push(link);
                at = network.links[link].from.index();
            }
            links.reverse();
            routes.push(Route {
                from: NodeId::new(from),
                to: NodeId::new(to),
                slice: 0,
                links,
                volume: volume * share / whole,
            });
        }
    }
    Instance::new(network, routes, &provision, &Placement::Links, profile())
        .expect("a made-up network is sound")
}

/// Seconds of this process on processors, all threads together, to 10 ms.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which is in brackets: fields 14 and 15 of the whole, in hundredths of a
    // second.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn run(
    what: &str,
    instance: &Instance,
    options: &Options,
    warm: Option<&WarmStart>,
) -> (WarmStart, [f64; 2]) {
    let (begin, processors) = (Instant::now(), processor_time());
    let (solution, next) =
        solve(instance, options, warm, &Unwatched).expect("the program has an answer");
    let took = [begin.elapsed().as_secs_f64(), processor_time() - processors];
    println!(
        "{what:28} {:8.1} ms  {:8.0} ms CPU  {:16} {:5} iterations  gap {:8.1e}  objective {:.9e}",
        took[0] * 1e3,
        took[1] * 1e3,
        solution.method,
        solution.iterations,
        solution.gap(),
        solution.objective
    );
    (next, took)
}

/// Columns up to which `microlp` ends in a time worth waiting for.
const SMALL: usize = 3000;

fn compare(instance: &Instance, options: &Options) {
    let mut methods = vec![("ours", Method::Interior)];
    #[cfg(feature = "highs")]
    methods.extend([("HiGHS simplex", Method::Highs), ("HiGHS interior", Method::HighsInterior)]);
    if instance.hop_count() <= SMALL {
        methods.push(("microlp", Method::Simplex));
    }
    let mut all = vec![Vec::new(); methods.len()];
    for _ in 0..5 {
        for ((name, method), all) in methods.iter().zip(&mut all) {
            all.push(run(name, instance, &Options { method: *method, ..*options }, None).1);
        }
    }
    println!("medians:");
    let median = |all: &[[f64; 2]], which: usize| {
        let mut values: Vec<f64> = all.iter().map(|took| took[which]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ours = [0, 1].map(|which| median(&all[0], which));
    for ((name, _), all) in methods.iter().zip(&all) {
        let [wall, processors] = [0, 1].map(|which| median(all, which));
        println!(
            "{name:28} {:8.1} ms  {:8.0} ms CPU  {:6.1} x ours, {:6.1} x its CPU",
            wall * 1e3,
            processors * 1e3,
            wall / ours[0],
            processors / ours[1]
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| {
        arguments.get(at).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let mut options = Options::default();
    if arguments.get(2).is_some_and(|objective| objective == "load") {
        options.objective = Objective::LinkLoad { capacity: None };
    }
    match arguments.get(3).map(String::as_str) {
        Some("simplex") => options.method = Method::Simplex,
        #[cfg(feature = "highs")]
        Some("highs") => options.method = Method::Highs,
        #[cfg(feature = "highs")]
        Some("highs-interior") => options.method = Method::HighsInterior,
        _ => {}
    }
    let begin = Instant::now();
    let (pops, access) = (number(0, 70), number(1, 4));
    let load = arguments.get(5).map_or(1.0, |text| text.parse().expect("a number"));
    let first = match arguments.get(4) {
        Some(file) => read(file, pops, access, load).expect("the topology can be used"),
        None => instance(pops, access),
    };
    println!(
        "{} paths, {} columns, {} devices, {} ingresses; made in {:.0} ms",
        first.paths.len(),
        first.hop_count(),
        first.devices.len(),
        first.ingresses.len(),
        begin.elapsed().as_secs_f64() * 1e3
    );
    if arguments.get(3).is_some_and(|method| method == "compare") {
        return compare(&first, &options);
    }
    let (warm, _) = run("first", &first, &options, None);
    if options.method != Method::Auto {
        return peak();
    }
    run("again", &first, &options, None);

    let strict = Options { gap: 0.0, ..options };
    let mut random = SplitMix64(11);
    let volumes = |part: f64, by: f64, random: &mut SplitMix64| -> Vec<f64> {
        first
            .paths
            .iter()
            .map(|path| {
                if random.unit() < part {
                    path.volume * (1.0 + by * (2.0 * random.unit() - 1.0))
                } else {
                    path.volume
                }
            })
            .collect()
    };
    for (what, part, by) in [
        ("1 % of paths by up to 5 %", 0.01, 0.05),
        ("all paths by up to 1 %", 1.0, 0.01),
        ("all paths by up to 10 %", 1.0, 0.1),
    ] {
        let volumes = volumes(part, by, &mut random);
        let changed = first.clone().with_volumes(&volumes).expect("volumes are sound");
        println!("{what}:");
        run("  re-plan", &changed, &options, Some(&warm));
        run("  solved again, warm", &changed, &strict, Some(&warm));
        run("  solved again, cold", &changed, &options, None);
    }
    let mut changed = first.clone();
    let busiest = (0..changed.devices.len()).max_by_key(|&device| {
        changed
            .paths
            .iter()
            .filter(|path| path.hops.iter().any(|hop| hop.device.index() == device))
            .count()
    });
    changed.devices[busiest.expect("there are devices")].memory *= 0.8;
    println!("busiest device with 80 % of its memory:");
    run("  re-plan", &changed, &options, Some(&warm));
    run("  solved again, warm", &changed, &strict, Some(&warm));
    run("  solved again, cold", &changed, &options, None);

    peak();
}

fn peak() {
    if let Ok(status) = std::fs::read_to_string("/proc/self/status")
        && let Some(peak) = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))
    {
        println!("peak memory {}", peak.trim());
    }
}
