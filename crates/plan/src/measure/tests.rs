use std::net::Ipv4Addr;

use oncewire_kernels::random::SplitMix64;
use proptest::prelude::*;

use super::measurement::{escape, unescape};
use super::*;
use crate::{
    BitRate, Bytes, LinkId, Network, NodeId, Placement, Provision,
    emulate::Fields,
    network::{Link, Node},
    path::Route,
    testing,
};

#[test]
fn quiet_paths_get_a_part_of_the_traffic_matrix() {
    let instance = instance(&["a", "b", "c", "d", "e"], 4000.0);
    let found = |count, length| Match { count, length };
    let pairs = vec![(0, 0, found(2.0, 100.0)), (0, 1, found(1.0, 300.0))];
    let measured = Measurement {
        volumes: vec![1500.0, 500.0, 0.0, 0.0],
        profile: Measured { pairs, copies: 0.5 },
    };
    let mixed = measured.clone().mixed(&instance, 0.2);
    // A fifth of 2,000 bytes is divided among four equal paths.
    assert_eq!(mixed.volumes, [1300.0, 500.0, 100.0, 100.0]);
    let sum = |measured: &Measurement, own: bool| -> f64 {
        let pairs = measured.profile.pairs.iter().filter(|pair| !own || pair.0 == pair.1);
        pairs.map(|pair| pair.2.bytes()).sum()
    };
    assert!((sum(&mixed, false) - 500.0).abs() < 1e-9);
    // Paths match with themselves as often as measured, and by chance.
    let own = 0.8 * 200.0 + 0.2 * (200.0 + 300.0 / 4.0);
    assert!((sum(&mixed, true) - own).abs() < 1e-9, "{}", sum(&mixed, true));
    assert!(mixed.profile.of_path(3).len() == 4 && mixed.profile.copies == 0.5);
    mixed.check(&instance).unwrap();
    mixed.apply(&instance).unwrap();
    assert_eq!(measured.clone().mixed(&instance, 0.0), measured);
}

/// One ingress and four paths, with a store of `memory` bytes that lasts a second.
fn instance(ids: &[&str], memory: f64) -> Instance {
    let nodes = ids
        .iter()
        .zip(0..)
        .map(|(id, pop)| Node { id: (*id).into(), pop, ..Node::default() })
        .collect();
    let links = (1..ids.len() as u32)
        .map(|to| Link {
            from: NodeId(0),
            to: NodeId(to),
            weight: 1.0,
            latency: 1.0,
            capacity: None,
        })
        .collect();
    let network = Network { nodes, links, ..Network::default() };
    let routes = (1..ids.len() as u32)
        .map(|to| Route {
            from: NodeId(0),
            to: NodeId(to),
            slice: 0,
            links: vec![LinkId(to - 1)],
            volume: memory / 4.0,
        })
        .collect();
    let provision = Provision {
        ingress_memory: Bytes(memory),
        ingress_rate: BitRate(memory * 8.0),
        ..Provision::default()
    };
    testing::unmeasured(network, routes, &provision)
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64(seed).bytes(len)
}

fn packet(path: u32, port: u16, payload: &[u8]) -> Packet {
    let header = Header {
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, path as u8 + 1, 1).into(),
        source_port: port,
        destination_port: 1,
        protocol: 6,
        identification: Some(port),
        transport: Fields::None,
    };
    Packet { time: 0, path, header, header_bytes: 40, payload: payload.into() }
}

const IDS: [&str; 5] = ["in", "a", "b", "c", "d"];

/// Matches of packets (path, payload), each of a flow of its own.
fn count(older: Older, memory: f64, packets: &[(u32, Vec<u8>)]) -> Vec<(u32, u32, u64, u64)> {
    let instance = instance(&IDS, memory);
    let settings = Settings { older, warm_up: 0.0, period: 8, ..Settings::default() };
    let mut profiler = Profiler::new(&instance, settings).unwrap();
    for ((path, payload), port) in packets.iter().zip(1..) {
        profiler.push(&packet(*path, port, payload)).unwrap();
    }
    // An epoch is a second.
    let measured = profiler.measurement_until(1_000_000_000).unwrap();
    measured
        .profile
        .pairs
        .iter()
        .map(|&(p, q, found)| (p, q, found.count as u64, found.bytes().round() as u64))
        .collect()
}

