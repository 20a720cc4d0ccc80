//! Processes that are killed, receive a signal, or run out of descriptors: no wrong byte is
//! delivered, and nothing hangs.

use crate::support::*;
use oncewire_testkit::servers::incompressible;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Far less than a transfer of [`slow_sender`] takes.
const SOME: usize = 1 << 20;

/// Reads until the end or an error and checks every byte. Returns the count, and whether the stream
/// ended normally.
#[track_caller]
fn read_checked(stream: &mut TcpStream, mut at: usize, content: &[u8]) -> (usize, bool) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (at, true),
            Ok(len) => {
                assert!(content[at..].starts_with(&buffer[..len]), "a wrong byte after {at}");
                at += len;
            }
            Err(error) => {
                let hangs = matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                );
                assert!(!hangs, "hangs after {at}");
                return (at, false);
            }
        }
    }
}

/// A transfer in progress.
#[track_caller]
fn begun(tunnel: &Tunnel, content: &[u8]) -> TcpStream {
    let mut stream = application(tunnel.way(0));
    let mut some = vec![0; SOME];
    stream.read_exact(&mut some).unwrap();
    assert_same(&some, &content[..SOME], "the first part");
    stream
}

#[test]
fn a_killed_serve_ends_transfers_with_an_error_and_its_successor_serves_new_ones() {
    let content = incompressible(40, 16 << 20);
    let mut tunnel = Plan::new().to(slow_sender(content.clone())).to(echo()).start();
    for round in 0..2 {
        let mut stream = begun(&tunnel, &content);
        tunnel.kill_serve();
        let mut at = SOME;
        if round == 0 {
            // There is no server for a while: data in transit arrives, but nothing that the
            // application could take for the end.
            std::thread::sleep(Duration::from_millis(300));
            at = read_what_is_there(&mut stream, at, &content);
        }
        tunnel.restart_serve();
        let (at, orderly) = read_checked(&mut stream, at, &content);
        assert!(at < content.len() && !orderly, "{at} bytes, orderly end: {orderly}");
        tunnel.established();
        let small = incompressible(41 + round, 300_000);
        assert_same(&exchange(tunnel.way(1), &small).unwrap(), &small, "a new flow");
    }
}

#[test]
fn an_upload_through_a_killed_serve_fails_and_its_origin_saw_only_correct_bytes() {
    let content = incompressible(49, 64 << 20);
    let (arrived, arrives) = mpsc::channel();
    let wanted = content.clone();
    let sink = origin(move |mut stream| {
        let mut buffer = vec![0; 64 << 10];
        let mut at = 0;
        let orderly = loop {
            match stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(len) if wanted[at..].starts_with(&buffer[..len]) => at += len,
                Ok(_) => panic!("a wrong byte after {at}"),
                Err(_) => break false,
            }
            let _ = arrived.send((at, None));
            std::thread::sleep(Duration::from_millis(5));
        };
        let _ = arrived.send((at, Some(orderly)));
    });
    let mut tunnel = Plan::new().to(sink).to(echo()).start();
    let stream = application(tunnel.way(0));
    let outcome = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            (&stream).write_all(&content)?;
            (&stream).read(&mut [0])
        });
        wait_until("it has begun", || arrives.try_recv().is_ok_and(|(at, _)| at > SOME));
        tunnel.kill_serve();
        tunnel.restart_serve();
        sender.join().expect("no panic")
    });
    let error = outcome.expect_err("the application is told");
    assert!(
        !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        "hangs: {error}"
    );
    let (at, _) = arrives
        .iter()
        .find(|(_, end)| end.is_some())
        .expect("the origin is told, and had no wrong byte");
    assert!(at < content.len());
    assert_same(&exchange(tunnel.way(1), b"again").unwrap(), b"again", "a new flow");
}

/// Reads and checks until nothing arrives for a while. Returns the count.
#[track_caller]
fn read_what_is_there(stream: &mut TcpStream, mut at: usize, content: &[u8]) -> usize {
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len) = stream.read(&mut buffer) {
        assert!(len > 0, "an orderly end after {at}");
        assert!(content[at..].starts_with(&buffer[..len]), "a wrong byte after {at}");
        at += len;
    }
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    at
}

#[test]
fn flows_end_after_the_grace_time_if_serve_does_not_return() {
    let content = incompressible(42, 16 << 20);
    let mut tunnel =
        Plan::new().connect(&["--grace", "1s"]).to(slow_sender(content.clone())).start();
    let mut stream = begun(&tunnel, &content);
    tunnel.kill_serve();
    let (at, orderly) = read_checked(&mut stream, SOME, &content);
    assert!(at < content.len() && !orderly, "{at} bytes, orderly end: {orderly}");
}

