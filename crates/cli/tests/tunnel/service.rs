//! What a process tells the service manager that started it.

use crate::support::*;
use oncewire_testkit::servers::{Running, free_port};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A service manager's socket.
struct Manager(UnixDatagram);

impl Manager {
    fn new(path: &Path) -> Manager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        Manager(socket)
    }

    /// Reads until a message has this line, and returns what came before it.
    #[track_caller]
    fn until(&self, wanted: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let mut buffer = [0; 4096];
            let len = self.0.recv(&mut buffer).unwrap_or_else(|_| panic!("{wanted}: {before:?}"));
            let lines = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if lines.lines().any(|line| line == wanted) {
                return before;
            }
            before.push(lines);
        }
    }
}

#[test]
fn the_manager_is_told_what_a_server_does() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let public = keygen(&path("a.key"));
    let manager = Manager::new(&path("notify.sock"));
    let mut command = Command::new(ONCEWIRE);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--memory", "32M", "--peer", &public, "--key"])
        .arg(path("a.key"))
        .arg("--status")
        .arg(path("status.sock"))
        .env("NOTIFY_SOCKET", path("notify.sock"))
        .env("WATCHDOG_USEC", "100000")
        .env_remove("WATCHDOG_PID")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let process = Running::start(&mut command).unwrap();
    // It is to keep the listener for the next process.
    let before = manager.until("READY=1");
    assert_eq!(before.len(), 1, "{before:?}");
    assert!(before[0].starts_with("FDSTORE=1\nFDNAME=listener-127.0.0.1_"), "{before:?}");
    // It listens by then.
    assert!(
        text(&oncewire(["status".as_ref(), "--socket".as_ref(), path("status.sock").as_os_str()]))
            .contains("listening on")
    );
    for _ in 0..3 {
        manager.until("WATCHDOG=1");
    }
    signal(&process, "HUP");
    manager.until("RELOADING=1");
    manager.until("READY=1");
    signal(&process, "TERM");
    manager.until("STOPPING=1");
}

#[test]
fn units_are_sandboxed_and_valid() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        oncewire_testkit::skip!("systemd-analyze is not installed");
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    for unit in [
        "oncewire-serve.service",
        "oncewire-connect.service",
        "oncewire-link.service",
        "oncewire-node.service",
        "oncewire-controller.service",
    ] {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
        let judged = finish(command.arg(examples.join(unit)));
        assert!(judged.status.success(), "{unit}: {}", text(&judged));
    }
}

/// `systemd-socket-activate` listens, and becomes the program at the first connection, which would
/// not be served if the program listened itself.
#[test]
fn a_listener_of_the_service_manager_is_used() {
    if !Path::new("/usr/bin/systemd-socket-activate").exists() {
        oncewire_testkit::skip!("systemd-socket-activate is not installed");
    }
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let public = keygen(&path("a.key"));
    let address = |port: u16| format!("127.0.0.1:{port}");
    let [used, unused] = [(); 2].map(|()| address(free_port().unwrap()));
    let mut command = Command::new("systemd-socket-activate");
    command
        .args(["--listen", &used, "--listen", &unused, ONCEWIRE, "serve", "--listen", &used])
        .args(["--allow", "localhost:*", "--memory", "32M", "--peer", &public, "--key"])
        .arg(path("a.key"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(path("log")).unwrap());
    let _process = Running::start(&mut command).unwrap();
    let mut first = None;
    wait_until("the manager listens", || {
        first = first.take().or_else(|| TcpStream::connect(&used).ok());
        first.is_some()
    });
    let log = || std::fs::read_to_string(path("log")).unwrap();
    let line = format!("the configuration does not address={unused}");
    wait_until("it serves", || log().contains(" INFO listening") && log().contains(&line));
    // It answers where it was passed a listener, and has closed the other.
    let mut first = first.unwrap();
    first.write_all(b"not TLS").unwrap();
    assert!(first.read_to_end(&mut Vec::new()).is_ok_and(|answer| answer > 0), "{}", log());
    assert!(TcpStream::connect(&unused).is_err());
}
