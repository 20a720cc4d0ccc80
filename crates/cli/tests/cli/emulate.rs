//! `oncewire emulate`: every packet leaves the network as it entered, and the figures match the
//! packets carried.

use crate::plan::MAP;
use crate::study::{packet, pcap};
use crate::support::*;
use serde_json::Value;
use std::path::Path;

/// Small enough for seconds: three epochs of a few thousand packets.
const SMALL: [&str; 4] = ["--scale", "0.1%", "--traffic", "demands"];

fn emulate(map: &Path, rest: &[&str]) -> Ran {
    let mut all = args!["emulate", map];
    all.extend(rest.iter().map(Into::into));
    run(all, b"")
}

/// The JSON document of a successful run.
#[track_caller]
fn document(map: &Path, rest: &[&str]) -> Value {
    let ran = emulate(map, &[rest, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{rest:?}: {}", ran.err);
    serde_json::from_slice(&ran.out).expect("JSON")
}

#[track_caller]
fn count(document: &Value, field: &str) -> u64 {
    document[field].as_u64().unwrap_or_else(|| panic!("no count {field}"))
}

fn reduction(document: &Value, scheme: &str) -> f64 {
    let schemes = document["schemes"].as_array().expect("schemes");
    let run = schemes.iter().find(|run| run["name"] == scheme).expect("the scheme");
    run["reduction"].as_f64().expect("a reduction")
}

#[test]
fn reductions_of_schemes_are_in_the_expected_order() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let document = document(&map, &SMALL);
    assert_eq!(document["format"], "oncewire-emulate/1");
    assert!(count(&document, "packets") > 1000);
    assert_eq!(count(&document, "packets"), count(&document, "delivered"));
    assert_eq!(
        (count(&document, "lost"), count(&document, "undecodable"), count(&document, "damaged")),
        (0, 0, 0)
    );
    let [ours, hop, ideal] =
        ["SmartRE", "hop-by-hop", "Ideal"].map(|scheme| reduction(&document, scheme));
    assert!(ours > 0.05, "{ours}");
    assert!(ours < ideal, "{ours} {ideal}");
    // At most what unlimited devices save, except for the choice of copy in a limited store.
    assert!(hop < ideal + 0.01, "{hop} {ideal}");
    for link in document["links"].as_array().expect("links") {
        assert!(
            count(link, "after_bytes")
                <= count(link, "before_bytes") + 64 * count(&document, "packets")
        );
    }
}

#[test]
fn nothing_is_saved_without_repeats() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let document = document(&map, &[&SMALL[..], &["--gamma", "0%", "--quick"]].concat());
    assert_eq!(count(&document, "matches"), 0);
    // A byte or so for packets that are to be cached.
    let saved = reduction(&document, "SmartRE");
    assert!((-0.02..=0.0).contains(&saved), "{saved}");
}

#[test]
fn a_seed_determines_the_run() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let run = |seed| {
        let mut document =
            document(&map, &[&SMALL[..], &["--quick", "--loss", "1%", "--seed", seed]].concat());
        document["schemes"][0]["seconds"].take();
        document
    };
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first, run("8"));
}

#[test]
fn packets_are_lost_and_never_corrupted() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let document = document(&map, &[&SMALL[..], &["--quick", "--loss", "2%"]].concat());
    let [packets, delivered, lost, undecodable, damaged] =
        ["packets", "delivered", "lost", "undecodable", "damaged"]
            .map(|field| count(&document, field));
    assert!(lost > 0 && undecodable > 0, "{lost} {undecodable}");
    assert_eq!(damaged, 0);
    assert_eq!(packets, delivered + lost + undecodable + damaged);
    // What is sent again counts: on each link, at least its bytes.
    assert!(count(&document, "resent_bytes") > (lost + undecodable) * 100);
    assert!(document["notes"][0].as_str().expect("a note").contains("sent again"));
    let rules = ["--quick", "--loss", "2%", "--rules", "published"];
    let published = self::document(&map, &[&SMALL[..], &rules].concat());
    assert!(undecodable * 2 < count(&published, "undecodable"), "{undecodable}");
    assert!(reduction(&document, "SmartRE") > reduction(&published, "SmartRE"));
}

