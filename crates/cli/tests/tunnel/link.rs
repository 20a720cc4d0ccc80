//! `oncewire link` between two network namespaces. Needs root and the `ip` program.

use crate::support::{ONCEWIRE, PATIENCE, finish, oncewire, signal, succeed, wait_until};
use oncewire_testkit::path::{Path, PathConfig};
use oncewire_testkit::servers::Running;
use oncewire_testkit::{need_tool, skip};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Inner addresses: A is 10.1.0.1 and fd01::1, B is 10.2.0.1 and fd02::1.
const NETWORKS: [[&str; 2]; 2] = [["10.1.0.0/16", "fd01::/64"], ["10.2.0.0/16", "fd02::/64"]];
const ADDRESSES: [[&str; 2]; 2] = [["10.1.0.1/32", "fd01::1/128"], ["10.2.0.1/32", "fd02::1/128"]];

/// One end as a process in its namespace.
pub(crate) struct End {
    pub(crate) process: Running,
    status: PathBuf,
    log: PathBuf,
}

impl End {
    /// Starts `oncewire link`, of which `command` has some options, with a log and a status of this
    /// name.
    pub(crate) fn start(mut command: Command, dir: &std::path::Path, name: &str) -> End {
        let [status, log] = ["sock", "log"].map(|kind| dir.join(format!("{name}.{kind}")));
        let file = File::options().append(true).create(true).open(&log).expect("a log");
        command.args(["--log", "debug"]);
        // The ends of a test notice a death soon.
        command.args(["--keep-alive", "200ms", "--dead-after", "2s"]);
        command.arg("--status").arg(&status);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let process = Running::start(&mut command).expect("starts");
        End { process, status, log }
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let args =
            ["status".as_ref(), "--json".as_ref(), "--socket".as_ref(), self.status.as_os_str()];
        let output = oncewire(args);
        output
            .status
            .success()
            .then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].take())
    }

    /// The status socket.
    pub(crate) fn socket(&self) -> &std::path::Path {
        &self.status
    }

    /// Ends the process without a word to the peer.
    pub(crate) fn kill(&mut self) {
        signal(&self.process, "KILL");
        self.process.wait(PATIENCE).unwrap();
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let status = self.status().expect("a status");
        status
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{pointer} of {status}"))
    }

    pub(crate) fn is_up(&self) -> bool {
        self.status().is_some_and(|status| status["up"] == true)
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

pub(crate) struct Link {
    pub(crate) path: Path,
    pub(crate) dir: TempDir,
    pub(crate) keys: [String; 2],
    /// Further options of both ends.
    pub(crate) options: Vec<&'static str>,
}

impl Link {
    /// The namespaces and keys, without a link yet; `None` if this machine has no namespaces.
    pub(crate) fn new(config: PathConfig) -> Option<Link> {
        if let Some(reason) = Path::unavailable() {
            skip!("{reason}");
        }
        let path = Path::open(config).expect("a path");
        let dir = TempDir::new().expect("a directory");
        let keys = ["a", "b"].map(|end| {
            let file = dir.path().join(format!("{end}.key"));
            let public = succeed(Command::new(ONCEWIRE).arg("keygen").arg(file));
            String::from_utf8(public).unwrap().trim().to_owned()
        });
        Some(Link { path, dir, keys, options: Vec::new() })
    }

    pub(crate) fn command(&self, end: usize, program: &str) -> Command {
        if end == 0 { self.path.command_in_a(program) } else { self.path.command_in_b(program) }
    }

    /// Starts end A (0), which connects, or end B (1), which listens.
    pub(crate) fn start(&self, end: usize) -> End {
        let name = ["a", "b"][end];
        let mut command = self.command(end, ONCEWIRE);
        command.arg("link").arg("--device").arg(self.device(end));
        command
            .arg("--key")
            .arg(self.dir.path().join(format!("{name}.key")))
            .args(["--peer", &self.keys[1 - end]]);
        for network in NETWORKS[1 - end] {
            command.args(["--allowed", network]);
        }
        for address in ADDRESSES[end] {
            command.args(["--address", address]);
        }
        match end {
            0 => command.arg(format!("{}:7077", self.path.addr_b())),
            _ => command.args(["--listen", "7077"]),
        };
        command.args(&self.options);
        End::start(command, self.dir.path(), name)
    }

    /// The name of an end's device.
    pub(crate) fn device(&self, end: usize) -> String {
        format!("{}{}", self.path.ns_a().replace("owp", "l"), ["a", "b"][end])
    }

    /// Both ends, connected.
    pub(crate) fn connected(&self) -> [End; 2] {
        let ends = [self.start(0), self.start(1)];
        for end in &ends {
            wait_until("the link is up", || end.is_up());
        }
        ends
    }

    pub(crate) fn ping(&self, from: usize, args: &[&str]) -> bool {
        let mut command = self.command(from, "ping");
        finish(command.args(["-q", "-i", "0.01", "-W", "5"]).args(args)).status.success()
    }
}

#[test]
fn every_protocol_crosses_the_link() {
    need_tool!("ping");
    let iperf = need_tool!("iperf3");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let ends = link.connected();
    for (from, to) in [(0, "10.2.0.1"), (1, "10.1.0.1"), (0, "fd02::1")] {
        assert!(link.ping(from, &["-c", "5", to]), "ICMP to {to}: {}", ends[0].said());
    }
    // Fragments: a packet larger than the device's MTU of 1,416.
    for to in ["10.2.0.1", "fd02::1"] {
        assert!(link.ping(0, &["-c", "3", "-s", "4000", to]), "fragments to {to}");
    }
    // TCP in runs, both directions and versions; UDP in runs.
    let mut server = link.command(1, iperf.to_str().unwrap());
    let _server =
        Running::start(server.arg("-s").stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let run = |args: &[&str]| {
        let mut output = None;
        // Until the server listens.
        wait_until(&format!("iperf3 {args:?} succeeds"), || {
            let mut client = link.command(0, iperf.to_str().unwrap());
            let ran = finish(client.args(["-J", "--connect-timeout", "5000", "-c"]).args(args));
            output = serde_json::from_slice::<Value>(&ran.stdout).ok();
            // With -J, it reports an error with status 0.
            ran.status.success() && output.as_ref().is_some_and(|ran| ran["error"].is_null())
        });
        output.unwrap()
    };
    for args in [
        &["10.2.0.1", "-n", "20M"][..],
        &["10.2.0.1", "-n", "20M", "-R"],
        &["fd02::1", "-n", "10M"],
    ] {
        // What the receiver has not read when the sender ends is not counted there.
        let ran = run(args);
        let bytes = |sum: &str| ran["end"][sum]["bytes"].as_u64();
        assert!(bytes("sum_sent") >= Some(10_000_000), "{args:?}: {ran}");
        assert!(bytes("sum_received") >= Some(1_000_000), "{args:?}: {ran}");
    }
    run(&["10.2.0.1", "-u", "-b", "20M", "-n", "2M", "-l", "1200"]);
    for end in &ends {
        let status = end.status().unwrap();
        let count = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64).unwrap();
        assert!(count("/received/packet_bytes") > 10_000_000, "{status}");
        // Everything that was sent came in datagrams of the link: the seal and a header of 8 bytes.
        assert!(count("/sent/datagram_bytes") < count("/sent/packet_bytes") * 11 / 10, "{status}");
        for drop in ["malformed", "violations", "too_large", "source_not_allowed", "foreign"] {
            assert_eq!(status["dropped"][drop], 0, "{drop}: {status}");
        }
    }
    // Runs left as runs: without them, each segment of A's 30 MB would be read and written alone.
    let text = oncewire(["status".as_ref(), "--socket".as_ref(), ends[0].status.as_os_str()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("1 of 1 peer connected") && text.contains("path loss"), "{text}");
}

#[test]
fn files_arrive_over_a_path_that_loses_and_reorders() {
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let mut config = PathConfig::default();
    for direction in [&mut config.a_to_b, &mut config.b_to_a] {
        direction.loss = 0.01;
        direction.reorder = 0.05;
        direction.delay = Duration::from_millis(2);
    }
    let Some(link) = Link::new(config) else { return };
    let ends = link.connected();
    let content = oncewire_testkit::content::incompressible(7, 5_000_000);
    std::fs::write(link.dir.path().join("file"), &content).unwrap();
    let mut server = link.command(1, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.2.0.1", "8080"]).current_dir(link.dir.path());
    let _server = Running::start(server.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let mut received = Vec::new();
    wait_until("curl succeeds", || {
        let mut client = link.command(0, curl.to_str().unwrap());
        let output = finish(client.args(["-s", "--max-time", "25", "http://10.2.0.1:8080/file"]));
        received = output.stdout;
        output.status.success()
    });
    assert!(received == content, "{} bytes differ from {}", received.len(), content.len());
    // B has sent about 3,700 datagrams, of which 1 % are lost.
    assert!(ends[1].number("/sent/lost_datagrams") > 0, "{:?}", ends[1].status());
}

/// What A has is not sent again, and an end that restarts begins anew with the other.
#[test]
fn a_file_crosses_once() {
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let [mut a, mut b] = link.connected();
    let content = oncewire_testkit::content::incompressible(8, 3_000_000);
    std::fs::write(link.dir.path().join("file"), &content).unwrap();
    let mut server = link.command(1, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.2.0.1", "8080"]).current_dir(link.dir.path());
    let _server = Running::start(server.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let download = || {
        wait_until("curl succeeds", || {
            let mut client = link.command(0, curl.to_str().unwrap());
            let url = "http://10.2.0.1:8080/file";
            let output = finish(client.args(["-s", "--max-time", "25", url]));
            output.status.success() && output.stdout == content
        });
    };
    let sent = |end: &End| end.number("/sent/datagram_bytes");
    // The log is in use once something went through it.
    while b.number("/sent/logged_bytes") == 0 {
        download();
    }
    download();
    for (killed, other) in [(1, 0), (0, 1)] {
        // All is acknowledged within a second; so much of it is then found again.
        wait_until("a download takes a fiftieth", || {
            let before = sent(&b);
            download();
            (sent(&b) - before) * 50 < content.len() as u64
        });
        assert_eq!(b.number("/sent/rejected_frames"), 0, "{:?}", b.status());
        let ends = [&mut a, &mut b];
        ends[killed].kill();
        let again = link.start(killed);
        *ends[killed] = again;
        wait_until("the link is up again", || a.is_up() && b.is_up());
        let before = sent(&b);
        download();
        let bytes = sent(&b) - before;
        assert!(bytes > content.len() as u64, "{bytes} bytes: end {other} knew nothing of it");
    }
}

/// What leaves the namespace is sealed, whatever happens to the other end; and the link comes back.
#[test]
fn nothing_leaves_plain_when_the_peer_dies() {
    need_tool!("ping");
    let tcpdump = need_tool!("tcpdump");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let [a, mut b] = link.connected();
    let (capture, errors) = (link.dir.path().join("capture"), link.dir.path().join("tcpdump"));
    let mut dump = link.command(0, tcpdump.to_str().unwrap());
    // Immediately, unbuffered, and with what A sends in hexadecimal.
    dump.args(["-i", link.path.ns_a(), "--immediate-mode", "-l", "-n", "-X", "-s", "200"]);
    dump.stdout(File::create(&capture).unwrap()).stderr(File::create(&errors).unwrap());
    let dump = Running::start(&mut dump).unwrap();
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    wait_until("tcpdump listens", || text(&errors).contains("listening on"));
    // A pattern that is easily found in packets that are not sealed.
    let pattern = ["-p", "6f77", "-c", "5"];
    assert!(link.ping(0, &[&pattern[..], &["10.2.0.1"]].concat()));
    signal(&b.process, "KILL");
    b.process.wait(PATIENCE).unwrap();
    // The keys are in force until the silence is noticed; B's kernel has no device any more.
    assert!(!link.ping(0, &[&pattern[..], &["-W", "1", "10.2.0.1"]].concat()));
    wait_until("the link is down", || !a.is_up() || a.said().contains("link down"));
    let dropped = a.number("/dropped/link_down");
    assert!(!link.ping(0, &[&pattern[..], &["-W", "1", "10.2.0.1"]].concat()));
    assert!(a.number("/dropped/link_down") >= dropped + 5, "{}", a.said());
    let b = link.start(1);
    wait_until("the link is up again", || a.is_up() && b.is_up());
    assert!(link.ping(0, &[&pattern[..], &["10.2.0.1"]].concat()));
    drop(dump);
    let captured = text(&capture);
    assert!(captured.contains("7077"), "{captured}");
    assert!(!captured.contains("6f77 6f77 6f77"), "a ping left plain");
    assert!(!captured.contains("10.2.0.1"), "an inner packet left plain");
}

#[test]
fn a_route_to_the_peer_into_the_device_is_noticed() {
    need_tool!("ping");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let [a, _b] = link.connected();
    let device = link.device(0);
    let peer = link.path.addr_b().to_string();
    succeed(link.command(0, "ip").args(["route", "add", &format!("{peer}/32"), "dev", &device]));
    // Its own datagrams go in circles now: they are counted and dropped.
    let _ = link.ping(0, &["-c", "3", "-W", "1", "10.2.0.1"]);
    wait_until("own traffic is counted", || a.number("/dropped/own_traffic") > 0);
    assert!(a.said().contains("routed into its device"), "{}", a.said());
}

#[test]
fn strangers_and_wrong_networks_are_refused() {
    need_tool!("ping");
    let Some(mut link) = Link::new(PathConfig::default()) else { return };
    let b = link.start(1);
    let keys = link.keys.clone();
    // A with a key that B does not know.
    let other = link.dir.path().join("a.key");
    std::fs::remove_file(&other).unwrap();
    succeed(Command::new(ONCEWIRE).arg("keygen").arg(&other));
    let a = link.start(0);
    wait_until("the handshake fails", || a.said().contains("cannot reach the other end"));
    wait_until("B says why", || {
        b.said().contains("is not authorized") || b.said().contains("not trusted")
    });
    assert!(!a.is_up() && !b.is_up());
    drop(a);
    // An inner source that B does not allow.
    std::fs::remove_file(&other).unwrap();
    let public = succeed(Command::new(ONCEWIRE).arg("keygen").arg(&other));
    link.keys[0] = String::from_utf8(public).unwrap().trim().to_owned();
    assert_ne!(link.keys[0], keys[0]);
    drop(b);
    let ends = link.connected();
    succeed(link.command(0, "ip").args(["address", "add", "10.9.0.1/32", "dev", "lo"]));
    assert!(!link.ping(0, &["-c", "3", "-W", "1", "-I", "10.9.0.1", "10.2.0.1"]));
    assert!(ends[1].number("/dropped/source_not_allowed") >= 3);
}

/// New keys every 300 ms while packets flow: none is lost.
#[test]
fn keys_are_renewed_under_load() {
    need_tool!("ping");
    let Some(mut link) = Link::new(PathConfig::default()) else { return };
    link.options = vec!["--renew-keys", "300ms"];
    let ends = link.connected();
    let renewals = |end: &End| end.said().matches("keys renewed").count();
    // Each round ends when its last packet was answered.
    while ends.iter().any(|end| renewals(end) < 5) {
        let mut ping = link.command(0, "ping");
        let ran =
            ping.args(["-i", "0.002", "-c", "300", "-q", "-W", "10", "10.2.0.1"]).output().unwrap();
        let counts = String::from_utf8_lossy(&ran.stdout);
        assert!(counts.contains(" 0% packet loss"), "{counts}");
    }
    for end in &ends {
        let status = end.status().unwrap();
        assert_eq!(status["dropped"]["unknown_index"], 0, "{status}");
        assert_eq!(status["received"]["forged_datagrams"], 0, "{status}");
    }
}

/// The device's MTU follows the path's: from the start, and when the path becomes narrower while the
/// link runs. Meanwhile TCP goes on.
#[test]
fn the_mtu_follows_the_path() {
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let config = PathConfig { mtu: 1450, ..PathConfig::default() };
    let Some(mut link) = Link::new(config) else { return };
    // With references, the second download would have no large datagrams.
    link.options = vec!["--match", "none"];
    let ends = link.connected();
    let mtu = |end: &End| end.status().map_or(0, |status| status["mtu_bytes"].as_u64().unwrap());
    // IPv4 and UDP take 28 bytes, a datagram 36 beside the packet; found to 8 bytes.
    let follows = |path: u64| move |mtu: u64| (path - 64 - 8..=path - 64).contains(&mtu);
    wait_until("both ends know the path", || ends.iter().all(|end| follows(1450)(mtu(end))));
    let content = oncewire_testkit::content::incompressible(8, 3_000_000);
    std::fs::write(link.dir.path().join("file"), &content).unwrap();
    let mut server = link.command(1, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.2.0.1", "8080"]).current_dir(link.dir.path());
    let _server = Running::start(server.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let fetch = || {
        let mut client = link.command(0, curl.to_str().unwrap());
        let output = finish(client.args(["-s", "--max-time", "25", "http://10.2.0.1:8080/file"]));
        output.status.success() && output.stdout == content
    };
    wait_until("curl succeeds", fetch);
    for (end, device) in [(0, link.path.ns_a()), (1, link.path.ns_b())] {
        succeed(link.command(end, "ip").args(["link", "set", "dev", device, "mtu", "1380"]));
    }
    // B sends the file, and notices first.
    wait_until("curl succeeds again", || fetch() && follows(1380)(mtu(&ends[1])));
    assert!(ends[1].said().contains("large datagrams do not arrive"), "{}", ends[1].said());
}

/// As users would see it: a ping beside a download that fills the path.
#[test]
fn a_ping_does_not_wait_behind_a_full_path() {
    need_tool!("ping");
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let Some(mut link) = Link::new(PathConfig::default()) else { return };
    link.options = vec!["--rate", "8Mbit"];
    let ends = link.connected();
    let content = oncewire_testkit::content::incompressible(9, 20_000_000);
    std::fs::write(link.dir.path().join("file"), &content).unwrap();
    let mut server = link.command(1, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.2.0.1", "8080"]).current_dir(link.dir.path());
    let _server = Running::start(server.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let mut client = link.command(0, curl.to_str().unwrap());
    client.args(["-s", "--retry", "20", "--retry-connrefused", "http://10.2.0.1:8080/file"]);
    let _client = Running::start(client.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    // The queue is full: CoDel has dropped.
    wait_until("the path is full", || ends[1].number("/dropped/queue") > 0);
    assert!(link.ping(0, &["-c", "20", "10.2.0.1"]));
    // Nothing else was dropped, and no more was sent than the path has.
    assert_eq!(ends[1].number("/dropped/too_large"), 0);
}
