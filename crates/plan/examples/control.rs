//! A controller with simulated nodes: how long it takes from a change of the traffic until all nodes
//! have the new plan, and how many bytes that takes.
//!
//! `cargo run --release -p oncewire-plan --example control TOPOLOGY [--reduce POPS] [--access ROUTERS]`
//!
//! Nodes are state machines that take every plan at once; messages go through their bytes. Time is that
//! of this machine for planning, writing and reading, without that of the network.

use oncewire_plan::control::{
    Action, Controller, FORMAT, FromNode, Input, Join, NodeState, PlanRef, Record, Report,
    Settings, ToNode, part_hash,
};
use oncewire_plan::manifest::{NodePart, Plan};
use oncewire_plan::network::Role;
use oncewire_plan::{Network, Scenario, Text, Unwatched};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;
/// Bytes that enter the network in a second, in all.
const VOLUME: f64 = 10e9;

fn digest(plan: &Plan) -> u64 {
    plan.version()
}

/// What was sent, and how long parts of it took.
#[derive(Default)]
struct Counted {
    plans: usize,
    offers: usize,
    differences: usize,
    offer_bytes: usize,
    part_bytes: usize,
    largest: usize,
    planning: Duration,
    storing: usize,
    /// All that the controller did, but for planning.
    stepping: Duration,
    /// All nodes opened and read their parts.
    taken: Duration,
    reading: Duration,
}

struct World {
    now: u64,
    network: Network,
    ends: Vec<bool>,
    controller: Controller,
    plans: Vec<PlanRef>,
    /// The newest part that each node has.
    parts: Vec<Option<Vec<u8>>>,
    random: fastrand::Rng,
    counted: Counted,
}

impl World {
    fn new(network: Network) -> World {
        let has_access = network.nodes.iter().any(|node| node.role == Role::Access);
        let is_end = |role| role == Role::Access || !has_access && role == Role::Any;
        let ends: Vec<bool> = network.nodes.iter().map(|node| is_end(node.role)).collect();
        let settings = Settings::new("net".into(), digest);
        let record = Record::default();
        let controller = Controller::new(settings, network.clone(), ends.clone(), record, 0);
        let plans = vec![PlanRef::default(); network.nodes.len()];
        let parts = vec![None; network.nodes.len()];
        let random = fastrand::Rng::with_seed(1);
        let counted = Counted::default();
        World { now: 0, network, ends, controller, plans, parts, random, counted }
    }

    fn state(&self, node: usize) -> NodeState {
        NodeState { current: self.plans[node], settled: true, ..NodeState::default() }
    }

    fn step(&mut self, input: Input) {
        let mut waiting = VecDeque::from([input]);
        while let Some(input) = waiting.pop_front() {
            let mut actions = Vec::new();
            let begun = Instant::now();
            self.controller.step(self.now, input, &mut actions);
            self.counted.stepping += begun.elapsed();
            for action in actions {
                match action {
                    Action::Send(node, message) => waiting.extend(self.send(node, &message)),
                    Action::Store(text) => {
                        self.counted.storing = text.len();
                        waiting.push_back(Input::Stored);
                    }
                    Action::Ask(question) => {
                        let begun = Instant::now();
                        let answer = question.answer(&Unwatched).map(Box::new);
                        self.counted.planning += begun.elapsed();
                        self.counted.plans += 1;
                        waiting.push_back(Input::Answered(answer.map_err(|why| why.to_string())));
                    }
                    Action::Note(text, true) => eprintln!("{text}"),
                    Action::Note(..) | Action::Close(_) => {}
                }
            }
        }
    }

    /// Carries a message to a node, and its answer.
    fn send(&mut self, node: usize, message: &ToNode) -> Option<Input> {
        let bytes = message.write();
        if let ToNode::Offer(offer) = message {
            self.counted.offers += 1;
            self.counted.offer_bytes += bytes.len() + 4;
            self.counted.largest = self.counted.largest.max(bytes.len() + 4);
            self.counted.differences += usize::from(offer.base.is_some());
            // Nodes read at the same time, each for itself: the slowest counts.
            let begun = Instant::now();
            let part = offer.open(self.parts[node].as_deref()).expect("a part");
            let read = NodePart::read(&part).expect("a part");
            self.counted.reading = self.counted.reading.max(begun.elapsed());
            self.counted.taken += begun.elapsed();
            self.counted.part_bytes += part.len();
            assert!(read.version > self.plans[node].version && read.node.index() == node);
            self.plans[node] = PlanRef { version: read.version, digest: read.digest };
            assert_eq!(part_hash(&part), offer.hash);
            self.parts[node] = Some(part);
        }
        Some(Input::From(node, FromNode::State(self.state(node))))
    }

