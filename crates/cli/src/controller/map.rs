//! The map of a controller's page.

use super::text::line;
use oncewire_report::{Map, MapDevice, MapLink, MapNode, MapState};
use serde_json::Value;

/// The network of a controller's status: links with and without elimination, caches and states.
pub(super) fn map(status: &Value) -> Map {
    let rows = |key: &str| status[key].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| line(value.as_str().unwrap_or_default());
    let bytes = |value: &Value| value.as_f64().unwrap_or(0.0);
    let number = |value: &Value| value.as_u64().and_then(|number| number.try_into().ok());
    let node = |node: &Value| MapNode {
        id: text(&node["name"]),
        label: text(&node["label"]),
        pop: number(&node["pop"]).unwrap_or(u32::MAX),
        core: node["access"] != true,
        position: match [0, 1].map(|at| node["position"][at].as_f64()) {
            [Some(latitude), Some(longitude)] => Some([latitude, longitude]),
            _ => None,
        },
        volume: bytes(&node["bytes_per_second"]) + bytes(&node["leaving_per_second"]),
        state: state(node),
    };
    let link = |link: &Value| {
        let (before, after) = (bytes(&link["whole_per_second"]), bytes(&link["bytes_per_second"]));
        let capacity = link["capacity"].as_f64();
        MapLink {
            from: number(&link["from"]).unwrap_or(u32::MAX),
            to: number(&link["to"]).unwrap_or(u32::MAX),
            before,
            after,
            utilization: [before, after].map(|rate| capacity.map(|most| rate / most)),
            is_down: link["down"] == true,
        }
    };
    let share = |part: &Value, whole: &Value| match (part.as_f64(), whole.as_f64()) {
        (Some(part), Some(whole)) if whole > 0.0 => Some(part / whole),
        _ => None,
    };
    let device = |(at, node): (u32, &Value)| MapDevice {
        node: at,
        cache_use: share(&node["cached_bytes"], &node["cache_bytes"]),
        operations_use: share(&node["operations_per_second"], &node["operations_limit"]),
    };
    Map {
        nodes: rows("nodes").iter().map(node).collect(),
        links: rows("links").iter().map(link).collect(),
        devices: (0..).zip(rows("nodes")).map(device).collect(),
        views: ["Without elimination", "As sent"],
        per: "second",
    }
}

fn state(node: &Value) -> MapState {
    match node["phase"].as_str() {
        Some("down") => MapState::Down,
        _ if node["overloaded"] == true => MapState::Overloaded,
        Some("away") => MapState::Away,
        _ if node["drained"] == true => MapState::Drained,
        _ => MapState::Normal,
    }
}

/// Bytes per second on all links, as they are and without elimination; none before anything was
/// measured.
pub(super) fn carried(status: &Value) -> Option<(f64, f64)> {
    let links = status["links"].as_array()?;
    let sum = |key: &str| links.iter().filter_map(|link| link[key].as_f64()).sum::<f64>();
    let (sent, whole) = (sum("bytes_per_second"), sum("whole_per_second"));
    (whole > 0.0).then_some((sent, whole))
}

/// What links carry beside what they would without elimination.
pub(super) fn beside(sent: f64, whole: f64) -> String {
    let saved = 100.0 * (1.0 - sent / whole);
    let word = if saved < 0.0 { "more" } else { "less" };
    format!("{:.1} % {word} than without elimination", saved.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// States that are worse come first; numbers that are missing leave nothing but their part out.
    #[test]
    fn a_map_has_what_a_status_says() {
        let node = |name: &str, phase: &str, drained: bool, overloaded: bool| {
            json!({"name": name, "label": "X\u{1b}", "phase": phase, "drained": drained, "overloaded": overloaded,
                "position": [1.5, -2.0], "pop": 3, "bytes_per_second": 5.0, "leaving_per_second": 2.0,
                "cached_bytes": 1, "cache_bytes": 4, "operations_per_second": 9.0, "operations_limit": null})
        };
        let status = json!({
            "nodes": [node("A", "done", true, true), node("B", "down", true, true), node("C", "away", true, false),
                node("D", "done", true, false), node("E", "has the plan", false, false), {}],
            "links": [
                {"from": 0, "to": 1, "down": true, "bytes_per_second": 25.0, "whole_per_second": 100.0, "capacity": 200.0},
                {"from": 1, "to": 0, "down": false, "bytes_per_second": null, "whole_per_second": null, "capacity": null}],
        });
        let map = map(&status);
        use MapState::{Away, Down, Drained, Normal, Overloaded};
        let states: Vec<MapState> = map.nodes.iter().map(|node| node.state).collect();
        assert_eq!(states, [Overloaded, Down, Away, Drained, Normal, Normal]);
        let first = &map.nodes[0];
        assert_eq!((&*first.label, first.position, first.volume), ("X ", Some([1.5, -2.0]), 7.0));
        assert_eq!((map.devices[0].cache_use, map.devices[0].operations_use), (Some(0.25), None));
        assert_eq!(map.devices[5].cache_use, None);
        let [there, back] = &map.links[..] else { panic!("{map:?}") };
        assert_eq!((there.before, there.after, there.is_down), (100.0, 25.0, true));
        assert_eq!((there.utilization, back.utilization), ([Some(0.5), Some(0.125)], [None; 2]));
        assert_eq!(carried(&status), Some((25.0, 100.0)));
        assert_eq!(carried(&json!({"links": []})), None);
        assert_eq!(beside(25.0, 100.0), "75.0 % less than without elimination");
        assert_eq!(beside(102.0, 100.0), "2.0 % more than without elimination");
        assert_eq!(super::map(&json!(null)).nodes, []);
    }
}
