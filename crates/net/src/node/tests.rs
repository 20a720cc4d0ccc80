//! Whole networks of nodes without sockets; the emulator is the judge.

mod controlled;
mod crowds;
mod figures;
mod overload;
mod plans;

use super::record::{PathPacket, Reason, Rejected, fields_of, invariant, take_path};
use super::*;
use oncewire_packet::fields::Headers;
use oncewire_plan::emulate::{Emulation, Scheme, Settings};
use oncewire_plan::engine::{Allocation, Extension, HeaderHasher, Packet};
use oncewire_plan::manifest::{self, Plan};
use oncewire_plan::{Instance, Request, Scenario, Text, Unwatched};
use oncewire_session::link::NodeKind;
use oncewire_testkit::content::incompressible;
use std::sync::Arc;

/// A ring with a chord and a tail: paths of one to three links, and ways that share some.
const MAP: &str = r#"{"name": "small",
    "nodes": [
        {"id": "A", "population": 3, "prefixes": ["10.0.0.0/16"]},
        {"id": "B", "population": 2, "prefixes": ["10.1.0.0/16"]},
        {"id": "C", "population": 2, "prefixes": ["10.2.0.0/16", "fd02::/64"]},
        {"id": "D", "population": 1, "prefixes": ["10.3.0.0/16"]},
        {"id": "E", "population": 1, "prefixes": ["10.4.0.0/16"]}],
    "links": [{"a": "A", "b": "B"}, {"a": "B", "b": "C"}, {"a": "C", "b": "D"}, {"a": "B", "b": "D", "weight": 1.5},
        {"a": "D", "b": "E"}]}"#;
const SEED: u64 = 7;

/// A network and its plan. Caches are small, so that packets leave them.
struct World {
    network: Arc<RunningNetwork>,
    instance: Instance,
    plan: Plan,
    nodes: Vec<Machine>,
}

/// The bytes of packets and shims on each link, by the nodes at its ends.
type OnLinks = std::collections::BTreeMap<(usize, usize), u64>;

impl World {
    fn new() -> World {
        let mut scenario = Scenario::new(Text::new("small.json", MAP));
        // Epochs of a second, and 60 kB of each ingress in it.
        scenario.scale = oncewire_plan::traffic::Scale::Total(oncewire_plan::Bytes(4e5));
        let instance = scenario.build(&Unwatched).expect("a network");
        let outcome = oncewire_plan::run(&Request::new(scenario), &Unwatched).expect("a plan");
        let options = manifest::Options::default();
        let plan = Plan::new(&instance, &outcome.solution, &options).expect("a plan");
        let network = Arc::new(RunningNetwork::parse(MAP).expect("a network"));
        let nodes = (0..5).map(|me| machine(&network, &plan, me)).collect();
        World { network, instance, plan, nodes }
    }

