//! An ingress that profiles packets generated from an instance measures the instance's volumes and
//! profile.

use std::collections::{BTreeMap, HashMap, HashSet};

use oncewire_plan::{
    BitRate, Bytes, Instance, LinkId, Match, Measured, Network, NodeId, Placement, Profile,
    Provision, Seconds,
    emulate::{
        Fields, Packet,
        workload::{
            self, Arrivals, Crowd, Drift, Dynamics, Headers, Identification, Lengths,
            Retransmissions, Settings, Sizes, Synthetic,
        },
    },
    measure::{self, Measurement, Older, Profiler},
    network::{Link, Node},
    path::Route,
};

/// Nodes 0 and 1 are ingresses. Behind node 2 are 3 and 4, in one PoP, and 5 and 6.
fn network() -> Network {
    let pops = [0, 1, 2, 3, 3, 4, 5];
    let link = |from, to| Link { from, to, weight: 1.0, latency: 1.0, capacity: None };
    Network {
        nodes: pops
            .iter()
            .enumerate()
            .map(|(at, &pop)| Node { id: format!("n{at}"), pop, ..Node::default() })
            .collect(),
        links: [(0, 2), (1, 2), (2, 3), (2, 4), (2, 5), (2, 6)]
            .map(|(from, to)| link(NodeId(from), NodeId(to)))
            .into(),
        ..Network::default()
    }
}

/// `volume` bytes per epoch of a second at each ingress, divided unequally among its paths.
fn instance(volume: f64, profile: Profile) -> Instance {
    let mut routes = Vec::new();
    for (from, first) in [(0, 0), (1, 1)] {
        for (to, link, share) in [(3, 2, 0.3), (4, 3, 0.1), (5, 4, 0.4), (6, 5, 0.2)] {
            routes.push(Route {
                from: NodeId(from),
                to: NodeId(to),
                slice: 0,
                links: [first, link].map(LinkId).to_vec(),
                volume: volume * share,
            });
        }
    }
    let provision = Provision {
        ingress_memory: Bytes(volume),
        ingress_rate: BitRate(volume * 8.0),
        ..Provision::default()
    };
    let empty = Profile::Measured(Measured::default());
    Instance::new(network(), routes, &provision, &Placement::Links, empty)
        .unwrap()
        .with_profile(profile)
        .unwrap()
}

fn synthetic(gamma: f64, length: f64) -> Profile {
    Profile::Synthetic(oncewire_plan::Synthetic {
        gamma,
        intrapop: 0.5,
        intrapath: 0.5,
        length,
        ingresses: BTreeMap::new(),
    })
}

fn measure(
    instance: &Instance,
    settings: Settings,
    counting: measure::Settings,
) -> (Measurement, measure::Seen, workload::Made) {
    let end = (settings.epochs * instance.epoch.0 * 1e9) as u64;
    let mut packets = Synthetic::new(instance, settings).unwrap();
    let mut profiler = Profiler::new(instance, counting).unwrap();
    for packet in &mut packets {
        profiler.push(&packet).unwrap();
    }
    (profiler.measurement_until(end).unwrap(), profiler.seen(), packets.made().clone())
}

/// Whether `count` is plausible for a Poisson process with mean `mean`; wrong once in a million.
fn likely(count: f64, mean: f64) -> bool {
    (count - mean).abs() <= 5.0 * mean.sqrt() + 1.0
}

