//! The thesis's motivating examples (section 3.1, figures 3.1 and 3.2) as networks of nodes. Bytes on
//! links are those that nodes tell their controller.
//!
//! Hop by hop means a network of two nodes for each link: what enters the link is encoded there, and
//! decoded at its end.

use super::*;
use std::fmt::Write as _;

const SECOND: u64 = 1_000_000_000;
/// Bytes of payload of each packet, and of the packet.
const PAYLOAD: usize = 1400;
const SIZE: usize = PAYLOAD + 28;
/// All hashes, and half of them.
const ALL: u64 = 1 << 32;
const HALF: u64 = 1 << 31;

/// A network of nodes with a plan that is given.
struct Given {
    network: Arc<RunningNetwork>,
    nodes: Vec<Machine>,
    now: u64,
}

/// Bytes on links: without elimination, and those that were saved, less shims.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OnLinks {
    whole: u64,
    saved: i64,
}

impl std::ops::AddAssign for OnLinks {
    fn add_assign(&mut self, other: OnLinks) {
        self.whole += other.whole;
        self.saved += other.saved;
    }
}

impl OnLinks {
    /// Packets' payloads that were saved: the X of the thesis.
    fn saved_packets(&self) -> f64 {
        self.saved as f64 / PAYLOAD as f64
    }
}

impl Given {
    /// Nodes, some of which can do so many operations a second.
    fn new(topology: &str, plan: &str, operations: impl Fn(usize) -> f64) -> Given {
        let network = Arc::new(RunningNetwork::parse(topology).expect("a network"));
        let plan = Plan::from_json(plan).expect("a plan");
        let manifests = Manifests::of_plan(&plan).expect("its manifests");
        let node = |me| {
            let operations = operations(me);
            let settings = NodeSettings { seed: SEED, operations, ..NodeSettings::default() };
            Machine::new(network.clone(), me, &manifests, settings, None).expect("a node")
        };
        let nodes = (0..network.map().nodes.len()).map(node).collect();
        Given { network, nodes, now: 0 }
    }

    /// A link of its own, whose ends store so many packets.
    fn link(packets: usize) -> Given {
        let topology = r#"{"name": "given", "nodes": [{"id": "X", "prefixes": ["10.0.0.0/14"]},
            {"id": "Y", "prefixes": ["10.6.0.0/16"]}], "links": [{"a": "X", "b": "Y"}]}"#;
        let plan = plan(&["Y"], &[("X", "Y", &[0], &[(0, ALL, packets)])]);
        Given::new(topology, &plan, |_| f64::INFINITY)
    }

    /// Carries a packet, a twentieth of a second after the one before.
    fn carry(&mut self, packet: &[u8]) {
        self.now += SECOND / 20;
        let headers = Headers::parse(packet).unwrap();
        let [from, to] = [headers.source, headers.destination]
            .map(|address| self.network.owner(address).expect("a node"));
        let mut steps = Vec::new();
        self.nodes[from].enter(packet, self.now, &mut steps);
        let mut at = from;
        // One thing to do at a time: on to the next node, until it leaves.
        while let Some(step) = steps.pop() {
            assert_eq!(steps, []);
            match step {
                Step::Deliver(left) => assert_eq!((at, &left[..]), (to, packet)),
                Step::Send { to, kind, bits, body } => {
                    let next = self.network.neighbors(at)[to];
                    let number = self.network.neighbors(next).binary_search(&at).unwrap();
                    self.nodes[next].arrive(number, (kind, bits, &body), &mut steps);
                    at = next;
                }
            }
        }
        let delivered: u64 = self.nodes.iter().map(|node| node.counters().delivered).sum();
        let entered: u64 = self.nodes.iter().map(|node| node.counters().entered).sum();
        assert_eq!(entered, delivered);
    }

    /// What links have carried since the last time, and the operations of a node. None had more to do
    /// than it can.
    fn carried(&mut self, of: usize) -> (OnLinks, u64) {
        let (mut sum, mut operations) = (OnLinks::default(), 0);
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let mut steps = Vec::new();
            node.tick(self.now, &mut steps);
            assert_eq!(node.counters().overloaded, 0, "node {at}");
            let carried = node.carried(self.now);
            for (_, sent, whole) in carried.links {
                sum += OnLinks { whole, saved: whole as i64 - sent as i64 };
            }
            operations += if at == of { carried.operations } else { 0 };
        }
        (sum, operations)
    }
}