#[test]
fn what_came_three_times_is_with_the_first_or_with_the_last() {
    let content = noise(1, 600);
    let packets: Vec<(u32, Vec<u8>)> = (0..3).map(|path| (path, content.clone())).collect();
    assert_eq!(count(Older::First, 1e6, &packets), [(1, 0, 1, 600), (2, 0, 1, 600)]);
    assert_eq!(count(Older::Last, 1e6, &packets), [(1, 0, 1, 600), (2, 1, 1, 600)]);
}

/// The second packet repeats what was not repeated before, the fourth what two have repeated.
#[test]
fn copies_are_counted() {
    let instance = instance(&IDS, 1e6);
    let settings = Settings { warm_up: 0.0, period: 8, ..Settings::default() };
    let mut profiler = Profiler::new(&instance, settings).unwrap();
    let copies =
        |profiler: &Profiler<'_>| profiler.measurement_until(1_000_000_000).unwrap().profile.copies;
    for (port, mean) in [(1, 0.0), (2, 0.0), (3, 0.5), (4, 1.0)] {
        profiler.push(&packet(0, port, &noise(1, 6000))).unwrap();
        assert_eq!(copies(&profiler), mean, "{port}");
    }
    // Other content is not counted with it.
    profiler.push(&packet(0, 5, &noise(2, 6000))).unwrap();
    profiler.push(&packet(0, 6, &noise(2, 6000))).unwrap();
    assert!((copies(&profiler) - 0.75).abs() < 0.05, "{}", copies(&profiler));
}

#[test]
fn slices_match_only_themselves_and_share_what_a_node_measured() {
    let one = instance(&IDS[..3], 1e6);
    let network = one.network.clone();
    // Slice 1 has a third of the traffic.
    let route = |(slice, to, volume)| Route {
        from: NodeId(0),
        to: NodeId(to),
        slice,
        links: vec![LinkId(to - 1)],
        volume,
    };
    let routes = [(0, 1, 2e5), (0, 2, 2e5), (1, 1, 1e5), (1, 2, 1e5)].map(route).to_vec();
    let provision = Provision {
        ingress_memory: Bytes(1e6),
        ingress_rate: BitRate(8e6),
        ..Provision::default()
    };
    let profile = one.profile.clone();
    let sliced = Instance::new(network, routes, &provision, &Placement::Links, profile).unwrap();
    let settings = Settings { warm_up: 0.0, period: 8, ..Settings::default() };
    let mut profiler = Profiler::new(&sliced, settings).unwrap();
    let content = noise(1, 600);
    for (path, port) in [(0, 1), (2, 2), (3, 3), (1, 4)] {
        profiler.push(&packet(path, port, &content)).unwrap();
    }
    let measured = profiler.measurement_until(1_000_000_000).unwrap();
    let pairs = |found: &Measurement| -> Vec<(u32, u32, f64)> {
        found.profile.pairs.iter().map(|&(p, q, found)| (p, q, found.bytes().round())).collect()
    };
    assert_eq!(pairs(&measured), [(1, 0, 600.0), (3, 2, 600.0)]);
    let text = measured.to_text(&sliced);
    assert!(text.contains("\nin#1\ta\t640\n"), "{text}");
    assert_eq!(Measurement::parse(&text, &sliced).unwrap().to_text(&sliced), text);

    // What was measured of the node is divided.
    let text = "in\ta\t900\nin\tb\t900\nin\ta\tin\tb\t3\t300\nin#1\tb\tin#1\tb\t1\t10\n";
    let parsed = Measurement::parse(text, &sliced).unwrap();
    assert_eq!(
        parsed.volumes.iter().map(|v| v.round()).collect::<Vec<_>>(),
        [600.0, 600.0, 300.0, 300.0]
    );
    assert_eq!(pairs(&parsed), [(0, 1, 200.0), (2, 3, 100.0), (3, 3, 10.0)]);
    for wrong in ["in#2\ta\t1", "in#x\ta\t1", "in#0\ta\tin#1\tb\t1\t1"] {
        assert!(Measurement::parse(wrong, &sliced).is_err(), "{wrong}");
    }
}