#[test]
fn plans_change_during_a_run() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let more =
        ["--quick", "--replan", "1", "--epochs", "4", "--flash-crowd", "15s:gamma=80%,volume=2"];
    let document = document(&map, &[&SMALL[..], &more].concat());
    assert!(count(&document, "updates") >= 2);
    assert_eq!(count(&document, "packets"), count(&document, "delivered"));
    // Twice the traffic enters at the largest ingress from half of the second epoch on.
    let epochs = document["schemes"][0]["epochs"].as_array().expect("epochs");
    assert!(count(&epochs[3], "packets") * 10 > count(&epochs[0], "packets") * 14);
}

#[test]
fn traffic_drifts() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let run = |more: &[&str]| document(&map, &[&SMALL[..], &["--quick"], more].concat());
    let (steady, drifting) = (run(&[]), run(&["--drift", "10s:1"]));
    assert_eq!(count(&drifting, "packets"), count(&drifting, "delivered"));
    assert_ne!(count(&drifting, "bytes"), count(&steady, "bytes"));
    // Faster than a retention epoch, the profile would have no meaning.
    emulate(&map, &["--drift", "1s:0.5"]).fails(2, &["decorrelation time", "at least an epoch"]);
}

#[test]
fn links_fail() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let run = |notice| {
        document(&map, &[&SMALL[..], &["--quick", "--reroute", "12s", "--notice", notice]].concat())
    };
    // Ingresses that learn of the change at once encode nothing undecodable. Late ones do, and
    // those packets are dropped.
    let at_once = run("0s");
    assert_eq!(count(&at_once, "packets"), count(&at_once, "delivered"));
    let late = run("2s");
    assert!(count(&late, "undecodable") > 0);
    assert_eq!(count(&late, "packets"), count(&late, "delivered") + count(&late, "undecodable"));
    // From then on, the demand from Alpha to Gamma takes the other direction around the ring.
    let link = |document: &Value, from: &str, to: &str| {
        let links = document["links"].as_array().expect("links");
        count(
            links.iter().find(|link| link["from"] == from && link["to"] == to).expect("the link"),
            "before_bytes",
        )
    };
    assert!(link(&at_once, "Beta", "Gamma") > 0 && link(&at_once, "Epsilon", "Delta") > 0);
    // Manifests follow: with a new plan for the new routes, more is saved after the failure.
    let reroute = ["--quick", "--reroute", "12s", "--epochs", "6"];
    let follows = document(&map, &[&SMALL[..], &reroute, &["--replan", "100"]].concat());
    let stays = document(&map, &[&SMALL[..], &reroute].concat());
    assert_eq!((count(&follows, "updates"), count(&stays, "updates")), (1, 0));
    assert_eq!(count(&follows, "packets"), count(&follows, "delivered"));
    let saved = |document: &Value| {
        let epochs = document["schemes"][0]["epochs"].as_array().expect("epochs");
        epochs[5]["reduction"].as_f64().expect("a reduction")
    };
    assert!(saved(&follows) > saved(&stays), "{} {}", saved(&follows), saved(&stays));
    // A spur has no alternative path.
    let spur =
        dir.write("spur.json", br#"{"nodes":[{"id":"a","population":1},{"id":"b","population":2}],"links":[{"a":"a","b":"b"}]}"#);
    emulate(&spur, &["--quick", "--reroute", "12s"]).fails(2, &["--reroute", "still connected"]);
}

/// A capture in which a server sends everything twice, to three clients.
fn capture() -> Vec<u8> {
    let packets = (0..600).map(|n| {
        // Packets are told apart by their headers: each has a port of its own.
        let client = format!("10.{}.0.1:{}", n % 3 + 1, 4000 + n);
        packet("192.0.2.1:80", &client, &noise((n / 2) as u64, 1000))
    });
    pcap(&packets.collect::<Vec<_>>())
}

#[test]
fn captures_enter_at_the_given_node() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let file = dir.write("a.pcap", &capture());
    let prefixes =
        dir.write("prefixes", b"192.0.2.0/24 a\n10.1.0.0/16 c\n10.2.0.0/16 Delta\n10.3.0.0/16 a\n");
    let path = |path: &Path| path.display().to_string();
    let (file, prefixes) = (path(&file), path(&prefixes));
    let with = |more: &[&str]| {
        document(&map, &[&["--capture", &file, "--epochs", "2"][..], more].concat())
    };
    let spread = with(&["--quick", "--ingress", "Beta"]);
    assert!(count(&spread, "packets") > 0);
    assert_eq!(count(&spread, "packets"), count(&spread, "delivered"));
    let told = with(&["--ingress", "a", "--prefixes", &prefixes]);
    // A third of the packets would leave where they enter.
    assert_eq!(count(&told, "packets"), 400);
    assert!(
        told["notes"]
            .to_string()
            .contains("200 packets of the captures would leave in the PoP where they enter")
    );
    let [ours, ideal] = ["SmartRE", "Ideal"].map(|scheme| reduction(&told, scheme));
    assert!(ours > 0.1 && ours < ideal + 0.05, "{ours} {ideal}");
    assert!(
        told["settings"]
            .as_array()
            .expect("settings")
            .iter()
            .all(|setting| setting[0] != "redundancy")
    );
}

