//! `oncewire plan`: what it recommends, what it buys, and what failures leave of a plan.

use crate::plan::{MAP, document, plan};
use crate::support::*;
use serde_json::Value;
use std::collections::BTreeSet;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn headline(document: &Value) -> &str {
    document["verdict"]["headline"].as_str().expect("text")
}

#[test]
fn the_headline_names_the_winner_and_the_load_where_it_changes() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let at = |load: f64, more: &[&str]| {
        let load = format!("{}%", load * 100.0);
        document(&map, &[&["--load", &load, "--encodings", "20000"], more].concat())
    };
    let found = at(0.05, &[]);
    let choice = &found["choice"];
    assert_eq!(choice["winner"], "hop-by-hop");
    assert_eq!(choice["winner_at_equal_cost"], "SmartRE");
    let (words, scheme) = (headline(&found), |name: &str| {
        let schemes = found["schemes"].as_array().expect("a list");
        let one = schemes.iter().find(|one| one["name"] == name).expect("the scheme");
        number(&one["reduction"])
    });
    assert!(words.starts_with("Use hop-by-hop elimination"), "{words}");
    assert!((number(&choice["hop_by_hop"]["reduction"]) - scheme("hop-by-hop")).abs() < 1e-9);
    assert!((number(&choice["smartre"]["reduction"]) - scheme("SmartRE")).abs() < 1e-9);
    // Runs at loads on both sides agree.
    let load = number(&choice["smartre_from_load"]);
    assert!(load > 1.0, "{load}");
    assert!(words.contains("SmartRE wins from"), "{words}");
    assert_eq!(at(0.05 * load * 1.03, &[])["choice"]["winner"], "SmartRE");
    assert_eq!(at(0.05 * load / 1.03, &[])["choice"]["winner"], "hop-by-hop");
    // On demand.
    let names = |found: &Value| found["schemes"].as_array().expect("a list").len();
    let few = at(0.05, &["--compare", "few"]);
    assert_eq!((names(&found), names(&few)), (10, 4));
    assert_eq!(few["choice"]["winner"], "hop-by-hop");
    assert!(few["choice"]["smartre_from_load"].is_null());
    assert!(few["upgrades"].as_array().expect("a list").iter().all(|one| one["gain"].is_null()));
    let quick = at(0.05, &["--quick"]);
    assert!(quick["choice"].is_null() && names(&quick) == 0);
    assert!(headline(&quick).starts_with("The best plan cuts"), "{}", headline(&quick));
    assert_eq!(plan(&map, &["--quick", "--compare", "all"]).code, Some(2));
    let all = at(0.05, &["--compare", "all"]);
    let (lean, smart) = (&all["choice"]["smartre_lean"], &all["choice"]["smartre"]);
    assert!(number(&lean["reduction"]) >= 0.9499 * number(&smart["reduction"]));
    let devices = |one: &Value| number(&one["encoders"]) + number(&one["decoders"]);
    assert!(devices(lean) < devices(smart), "{lean} of {smart}");
    assert!(choice["smartre_lean"].is_null());
}

/// "+1 GB" is what a plan with a GB more saves.
#[test]
fn upgrades_are_what_a_new_plan_gives() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let small = ["--interior-memory", "300MB", "--operations", "inf", "--load", "100%"];
    let found = document(&map, &small);
    let best = &found["upgrades"][0];
    assert_eq!((&best["resource"], &best["by"]), (&"cache".into(), &"1.00 GB".into()));
    let (gain, bound) = (number(&best["gain"]), number(&best["bound"]));
    assert!(gain > 0.0 && gain < 0.9 * bound, "{gain} of {bound}");
    let larger = format!("{}\t1300MB\t1e12\n", best["device"].as_str().expect("text"));
    let larger = dir.write("devices.tsv", larger.as_bytes());
    let larger = document(&map, &[&small[..], &["--devices", larger.to_str().unwrap()]].concat());
    let more = number(&larger["solution"]["value"]) - number(&found["solution"]["value"]);
    assert!((gain / more - 1.0).abs() < 1e-3, "{gain}, with the cache {more}");
}

