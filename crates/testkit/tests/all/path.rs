//! The emulated path matches its parameters. Needs root.

use oncewire_testkit::path::{Direction, Path, PathConfig};
use oncewire_testkit::servers::Running;
use oncewire_testkit::{need_tool, skip};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROBE: &str = env!("CARGO_BIN_EXE_oncewire-path-probe");
const EMULATOR: &str = env!("CARGO_BIN_EXE_oncewire-path-emulator");

/// A path with a probe server in B; ends the test if there can be none.
macro_rules! open {
    ($config:expr) => {{
        if let Some(reason) = Path::unavailable() {
            skip!("{reason}");
        }
        let path = Path::open($config).expect("opens");
        let server =
            Running::start(path.command_in_b(PROBE).arg("serve").arg("[::]:5000")).expect("starts");
        // From within B, so without the path's loss and delay.
        let started = Instant::now();
        while !probe(path.command_in_b(PROBE).args(["send", "127.0.0.1:5000", "1"])).0 {
            assert!(started.elapsed() < Duration::from_secs(20), "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        (path, server)
    }};
}

fn probe(command: &mut Command) -> (bool, Vec<f64>) {
    let output = command.stderr(Stdio::null()).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    (
        output.status.success(),
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
    )
}

/// Packets sent, packets received, median round trip in microseconds.
fn ping(path: &Path, count: u32, interval_us: u32) -> (f64, f64, f64) {
    let to = format!("{}:5000", path.addr_b());
    let (ok, n) = probe(path.command_in_a(PROBE).args([
        "ping",
        &to,
        &count.to_string(),
        &interval_us.to_string(),
    ]));
    assert!(ok);
    (n[0], n[1], n[2])
}

/// Mbit/s of a transfer; the server checks the bytes.
fn send(path: &Path, bytes: u64) -> f64 {
    let to = format!("{}:5000", path.addr_b());
    let (ok, n) = probe(path.command_in_a(PROBE).args(["send", &to, &bytes.to_string()]));
    assert!(ok, "the transfer failed");
    n[2]
}

#[test]
fn the_round_trip_is_both_delays() {
    let mut config = PathConfig::symmetric(Duration::from_millis(20), None);
    config.b_to_a.delay = Duration::from_millis(40);
    let (path, _server) = open!(config);
    let (sent, received, median) = ping(&path, 100, 1000);
    assert_eq!(sent, received);
    assert!((60_000.0..180_000.0).contains(&median), "{median}");
    let (ok, n) = probe(path.command_in_a(PROBE).args([
        "ping",
        &format!("[{}]:5000", path.addr6_b()),
        "20",
        "1000",
    ]));
    assert!(ok && n[1] == 20.0 && n[2] >= 60_000.0, "IPv6: {n:?}");
}

#[test]
fn loss_is_near_what_was_asked_for_and_changes_live() {
    let (path, _server) = open!(PathConfig::default().loss(0.1));
    let before = path.stats();
    let (sent, received, _) = ping(&path, 3000, 100);
    // 0.81 of the round trips, plus or minus 7 standard deviations.
    assert!((0.76..0.86).contains(&(received / sent)), "{received} of {sent}");
    let after = path.stats();
    let lost = after.a_to_b.dropped_loss - before.a_to_b.dropped_loss;
    assert!((185..415).contains(&lost), "{lost}");
    path.set_loss(0.0).expect("a probability");
    let (sent, received, _) = ping(&path, 500, 100);
    assert_eq!(sent, received);
    assert!(path.set_loss(2.0).is_err());
}

#[test]
fn a_transfer_is_limited_by_the_rate_and_counted() {
    let (path, _server) = open!(PathConfig::symmetric(Duration::from_millis(5), Some(40_000_000)));
    path.set_congestion_control("reno").expect("every Linux has it");
    assert!(path.set_congestion_control("no-such").is_err());
    let mbit = send(&path, 5_000_000);
    assert!(mbit <= 40.0, "{mbit}");
    let stats = path.stats();
    assert!((5_100_000..7_000_000).contains(&stats.a_to_b.wire_bytes), "{stats:?}");
    assert!(stats.b_to_a.wire_bytes > 0);
}

#[test]
fn bytes_are_right_through_loss_and_reordering() {
    for offload in [true, false] {
        let mut config = PathConfig {
            offload,
            ..PathConfig::symmetric(Duration::from_millis(1), None).loss(0.005)
        };
        config.a_to_b.reorder = 0.01;
        config.a_to_b.reorder_by = Duration::from_millis(1);
        let (path, _server) = open!(config);
        send(&path, 10_000_000);
        let stats = path.stats().a_to_b;
        assert!(stats.dropped_loss > 0 && stats.reordered > 0, "{stats:?}");
        assert_eq!(stats.dropped_queue, 0);
    }
}

#[test]
fn a_short_queue_drops() {
    let config = PathConfig::symmetric(Duration::from_millis(10), Some(50_000_000)).queue(20_000);
    let (path, _server) = open!(config);
    send(&path, 3_000_000);
    assert!(path.stats().a_to_b.dropped_queue > 0);
}

#[test]
fn udp_segments_are_whole_through_loss() {
    let python = need_tool!("python3");
    let (path, _server) = open!(PathConfig::default());
    path.change(Direction::AToB, |config| config.loss = 0.2).expect("a probability");
    // With UDP_SEGMENT the kernel passes one run of ten datagrams. Each is numbered and must arrive
    // unchanged.
    let script = format!(
        "import socket, threading, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
try: s.setsockopt(17, 103, 1000)
except OSError: print(-1); raise SystemExit
got = []
def hear():
    try:
        while True: got.append(s.recv(65536))
    except OSError: pass
s.bind(('0.0.0.0', 0))
t = threading.Thread(target=hear); t.start()
sent = [bytes([i, j]) * 500 for i in range(50) for j in range(10)]
for i in range(50):
    s.sendto(b''.join(sent[i * 10:i * 10 + 10])[:9700], ('{}', 5000))
    # The receivers' buffers hold about ninety datagrams.
    time.sleep(0.01)
t.join()
whole = set(sent) | set(p[:700] for p in sent)
print(len(got) if all(p in whole for p in got) and len(set(got)) == len(got) else -2)",
        path.addr_b()
    );
    let output = path.command_in_a(python).args(["-c", &script]).output().expect("runs");
    let got: i64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    if got == -1 {
        skip!("the kernel has no UDP_SEGMENT");
    }
    assert!((300..=480).contains(&got), "{got} of 500");
}

#[test]
fn a_cut_drops_everything_until_mended() {
    let (path, _server) = open!(PathConfig::symmetric(Duration::from_millis(1), None));
    path.set_cut(true);
    let (_, received, _) = ping(&path, 20, 100);
    assert_eq!(received, 0.0);
    assert!(path.stats().a_to_b.dropped_cut > 0);
    path.set_cut(false);
    let (sent, received, _) = ping(&path, 20, 100);
    assert_eq!(sent, received);
}

#[test]
fn namespaces_go_with_the_path() {
    if let Some(reason) = Path::unavailable() {
        skip!("{reason}");
    }
    let path = Path::open(PathConfig::default()).expect("opens");
    let other = Path::open(PathConfig::default()).expect("a second one opens beside it");
    let file = format!("/run/netns/{}", path.ns_a());
    assert_ne!(path.ns_a(), other.ns_a());
    assert!(std::path::Path::new(&file).exists());
    drop(path);
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn the_emulator_runs_a_command_and_cleans_up_when_told_to_stop() {
    if let Some(reason) = Path::unavailable() {
        skip!("{reason}");
    }
    let script = "test -n \"$ADDR_A$ADDR_B\" && echo \"$NS_A\" && exec sleep 60";
    let mut command = Command::new(EMULATOR);
    command
        .args(["--delay-ms", "1", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut emulator = Running::start(&mut command).expect("starts");
    let mut name = String::new();
    let stdout = emulator.child().stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut name).expect("a line");
    let file = format!("/run/netns/{}", name.trim());
    assert!(std::path::Path::new(&file).exists(), "{file}");
    let mut stderr = emulator.child().stderr.take().expect("a pipe");
    let status = emulator.stop(Duration::from_secs(20)).expect("stops");
    assert_eq!(status.code(), Some(130));
    assert!(!std::path::Path::new(&file).exists());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut text).expect("text");
    assert_eq!(text.matches("{\"direction\":").count(), 2, "{text}");
    let status = Command::new(EMULATOR)
        .args(["--", "sh", "-c", "exit 7"])
        .stderr(Stdio::null())
        .status()
        .expect("runs");
    assert_eq!(status.code(), Some(7));
}
