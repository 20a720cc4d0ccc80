//! Who may use the proxy: passwords and networks of clients, with curl.

use crate::support::*;
use oncewire_testkit::need_tool;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const BODY: &[u8] = b"once over the wire\n";

/// Answers each connection's request of HTTP.
fn web() -> SocketAddr {
    origin(|mut stream| {
        let (mut head, mut piece) = (Vec::new(), [0; 4096]);
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(len) if len > 0 => head.extend(&piece[..len]),
                _ => return,
            }
        }
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len());
        let _ = stream.write_all(&[text.as_bytes(), BODY].concat());
    })
}

fn write_users(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn curl(args: &[&str], url: &str) -> Output {
    let mut command = Command::new("curl");
    finish(command.args(["-sS", "--fail", "--noproxy", "", "-m", "25"]).args(args).arg(url))
}

#[test]
fn a_proxy_wants_the_password_that_its_file_has_now() {
    need_tool!("curl");
    let dir = TempDir::new().unwrap();
    let users = dir.path().join("users");
    write_users(&users, "# branch\nann:correct horse\n");
    let origin = web();
    let tunnel = Plan::new()
        .only(origin.to_string())
        .connect(&["--proxy", "0", "--proxy-users", users.to_str().unwrap(), "--log-flows"])
        .start();
    let (proxy, url) = (tunnel.way(0), format!("http://{origin}/"));
    let (socks, http) = (format!("socks5h://{proxy}"), format!("http://{proxy}"));
    let ways = [vec!["-x", &socks], vec!["-x", &http], vec!["-p", "-x", &http]];
    let try_all = |user: &str, is_right: bool| {
        for way in &ways {
            let got = curl(&[&way[..], &["--proxy-user", user]].concat(), &url);
            assert_eq!(got.status.success(), is_right, "{way:?} {user}: {}", text(&got));
            assert_eq!(got.stdout, if is_right { BODY } else { b"" });
        }
    };
    try_all("ann:correct horse", true);
    try_all("ann:wrong horse", false);
    for way in &ways {
        assert!(!curl(way, &url).status.success(), "{way:?}");
    }
    // Three with a wrong one, three with none; whoever looks can see it, but no password.
    assert_eq!(tunnel.connect.status()["unauthorized_proxy_clients"], 6);
    wait_until("the log says so", || tunnel.connect.said().contains("proxy client refused"));
    // That line comes at a limited rate; those of flows do not.
    let denied = || tunnel.connect.said().matches("flow denied").count();
    wait_until("each has a line", || denied() >= 6);
    assert_eq!(denied(), 6, "{}", tunnel.connect.said());
    assert!(tunnel.connect.said().contains("target=proxy why="), "{}", tunnel.connect.said());
    assert!(!tunnel.connect.said().contains("horse"), "{}", tunnel.connect.said());

    write_users(&users, "ann:correct horse\nbob:battery staple\n");
    signal(&tunnel.connect.process, "HUP");
    wait_until("it has read the file again", || {
        tunnel.connect.said().contains("users of the proxy reloaded")
    });
    try_all("bob:battery staple", true);
    // A file that is wrong changes nothing.
    write_users(&users, "battery staple\n");
    signal(&tunnel.connect.process, "HUP");
    wait_until("it says why not", || tunnel.connect.said().contains("line 1: expected name:"));
    try_all("bob:battery staple", true);
    assert!(!tunnel.connect.said().contains("staple"), "{}", tunnel.connect.said());
}

#[test]
fn a_proxy_serves_its_networks_only() {
    need_tool!("curl");
    let origin = web();
    let url = format!("http://{origin}/");
    for (networks, is_served) in [
        (&["127.0.0.0/8"][..], true),
        (&["10.0.0.0/8", "127.0.0.1"], true),
        (&["10.0.0.0/8", "::1"], false),
    ] {
        let networks: Vec<&str> =
            networks.iter().flat_map(|network| ["--proxy-clients", network]).collect();
        let args = [&["--proxy", "127.0.0.1:0"], &networks[..]].concat();
        let tunnel = Plan::new().only(origin.to_string()).connect(&args).start();
        let got = curl(&["-x", &format!("socks5h://{}", tunnel.way(0))], &url);
        assert_eq!(got.status.success(), is_served, "{networks:?}: {}", text(&got));
        let refused = u64::from(!is_served);
        assert_eq!(tunnel.connect.status()["unauthorized_proxy_clients"], refused);
    }
}

#[test]
fn wrong_users_and_networks_are_refused_in_one_line() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let peer = keygen(&dir.path().join("a.key"));
    write_users(&dir.path().join("short"), "ann:1234567\n");
    write_users(&dir.path().join("open"), "ann:12345678\n");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(dir.path().join("open"), open).unwrap();
    for (args, says) in [
        (vec!["--proxy", "0", "--proxy-users", &path("short")], "a password has 8 to 255 bytes"),
        (vec!["--proxy", "0", "--proxy-users", &path("open")], "chmod 600"),
        (vec!["--proxy", "0", "--proxy-users", &path("none")], "cannot read the password file"),
        (vec!["-L", "0:o:1", "--proxy-users", &path("open")], "--proxy ADDRESS"),
        (vec!["-L", "0:o:1", "--proxy-clients", "10.0.0.0/8"], "--proxy ADDRESS"),
        (vec!["--proxy", "0", "--proxy-clients", "10.0.0.1/8"], "did you mean 10.0.0.0/8?"),
        (vec!["--proxy", "0", "--proxy-clients", "site"], "expected a network such as"),
    ] {
        let (key, base) = (path("a.key"), ["connect", "127.0.0.1:1", "--peer", &peer, "--key"]);
        let output = oncewire([&base[..], &[&key], &args].concat());
        let said = text(&output);
        assert!(!output.status.success() && said.contains(says), "{args:?}: {said}");
        assert!(!said.contains("1234567"), "{said}");
    }
}
