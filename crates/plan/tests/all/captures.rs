//! Captures on the paths of an instance.

use std::{collections::HashMap, fs::File, net::IpAddr, path::PathBuf};

use oncewire_packet::{
    CaptureReader, Dissected, Dissector, Layers, Limits, Transport, prefix::Prefixes,
};
use oncewire_plan::{
    BitRate, Bytes, Instance, LinkId, Measured, Network, NodeId, Placement, Profile, Provision,
    Seconds,
    emulate::{
        Fields, Header, Packet,
        workload::{Egresses, FromCapture, Ingresses, Mapped, TimeScale},
    },
    measure::{Profiler, Settings},
    network::{Link, Node, Role},
    path::Route,
};

/// Seattle, Denver with two access routers and a backbone router, Boston. All paths cross Denver's
/// backbone router.
fn instance() -> Instance {
    let node = |id: &str, city: &str, pop, role| Node {
        id: id.into(),
        label: city.into(),
        pop,
        role,
        ..Node::default()
    };
    let nodes = vec![
        node("sea", "Seattle", 0, Role::Any),
        node("den", "Denver", 1, Role::Backbone),
        node("den1", "Denver", 1, Role::Access),
        node("den2", "Denver", 1, Role::Access),
        node("bos", "Boston", 2, Role::Any),
    ];
    let link = |from, to| Link { from, to, weight: 1.0, latency: 1.0, capacity: None };
    // Link 2i goes from the i-th edge to the backbone router, link 2i + 1 back.
    let edges = [0, 2, 3, 4];
    let links = edges
        .iter()
        .flat_map(|&edge| [link(NodeId(edge), NodeId(1)), link(NodeId(1), NodeId(edge))])
        .collect();
    let network = Network { nodes, links, ..Network::default() };
    let mut routes = Vec::new();
    for (i, &from) in (0..).zip(&edges) {
        for (j, &to) in (0..).zip(&edges) {
            // There is no traffic from Boston to the second access router of Denver.
            if from != to && (from, to) != (4, 3) {
                routes.push(Route {
                    from: NodeId(from),
                    to: NodeId(to),
                    slice: 0,
                    links: [2 * i, 2 * j + 1].map(LinkId).to_vec(),
                    volume: if to == 4 { 2e6 } else { 1e6 },
                });
            }
        }
    }
    let provision = Provision {
        ingress_memory: Bytes(4e6),
        ingress_rate: BitRate(32e6),
        ..Provision::default()
    };
    Instance::new(
        network,
        routes,
        &provision,
        &Placement::Links,
        Profile::Measured(Measured::default()),
    )
    .unwrap()
}

fn dissected<'a>(source: &str, destination: &str, payload: &'a [u8]) -> Dissected<'a> {
    let source: IpAddr = source.parse().unwrap();
    Dissected {
        source,
        destination: destination.parse().unwrap(),
        protocol: 6,
        ttl: 60,
        dscp: 0,
        identification: source.is_ipv4().then_some(77),
        transport: Transport::Tcp {
            source_port: 1,
            destination_port: 2,
            seq: 3,
            ack: 4,
            flags: 16,
            window: 5,
            checksum: 6,
        },
        payload,
        missing: 10,
        headers: 54,
        trailer: 4,
        wire_len: 68 + payload.len() as u64,
        fragments: 0,
        layers: Layers::default(),
    }
}

