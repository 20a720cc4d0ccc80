use proptest::prelude::*;

use super::*;
use crate::{Bytes, NodeId, Unwatched, network::Node, testing};

/// PoPs A (population 1), B (2), C (4) in a row, with two access routers each.
fn row() -> Network {
    let text = r#"{"name":"row","nodes":[{"id":"A","population":1},{"id":"B","population":2},{"id":"C","population":4}],
        "links":[{"a":"A","b":"B"},{"a":"B","b":"C"}],"demands":[["A","C",8],["B","A",4],["C","B",0]]}"#;
    crate::topology::json(text).unwrap().with_access_routers(2).unwrap()
}

fn volumes(network: &Network, matrix: &[Demand]) -> BTreeMap<String, f64> {
    let id = |node: NodeId| &network.nodes[node].id;
    matrix
        .iter()
        .map(|demand| (format!("{} {}", id(demand.from), id(demand.to)), demand.volume))
        .collect()
}

#[test]
fn gravity_is_the_product_of_populations_in_equal_parts() {
    let network = row();
    let matrix = gravity(&network).unwrap();
    assert_eq!(matrix.len(), 24);
    let volumes = volumes(&network, &matrix);
    assert_eq!((volumes["A/1 B/2"], volumes["C/2 B/1"], volumes["C/1 A/1"]), (0.5, 2.0, 1.0));
    let pop = |node: NodeId| network.nodes[node].pop;
    let between = |a: u32, b: u32| -> f64 {
        matrix
            .iter()
            .filter(|demand| (pop(demand.from), pop(demand.to)) == (a, b))
            .map(|demand| demand.volume)
            .sum()
    };
    assert_eq!((between(0, 1), between(1, 2), between(2, 0)), (2.0, 8.0, 4.0));
}

#[test]
fn gravity_needs_populations() {
    let mut network = row();
    network.nodes.iter_mut().filter(|node| node.pop == 1).for_each(|node| node.population = None);
    let message = gravity(&network).unwrap_err().to_string();
    assert_eq!(message, "traffic: the population of B/1 is unknown; gravity needs it");
    let network = network.without_unpopulated();
    assert_eq!(gravity(&network).unwrap().len(), 8);
    assert_eq!(network.derivation[1], "no traffic at 2 nodes without a population: B/1; B/2");
    let mut network = row();
    network.nodes[3].population = Some(f64::NAN);
    assert!(gravity(&network).unwrap_err().to_string().contains("the population of A/1 is NaN"));
    network.nodes.iter_mut().for_each(|node| node.population = None);
    assert!(
        gravity(&network.without_unpopulated())
            .unwrap_err()
            .to_string()
            .contains("at least two PoPs")
    );
}

#[test]
fn demands_divide_over_access_routers() {
    let network = row();
    let matrix = demands(&network).unwrap();
    let volumes = volumes(&network, &matrix);
    assert_eq!(volumes.len(), 12);
    assert_eq!((volumes["A/1 C/2"], volumes["B/2 A/1"], volumes["C/1 B/1"]), (2.0, 1.0, 0.0));
    let mut network = row();
    network.demands[0].from = NodeId(99);
    assert_eq!(
        demands(&network).unwrap_err().to_string(),
        "traffic: there is no node 99: there are 9"
    );
    network.demands.clear();
    assert_eq!(demands(&network).unwrap_err().to_string(), "traffic: row came without demands");
}

#[test]
fn a_matrix_is_read_and_checked() {
    let network = row();
    let matrix_of = |text: &str| matrix(&network, text).map(|matrix| volumes(&network, &matrix));
    let volumes = matrix_of("# from to volume\nA/1 -> C/1 3\nA\tC/1\t8\nA/1 A/2 1\n").unwrap();
    assert_eq!((volumes["A/1 C/1"], volumes["A/2 C/1"], volumes["A/1 A/2"]), (7.0, 4.0, 1.0));
    for (text, part) in [
        ("", "the matrix is empty"),
        ("# nothing", "the matrix is empty"),
        ("A B", "line 1: A B where 'from to volume' should be"),
        ("A B 1 2", "where 'from to volume' should be"),
        ("A B x", "line 1: x is not a volume"),
        ("A B 1\nA Z 1", "line 2: unknown node Z in row"),
        ("A A 1", "line 1: traffic from A to itself"),
        ("A B 1\n\nA B 2", "line 3: a second volume from A to B; the first is on line 1"),
        ("A B NaN", "line 1: a volume of NaN from A to B"),
        ("A B -1", "line 1: a volume of -1 from A to B"),
        ("A B inf", "a volume of inf"),
        ("A B 0\nB A 0", "all volumes are 0"),
    ] {
        let message = matrix_of(text).unwrap_err().to_string();
        assert!(message.contains(part) && !message.contains('\n'), "{message} / {part}");
    }
    let mut network = row();
    for node in &mut network.nodes {
        if node.pop == 1 {
            node.role = Role::Backbone;
        }
    }
    assert_eq!(
        matrix(&network, "A B 1").unwrap_err().to_string(),
        "traffic: line 1: B forwards traffic only"
    );
}

