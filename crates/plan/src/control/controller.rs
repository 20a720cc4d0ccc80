//! The controller's state machine.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Answer, FromNode, Join, NodeLoad, NodeState, Offer, PlanRef, Question, Rates, Record, Report,
    Settings, ToNode, Worth, messages, part_hash, plain,
};
use crate::manifest::{Parts, Plan};
use crate::{Network, NodeId};

/// What a controller is told.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "they are handed over one at a time")]
pub enum Input {
    /// A message of a node, which has proved that it is this one.
    From(usize, FromNode),
    /// The connection with a node has ended.
    Gone(usize),
    /// Time has passed.
    Tick,
    /// What was to be written is written.
    Stored,
    /// It is not, for this reason.
    NotStored(String),
    /// The answer to a question, or why there is none.
    Answered(Result<Box<Answer>, String>),
    /// An operator wants a node empty, or not any more.
    Drain(usize, bool),
    /// An operator wants a plan now.
    PlanNow,
}

/// What a controller wants done, in this order.
#[derive(Debug)]
pub enum Action {
    /// Send a message to a node.
    Send(usize, ToNode),
    /// End the connection with a node.
    Close(usize),
    /// Write this durably, in place of what was written before; then [`Input::Stored`].
    Store(String),
    /// Have this answered, then [`Input::Answered`].
    Ask(Box<Question>),
    /// Tell the operator. The flag is set if something is wrong.
    Note(String, bool),
}

/// Why a node is not welcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It speaks another version.
    #[error("it speaks format {0} of control messages; the controller speaks {own}", own = messages::FORMAT)]
    Format(u32),
    /// The key is another node's.
    #[error("it says that it is {0}, but has the key of {1}")]
    Name(String, String),
    /// Another topology.
    #[error("its topology is another one than the controller's; all need the same file")]
    Network,
    /// A message before the first one, or after it again.
    #[error("its messages come in the wrong order")]
    Order,
}

/// Why a plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There was none.
    First,
    /// A node has a plan that this controller does not know.
    Unknown(usize),
    /// Links or nodes are down, or back.
    Links,
    /// A node is to be empty, or not any more.
    Drained,
    /// A node has other memory, or is back.
    Memory(usize),
    /// A node that the plan needs is away from the controller, and alive.
    Away(usize),
    /// An operator asked.
    Asked,
    /// What enters at a node differs from what was planned with.
    Changed(usize),
    /// It was time.
    Due,
}

/// A plan that is being brought out. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// When it began.
    pub began: u64,
    /// When the first node had the plan.
    pub first: Option<u64>,
    /// When the last one had it, of those that have joined.
    pub last: Option<u64>,
    /// When all of them carried out this plan only.
    pub ended: Option<u64>,
}

/// What a plan was made with.
#[derive(Clone, Debug, Default)]
pub(super) struct Basis {
    pub(super) at: u64,
    pub(super) down: BTreeSet<(u32, u32)>,
    pub(super) drained: BTreeSet<String>,
    pub(super) memory: Vec<u64>,
    /// Bytes per second of each ingress, and those that repeat others.
    pub(super) sums: Vec<(f64, f64)>,
    /// Bytes per second of each ingress to each egress, over the last reports.
    pub(super) volumes: Vec<BTreeMap<u32, f64>>,
    /// A node whose traffic had just changed: half of what was measured is from before.
    pub(super) hasty: Option<usize>,
}

#[derive(Default)]
pub(super) struct Node {
    /// While it is connected.
    pub(super) joined: Option<Joined>,
    /// Bytes for packets, as it said last.
    pub(super) memory: Option<u64>,
    /// Encodings and operations per second, as it said last.
    pub(super) speeds: [Option<u64>; 2],
    pub(super) rates: Option<Rates>,
    pub(super) latest: Option<(f64, f64)>,
    pub(super) carried: (u64, u64),
    /// What it carries, while it is connected.
    pub(super) load: Option<NodeLoad>,
}

impl Node {
    /// Bytes for packets that it can be planned with: none while nobody can tell it.
    pub(super) fn means(&self) -> u64 {
        if self.joined.is_some() { self.memory.unwrap_or(0) } else { 0 }
    }
}

