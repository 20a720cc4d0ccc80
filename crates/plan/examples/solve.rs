//! Times the planner's solver on a made-up network of the size of the largest in the papers, or another.
//!
//! `cargo run --release -p oncewire-plan --example solve -- [PoPs] [access routers per PoP] [footprint|load] [auto|simplex|highs]`
//!
//! PoPs lie at random in a square, each joined to its nearest ones; populations are lognormal; volumes follow a gravity model; each ingress sends
//! 0.5 to 1 times what its store holds in an epoch.

use std::{
    collections::{BTreeMap, BinaryHeap},
    time::Instant,
};

use oncewire_plan::{
    Instance, Network, Placement, Profile, Provision, Synthetic, Unwatched,
    lp::{Method, Objective, Options, WarmStart, solve},
    network::{Link, Node, Role},
    path::Route,
};

/// A generator of numbers in [0, 1) that is good enough for this.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

fn network(pops: usize, access: usize, random: &mut Random) -> Network {
    let mut nodes = Vec::new();
    for pop in 0..pops {
        nodes.push(Node {
            id: format!("p{pop}"),
            pop: pop as u32,
            position: Some([random.next(), random.next()]),
            population: Some((1.5 * random.normal()).exp()),
            role: if access > 0 { Role::Backbone } else { Role::Any },
            ..Node::default()
        });
    }
    let place: Vec<[f64; 2]> = nodes.iter().filter_map(|node| node.position).collect();
    let distance = |a: usize, b: usize| (place[a][0] - place[b][0]).hypot(place[a][1] - place[b][1]);
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
            nodes.push(Node { id: format!("p{pop}-{number}"), pop: pop as u32, role: Role::Access, ..Node::default() });
        }
    }
    let mut links = Vec::new();
    for ((a, b), weight) in cables {
        for (from, to) in [(a, b), (b, a)] {
            links.push(Link { from: from as u32, to: to as u32, weight, latency: weight, capacity: Some(40e9) });
        }
    }
    Network { name: "made up".into(), nodes, links, ..Network::default() }
}

/// Links of the shortest path tree from `from`: the link into each node.
fn tree(network: &Network, out: &[Vec<u32>], from: usize) -> Vec<Option<u32>> {
    let mut into = vec![None; network.nodes.len()];
    let mut best = vec![u64::MAX; network.nodes.len()];
    let mut queue = BinaryHeap::from([std::cmp::Reverse((0u64, from))]);
    best[from] = 0;
    while let Some(std::cmp::Reverse((length, node))) = queue.pop() {
        if length > best[node] {
            continue;
        }
        for &link in &out[node] {
            let to = network.links[link as usize].to as usize;
            let length = length + (network.links[link as usize].weight * 1e9) as u64 + 1;
            if length < best[to] {
                best[to] = length;
                into[to] = Some(link);
                queue.push(std::cmp::Reverse((length, to)));
            }
        }
    }
    into
}

fn instance(pops: usize, access: usize) -> Instance {
    let mut random = Random(7);
    let network = network(pops, access, &mut random);
    let provision = Provision::default();
    let ends: Vec<usize> = (0..network.nodes.len()).filter(|&node| network.nodes[node].role != Role::Backbone).collect();
    let share: Vec<f64> = {
        let jitter: Vec<f64> = ends.iter().map(|_| 0.5 + random.next()).collect();
        ends.iter().zip(jitter).map(|(&node, jitter)| network.nodes[network.nodes[node].pop as usize].population.unwrap_or(1.0) * jitter).collect()
    };
    let mut out = vec![Vec::new(); network.nodes.len()];
    network.links.iter().enumerate().for_each(|(number, link)| out[link.from as usize].push(number as u32));
    let mut routes = Vec::new();
    for &from in &ends {
        let into = tree(&network, &out, from);
        let volume = provision.ingress_memory * (0.5 + 0.5 * random.next());
        // As in the papers: none between access routers of one PoP.
        let goes = |to: usize| to != from && network.nodes[to].pop != network.nodes[from].pop;
        let whole: f64 = ends.iter().zip(&share).filter(|(to, _)| goes(**to)).map(|(_, share)| share).sum();
        for (&to, share) in ends.iter().zip(&share).filter(|(to, _)| goes(**to)) {
            let mut links = Vec::new();
            let mut at = to;
            while let Some(link) = into[at].filter(|_| at != from) {
                links.push(link);
                at = network.links[link as usize].from as usize;
            }
            links.reverse();
            routes.push(Route { from: from as u32, to: to as u32, links, volume: volume * share / whole });
        }
    }
    let profile = Synthetic { gamma: 0.5, intrapop: 0.5, intrapath: 0.5, length: 1000.0, ingresses: BTreeMap::new() };
    Instance::new(network, routes, &provision, &Placement::Links, Profile::Synthetic(profile)).expect("a made-up network is sound")
}

