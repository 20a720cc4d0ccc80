//! Laws on random networks and shares, against plain definitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;

use super::*;
use crate::{
    Error, Instance, Network, Placement, Prices, Profile, Provision, Solution, Synthetic,
    network::{Link, Node, Role},
    path::Route,
};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn network(names: &[&str], links: &[(u32, u32)]) -> Network {
    let node = |(id, pop): (&&str, u32)| Node { id: (*id).into(), pop, role: Role::Any, ..Node::default() };
    Network {
        name: "test".into(),
        nodes: names.iter().zip(0..).map(node).collect(),
        links: links.iter().map(|&(from, to)| Link { from, to, weight: 1.0, latency: 1.0, capacity: None }).collect(),
        ..Network::default()
    }
}

fn profile() -> Profile {
    Profile::Synthetic(Synthetic { gamma: 0.5, intrapop: 0.5, intrapath: 0.5, length: 100.0, ingresses: BTreeMap::new() })
}

/// Shortest paths from some nodes to all others of a random connected graph; any placement; sometimes ingresses that cannot encode all.
fn instance(nodes: usize, random: &mut Random) -> Instance {
    let names: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut links = Vec::new();
    for node in 1..nodes {
        let to = random.below(node);
        links.extend([(node as u32, to as u32), (to as u32, node as u32)]);
    }
    for _ in 0..random.below(2 * nodes) {
        let (a, b) = (random.below(nodes) as u32, random.below(nodes) as u32);
        if a != b {
            links.extend([(a, b), (b, a)]);
        }
    }
    let network = network(&names, &links);
    let mut routes = Vec::new();
    for from in 0..nodes as u32 {
        if from > 0 && random.below(2) == 0 {
            continue;
        }
        for (to, links) in (0..).zip(ways(&network, from, false)) {
            let volume = if random.below(5) == 0 { 0.0 } else { 1.0 + random.unit() * 10_f64.powi(random.below(9) as i32) };
            let volume = if from == 0 && to == 1 { 1000.0 } else { volume };
            routes.push(Route { from, to, links, volume });
        }
    }
    let placement = match random.below(3) {
        0 => Placement::Links,
        1 => Placement::Routers,
        _ => Placement::Some((0..links.len() as u32).filter(|_| random.below(2) == 0).collect()),
    };
    let unlimited = f64::INFINITY;
    let provision = Provision {
        ingress_memory: 1e15,
        edge_memory: unlimited,
        interior_memory: unlimited,
        operations: unlimited,
        ..Provision::default()
    };
    let mut instance = Instance::new(network, routes, &provision, &placement, profile()).unwrap();
    for ingress in &mut instance.ingresses {
        ingress.memory = unlimited;
        let packets = ingress.volume / instance.packet;
        ingress.encodings = if random.below(3) == 0 { packets * random.unit() } else { packets * 2.0 };
    }
    instance
}

/// Shortest ways from a node to all, as links: a tree. Of ways of one length the first or, `other`, the last link's.
fn ways(network: &Network, from: u32, other: bool) -> Vec<Vec<u32>> {
    let mut ways: Vec<Option<Vec<u32>>> = vec![None; network.nodes.len()];
    ways[from as usize] = Some(Vec::new());
    let mut queue = std::collections::VecDeque::from([from]);
    let mut order: Vec<usize> = (0..network.links.len()).collect();
    if other {
        order.reverse();
    }
    while let Some(at) = queue.pop_front() {
        for &number in &order {
            let link = &network.links[number];
            if link.from == at && ways[link.to as usize].is_none() {
                let mut way = ways[at as usize].clone().unwrap_or_default();
                way.push(number as u32);
                ways[link.to as usize] = Some(way);
                queue.push_back(link.to);
            }
        }
    }
    ways.into_iter().map(Option::unwrap_or_default).collect()
}