pub(super) struct Joined {
    pub(super) agent: String,
    pub(super) heard: u64,
    /// When it was welcomed, until it answers.
    pub(super) welcomed: Option<u64>,
    pub(super) round_trip: Option<u64>,
    pub(super) state: NodeState,
    /// The version that it was offered on this connection.
    pub(super) offered: u64,
    /// Hash of the newest part that it has got.
    pub(super) part: Option<u64>,
    pub(super) refused: Option<String>,
}

/// A controller.
pub struct Controller {
    pub(super) settings: Settings,
    pub(super) network: Network,
    /// Whether networks are behind a node.
    pub(super) ends: Vec<bool>,
    pub(super) nodes: Vec<Node>,
    pub(super) record: Record,
    /// The stored plan, by version and digest.
    pub(super) plan: PlanRef,
    /// The parts of this plan, and of the one before it: most nodes have that.
    parts: Option<Parts>,
    parts_before: Option<Parts>,
    pub(super) worth: Option<Worth>,
    pub(super) unreachable: Vec<(u32, u32)>,
    pub(super) basis: Option<Basis>,
    pub(super) drained: BTreeSet<String>,
    pub(super) asking: Option<(Reason, Basis, bool)>,
    pub(super) storing: Option<Storing>,
    pub(super) rollout: Option<Rollout>,
    pub(super) reason: Option<Reason>,
    /// Why the last attempt to plan came to nothing.
    pub(super) failed: Option<String>,
    pub(super) asked: bool,
    pub(super) started: u64,
    pub(super) not_before: u64,
    /// The links that are down, and since when they are these.
    pub(super) down: (BTreeSet<(u32, u32)>, u64),
}

pub(super) struct Storing {
    record: Record,
    made: Option<(Basis, Box<Answer>, Reason)>,
}

impl Controller {
    /// A controller that starts `now`, with what an earlier one has stored. `ends` says behind which
    /// nodes of the network there are networks.
    pub fn new(
        settings: Settings,
        network: Network,
        ends: Vec<bool>,
        record: Record,
        now: u64,
    ) -> Controller {
        let mut controller = Controller {
            nodes: network.nodes.iter().map(|_| Node::default()).collect(),
            ends,
            plan: PlanRef::default(),
            parts: None,
            parts_before: None,
            worth: None,
            unreachable: Vec::new(),
            basis: None,
            drained: record.drained.clone(),
            asking: None,
            storing: None,
            rollout: None,
            reason: None,
            failed: None,
            asked: false,
            started: now,
            not_before: now,
            down: (BTreeSet::new(), now),
            settings,
            network,
            record,
        };
        if let Some(plan) = &controller.record.plan {
            controller.plan = reference(&controller.settings, plan);
            // It may not have reached all nodes.
            controller.rollout = Some(Rollout { began: now, ..Rollout::default() });
            match Parts::new(plan, controller.plan.digest, &controller.network) {
                Ok(parts) => controller.parts = Some(parts),
                // Of a topology that has changed since: another one is needed.
                Err(error) => {
                    controller.failed = Some(format!("the stored plan does not fit: {error}"));
                    controller.asked = true;
                }
            }
        }
        controller
    }

    /// Takes a step at a time, in nanoseconds. Times do not go back.
    pub fn step(&mut self, now: u64, input: Input, out: &mut Vec<Action>) {
        match input {
            Input::From(node, message) if node < self.nodes.len() => {
                self.receive(now, node, message, out);
            }
            Input::Gone(node) if node < self.nodes.len() => self.leave(node, "has gone", out),
            Input::From(..) | Input::Gone(_) | Input::Tick => {}
            Input::Stored => self.stored(now, out),
            Input::NotStored(why) => {
                self.storing = None;
                self.fail(now, format!("cannot store a plan: {}", plain(&why)), out);
            }
            Input::Answered(Ok(answer)) => self.answered(now, answer, out),
            Input::Answered(Err(why)) => {
                self.asking = None;
                self.fail(now, format!("no plan: {}", plain(&why)), out);
            }
            Input::Drain(node, on) => {
                if let Some(node) = self.network.nodes.get(node) {
                    match on {
                        true => self.drained.insert(node.id.clone()),
                        false => self.drained.remove(&node.id),
                    };
                }
            }
            Input::PlanNow => {
                self.asked = true;
                self.not_before = now;
            }
        }
        self.proceed(now, out);
    }

