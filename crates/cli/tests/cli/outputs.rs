//! No command overwrites its input, and every output file appears complete or not at all.
#![cfg(unix)]

use crate::plan::MAP;
use crate::study::{packet, pcap};
use crate::support::*;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A short capture with a match.
fn capture() -> Vec<u8> {
    let packets: Vec<_> =
        (0..20).map(|n| packet("192.0.2.1:80", "10.0.0.1:40000", &noise(n / 2, 1000))).collect();
    pcap(&packets)
}

/// Input files for every command.
fn inputs() -> Dir {
    let dir = Dir::new();
    dir.write("data", &tz(0)[..100_000]);
    dir.write("capture", &capture());
    dir.write("map", MAP.as_bytes());
    dir.write("table", b"32\n101\n");
    dir.write("prefixes", b"10.0.0.0/8 a\n");
    dir.write("traffic", b"a c 7\nc a 3\n");
    dir.write("devices", b"a -> b\t1G\t1000000\n");
    dir.write("links", b"a -> b\n");
    dir.write("paths", b"a b c\nc b a\n");
    dir.write("pack", &packed(&tz(0)[..100_000], oncewire_codec::Entropy::None));
    dir
}

/// A command line in which names of [`inputs`] follow a `@`, and OUT is the output.
fn command(dir: &Dir, line: &str, out: &Path) -> Vec<OsString> {
    let word = |word: &str| match word.split_once('@') {
        Some((before, name)) => {
            let mut word = OsString::from(before);
            word.push(dir.join(name));
            word
        }
        None if word == "OUT" => out.into(),
        None => word.into(),
    };
    line.split(' ').map(word).collect()
}

/// Each command and option that writes a file, with each way to read one. The first name is the
/// input to overwrite.
const OVERWRITING: [(&str, &str); 31] = [
    ("data", "pack @data -o OUT"),
    ("data", "pack --base @data @table -o OUT"),
    ("table", "pack --sampler samplebyte:@table @data -o OUT"),
    ("pack", "unpack @pack -o OUT"),
    ("data", "unpack --base @data @pack -o OUT"),
    ("data", "train @data -o OUT"),
    ("data", "train @table --test @data -o OUT"),
    ("capture", "study @capture --matches OUT"),
    ("capture", "study @capture --report OUT"),
    ("prefixes", "study @capture --prefixes @prefixes --report OUT"),
    ("table", "study @capture --sampler samplebyte:@table --matches OUT"),
    ("map", "plan @map --report OUT"),
    ("map", "plan @map --manifests OUT"),
    ("traffic", "plan @map --traffic @traffic --manifests OUT"),
    ("devices", "plan @map --devices @devices --report OUT"),
    ("links", "plan @map --links @links --report OUT"),
    ("paths", "plan @map --paths @paths --report OUT"),
    ("table", "plan @map --cities @table --report OUT"),
    ("table", "plan @map --latencies @table --report OUT"),
    ("table", "plan @map --profile @table --report OUT"),
    ("table", "plan @map --against @table --manifests OUT"),
    ("map", "emulate @map --measured OUT"),
    ("capture", "emulate @map --capture @capture --measured OUT"),
    ("capture", "emulate @map --capture @capture --manifests OUT"),
    ("prefixes", "emulate @map --capture @capture --prefixes @prefixes --measured OUT"),
    ("table", "emulate @map --plan @table --measured OUT"),
    ("traffic", "emulate @map --traffic @traffic --measured OUT"),
    // In the directory of --csv.
    ("out/accounting.csv", "study @capture @out/accounting.csv --csv @out"),
    ("out/01-algorithms-savings.csv", "study --score @out/01-algorithms-savings.csv --csv @out"),
    ("out/links.csv", "plan @map --links @out/links.csv --csv @out"),
    ("out/devices.csv", "plan @map --devices @out/devices.csv --csv @out"),
];