#[test]
fn what_matched_is_null_and_the_rest_is_not() {
    let (first, own) = (noise(1, 600), noise(2, 300));
    let second = [&own[..150], &first[100..500], &own[150..]].concat();
    let third = [&second[10..140], &noise(3, 50), &second[200..500], &second[560..690]].concat();
    // 200..500 of the second is 150..450 of the first; 10..140 and 560..690 are its own.
    let packets = [(0, first), (1, second), (2, third)];
    assert_eq!(
        count(Older::First, 1e6, &packets),
        [(1, 0, 1, 400), (2, 0, 1, 300), (2, 1, 2, 260)]
    );
}

#[test]
fn a_match_is_with_one_packet_and_at_most_three_count() {
    let content = noise(4, 1000);
    // Two packets, one after the other in the store, that a third repeats in one piece.
    let packets = [
        (0, content[..400].to_vec()),
        (1, content[400..].to_vec()),
        (2, content[100..900].to_vec()),
    ];
    assert_eq!(count(Older::First, 1e6, &packets), [(2, 0, 1, 300), (2, 1, 1, 500)]);
    let pieces: Vec<u8> = [100, 300, 200, 250]
        .iter()
        .zip(0..)
        .flat_map(|(&len, at)| [&noise(9 + at, 60), &content[at as usize * 220..][..len]].concat())
        .collect();
    let packets = [
        (
            3,
            [
                &content[..100],
                &noise(5, 64),
                &content[220..520],
                &noise(6, 64),
                &content[440..640],
                &noise(7, 64),
                &content[660..910],
            ]
            .concat(),
        ),
        (2, pieces),
    ];
    assert_eq!(count(Older::First, 1e6, &packets), [(2, 3, 3, 750)]);
}

#[test]
fn what_has_left_the_store_matches_nothing() {
    let content = noise(5, 1000);
    let fill = |seed: u64| (1, noise(seed, 1000));
    let with = |between: u64| {
        let mut packets = vec![(0, content.clone())];
        packets.extend((0..between).map(|seed| fill(seed + 100)));
        packets.push((2, content.clone()));
        count(Older::First, 70_000.0, &packets)
    };
    assert_eq!(with(60), [(2, 0, 1, 1000)]);
    assert_eq!(with(80), []);
}

#[test]
fn a_retransmission_is_no_match_but_the_same_in_another_flow_is() {
    let instance = instance(&IDS, 1e6);
    let mut profiler =
        Profiler::new(&instance, Settings { warm_up: 0.0, ..Settings::default() }).unwrap();
    let content = noise(6, 500);
    for (port, len) in [(1, 500), (1, 500), (2, 500), (2, 500), (2, 499)] {
        profiler.push(&packet(0, port, &content[..len])).unwrap();
    }
    let seen = profiler.seen();
    assert_eq!(
        (seen.packets, seen.retransmissions, seen.matches, seen.match_bytes),
        (5, 2, 2, 999)
    );
    assert_eq!(seen.bytes, 4 * 540 + 539);
}

#[test]
fn what_comes_before_stores_are_warm_does_not_count() {
    let instance = instance(&IDS, 1e6);
    let mut profiler = Profiler::new(&instance, Settings::default()).unwrap();
    let content = noise(7, 500);
    for second in 0..4 {
        profiler
            .push(&Packet {
                time: second * 1_000_000_000,
                ..packet(second as u32 % 2, second as u16, &content)
            })
            .unwrap();
        assert_eq!(profiler.measurement().is_ok(), second > 1);
    }
    let measured = profiler.measurement_until(4_000_000_000).unwrap();
    assert_eq!(measured.volumes, [180.0, 360.0, 0.0, 0.0]);
    let counts: Vec<(u32, u32, f64, f64)> =
        measured.profile.pairs.iter().map(|p| (p.0, p.1, p.2.count * 3.0, p.2.length)).collect();
    assert_eq!(counts, [(0, 0, 1.0, 500.0), (1, 0, 2.0, 500.0)]);
    assert!(profiler.push(&packet(4, 1, &content)).is_err());
    assert!(profiler.push(&packet(0, 1, &vec![0; 65_536])).is_err());
}