#[test]
fn a_capture_does_not_choose_the_memory() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    // Each record claims almost 4 GB on the wire.
    let mut file = capture();
    let mut at = 24;
    while at < file.len() {
        let len =
            u32::from_le_bytes(file[at + 8..at + 12].try_into().expect("four bytes")) as usize;
        file[at + 12..at + 16].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
        at += 16 + len;
    }
    let file = dir.write("claims.pcap", &file).display().to_string();
    let document = document(&map, &["--capture", &file, "--epochs", "2", "--quick"]);
    // Caches are a part of the real ones that the captured 600 kB fill, not 2.4 TB.
    assert!(document["scale"].as_f64().expect("a scale") < 0.001);
}

#[test]
fn a_truncated_capture_is_carried_up_to_its_end() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let whole = capture();
    let file = dir.write("cut.pcap", &whole[..whole.len() - 500]).display().to_string();
    let ran = emulate(&map, &["--capture", &file, "--epochs", "2", "--quick", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("cut.pcap") && ran.err.lines().count() == 1, "{}", ran.err);
    let document: Value = serde_json::from_slice(&ran.out).expect("JSON");
    assert!(document["notes"].to_string().contains("cut.pcap"));
}

#[test]
fn what_was_measured_can_be_planned_for() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let measured = dir.join("measured.tsv").display().to_string();
    document(&map, &[&SMALL[..], &["--quick", "--measured", &measured]].concat());
    let plan =
        run(args!["plan", &map, "--traffic", "demands", "--profile", &measured, "--json"], b"");
    let plan: Value = serde_json::from_slice(&plan.fine()).expect("JSON");
    let synthetic = run(args!["plan", &map, "--traffic", "demands", "--json"], b"");
    let synthetic: Value = serde_json::from_slice(&synthetic.fine()).expect("JSON");
    let saved = |plan: &Value| plan["verdict"]["reduction"].as_f64().expect("a reduction");
    // What was measured is what was made, within sampling error.
    assert!(
        (saved(&plan) / saved(&synthetic) - 1.0).abs() < 0.15,
        "{} {}",
        saved(&plan),
        saved(&synthetic)
    );
    // With a part of the traffic matrix mixed in, what repeats is about as much.
    let more = ["--traffic", "demands", "--profile", &measured, "--prior", "50%", "--json"];
    let mut mixed = args!["plan", &map];
    mixed.extend(more.iter().map(Into::into));
    let mixed: Value = serde_json::from_slice(&run(mixed, b"").fine()).expect("JSON");
    assert!((saved(&mixed) / saved(&plan) - 1.0).abs() < 0.2, "{}", saved(&mixed));
    assert!(mixed["settings"].to_string().contains("50 % of the traffic matrix"));
    let alone = run(args!["plan", &map, "--prior", "50%"], b"");
    assert!(alone.code == Some(2) && alone.err.contains("--profile"), "{}", alone.err);
}

#[test]
fn plans_are_carried_out() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let file = dir.join("plan.json").display().to_string();
    run(args!["plan", &map, "--traffic", "demands", "--manifests", &file], b"").fine();
    let own = document(&map, &[&SMALL[..], &["--quick"]].concat());
    let given = document(&map, &[&SMALL[..], &["--quick", "--plan", &file]].concat());
    let (own, given) = (reduction(&own, "SmartRE"), reduction(&given, "SmartRE"));
    assert!((own - given).abs() < 0.01, "{own} {given}");
    // A plan of another network's is refused.
    emulate(&map, &["--traffic", "demands", "--per-router", "--plan", &file])
        .fails(2, &["plan.json", "another network"]);
    let garbage = dir.write("garbage.json", b"{}").display().to_string();
    emulate(&map, &[&SMALL[..], &["--plan", &garbage]].concat())
        .fails(3, &["garbage.json", "--manifests"]);
}