    fn emulation(&self) -> Emulation<'_> {
        let settings = Settings { seed: SEED, format: FORMAT, shed: false, ..Settings::default() };
        let scheme = Scheme::Planned(Allocation::of_plan(&self.plan));
        Emulation::new(&self.instance, scheme, settings).expect("an emulation")
    }

    /// A packet as the emulator takes it.
    fn entering(&self, (from, to, packet): &(usize, usize, Vec<u8>), time: u64) -> Packet {
        let headers = Headers::parse(packet).unwrap();
        let path = self.instance.paths.iter().position(|path| {
            let begins = self.instance.ingresses[path.ingress as usize].node.index();
            (begins, path.egress.index()) == (*from, *to)
        });
        let (header, payload) = packet.split_at(headers.total());
        Packet {
            time,
            path: path.unwrap() as u32,
            header: invariant(packet, &headers),
            header_bytes: header.len() as u32,
            payload: payload.into(),
        }
    }

    /// Carries a packet that enters at a node, drops what `lose` says, and returns what left.
    fn carry(
        &mut self,
        at: usize,
        packet: &[u8],
        now: u64,
        on_links: &mut OnLinks,
        lose: impl FnMut() -> bool,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut steps = Vec::new();
        self.nodes[at].enter(packet, now, &mut steps);
        self.perform(steps.into_iter().map(|step| (at, step)).collect(), on_links, lose)
    }

    /// Does what nodes want done, and returns what left.
    fn perform(
        &mut self,
        mut waiting: Vec<(usize, Step)>,
        on_links: &mut OnLinks,
        mut lose: impl FnMut() -> bool,
    ) -> Vec<(usize, Vec<u8>)> {
        let (mut left, mut steps) = (Vec::new(), Vec::new());
        while let Some((at, step)) = waiting.pop() {
            match step {
                Step::Deliver(packet) => left.push((at, packet)),
                Step::Send { to, kind, bits, body } => {
                    let next = self.network.neighbors(at)[to];
                    if kind == NodeKind::Path {
                        let (_, packet) = read(bits, &body);
                        let bytes = packet.shim.len() + packet.header.len() + packet.literals.len();
                        *on_links.entry((at, next)).or_default() += bytes as u64;
                    }
                    if lose() {
                        continue;
                    }
                    let from = self.network.neighbors(next).binary_search(&at).expect("neighbors");
                    self.nodes[next].arrive(from, (kind, bits, &body), &mut steps);
                    waiting.extend(steps.drain(..).map(|step| (next, step)));
                }
            }
        }
        left
    }

    fn sum(&self) -> NodeCounters {
        let mut sum = NodeCounters::default();
        self.nodes.iter().for_each(|node| sum += node.counters());
        sum
    }
}

fn machine(network: &Arc<RunningNetwork>, plan: &Plan, me: usize) -> Machine {
    let manifests = Manifests::new(plan.device_manifests(), plan.ingress_manifests()).unwrap();
    let epoch = std::time::Duration::from_secs(300);
    let settings = NodeSettings { seed: SEED, epoch, ..NodeSettings::default() };
    Machine::new(network.clone(), me, &manifests, settings, None).expect("a node")
}

fn read(bits: u8, body: &[u8]) -> (u32, PathPacket<'_>) {
    let mut rest = body;
    let path = take_path(&mut rest).expect("a path");
    (path, PathPacket::read(&FORMAT, path, bits, rest).expect("a packet"))
}

/// A packet of UDP between hosts behind two nodes.
fn packet(from: usize, to: usize, number: u32, payload: &[u8]) -> Vec<u8> {
    let length = |len: usize| (len as u16).to_be_bytes();
    let mut packet = vec![0x45, 0];
    packet.extend(length(28 + payload.len()));
    packet.extend([(number >> 8) as u8, number as u8, 0x40, 0, 64, 17, 0, 0]);
    packet.extend([10, from as u8, 0, 9, 10, to as u8, 0, 1]);
    packet.extend([0x30, 0x39, (number >> 24) as u8, (number >> 16) as u8]);
    packet.extend(length(8 + payload.len()));
    // Whatever the checksum is: it is a field like the others.
    packet.extend((number as u16).wrapping_mul(40_503).to_be_bytes());
    packet.extend(payload);
    packet
}

/// Packets of a few hundred bytes between random nodes, with pieces of a small pool of content.
fn traffic(count: u32, seed: u64) -> Vec<(usize, usize, Vec<u8>)> {
    let pool = incompressible(seed, 60_000);
    let mut random = fastrand::Rng::with_seed(seed);
    let one = |number: u32| {
        let from = random.usize(..5);
        let to = (from + random.usize(1..5)) % 5;
        let mut payload = number.to_be_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let (at, len) = (random.usize(..pool.len() - 700), random.usize(40..600));
            payload.extend(&pool[at..at + len]);
        }
        payload.truncate(1300);
        (from, to, packet(from, to, number, &payload))
    };
    (0..count).map(one).collect()
}

