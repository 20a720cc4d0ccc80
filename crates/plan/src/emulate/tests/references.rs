//! Which packets are referred to, and which are not.

use super::*;

/// From 0 to 3 by 1 and by 2, as two slices.
fn two_slices() -> Instance {
    let network = network(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
    let whole = instance(network.clone(), &[&[0, 1]], |_| ());
    let route = |slice: u16| Route {
        from: NodeId(0),
        to: NodeId(3),
        slice,
        links: [2 * u32::from(slice), 2 * u32::from(slice) + 1].map(LinkId).to_vec(),
        volume: 1e6,
    };
    let provision = Provision {
        ingress_memory: Bytes(1e6),
        ingress_rate: BitRate(8e6),
        ..Provision::default()
    };
    let routes = vec![route(0), route(1)];
    Instance::new(network, routes, &provision, &Placement::Links, whole.profile).unwrap()
}

#[test]
fn slices_are_not_encoded_against_each_other() {
    let instance = two_slices();
    let content = noise(600, 1);
    for (paths, matches) in [([0, 0], 1), ([0, 1], 0), ([1, 1], 1)] {
        let mut source = Source::default();
        let shares = vec![vec![share(0, ALL, 1)], vec![share(0, ALL, 3)]];
        let mut emulation = planned(&instance, shares, settings());
        let again = [&content[..], b"other"].concat();
        emulation.push(&source.packet(0, paths[0], &content)).unwrap();
        emulation.push(&source.packet(1, paths[1], &again)).unwrap();
        let report = emulation.report();
        assert_eq!(report.ingresses.iter().map(|ingress| ingress.matches).sum::<u64>(), matches);
        assert_eq!(report.ingresses.len(), 2);
        assert_eq!((report.delivered, report.refusals.overlap), (2, 0), "{paths:?}");
    }
}

#[test]
fn gaps_are_not_referred_to() {
    // Figure 3.5: B is encoded against A, which is cached behind where B is; C could be encoded
    // against B, but R1 has a gap there.
    let instance = line();
    let settings = Settings { rules: Rules::PUBLISHED, ..settings() };
    let mut source = Source::default();
    let mut emulation =
        planned(&instance, vec![vec![share(0, HALF, 0), share(HALF, ALL, 2)]], settings.clone());
    let (common, own) = (noise(400, 1), noise(400, 2));
    let a = [&common[..], &noise(100, 3)].concat();
    let b = [&common[..], &own].concat();
    let c = [&noise(50, 4)[..], &common, &own].concat();
    emulation.push(&source.packet_in(&settings, HALF..ALL, 0, &a)).unwrap();
    emulation.push(&source.packet_in(&settings, 0..HALF, 0, &b)).unwrap();
    emulation.push(&source.packet_in(&settings, 0..HALF, 0, &c)).unwrap();
    let report = emulation.report();
    // B's part that is A's, and C's, at the last device; C's part that is B's own at the first.
    assert_eq!((report.devices[2].decoded, report.devices[2].decoded_bytes), (2, 800));
    assert_eq!((report.devices[0].decoded, report.devices[0].decoded_bytes), (1, 400));
    assert_eq!(report.delivered, 3);
}

#[test]
fn only_what_lies_on_the_path_is_referred_to() {
    let instance = fork();
    let settings = settings();
    let content = noise(500, 1);
    for (range, matches) in [(0..HALF, 1), (HALF..ALL, 0)] {
        let mut source = Source::default();
        // Path 0: the lower half on the common link; path 1 the same. Devices have their links'
        // numbers.
        let shares = vec![
            vec![share(0, HALF, 0), share(HALF, ALL, 1)],
            vec![share(0, HALF, 0), share(HALF, ALL, 2)],
        ];
        let mut emulation = planned(&instance, shares, settings.clone());
        emulation.push(&source.packet_in(&settings, range, 1, &content)).unwrap();
        emulation.push(&source.packet(1, 0, &[&content[..], b"other"].concat())).unwrap();
        let report = emulation.report();
        assert_eq!((report.ingresses[0].matches, report.refusals.overlap), (matches, 1 - matches));
        assert_eq!(report.devices[0].decoded, matches);
        // The profile knows of both.
        assert_eq!(report.profile.of_path(0).len(), 1);
        let (p, q, found) = report.profile.pairs[0];
        assert_eq!((p, q, found.count, found.length), (0, 1, 1.0, 500.0));
    }
}

#[test]
fn uncovered_packets_are_not_stored() {
    let instance = line();
    let settings = settings();
    let mut source = Source::default();
    let mut emulation = planned(&instance, vec![vec![share(0, HALF, 1)]], settings.clone());
    let content = noise(500, 1);
    emulation.push(&source.packet_in(&settings, HALF..ALL, 0, &content)).unwrap();
    emulation.push(&source.packet(1, 0, &[&content[..], b"other"].concat())).unwrap();
    let report = emulation.report();
    assert_eq!(report.ingresses[0].matches, 0);
    assert_eq!(report.links[0].after, report.links[0].before + 2 * report.ingresses[0].stored);
}

#[test]
fn retransmissions_are_sent_plain() {
    let instance = line();
    let mut emulation = planned(&instance, vec![vec![share(0, ALL, 1)]], settings());
    let content = noise(500, 1);
    let mut source = Source::default();
    let first = source.packet(0, 0, &content);
    let again =
        Packet { header: Header { identification: Some(9), ..first.header }, ..first.clone() };
    let other_flow = Packet { header: Header { source_port: 7, ..first.header }, ..first.clone() };
    emulation.push(&first).unwrap();
    emulation.push(&again).unwrap();
    assert_eq!(
        (emulation.report().refusals.retransmission, emulation.report().ingresses[0].matches),
        (1, 0)
    );
    emulation.push(&other_flow).unwrap();
    assert_eq!(
        (emulation.report().refusals.retransmission, emulation.report().ingresses[0].matches),
        (1, 1)
    );
}

#[test]
fn retransmissions_of_packets_that_are_not_stored_are_sent_plain_too() {
    let instance = line();
    let settings = settings();
    let mut emulation = planned(&instance, vec![vec![share(0, HALF, 1)]], settings.clone());
    let content = noise(500, 1);
    let mut source = Source::default();
    emulation.push(&source.packet_in(&settings, 0..HALF, 0, &content)).unwrap();
    let other = [&content[..], b"more"].concat();
    emulation.push(&source.packet_in(&settings, HALF..ALL, 0, &other)).unwrap();
    assert_eq!(emulation.report().ingresses[0].matches, 1);
    emulation.push(&source.packet_in(&settings, HALF..ALL, 0, &other)).unwrap();
    assert_eq!(
        (emulation.report().ingresses[0].matches, emulation.report().refusals.retransmission),
        (1, 1)
    );
}

#[test]
fn names_that_collide_are_not_referred_to() {
    // Names of one byte, a hundred packets at a time.
    let instance = line();
    let settings = Settings { format: Format { name_bytes: 1, ..Format::default() }, ..settings() };
    let bucket = |from, to, device| Share { from, to, device: DeviceId(device), bytes: 50 * 340 };
    let mut emulation =
        planned(&instance, vec![vec![bucket(0, HALF, 0), bucket(HALF, ALL, 1)]], settings);
    let mut source = Source::default();
    for time in 0..600u64 {
        let mut payload = noise(300, time / 40 * 20 + time % 20);
        payload[..8].copy_from_slice(&time.to_le_bytes());
        emulation.push(&source.packet(time, 0, &payload)).unwrap();
    }
    let report = emulation.report();
    assert!(report.collisions > 50 && report.refusals.ambiguous > 50, "{report:?}");
    assert!(report.ingresses[0].matches > 50);
    assert_eq!(report.delivered, 600);
}
