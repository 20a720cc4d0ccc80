//! Documents and samples of a status say the same.

use super::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Metrics with these values and the next ones.
fn numbered<M: Metrics>(first: u64) -> M {
    M::from_values(first..)
}

fn tunnel() -> Status {
    let session = SessionStatus {
        peer: "ow1a".into(),
        name: Some("site".into()),
        agent: "oncewire 0.1.0".into(),
        phase: "established".into(),
        age: Duration::from_millis(1_500),
        idle: Duration::from_millis(2_500),
        address: Some("[2001:db8::1]:7077".parse().unwrap()),
        transport: Some("quic".into()),
        peer_cache_limit: Some(1 << 40),
        refused_targets: 3,
        lanes: 4,
        lanes_up: 2,
        effort: Some(EffortStatus { effort: "raw, p = 32".into(), budget: 0.25, changes: 7 }),
        here: numbered(100),
        there: Some((numbered(1_000), Duration::from_millis(3_500))),
    };
    let other = SessionStatus { there: None, effort: None, ..session.clone() };
    Status {
        application_sent: 91,
        application_received: 92,
        role: Role::Connect,
        version: "0.1.0".into(),
        key: "ow1q".into(),
        uptime: Duration::from_millis(4_500),
        listening: vec!["192.0.2.1:7077".into()],
        memory_limit: 11,
        memory: 12,
        transport_sent: u64::MAX,
        transport_received: 14,
        kept_logs: 15,
        shrunk: 16,
        grown: 17,
        refused_transports: 18,
        refused_connections: 19,
        displaced_proxy_clients: 20,
        socks4_clients: 21,
        unauthorized_proxy_clients: 22,
        draining: true,
        last_failure: Some("no route to host".into()),
        store: Some(StoreStatus {
            directory: "/var/lib/oncewire/cache".into(),
            limit: 1 << 30,
            used: 1 << 20,
            encrypted: true,
            peers: 1,
            held: 7,
            oldest: Some(3600),
            written: 8,
            repeated: 38,
            pending: 5,
            lost: 9,
            read: 31,
            device_written: 32,
            day_written: 33,
            recalled_hour: 34,
            recalled_day: 35,
            recalled_older: 36,
            lost_ranges: 37,
            failed: true,
            failure: Some("it is full".into()),
        }),
        history: Some(HistoryStatus {
            file: "/var/lib/h".into(),
            recording: false,
            failure: Some("disk full".into()),
        }),
        services: vec![ServiceStatus {
            name: "origin.example:443".into(),
            counters: numbered(200),
        }],
        https: vec![HttpsStatus {
            name: "*.pypi.example".into(),
            opened: 31,
            passed: [("not_tls".to_owned(), 32), ("origin_refused".to_owned(), 33)].into(),
            ended: [("origin_issuer".to_owned(), 41)].into(),
            refused_by_clients: 34,
            failed_handshakes: 35,
            clients_passed: 36,
            sent: 37,
            received: 38,
            wire_sent: 39,
            wire_received: 40,
            last_problem: Some("no".into()),
        }],
        sessions: vec![session, other],
    }
}

fn link() -> LinkStatus {
    let traffic = |first| Traffic {
        sent: numbered(first),
        received: numbered(first + 100),
        forged: first + 200,
    };
    let connected = PeerStatus {
        key: "ow1a".into(),
        connection: Some(ConnectionStatus {
            address: "192.0.2.7:7077".into(),
            cipher: "AES-128-GCM".into(),
            rtt: Duration::from_micros(12_345),
            key_age: Duration::from_millis(5_500),
        }),
        allowed: vec!["10.1.0.0/16".into()],
        traffic: traffic(1_000),
        drops: numbered(2_000),
        ..PeerStatus::default()
    };
    let absent = PeerStatus {
        key: "ow1b".into(),
        name: Some("site".into()),
        configured_address: Some("site.example:7077".into()),
        last_failure: Some("timed out".into()),
        ..PeerStatus::default()
    };
    LinkStatus {
        version: "oncewire 0.1.0".into(),
        key: "ow1q".into(),
        uptime: Duration::from_millis(6_500),
        address: "[::]:7077".into(),
        device: "oncewire0".into(),
        mtu: 1416,
        peers: vec![connected, absent],
        refused_handshakes: 1,
        last_refused: Some("192.0.2.8:5: no".into()),
        retries: 2,
        traffic: traffic(3_000),
        drops: numbered(4_000),
        history: None,
    }
}

