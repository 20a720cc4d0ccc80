//! `oncewire profile`, and what `route` and `plan` make of its output.

use crate::plan::MAP;
use crate::study::{packet, pcap};
use crate::support::*;
use serde_json::Value;
use std::path::Path;

/// Packets a second apart: c and d get the same content in the first ten seconds, c and e in the
/// second ten.
fn capture() -> Vec<u8> {
    let packets = (0..20_u64).map(|n| {
        let other = if n < 10 { 2 } else { 3 };
        let client = format!("10.{}.0.1:{}", if n % 2 == 0 { 1 } else { other }, 4000 + n);
        packet("192.0.2.1:80", &client, &noise(n / 2, 1400))
    });
    pcap(&packets.collect::<Vec<_>>())
}

const PREFIXES: &[u8] = b"10.1.0.0/16 c\n10.2.0.0/16 d\n10.3.0.0/16 e\n";

struct Site {
    dir: Dir,
    map: std::path::PathBuf,
    fixed: Vec<String>,
}

fn site() -> Site {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let path = |path: &Path| path.display().to_string();
    let capture = path(&dir.write("a.pcap", &capture()));
    let prefixes = path(&dir.write("prefixes", PREFIXES));
    let fixed = ["--capture", &capture, "--prefixes", &prefixes, "--ingress", "a"];
    let fixed = fixed.into_iter().chain(["--interval", "10s"]).map(String::from).collect();
    Site { dir, map, fixed }
}

impl Site {
    fn profile(&self, rest: &[&str]) -> Ran {
        let mut all = args!["profile", self.map];
        all.extend(self.fixed.iter().map(Into::into));
        all.extend(rest.iter().map(Into::into));
        run(all, b"")
    }

