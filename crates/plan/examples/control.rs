//! A controller with simulated nodes: how long it takes from a change of the traffic until all nodes
//! have the new plan, and how many bytes that takes.
//!
//! `cargo run --release -p oncewire-plan --example control TOPOLOGY [--reduce POPS] [--access ROUTERS]`
//!
//! Nodes are state machines that take every plan at once; messages go through their bytes. Time is that
//! of this machine for planning, writing and reading, without that of the network.

use oncewire_plan::control::{
    Action, Controller, FORMAT, FromNode, Input, Join, NodeState, PlanRef, Record, Report,
    Settings, ToNode,
};
use oncewire_plan::manifest::Plan;
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
    offer_bytes: usize,
    planning: Duration,
    storing: usize,
    writing: Duration,
    reading: Duration,
}

struct World {
    now: u64,
    network: Network,
    ends: Vec<bool>,
    controller: Controller,
    plans: Vec<PlanRef>,
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
        World { now: 0, network, ends, controller, plans, counted: Counted::default() }
    }

    fn state(&self, node: usize) -> NodeState {
        NodeState { current: self.plans[node], settled: true, ..NodeState::default() }
    }

    fn step(&mut self, input: Input) {
        let mut waiting = VecDeque::from([input]);
        while let Some(input) = waiting.pop_front() {
            let mut actions = Vec::new();
            self.controller.step(self.now, input, &mut actions);
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
        let is_offer = matches!(message, ToNode::Offer { .. });
        let begun = Instant::now();
        let bytes = message.write();
        if is_offer {
            self.counted.writing += begun.elapsed();
            self.counted.offers += 1;
            self.counted.offer_bytes += bytes.len() + 4;
        }
        if let ToNode::Offer { plan } = message {
            // Nodes read at the same time, each for itself: one stands for all.
            if self.counted.offers == 1 {
                let begun = Instant::now();
                let plan = Plan::from_json(plan).expect("a plan");
                self.counted.reading = begun.elapsed();
                assert!(plan.version() > self.plans[node].version);
            }
            let version = self.plans[node].version.max(self.offered());
            self.plans[node] = PlanRef { version, digest: version };
        }
        Some(Input::From(node, FromNode::State(self.state(node))))
    }

    fn offered(&self) -> u64 {
        self.controller.plan().map_or(0, Plan::version)
    }

    /// Every ingress reports a second of gravity traffic, of which half repeats; `busy` has that of
    /// three.
    fn report(&mut self, busy: Option<usize>) {
        let weight = |at: usize| match self.ends[at] {
            true => self.network.nodes[at].population.unwrap_or(1.0).max(1.0),
            false => 0.0,
        };
        let weights: Vec<f64> = (0..self.ends.len()).map(weight).collect();
        let all: f64 = weights.iter().sum();
        for from in (0..weights.len()).filter(|&from| weights[from] > 0.0) {
            let factor = if busy == Some(from) { 3.0 } else { 1.0 };
            let volume =
                |to: usize| (factor * VOLUME * weights[from] * weights[to] / all / all) as u64;
            let others = (0..weights.len() as u32).filter(|&to| to as usize != from);
            let volumes = others.map(|to| (to, volume(to as usize))).filter(|one| one.1 > 0);
            let volumes: Vec<(u32, u64)> = volumes.collect();
            let pair = |&(to, bytes): &(u32, u64)| (to, to, bytes / 2000, bytes / 2);
            let pairs = volumes.iter().map(pair).filter(|pair| pair.2 > 0).collect();
            let report =
                Report { nanoseconds: SECOND, volumes, pairs, copies: 1.0, ..Report::default() };
            self.step(Input::From(from, FromNode::Report(report)));
        }
    }

    fn print(&mut self, what: &str) {
        let Counted { plans, offers, offer_bytes, planning, storing, writing, reading } =
            std::mem::take(&mut self.counted);
        let paths = self.controller.plan().map_or(0, |plan| plan.paths().len());
        println!(
            "{what}: {plans} plans of {paths} paths, {offers} offers of {:.2} MB, {:.1} MB in all; \
             planning {:.2} s, stored {:.2} MB, writing offers {:.2} s, reading one {:.2} s",
            offer_bytes as f64 / 1e6 / offers.max(1) as f64,
            offer_bytes as f64 / 1e6,
            planning.as_secs_f64(),
            storing as f64 / 1e6,
            writing.as_secs_f64(),
            reading.as_secs_f64()
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
            state: NodeState::default(),
        };
        world.step(Input::From(node, FromNode::Join(join)));
    }
    world.print("first");
    // Twice what is measured, so that it counts, and longer than plans at once are apart.
    for busy in [None, None, Some(0), Some(0)] {
        world.now += 10 * SECOND;
        let busy = busy.and_then(|_| world.ends.iter().position(|&is_end| is_end));
        for node in 0..world.plans.len() {
            world.step(Input::From(node, FromNode::State(world.state(node))));
        }
        world.report(busy);
        world.step(Input::Tick);
        world.print(if busy.is_some() { "an ingress has three times as much" } else { "measured" });
    }
    Ok(())
}
