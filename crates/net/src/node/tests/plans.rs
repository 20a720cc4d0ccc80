//! New plans while packets flow: hops are FIFO queues that carry in a random order, and may lose.

use super::*;
use crate::node::part::Part;
use crate::node::record::NOTICE;
use oncewire_plan::Solution;
use oncewire_plan::emulate::{Change, Event, Rollout};
use std::collections::{BTreeMap, VecDeque};

/// A world whose hops hold what is on its way.
struct Live {
    world: World,
    hops: BTreeMap<(usize, usize), VecDeque<Step>>,
    random: fastrand::Rng,
    loss: f64,
    lost: u64,
    now: u64,
    /// Packets that entered and did not leave yet, with their last node.
    open: Vec<(usize, Vec<u8>)>,
    /// Plans by version; the first is that of the world.
    plans: Vec<Plan>,
    /// The version of each node's plan on its disk.
    on_disk: [usize; 5],
    /// Bytes of packets with their shims on all links, and of notices and answers.
    carried: (u64, u64),
}

impl Live {
    fn new(seed: u64, plans: usize, loss: f64) -> Live {
        let world = World::new();
        let mut random = fastrand::Rng::with_seed(seed);
        let solution = {
            let mut scenario = Scenario::new(Text::new("small.json", MAP));
            scenario.scale = oncewire_plan::traffic::Scale::Total(oncewire_plan::Bytes(4e5));
            oncewire_plan::run(&Request::new(scenario), &Unwatched).expect("a plan").solution
        };
        let mut all = vec![world.plan.clone()];
        while all.len() < plans {
            // Ranges shrink, grow, move and go.
            let of = |&share: &f64| match random.u8(..8) {
                0 => 0.0,
                1..4 => share,
                _ => share * random.f64(),
            };
            let cached = solution.cached.iter().map(of).collect();
            let solution = Solution { cached, ..solution.clone() };
            let old = all.last().expect("one plan");
            let options = manifest::Options::default();
            all.push(Plan::after(old, &world.instance, &solution, &options).expect("a plan"));
        }
        let on_disk = [0; 5];
        let (hops, open) = (BTreeMap::new(), Vec::new());
        let carried = (0, 0);
        Live { world, hops, random, loss, lost: 0, now: 0, open, plans: all, on_disk, carried }
    }

    fn manifests(&self, plan: usize) -> Manifests {
        let plan = &self.plans[plan];
        Manifests::new(plan.device_manifests(), plan.ingress_manifests()).unwrap()
    }

    fn take(&mut self, node: usize, plan: usize) -> Taken {
        self.on_disk[node] = plan;
        let manifests = self.manifests(plan);
        self.world.nodes[node].take(&manifests).expect("a plan that fits")
    }

    fn restart(&mut self, node: usize) {
        let manifests = self.manifests(self.on_disk[node]);
        let epoch = std::time::Duration::from_secs(300);
        let settings = NodeSettings { seed: SEED, epoch, ..NodeSettings::default() };
        let network = self.world.network.clone();
        self.world.nodes[node] = Machine::new(network, node, &manifests, settings, None).unwrap();
        for neighbor in self.world.network.neighbors(node) {
            let number = self.world.network.neighbors(neighbor).binary_search(&node).unwrap();
            let mut steps = Vec::new();
            self.world.nodes[neighbor].restarted(number, &mut steps);
            self.perform(neighbor, steps);
        }
    }

    fn enter(&mut self, (from, to, packet): &(usize, usize, Vec<u8>)) {
        let mut steps = Vec::new();
        self.world.nodes[*from].enter(packet, self.now, &mut steps);
        self.open.push((*to, packet.clone()));
        self.perform(*from, steps);
    }

    fn perform(&mut self, at: usize, steps: Vec<Step>) {
        for step in steps {
            match &step {
                Step::Deliver(packet) => {
                    let of = |open: &(usize, Vec<u8>)| open.0 == at && open.1 == *packet;
                    let found = self.open.iter().position(of);
                    self.open.swap_remove(found.expect("a packet that entered, for this node"));
                }
                Step::Send { to, kind, bits, body } => {
                    if *kind == NodeKind::Path && *bits < NOTICE {
                        let (_, packet) = read(*bits, body);
                        let bytes = packet.shim.len() + packet.header.len() + packet.literals.len();
                        self.carried.0 += bytes as u64;
                    } else {
                        self.carried.1 += body.len() as u64;
                    }
                    let next = self.world.network.neighbors(at)[*to];
                    match self.random.f64() < self.loss {
                        true => self.lost += 1,
                        false => self.hops.entry((at, next)).or_default().push_back(step),
                    }
                }
            }
        }
    }

