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
    /// SmartRE beside hop-by-hop elimination; none with --quick.
    pub(crate) choice: Option<Choice>,
    pub(crate) solution: SolutionFacts,
    /// SmartRE and other schemes; empty with --quick.
    pub(crate) schemes: Vec<Scheme>,
    pub(crate) ingresses: Vec<IngressRow>,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) links: Vec<LinkRow>,
    pub(crate) devices: Vec<DeviceRow>,
    /// Upgrades of devices: first those with which a plan was made, by gain, then the others by
    /// bound.
    pub(crate) upgrades: Vec<Upgrade>,
    /// What was bought for a budget or a target.
    pub(crate) bought: Option<Bought>,
    /// Costs and payback; none without prices or with --quick.
    pub(crate) money: Option<Money>,
    /// Each single failure, and the worst; none without --failures.
    pub(crate) failures: Vec<FailureRow>,
    pub(crate) worst_failures: Option<FailureTotals>,
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
    /// Share of the footprint that this plan is expected to save if packets refer to any copy of
    /// repeated bytes, as nodes and `emulate` do; none if that was not computed.
    pub(crate) by_all_copies: Option<f64>,
    /// Highest utilization of a link whose capacity is known.
    pub(crate) utilization_before: Option<f64>,
    pub(crate) utilization_after: Option<f64>,
}

/// SmartRE beside hop-by-hop elimination, for the footprint.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Choice {
    /// Names as in `schemes`: what saves more with the devices there are, and if hop-by-hop may take
    /// no more devices, memory and operations than SmartRE.
    pub(crate) winner: &'static str,
    pub(crate) winner_at_equal_cost: &'static str,
    pub(crate) smartre: Standing,
    /// SmartRE with the fewest devices that keep 95 % of its savings; only with --compare all.
    pub(crate) smartre_lean: Option<Standing>,
    pub(crate) hop_by_hop: Standing,
    /// Hop-by-hop with no more of that than SmartRE takes; last with no more of all three.
    pub(crate) at_devices: Limited,
    pub(crate) at_memory: Limited,
    pub(crate) at_operations: Limited,
    pub(crate) at_all: Limited,
    /// As multiples of the load of this plan: where SmartRE begins to win, or stops winning; the
    /// loads that were tried if the same scheme wins at all of them. All none if that was not asked
    /// for.
    pub(crate) smartre_from_load: Option<f64>,
    pub(crate) smartre_until_load: Option<f64>,
    pub(crate) loads_tried: Option<[f64; 2]>,
    /// Share of the packets that hop-by-hop's encoders fingerprint at `smartre_from_load`.
    pub(crate) encoded_there: Option<f64>,
}

/// What a scheme saves, and what it takes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Standing {
    pub(crate) reduction: f64,
    pub(crate) encoders: usize,
    pub(crate) decoders: usize,
    pub(crate) memory_bytes: f64,
    /// Packets fingerprinted and cached, matches decoded.
    pub(crate) operations_per_second: f64,
}

impl Standing {
    pub(crate) fn devices(&self) -> usize {
        self.encoders + self.decoders
    }
}

/// What is saved within a limit by the best selection found, and at most by any.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Limited {
    pub(crate) reduction: f64,
    pub(crate) bound: f64,
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
    /// Encoders and decoders, bytes that they hold, packets that they fingerprint and cache and
    /// matches that they decode per second; none of a scheme without devices of some size.
    pub(crate) devices: Option<usize>,
    pub(crate) memory_bytes: Option<f64>,
    pub(crate) operations_per_second: Option<f64>,
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
    /// What a new plan with it gains: bytes per epoch summed over links, or utilization of the busiest
    /// link. None if no plan was made with it.
    pub(crate) gain: Option<f64>,
    /// The same as a share of the footprint, or of the busiest link's capacity.
    pub(crate) gain_share: Option<f64>,
    /// No plan gains more: the resource's price times its size.
    pub(crate) bound: f64,
    pub(crate) bound_share: f64,
}

/// Encoders and decoders for a budget or a target.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Bought {
    /// In money; without prices, the number of devices.
    pub(crate) cost: f64,
    pub(crate) reduction: f64,
    /// Of the plan with all devices.
    pub(crate) whole_cost: f64,
    pub(crate) whole_reduction: f64,
    /// Whether no set of devices is better.
    pub(crate) proven: bool,
    pub(crate) devices: Vec<BoughtDevice>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct BoughtDevice {
    /// `encoder` or `decoder`.
    pub(crate) what: &'static str,
    /// By ids; and by labels.
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) price: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Money {
    /// As given: of a device, of a GB of memory in it, of a GB carried over a link.
    pub(crate) price_device: Option<f64>,
    pub(crate) price_cache: Option<f64>,
    pub(crate) price_link: Option<f64>,
    pub(crate) smartre: Payback,
    pub(crate) hop_by_hop: Payback,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Payback {
    /// Of encoders and decoders with the memory they have.
    pub(crate) price: Option<f64>,
    /// In a month of 30 days with the traffic of the plan.
    pub(crate) saved_per_month: Option<f64>,
    pub(crate) months: Option<f64>,
}

/// A network without a link or a node.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FailureRow {
    /// `link` (both directions) or `node`.
    pub(crate) kind: &'static str,
    /// By ids; and by labels.
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) rerouted_paths: usize,
    /// Paths without a route, and their share of all traffic.
    pub(crate) cut_paths: usize,
    pub(crate) cut_share: f64,
    /// Of the traffic that is left, without elimination.
    pub(crate) footprint_before: f64,
    /// With the plan in force.
    pub(crate) reduction: f64,
    pub(crate) busiest_link: Option<String>,
    pub(crate) busiest_bytes: Option<f64>,
    pub(crate) busiest_utilization: Option<f64>,
    /// With a new plan, if one was made.
    pub(crate) reduction_anew: Option<f64>,
    pub(crate) busiest_link_anew: Option<String>,
    pub(crate) busiest_bytes_anew: Option<f64>,
    pub(crate) busiest_utilization_anew: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct FailureTotals {
    pub(crate) links: usize,
    pub(crate) nodes: usize,
    /// Without a failure.
    pub(crate) intact_reduction: f64,
    pub(crate) intact_bytes: Option<f64>,
    pub(crate) intact_utilization: Option<f64>,
    /// The failure with which least is saved, and that with the busiest link.
    pub(crate) least: FailureRow,
    pub(crate) busiest: FailureRow,
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
