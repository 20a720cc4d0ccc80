//! On errors both ends log what is wrong and the remedy; idle ends do nothing.

use crate::support::*;
use oncewire_testkit::servers::{free_port, incompressible};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An origin that sends back what it gets.
fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

#[test]
fn an_unknown_key_is_logged_at_both_ends() {
    let dir = TempDir::new().unwrap();
    let key = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (stranger, friend, server) = (
        keygen(dir.path().join("a").as_path()),
        keygen(dir.path().join("b").as_path()),
        keygen(dir.path().join("s").as_path()),
    );
    let words = |text: String| text.split(' ').map(String::from).collect::<Vec<_>>();
    let serve = words(format!(
        "serve --listen 127.0.0.1:0 --key {} --peer {friend} --memory 64M --allow 127.0.0.1:9",
        key("s")
    ));
    let serve = End::start(dir.path(), "serve", &serve, None);
    let at = serve.listening[0];
    let connect = words(format!(
        "connect {at} --key {} --peer {server} --memory 64M -L 127.0.0.1:0:127.0.0.1:9",
        key("a")
    ));
    let connect = End::start(dir.path(), "connect", &connect, None);
    let begun = Instant::now();
    // The user sees it at the first attempt, not after a time-out.
    let hint = format!("--peer {stranger}");
    wait_until("the client says why", || {
        connect.said().contains("WARN") && connect.said().contains(&hint)
    });
    wait_until("the server says whom it refused", || {
        serve.said().contains("WARN") && serve.said().contains(&stranger)
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let refusal = serve.said();
    assert!(refusal.contains("is not authorized") && refusal.contains("--peer"), "{refusal}");
    // Not one line for each attempt.
    std::thread::sleep(Duration::from_secs(2));
    assert!(serve.said().matches("is not authorized").count() <= 2, "{}", serve.said());
    let status = connect.status();
    assert!(
        status["last_failure"].as_str().is_some_and(|why| why.contains(&stranger)),
        "{status:#}"
    );
    let shown = oncewire(["status".as_ref(), "--socket".as_ref(), connect.socket.as_os_str()]);
    assert!(
        text(&shown).contains("the last attempt to reach the server failed"),
        "{}",
        text(&shown)
    );
}

#[test]
fn another_reason_is_logged_at_once() {
    let dir = TempDir::new().unwrap();
    let keys = ["a", "s"].map(|name| keygen(dir.path().join(name).as_path()));
    let key = |name: &str| dir.path().join(name).display().to_string();
    let port = free_port().unwrap();
    let words = |text: String| text.split(' ').map(String::from).collect::<Vec<_>>();
    let connect = words(format!(
        "connect 127.0.0.1:{port} --key {} --peer {} --memory 64M -L 127.0.0.1:0:127.0.0.1:9",
        key("a"),
        keys[1]
    ));
    let mut connect = End::start(dir.path(), "connect", &connect, None);
    wait_until("there is no server", || connect.said().contains("Connection refused"));
    let begun = Instant::now();
    // The server authorizes only itself.
    let serve = words(format!(
        "serve --listen 127.0.0.1:{port} --key {} --peer {} --memory 64M --allow 127.0.0.1:9",
        key("s"),
        keys[1]
    ));
    let _serve = End::start(dir.path(), "serve", &serve, None);
    let hint = format!("--peer {}", keys[0]);
    wait_until("the client gives the new reason", || connect.said().contains(&hint));
    // Lines of one kind are at least 5 s apart.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}: {}", begun.elapsed(), connect.said());
    let before = connect.said().matches("trying again").count();
    signal(&connect.process, "TERM");
    let ended = connect.process.wait(Duration::from_secs(10)).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert_eq!(connect.said().matches("trying again").count(), before, "it does not");
}

#[test]
fn refused_targets_and_sessions_are_logged_with_peer_and_address() {
    let tunnel = Plan::new().connect(&["-L", "127.0.0.1:0:192.0.2.1:80"]).to(echo()).start();
    // The forward of the plan is the first.
    assert_eq!(exchange(tunnel.way(0), b"hello").unwrap(), b"hello");
    assert!(exchange(tunnel.way(1), b"hello").is_err(), "nothing is there, and nothing is allowed");
    wait_until("the server says so", || {
        tunnel.serve.said().contains("no --allow, --allow-listen or rule")
    });
    let said = tunnel.serve.said();
    let line = said.lines().find(|line| line.contains("no --allow")).unwrap();
    for word in ["WARN", "192.0.2.1:80", "address=127.0.0.1:", "peer=ow1"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    let begun = said
        .lines()
        .find(|line| line.contains("session established"))
        .expect("a line for the session");
    for word in ["address=127.0.0.1:", "over=tcp", "peer=ow1"] {
        assert!(begun.contains(word), "{word}: {begun}");
    }
    let session = tunnel.serve.status()["sessions"][0].clone();
    assert_eq!(session["refused_targets"], 1, "{session:#}");
    assert_eq!(session["transport"], "tcp");
    assert!(
        session["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")),
        "{session:#}"
    );
    signal(&tunnel.serve.process, "HUP");
    wait_until("it says what it read", || {
        tunnel.serve.said().contains("rules reloaded") && tunnel.serve.said().contains("allow=2")
    });
}

#[test]
fn a_connect_that_is_killed_gets_its_reverse_port_and_its_cache_back_at_once() {
    let port = free_port().unwrap();
    let (allowed, reverse) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{port}:{}", echo()));
    let mut tunnel = Plan::new()
        .serve(&["--allow-listen", &allowed])
        .connect(&["-R", &reverse])
        .to(echo())
        .start();
    let bytes = incompressible(7, 3 << 20);
    assert_same(&exchange(tunnel.way(0), &bytes).unwrap(), &bytes, "before");
    let served = |port: u16| {
        let attempt = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"reverse")?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut back = Vec::new();
            stream.read_to_end(&mut back)?;
            Ok(back)
        };
        attempt().is_ok_and(|back| back == b"reverse")
    };
    wait_until("the reverse forward works", || served(port));
    let cache = tunnel.serve.counter("log_capacity");
    tunnel.restart_connect();
    let begun = Instant::now();
    tunnel.established();
    wait_until("the reverse forward works again", || served(port));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(tunnel.serve.status()["sessions"].as_array().unwrap().len(), 1);
    for round in ["first", "again"] {
        assert_same(&exchange(tunnel.way(0), &bytes).unwrap(), &bytes, round);
    }
    assert_eq!(tunnel.serve.counter("log_capacity"), cache);
    assert!(
        tunnel.serve.said().contains("is lost; the new one replaces it"),
        "{}",
        tunnel.serve.said()
    );
}

