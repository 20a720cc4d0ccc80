//! `oncewire plan`: errors in the input are one line each, and the output has the documented
//! fields.

use crate::support::*;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;

/// A ring of five cities with a spur, each link with a capacity, and demands.
pub(crate) const MAP: &str = r#"{"name":"ring","nodes":[
  {"id":"a","label":"Alpha","population":5000,"lat":50,"lon":1},{"id":"b","label":"Beta","population":4000,"lat":51,"lon":2},
  {"id":"c","label":"Gamma","population":3000,"lat":52,"lon":3},{"id":"d","label":"Delta","population":2000,"lat":53,"lon":4},
  {"id":"e","label":"Epsilon","population":1000,"lat":54,"lon":5},{"id":"f","label":"Alpha","population":500,"lat":55,"lon":6}],
 "links":[{"a":"a","b":"b","weight":1,"capacity_bps":1e9},{"a":"b","b":"c","weight":2,"capacity_bps":1e9},
  {"a":"c","b":"d","weight":1,"capacity_bps":1e9},{"a":"d","b":"e","weight":2,"capacity_bps":1e9},
  {"a":"e","b":"a","weight":3,"capacity_bps":1e9},{"a":"d","b":"f","weight":1,"capacity_bps":1e9}],
 "demands":[["a","c",7],["c","a",3],["f","a",2]]}"#;

pub(crate) fn plan(map: &Path, rest: &[&str]) -> Ran {
    let mut all = args!["plan", map];
    all.extend(rest.iter().map(Into::into));
    run(all, b"")
}

