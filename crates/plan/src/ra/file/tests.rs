//! Documents of routes: what is written is read, and what else there is.

use super::*;
use crate::{BitRate, Bytes, Scenario, Text, Unwatched, network::Demand, traffic::Scale};

/// From 0 to 3 by 1 and by 2, and on to 4.
fn map() -> Network {
    let mut map = crate::testing::network(5, &[(0, 1), (1, 3), (0, 2), (2, 3), (3, 4)]);
    map.name = "diamond".into();
    map
}

const EXAMPLE: &str = r#"{"format":1,"network":"diamond","map":"MAP","objective":"load","cost":"latency","interval":60.0,"value":0.5,"bound":0.25,"slices":[{"ingress":"0","weight":0.25,"prefixes":["10.0.0.0/8","2001:db8::/32"],"paths":[["0","1"],["0","1","3"],["0","1","3","4"]]},{"ingress":"0","weight":0.75,"prefixes":["192.0.2.7/32"],"paths":[["0","1"],["0","2","3"],["0","2","3","4"]]},{"ingress":"3","weight":1.0,"prefixes":[],"paths":[["3","4"]]}]}"#;

fn example() -> String {
    EXAMPLE.replace("MAP", &map_hash(&map()))
}

#[test]
fn what_is_written_is_read() {
    let map = map();
    let file = RouteFile::from_json(&example(), &map).unwrap();
    assert_eq!(file.to_json(&map), example());
    assert_eq!((file.goal, file.cost, file.gap()), (Goal::Load, Cost::Latency, 0.5));
    let numbers: Vec<_> = file.routes.paths().iter().map(|p| (p.from.0, p.slice, p.to.0)).collect();
    let of = |from, slice, to: &[u32]| to.iter().map(|&to| (from, slice, to)).collect::<Vec<_>>();
    assert_eq!(numbers, [of(0, 0, &[1, 3, 4]), of(0, 1, &[1, 3, 4]), of(3, 0, &[4])].concat());
}