    pub(super) fn name(&self, node: usize) -> &str {
        &self.network.nodes[node].id
    }

    fn fail(&mut self, now: u64, why: String, out: &mut Vec<Action>) {
        out.push(Action::Note(why.clone(), true));
        self.failed = Some(why);
        self.not_before = now + self.settings.retry;
    }

    fn leave(&mut self, node: usize, how: &str, out: &mut Vec<Action>) {
        self.nodes[node].load = None;
        if self.nodes[node].joined.take().is_some() {
            out.push(Action::Note(format!("node {} {how}", self.name(node)), true));
        }
    }

    fn receive(&mut self, now: u64, at: usize, message: FromNode, out: &mut Vec<Action>) {
        if let FromNode::Join(join) = message {
            return self.join(now, at, join, out);
        }
        let Some(joined) = &mut self.nodes[at].joined else {
            return refuse(at, &Refusal::Order, out);
        };
        joined.heard = now;
        match message {
            FromNode::Join(_) => {}
            FromNode::State(state) => {
                if let Some(welcomed) = joined.welcomed.take() {
                    joined.round_trip = Some(now.saturating_sub(welcomed));
                }
                joined.state = checked(state, self.network.nodes.len());
                self.offer(at, out);
            }
            FromNode::Report(report) => self.report(at, &report),
            FromNode::Carried(carried) => {
                let load = NodeLoad::new(&carried);
                self.nodes[at].load = load.or(self.nodes[at].load.take());
            }
            FromNode::Refused { version, why } => {
                let why = plain(&why);
                let note = format!("node {} refuses plan {version}: {why}", self.name(at));
                if version == self.plan.version
                    && let Some(joined) = &mut self.nodes[at].joined
                {
                    joined.refused = Some(why);
                }
                out.push(Action::Note(note, true));
            }
        }
    }

    fn join(&mut self, now: u64, at: usize, join: Join, out: &mut Vec<Action>) {
        let refusal = if join.format != messages::FORMAT {
            Some(Refusal::Format(join.format))
        } else if join.name != self.name(at) {
            Some(Refusal::Name(plain(&join.name), self.name(at).into()))
        } else if join.network != self.settings.network {
            Some(Refusal::Network)
        } else if self.nodes[at].joined.is_some() {
            Some(Refusal::Order)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let note = format!("node {} is refused: {refusal}", self.name(at));
            out.push(Action::Note(note, true));
            self.nodes[at].joined = None;
            return refuse(at, &refusal, out);
        }
        let state = checked(join.state, self.nodes.len());
        let note =
            format!("node {} has joined, with plan {}", self.name(at), state.newest().version);
        out.push(Action::Note(note, false));
        let node = &mut self.nodes[at];
        node.memory = Some(join.memory.unwrap_or(self.settings.memory));
        node.speeds = [join.encodings, join.operations];
        node.joined = Some(Joined {
            agent: plain(&join.agent),
            heard: now,
            welcomed: Some(now),
            round_trip: None,
            state,
            offered: 0,
            part: join.part,
            refused: None,
        });
        let report = self.settings.report / 1_000_000;
        let epoch = self.settings.epoch;
        out.push(Action::Send(at, ToNode::Accept { report, epoch }));
    }

    fn report(&mut self, at: usize, report: &Report) {
        let Some(rates) = Rates::new(report, at as u32, self.nodes.len() as u32) else { return };
        let node = &mut self.nodes[at];
        node.latest = Some(rates.sums());
        node.carried = (report.entered, report.encoded);
        node.rates = Some(match &node.rates {
            Some(before) => before.mean(&rates),
            None => rates,
        });
    }