/// The JSON document of a successful run.
#[track_caller]
pub(crate) fn document(map: &Path, rest: &[&str]) -> Value {
    let ran = plan(map, &[rest, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{rest:?}: {}", ran.err);
    serde_json::from_slice(&ran.out).expect("JSON")
}

/// A map of these nodes and links.
fn map_of(nodes: &str, links: &str) -> String {
    format!(r#"{{"name":"x","nodes":[{nodes}],"links":[{links}]}}"#)
}

#[test]
fn invalid_topologies() {
    let node = |id: &str| format!(r#"{{"id":"{id}","population":1000}}"#);
    let (two, three) = (
        format!("{},{}", node("a"), node("b")),
        format!("{},{},{}", node("a"), node("b"), node("c")),
    );
    let link = |more: &str| format!(r#"{{"a":"a","b":"b"{more}}}"#);
    let cases: Vec<(String, &[&str])> = vec![
        (String::new(), &["empty", "name a topology"]),
        ("{".into(), &["not our JSON form", "line 1"]),
        (map_of("", ""), &["no nodes"]),
        (map_of(&node("a"), ""), &["at least two PoPs"]),
        (map_of(&three, &link("")), &["c cannot be reached from a", "--largest-part"]),
        (map_of(&format!("{two},{}", node("a")), &link("")), &["second node a"]),
        (map_of(&two, r#"{"a":"a","b":"z"}"#), &["unknown node z"]),
        (map_of(&two, &link(r#","capacity_bps":0"#)), &["capacity of 0", "above 0"]),
        (map_of(&two, &link(r#","capacity_bps":-1"#)), &["capacity of -1", "above 0"]),
        (map_of(&two, &link(r#","weight":0"#)), &["weight 0", "above 0"]),
        (map_of(&two, &link(r#","weight":1e999"#)), &["number out of range"]),
        (map_of(&two, &link(r#","latency_ms":-1"#)), &["latency of -1"]),
        (map_of(r#"{"id":"a","population":NaN},{"id":"b"}"#, &link("")), &["not our JSON form"]),
        (map_of(r#"{"id":"a","population":-5},{"id":"b"}"#, &link("")), &["-5"]),
        (
            map_of(r#"{"id":"a","city":"Atlantis"},{"id":"b"}"#, &link("")),
            &["Atlantis", "unknown", "--cities", "--populated"],
        ),
        (map_of(r#"{"id":"a\nb"},{"id":"b"}"#, ""), &["control characters"]),
        (
            map_of(r#"{"id":"a","population":1e308},{"id":"b","population":1e308}"#, &link("")),
            &["volume of inf"],
        ),
    ];
    let dir = Dir::new();
    for (text, words) in cases {
        let map = dir.write("map.json", text.as_bytes());
        let words = [&["map.json"], words].concat();
        assert!(plan(&map, &[]).fails(3, &words).is_empty(), "{text}");
    }
    for garbage in [&[0u8, 159, 146, 150][..], &[0xff; 1000]] {
        let map = dir.write("map.json", garbage);
        plan(&map, &[]).fails(3, &["map.json"]);
    }
    let map = dir.write("map.strange", b"hello");
    plan(&map, &[]).fails(3, &["map.strange", "unknown format", "GraphML"]);
    plan(&dir.join("absent.json"), &[])
        .fails(1, &["absent.json", "no such file", "check the name"]);
}

#[test]
fn files_beside_the_topology() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let cases: [(&str, &str, &[&str]); 27] = [
        ("--traffic", "", &["matrix is empty"]),
        ("--traffic", "# none\n", &["matrix is empty"]),
        ("--traffic", "a b NaN\n", &["line 1", "NaN"]),
        ("--traffic", "a b 1\na b 1\n", &["line 2", "second volume", "line 1"]),
        ("--traffic", "a b -1\n", &["line 1", "-1"]),
        ("--traffic", "a b 0\n", &["all volumes are 0"]),
        ("--traffic", "a z 1\n", &["line 1", "unknown node z"]),
        ("--traffic", "Alpha b 1\n", &["line 1", "label of several"]),
        ("--traffic", "a b\n", &["line 1", "from to volume"]),
        ("--traffic", "a b 1e308\na c 1e308\n", &["overflows"]),
        ("--paths", "a b a\n", &["line 1", "loops"]),
        ("--paths", "a c\n", &["line 1", "no link a -> c"]),
        ("--paths", "a b\n", &["there is traffic from a to c, but no path"]),
        ("--paths", "", &["no paths"]),
        ("--profile", "hello\n", &["line 1", "3 fields"]),
        (
            "--profile",
            "a\tb\t1000\na\tb\ta\tb\t1000\t1000000\n",
            &["a to b", "matches", "volume is 1000"],
        ),
        ("--profile", "a\tb\ta\tb\t1\t100\n", &["a to b", "volume is 0"]),
        ("--profile", "a\tb\tNaN\n", &["line 1", "NaN"]),
        ("--devices", "a -> c\t1G\t1000\n", &["line 1", "no device \"a -> c\""]),
        ("--devices", "a -> b\t-1G\t1000\n", &["line 1", "-1G"]),
        ("--devices", "a -> b\t1G\tinf\n", &["line 1", "inf"]),
        ("--devices", "a -> b 1G 10\n", &["line 1", "tabs"]),
        ("--links", "", &["names no link"]),
        ("--links", "a c\n", &["line 1", "no link"]),
        ("--links", "a z\n", &["line 1", "unknown node z"]),
        ("--cities", "hello\n", &["line 1", "7 fields"]),
        ("--against", "{}", &["not a plan", "--manifests"]),
    ];
    for (option, text, words) in cases {
        let file = dir.write("beside.txt", text.as_bytes());
        let file = file.to_str().expect("text");
        let words = [&["beside.txt"], words].concat();
        assert!(plan(&map, &[option, file]).fails(3, &words).is_empty(), "{option} {text:?}");
        std::fs::write(file, [0, 1, 2, 3]).expect("written");
        plan(&map, &[option, file]).fails(3, &["beside.txt", "not text"]);
    }
    // Two paths that part and meet again, and one that is missing.
    let all = "a b c d\na b c\na e d f\na b\na e\n";
    let file = dir.write("paths.txt", all.as_bytes());
    let traffic = dir.write("traffic.txt", b"a d 1\na f 1\n");
    let (file, traffic) = (file.to_str().expect("text"), traffic.to_str().expect("text"));
    plan(&map, &["--paths", file, "--traffic", traffic])
        .fails(3, &["paths.txt", "part and meet again", "tree"]);
    let latencies = dir.write("latencies.intra", b"");
    let latencies = latencies.to_str().expect("text");
    plan(&map, &["--latencies", latencies])
        .fails(2, &["latencies.intra", "map.json", "weights.intra"]);
}

#[test]
fn numbers_out_of_range() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let cases: [(&[&str], &[&str]); 27] = [
        (&["--reduce", "7"], &["map.json", "7 PoPs", "2 to 6"]),
        (&["--reduce", "0"], &["0 PoPs", "2 to 6"]),
        (&["--endpoints", "7"], &["map.json", "7 PoPs", "2 to 6"]),
        (&["--endpoints", "1"], &["1 PoPs", "2 to 6"]),
        (&["--access", "0"], &["0 access routers", "1 to 10000"]),
        (&["--access", "4294967295"], &["access routers", "1 to 10000"]),
        (&["--load", "0%"], &["--load 0%", "no traffic"]),
        (&["--packet", "0"], &["mean packet size is 0", "above 0"]),
        (&["--packet", "-1"], &["mean packet size is -1"]),
        (&["--packet", "NaN"], &["mean packet size is NaN"]),
        (&["--packet", "1e308"], &["65535"]),
        (&["--packet", "1e-305"], &["too many for a number"]),
        (&["--match-length", "-1"], &["match length of -1"]),
        (&["--match-length", "2000"], &["--match-length 2000", "1440 bytes of payload"]),
        (&["--match-length", "NaN"], &["match length of NaN"]),
        (&["--encodings", "-1"], &["encodings per second is -1"]),
        (&["--encodings", "NaN"], &["encodings per second is NaN"]),
        (&["--operations", "-1"], &["operations per second is -1"]),
        (&["--ingress-memory", "0"], &["ingress memory is 0", "above 0"]),
        (&["--deploy", "0"], &["--deploy 0", "12 links"]),
        (&["--deploy", "13"], &["--deploy 13", "12 links"]),
        (&["--single", "zeta"], &["no traffic enters at \"zeta\"", "Beta"]),
        (&["--single", "Alpha"], &["label of several"]),
        (&["--single", "all", "--manifests", "plan"], &["no one plan"]),
        (&["--single", "all", "--choose", "expected"], &["--choose", "name one node"]),
        (&["--choose", "expected", "--objective", "link-load"], &["--choose", "footprint"]),
        (&["--report", "-"], &["--report", "name a file"]),
    ];
    for (args, words) in cases {
        assert!(plan(&map, args).fails(2, words).is_empty(), "{args:?}");
    }
    let bare = MAP.replace(r#","capacity_bps":1e9"#, "");
    let map = dir.write("bare.json", bare.as_bytes());
    plan(&map, &["--objective", "link-load"])
        .fails(2, &["bare.json", "no capacities", "--capacity"]);
    // Refused by the command line.
    for args in [
        ["--gamma", "101%"],
        ["--load", "nan%"],
        ["--ingress-rate", "0"],
        ["--capacity", "0"],
        ["--interior-memory", "much"],
    ] {
        let ran = plan(&map, &args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(args[0]) && ran.out.is_empty(), "{}", ran.err);
    }
}

#[test]
fn extremes_that_are_allowed() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let nothing: [&[&str]; 5] = [
        &["--operations", "0"],
        &["--encodings", "0"],
        &["--interior-memory", "0", "--edge-memory", "0"],
        &["--gamma", "0%"],
        &["--traffic", "demands", "--volumes", "--interior-memory", "0"],
    ];
    for args in nothing {
        let document = document(&map, args);
        assert_eq!(document["verdict"]["reduction"], 0.0, "{args:?}");
    }
    for args in [
        &["--operations", "inf"][..],
        &["--encodings", "1e308"],
        &["--load", "100%"],
        &["--packet", "65535"],
    ] {
        let document = document(&map, args);
        let reduction = document["verdict"]["reduction"].as_f64().expect("a number");
        assert!((0.0..1.0).contains(&reduction), "{args:?}: {reduction}");
    }
}

/// Names and types of the fields that other programs read.
#[test]
fn json_has_the_documented_fields() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let document = document(&map, &["--access", "2", "--deploy", "4"]);
    for field in [
        "format",
        "network",
        "settings",
        "verdict",
        "solution",
        "schemes",
        "ingresses",
        "nodes",
        "links",
        "devices",
    ] {
        assert!(!document[field].is_null(), "{field}");
    }
    let network = &document["network"];
    assert_eq!(
        (&network["nodes"], &network["links"], &network["ingresses"]),
        (&18.into(), &36.into(), &12.into())
    );
    assert_eq!(network["paths"], 12 * 10);
    let names: Vec<&str> = document["schemes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names.len(), 10);
    assert!(names.contains(&"SmartRE") && names.contains(&"Ideal"));
    let verdict = &document["verdict"];
    let (before, after) = (
        verdict["footprint_before"].as_f64().unwrap(),
        verdict["footprint_after"].as_f64().unwrap(),
    );
    assert!((1.0 - after / before - verdict["reduction"].as_f64().unwrap()).abs() < 1e-12);
    assert!(document["solution"]["gap"].as_f64().unwrap() <= 1e-5);
    assert!(document["solution"]["bound"].as_f64() >= document["solution"]["value"].as_f64());
    // Files use ids; people see labels, with the id where two nodes share one.
    let device = &document["devices"][0];
    assert!(device["name"].is_string() && device["label"].is_string());
    let labels: Vec<&str> = document["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|node| node["label"].as_str())
        .collect();
    assert!(
        labels.contains(&"Beta") && labels.contains(&"Alpha (a)") && labels.contains(&"Alpha (f)"),
        "{labels:?}"
    );
    let deployment = document["deployment"].as_array().unwrap();
    assert_eq!(deployment.len(), 4);
    let shares: Vec<f64> =
        deployment.iter().map(|one| one["reduction"].as_f64().unwrap()).collect();
    assert!(shares.is_sorted(), "{shares:?}");
    assert!((shares[3] - verdict["reduction"].as_f64().unwrap()).abs() < 1e-6);
}

#[test]
fn link_load_with_capacities_given_and_assumed() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let bare = dir.write("bare.json", MAP.replace(r#","capacity_bps":1e9"#, "").as_bytes());
    let given = document(&map, &["--objective", "link-load"]);
    let assumed = document(&bare, &["--objective", "link-load", "--capacity", "1Gbit"]);
    for document in [&given, &assumed] {
        let highest = document["verdict"]["utilization_after"].as_f64().expect("a number");
        let said = document["solution"]["value"].as_f64().expect("a number");
        assert!((highest - said).abs() <= 1e-6 * said, "{highest} and {said}");
        assert!(highest < document["verdict"]["utilization_before"].as_f64().expect("a number"));
    }
    assert_eq!(given["verdict"], assumed["verdict"]);
    // The other scheme is named, with what it would do.
    let words = given["verdict"]["headline"].as_str().expect("text");
    assert!(words.contains("Hop-by-hop elimination with the same devices loads it to"), "{words}");
    for (encodings, better) in [("60000", "SmartRE"), ("1000", "neither")] {
        let slow = document(&map, &["--objective", "link-load", "--encodings", encodings]);
        let words = slow["verdict"]["headline"].as_str().expect("text");
        assert!(words.ends_with(&format!("{better} is better for that.")), "{words}");
    }
}

/// The document without times.
fn timeless(map: &Path, args: &[&str]) -> String {
    let mut document = document(map, args);
    document["solution"]["seconds"] = Value::Null;
    document.to_string()
}

#[test]
fn plans_are_deterministic() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    for args in [
        &["--seed", "7", "--access", "3"][..],
        &["--single", "all"],
        &["--deploy", "3", "--strategy", "greedy"],
    ] {
        assert_eq!(timeless(&map, args), timeless(&map, args), "{args:?}");
    }
}

#[test]
fn manifests_can_be_read_back() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let (first, second) = (dir.join("first.json"), dir.join("second.json"));
    let (first, second) = (first.to_str().expect("text"), second.to_str().expect("text"));
    let made = document(&map, &["--manifests", first]);
    assert_eq!(made["manifests"]["version"], 1);
    let again = document(&map, &["--against", first, "--manifests", second]);
    assert_eq!(again["manifests"]["version"], 2);
    let changes = &again["changes"];
    assert_eq!(
        (&changes["devices"], &changes["moved"], &changes["lost_bytes"]),
        (&0.into(), &0.0.into(), &0.0.into())
    );
    let text = |path: &str| String::from_utf8(read(Path::new(path))).expect("text");
    assert_eq!(
        text(first).replace("\"version\":1,", ""),
        text(second).replace("\"version\":2,", "")
    );
    let other = document(&map, &["--against", second, "--gamma", "20%", "--load", "100%"]);
    assert!(other["changes"]["devices"].as_u64().expect("a number") > 0);
    // Truncated, it is not a plan.
    std::fs::write(first, &text(second)[..200]).expect("written");
    plan(&map, &["--against", first]).fails(3, &["first.json", "not a plan"]);
}

#[test]
fn the_plan_that_is_expected_to_save_most_can_be_taken() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    // Devices that can cache everything and decode little.
    let tight = ["--interior-memory", "60GB", "--edge-memory", "60GB", "--operations", "80000"];
    let of = |more: &[&str]| document(&map, &[&tight[..], more].concat());
    let number = |document: &Value, field: &str| {
        document["verdict"][field].as_f64().unwrap_or_else(|| panic!("no {field}"))
    };
    let optimum = of(&[]);
    let file = dir.join("plan.json").display().to_string();
    let expected = of(&["--choose", "expected", "--manifests", &file]);
    // By the program, the optimum is best; by all copies, the other.
    assert!(number(&optimum, "reduction") > number(&expected, "reduction"));
    assert!(number(&optimum, "by_all_copies") < number(&expected, "by_all_copies"));
    assert!(optimum["notes"].to_string().contains("--choose expected"), "{}", optimum["notes"]);
    assert!(expected["solution"]["gap"].as_f64() > Some(0.0));
    // The plan is what manifests say.
    let covered = |path: &str| -> f64 {
        let plan: Value = serde_json::from_slice(&read(Path::new(path))).expect("JSON");
        let paths = plan["paths"].as_array().expect("paths").clone();
        let end = |path: &Value| {
            let ranges = path["ranges"].as_array().expect("ranges");
            ranges.last().map_or(0.0, |range| range[1].as_f64().expect("an end"))
        };
        paths.iter().map(end).sum::<f64>() / paths.len() as f64 / 2f64.powi(32)
    };
    let some = covered(&file);
    of(&["--choose", "expected", "--cache-all", "--manifests", &file]);
    assert!(some < 0.99 && covered(&file) > 0.999, "{some} {}", covered(&file));
}

#[test]
fn the_result_fits_a_screen_and_full_prints_the_rest() {
    let map = root().join("docs/examples/abilene.json");
    let text = |args: &[&str]| {
        let mut all = args![args[0], &map];
        all.extend(args[1..].iter().map(OsString::from));
        String::from_utf8(run(all, b"").fine()).expect("text")
    };
    let plan = ["plan", "--access", "4", "--equal", "--load", "30%"];
    let emulate = ["emulate", "--endpoints", "5", "--access", "2", "--scale", "0.01%"];
    for command in [&plan[..], &emulate] {
        let brief = text(command);
        // One line of 24 is the prompt.
        assert!(brief.lines().count() <= 23, "{} lines:\n{brief}", brief.lines().count());
        assert!(brief.contains("SmartRE") && !brief.contains("\nDevices\n"), "{brief}");
        let full = text(&[command, &["--full"]].concat());
        for section in ["\nNetwork\n", "\nSchemes\n", "\nLinks\n", "\nDevices\n"] {
            assert!(full.contains(section), "{section:?} is not in\n{full}");
        }
    }
    let mut deploy = plan.to_vec();
    deploy.extend(["--deploy", "10", "--quick"]);
    let brief = text(&deploy);
    assert!(brief.contains("Indianapolis -> Chicago"), "the links that were asked for: {brief}");
}

#[test]
fn files_that_are_written() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let (report, tables) = (dir.join("report.html"), dir.join("tables"));
    let (page, directory) = (report.to_str().expect("text"), tables.to_str().expect("text"));
    let ran = plan(&map, &["--report", page, "--csv", directory, "--full"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let out = String::from_utf8(ran.out).expect("text");
    assert!(out.contains("Beta -> Gamma") && !out.contains("b -> c"), "labels for people: {out}");
    let page = String::from_utf8(read(&report)).expect("text");
    assert!(page.starts_with("<!") && page.contains("Beta -&gt; Gamma"));
    let devices = String::from_utf8(read(&tables.join("devices.csv"))).expect("text");
    assert!(devices.contains("Beta -> Gamma,b -> c,"), "both in tables: {devices}");
    for name in ["summary", "schemes", "ingresses", "links", "nodes", "settings"] {
        assert!(tables.join(format!("{name}.csv")).exists(), "{name}");
    }
}

#[test]
fn nodes_by_label() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    assert_eq!(
        document(&map, &["--single", "Beta"])["verdict"]["footprint_before"],
        document(&map, &["--single", "b"])["verdict"]["footprint_before"]
    );
    let by = |option: &str, text: &str| {
        let file = dir.write("file", text.as_bytes());
        document(&map, &[option, file.to_str().expect("text"), "--quick"])["devices"].to_string()
    };
    assert_eq!(by("--links", "Beta -> Gamma\nc d\n"), by("--links", "b -> c\nc\td\n"));
    assert_eq!(by("--devices", "Beta -> Gamma\t1M\t1000\n"), by("--devices", "b -> c\t1M\t1000\n"));
}

#[test]
fn a_topology_on_standard_input() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let totals = |ran: Ran| {
        let document: Value = serde_json::from_slice(&ran.fine()).expect("JSON");
        document["verdict"].to_string()
    };
    let options = ["--traffic", "demands", "--json", "--quick"];
    let of = |topology: &Path| {
        let mut all = args!["plan", topology];
        all.extend(options.iter().map(OsString::from));
        all
    };
    let read = totals(run(of(Path::new("-")), MAP.as_bytes()));
    assert!(read == totals(run(of(&map), b"")) && read.len() > 100, "{read}");
    run(args!["plan", "-"], b"nonsense").fails(3, &["standard input", "unknown format"]);
    run(args!["plan", "-", "--latencies", "-"], b"").fails(2, &["standard input", "once"]);
}

/// One plan for a day and a night, whose traffic takes different ways.
#[test]
fn several_hours() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let day = dir.write("day", b"a c 10\nb c 10\n");
    let night = dir.write("night", b"b c 10\n");
    let both = |more: &[&str]| -> Vec<String> {
        let hours = [&day, &night].map(|hour| hour.to_str().unwrap().to_owned());
        let [day, night] = hours;
        let given = ["--traffic".to_owned(), day, "--traffic".to_owned(), night];
        given.into_iter().chain(more.iter().map(ToString::to_string)).collect()
    };
    let ran = |more: &[&str]| {
        let all = both(more);
        document(&map, &all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    // Memory is short, so a plan must choose whose traffic it is for.
    let scarce = ["--load", "100%", "--interior-memory", "300MB", "--edge-memory", "300MB"];
    let in_each = |found: &Value| -> (f64, f64) {
        let headline = found["verdict"]["headline"].as_str().expect("a headline").to_owned();
        let (_, rest) = headline.split_once("In each of the 2 hours it saves ").expect(&headline);
        let (least, most) = rest.trim_end_matches(" %.").split_once(" to ").expect(rest);
        (least.parse().unwrap(), most.parse().unwrap())
    };
    let (mean, worst) = (ran(&scarce), ran(&[&scarce[..], &["--aim", "worst"]].concat()));
    assert!(in_each(&worst).0 > in_each(&mean).0, "{mean} {worst}");
    assert!(in_each(&worst).1 < in_each(&mean).1, "{mean} {worst}");
    let free = ran(&[&scarce[..], &["--headroom", "40%"]].concat());
    assert!(in_each(&free).1 < in_each(&mean).1, "less is left to plan with");
    for (more, words) in [
        (&["--headroom", "100%"][..], "headroom"),
        (&["--deploy", "2"], "several --traffic"),
        (&["--traffic", "missing"], "missing"),
    ] {
        let all = both(more);
        let ran = plan(&map, &all.iter().map(String::as_str).collect::<Vec<_>>());
        assert_ne!(ran.code, Some(0), "{more:?}");
        assert!(ran.err.contains(words) && ran.err.matches('\n').count() == 1, "{}", ran.err);
    }
}
