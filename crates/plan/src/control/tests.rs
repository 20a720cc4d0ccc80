//! A controller and nodes without sockets; the nodes take plans as real ones do, in short.

use super::*;
use crate::manifest::{NodePart, Parts, Plan};
use crate::{NodeId, Unwatched, topology};
use std::collections::VecDeque;

/// A ring of four with a chord, so that there are ways round each link.
const MAP: &str = r#"{"name": "ring", "nodes": [{"id": "A"}, {"id": "B"}, {"id": "C"}, {"id": "D"}],
    "links": [{"a": "A", "b": "B"}, {"a": "B", "b": "C"}, {"a": "C", "b": "D"}, {"a": "D", "b": "A"},
        {"a": "A", "b": "C", "weight": 1.5}]}"#;
const SECOND: u64 = 1_000_000_000;

fn digest(plan: &Plan) -> u64 {
    xxhash_rust::xxh3::xxh3_64(plan.to_json().as_bytes())
}

fn reference(plan: &Plan) -> PlanRef {
    PlanRef { version: plan.version(), digest: digest(plan) }
}

/// A node in short: a new plan is carried out when all nodes that answer have it.
#[derive(Default)]
struct Toy {
    plan: PlanRef,
    next: Option<PlanRef>,
    /// The newest part that it has got.
    part: Option<Vec<u8>>,
    down: Vec<u32>,
    is_dead: bool,
    /// It cannot reach the controller.
    is_away: bool,
    is_joined: bool,
}

struct World {
    now: u64,
    controller: Controller,
    /// What is on disk.
    disk: Record,
    nodes: Vec<Toy>,
    /// Bytes per second from each node to each other, and of these that repeat.
    traffic: Vec<Vec<(u64, u64)>>,
    notes: Vec<String>,
    /// Steps after which the controller is killed, counted down.
    kill: Option<u32>,
    can_store: bool,
    offers: usize,
    /// Offers that were differences.
    differences: u32,
}

fn network() -> crate::Network {
    topology::json(MAP).unwrap()
}

fn start(record: Record, now: u64) -> Controller {
    Controller::new(Settings::new("net".into(), digest), network(), vec![true; 4], record, now)
}

impl World {
    fn new() -> World {
        World {
            now: 0,
            controller: start(Record::default(), 0),
            disk: Record::default(),
            nodes: (0..4).map(|_| Toy::default()).collect(),
            traffic: vec![vec![(0, 0); 4]; 4],
            notes: Vec::new(),
            kill: None,
            can_store: true,
            offers: 0,
            differences: 0,
        }
    }

    fn state(&self, at: usize) -> NodeState {
        let Toy { plan, next, ref down, .. } = self.nodes[at];
        NodeState {
            current: plan,
            next,
            settled: next.is_none(),
            down: down.clone(),
            waiting: None,
        }
    }

    /// Gives the controller an input, and does what it wants, unless it is killed.
    fn step(&mut self, input: Input) {
        let mut waiting = VecDeque::from([input]);
        while let Some(input) = waiting.pop_front() {
            let mut actions = Vec::new();
            self.controller.step(self.now, input, &mut actions);
            for action in actions {
                if let Some(left) = &mut self.kill {
                    if *left == 0 {
                        self.kill = None;
                        return self.restart();
                    }
                    *left -= 1;
                }
                match action {
                    Action::Send(at, message) => {
                        // Through its bytes, as on the wire.
                        let message = ToNode::read(&message.write()).unwrap();
                        waiting.extend(self.node_takes(at, message));
                    }
                    Action::Close(at) => self.nodes[at].is_joined = false,
                    Action::Store(text) if self.can_store => {
                        self.disk = Record::from_json(&text).unwrap();
                        waiting.push_back(Input::Stored);
                    }
                    Action::Store(_) => waiting.push_back(Input::NotStored("disk full".into())),
                    Action::Ask(question) => {
                        let answer = question.answer(&Unwatched).map(Box::new);
                        let answer = answer.map_err(|error| error.to_string());
                        waiting.push_back(Input::Answered(answer));
                    }
                    Action::Note(text, _) => self.notes.push(text),
                }
            }
        }
    }

