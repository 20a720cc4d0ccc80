use super::*;
use crate::history::History;
use crate::status::{
    ConnectionStatus, Counters, Document, LinkStatus, PeerStatus, SessionStatus, Status,
};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOKEN: &str = "0123456789abcdef";

fn session(peer: &str, name: Option<&str>, sent: u64) -> SessionStatus {
    SessionStatus {
        peer: peer.into(),
        name: name.map(Into::into),
        phase: "established".into(),
        here: Counters { sent_bytes: sent, rtt_us: 1500, ..Counters::default() },
        there: Some((Counters { sent_bytes: 7, ..Counters::default() }, Duration::from_secs(3))),
        ..SessionStatus::default()
    }
}

fn tunnel() -> Document {
    let sessions = vec![
        session("ow1a", Some("one"), 10),
        session("ow1a", Some("one"), 20),
        session("ow1b", None, 30),
    ];
    Document::Tunnel(Box::new(Status { sessions, ..Status::default() }))
}

fn link() -> Document {
    let peer = PeerStatus { key: "ow1a".into(), ..PeerStatus::default() };
    let peers = vec![peer];
    Document::Link(Box::new(LinkStatus { peers, ..LinkStatus::default() }))
}

/// Samples by name and labels, after checking what the format asks for: each family has a help text
/// and a type, then its samples, in one place.
fn read(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && families.insert(name.to_owned()), "{name} twice");
            family = name.into();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            kind = of.into();
            continue;
        }
        let (id, value) = line.rsplit_once(' ').unwrap();
        let name = id.split('{').next().unwrap();
        assert_eq!(name, family, "{line}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
        assert!(samples.insert(id.to_owned(), value.parse().unwrap()).is_none(), "{id} twice");
    }
    samples
}

#[test]
fn samples_have_base_units_and_one_name_each() {
    let samples = read(&exposition(&tunnel()));
    let of = |name: &str, labels: &str| samples[&format!("oncewire_{name}{{{labels}}}")];
    let first = "peer=\"ow1a\",name=\"one\",session=\"0\"";
    assert_eq!(of("session_sent_bytes_total", first), 10.0);
    assert_eq!(of("session_sent_bytes_total", &first.replace("n=\"0\"", "n=\"1\"")), 20.0);
    assert_eq!(of("session_sent_bytes_total", "peer=\"ow1b\",session=\"0\""), 30.0);
    assert_eq!(of("session_there_sent_bytes_total", first), 7.0);
    assert_eq!(of("session_there_age_seconds", first), 3.0);
    assert_eq!(of("session_rtt_seconds", first), 0.0015);
    assert_eq!(of("session_log_end_bytes", first), 0.0);
    assert_eq!(of("session_established", first), 1.0);
    assert_eq!(samples["oncewire_left_out_samples"], 0.0);
    #[cfg(target_os = "linux")]
    assert!(samples["process_resident_memory_bytes"] > 0.0);

    let samples = read(&exposition(&link()));
    assert_eq!(samples["oncewire_link_peer_up{peer=\"ow1a\"}"], 0.0);
    assert!(samples.keys().any(|name| name.starts_with("oncewire_link_sent_")));
    assert!(samples.keys().any(|name| name.starts_with("oncewire_link_peer_received_")));
}

