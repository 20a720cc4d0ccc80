//! Counts against what is known of the packets, folding, text, and routes in force.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::{
    Error, Instance, LinkId, Measured, Network, Placement, Profile, Provision, Seconds, Unwatched,
    error::TopologyError,
    packet::{Fields, Header, Packet},
    path::Route,
    ra::{self, Cost, Objective, Request, Routes, file::Goal},
    testing,
};

const HEADER: u32 = 40;
const SECOND: u64 = 1_000_000_000;

/// Paths from 0 to 1, 2, ... `egresses`, each over a link of its own.
fn star(egresses: u32) -> Instance {
    let cables: Vec<(u32, u32)> = (1..=egresses).map(|to| (0, to)).collect();
    let network = testing::network(egresses as usize + 1, &cables);
    let routes = (0..egresses)
        .map(|to| Route {
            from: NodeId(0),
            to: NodeId(to + 1),
            slice: 0,
            links: vec![LinkId(2 * to)],
            volume: 1e6,
        })
        .collect();
    let profile = Profile::Measured(Measured::default());
    let (provision, placement) = (testing::unlimited(), Placement::Links);
    Instance::new(network, routes, &Provision { ..provision }, &placement, profile).unwrap()
}

/// 600 bytes that no other number has; first and last byte end matches.
fn block(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 600];
    fastrand::Rng::with_seed(number ^ 0xb10c).fill(&mut bytes);
    (bytes[0], bytes[599]) = (number as u8, !(number as u8));
    bytes
}

fn packet(time: u64, path: u32, serial: u16, source: u8, blocks: &[u64]) -> Packet {
    let header = Header {
        source: Ipv4Addr::new(10, 0, source, serial as u8).into(),
        destination: Ipv4Addr::new(10, 9, path as u8, 1).into(),
        source_port: serial,
        destination_port: 1,
        protocol: 17,
        identification: Some(serial),
        transport: Fields::None,
    };
    let payload: Vec<u8> = blocks.iter().flat_map(|&number| block(number)).collect();
    Packet { time, path, header, header_bytes: HEADER, payload: payload.into() }
}

fn settings(counting: Counting) -> Settings {
    let mut settings = Settings { counting, prefixes: true, store: 4e6, ..Settings::default() };
    settings.matches.period = 4;
    settings
}

/// Egress, network of the source, copies.
type Plain = (u32, u8, f64);

/// Bytes by members, of one interval.
fn count(counting: Counting, packets: &[Packet]) -> Vec<(f64, Vec<Plain>)> {
    let instance = star(5);
    let mut counter = Counter::new(&instance, settings(counting)).unwrap();
    for packet in packets {
        assert_eq!(counter.push(packet).unwrap(), None);
    }
    let (number, counted) = counter.finish().unwrap();
    assert_eq!((number, counted.ingresses.len(), counted.ingresses[0].0), (0, 1, NodeId(0)));
    let network = |prefix: Option<Prefix>| match prefix.map(|prefix| prefix.address) {
        Some(std::net::IpAddr::V4(address)) => address.octets()[2],
        _ => u8::MAX,
    };
    let members = |one: &Content| {
        one.members.iter().map(|m| (m.egress.0, network(m.prefix), m.copies)).collect()
    };
    counted.ingresses[0].1.iter().map(|one| (one.bytes, members(one))).collect()
}

