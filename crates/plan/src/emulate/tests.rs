//! The emulator on networks and packets made here. That each packet leaves as it entered is checked
//! by the emulator itself, in every test.
//!
//! One file, because all tests use the same small networks.

mod budgets;
mod follow;
mod laws;
mod losses;
mod memory;
mod prices;
mod references;
mod rules;

use std::sync::Arc;

use oncewire_kernels::random::SplitMix64;
use proptest::prelude::*;

use super::*;
use crate::{
    BitRate, Bytes, DeviceId, Error, HeaderHash, Instance, LinkId, Network, NodeId, PathId,
    PerSecond, Placement, Provision, Unwatched, path::Route, testing,
};

const HALF: u64 = 1 << 31;
const ALL: u64 = 1 << 32;
const HEADER: u32 = 40;

/// A network of directed links.
fn network(nodes: u32, links: &[(u32, u32)]) -> Network {
    let ids: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
    testing::directed(ids.iter().map(String::as_str), links)
}

/// Devices on all links, epochs of one second, and volumes of a megabyte.
fn instance(network: Network, routes: &[&[u32]], change: impl FnOnce(&mut Provision)) -> Instance {
    let mut provision = Provision {
        ingress_memory: Bytes(1e6),
        ingress_rate: BitRate(8e6),
        edge_memory: Bytes(1e7),
        interior_memory: Bytes(1e7),
        ..Provision::default()
    };
    change(&mut provision);
    let routes = routes.iter().map(|links| Route {
        from: network.links[links[0] as usize].from,
        to: network.links[links[links.len() - 1] as usize].to,
        slice: 0,
        links: links.iter().copied().map(LinkId).collect(),
        volume: 1e6,
    });
    let routes = routes.collect();
    testing::unmeasured(network, routes, &provision)
}

/// One path over three links, 0 -> 1 -> 2 -> 3.
fn line() -> Instance {
    instance(network(4, &[(0, 1), (1, 2), (2, 3)]), &[&[0, 1, 2]], |_| ())
}

/// Two paths that part: 0 -> 1 -> 2 and 0 -> 1 -> 3.
fn fork() -> Instance {
    instance(network(4, &[(0, 1), (1, 2), (1, 3)]), &[&[0, 1], &[0, 2]], |_| ())
}

fn share(from: u64, to: u64, device: u32) -> Share {
    Share { from, to, device: DeviceId(device), bytes: 1 << 20 }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut noise = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut noise);
    noise
}

/// Makes packets with distinct headers.
#[derive(Default)]
struct Source {
    serial: u32,
}

impl Source {
    fn header(serial: u32) -> Header {
        Header {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            source_port: 1000,
            destination_port: 80,
            protocol: 6,
            identification: Some(0),
            transport: Fields::Tcp { sequence: serial, acknowledgment: 0, checksum: 0 },
        }
    }

    fn packet(&mut self, time: u64, path: u32, payload: &[u8]) -> Packet {
        self.serial += 1;
        Packet {
            time,
            path,
            header: Self::header(self.serial),
            header_bytes: HEADER,
            payload: payload.into(),
        }
    }

    /// One whose hash lies in the given range.
    fn packet_in(
        &mut self,
        settings: &Settings,
        range: std::ops::Range<u64>,
        path: u32,
        payload: &[u8],
    ) -> Packet {
        loop {
            let packet = self.packet(0, path, payload);
            if range.contains(&u64::from(settings.header_hash().identity(&packet.header).hash())) {
                return packet;
            }
        }
    }
}

/// Finds every match.
fn settings() -> Settings {
    Settings {
        finding: Finding { window: 16, period: 4, ..Finding::default() },
        ..Settings::default()
    }
}

fn planned(instance: &Instance, shares: Vec<Vec<Share>>, settings: Settings) -> Emulation<'_> {
    let allocation = Allocation::of_parts(instance, shares).unwrap();
    let settings = Settings { shed: false, ..settings };
    Emulation::new(instance, Scheme::Planned(allocation), settings).unwrap()
}