/// Without losses, nodes send on each link what the emulator does, packet by packet, and what leaves
/// is what entered.
#[test]
fn nodes_do_what_the_emulator_does() {
    let mut world = World::new();
    let other = World::new();
    let mut emulation = other.emulation();
    let (mut on_links, mut plain) = (OnLinks::new(), 0u64);
    for (number, (from, to, packet)) in traffic(6000, 3).iter().enumerate() {
        let now = number as u64 * 1_000_000;
        let entering = world.entering(&(*from, *to, packet.clone()), now);
        emulation.push(&entering).expect("it is carried");
        let left = world.carry(*from, packet, now, &mut on_links, || false);
        assert_eq!(left, [(*to, packet.clone())], "packet {number}");
        let report = emulation.report();
        for (link, traffic) in other.instance.network.links.iter().zip(&report.links) {
            let ends = (link.from.index(), link.to.index());
            let ours = on_links.get(&ends).copied().unwrap_or(0);
            assert_eq!(ours, traffic.after, "packet {number} on {ends:?}");
        }
        plain = report.links.iter().map(|traffic| traffic.before).sum();
    }
    // What nodes tell their controller is the same, and what there would be without elimination.
    let report = emulation.report();
    for at in 0..5 {
        for (to, sent, whole) in world.nodes[at].carried(6_000_000_000).links {
            let ends = (at, to as usize);
            let links = other.instance.network.links.iter().zip(&report.links);
            let link = links.filter(|(link, _)| (link.from.index(), link.to.index()) == ends);
            let sums = link.fold((0, 0), |sum, one| (sum.0 + one.1.after, sum.1 + one.1.before));
            assert_eq!((sent, whole), sums, "{ends:?}");
        }
        let again = world.nodes[at].carried(6_000_000_001);
        assert!(again.nanoseconds == 1 && again.links.iter().all(|link| link.1 == 0));
        assert!(again.cached > 0 && again.cached <= again.cache, "{again:?}");
    }
    let (sum, sent) = (world.sum(), on_links.values().sum::<u64>());
    assert!(sent * 4 < plain * 3, "{sent} of {plain} bytes");
    assert_eq!((sum.entered, sum.delivered), (6000, 6000));
    assert_eq!(sum.decoded, report.devices.iter().map(|device| device.decoded).sum::<u64>());
    assert_eq!(sum.cached, report.devices.iter().map(|device| device.cached).sum::<u64>());
    assert_eq!(sum.matches, sum.decoded);
    assert!(report.devices.iter().any(|device| device.packets < device.cached), "none was evicted");
}

/// With losses, what leaves is what entered, and only what a link has lost does not leave: what could
/// not be decoded for it is rejected, and sent again.
#[test]
fn a_network_that_loses_packets_loses_no_others() {
    let mut world = World::new();
    let mut random = fastrand::Rng::with_seed(5);
    let mut losses = 0u64;
    for (number, (from, to, packet)) in traffic(4000, 4).iter().enumerate() {
        let now = number as u64 * 1_000_000;
        let lose = || {
            let is_lost = random.f64() < 0.01;
            losses += u64::from(is_lost);
            is_lost
        };
        let left = world.carry(*from, packet, now, &mut OnLinks::new(), lose);
        assert!(left.is_empty() || left == [(*to, packet.clone())], "packet {number}");
    }
    let sum = world.sum();
    assert!(losses > 0 && sum.undecodable > 0 && sum.resent > 0, "{sum:?}");
    // A rejection that is lost loses its packet, too.
    assert!(sum.entered - sum.delivered <= losses, "{losses} lost: {sum:?}");
    assert!(sum.resent <= sum.undecodable + sum.damaged);
    assert_eq!((sum.violations, sum.wrong_neighbor, sum.source_not_allowed), (0, 0, 0));
    assert_eq!(sum.unanswered, 0);
}

/// A node that restarts has an empty cache. What refers to it is rejected and sent again, until
/// ingresses refer to it no more.
#[test]
fn a_node_that_restarts_loses_nothing() {
    let mut world = World::new();
    let mut rejected = Vec::new();
    for (number, (from, to, packet)) in traffic(6000, 12).iter().enumerate() {
        if number == 2000 {
            // Its ingress starts anew, too.
            world.nodes[1] = machine(&world.network, &world.plan, 1);
        }
        if number % 1000 == 0 {
            rejected.push(world.sum().resent);
        }
        let now = number as u64 * 1_000_000;
        let left = world.carry(*from, packet, now, &mut OnLinks::new(), || false);
        assert_eq!(left, [(*to, packet.clone())], "packet {number}");
    }
    rejected.push(world.sum().resent);
    let by_thousand: Vec<u64> = rejected.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(by_thousand[..2], [0, 0]);
    assert!(by_thousand[2] > 0 && by_thousand[5] * 20 <= by_thousand[2], "{by_thousand:?}");
}