    fn restart(&mut self) {
        self.controller = start(self.disk.clone(), self.now);
        self.nodes.iter_mut().for_each(|node| node.is_joined = false);
    }

    fn node_takes(&mut self, at: usize, message: ToNode) -> Option<Input> {
        match message {
            ToNode::Accept { report, .. } => {
                assert_eq!(report, 10_000);
                Some(Input::From(at, FromNode::State(self.state(at))))
            }
            ToNode::Offer(offer) => {
                self.offers += 1;
                let bytes = offer.open(self.nodes[at].part.as_deref()).unwrap();
                self.differences += u32::from(offer.base.is_some());
                let part = NodePart::read(&bytes).unwrap();
                // It is on disk before any node knows it.
                let plan = self.disk.plan.as_ref().unwrap();
                let (node, new) = (&mut self.nodes[at], reference(plan));
                assert_eq!((part.version, part.digest), (new.version, new.digest));
                assert_eq!(
                    part,
                    Parts::new(plan, new.digest, &network()).unwrap().part(NodeId::new(at))
                );
                node.part = Some(bytes);
                let newest = node.next.unwrap_or(node.plan);
                assert!(new.version > newest.version, "{new:?} after {newest:?}");
                if newest.version == 0 || new.version > newest.version + 1 {
                    (node.plan, node.next) = (new, None);
                } else {
                    assert_eq!(node.next, None, "a third plan");
                    node.next = Some(new);
                }
                Some(Input::From(at, FromNode::State(self.state(at))))
            }
            ToNode::Refuse { why } => panic!("{why}"),
        }
    }

    /// A second in the life of the network.
    fn second(&mut self) {
        self.now += SECOND;
        // Nodes on their own: a plan that all have is carried out.
        let alive = || self.nodes.iter().filter(|node| !node.is_dead && !node.is_away);
        let newest = alive().map(|node| node.next.unwrap_or(node.plan)).max().unwrap();
        if alive().all(|node| node.next.unwrap_or(node.plan) == newest) {
            for node in &mut self.nodes {
                node.plan = node.next.take().unwrap_or(node.plan);
            }
        }
        for at in 0..4 {
            if self.nodes[at].is_dead || self.nodes[at].is_away {
                continue;
            }
            if !std::mem::replace(&mut self.nodes[at].is_joined, true) {
                let join = Join {
                    format: FORMAT,
                    name: ["A", "B", "C", "D"][at].into(),
                    network: "net".into(),
                    memory: Some(3_000_000),
                    encodings: None,
                    operations: None,
                    agent: "toy".into(),
                    part: self.nodes[at].part.as_deref().map(part_hash),
                    state: self.state(at),
                };
                self.step(Input::From(at, FromNode::Join(join)));
            }
            if self.nodes[at].is_joined {
                self.step(Input::From(at, FromNode::State(self.state(at))));
            }
            if (self.now / SECOND).is_multiple_of(10) && self.nodes[at].is_joined {
                let row = self.traffic[at].clone();
                let row = || (0..).zip(&row).filter(|one| one.1.0 > 0);
                let report = Report {
                    nanoseconds: 10 * SECOND,
                    volumes: row().map(|(to, sums)| (to, 10 * sums.0)).collect(),
                    pairs: row().map(|(to, s)| (to, to, s.1 / 50, 10 * s.1)).collect(),
                    ..Report::default()
                };
                self.step(Input::From(at, FromNode::Report(report)));
            }
        }
        self.step(Input::Tick);
    }

    /// Kills a node: its neighbors notice.
    fn kill_node(&mut self, at: usize) {
        let network = topology::json(MAP).unwrap();
        self.nodes[at] = Toy { is_dead: true, ..Toy::default() };
        for link in network.links.iter().filter(|link| link.from.index() == at) {
            self.nodes[link.to.index()].down.push(at as u32);
        }
        self.step(Input::Gone(at));
    }

    fn version(&self) -> u64 {
        self.disk.plan.as_ref().map_or(0, Plan::version)
    }

    /// Whether all living nodes carry out what is on disk, and nothing else.
    fn is_done(&self) -> bool {
        let plan = self.disk.plan.as_ref().map(reference);
        let living = self.nodes.iter().filter(|node| !node.is_dead && !node.is_away);
        living.map(|node| (Some(node.plan), node.next)).all(|both| both == (plan, None))
    }