#[test]
fn stores_and_settings_out_of_range_are_refused() {
    let small = instance(&IDS, 1e4);
    assert_eq!(
        Profiler::new(&small, Settings::default()).err().unwrap().to_string(),
        "redundancy profile: an ingress's store in bytes is 10000; it must be at least 65535, the largest packet, and at most 1099511627776"
    );
    let plain = instance(&IDS, 1e6);
    for change in [
        |settings: &mut Settings| settings.window = 8,
        |settings: &mut Settings| settings.period = 2000,
        |settings: &mut Settings| settings.warm_up = f64::NAN,
    ] {
        let mut settings = Settings::default();
        change(&mut settings);
        assert!(Profiler::new(&plain, settings).is_err());
    }
}

const ODD: [&str; 5] = ["in\tside", "# a", "100%25", "New York", "\u{1}\u{e4}"];

#[test]
fn errors_of_the_text_form_name_the_line() {
    let instance = instance(&IDS, 1e6);
    let error = |text: &str| Measurement::parse(text, &instance).unwrap_err().to_string();
    assert_eq!(error("# x\n\nin\tz\t1"), "redundancy profile: line 3: no node is called z");
    assert_eq!(error("a\tin\t1"), "redundancy profile: line 1: there is no path from a to in");
    assert_eq!(error("in\ta\t-1"), "redundancy profile: line 1: -1 is not a number above 0");
    assert_eq!(error("in\ta\tNaN"), "redundancy profile: line 1: NaN is not a number above 0");
    assert_eq!(
        error("in\ta\t1\nin\ta\t2"),
        "redundancy profile: line 2: a second volume from in to a"
    );
    assert_eq!(
        error("in\ta\tin\tb\t10\t15001"),
        "redundancy profile: line 1: 10 matches with 15001 bytes: each has more than none and at most the largest packet's, 1500"
    );
    let twice = "in\ta\tin\tb\t10\t1500\n";
    assert_eq!(
        error(&twice.repeat(2)),
        "redundancy profile: line 2: the matches of these two paths come a second time"
    );
    let fields = "redundancy profile: line 1: 3 fields (from, to, bytes), 6 (from, to, from, to, matches, bytes) or 2 (copies, number) with tabs between them are needed";
    assert_eq!(error("in a 1"), fields);
    assert_eq!(error("copies\t-1"), "redundancy profile: line 1: -1 is not a number above 0");
    assert_eq!(error("in\ta\tin\tb\t1\t1\t1"), fields);
    // What is infinitely long, or nothing, is no length.
    assert!(Measurement::parse("in\ta\tin\tb\t1e-308\t1e308", &instance).is_err());
    assert!(Measurement::parse("in\ta\tin\tb\t1e308\t1e-308", &instance).is_err());
}

#[test]
fn no_path_matches_more_than_it_sends() {
    let instance = instance(&IDS, 1e6);
    let of = |volume: f64, counts: [f64; 2]| Measurement {
        volumes: vec![volume; instance.paths.len()],
        profile: Measured {
            pairs: (0..)
                .zip(counts)
                .map(|(q, count)| (0, q, Match { count, length: 100.0 }))
                .collect(),
            ..Measured::default()
        },
    };
    assert!(of(1000.0, [4.0, 6.0]).check(&instance).is_ok());
    for wrong in [of(1000.0, [4.0, 6.1]), of(0.0, [1.0, 1.0]), of(f64::NAN, [1.0, 1.0])] {
        let message = wrong.check(&instance).unwrap_err().to_string();
        assert!(message.contains("are matches"), "{message}");
        assert!(wrong.fit(&instance).is_err());
    }
    // As many per byte as were measured, on the volumes that the instance has.
    let fitted = of(1000.0, [4.0, 6.0]).fit(&instance).unwrap();
    let volume = instance.paths[0].volume;
    assert_eq!(fitted.paths, instance.paths);
    assert!((fitted.matches(0, 0).bytes() - 0.4 * volume).abs() < 1e-9 * volume);
    assert!((fitted.matches(0, 1).bytes() - 0.6 * volume).abs() < 1e-9 * volume);
}