/// Random shares: many hops without any, some tiny, the whole path or less.
fn solution(instance: &Instance, random: &mut Random) -> Solution {
    let mut cached = Vec::with_capacity(instance.hop_count());
    for path in &instance.paths {
        let weights: Vec<f64> = path
            .hops
            .iter()
            .map(|_| match random.below(6) {
                0 | 1 => 0.0,
                2 => random.unit() * 1e-7,
                3 => 1.0 / 3.0,
                _ => random.unit(),
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        let total = instance.coded(path.ingress as usize) * if random.below(2) == 0 { 1.0 } else { random.unit() };
        cached.extend(weights.iter().map(|weight| if sum > 0.0 { weight / sum * total } else { 0.0 }));
    }
    Solution { cached, objective: 0.0, bound: 0.0, prices: Prices::default(), method: "random".into(), iterations: 0 }
}

/// Memories that the solution just fills, or nearly.
fn tighten(instance: &mut Instance, solution: &Solution, random: &mut Random) {
    let mut devices = vec![0.0; instance.devices.len()];
    let mut ingresses = vec![0.0; instance.ingresses.len()];
    for (number, path) in instance.paths.iter().enumerate() {
        for (hop, share) in path.hops.iter().zip(solution.of_path(instance, number)) {
            devices[hop.device as usize] += share * path.volume;
            ingresses[path.ingress as usize] += share * path.volume;
        }
    }
    for (device, used) in instance.devices.iter_mut().zip(devices) {
        device.memory = if random.below(3) == 0 { f64::INFINITY } else { used * (1.0 + 0.2 * random.below(2) as f64) };
    }
    for (ingress, used) in instance.ingresses.iter_mut().zip(ingresses) {
        ingress.memory = if random.below(3) == 0 { f64::INFINITY } else { used * (1.0 + 0.3 * random.below(2) as f64) };
    }
}

fn options(random: &mut Random) -> Options {
    Options {
        version: 7,
        headroom: [1.0, 1.0, 1.5][random.below(3)],
        smallest: [0.0, Options::default().smallest, 0.05][random.below(3)],
    }
}

fn planned(seed: u64, nodes: usize) -> (Instance, Solution, Options, Plan) {
    let mut random = Random(seed);
    let mut instance = instance(nodes, &mut random);
    let solution = solution(&instance, &mut random);
    tighten(&mut instance, &solution, &mut random);
    let options = options(&mut random);
    let plan = Plan::new(&instance, &solution, &options).unwrap();
    (instance, solution, options, plan)
}

/// Hashes at and beside the ends of a path's ranges, and any other.
fn hashes(path: &PlannedPath, random: &mut Random) -> Vec<u32> {
    let ends = path.ranges.iter().flat_map(|range| [range.from, range.to]).chain([0, SPACE]);
    let mut hashes: Vec<u32> = ends
        .flat_map(|end| [end.checked_sub(1), Some(end)])
        .flatten()
        .filter(|&hash| hash < SPACE)
        .map(|hash| hash as u32)
        .collect();
    hashes.push(random.next() as u32);
    hashes
}

fn message(result: Result<impl std::fmt::Debug, Error>) -> String {
    let message = result.unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The pairs that stand for all have every place of parting that there is.
    #[test]
    fn some_pairs_stand_for_all(seed: u64, nodes in 2usize..12) {
        let mut random = Random(seed);
        let instance = instance(nodes, &mut random);
        for ingress in 0..instance.ingresses.len() {
            let paths = instance.paths_of(ingress);
            let place = |p: usize, q: usize| {
                let (p, q) = (&instance.paths[p].hops, &instance.paths[q].hops);
                p.iter().zip(q).take_while(|(a, b)| a.device == b.device).count()
            };
            let all: BTreeSet<(usize, usize)> =
                paths.clone().flat_map(|p| paths.clone().map(move |q| (p, q))).map(|(p, q)| (q, place(p, q))).collect();
            let few = super::validate::partings(&instance, paths);
            prop_assert_eq!(few.iter().map(|&(p, q)| (q, place(p, q))).collect::<BTreeSet<_>>(), all);
            let places: usize = instance.paths_of(ingress).map(|q| instance.paths[q].hops.len() + 2).sum();
            prop_assert!(few.len() <= places, "{} pairs", few.len());
        }
    }

    /// The independent walk finds nothing wrong, and no path has another share than the solution's by more than what was dropped and rounded.
    #[test]
    fn a_plan_is_its_solution_in_whole_hashes(seed: u64, nodes in 2usize..9) {
        let (instance, solution, options, plan) = planned(seed, nodes);
        validate(&plan, &instance).unwrap();
        for (number, path) in plan.paths().iter().enumerate() {
            for (hop, &share) in solution.of_path(&instance, number).iter().enumerate() {
                let range = path.ranges.iter().find(|range| range.hop as usize == hop);
                let got = range.map_or(0.0, |range| (range.to - range.from) as f64 / SPACE as f64);
                let unit = 2.0 / SPACE as f64;
                let volume = instance.paths[number].volume;
                if let Some(range) = range {
                    prop_assert!((got - share).abs() <= unit, "{got} for {share}");
                    prop_assert!((range.to - range.from) as f64 >= options.smallest * SPACE as f64);
                } else {
                    // Too small a share, or a bucket of less than a byte (or of up to one more, where whole bytes of memory were shared).
                    prop_assert!(share <= options.smallest + unit || share * volume < 3.0, "{share} of {volume} dropped");
                }
            }
        }
    }

    /// Manifests say for each hash what the plan's definition says, at the ends of ranges too; and the compact overlap is the matrix's.
    #[test]
    fn manifests_agree_with_the_plain_definitions(seed: u64, nodes in 2usize..8) {
        let (instance, _, _, plan) = planned(seed, nodes);
        let mut random = Random(!seed);
        let devices = plan.device_manifests();
        let ingresses = plan.ingress_manifests();
        for (number, path) in plan.paths().iter().enumerate() {
            let manifest = &ingresses[path.ingress as usize];
            for hash in hashes(path, &mut random) {
                // Ranges in on-path order (thesis, section 3.2): the first whose end lies behind the hash.
                let holder = path.ranges.iter().find(|range| (hash as u64) < range.to);
                let device = holder.map(|range| path.hops[range.hop as usize]);
                prop_assert_eq!(manifest.holder(path.id, hash), holder.map(|range| (range.hop, path.hops[range.hop as usize])));
                prop_assert_eq!(plan.path(path.id).unwrap().holder(hash), device);
                for (at, manifest) in (0..).zip(&devices) {
                    prop_assert_eq!(manifest.holds(path.id, hash), device == Some(at));
                }
            }
            for q in instance.paths_of(path.ingress as usize) {
                let (p, with) = (&instance.paths[number], &plan.paths()[q]);
                let common = p.hops.iter().zip(&instance.paths[q].hops).take_while(|(a, b)| a == b).count();
                let bound = with.ranges.iter().filter(|range| (range.hop as usize) < common).map(|range| range.to).max().unwrap_or(0);
                prop_assert_eq!(manifest.overlap(path.id, with.id), bound);
                for hash in hashes(with, &mut random) {
                    let lies_on_p = with.holder(hash).is_some_and(|device| p.hops.iter().any(|hop| hop.device == device));
                    prop_assert_eq!(manifest.may_encode(path.id, with.id, hash), lies_on_p);
                }
            }
            prop_assert_eq!(manifest.overlap(path.id, path.id), path.covered());
            prop_assert_eq!(manifest.overlap(path.id, u32::MAX), 0);
        }
    }

    #[test]
    fn documents_come_back_as_they_went(seed: u64, nodes in 2usize..8) {
        let (_, _, _, plan) = planned(seed, nodes);
        prop_assert_eq!(&Plan::from_json(&plan.to_json()).unwrap(), &plan);
        for manifest in plan.device_manifests() {
            prop_assert_eq!(&DeviceManifest::from_json(&manifest.to_json()).unwrap(), &manifest);
        }
        for manifest in plan.ingress_manifests() {
            prop_assert_eq!(&IngressManifest::from_json(&manifest.to_json()).unwrap(), &manifest);
        }
    }

    /// Whatever becomes of a document: it is refused in a line, or what is read keeps the laws, and looking things up in it never panics.
    #[test]
    fn changed_documents_are_refused_or_sound(seed: u64, nodes in 2usize..6) {
        let (_, _, _, plan) = planned(seed, nodes);
        let mut random = Random(!seed);
        let mut changed = |text: String| {
            let mut bytes = text.into_bytes();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                // Other digits keep most documents readable: those reach the checks behind the parser.
                let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                let digit = digits[random.below(digits.len())];
                match random.below(8) {
                    0 => { bytes.remove(at); }
                    1 => bytes[at] = random.next() as u8 & 127,
                    2 => bytes.insert(at, b"0123456789[]{},:\"-.e"[random.below(20)]),
                    3 => { bytes.truncate(at.max(1)); break }
                    _ => bytes[digit] = b'0' + random.below(10) as u8,
                }
            }
            String::from_utf8(bytes).unwrap_or_default()
        };
        for _ in 0..20 {
            match Plan::from_json(&changed(plan.to_json())) {
                Ok(read) => {
                    for manifest in read.ingress_manifests() {
                        for path in manifest.paths() {
                            prop_assert_eq!(manifest.overlap(path.id, path.id), read.path(path.id).unwrap().covered());
                        }
                    }
                    diff(&plan, &read).to_string();
                }
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
            let device = &plan.device_manifests();
            if let Some(device) = device.first()
                && let Ok(read) = DeviceManifest::from_json(&changed(device.to_json()))
            {
                for entry in read.entries() {
                    prop_assert!(read.holds(entry.path, entry.from as u32) && entry.to <= SPACE);
                }
            }
            if let Ok(read) = IngressManifest::from_json(&changed(plan.ingress_manifests()[0].to_json())) {
                for (p, q) in read.paths().iter().zip(read.paths().iter().rev()) {
                    let bound = read.overlap(p.id, q.id);
                    prop_assert!(bound == 0 || q.ranges.iter().any(|range| range.to == bound));
                    read.holder(q.id, u32::MAX);
                }
            }
        }
    }

    /// A diff says, per device and path, what comparing the entries says; hashes that change hands are those that do.
    #[test]
    fn a_diff_is_the_difference(seed: u64, nodes in 2usize..7) {
        let (old, new) = successive(seed, nodes);
        let found = diff(&old, &new);
        let entries = |plan: &Plan| -> BTreeMap<(String, u32), Entry> {
            let manifests = plan.device_manifests();
            manifests.iter().flat_map(|one| one.entries().iter().map(|entry| ((one.name().to_string(), entry.path), *entry))).collect()
        };
        let (mut before, after) = (entries(&old), entries(&new));
        let mut useless = 0;
        for device in &found.devices {
            prop_assert_eq!(device.useless, device.changes.iter().map(|change| change.useless).sum::<u64>());
            useless += device.useless;
            for change in &device.changes {
                let id = change.before.or(change.after).unwrap().path;
                let key = (device.name.clone(), id);
                prop_assert_eq!(before.get(&key).copied(), change.before);
                prop_assert_ne!(change.before, change.after);
                match change.after {
                    Some(entry) => before.insert(key, entry),
                    None => before.remove(&key),
                };
                let kind = match (change.before, change.after) {
                    (None, _) => Kind::Added,
                    (_, None) => Kind::Removed,
                    (Some(a), Some(b)) if a.from == b.from && a.to == b.to => Kind::Resized,
                    _ => Kind::Moved,
                };
                prop_assert_eq!(change.kind, kind);
            }
        }
        // The old entries with the changes applied are the new ones.
        prop_assert_eq!(before, after);
        prop_assert_eq!(found.totals.useless, useless);
        let (mut changed, mut all) = (0.0, 0.0);
        let ids: std::collections::BTreeSet<u32> = old.paths().iter().chain(new.paths()).map(|path| path.id).collect();
        for id in ids {
            all += SPACE as f64;
            let ends: std::collections::BTreeSet<u64> =
                [&old, &new].into_iter().filter_map(|plan| plan.path(id)).flat_map(|path| &path.ranges).flat_map(|range| [range.from, range.to]).collect();
            let ends: Vec<u64> = ends.into_iter().collect();
            for pair in ends.windows(2) {
                let holder = |plan: &Plan| plan.path(id).and_then(|path| path.holder(pair[0] as u32));
                if holder(&old) != holder(&new) {
                    changed += (pair[1] - pair[0]) as f64;
                }
            }
        }
        prop_assert!((found.totals.hands - changed / all).abs() < 1e-12);
        prop_assert_eq!(diff(&old, &old).devices, vec![]);
        prop_assert_eq!(diff(&new, &new).totals.hands, 0.0);
    }

    /// Where nothing is under way, a transition allows what the overlap bound of the one plan allows, by the same holder.
    #[test]
    fn before_and_after_a_transition_the_bound_decides(seed: u64, nodes in 2usize..7) {
        let (old, new) = successive(seed, nodes);
        let change = Transition::new(old.clone(), new.clone()).unwrap();
        let mut random = Random(!seed);
        let mut progress = Progress::new(old.devices().len());
        for (plan, state) in [(&old, State::Old), (&new, State::New)] {
            for device in 0..old.devices().len() as u32 {
                if state == State::New {
                    progress.acknowledge(device);
                    prop_assert!(progress.release(device));
                }
            }
            prop_assert!(progress.all(state));
            let manifests = plan.ingress_manifests();
            for p in plan.paths() {
                for q in plan.paths().iter().filter(|q| q.ingress == p.ingress) {
                    for hash in hashes(q, &mut random) {
                        // What only the other plan has is no copy here, though an unchanged bucket is both plans'.
                        let mut copies = change.copies(&progress, q.id, hash);
                        if state == State::Old { copies.new = None } else { copies.old = None }
                        let decoder = change.decoder(&progress, p.id, q.id, hash, copies);
                        let manifest = &manifests[p.ingress as usize];
                        prop_assert_eq!(decoder.is_some(), manifest.may_encode(p.id, q.id, hash));
                        if let Some(decoder) = decoder {
                            prop_assert_eq!(manifest.holder(q.id, hash), Some((decoder.hop, decoder.device)));
                        }
                        for device in 0..plan.devices().len() as u32 {
                            prop_assert_eq!(change.stores(device, state, q.id, hash), q.holder(hash) == Some(device));
                        }
                    }
                }
            }
        }
    }

    /// Any order of manifests, acknowledgements, releases and packets: what is allowed is decoded, and the device that was named has the packet.
    #[test]
    fn whatever_the_order_an_allowed_encoding_is_decoded(seed: u64, nodes in 2usize..9) {
        Play::new(seed, nodes).run(400);
    }
}

/// Two plans of a network, the second with other volumes, shares and now and then other routes.
fn successive(seed: u64, nodes: usize) -> (Arc<Plan>, Arc<Plan>) {
    let mut random = Random(seed);
    let mut first = instance(nodes, &mut random);
    // Small volumes: buckets of a few of the play's packets.
    let volumes: Vec<f64> = first.paths.iter().map(|_| 500.0 + random.unit() * 2000.0).collect();
    first = first.with_volumes(&volumes).unwrap();
    for ingress in &mut first.ingresses {
        ingress.encodings = f64::INFINITY;
    }
    let answer = solution(&first, &mut random);
    let old = Plan::new(&first, &answer, &Options::default()).unwrap();
    let mut second = first.clone();
    let change = random.below(4);
    if change > 0 && first.devices.iter().all(|device| device.link.is_some()) {
        // Some paths go, so that others get their numbers; or some go other ways.
        let routes: Vec<Route> = first
            .paths
            .iter()
            .filter(|_| change != 1 || random.below(4) > 0)
            .map(|path| {
                let from = first.ingresses[path.ingress as usize].node;
                let links = if change == 1 {
                    path.links.to_vec()
                } else {
                    ways(&first.network, from, true)[path.egress as usize].clone()
                };
                Route { from, to: path.egress, links, volume: path.volume }
            })
            .collect();
        if !routes.is_empty() {
            let placed = first.devices.iter().filter_map(|device| device.link).collect();
            let provision = Provision {
                ingress_memory: 1e15,
                edge_memory: 1e15,
                interior_memory: 1e15,
                encodings: 1e15,
                ..Provision::default()
            };
            second = Instance::new(first.network.clone(), routes, &provision, &Placement::Some(placed), profile()).unwrap();
        }
    }
    // Some paths keep their shares: their buckets do not change.
    let mut answer = solution(&second, &mut random);
    for (number, path) in second.paths.iter().enumerate() {
        let before = first.paths.iter().position(|other| {
            other.links == path.links
                && first.ingresses[other.ingress as usize].node == second.ingresses[path.ingress as usize].node
        });
        if let Some(before) = before
            && random.below(3) == 0
        {
            let shares: Vec<f64> =
                Solution { cached: old_shares(&old, &first), ..answer.clone() }.of_path(&first, before).to_vec();
            answer.cached[second.hop_range(number)].copy_from_slice(&shares);
        }
    }
    let new = Plan::after(&old, &second, &answer, &Options::default()).unwrap();
    (Arc::new(old), Arc::new(new))
}

/// A plan's ranges as shares.
fn old_shares(plan: &Plan, instance: &Instance) -> Vec<f64> {
    let mut shares = vec![0.0; instance.hop_count()];
    for (number, path) in plan.paths().iter().enumerate() {
        for range in &path.ranges {
            shares[instance.hop_index(number, range.hop as usize)] = (range.to - range.from) as f64 / SPACE as f64;
        }
    }
    shares
}

/// A bucket: the latest packets that fit.
#[derive(Default)]
struct Bucket {
    packets: Vec<(usize, u64)>,
}

impl Bucket {
    fn push(&mut self, packet: usize, size: u64, room: u64) {
        self.packets.push((packet, size));
        while self.packets.iter().map(|packet| packet.1).sum::<u64>() > room {
            self.packets.remove(0);
        }
    }

    fn has(&self, packet: usize) -> bool {
        self.packets.iter().any(|one| one.0 == packet)
    }
}

/// Buckets by plan (an unchanged one counts as the old plan's) and path; a device has one range of a path, an ingress the device's number beside it.
type Buckets = BTreeMap<(bool, u32, u32), Bucket>;

struct Sent {
    path: u32,
    hash: u32,
    size: u64,
    hops: Vec<u32>,
    /// Devices that it has passed.
    passed: usize,
    copies: Copies,
    /// The packet it was encoded against, and who should decode it.
    against: Option<(usize, Decoder)>,
    decoded: bool,
    ingress: usize,
}

/// A transition with packets under way. Nothing here asks a device for what it is not told: state by state, manifests only.
struct Play {
    random: Random,
    old: Arc<Plan>,
    new: Arc<Plan>,
    change: Transition,
    names: Vec<String>,
    states: Vec<State>,
    caches: Vec<Buckets>,
    stores: Vec<Buckets>,
    known: Vec<Progress>,
    /// Device, ingress: acknowledgements under way.
    acknowledgements: Vec<(u32, usize)>,
    sent: Vec<Sent>,
    /// Number of packets sent when the last ingress released a device.
    released: Vec<Option<usize>>,
    decoded: usize,
}

impl Play {
    fn new(seed: u64, nodes: usize) -> Self {
        let (old, new) = successive(seed, nodes);
        let mut names: Vec<String> = old.ingresses().iter().chain(new.ingresses()).map(|one| one.name.clone()).collect();
        names.sort();
        names.dedup();
        let devices = old.devices().len();
        Self {
            random: Random(seed ^ 0x5555),
            change: Transition::new(old.clone(), new.clone()).unwrap(),
            states: vec![State::Old; devices],
            caches: (0..devices).map(|_| Buckets::new()).collect(),
            stores: names.iter().map(|_| Buckets::new()).collect(),
            known: names.iter().map(|_| Progress::new(devices)).collect(),
            acknowledgements: Vec::new(),
            sent: Vec::new(),
            released: vec![None; devices],
            decoded: 0,
            old,
            new,
            names,
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let devices = self.states.len();
            match self.random.below(24) {
                0 if devices > 0 => self.manifest_arrives(),
                1 | 2 => self.acknowledgement_arrives(),
                3 if devices > 0 => self.release(),
                4 if devices > 0 => self.old_buckets_go(),
                5..=12 => self.send(),
                _ => self.advance(),
            }
        }
        while self.sent.iter().any(|packet| packet.passed < packet.hops.len()) {
            self.advance();
        }
        assert!(self.sent.iter().all(|packet| packet.against.is_none() || packet.decoded));
    }

    fn manifest_arrives(&mut self) {
        let device = self.random.below(self.states.len());
        if self.states[device] == State::Old {
            self.states[device] = State::Both;
            self.acknowledgements.extend((0..self.names.len()).map(|ingress| (device as u32, ingress)));
        }
    }

    fn acknowledgement_arrives(&mut self) {
        if !self.acknowledgements.is_empty() {
            let at = self.random.below(self.acknowledgements.len());
            let (device, ingress) = self.acknowledgements.swap_remove(at);
            self.known[ingress].acknowledge(device);
        }
    }

    fn release(&mut self) {
        let (device, ingress) = (self.random.below(self.states.len()), self.random.below(self.names.len()));
        self.known[ingress].release(device as u32);
        if self.known.iter().all(|known| known.state(device as u32) == State::New) {
            self.released[device].get_or_insert(self.sent.len());
        }
    }

    /// When all have released the device and what was sent before that has passed.
    fn old_buckets_go(&mut self) {
        let device = self.random.below(self.states.len());
        let Some(released) = self.released[device] else { return };
        let under_way = |packet: &Sent| packet.hops[packet.passed..].contains(&(device as u32));
        if !self.sent[..released].iter().any(under_way) {
            self.states[device] = State::New;
            let change = &self.change;
            let unchanged = |path: u32| {
                let (Some(old), Some(new)) = (change.old().path(path), change.new_plan().path(path)) else { return false };
                old.ranges.iter().any(|range| old.hops[range.hop as usize] as usize == device && new.ranges.contains(range))
            };
            self.caches[device].retain(|&(is_new, path, _), _| is_new || unchanged(path));
        }
    }

    fn send(&mut self) {
        // A path of either plan: traffic moves from old paths to new ones at any time.
        let plan = if self.random.below(2) == 0 { self.old.clone() } else { self.new.clone() };
        let path = &plan.paths()[self.random.below(plan.paths().len())];
        let name = &plan.ingresses()[path.ingress as usize].name;
        let ingress = self.names.iter().position(|other| other == name).unwrap();
        let choices = hashes(path, &mut self.random);
        let hash = if self.random.below(3) == 0 { choices[self.random.below(choices.len())] } else { self.random.next() as u32 };
        let size = 1 + self.random.below(150) as u64;

        // The match: any packet that the ingress still has in a bucket.
        let mut against = None;
        if !self.sent.is_empty() {
            let earlier = self.random.below(self.sent.len());
            let other = &self.sent[earlier];
            if other.ingress == ingress {
                let has = |new: bool, device: Option<u32>| {
                    let key = (new && self.change.unchanged(other.path, other.hash) != device, other.path, device?);
                    self.stores[ingress].get(&key)?.has(earlier).then_some(device?)
                };
                let copies = Copies { old: has(false, other.copies.old), new: has(true, other.copies.new) };
                let decoder = self.change.decoder(&self.known[ingress], path.id, other.path, other.hash, copies);
                against = decoder.map(|decoder| (earlier, decoder));
            }
        }

        let copies = self.change.copies(&self.known[ingress], path.id, hash);
        let number = self.sent.len();
        for (new, device) in [(false, copies.old), (true, copies.new)] {
            let Some(device) = device else { continue };
            let unchanged = self.change.unchanged(path.id, hash) == Some(device);
            if new && unchanged {
                continue;
            }
            let plan = if new { &self.new } else { &self.old };
            let room = plan.path(path.id).unwrap().range(hash).unwrap().bytes;
            self.stores[ingress].entry((new, path.id, device)).or_default().push(number, size, room);
        }
        self.sent.push(Sent {
            path: path.id,
            hash,
            size,
            hops: path.hops.to_vec(),
            passed: 0,
            copies,
            against,
            decoded: false,
            ingress,
        });
    }

    /// A packet comes to its next device. Links do not reorder: it waits for those sent before it that come there the same way.
    fn advance(&mut self) {
        let waiting: Vec<usize> = (0..self.sent.len())
            .filter(|&number| {
                let packet = &self.sent[number];
                let Some(way) = packet.hops.get(..=packet.passed) else { return false };
                self.sent[..number].iter().all(|other| {
                    other.ingress != packet.ingress || other.hops.get(..way.len()) != Some(way) || other.passed >= way.len()
                })
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        let number = waiting[self.random.below(waiting.len())];
        let packet = &mut self.sent[number];
        let device = packet.hops[packet.passed];
        packet.passed += 1;
        let state = self.states[device as usize];
        let cache = &mut self.caches[device as usize];
        if let Some((earlier, decoder)) = packet.against {
            packet.decoded |= cache.values().any(|bucket| bucket.has(earlier));
            if decoder.device == device {
                let here = |packet: &usize| cache.iter().any(|(_, bucket)| bucket.has(*packet));
                assert!(packet.decoded && here(&earlier), "the named device does not have the packet");
                self.decoded += 1;
            }
        }
        // By the manifests alone.
        let entry = |plan: &Plan| {
            let path = plan.path(packet.path)?;
            let range = *path.ranges.iter().find(|range| path.hops[range.hop as usize] == device)?;
            (range.from..range.to).contains(&(packet.hash as u64)).then_some(range)
        };
        let (old, new) = (entry(&self.old), entry(&self.new));
        if let Some(range) = old.filter(|_| state != State::New || old == new) {
            cache.entry((false, packet.path, device)).or_default().push(number, packet.size, range.bytes);
        }
        if let Some(range) = new.filter(|_| state != State::Old && old != new) {
            cache.entry((true, packet.path, device)).or_default().push(number, packet.size, range.bytes);
        }
        assert_eq!(
            self.change.stores(device, state, packet.path, packet.hash),
            (old.is_some() && (state != State::New || old == new)) || (new.is_some() && state != State::Old)
        );
    }
}

/// The laws above would hold of a transition that allows nothing.
#[test]
fn a_play_decodes_much_and_gets_through() {
    let (mut decoded, mut changed) = (0, 0);
    for seed in 0..60 {
        let mut play = Play::new(seed, 5);
        play.run(600);
        decoded += play.decoded;
        changed += play.states.iter().filter(|&&state| state == State::New).count();
    }
    assert!(decoded > 200, "{decoded} packets decoded");
    assert!(changed > 20, "{changed} devices got through");
}

/// The example of `docs/PLANNERS.md`: the thesis's path of three devices with 0.2, 0.3 and 0.1 (section 3.2), and one that parts from it after the first.
fn example() -> (Instance, Solution) {
    let network =
        Network { name: "example".into(), ..network(&["I", "R1", "R2", "R3", "R4"], &[(0, 1), (1, 2), (2, 3), (1, 4)]) };
    let routes = vec![
        Route { from: 0, to: 3, links: vec![0, 1, 2], volume: 1e9 },
        Route { from: 0, to: 4, links: vec![0, 3], volume: 2e9 },
    ];
    let instance = Instance::new(network, routes, &Provision::default(), &Placement::Links, profile()).unwrap();
    let cached = vec![0.2, 0.3, 0.1, 0.5, 0.25];
    (instance, Solution { cached, objective: 0.0, bound: 0.0, prices: Prices::default(), method: "given".into(), iterations: 0 })
}

#[test]
fn the_documents_in_the_documentation_are_these() {
    let (instance, solution) = example();
    let plan = Plan::new(&instance, &solution, &Options { version: 3, ..Options::default() }).unwrap();
    validate(&plan, &instance).unwrap();
    // Read, not included: the package must compile without it.
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PLANNERS.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Manifests")).unwrap();
    let documents: Vec<&str> = section.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let device = &plan.device_manifests()[0];
    let ingress = &plan.ingress_manifests()[0];
    let written = [plan.to_json(), device.to_json(), ingress.to_json()];
    assert_eq!(documents.len(), written.len(), "{written:#?}");
    for (document, written) in documents.iter().zip(&written) {
        assert_eq!(plain(document), plain(written));
    }
    assert_eq!(&Plan::from_json(documents[0]).unwrap(), &plan);
    assert_eq!(&DeviceManifest::from_json(documents[1]).unwrap(), device);
    assert_eq!(&IngressManifest::from_json(documents[2]).unwrap(), ingress);
    // What the text says of them.
    assert_eq!([ingress.overlap(0, 1), ingress.overlap(1, 0)], [2147483648, 858993459]);
}

#[test]
fn bad_documents_are_refused_in_words() {
    let (instance, solution) = example();
    let plan = Plan::new(&instance, &solution, &Options { version: 3, ..Options::default() }).unwrap();
    let (whole, device) = (plan.to_json(), plan.device_manifests()[0].to_json());
    let ingress = plan.ingress_manifests()[0].to_json();
    let cases: &[(&str, &str, &str)] = &[
        (r#""format":1"#, r#""format":2"#, "format 2; this program reads format 1"),
        ("oncewire-header-1", "md5", "for the header hash \"md5\""),
        (r#""version":3"#, r#""version":9007199254740992"#, "version 9007199254740992; the most is"),
        (r#""version":3"#, r#""version":-3"#, "invalid value: integer `-3`"),
        (r#""version":3"#, r#""version":3,"colour":1"#, "unknown field `colour`"),
        (r#""version":3,"#, "", "missing field `version`"),
        (r#""network":"example""#, r#""network":"a\nb""#, "a name with control characters: \"a\\nb\""),
        (r#""version":3"#, r#""version":3,"a\u001b\n":1"#, "unknown field `a  `"),
        (r#""memory":6000000000"#, r#""memory":5"#, "take"),
    ];
    for document in [&whole, &device] {
        for (from, to, expected) in cases {
            let changed = document.replacen(from, to, 1);
            assert_ne!(&changed, document);
            let error = if document == &whole {
                message(Plan::from_json(&changed))
            } else {
                message(DeviceManifest::from_json(&changed))
            };
            assert!(error.contains(expected), "{error} instead of {expected}");
        }
    }
    let of_plan: &[(&str, &str, &str)] = &[
        (r#""hops":[0,3]"#, r#""hops":[0,9]"#, "path 1 crosses device 9, but there are 4"),
        (r#""hops":[0,3]"#, r#""hops":[0,0]"#, "comes to device 0 twice"),
        (r#""hops":[0,3]"#, r#""hops":[3,0]"#, "come to device 0 by different ways"),
        (r#""path":1"#, r#""path":0"#, "two paths have the id 0"),
        (r#""egress":"R4""#, r#""egress":"R3""#, "two paths from I to R3"),
        (r#"[2,2576980378,"#, r#"[2,4294967297,"#, "path 0 has a range to 4294967297"),
        (r#"[2,2576980378,"#, r#"[2,1,"#, "path 0 has an empty range"),
        (r#"[2,2576980378,"#, r#"[1,2576980378,"#, "not in the order of its devices"),
        (r#"[2,2576980378,"#, r#"[3,2576980378,"#, "not in the order of its devices"),
        (r#"[2,2576980378,100000000]"#, r#"[2,2576980378,0]"#, "a bucket of 0 bytes"),
        (r#"[2,2576980378,100000000]"#, r#"[2,2576980378,9007199254740992]"#, "a bucket of 9007199254740992 bytes"),
        (r#""name":"R1 -> R2""#, r#""name":"I -> R1""#, "two devices have the name"),
        (r#""ingress":0"#, r#""ingress":1"#, "path 0 enters at ingress 1, but there are 1"),
        (r#""memory":3000000000"#, r#""memory":3"#, "the buckets of I take"),
        (r#""epoch":10.0"#, r#""epoch":-1.0"#, "epoch is -1"),
    ];
    for (from, to, expected) in of_plan {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(changed, whole, "{from}");
        let error = message(Plan::from_json(&changed));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let of_device: &[(&str, &str, &str)] = &[
        ("[1,0,", "[0,0,", "path 0 comes twice or out of order"),
        ("[1,0,2147483648,", "[1,5,5,", "empty range"),
        ("[1,0,2147483648,", "[1,0,4294967297,", "range to 4294967297"),
        ("[1,0,", "[1,", "invalid length 3"),
    ];
    for (from, to, expected) in of_device {
        let changed = device.replacen(from, to, 1);
        assert_ne!(changed, device, "{from}");
        let error = message(DeviceManifest::from_json(&changed));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let of_ingress: &[(&str, &str, &str)] = &[
        (r#""tree":[[0,0],"#, r#""tree":[[1,0],"#, "place 1 of the tree comes before its parent, 1"),
        (r#""tree":[[0,0],[1,1]"#, r#""tree":[[0,0],[1,0]"#, "device 0 is in the tree twice"),
        (r#""leaf":4"#, r#""leaf":5"#, "path 1 ends at place 5 of the tree, which has 4"),
        (r#""leaf":4"#, r#""leaf":3"#, "a range at place 4 of the tree, out of order or not on it"),
        (r#""path":1"#, r#""path":0"#, "path 0 comes twice or out of order"),
        (r#""egress":"R4""#, r#""egress":"R3""#, "two paths from I to R3"),
    ];
    for (from, to, expected) in of_ingress {
        let changed = ingress.replacen(from, to, 1);
        assert_ne!(changed, ingress, "{from}");
        let error = message(IngressManifest::from_json(&changed));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let chain: Vec<String> = (0..=MAX_HOPS).map(|at| format!("[{at},{at}]")).collect();
    let deep = format!(
        r#"{{"format":1,"version":1,"network":"","hash":"{HASH}","ingress":0,"name":"","memory":null,"tree":[{}],"paths":[]}}"#,
        chain.join(",")
    );
    assert!(message(IngressManifest::from_json(&deep)).contains("more than 255 devices"));
    let long = device.replacen("I -> R1", &"x".repeat(MAX_NAME + 1), 1);
    assert!(message(DeviceManifest::from_json(&long)).contains("a name that is too long: \"xxx"));
    assert!(message(DeviceManifest::from_json(&device.replacen("device", &"x".repeat(5000), 1))).len() < 400);
    assert!(message(Plan::from_json(&"[".repeat(1 << 20))).contains("not a plan"));
    assert!(message(Plan::from_json(&" ".repeat(MAX_DOCUMENT + 1))).contains("the most is"));
}

#[test]
fn bad_solutions_are_refused_in_words() {
    let (instance, good) = example();
    let with = |cached: &[f64]| Solution { cached: cached.to_vec(), ..good.clone() };
    let new = |solution: &Solution| Plan::new(&instance, solution, &Options::default());
    assert!(message(new(&with(&[0.1]))).contains("the solution has 1 shares, the paths have 5 hops"));
    assert!(message(new(&with(&[f64::NAN, 0.0, 0.0, 0.0, 0.0]))).contains("NaN of path 0"));
    assert!(message(new(&with(&[0.0, -0.1, 0.0, 0.0, 0.0]))).contains("-0.1 of path 0"));
    assert!(message(new(&with(&[0.5, 0.3, 0.3, 0.0, 0.0]))).contains("path 0; it can be at most 1"));
    assert!(message(Plan::new(&instance, &good, &Options { headroom: 0.5, ..Options::default() })).contains("a headroom of 0.5"));
    assert!(
        message(Plan::new(&instance, &good, &Options { smallest: f64::NAN, ..Options::default() }))
            .contains("a smallest share of NaN")
    );
    let mut full = instance.clone();
    full.devices[0].memory = 1e9;
    assert!(
        message(Plan::new(&full, &good, &Options::default()))
            .contains("I -> R1 cache 1200000000 bytes, but it has room for 1000000000")
    );
    let mut full = instance.clone();
    full.ingresses[0].memory = 1e9;
    assert!(message(Plan::new(&full, &good, &Options::default())).contains("the ingress I cache 2100000000 bytes"));
    // A solver's rounding is no fault.
    assert_eq!(new(&with(&[0.2, 0.8 + 1e-9, -1e-9, 0.5, 0.25])).unwrap().paths()[0].covered(), SPACE);
    // Where memory is short, headroom gives way.
    let mut snug = instance.clone();
    snug.devices[0].memory = 1.5e9;
    let plan = Plan::new(&snug, &good, &Options { headroom: 1.4, ..Options::default() }).unwrap();
    let bytes: Vec<u64> = plan.device_manifests().iter().map(DeviceManifest::bytes).collect();
    assert!((1_499_999_990..=1_500_000_000).contains(&bytes[0]), "{bytes:?}");
    assert_eq!(bytes[1..], [420_000_000, 140_000_000, 700_000_000]);
}

/// A fault anywhere in a plan is found by the walk.
#[test]
fn the_walk_finds_what_is_wrong() {
    let (instance, solution) = example();
    let plan = Plan::new(&instance, &solution, &Options::default()).unwrap();
    type Fault = fn(&mut Plan, &mut Instance);
    let faults: &[(Fault, &str)] = &[
        (|plan, _| plan.paths[0].ranges[1].from += 1, "where one from"),
        (|plan, _| plan.paths[0].ranges[1].from -= 1, "where one from"),
        (|plan, _| plan.paths[0].ranges.swap(0, 1), "have different buckets"),
        (|plan, _| plan.paths[0].ranges[1].hop = 0, "out of order"),
        (|plan, _| plan.paths[0].hops.swap(0, 1), "has other devices in the plan"),
        (|plan, _| plan.paths[0].ranges[0].bytes *= 2, "a bucket of"),
        (|plan, _| plan.paths[0].ranges[0].bytes -= 1000, "a bucket of"),
        (|_, instance| instance.devices[3].memory = 1.0, "the buckets of R1 -> R4 take"),
        (|_, instance| instance.ingresses[0].memory = 1.0, "the buckets of I take"),
        (|_, instance| instance.ingresses[0].encodings = 1.0, "the ingress encodes"),
        (|_, instance| instance.devices.truncate(3), "is not this network's"),
        (|plan, _| plan.paths[1].egress = "R3".into(), "does not know the path to"),
        (|plan, _| plan.ingresses[0].name = "R1".into(), "is not the network's"),
    ];
    for (fault, expected) in faults {
        let (mut plan, mut instance) = (plan.clone(), instance.clone());
        validate(&plan, &instance).unwrap();
        fault(&mut plan, &mut instance);
        let error = message(validate(&plan, &instance));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}

#[test]
fn ids_stay_with_their_paths() {
    let (instance, solution) = example();
    let old = Plan::new(&instance, &solution, &Options { version: 3, ..Options::default() }).unwrap();
    // The first path goes: the second keeps its id, though it is the first now. Then one comes back.
    let second = Route { from: 0, to: 4, links: vec![0, 3], volume: 2e9 };
    let another = Route { from: 0, to: 2, links: vec![0, 1], volume: 2e9 };
    let routes = vec![second, another];
    let less = Instance::new(instance.network.clone(), routes, &Provision::default(), &Placement::Links, profile()).unwrap();
    let answer = Solution { cached: vec![0.1, 0.0, 0.5, 0.25], ..solution.clone() };
    let new = Plan::after(&old, &less, &answer, &Options::default()).unwrap();
    assert_eq!(new.version(), 4);
    let named: Vec<(u32, &str)> = new.paths().iter().map(|path| (path.id, path.egress.as_str())).collect();
    assert_eq!(named, [(2, "R2"), (1, "R4")]);
    validate(&new, &less).unwrap();
    let text = diff(&old, &new).to_string();
    assert!(text.starts_with("version 3 to 4: 1 ranges added, 3 removed, 0 moved, 0 resized, 2 unchanged;"), "{text}");
    assert!(
        text.contains("\nR2 -> R3: 100000000 bytes useless\n  removed  I -> R3  [0.5000, 0.6000) 100000000 B  =>  -\n"),
        "{text}"
    );
    let change = Transition::new(Arc::new(old.clone()), Arc::new(new.clone())).unwrap();
    let spare = change.spare();
    assert_eq!((spare[0].old, spare[0].new, spare[0].both), (1_200_000_000, 1_200_000_000, 1_400_000_000));
    assert_eq!(spare[0].beyond(Some(1_300_000_000)), 100_000_000);
    assert_eq!(change.ingress_spare(), [Spare { old: 2_100_000_000, new: 1_700_000_000, both: 2_300_000_000 }]);
    // Plans that were not made for each other.
    assert!(message(Transition::new(Arc::new(new.clone()), Arc::new(old.clone()))).contains("the new one must be higher"));
    let stranger = Plan::new(&less, &answer, &Options { version: 9, ..Options::default() }).unwrap();
    assert!(message(Transition::new(Arc::new(old), Arc::new(stranger))).contains("path 0 is not the same in both plans"));
}

#[test]
fn parallel_links_have_names_of_their_own() {
    let network = network(&["a", "b", "c"], &[(0, 1), (0, 1), (1, 2), (0, 1)]);
    let routes = vec![Route { from: 0, to: 2, links: vec![3, 2], volume: 1.0 }];
    let instance = Instance::new(network, routes, &Provision::default(), &Placement::Links, profile()).unwrap();
    let answer = Solution { cached: vec![1.0, 0.0], ..example().1 };
    let plan = Plan::new(&instance, &answer, &Options::default()).unwrap();
    let names: Vec<&str> = plan.devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["a -> b", "a -> b (2)", "b -> c", "a -> b (3)"]);
}

#[test]
fn what_is_no_longer_of_use_is_counted() {
    let (instance, solution) = example();
    let old = Plan::new(&instance, &solution, &Options::default()).unwrap();
    let mut new = old.clone();
    let totals = |new: &Plan| diff(&old, new).totals;
    // Half the bucket.
    new.paths[1].ranges[0].bytes = 500_000_000;
    assert_eq!((totals(&new).resized, totals(&new).useless), (1, 500_000_000));
    // Half the hashes go to the next device, which has a bucket as large as before.
    new.paths[1].ranges[0] = Range { to: SPACE / 4, ..old.paths[1].ranges[0] };
    new.paths[1].ranges[1].from = SPACE / 4;
    assert_eq!((totals(&new).moved, totals(&new).useless), (2, 500_000_000));
    assert_eq!(totals(&new).hands, 0.125);
    // Half the hashes, and room for less than them.
    new.paths[1].ranges[0].bytes = 100_000_000;
    assert_eq!(totals(&new).useless, 900_000_000);
    // Back again: the next device loses half of the hashes it has now, and has the same bucket.
    assert_eq!(diff(&new, &old).totals.useless, 250_000_000);
}

/// Two paths that come to a device by different ways do not refer to each other there: the later packet may be first.
#[test]
fn packets_do_not_refer_to_those_they_may_overtake() {
    let network = network(&["I", "A", "B", "C", "D"], &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
    let plan = |links: &[u32], old: Option<&Plan>| {
        let route = Route { from: 0, to: 4, links: links.to_vec(), volume: 1e6 };
        let instance = Instance::new(network.clone(), vec![route], &Provision::default(), &Placement::Links, profile()).unwrap();
        let answer = Solution { cached: vec![0.0, 0.0, 1.0], ..example().1 };
        Arc::new(match old {
            Some(old) => Plan::after(old, &instance, &answer, &Options::default()).unwrap(),
            None => Plan::new(&instance, &answer, &Options::default()).unwrap(),
        })
    };
    let old = plan(&[0, 2, 4], None);
    let new = plan(&[1, 3, 4], Some(&old));
    let (before, after) = (old.paths()[0].id, new.paths()[0].id);
    assert_ne!(before, after);
    let change = Transition::new(old, new).unwrap();
    let mut progress = Progress::new(5);
    progress.acknowledge(4);
    let of = |path| change.copies(&progress, path, 7);
    assert_eq!((of(before), of(after)), (Copies { old: Some(4), new: None }, Copies { old: None, new: Some(4) }));
    let decoder = |p, q| change.decoder(&progress, p, q, 7, of(q));
    assert_eq!(decoder(before, before), Some(Decoder { device: 4, hop: 2, configuration: Configuration::Old }));
    assert_eq!(decoder(after, after), Some(Decoder { device: 4, hop: 2, configuration: Configuration::New }));
    assert_eq!([decoder(after, before), decoder(before, after)], [None, None]);
}

/// Of two devices that can decode, the one is named that the packet reaches first.
#[test]
fn the_nearer_device_is_named() {
    let (instance, mut answer) = example();
    answer.cached = vec![0.0, 1.0, 0.0, 0.0, 0.0];
    let old = Arc::new(Plan::new(&instance, &answer, &Options::default()).unwrap());
    answer.cached = vec![1.0, 0.0, 0.0, 0.0, 0.0];
    let new = Arc::new(Plan::after(&old, &instance, &answer, &Options::default()).unwrap());
    let change = Transition::new(old, new).unwrap();
    let mut progress = Progress::new(4);
    (0..4).for_each(|device| progress.acknowledge(device));
    let copies = change.copies(&progress, 0, 7);
    assert_eq!(copies, Copies { old: Some(1), new: Some(0) });
    let decoder = |p, copies| change.decoder(&progress, p, 0, 7, copies);
    assert_eq!(decoder(0, copies), Some(Decoder { device: 0, hop: 0, configuration: Configuration::New }));
    // When the ingress's bucket of the new plan has lost the packet, the old one serves: but not on a path that parts before.
    assert_eq!(
        decoder(0, Copies { new: None, ..copies }),
        Some(Decoder { device: 1, hop: 1, configuration: Configuration::Old })
    );
    assert_eq!(decoder(1, Copies { new: None, ..copies }), None);
}