/// Compares the instance's profile with the one counted in `epochs` epochs. `lost` is the share of
/// matches that may be missed.
fn agrees(instance: &Instance, measured: &Measurement, epochs: f64, lost: f64) {
    for p in 0..instance.paths.len() {
        let volume = instance.paths[p].volume;
        let packets = measured.volumes[p] * epochs / instance.packet.0;
        // Packet sizes vary as well; their variance is below the square of the largest.
        let error = 5.0 * packets.sqrt() * instance.mss.0;
        assert!(
            (measured.volumes[p] - volume).abs() * epochs <= error,
            "volume of {p}: {} for {volume}",
            measured.volumes[p]
        );
        for q in 0..instance.paths.len() {
            let expected = instance.matches(p, q);
            let found = measured
                .profile
                .of_path(p as u32)
                .iter()
                .find(|pair| pair.1 == q as u32)
                .map_or(Match::default(), |pair| pair.2);
            let (count, mean) = (found.count * epochs, expected.count * epochs);
            let low = mean * (1.0 - lost);
            assert!(count <= mean || likely(count, mean), "{p} with {q}: {count} for {mean}");
            assert!(count >= low || likely(count, low), "{p} with {q}: {count} for {mean}");
            if count > 0.0 {
                let error = 5.0 * expected.length * 0.3 / count.sqrt() + 2.0;
                assert!(
                    (found.length - expected.length).abs() <= error,
                    "{p} with {q}: length {} for {}",
                    found.length,
                    expected.length
                );
            }
        }
    }
}

/// Tests the generator and the profiler against each other; they share no code.
#[test]
fn a_synthetic_profile_is_measured_back() {
    for (gamma, length, seed) in [(0.25, 300.0, 1), (0.5, 500.0, 2), (0.5, 1000.0, 3)] {
        let instance = instance(4e6, synthetic(gamma, length));
        let settings = Settings { seed, epochs: 4.0, ..Settings::default() };
        let (measured, seen, made) = measure(&instance, settings, measure::Settings::default());
        assert_eq!((seen.packets, seen.bytes), (made.packets, made.bytes));
        let all: u64 = made.matches.values().map(|made| made.0).sum();
        assert!(made.missed * 1000 <= all, "{} of {all}", made.missed);
        agrees(&instance, &measured, 3.0, 0.01);
    }
}

/// Compares counted matches with the generator's record, pair by pair, with the tightest settings.
#[test]
fn each_region_is_attributed_to_its_source_path() {
    let instance = instance(2e6, synthetic(0.5, 400.0));
    let settings = Settings { epochs: 2.0, ..Settings::default() };
    let counting = measure::Settings { warm_up: 0.0, ..measure::Settings::default() };
    let (measured, seen, made) = measure(&instance, settings, counting);
    let found: BTreeMap<(u32, u32), Match> =
        measured.profile.pairs.iter().map(|&(p, q, found)| ((p, q), found)).collect();
    assert_eq!(found.len(), made.matches.len());
    let mut wrong = 0.0;
    for (pair, &(count, bytes)) in &made.matches {
        let found = found[pair];
        wrong += (found.count * 2.0 - count as f64).abs();
        // A match may grow by chance at either end, with probability 1/256 per byte.
        let grown = (found.bytes() * 2.0 - bytes as f64) / count as f64;
        assert!((-8.0..8.0).contains(&grown), "{pair:?}: {grown} bytes more");
    }
    // Content that the store has just evicted.
    assert!(wrong <= seen.matches as f64 * 0.005, "{wrong} of {}", seen.matches);
}

#[test]
fn a_measured_profile_is_measured_back() {
    let pair = |p, q, count, length| (p, q, Match { count, length });
    let pairs = vec![
        pair(0, 1, 300.0, 200.0),
        pair(0, 2, 100.0, 900.0),
        pair(1, 1, 150.0, 64.0),
        pair(2, 0, 20.0, 1200.0),
        pair(2, 3, 700.0, 350.0),
        pair(3, 3, 250.0, 500.0),
        pair(5, 4, 80.0, 1000.0),
        pair(6, 7, 400.0, 128.0),
    ];
    let instance = instance(3e6, Profile::Measured(Measured { pairs, ..Measured::default() }));
    for (arrivals, sizes, lengths) in [
        (Arrivals::Poisson, Sizes::Bimodal { small: 80 }, Lengths::Uniform),
        (Arrivals::Paced, Sizes::Bimodal { small: 80 }, Lengths::Fixed),
    ] {
        let settings =
            Settings { seed: 4, epochs: 5.0, arrivals, sizes, lengths, ..Settings::default() };
        let counting = measure::Settings { period: 16, ..measure::Settings::default() };
        let (measured, ..) = measure(&instance, settings, counting);
        agrees(&instance, &measured, 4.0, 0.02);
        assert!(
            measured
                .profile
                .pairs
                .iter()
                .all(|pair| instance.matches(pair.0 as usize, pair.1 as usize).count > 0.0)
        );
    }
}

