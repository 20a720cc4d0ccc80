//! Nodes and their controller: a network whose hops lose and carry in random order, while anything is
//! killed at any moment.

use super::*;
use crate::node::plan_digest;
use crate::node::record::NOTICE;
use oncewire_plan::control::{
    Action, Controller, FORMAT as CONTROL, FromNode, Input, Join, NodeState, PlanRef, Record,
    Report, Settings, ToNode, part_hash,
};
use oncewire_plan::manifest::NodePart;
use std::collections::{BTreeMap, VecDeque};

const STEP: u64 = 200_000_000;
const SECOND: u64 = 1_000_000_000;

pub(super) struct Controlled {
    network: Arc<RunningNetwork>,
    nodes: Vec<Option<Machine>>,
    hops: BTreeMap<(usize, usize), VecDeque<Step>>,
    random: fastrand::Rng,
    loss: f64,
    now: u64,
    open: Vec<(usize, Vec<u8>)>,
    number: u32,
    content: Vec<u8>,
    controller: Option<Controller>,
    joined: [bool; 5],
    /// Nodes that the controller cannot reach.
    away: [bool; 5],
    /// What is on the disk of the controller, and of each node.
    disk: Record,
    parts: [Option<Vec<u8>>; 5],
    /// Chance that the controller is killed before each thing that it does.
    kill: f64,
    kills: u32,
    delivered: u64,
    pub(super) versions: Vec<u64>,
    memory: u64,
    /// [`Settings::change`]: from which change on a plan is made at once.
    pub(super) change: f64,
    /// Bytes of packets on links, and what they would be without elimination.
    pub(super) on_links: (u64, u64),
}

fn of(plan: crate::node::PlanId) -> PlanRef {
    PlanRef { version: plan.version, digest: plan.digest }
}

impl Controlled {
    pub(super) fn new(seed: u64) -> Controlled {
        Controlled::with_memory(seed, 600_000)
    }

    /// Nodes have so many bytes for packets.
    pub(super) fn with_memory(seed: u64, memory: u64) -> Controlled {
        let network = Arc::new(RunningNetwork::parse(MAP).unwrap());
        let mut world = Controlled {
            network,
            nodes: (0..5).map(|_| None).collect(),
            hops: BTreeMap::new(),
            random: fastrand::Rng::with_seed(seed),
            loss: 0.0,
            now: 0,
            open: Vec::new(),
            number: 0,
            content: incompressible(seed, 40_000),
            controller: None,
            joined: [false; 5],
            away: [false; 5],
            disk: Record::default(),
            parts: [const { None }; 5],
            kill: 0.0,
            kills: 0,
            delivered: 0,
            versions: Vec::new(),
            memory,
            change: Settings::new(String::new(), plan_digest).change,
            on_links: (0, 0),
        };
        (0..5).for_each(|node| world.start_node(node));
        world.start_controller();
        world
    }

    fn start_node(&mut self, node: usize) {
        let (network, none) = (self.network.clone(), Manifests::default());
        let settings = NodeSettings { seed: SEED, ..NodeSettings::default() };
        let mut machine = Machine::new(network, node, &none, settings, Some(self.memory)).unwrap();
        if let Some(part) = &self.parts[node] {
            machine.take_part(&NodePart::read(part).unwrap()).unwrap();
        }
        machine.measure(1 << 20).unwrap();
        self.nodes[node] = Some(machine);
        self.joined[node] = false;
        for neighbor in self.network.neighbors(node) {
            let number = self.network.neighbors(neighbor).binary_search(&node).unwrap();
            let mut steps = Vec::new();
            if let Some(machine) = &mut self.nodes[neighbor] {
                machine.restarted(number, &mut steps);
            }
            self.perform(neighbor, steps);
        }
    }

    fn kill_node(&mut self, node: usize) {
        self.nodes[node] = None;
        self.hops.retain(|ends, _| ends.0 != node && ends.1 != node);
        self.joined[node] = false;
        self.tell(Input::Gone(node));
    }

    pub(super) fn start_controller(&mut self) {
        let change = self.change;
        let settings = Settings { change, ..Settings::new(self.network.digest(), plan_digest) };
        let (map, ends) = (self.network.map().clone(), self.network.ends());
        self.controller = Some(Controller::new(settings, map, ends, self.disk.clone(), self.now));
        self.joined = [false; 5];
    }