    /// Offers the plan to a node that has an older one.
    fn offer(&mut self, at: usize, out: &mut Vec<Action>) {
        let (Some(parts), Some(joined)) = (&self.parts, &mut self.nodes[at].joined) else {
            return;
        };
        let version = self.plan.version;
        if joined.state.newest().version < version && joined.offered < version {
            (joined.offered, joined.refused) = (version, None);
            let node = NodeId::new(at);
            let part = parts.part(node).write();
            // Differences from what the node has, if that is known here.
            let before = self.parts_before.as_ref().filter(|_| joined.part.is_some());
            let before = before.map(|parts| parts.part(node).write());
            let before = before.filter(|part| joined.part == Some(part_hash(part)));
            let offer = Offer::new(&part, before.as_deref());
            joined.part = Some(offer.hash);
            out.push(Action::Send(at, ToNode::Offer(offer)));
        }
    }

    /// The links that are down, as nodes see them: between a node that has joined and its neighbor.
    fn links_down(&self) -> BTreeSet<(u32, u32)> {
        let mut down = BTreeSet::new();
        for (at, node) in (0..).zip(&self.nodes) {
            let Some(joined) = &node.joined else { continue };
            let pair = |&other: &u32| (other.min(at), other.max(at));
            down.extend(joined.state.down.iter().map(pair));
        }
        down
    }

    /// What a plan would be made with now.
    pub(super) fn basis(&self, now: u64) -> Basis {
        Basis {
            at: now,
            down: self.down.0.clone(),
            drained: self.record.drained.clone(),
            memory: self.nodes.iter().map(Node::means).collect(),
            sums: self.nodes.iter().map(|node| node.latest.unwrap_or_default()).collect(),
            volumes: self.nodes.iter().map(Node::volumes).collect(),
            hasty: None,
        }
    }

    fn proceed(&mut self, now: u64, out: &mut Vec<Action>) {
        for at in 0..self.nodes.len() {
            let joined = self.nodes[at].joined.as_ref();
            if joined.is_some_and(|one| now.saturating_sub(one.heard) > self.settings.silence) {
                self.leave(at, "does not answer any more", out);
                out.push(Action::Close(at));
            }
        }
        let down = self.links_down();
        if down != self.down.0 {
            self.down = (down, now);
        }
        self.see_rollout(now, out);
        if self.asking.is_some() || self.storing.is_some() {
            return;
        }
        if self.drained != self.record.drained && now >= self.not_before {
            let record = Record { drained: self.drained.clone(), ..self.record.clone() };
            out.push(Action::Store(record.to_json()));
            self.storing = Some(Storing { record, made: None });
            return;
        }
        if let Some(reason) = self.wants_plan(now) {
            self.ask(now, reason, out);
        }
    }

    /// Sees how far the plan has come.
    fn see_rollout(&mut self, now: u64, out: &mut Vec<Action>) {
        let Some(rollout) = self.rollout.as_mut().filter(|rollout| rollout.ended.is_none()) else {
            return;
        };
        let plan = self.plan;
        let states =
            || self.nodes.iter().filter_map(|node| node.joined.as_ref()).map(|one| &one.state);
        let count = states().count();
        let have = states().filter(|state| state.newest() == plan).count();
        if have > 0 && rollout.first.is_none() {
            rollout.first = Some(now);
        }
        if count > 0 && have == count && rollout.last.is_none() {
            rollout.last = Some(now);
        }
        if count > 0 && states().all(|state| state.is_done(plan)) && self.is_complete() {
            let Some(rollout) = &mut self.rollout else { return };
            rollout.ended = Some(now);
            let milliseconds = now.saturating_sub(rollout.began) / 1_000_000;
            let note = format!(
                "plan {} is carried out by {count} of {} nodes, after {milliseconds} ms",
                plan.version,
                self.nodes.len()
            );
            out.push(Action::Note(note, false));
        }
    }

    /// Whether no node is away but those to which no link is up, and those that the plan does not need.
    fn is_complete(&self) -> bool {
        self.missing().is_none()
    }