#[test]
fn hostile_names_stay_labels() {
    let name = "a\"} 1\nb \\\u{1b}[31m".to_owned() + &"x".repeat(100_000);
    let sessions = vec![session("ow1a", Some(&name), 1)];
    let text = exposition(&Document::Tunnel(Box::new(Status { sessions, ..Status::default() })));
    assert!(!text.contains('\u{1b}') && text.len() < 200_000, "{}", text.len());
    let found = read(&text).into_keys().find(|id| id.starts_with("oncewire_session_flows{"));
    assert!(found.unwrap().contains(r#"name="a\"} 1"#));
}

#[test]
fn too_many_sessions_are_counted_and_left_out() {
    let sessions = (0..4000).map(|at| session(&format!("ow1{at}"), None, at)).collect();
    let text = exposition(&Document::Tunnel(Box::new(Status { sessions, ..Status::default() })));
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!((200_000..210_000).contains(&lines), "{lines}");
    let left = text.lines().find_map(|line| line.strip_prefix("oncewire_left_out_samples "));
    assert!(left.unwrap().parse::<f64>().unwrap() > 0.0);
}

/// What a server answers with that renders with `render`.
fn answers(render: fn(&Document) -> String) -> Answers<fn() -> Document> {
    let page = |view: &View<'_>| Page {
        html: format!("<p>{}", view.history.recent(<[_]>::len)),
        policy: "default-src 'self'".into(),
    };
    let update = |view: &View<'_>| format!("{:?}", view.price);
    let pages = Pages { page: std::sync::Arc::new(page), update: std::sync::Arc::new(update) };
    Answers { document: tunnel, render, history: History::start(None).into(), pages }
}

/// A server on loopback.
async fn start(token: Option<&str>) -> SocketAddr {
    let token = token.map(|token| Token::new(token).unwrap());
    let admin = Admin::new("127.0.0.1:0".parse().unwrap(), token).unwrap();
    let server = AdminServer::bind(&admin).await.unwrap();
    let address = server.address();
    tokio::spawn(server.run(answers(|document| serde_json::to_string(document).unwrap())));
    address
}

/// The answer to a request: status, head, body.
async fn ask(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have answered before it has read everything.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.get(9..12).map_or(0, |status| status.parse().unwrap());
    (status, head.to_lowercase(), body.to_owned())
}

#[tokio::test]
async fn paths_and_methods() {
    let at = start(None).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost:7078\r\n\r\n");
    let (status, head, body) = ask(at, &get("/metrics")).await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(!head.contains("access-control"), "{head}");
    assert_eq!(read(&body)["oncewire_session_flows{peer=\"ow1b\",session=\"0\"}"], 0.0);
    let (status, _, body) = ask(at, &get("/status?x")).await;
    assert_eq!((status, &body[..1]), (200, "{"));
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["sessions"][1]["here"]["sent_bytes"], 20);
    let (status, head, body) = ask(at, &get("/")).await;
    assert_eq!((status, &*body), (200, "<p>0"));
    assert!(head.contains("content-type: text/html"), "{head}");
    let policy = "content-security-policy: default-src 'self'; frame-ancestors 'none'\r\n";
    assert!(head.contains(policy) && head.matches("content-security").count() == 1, "{head}");
    for (query, price) in [
        ("", "None"),
        ("?price=%241%2FGB", "Some(\"$1/GB\")"),
        ("?x=1&price=1+EUR", "Some(\"1 EUR\")"),
        ("?price=%e2%82%ac1", "Some(\"€1\")"),
        ("?price=%e2", "None"),
        ("?price=%4", "None"),
        ("?price=%zz", "None"),
    ] {
        assert_eq!(ask(at, &get(&format!("/update{query}"))).await.2, price, "{query}");
    }
    let long = ask(at, &get(&format!("/update?price={}", "9".repeat(9999)))).await.2;
    assert!(long.len() < 300, "{long}");
    assert_eq!(ask(at, &get("/other")).await.0, 404);
    assert_eq!(ask(at, &get("/metrics").replace("GET", "HEAD")).await.2, "");
    let (status, head, _) = ask(at, &get("/metrics").replace("GET", "POST")).await;
    assert!(status == 405 && head.contains("allow: get, head"), "{head}");
}

#[tokio::test]
async fn other_sites_cannot_read_it_through_a_browser() {
    let at = start(None).await;
    let of = |host: &str| format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n");
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7078", "127.1.2.3", "[::1]:7078", "[::1]"] {
        assert_eq!(ask(at, &of(&format!("Host: {host}"))).await.0, 200, "{host}");
    }
    for host in
        ["evil.example", "127.0.0.1.evil.example:7078", "localhost.evil.example", "", "[::2]"]
    {
        assert_eq!(ask(at, &of(&format!("Host: {host}"))).await.0, 421, "{host}");
    }
    assert_eq!(ask(at, &of("X: y")).await.0, 421);
}