#[test]
fn packets_come_in_order_from_the_hosts_of_their_path() {
    let instance = instance(1e6, synthetic(0.25, 300.0));
    let headers = Headers { hosts: 3, ipv6: 0.5, udp: 0.5, ..Headers::default() };
    let settings = Settings { epochs: 2.0, headers, ..Settings::default() };
    let packets: Vec<Packet> = Synthetic::new(&instance, settings.clone()).unwrap().collect();
    assert_eq!(packets, Synthetic::new(&instance, settings.clone()).unwrap().collect::<Vec<_>>());
    assert_ne!(
        packets,
        Synthetic::new(&instance, Settings { seed: 9, ..settings }).unwrap().collect::<Vec<_>>()
    );
    assert!(
        packets.is_sorted_by_key(|packet| packet.time)
            && packets.last().unwrap().time < 2_000_000_000
    );
    let mut numbers = HashMap::new();
    let mut sequences = HashMap::new();
    for packet in &packets {
        let path = &instance.paths[packet.path as usize];
        let header = packet.header;
        assert_eq!(
            workload::node(header.source),
            Some(instance.ingresses[path.ingress as usize].node)
        );
        assert_eq!(workload::node(header.destination), Some(path.egress));
        assert_eq!(header.identification.is_some(), header.source.is_ipv4());
        if let Some(number) = header.identification
            && let Some(last) = numbers.insert(header.source, number)
        {
            assert_eq!(number, u16::wrapping_add(last, 1));
        }
        let key = (header.source, header.destination, header.source_port, header.destination_port);
        let wire = packet.header_bytes as usize + packet.payload.len();
        assert!(wire == 100 || wire == 1500);
        match header.transport {
            Fields::Tcp { sequence, .. } => {
                assert_eq!(header.protocol, 6);
                if let Some(expected) =
                    sequences.insert(key, sequence.wrapping_add(packet.payload.len() as u32))
                {
                    assert_eq!(sequence, expected);
                }
            }
            Fields::Udp { length, checksum } => {
                assert_eq!((header.protocol, usize::from(length)), (17, packet.payload.len() + 8));
                assert_ne!(checksum, 0);
            }
            Fields::None => panic!("no transport"),
        }
    }
    // Every combination of IP version and transport.
    let kinds: HashSet<(bool, u8)> = packets
        .iter()
        .map(|packet| (packet.header.source.is_ipv4(), packet.header.protocol))
        .collect();
    assert_eq!(kinds.len(), 4);
}

#[test]
fn retransmissions_are_not_matches_and_repeat_whole_packets() {
    for renumbered in [true, false] {
        retransmit(renumbered);
    }
}

fn retransmit(renumbered: bool) {
    let instance = instance(4e6, synthetic(0.25, 300.0));
    let retransmissions = Retransmissions { share: 0.05, within: Seconds(0.2), renumbered };
    let settings = Settings { epochs: 4.0, retransmissions, ..Settings::default() };
    let mut seen: HashMap<_, (u64, Option<u16>)> = HashMap::new();
    let mut again = 0;
    let mut packets = Synthetic::new(&instance, settings.clone()).unwrap();
    for packet in &mut packets {
        let key = (
            packet.path,
            packet.header.source,
            packet.header.destination_port,
            packet.payload.clone(),
        );
        if packet.payload.len() > 100
            && let Some((time, number)) =
                seen.insert(key, (packet.time, packet.header.identification))
        {
            again += 1;
            assert_eq!(
                number != packet.header.identification,
                renumbered && packet.header.source.is_ipv4()
            );
            assert!(packet.time - time <= 200_000_000);
        }
    }
    let made = packets.made().clone();
    assert!(likely(made.retransmissions as f64, made.packets as f64 * 0.05));
    assert!(again > made.retransmissions / 2);
    let (measured, seen, _) = measure(&instance, settings, measure::Settings::default());
    // The store of one epoch holds everything sent within a fifth of an epoch.
    assert_eq!(seen.retransmissions, made.retransmissions);
    agrees(&instance, &measured, 3.0, 0.02);
}