/// If its neighbors notice the restart, nothing needs to be rejected.
#[test]
fn a_restart_that_is_noticed_rejects_nothing() {
    let mut world = World::new();
    let mut links = OnLinks::new();
    for (number, (from, to, packet)) in traffic(4000, 12).iter().enumerate() {
        if number == 2000 {
            world.nodes[3] = machine(&world.network, &world.plan, 3);
            // What it had cached for paths of its own is at others, which do not know that.
            for neighbor in world.network.neighbors(3) {
                let number = world.network.neighbors(neighbor).binary_search(&3).unwrap();
                let mut steps = Vec::new();
                world.nodes[neighbor].restarted(number, &mut steps);
                let steps = steps.into_iter().map(|step| (neighbor, step)).collect();
                assert_eq!(world.perform(steps, &mut links, || false), []);
            }
        }
        let now = number as u64 * 1_000_000;
        let left = world.carry(*from, packet, now, &mut links, || false);
        assert_eq!(left, [(*to, packet.clone())], "packet {number}");
    }
    let sum = world.sum();
    assert_eq!((sum.resent, sum.undecodable, sum.violations), (0, 0, 0), "{sum:?}");
    assert!(sum.restarted >= 2 && sum.decoded > 1000, "{sum:?}");
}

/// Only the neighbor after a node on a path may reject its packets, and each is sent again once.
#[test]
fn rejections_are_answered_once() {
    let mut world = World::new();
    let (mut steps, mut encoded) = (Vec::new(), None);
    // From A to C, by B, until one is encoded.
    for number in 0u32..9 {
        // Another payload each time: equal ones would pass for retransmissions.
        let payload = [&number.to_be_bytes()[..], &incompressible(1, 900)].concat();
        let packet = packet(0, 2, number, &payload);
        world.nodes[0].enter(&packet, u64::from(number) * 1_000_000_000, &mut steps);
        let Some(Step::Send { bits, body, .. }) = steps.pop() else { panic!("{steps:?}") };
        if world.nodes[0].counters().matches > 0 {
            encoded = Some((bits, body, packet));
            break;
        }
    }
    let (bits, body, packet) = encoded.expect("a repeat");
    let (path, sent) = read(bits, &body);
    let hash = HeaderHasher { seed: SEED, extension: Extension::Always };
    let identity = hash.identity(&fields_of(sent.header).unwrap());
    let rejected = Rejected { identity, reason: Reason::Undecodable }.write(path);
    // C tells B, and B tells A; D may not.
    let number = |at: usize, of: usize| world.network.neighbors(at).binary_search(&of).unwrap();
    let (c_of_b, d_of_b, a_of_b, b_of_a) = (number(1, 2), number(1, 3), number(1, 0), number(0, 1));
    for wrong in [d_of_b, a_of_b] {
        world.nodes[1].arrive(wrong, (NodeKind::Back, 0, &rejected), &mut steps);
    }
    assert_eq!((world.nodes[1].counters().wrong_neighbor, steps.len()), (2, 0));
    world.nodes[1].arrive(c_of_b, (NodeKind::Back, 0, &rejected), &mut steps);
    let passed = Step::Send { to: a_of_b, kind: NodeKind::Back, bits: 0, body: rejected.clone() };
    assert_eq!(steps, [passed]);
    for answers in [1, 0] {
        steps.clear();
        world.nodes[0].arrive(b_of_a, (NodeKind::Back, 0, &rejected), &mut steps);
        assert_eq!(steps.len(), answers);
        if let [Step::Send { bits, body, .. }] = &steps[..] {
            let (path_again, whole) = read(*bits, body);
            assert_eq!((path_again, whole.shim.len()), (path, 0));
            assert_eq!([whole.header, whole.literals].concat(), packet);
        }
    }
    let counters = world.nodes[0].counters();
    assert_eq!((counters.resent, counters.unanswered), (1, 1));
    world.nodes[0].arrive(b_of_a, (NodeKind::Back, 2, &rejected), &mut steps);
    assert_eq!(world.nodes[0].counters().violations, 1, "another kind of answer");
}

