//! A branch joins a hub with a token.

use crate::support::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Hub {
    dir: TempDir,
    end: End,
    key: String,
}

impl Hub {
    fn start(args: &[&str]) -> Hub {
        let dir = TempDir::new().unwrap();
        let key = keygen(&dir.path().join("hub.key"));
        std::fs::write(dir.path().join("peers"), "").unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let mut all = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--memory",
            "64M",
            "--allow",
            "127.0.0.0/8:*",
            "--key",
            &path("hub.key"),
            "--authorized-peers",
            &path("peers"),
        ]
        .map(String::from)
        .to_vec();
        all.extend(args.iter().map(|arg| arg.replace("DIR", dir.path().to_str().unwrap())));
        let end = End::start(dir.path(), "hub", &all, None);
        Hub { end, key, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self) -> String {
        self.end.listening[0].to_string()
    }

    fn invite(&self, name: &str) -> String {
        let mut command = Command::new(ONCEWIRE);
        command.arg("invite").arg(self.path("invitations")).args(["--name", name, "--key"]);
        let token = succeed(command.arg(self.path("hub.key")));
        String::from_utf8(token).unwrap().trim().to_owned()
    }
}

/// `enroll`, with the token on standard input.
fn enroll(at: &str, key: &Path, token: &str) -> std::process::Output {
    let mut command = Command::new(ONCEWIRE);
    command.args(["enroll", at, "--json", "--token", "-", "--key"]).arg(key);
    finish_with(&mut command, token.as_bytes())
}

#[test]
fn a_branch_joins_and_works() {
    let hub = Hub::start(&["--invitations", "DIR/invitations"]);
    let token = hub.invite("branch-7");
    let key = hub.path("branch.key");
    let joined = enroll(&hub.at(), &key, &format!("{token}\n"));
    assert!(joined.status.success(), "{}", text(&joined));
    let said: Value = serde_json::from_slice(&joined.stdout).unwrap();
    assert_eq!(said["server_key"], hub.key);
    assert!(hub.end.said().contains("enrolled"), "{}", hub.end.said());
    assert!(!hub.end.said().contains(&token[60..]), "no secret in logs");

    // Without a restart or a reload of the hub.
    let origin = sender(b"hello".to_vec());
    let args = [
        "connect",
        &hub.at(),
        "--memory",
        "64M",
        "-L",
        &format!("127.0.0.1:0:{origin}"),
        "--peer",
        said["server_key"].as_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ]
    .map(String::from);
    let branch = End::start(hub.dir.path(), "branch", &args, None);
    wait_until("there is a session", || branch.is_established());
    assert_eq!(fetch(branch.listening[0]).unwrap(), b"hello");
    assert_eq!(hub.end.status()["sessions"][0]["name"], "branch-7");

    // Another key, the same token.
    let again = enroll(&hub.at(), &hub.path("other.key"), &token);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("ask for another one") && said.matches('\n').count() == 1, "{said}");
    wait_until("the hub says why", || hub.end.said().contains("came with a token"));
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let hub = Hub::start(&[]);
    let token = hub.invite("branch");
    let key = hub.path("branch.key");
    let at = hub.at();
    let cases = [
        (&at[..], &token[..], 1, "run without --invitations"),
        (&at, "ow1join-short", 2, "75 characters"),
        (&at, &hub.key, 2, "tokens start with ow1join-"),
        ("127.0.0.1:1", &token, 1, "refused"),
    ];
    for (at, token, code, words) in cases {
        let output = enroll(at, &key, token);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words) && said.matches('\n').count() == 1, "{words}: {said}");
    }
    let invite = |args: &[&str]| {
        let mut command = Command::new(ONCEWIRE);
        command.arg("invite").arg(hub.path("invitations")).arg("--key").arg(hub.path("hub.key"));
        finish(command.args(args))
    };
    for (args, words) in [
        (&["--name", "two words"][..], "one word"),
        (&["--name", "a", "--allow", "nonsense"][..], "nonsense"),
        (&["--name", "a", "--expires", "tomorrow"][..], "YYYY-MM-DD"),
    ] {
        let output = invite(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words) && said.matches('\n').count() == 1, "{words}: {said}");
    }
}