#[test]
fn a_match_is_decoded_where_its_packet_is_cached_and_saves_what_is_ahead_of_that() {
    let instance = line();
    for holder in 0..3u32 {
        let mut source = Source::default();
        let mut emulation = planned(&instance, vec![vec![share(0, ALL, holder)]], settings());
        let content = noise(600, 1);
        let again = [&noise(100, 2)[..], &content, &noise(100, 3)].concat();
        emulation.push(&source.packet(0, 0, &content)).unwrap();
        emulation.push(&source.packet(1, 0, &again)).unwrap();
        let report = emulation.report();
        let device = report.devices[holder as usize];
        assert_eq!((device.cached, device.decoded, device.decoded_bytes), (2, 1, 600));
        assert_eq!(report.ingresses[0].matches, 1);
        // To be cached: a control byte and the path. With a match: the checksum, own path 1, name
        // 4, position 1, offset (100 back) 2, length 2.
        let (plain, shim) = (2, 2 + 4 + 1 + 4 + 1 + 2 + 2);
        for (link, traffic) in report.links.iter().enumerate() {
            let (before, mut after) = (640 + 840, 640 + 840);
            if link as u32 <= holder {
                after = 640 + plain + 240 + shim;
            }
            assert_eq!(
                (traffic.before, traffic.after),
                (before, after),
                "link {link}, holder {holder}"
            );
        }
        assert_eq!(report.delivered, 2);
    }
}

#[test]
fn buckets_evict_in_lockstep() {
    // Each bucket holds ten packets; old and new content is repeated at random distances. A node
    // that evicts before the ingress fails the run.
    let instance = line();
    let bucket = |from, to, device| Share { from, to, device: DeviceId(device), bytes: 10 * 540 };
    let shares = vec![vec![
        bucket(0, ALL / 3, 0),
        bucket(ALL / 3, ALL / 3 * 2, 1),
        bucket(ALL / 3 * 2, ALL, 2),
    ]];
    let mut emulation = planned(&instance, shares, settings());
    let mut source = Source::default();
    let mut random = SplitMix64(7);
    for time in 0..2000u64 {
        let mut payload = noise(500, time.saturating_sub(random.next_u64() >> 58));
        payload[..8].copy_from_slice(&time.to_le_bytes());
        emulation.push(&source.packet(time, 0, &payload)).unwrap();
    }
    let report = emulation.report();
    assert_eq!(report.delivered, 2000);
    assert!(
        report.ingresses[0].matches > 500 && report.ingresses[0].matches < 1900,
        "{}",
        report.ingresses[0].matches
    );
    for device in &report.devices {
        assert_eq!((device.packets, device.used, device.most_used), (10, 5400, 5400));
    }
}

#[test]
fn overloaded_devices_are_not_loaded() {
    // 10 operations an epoch: the plan expects all of them to be this ingress's.
    let instance = instance(network(4, &[(0, 1), (1, 2), (2, 3)]), &[&[0, 1, 2]], |provision| {
        provision.operations = PerSecond(10.0)
    });
    let allocation = Allocation::of_parts(&instance, vec![vec![share(0, ALL, 1)]]).unwrap();
    let run = |shed| {
        let rules = Rules { priced: false, ..Rules::default() };
        let settings = Settings { shed, rules, ..settings() };
        let mut emulation =
            Emulation::new(&instance, Scheme::Planned(allocation.clone()), settings).unwrap();
        let mut source = Source::default();
        for epoch in 0..3u64 {
            for packet in 0..20u64 {
                let mut payload = noise(400, packet / 2 + epoch * 100);
                payload[..8].copy_from_slice(&(epoch * 20 + packet).to_le_bytes());
                emulation
                    .push(&source.packet(epoch * 1_000_000_000 + packet, 0, &payload))
                    .unwrap();
            }
        }
        emulation.report()
    };
    let free = run(false);
    assert_eq!(free.devices[1].most_operations, 30);
    assert_eq!((free.devices[1].overloaded, free.refusals.overloaded), (3, 0));
    let shed = run(true);
    assert_eq!(shed.devices[1].most_operations, 10);
    assert_eq!(shed.devices[1].overloaded, 0);
    assert!(shed.refusals.overloaded > 0);
    assert_eq!(shed.delivered, 60);
    assert_eq!(shed.epochs.len(), 3);
    assert!(
        shed.epochs.iter().all(|epoch| epoch.cached + epoch.decoded == 10 && epoch.busiest == 1.0)
    );
}

#[test]
fn a_lost_packet_costs_what_refers_to_it() {
    let instance = line();
    let mut emulation = planned(&instance, vec![vec![share(0, ALL, 2)]], settings());
    let mut source = Source::default();
    let content = noise(500, 1);
    emulation.schedule(Event { time: 0, change: Change::Loss(1.0) }).unwrap();
    emulation.schedule(Event { time: 1, change: Change::Loss(0.0) }).unwrap();
    let first = source.packet(0, 0, &content);
    emulation.push(&first).unwrap();
    assert_eq!(emulation.report().lost, 1);
    // It refers to what no device has.
    emulation.push(&source.packet(1, 0, &[&content[..], b"other"].concat())).unwrap();
    assert_eq!((emulation.report().undecodable, emulation.report().delivered), (1, 0));
    // The retransmission goes plain and is cached, so all is well again.
    emulation
        .push(&Packet {
            time: 2,
            header: Header { identification: Some(5), ..first.header },
            ..first
        })
        .unwrap();
    emulation.push(&source.packet(3, 0, &[&content[..], b"third"].concat())).unwrap();
    let report = emulation.report();
    assert_eq!((report.undecodable, report.delivered, report.devices[2].decoded), (1, 2, 1));
    // Lost on the first link.
    assert_eq!(report.links[1].before, report.links[0].before - 540);
}