#[test]
fn a_killed_connect_frees_its_origins_and_its_successor_serves_new_flows() {
    let content = incompressible(43, 16 << 20);
    let (ended, ends) = mpsc::channel();
    let bytes = content.clone();
    let slow = origin(move |mut stream| {
        let sent = bytes.chunks(64 << 10).try_for_each(|piece| {
            std::thread::sleep(Duration::from_millis(10));
            stream.write_all(piece)
        });
        let mut rest = Vec::new();
        let _ = ended.send(sent.is_ok() && stream.read_to_end(&mut rest).is_ok());
    });
    let mut tunnel = Plan::new().serve(&["--grace", "1s"]).to(slow).to(echo()).start();
    let mut stream = begun(&tunnel, &content);
    tunnel.restart_connect();
    let (at, _) = read_checked(&mut stream, SOME, &content);
    assert!(at < content.len());
    tunnel.established();
    let small = incompressible(44, 300_000);
    assert_same(&exchange(tunnel.way(1), &small).unwrap(), &small, "a new flow");
    let whole = ends.recv_timeout(PATIENCE).expect("the origin is told");
    assert!(!whole, "the origin believes that all was well");
}

#[test]
fn a_connect_that_crashes_repeatedly_is_accepted_each_time() {
    let mut tunnel = Plan::new().to(echo()).start();
    for round in 0..7 {
        tunnel.restart_connect();
        let begun = Instant::now();
        tunnel.established();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?} in round {round}", begun.elapsed());
        assert_same(&exchange(tunnel.way(0), b"again").unwrap(), b"again", "a new flow");
    }
}

#[test]
fn sigterm_lets_serve_finish_transfers_and_refuse_new_ones() {
    let content = incompressible(45, 8 << 20);
    let mut tunnel = Plan::new().to(slow_sender(content.clone())).start();
    let mut stream = begun(&tunnel, &content);
    tunnel.serve.process.terminate().unwrap();
    wait_until("its port is closed", || TcpStream::connect(tunnel.serve.listening[0]).is_err());
    assert_eq!(tunnel.serve.status()["draining"], true);
    let knows = |status: Value| {
        status["sessions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["phase"] == "draining"))
    };
    wait_until("the other end knows", || knows(tunnel.connect.status()));
    assert!(tunnel.serve.process.is_running());
    assert_eq!(read_checked(&mut stream, SOME, &content), (content.len(), true));
    drop(stream);
    assert_eq!(tunnel.serve.ends(Duration::from_secs(5)).code(), Some(0));
    assert!(!tunnel.serve.socket.exists());
    tunnel.restart_serve();
    tunnel.established();
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "afterwards");
}

#[test]
fn sigterm_lets_connect_finish_transfers_and_refuse_new_ones() {
    let content = incompressible(46, 8 << 20);
    let mut tunnel = Plan::new().to(slow_sender(content.clone())).start();
    let mut stream = begun(&tunnel, &content);
    tunnel.connect.process.terminate().unwrap();
    wait_until("its port is closed", || TcpStream::connect(tunnel.way(0)).is_err());
    assert_eq!(read_checked(&mut stream, SOME, &content), (content.len(), true));
    drop(stream);
    assert_eq!(tunnel.connect.ends(Duration::from_secs(5)).code(), Some(0));
    assert!(!tunnel.connect.socket.exists());
    assert!(tunnel.serve.process.is_running());
}

#[test]
fn sigterm_ends_an_idle_process_at_once() {
    let mut tunnel = Plan::new().to(echo()).start();
    let begun = Instant::now();
    tunnel.connect.process.terminate().unwrap();
    assert_eq!(tunnel.connect.ends(Duration::from_secs(3)).code(), Some(0));
    tunnel.serve.process.terminate().unwrap();
    assert_eq!(
        tunnel.serve.ends(Duration::from_secs(3)).code(),
        Some(0),
        "after {:?}",
        begun.elapsed()
    );
}

