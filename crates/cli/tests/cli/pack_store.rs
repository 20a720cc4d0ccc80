//! `pack --store` and `unpack --store`: a base that grows.

use crate::support::*;
use oncewire_flash::store::{NewLog, Peer, Store};
use oncewire_testkit::content::incompressible;
use std::ffi::OsString;
use std::path::Path;

/// Both ends, each with a store.
struct Ends {
    dir: Dir,
    /// What the receiving one keeps.
    size: &'static str,
}

impl Ends {
    fn new() -> Ends {
        Ends { dir: Dir::new(), size: "32M" }
    }

    fn args(&self, verb: &str, more: &[&str]) -> Vec<OsString> {
        let (store, size) = if verb == "pack" { ("sent", "32M") } else { ("received", self.size) };
        let store = self.dir.join(store);
        let mut args = args![verb, "--store", store, "--store-plain", "--store-size", size];
        args.extend(more.iter().map(OsString::from));
        args
    }

    fn pack(&self, content: &[u8], more: &[&str]) -> Vec<u8> {
        run(self.args("pack", more), content).fine()
    }

    fn unpack(&self, pack: &[u8]) -> Vec<u8> {
        run(self.args("unpack", &[]), pack).fine()
    }

    /// Packs and unpacks. Returns the bytes between the ends.
    fn carry(&self, content: &[u8]) -> usize {
        let pack = self.pack(content, &[]);
        same(&self.unpack(&pack), content, "what was packed");
        pack.len()
    }

    /// The point that `unpack` advises to go on from.
    fn advice(&self, pack: &[u8]) -> String {
        let ran = run(self.args("unpack", &[]), pack);
        assert_eq!((ran.code, ran.out.len()), (Some(2), 0), "{}", ran.err);
        let (_, advice) =
            ran.err.trim_end().split_once("pack it again with --from ").expect("advice");
        advice.to_owned()
    }
}

#[test]
fn each_pack_goes_on_from_those_before() {
    let ends = Ends::new();
    let first = ends.carry(&tz(0));
    for content in [tz(1), tz(2), tz(0), [tz(1), tz(2)].concat()] {
        let next = ends.carry(&content);
        assert!(next < first / 50, "{next} bytes, and {first} the first time");
    }
    assert!(ends.carry(b"") < 100);
    // A first pack needs no store to unpack it.
    let other = Ends::new();
    same(&run(args!["unpack"], &other.pack(&tz(0), &[])).fine(), &tz(0), "without a store");
    run(args!["unpack"], &other.pack(&tz(1), &[])).fails(2, &["a base of", "--store"]);
}

#[test]
fn after_a_lost_pack_the_receiver_says_where_to_go_on() {
    let ends = Ends::new();
    ends.carry(&tz(0));
    ends.pack(&tz(1), &[]);
    let late = ends.pack(&tz(2), &[]);
    let again = ends.pack(&tz(2), &["--from", &ends.advice(&late)]);
    assert!(again.len() < tz(2).len() / 50, "{} bytes", again.len());
    same(&ends.unpack(&again), &tz(2), "the third release");
    // Both ends have forgotten the second release.
    ends.carry(&tz(1));
    ends.unpack(&ends.pack(&tz(0), &["--from", "start"]));
    ends.carry(&tz(0));
}

#[test]
fn a_pack_that_comes_again_changes_nothing() {
    let ends = Ends::new();
    ends.carry(&tz(0));
    let second = ends.pack(&tz(1), &[]);
    same(&ends.unpack(&second), &tz(1), "the second release");
    ends.carry(&tz(2));
    same(&ends.unpack(&second), &tz(1), "the second release again");
    assert!(ends.carry(&tz(2)) < 2000, "and what came after it is still there");
}