    fn until_done(&mut self, least: u64) {
        for _ in 0..120 {
            self.second();
            if self.version() >= least && self.is_done() {
                return;
            }
        }
        panic!("plan {} is not carried out: {:?}", self.version(), self.notes);
    }
}

/// The share of a path that each node caches, by name.
fn shares(plan: &Plan, from: &str, to: &str) -> Vec<(String, u64)> {
    let of = |path: &&crate::manifest::PlannedPath| {
        plan.ingresses()[path.ingress as usize].name == from && path.egress == to
    };
    let Some(path) = plan.paths().iter().find(of) else { return Vec::new() };
    let name = |hop: u32| plan.devices()[path.hops[hop as usize].index()].name.clone();
    path.ranges.iter().map(|range| (name(range.hop), range.to - range.from)).collect()
}

#[test]
fn a_plan_is_made_and_one_from_what_was_measured_follows() {
    let mut world = World::new();
    world.until_done(1);
    assert_eq!((world.version(), world.offers), (1, 4));
    // Nothing enters: nothing changes.
    (0..1500).for_each(|_| world.second());
    assert_eq!(world.version(), 1);
    // Now nearly everything from A goes to D, and repeats.
    world.traffic[0][3] = (1_000_000, 900_000);
    world.traffic[0][1] = (10_000, 0);
    world.until_done(2);
    assert!(world.notes.iter().any(|note| note.contains("what enters at A differs")));
    let plan = world.disk.plan.clone().unwrap();
    let [(_, whole)] = &shares(&plan, "A", "D")[..] else { panic!("{:?}", plan.paths()) };
    assert!(*whole > 1 << 31, "{whole}");
    // As it stays so, the plan does.
    (0..3000).for_each(|_| world.second());
    assert!(world.version() <= 4, "{}: {:?}", world.version(), world.notes);
    let view = world.controller.view(world.now);
    let worth = view.worth.unwrap();
    assert!(worth.saved > 0.6 * worth.before, "{worth:?}");
    assert!(view.nodes.iter().all(|node| node.phase == Phase::Done));
}

#[test]
fn a_controller_may_be_killed_at_any_moment() {
    for kill in 0..60 {
        let mut world = World::new();
        world.kill = Some(kill);
        world.until_done(1);
        world.traffic[2][0] = (500_000, 400_000);
        world.until_done(2);
        world.kill = Some(kill % 7);
        world.step(Input::Drain(1, true));
        for _ in 0..3 {
            // An operator who sees nothing asks again.
            world.step(Input::Drain(1, true));
            world.until_done(world.version());
            (0..40).for_each(|_| world.second());
        }
        assert!(world.disk.drained.contains("B") && world.is_done(), "{kill}: {:?}", world.notes);
        let plan = world.disk.plan.as_ref().unwrap();
        assert_eq!(shares(plan, "A", "B"), [], "{kill}");
        // Nothing passes it, either.
        let ways: Vec<_> = plan.paths().iter().filter(|path| path.egress != "B").collect();
        let at_b = |path: &&&crate::manifest::PlannedPath| {
            path.hops.iter().any(|&hop| plan.devices()[hop.index()].name == "B")
        };
        assert!(!ways.iter().any(|path| at_b(&path)), "{kill}");
    }
}

#[test]
fn a_dead_node_holds_up_no_plan() {
    for when in 0..6 {
        let mut world = World::new();
        if when > 0 {
            world.until_done(1);
        }
        // In the middle of a rollout: one node has the plan, others do not.
        (0..when).for_each(|_| world.second());
        world.kill_node(3);
        world.until_done(1);
        (0..60).for_each(|_| world.second());
        let plan = world.disk.plan.clone().unwrap();
        assert!(plan.paths().iter().all(|path| path.egress != "D"), "{when}");
        assert_eq!(plan.paths().len(), 6);
        let view = world.controller.view(world.now);
        assert_eq!(view.nodes[3].phase, Phase::Down);
        assert_eq!((view.unreachable.len(), world.is_done()), (6, true));
        // It comes back, and is in the plan again.
        world.nodes[3].is_dead = false;
        world.nodes.iter_mut().for_each(|node| node.down.clear());
        world.until_done(plan.version() + 1);
        assert_eq!(world.disk.plan.as_ref().unwrap().paths().len(), 12);
    }
}