#[test]
fn a_second_signal_ends_at_once_and_the_drain_time_is_honored() {
    let content = incompressible(47, 32 << 20);
    let mut tunnel =
        Plan::new().connect(&["--drain", "1s"]).to(slow_sender(content.clone())).start();
    let mut stream = begun(&tunnel, &content);
    tunnel.serve.process.terminate().unwrap();
    wait_until("it drains", || tunnel.serve.said().contains("draining"));
    assert_eq!(tunnel.serve.process.wait(Duration::from_millis(500)).unwrap(), None);
    tunnel.serve.process.terminate().unwrap();
    assert_eq!(tunnel.serve.ends(Duration::from_secs(2)).code(), Some(0));
    tunnel.restart_serve();
    let (at, orderly) = read_checked(&mut stream, SOME, &content);
    assert!(at < content.len() && !orderly, "{at} bytes, orderly end: {orderly}");
    tunnel.established();
    let _stream = self::begun(&tunnel, &content);
    tunnel.connect.process.terminate().unwrap();
    assert_eq!(tunnel.connect.process.wait(Duration::from_millis(500)).unwrap(), None);
    assert_eq!(tunnel.connect.ends(Duration::from_secs(3)).code(), Some(0));
}

#[test]
fn sighup_reloads_peers_and_rules() {
    let dir = tempfile::TempDir::new().unwrap();
    let [first, second, there] =
        ["first", "second", "there"].map(|name| keygen(&dir.path().join(name)));
    let (peers, config) = (dir.path().join("peers"), dir.path().join("serve.toml"));
    let origin = echo();
    let write = |who: &[&String], allow: &str| {
        let lines: Vec<String> = who.iter().map(|key| format!("{key} site\n")).collect();
        std::fs::write(&peers, lines.concat()).unwrap();
        let text = format!(
            "key = {:?}\nauthorized_peers = {peers:?}\nallow = [{allow:?}]\n",
            dir.path().join("there")
        );
        std::fs::write(&config, text).unwrap();
    };
    write(&[&first], "127.0.0.1:1");
    let serve = End::start(
        dir.path(),
        "serve",
        &["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]
            .map(String::from),
        None,
    );
    let at = serve.listening[0].to_string();
    let start = |name: &str| {
        let key = dir.path().join(name);
        let forward = format!("127.0.0.1:0:{origin}");
        let args =
            ["connect", &at, "--key", key.to_str().unwrap(), "--peer", &there, "-L", &forward]
                .map(String::from);
        End::start(dir.path(), &format!("connect-{name}"), &args, None)
    };
    let (one, two) = (start("first"), start("second"));
    wait_until("the first is in", || one.is_established());
    let passes =
        |end: &End| exchange(end.listening[0], b"hello").is_ok_and(|back| back == b"hello");
    // The rules do not name the origin.
    assert!(!passes(&one));
    assert!(!two.is_established());
    write(&[&first, &second], &origin.to_string());
    signal(&serve.process, "HUP");
    wait_until("the second is in", || two.is_established());
    wait_until("the rules hold", || passes(&one));
    assert!(passes(&two));
    // An invalid file changes nothing.
    std::fs::write(&peers, "rubbish\n").unwrap();
    std::fs::write(&config, "memry = 1\n").unwrap();
    signal(&serve.process, "HUP");
    wait_until("it has complained", || serve.said().matches("not reloaded").count() == 2);
    assert!(passes(&one) && passes(&two));
    // The flow of a peer whose key is revoked ends, and the peer cannot reconnect.
    let mut open = application(one.listening[0]);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0]).unwrap();
    write(&[&second], &origin.to_string());
    signal(&serve.process, "HUP");
    assert!(open.read(&mut [0]).is_err(), "the flow of a revoked peer ends with an error");
    wait_until("the first is out", || !one.is_established());
    std::thread::sleep(Duration::from_millis(500));
    assert!(!one.is_established() && passes(&two));
    assert_eq!(serve.status()["sessions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn processes_continue_after_running_out_of_descriptors() {
    for (serve, connect) in [(None, Some(64)), (Some(64), None)] {
        let mut tunnel = Plan::new().descriptors(serve, connect).to(echo()).start();
        let mut first = application(tunnel.way(0));
        first.write_all(b"x").unwrap();
        // Connections beyond the limit may be refused.
        let connections: Vec<TcpStream> =
            (0..120).filter_map(|_| TcpStream::connect(tunnel.way(0)).ok()).collect();
        for mut stream in &connections {
            let _ = stream.write_all(b"x");
        }
        let mut back = [0];
        first.read_exact(&mut back).expect("those within the limit work");
        std::thread::sleep(Duration::from_millis(500));
        assert!(tunnel.serve.process.is_running() && tunnel.connect.process.is_running());
        first.write_all(b"y").unwrap();
        first.read_exact(&mut back).expect("still");
        assert_eq!(&back, b"y");
        drop((first, connections));
        let content = incompressible(48, 200_000);
        wait_until("new flows pass again", || {
            exchange(tunnel.way(0), &content).is_ok_and(|back| back == content)
        });
        wait_until("all is over", || {
            tunnel.connect.counter("flows") == 0 && tunnel.serve.counter("flows") == 0
        });
    }
}
