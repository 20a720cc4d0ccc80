//! Log lines on standard error: a failed write stops nothing, and foreign text cannot forge lines.

use crate::support::*;
use oncewire_testkit::servers::{Running, incompressible};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Standard errors that accept nothing. Keep the returned reader as long as the process.
fn useless() -> Vec<(&'static str, Stdio, Option<std::io::PipeReader>)> {
    let (_, closed) = std::io::pipe().unwrap();
    // A reader that has stopped reading, as a pager does: the pipe is full.
    let (reader, mut full) = std::io::pipe().unwrap();
    let kept = full.try_clone().unwrap();
    std::thread::spawn(move || full.write_all(&vec![b'x'; 4 << 20]));
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut all =
        vec![("a closed pipe", closed.into(), None), ("a full pipe", kept.into(), Some(reader))];
    match File::options().write(true).open("/dev/full") {
        Ok(full) => all.push(("a full disk", full.into(), None)),
        Err(_) => oncewire_testkit::skipped!("there is no /dev/full"),
    }
    all
}

fn start(args: &[String], status: &Path, stderr: Stdio) -> Running {
    let mut command = Command::new(ONCEWIRE);
    command
        .args(args)
        .args(["--log", "trace", "--status"])
        .arg(status)
        .env_remove("XDG_RUNTIME_DIR");
    Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr)).unwrap()
}