/// What a value counts as.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or(value.as_bool().map(|flag| f64::from(u8::from(flag))))
}

/// Paths of all numbers of a document.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        Value::Number(_) => {
            found.insert(path.into());
            return;
        }
        _ => return,
    };
    for (name, value) in children {
        paths(value, &format!("{path}/{name}"), found);
    }
}

#[test]
fn every_number_of_a_document_is_a_sample() {
    let documents = [
        (serde_json::to_value(tunnel().document()).unwrap(), tunnel().samples()),
        (serde_json::to_value(link().document()).unwrap(), link().samples()),
    ];
    for (document, samples) in documents {
        let mut expected = BTreeSet::new();
        paths(&document, "", &mut expected);
        // Neither changes while a process runs; or it is made of other numbers.
        expected.retain(|path| {
            !path.starts_with("/format")
                && !path.starts_with("/protocol_versions")
                && !path.contains("/not_reduced/")
                && !path.contains("/cpu_budget/")
        });
        let mut seen = BTreeSet::new();
        for Sample { scope, metric, labels, value } in samples {
            let label = |name| labels.iter().find(|(label, _)| *label == name);
            let place = match (scope, label("session"), label("peer")) {
                ("", None, None) => String::new(),
                ("session", Some((_, number)), Some(_)) => format!("/sessions/{number}"),
                (end @ ("here" | "there"), Some((_, number)), Some(_)) => {
                    format!("/sessions/{number}/{end}")
                }
                ("service", None, None) => {
                    assert_eq!(label("service").unwrap().1, "origin.example:443");
                    "/services/0".into()
                }
                ("https", None, None) => match label("why") {
                    Some((_, why)) => format!("/https/0/{}/{why}", metric.name),
                    None => "/https/0".into(),
                },
                (way, None, None) => format!("/{way}"),
                (scope, None, Some((_, key))) => {
                    let at = usize::from(key != "ow1a");
                    let way =
                        scope.strip_prefix("peer_").map_or(String::new(), |way| format!("/{way}"));
                    format!("/peers/{at}{way}")
                }
                unknown => panic!("{unknown:?}"),
            };
            let path = match metric.name {
                "passed" | "ended" => place,
                name => format!("{place}/{name}"),
            };
            let shown = document.pointer(&path).and_then(number);
            assert_eq!(shown, Some(value), "{path}");
            assert!(metric.help.ends_with('.'), "{path}: {}", metric.help);
            assert!(seen.insert(path.clone()), "{path} twice");
            expected.remove(&path);
        }
        assert_eq!(expected, BTreeSet::new(), "numbers without a sample");
    }
}

#[test]
fn documents_are_read_as_written() {
    let read = |document: &Value| {
        Document::check(document).unwrap();
        Document::read(document).unwrap()
    };
    for document in [
        Document::Tunnel(tunnel().into()),
        Document::Tunnel(Status::default().into()),
        Document::Link(link().into()),
        Document::Link(LinkStatus::default().into()),
    ] {
        let written = serde_json::to_value(&document).unwrap();
        assert_eq!(read(&written), document);
        let mut newer = written;
        newer["added_later"] = json!({ "to": ["come"] });
        assert_eq!(read(&newer), document);
    }
}

#[test]
fn documents_of_others_are_read_or_refused() {
    let old =
        json!({ "format": FORMAT, "role": "serve", "sessions": [{ "here": { "flows": 3 } }] });
    let Document::Tunnel(status) = Document::read(&old).unwrap() else { panic!("a link") };
    assert_eq!(status.sessions[0].here, Counters { flows: 3, ..Counters::default() });

    for (document, error) in [
        (json!({}), DocumentError::NoFormat),
        (json!([1]), DocumentError::NoFormat),
        (json!({ "format": "1" }), DocumentError::NoFormat),
        (json!({ "format": 2, "role": 7 }), DocumentError::Format(2)),
    ] {
        assert_eq!(Document::check(&document), Err(error), "{document}");
    }
    for document in [
        json!({}),
        json!({ "role": "relay" }),
        json!({ "role": "serve", "sessions": [{ "here": { "flows": -1 } }] }),
        json!({ "role": "link", "peers": 4 }),
    ] {
        assert!(Document::read(&document).is_err(), "{document}");
    }
    // No duration is that long.
    let long = json!({ "role": "connect", "uptime_seconds": 1e300 });
    assert!(Document::read(&long).is_ok());
}