    #[track_caller]
    fn json(&self, rest: &[&str]) -> Value {
        serde_json::from_slice(&self.profile(&[rest, &["--json"]].concat()).fine()).expect("JSON")
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

#[test]
fn each_interval_has_its_content() {
    let site = site();
    let counted = site.path("a.tsv");
    let document = site.json(&["--out", &counted]);
    let intervals = document["intervals"].as_array().expect("intervals");
    assert_eq!(document["format"], "oncewire-profile/1");
    assert_eq!(intervals.len(), 2);
    for (interval, other) in intervals.iter().zip(["Delta", "Epsilon"]) {
        let pairs = &interval["largest_pairs"];
        assert_eq!((&pairs[0]["a"], &pairs[0]["b"]), (&"Gamma".into(), &other.into()));
        assert_eq!(pairs.as_array().expect("pairs").len(), 1);
        // Half of the payload repeats; headers do not.
        let redundancy = interval["redundancy"].as_f64().expect("a share");
        assert!((redundancy - 7000.0 / (14_000.0 + 540.0)).abs() < 1e-6, "{redundancy}");
        let shares = interval["by_egresses"].as_array().expect("shares");
        assert!((shares[1].as_f64().expect("a share") - 7000.0 / 7540.0).abs() < 1e-6);
    }
    let text = String::from_utf8(read(&site.dir.join("a.tsv"))).expect("text");
    assert!(
        text.contains("interval\t10\n") && text.contains("content\ta\t7000\tc\t-\t1\td\t-\t1\n")
    );
}

#[test]
fn content_becomes_routes_and_routes_a_plan() {
    let site = site();
    let (counted, routes) = (site.path("a.tsv"), site.path("routes.json"));
    site.profile(&["--out", &counted]).fine();
    let route = |rest: &[&str]| {
        let mut all = args!["route", site.map, "--profile", counted];
        all.extend(rest.iter().map(Into::into));
        run(all, b"")
    };
    let ran = route(&["--routes", &routes, "--json"]);
    let made: Value = serde_json::from_slice(&ran.fine()).expect("JSON");
    assert!(made["solution"]["gap"].as_f64().expect("a gap") <= 1e-3);
    let document: Value =
        serde_json::from_slice(&read(&site.dir.join("routes.json"))).expect("JSON");
    assert_eq!(
        (&document["slices"][0]["ingress"], &document["interval"]),
        (&"a".into(), &10.0.into())
    );
    // They stay if nothing changes.
    route(&["--against", &routes, "--routes", &site.path("again.json")]).fine();
    assert_eq!(read(&site.dir.join("again.json")), read(&site.dir.join("routes.json")));

    // SmartRE over them.
    let planned = run(args!["plan", site.map, "--traffic", "demands", "--routes", routes], b"");
    planned.fails(3, &["routes.json", "from c to a", "no path"]);
    let matrix = site.dir.write("tm.txt", b"a c 3\na d 1\n");
    let ran = run(args!["plan", site.map, "--traffic", matrix, "--routes", routes, "--json"], b"");
    let plan: Value = serde_json::from_slice(&ran.fine()).expect("JSON");
    assert_eq!(plan["network"]["paths"], 2);

    // The second interval has content for a node that has no route: an alarm.
    let judged = site.json(&["--against", &routes]);
    let alarms: Vec<&Value> = judged["intervals"]
        .as_array()
        .expect("intervals")
        .iter()
        .map(|one| &one["alarm"])
        .collect();
    assert_eq!(alarms, [&Value::Bool(false), &Value::Bool(true)]);
    assert!(
        String::from_utf8(site.profile(&["--against", &routes]).fine())
            .expect("text")
            .contains("alarms")
    );
}

/// Sources of their own content take slices of their own, and no address is without one.
#[test]
fn sources_are_divided_among_slices() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let line = |to: &str, source: u8| format!("content\ta\t1e8\t{to}\t10.0.{source}.0/24\t1\n");
    let lines = ["c", "c", "c", "c"].iter().zip(1..).map(|(to, source)| line(to, source));
    let text = format!("interval\t1\n{}", lines.collect::<String>());
    let counted = dir.write("a.tsv", text.as_bytes());
    let routes = dir.join("routes.json");
    let all = args![
        "route",
        map,
        "--profile",
        counted,
        "--objective",
        "load",
        "--routes",
        routes,
        "--json"
    ];
    let document: Value = serde_json::from_slice(&run(all, b"").fine()).expect("JSON");
    let scheme = |name: &str| -> f64 {
        let schemes = document["schemes"].as_array().expect("schemes");
        let found = schemes.iter().find(|scheme| scheme["name"] == name).expect("the scheme");
        found["utilization"].as_f64().expect("a utilization")
    };
    // Two of the four go each way round the ring: 1.6 Gbit/s on links of 1.
    assert!((scheme("RA by prefixes") - 1.6).abs() < 1e-6, "{}", scheme("RA by prefixes"));
    let file: Value = serde_json::from_slice(&read(&routes)).expect("JSON");
    let slices = file["slices"].as_array().expect("slices");
    let prefixes = |slice: &Value| slice["prefixes"].as_array().expect("prefixes").len();
    assert_eq!(slices.len(), 2);
    assert_eq!(slices.iter().map(prefixes).sum::<usize>(), 6);
    assert!((file["value"].as_f64().expect("a value") - 1.6).abs() < 1e-6);
    let planned = run(
        args![
            "plan",
            map,
            "--traffic",
            dir.write("tm.txt", b"a c 1\n"),
            "--routes",
            routes,
            "--json"
        ],
        b"",
    );
    let plan: Value = serde_json::from_slice(&planned.fine()).expect("JSON");
    assert_eq!((&plan["network"]["ingresses"], &plan["network"]["paths"]), (&1.into(), &2.into()));
}

#[test]
fn bad_requests_and_documents() {
    let site = site();
    let out = site.path("x.tsv");
    site.profile(&["--out", &out, "--number", "7"]).fails(2, &["--number 7", "no packets"]);
    assert!(!site.dir.join("x.tsv").exists());
    // Routes for this map that are not the map's, and half a document.
    let routes = |text: &str| {
        let file = site.dir.write("routes.json", text.as_bytes()).display().to_string();
        site.profile(&["--against", &file])
    };
    let other = r#"{"format":1,"network":"x","map":"0","objective":"load","cost":"hops","interval":1,"value":1,"bound":1,"slices":[]}"#;
    routes(other).fails(2, &["routes.json", "is not the map that was given"]);
    routes(&other[..40]).fails(3, &["routes.json", "not a document of routes"]);
    let plan = run(args!["plan", site.map, "--routes", site.dir.join("routes.json")], b"");
    plan.fails(3, &["routes.json", "not a document of routes"]);
    let wrong = site.dir.write("wrong.tsv", b"interval\t60\ncontent\ta\t1\tz\t-\t1\n");
    run(args!["route", site.map, "--profile", wrong], b"")
        .fails(3, &["wrong.tsv", "line 2", "no node"]);
}