    /// Carries one record over one hop; false if there is none.
    fn step(&mut self) -> bool {
        let busy: Vec<(usize, usize)> =
            self.hops.iter().filter(|(_, hop)| !hop.is_empty()).map(|(&ends, _)| ends).collect();
        let Some(&(from, at)) = busy.get(self.random.usize(..busy.len().max(1))) else {
            return false;
        };
        let step = self.hops.get_mut(&(from, at)).and_then(VecDeque::pop_front);
        let Some(Step::Send { kind, bits, body, .. }) = step else { return false };
        let number = self.world.network.neighbors(at).binary_search(&from).unwrap();
        let mut steps = Vec::new();
        self.world.nodes[at].arrive(number, (kind, bits, &body), &mut steps);
        self.perform(at, steps);
        true
    }

    fn tick(&mut self) {
        for node in 0..5 {
            let mut steps = Vec::new();
            self.world.nodes[node].tick(self.now, &mut steps);
            self.perform(node, steps);
        }
    }

    /// Until all nodes carry out this plan alone.
    fn settle(&mut self, plan: usize) {
        let version = self.plans[plan].version();
        let is_settled = |node: &Machine| {
            let plans = node.plans();
            (plans.current.version, plans.next, plans.settled) == (version, None, true)
        };
        for _ in 0..500 {
            if self.world.nodes.iter().all(is_settled) {
                return;
            }
            self.now += 400_000_000;
            self.tick();
            while self.step() {}
        }
        let plans: Vec<Plans> = self.world.nodes.iter().map(Machine::plans).collect();
        panic!("no end of plan {version}: {plans:?}");
    }
}

/// Nodes learn of a plan in any order, while packets are on their way: none is lost, none is wrong,
/// none needs to be sent again, and every plan is brought in at all nodes.
#[test]
fn new_plans_under_load_lose_nothing() {
    for seed in 0..3 {
        let mut live = Live::new(seed, 12, 0.0);
        let mut packets = traffic(6000, seed + 20).into_iter();
        live.settle(0);
        for plan in 1..live.plans.len() {
            let mut told = [false; 5];
            for packet in packets.by_ref().take(500) {
                live.now += 1_000_000;
                live.enter(&packet);
                let node = live.random.usize(..5);
                if live.random.u8(..20) == 0 && !told[node] {
                    told[node] = true;
                    let taken = live.take(node, plan);
                    assert!(matches!(taken, Taken::Begun | Taken::Waits), "{taken:?}");
                }
                if live.random.u8(..50) == 0 {
                    // As if a second had passed.
                    live.now += 1_000_000_000;
                    live.tick();
                }
                for _ in 0..live.random.usize(..12) {
                    live.step();
                }
            }
            for node in (0..5).filter(|&node| !told[node]) {
                live.take(node, plan);
            }
            live.settle(plan);
        }
        assert_eq!(live.open, [], "every packet has left");
        let sum = live.world.sum();
        assert_eq!(
            (sum.undecodable, sum.damaged, sum.violations, sum.wrong_neighbor),
            (0, 0, 0, 0)
        );
        assert_eq!(sum.plans, 5 * 11);
        assert!(sum.decoded > 2000, "{sum:?}");
    }
}

/// A hundred plans, each brought in while packets are on their way: none is lost, wrong or sent again, and
/// nodes save within a point of what the emulator does with the same packets and the same plans.
#[test]
fn a_hundred_plans_save_what_the_emulator_does() {
    const PLANS: usize = 101;
    const PACKETS: usize = 200;
    let mut live = Live::new(5, PLANS, 0.0);
    let other = World { plan: live.plans[0].clone(), ..World::new() };
    let mut emulation = other.emulation();
    live.settle(0);
    let mut packets = traffic((PLANS * PACKETS) as u32, 50).into_iter();
    let mut in_flight = 0;
    for plan in 0..PLANS {
        if plan > 0 {
            // The emulator's devices learn of it at random times, too, and then its ingresses.
            let allocation = Allocation::of_plan(&live.plans[plan]);
            let rollout = Rollout { stagger: 50_000_000, transition: 50_000_000 };
            let change = Change::Manifests { allocation, rollout };
            emulation.schedule(Event { time: live.now + 1_000_000, change }).unwrap();
        }
        let told_at: Vec<usize> = (0..5).map(|_| live.random.usize(..50)).collect();
        for (number, packet) in packets.by_ref().take(PACKETS).enumerate() {
            live.now += 1_000_000;
            for node in (0..5).filter(|&node| plan > 0 && told_at[node] == number) {
                assert_eq!(live.take(node, plan), Taken::Begun);
                in_flight += live.hops.values().map(VecDeque::len).sum::<usize>();
            }
            emulation.push(&other.entering(&packet, live.now)).unwrap();
            live.enter(&packet);
            if number % 10 == 0 {
                live.tick();
            }
            // About as many as come: hops are never empty for long.
            for _ in 0..live.random.usize(..7) {
                live.step();
            }
        }
        live.settle(plan);
    }
    assert_eq!(live.open, [], "every packet has left as it entered");
    let sum = live.world.sum();
    assert_eq!(
        (sum.undecodable, sum.damaged, sum.resent, sum.violations, sum.wrong_neighbor),
        (0, 0, 0, 0, 0)
    );
    assert_eq!((sum.plans, sum.delivered), (500, (PLANS * PACKETS) as u64));
    assert!(in_flight > 500, "{in_flight} records were on their way while nodes learned of plans");
    let report = emulation.report();
    assert_eq!(report.updates, 100);
    let links = report.links.iter();
    let (before, after) = links.fold((0, 0), |sum, link| (sum.0 + link.before, sum.1 + link.after));
    let saved = |after: u64| 100.0 * (1.0 - after as f64 / before as f64);
    let (ours, emulated) = (saved(live.carried.0), saved(after));
    println!(
        "saved: {ours:.2} % by nodes, {emulated:.2} % by the emulator; {} bytes of notices, {:.2} % of {before}",
        live.carried.1,
        100.0 * live.carried.1 as f64 / before as f64
    );
    assert!((ours - emulated).abs() < 1.0, "{ours:.2} % by nodes, {emulated:.2} % by the emulator");
    assert!(emulated > 10.0, "{emulated:.2} %");
}

