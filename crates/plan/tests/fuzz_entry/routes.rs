//! The body of the fuzz target `routes`, for use in tests as well.

use oncewire_plan::{
    Network, NodeId,
    network::{Link, Node, Role},
    ra::{
        Class, Classes, Cost,
        file::{RouteFile, map_hash},
        judge::judge,
    },
};

/// A document of routes for a map of six nodes; `MAP` in it is the map's hash.
pub(crate) fn run(input: &[u8]) {
    let map = map();
    let text = String::from_utf8_lossy(input).replacen("MAP", &map_hash(&map), 1);
    let file = match RouteFile::from_json(&text, &map) {
        Ok(file) => file,
        Err(error) => {
            let error = error.to_string();
            assert!(!error.chars().any(char::is_control) && error.len() < 4000, "{error:?}");
            return;
        }
    };
    let again = RouteFile::from_json(&file.to_json(&map), &map).expect("what is written is read");
    assert_eq!(again, file);
    // The judge, which shares no code with the reader, accepts what that accepts.
    let of_ingress = file.routes.slices.chunk_by(|a, b| a.ingress == b.ingress);
    let classes = of_ingress.map(|slices| {
        let class = |egress: &NodeId| Class {
            egresses: [*egress].into(),
            bytes: 1.0,
            copies: [1.0].into(),
        };
        let classes = slices[0].paths.iter().map(|(egress, _)| class(egress)).collect();
        (slices[0].ingress, Classes::Listed(classes))
    });
    // It is stricter with sums of weights, for which texts are too short.
    if let Err(error) = judge(&map, Cost::Hops, &classes.collect::<Vec<_>>(), &file.routes, &[]) {
        assert!(error.to_string().contains("add up to"), "{error}");
    }
    assert!(file.routes.paths().iter().all(|path| !path.links.is_empty()));
}

/// 0 to 3 by 1 and by 2, then 4, and an access router behind 1.
fn map() -> Network {
    let node = |number: u32| Node {
        id: number.to_string(),
        pop: number.min(4),
        role: if number == 5 { Role::Access } else { Role::Any },
        ..Node::default()
    };
    let cables = [(0, 1), (1, 3), (0, 2), (2, 3), (3, 4), (1, 5), (5, 2)];
    let links = cables.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).map(|(from, to)| Link {
        from: NodeId(from),
        to: NodeId(to),
        weight: 1.0,
        latency: 1.0,
        capacity: None,
    });
    Network {
        name: "map".into(),
        nodes: (0..6).map(node).collect(),
        links: links.collect(),
        ..Network::default()
    }
}