#[test]
fn packets_of_a_capture_choose_the_plan_and_it_can_be_written() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let file = dir.write("a.pcap", &capture()).display().to_string();
    let plan = dir.join("plan.json").display().to_string();
    let of_capture = ["--capture", &file, "--epochs", "2", "--quick"];
    let first = document(&map, &[&of_capture[..], &["--manifests", &plan]].concat());
    let plans = first["plans"].as_array().expect("plans");
    assert!(plans.len() > 1, "{plans:?}");
    let number = |plan: &Value, field: &str| plan[field].as_f64();
    let tried = || plans.iter().filter_map(|plan| number(plan, "reduction"));
    let taken: Vec<&Value> = plans.iter().filter(|plan| plan["taken"] == true).collect();
    assert_eq!(taken.len(), 1);
    if tried().count() > 0 {
        let best = tried().fold(f64::MIN, f64::max);
        assert_eq!(number(taken[0], "reduction"), Some(best));
        assert!((reduction(&first, "SmartRE") - best).abs() < 1e-9);
    }
    let again = document(&map, &[&of_capture[..], &["--plan", &plan]].concat());
    let both = [&first, &again].map(|document| reduction(document, "SmartRE"));
    assert!((both[0] - both[1]).abs() < 1e-3, "{both:?}");
    assert_eq!(again["plans"].as_array().map(Vec::len), Some(0));
    // Without packets that decide, and with a plan that is given, nothing is tried.
    let expected = document(&map, &[&of_capture[..], &["--choose", "expected"]].concat());
    let plans = expected["plans"].as_array().expect("plans");
    assert!(plans.iter().all(|plan| plan["reduction"].is_null()));
    for option in [&["--manifests", "x"][..], &["--choose", "packets"], &["--cache-all"]] {
        let ran = emulate(&map, &[&of_capture[..], &["--plan", &plan], option].concat());
        assert_eq!(ran.code, Some(2), "{option:?}");
        assert!(ran.err.contains(option[0]) && ran.err.contains("--plan"), "{}", ran.err);
    }
}

#[test]
fn wrong_options() {
    let dir = Dir::new();
    let map = dir.write("ring.json", MAP.as_bytes());
    let file = dir.write("a.pcap", &capture()).display().to_string();
    let empty = dir.write("empty.pcap", &pcap(&[])).display().to_string();
    let text = dir.write("text.pcap", b"no capture").display().to_string();
    let nowhere = dir.write("nowhere", b"203.0.113.0/24 Atlantis\n").display().to_string();
    let bad = dir.write("bad", b"rubbish\n").display().to_string();
    for wrong in [
        ["--epochs", "1"],
        ["--matches", "0"],
        ["--loss", "101%"],
        ["--flash-crowd", "soon"],
        ["--reroute", "never"],
        ["--drift", "60s"],
    ] {
        let ran = emulate(&map, &wrong);
        assert_eq!(ran.code, Some(2), "{wrong:?}");
        assert!(ran.err.contains(wrong[0]), "{}", ran.err);
    }
    let cases: [(&[&str], i32, &[&str]); 10] = [
        (&["--loss", "100%"], 2, &["--loss 100%", "no packet would arrive"]),
        (&["--scale", "0%"], 2, &["--scale", "nothing"]),
        (&["--capture", &file, "--scale", "0%"], 2, &["--scale", "nothing"]),
        (&["--gamma", "0%", "--flash-crowd", "4s:gamma=50%"], 2, &["--gamma above 0"]),
        (&["--capture", &file, "--flash-crowd", "4s:volume=3"], 2, &["synthetic"]),
        (&["--capture", &file, "--ingress", "Atlantis"], 2, &["Atlantis"]),
        (&["--capture", &file, "--prefixes", &nowhere], 3, &["Atlantis"]),
        (&["--capture", &file, "--prefixes", &bad], 3, &["bad", "line 1"]),
        (&["--capture", &empty], 3, &["nothing to carry"]),
        (&["--capture", &text], 3, &["text.pcap"]),
    ];
    for (more, code, words) in cases {
        emulate(&map, more).fails(code, words);
    }
    emulate(&map, &["--capture", "missing.pcap"]).fails(1, &["missing.pcap"]);
}
