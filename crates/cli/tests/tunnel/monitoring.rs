//! Metrics of a running pair, as Prometheus sees them.

use crate::support::*;
use oncewire_testkit::servers::{Running, free_port, incompressible};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ADMIN: [&str; 2] = ["--admin", "0"];

/// The files for monitoring in the documents.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/monitoring")
}

/// The admin address, which the log tells.
fn admin(end: &End) -> SocketAddr {
    let said = end.said();
    let line = said.lines().find(|line| line.contains("over HTTP")).expect("a line");
    line.split("address=").nth(1).and_then(|rest| rest.trim().parse().ok()).expect("an address")
}

/// The body of an answer.
fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

fn metric(at: SocketAddr, name: &str) -> f64 {
    let text = get(at, "/metrics");
    let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn metrics_count_what_crossed_and_outlive_sessions() {
    const LEN: usize = 300_000;
    let content = incompressible(1, LEN);
    let mut tunnel = Plan::new().to(sender(content.clone())).serve(&ADMIN).connect(&ADMIN).start();
    for _ in 0..2 {
        assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    }
    let (serve, connect) = (admin(&tunnel.serve), admin(&tunnel.connect));
    wait_until("both ends counted it", || {
        metric(serve, "oncewire_application_sent_bytes_total") == 2.0 * LEN as f64
            && metric(connect, "oncewire_application_received_bytes_total") == 2.0 * LEN as f64
    });
    let sent = metric(serve, "oncewire_transport_sent_bytes_total");
    assert!((LEN as f64..1.1 * LEN as f64).contains(&sent), "{sent}");
    let document: serde_json::Value = serde_json::from_str(&get(serve, "/status")).unwrap();
    assert_eq!(document["application_sent_bytes"], 2 * LEN);
    assert_eq!(document["role"], "serve");

    // Another session begins with counters of zero; what the process carried stays.
    tunnel.restart_connect();
    tunnel.established();
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    wait_until("the third time was counted", || {
        metric(serve, "oncewire_application_sent_bytes_total") == 3.0 * LEN as f64
    });
}

/// The names of metrics in a file of rules or of a dashboard.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = text.match_indices("oncewire_").map(|(at, _)| &text[at..]);
    starts.map(|rest| rest.chars().take_while(|&c| is_part(c)).collect()).collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_exist() {
    let dir = tempfile::TempDir::new().unwrap();
    let history = dir.path().join("history");
    let store = dir.path().join("store");
    let files = ["--history", history.to_str().unwrap(), "--store", store.to_str().unwrap()];
    let connect = [&ADMIN[..], &files].concat();
    let tunnel = Plan::new().to(echo()).serve(&ADMIN).connect(&connect).start();
    let at = admin(&tunnel.connect);
    // A service has metrics once something was carried to it.
    assert_same(&exchange(tunnel.way(0), b"once").unwrap(), b"once", "the echo");
    wait_until("the other end reported", || {
        let metrics = get(at, "/metrics");
        ["oncewire_session_there_age_seconds{", "oncewire_service_sent_bytes_total{"]
            .iter()
            .all(|name| metrics.contains(name))
    });
    let known = names(&get(at, "/metrics"));
    assert!(known.len() > 80, "{known:?}");
    for file in ["alerts.yml", "dashboard.json"] {
        let used = names(&std::fs::read_to_string(examples().join(file)).unwrap());
        // Those of links, nodes and controllers are checked beside their definitions.
        let elsewhere = ["oncewire_link_", "oncewire_node_", "oncewire_controller_"];
        let is_elsewhere = |name: &str| elsewhere.iter().any(|prefix| name.starts_with(prefix));
        let unknown: Vec<_> =
            used.iter().filter(|name| !known.contains(*name) && !is_elsewhere(name)).collect();
        assert!(unknown.is_empty() && used.len() > 10, "{file}: {unknown:?}");
    }
    // And the document says of each alert what to do.
    let manual = std::fs::read_to_string(examples().join("../../OPERATING.md")).unwrap();
    let rules = std::fs::read_to_string(examples().join("alerts.yml")).unwrap();
    let alerts: Vec<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        assert!(manual.contains(&format!("| {alert} |")), "{alert}");
    }
    let dashboard = std::fs::read_to_string(examples().join("dashboard.json")).unwrap();
    let _: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn promtool_accepts_metrics_and_rules() {
    if !is_installed("promtool") {
        oncewire_testkit::skip!("promtool is not installed");
    }
    let tunnel = Plan::new().to(echo()).serve(&ADMIN).start();
    let metrics = get(admin(&tunnel.serve), "/metrics");
    let checked =
        finish_with(Command::new("promtool").args(["check", "metrics"]), metrics.as_bytes());
    assert!(checked.status.success(), "{}", text(&checked));
    for args in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts-test.yml"],
        ["check", "config", "prometheus.yml"],
    ] {
        let checked = finish(Command::new("promtool").args(args).current_dir(examples()));
        assert!(checked.status.success(), "{args:?}: {}", text(&checked));
    }
}

#[test]
fn prometheus_computes_the_savings() {
    if !is_installed("prometheus") || !is_installed("promtool") {
        oncewire_testkit::skip!("Prometheus is not installed");
    }
    let content = incompressible(2, 400_000);
    let tunnel = Plan::new().to(sender(content)).serve(&ADMIN).connect(&ADMIN).start();
    let dir = tempfile::TempDir::new().unwrap();
    let ends = [admin(&tunnel.serve), admin(&tunnel.connect)];
    // As in the documents, but faster and for this pair.
    let config = std::fs::read_to_string(examples().join("prometheus.yml")).unwrap();
    let config = config
        .replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")
        .replace("\"127.0.0.1:7078\"", &format!("\"{}\", \"{}\"", ends[0], ends[1]));
    std::fs::write(dir.path().join("prometheus.yml"), config).unwrap();
    std::fs::copy(examples().join("alerts.yml"), dir.path().join("alerts.yml")).unwrap();
    let at = format!("127.0.0.1:{}", free_port().unwrap());
    let mut command = Command::new("prometheus");
    command
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address={at}"))
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _prometheus = Running::start(&mut command).unwrap();
    let ask = |query: &str| {
        let url = format!("http://{at}");
        text(&finish(Command::new("promtool").args(["query", "instant", &url, query])))
    };
    wait_until("both ends are up", || ask("count(up{job=\"oncewire\"} == 1)").contains("=> 2 "));
    wait_until("the savings are known", || {
        fetch(tunnel.way(0)).unwrap();
        ask("oncewire:savings:ratio5m > 0.5").contains("oncewire:savings:ratio5m{")
    });
    assert_eq!(ask("ALERTS{alertstate=\"firing\"}").trim(), "");
}