/// With losses, and nodes that restart with an old or a new plan, every plan is brought in, and nothing
/// that is wrong leaves.
#[test]
fn new_plans_outlast_losses_and_restarts() {
    for seed in 0..3 {
        let mut live = Live::new(seed + 9, 8, 0.02);
        let mut packets = traffic(3000, seed + 40).into_iter();
        for plan in 1..live.plans.len() {
            for node in 0..5 {
                live.take(node, plan);
                for packet in packets.by_ref().take(60) {
                    live.now += 1_000_000;
                    live.enter(&packet);
                    if live.random.u8(..9) == 0 {
                        live.now += 1_000_000_000;
                        live.tick();
                    }
                    for _ in 0..live.random.usize(..12) {
                        live.step();
                    }
                }
                if live.random.u8(..4) == 0 {
                    let node = live.random.usize(..5);
                    live.restart(node);
                }
            }
            live.settle(plan);
        }
        // A rejection that is lost loses its packet, too.
        assert!(live.open.len() as u64 <= live.lost, "{} of {}", live.open.len(), live.lost);
        // Counters of nodes that have restarted are gone.
        let sum = live.world.sum();
        assert!(live.lost > 100 && sum.decoded > 50, "{} lost: {sum:?}", live.lost);
    }
}

/// A node goes on with its plan when it is given one that it cannot take.
#[test]
fn plans_that_do_not_fit_are_refused() {
    let mut live = Live::new(1, 4, 0.0);
    live.settle(0);
    let take = |live: &mut Live, manifests: &Manifests| live.world.nodes[1].take(manifests);
    let third = live.manifests(2);
    assert_eq!(live.take(1, 1), Taken::Begun);
    assert_eq!(live.take(1, 1), Taken::Known);
    assert_eq!(take(&mut live, &third).unwrap(), Taken::Waits);
    let (old, mut other) = (live.manifests(0), live.manifests(2));
    other.devices.pop();
    assert!(matches!(take(&mut live, &old), Err(SetupError::Stale { old: 3, new: 1 })));
    assert!(matches!(take(&mut live, &other), Err(SetupError::SameVersion(3))));
    for node in [0, 2, 3, 4] {
        live.take(node, 1);
    }
    for node in [0, 2, 3, 4] {
        assert_eq!(take_at(&mut live, node, &third), Taken::Waits, "node {node}");
    }
    live.settle(2);
    // Two plans further: what came between is not known here.
    let mut missed = Live::new(1, 4, 0.0);
    assert_eq!(missed.take(0, 2), Taken::Replaced);
    // Memory for one plan, but not for both.
    let (network, settings) = (missed.world.network.clone(), NodeSettings::default());
    let part = |me, manifests: &Manifests| Part::new(&network, me, manifests, settings.rules);
    let pairs = (0..5).flat_map(|me| (0..3).map(move |plan| (me, plan)));
    let (me, first, second, memory) = pairs
        .map(|(me, plan)| (me, missed.manifests(plan), missed.manifests(plan + 1)))
        .find_map(|(me, first, second)| {
            let (old, new) = (part(me, &first).unwrap(), part(me, &second).unwrap());
            let memory = old.memory(None);
            (new.memory(Some(&old)) > memory).then_some((me, first, second, memory))
        })
        .expect("a bucket that grows");
    let mut node =
        Machine::new(network.clone(), me, &first, settings.clone(), Some(memory)).unwrap();
    assert!(matches!(node.take(&second), Err(SetupError::Memory { .. })));
    assert_eq!((node.plans().next, node.plans().waiting), (None, None));
}

fn take_at(live: &mut Live, node: usize, manifests: &Manifests) -> Taken {
    live.world.nodes[node].take(manifests).expect("it fits")
}
