//! Caches on disk: what survives kill -9 of either end or both, and what `oncewire store` says.
//!
//! `ONCEWIRE_STORE_KILLS=500` kills that often under load; the default is a few.

use crate::support::*;
use oncewire_testkit::servers::incompressible;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tunnel whose ends keep their caches on disk, and their directories.
fn stored(plan: Plan, disk: &Path, options: &[&str]) -> (Tunnel, [PathBuf; 2]) {
    let dirs = ["serve", "connect"].map(|name| disk.join(name));
    let [serve, connect] = dirs.each_ref().map(|dir| {
        let dir = dir.to_str().expect("text");
        [&["--store", dir, "--store-size", "1G"], options].concat()
    });
    (plan.serve(&serve).connect(&connect).start(), dirs)
}

impl Tunnel {
    fn kill_both(&mut self) {
        self.kill_serve();
        self.connect.process.kill().expect("killed");
        self.restart_serve();
        self.connect = End::start(self.dir.path(), "connect", &self.connect_args, None);
        self.established();
    }

    /// Waits until both ends have committed a log of this many bytes.
    fn committed(&self, bytes: u64) {
        for end in [&self.serve, &self.connect] {
            wait_until("there is a commit", || {
                let status = end.status();
                let number = |name: &str| status["store"][name].as_u64();
                number("held_bytes") >= Some(bytes) && number("pending_bytes") == Some(0)
            });
        }
    }

    /// Bytes that applications received so far.
    fn received(&self) -> u64 {
        self.connect.status()["application_received_bytes"].as_u64().expect("a number")
    }
}

#[test]
fn the_same_file_costs_little_after_both_ends_were_killed() {
    let disk = tempfile::tempdir().expect("a directory");
    let content = incompressible(81, 2_000_000);
    let (mut tunnel, _) = stored(Plan::new().to(sender(content.clone())), disk.path(), &[]);
    let (got, first) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
    assert_same(&got, &content, "first");
    for (killed, log) in [("both", 2_000_000), ("serve", 4_000_000), ("connect", 6_000_000)] {
        tunnel.committed(log);
        match killed {
            "both" => tunnel.kill_both(),
            "serve" => {
                tunnel.kill_serve();
                tunnel.restart_serve();
                wait_until("there is a new session", || tunnel.serve.is_established());
            }
            _ => {
                tunnel.restart_connect();
                tunnel.established();
            }
        }
        let (got, cost) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
        assert_same(&got, &content, killed);
        eprintln!("2 MB: {first} bytes on the wire; {cost} after kill -9 of {killed}");
        assert!(cost < 4_000, "{killed}: {cost}");
    }
    let status = tunnel.serve.status();
    assert_eq!(status["store"]["encrypted"], true);
    assert_eq!(status["store"]["failure"], serde_json::Value::Null);
}

/// Ends that drain leave their caches to whoever comes next, also where the other end makes room for
/// another session meanwhile.
#[test]
fn a_restart_on_purpose_keeps_the_caches() {
    let disk = tempfile::tempdir().expect("a directory");
    let content = incompressible(82, 2_000_000);
    let (mut tunnel, _) = stored(Plan::new().to(sender(content.clone())), disk.path(), &[]);
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "first");
    for ended in ["serve", "connect", "both", "serve"] {
        // A connection that is open keeps the session that drains.
        let open = (ended == "serve").then(|| application(tunnel.way(0)));
        let ends = [&mut tunnel.serve, &mut tunnel.connect];
        let ends = ends.into_iter().zip(["serve", "connect"]);
        for (end, _) in ends.filter(|(_, name)| [name, "both"].contains(&ended)) {
            signal(&end.process, "TERM");
        }
        drop(open);
        if ended != "connect" {
            assert!(tunnel.serve.ends(PATIENCE).success());
            tunnel.restart_serve();
        }
        if ended != "serve" {
            assert!(tunnel.connect.ends(PATIENCE).success());
            tunnel.connect = End::start(tunnel.dir.path(), "connect", &tunnel.connect_args, None);
        }
        wait_until("there is a new session", || tunnel.serve.is_established());
        tunnel.established();
        let (got, cost) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
        assert_same(&got, &content, ended);
        // What was in flight is at one end only: some steps of 64 KiB are sent again.
        assert!(cost < 500_000, "{ended}: {cost}");
    }
}