/// A node that only the controller does not reach: plans go on without its cache, and with it when it
/// is back.
#[test]
fn a_node_that_is_away_holds_up_no_plan() {
    let mut world = World::new();
    world.until_done(1);
    world.nodes[1].is_away = true;
    world.nodes[1].is_joined = false;
    world.step(Input::Gone(1));
    // Nothing changes for its sake alone.
    (0..100).for_each(|_| world.second());
    assert_eq!(world.version(), 1);
    world.traffic[2][0] = (500_000, 400_000);
    world.until_done(2);
    // This plan is made without it, and is done; so is the next.
    let ended = |world: &World| {
        let view = world.controller.view(world.now);
        (view.rollout.unwrap().ended.is_some(), view.nodes[1].phase)
    };
    assert_eq!(ended(&world), (true, Phase::Away));
    world.traffic[3][1] = (900_000, 800_000);
    world.until_done(world.version() + 1);
    assert_eq!(ended(&world), (true, Phase::Away));
    let caches = |world: &World| {
        let plan = world.disk.plan.clone().unwrap();
        let of = |path: &crate::manifest::PlannedPath| {
            path.ranges
                .iter()
                .any(|range| plan.devices()[path.hops[range.hop as usize].index()].name == "B")
        };
        (plan.paths().len(), plan.paths().iter().any(of))
    };
    assert_eq!(caches(&world), (12, false));
    // One that goes in the middle of a rollout is planned without after a while.
    world.nodes[1].is_away = false;
    world.until_done(world.version() + 1);
    assert_eq!(caches(&world), (12, true));
    world.step(Input::PlanNow);
    world.nodes[1].is_away = true;
    world.nodes[1].is_joined = false;
    world.step(Input::Gone(1));
    (0..40).for_each(|_| world.second());
    assert_eq!((caches(&world), ended(&world)), ((12, false), (true, Phase::Away)));
}

/// A node that has the plan before gets differences from it, whatever controller sends them; others get
/// their whole part.
#[test]
fn nodes_get_what_they_lack() {
    let mut world = World::new();
    world.until_done(1);
    assert_eq!((world.offers, world.differences), (4, 0));
    world.step(Input::PlanNow);
    world.until_done(2);
    assert_eq!((world.offers, world.differences), (8, 4));
    // Another controller, with what is on disk.
    world.restart();
    (0..40).for_each(|_| world.second());
    world.step(Input::PlanNow);
    world.until_done(3);
    assert_eq!((world.offers, world.differences), (12, 8));
    // A node that has lost its part, and one with the part of an older plan.
    world.nodes[0].part = None;
    world.nodes[1].part = Some(vec![1, 2, 3]);
    for node in [0, 1] {
        world.nodes[node].is_joined = false;
        world.step(Input::Gone(node));
    }
    (0..5).for_each(|_| world.second());
    world.step(Input::PlanNow);
    world.until_done(4);
    assert_eq!((world.offers, world.differences), (16, 10));
}

/// A plan of another topology is replaced as soon as a node has joined.
#[test]
fn a_stored_plan_that_does_not_fit_is_replaced() {
    let mut world = World::new();
    world.until_done(1);
    let plan = world.disk.plan.as_ref().unwrap().to_json().replace("\"D\"", "\"X\"");
    world.disk.plan = Some(Plan::from_json(&plan).unwrap());
    world.restart();
    assert!(world.controller.view(world.now).failed.unwrap().contains('X'));
    world.until_done(2);
}

