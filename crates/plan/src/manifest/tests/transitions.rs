//! Transitions from one plan to the next, while packets flow.

use super::*;

use crate::{Bytes, DeviceId, HeaderHash, LinkId, PathId, PerSecond};

/// Two plans of a network, the second with other volumes, shares and now and then other routes.
pub(super) fn successive(seed: u64, nodes: usize) -> (Arc<Plan>, Arc<Plan>) {
    let mut random = Random::with_seed(seed);
    let mut first = instance(nodes, &mut random);
    // Small volumes: buckets of a few of the play's packets.
    let volumes: Vec<f64> = first.paths.iter().map(|_| 500.0 + random.f64() * 2000.0).collect();
    first = first.with_volumes(&volumes).unwrap();
    for ingress in &mut first.ingresses {
        ingress.encodings = f64::INFINITY;
    }
    let answer = solution(&first, &mut random);
    let old = Plan::new(&first, &answer, &Options::default()).unwrap();
    let mut second = first.clone();
    let change = random.usize(..4);
    if change > 0 && first.devices.iter().all(|device| device.link.is_some()) {
        // Some paths go, so that others get their numbers; or some go other ways.
        let routes: Vec<Route> = first
            .paths
            .iter()
            .filter(|_| change != 1 || random.usize(..4) > 0)
            .map(|path| {
                let from = first.ingresses[path.ingress as usize].node;
                let links = if change == 1 {
                    path.links.to_vec()
                } else {
                    ways(&first.network, from, true)[path.egress.index()].clone()
                };
                Route { from, to: path.egress, slice: 0, links, volume: path.volume }
            })
            .collect();
        if !routes.is_empty() {
            let placed = first.devices.iter().filter_map(|device| device.link).collect();
            let provision = Provision {
                ingress_memory: Bytes(1e15),
                edge_memory: Bytes(1e15),
                interior_memory: Bytes(1e15),
                encodings: PerSecond(1e15),
                ..Provision::default()
            };
            second = Instance::new(
                first.network.clone(),
                routes,
                &provision,
                &Placement::Some(placed),
                profile(),
            )
            .unwrap();
        }
    }
    // Some paths keep their shares: their buckets do not change.
    let mut answer = solution(&second, &mut random);
    for (number, path) in second.paths.iter().enumerate() {
        let before = first.paths.iter().position(|other| {
            other.links == path.links
                && first.ingresses[other.ingress as usize].node
                    == second.ingresses[path.ingress as usize].node
        });
        if let Some(before) = before
            && random.usize(..3) == 0
        {
            let shares: Vec<f64> = Solution { cached: old_shares(&old, &first), ..answer.clone() }
                .of_path(&first, before)
                .to_vec();
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
            shares[instance.hop_index(number, range.hop as usize)] =
                (range.to - range.from) as f64 / SPACE as f64;
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

/// Buckets by plan (an unchanged one counts as the old plan's) and path; a device has one range of
/// a path, an ingress the device's number beside it.
type Buckets = BTreeMap<(bool, PathId, DeviceId), Bucket>;

struct Sent {
    path: PathId,
    hash: HeaderHash,
    size: u64,
    hops: Vec<DeviceId>,
    /// Devices that it has passed.
    passed: usize,
    copies: Copies,
    /// The packet it was encoded against, and who should decode it.
    against: Option<(usize, Decoder)>,
    decoded: bool,
    ingress: usize,
}

/// A transition with packets under way. Nothing here asks a device for what it is not told: state
/// by state, manifests only.
pub(super) struct Play {
    random: Random,
    old: Arc<Plan>,
    new: Arc<Plan>,
    change: Transition,
    names: Vec<String>,
    states: Vec<State>,
    caches: Vec<Buckets>,
    stores: Vec<Buckets>,
    known: Vec<Progress>,
    /// Device, ingress: acknowledgments under way.
    acknowledgments: Vec<(DeviceId, usize)>,
    sent: Vec<Sent>,
    /// Number of packets sent when the last ingress released a device.
    released: Vec<Option<usize>>,
    decoded: usize,
}

impl Play {
    pub(super) fn new(seed: u64, nodes: usize) -> Self {
        let (old, new) = successive(seed, nodes);
        let mut names: Vec<String> =
            old.ingresses().iter().chain(new.ingresses()).map(|one| one.name.clone()).collect();
        names.sort();
        names.dedup();
        let devices = old.devices().len();
        Self {
            random: Random::with_seed(seed ^ 0x5555),
            change: Transition::new(old.clone(), new.clone()).unwrap(),
            states: vec![State::Old; devices],
            caches: (0..devices).map(|_| Buckets::new()).collect(),
            stores: names.iter().map(|_| Buckets::new()).collect(),
            known: names.iter().map(|_| Progress::new(devices)).collect(),
            acknowledgments: Vec::new(),
            sent: Vec::new(),
            released: vec![None; devices],
            decoded: 0,
            old,
            new,
            names,
        }
    }

    pub(super) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let devices = self.states.len();
            match self.random.usize(..24) {
                0 if devices > 0 => self.manifest_arrives(),
                1 | 2 => self.acknowledgment_arrives(),
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
        let device = self.random.usize(..self.states.len());
        if self.states[device] == State::Old {
            self.states[device] = State::Both;
            self.acknowledgments
                .extend((0..self.names.len()).map(|ingress| (DeviceId::new(device), ingress)));
        }
    }

    fn acknowledgment_arrives(&mut self) {
        if !self.acknowledgments.is_empty() {
            let at = self.random.usize(..self.acknowledgments.len());
            let (device, ingress) = self.acknowledgments.swap_remove(at);
            self.known[ingress].acknowledge(device);
        }
    }

    fn release(&mut self) {
        let (device, ingress) =
            (self.random.usize(..self.states.len()), self.random.usize(..self.names.len()));
        self.known[ingress].release(DeviceId::new(device));
        if self.known.iter().all(|known| known.state(DeviceId::new(device)) == State::New) {
            self.released[device].get_or_insert(self.sent.len());
        }
    }

    /// When all have released the device and what was sent before that has passed.
    fn old_buckets_go(&mut self) {
        let device = self.random.usize(..self.states.len());
        let Some(released) = self.released[device] else { return };
        let under_way =
            |packet: &Sent| packet.hops[packet.passed..].contains(&(DeviceId::new(device)));
        if !self.sent[..released].iter().any(under_way) {
            self.states[device] = State::New;
            let change = &self.change;
            let unchanged = |path: PathId| {
                let (Some(old), Some(new)) =
                    (change.old().path(path), change.new_plan().path(path))
                else {
                    return false;
                };
                old.ranges.iter().any(|range| {
                    old.hops[range.hop as usize].index() == device && new.ranges.contains(range)
                })
            };
            self.caches[device].retain(|&(is_new, path, _), _| is_new || unchanged(path));
        }
    }

    fn send(&mut self) {
        // A path of either plan: traffic moves from old paths to new ones at any time.
        let plan = if self.random.usize(..2) == 0 { self.old.clone() } else { self.new.clone() };
        let path = &plan.paths()[self.random.usize(..plan.paths().len())];
        let name = &plan.ingresses()[path.ingress as usize].name;
        let ingress = self.names.iter().position(|other| other == name).unwrap();
        let choices = hashes(path, &mut self.random);
        let hash = if self.random.usize(..3) == 0 {
            choices[self.random.usize(..choices.len())]
        } else {
            HeaderHash(self.random.u64(..) as u32)
        };
        let size = 1 + self.random.usize(..150) as u64;

        // The match: any packet that the ingress still has in a bucket.
        let mut against = None;
        if !self.sent.is_empty() {
            let earlier = self.random.usize(..self.sent.len());
            let other = &self.sent[earlier];
            if other.ingress == ingress {
                let has = |new: bool, device: Option<DeviceId>| {
                    let key = (
                        new && self.change.unchanged(other.path, other.hash) != device,
                        other.path,
                        device?,
                    );
                    self.stores[ingress].get(&key)?.has(earlier).then_some(device?)
                };
                let copies =
                    Copies { old: has(false, other.copies.old), new: has(true, other.copies.new) };
                let decoder = self.change.decoder(
                    &self.known[ingress],
                    path.id,
                    other.path,
                    other.hash,
                    copies,
                );
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
            self.stores[ingress]
                .entry((new, path.id, device))
                .or_default()
                .push(number, size, room);
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

    /// A packet comes to its next device. Links do not reorder: it waits for those sent before it
    /// that come there the same way.
    fn advance(&mut self) {
        let waiting: Vec<usize> = (0..self.sent.len())
            .filter(|&number| {
                let packet = &self.sent[number];
                let Some(way) = packet.hops.get(..=packet.passed) else { return false };
                self.sent[..number].iter().all(|other| {
                    other.ingress != packet.ingress
                        || other.hops.get(..way.len()) != Some(way)
                        || other.passed >= way.len()
                })
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        let number = waiting[self.random.usize(..waiting.len())];
        let packet = &mut self.sent[number];
        let device = packet.hops[packet.passed];
        packet.passed += 1;
        let state = self.states[device];
        let cache = &mut self.caches[device];
        if let Some((earlier, decoder)) = packet.against {
            packet.decoded |= cache.values().any(|bucket| bucket.has(earlier));
            if decoder.device == device {
                let here = |packet: &usize| cache.iter().any(|(_, bucket)| bucket.has(*packet));
                assert!(
                    packet.decoded && here(&earlier),
                    "the named device does not have the packet"
                );
                self.decoded += 1;
            }
        }
        // By the manifests alone.
        let entry = |plan: &Plan| {
            let path = plan.path(packet.path)?;
            let range =
                *path.ranges.iter().find(|range| path.hops[range.hop as usize] == device)?;
            (range.from..range.to).contains(&(u64::from(packet.hash))).then_some(range)
        };
        let (old, new) = (entry(&self.old), entry(&self.new));
        if let Some(range) = old.filter(|_| state != State::New || old == new) {
            cache.entry((false, packet.path, device)).or_default().push(
                number,
                packet.size,
                range.bytes,
            );
        }
        if let Some(range) = new.filter(|_| state != State::Old && old != new) {
            cache.entry((true, packet.path, device)).or_default().push(
                number,
                packet.size,
                range.bytes,
            );
        }
        assert_eq!(
            self.change.stores(device, state, packet.path, packet.hash),
            (old.is_some() && (state != State::New || old == new))
                || (new.is_some() && state != State::Old)
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

/// Two paths that come to a device by different ways do not refer to each other there: the later
/// packet may be first.
#[test]
fn packets_do_not_refer_to_those_they_may_overtake() {
    let network = network(&["I", "A", "B", "C", "D"], &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
    let plan = |links: &[LinkId], old: Option<&Plan>| {
        let route =
            Route { from: NodeId(0), to: NodeId(4), slice: 0, links: links.to_vec(), volume: 1e6 };
        let instance = Instance::new(
            network.clone(),
            vec![route],
            &Provision::default(),
            &Placement::Links,
            profile(),
        )
        .unwrap();
        let answer = Solution { cached: vec![0.0, 0.0, 1.0], ..example().1 };
        Arc::new(match old {
            Some(old) => Plan::after(old, &instance, &answer, &Options::default()).unwrap(),
            None => Plan::new(&instance, &answer, &Options::default()).unwrap(),
        })
    };
    let old = plan(&[0, 2, 4].map(LinkId), None);
    let new = plan(&[1, 3, 4].map(LinkId), Some(&old));
    let (before, after) = (old.paths()[0].id, new.paths()[0].id);
    assert_ne!(before, after);
    let change = Transition::new(old, new).unwrap();
    let mut progress = Progress::new(5);
    progress.acknowledge(DeviceId(4));
    let of = |path| change.copies(&progress, path, HeaderHash(7));
    assert_eq!(
        (of(before), of(after)),
        (
            Copies { old: Some(DeviceId(4)), new: None },
            Copies { old: None, new: Some(DeviceId(4)) }
        )
    );
    let decoder = |p, q| change.decoder(&progress, p, q, HeaderHash(7), of(q));
    assert_eq!(
        decoder(before, before),
        Some(Decoder { device: DeviceId(4), hop: 2, configuration: Configuration::Old })
    );
    assert_eq!(
        decoder(after, after),
        Some(Decoder { device: DeviceId(4), hop: 2, configuration: Configuration::New })
    );
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
    DeviceId::first(4).for_each(|device| progress.acknowledge(device));
    let copies = change.copies(&progress, PathId(0), HeaderHash(7));
    assert_eq!(copies, Copies { old: Some(DeviceId(1)), new: Some(DeviceId(0)) });
    let decoder = |p, copies| change.decoder(&progress, p, PathId(0), HeaderHash(7), copies);
    assert_eq!(
        decoder(PathId(0), copies),
        Some(Decoder { device: DeviceId(0), hop: 0, configuration: Configuration::New })
    );
    // When the ingress's bucket of the new plan has lost the packet, the old one serves: but not on
    // a path that parts before.
    assert_eq!(
        decoder(PathId(0), Copies { new: None, ..copies }),
        Some(Decoder { device: DeviceId(1), hop: 1, configuration: Configuration::Old })
    );
    assert_eq!(decoder(PathId(1), Copies { new: None, ..copies }), None);
}
