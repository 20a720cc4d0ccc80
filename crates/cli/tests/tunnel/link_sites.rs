//! `oncewire link` with configuration files, three sites, and ends that move. The tests in namespaces
//! need root and the `ip` program.

use crate::link::{End, Link};
use crate::support::{ONCEWIRE, finish, oncewire, succeed, wait_until};
use oncewire_testkit::need_tool;
use oncewire_testkit::path::PathConfig;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A third namespace, C, which a cable joins to B: 10.78.0.1 is B, 10.78.0.2 is C.
struct Third(String);

impl Third {
    fn new(link: &Link) -> Third {
        let b = link.path.ns_b();
        let third = Third(format!("{}c", b.strip_suffix('b').expect("a name")));
        let ip = |line: &str| {
            let line =
                line.replace(" B ", &format!(" {b} ")).replace(" C ", &format!(" {} ", third.0));
            succeed(Command::new("ip").args(line.split_whitespace()));
        };
        ip("netns add C ");
        ip("link add cable netns B type veth peer name cable netns C ");
        for line in [
            "-n B address add 10.78.0.1/24 dev cable",
            "-n C address add 10.78.0.2/24 dev cable",
            "-n B link set dev cable up",
            "-n C link set dev cable up",
            "-n C link set dev lo up",
        ] {
            ip(line);
        }
        third
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }
}