/// Voluntary context switches of all threads of a process.
fn wakeups(end: &End) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", end.process.id())).expect("it runs");
    let of = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .map(str::trim);
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.flatten().map(|task| of(task.path())).sum()
}

#[test]
fn idle_ends_sleep() {
    let tunnel = Plan::new().to(echo()).start();
    assert_eq!(exchange(tunnel.way(0), b"hello").unwrap(), b"hello");
    std::thread::sleep(Duration::from_secs(1));
    let before = [&tunnel.serve, &tunnel.connect].map(wakeups);
    std::thread::sleep(Duration::from_secs(4));
    let after = [&tunnel.serve, &tunnel.connect].map(wakeups);
    for (before, after) in before.into_iter().zip(after) {
        // A timer at 50 Hz makes 200 in that time; keep-alives come every 10 s.
        assert!(after - before < 40, "{} wake-ups in 4 s", after - before);
    }
}

#[test]
fn a_name_that_leads_to_loopback_is_explained_where_the_rules_are_and_where_the_user_is() {
    let port = echo().port();
    let target = format!("localhost:{port}");
    let tunnel = Plan::new()
        .only(format!("*:{port}"))
        .forward_to(&target)
        .connect(&["--proxy", "127.0.0.1:0"])
        .start();
    let [forward, proxy] = [0, 1].map(|n| tunnel.way(n));
    assert!(exchange(forward, b"hello").is_err_and(|error| error.kind() != ErrorKind::TimedOut));
    let at_server = format!(
        "a guarded address (loopback, link-local or the like), which only a rule for that address allows: --allow 127.0.0.1:{port}"
    );
    let at_client = "at the other end it leads to a guarded address";
    for (end, text) in [(&tunnel.serve, &*at_server), (&tunnel.connect, at_client)] {
        wait_until("the refusal is in the log", || end.said().contains("connection refused"));
        let said = end.said();
        let line = said.lines().find(|line| line.contains("connection refused")).unwrap();
        let server = at_server.replace("127.0.0.1", "[::1]");
        assert!(line.contains(" WARN ") && line.contains(&target), "{line}");
        assert!(line.contains(text) || line.contains(&server), "{line}");
    }

    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let answer = String::from_utf8(exchange(proxy, request.as_bytes()).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains(at_client), "{answer}");

    let mut request = vec![5, 1, 0, 5, 1, 0, 3, 9];
    request.extend_from_slice(b"localhost");
    request.extend_from_slice(&port.to_be_bytes());
    let mut stream = application(proxy);
    stream.write_all(&request).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0, 5, 2], "not allowed by the rules");
}