/// Kills either end or both while content moves. Every byte that arrives is right, and the tunnel
/// works after each.
#[test]
fn kills_under_load_never_give_a_wrong_byte() {
    let kills = std::env::var("ONCEWIRE_STORE_KILLS")
        .map_or(6, |kills| kills.parse().expect("a number of kills"));
    let disk = tempfile::tempdir().expect("a directory");
    let contents: Vec<_> = (0..4).map(|n| incompressible(90 + n, 1_500_000)).collect();
    let (served, next) = (contents.clone(), std::sync::atomic::AtomicUsize::new(0));
    let all = origin(move |mut stream| {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 4;
        let _ = std::io::Write::write_all(&mut stream, &[n as u8]);
        let _ = std::io::Write::write_all(&mut stream, &served[n]);
    });
    let (mut tunnel, _) = stored(Plan::new().to(all), disk.path(), &[]);
    for kill in 0..kills {
        // Somewhere within the transfer.
        let way = tunnel.way(0);
        let until = tunnel.received() + 300_000 * (kill % 5);
        let loads: Vec<_> = (0..2).map(|_| std::thread::spawn(move || fetch(way))).collect();
        wait_until("some of it moved", || tunnel.received() >= until);
        match kill % 3 {
            0 => tunnel.kill_both(),
            1 => {
                tunnel.kill_serve();
                tunnel.restart_serve();
            }
            _ => tunnel.restart_connect(),
        }
        for load in loads {
            // It ends early, or it is whole.
            if let Ok(got) = load.join().expect("no panic")
                && let Some((n, got)) = got.split_first()
            {
                let wanted = &contents[usize::from(*n)];
                assert_same(got, &wanted[..got.len().min(wanted.len())], "a part");
            }
        }
        wait_until("content arrives whole again", || {
            fetch(tunnel.way(0)).is_ok_and(|got| {
                let Some((n, got)) = got.split_first() else { return false };
                let wanted = &contents[usize::from(*n)];
                assert_same(got, &wanted[..got.len().min(wanted.len())], "a part");
                got.len() == wanted.len()
            })
        });
    }
}

#[test]
fn caches_are_listed_checked_and_deleted() {
    let disk = tempfile::tempdir().expect("a directory");
    let content = incompressible(82, 1_000_000);
    let key = disk.path().join("secret");
    let make = format!("umask 077; head -c 32 /dev/urandom > {}", key.display());
    succeed(Command::new("sh").args(["-c", &make]));
    let options = ["--store-key", key.to_str().expect("text")];
    let (mut tunnel, dirs) = stored(Plan::new().to(sender(content.clone())), disk.path(), &options);
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "first");
    let store = |verb: &str, more: &[&str]| {
        oncewire([&["store", verb, dirs[1].to_str().expect("text")], more].concat())
    };
    let with_key = ["--store-key", key.to_str().expect("text")];
    // While the tunnel runs, they can be looked at.
    let shown = store("show", &with_key);
    assert!(shown.status.success() && text(&shown).contains("received"), "{}", text(&shown));
    let busy = store("check", &with_key);
    assert!(text(&busy).contains("another process uses"), "{}", text(&busy));
    signal(&tunnel.connect.process, "TERM");
    assert!(tunnel.connect.ends(PATIENCE).success());

    let shown: serde_json::Value =
        serde_json::from_slice(&store("show", &[&with_key[..], &["--json"]].concat()).stdout)
            .expect("JSON");
    let cache = &shown["caches"][0];
    assert_eq!(cache["held_bytes"], 1_000_000, "what was received when it ended: {shown:#}");
    assert_eq!(cache["direction"], "received");
    let closed = text(&store("show", &[]));
    assert!(closed.contains("is encrypted: --key FILE") && !closed.contains("1.00 MB"), "{closed}");
    for line in closed.lines().chain(text(&store("show", &with_key)).lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text(&store("check", &[])).contains("pass --key FILE"));
    let good = store("check", &with_key);
    assert!(good.status.success() && text(&good).contains("All content is readable."));

    // A byte decays.
    let id = cache["id"].as_str().expect("text").to_owned();
    let file = dirs[1].join(format!("{id}.log"));
    let mut bytes = std::fs::read(&file).expect("reads");
    let at = bytes.len() - cache["file_bytes"].as_u64().map_or(0, |len| len as usize / 8);
    let content_at = bytes.iter().rposition(|&byte| byte != 0).expect("content").min(at);
    bytes[content_at] ^= 1;
    std::fs::write(&file, &bytes).expect("writes");
    let damaged = store("check", &with_key);
    assert_eq!(damaged.status.code(), Some(3), "{}", text(&damaged));
    assert!(text(&damaged).contains("1 cache damaged"), "{}", text(&damaged));

    assert_eq!(store("forget", &["zz"]).status.code(), Some(2));
    let forgotten = store("forget", &[&id[..6]]);
    assert!(text(&forgotten).contains(&format!("deleted cache {id}")), "{}", text(&forgotten));
    assert!(!file.exists());
    assert!(text(&store("show", &[])).contains("holds no caches yet"));
    assert!(text(&oncewire(["store", "show", "/nonexistent"])).contains("holds no content cache"));
}

