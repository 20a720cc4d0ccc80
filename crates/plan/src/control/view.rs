//! The state of a controller, for people.

use super::controller::{Controller, Node};
use super::{NodeLoad, PlanRef, Rollout, Worth};
use crate::network::{Link, Role};

/// A node and the plan that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is not connected with the controller.
    Away,
    /// Nor with any neighbor.
    Down,
    /// It does not have the plan yet.
    Lacks,
    /// It does not take it.
    Refuses,
    /// It has the plan, beside the one before.
    Has,
    /// It carries out this plan only.
    Done,
}

/// The state of a node, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its name on maps; may be empty.
    pub label: String,
    /// Nodes with the same number are one PoP.
    pub pop: u32,
    /// Whether it is an access router of a PoP that has others.
    pub is_access: bool,
    /// Latitude and longitude in degrees, if the topology has them.
    pub position: Option<[f64; 2]>,
    /// Where it is with the plan.
    pub phase: Phase,
    /// Program and version, while it is connected.
    pub agent: Option<String>,
    /// The plan that it carries out.
    pub version: Option<u64>,
    /// Nanoseconds that a message and its answer take.
    pub round_trip: Option<u64>,
    /// Bytes for packets.
    pub memory: Option<u64>,
    /// Whether it is to be empty.
    pub is_drained: bool,
    /// Why it does not take the plan.
    pub refused: Option<String>,
    /// Neighbors that it does not reach.
    pub down: Vec<String>,
    /// Bytes per second that entered there lately, and those that repeat others.
    pub rates: Option<(f64, f64)>,
    /// Bytes that entered there since its start, and as they were sent on.
    pub carried: (u64, u64),
    /// Bytes per second that left the network there lately, as ingresses measured them.
    pub leaving: f64,
    /// What it carries, if it is connected and has said so.
    pub load: Option<NodeLoad>,
    /// Operations that it can do in a second, if it is limited.
    pub operations: Option<u64>,
}

/// A link in one direction, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkView {
    /// Number of the node at its beginning.
    pub from: u32,
    /// Number of the node at its end.
    pub to: u32,
    /// Bytes per second that it can carry, if the topology says so.
    pub capacity: Option<f64>,
    /// Bytes per second that it carries, and would carry without elimination; none if the node at its
    /// beginning has not said so.
    pub rates: Option<(f64, f64)>,
    /// Whether an end does not reach the other, or is down.
    pub is_down: bool,
}

/// The state of a controller, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Name of the network.
    pub network: String,
    /// The plan that is handed out.
    pub plan: PlanRef,
    /// Why it was made, if this process did.
    pub reason: Option<String>,
    /// What it is worth, as planned.
    pub worth: Option<Worth>,
    /// Nanoseconds since it was made, or found good enough.
    pub planned: Option<u64>,
    /// Whether a plan is being made.
    pub is_planning: bool,
    /// Why the last attempt came to nothing.
    pub failed: Option<String>,
    /// How far the plan has come.
    pub rollout: Option<Rollout>,
    /// Pairs of nodes without a way to each other.
    pub unreachable: Vec<(String, String)>,
    /// Nodes, in the order of the topology.
    pub nodes: Vec<NodeView>,
    /// Links, in the order of the topology.
    pub links: Vec<LinkView>,
}

impl Controller {
    /// The state of everything.
    pub fn view(&self, now: u64) -> View {
        let mut leaving = vec![0.0; self.nodes.len()];
        for rates in self.nodes.iter().filter_map(|node| node.rates.as_ref()) {
            for (&to, bytes) in &rates.volumes {
                if let Some(sum) = leaving.get_mut(to as usize) {
                    *sum += bytes;
                }
            }
        }
        let view = |(at, node): (usize, &Node)| {
            let known = &self.network.nodes[at];
            let joined = node.joined.as_ref();
            let phase = match joined {
                None if self.is_dead(at) => Phase::Down,
                None => Phase::Away,
                Some(joined) if joined.refused.is_some() => Phase::Refuses,
                Some(joined) if joined.state.is_done(self.plan) => Phase::Done,
                Some(joined) if joined.state.newest() == self.plan => Phase::Has,
                Some(_) => Phase::Lacks,
            };
            NodeView {
                name: self.name(at).into(),
                label: known.label.clone(),
                pop: known.pop,
                is_access: known.role == Role::Access,
                position: known.position,
                phase,
                agent: joined.map(|joined| joined.agent.clone()),
                version: joined.map(|joined| joined.state.current.version),
                round_trip: joined.and_then(|joined| joined.round_trip),
                memory: node.memory,
                is_drained: self.drained.contains(self.name(at)),
                refused: joined.and_then(|joined| joined.refused.clone()),
                down: joined.map_or(Vec::new(), |joined| {
                    joined
                        .state
                        .down
                        .iter()
                        .map(|&other| self.name(other as usize).into())
                        .collect()
                }),
                rates: node.latest,
                carried: node.carried,
                leaving: leaving[at],
                load: node.load.clone(),
                operations: node.speeds[1],
            }
        };
        View {
            network: self.network.name.clone(),
            plan: self.plan,
            reason: self.reason.as_ref().map(|reason| self.words(reason)),
            worth: self.worth,
            planned: self.basis.as_ref().map(|basis| now.saturating_sub(basis.at)),
            is_planning: self.asking.is_some() || self.storing.is_some(),
            failed: self.failed.clone(),
            rollout: self.rollout,
            unreachable: self
                .unreachable
                .iter()
                .map(|&(from, to)| (self.name(from as usize).into(), self.name(to as usize).into()))
                .collect(),
            nodes: self.nodes.iter().enumerate().map(view).collect(),
            links: self.link_views(),
        }
    }

    fn link_views(&self) -> Vec<LinkView> {
        let dead: Vec<bool> = (0..self.nodes.len()).map(|at| self.is_dead(at)).collect();
        let link = |link: &Link| {
            let (from, to) = (link.from.0, link.to.0);
            let load = self.nodes[link.from.index()].load.as_ref();
            LinkView {
                from,
                to,
                capacity: link.capacity.map(|rate| rate.0 / 8.0),
                rates: load.and_then(|load| load.links.get(&to)).copied(),
                is_down: dead[link.from.index()]
                    || dead[link.to.index()]
                    || self.down.0.contains(&(from.min(to), from.max(to))),
            }
        };
        self.network.links.iter().map(link).collect()
    }
}