proptest! {
    #[test]
    fn the_text_form_says_all(
        volumes in proptest::collection::vec(1.0..1e12, 4),
        pairs in proptest::collection::btree_map((0u32..4, 0u32..4), (1e-3..1e9, 1.0..=1500.0), 0..16),
    ) {
        let instance = instance(&ODD, 1e6);
        let pairs = pairs.into_iter().map(|((p, q), (count, length))| (p, q, Match { count, length })).collect();
        let measurement = Measurement { volumes, profile: Measured { pairs, copies: 0.7 } };
        let read = Measurement::parse(&measurement.to_text(&instance), &instance).unwrap();
        prop_assert_eq!(&read.volumes, &measurement.volumes);
        prop_assert_eq!(read.profile.copies, 0.7);
        prop_assert_eq!(read.profile.pairs.len(), measurement.profile.pairs.len());
        for (a, b) in read.profile.pairs.iter().zip(&measurement.profile.pairs) {
            prop_assert_eq!((a.0, a.1, a.2.count), (b.0, b.1, b.2.count));
            prop_assert!((a.2.length - b.2.length).abs() <= 1e-9 * b.2.length);
        }
        let applied = read.apply(&instance).unwrap();
        prop_assert_eq!(applied.paths[2].volume, measurement.volumes[2]);
    }

    #[test]
    fn any_text_is_a_measurement_that_applies_or_an_error(text in "((in|a|b|%|#|1|e|-|inf|NaN|0|\\.|9)?(\t|\n| )?){0,60}") {
        let instance = instance(&IDS, 1e6);
        match Measurement::parse(&text, &instance) {
            Ok(measurement) => prop_assert!(measurement.apply(&instance).is_ok()),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn ids_come_back(id in any::<String>()) {
        let text = escape(&id);
        prop_assert!(!text.contains(['\t', '\n', '#']));
        prop_assert_eq!(unescape(&text), id);
    }

    /// What is counted is there: no more than what a search of all substrings of the window's
    /// length finds.
    #[test]
    fn no_more_matches_than_there_are(cuts in proptest::collection::vec((0u32..4, 0usize..900, 1usize..600), 1..30)) {
        let content = noise(8, 1500);
        let packets: Vec<(u32, Vec<u8>)> = cuts.iter().zip(0..).map(|(&(path, at, len), seed)| {
            (path, [noise(seed + 50, 40), content[at..at + len].to_vec(), noise(seed + 500, 20)].concat())
        }).collect();
        let mut before = std::collections::HashSet::new();
        let (mut covered, mut long) = (0, 0);
        for (_, payload) in &packets {
            let mut repeats = vec![false; payload.len()];
            for (at, window) in payload.windows(32).enumerate() {
                if before.contains(window) {
                    repeats[at..at + 32].fill(true);
                }
            }
            before.extend(payload.windows(32).map(<[u8]>::to_vec));
            let bytes = repeats.iter().filter(|repeat| **repeat).count() as u64;
            covered += bytes;
            // Three markers of a period of 8 lie in it at least.
            long += if bytes >= 100 { bytes } else { 0 };
        }
        let found: u64 = count(Older::Last, 1e6, &packets).iter().map(|pair| pair.3).sum();
        prop_assert!(found <= covered, "{} of {}", found, covered);
        prop_assert!(found * 10 >= long * 5, "{} of {}", found, long);
    }
}