/// The address a process listens on, once it answers.
fn listening(process: &mut Running, socket: &Path) -> SocketAddr {
    let mut found = None;
    wait_until("it answers", || {
        assert!(process.is_running(), "it ended");
        let output = oncewire([
            "status".as_ref(),
            "--json".as_ref(),
            "--socket".as_ref(),
            socket.as_os_str(),
        ]);
        found = serde_json::from_slice::<serde_json::Value>(&output.stdout).ok();
        output.status.success()
    });
    found.unwrap()[0]["listening"][0].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_blocked_log_stops_nothing() {
    // Twice, for one end each.
    for ((what, connect_stderr, _reader), (_, serve_stderr, _reader_too)) in
        useless().into_iter().zip(useless())
    {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        let [here, there] = ["connect.key", "serve.key"].map(|name| keygen(&path(name)));
        let content = incompressible(7, 300_000);
        let origin = sender(content.clone());
        let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let args = |role: &str, peer: &str, more: &[&str]| {
            let key = path(&format!("{role}.key"));
            let mut args =
                vec![role, "--key", key.to_str().unwrap(), "--peer", peer, "--memory", "64M"];
            args.extend(more);
            args.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let forward = format!("127.0.0.1:0:{origin}");
        // It starts, and fails to connect, with a log line each time.
        let connect = args("connect", &there, &[&at.to_string(), "-L", &forward]);
        let mut connect = start(&connect, &path("connect.sock"), connect_stderr);
        let way = listening(&mut connect, &path("connect.sock"));
        std::thread::sleep(std::time::Duration::from_millis(500));
        let serve = args("serve", &here, &["--listen", &at.to_string(), "--allow", "127.0.0.1:*"]);
        let mut serve = start(&serve, &path("serve.sock"), serve_stderr);
        listening(&mut serve, &path("serve.sock"));
        wait_until(&format!("bytes come with {what} for the log"), || {
            assert!(connect.is_running() && serve.is_running(), "ended with {what} for the log");
            fetch(way).is_ok_and(|bytes| bytes == content)
        });
        // It also ends normally.
        for process in [&mut connect, &mut serve] {
            signal(process, "TERM");
            let status = process
                .wait(PATIENCE)
                .unwrap()
                .unwrap_or_else(|| panic!("hangs with {what} for the log"));
            assert!(status.success(), "{status} with {what} for the log");
        }
    }
}

#[test]
fn errors_and_help_survive_closed_streams() {
    for args in [
        &["serve"][..],
        &["connect", "--nonsense"],
        &["serve", "--help"],
        &["keygen", "--show", "/nonexistent"],
    ] {
        for (what, stderr, _reader) in
            useless().into_iter().filter(|(what, ..)| *what != "a full pipe")
        {
            let (_, stdout) = std::io::pipe().unwrap();
            let mut command = Command::new(ONCEWIRE);
            command
                .args(args)
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr)
                .env_remove("XDG_RUNTIME_DIR");
            let status =
                Running::start(&mut command).unwrap().wait(PATIENCE).unwrap().expect("it ends");
            let expected = if args.contains(&"--help") {
                0
            } else if args[0] == "keygen" {
                1
            } else {
                2
            };
            assert_eq!(status.code(), Some(expected), "{args:?} with {what}");
        }
    }
}

#[test]
fn text_of_applications_is_escaped_in_the_log() {
    let tunnel = Plan::new()
        .serve(&["--log", "debug"])
        .connect(&["--log", "trace", "--proxy", "127.0.0.1:0"])
        .start();
    // A client without TLS, too: the log may quote its bytes.
    let bad = b"GET http://o\x1b[2Jx/\nERROR all is lost HTTP/1.1\r\n\r\n";
    let _ = exchange(tunnel.serve.listening[0], bad);
    let mut socks = b"\x05\x01\x00\x05\x01\x00\x03\x0d".to_vec();
    socks.extend(b"a\x1b[2J\nERROR b\x00\x50");
    for bytes in [
        &bad[..],
        &socks,
        b"CONNECT not.allowed.example:80 HTTP/1.1\r\n\r\n",
        b"\x04\x01\x00\x50\x0a\0\0\x01\0",
    ] {
        let _ = exchange(tunnel.way(0), bytes);
    }
    wait_until("the log has it", || {
        tunnel.serve.said().contains("not.allowed.example")
            && tunnel.connect.said().contains("SOCKS4 is not supported")
    });
    for said in [tunnel.serve.said(), tunnel.connect.said()] {
        for line in said.lines() {
            assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
            assert!(line.starts_with("20"), "a line that begins with no time: {line}");
        }
    }
    assert!(
        tunnel.serve.said().contains("target=tcp:not.allowed.example:80"),
        "{}",
        tunnel.serve.said()
    );
    assert!(tunnel.connect.said().contains("from=127.0.0.1:"), "{}", tunnel.connect.said());
    assert_eq!(tunnel.connect.status()["socks4_clients"], 1);
    let shown =
        oncewire(["status".as_ref(), "--socket".as_ref(), tunnel.connect.socket.as_os_str()]);
    assert!(text(&shown).contains("1 proxy clients used SOCKS4"), "{}", text(&shown));
}

#[test]
fn a_secret_key_is_never_shown() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    keygen(&path("a.key"));
    keygen(&path("b.key"));
    let secret = std::fs::read_to_string(path("b.key")).unwrap().trim().to_string();
    let key = path("a.key");
    let key = key.to_str().unwrap();
    std::fs::write(path("peers"), format!("{secret} site-b\n")).unwrap();
    let configs = [
        format!("peer = [{secret:?}]"),
        format!("peer = {secret:?}"),
        format!("{secret} = 1"),
        format!("allow = [{secret:?}]"),
        format!("memory = {secret:?}"),
        secret.clone(),
    ];
    let peers = path("peers");
    let mut runs: Vec<Vec<&str>> = vec![
        vec!["serve", "--key", key, "--peer", &secret],
        vec!["serve", "--key", key, "--authorized-peers", peers.to_str().unwrap()],
        vec!["serve", "--key", &secret, "--peer", "x"],
        vec!["serve", "--key", key, "--allow", &secret, "--peer", "x"],
        vec!["connect", &secret, "--key", key, "--proxy", "0", "--peer", "x"],
        vec!["connect", "host:1", &secret, "--key", key],
        vec!["serve", "--lanes", &secret],
        vec!["serve", "--config", &secret],
        vec!["status", "--socket", &secret],
        vec!["keygen", "--show", &secret],
        vec![&secret],
    ];
    let files: Vec<String> = (0..configs.len())
        .map(|at| path(&format!("{at}.toml")).to_str().unwrap().to_string())
        .collect();
    for (file, config) in files.iter().zip(&configs) {
        std::fs::write(file, format!("key = {key:?}\n{config}\n")).unwrap();
        runs.push(vec!["check-config", "serve", file]);
    }
    for args in runs {
        let output = oncewire(&args);
        let said = text(&output);
        assert!(!output.status.success() && !said.trim().is_empty(), "{args:?}: {said}");
        for at in (12..secret.len() - 12).step_by(4) {
            assert!(!said.contains(&secret[at..at + 12]), "{args:?}: {said}");
        }
    }
    let given = oncewire(["serve", "--key", key, "--peer", &secret]);
    assert!(text(&given).contains("peer 1 of 1: this is a secret key"), "{}", text(&given));
}