#[test]
fn no_command_overwrites_its_input() {
    for (input, line) in OVERWRITING {
        let dir = inputs();
        if input.starts_with("out/") {
            fs::create_dir(dir.join("out")).unwrap();
            dir.write(input, &capture());
        }
        let file = dir.join(input);
        let before = read(&file);
        symlink(&file, dir.join("symlink")).unwrap();
        symlink("symlink", dir.join("symlink-to-it")).unwrap();
        fs::hard_link(&file, dir.join("hardlink")).unwrap();
        let names = dir.names();
        let outs =
            [input, "symlink", "symlink-to-it", "hardlink"].map(|name| dir.join(name)).into_iter();
        for out in outs.chain([
            dir.path().join(".").join(input),
            dir.path().join("../").join(dir.path().file_name().unwrap()).join(input),
        ]) {
            run(command(&dir, line, &out), b"").fails(
                2,
                &["would overwrite the input", &file.display().to_string(), "choose another"],
            );
            same(&read(&file), &before, line);
            assert_eq!(dir.names(), names, "{line}");
        }
        assert_eq!(fs::read_link(dir.join("symlink")).unwrap(), file);
    }
}

/// Links in the directory of --csv, and files in it that are not ours.
#[test]
fn files_in_the_csv_directory_are_checked() {
    let dir = inputs();
    let out = dir.join("out");
    fs::create_dir(&out).unwrap();
    symlink("../traffic", out.join("links.csv")).unwrap();
    fs::hard_link(dir.join("devices"), out.join("mine.csv")).unwrap();
    let before = read(&dir.join("traffic"));
    run(command(&dir, "plan @map --traffic @traffic --csv @out", &out), b"")
        .fails(2, &["--csv", "links.csv", "overwrite the input", "traffic"]);
    same(&read(&dir.join("traffic")), &before, "behind a link");
    run(
        command(
            &dir,
            "plan @map --traffic demands --devices @out/mine.csv --quick --csv @out",
            &out,
        ),
        b"",
    )
    .fine();
    same(
        &read(&out.join("mine.csv")),
        b"a -> b\t1G\t1000000\n",
        "a file of that directory that is not ours",
    );
    assert!(
        read(&dir.join("traffic")).starts_with(b"from,"),
        "the link stays, and its file is replaced"
    );
}

#[test]
fn redirected_streams_are_inputs_and_outputs_too() {
    let dir = inputs();
    let data = dir.join("data");
    let before = read(&data);
    let ran = |args: Vec<OsString>, stdin: Stdio, stdout: Stdio| {
        let mut command = Command::new(ONCEWIRE);
        Ran::of(
            command
                .args(args)
                .stdin(stdin)
                .stdout(stdout)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap(),
        )
    };
    let from = || Stdio::from(File::open(&data).unwrap());
    let to = || Stdio::from(OpenOptions::new().append(true).open(&data).unwrap());
    let words = ["would overwrite the input"];
    ran(args!["pack", "-o", data], from(), Stdio::piped()).fails(2, &words);
    ran(args!["pack"], from(), to()).fails(2, &words);
    ran(args!["pack", data, "-o", "/dev/stdout"], Stdio::null(), to()).fails(2, &words);
    ran(args!["unpack", dir.join("pack"), "--base", data], Stdio::null(), to()).fails(2, &words);
    ran(args!["bench", data], Stdio::null(), to()).fails(2, &words);
    ran(args!["study", dir.join("capture"), "--report", data, "--json"], Stdio::null(), to())
        .fails(2, &["the same file"]);
    same(&read(&data), &before, "after all that");
    // Anything but a file is allowed: nothing is lost.
    let null = || OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    ran(args!["pack", "/dev/null", "-o", "/dev/null"], null().into(), null().into()).fine();
    // A redirected file is appended to, under any name.
    let log = dir.write("log", b"before ");
    let append = || Stdio::from(OpenOptions::new().append(true).open(&log).unwrap());
    let pack = run(args!["pack", data], b"").fine();
    ran(args!["pack", data, "-o", "/dev/stdout"], Stdio::null(), append()).fine();
    same(&read(&log), &[b"before ", &pack[..]].concat(), "through /dev/stdout");
}

