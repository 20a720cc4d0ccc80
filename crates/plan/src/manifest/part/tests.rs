use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::control::{Means, Question};
use crate::manifest::Plan;
use crate::{HeaderHash, Network, Unwatched, topology};

/// A ring with a chord and a tail.
const MAP: &str = r#"{"name": "ring",
    "nodes": [{"id": "A"}, {"id": "B"}, {"id": "C"}, {"id": "D"}, {"id": "E"}],
    "links": [{"a": "A", "b": "B"}, {"a": "B", "b": "C"}, {"a": "C", "b": "D"}, {"a": "D", "b": "A"},
        {"a": "A", "b": "C", "weight": 1.5}, {"a": "D", "b": "E"}]}"#;

fn network() -> Network {
    topology::json(MAP).unwrap()
}

/// A plan with these links down, in which two nodes cache each path that passes two. B only passes
/// packets on.
fn plan(down: &[(u32, u32)]) -> Plan {
    let means = |at: usize| Means { is_end: at != 1, memory: 300_000, ..Means::default() };
    let question = Question {
        network: network(),
        nodes: (0..5).map(means).collect(),
        down: down.iter().copied().collect(),
        old: None,
        version: 7,
        gain: 0.01,
    };
    let plan = question.answer(&Unwatched).unwrap().plan;
    let mut document: serde_json::Value = serde_json::from_str(&plan.to_json()).unwrap();
    for what in ["devices", "ingresses"] {
        for one in document[what].as_array_mut().unwrap() {
            one["memory"] = serde_json::Value::Null;
        }
    }
    for path in document["paths"].as_array_mut().unwrap() {
        let (id, hops) = (path["path"].as_u64().unwrap(), path["hops"].as_array().unwrap().len());
        if hops > 1 {
            let ranges = [[0, 1000 + id, 100 + id], [hops as u64 - 1, 3000 - id, 200 + id]];
            path["ranges"] = serde_json::json!(ranges);
        }
    }
    Plan::from_json(&document.to_string()).unwrap()
}

fn parts(plan: &Plan) -> Vec<NodePart> {
    let parts = Parts::new(plan, u64::MAX, &network()).unwrap();
    NodeId::first(5).map(|node| parts.part(node)).collect()
}

/// The parts of all nodes have what the plan's manifests have, and the same ways.
#[test]
fn parts_say_what_the_manifests_say() {
    for down in [&[][..], &[(0, 1)], &[(2, 3), (0, 3)]] {
        let plan = plan(down);
        let network = network();
        let name = |node: NodeId| network.nodes[node].id.as_str();
        let is_split = plan.paths().iter().any(|path| path.ranges.len() > 1);
        assert!(is_split || down.len() == 2, "no path with two ranges");
        let mut seen = 0;
        for part in parts(&plan) {
            let me = name(part.node);
            assert_eq!((part.version, part.digest), (7, u64::MAX));
            let device = plan.device_manifests().into_iter().find(|one| one.name() == me);
            let entries = part.device_manifest().unwrap();
            assert_eq!(entries.entries(), device.unwrap().entries(), "{me}");
            let ingress = plan.ingress_manifests().into_iter().find(|one| one.name() == me);
            let own = part.ingress_manifest().unwrap();
            assert_eq!(own.is_some(), ingress.is_some(), "{me}");
            for one in &part.passing {
                let path = plan.path(one.id).unwrap();
                let mut way = vec![plan.ingresses()[path.ingress as usize].name.as_str()];
                way.extend(path.hops.iter().map(|&hop| plan.devices()[hop].name.as_str()));
                let at = way.iter().position(|node| *node == me).unwrap();
                assert_eq!((name(one.from), name(one.before)), (way[0], way[at - 1]));
                assert_eq!(one.after.map(name), way.get(at + 1).copied());
                assert!(one.has_device);
            }
            seen += part.passing.len();
            if let (Some(own), Some(ingress)) = (own, ingress) {
                assert_eq!(own.paths().len(), ingress.paths().len());
                for path in ingress.paths() {
                    let ranges = |manifest: &IngressManifest| -> Vec<(u64, u64, u64, u32)> {
                        let path = manifest.path(path.id).unwrap();
                        let depth = |node: u32| manifest.tree()[node as usize - 1].depth;
                        let of =
                            |one: &IngressRange| (one.from, one.to, one.bytes, depth(one.node));
                        path.ranges.iter().map(of).collect()
                    };
                    assert_eq!(ranges(&own), ranges(&ingress));
                    let names: Vec<&str> = part
                        .own
                        .iter()
                        .find(|one| one.id == path.id)
                        .unwrap()
                        .way
                        .iter()
                        .map(|one| name(one.0))
                        .collect();
                    let planned: Vec<&str> = ingress
                        .devices(path)
                        .iter()
                        .map(|&one| plan.devices()[one].name.as_str())
                        .collect();
                    assert_eq!(names, planned);
                    for other in ingress.paths() {
                        let overlap = |one: &IngressManifest| one.overlap(path.id, other.id);
                        assert_eq!(overlap(&own), overlap(&ingress));
                    }
                }
            }
            assert_eq!(NodePart::read(&part.write()).unwrap(), part);
        }
        assert_eq!(seen, plan.paths().iter().map(|path| path.hops.len()).sum::<usize>());
    }
}

