//! Protocols other than those of downloads over `oncewire link`: DNS, voice, SCTP and QUIC, by real
//! programs where there are any. Needs root and the `ip` program.

use crate::link::Link;
use crate::support::{ONCEWIRE, finish, wait_until};
use oncewire_testkit::path::PathConfig;
use oncewire_testkit::servers::Running;
use oncewire_testkit::{need_tool, skip};
use std::fs::File;
use std::process::{Command, Stdio};

/// Starts a server, whose output nobody reads.
fn quietly(command: &mut Command) -> Running {
    Running::start(command.stdout(Stdio::null()).stderr(Stdio::null())).expect("starts")
}

/// dnsmasq answers dig over UDP and TCP, IPv4 and IPv6, with names that fit a packet and with one whose
/// answer is a fragment.
#[test]
fn names_are_resolved_over_the_link() {
    let (server, dig) = (need_tool!("dnsmasq"), need_tool!("dig"));
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let ends = link.connected();
    let mut server = link.command(1, server.to_str().unwrap());
    server.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    server.args(["--bind-interfaces", "--listen-address=10.2.0.1,fd02::1", "--user=root"]);
    server.args(["--pid-file=", "--edns-packet-max=4096", "--address=/a.test/192.0.2.7"]);
    // 2,000 bytes of text.
    let long = [&"x".repeat(250)[..]; 8].join(",");
    server.arg(format!("--txt-record=long.test,{long}"));
    let _server = quietly(&mut server);
    let ask = |args: &[&str]| {
        let mut client = link.command(0, dig.to_str().unwrap());
        let output = finish(client.args(["+short", "+tries=3", "+time=5", "+ignore"]).args(args));
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    wait_until("the server listens", || ask(&["@10.2.0.1", "a.test"]).0);
    for server in ["@10.2.0.1", "@fd02::1"] {
        for over in ["+notcp", "+tcp"] {
            assert_eq!(ask(&[server, over, "a.test"]), (true, "192.0.2.7\n".into()), "{over}");
            let (_, text) = ask(&[server, over, "+bufsize=4096", "long.test", "TXT"]);
            assert_eq!(text.matches('x').count(), 2000, "{server} {over}: {text}");
        }
    }
    assert_eq!(ends[0].number("/dropped/malformed") + ends[1].number("/dropped/violations"), 0);
}

/// Both directions of a call: packets of RTP (RFC 3550) with 20 ms of G.711 each.
const VOICE: &str = r#"
import random, socket, struct, sys
own, peer, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind((own, 5004))
line.settimeout(20)
packet = lambda seed, at: struct.pack(">BBHII", 0x80, 0, at, at * 160, seed) + random.Random(seed * 99999 + at).randbytes(160)
# The caller calls until it is answered.
if seed == 1:
    line.settimeout(0.1)
    while True:
        line.sendto(b"call", (peer, 5004))
        try:
            if line.recv(2000) == b"answer": break
        except TimeoutError: pass
    line.settimeout(20)
else:
    while line.recv(2000) != b"call": pass
    line.sendto(b"answer", (peer, 5004))
for at in range(count):
    line.sendto(packet(seed, at), (peer, 5004))
    received = line.recv(2000)
    while received in (b"call", b"answer"): received = line.recv(2000)
    if received != packet(3 - seed, at): sys.exit(f"packet {at} is another")
print("hung up")
"#;

#[test]
fn both_directions_of_a_call_arrive_in_order() {
    const PACKETS: u64 = 500;
    let python = need_tool!("python3");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let ends = link.connected();
    let before = ends[0].number("/sent/datagram_bytes");
    let side = |end: usize, own, peer| {
        let mut command = link.command(end, python.to_str().unwrap());
        let numbers = [(end + 1).to_string(), PACKETS.to_string()];
        command.args(["-c", VOICE, own, peer]).args(numbers);
        command
    };
    let answering = link.dir.path().join("answering");
    let mut called = side(1, "10.2.0.1", "10.1.0.1");
    let called = called.stdout(File::create(&answering).unwrap()).stderr(Stdio::null());
    let mut called = Running::start(called).unwrap();
    let output = finish(&mut side(0, "10.1.0.1", "10.2.0.1"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hung up\n", "{output:?}");
    wait_until("the other side hangs up", || {
        called.wait(std::time::Duration::ZERO).unwrap().is_some()
    });
    assert_eq!(std::fs::read_to_string(&answering).unwrap(), "hung up\n");
    // A packet has 200 bytes; WireGuard would send 232. What repeats of 40 bytes of headers is left out.
    let sent = ends[0].number("/sent/datagram_bytes") - before;
    assert!(sent < PACKETS * 215, "{sent} bytes for {PACKETS} packets");
}

/// Messages of SCTP (RFC 9260), of which some take two packets.
#[test]
fn messages_of_sctp_cross_the_link() {
    let tsctp = std::path::Path::new("/usr/lib/usrsctp/tsctp");
    if !tsctp.exists() {
        skip!("tsctp of libusrsctp-examples is not installed");
    }
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let ends = link.connected();
    let said = link.dir.path().join("tsctp");
    let tsctp = tsctp.to_str().unwrap();
    // Line by line: what it says at the end would wait for more.
    let mut server = link.command(1, "stdbuf");
    server.args(["-oL", tsctp, "-L", "10.2.0.1", "-n", "300"]).stderr(Stdio::null());
    let _server = Running::start(server.stdout(File::create(&said).unwrap())).unwrap();
    let said = || String::from_utf8_lossy(&std::fs::read(&said).unwrap()).into_owned();
    wait_until("the server listens", || said().contains("Bind called port"));
    let mut client = link.command(0, tsctp);
    // It does not ask for the MTU, so it must be told to divide messages.
    client.args(["-L", "10.1.0.1", "-n", "300", "-l", "2000", "-f", "1200", "10.2.0.1"]);
    let _client = quietly(&mut client);
    // Length, messages, those that were read, and their bytes.
    wait_until("all messages arrive", || said().contains("\n2000, 300, 300, 600000, "));
    assert!(ends[0].number("/sent/packet_bytes") > 600_000);
    assert_eq!(ends[1].number("/dropped/malformed") + ends[0].number("/dropped/violations"), 0);
}

/// A tunnel of QUIC in the link: its handshake, path MTU discovery and streams.
#[test]
fn quic_crosses_the_link() {
    let (curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let ends = link.connected();
    let content = oncewire_testkit::content::incompressible(10, 2_000_000);
    std::fs::write(link.dir.path().join("file"), &content).unwrap();
    let mut server = link.command(1, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "127.0.0.1", "8080"]).current_dir(link.dir.path());
    let _server = quietly(&mut server);
    let key = |name: &str| link.dir.path().join(format!("{name}.key"));
    let mut serve = link.command(1, ONCEWIRE);
    serve.args(["serve", "--listen", "10.2.0.1:7099", "--transport", "quic", "--memory", "64M"]);
    serve.args(["--allow", "127.0.0.1:8080", "--peer", &link.keys[0]]).arg("--key").arg(key("b"));
    let _serve = quietly(serve.arg("--status").arg(link.dir.path().join("serve.sock")));
    let mut connect = link.command(0, ONCEWIRE);
    connect.args(["connect", "10.2.0.1:7099", "--transport", "quic", "--memory", "64M"]);
    connect.args(["-L", "8080:127.0.0.1:8080", "--peer", &link.keys[1]]);
    connect.arg("--key").arg(key("a"));
    let _connect = quietly(connect.arg("--status").arg(link.dir.path().join("connect.sock")));
    wait_until("curl succeeds", || {
        let mut client = link.command(0, curl.to_str().unwrap());
        let output = finish(client.args(["-s", "--max-time", "25", "http://127.0.0.1:8080/file"]));
        output.status.success() && output.stdout == content
    });
    // What is recognized as QUIC goes past the log.
    assert!(ends[1].number("/sent/bypassed_bytes") > 1_000_000, "{:?}", ends[1].status());
}