    fn state(&self, node: usize) -> NodeState {
        let plans = self.nodes[node].as_ref().expect("it lives").plans();
        let dead = |other: &usize| self.nodes[*other].is_none();
        NodeState {
            current: of(plans.current),
            next: plans.next.map(of),
            waiting: plans.waiting.map(of),
            settled: plans.settled,
            down: self.network.neighbors(node).into_iter().filter(dead).map(|n| n as u32).collect(),
        }
    }

    /// Tells the controller something, and does what it wants, unless it is killed.
    pub(super) fn tell(&mut self, input: Input) {
        let mut waiting = VecDeque::from([input]);
        while let Some(input) = waiting.pop_front() {
            let Some(controller) = &mut self.controller else { return };
            let mut actions = Vec::new();
            controller.step(self.now, input, &mut actions);
            for action in actions {
                if self.random.f64() < self.kill {
                    self.kills += 1;
                    self.controller = None;
                    return;
                }
                match action {
                    Action::Send(node, ToNode::Offer(offer))
                        if self.nodes[node].is_some() && !self.away[node] =>
                    {
                        let part = offer.open(self.parts[node].as_deref()).unwrap();
                        let machine = self.nodes[node].as_mut().unwrap();
                        let read = NodePart::read(&part).unwrap();
                        machine.take_part(&read).expect("a plan that fits");
                        self.parts[node] = Some(part);
                    }
                    Action::Send(_, ToNode::Refuse { why }) => panic!("{why}"),
                    Action::Send(..) | Action::Note(..) => {}
                    Action::Close(node) => self.joined[node] = false,
                    Action::Store(text) => {
                        self.disk = Record::from_json(&text).unwrap();
                        let version = self.disk.plan.as_ref().map_or(0, Plan::version);
                        assert!(self.versions.last().is_none_or(|last| *last <= version));
                        self.versions.push(version);
                        waiting.push_back(Input::Stored);
                    }
                    Action::Ask(question) => {
                        let answer = question.answer(&Unwatched).map(Box::new);
                        let answer = answer.map_err(|error| error.to_string());
                        waiting.push_back(Input::Answered(answer));
                    }
                }
            }
        }
    }

    fn perform(&mut self, at: usize, steps: Vec<Step>) {
        for step in steps {
            match &step {
                Step::Deliver(packet) => {
                    let of = |open: &(usize, Vec<u8>)| open.0 == at && open.1 == *packet;
                    let found = self.open.iter().position(of);
                    self.open.swap_remove(found.expect("a packet that entered, for this node"));
                    self.delivered += 1;
                }
                Step::Send { to, kind, bits, body } => {
                    if *kind == NodeKind::Path && *bits < NOTICE {
                        let (_, PathPacket { shim, header, literals, encoded }) = read(*bits, body);
                        let rest = (header.len() + literals.len()) as u64;
                        self.on_links.0 += rest + shim.len() as u64;
                        self.on_links.1 += rest + u64::from(encoded);
                    }
                    let next = self.network.neighbors(at)[*to];
                    if self.nodes[next].is_some() && self.random.f64() >= self.loss {
                        self.hops.entry((at, next)).or_default().push_back(step);
                    }
                }
            }
        }
    }

    /// Carries everything that is on its way, in random order.
    pub(super) fn carry(&mut self) {
        loop {
            let busy = self.hops.iter().filter(|(_, hop)| !hop.is_empty());
            let busy: Vec<(usize, usize)> = busy.map(|(&ends, _)| ends).collect();
            let Some(&(from, at)) = busy.get(self.random.usize(..busy.len().max(1))) else {
                return;
            };
            let step = self.hops.get_mut(&(from, at)).and_then(VecDeque::pop_front);
            let Some(Step::Send { kind, bits, body, .. }) = step else { return };
            let number = self.network.neighbors(at).binary_search(&from).unwrap();
            let mut steps = Vec::new();
            if let Some(machine) = &mut self.nodes[at] {
                machine.arrive(number, (kind, bits, &body), &mut steps);
            }
            self.perform(at, steps);
        }
    }

    /// A packet with content that others have, too; mostly from A to E.
    fn enter(&mut self) {
        let (from, to) = match self.random.u8(..4) {
            0 => {
                let from = self.random.usize(..5);
                (from, (from + self.random.usize(1..5)) % 5)
            }
            _ => (0, 4),
        };
        let at = self.random.usize(..self.content.len() - 900);
        let payload = self.content[at..at + 900].to_vec();
        self.enter_with(from, to, &payload);
    }

