//! Metrics of the controller of a network.

use super::exposition::Families;
use crate::controller::Status;

/// Metrics `oncewire_controller_*`, in the text format of Prometheus.
pub(crate) fn of_controller(status: &Status) -> String {
    let mut families = Families::default();
    families.about(&status.version, "controller", &status.key);
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            families.gauge(&format!("oncewire_{name}"), help, &[], value);
        }
    };
    let flag = |is: bool| Some(f64::from(u8::from(is)));
    gauge("uptime_seconds", "Time since the process started.", Some(status.uptime));
    let help = "Version of the plan that is handed out; 0 without one.";
    gauge("controller_plan_version", help, Some(status.plan as f64));
    let help = "Time since the plan was made, or found good enough.";
    gauge("controller_plan_age_seconds", help, status.seconds_since_plan);
    gauge("controller_planning", "1 while a plan is being made.", flag(status.planning));
    let help = "1 if the last attempt to plan, or to store a plan, has failed.";
    gauge("controller_plan_failed", help, flag(status.failed.is_some()));
    let [before, saved] = status.footprint.map_or([None; 2], |both| both.map(Some));
    let help =
        "Bytes times links per second without the plan, with the traffic that it was made for.";
    gauge("controller_planned_bytes_links", help, before);
    let help = "Bytes times links per second that the plan is expected to save.";
    gauge("controller_planned_saved_bytes_links", help, saved);
    let rollout = status.rollout.as_ref();
    let help = "Nodes that carry out the plan alone.";
    gauge("controller_nodes_done", help, rollout.map(|rollout| rollout.done as f64));
    let help = "Time until all nodes carried out the plan alone, if they do.";
    gauge("controller_rollout_seconds", help, rollout.and_then(|rollout| rollout.seconds));
    let help = "Time from the first to the last node that had the plan.";
    gauge("controller_rollout_spread_seconds", help, rollout.and_then(|rollout| rollout.spread));
    let help = "Pairs of nodes without a way to each other.";
    gauge("controller_unreachable_pairs", help, Some(status.unreachable.len() as f64));
    let away = |node: &&crate::controller::NodeState| matches!(node.phase, "away" | "down");
    let help = "Nodes that are connected with the controller.";
    let nodes = status.nodes.len();
    let connected = nodes - status.nodes.iter().filter(away).count();
    gauge("controller_nodes_connected", help, Some(connected as f64));
    gauge("controller_nodes", "Nodes of the topology.", Some(nodes as f64));
    let sum = |of: fn(&crate::controller::LinkState) -> Option<f64>| {
        Some(status.links.iter().filter_map(of).sum())
    };
    let help = "Bytes per second on all links lately, of packets with their shims.";
    gauge("controller_links_bytes", help, sum(|link| link.bytes_per_second));
    let help = "The same without elimination.";
    gauge("controller_links_whole_bytes", help, sum(|link| link.whole_per_second));
    for node in &status.nodes {
        let labels = [("node", node.name.clone())];
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            if let Some(value) = value {
                families.gauge(&format!("oncewire_controller_node_{name}"), help, &labels, value);
            }
        };
        let help = "1 if the node is connected with the controller.";
        gauge("connected", help, flag(!matches!(node.phase, "away" | "down")));
        let help = "1 if neither the controller nor a neighbor reaches the node.";
        gauge("down", help, flag(node.phase == "down"));
        let help = "1 if the node carries out the plan alone.";
        gauge("done", help, flag(node.phase == "done"));
        gauge("refuses", "1 if the node refuses the plan.", flag(node.refused.is_some()));
        gauge("drained", "1 if the node is to be empty.", flag(node.drained));
        let help = "Neighbors that the node does not reach.";
        gauge("neighbors_down", help, Some(node.down.len() as f64));
        let help = "Time that a message to the node and its answer take.";
        gauge("round_trip_seconds", help, node.round_trip);
        let help = "Memory of the node for packets.";
        gauge("memory_bytes", help, node.memory.map(|bytes| bytes as f64));
        let help = "Bytes per second that entered at the node lately.";
        gauge("entering_bytes", help, node.bytes_per_second);
        let help = "Bytes per second of these that repeat others.";
        gauge("repeating_bytes", help, node.repeated_per_second);
        let help = "Bytes that the node caches for paths of others.";
        gauge("cached_bytes", help, node.cached_bytes.map(|bytes| bytes as f64));
        let help = "Bytes that the node's plans have for these.";
        gauge("cache_bytes", help, node.cache_bytes.map(|bytes| bytes as f64));
        let help = "Packets cached and matches decoded per second lately.";
        gauge("operations", help, node.operations_per_second);
        let help = "1 if these were more than the node can do.";
        gauge("overloaded", help, flag(node.overloaded));
    }
    families.text()
}