#[test]
fn each_byte_counts_once_with_all_who_had_it() {
    let packets = [
        packet(0, 0, 1, 1, &[1, 2, 3]),
        packet(1, 1, 2, 1, &[2, 9]),
        packet(2, 2, 3, 2, &[9, 2]),
        packet(3, 0, 4, 1, &[2]),
        packet(4, 0, 5, 1, &[7]),
    ];
    let (a, b, c) = ((1, 1), (2, 1), (3, 2));
    let with = |(egress, source), copies| (egress, source, copies);
    let mut found = count(Counting::Sets, &packets);
    found.sort_by(|x, y| x.1.len().cmp(&y.1.len()).then(x.1[0].0.cmp(&y.1[0].0)));
    let header = f64::from(HEADER);
    let expected = [
        (1800.0 + 3.0 * header, vec![with(a, 1.0)]),
        (header, vec![with(b, 1.0)]),
        (header, vec![with(c, 1.0)]),
        (600.0, vec![with(b, 1.0), with(c, 1.0)]),
        (600.0, vec![with(a, 2.0), with(b, 1.0), with(c, 1.0)]),
    ];
    assert_eq!(found, expected);

    // Block 2 has two extra copies, block 9 one; b and c share both, a and b, and a and c, block 2.
    let instance = star(5);
    let mut counter = Counter::new(&instance, settings(Counting::Sets)).unwrap();
    packets.iter().for_each(|packet| assert_eq!(counter.push(packet).unwrap(), None));
    let striping = Striping::new(&counter.finish().unwrap().1.ingresses[0].1);
    let unique = 3000.0 + 5.0 * header;
    let near = |found: f64, known: f64| (found - known).abs() < 1e-9;
    assert!(near(striping.redundancy(), 2400.0 / (unique + 2400.0)), "{striping:?}");
    assert!(near(striping.by_egresses[1] * unique, 600.0));
    assert!(near(striping.by_egresses[2] * unique, 600.0));
    let pairs: Vec<_> = striping.pairs.iter().map(|pair| (pair.0.0, pair.1.0, pair.2)).collect();
    assert_eq!(pairs, [(2, 3, 0.5), (1, 2, 0.25), (1, 3, 0.25)]);

    // The thesis: block 2 counts for b with a, for c with b, and for a with c; block 9 for c with b.
    let pairs = count(Counting::Pairs, &packets);
    let shared: Vec<(f64, u32, u32)> = pairs
        .iter()
        .filter(|one| one.1.len() == 2)
        .map(|one| (one.0, one.1[0].0, one.1[1].0))
        .collect();
    // Of b's 1,240 bytes, 1,800 are shared; of c's, 1,800, too: all pairs of both shrink alike.
    let part = 1240.0 / 1800.0;
    let near = |found: f64, known: f64| (found - known).abs() < 1e-6;
    assert!(
        near(shared[0].0, 600.0 * part)
            && near(shared[1].0, 600.0 * part)
            && near(shared[2].0, 1200.0 * part),
        "{shared:?}"
    );
    assert_eq!([(shared[0].1, shared[0].2), (shared[2].1, shared[2].2)], [(1, 2), (2, 3)]);
}

#[test]
fn intervals_begin_anew() {
    let instance = star(2);
    let mut counter = Counter::new(&instance, settings(Counting::Sets)).unwrap();
    let mut push = |time, path, serial| counter.push(&packet(time, path, serial, 1, &[1])).unwrap();
    assert_eq!(push(59 * SECOND, 0, 1), None);
    let (number, first) = push(60 * SECOND, 1, 2).unwrap();
    assert_eq!((number, Counted::volume(&first.ingresses[0].1)), (0, 640.0));
    // A late packet counts in the interval at hand.
    assert_eq!(push(10, 0, 3), None);
    let (number, second) = push(300 * SECOND, 0, 4).unwrap();
    let sets: Vec<usize> = second.ingresses[0].1.iter().map(|one| one.members.len()).collect();
    assert_eq!((number, sets.contains(&2)), (1, true));
    assert_eq!(counter.finish().unwrap().0, 5);
    assert_eq!(counter.finish(), None);
}

/// Content of up to six members at five egresses.
fn content() -> impl Strategy<Value = Vec<Content>> {
    let members = prop::collection::btree_map((1..6_u32, 0..3_u8), 1..4_u8, 1..7);
    prop::collection::vec((1..1000_u32, members), 1..8).prop_map(|content| {
        let member = |((egress, source), copies): ((u32, u8), u8)| Member {
            egress: NodeId(egress),
            prefix: (source > 0).then(|| Prefix::new(Ipv4Addr::new(10, 0, source, 0).into(), 24)),
            copies: f64::from(copies),
        };
        content
            .into_iter()
            .map(|(bytes, members)| Content {
                bytes: f64::from(bytes),
                members: members.into_iter().map(member).collect(),
            })
            .collect()
    })
}

/// Bytes on a link that leads to these egresses.
fn carried(classes: &[Class], link: u32) -> f64 {
    let leads = |egress: &NodeId| link >> egress.0 & 1 == 1;
    classes.iter().filter(|class| class.egresses.iter().any(leads)).map(|class| class.bytes).sum()
}