#[test]
fn devices_for_a_target_and_for_a_budget() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let found = document(&map, &["--target", "20%"]);
    let bought = &found["bought"];
    let devices = bought["devices"].as_array().expect("a list");
    let cost = number(&bought["cost"]);
    assert_eq!(cost, devices.len() as f64, "without prices, devices are counted");
    assert!(number(&found["verdict"]["reduction"]) >= 0.2 * (1.0 - 1e-5));
    assert!(cost < number(&bought["whole_cost"]));
    assert_eq!(bought["proven"], true);
    let encoders = devices.iter().filter(|one| one["what"] == "encoder").count();
    let said = format!("with {encoders} encoders and {} decoders", devices.len() - encoders);
    assert!(headline(&found).contains(&said), "{said}: {}", headline(&found));
    // The same money saves at least as much, and one device less does not reach the target.
    let budget = |money: f64| {
        let found = document(&map, &["--budget", &money.to_string()]);
        assert!(number(&found["bought"]["cost"]) <= money);
        number(&found["verdict"]["reduction"])
    };
    assert!(budget(cost) >= 0.2 * (1.0 - 1e-5));
    assert!(budget(cost - 1.0) < 0.2);
    // What is not bought is not in the plan.
    let used: BTreeSet<&str> = devices.iter().filter_map(|one| one["name"].as_str()).collect();
    for device in found["devices"].as_array().expect("a list") {
        let name = device["name"].as_str().expect("text");
        assert!(used.contains(name) || device["ranges"] == 0, "{name}");
    }
    let prices = ["--price-device", "100", "--price-cache", "10/GB", "--price-link", "0.01/GB"];
    let priced = document(&map, &[&prices[..], &["--target", "20%"]].concat());
    // A device and 6 GB of cache are 160, an encoder with 3 GB 130.
    for one in priced["bought"]["devices"].as_array().expect("a list") {
        let expected = if one["what"] == "encoder" { 130.0 } else { 160.0 };
        assert!((number(&one["price"]) - expected).abs() < 1e-6, "{one}");
    }
    let money = &priced["money"]["smartre"];
    let solution = number(&priced["solution"]["value"]);
    let month = 30.0 * 86_400.0 / number(&priced["network"]["epoch_seconds"]);
    let saved = solution / 1e9 * 0.01 * month;
    assert!((number(&money["saved_per_month"]) / saved - 1.0).abs() < 1e-6);
    let months = number(&money["price"]) / saved;
    assert!((number(&money["months"]) / months - 1.0).abs() < 1e-6);
    let text = String::from_utf8(plan(&map, &prices).fine()).expect("text");
    assert!(text.contains("paid back in") && text.contains("taken as constant"), "{text}");
    let refused: [(&[&str], &[&str]); 7] = [
        (&["--target", "90%"], &["--target", "all devices together save"]),
        (&["--target", "0%"], &["--target 0%", "above 0%"]),
        (&["--budget", "1"], &["--budget", "an encoder and a decoder cost 2 at least"]),
        (&["--budget", "1", "--price-device", "0"], &["--price-device", "above 0"]),
        (&["--budget", "1", "--target", "5%"], &["--target"]),
        (&["--budget", "5", "--deploy", "3"], &["--deploy"]),
        (&["--budget", "-1"], &["--budget"]),
    ];
    for (args, words) in refused {
        let ran = plan(&map, args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(words.iter().all(|word| ran.err.contains(word)), "{args:?}: {}", ran.err);
    }
    let without = plan(&map, &["--price-cache", "1/GB", "--interior-memory", "0", "--budget", "1"]);
    assert_eq!(without.code, Some(2), "{}", without.err);
}

#[test]
fn every_failure_in_one_run() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let kept = document(&map, &["--failures"]);
    let anew = document(&map, &["--failures=anew"]);
    let rows = |found: &Value| found["failures"].as_array().expect("a list").clone();
    assert_eq!((rows(&kept).len(), rows(&anew).len()), (12, 12));
    let (worst, words) = (&kept["worst_failures"], headline(&kept));
    let least = rows(&kept).iter().map(|row| number(&row["reduction"])).fold(1.0, f64::min);
    assert_eq!(number(&worst["least"]["reduction"]), least);
    let label = worst["least"]["label"].as_str().expect("text");
    assert!(
        words.contains(&format!("without {} {label}", worst["least"]["kind"].as_str().unwrap())),
        "{words}"
    );
    for (kept, anew) in rows(&kept).iter().zip(&rows(&anew)) {
        assert!(kept["reduction_anew"].is_null());
        assert_eq!(kept["reduction"], anew["reduction"]);
        assert!(number(&anew["reduction_anew"]) >= number(&anew["reduction"]) - 1e-5, "{anew}");
        assert!(number(&anew["busiest_utilization"]) > 0.0, "the map has capacities");
    }
    // As a map without that link.
    let without = MAP.replace(r#"{"a":"b","b":"c","weight":2,"capacity_bps":1e9},"#, "");
    assert_ne!(without, MAP);
    let without = document(&dir.write("without.json", without.as_bytes()), &["--quick"]);
    let row = rows(&anew).into_iter().find(|row| row["name"] == "b - c").expect("the link");
    assert!(
        (number(&row["reduction_anew"]) - number(&without["verdict"]["reduction"])).abs() < 1e-5
    );
    assert_eq!((&row["cut_paths"], &row["kind"]), (&0.into(), &"link".into()));
    // The spur is cut off.
    let row = rows(&anew).into_iter().find(|row| row["name"] == "d - f").expect("the link");
    assert_eq!(row["cut_paths"], 10);
    let (page, tables) = (dir.join("report.html"), dir.join("tables"));
    let written =
        ["--failures", "--report", page.to_str().unwrap(), "--csv", tables.to_str().unwrap()];
    let text = String::from_utf8(plan(&map, &written).fine()).expect("text");
    assert!(text.contains("Single failures"), "{text}");
    let table = String::from_utf8(read(&tables.join("failures.csv"))).expect("text");
    assert_eq!(table.lines().count(), 13, "{table}");
    assert!(String::from_utf8(read(&page)).expect("text").contains("id=\"failures\""));
    let never = plan(&map, &["--failures=never"]);
    assert!(never.code == Some(2) && never.err.contains("kept, anew"), "{}", never.err);
}