#[test]
fn two_outputs_are_two_files() {
    let cases = [
        "study @capture --report OUT --matches @x",
        "study @capture --report OUT --matches @./x",
        "study @capture --report OUT --matches @link",
        "plan @map --report OUT --manifests @x",
        "plan @map --report OUT --manifests @link",
    ];
    for there in [false, true] {
        for case in cases {
            let dir = inputs();
            let x = dir.join("x");
            if there {
                dir.write("x", b"before");
                fs::hard_link(&x, dir.join("link")).unwrap();
            } else {
                symlink("x", dir.join("link")).unwrap();
            }
            let names = dir.names();
            run(command(&dir, case, &x), b"")
                .fails(2, &["--report", "are the same file", "choose two"]);
            assert_eq!(dir.names(), names);
            assert_eq!(fs::read(&x).ok(), there.then(|| b"before".to_vec()));
        }
    }
    let dir = inputs();
    fs::create_dir(dir.join("out")).unwrap();
    run(command(&dir, "plan @map --report @out/links.csv --csv @out", Path::new("")), b"")
        .fails(2, &["--report", "--csv", "same file"]);
}

/// Commands that write a file.
const WRITING: [&str; 9] = [
    "pack @data -o OUT",
    "unpack @pack -o OUT",
    "train @data --random 0 -o OUT",
    "study @capture --algorithms maxp --figures algorithms --cache 1M --report OUT",
    "study @capture --algorithms maxp --figures algorithms --cache 1M --matches OUT",
    "plan @map --traffic demands --quick --report OUT",
    "plan @map --traffic demands --quick --manifests OUT",
    "emulate @map --traffic demands --quick --scale 0.01% --epochs 2 --measured OUT",
    "emulate @map --traffic demands --quick --scale 0.01% --epochs 2 --manifests OUT",
];

#[test]
fn every_output_replaces_the_earlier_file_and_leaves_no_other() {
    for line in WRITING {
        let dir = inputs();
        let out = dir.write("out", b"before");
        let names = dir.names();
        let ran = run(command(&dir, line, &out), b"");
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.err);
        assert!(read(&out).len() > 20 && read(&out) != b"before", "{line}");
        assert_eq!(dir.names(), names, "{line}");
    }
}

/// Runs the program with a file system of 48 KiB in the directory DISK, and lists its files
/// afterwards.
///
/// `None`, reported as skipped, if that needs root or a program.
#[cfg(target_os = "linux")]
fn on_a_small_disk(dir: &Dir, former: &str, args: Vec<OsString>) -> Option<(Ran, String)> {
    let disk = dir.join("disk");
    fs::create_dir_all(&disk).unwrap();
    let script = r#"mount -t tmpfs -o size=48k,nr_inodes=100 none "$1" || exit 77
        disk=$1 former=$2; shift 2; mkdir "$disk/csv"; printf former > "$disk/$former"
        "$0" "$@"; code=$?
        cd "$disk" && find . ! -type d -exec sh -c 'echo "$1 $(cat "$1")"' - {} \; >&3
        exit $code"#;
    let listing = dir.join("listing");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec unshare --mount --propagation private sh -c \"$0\" \"$@\" 3>\"$LISTING\"",
        script,
        ONCEWIRE,
    ]);
    command.arg(&disk).arg(former).args(args).env("LISTING", &listing).stdin(Stdio::null());
    let ran = Ran::of(command.output().expect("a shell"));
    if matches!(ran.code, Some(77 | 126 | 127)) || ran.err.contains("unshare") {
        oncewire_testkit::skipped!("a small disk needs root, unshare and mount: {}", ran.err);
        return None;
    }
    let listed = String::from_utf8(read(&listing)).unwrap();
    Some((ran, listed))
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_the_earlier_file_and_leaves_no_other() {
    let dir = inputs();
    dir.write("noise", &noise(1, 200_000));
    dir.write("big", &packed(&noise(1, 200_000), oncewire_codec::Entropy::None));
    let many: Vec<_> =
        (0..3000).map(|n| packet("192.0.2.1:80", "10.0.0.1:40000", &noise(n % 10, 200))).collect();
    dir.write("many", &pcap(&many));
    let study = "study @many --algorithms maxp --figures algorithms --cache 1M";
    for (former, line) in [
        ("out", "pack @noise -o @disk/out".to_owned()),
        ("out", "unpack @big -o @disk/out".into()),
        ("out", format!("{study} --matches @disk/out")),
        ("out", format!("{study} --report @disk/out")),
        // All of it: no new table next to old ones.
        ("csv/accounting.csv", "study @many --csv @disk/csv".to_owned()),
        ("out", "plan @map --traffic demands --quick --report @disk/out".into()),
        ("csv/links.csv", "plan @map --traffic demands --quick --csv @disk/csv".into()),
    ] {
        let Some((ran, listed)) =
            on_a_small_disk(&dir, former, command(&dir, &line, Path::new("")))
        else {
            return;
        };
        assert_eq!(listed, format!("./{former} former\n"), "{line}: {:?} {}", ran.code, ran.err);
        ran.fails(1, &["no space left", "free some space"]);
    }
}

