//! The result of a plan as plain data: the JSON document, from which reports are made.

use super::common::MapFacts;
use serde::Serialize;

/// Format of the document. Its number grows when a field is removed or changes its meaning.
pub(crate) const FORMAT: &str = "oncewire-plan/1";

/// The result of a plan.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Document {
    pub(crate) format: &'static str,
    pub(crate) network: NetworkFacts,
    /// Name and value of each setting, in words.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) verdict: Verdict,
    pub(crate) solution: SolutionFacts,
    /// SmartRE and other schemes; empty with --quick.
    pub(crate) schemes: Vec<Scheme>,
    pub(crate) ingresses: Vec<IngressRow>,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) links: Vec<LinkRow>,
    pub(crate) devices: Vec<DeviceRow>,
    /// Upgrades of devices, most worthwhile first.
    pub(crate) upgrades: Vec<Upgrade>,
    /// Links with decoders in the order of choice, with the reduction up to each. Only for partial
    /// deployment.
    pub(crate) deployment: Vec<Deployed>,
    pub(crate) manifests: Option<ManifestFacts>,
    /// Changes from the plan in force.
    pub(crate) changes: Option<Changes>,
    /// Assumptions and limitations.
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NetworkFacts {
    #[serde(flatten)]
    pub(crate) map: MapFacts,
    pub(crate) paths: usize,
    pub(crate) devices: usize,
    /// d(p, r): hops of all paths.
    pub(crate) variables: usize,
    pub(crate) mean_hops: f64,
    pub(crate) epoch_seconds: f64,
    pub(crate) packet_bytes: f64,
    /// Entering in an epoch.
    pub(crate) volume_bytes: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Verdict {
    /// One sentence.
    pub(crate) headline: String,
    /// Bytes per epoch summed over links, without the plan and with it.
    pub(crate) footprint_before: f64,
    pub(crate) footprint_after: f64,
    /// Share of the footprint saved.
    pub(crate) reduction: f64,
    /// Share of the savings of hop-by-hop elimination without limits; none with --quick.
    pub(crate) of_ideal: Option<f64>,
    /// Highest utilization of a link whose capacity is known.
    pub(crate) utilization_before: Option<f64>,
    pub(crate) utilization_after: Option<f64>,
}

/// What a plan was made for, as the report says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub(crate) enum Goal {
    #[default]
    Footprint,
    FootprintOfEach,
    LinkLoad,
}

impl From<Goal> for &'static str {
    fn from(goal: Goal) -> Self {
        goal.text()
    }
}

impl Goal {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Footprint => "footprint: bytes saved per epoch, summed over links",
            Self::FootprintOfEach => {
                "footprint of each ingress: bytes saved per epoch, summed over links"
            }
            Self::LinkLoad => "link load: the highest utilization of a link",
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SolutionFacts {
    pub(crate) objective: Goal,
    pub(crate) value: f64,
    /// No plan is better than this.
    pub(crate) bound: f64,
    pub(crate) gap: f64,
    pub(crate) method: String,
    pub(crate) iterations: u32,
    /// Name and seconds of each step.
    pub(crate) seconds: Vec<(&'static str, f64)>,
    /// Ranges that devices cache.
    pub(crate) ranges: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scheme {
    pub(crate) name: String,
    /// Share of the footprint saved.
    pub(crate) reduction: f64,
    pub(crate) of_ideal: f64,
    /// Description.
    pub(crate) about: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct IngressRow {
    /// Id and label.
    pub(crate) node: String,
    pub(crate) label: String,
    pub(crate) paths: usize,
    /// Per epoch.
    pub(crate) volume_bytes: f64,
    pub(crate) reduction: f64,
    /// Share saved by each of the schemes that are known per ingress, in the order of `schemes`.
    pub(crate) schemes: Vec<(String, f64)>,
    /// Share of its packet store in use.
    pub(crate) memory_share: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeRow {
    pub(crate) id: String,
    /// Label, with the id if it is not unique.
    pub(crate) label: String,
    /// Nodes with the same number are one PoP.
    pub(crate) pop: u32,
    pub(crate) role: &'static str,
    /// Latitude and longitude in degrees.
    pub(crate) position: Option<[f64; 2]>,
    pub(crate) population: Option<f64>,
    /// Entering and leaving, per epoch.
    pub(crate) volume_bytes: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinkRow {
    /// Indices of `nodes`.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Per epoch, without and with the plan.
    pub(crate) before_bytes: f64,
    pub(crate) after_bytes: f64,
    /// bit/s.
    pub(crate) capacity: Option<f64>,
    /// Of the capacity.
    pub(crate) utilization_before: Option<f64>,
    pub(crate) utilization_after: Option<f64>,
    /// Index of `devices`.
    pub(crate) device: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceRow {
    /// Name in manifests, by ids; and by labels.
    pub(crate) name: String,
    pub(crate) label: String,
    /// Index of `nodes`.
    pub(crate) node: u32,
    /// Paths of which it caches a range.
    pub(crate) ranges: usize,
    /// Bytes, and share of the limit if there is one.
    pub(crate) memory_used: f64,
    pub(crate) memory_share: Option<f64>,
    /// Operations per epoch, and share of the limit if there is one.
    pub(crate) operations_used: f64,
    pub(crate) operations_share: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Upgrade {
    /// Device or ingress, by ids; and by labels.
    pub(crate) device: String,
    pub(crate) label: String,
    /// `cache`, `operations` or `packet store`.
    pub(crate) resource: &'static str,
    /// Size of the upgrade: "1 GB", "10 %".
    pub(crate) by: String,
    /// Objective gained, at the margin: bytes per epoch summed over links, or utilization of the busiest link.
    pub(crate) gain: f64,
    /// The same as a share of the footprint, or of the busiest link's capacity.
    pub(crate) gain_share: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Deployed {
    pub(crate) link: String,
    pub(crate) label: String,
    /// With this link and those before it.
    pub(crate) reduction: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ManifestFacts {
    pub(crate) version: u64,
    pub(crate) devices: usize,
    pub(crate) mean_bytes: f64,
    pub(crate) largest_bytes: usize,
    pub(crate) ingress_mean_bytes: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Changes {
    pub(crate) from_version: u64,
    pub(crate) devices: usize,
    /// Mean share of the hash space of a path that moves to another device, or to none.
    pub(crate) moved: f64,
    /// Cached bytes that become unusable.
    pub(crate) lost_bytes: f64,
    /// Descriptions, largest changes first.
    pub(crate) lines: Vec<String>,
}
