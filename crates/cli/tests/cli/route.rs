//! `oncewire route`.

use crate::support::*;

/// A ring of four with a chord: `a` sends to the others; links have a latency.
const RING: &str = r#"{"name": "ring", "nodes": [
    {"id": "a", "label": "Ayton", "population": 4}, {"id": "b", "label": "Beal", "population": 3},
    {"id": "c", "label": "Crew", "population": 2}, {"id": "d", "label": "Deal", "population": 1}],
  "links": [{"a": "a", "b": "b", "latency_ms": 2}, {"a": "b", "b": "c", "latency_ms": 1},
    {"a": "c", "b": "d", "latency_ms": 1}, {"a": "a", "b": "c", "latency_ms": 2},
    {"a": "a", "b": "d", "latency_ms": 2.5}]}"#;

fn ring(dir: &Dir) -> String {
    let map = dir.join("ring.json");
    std::fs::write(&map, RING).unwrap();
    map.to_str().unwrap().to_owned()
}

fn json(map: &str, more: &[&str]) -> serde_json::Value {
    let mut all = args!["route", map, "--json"];
    all.extend(more.iter().map(Into::into));
    serde_json::from_slice(&run(all, b"").fine()).unwrap()
}

#[test]
fn routes_of_one_ingress_are_what_a_hand_finds() {
    let dir = Dir::new();
    let map = ring(&dir);
    let found = json(&map, &["--ingress", "Ayton", "--gap", "0.001%"]);
    assert_eq!(found["format"], "oncewire-route/1");
    // Pairs bc, bd, cd in proportion to 6, 3, 2 of 11; each byte twice. Shortest paths: b 2, c 2,
    // d 2.5 ms, nothing in common: nothing is saved.
    let near = |value: &serde_json::Value, wanted: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - wanted).abs() < 1e-4, "{value} {wanted}");
    };
    near(&found["verdict"]["shortest_reduction"], 0.0);
    // Without: 9 x 2 + 8 x 2 + 5 x 2.5 = 46.5. All over a-c: 11 x 2, c-b 9, c-d 5: 36.
    near(&found["verdict"]["reduction"], 1.0 - 36.0 / 46.5);
    assert!(found["solution"]["gap"].as_f64().unwrap() <= 1e-5);
    assert_eq!(found["ingresses"].as_array().unwrap().len(), 1);
    let text = run(args!["route", &map, "--ingress", "a"], b"").fine();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("22.6 %") && text.contains("SP-RE"), "{text}");
}

#[test]
fn loads_routes_and_reports_are_written() {
    let dir = Dir::new();
    let map = ring(&dir);
    let (routes, report, csv) = (dir.join("routes.json"), dir.join("r.html"), dir.join("csv"));
    let given: Vec<String> =
        [&routes, &report, &csv].iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    let load = ["--objective", "load", "--capacity", "2.5Gbit,10Gbit"];
    let files = ["--routes", &given[0], "--report", &given[1], "--csv", &given[2]];
    let found = json(&map, &[&load[..], &files[..]].concat());
    let (value, bound) = (&found["solution"]["value"], &found["solution"]["bound"]);
    assert_eq!(found["verdict"]["utilization"], *value);
    assert!(value.as_f64().unwrap() >= bound.as_f64().unwrap());
    assert!(value.as_f64().unwrap() < 0.8);
    let names: Vec<&str> = found["schemes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|scheme| scheme["name"].as_str().unwrap())
        .collect();
    let all = ["SP", "SP-RE", "LP-SP", "SP-Optimal", "LP-SP with RE", "RA-Heuristic", "RA"];
    assert_eq!(names, all);
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("Redundancy-aware routes") && page.contains("Ayton"));
    let table = std::fs::read_to_string(csv.join("links.csv")).unwrap();
    assert_eq!(table.lines().count(), 11, "{table}");
    // SmartRE over these routes; and the routes again, which are good enough.
    run(args!["plan", &map, "--routes", &routes], b"").fine();
    let again = json(&map, &[&load[..], &["--against", &given[0], "--gap", "5%"]].concat());
    assert!(again["solution"]["gap"].as_f64().unwrap() <= 0.05);
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let dir = Dir::new();
    let map = ring(&dir);
    let damaged = dir.join("damaged.json");
    std::fs::write(&damaged, "{\"format\": 1").unwrap();
    let damaged = damaged.to_str().unwrap();
    let within = ["--objective", "within", "--capacity", "10Gbit"];
    for (arguments, status, words) in [
        (vec!["--ingress", "Aytn"], 2, "did you mean \"Ayton\""),
        (vec!["--rho", "60%"], 2, "0 to 0.5"),
        (vec!["--objective", "load"], 2, "--capacity"),
        (vec!["--max-load", "50%"], 2, "--objective within"),
        (vec!["--stretch", "2"], 2, "--objective"),
        (vec!["--routes", "-"], 2, "name a file"),
        ([&within[..], &["--max-load", "5%"]].concat(), 2, "is the least possible, because of"),
        (
            [&within[..], &["--safety-net", "--volume", "900Gbit", "--max-load", "100%"]].concat(),
            2,
            "--safety-net",
        ),
        (vec!["--against", damaged], 3, "damaged.json"),
        (vec!["--eliminate", damaged], 3, "damaged.json"),
    ] {
        let mut all = args!["route", &map];
        all.extend(arguments.iter().map(Into::into));
        run(all, b"").fails(status, &[words]);
    }
    run(args!["route", "-"], b"nonsense").fails(3, &["standard input"]);
    // Another map than the routes are for.
    let routes = dir.join("routes.json");
    run(args!["route", &map, "--routes", &routes], b"").fine();
    let other = dir.join("other.json");
    std::fs::write(&other, RING.replace("\"latency_ms\": 2.5", "\"latency_ms\": 2.6")).unwrap();
    run(args!["route", &other, "--against", &routes], b"").fails(2, &["routes.json"]);
}