#[test]
fn a_flash_crowd_matches_the_instance_at_that_time() {
    let before = instance(4e6, synthetic(0.25, 400.0));
    let crowd = Crowd {
        ingress: Some(NodeId(1)),
        from: Seconds(3.0),
        until: Seconds(f64::INFINITY),
        volume: 1.5,
        redundancy: 2.0,
    };
    let settings = Settings {
        epochs: 6.0,
        dynamics: Dynamics { crowds: vec![crowd], drift: None },
        ..Settings::default()
    };
    let packets = Synthetic::new(&before, settings.clone()).unwrap();
    let after = packets.instance_at(Seconds(4.0)).unwrap();
    assert_eq!(packets.instance_at(Seconds(2.9)).unwrap().matches(6, 7), before.matches(6, 7));
    assert!(
        (after.ingresses[1].volume - 6e6).abs() < 1.0
            && after.ingresses[0].volume == before.ingresses[0].volume
    );
    assert!(
        (after.matches(4, 6).bytes() - 3.0 * before.matches(4, 6).bytes()).abs()
            < 1e-6 * before.matches(4, 6).bytes()
    );
    // A store sized for the old volume evicts content within an epoch, so count with larger stores.
    let mut roomy = before.clone();
    roomy.ingresses.iter_mut().for_each(|ingress| ingress.memory *= 2.0);
    let (measured, ..) = measure(
        &roomy,
        settings,
        measure::Settings { warm_up: 4.0, ..measure::Settings::default() },
    );
    agrees(&after, &measured, 2.0, 0.03);
}

#[test]
fn a_drift_matches_the_instance_at_that_time() {
    let instance = instance(4e6, synthetic(0.5, 400.0));
    let drift = Drift { time: Seconds(600.0), volume: 0.5, matches: 1.0 };
    let settings = Settings {
        epochs: 4.0,
        dynamics: Dynamics { crowds: vec![], drift: Some(drift) },
        ..Settings::default()
    };
    let packets = Synthetic::new(&instance, settings.clone()).unwrap();
    let now = packets.instance_at(Seconds(2.5)).unwrap();
    let mut roomy = now.clone();
    roomy.ingresses.iter_mut().for_each(|ingress| ingress.memory *= 3.0);
    let counting = measure::Settings { warm_up: 1.0, ..measure::Settings::default() };
    let mut profiler = Profiler::new(&roomy, counting).unwrap();
    packets.for_each(|packet| profiler.push(&packet).unwrap());
    agrees(&now, &profiler.measurement_until(4_000_000_000).unwrap(), 3.0, 0.02);
    // After a few time constants, the initial values no longer matter; the mean over many remains.
    let packets = Synthetic::new(&instance, settings).unwrap();
    let later: Vec<Instance> =
        (1..200).map(|at| packets.instance_at(Seconds(f64::from(at) * 600.0)).unwrap()).collect();
    for path in 0..instance.paths.len() {
        let mean =
            later.iter().map(|later| later.paths[path].volume).sum::<f64>() / later.len() as f64;
        // For a log-normal distribution with s = 0.5, the standard deviation is 0.53 of the mean.
        let error = (mean / instance.paths[path].volume - 1.0).abs();
        assert!(error < 5.0 * 0.54 / (later.len() as f64).sqrt(), "{path}: {error}");
    }
}