/// A path whose devices are not in a row goes the shortest way, and the nodes between have no device.
#[test]
fn nodes_without_a_device_pass_packets_on() {
    let plan = plan(&[]);
    let text = plan.to_json();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let device = |name: &str| plan.devices().iter().position(|one| one.name == name).unwrap();
    // From C to E by D, which is not asked for.
    let from = plan.ingresses().iter().position(|one| one.name == "C").unwrap();
    for path in document["paths"].as_array_mut().unwrap() {
        if path["ingress"] == from && path["egress"] == "E" {
            path["hops"] = serde_json::json!([device("E")]);
            path["ranges"] = serde_json::json!([[0, 1000, 500]]);
        }
    }
    let plan = Plan::from_json(&document.to_string()).unwrap();
    let parts = parts(&plan);
    let passed =
        parts[3].passing.iter().find(|one| (one.from, one.after) == (NodeId(2), Some(NodeId(4))));
    assert!(passed.is_some_and(|one| !one.has_device && one.range.is_none()));
    let own = parts[2].own.iter().find(|one| one.way.last() == Some(&(NodeId(4), true))).unwrap();
    assert_eq!(own.way, [(NodeId(3), false), (NodeId(4), true)]);
    assert_eq!(own.ranges, [Range { hop: 1, from: 0, to: 1000, bytes: 500 }]);
    let manifest = parts[2].ingress_manifest().unwrap().unwrap();
    assert_eq!(manifest.holder(own.id, HeaderHash(999)), Some((0, DeviceId(4))));
    assert_eq!(NodePart::read(&parts[2].write()).unwrap(), parts[2]);
    // Devices that are nowhere on the way.
    let document =
        document.to_string().replace(&format!("[{}]", device("E")), &format!("[{}]", device("B")));
    let wrong = Plan::from_json(&document).unwrap();
    assert!(matches!(Parts::new(&wrong, 0, &network()), Err(PartError::OtherWay { .. })));
    let other = topology::json(&MAP.replace("\"E\"", "\"F\"")).unwrap();
    assert!(matches!(Parts::new(&plan, 0, &other), Err(PartError::Stranger(_))));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let plan = plan(&[]);
    let good = parts(&plan).remove(0);
    let refused = |change: &dyn Fn(&mut NodePart)| {
        let mut part = good.clone();
        change(&mut part);
        NodePart::read(&part.write()).unwrap_err().to_string()
    };
    let at = good.passing.iter().position(|one| one.range.is_some()).unwrap();
    assert!(
        refused(&|part| part.passing[at].range = Some((1 << 31, (1 << 32) + 1, 5)))
            .contains("4294967297")
    );
    assert!(refused(&|part| part.passing[at].range = Some((0, 5, 0))).contains("bucket"));
    assert!(refused(&|part| part.passing[0].id = part.own[2].id).contains("twice"));
    assert!(refused(&|part| part.own[0].way.clear()).contains("end"));
    assert!(refused(&|part| part.own[0].way = vec![(NodeId(1), true); 300]).contains("nodes"));
    let ids: BTreeSet<PathId> = good.own.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 3);
}

proptest! {
    /// Any bytes are a part or an error, and parts have one form.
    #[test]
    fn any_bytes_are_a_part_or_an_error(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>(), node in 0usize..5) {
        let good = parts(&plan(&[])).remove(node).write();
        let mut changed = good.clone();
        changed[at.index(good.len())] = byte;
        for bytes in [&changed[..], &good[..cut.index(good.len())], &[&good[..], &[0]].concat()] {
            if let Ok(part) = NodePart::read(bytes) {
                prop_assert_eq!(part.write(), bytes);
            } else {
                prop_assert!(bytes != &good[..]);
            }
        }
    }
}
