use super::gather::{MOST_POPS, gather};
use super::place::place;
use super::{Map, MapDevice, MapLink, MapNode, render};

/// A map of cities: name, latitude and longitude. Each has `access` routers beside its core router,
/// and each cable is a link in both directions.
fn map(cities: &[(&str, f64, f64)], cables: &[(u32, u32)], access: u32) -> Map {
    let mut map = Map::default();
    let link = |from, to, bytes| MapLink {
        from,
        to,
        before: bytes,
        after: bytes / 2.0,
        ..MapLink::default()
    };
    for (pop, &(label, latitude, longitude)) in cities.iter().enumerate() {
        let core = map.nodes.len() as u32;
        for router in 0..=access {
            let label =
                if router == 0 { label.to_owned() } else { format!("{label} access {router}") };
            let position = Some([latitude, longitude]);
            map.nodes.push(MapNode {
                label,
                pop: pop as u32,
                core: router == 0,
                position,
                volume: 1e6,
                ..MapNode::default()
            });
            let share = f64::from(pop as u32 * 10 + router) / 100.0;
            map.devices.push(MapDevice {
                node: core + router,
                cache_use: Some(share),
                operations_use: Some(share / 2.0),
            });
        }
        for router in 1..=access {
            map.links.extend([link(core, core + router, 1e6), link(core + router, core, 1e6)]);
        }
    }
    for (at, &(a, b)) in cables.iter().enumerate() {
        let (a, b) = (a * (access + 1), b * (access + 1));
        map.links.extend([link(a, b, 1e9 + at as f64), link(b, a, 2e9 + at as f64)]);
    }
    map
}

#[test]
fn the_map_is_cut_at_the_widest_gap() {
    // Across the date line the three are neighbors, in that order.
    let cities = [("Suva", -18.1, 178.4), ("Apia", -13.8, -171.8), ("Sydney", -33.9, 151.2)];
    let (mut pops, wires, mut notes) = gather(&map(&cities, &[(0, 1), (0, 2)], 0));
    place(&mut pops, &wires, &mut notes);
    assert!(pops[2].x < pops[0].x && pops[0].x < pops[1].x);
    assert!(pops[1].y < pops[0].y && pops[0].y < pops[2].y);
}

#[test]
fn access_routers_are_folded_into_their_pop() {
    let cities = [("A, here", 40.0, -100.0), ("B, there", 41.0, -90.0), ("A, there", 30.0, -95.0)];
    let (pops, wires, notes) = gather(&map(&cities, &[(0, 1), (1, 2)], 4));
    assert_eq!(notes, Vec::<String>::new());
    // Two cities of one name have their full names.
    assert_eq!(
        pops.iter().map(|pop| &pop.name[..]).collect::<Vec<_>>(),
        ["A, here", "B", "A, there"]
    );
    assert!(pops.iter().all(|pop| pop.routers == 5 && pop.inside == 8));
    assert_eq!(wires.iter().map(|wire| wire.ends).collect::<Vec<_>>(), [[0, 1], [1, 2]]);
    assert_eq!([wires[0].loads[0].before, wires[0].loads[1].before], [1e9, 2e9]);
    assert_eq!((pops[1].cache_use, pops[1].operations_use), (Some(0.14), Some(0.07)));
}

#[test]
fn pops_at_one_place_are_moved_apart() {
    let cities = [("0", 50.0, 8.0), ("1", 50.0, 8.0), ("2", 50.0, 8.0), ("3", 50.0, 8.0)];
    let (mut pops, wires, mut notes) = gather(&map(&cities, &[(0, 1), (1, 2), (2, 3)], 0));
    place(&mut pops, &wires, &mut notes);
    for a in 0..4 {
        for b in 0..a {
            assert!(
                (pops[a].x - pops[b].x).hypot(pops[a].y - pops[b].y) > pops[a].radius,
                "{a} {b}"
            );
        }
    }
}

#[test]
fn of_a_huge_network_the_largest_part_is_drawn() {
    let node = |at: u32| MapNode {
        id: at.to_string(),
        pop: at,
        core: true,
        position: at.is_multiple_of(2).then_some([f64::from(at % 90), f64::from(at % 360)]),
        volume: f64::from(at),
        ..MapNode::default()
    };
    let map = Map { nodes: (0..3_000).map(node).collect(), ..Map::default() };
    let (drawing, notes) = render(&map);
    let drawing = drawing.into_string();
    assert_eq!(notes[0], "The map shows the 1,000 PoPs with the most traffic, of 3,000.");
    assert_eq!(drawing.matches("class=\"dot\"").count(), MOST_POPS + 2, "two are in the legend");
    assert!(drawing.contains(">2999</text>") && !drawing.contains(">1999</text>"));
}

#[test]
fn the_buttons_have_the_names_of_the_views() {
    let mut map = map(&[("A", 40.0, -100.0), ("B", 41.0, -90.0)], &[(0, 1)], 0);
    map.views = ["Shortest paths", "<These> routes"];
    let page = render(&map).0.into_string();
    assert!(page.contains("Shortest paths</label>"), "{page}");
    assert!(page.contains("&lt;These&gt; routes</label>"), "{page}");
}
