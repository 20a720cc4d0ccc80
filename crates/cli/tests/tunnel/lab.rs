//! The lab: nodes as processes, which carry out manifests and a controller's plans on the packets of a
//! capture. Needs root and the `ip` program.

use crate::support::ONCEWIRE;
use oncewire_testkit::lab::{self, Kill, LabError, Outcome, Settings};
use oncewire_testkit::skip;
use std::time::Duration;
use tempfile::TempDir;

/// Four nodes in a square with a diagonal that costs more than the way around.
const SQUARE: &str = r#"{"name": "square", "nodes": [
    {"id": "A", "population": 1}, {"id": "B", "population": 1},
    {"id": "C", "population": 1}, {"id": "D", "population": 1}],
 "links": [{"a": "A", "b": "B"}, {"a": "B", "b": "C"}, {"a": "C", "b": "D"}, {"a": "D", "b": "A"},
    {"a": "A", "b": "C", "weight": 5}]}"#;

fn run(change: impl Fn(&mut Settings)) -> Option<Result<Outcome, LabError>> {
    let dir = TempDir::new().unwrap();
    let topology = dir.path().join("square.json");
    std::fs::write(&topology, SQUARE).unwrap();
    let place = dir.path().join("lab");
    std::fs::create_dir(&place).unwrap();
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/site.pcap.zst");
    let mut settings = Settings {
        program: ONCEWIRE.into(),
        topology,
        capture: capture.into(),
        packets: 1200,
        memory: None,
        time: Duration::from_secs(1),
        loss: 0.0,
        kill: None,
        directory: place,
        verbose: false,
    };
    change(&mut settings);
    match lab::run(&settings) {
        Err(LabError::Unavailable(why)) => skip!("{why}"),
        outcome => Some(outcome),
    }
}

/// All packets leave as they entered with every scheme, and links carry fewer bytes with manifests than
/// without. That they carry as few as the emulator says is for a machine with time (docs/NETWORK.md).
#[test]
fn packets_of_a_capture_cross_nodes_with_each_scheme() {
    let Some(outcome) = run(|_| {}) else { return };
    let outcome = outcome.unwrap();
    assert_eq!((outcome.nodes, outcome.packets), (4, 1200));
    let live: Vec<_> = outcome.schemes.iter().filter_map(|scheme| scheme.live.as_ref()).collect();
    assert_eq!(live.len(), 4);
    for carried in &live {
        assert_eq!((carried.sent, carried.delivered, carried.lost), (1200, 1200, 0));
    }
    let decoded = |at: usize| {
        let found = live[at].counted.iter().find(|(name, _)| name == "decoded");
        found.map_or(0, |found| found.1)
    };
    assert_eq!(decoded(0), 0, "bare");
    assert!(decoded(1) > 10 && decoded(2) > 10, "{:?}", live[2].counted);
    assert!(live[0].link_bytes > outcome.packet_links, "{outcome:?}");
    assert!(live[2].link_bytes < live[0].link_bytes, "{outcome:?}");
    // Links hop by hop find repeats, too.
    assert!(live[3].link_bytes < live[0].link_bytes, "{outcome:?}");
    let names: Vec<_> = outcome.schemes.iter().map(|scheme| scheme.name).collect();
    assert_eq!(names, ["bare", "edge-only", "SmartRE", "hop-by-hop", "Ideal"]);
    assert!(outcome.schemes.iter().all(|scheme| scheme.emulated.is_some()), "{outcome:?}");
}

/// With a controller, packets between the other nodes go on when a node is killed. With losses, nothing
/// else leaves than what entered.
#[test]
fn packets_go_on_when_a_node_is_killed() {
    let kill = Kill { node: "B".into(), after: Duration::from_secs(1) };
    let Some(outcome) = run(|settings| {
        (settings.loss, settings.packets, settings.kill) = (0.01, 300, Some(kill.clone()));
    }) else {
        return;
    };
    let outcome = outcome.unwrap();
    for scheme in outcome.schemes.iter().filter_map(|scheme| scheme.live.as_ref()) {
        assert_eq!((scheme.sent, scheme.delivered + scheme.lost), (300, 300));
        assert!(scheme.delivered > 200, "{outcome:?}");
    }
    let death = outcome.killed.unwrap();
    assert!(death.sent > death.lost_before + death.lost_after, "{death:?}");
}

/// What cannot be used is one line.
#[test]
fn a_lab_says_what_is_wrong() {
    let said = |change: &dyn Fn(&mut Settings)| match run(change) {
        Some(Err(error)) => error.to_string(),
        Some(Ok(outcome)) => panic!("{outcome:?}"),
        None => "no packet; no node Q".into(),
    };
    let not_a_capture = said(&|settings| settings.capture = settings.topology.clone());
    assert!(not_a_capture.contains("capture"), "{not_a_capture}");
    let none = said(&|settings| settings.packets = 0);
    assert!(none.contains("no packet"), "{none}");
    let stranger = said(&|settings| {
        settings.kill = Some(Kill { node: "Q".into(), after: Duration::ZERO });
    });
    assert!(stranger.contains("no node Q"), "{stranger}");
}