#[test]
fn prefixes_select_paths_and_unmapped_packets_are_counted() {
    let instance = instance();
    let table = "10.1.0.0/16 Seattle\n10.2.0.0/16 denver\n10.3.0.0/16 bos\n10.4.0.0/16 Atlantis\n10.5.0.0/16 den2\n";
    let egresses = Egresses::Prefixes(Prefixes::parse(table).unwrap().into());
    let mut mapper = FromCapture::new(
        &instance,
        Ingresses::BySource,
        egresses,
        TimeScale { time: 2.0, instance: 1.0 },
    )
    .unwrap();
    let mut packet = |time, source: &str, destination: &str| {
        mapper.packet(time, &dissected(source, destination, b"payload"))
    };
    let ends = |packet: &Packet| {
        let path = &instance.paths[packet.path as usize];
        (instance.ingresses[path.ingress as usize].node, path.egress)
    };
    let first = packet(5_000, "10.1.0.1", "10.3.0.1").unwrap();
    assert_eq!((first.time, ends(&first), first.header_bytes), (0, (NodeId(0), NodeId(4)), 68));
    assert_eq!(&*first.payload, b"payload");
    let header = Header {
        source: "10.1.0.1".parse().unwrap(),
        destination: "10.3.0.1".parse().unwrap(),
        source_port: 1,
        destination_port: 2,
        protocol: 6,
        identification: Some(77),
        transport: Fields::Tcp { sequence: 3, acknowledgment: 4, checksum: 6 },
    };
    assert_eq!(first.header, header);
    // Times are doubled and never decrease.
    assert_eq!(packet(5_100, "10.3.0.1", "10.1.0.1").unwrap().time, 200);
    assert_eq!(packet(4_000, "10.3.0.1", "10.1.0.1").unwrap().time, 200);
    // Hosts of Denver are behind both access routers, none behind the backbone router; each is
    // always behind the same one.
    let mut denver = HashMap::new();
    for host in 0..64 {
        let address = format!("10.2.0.{host}");
        for _ in 0..2 {
            let egress = ends(&packet(6_000, "10.1.0.1", &address).unwrap()).1;
            assert_eq!(*denver.entry(host).or_insert(egress), egress);
        }
    }
    let first = denver.values().filter(|&&egress| egress == NodeId(2)).count();
    assert!(denver.values().all(|egress| [2, 3].contains(&egress.0)) && (16..48).contains(&first));
    assert_eq!(packet(6_000, "10.1.0.1", "10.4.0.1"), None);
    assert_eq!(packet(6_000, "2001:db8::1", "10.1.0.1"), None);
    assert_eq!(packet(6_000, "10.2.0.1", "10.5.0.1"), None);
    assert_eq!(packet(6_000, "10.3.0.1", "10.5.0.1"), None);
    let large = vec![0; 65_536];
    assert_eq!(mapper.packet(6_000, &dissected("10.1.0.1", "10.3.0.1", &large)), None);
    let counts =
        Mapped { packets: 131, bytes: 131 * 75, nowhere: 2, own_pop: 1, no_path: 1, too_large: 1 };
    assert_eq!(mapper.mapped(), counts);
}