impl Drop for Third {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

fn keygen(file: &Path) -> String {
    let public = succeed(Command::new(ONCEWIRE).arg("keygen").arg(file));
    String::from_utf8(public).unwrap().trim().to_owned()
}

/// Runs a link with a configuration file that has the lines.
fn configured(mut command: Command, link: &Link, name: &str, lines: &str) -> End {
    let dir = link.dir.path();
    let file = dir.join(format!("{name}.toml"));
    let key = dir.join(format!("{name}.key"));
    // Names of devices differ, because they exist outside of the namespaces for a moment.
    let device = link.device(0).replace('l', &name.to_uppercase());
    let text = format!("key = {key:?}\nmatch = \"log\"\ndevice = {device:?}\n{lines}");
    std::fs::write(&file, text).unwrap();
    let checked = oncewire(["check-config".as_ref(), "link".as_ref(), file.as_os_str()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    command.args(["link", "--config"]).arg(&file);
    End::start(command, dir, name)
}

fn peer(name: &str, key: &str, address: Option<&str>, allowed: &[&str]) -> String {
    let address = address.map_or_else(String::new, |address| format!("address = {address:?}\n"));
    format!("[[peer]]\nname = {name:?}\nkey = {key:?}\n{address}allowed = {allowed:?}\n")
}

/// A and C connect to B, which forwards between them.
#[test]
fn three_sites_reach_each_other() {
    need_tool!("ping");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let third = Third::new(&link);
    let c_key = keygen(&link.dir.path().join("c.key"));
    let [a_key, b_key] = &link.keys;
    link.path.sysctl("net.ipv4.ip_forward", "1").unwrap();
    let hub = format!(
        "listen = \"7077\"\naddress = [\"10.2.0.1/32\"]\n{}{}",
        peer("site-a", a_key, None, &["10.1.0.0/16"]),
        peer("site-c", &c_key, None, &["10.3.0.0/16"]),
    );
    let spoke = |address: &str, at: &str, other: &str| {
        let at = Some(at);
        format!("address = [\"{address}/32\"]\n{}", peer("hub", b_key, at, &["10.2.0.0/16", other]))
    };
    let b = configured(link.command(1, ONCEWIRE), &link, "b", &hub);
    let at_b = format!("{}:7077", link.path.addr_b());
    let a =
        configured(link.command(0, ONCEWIRE), &link, "a", &spoke("10.1.0.1", &at_b, "10.3.0.0/16"));
    let c = configured(
        third.command(ONCEWIRE),
        &link,
        "c",
        &spoke("10.3.0.1", "10.78.0.1:7077", "10.1.0.0/16"),
    );
    for end in [&a, &b, &c] {
        wait_until("all are connected", || end.is_up());
    }
    // From everyone to everyone, also through the hub.
    assert!(link.ping(0, &["-c", "5", "10.2.0.1"]), "{}", b.said());
    assert!(link.ping(0, &["-c", "5", "10.3.0.1"]), "{}", b.said());
    let ping = |args: &[&str]| {
        finish(third.command("ping").args(["-q", "-i", "0.01", "-W", "5"]).args(args))
            .status
            .success()
    };
    assert!(ping(&["-c", "5", "10.2.0.1"]) && ping(&["-c", "5", "10.1.0.1"]), "{}", b.said());
    // A source of C's network is not accepted from A, although C is a peer.
    succeed(link.command(0, "ip").args(["address", "add", "10.3.0.9/32", "dev", "lo"]));
    assert!(!link.ping(0, &["-c", "3", "-W", "1", "-I", "10.3.0.9", "10.2.0.1"]));
    let refused = |peer: usize| b.number(&format!("/peers/{peer}/dropped/source_not_allowed"));
    assert!(refused(0) >= 3);
    assert_eq!(refused(1), 0);
    // Each peer has its counters; C is not disturbed when A ends.
    assert!(
        b.number("/peers/0/received/packets") >= 10 && b.number("/peers/1/received/packets") >= 10
    );
    drop(a);
    wait_until("A is gone", || b.number("/peers_connected") == 1);
    assert!(!b.is_up());
    assert!(ping(&["-c", "5", "10.2.0.1"]), "{}", b.said());
    let text = oncewire(["status".as_ref(), "--socket".as_ref(), b.socket().as_os_str()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("1 of 2 peers connected") && text.contains("site-c"), "{text}");
}

/// Both ends listen and have each other's address: whichever starts first, one connection stays, and
/// either end may be replaced.
#[test]
fn ends_that_both_connect_find_each_other_again() {
    need_tool!("ping");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let lines = |end: usize| {
        let other = [link.path.addr_b(), link.path.addr_a()][end];
        let allowed = [["10.2.0.0/16"], ["10.1.0.0/16"]][end];
        let address = ["10.1.0.1/32", "10.2.0.1/32"][end];
        let peer = peer("other", &link.keys[1 - end], Some(&format!("{other}:7077")), &allowed);
        format!("listen = \"7077\"\naddress = [{address:?}]\n{peer}")
    };
    let start =
        |end: usize| configured(link.command(end, ONCEWIRE), &link, ["a", "b"][end], &lines(end));
    let mut ends = [start(0), start(1)];
    for replaced in [1, 0, 1] {
        for end in &ends {
            wait_until("the link is up", || end.is_up());
        }
        assert!(link.ping(0, &["-c", "5", "10.2.0.1"]), "{}", ends[0].said());
        ends[replaced].kill();
        ends[replaced] = start(replaced);
        wait_until("a ping is answered again", || {
            link.ping(0, &["-c", "1", "-W", "1", "10.2.0.1"])
        });
    }
}

/// A has another address, as behind a NAT that has restarted: B follows it without a new handshake.
#[test]
fn a_peer_that_moves_is_followed() {
    need_tool!("ping");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    link.path.sysctl("net.ipv4.conf.all.promote_secondaries", "1").unwrap();
    let [_a, b] = link.connected();
    assert!(link.ping(0, &["-c", "5", "10.2.0.1"]));
    let address = |end: &End| {
        end.status().unwrap()["peers"][0]["address"].as_str().unwrap_or_default().to_owned()
    };
    let before = address(&b);
    assert!(before.starts_with("10.77.0.1:"), "{before}");
    let ip = |line: &str| {
        let line = line.replace("DEVICE", link.path.ns_a());
        succeed(link.command(0, "ip").args(line.split_whitespace()));
    };
    ip("address add 10.77.0.5/24 dev DEVICE");
    ip("address del 10.77.0.1/24 dev DEVICE");
    assert!(link.ping(0, &["-c", "5", "10.2.0.1"]), "{}", b.said());
    assert_eq!(address(&b), before.replace("10.77.0.1", "10.77.0.5"));
    assert_eq!(b.said().matches("link up").count(), 1, "{}", b.said());
}

/// On a machine with several addresses, answers come from the one that the peer used.
#[test]
fn answers_come_from_the_address_that_the_peer_used() {
    need_tool!("ping");
    let Some(link) = Link::new(PathConfig::default()) else { return };
    let second = "10.77.0.200";
    succeed(link.command(1, "ip").args([
        "address",
        "add",
        &format!("{second}/24"),
        "dev",
        link.path.ns_b(),
    ]));
    let b = link.start(1);
    let a = configured(
        link.command(0, ONCEWIRE),
        &link,
        "a",
        &format!(
            "address = [\"10.1.0.1/32\"]\n{}",
            peer("b", &link.keys[1], Some(&format!("{second}:7077")), &["10.2.0.0/16"])
        ),
    );
    for end in [&a, &b] {
        wait_until("the link is up", || end.is_up());
    }
    assert!(link.ping(0, &["-c", "5", "10.2.0.1"]), "{}", b.said());
    // A sends to where B's newest datagram came from.
    let status = a.status().unwrap();
    assert_eq!(status["peers"][0]["address"], format!("{second}:7077"), "{status}");
}

struct Files {
    dir: TempDir,
    keys: [String; 3],
}

impl Files {
    fn new() -> Files {
        let dir = TempDir::new().unwrap();
        let keys = ["own", "b", "c"].map(|name| keygen(&dir.path().join(format!("{name}.key"))));
        Files { dir, keys }
    }

    /// A configuration file: the lines, with what they lack, and KEYB, KEYC and OWN for keys.
    fn config(&self, lines: &str) -> PathBuf {
        let path = self.dir.path().join("link.toml");
        let mut text = String::new();
        if !lines.contains("listen =") {
            text.push_str("listen = \"7077\" ");
            // On the first line, so that lines count from it.
            text = text.trim_end().to_owned() + "\n";
        }
        let key = self.dir.path().join("own.key");
        text.push_str(&format!("key = {key:?}\nmatch = \"log\"\n"));
        let [own, b, c] = &self.keys;
        text.push_str(&lines.replace("KEYB", b).replace("KEYC", c).replace("OWN", own));
        std::fs::write(&path, text).unwrap();
        path
    }
}

const PEER: &str = "[[peer]]\nkey = \"KEYB\"\nallowed = [\"10.2.0.0/16\"]\n";

// More than 100 lines: a table of cases.
#[test]
fn a_wrong_configuration_is_named_with_file_line_and_key() {
    let files = Files::new();
    // After three lines that are right.
    let cases: [(&str, &[&str]); 29] = [
        ("", &["link.toml: no peer: add a [[peer]] table"]),
        ("lisen = \"1\"\nPEER", &["line 4", "\"lisen\"", "did you mean \"listen\"?"]),
        ("proxy = [\"1080\"]\nPEER", &["line 4", "\"proxy\"", "it belongs to connect"]),
        ("allowed = [\"10.0.0.0/8\"]\nPEER", &["line 4", "\"allowed\"", "the keys are listen"]),
        ("path_mtu = 100\nPEER", &["line 4: path_mtu 100: write 1248 to 9000"]),
        ("path_mtu = \"1500\"\nPEER", &["line 4: path_mtu \"1500\": write a whole number"]),
        ("device = \"a/b\"\nPEER", &["line 4: device \"a/b\": use 1 to 15 letters"]),
        (
            "address = [\n\"10.0.0.1/24\",\n\"x\"]\nPEER",
            &["line 6: address \"x\": write a network"],
        ),
        ("routes = \"maybe\"\nPEER", &["line 4: routes \"maybe\": use on or off"]),
        ("log = \"loud\"\nPEER", &["line 4: log \"loud\""]),
        ("keep_alive = \"soon\"\nPEER", &["line 4: keep_alive \"soon\": not a time"]),
        ("dead_after = \"1s\"\nPEER", &["line 4: keep-alive 15s", "at least twice"]),
        ("renew_keys = \"1ms\"\nPEER", &["line 4: keep-alive", "renew-keys 1ms"]),
        ("peer = [\"KEYB\"]", &["line 4: peer"]),
        ("[[peer]]\nallowed = [\"10.2.0.0/16\"]", &["line 4: peer 1 has no key"]),
        ("[[peer]]\nkey = \"KEYB\"", &["line 4: peer 1 has no allowed networks"]),
        (
            "[[peer]]\nkey = \"KEYB allow=a:1\"",
            &["line 5: peer 1: key", "a link's peer has no allow="],
        ),
        (
            "[[peer]]\nkey = \"KEYB\"\nname = \"expires=2030-01-01\"",
            &["peer 1: name", "expires= goes after the key"],
        ),
        (
            "[[peer]]\nkey = \"KEYB\"\nalowed = []",
            &["line 6", "\"alowed\" in [[peer]]", "did you mean \"allowed\"?"],
        ),
        (
            "[[peer]]\nkey = \"KEYB\"\nport = 5",
            &["line 6", "\"port\" in [[peer]]", "the keys are name, key, address, allowed"],
        ),
        (
            "[[peer]]\nkey = \"ow1nonsense\"\nallowed = [\"10.2.0.0/16\"]",
            &["line 5: peer 1: key: "],
        ),
        (
            "PEER[[peer]]\nkey = \"KEYC\"\nallowed = [\"10.3.0.0/16\",\n \"10.4.0.0/33\"]",
            &["line 10: peer 2: allowed: \"10.4.0.0/33\": write a network"],
        ),
        (
            "[[peer]]\nkey = \"KEYB\"\nallowed = \"10.2.0.0/16\"",
            &["line 6: allowed \"10.2.0.0/16\": write a list, in brackets"],
        ),
        ("PEERaddress = \"site-b\"", &["line 7: peer 1: address: expected host:port"]),
        ("PEERname = \"two words\"", &["line 7: peer 1: name: ", "one word"]),
        (
            "PEER[[peer]]\nkey = \"KEYB\"\nallowed = [\"10.3.0.0/16\"]",
            &["line 8: ", "has the key of"],
        ),
        (
            "PEER[[peer]]\nkey = \"OWN\"\nallowed = [\"10.3.0.0/16\"]",
            &["line 8: ", "this end's own"],
        ),
        (
            "PEERname = \"site-b\"\n[[peer]]\nname = \"site-c\"\nkey = \"KEYC\"\nallowed = [\"10.9.0.0/16\",\n\"10.2.3.0/24\"]",
            &["line 12: 10.2.3.0/24 behind site-c overlaps 10.2.0.0/16 behind site-b"],
        ),
        ("[[peer]\n", &["line 4: "]),
    ];
    for (lines, words) in cases {
        let config = files.config(&lines.replace("PEER", PEER));
        for run in [["check-config", "link"], ["link", "--config"]] {
            let output = oncewire([run[0].as_ref(), run[1].as_ref(), config.as_os_str()]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{lines}: {said}");
            assert!(said.starts_with("oncewire: ") && said.matches('\n').count() == 1, "{said}");
            for word in ["link.toml"].iter().chain(words) {
                assert!(said.contains(word), "{word:?} is not in {said}");
            }
        }
    }
    // An end that only connects needs addresses.
    let config = files.config(PEER);
    let text = std::fs::read_to_string(&config).unwrap().replace("listen = \"7077\"\n", "");
    std::fs::write(&config, text).unwrap();
    let output = oncewire(["check-config".as_ref(), "link".as_ref(), config.as_os_str()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("line 3: peer 1 has no address, and this end does not listen"), "{said}");
    // The sample file is valid but for its key.
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/link.toml");
    let sample = std::fs::read_to_string(sample).unwrap();
    let key = files.dir.path().join("own.key");
    let path = files.dir.path().join("sample.toml");
    std::fs::write(&path, sample.replace("/etc/oncewire/link.key", key.to_str().unwrap())).unwrap();
    let output = oncewire(["check-config".as_ref(), "link".as_ref(), path.as_os_str()]);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(found.contains("listens on UDP [::]:7077, 2 peers with 3 networks"), "{found}");
    let json =
        oncewire(["check-config".as_ref(), "link".as_ref(), path.as_os_str(), "--json".as_ref()]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["good"], json["warnings"].as_array().unwrap().len()), (&true.into(), 0));
    // Valid, but it will not work without another route.
    let config = files.config(&format!("{PEER}address = \"10.2.0.1:7077\""));
    let output = oncewire(["check-config".as_ref(), "link".as_ref(), config.as_os_str()]);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && found.contains("warning: the address of a peer is in"),
        "{found}"
    );
}

#[test]
fn a_command_line_that_lacks_something_says_what() {
    let files = Files::new();
    let key = files.dir.path().join("own.key");
    let [key, peer] = [key.to_str().unwrap(), &files.keys[1]];
    let whole = ["link", "h:1", "--key", key, "--peer", peer, "--allowed", "10.0.0.0/8"];
    for (without, words) in [
        ("h:1", "name the other end as host:port, or wait for it with --listen PORT"),
        ("--key", "no key: make one"),
        ("--peer", "no peer: pass the other end's public key"),
        ("--allowed", "no network: name those behind the other end"),
    ] {
        let at = whole.iter().position(|arg| *arg == without).unwrap();
        let mut args: Vec<&str> = whole.to_vec();
        args.drain(at..=at + usize::from(without.starts_with("--")));
        let output = oncewire(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let config = files.config(PEER);
    let output = oncewire(["link", "--config", config.to_str().unwrap(), "--peer", peer]);
    assert_eq!(output.status.code(), Some(2));
    // A secret key in place of a public one is not shown.
    let secret = std::fs::read_to_string(key).unwrap();
    let config = files.config(&PEER.replace("KEYB", secret.trim()));
    let output = oncewire(["link", "--config", config.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("line 5: peer 1: key: "), "{said}");
    let tail = &secret.trim()[secret.trim().len() - 20..];
    assert!(!said.contains(tail), "{said}");
}