#[test]
fn what_fails_is_not_gone_on_from() {
    let ends = Ends::new();
    ends.carry(&tz(0));
    let pack = ends.pack(&tz(1), &[]);
    let mut bad = pack.clone();
    let middle = bad.len() - 100;
    bad[middle] ^= 1;
    let cut = &pack[..pack.len() - 1];
    for bad in [&bad[..], cut] {
        assert_eq!(run(ends.args("unpack", &[]), bad).code, Some(3));
    }
    same(&ends.unpack(&pack), &tz(1), "the second release");
    // Megabytes, so that some are on disk before the output fails.
    let large = incompressible(1, 9 << 20);
    let full = ends.args("pack", &["-o", "/dev/full"]);
    assert_eq!(run(full, &large).code, Some(1));
    assert!(ends.carry(&tz(1)) < 2000);
}

#[test]
fn a_smaller_store_at_the_other_end() {
    let mut ends = Ends { size: "200000", ..Ends::new() };
    ends.carry(&incompressible(3, 3 << 20));
    let next = ends.pack(&tz(0), &[]);
    run(ends.args("unpack", &[]), &next).fails(2, &["--store-size", "195.3 KiB", "--from start"]);
    ends.size = "300000";
    run(ends.args("unpack", &[]), &next).fails(2, &["195.3 KiB", "leave --store-size out"]);
    ends.size = "200000";
    same(&ends.unpack(&ends.pack(&tz(0), &["--from", "start"])), &tz(0), "all anew");
}

#[test]
fn content_on_disk_is_encrypted_unless_told_otherwise() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let (store, key, other) =
        (dir.join("sent"), dir.write("key", &incompressible(2, 32)), dir.write("other", &[7; 40]));
    run(args!["pack", "--store", store], b"x").fails(2, &["--store-key", "--store-plain"]);
    run(args!["pack", "--store", store, "--store-key", key], b"x").fails(1, &["chmod 600"]);
    for key in [&key, &other] {
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let text = b"words that nobody else may read ".repeat(5000);
    let args = || args!["pack", "--store", store, "--store-size", "1M", "--store-key", key];
    run(args(), &text).fine();
    let again = run(args(), &text).fine();
    assert!(again.len() < 500, "{} bytes", again.len());
    assert!(!holds(&store, b"nobody else may read"));
    run(args!["pack", "--store", store, "--store-key", other], b"x").fails(1, &["another key"]);
    run(args!["pack", "--store", store, "--store-plain"], b"x").fails(1, &["encrypted"]);
    let plain = dir.join("plain");
    run(args!["pack", "--store", plain, "--store-plain", "--store-size", "1M"], &text).fine();
    assert!(holds(&plain, b"nobody else may read"));
}

/// Whether a file in a directory has these bytes.
fn holds(dir: &Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| read(&entry.unwrap().path()));
    files.into_iter().any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

#[test]
fn what_is_no_store_of_packs_is_refused() {
    let ends = Ends::new();
    let sent = ends.dir.join("sent");
    ends.pack(b"x", &[]);
    let into = sent.join("store");
    run(ends.args("pack", &["-o", into.to_str().unwrap()]), b"x")
        .fails(2, &["--store", "elsewhere"]);
    let (store, _) = Store::open(&sent, None, 1 << 30).unwrap();
    run(ends.args("pack", &[]), b"x").fails(1, &["another process"]);
    let new = NewLog { peer: Peer([1; 32]), capacity: 1 << 20, ..NewLog::default() };
    drop(store.create(&new, b"", 0).unwrap());
    drop(store);
    run(ends.args("pack", &[]), b"x").fails(2, &["caches of a tunnel"]);

    let ends = Ends::new();
    run(ends.args("pack", &["--from", "0123456789abcdef"]), b"x").fails(2, &["--from start"]);
    run(ends.args("pack", &["--format", "zstd"]), b"x").fails(2, &["omit --store"]);
    let without = args!["pack", "--from", "start"];
    for (args, word) in [
        (ends.args("pack", &["--from", "yesterday"]), "hexadecimal"),
        (ends.args("pack", &["--base", "x"]), "cannot be used with"),
        (without, "--store <DIR>"),
    ] {
        let ran = run(args, b"x");
        assert!(ran.code == Some(2) && ran.err.contains(word), "{}", ran.err);
    }
    let zstd = run(args!["pack", "--format", "zstd"], &tz(0)).fine();
    run(ends.args("unpack", &[]), &zstd).fails(2, &["omit --store"]);
}