    /// A packet with this payload.
    pub(super) fn enter_with(&mut self, from: usize, to: usize, payload: &[u8]) {
        self.number += 1;
        let packet = packet(from, to, self.number, payload);
        let Some(machine) = &mut self.nodes[from] else { return };
        let mut steps = Vec::new();
        machine.enter(&packet, self.now, &mut steps);
        if !steps.is_empty() {
            self.open.push((to, packet));
        }
        self.perform(from, steps);
    }

    /// A step of 200 ms.
    pub(super) fn step(&mut self, packets: usize) {
        self.now += STEP;
        for _ in 0..packets {
            self.enter();
            if self.random.bool() {
                self.carry();
            }
        }
        for at in 0..5 {
            let mut steps = Vec::new();
            if let Some(machine) = &mut self.nodes[at] {
                machine.tick(self.now, &mut steps);
            }
            self.perform(at, steps);
        }
        self.carry();
        if self.controller.is_none() {
            self.start_controller();
        }
        for at in 0..5 {
            if self.nodes[at].is_none() || self.away[at] {
                continue;
            }
            if !self.joined[at] {
                let join = Join {
                    format: CONTROL,
                    name: self.network.name(at).into(),
                    network: self.network.digest(),
                    memory: Some(self.memory),
                    encodings: None,
                    operations: None,
                    agent: "test".into(),
                    part: self.parts[at].as_deref().map(part_hash),
                    state: self.state(at),
                };
                self.joined[at] = true;
                self.tell(Input::From(at, FromNode::Join(join)));
            }
            if self.joined[at] && self.controller.is_some() {
                self.tell(Input::From(at, FromNode::State(self.state(at))));
            }
            if self.joined[at] && self.controller.is_some() && self.now.is_multiple_of(10 * SECOND)
            {
                let counts = self.nodes[at].as_mut().and_then(|one| one.measured(self.now, 100));
                let report = Report::new(counts.expect("it measures"), 0, 0);
                self.tell(Input::From(at, FromNode::Report(report)));
                let carried = self.nodes[at].as_mut().map(|one| one.carried(self.now));
                let carried = carried.expect("it lives");
                self.tell(Input::From(at, FromNode::Carried(carried)));
            }
        }
        self.tell(Input::Tick);
    }

    /// Until all living nodes carry out the newest plan and no other.
    pub(super) fn settle(&mut self) {
        (self.kill, self.loss) = (0.0, 0.0);
        for _ in 0..1500 {
            self.step(1);
            let newest = self
                .disk
                .plan
                .as_ref()
                .map(|plan| PlanRef { version: plan.version(), digest: plan_digest(plan) });
            let living = (0..5).filter(|&at| self.nodes[at].is_some() && !self.away[at]);
            if newest.is_some_and(|plan| living.clone().all(|at| self.state(at).is_done(plan))) {
                return;
            }
        }
        let states: Vec<_> =
            (0..5).filter(|&at| self.nodes[at].is_some()).map(|at| self.state(at)).collect();
        panic!("no end of plan {:?}: {states:?}", self.versions.last());
    }

    fn sum(&self) -> NodeCounters {
        let mut sum = NodeCounters::default();
        self.nodes.iter().flatten().for_each(|node| sum += node.counters());
        sum
    }
}

/// A controller plans from what enters, and nothing is lost while its plans are brought in.
#[test]
fn plans_follow_what_is_measured() {
    let mut world = Controlled::new(1);
    world.settle();
    assert_eq!(world.versions, [1]);
    (0..400).for_each(|_| world.step(10));
    world.settle();
    assert!(world.versions.len() > 1, "no plan from measurements");
    let (sum, before) = (world.sum(), world.delivered);
    assert_eq!((sum.undecodable, sum.damaged, sum.violations), (0, 0, 0));
    assert!(world.open.is_empty(), "{} packets were lost", world.open.len());
    // With it, most of what repeats is taken out on the way from A to E.
    let counters = |world: &Controlled| world.nodes[0].as_ref().unwrap().counters();
    let entered = counters(&world);
    (0..200).for_each(|_| world.step(10));
    let after = counters(&world);
    let (bytes, sent) =
        (after.entered_bytes - entered.entered_bytes, after.encoded_bytes - entered.encoded_bytes);
    assert!(sent * 3 < bytes, "{sent} of {bytes} bytes");
    assert!(world.delivered > before + 1500);
}