#[test]
fn with_losses_nothing_is_delivered_wrong() {
    let instance = fork();
    let shares = |bytes| {
        let bucket = |from, to, device| Share { from, to, device: DeviceId(device), bytes };
        vec![
            vec![bucket(0, HALF, 0), bucket(HALF, ALL, 1)],
            vec![bucket(0, HALF, 0), bucket(HALF, ALL, 2)],
        ]
    };
    let settings = Settings { loss: 0.05, ..settings() };
    let mut emulation = planned(&instance, shares(20_000), settings);
    let mut source = Source::default();
    let mut sent = 0;
    for time in 0..3000u64 {
        let mut payload = noise(500, time - time % 7 * (time % 13) % (time + 1));
        payload[..8].copy_from_slice(&time.to_le_bytes());
        emulation.push(&source.packet(time, (time % 2) as u32, &payload)).unwrap();
        sent += 1;
    }
    let report = emulation.report();
    assert_eq!(report.delivered + report.lost + report.undecodable + report.damaged, sent);
    assert!(
        report.lost > 200 && report.undecodable > 0 && report.ingresses[0].matches > 500,
        "{report:?}"
    );
    assert_eq!(report.damaged, 0);
}

#[test]
fn staggered_updates_lose_nothing() {
    let instance = fork();
    let bucket = |from, to, device, bytes| Share { from, to, device: DeviceId(device), bytes };
    let old = vec![
        vec![bucket(0, HALF, 0, 30_000), bucket(HALF, ALL, 1, 10_000)],
        vec![bucket(0, HALF, 0, 20_000), bucket(HALF, ALL, 2, 20_000)],
    ];
    let new = vec![
        vec![bucket(0, HALF / 2, 0, 12_000), bucket(HALF / 2, HALF, 1, 30_000)],
        vec![bucket(0, ALL, 0, 50_000)],
    ];
    let plans: Vec<Allocation> = [&old, &new]
        .iter()
        .map(|shares| Allocation::of_parts(&instance, (*shares).clone()).unwrap())
        .collect();
    for stagger in [0, 1, 400] {
        for transition in [0, 1, 300] {
            let mut emulation = planned(&instance, old.clone(), settings());
            for (number, time) in [500, 1000, 1100, 1101, 2000].into_iter().enumerate() {
                let allocation = plans[(number + 1) % 2].clone();
                let rollout = Rollout { stagger, transition };
                emulation
                    .schedule(Event { time, change: Change::Manifests { allocation, rollout } })
                    .unwrap();
            }
            let mut source = Source::default();
            for time in 0..4000u64 {
                let mut payload = noise(400, time.saturating_sub(time * 31 % 40));
                payload[..8].copy_from_slice(&time.to_le_bytes());
                emulation.push(&source.packet(2 * time, (time % 3 / 2) as u32, &payload)).unwrap();
            }
            let report = emulation.report();
            assert_eq!((report.delivered, report.updates), (4000, 5));
            assert!(report.ingresses[0].matches > 1500, "{}", report.ingresses[0].matches);
            // The last plan is the second: caches have its sizes.
            assert!(report.devices[0].used <= 62_000 && report.devices[2].used == 0, "{report:?}");
        }
    }
}