/// Of two slices, the longest source network decides; addresses without one are spread by volume.
#[test]
fn sources_select_slices() {
    let nodes = ["a", "b", "c", "d"].map(|id| Node { id: id.into(), ..Node::default() });
    let nodes = (0..).zip(nodes).map(|(pop, node)| Node { pop, ..node }).collect();
    let link = |(from, to)| Link {
        from: NodeId(from),
        to: NodeId(to),
        weight: 1.0,
        latency: 1.0,
        capacity: None,
    };
    let links = [(0, 1), (1, 3), (0, 2), (2, 3)].map(link).to_vec();
    let network = Network { nodes, links, ..Network::default() };
    let route = |slice: u16| Route {
        from: NodeId(0),
        to: NodeId(3),
        slice,
        links: [2 * u32::from(slice), 2 * u32::from(slice) + 1].map(LinkId).to_vec(),
        volume: 1e6,
    };
    let provision = Provision {
        ingress_memory: Bytes(4e6),
        ingress_rate: BitRate(32e6),
        ..Provision::default()
    };
    let profile = Profile::Measured(Measured::default());
    let routes = vec![route(0), route(1)];
    let mut instance =
        Instance::new(network, routes, &provision, &Placement::Links, profile).unwrap();
    let prefixes = |list: &[&str]| list.iter().map(|prefix| prefix.parse().unwrap()).collect();
    let slices = |instance: &Instance, sources: &[&str]| -> Vec<u16> {
        let spread = Egresses::Spread { seed: 1, networks: false };
        let mut mapper =
            FromCapture::new(instance, Ingresses::One(NodeId(0)), spread, TimeScale::NONE).unwrap();
        let path = |source: &&str| {
            let packet = mapper.packet(0, &dissected(source, "192.0.2.1", b"x")).unwrap();
            instance.ingresses[instance.paths[packet.path as usize].ingress as usize].slice
        };
        sources.iter().map(path).collect()
    };
    instance.ingresses[0].sources = prefixes(&["10.0.0.0/8", "2001:db8:1::/48", "10.1.2.3/32"]);
    instance.ingresses[1].sources = prefixes(&["10.1.0.0/16", "0.0.0.0/0"]);
    let sources = ["10.2.0.1", "10.1.0.1", "10.1.2.3", "11.0.0.1", "2001:db8:1::7"];
    assert_eq!(slices(&instance, &sources), [0, 1, 0, 1, 0]);
    // Of IPv6 addresses without a network some take each.
    let others: Vec<String> = (0..40).map(|net| format!("2001:db8:2{net:02}::1")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let sum: u16 = slices(&instance, &others).iter().sum();
    assert!((8..32).contains(&sum), "{sum}");
}

#[test]
fn spread_addresses_follow_the_volumes() {
    let instance = instance();
    for networks in [false, true] {
        let mut mapper = FromCapture::new(
            &instance,
            Ingresses::One(NodeId(0)),
            Egresses::Spread { seed: 1, networks },
            TimeScale::NONE,
        )
        .unwrap();
        let mut egresses: HashMap<u32, u32> = HashMap::new();
        for host in 0..2000u32 {
            let [a, b, ..] = (host * 7).to_be_bytes().map(u32::from);
            let [_, _, c, d] = (host * 7).to_be_bytes();
            let of = |last: u8| format!("{}.{}.{c}.{}", 20 + a, b + u32::from(d), last);
            let to = |mapper: &mut FromCapture<'_>, address: String| {
                mapper.packet(0, &dissected("::1", &address, b"x")).unwrap().path
            };
            let path = to(&mut mapper, of(1));
            if networks {
                assert_eq!(to(&mut mapper, of(200)), path);
            }
            *egresses.entry(instance.paths[path as usize].egress.0).or_default() += 1;
        }
        // 1, 1 and 2 quarters.
        assert!(
            (420..580).contains(&egresses[&2])
                && (420..580).contains(&egresses[&3])
                && (900..1100).contains(&egresses[&4]),
            "{egresses:?}"
        );
        assert_eq!((mapper.mapped().nowhere, mapper.mapped().own_pop), (0, 0));
    }
    // An address stays at one node, as source and as destination.
    let mut mapper = FromCapture::new(
        &instance,
        Ingresses::BySource,
        Egresses::Spread { seed: 3, networks: false },
        TimeScale::NONE,
    )
    .unwrap();
    for host in 0..200 {
        let (a, b) = (format!("10.0.0.{host}"), format!("2001:db8::{host:x}"));
        let there = mapper.packet(0, &dissected(&a, &b, b"x")).map(|packet| packet.path as usize);
        let back = mapper.packet(0, &dissected(&b, &a, b"x")).map(|packet| packet.path as usize);
        let ends = |path: usize| {
            (
                instance.ingresses[instance.paths[path].ingress as usize].node,
                instance.paths[path].egress,
            )
        };
        if let (Some(there), Some(back)) = (there, back) {
            assert_eq!(ends(there), (ends(back).1, ends(back).0));
        }
    }
    let mapped = mapper.mapped();
    assert!(
        mapped.packets > 150 && mapped.packets + mapped.own_pop + mapped.no_path == 400,
        "{mapped:?}"
    );
}

