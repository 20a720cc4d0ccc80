use proptest::prelude::*;

use super::*;
use crate::{
    Instance, Measured, NodeId, Placement, Profile, Provision, Unwatched,
    network::{Link, Node},
    testing,
};

fn node(id: &str, pop: u32, role: Role) -> Node {
    Node { id: id.into(), label: format!("the {id}"), pop, role, ..Node::default() }
}

fn link(from: u32, to: u32, weight: f64) -> Link {
    Link { from: NodeId(from), to: NodeId(to), weight, latency: 1.0, capacity: None }
}

/// a to d in a ring; the way from a to c is as long by b as by d.
fn ring() -> Network {
    let nodes =
        ["a", "b", "c", "d"].iter().zip(0..).map(|(id, pop)| node(id, pop, Role::Any)).collect();
    let links =
        (0..4).flat_map(|n| [link(n, (n + 1) % 4, 1.0), link((n + 1) % 4, n, 1.0)]).collect();
    Network { name: "ring".into(), nodes, links, ..Network::default() }
}

/// Names of the nodes on a path.
fn names(network: &Network, route: &Route) -> Vec<String> {
    let ends = route.links.iter().map(|&link| network.links[link].to);
    std::iter::once(route.from).chain(ends).map(|node| network.nodes[node].id.clone()).collect()
}

fn of(routes: &[Route], from: u32, to: u32) -> &Route {
    routes.iter().find(|route| (route.from, route.to) == (NodeId(from), NodeId(to))).unwrap()
}

#[test]
fn ties_go_to_fewer_links_then_to_the_smaller_id() {
    let mut network = ring();
    let routes = shortest_paths(&network, &Unwatched).unwrap();
    assert_eq!(routes.len(), 12);
    assert_eq!(names(&network, of(&routes, 0, 2)), ["a", "b", "c"]);
    assert_eq!(names(&network, of(&routes, 2, 0)), ["c", "b", "a"]);
    network.nodes[1].id = "x".into();
    let routes = shortest_paths(&network, &Unwatched).unwrap();
    assert_eq!(names(&network, of(&routes, 0, 2)), ["a", "d", "c"]);
    network.links.push(link(0, 2, 2.0));
    let routes = shortest_paths(&network, &Unwatched).unwrap();
    assert_eq!(names(&network, of(&routes, 0, 2)), ["a", "c"]);
    // So light that it is lost in the sum: it is a link all the same.
    network.links[0].weight = 1e300;
    network.links[2].weight = 1e-300;
    assert!(
        shortest_paths(&network, &Unwatched).unwrap().iter().all(|route| route.links.len() <= 3)
    );
}

#[test]
fn an_interruption_ends_it() {
    struct Impatient;
    impl Watch for Impatient {
        fn progress(&self, _stage: &str, _done: u64, _total: u64) {}

        fn stopped(&self) -> bool {
            true
        }
    }
    assert_eq!(shortest_paths(&ring(), &Impatient), Err(Error::Stopped));
}

#[test]
fn access_routers_send_and_receive_but_forward_nothing() {
    let mut network = ring();
    network.nodes[0].role = Role::Access;
    network.nodes[1].role = Role::Access;
    network.nodes[2].role = Role::Access;
    assert_eq!(endpoints(&network), [0, 1, 2].map(NodeId));
    let routes = shortest_paths(&network, &Unwatched).unwrap();
    assert_eq!(routes.len(), 6);
    assert_eq!(names(&network, of(&routes, 0, 2)), ["a", "d", "c"]);
    // Of one PoP.
    network.nodes[2].pop = 0;
    assert_eq!(
        pairs(&network).unwrap(),
        [(0, 1), (1, 0), (1, 2), (2, 1)].map(|(from, to)| (NodeId(from), NodeId(to)))
    );
    network.nodes[1].pop = 0;
    let message = shortest_paths(&network, &Unwatched).unwrap_err().to_string();
    assert_eq!(message, "paths: traffic needs at least two PoPs that send and receive it");
}

#[test]
fn what_cannot_be_routed_is_refused() {
    let refused = |change: fn(&mut Network), part: &str| {
        let mut network = ring();
        change(&mut network);
        let message = shortest_paths(&network, &Unwatched).unwrap_err().to_string();
        assert!(message.contains(part), "{message} / {part}");
    };
    refused(
        |network| network.links.truncate(2),
        "no path from a to c: the network is not connected",
    );
    refused(|network| network.links[0].weight = f64::NAN, "the link a -> b has weight NaN");
    refused(|network| network.links[0].weight = 0.0, "the link a -> b has weight 0");
    refused(
        |network| network.links[0].to = NodeId(9),
        "a link from node 0 to 9, but there are 4 nodes",
    );
    refused(|network| network.nodes.clear(), "at least two PoPs");
    let message = shortest_paths_between(&ring(), &[(NodeId(1), NodeId(1))], &Unwatched)
        .unwrap_err()
        .to_string();
    assert_eq!(message, "paths: a path from b to itself");
    assert!(shortest_paths_between(&ring(), &[(NodeId(1), NodeId(4))], &Unwatched).is_err());
    let mut large = Network {
        nodes: (0..4000).map(|n| node(&n.to_string(), n, Role::Any)).collect(),
        ..Network::default()
    };
    assert!(pairs(&large).unwrap_err().to_string().contains("make 15996000 paths"));
    large.nodes.truncate(2);
    assert_eq!(pairs(&large).unwrap().len(), 2);
}