#[test]
fn chains_are_attributed_to_the_first_or_the_last_copy() {
    let instance = instance(2e6, synthetic(0.5, 300.0));
    let settings = Settings { epochs: 3.0, chains: true, ..Settings::default() };
    let total = |older| {
        let (measured, ..) = measure(
            &instance,
            settings.clone(),
            measure::Settings { older, ..measure::Settings::default() },
        );
        measured.profile.pairs.iter().map(|pair| pair.2.count).sum::<f64>()
    };
    let expected: f64 = (0..8)
        .flat_map(|p| (0..8).map(move |q| (p, q)))
        .map(|(p, q)| instance.matches(p, q).count)
        .sum();
    // A region that overlaps an earlier match is counted as several matches, against a null value
    // there.
    assert!(total(Older::Last) > expected * 0.9);
    assert!(total(Older::First) > expected * 0.9);
}

#[test]
fn constant_identifications_stay_constant() {
    let instance = instance(1e6, synthetic(0.25, 300.0));
    let headers =
        Headers { ipv6: 0.0, identification: Identification::Constant(0), ..Headers::default() };
    let settings = Settings { epochs: 1.0, headers, ..Settings::default() };
    assert!(
        Synthetic::new(&instance, settings)
            .unwrap()
            .all(|packet| packet.header.identification == Some(0))
    );
}

#[test]
fn out_of_range_settings_are_explained_errors() {
    let plain = instance(1e6, synthetic(0.25, 300.0));
    let refused = |instance: &Instance, change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        let error = Synthetic::new(instance, settings).err().expect("an error").to_string();
        assert!(!error.contains('\n'));
        error
    };
    assert_eq!(
        refused(&plain, &|s| s.epochs = f64::NAN),
        "emulation: the number of epochs is NaN; it must be above 0, at most 1000000"
    );
    refused(&plain, &|s| s.epochs = 1e300);
    refused(&plain, &|s| s.headers.hosts = 0);
    refused(&plain, &|s| s.headers.hosts = 255);
    refused(&plain, &|s| s.headers.flows = 0);
    refused(&plain, &|s| s.headers.ipv6 = 1.5);
    refused(&plain, &|s| s.matches = 0);
    refused(&plain, &|s| s.retransmissions.within = Seconds(f64::NAN));
    let crowd = Crowd {
        ingress: None,
        from: Seconds(1.0),
        until: Seconds(2.0),
        volume: 1.0,
        redundancy: 1.0,
    };
    refused(&plain, &|s| {
        s.dynamics.crowds = vec![Crowd { volume: f64::INFINITY, ..crowd.clone() }]
    });
    refused(&plain, &|s| s.dynamics.crowds = vec![Crowd { until: Seconds(0.5), ..crowd.clone() }]);
    assert_eq!(
        refused(&plain, &|s| s.dynamics.crowds =
            vec![Crowd { ingress: Some(NodeId(3)), ..crowd.clone() }]),
        "emulation: a flash crowd enters at n3, where nothing enters"
    );
    refused(&plain, &|s| {
        s.dynamics.drift = Some(Drift { time: Seconds(0.5), volume: 1.0, matches: 1.0 })
    });
    assert_eq!(
        refused(&instance(1e6, synthetic(0.25, 1460.0)), &|_| ()),
        "redundancy profile: a mean match length of 1460 bytes; it must be above 0 and at most 1440 bytes, the payload of a packet"
    );
}

#[test]
fn a_scaled_instance_has_the_same_shares() {
    let whole = instance(4e6, synthetic(0.25, 300.0));
    let small = whole.clone().scaled(0.125).unwrap();
    assert_eq!(small.epoch, whole.epoch);
    assert_eq!(small.footprint() * 8.0, whole.footprint());
    for (p, q) in [(0, 0), (0, 1), (0, 2), (0, 4)] {
        assert!((small.matches(p, q).count * 8.0 - whole.matches(p, q).count).abs() < 1e-6);
    }
    assert_eq!(small.coded(0), whole.coded(0));
    assert_eq!(small.devices[3].memory * 8.0, whole.devices[3].memory);
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(whole.clone().scaled(factor).is_err());
    }
}