#[test]
fn bad_documents_are_refused_in_words() {
    let cases: &[(&str, &str, &str)] = &[
        (r#"{"format":1"#, r#"{"format":2"#, "routes of format 2; this program reads format 1"),
        (r#""format":1,"#, "", "not a document of routes: missing field `format`"),
        (r#""interval""#, r#""colour":1,"interval""#, "unknown field `colour`"),
        (r#""interval""#, "\"a\\u001b\\n\":1,\"interval\"", "unknown field `a  `"),
        ("\"load\"", "\"speed\"", "unknown variant `speed`"),
        (r#""interval":60.0"#, r#""interval":0"#, "the interval is 0; it must be above 0 s"),
        (r#""value":0.5"#, r#""value":-1"#, "the value is -1; it must be 0 or more"),
        (r#""bound":0.25"#, r#""bound":0.75"#, "the bound is 0.75; it must be from 0 to the value"),
        (r#""weight":0.25"#, r#""weight":0"#, "the weight of a slice is 0"),
        (r#""weight":0.25"#, r#""weight":0.2"#, "weights that add up to 0.95, not 1"),
        (r#"["0","1"],["0","1","3"]"#, r#"["0","x"],["0","1","3"]"#, "the map has no node x"),
        (r#"["0","1","3"],"#, r#"["0","3"],"#, "the map has no link 0 -> 3"),
        (r#"["3","4"]]"#, r#"["4"]]"#, "a path of 3 that does not begin there"),
        (r#"["3","4"]]"#, r#"[]]"#, "a path of 3 that does not begin there"),
        (r#"["0","1","3","4"]"#, r#"["0","2","3","4"]"#, "paths of 0 come to 3 by two links"),
        (r#"["0","1","3","4"]"#, r#"["0","1","0","2"]"#, "paths of 0 come to 0 by two links"),
        (
            r#"["0","1"],["0","1","3"]"#,
            r#"["0","1","3"],["0","1","3"]"#,
            "two paths of a slice from 0 to 3",
        ),
        (
            r#"["0","1"],["0","2","3"]"#,
            r#"["0","2","3"]"#,
            "of the slices of 0, only some lead to 1",
        ),
        ("192.0.2.7/32", "10.9.9.9/8", "the prefix 10.0.0.0/8 is listed twice for 0"),
        ("192.0.2.7/32", "192.0.2.7/33", "192.0.2.7/33 is not a prefix"),
        ("192.0.2.7/32", "192.0.2.7/+3", "192.0.2.7/+3 is not a prefix"),
    ];
    for (from, to, expected) in cases {
        let changed = example().replacen(from, to, 1);
        assert_ne!(changed, example(), "{from}");
        let error = RouteFile::from_json(&changed, &map()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let none = example().split("\"slices\"").next().unwrap().to_owned() + "\"slices\":[]}";
    assert_eq!(RouteFile::from_json(&none, &map()), Err(RouteFileError::Empty));
    let mut access = map();
    access.nodes[1].role = Role::Access;
    let text = EXAMPLE.replace("MAP", &map_hash(&access));
    let error = RouteFile::from_json(&text, &access).unwrap_err().to_string();
    assert_eq!(error, "a path of 0 passes through the access router 1");
}

#[test]
fn a_changed_map_is_another_one() {
    type Change = fn(&mut Network);
    let changes: &[Change] = &[
        |map| map.links[0].latency += 1.0,
        |map| map.links[0].capacity = Some(BitRate(1e9)),
        |map| map.nodes[4].id = "x".into(),
        |map| map.nodes[4].role = Role::Access,
        |map| _ = map.links.pop(),
    ];
    for change in changes {
        let mut changed = map();
        change(&mut changed);
        let error = RouteFile::from_json(&example(), &changed).unwrap_err();
        assert!(matches!(error, RouteFileError::AnotherMap { .. }), "{error}");
    }
    // What routes do not depend on, and the order.
    let mut same = map();
    same.name = "diamonds".into();
    (same.nodes[2].population, same.nodes[2].role) = (Some(5.0), Role::Backbone);
    same.links.rotate_left(3);
    assert!(RouteFile::from_json(&example(), &same).is_ok());
}

#[test]
fn prefixes_are_networks() {
    let parse = |text: &str| text.parse::<Prefix>().map(|prefix| prefix.to_string());
    for (text, expected) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("1.2.3.4/0", "0.0.0.0/0"),
        ("2001:db8:1::/32", "2001:db8::/32"),
        ("::1/0", "::/0"),
    ] {
        assert_eq!(parse(text).unwrap(), expected);
    }
    for wrong in ["", "/", "10.0.0.0/", "10.0.0.0/33", "::/129", "::/999", "x/8", "10.0.0.0/8/8"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let prefix: Prefix = "10.1.0.0/16".parse().unwrap();
    let inside = |text: &str| prefix.contains(text.parse().unwrap());
    assert!(inside("10.1.255.1") && !inside("10.2.0.1") && !inside("::ffff:10.1.0.1"));
}

/// SmartRE over two trees: each carries its part of the traffic, and the emulator's ingress, the
/// program and the manifests take them.
#[test]
fn a_scenario_takes_its_paths_from_routes() {
    let mut map = map();
    map.nodes.iter_mut().for_each(|node| node.population = Some(1.0));
    let demand = |to, volume| Demand { from: NodeId(0), to: NodeId(to), volume };
    map.demands = vec![demand(1, 4.0), demand(3, 4.0), demand(4, 8.0)];
    let mut scenario = Scenario::new(Text::new("map.json", crate::topology::to_json(&map)));
    scenario.traffic = crate::scenario::TrafficSource::Demands;
    scenario.scale = Scale::Total(Bytes(16e6));
    // As it is read: `to_json` fills in latencies.
    let read = scenario.network().unwrap();
    let text = EXAMPLE.replace("MAP", &map_hash(&read));
    scenario.routes = Some(Text::new("routes.json", text.clone()));
    let instance = scenario.build(&Unwatched).unwrap();
    let found: Vec<(u16, u32, f64)> = instance
        .paths
        .iter()
        .map(|path| {
            let slice = instance.ingresses[path.ingress as usize].slice;
            (slice, path.egress.0, (path.volume / 1e6).round())
        })
        .collect();
    let expected = [(0, 1, 1.0), (0, 3, 1.0), (0, 4, 2.0), (1, 1, 3.0), (1, 3, 3.0), (1, 4, 6.0)];
    assert_eq!(found, expected);
    let outcome = crate::run(&crate::Request::new(scenario.clone()), &Unwatched).unwrap();
    assert!(outcome.evaluation.footprint.saved > 0.0);
    assert_eq!(outcome.plan.ingresses().len(), 2);

    let error = |scenario: &Scenario| scenario.build(&Unwatched).unwrap_err();
    scenario.routes = Some(Text::new("routes.json", text.replace("\"format\":1", "\"format\":7")));
    let wrong = error(&scenario);
    assert_eq!(wrong.fault(), crate::Fault::Input);
    assert!(wrong.to_string().starts_with("routes.json: routes: routes of format 7"), "{wrong}");
    scenario.routes = Some(Text::new("routes.json", example().replace(&map_hash(&map), "0")));
    assert_eq!(error(&scenario).fault(), crate::Fault::Request);
    // No path for a demand.
    map.demands.push(Demand { from: NodeId(4), to: NodeId(0), volume: 1.0 });
    scenario.topology.text = crate::topology::to_json(&map);
    scenario.routes = Some(Text::new("routes.json", text));
    assert!(error(&scenario).to_string().contains("routes.json"), "{}", error(&scenario));
}