#[tokio::test]
async fn a_token_is_asked_for() {
    use base64::Engine;
    let at = start(Some(TOKEN)).await;
    let of =
        |header: &str| format!("GET /metrics HTTP/1.1\r\nHost: hub.example\r\n{header}\r\n\r\n");
    let basic = |pair: &str| {
        format!("Authorization: Basic {}", base64::prelude::BASE64_STANDARD.encode(pair))
    };
    let (status, head, body) = ask(at, &of("X: y")).await;
    assert!(status == 401 && head.contains("www-authenticate: basic"), "{head}");
    assert!(!body.contains("oncewire_"));
    let right = [format!("Authorization: Bearer {TOKEN}"), basic(&format!("me:{TOKEN}"))];
    for header in right {
        assert_eq!(ask(at, &of(&header)).await.0, 200, "{header}");
    }
    let wrong = [
        "Authorization: Bearer 0123456789abcdeF".into(),
        format!("Authorization: {TOKEN}"),
        format!("Authorization: Basic {TOKEN}"),
        basic(TOKEN),
        "Authorization: Basic \u{fc}".into(),
    ];
    for header in wrong {
        assert_eq!(ask(at, &of(&header)).await.0, 401, "{header}");
    }
}

#[tokio::test]
async fn bad_and_idle_clients_cost_little() {
    let at = start(None).await;
    assert_eq!(ask(at, "nonsense\r\n\r\n").await.0, 400);
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    assert!(matches!(ask(at, &large).await.0, 431 | 0));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(1000));
    assert!(matches!(ask(at, &many).await.0, 431 | 0));
    let body = "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n";
    assert_eq!(ask(at, body).await.0, 200);
    // One more idle connection than there is room for: the oldest goes, and requests are answered.
    let mut idle = Vec::new();
    for _ in 0..65 {
        idle.push(TcpStream::connect(at).await.unwrap());
    }
    assert_eq!(ask(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.0, 200);
    assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
}

/// The clock stands still but for what waits.
#[tokio::test(start_paused = true)]
async fn slow_requests_end_after_seconds() {
    let at = start(None).await;
    let begun = tokio::time::Instant::now();
    let mut slow = TcpStream::connect(at).await.unwrap();
    let mut answer = Vec::new();
    let (mut reading, mut writing) = slow.split();
    let drip = async {
        // A byte a second, for as long as it is taken.
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";
        for byte in request.bytes().chain(std::iter::repeat(b'x')) {
            if writing.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = drip => {}
        _ = reading.read_to_end(&mut answer) => {}
    }
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(ask(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.0, 200);
}

/// Each guess takes half a second, and 64 are taken at once: 128 a second, whoever guesses.
#[tokio::test(start_paused = true)]
async fn wrong_tokens_are_slow_and_keep_nobody_out() {
    let at = start(Some(TOKEN)).await;
    let of = |token: &str| {
        format!("GET /status HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {token}\r\n\r\n")
    };
    let begun = tokio::time::Instant::now();
    for guess in 0..20 {
        assert_eq!(ask(at, &of(&format!("0123456789abcd{guess:02}"))).await.0, 401);
    }
    assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
    // More than there is room for, none of which waits for its answer.
    let mut guesses = Vec::new();
    for guess in 0..200 {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(of(&format!("0123456789abc{guess:03}")).as_bytes()).await.unwrap();
        guesses.push(stream);
    }
    assert_eq!(ask(at, &of(TOKEN)).await.0, 200);
}

#[test]
fn without_a_token_only_loopback_is_served() {
    let open = |address: &str| Admin::new(address.parse().unwrap(), None).is_ok();
    assert!(open("127.0.0.1:1") && open("[::1]:1") && open("[::ffff:127.0.0.1]:1"));
    assert!(!open("0.0.0.0:1") && !open("[::]:1") && !open("10.0.0.1:1"));
    assert!(Admin::new("0.0.0.0:1".parse().unwrap(), Token::new(TOKEN).ok()).is_ok());
}

#[test]
fn token_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let write = |text: &[u8], mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Token::load(&path)
    };
    assert!(matches!(Token::load(&path), Err(TokenError::Io(_))));
    assert_eq!(write(b" 0123456789abcdef\n", 0o600).unwrap(), Token::new(TOKEN).unwrap());
    assert!(matches!(write(TOKEN.as_bytes(), 0o640), Err(TokenError::Readable)));
    let long = [b'x'; 5000];
    for bad in [&b""[..], b"short", b"two words of a token", b"\xff\xfe56789012345678", &long] {
        assert!(matches!(write(bad, 0o600), Err(TokenError::Invalid)), "{}", bad.len());
    }
    assert_eq!(format!("{:?}", Token::new(TOKEN).unwrap()), "Token");
}