#[test]
fn given_paths_are_checked() {
    let mut network = ring();
    let routes =
        given(&network, "# a comment\n\nc the\tx\n".replace("c the\tx", "c -> d -> a").as_str())
            .unwrap();
    assert_eq!(names(&network, &routes[0]), ["c", "d", "a"]);
    let routes = given(&network, "d a\na b\nthe a\tthe d\tthe c\n").unwrap();
    assert_eq!(
        routes.iter().map(|route| (route.from.0, route.to.0)).collect::<Vec<_>>(),
        [(0, 1), (0, 2), (3, 0)]
    );
    assert_eq!(names(&network, &routes[1]), ["a", "d", "c"]);
    let refused = |network: &Network, text: &str, part: &str| {
        let message = given(network, text).unwrap_err().to_string();
        assert!(message.contains(part) && !message.contains('\n'), "{message} / {part}");
    };
    refused(&network, "", "no paths in the text");
    refused(&network, "a b\na x", "line 2: unknown node x");
    refused(&network, "a", "line 1: a path of a alone");
    refused(&network, "a c", "line 1: there is no link a -> c");
    refused(&network, "a b c d a", "line 1: the path loops: it visits a twice");
    refused(&network, "a b\na b", "line 2: a second path from a to b; the first is on line 1");
    network.nodes[1].role = Role::Backbone;
    refused(&network, "a b", "line 1: b forwards traffic only");
    for (number, role) in [(0, Role::Access), (1, Role::Access), (2, Role::Access)] {
        network.nodes[number].role = role;
    }
    refused(&network, "a b c", "line 1: b is an access router");
    network.nodes[2].label = "the a".into();
    refused(&network, "b\tthe a", "line 1: the a is the label of several nodes");
}

/// Lowest sum of weights, then fewest links, from one node to all: Bellman and Ford's rounds.
fn lengths(network: &Network, from: NodeId) -> Vec<(f64, u32)> {
    let mut lengths = vec![(f64::INFINITY, u32::MAX); network.nodes.len()];
    lengths[from] = (0.0, 0);
    for _ in 0..network.nodes.len() {
        for link in &network.links {
            let (weight, links) = lengths[link.from];
            if links != u32::MAX && (weight + link.weight, links + 1) < lengths[link.to] {
                lengths[link.to] = (weight + link.weight, links + 1);
            }
        }
    }
    lengths
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn paths_are_shortest_and_make_trees(network in testing::networks::network()) {
        let routes = shortest_paths(&network, &Unwatched).unwrap();
        let count = network.nodes.len();
        prop_assert_eq!(routes.len(), count * (count - 1));
        prop_assert!(routes.is_sorted_by_key(|route| (route.from, route.to)));
        for from in 0..count as u32 {
            let lengths = lengths(&network, NodeId(from));
            for route in routes.iter().filter(|route| route.from == NodeId(from)) {
                let weight: f64 = route.links.iter().map(|&link| network.links[link].weight).sum();
                prop_assert_eq!((weight, route.links.len() as u32), lengths[route.to]);
                // The last but one node is the smallest of those on a path of that length.
                let last = network.links[route.links[route.links.len() - 1]];
                for link in network.links.iter().filter(|link| link.to == route.to) {
                    let (weight, links) = lengths[link.from];
                    if (weight + link.weight, links + 1) == lengths[route.to] {
                        let id = |node: NodeId| &network.nodes[node].id;
                        prop_assert!(compare_ids(id(last.from), id(link.from)).is_le());
                    }
                }
            }
        }
        // Broken, cyclic or meeting again: Instance::new would say so.
        let mut routes = routes;
        routes.iter_mut().for_each(|route| route.volume = 1.0);
        let profile = Profile::Measured(Measured::default());
        let instance = Instance::new(network, routes, &Provision::default(), &Placement::Links, profile);
        prop_assert!(instance.is_ok(), "{:?}", instance.err());
    }

    #[test]
    fn order_in_the_file_does_not_matter(network in testing::networks::network(), seed in any::<u64>()) {
        let mut state = seed | 1;
        let mut shuffled = |count: usize| -> Vec<usize> {
            let mut order: Vec<usize> = (0..count).collect();
            for at in (1..count).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                order.swap(at, (state >> 33) as usize % (at + 1));
            }
            order
        };
        let nodes = shuffled(network.nodes.len());
        let links = shuffled(network.links.len());
        let new_number = |old: u32| nodes.iter().position(|&node| node == old as usize).unwrap() as u32;
        let other = Network {
            nodes: nodes.iter().map(|&node| network.nodes[node].clone()).collect(),
            links: links
                .iter()
                .map(|&number| {
                    let link = network.links[number];
                    Link { from: NodeId(new_number(link.from.0)), to: NodeId(new_number(link.to.0)), ..link }
                })
                .collect(),
            ..Network::default()
        };
        let all = |network: &Network| -> Vec<Vec<String>> {
            let mut all: Vec<_> = shortest_paths(network, &Unwatched).unwrap().iter().map(|route| names(network, route)).collect();
            all.sort();
            all
        };
        prop_assert_eq!(all(&network), all(&other));
    }

    #[test]
    fn given_paths_never_panic(text in "([abcdx#>\t -]|the |\n|->){0,60}") {
        if let Err(error) = given(&ring(), &text) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    /// The shortest paths written out and read again.
    #[test]
    fn paths_survive_as_text(network in testing::networks::network()) {
        let routes = shortest_paths(&network, &Unwatched).unwrap();
        let text: Vec<String> = routes.iter().rev().map(|route| names(&network, route).join(" ")).collect();
        prop_assert_eq!(given(&network, &text.join("\n")).unwrap(), routes);
    }
}