#[test]
fn after_a_routing_change_only_what_can_be_decoded_is_encoded() {
    // Path 0 goes from 0 over 1 to 3, then over 2; path 1 always ends at 2.
    let network = network(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
    let instance = instance(network, &[&[2], &[0, 1]], |_| ());
    // Sorted by egress: path 0 ends at 2, path 1 at 3.
    let shares = vec![vec![share(0, ALL, 2)], vec![share(0, HALF, 0), share(HALF, ALL, 1)]];
    let run = |notice| {
        let mut emulation = planned(&instance, shares.clone(), settings());
        let change = Change::Route { path: 1, links: [2, 3].map(LinkId).to_vec(), notice };
        emulation.schedule(Event { time: 100, change }).unwrap();
        let mut source = Source::default();
        for time in 0..200u64 {
            // Each content on both paths, and again and again.
            let mut payload = noise(400, time % 20 / 2);
            payload[..8].copy_from_slice(&time.to_le_bytes());
            emulation.push(&source.packet(time, (time % 2) as u32, &payload)).unwrap();
        }
        emulation.report()
    };
    let at_once = run(0);
    assert_eq!((at_once.delivered, at_once.undecodable), (200, 0));
    // Content of path 0 lies on the new route.
    assert!(at_once.devices[2].decoded > 30 && at_once.refusals.overlap > 0, "{at_once:?}");
    let late = run(20);
    assert!(late.undecodable > 0 && late.delivered + late.undecodable == 200, "{late:?}");
}

#[test]
fn encoders_that_cannot_keep_up_fingerprint_the_lower_hashes() {
    // 1,000 packets an epoch enter, 250 can be fingerprinted.
    let instance = instance(network(4, &[(0, 1), (1, 2), (2, 3)]), &[&[0, 1, 2]], |provision| {
        provision.encodings = PerSecond(250.0)
    });
    let settings = settings();
    let mut emulation = planned(&instance, vec![vec![share(0, ALL, 1)]], settings.clone());
    let mut source = Source::default();
    for _ in 0..4 {
        emulation.push(&source.packet_in(&settings, 0..ALL / 4, 0, &noise(400, 1))).unwrap();
        emulation.push(&source.packet_in(&settings, ALL / 4..ALL, 0, &noise(400, 1))).unwrap();
    }
    assert_eq!(emulation.report().ingresses[0].stored, 4);
}

#[test]
fn hop_by_hop_saves_on_every_link_and_ideal_is_not_limited() {
    let run = |scheme, memory: f64| {
        let instance =
            instance(network(4, &[(0, 1), (1, 2), (2, 3)]), &[&[0, 1, 2]], |provision| {
                provision.interior_memory = Bytes(memory);
            });
        let mut emulation = Emulation::new(&instance, scheme, settings()).unwrap();
        let mut source = Source::default();
        for time in 0..100u64 {
            let mut payload = noise(500, time % 50);
            payload[..8].copy_from_slice(&time.to_le_bytes());
            emulation.push(&source.packet(time, 0, &payload)).unwrap();
        }
        emulation.report()
    };
    let ample = run(Scheme::HopByHop, 1e6);
    assert_eq!(ample.delivered, 100);
    for link in &ample.links {
        // Half of the packets; a shim of 16 bytes at most each.
        assert!(link.reduction() > 0.4 && link.reduction() < 0.5, "{link:?}");
    }
    assert!(ample.devices.iter().all(|device| device.cached == 100 && device.decoded == 50));
    // Too small by one packet: everything has gone when it would be needed.
    let scarce = run(Scheme::HopByHop, 49.0 * 540.0);
    assert_eq!(scarce.devices[1].decoded, 0);
    let ideal = run(Scheme::Ideal, 49.0 * 540.0);
    assert_eq!(ideal.links, ample.links);
}

#[test]
fn a_replanner_is_asked_when_it_is_time_and_when_traffic_changes() {
    struct Planner(Vec<Observed>, Allocation, Arc<std::sync::Mutex<Vec<Observed>>>);
    impl Replanner for Planner {
        fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error> {
            self.0.push(observed.clone());
            self.2.lock().unwrap().push(observed.clone());
            Ok(Some(self.1.clone()))
        }
    }
    let instance = line();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let next = Allocation::of_parts(&instance, vec![vec![share(0, ALL, 2)]]).unwrap();
    let replanning = Replanning { every: 3, change: Some(1.0), ..Replanning::default() };
    let settings = Settings { replanning, ..settings() };
    let mut emulation = planned(&instance, vec![vec![share(0, ALL, 0)]], settings)
        .with_replanner(Planner(Vec::new(), next, seen.clone()));
    let mut source = Source::default();
    // A megabyte an epoch is planned; the fifth has three.
    for epoch in 0..6u64 {
        let packets = if epoch == 4 { 3000 } else { 1000 };
        for packet in 0..packets {
            let content = noise(960, packet + 10_000 * epoch);
            emulation.push(&source.packet(epoch * 1_000_000_000 + packet, 0, &content)).unwrap();
        }
    }
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen.iter().map(|observed| (observed.epoch, observed.changed)).collect::<Vec<_>>(),
        [(2, None), (4, Some(0))]
    );
    assert_eq!((seen[0].volumes[0], seen[1].volumes[0]), (1e6, 2e6));
    let report = emulation.report();
    assert_eq!((report.updates, report.delivered), (2, 8000));
    assert!(report.devices[2].cached > 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let instance = line();
    let message =
        |result: Result<_, Error>| result.err().map(|error| error.to_string()).unwrap_or_default();
    let parts = |shares| message(Allocation::of_parts(&instance, shares).map(|_| ()));
    assert_eq!(parts(vec![]), "emulation: ranges of 0 paths, but there are 1");
    assert_eq!(parts(vec![vec![share(1, 2, 0)]]), "emulation: path 0: hashes from 1 to 2 follow 0");
    assert_eq!(
        parts(vec![vec![share(0, 9, 1), share(9, 10, 0)]]),
        "emulation: path 0: device 0 is not next on it"
    );
    let allocation = Allocation::of_parts(&instance, vec![vec![]]).unwrap();
    let new = |settings| {
        message(
            Emulation::new(&instance, Scheme::Planned(allocation.clone()), settings).map(|_| ()),
        )
    };
    assert_eq!(
        new(Settings { loss: f64::NAN, ..settings() }),
        "emulation: the loss is NaN; it must be a probability, from 0 to 1"
    );
    let finding = Finding { window: 5, ..Finding::default() };
    assert_eq!(
        new(Settings { finding, ..settings() }),
        "emulation: the window in bytes is 5; it must be from 12 to 64"
    );
    let mut emulation = planned(&instance, vec![vec![]], settings());
    let mut source = Source::default();
    let mut push = |time, path, len| {
        let packet = source.packet(time, path, &vec![0; len]);
        message(emulation.push(&packet))
    };
    assert_eq!(push(5, 0, 10), "");
    assert_eq!(push(4, 0, 10), "emulation: a packet at 4 ns, but the time is 5 ns");
    assert_eq!(push(5, 1, 10), "emulation: a packet of path 1, but there are 1");
    assert_eq!(
        push(5, 0, 65_536),
        "emulation: a payload of 65536 bytes; a packet has at most 65535"
    );
    let reroute = Event {
        time: 9,
        change: Change::Route { path: 0, links: [0, 2].map(LinkId).to_vec(), notice: 0 },
    };
    assert_eq!(
        message(emulation.schedule(reroute)),
        "emulation: another route for path 0 is broken"
    );
    let loss = Event { time: 1, change: Change::Loss(0.0) };
    assert_eq!(
        message(emulation.schedule(loss)),
        "emulation: an event at 1 ns, but the time is 5 ns"
    );
}

#[test]
fn a_run_can_be_stopped() {
    struct Stop;
    impl crate::Watch for Stop {
        fn progress(&self, _: &str, _: u64, _: u64) {}
        fn stopped(&self) -> bool {
            true
        }
    }
    let instance = line();
    let mut emulation = planned(&instance, vec![vec![]], settings());
    let packet = Source::default().packet(0, 0, b"");
    assert_eq!(emulation.run([packet.clone()], &Stop), Err(Error::Stopped));
    assert_eq!(emulation.run([packet], &Unwatched), Ok(()));
}

#[test]
fn a_plans_manifests_and_its_solution_say_the_same() {
    let instance =
        instance(network(4, &[(0, 1), (1, 2), (1, 3)]), &[&[0, 1], &[0, 2]], |provision| {
            (provision.ingress_memory, provision.ingress_rate) = (Bytes(2e6), BitRate(16e6));
        });
    let solution = crate::Solution::given(vec![0.25, 0.5, 0.0, 0.75]);
    let plan =
        crate::manifest::Plan::new(&instance, &solution, &crate::manifest::Options::default())
            .unwrap();
    let (of_plan, of_solution) =
        (Allocation::of_plan(&plan), Allocation::new(&instance, &solution).unwrap());
    let manifests = plan.ingress_manifests();
    for path in 0..2 {
        for hash in [0, 1 << 30, (1 << 30) - 1, 3 << 30, (3 << 30) - 1, u32::MAX].map(HeaderHash) {
            let holder = of_solution.holder(path, hash).map(|share| share.device);
            assert_eq!(of_plan.holder(path, hash).map(|share| share.device), holder);
            assert_eq!(plan.paths()[path as usize].holder(hash), holder);
        }
        for q in 0..2 {
            assert_eq!(of_plan.overlap(path, q), of_solution.overlap(path, q));
            assert_eq!(manifests[0].overlap(PathId(path), PathId(q)), of_plan.overlap(path, q));
        }
    }
    assert_eq!((of_plan.overlap(0, 1), of_plan.overlap(1, 0)), (0, 1 << 30));
}