#[test]
fn manifests_as_files_that_replace_none() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    let place = dir.join("manifests");
    let found = document(&map, &["--quick", "--manifests-dir", place.to_str().unwrap()]);
    let list = || -> BTreeSet<String> {
        let names = std::fs::read_dir(&place).expect("a directory");
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let files = list();
    assert_eq!(
        files.len() as u64,
        found["manifests"]["devices"].as_u64().unwrap() + 6,
        "{files:?}"
    );
    assert!(files.contains("device-0-a-b.json") && files.contains("ingress-0-a.json"), "{files:?}");
    for file in &files {
        let manifest: Value = serde_json::from_slice(&read(&place.join(file))).expect("JSON");
        assert_eq!(
            (&manifest["format"], &manifest["network"]),
            (&1.into(), &"ring".into()),
            "{file}"
        );
    }
    std::fs::write(place.join("device-0-a-b.json"), "kept").expect("written");
    let again = plan(&map, &["--quick", "--manifests-dir", place.to_str().unwrap()]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("none is written over") && again.out.is_empty(), "{}", again.err);
    assert_eq!((read(&place.join("device-0-a-b.json")), list()), (b"kept".to_vec(), files));
    plan(&map, &["--single", "all", "--manifests-dir", place.to_str().unwrap()])
        .fails(2, &["manifests"]);
}

#[test]
fn partial_deployment_counts_its_links() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    for args in [&["--deploy", "3"][..], &["--deploy", "3", "--quick"]] {
        let found = document(&map, args);
        assert!(headline(&found).contains("decoders on 3 of 12 links"), "{}", headline(&found));
    }
    // Hop-by-hop may choose links of its own.
    let found = document(&map, &["--deploy", "1", "--strategy", "paths"]);
    let choice = &found["choice"];
    let devices = |one: &Value| number(&one["encoders"]) + number(&one["decoders"]);
    assert!(devices(&choice["hop_by_hop"]) <= devices(&choice["smartre"]));
    assert_eq!(choice["hop_by_hop"]["reduction"], choice["at_devices"]["reduction"]);
}

#[test]
fn long_packets_and_their_matches_agree_in_plan_and_emulation() {
    let dir = Dir::new();
    let map = dir.write("map.json", MAP.as_bytes());
    for (packet, length) in [("9000", "8940"), ("1500", "1440"), ("1000", "1000")] {
        let found = document(&map, &["--packet", packet, "--quick"]);
        let settings = found["settings"].to_string();
        assert!(settings.contains(&format!("[\"match length\",\"{length} bytes\"]")), "{settings}");
        let mut args = args!["emulate", &map];
        args.extend(["--packet", packet, "--scale", "0.01%", "--quick"].map(Into::into));
        run(args, b"").fine();
    }
    plan(&map, &["--packet", "9000", "--match-length", "8941"])
        .fails(2, &["--match-length 8941", "8940 bytes of payload"]);
    document(&map, &["--packet", "9000", "--match-length", "8940", "--quick"]);
}

/// Names that a spreadsheet would compute.
#[test]
fn no_cell_of_a_table_is_a_formula() {
    let dir = Dir::new();
    let hostile = MAP.replace("\"Beta\"", "\"=HYPERLINK(1)\"").replace("\"Gamma\"", "\"-2+3\"");
    let map = dir.write("map.json", hostile.as_bytes());
    let tables = dir.join("tables");
    plan(&map, &["--quick", "--csv", tables.to_str().unwrap()]).fine();
    let nodes = String::from_utf8(read(&tables.join("nodes.csv"))).expect("text");
    assert!(nodes.contains(",'=HYPERLINK(1),") && nodes.contains(",'-2+3,"), "{nodes}");
    for file in std::fs::read_dir(&tables).expect("a directory") {
        let text = String::from_utf8(read(&file.unwrap().path())).expect("text");
        for cell in text.lines().flat_map(|line| line.split(',')) {
            let formula = cell.trim_start_matches('"').starts_with(['=', '+', '-', '@']);
            assert!(!formula || cell.parse::<f64>().is_ok(), "{cell}");
        }
    }
}