#[test]
fn scales_are_what_they_say() {
    let network = row();
    let provision = Provision::default();
    let full = 3e9;
    let assigned = |scale: Scale| {
        let paths = routing::shortest_paths(&network, &Unwatched).unwrap();
        let routes =
            assign(&network, paths, &gravity(&network).unwrap(), scale, &provision).unwrap();
        let mut ingresses: BTreeMap<u32, f64> = BTreeMap::new();
        routes.iter().for_each(|route| *ingresses.entry(route.from.0).or_default() += route.volume);
        ingresses.into_values().collect::<Vec<_>>()
    };
    let near = |volumes: Vec<f64>, wanted: [f64; 6]| {
        assert!(
            volumes
                .iter()
                .zip(wanted)
                .all(|(volume, wanted)| (volume / wanted - 1.0).abs() < 1e-12),
            "{volumes:?}"
        );
    };
    // A sends 6 to B and C, B 10, C 12.
    near(assigned(Scale::Given), [3.0, 3.0, 5.0, 5.0, 6.0, 6.0]);
    near(assigned(Scale::Total(Bytes(56.0))), [6.0, 6.0, 10.0, 10.0, 12.0, 12.0]);
    let half = full / 2.0;
    near(
        assigned(Scale::LargestIngress(0.5)),
        [half / 2.0, half / 2.0, half * 5.0 / 6.0, half * 5.0 / 6.0, half, half],
    );
    near(assigned(Scale::EqualIngress(0.5)), [half; 6]);
}

#[test]
fn what_cannot_be_assigned_is_refused() {
    let network = row();
    let refused = |matrix: &[Demand], scale: Scale, part: &str| {
        let paths = routing::shortest_paths(&network, &Unwatched).unwrap();
        let message =
            assign(&network, paths, matrix, scale, &Provision::default()).unwrap_err().to_string();
        assert!(message.contains(part), "{message} / {part}");
    };
    let demand =
        |from: u32, to: u32, volume: f64| Demand { from: NodeId(from), to: NodeId(to), volume };
    refused(&[], Scale::Given, "all volumes are 0");
    refused(&[demand(3, 5, 0.0)], Scale::Given, "all volumes are 0");
    refused(&[demand(3, 5, f64::NAN)], Scale::Given, "a volume of NaN from A/1 to B/1");
    refused(
        &[demand(3, 5, 1.0), demand(0, 1, 1.0)],
        Scale::Given,
        "traffic from A to B, but no path",
    );
    refused(&[demand(3, 99, 1.0)], Scale::Given, "traffic from A/1 to 99, but no path");
    for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(&[demand(3, 5, 1.0)], Scale::LargestIngress(load), "must be above 0");
        refused(&[demand(3, 5, 1.0)], Scale::Total(Bytes(load)), "must be above 0");
    }
    refused(&[demand(3, 5, f64::MAX), demand(3, 5, f64::MAX)], Scale::Given, "overflows");
    // Two of one pair add up; pairs without traffic have no route.
    let paths = routing::shortest_paths(&network, &Unwatched).unwrap();
    let routes = assign(
        &network,
        paths,
        &[demand(3, 5, 1.0), demand(3, 5, 2.0)],
        Scale::Given,
        &Provision::default(),
    )
    .unwrap();
    assert_eq!(
        routes.iter().map(|route| (route.from.0, route.to.0, route.volume)).collect::<Vec<_>>(),
        [(3, 5, 3.0)]
    );
}

proptest! {
    /// Access routers share what their PoP has, whatever the network.
    #[test]
    fn router_level_adds_up_to_pop_level(network in testing::networks::network(), routers in 1..5_u32) {
        let sums = |network: &Network| -> BTreeMap<(u32, u32), f64> {
            let pop = |node: NodeId| network.nodes[node].pop;
            let mut sums = BTreeMap::new();
            for demand in gravity(network).unwrap() {
                *sums.entry((pop(demand.from), pop(demand.to))).or_default() += demand.volume;
            }
            sums
        };
        let (pops, all) = (sums(&network), sums(&network.with_access_routers(routers).unwrap()));
        prop_assert_eq!(pops.len(), all.len());
        for (pair, volume) in pops {
            let node = |at: u32| -> &Node { &network.nodes[at as usize] };
            prop_assert_eq!(volume, node(pair.0).population.unwrap() * node(pair.1).population.unwrap());
            prop_assert!((all[&pair] / volume - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn matrices_never_panic(text in "([ABCx#>\t -]|/1|/2|[0-9]|\n|->|NaN|1e99){0,60}") {
        let network = row();
        match matrix(&network, &text) {
            Ok(demands) => prop_assert!(demands.iter().any(|demand| demand.volume > 0.0)),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }
}