/// Whatever is killed, and whenever: no wrong packet leaves, and every plan is brought in.
#[test]
fn anything_may_be_killed() {
    for seed in 0..8 {
        let mut world = Controlled::new(seed);
        world.kill = 0.05;
        world.loss = if seed % 2 == 0 { 0.02 } else { 0.0 };
        for round in 0..500 {
            world.step(4);
            match world.random.u32(..150) {
                0 => {
                    let node = world.random.usize(..5);
                    let is_alone = world.nodes.iter().flatten().count() == 5;
                    if is_alone {
                        world.kill_node(node);
                    }
                }
                1..6 => {
                    if let Some(node) = world.nodes.iter().position(Option::is_none) {
                        world.start_node(node);
                    }
                }
                6 => world.tell(Input::Drain(round % 5, true)),
                7 => world.tell(Input::Drain(round % 5, false)),
                8 => world.controller = None,
                9 => world.tell(Input::PlanNow),
                _ => {}
            }
        }
        assert!(world.kills > 0 && world.versions.len() > 2, "{seed}: {:?}", world.versions);
        world.settle();
        if let Some(node) = world.nodes.iter().position(Option::is_none) {
            world.start_node(node);
        }
        world.settle();
        // All reach each other with it.
        world.open.clear();
        (0..50).for_each(|_| world.step(4));
        world.settle();
        let before = world.open.len();
        assert_eq!(before, 0, "{seed}: packets are lost when all is well");
        let sum = world.sum();
        assert_eq!((sum.damaged, sum.violations), (0, 0), "{seed}");
    }
}

/// A dead node: paths go round it where there is a way, whatever plan it had or was to get.
#[test]
fn a_dead_node_is_planned_around() {
    for seed in 0..6 {
        let mut world = Controlled::new(seed);
        world.settle();
        (0..100).for_each(|_| world.step(4));
        // In the middle of a rollout, too.
        if seed % 2 == 1 {
            world.tell(Input::PlanNow);
        }
        world.kill_node(1);
        (0..100).for_each(|_| world.step(1));
        world.settle();
        let plan = world.disk.plan.clone().unwrap();
        // A is behind B only: C, D and E are left.
        assert_eq!(plan.paths().len(), 6, "{seed}");
        world.start_node(1);
        (0..100).for_each(|_| world.step(1));
        world.settle();
        assert_eq!(world.disk.plan.as_ref().unwrap().paths().len(), 20, "{seed}");
        // C goes, and B reaches D by the chord.
        world.kill_node(2);
        (0..100).for_each(|_| world.step(1));
        world.settle();
        assert_eq!(world.disk.plan.as_ref().unwrap().paths().len(), 12, "{seed}");
        world.open.clear();
        (0..50).for_each(|_| world.step(4));
        world.settle();
        let open = world.open.iter().filter(|one| one.0 != 2).count();
        assert_eq!(open, 0, "{seed}: packets are lost");
    }
}

/// A node that only the controller does not reach holds no plan up, and nothing is lost through it;
/// when it is back, it is in the plan again.
#[test]
fn a_node_away_from_the_controller_holds_up_no_plan() {
    for (seed, away) in (0..10).map(|seed| (seed, seed as usize % 5)) {
        let mut world = Controlled::new(seed);
        world.settle();
        (0..100).for_each(|_| world.step(4));
        // In the middle of a rollout, or between two.
        if seed < 5 {
            world.tell(Input::PlanNow);
        }
        world.away[away] = true;
        world.joined[away] = false;
        world.tell(Input::Gone(away));
        for round in 0..3 {
            (0..100).for_each(|_| world.step(4));
            world.tell(Input::PlanNow);
            world.settle();
            let open = world.open.len();
            assert_eq!(open, 0, "{seed}: {open} packets are lost, round {round}");
        }
        let plan = world.disk.plan.as_ref().unwrap();
        assert_eq!(plan.paths().len(), 20);
        let stale = world.state(away).newest().version;
        assert!(stale < plan.version(), "{seed}: {stale}");
        world.away[away] = false;
        (0..100).for_each(|_| world.step(4));
        world.settle();
        let (newest, back) = (world.disk.plan.as_ref().unwrap().version(), world.state(away));
        assert_eq!(back.newest().version, newest, "{seed}");
        (0..50).for_each(|_| world.step(4));
        world.settle();
        let sum = world.sum();
        assert_eq!((world.open.len(), sum.damaged, sum.violations), (0, 0, 0), "{seed}");
    }
}