#[test]
fn settings_that_allow_everything_or_nothing_are_logged() {
    let tunnel = Plan::new().connect(&["--proxy", "*:0"]).to(echo()).start();
    assert!(
        tunnel.connect.said().contains("the proxy has no password"),
        "{}",
        tunnel.connect.said()
    );
    assert!(!tunnel.serve.said().contains("peers can reach nothing"), "{}", tunnel.serve.said());
    let dir = TempDir::new().unwrap();
    let (key, peers) = (dir.path().join("key"), dir.path().join("peers"));
    keygen(&key);
    std::fs::write(&peers, "# nobody yet\n").unwrap();
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--key",
        key.to_str().unwrap(),
        "--authorized-peers",
        peers.to_str().unwrap(),
    ];
    let serve = End::start(dir.path(), "closed", &args.map(String::from), None);
    for words in ["no peer is authorized", "peers can reach nothing"] {
        assert!(serve.said().contains(words), "{}", serve.said());
    }
    signal(&serve.process, "HUP");
    wait_until("it says so again", || serve.said().matches("no peer is authorized").count() == 2);
}

#[test]
fn keys_in_places_that_others_can_write_are_refused() {
    let dir = TempDir::new().unwrap();
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let key = open.join("key");
    keygen(&key);
    succeed(Command::new("chmod").arg("777").arg(&open));
    let shown = oncewire(["keygen".as_ref(), "--show".as_ref(), key.as_os_str()]);
    assert!(!shown.status.success() && text(&shown).contains("chmod go-w"), "{}", text(&shown));
    let made = oncewire(["keygen".as_ref(), open.join("another").as_os_str()]);
    assert!(!made.status.success() && !open.join("another").exists(), "{}", text(&made));
}

/// The lines about flows.
fn flows(end: &End) -> Vec<String> {
    end.said().lines().filter(|line| line.contains(" flow ")).map(String::from).collect()
}

#[test]
fn each_flow_has_a_line() {
    const LEN: usize = 70_000;
    let allowed = sender(incompressible(8, LEN));
    let denied = sender(Vec::new());
    // Whatever the level is.
    let log = ["--log-flows", "--log", "error"];
    let plan = Plan::new().to(allowed).to(denied).only(allowed.to_string());
    let tunnel = plan.serve(&log).connect(&log).start();
    for _ in 0..20 {
        assert!(fetch(tunnel.way(1)).is_err() || fetch(tunnel.way(1)).unwrap().is_empty());
    }
    assert_eq!(fetch(tunnel.way(0)).unwrap().len(), LEN);
    for (end, way) in [(&tunnel.serve, "sent=70000"), (&tunnel.connect, "received=70000")] {
        wait_until("all flows have their lines", || {
            let lines = flows(end);
            let count = |what| lines.iter().filter(|line| line.contains(what)).count();
            count("flow ended") == 1 && count("flow denied") >= 20
        });
        let lines = flows(end);
        let ended: Vec<_> = lines.iter().filter(|line| line.contains("flow ended")).collect();
        let target = format!("{allowed} ");
        assert!(
            ended.len() == 1
                && [way, "how=finished", "seconds=", "client=", &target]
                    .iter()
                    .all(|part| ended[0].contains(part)),
            "{lines:#?}"
        );
        // Every denied one, however fast they come.
        let denied: Vec<_> = lines.iter().filter(|line| line.contains("flow denied")).collect();
        assert!(denied.len() >= 20, "{lines:#?}");
        assert!(denied.iter().all(|line| line.contains("why=")), "{lines:#?}");
        assert!(!end.said().contains("WARN"), "{}", end.said());
    }
}

#[test]
fn flows_have_no_line_unless_asked_for() {
    let tunnel = Plan::new().to(sender(incompressible(9, 1000))).start();
    assert_eq!(fetch(tunnel.way(0)).unwrap().len(), 1000);
    tunnel.established();
    assert!(flows(&tunnel.serve).is_empty() && flows(&tunnel.connect).is_empty());
    assert!(tunnel.connect.said().contains("listening"), "{}", tunnel.connect.said());
}