#[test]
fn unmappable_settings_are_explained_errors() {
    let instance = instance();
    let spread = Egresses::Spread { seed: 0, networks: true };
    let error = |ingresses, egresses, scale| {
        FromCapture::new(&instance, ingresses, egresses, scale).err().unwrap().to_string()
    };
    assert_eq!(
        error(Ingresses::One(NodeId(1)), spread.clone(), TimeScale::NONE),
        "emulation: the capture enters at den, where nothing enters"
    );
    let table = Prefixes::parse("10.0.0.0/8 Atlantis\n11.0.0.0/8 Ys").unwrap();
    assert_eq!(
        error(Ingresses::BySource, Egresses::Prefixes(table.into()), TimeScale::NONE),
        "emulation: none of the prefixes has the name of a node; names are Atlantis, Ys"
    );
    error(Ingresses::BySource, spread, TimeScale { time: 0.0, instance: 1.0 });
    assert!(TimeScale::fill(&instance, 0, Bytes(0.0), Seconds(0.0), 4.0).is_err());
    let scale = TimeScale::fill(&instance, 0, Bytes(8e6), Seconds(100.0), 4.0).unwrap();
    // Four stores of 2 MB in four epochs of a second.
    assert_eq!(scale, TimeScale { time: 0.04, instance: 0.5 });
}

/// The directory of the public captures, if available.
fn data() -> Option<PathBuf> {
    let shared = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("ONCEWIRE_DATA").map_or(shared, PathBuf::from).join("pcap");
    data.is_dir().then_some(data)
}

/// A real capture through mapper and profiler: every packet is counted and repeats are found.
#[test]
fn a_real_capture_has_a_profile() {
    let Some(data) = data() else {
        oncewire_testkit::skipped!("no captures here");
        return;
    };
    let Some(file) = std::fs::read_dir(data)
        .unwrap()
        .filter_map(Result::ok)
        .filter(|file| file.file_name().to_string_lossy().starts_with("selfcap__"))
        .min_by_key(|file| file.metadata().map_or(u64::MAX, |about| about.len()))
    else {
        oncewire_testkit::skipped!("no capture of our own here");
        return;
    };
    let read = |take: &mut dyn FnMut(i64, &Dissected<'_>)| {
        let mut capture = CaptureReader::new(File::open(file.path()).unwrap()).unwrap();
        let mut dissector = Dissector::new(Limits::default());
        while let Some(record) = capture.next() {
            let record = record.unwrap();
            if let Ok(packet) = dissector.dissect(&record) {
                take(record.time, &packet);
            }
        }
    };
    let (mut bytes, mut first, mut last, mut all) = (0, i64::MAX, 0, 0);
    read(&mut |time, packet| {
        (bytes, first, last, all) =
            (bytes + packet.wire_len, first.min(time), last.max(time), all + 1);
    });
    let instance = instance();
    let scale = TimeScale::fill(
        &instance,
        0,
        Bytes(bytes as f64),
        Seconds((last - first) as f64 / 1e9),
        2.0,
    )
    .unwrap();
    let instance = instance.scaled(scale.instance).unwrap();
    let mut mapper = FromCapture::new(
        &instance,
        Ingresses::One(NodeId(0)),
        Egresses::Spread { seed: 1, networks: false },
        scale,
    )
    .unwrap();
    let mut profiler =
        Profiler::new(&instance, Settings { warm_up: 0.0, ..Settings::default() }).unwrap();
    read(&mut |time, packet| {
        if let Some(packet) = mapper.packet(time, packet) {
            profiler.push(&packet).unwrap();
        }
    });
    let mapped = mapper.mapped();
    assert_eq!(mapped.packets + mapped.too_large, all);
    let seen = profiler.seen();
    assert_eq!((seen.packets, seen.bytes), (mapped.packets, mapped.bytes));
    let measured = profiler.measurement().unwrap();
    let applied = measured.apply(&instance).unwrap();
    assert!(applied.paths.iter().map(|path| path.volume).sum::<f64>() > 0.0);
    eprintln!("{:?}: {mapped:?} {seen:?}", file.file_name());
    assert!(seen.match_bytes > seen.bytes / 20);
}