fn demand(classes: &[Class], egress: u32) -> f64 {
    let copies = |class: &Class| {
        let at = class.egresses.iter().position(|&other| other == NodeId(egress));
        at.map_or(0.0, |at| class.bytes * class.copies[at])
    };
    classes.iter().map(copies).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Folded sets: a link carries at least what it would, more with more egresses, and each egress
    /// gets what it would.
    #[test]
    fn folding_never_takes_from_a_link(content in content(), exact in 0..4_usize, largest in 0..3_usize) {
        let whole = classes_of(&content, |_| true, Fold { exact: 9, largest: 0 });
        let folded = classes_of(&content, |_| true, Fold { exact, largest });
        let size = |class: &Class| class.egresses.len();
        prop_assert!(folded.iter().filter(|class| size(class) > exact.max(2)).count() <= largest);
        for link in 0..64_u32 {
            prop_assert!(carried(&folded, link) >= carried(&whole, link) - 1e-9);
            for more in 1..6 {
                prop_assert!(carried(&folded, link | 1 << more) >= carried(&folded, link) - 1e-9);
            }
        }
        for egress in 1..6 {
            let (a, b) = (demand(&folded, egress), demand(&whole, egress));
            prop_assert!((a - b).abs() <= 1e-9 * b, "{a} {b}");
        }
        prop_assert!(folded.iter().all(|class| class.bytes > 0.0 && class.copies.iter().all(|&copies| copies >= 1.0 - 1e-9)));
    }

    /// Whatever the packets are: what is counted is what enters, egress by egress, and the sets are
    /// those of the blocks.
    #[test]
    fn counts_are_those_of_the_blocks(packets in prop::collection::vec((0..5_u32, 0..3_u8, prop::collection::vec(0..8_u64, 0..4)), 1..25), pairs: bool) {
        let counting = if pairs { Counting::Pairs } else { Counting::Sets };
        let made: Vec<Packet> = (1..).zip(&packets).map(|(serial, (path, source, blocks))| packet(0, *path, serial, *source, blocks)).collect();
        let instance = star(5);
        let mut counter = Counter::new(&instance, settings(counting)).unwrap();
        for packet in &made {
            counter.push(packet).unwrap();
        }
        let counted = counter.finish().unwrap().1;
        let all = classes_of(&counted.ingresses[0].1, |_| true, Fold { exact: 9, largest: 0 });
        for egress in 1..6_u32 {
            let wire: usize = made.iter().filter(|packet| packet.path + 1 == egress).map(|packet| HEADER as usize + packet.payload.len()).sum();
            prop_assert!((demand(&all, egress) - wire as f64).abs() < 1e-6 * wire as f64 + 1e-6);
        }
        for link in 1..32_u32 {
            let link = 2 * link;
            let here = |path: u32| link >> (path + 1) & 1 == 1;
            let blocks: std::collections::BTreeSet<u64> = packets.iter().filter(|packet| here(packet.0)).flat_map(|packet| packet.2.iter().copied()).collect();
            // Blocks of one packet do not match each other: one may be new twice, and what repeats
            // it later may repeat either.
            let once = 600 * blocks.len() + HEADER as usize * packets.iter().filter(|packet| here(packet.0)).count();
            let found = carried(&all, link);
            let again: usize = packets.iter().map(|packet| {
                let unique: std::collections::BTreeSet<u64> = packet.2.iter().copied().collect();
                600 * (packet.2.len() - unique.len())
            }).sum();
            prop_assert!(found >= 0.0);
            if !pairs {
                prop_assert!(found >= once as f64 - 1e-6 && found <= (once + again) as f64 + 1e-6, "{found} for {once} and {again} on {link:b}");
            }
        }
    }

    #[test]
    fn text_is_read_as_it_was_written(content in content(), interval in 0.1..1e4) {
        let mut network = star(5).network;
        network.nodes[3].id = "a%b\tc#".into();
        let mut unique = content;
        let key = |one: &Content| one.members.iter().map(|m| (m.egress, m.prefix)).collect::<Vec<_>>();
        unique.sort_by_key(key);
        unique.dedup_by_key(|one| key(one));
        let counted = Counted { interval: Seconds(interval), ingresses: vec![(NodeId(0), unique)] };
        let text = counted.to_text(&network);
        prop_assert_eq!(Counted::parse(&text, &network).unwrap(), counted);
    }
}

#[test]
fn bad_lines_are_refused_in_words() {
    let network = star(5).network;
    let good = "interval\t60\ncontent\t0\t100\t1\t10.0.0.0/8\t1\t2\t-\t2.5\n";
    assert!(Counted::parse(good, &network).is_ok());
    let cases: &[(&str, &str, &str)] = &[
        ("interval\t60", "interval\t0", "line 1: 0 is not a number above 0"),
        ("interval\t60\n", "", "there is no interval"),
        ("content", "# content", "there is no content"),
        ("content", "interval\t60\ncontent", "line 2: a second interval"),
        ("content", "class", "line 2: `interval seconds` or"),
        ("\t100\t", "\tinf\t", "inf is not a number above 0"),
        ("\t1\t10.0.0.0/8\t1", "\t0\t10.0.0.0/8\t1", "content from 0 to itself"),
        ("\t1\t10.0.0.0/8\t1", "\tx\t10.0.0.0/8\t1", "no node is called x"),
        ("10.0.0.0/8", "10.0.0.0/99", "10.0.0.0/99 is not a prefix"),
        ("\t2\t-\t2.5", "\t1\t10.9.0.0/8\t2.5", "a member comes a second time"),
        ("\t2\t-\t2.5", "\t2\t-", "each member has three fields"),
        ("\t2\t-\t2.5", "\t2\t-\t0.5", "0.5 copies; each member has at least one"),
        ("\t1\t10.0.0.0/8\t1\t2\t-\t2.5", "", "content without a member"),
    ];
    for (from, to, expected) in cases {
        let changed = good.replacen(from, to, 1);
        assert_ne!(&changed, good, "{from}");
        let error = Counted::parse(&changed, &network).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let twice = format!("{good}{}", good.lines().last().unwrap());
    assert!(Counted::parse(&twice, &network).unwrap_err().to_string().contains("a second time"));
}

/// Content of 0 for 3 and 5, and for 3 and 4.
fn request(network: &Network, bytes: [f64; 2]) -> Request<'_> {
    let class = |egresses: &[u32], bytes| Class {
        egresses: egresses.iter().map(|&egress| NodeId(egress)).collect(),
        bytes,
        copies: egresses.iter().map(|_| 1.0).collect(),
    };
    let classes = vec![class(&[3, 5], bytes[0]), class(&[3, 4], bytes[1])];
    Request {
        network,
        ingresses: vec![(NodeId(0), Classes::Listed(classes))],
        cost: Cost::Latency,
        objective: Objective::Footprint,
        capacity: None,
        interval: Seconds(60.0),
        eliminates: Vec::new(),
        plain_load: None,
        compare: false,
        safety_net: false,
        slices: 1,
        gap: 1e-3,
        against: None,
    }
}

