//! Random networks for property tests.

use proptest::prelude::*;

use crate::{
    Network, NodeId,
    network::{Link, Node},
};

/// Connected networks of 3 to 12 nodes, with cables of small whole weights (so that many paths are
/// equally long), each way its own.
pub(crate) fn network() -> impl Strategy<Value = Network> {
    let cable = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..4_u32, 1..4_u32);
    (3..13_u32, prop::collection::vec(cable, 12..40)).prop_map(|(count, cables)| {
        let nodes = (0..count)
            .map(|number| Node {
                // Not in the order of their numbers.
                id: format!("{}{number}", ["q", "", "a", "z"][number as usize % 4]),
                label: format!("node {number}"),
                population: Some(f64::from(number + 1)),
                pop: number,
                ..Node::default()
            })
            .collect();
        let mut links: Vec<Link> = Vec::new();
        for (number, (a, b, forth, back)) in cables.into_iter().enumerate() {
            // The first cables connect the nodes.
            let number = number as u32;
            let (from, to) = if number + 1 < count {
                (number + 1, a.index(number as usize + 1) as u32)
            } else {
                (a.index(count as usize) as u32, b.index(count as usize) as u32)
            };
            if from != to
                && !links.iter().any(|link| (link.from, link.to) == (NodeId(from), NodeId(to)))
            {
                let link = Link {
                    from: NodeId(from),
                    to: NodeId(to),
                    weight: f64::from(forth),
                    latency: 1.0,
                    capacity: None,
                };
                links.push(link);
                links.push(Link {
                    from: NodeId(to),
                    to: NodeId(from),
                    weight: f64::from(back),
                    ..link
                });
            }
        }
        Network { nodes, links, ..Network::default() }
    })
}