/// A node takes packets of its own prefixes only, and a path only from the neighbor before it.
#[test]
fn strangers_sources_and_wrong_neighbors_are_refused() {
    let mut world = World::new();
    let (mut steps, mut links) = (Vec::new(), OnLinks::new());
    let enter = |world: &mut World, packet: &[u8]| {
        let mut steps = Vec::new();
        world.nodes[0].enter(packet, 0, &mut steps);
        assert!(steps.is_empty(), "{packet:?}");
        world.nodes[0].counters()
    };
    assert_eq!(enter(&mut world, &packet(1, 2, 1, b"x")).source_not_allowed, 1);
    assert_eq!(enter(&mut world, &packet(9, 2, 1, b"x")).source_not_allowed, 2);
    assert_eq!(enter(&mut world, &packet(0, 0, 1, b"x")).no_path, 1, "to itself");
    assert_eq!(enter(&mut world, &packet(0, 9, 1, b"x")).no_path, 2, "to nobody");
    assert_eq!(enter(&mut world, &[0x45; 19]).malformed, 1);
    // From A to C, by B. C takes it from B only; D has nothing to do with it.
    let whole = packet(0, 2, 7, &[5; 300]);
    assert_eq!(world.carry(0, &whole, 0, &mut links, || false), [(2, whole.clone())]);
    world.nodes[0].enter(&whole, 1, &mut steps);
    let Some(Step::Send { kind, bits, body, .. }) = steps.pop() else { panic!("{steps:?}") };
    let neighbors = world.network.neighbors(2);
    for (at, &neighbor) in neighbors.iter().enumerate() {
        let before = world.nodes[2].counters().wrong_neighbor;
        world.nodes[2].arrive(at, (kind, bits, &body), &mut steps);
        let refused = world.nodes[2].counters().wrong_neighbor - before;
        assert_eq!((refused == 0, steps.is_empty()), (neighbor == 1, neighbor != 1));
        steps.clear();
    }
    world.nodes[3].arrive(0, (kind, bits, &body), &mut steps);
    assert_eq!((world.nodes[3].counters().wrong_neighbor, steps.len()), (1, 0));
    // B invents a packet of another host on the path from A, and one that is for another node.
    let (path, _) = read(bits, &body);
    let from_b = neighbors.binary_search(&1).unwrap();
    for invented in [packet(3, 2, 1, b"x"), packet(0, 4, 1, b"x")] {
        let (header, literals) = invented.split_at(28);
        let mut body = Vec::new();
        let bits = PathPacket { shim: &[], header, literals, encoded: 0 }.write(path, &mut body);
        world.nodes[2].arrive(from_b, (NodeKind::Path, bits, &body), &mut steps);
    }
    assert_eq!((world.nodes[2].counters().source_not_allowed, steps.len()), (2, 0));
}