fn judge(request: &Request<'_>, goal: Goal, routes: &Routes, gap: f64) -> Result<Minute, Error> {
    minute(request, goal, routes, gap, &Unwatched)
}

#[test]
fn routes_in_force_raise_an_alarm_when_they_no_longer_suit() {
    // 3 shares with 5 behind 2, or with 4 behind 1.
    let mut network = testing::directed(
        ["0", "1", "2", "3", "4", "5"],
        &[(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)],
    );
    for link in &mut network.links {
        link.latency = if link.from == NodeId(0) { 10.0 } else { 1.0 };
    }
    let old = ra::run(&request(&network, [100.0, 10.0]), &Unwatched).unwrap();
    let by = |outcome: &ra::Outcome| {
        let path = &outcome.routes.slices[0].paths[0];
        (path.0.0, network.links[path.1[0]].to.0)
    };
    assert_eq!(by(&old), (3, 2));
    let minute =
        |bytes| judge(&request(&network, bytes), Goal::Footprint, &old.routes, old.gap()).unwrap();
    assert!(!minute([100.0, 10.0]).alarm && !minute([100.0, 102.0]).alarm);
    let alarm = minute([10.0, 100.0]);
    assert!(alarm.alarm && alarm.gap > ALARM && alarm.value.unwrap() > alarm.bound);
    // No path to an egress.
    let mut fewer = old.routes.clone();
    fewer.slices[0].paths.pop();
    let lost = judge(&request(&network, [1.0, 1.0]), Goal::Footprint, &fewer, 0.0).unwrap();
    assert!(lost.alarm && lost.value.is_none());

    // Routes for the load are judged by the load. Of 3's content, a part w comes by 2, so that
    // 100 + 10 w and 10 + 100 (1 - w) bytes on the links from 0 are equal.
    let loaded = |bytes| Request {
        capacity: Some(crate::BitRate(8.0 * 200.0 / 60.0)),
        objective: Objective::Load,
        slices: 2,
        gap: 1e-5,
        ..request(&network, bytes)
    };
    let old = ra::run(&loaded([100.0, 10.0]), &Unwatched).unwrap();
    let (least, turned) = ((100.0 + 10.0 / 11.0) / 200.0, (100.0 + 100.0 / 11.0) / 200.0);
    let near = |found: f64, known: f64| (found / known - 1.0).abs() < 1e-3;
    assert!(near(old.value, least), "{}", old.value);
    let minute = |goal, bytes| judge(&loaded(bytes), goal, &old.routes, old.gap()).unwrap();
    let same = minute(Goal::Load, [100.0, 10.0]);
    assert!(!same.alarm && near(same.value.unwrap(), least), "{same:?}");
    let alarm = minute(Goal::Load, [10.0, 100.0]);
    assert!(alarm.alarm && near(alarm.value.unwrap(), turned), "{alarm:?}");
    assert!(near(alarm.bound, least), "{alarm:?}");
    // Within the load that they have, nothing but these has this footprint; without, others do.
    let within = minute(Goal::FootprintWithin, [100.0, 10.0]);
    let free = minute(Goal::Footprint, [100.0, 10.0]);
    assert!(within.gap < 1e-3 && free.gap > 0.2, "{within:?} {free:?}");
    let unknown = judge(&request(&network, [1.0, 1.0]), Goal::Load, &old.routes, 0.0);
    assert!(matches!(unknown, Err(Error::Topology(TopologyError::NoCapacities))));
}