/// A plan as text: the nodes with devices; for each path its ingress, egress, devices in order, and
/// ranges: which of these devices, end, packets.
type GivenPath<'a> = (&'a str, &'a str, &'a [usize], &'a [(usize, u64, usize)]);

fn plan(devices: &[&str], paths: &[GivenPath<'_>]) -> String {
    let devices: Vec<String> =
        devices.iter().map(|name| format!(r#"{{"name":"{name}","memory":null}}"#)).collect();
    let ingresses: Vec<String> =
        paths.iter().map(|path| format!(r#"{{"name":"{}","memory":null}}"#, path.0)).collect();
    let mut all = String::new();
    for (number, (_, egress, hops, ranges)) in paths.iter().enumerate() {
        let ranges: Vec<String> = ranges
            .iter()
            .map(|(hop, end, packets)| format!("[{hop},{end},{}]", packets * SIZE))
            .collect();
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(
            all,
            r#"{comma}{{"path":{number},"ingress":{number},"egress":"{egress}","hops":{hops:?},"ranges":[{}]}}"#,
            ranges.join(",")
        );
    }
    format!(
        r#"{{"format":1,"version":1,"network":"given","hash":"oncewire-header-1",
            "parameters":{{"epoch":10.0,"headroom":1.0,"smallest":0.0,"method":"given","derivation":[]}},
            "devices":[{}],"ingresses":[{}],"paths":[{all}]}}"#,
        devices.join(","),
        ingresses.join(",")
    )
}

/// Makes packets: each another one for a host, with a hash in a range.
#[derive(Default)]
struct Sender(u32);

impl Sender {
    fn packet(&mut self, (from, to): (usize, usize), content: u64, hashes: (u64, u64)) -> Vec<u8> {
        let payload = incompressible(content, PAYLOAD);
        let hasher = HeaderHasher { seed: SEED, extension: Extension::Always };
        loop {
            self.0 += 1;
            // Other ports, too: the same from the same host is a retransmission.
            let packet = packet(from, to, self.0 << 16 | self.0, &payload);
            let hash = hasher.identity(&fields_of(&packet[..28]).unwrap()).hash();
            if (hashes.0..hashes.1).contains(&u64::from(hash)) {
                return packet;
            }
        }
    }
}

/// Figure 3.1. Three packets that come twice cross three links. Each router has memory for one of
/// them, the ends of the first link for four. Hop by hop, only the first link saves anything; where
/// routers share the packets, a third of all bytes is saved.
#[test]
fn figure_3_1_coordination_saves_a_third() {
    const CHAIN: &str = r#"{"name": "given", "nodes": [{"id": "I", "prefixes": ["10.0.0.0/16"]},
        {"id": "R1"}, {"id": "R2"}, {"id": "R3", "prefixes": ["10.6.0.0/16"]}],
        "links": [{"a": "I", "b": "R1"}, {"a": "R1", "b": "R2"}, {"a": "R2", "b": "R3"}]}"#;
    let third = |part: u64| part * (ALL / 3);
    let ranges = [(0, third(1), 1), (1, third(2), 1), (2, third(3), 1)];
    let plan = plan(&["R1", "R2", "R3"], &[("I", "R3", &[0, 1, 2], &ranges)]);
    let mut coordinated = Given::new(CHAIN, &plan, |_| f64::INFINITY);
    let mut hops = [Given::link(4), Given::link(1), Given::link(1)];
    let mut sender = Sender::default();
    for _ in 0..2 {
        for content in 0..3 {
            let hashes = (third(content), third(content + 1));
            let packet = sender.packet((0, 6), content, hashes);
            coordinated.carry(&packet);
            hops.iter_mut().for_each(|hop| hop.carry(&packet));
        }
    }
    let whole = (18 * SIZE) as u64;
    let (on_links, _) = coordinated.carried(3);
    let of_hops = hops.map(|mut hop| hop.carried(1).0);
    let percent = |saved: i64| 100.0 * saved as f64 / whole as f64;
    let all: i64 = of_hops.iter().map(|hop| hop.saved).sum();
    println!(
        "figure 3.1: {:.1} % saved together, {:.1} % hop by hop; in packets {:.2} and {:.2}",
        percent(on_links.saved),
        percent(all),
        on_links.saved_packets(),
        all as f64 / PAYLOAD as f64
    );
    assert_eq!(on_links.whole, whole);
    assert_eq!(of_hops.iter().map(|hop| hop.whole).sum::<u64>(), whole);
    // One, two and three links of six packets, less their headers and shims.
    assert!((32.0..33.4).contains(&percent(on_links.saved)), "{on_links:?}");
    // Shims that say "cache it", a byte each.
    assert_eq!([of_hops[1].saved, of_hops[2].saved], [-6, -6], "interior links");
    assert!((16.0..16.7).contains(&percent(all)), "{of_hops:?}");
}

/// Figure 3.2. Four ingresses can each encode 5 packets a second, routers 10, and decode 20. Hop by hop,
/// slow links save 5 packets and fast ones 10: 40 in all, and with a bare R1 only 10. Where R3 alone
/// decodes, 20 packets are saved on three links, with a bare R1, too.
#[test]
fn figure_3_2_decoders_at_their_full_speed() {
    const TREE: &str = r#"{"name": "given", "nodes": [
        {"id": "I1", "prefixes": ["10.0.0.0/16"]}, {"id": "I2", "prefixes": ["10.1.0.0/16"]},
        {"id": "I3", "prefixes": ["10.2.0.0/16"]}, {"id": "I4", "prefixes": ["10.3.0.0/16"]},
        {"id": "R1"}, {"id": "R2"}, {"id": "R3", "prefixes": ["10.6.0.0/16"]}],
        "links": [{"a": "I1", "b": "R1"}, {"a": "I2", "b": "R1"}, {"a": "I3", "b": "R1"},
            {"a": "I4", "b": "R1"}, {"a": "R1", "b": "R2"}, {"a": "R2", "b": "R3"}]}"#;
    // R1 and R2 have nothing to do: they need no device. R3 caches half of the packets.
    let range = [(0, HALF, 5)];
    let of = |ingress| (ingress, "R3", &[0][..], &range[..]);
    let plan = plan(&["R3"], &["I1", "I2", "I3", "I4"].map(of));
    let limit = |node| if node == 6 { 20.0 } else { f64::INFINITY };
    let mut coordinated = Given::new(TREE, &plan, limit);
    let mut slow = [(); 4].map(|()| Given::link(10));
    let mut fast = [(); 2].map(|()| Given::link(40));

    let mut sender = Sender::default();
    let mut second = |hashes: (u64, u64)| -> Vec<(usize, Vec<u8>)> {
        let all = (0..20).map(|number| number as usize % 4).zip(0..20);
        all.map(|(from, content)| (from, sender.packet((from, 6), content, hashes))).collect()
    };
    // Everything is stored once.
    for (from, packet) in second((0, HALF)) {
        coordinated.carry(&packet);
        slow[from].carry(&packet);
        fast.iter_mut().for_each(|link| link.carry(&packet));
    }
    let mut nets: Vec<&mut Given> = [&mut coordinated].into_iter().collect();
    nets.extend(&mut slow);
    nets.extend(&mut fast);
    for net in nets {
        assert!(net.carried(0).0.saved <= 0, "nothing was there before");
    }
    // Then it comes again, in a second: 20 packets of which each is known.
    for (number, (from, packet)) in second((HALF, ALL)).into_iter().enumerate() {
        coordinated.carry(&packet);
        slow[from].carry(&packet);
        // A router that has encoded 10 lets the others pass.
        if number < 10 {
            fast.iter_mut().for_each(|link| link.carry(&packet));
        }
    }
    let (on_links, operations) = coordinated.carried(6);
    let mut hop_by_hop = OnLinks::default();
    slow.iter_mut().for_each(|link| hop_by_hop += link.carried(1).0);
    let [first, second] = fast.map(|mut link| link.carried(1).0);
    hop_by_hop += first;
    hop_by_hop += second;
    println!(
        "figure 3.2, packets times links saved a second: {:.1} at R3, {:.1} hop by hop, {:.1} with R1 bare",
        on_links.saved_packets(),
        hop_by_hop.saved_packets(),
        second.saved_packets()
    );
    assert_eq!(operations, 20, "R3 does what it can");
    assert_eq!(
        coordinated.nodes[4].counters().decoded + coordinated.nodes[5].counters().decoded,
        0
    );
    // Shims take a hundredth of it.
    assert!((59.0..=60.0).contains(&on_links.saved_packets()), "{on_links:?}");
    assert!((39.0..=40.0).contains(&hop_by_hop.saved_packets()), "{hop_by_hop:?}");
    assert!((9.8..=10.0).contains(&second.saved_packets()), "{second:?}");
}
