//! Configuration errors: one line that helps, and the documented exit code. Queries of a running
//! process.

use crate::support::*;
use serde_json::Value;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

struct Files {
    dir: TempDir,
    peer: String,
}

impl Files {
    fn new() -> Files {
        let dir = TempDir::new().unwrap();
        keygen(&dir.path().join("a.key"));
        let peer = keygen(&dir.path().join("b.key"));
        Files { dir, peer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A configuration file that is valid except for `lines`.
    fn config(&self, lines: &str) -> PathBuf {
        let path = self.path("config.toml");
        let mut text = lines.to_string();
        if !lines.contains("key =") {
            text.push_str(&format!("\nkey = {:?}", self.path("a.key")));
        }
        if !lines.contains("peer") {
            text.push_str(&format!("\npeer = [{:?}]", self.peer));
        }
        std::fs::write(&path, text + "\n").unwrap();
        path
    }
}

/// Asserts that the command failed with this code and one line with these words.
#[track_caller]
fn fails(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(output.stdout.is_empty(), "{}", text(output));
    assert!(
        said.starts_with("oncewire: ") && said.ends_with('\n') && said.matches('\n').count() == 1,
        "one line: {said}"
    );
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

fn check(role: &str, config: &Path) -> Output {
    oncewire(["check-config".as_ref(), role.as_ref(), config.as_os_str()])
}

// More than 100 lines: a table of cases.
#[test]
fn check_and_start_report_a_wrong_configuration_in_one_line() {
    let files = Files::new();
    // Lines for serve, and words of the error.
    let cases: [(&str, &[&str]); 39] = [
        ("listn = [\"7077\"]", &["line 1", "\"listn\"", "did you mean \"listen\"?"]),
        (
            "\n# memory\nmemry = \"1G\"\nlisen = []",
            &["line 3", "\"memry\"", "did you mean \"memory\"?"],
        ),
        ("keep-alive = \"1s\"", &["line 1", "\"keep-alive\"", "did you mean \"keep_alive\"?"]),
        ("forward = []", &["line 1", "\"forward\"", "it belongs to connect"]),
        ("authorised_peers = \"x\"", &["\"authorised_peers\"", "\"authorized_peers\""]),
        ("[serve]\nmemory = \"1G\"", &["line 1", "\"serve\"", "the keys are listen, allow,"]),
        ("memory = \"lots\"", &["line 1: memory \"lots\""]),
        ("lanes = 1\n\nmemory = \"1.5.G\"", &["line 3: memory \"1.5.G\"", "not a size"]),
        ("allow = [\n  \"a:1\",\n  \"origin\",\n]", &["line 3", "origin"]),
        ("level = 4", &["line 1", "level 4", "1 to 3"]),
        ("entropy = \"none\"\nlevel = 1", &["line 2", "--level belongs to --entropy coded"]),
        ("entropy = \"coded-2\"\nlevel = 1", &["line 2", "coded-2 and level 1"]),
        ("entropy = \"zstd\"", &["line 1", "zstd is called coded now"]),
        ("memory = \"1K\"", &["too little", "--memory"]),
        ("memory = 512", &["config.toml", "line 1"]),
        ("lanes = 0", &["0 lanes", "1 to 8"]),
        ("lanes = 9", &["9 lanes", "1 to 8"]),
        ("lanes = -1", &["line 1"]),
        ("transport = \"udp\"", &["transport \"udp\"", "tcp, quic or auto"]),
        ("keep_alive = \"soon\"", &["keep_alive \"soon\""]),
        ("dead_after = \"-1s\"", &["dead_after \"-1s\""]),
        ("grace = \"1 parsec\"", &["grace \"1 parsec\""]),
        ("pad = \"63\"", &["pad \"63\"", "64 to 64K"]),
        ("share = \"some\"", &["share \"some\"", "all, chunks or none"]),
        ("drain = \"x\"", &["drain \"x\""]),
        ("window = 5", &["window of 5", "12 to 64"]),
        ("period = 2", &["period of 2", "4 to 1024"]),
        ("sampler = \"modq\"", &["sampler \"modq\"", "samplebyte, samplebyte:FILE"]),
        ("entropy = \"gzip\"", &["entropy \"gzip\""]),
        ("cpu_budget = \"half\"", &["cpu_budget \"half\"", "25%"]),
        ("admin_price = \"9/kB\"", &["admin_price \"9/kB\"", "such as 0.09/GB"]),
        ("admin_price = \"9/GB\"", &["line 1", "a price without an admin address"]),
        ("log = \"loud\"", &["log \"loud\"", "error, warn, info, debug or trace"]),
        ("allow = [\"origin\"]", &["origin"]),
        ("listen = [\"7077x\"]", &["listen \"7077x\"", "65535"]),
        ("peer = [\"ow1nonsense\"]", &["peer 1 of 1", "49 characters"]),
        ("memory = ", &["config.toml", "line 1"]),
        ("listen = [\n\"[::1]:7077\",\n\"[::1]:7077\"]", &["line 3", "[::1]:7077 is listed twice"]),
        ("lanes = \"2\"", &["lanes \"2\"", "a whole number, without quotes"]),
    ];
    for (lines, words) in cases {
        let config = files.config(lines);
        let checked = check("serve", &config);
        assert!(!checked.status.success(), "{lines}");
        // Each names a line of the file.
        let words = [&["config.toml, line "], words].concat();
        fails(&checked, 2, &words);
        let started = oncewire(["serve".as_ref(), "--config".as_ref(), config.as_os_str()]);
        fails(&started, 2, &words);
    }
    let config = files.config("server = \"x:1\"\nproxy = [\"1080\"]\nallow = []");
    fails(&check("connect", &config), 2, &["\"allow\""]);
    fails(
        &check("connect", &files.config("server = \"x:1\"")),
        2,
        &["config.toml: nothing to forward", "-L"],
    );
    fails(
        &check("connect", &files.config("proxy = [\"1080\"]")),
        2,
        &["config.toml: no server", "host:port"],
    );
    fails(
        &check("connect", &files.config("server = \"x\"\nproxy = [\"1080\"]")),
        2,
        &["server \"x\""],
    );
    fails(
        &check("connect", &files.config("server = \"x:1\"\nforward = [\"8080\"]")),
        2,
        &["forward \"8080\"", "[bind:]port:host:hostport"],
    );
    let config = files.config("server = \"x:1\"\nforward = [\"8080:origin:80\"]\nmemory = \"1G\"");
    let good = check("connect", &config);
    let found = format!("{}: valid for `oncewire connect`: public key ow1", config.display());
    let counts = "1 authorized peer, server x:1, 1 forward, 0 reverse forwards, 0 proxies, 1 GiB of memory are enough\n";
    assert!(
        good.status.success() && text(&good).starts_with(&found) && text(&good).ends_with(counts),
        "{}",
        text(&good)
    );
    for memory in ["512M", "512MiB", "512 MB", "1GB", "1.5G", "1.5 GiB", "600000000"] {
        let good = check(
            "serve",
            &files.config(&format!("memory = {memory:?}\nentropy = \"coded\"\nlevel = 1")),
        );
        assert!(good.status.success(), "{memory}: {}", text(&good));
    }
    // An error in an option on the command line does not name the file.
    let config = files.config("keep_alive = \"1s\"\nentropy = \"coded\"\nlevel = 1");
    let serve = |more: &[&str]| {
        let args = ["serve", "--config", config.to_str().unwrap()];
        oncewire(args.iter().chain(more).copied())
    };
    for (flag, value, what) in
        [("--memory", "lots", "SIZE"), ("--listen", "x", "ADDRESS"), ("--transport", "udp", "KIND")]
    {
        let refused = serve(&["--entropy", "lz4", flag, value]);
        let said = format!("error: invalid value '{value}' for '{flag} <{what}>'");
        assert!(
            refused.status.code() == Some(2) && text(&refused).starts_with(&said),
            "{}",
            text(&refused)
        );
    }
    fails(&serve(&["--entropy", "lz4", "--level", "1"]), 2, &["oncewire: --level belongs"]);
    let good = check("serve", &files.config("allow = [\"localhost:*\"]"));
    assert!(good.status.success() && !text(&good).contains("warning"), "{}", text(&good));
    // What starts but cannot work.
    let empty = files.path("empty");
    std::fs::write(&empty, "").unwrap();
    let checked = check("serve", &files.config(&format!("authorized_peers = {empty:?}")));
    let warnings = "\nwarning: peers can reach nothing: add allow or allow_listen\nwarning: no peer is authorized, so every handshake will fail\n";
    assert!(checked.status.success() && text(&checked).ends_with(warnings), "{}", text(&checked));
    let config = files.path("config.toml");
    let json = oncewire([
        "check-config".as_ref(),
        "--json".as_ref(),
        "serve".as_ref(),
        config.as_os_str(),
    ]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(2), "{json}");
}

#[test]
fn peers_have_rules_of_their_own() {
    let files = Files::new();
    let key = text(&oncewire(["keygen".as_ref(), files.path("other.key").as_os_str()]));
    let (key, list) = (key.trim(), files.path("peers"));
    let config = |line: &str, more: &str| {
        std::fs::write(&list, line).unwrap();
        files.config(&format!("authorized_peers = {list:?}\n{more}"))
    };
    let line = format!("{key} ship allow=mirror.example:80,10.8.0.0/16:* expires=9998-12-31\n");
    let good = check("serve", &config(&line, ""));
    assert!(good.status.success(), "{}", text(&good));
    assert!(text(&good).contains(", 1 peer with rules of its own, "), "{}", text(&good));
    assert!(!text(&good).contains("warning"), "{}", text(&good));
    let client = "server = \"x:1\"\nproxy = [\"1080\"]";
    fails(&check("connect", &config(&line, client)), 2, &["allow= of a peer", "`serve`"]);
    for (line, words) in [
        (format!("\n{key} allow=mirror.example"), &["line 2", "expected host:ports"]),
        (format!("{key} expires=2027-02-29"), &["line 1", "YYYY-MM-DD"]),
        (format!("{key} two names"), &["line 1", "at most once"]),
    ] {
        fails(&check("serve", &config(&line, "")), 2, words);
    }
}

#[test]
fn unusable_keys_are_reported() {
    let files = Files::new();
    fails(&check("serve", &files.path("none.toml")), 1, &["none.toml", "check the name"]);
    let serve = |key: &Path| {
        oncewire([
            "serve".as_ref(),
            "--peer".as_ref(),
            files.peer.as_ref(),
            "--key".as_ref(),
            key.as_os_str(),
        ])
    };
    fails(&serve(&files.path("none.key")), 1, &["none.key", "oncewire keygen"]);
    let none = files.config(&format!("authorized_peers = {:?}", files.path("none.peers")));
    fails(&check("serve", &none), 1, &["config.toml, line 1: ", "none.peers"]);
    let public = files.path("a.pub");
    std::fs::write(&public, format!("{} a\n", files.peer)).unwrap();
    let shown = oncewire(["keygen".as_ref(), "--show".as_ref(), public.as_os_str()]);
    fails(&shown, 1, &["a.pub holds a public key already"]);
    let open = files.path("open.key");
    std::fs::copy(files.path("a.key"), &open).unwrap();
    succeed(Command::new("chmod").arg("644").arg(&open));
    fails(&serve(&open), 1, &["open.key", "chmod"]);
    let damaged = files.path("damaged.key");
    std::fs::write(&damaged, "nonsense\n").unwrap();
    succeed(Command::new("chmod").arg("600").arg(&damaged));
    fails(&serve(&damaged), 1, &["damaged.key"]);
    // A key is never overwritten.
    let before = std::fs::read(files.path("a.key")).unwrap();
    let again = oncewire(["keygen".as_ref(), files.path("a.key").as_os_str()]);
    fails(&again, 1, &["a.key"]);
    assert_eq!(std::fs::read(files.path("a.key")).unwrap(), before);
    let shown = oncewire(["keygen".as_ref(), "--show".as_ref(), files.path("b.key").as_os_str()]);
    assert_eq!(text(&shown).trim(), files.peer);
    fails(&oncewire(["serve"]), 2, &["no key", "oncewire keygen"]);
    let a = files.path("a.key");
    fails(
        &oncewire(["serve".as_ref(), "--key".as_ref(), a.as_os_str()]),
        2,
        &["--peer", "--authorized-peers"],
    );
    let list = files.path("peers");
    let with_list = || {
        oncewire([
            "serve".as_ref(),
            "--key".as_ref(),
            a.as_os_str(),
            "--authorized-peers".as_ref(),
            list.as_os_str(),
        ])
    };
    fails(&with_list(), 1, &["peers"]);
    std::fs::write(&list, format!("{} site-b\nrubbish\n", files.peer)).unwrap();
    fails(&with_list(), 2, &["peers", "2"]);
}

#[test]
fn an_address_in_use_is_reported() {
    let files = Files::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let key = files.path("a.key");
    let key = key.to_str().unwrap();
    let serve = oncewire(["serve", "--key", key, "--peer", &files.peer, "--listen", &at]);
    fails(&serve, 1, &[&at, "in use", "another address"]);
    let forward = format!("{at}:origin:80");
    let connect =
        oncewire(["connect", "127.0.0.1:9", "--key", key, "--peer", &files.peer, "-L", &forward]);
    fails(&connect, 1, &[&at, "in use"]);
}

#[test]
fn one_status_socket_is_for_one_process() {
    let tunnel = Plan::new().to(echo()).start();
    let mut args = tunnel.serve_args.clone();
    let at = args.iter().position(|arg| arg == "--listen").unwrap() + 1;
    args[at] = "127.0.0.1:0".into();
    args.extend(["--status".into(), tunnel.serve.socket.to_str().unwrap().into()]);
    fails(&oncewire(&args), 1, &["serve.sock", "in use"]);
    assert!(tunnel.serve.is_established());
    // Only its owner may connect.
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &tunnel.serve.socket.metadata().unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // A file that is not a socket is not removed.
    let file = tunnel.dir.path().join("notes.txt");
    std::fs::write(&file, "mine").unwrap();
    *args.last_mut().unwrap() = file.to_str().unwrap().into();
    fails(&oncewire(&args), 1, &["notes.txt"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn status_shows_the_views_of_both_ends_as_text_and_json() {
    let tunnel = Plan::new().to(echo()).start();
    assert_same(&exchange(tunnel.way(0), b"hello").unwrap(), b"hello", "echo");
    for (end, role) in [(&tunnel.serve, "serve"), (&tunnel.connect, "connect")] {
        wait_until("the other end has reported the exchange", || {
            end.status()["sessions"][0]["there"]["sent_bytes"].as_u64() >= Some(5)
        });
        let status = end.status();
        assert_eq!(status["role"], role);
        let session = &status["sessions"][0];
        assert_eq!(
            (&session["phase"], &session["lanes_up"]),
            (&Value::from("established"), &Value::from(1)),
            "{status:#}"
        );
        for view in ["here", "there"] {
            assert!(session[view]["sent_bytes"].as_u64() >= Some(5), "{view}: {status:#}");
        }
        for name in ["log_end", "log_unacknowledged", "resumes", "failures", "wire_sent_bytes"] {
            assert!(session["there"][name].is_u64(), "{name}: {status:#}");
        }
        assert!(session["here"]["not_reduced"].is_object());
        let socket = end.socket.to_str().unwrap();
        let shown = oncewire(["status", "--socket", socket]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        for word in
            [role, "established", "sent", "received", "1 of 1", &end.listening[0].to_string()]
        {
            assert!(shown.contains(word), "{word:?} is not in {shown}");
        }
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "too wide for a terminal: {shown}"
        );
    }
}

#[test]
fn status_with_nothing_running_says_so() {
    let dir = TempDir::new().unwrap();
    let ask = |args: &[&str]| {
        finish(Command::new(ONCEWIRE).arg("status").args(args).env("XDG_RUNTIME_DIR", dir.path()))
    };
    let places =
        ["no running", "oncewire-serve.sock", "/run/oncewire-connect/status.sock", "--socket PATH"];
    fails(&ask(&[]), 1, &places);
    fails(&ask(&["--json"]), 1, &places[..1]);
    fails(&oncewire(["status"]), 1, &["/run/oncewire-serve/status.sock"]);
    let none = dir.path().join("none.sock");
    fails(&ask(&["--socket", none.to_str().unwrap()]), 1, &["none.sock"]);
    // The socket of a killed process.
    drop(UnixListener::bind(dir.path().join("oncewire-serve.sock")).unwrap());
    fails(&ask(&[]), 1, &["no process answers on", "oncewire-serve.sock"]);
    let file = dir.path().join("notes.txt");
    std::fs::write(&file, "mine").unwrap();
    fails(&ask(&["--socket", file.to_str().unwrap()]), 1, &["notes.txt", "not a socket"]);
}

#[test]
fn status_takes_no_other_answer_for_that_of_a_tunnel() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("oncewire-connect.sock");
    for (answer, word) in [
        ("220 ready\r\n", "is not the status socket of a tunnel"),
        ("", "is not the status socket of a tunnel"),
        ("[]", "has no format"),
        ("{\"format\": 99}", "in format 99"),
    ] {
        let listener = UnixListener::bind(&place).unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap();
            }
        });
        for option in [&[][..], &["--json"]] {
            let socket = ["status", "--socket", place.to_str().unwrap()];
            fails(&oncewire(socket.iter().chain(option)), 1, &["oncewire-connect.sock", word]);
        }
        server.join().unwrap();
        std::fs::remove_file(&place).unwrap();
    }
}

#[test]
fn the_socket_of_a_killed_process_does_not_hide_one_that_runs() {
    let tunnel = Plan::new().to(echo()).start();
    let dir = TempDir::new().unwrap();
    drop(UnixListener::bind(dir.path().join("oncewire-serve.sock")).unwrap());
    let running = dir.path().join("oncewire-connect.sock");
    std::os::unix::fs::symlink(&tunnel.connect.socket, &running).unwrap();
    let shown = finish(Command::new(ONCEWIRE).args(["status"]).env("XDG_RUNTIME_DIR", dir.path()));
    assert!(shown.status.success() && text(&shown).contains("connect "), "{}", text(&shown));
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(said.contains("no process answers on") && said.contains("oncewire-serve.sock"));
}