/// Whatever a neighbor sends, a node counts it and goes on. What it caches is bounded by its manifest.
#[test]
fn hostile_records_do_no_harm() {
    let mut world = World::new();
    let mut random = fastrand::Rng::with_seed(6);
    let mut genuine = Vec::new();
    for (number, (from, _, packet)) in traffic(600, 8).iter().enumerate() {
        let mut steps = Vec::new();
        world.nodes[*from].enter(packet, number as u64, &mut steps);
        genuine.extend(steps.into_iter().filter_map(|step| match step {
            Step::Send { kind, bits, body, .. } => Some((kind, bits, body)),
            Step::Deliver(_) => None,
        }));
    }
    let most: Vec<u64> =
        world.plan.device_manifests().iter().map(|manifest| manifest.bytes()).collect();
    let mut steps = Vec::new();
    for _ in 0..30_000 {
        let (mut kind, mut bits, mut body) = genuine[random.usize(..genuine.len())].clone();
        for _ in 0..random.usize(..4) {
            match random.u8(..6) {
                0 => kind = NodeKind::Back,
                1 => bits = random.u8(..4),
                2 => body.truncate(random.usize(..=body.len())),
                3 => body.extend(std::iter::repeat_with(|| random.u8(..)).take(9)),
                _ if body.is_empty() => {}
                _ => {
                    let at = random.usize(..body.len().min(60));
                    body[at] = random.u8(..);
                }
            }
        }
        let (node, from) = (random.usize(..5), random.usize(..3));
        world.nodes[node].arrive(from, (kind, bits, &body), &mut steps);
        assert!(steps.len() <= 1, "{steps:?}");
        steps.clear();
    }
    let sum = world.sum();
    assert!(sum.violations > 100 && sum.wrong_neighbor > 100 && sum.cached > 100, "{sum:?}");
    let cached: u64 = world.nodes.iter().map(|node| node.cached().0).sum();
    assert!(cached <= most.iter().sum());
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let world = World::new();
    let (devices, ingresses) = (world.plan.device_manifests(), world.plan.ingress_manifests());
    let refused = |devices: &[_], ingresses: &[_], map: &str| {
        let network = Arc::new(RunningNetwork::parse(map)?);
        let manifests = Manifests::new(devices.to_vec(), ingresses.to_vec())?;
        let settings = NodeSettings::default();
        Machine::new(network, 0, &manifests, settings, Some(1 << 30)).map(drop)
    };
    let said = |result: Result<(), SetupError>| result.unwrap_err().to_string();
    refused(&devices, &ingresses, MAP).unwrap();
    assert!(
        said(refused(&[&devices[..], &devices[..1]].concat(), &ingresses, MAP)).contains("two")
    );
    // The chord is a detour now.
    let other = said(refused(&devices, &ingresses, &MAP.replace("1.5", "2.5")));
    assert!(other.contains("other devices"), "{other}");
    let renamed = MAP.replace("\"E\"", "\"F\"");
    assert!(said(refused(&devices, &ingresses, &renamed)).contains("was the plan made from it"));
    for (text, instead, why) in [
        ("10.1.0.0/16", "10.0.0.0/16", "is behind A, too"),
        ("10.1.0.0/16", "10.1.0.0/99", "is no network"),
        ("\"population\": 3", "\"key\": \"ow1x\"", "key"),
        ("\"population\": 3", "\"address\": \"nowhere\"", "address"),
    ] {
        let said = said(refused(&devices, &ingresses, &MAP.replacen(text, instead, 1)));
        assert!(said.contains(why), "{said}");
    }
    let network = Arc::new(RunningNetwork::parse(MAP).unwrap());
    let manifests = Manifests::new(devices, ingresses).unwrap();
    let little = Machine::new(network, 0, &manifests, NodeSettings::default(), Some(9));
    assert!(matches!(little, Err(SetupError::Memory { memory: 9, .. })));
}

/// What enters is measured by egress, whether a plan has a path for it or not.
#[test]
fn what_enters_is_measured() {
    let network = Arc::new(RunningNetwork::parse(MAP).unwrap());
    let settings = NodeSettings { seed: SEED, ..NodeSettings::default() };
    let mut node = Machine::new(network, 0, &Manifests::default(), settings, None).unwrap();
    assert_eq!(node.measured(0, 9), None);
    node.measure(1 << 20).unwrap();
    let content = incompressible(1, 1000);
    let mut steps = Vec::new();
    for (number, to) in [(1, 2), (2, 3), (3, 0)] {
        node.enter(&packet(0, to, number, &content), 0, &mut steps);
    }
    // Nobody has this source.
    node.enter(&packet(9, 2, 4, &content), 0, &mut steps);
    let counts = node.measured(5, 9).unwrap();
    assert_eq!((counts.nanoseconds, &counts.volumes[..]), (5, &[(2, 1028), (3, 1028)][..]));
    assert!(matches!(counts.pairs[..], [(3, 2, 1, bytes)] if bytes > 900), "{:?}", counts.pairs);
    assert_eq!((node.counters().no_path, steps.len()), (3, 0));
}