/// Options that contradict each other, and directories that are not used.
#[test]
fn directories_and_keys_are_refused_with_what_mends_them() {
    let disk = tempfile::tempdir().expect("a directory");
    let path = |name: &str| disk.path().join(name).to_str().expect("text").to_owned();
    keygen(&disk.path().join("a.key"));
    let peer = keygen(&disk.path().join("b.key"));
    std::fs::create_dir(disk.path().join("open")).expect("is made");
    std::fs::create_dir(disk.path().join("foreign")).expect("is made");
    let mode = |mode: &str, name: &str| {
        succeed(Command::new("chmod").args([mode, path(name).as_str()]));
    };
    mode("755", "open");
    mode("700", "foreign");
    std::fs::write(disk.path().join("foreign/letter"), "dear").expect("writes");
    std::fs::write(disk.path().join("short"), "secret").expect("writes");
    mode("600", "short");
    std::fs::write(disk.path().join("shared"), [7; 40]).expect("writes");
    mode("644", "shared");
    let (open, foreign, new) = (path("open"), path("foreign"), path("new"));
    for (options, code, words) in [
        (vec!["--store", &open], 1, format!("run `chmod 700 {open}`")),
        (vec!["--store", &foreign], 1, "is not empty and holds no content cache".into()),
        (vec!["--store-size", "1G"], 2, "pass --store DIR, too".into()),
        (vec!["--store-for", "bytes"], 2, "pass --store DIR, too".into()),
        (vec!["--store", &new, "--store-size", "1M"], 2, "use at least 16M".into()),
        (vec!["--store", &new, "--store-key", &path("short")], 1, "has 6 bytes".into()),
        (vec!["--store", &new, "--store-key", &path("shared")], 1, "run `chmod 600 ".into()),
        (
            vec!["--store", &new, "--store-plain", "--store-key", &path("short")],
            2,
            "drop one".into(),
        ),
    ] {
        let key = path("a.key");
        let common = ["serve", "--listen", "127.0.0.1:0", "--key", &key, "--peer", &peer];
        let refused = oncewire([&common[..], &options].concat());
        let said = text(&refused);
        assert_eq!(refused.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(&words) && said.trim_end().lines().count() == 1, "{said}");
    }
    assert!(!disk.path().join("new").exists(), "nothing was made");
}

#[test]
fn what_memory_has_forgotten_is_read_from_both_disks() {
    let disk = tempfile::tempdir().expect("a directory");
    let contents: Vec<_> = (0..5).map(|nth| incompressible(90 + nth, 20_000_000)).collect();
    let plan = contents.iter().fold(Plan::new(), |plan, one| plan.to(sender(one.clone())));
    let (tunnel, _) =
        stored(plan, disk.path(), &["--store-per-peer", "480M", "--store-for", "bytes"]);
    let mut first = 0;
    for (way, content) in contents.iter().enumerate() {
        let (got, cost) = tunnel.cost(|| fetch(tunnel.way(way)).unwrap());
        assert_same(&got, content, "first");
        first += cost;
    }
    let mut again = 0;
    for (way, content) in contents.iter().enumerate() {
        let (got, cost) = tunnel.cost(|| fetch(tunnel.way(way)).unwrap());
        assert_same(&got, content, "again");
        again += cost;
    }
    eprintln!("100 MB through 32 MiB of memory: {first} bytes on the wire, then {again}");
    assert!(again < first / 20, "{again} of {first}");
}

#[test]
fn what_lay_on_disk_before_a_restart_is_found_again() {
    let disk = tempfile::tempdir().expect("a directory");
    let contents: Vec<_> = (0..4).map(|nth| incompressible(190 + nth, 20_000_000)).collect();
    let plan = contents.iter().fold(Plan::new(), |plan, one| plan.to(sender(one.clone())));
    let (mut tunnel, _) =
        stored(plan, disk.path(), &["--store-per-peer", "480M", "--store-for", "bytes"]);
    for (way, content) in contents.iter().enumerate() {
        assert_same(&fetch(tunnel.way(way)).unwrap(), content, "first");
    }
    tunnel.committed(80_000_000);
    tunnel.kill_both();
    // What memory has room for, and then the rest, so that it is found.
    wait_until("all was read", || {
        tunnel.serve.status()["store"]["device_read_bytes"].as_u64() >= Some(80_000_000)
    });
    let mut again = 0;
    for (way, content) in contents.iter().enumerate() {
        let (got, cost) = tunnel.cost(|| fetch(tunnel.way(way)).unwrap());
        assert_same(&got, content, "again");
        again += cost;
    }
    eprintln!("80 MB through 32 MiB of memory: {again} bytes on the wire after kill -9");
    assert!(again < 4_000_000, "{again}");
}
