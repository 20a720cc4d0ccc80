//! `oncewire profile`.

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
}
