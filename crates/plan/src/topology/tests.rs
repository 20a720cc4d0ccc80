//! Formats and transformations on a small network. One file, because all tests use it.

use proptest::prelude::*;

use super::*;
use crate::BitRate;
use crate::network::{Role, compare_ids};

const JSON: &str = r#"{"name": "x", "asn": 7, "level": "router", "more": [1], "nodes": [
    {"id": 3, "label": "c3", "city": "C", "lat": 1.5, "lon": 2, "population": 10, "unknown": {}},
    {"id": "a", "city": "A", "lat": null, "lon": null, "population": null},
    {"id": 4, "city": "C"}],
    "links": [{"a": 3, "b": "a", "weight": 2, "weight_ba": 3, "latency_ms": 1, "capacity_kbps": 8},
              {"a": "a", "b": 4}],
    "demands": [[3, "a", 5.5], [4, 4, 1]]}"#;

/// Nodes a to d around in a ring of weight 1, e between a and c with weight 5, f at a.
fn small() -> Network {
    let names = ["a", "b", "c", "d", "e", "f"];
    let nodes: Vec<String> =
        names.iter().map(|id| format!(r#"{{"id":"{id}","population":1}}"#)).collect();
    let links = [
        ("a", "b", 1),
        ("b", "c", 1),
        ("c", "d", 1),
        ("d", "a", 1),
        ("a", "e", 5),
        ("e", "c", 5),
        ("a", "f", 1),
    ];
    let links: Vec<String> =
        links.iter().map(|(a, b, w)| format!(r#"{{"a":"{a}","b":"{b}","weight":{w}}}"#)).collect();
    let demands = r#"["a","c",4],["f","e",2],["b","d",1]"#;
    json(&format!(
        r#"{{"nodes":[{}],"links":[{}],"demands":[{demands}]}}"#,
        nodes.join(","),
        links.join(",")
    ))
    .unwrap()
}

fn ids(network: &Network) -> Vec<&str> {
    network.nodes.iter().map(|node| node.id.as_str()).collect()
}

fn message(result: Result<Network, Error>) -> String {
    let message = result.unwrap_err().to_string();
    assert!(!message.contains('\n') && message.len() < 700, "{message:?}");
    message
}

/// Ends, weight, latency and capacity of each link.
fn links(network: &Network) -> Vec<(u32, u32, f64, f64, Option<f64>)> {
    let capacity = |link: &Link| link.capacity.map(|rate| rate.0);
    let of = |link: &Link| (link.from.0, link.to.0, link.weight, link.latency, capacity(link));
    network.links.iter().map(of).collect()
}

#[test]
fn json_says_what_it_says() {
    let network = json(JSON).unwrap();
    assert_eq!((network.name.as_str(), network.asn), ("x", Some(7)));
    assert_eq!(ids(&network), ["3", "a", "4"]);
    assert_eq!(network.nodes.iter().map(|node| node.pop).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(network.nodes[0].position, Some([1.5, 2.0]));
    let values = links(&network);
    assert_eq!(
        values,
        [
            (0, 1, 2.0, 1.0, Some(8000.0)),
            (1, 0, 3.0, 1.0, Some(8000.0)),
            // Neither weight nor position.
            (1, 2, 1.0, 0.1, None),
            (2, 1, 1.0, 0.1, None)
        ]
    );
    assert_eq!(network.demands, [Demand { from: NodeId(0), to: NodeId(1), volume: 5.5 }]);
    assert_eq!(json(&to_json(&network)).unwrap(), network);
}

#[test]
fn json_refuses_what_makes_no_sense() {
    let with = |nodes: &str, links: &str, demands: &str| {
        message(json(&format!(
            r#"{{"nodes":[{{"id":1}},{{"id":"b"}}{nodes}],"links":[{links}],"demands":[{demands}]}}"#
        )))
    };
    let cases = [
        (message(json("")), "not our JSON form: EOF"),
        (message(json("{\n\"nodes\": [}")), "line 2 column 11"),
        (message(json(r#"{"nodes":[],"links":[]}"#)), "there are no nodes"),
        (message(json(&"[".repeat(100_000))), "not our JSON form"),
        (with(r#",{"id":"1"}"#, "", ""), "node number 3: a second node 1"),
        (with(r#",{"id":""}"#, "", ""), "node number 3: a node with an empty id"),
        (with(r#",{"id":"x\ny"}"#, "", ""), "control characters"),
        (with(r#",{"id":"n","lat":91,"lon":0}"#, "", ""), "latitude 91"),
        (with(r#",{"id":"n","population":-1}"#, "", ""), "a population of -1"),
        (with("", r#"{"a":1,"b":"c"}"#, ""), "link number 1: unknown node c"),
        (
            with("", r#"{"a":1,"b":"b","weight":0}"#, ""),
            "the link 1 -> b has weight 0; it must be above 0",
        ),
        (with("", r#"{"a":1,"b":"b","weight":-2}"#, ""), "has weight -2"),
        (with("", r#"{"a":1,"b":"b","weight":1e999}"#, ""), "out of range"),
        (with("", r#"{"a":1,"b":"b","weight":NaN}"#, ""), "not our JSON form"),
        (with("", r#"{"a":1,"b":"b","weight_ba":-1}"#, ""), "the link b -> 1 has weight -1"),
        (with("", r#"{"a":1,"b":"b","latency_ms":-1}"#, ""), "a latency of -1 ms"),
        (with("", r#"{"a":1,"b":"b","capacity_kbps":0}"#, ""), "a capacity of 0 bit/s"),
        (with("", r#"{"a":1,"b":"b","one_way":true,"weight_ba":2}"#, ""), "one_way"),
        (with("", "", r#"[1,"z",3]"#), "demand number 1: unknown node z"),
        (with("", "", r#"[1,"b",-3]"#), "a demand of -3"),
    ];
    for (message, part) in cases {
        assert!(message.starts_with("topology: ") && message.contains(part), "{message} / {part}");
    }
}

#[test]
fn loops_go_and_parallel_links_merge() {
    let text = r#"{"nodes":[{"id":1},{"id":2}],"links":[{"a":1,"b":1},{"a":1,"b":2,"weight":3,"latency_ms":9,"capacity_kbps":1},
        {"a":2,"b":1,"weight":2,"weight_ba":4,"latency_ms":5,"capacity_kbps":2},{"a":1,"b":2,"weight":2,"latency_ms":7,"capacity_kbps":4}]}"#;
    let network = json(text).unwrap();
    let values: Vec<_> = network
        .links
        .iter()
        .map(|link| (link.from.0, link.weight, link.latency, link.capacity.map(|rate| rate.0)))
        .collect();
    assert_eq!(values, [(0, 2.0, 7.0, Some(7000.0)), (1, 2.0, 5.0, Some(7000.0))]);
    assert_eq!(
        network.derivation,
        ["links from a node to itself left out: 1", "parallel links merged: 2"]
    );
    // An unknown capacity makes the sum unknown.
    let network = json(&text.replace(r#","capacity_kbps":4"#, "")).unwrap();
    assert_eq!(network.links[0].capacity, None);
}

const GRAPHML: &str = r#"<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a "b">]>
<g:graphml xmlns:g="http://graphml.graphdrawing.org/xmlns">
<key attr.name="Latitude" for="node" id="d1"/><key attr.name="Longitude" for="node" id="d2"/><key attr.name="label" for="node" id="d3"/>
<key attr.name="LinkSpeedRaw" for="edge" id="d4"/><key attr.name="label" for="graph" id="d5"/>
<graph edgedefault="directed"><data key="d5">Net &amp; more</data>
<edge source="0" target="n&quot;1"><data key="d4">1e9</data></edge><edge source="0" target="2" directed="false"/>
<node id="0"><data key="d1">50</data><data key="d2">0</data><data key="d3">A<![CDATA[&b]]>&#x43;</data></node>
<node id="n&quot;1"><data key="d1">51</data><data key="d2">0</data></node><node id="2"/>
</graph></g:graphml>"#;

#[test]
fn graphml_says_what_it_says() {
    let network = graphml(GRAPHML).unwrap();
    assert_eq!(network.name, "Net & more");
    assert_eq!(ids(&network), ["0", "n\"1", "2"]);
    assert_eq!(network.nodes[0].label, "A&bC");
    // 1 degree is 111.2 km: weight 2, 0.556 ms.
    let link = network.links[0];
    assert_eq!(
        (link.from.0, link.to.0, link.weight, link.capacity.map(|rate| rate.0)),
        (0, 1, 2.0, Some(1e9))
    );
    assert!((link.latency - 0.556).abs() < 1e-3);
    assert_eq!(
        network.links.iter().map(|link| (link.from.0, link.to.0)).collect::<Vec<_>>(),
        [(0, 1), (0, 2), (2, 0)]
    );
    assert_eq!(json(&to_json(&network)).unwrap(), network);
    assert_eq!(
        message(network.check_connected().map(|()| network.clone())),
        "topology: 0 cannot be reached from n\"1: links lead only the other way"
    );
}

#[test]
fn hostile_xml_is_harmless() {
    let bomb = format!("<graphml>{}", "<a>".repeat(100_000));
    assert!(message(graphml(&bomb)).contains("nested deeper than 32"));
    let attributes: String = (0..100_000).map(|n| format!(" a{n}='1'")).collect();
    assert!(
        message(graphml(&format!("<graphml{attributes}/>"))).contains("more than 64 attributes")
    );
    let laughs = r#"<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml><graph><node id="1">&b;</node></graph></graphml>"#;
    assert_eq!(message(graphml(laughs)), "topology: line 1: unknown entity b");
    assert!(
        message(graphml("<graphml>\n<graph>\n<node/>\n</graph></graphml>"))
            .contains("line 3: <node> has no attribute id")
    );
    assert!(message(graphml("<graphml>\n<graph>\n</graphml>")).contains("line 3: not XML"));
    assert!(message(graphml("<graphml>\n<graph>")).contains("not XML: "));
    assert!(message(graphml("<a/>")).contains("<a> where <graphml> should be"));
    assert!(message(graphml("<a/><b/>")).contains("line 1: not XML"));
    assert!(message(sndlib("")).contains("no XML element"));
    let wrong = GRAPHML.replace("<data key=\"d1\">51<", "<data key=\"d1\">NaN<");
    assert!(message(graphml(&wrong)).contains("latitude NaN"));
    assert!(
        message(graphml(&GRAPHML.replace("1e9", "-1")))
            .contains("line 6: the link 0 -> n\"1 has a capacity of -1")
    );
    assert!(
        message(graphml(&GRAPHML.replace("target=\"2\"", "target=\"9\"")))
            .contains("line 6: unknown node 9")
    );
}

const CCH: &str = "1 @New+York,+NY + bb\t(3) &2 -> <2> <3> {-7}  =a.example r0\n2 @Boston,+MA  \t(1) -> <1>  =10.0.0.1! r0\n\
    3 @T  bb\t(2) -> <1> <4>  =b r0\n4 @New+York,+NY  \t(1) -> <3> =c r0\n-7 =9.9.9.9 r1\n";

#[test]
fn cch_says_what_it_says() {
    let network = cch(CCH).unwrap();
    assert_eq!(ids(&network), ["1", "2", "3", "4"]);
    assert_eq!(network.nodes[1].label, "10.0.0.1");
    assert_eq!(network.nodes[2].city.as_deref(), Some("New York, NY"));
    assert_eq!(network.nodes.iter().map(|node| node.pop).collect::<Vec<_>>(), [0, 1, 0, 0]);
    assert_eq!(network.links.len(), 6);
    assert_eq!(network.derivation, ["1 locations taken from neighbors"]);
    assert!(message(cch(&CCH.replace("<4>", "<5>"))).contains("line 3: unknown node 5"));
    assert!(message(cch(&CCH.replace("4 @", "1 @"))).contains("line 4: a second node 1"));
    assert!(message(cch(&CCH.replace("-> <3>", "<3>"))).contains("line 4: router 4 has no ->"));
    assert!(
        message(cch(&CCH.replace("2 @Boston", "2 Boston")))
            .contains("line 2: router 2 has no @location")
    );
    assert!(message(cch("x @y -> =z")).contains("line 1: expected a router number, found x"));
    assert!(message(cch("1 @y -> <2 =z")).contains("where a neighbor"));
    assert!(message(cch("")).contains("no nodes"));
}

const WEIGHTS: &str = "New+York,+NY1 London2 3\nLondon2 New+York,+NY1 4.5\nLondon2 London3 1\n";

#[test]
fn weights_say_what_they_say() {
    let network = weights(WEIGHTS, Some("London2 New+York,+NY1 30\nLondon3 London2 1\n")).unwrap();
    assert_eq!(ids(&network), ["New+York,+NY1", "London2", "London3"]);
    assert_eq!(network.nodes[0].city.as_deref(), Some("New York, NY"));
    assert_eq!(network.nodes.iter().map(|node| node.pop).collect::<Vec<_>>(), [0, 1, 1]);
    let values: Vec<_> = network
        .links
        .iter()
        .map(|link| (link.from.0, link.to.0, link.weight, link.latency))
        .collect();
    assert_eq!(values, [(0, 1, 3.0, 30.0), (1, 0, 4.5, 30.0), (1, 2, 1.0, 1.0), (2, 1, 1.0, 1.0)]);
    let wrong = |text: &str, latencies: Option<&str>, part: &str| {
        let message = message(weights(text, latencies));
        assert!(message.contains(part), "{message} / {part}");
    };
    wrong("a1 b2", None, "weights, line 1: a1 b2 where 'from to number' should be");
    wrong("a1 b 2", None, "weights, line 1: b is not a city and a router number");
    wrong("a1 b2 0", None, "weights, line 1: the link a1 -> b2 has weight 0");
    wrong("a1 b2 NaN", None, "has weight NaN");
    wrong("a1 b2 1\na1 b2 1", None, "weights, line 2: the link a1 -> b2 is also on line 1");
    wrong(
        WEIGHTS,
        Some("London2 London3 1"),
        "weights, line 1: the link New+York,+NY1 -> London2 has no latency",
    );
    wrong(
        WEIGHTS,
        Some("London2 Paris3 1"),
        "latencies, line 1: the link London2 -> Paris3 has no weight",
    );
}

const GRAPH: &str = "NODES 3\nlabel x y\n0_New_York -74.0 40.7\n7_B 0 51.5\nplain 0 0\n\nEDGES 5\nlabel src dest weight bw delay\n\
    e0 0 1 10 1000 28000\ne1 1 0 10 1000 28000\ne2 0 1 5 1000 29000\ne3 1 2 1 8 1\ne4 2 1 1 8 1\n";

#[test]
fn repetita_says_what_it_says() {
    let network =
        repetita(GRAPH, Some("DEMANDS 2\nlabel src dest bw\nd0 0 2 7\nd1 1 1 8\n")).unwrap();
    assert_eq!(ids(&network), ["0_New_York", "7_B", "plain"]);
    assert_eq!(network.nodes[0].city.as_deref(), Some("New York"));
    assert_eq!(network.nodes[0].position, Some([40.7, -74.0]));
    assert_eq!(network.nodes[2].position, None);
    let values = links(&network);
    assert_eq!(values[0], (0, 1, 5.0, 29.0, Some(2e6)));
    assert_eq!(values[1], (1, 0, 10.0, 28.0, Some(1e6)));
    assert_eq!(values.len(), 4);
    assert_eq!(network.demands, [Demand { from: NodeId(0), to: NodeId(2), volume: 7.0 }]);
    let wrong = |graph: &str, part: &str| {
        let message = message(repetita(graph, None));
        assert!(message.contains(part), "{message} / {part}");
    };
    wrong("", "the text ends where NODES should be");
    wrong("NODES 99999999999\nlabel x y\n", "the text ends in the middle of a list");
    wrong("NODES x\nlabel x y\n", "line 1: NODES x where 'NODES number' should be");
    wrong(&GRAPH.replace("e3 1 2", "e3 1 3"), "line 12: 3 is not one of the 3 nodes");
    wrong(
        &GRAPH.replace("e3 1 2 1 8 1", "e3 1 2 1 8"),
        "line 12: e3 1 2 1 8 where 6 fields should be",
    );
    wrong(
        &GRAPH.replace("e3 1 2 1", "e3 1 2 nan"),
        "line 12: the link 7_B -> plain has weight NaN",
    );
    wrong(&GRAPH.replace("EDGES 5", "EDGES 4"), "line 13: e4 2 1 1 8 1 after the end");
    wrong(&GRAPH.replace("plain", "7_B"), "line 5: a second node 7_B");
}

const SNDLIB: &str = r#"<?xml version="1.0" encoding="ISO-8859-1"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0"><meta><origin>test</origin></meta>
<networkStructure><nodes coordinatesType="geographical">
<node id="A"><coordinates><x>-84.38</x><y>33.75</y></coordinates></node>
<node id="B"><coordinates><x>-87.62</x><y>41.83</y></coordinates></node>
<node id="C"><coordinates><x>-87.62</x><y>41.83</y></coordinates></node></nodes>
<links><link id="1"><source>A</source><target>B</target><preInstalledModule><capacity>9920.0</capacity><cost>0.0</cost></preInstalledModule></link>
<link id="2"><source>B</source><target>C</target><routingCost>4</routingCost><additionalModules><addModule><capacity>40</capacity></addModule>
<addModule><capacity>155</capacity></addModule></additionalModules></link></links></networkStructure>
<demands><demand id="d"><source>A</source><target>C</target><demandValue>195.0</demandValue></demand></demands></network>"#;

#[test]
fn sndlib_says_what_it_says() {
    let network = sndlib(SNDLIB).unwrap();
    assert_eq!(ids(&network), ["A", "B", "C"]);
    assert_eq!(network.nodes[0].position, Some([33.75, -84.38]));
    // 943 km.
    assert_eq!((network.links[0].weight, network.links[0].capacity), (19.0, Some(BitRate(9.92e9))));
    assert_eq!((network.links[2].weight, network.links[2].capacity), (4.0, Some(BitRate(155e6))));
    assert_eq!(network.demands, [Demand { from: NodeId(0), to: NodeId(2), volume: 195.0 }]);
    assert_eq!(sndlib(&SNDLIB.replace("geographical", "pixel")).unwrap().nodes[0].position, None);
    assert!(
        message(sndlib(&SNDLIB.replace("<target>C", "<target>D")))
            .contains("line 8: unknown node D")
    );
    assert!(
        message(sndlib(&SNDLIB.replace("<demandValue>195.0</demandValue>", "")))
            .contains("line 10: a demand without demandValue")
    );
    assert!(message(sndlib(&SNDLIB.replace("155", "NaN"))).contains("a capacity of NaN"));
    assert!(
        message(sndlib(&SNDLIB.replace("<routingCost>4", "<routingCost>-4")))
            .contains("has weight -4")
    );
}

#[test]
fn formats_are_told_apart() {
    let all = [
        (Format::Json, "a.json", JSON),
        (Format::GraphMl, "a.graphml", GRAPHML),
        (Format::Cch, "1.r0.cch", CCH),
        (Format::Weights, "1.weights.intra", WEIGHTS),
        (Format::Repetita, "a.graph", GRAPH),
        (Format::Sndlib, "", SNDLIB),
    ];
    for (format, name, text) in all {
        assert_eq!(Format::detect("x", text), Ok(format));
        if !name.is_empty() {
            assert_eq!(Format::detect(name, ""), Ok(format));
        }
    }
    assert!(
        message(Format::detect("x.txt", "hello").map(|_| Network::default()))
            .contains("unknown format")
    );
}

const CITIES: &str = "geonameid\tname\tcountry\tadmin1\tlat\tlon\tpopulation\n1\tPerth\tAU\t08\t-31.95\t115.86\t2384371\n2\tPerth\tGB\tSCT\t56.4\t-3.43\t47350\n\
    3\tZürich\tCH\tZH\t47.37\t8.55\t415367\n4\tNew York City\tUS\tNY\t40.71\t-74.0\t8804190\n5\tSt. Louis\tUS\tMO\t38.63\t-90.2\t279695\n\
    6\tLondon\tCA\t08\t42.98\t-81.23\t422324\n7\tKirkwood\tUS\tMO\t38.58\t-90.4\t27000\n8\tDate Line\tFJ\t1\t-16.8\t-179.9\t100\n";

#[test]
fn cities_are_found_by_name_and_place() {
    let cities = Cities::read(CITIES).unwrap();
    let id = |name: &str| cities.find(name).map(|city| city.id).map_err(|error| error.to_string());
    for (name, number) in [
        ("Perth", 1),
        ("Perth,+Australia", 1),
        ("perth, GB", 2),
        ("Perth, UnitedKingdom", 2),
        ("Zurich", 3),
        ("New+York,+NY", 4),
        ("New York, USA", 4),
        ("NEW YORK CITY, new york", 4),
        ("Saint Louis, MO", 5),
        ("London, CA", 6),
        ("London", 6),
    ] {
        assert_eq!(id(name), Ok(number), "{name}");
    }
    assert_eq!(
        id("Perth, WA").unwrap_err(),
        "topology: the city Perth, WA is not in the table of cities"
    );
    assert_eq!(
        id("Perth, Tasmania").unwrap_err(),
        "topology: the city Perth, Tasmania: Tasmania is not a state or country"
    );
    assert!(id("").is_err() && id(",").is_err());
    assert_eq!(cities.near([38.6, -90.3]).unwrap().id, 5);
    assert_eq!(cities.near([-16.8, 179.9]).unwrap().id, 8);
    assert_eq!(cities.near([38.6, -91.3]), None);
    assert_eq!(cities.near([90.0, 0.0]), None);
    for (text, part) in [
        ("", "table is empty"),
        ("1\tx", "line 1: 1\\tx where 7 fields"),
        ("1\tx\tAU\t1\t99\t0\t5", "x is not on Earth"),
        ("1\tx\tAU\t1\t0\t0\tNaN", "a population of NaN"),
        ("z\tx\tAU\t1\t0\t0\t1", "z is not a GeoNames number"),
        ("1\tx\0\tAU\t1\t0\t0\t1", "x\\0 is too long or has control characters"),
    ] {
        let message = Cities::read(text).unwrap_err().to_string();
        assert!(message.contains(part), "{message} / {part}");
    }
}

#[test]
fn cities_complete_a_network() {
    let cities = Cities::read(CITIES).unwrap();
    let map = "1 @Perth,+Australia -> <2> =a r0\n2 @Nowhere,+MO -> <3> =b r0\n3 @Saint+Louis,+MO -> <4> =c r0\n4 @St.+Louis,+MO -> <5> =d r0\n5 @Perth,+Australia -> =e r0";
    let options = Options { cities: Some(&cities), ..Options::default() };
    assert_eq!(
        message(read(Format::Cch, map, &options)),
        "topology: node 2: the city Nowhere, MO is not in the table of cities"
    );
    let network =
        read(Format::Cch, map, &Options { unknown: Unknown::LeaveOut, ..options }).unwrap();
    assert_eq!(
        network.nodes.iter().map(|node| node.role).collect::<Vec<_>>(),
        [Role::Any, Role::Backbone, Role::Any, Role::Any, Role::Any]
    );
    assert_eq!(network.nodes[0].population, Some(2384371.0));
    // Two names of one city: one PoP.
    assert_eq!(network.nodes.iter().map(|node| node.pop).collect::<Vec<_>>(), [0, 1, 2, 2, 0]);
    assert_eq!(
        network.derivation,
        [
            "positions and populations from the table of cities",
            "no traffic at 1 unknown cities: Nowhere, MO",
            "weights and latencies from distances"
        ]
    );
    let without = small().without_unpopulated();
    assert_eq!(without, small());
    let mut some = small();
    some.nodes[1].population = None;
    let some = some.without_unpopulated();
    assert_eq!((some.nodes[1].role, some.demands.len()), (Role::Backbone, 2));
}

#[test]
fn what_is_not_connected_is_refused_or_cut() {
    let text = r#"{"nodes":[{"id":"x"},{"id":"a"},{"id":"b"}],"links":[{"a":"a","b":"b"}],"demands":[["a","b",1],["a","x",1]]}"#;
    assert_eq!(
        message(read(Format::Json, text, &Options::default())),
        "topology: a cannot be reached from x: the network is in 2 parts"
    );
    let network =
        read(Format::Json, text, &Options { largest_component: true, ..Options::default() })
            .unwrap();
    assert_eq!(ids(&network), ["a", "b"]);
    assert_eq!(
        (network.links.len(), network.demands.as_slice()),
        (2, &[Demand { from: NodeId(0), to: NodeId(1), volume: 1.0 }][..])
    );
    assert_eq!(network.nodes.iter().map(|node| node.pop).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(network.derivation, ["largest connected component: 2 of 3 nodes"]);
}

#[test]
fn degrees_choose_pops() {
    let network = small();
    // a has 4 neighbors, c 3, the others 2, f 1.
    assert_eq!(network.highest_degree(4), [0, 2, 1, 3].map(NodeId));
    let ends = network.with_endpoints(3).unwrap();
    let roles: Vec<_> = ends.nodes.iter().map(|node| node.role == Role::Any).collect();
    assert_eq!(roles, [true, true, true, false, false, false]);
    assert_eq!((ends.links.len(), ends.demands.len()), (14, 1));
    assert_eq!(
        ends.derivation,
        ["traffic between the 3 PoPs of highest degree (ties by id); 2 demands of others left out"]
    );
    assert!(message(network.with_endpoints(7)).contains("2 to 6 are possible"));
    assert!(message(network.with_endpoints(1)).contains("2 to 6 are possible"));

    let two = network.reduce(2).unwrap();
    // a and c are not neighbors: b takes c's place.
    assert_eq!(ids(&two), ["a", "b"]);
    assert!(two.derivation[0].contains("1 of them replaced"), "{:?}", two.derivation);
    let three = network.reduce(3).unwrap();
    assert_eq!((ids(&three), three.links.len(), three.demands.len()), (vec!["a", "b", "c"], 4, 1));
    assert!(!three.derivation[0].contains("replaced"));
    assert_eq!(network.reduce(6).unwrap(), network);
    assert!(message(network.reduce(0)).contains("2 to 6 are possible"));
}

#[test]
fn ids_of_digits_go_by_number() {
    let mut ids = ["b", "10", "9", "a", "09", "1a", "010"];
    ids.sort_by(|a, b| compare_ids(a, b));
    assert_eq!(ids, ["09", "9", "010", "10", "1a", "a", "b"]);
}

#[test]
fn access_routers_hang_on_their_pops() {
    let network = small().with_endpoints(2).unwrap().with_access_routers(3).unwrap();
    assert_eq!(ids(&network)[6..], ["a/1", "a/2", "a/3", "c/1", "c/2", "c/3"]);
    assert!(network.nodes[..6].iter().all(|node| node.role == Role::Backbone));
    assert!(network.nodes[6..].iter().all(|node| node.role == Role::Access));
    assert_eq!((network.nodes[9].pop, network.nodes[2].pop), (2, 2));
    assert_eq!(network.links.len(), 14 + 12);
    assert_eq!(
        network.links[14],
        Link {
            from: NodeId(6),
            to: NodeId(0),
            weight: 1.0,
            latency: ACCESS_LATENCY,
            capacity: None
        }
    );
    assert_eq!(json(&to_json(&network)).unwrap(), network);
    assert!(message(network.with_access_routers(1)).contains("has access routers already"));
    assert!(message(network.reduce(2)).contains("has access routers already"));
    assert!(message(small().with_access_routers(0)).contains("0 access routers"));
    assert!(
        message(
            json(&format!(
                r#"{{"nodes":[{}{{"id":"x"}}],"links":[]}}"#,
                (0..200).map(|n| format!(r#"{{"id":{n}}},"#)).collect::<String>()
            ))
            .unwrap()
            .with_access_routers(10_000)
        )
        .contains("10000 access routers in each of 201 PoPs are too many")
    );
    assert!(message(cch(CCH).unwrap().with_access_routers(4)).contains("reduce it to PoPs first"));
}

#[test]
fn routers_become_pops() {
    let text = r#"{"level":"router","nodes":[{"id":1,"city":"X","lat":1,"lon":1},{"id":2,"city":"X","population":5},{"id":3,"city":"Y"},{"id":4}],
        "links":[{"a":1,"b":2},{"a":1,"b":3,"weight":7,"capacity_kbps":1},{"a":3,"b":2,"weight":4,"weight_ba":9,"capacity_kbps":2},{"a":3,"b":4}],
        "demands":[[1,3,2],[2,3,3],[1,2,9]]}"#;
    let network = json(text).unwrap().to_pops();
    assert_eq!(ids(&network), ["X", "Y", "4"]);
    assert_eq!(
        (network.nodes[0].position, network.nodes[0].population),
        (Some([1.0, 1.0]), Some(5.0))
    );
    let values: Vec<_> = network
        .links
        .iter()
        .map(|link| (link.from.0, link.to.0, link.weight, link.capacity.map(|rate| rate.0)))
        .collect();
    assert_eq!(
        values,
        [
            (0, 1, 7.0, Some(3000.0)),
            (1, 0, 4.0, Some(3000.0)),
            (1, 2, 1.0, None),
            (2, 1, 1.0, None)
        ]
    );
    assert_eq!(network.demands, [Demand { from: NodeId(0), to: NodeId(1), volume: 5.0 }]);
    assert_eq!(network.derivation, ["PoP level: 3 PoPs of 4 routers"]);
}

/// Every reader on one text. What they return does not matter, only that they do, and that what
/// they accept holds together.
fn all(text: &str) {
    let cities = Cities::read(CITIES).unwrap();
    for format in [
        Format::Json,
        Format::GraphMl,
        Format::Cch,
        Format::Weights,
        Format::Repetita,
        Format::Sndlib,
    ] {
        let options = Options {
            companion: Some(text),
            cities: Some(&cities),
            unknown: Unknown::LeaveOut,
            largest_component: true,
        };
        for options in [options, Options::default()] {
            match read(format, text, &options) {
                Ok(network) => {
                    let nodes = network.nodes.len() as u32;
                    assert!(network.links.iter().all(|link| link.from < NodeId(nodes)
                        && link.to < NodeId(nodes)
                        && link.weight > 0.0));
                    assert_eq!(json(&to_json(&network)).unwrap(), network);
                    let _ = network
                        .to_pops()
                        .reduce(2)
                        .and_then(|network| network.with_access_routers(2));
                }
                Err(error) => assert!(!error.to_string().contains('\n'), "{error:?}"),
            }
        }
    }
    let _ = Cities::read(text);
    let _ = Format::detect(text, text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Pieces of good files, cut, repeated and mixed.
    #[test]
    fn no_reader_panics(which in 0..7_usize, edits in prop::collection::vec((any::<prop::sample::Index>(), 0..7_usize, any::<prop::sample::Index>(), 0..40_usize), 0..6)) {
        let texts = [JSON, GRAPHML, CCH, WEIGHTS, GRAPH, SNDLIB, CITIES];
        let mut text: Vec<char> = texts[which].chars().collect();
        for (at, from, start, length) in edits {
            let other: Vec<char> = texts[from].chars().collect();
            let start = start.index(other.len());
            let piece = other[start..(start + length).min(other.len())].to_vec();
            let at = at.index(text.len() + 1);
            let until = (at + length / 2).min(text.len());
            text.splice(at..until, piece);
        }
        all(&text.into_iter().collect::<String>());
    }

    #[test]
    fn no_reader_panics_on_noise(text in "[\\PC\n\t]{0,200}") {
        all(&text);
    }

    /// reduce keeps k nodes, connected, and the very k of highest degree if those are connected.
    #[test]
    fn reduce_keeps_the_best_that_are_connected(network in crate::testing::networks::network(), k in 2..8_usize) {
        prop_assume!(k < network.nodes.len());
        let reduced = network.reduce(k).unwrap();
        prop_assert_eq!(reduced.nodes.len(), k);
        prop_assert!(reduced.check_connected().is_ok());
        let best: Vec<&str> = network.highest_degree(k).iter().map(|&node| network.nodes[node].id.as_str()).collect();
        let mut induced = network.clone();
        induced.links.retain(|link| [link.from, link.to].iter().all(|&end| best.contains(&network.nodes[end].id.as_str())));
        if induced.largest_component().nodes.len() == k {
            prop_assert!(ids(&reduced).iter().all(|id| best.contains(id)));
        }
    }
}

#[test]
fn whatever_transformations_make_up_can_be_read_again() {
    // Three PoPs in a city with the longest name, and 12 nodes without a population.
    let city = "c".repeat(MAX_TEXT);
    let long = |n: usize| format!("{n:x>width$}", width = MAX_TEXT);
    let nodes: Vec<_> = (0..12)
        .map(|n| {
            let place = if n < 3 { format!(r#","city":"{city}""#) } else { String::new() };
            format!(r#"{{"id":"{}","label":"{city}"{place}}}"#, long(n))
        })
        .collect();
    let network = json(&format!(r#"{{"nodes":[{}],"links":[]}}"#, nodes.join(","))).unwrap();
    let same = |network: &Network| assert_eq!(json(&to_json(network)).unwrap(), *network);
    same(&network);
    same(&network.to_pops());
    same(&network.without_unpopulated());
    let refused = message(network.with_access_routers(10));
    assert!(refused.contains("longer than 256 bytes") && refused.len() < 200, "{refused}");
}

#[test]
fn a_capacity_known_in_one_direction_only_stays_so() {
    for capacity in [r#""capacity_bps":5e6"#, r#""weight":2"#] {
        let network = json(&format!(
            r#"{{"nodes":[{{"id":"a"}},{{"id":"b"}}],"links":[
                {{"a":"a","b":"b","one_way":true,{capacity}}},
                {{"a":"b","b":"a","one_way":true,"capacity_bps":7e6}},
                {{"a":"b","b":"a","one_way":true}}]}}"#,
        ))
        .unwrap();
        assert_eq!(network.links[1].capacity, None, "a sum with an unknown part is unknown");
        assert_eq!(json(&to_json(&network)).unwrap(), network);
    }
}