#[test]
fn examples_name_metrics_of_links_that_exist() {
    let peer = PeerStatus {
        key: "ow1a".into(),
        connection: Some(ConnectionStatus::default()),
        ..PeerStatus::default()
    };
    let status = LinkStatus { peers: vec![peer], ..LinkStatus::default() };
    let known = exposition(&Document::Link(Box::new(status)));
    let mut used = 0;
    for file in ["alerts.yml", "dashboard.json"] {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/monitoring/");
        let text = std::fs::read_to_string(format!("{place}{file}")).unwrap();
        for (at, _) in text.match_indices("oncewire_link_") {
            let name: String =
                text[at..].chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
            assert!(known.contains(&format!("# TYPE {name} ")), "{file}: {name}");
            used += 1;
        }
    }
    assert!(used > 2);
}

/// Every metric of a node or a controller that the examples name exists.
#[test]
#[cfg(target_os = "linux")]
fn examples_name_metrics_of_networks_that_exist() {
    let controller = crate::node::MemberStatus::default();
    let node = crate::status::NodeStatus {
        name: "A".into(),
        plan_version: 3,
        next_plan: None,
        settled: true,
        neighbors: Vec::new(),
        cached_bytes: 5,
        cached_packets: 1,
        carried: crate::node::NodeCounters { entered_bytes: 7, ..Default::default() },
        hops: LinkStatus::default(),
        controller: Some(controller),
    };
    let of_node = super::of_node(&node);
    let samples = read(&of_node);
    assert_eq!(samples["oncewire_node_entered_bytes_total"], 7.0);
    assert_eq!(samples["oncewire_node_plan_version"], 3.0);
    assert_eq!(samples["oncewire_node_controller_connected"], 0.0);
    let status = crate::controller::Status::sample();
    let of_controller = super::of_controller(&status);
    let samples = read(&of_controller);
    assert_eq!(samples["oncewire_controller_node_connected{node=\"B\"}"], 0.0);
    assert_eq!(samples["oncewire_controller_nodes_connected"], 1.0);
    let mut used = 0;
    for file in ["alerts.yml", "dashboard.json"] {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/monitoring/");
        let text = std::fs::read_to_string(format!("{place}{file}")).unwrap();
        for prefix in ["oncewire_node_", "oncewire_controller_"] {
            for (at, _) in text.match_indices(prefix) {
                let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                let name: String = text[at..].chars().take_while(is_part).collect();
                let line = format!("# TYPE {name} ");
                assert!(of_node.contains(&line) || of_controller.contains(&line), "{file}: {name}");
                used += 1;
            }
        }
    }
    assert!(used > 8);
}

#[tokio::test]
async fn one_answer_is_made_at_a_time_even_if_nobody_waits() {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};
    static GATE: Mutex<Option<Receiver<()>>> = Mutex::new(None);
    static BEGUN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let begun = || BEGUN.load(std::sync::atomic::Ordering::Relaxed);
    let (open, gate) = channel();
    *GATE.lock().unwrap() = Some(gate);
    let admin = Admin::new("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let server = AdminServer::bind(&admin).await.unwrap();
    let at = server.address();
    tokio::spawn(server.run(answers(|_| {
        BEGUN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let _ = GATE.lock().unwrap().as_ref().map(Receiver::recv);
        String::new()
    })));
    let request = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // More than there is room for: most are dropped while they wait for the first.
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        clients.push(client);
    }
    // The first one was dropped, too.
    assert_eq!(clients[0].read(&mut [0]).await.unwrap_or(0), 0);
    assert!(begun() <= 1, "{}", begun());
    drop(open);
    let mut answer = Vec::new();
    clients[99].read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}