/// The unfinished file of a process.
fn unfinished(dir: &Dir, child: &Child) -> PathBuf {
    dir.join(format!(".oncewire-{}-0.unfinished", child.id()))
}

#[test]
fn files_of_killed_runs_are_removed_and_those_of_running_ones_kept() {
    for line in WRITING {
        let dir = inputs();
        let mut living = start(args!["pack", "-o", dir.join("living")]);
        let theirs = unfinished(&dir, &living);
        wait_until("the first writes", || theirs.exists());
        // Not before: runs that begin together may take each other's new file for a dead one's, and
        // then choose another name.
        let mut killed = start(args!["pack", "-o", dir.join("killed")]);
        let leftover = unfinished(&dir, &killed);
        wait_until("both write", || leftover.exists());
        killed.kill().expect("a child of ours");
        killed.wait().expect("a child of ours");
        assert!(leftover.exists(), "SIGKILL leaves no time to clean up");
        // Names like ours: a link, a directory, a pipe, and files with similar names.
        symlink(dir.join("data"), dir.join(".oncewire-1-0.unfinished")).unwrap();
        fs::create_dir(dir.join(".oncewire-2-0.unfinished")).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(dir.join(".oncewire-3-0.unfinished"))
                .status()
                .unwrap()
                .success()
        );
        let others = [
            ".oncewire-x-0.unfinished",
            ".oncewire-1-0.unfinished.txt",
            ".oncewire-4.unfinished",
            "oncewire-4-0.unfinished",
        ];
        others.iter().for_each(|name| drop(dir.write(name, b"mine")));
        let names = dir.names();

        let ran = run(command(&dir, line, &dir.join("out")), b"");
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.err);
        let mut expected = names;
        expected.remove(leftover.file_name().unwrap().to_str().unwrap());
        expected.insert("out".into());
        assert_eq!(dir.names(), expected, "{line}");

        drop(living.stdin.take());
        assert!(wait(&mut living).success());
        assert!(dir.join("living").exists() && !theirs.exists());
    }
}

/// Also in the directory of --csv, and of several outputs at once.
#[test]
fn an_interrupted_run_leaves_none_of_its_files() {
    let dir = inputs();
    fs::create_dir(dir.join("csv")).unwrap();
    let names = dir.names();
    let mut child = start(command(
        &dir,
        "study - --report OUT --matches @matches --csv @csv",
        &dir.join("report"),
    ));
    wait_until("both are there", || dir.names().len() == names.len() + 2);
    // Twice: the first only ends reading.
    let signal = || Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(signal().success());
    let _ = signal();
    let status = wait(&mut child);
    assert!(!status.success(), "{status}");
    assert_eq!(dir.names(), names);
    assert_eq!(fs::read_dir(dir.join("csv")).unwrap().count(), 0);
}