/// A plan follows a dead node as soon as its neighbors have noticed, and not one plan for each.
#[test]
fn a_dead_node_is_gone_round_at_once() {
    let mut world = World::new();
    world.until_done(1);
    (0..20).for_each(|_| world.second());
    world.nodes[3] = Toy { is_dead: true, ..Toy::default() };
    world.step(Input::Gone(3));
    let offers = world.offers;
    for neighbor in [2, 0] {
        world.nodes[neighbor].down.push(3);
        world.now += SECOND / 20;
        world.step(Input::From(neighbor, FromNode::State(world.state(neighbor))));
        assert_eq!(world.version(), 1);
    }
    world.now += SECOND / 10;
    world.step(Input::Tick);
    assert_eq!((world.version(), world.offers - offers), (2, 3));
    assert!(world.disk.plan.as_ref().unwrap().paths().iter().all(|path| path.egress != "D"));
}

#[test]
fn what_cannot_be_stored_is_not_acted_on() {
    let mut world = World::new();
    world.can_store = false;
    (0..70).for_each(|_| world.second());
    assert_eq!((world.version(), world.offers), (0, 0));
    assert!(world.controller.view(world.now).failed.unwrap().contains("disk full"));
    world.can_store = true;
    world.until_done(1);
}

#[test]
fn an_old_controller_takes_over_nodes_with_newer_plans() {
    let mut world = World::new();
    world.until_done(1);
    let old = world.disk.clone();
    world.traffic[2][0] = (500_000, 400_000);
    world.until_done(2);
    for record in [old, Record::default()] {
        let newest = world.nodes[0].plan.version;
        world.disk = record;
        world.restart();
        world.until_done(newest + 1);
    }
}

#[test]
fn strangers_are_refused() {
    let mut controller = start(Record::default(), 0);
    let good = Join {
        format: FORMAT,
        name: "A".into(),
        network: "net".into(),
        memory: None,
        encodings: None,
        operations: None,
        agent: String::new(),
        part: None,
        state: NodeState::default(),
    };
    let refused = |controller: &mut Controller, message: FromNode| {
        let mut actions = Vec::new();
        controller.step(1, Input::From(0, message), &mut actions);
        let is_refusal = |one: &Action| matches!(one, Action::Send(0, ToNode::Refuse { .. }));
        actions.iter().any(is_refusal) && actions.iter().any(|one| matches!(one, Action::Close(0)))
    };
    for wrong in [
        Join { format: FORMAT + 1, ..good.clone() },
        Join { name: "B".into(), ..good.clone() },
        Join { network: "other".into(), ..good.clone() },
    ] {
        assert!(refused(&mut controller, FromNode::Join(wrong)));
    }
    assert!(refused(&mut controller, FromNode::State(NodeState::default())));
    assert!(!refused(&mut controller, FromNode::Join(good)));
    // Whatever is in a report, numbers stay numbers.
    let report = Report {
        nanoseconds: SECOND,
        volumes: vec![(0, u64::MAX), (1, u64::MAX), (9, 1)],
        pairs: vec![(1, 2, 0, 5), (1, 9, 1, 1), (1, 1, u64::MAX, u64::MAX)],
        copies: f64::NAN,
        ..Report::default()
    };
    assert!(Rates::new(&report, 0, 4).is_none());
    let report = Report { copies: -1.0, ..report };
    assert!(Rates::new(&Report { nanoseconds: 1, ..report.clone() }, 0, 4).is_none());
    let rates = Rates::new(&report, 0, 4).unwrap();
    assert_eq!((rates.volumes.len(), rates.pairs.len(), rates.copies), (1, 1, 0.0));
    let state = NodeState { down: vec![7, 1, 1], ..NodeState::default() };
    assert!(!refused(&mut controller, FromNode::State(state)));
    assert_eq!(controller.view(2).nodes[0].down, ["B"]);
}

/// However many pairs a node names in turn, no more are kept than a report has.
#[test]
fn pairs_are_bounded() {
    let report = |first: u32| Report {
        nanoseconds: SECOND,
        pairs: (0..MAX_PAIRS as u32).map(|p| (first, p, 1, 1000 + u64::from(p))).collect(),
        ..Report::default()
    };
    let rates = |first| Rates::new(&report(first), u32::MAX, u32::MAX).unwrap();
    let mean = rates(1).mean(&rates(2));
    assert_eq!(mean.pairs.len(), MAX_PAIRS);
    // The largest ones.
    assert!(mean.pairs.keys().all(|pair| pair.1 as usize >= MAX_PAIRS / 2));
}
