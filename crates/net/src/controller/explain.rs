//! Why the packets of a pair of nodes are cached where they are.

use oncewire_plan::control::Controller;
use oncewire_plan::manifest::SPACE;
use serde::Serialize;

/// A node on a path, and what it does there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// Its name.
    pub node: String,
    /// Share of the path's packets that it caches, 0 to 1.
    pub share: f64,
    /// Bytes that it has for them.
    pub bytes: u64,
}

/// A path of the plan, and what its ingress measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// Version of the plan.
    pub plan: u64,
    /// Number of the path.
    pub path: u32,
    /// Its nodes after the ingress, in order.
    pub hops: Vec<Hop>,
    /// Share that no node caches.
    pub uncached: f64,
    /// Bytes per second, as measured lately; none if that was not measured.
    pub volume: Option<f64>,
    /// For each egress whose packets these repeat: matches and their bytes per second, largest first.
    pub repeats: Vec<(String, f64, f64)>,
}

/// Explains the path from one node to another.
///
/// # Errors
/// One line that says why there is nothing to explain.
pub(super) fn why(controller: &Controller, from: &str, to: &str) -> Result<Why, String> {
    let network = controller.network();
    let number = |name: &str| {
        let found = network.nodes.iter().position(|node| node.id == name);
        found.ok_or_else(|| format!("the topology has no node {name}"))
    };
    let (at, egress) = (number(from)?, number(to)?);
    let plan = controller.plan().ok_or("there is no plan yet")?;
    let path = plan
        .paths()
        .iter()
        .find(|path| plan.ingresses()[path.ingress as usize].name == from && path.egress == to);
    let path = path.ok_or_else(|| {
        format!("plan {} has no path from {from} to {to}: have both networks behind them, and a way to each other?", plan.version())
    })?;
    let name = |device: oncewire_plan::DeviceId| plan.devices()[device.index()].name.clone();
    let mut hops: Vec<Hop> =
        path.hops.iter().map(|&device| Hop { node: name(device), share: 0.0, bytes: 0 }).collect();
    for range in &path.ranges {
        if let Some(hop) = hops.get_mut(range.hop as usize) {
            hop.share = (range.to - range.from) as f64 / SPACE as f64;
            hop.bytes = range.bytes;
        }
    }
    let rates = controller.rates(at);
    let egress = egress as u32;
    let mut repeats: Vec<(String, f64, f64)> = rates
        .iter()
        .flat_map(|rates| rates.pairs.range((egress, 0)..=(egress, u32::MAX)))
        .map(|(&(_, q), &(count, bytes))| (network.nodes[q as usize].id.clone(), count, bytes))
        .collect();
    repeats.sort_by(|a, b| b.2.total_cmp(&a.2));
    Ok(Why {
        plan: plan.version(),
        path: path.id.0,
        hops,
        uncached: 1.0 - path.covered() as f64 / SPACE as f64,
        volume: rates.map(|rates| rates.volumes.get(&egress).copied().unwrap_or(0.0)),
        repeats,
    })
}