fn run(what: &str, instance: &Instance, options: &Options, warm: Option<&WarmStart>) -> WarmStart {
    let begin = Instant::now();
    let (solution, next) = solve(instance, options, warm, &Unwatched).expect("the program has an answer");
    println!(
        "{what:28} {:7.1} ms  {:16} {:3} iterations  gap {:8.1e}  objective {:.9e}",
        begin.elapsed().as_secs_f64() * 1e3,
        solution.method,
        solution.iterations,
        solution.gap(),
        solution.objective
    );
    next
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(otherwise, |text| text.parse().expect("a number"));
    let mut options = Options::default();
    if arguments.get(2).is_some_and(|objective| objective == "load") {
        options.objective = Objective::LinkLoad { capacity: None };
    }
    match arguments.get(3).map(String::as_str) {
        Some("simplex") => options.method = Method::Simplex,
        #[cfg(feature = "highs")]
        Some("highs") => options.method = Method::Highs,
        _ => {}
    }
    let begin = Instant::now();
    let first = instance(number(0, 70), number(1, 4));
    println!(
        "{} paths, {} columns, {} devices, {} ingresses; made in {:.0} ms",
        first.paths.len(),
        first.hop_count(),
        first.devices.len(),
        first.ingresses.len(),
        begin.elapsed().as_secs_f64() * 1e3
    );
    let warm = run("first", &first, &options, None);
    if options.method != Method::Auto {
        return;
    }

    let strict = Options { gap: 0.0, ..options };
    let mut random = Random(11);
    let volumes = |part: f64, by: f64, random: &mut Random| -> Vec<f64> {
        first.paths.iter().map(|path| if random.next() < part { path.volume * (1.0 + by * (2.0 * random.next() - 1.0)) } else { path.volume }).collect()
    };
    for (what, part, by) in [("1 % of paths by up to 5 %", 0.01, 0.05), ("all paths by up to 1 %", 1.0, 0.01), ("all paths by up to 10 %", 1.0, 0.1)] {
        let volumes = volumes(part, by, &mut random);
        let changed = first.clone().with_volumes(&volumes).expect("volumes are sound");
        println!("{what}:");
        run("  re-plan", &changed, &options, Some(&warm));
        run("  solved again, warm", &changed, &strict, Some(&warm));
        run("  solved again, cold", &changed, &options, None);
    }
    let mut changed = first.clone();
    let busiest = (0..changed.devices.len()).max_by_key(|&device| changed.paths.iter().filter(|path| path.hops.iter().any(|hop| hop.device as usize == device)).count());
    changed.devices[busiest.expect("there are devices")].memory *= 0.8;
    println!("busiest device with 80 % of its memory:");
    run("  re-plan", &changed, &options, Some(&warm));
    run("  solved again, warm", &changed, &strict, Some(&warm));
    run("  solved again, cold", &changed, &options, None);

    if let Ok(status) = std::fs::read_to_string("/proc/self/status")
        && let Some(peak) = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))
    {
        println!("peak memory {}", peak.trim());
    }
}