    /// Every ingress reports a second of gravity traffic, of which half repeats; each path has half to one
    /// and a half times as much, by chance. `busy` has that of three.
    fn report(&mut self, busy: Option<usize>) {
        let weight = |at: usize| match self.ends[at] {
            true => self.network.nodes[at].population.unwrap_or(1.0).max(1.0),
            false => 0.0,
        };
        let weights: Vec<f64> = (0..self.ends.len()).map(weight).collect();
        let all: f64 = weights.iter().sum();
        for from in (0..weights.len()).filter(|&from| weights[from] > 0.0) {
            let factor = if busy == Some(from) { 3.0 } else { 1.0 };
            let even = |to: usize| factor * VOLUME * weights[from] * weights[to] / all / all;
            let random = &mut self.random;
            let volumes = (0..weights.len() as u32)
                .filter(|&to| to as usize != from)
                .map(|to| (to, (even(to as usize) * (0.5 + random.f64())) as u64))
                .filter(|one| one.1 > 0);
            let volumes: Vec<(u32, u64)> = volumes.collect();
            let pair = |&(to, bytes): &(u32, u64)| (to, to, bytes / 2000, bytes / 2);
            let pairs = volumes.iter().map(pair).filter(|pair| pair.2 > 0).collect();
            let report =
                Report { nanoseconds: SECOND, volumes, pairs, copies: 1.0, ..Report::default() };
            self.step(Input::From(from, FromNode::Report(report)));
        }
    }

    fn print(&mut self, what: &str) {
        let counted = std::mem::take(&mut self.counted);
        let paths = self.controller.plan().map_or(0, |plan| plan.paths().len());
        let megabytes = |bytes: usize| bytes as f64 / 1e6;
        println!(
            "{what}: {} plans of {paths} paths ({:.2} MB stored); {} offers, {} of them differences: \
             {:.3} MB in all, the largest {:.3} MB, unpacked {:.3} MB; planning {:.2} s, dividing and \
             packing {:.2} s, reading one at most {:.3} s, all {:.2} s",
            counted.plans,
            megabytes(counted.storing),
            counted.offers,
            counted.differences,
            megabytes(counted.offer_bytes),
            megabytes(counted.largest),
            megabytes(counted.part_bytes),
            counted.planning.as_secs_f64(),
            counted.stepping.as_secs_f64(),
            counted.reading.as_secs_f64(),
            counted.taken.as_secs_f64()
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("a topology")?;
    let mut scenario = Scenario::new(Text::new(&*file, std::fs::read_to_string(&file)?));
    scenario.shape.largest_component = true;
    while let (Some(option), Some(value)) = (args.next(), args.next()) {
        match option.as_str() {
            "--reduce" => scenario.shape.reduce = Some(value.parse()?),
            "--access" => scenario.shape.access_routers = Some(value.parse()?),
            _ => return Err(option.into()),
        }
    }
    let network = scenario.network()?;
    println!("{}: {} nodes, {} links", network.name, network.nodes.len(), network.links.len());
    let mut world = World::new(network);
    for node in 0..world.plans.len() {
        let join = Join {
            format: FORMAT,
            name: world.network.nodes[node].id.clone(),
            network: "net".into(),
            memory: Some(6 << 30),
            encodings: None,
            operations: None,
            agent: "simulated".into(),
            part: None,
            state: NodeState::default(),
        };
        world.step(Input::From(node, FromNode::Join(join)));
    }
    world.print("first");
    // Twice what is measured, so that it counts, and longer than plans at once are apart.
    for what in
        ["measured", "measured", "an ingress has three times as much", "an operator wants a plan"]
    {
        world.now += 10 * SECOND;
        let busy = what.starts_with("an ingress");
        let busy = world.ends.iter().position(|&is_end| is_end).filter(|_| busy);
        for node in 0..world.plans.len() {
            world.step(Input::From(node, FromNode::State(world.state(node))));
        }
        world.report(busy);
        world.step(Input::Tick);
        if what.starts_with("an operator") {
            world.step(Input::PlanNow);
        }
        world.print(what);
    }
    Ok(())
}
