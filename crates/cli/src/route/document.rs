//! Routes as plain data: the JSON document, from which reports are made.

use crate::plan::common::MapFacts;
use serde::Serialize;

/// Format of the document. Its number grows when a field is removed or changes its meaning.
pub(crate) const FORMAT: &str = "oncewire-route/1";

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Document {
    pub(crate) format: &'static str,
    pub(crate) network: NetworkFacts,
    /// Name and value of each setting, in words.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) verdict: Verdict,
    pub(crate) solution: SolutionFacts,
    pub(crate) schemes: Vec<SchemeRow>,
    pub(crate) ingresses: Vec<IngressRow>,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) links: Vec<LinkRow>,
    /// Assumptions and limitations.
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NetworkFacts {
    #[serde(flatten)]
    pub(crate) map: MapFacts,
    /// Ingress and egress.
    pub(crate) pairs: usize,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Verdict {
    /// One sentence.
    pub(crate) headline: String,
    /// Shares of the footprint of shortest paths without elimination that are saved by
    /// elimination on shortest paths, and by these routes.
    pub(crate) shortest_reduction: f64,
    pub(crate) reduction: f64,
    /// Utilization of the busiest link on shortest paths with elimination, and on these routes.
    pub(crate) shortest_utilization: Option<f64>,
    pub(crate) utilization: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SolutionFacts {
    /// What was minimized, in words.
    pub(crate) objective: String,
    /// Bytes times cost, or a utilization.
    pub(crate) value: f64,
    /// No trees are better.
    pub(crate) bound: f64,
    pub(crate) gap: f64,
    /// Whether it was interrupted before the gap was reached.
    pub(crate) stopped: bool,
    /// Most that making an ingress's paths a tree has cost, as a part of its footprint.
    pub(crate) repair: f64,
    /// Trees, of all ingresses.
    pub(crate) trees: usize,
    pub(crate) seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SchemeRow {
    pub(crate) name: &'static str,
    /// Bytes times cost.
    pub(crate) footprint: f64,
    /// Share of the footprint of shortest paths without elimination that is saved.
    pub(crate) reduction: f64,
    /// Utilization of the busiest link.
    pub(crate) utilization: Option<f64>,
    pub(crate) about: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct IngressRow {
    pub(crate) node: String,
    pub(crate) label: String,
    pub(crate) egresses: usize,
    /// Per interval.
    pub(crate) volume_bytes: f64,
    pub(crate) shortest_reduction: f64,
    pub(crate) reduction: f64,
    /// No trees for this ingress save more; none if routes were computed for all together.
    pub(crate) bound: Option<f64>,
    pub(crate) gap: Option<f64>,
    pub(crate) trees: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeRow {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) pop: u32,
    pub(crate) access: bool,
    pub(crate) position: Option<[f64; 2]>,
    /// Entering, per interval.
    pub(crate) volume_bytes: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinkRow {
    /// Indices of `nodes`.
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) eliminates: bool,
    /// Bytes per interval on shortest paths without elimination, with it, and on these routes.
    pub(crate) plain_bytes: f64,
    pub(crate) shortest_bytes: f64,
    pub(crate) bytes: f64,
    /// bit/s.
    pub(crate) capacity: Option<f64>,
    /// Of the capacity, on shortest paths with elimination and on these routes.
    pub(crate) shortest_utilization: Option<f64>,
    pub(crate) utilization: Option<f64>,
    /// Price of a byte on the link, in units of the objective.
    pub(crate) price: f64,
}
