//! Redundancy-aware routing: routes that put equal bytes on the same links (Anand, *Redundancy
//! Elimination as a Primitive*, 2012, chapter 6; "RA" is its name there).
//!
//! A [`Class`] is content of one ingress that goes to a set of egresses within an interval. A link
//! whose ends eliminate redundancy carries it once, however many of its egresses the link leads to.
//! Routes are [`Slice`]s: weighted trees of an ingress. `docs/ROUTING.md` defines every quantity.

mod bound;
mod class;
mod each;
mod few;
pub mod file;
mod heuristic;
#[cfg(all(test, feature = "highs"))]
mod highs;
pub mod judge;
mod master;
#[cfg(test)]
mod oracle;
pub mod prefixes;
pub mod profile;
mod program;
mod reduce;
mod schemes;
mod steps;
#[cfg(test)]
mod tests;
mod tree;
mod warm;
mod weights;

use std::net::IpAddr;

use crate::{BitRate, LinkId, Network, NodeId, Seconds};
pub use class::{Class, Classes, gravity};
use judge::Judged;
pub use steps::{run, run_warm};
pub use warm::Warm;

/// What a byte costs on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// The link's latency in milliseconds, as in the thesis's chapter 6.
    #[default]
    Latency,
    /// 1 on every link, as in SmartRE.
    Hops,
}

/// What routes are to be good at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Objective {
    /// The least footprint: bytes times the cost of the links that they cross. Capacities do not
    /// matter.
    #[default]
    Footprint,
    /// The least footprint with no link above a utilization.
    FootprintWithin(LoadLimit),
    /// The least utilization of the busiest link, then the least footprint.
    Load,
}

/// The highest utilization that a link may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadLimit {
    /// This part of its capacity.
    Given(f64),
    /// This many times what the busiest link has on shortest paths with redundancy elimination.
    Shortest(f64),
    /// This many times the least possible.
    Least(f64),
}

/// What to compute routes for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The network.
    pub network: &'a Network,
    /// Content of each ingress per interval. An ingress is listed once.
    pub ingresses: Vec<(NodeId, Classes)>,
    /// What a byte costs on a link.
    pub cost: Cost,
    /// What routes are to be good at.
    pub objective: Objective,
    /// Capacity of links whose own is not known.
    pub capacity: Option<BitRate>,
    /// An interval, in which content counts as equal (T, 60 s in the thesis). Relates the bytes of
    /// classes to capacities.
    pub interval: Seconds,
    /// Whether the ends of each link eliminate redundancy; empty if all do.
    pub eliminates: Vec<bool>,
    /// Multiply all traffic, so that the busiest link has this utilization on routes that minimize it
    /// without elimination (thesis, section 6.5: 80 %).
    pub plain_load: Option<f64>,
    /// Whether all copies, without elimination, must fit the capacities too (thesis, section 6.2,
    /// "safety net constraints").
    pub safety_net: bool,
    /// Most trees per ingress; at least 1.
    pub slices: usize,
    /// Relative gap between routes and bound that is good enough.
    pub gap: f64,
    /// Routes in force, to begin with; kept if they are within the gap.
    pub against: Option<Routes>,
    /// Whether to compute the routes for the least load without elimination, too, and the schemes
    /// over them. [`Request::plain_load`] needs them anyway.
    pub compare: bool,
}

/// Routes of all ingresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Sorted by ingress. The weights of an ingress add up to 1.
    pub slices: Vec<Slice>,
}

impl Routes {
    /// The slices of an ingress.
    pub fn of(&self, ingress: NodeId) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.ingress == ingress)
    }
}

/// One tree of routes for a part of an ingress's traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Where the traffic enters.
    pub ingress: NodeId,
    /// Its part of the ingress's traffic, above 0.
    pub weight: f64,
    /// Egress and links from the ingress to it, sorted by egress. Together they form a tree: each
    /// node has one link by which paths come to it.
    pub paths: Vec<(NodeId, Vec<LinkId>)>,
    /// Source prefixes whose traffic takes these routes; empty if none were given.
    pub prefixes: Vec<Prefix>,
}

/// A range of source addresses: a network, or a host with all bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Address; bits after the first `length` are 0.
    pub address: IpAddr,
    /// Bits that count.
    pub length: u8,
}

/// Routes with what they are worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The best routes found.
    pub routes: Routes,
    /// Their value: the footprint in bytes times cost, or the utilization of the busiest link, both
    /// from [`judge::judge`], which shares no code with the solver.
    pub value: f64,
    /// No trees are better, in any number and with any weights. 0 if stopped before there was a
    /// bound.
    pub bound: f64,
    /// Price of a byte on each link, in units of the objective per byte.
    pub link_prices: Vec<f64>,
    /// These routes and others.
    pub schemes: Vec<Scheme>,
    /// Each ingress, in the order of the request.
    pub ingresses: Vec<OfIngress>,
    /// Capacity of each link in bytes per interval, if it has one.
    pub capacities: Vec<Option<f64>>,
    /// What the routes put on links.
    pub judged: Judged,
    /// What shortest paths put on links.
    pub shortest: Judged,
    /// What all traffic was multiplied with ([`Request::plain_load`]).
    pub scale: f64,
    /// What making paths a tree has cost, as a part of the value: the most of any ingress.
    pub repair: f64,
    /// Whether the computation was stopped before the gap was reached, or before something else was
    /// finished.
    pub stopped: bool,
    /// What a computation that was stopped has left out.
    pub unfinished: Unfinished,
}

/// What a computation that was stopped has left out, beside a smaller gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Traffic is scaled ([`Request::plain_load`]) by the best routes without elimination that were
    /// found until then. The exact factor is no smaller.
    pub scale: bool,
    /// No routes were found that keep the limit of the objective, or the safety net. These do not.
    pub limit: bool,
    /// Schemes to compare with are missing.
    pub schemes: bool,
    /// Sources are not divided among slices ([`prefixes::divide`]).
    pub prefixes: bool,
}

impl Outcome {
    /// Relative gap between value and bound: the most that better routes could save.
    pub fn gap(&self) -> f64 {
        gap(self.value, self.bound)
    }
}

fn gap(value: f64, bound: f64) -> f64 {
    if value > 0.0 { ((value - bound) / value).max(0.0) } else { 0.0 }
}

/// Footprints of an ingress's traffic, in bytes times cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfIngress {
    /// Where it enters.
    pub ingress: NodeId,
    /// On shortest paths without elimination (the thesis's SP).
    pub plain: f64,
    /// On shortest paths with elimination on every link (SP-RE).
    pub shortest: f64,
    /// On these routes (RA).
    pub value: f64,
    /// No trees are better for this ingress alone; none if routes were computed for all together.
    pub bound: Option<f64>,
    /// Rounds of the ascent that proves the bound.
    pub rounds: u32,
}

impl OfIngress {
    /// Relative gap between value and bound.
    pub fn gap(&self) -> Option<f64> {
        self.bound.map(|bound| gap(self.value, bound))
    }
}

/// A way to route, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// Name in tables.
    pub name: &'static str,
    /// Bytes times cost, summed over links.
    pub footprint: f64,
    /// Utilization of the busiest link, if capacities are known.
    pub utilization: Option<f64>,
}