    /// A node that the plan needs, and that is away from the controller only.
    pub(super) fn missing(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|&at| {
            let planned = self.basis.as_ref().is_none_or(|basis| basis.memory[at] > 0);
            planned && self.nodes[at].joined.is_none() && !self.is_dead(at)
        })
    }

    /// Whether a node is away, and its neighbors do not reach it, either.
    pub(super) fn is_dead(&self, at: usize) -> bool {
        let mut links = self.network.links.iter().filter(|link| link.from.index() == at);
        let at = at as u32;
        self.nodes[at as usize].joined.is_none()
            && links.all(|link| self.down.0.contains(&(link.to.0.min(at), link.to.0.max(at))))
    }

    fn answered(&mut self, now: u64, answer: Box<Answer>, out: &mut Vec<Action>) {
        let Some((reason, basis, is_forced)) = self.asking.take() else { return };
        self.failed = None;
        self.unreachable.clone_from(&answer.unreachable);
        if answer.keep && !is_forced {
            self.worth = answer.old;
            self.basis = Some(Basis { at: now, ..basis });
            return;
        }
        let record =
            Record { plan: Some(answer.plan.clone()), drained: self.record.drained.clone() };
        out.push(Action::Store(record.to_json()));
        self.storing = Some(Storing { record, made: Some((basis, answer, reason)) });
    }

    /// What was written is in force: now nodes may know of it.
    fn stored(&mut self, now: u64, out: &mut Vec<Action>) {
        let Some(Storing { record, made }) = self.storing.take() else { return };
        self.record = record;
        let Some((basis, answer, reason)) = made else { return };
        self.plan = reference(&self.settings, &answer.plan);
        self.parts_before = self.parts.take();
        match Parts::new(&answer.plan, self.plan.digest, &self.network) {
            Ok(parts) => self.parts = Some(parts),
            Err(error) => self.fail(now, format!("a plan that cannot be divided: {error}"), out),
        }
        self.worth = Some(answer.worth);
        self.basis = Some(Basis { at: now, ..basis });
        self.rollout = Some(Rollout { began: now, ..Rollout::default() });
        let note = format!("plan {}: {}", self.plan.version, self.words(&reason));
        out.push(Action::Note(note, false));
        self.reason = Some(reason);
        // Far nodes first, so that all have it at about the same time (thesis, section 3.4).
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        let far = |at: &usize| {
            let joined = self.nodes[*at].joined.as_ref();
            joined.and_then(|joined| joined.round_trip).unwrap_or(u64::MAX)
        };
        order.sort_by_key(|at| (std::cmp::Reverse(far(at)), *at));
        for at in order {
            self.offer(at, out);
        }
    }

    /// A reason for people.
    pub(super) fn words(&self, reason: &Reason) -> String {
        match reason {
            Reason::First => "the first one".into(),
            Reason::Unknown(node) => {
                format!("node {} has a plan that this controller did not make", self.name(*node))
            }
            Reason::Links => "links or nodes are down, or back".into(),
            Reason::Drained => "nodes to be emptied have changed".into(),
            Reason::Memory(node) => {
                format!("node {} has other memory, or is back", self.name(*node))
            }
            Reason::Away(node) => {
                format!(
                    "node {} is away from the controller, and caches nothing new",
                    self.name(*node)
                )
            }
            Reason::Asked => "an operator asked for it".into(),
            Reason::Changed(node) => {
                format!("what enters at {} differs from what was planned with", self.name(*node))
            }
            Reason::Due => "it was time".into(),
        }
    }

    /// The plan in force.
    pub fn plan(&self) -> Option<&Plan> {
        self.record.plan.as_ref()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What an ingress has measured lately.
    pub fn rates(&self, node: usize) -> Option<&Rates> {
        self.nodes.get(node)?.rates.as_ref()
    }
}

/// A state without neighbors that there are not.
fn checked(mut state: NodeState, nodes: usize) -> NodeState {
    state.down.retain(|&node| (node as usize) < nodes);
    state.down.sort_unstable();
    state.down.dedup();
    state
}

fn reference(settings: &Settings, plan: &Plan) -> PlanRef {
    PlanRef { version: plan.version(), digest: (settings.digest)(plan) }
}

fn refuse(at: usize, refusal: &Refusal, out: &mut Vec<Action>) {
    out.push(Action::Send(at, ToNode::Refuse { why: refusal.to_string() }));
    out.push(Action::Close(at));
}
