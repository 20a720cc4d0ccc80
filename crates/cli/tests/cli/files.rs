//! Output files: they appear only when complete, under the given name, with the earlier owner and
//! permissions.

use crate::support::*;
use std::io::Write;
use std::process::{Child, Command, Stdio};

#[test]
fn io_errors_are_one_line() {
    let dir = Dir::new();
    let output = dir.join("output");
    let (here, nowhere) = (dir.path(), dir.join("nowhere"));
    let input = tz_path(0);
    let pack = run(args!["pack", input], b"").fine();
    for verb in ["pack", "unpack"] {
        run(args![verb, nowhere, "-o", output], b"")
            .fails(1, &["open", "nowhere", "no such file", "check the name"]);
        run(args![verb, here, "-o", output], b"").fails(1, &["directory"]);
    }
    for (verb, content) in [("pack", &b"content"[..]), ("unpack", &pack)] {
        run(args![verb, "-o", here], content).fails(1, &["directory", "name a file in it"]);
        run(args![verb, "-o", nowhere.join("output")], content)
            .fails(1, &["create", "no such file"]);
        run(args![verb, "-o", dir.join("..")], content).fails(1, &["directory"]);
        run(args![verb, "-o", dir.join("output/")], content).fails(1, &["output/"]);
    }
    run(args!["bench", nowhere], b"").fails(1, &["nowhere", "no such file"]);
    run(args!["bench", here], b"").fails(1, &["directory"]);
    run(args!["demo", nowhere], b"").fails(1, &["nowhere", "no such file"]);
    dir.holds_only(&[]);
}

#[test]
fn unpack_creates_nothing_before_it_has_seen_a_pack() {
    let dir = Dir::new();
    let mut child = start(args!["unpack", "-o", dir.join("output")]);
    let mut stdin = child.stdin.take().expect("it is a pipe");
    stdin
        .write_all(&packed(b"content", oncewire_codec::Entropy::None)[..20])
        .expect("the program reads");
    std::thread::sleep(std::time::Duration::from_millis(50));
    dir.holds_only(&[]);
    drop(stdin);
    assert_eq!(wait(&mut child).code(), Some(3));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("the file").permissions().mode() & 0o7777
    }

    #[test]
    fn an_existing_file_keeps_its_permissions() {
        let dir = Dir::new();
        let output = dir.write("output", b"what was there before");
        for wanted in [0o600, 0o640, 0o755, 0o666] {
            std::fs::set_permissions(&output, PermissionsExt::from_mode(wanted))
                .expect("our own file");
            let pack = run(args!["pack", tz_path(0)], b"").fine();
            run(args!["unpack", "-o", output], &pack[..pack.len() - 1]).fails(3, &["truncated"]);
            assert_eq!((mode(&output), read(&output)), (wanted, b"what was there before".to_vec()));
            run(args!["pack", "-o", output], &tz(0)).fine();
            assert_eq!((mode(&output), read(&output)), (wanted, pack.clone()));
            run(args!["unpack", "-o", output], &pack).fine();
            assert_eq!((mode(&output), read(&output)), (wanted, tz(0)));
            std::fs::write(&output, b"what was there before").expect("our own file");
        }
        dir.holds_only(&["output"]);
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let dir = Dir::new();
        std::fs::create_dir(dir.join("far")).expect("a directory");
        let file = dir.write("far/file", b"what was there before");
        symlink("far/file", dir.join("link")).expect("a link");
        symlink("link", dir.join("link-to-link")).expect("a link");
        run(args!["unpack", "-o", dir.join("link-to-link")], b"something else")
            .fails(3, &["not an Oncewire pack"]);
        same(&read(&file), b"what was there before", "after a failure");
        let pack = run(args!["pack", tz_path(0)], b"").fine();
        run(args!["unpack", "-o", dir.join("link-to-link")], &pack).fine();
        same(&read(&file), &tz(0), "through two links");
        for (link, to) in [("link", "far/file"), ("link-to-link", "link")] {
            assert_eq!(std::fs::read_link(dir.join(link)).expect("still a link"), Path::new(to));
        }
        dir.holds_only(&["far", "link", "link-to-link"]);
        assert_eq!(std::fs::read_dir(dir.join("far")).expect("the directory").count(), 1);
    }

    #[test]
    fn names_that_are_not_text() {
        use std::os::unix::ffi::OsStrExt;
        let dir = Dir::new();
        let strange = dir.join(std::ffi::OsStr::from_bytes(b"a b\xff\n'"));
        // Some file systems want text.
        if std::fs::write(&strange, tz(0)).is_err() {
            return;
        }
        let stranger = dir.join(std::ffi::OsStr::from_bytes(b"\xfe\n"));
        run(args!["pack", strange, "-o", stranger], b"").fine();
        run(args!["unpack", stranger, "-o", dir.join("output")], b"").fine();
        same(&read(&dir.join("output")), &tz(0), "with a strange name");
        assert_eq!(dir.names().len(), 3);
    }

    /// 255 bytes is the usual limit, and leaves no room to write anything in front or behind.
    #[test]
    fn the_longest_possible_name() {
        let dir = Dir::new();
        let output = dir.join("n".repeat(255));
        run(args!["pack", tz_path(0), "-o", output], b"").fine();
        assert_eq!(dir.names().len(), 1);
    }

    /// In a container, a process that was killed and its successor often have the same number.
    #[test]
    fn leftovers_of_a_killed_run_are_no_obstacle() {
        let dir = Dir::new();
        let script = "touch \".oncewire-$$-0.unfinished\" && exec \"$0\" pack \"$1\" -o output";
        let output = Command::new("sh")
            .args(["-c", script, ONCEWIRE])
            .arg(tz_path(0))
            .current_dir(dir.path())
            .output()
            .expect("a shell");
        Ran::of(output).fine();
        dir.holds_only(&["output"]);
    }

    /// Fails to read after it was opened, and after the output was created.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_input_that_fails_half_way() {
        let dir = Dir::new();
        for threads in ["1", "2", "4"] {
            let args =
                args!["pack", "/proc/self/mem", "-o", dir.join("output"), "--threads", threads];
            run(args, b"").fails(1, &["read", "/proc/self/mem"]);
        }
        dir.holds_only(&[]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk() {
        let pack = run(args!["pack", tz_path(0)], b"").fine();
        let full = ["cannot write to /dev/full", "no space left", "free some space"];
        for threads in ["1", "2", "4"] {
            run(args!["pack", tz_path(0), "-o", "/dev/full", "--threads", threads], b"")
                .fails(1, &full);
        }
        run(args!["unpack", "-o", "/dev/full"], &pack).fails(1, &full);
        let dir = Dir::new();
        let lines: [(Vec<std::ffi::OsString>, &str); 5] = [
            (args!["pack"], "cannot write to standard output"),
            (args!["unpack"], "cannot write to standard output"),
            (
                args!["pack", "-o", dir.join("pack"), "--json"],
                "cannot write the report to standard output",
            ),
            (
                args!["bench", tz_path(0), "--no-rivals", "--runs", "1", "--cache", "4M"],
                "cannot write the report",
            ),
            (args!["demo"], "cannot write the report"),
        ];
        for (args, word) in lines {
            let mut child = Command::new(ONCEWIRE)
                .args(args)
                .stdin(Stdio::piped())
                .stdout(
                    std::fs::OpenOptions::new()
                        .write(true)
                        .open("/dev/full")
                        .expect("Linux has it"),
                )
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts");
            // It may have given up before all is written.
            let _ = child.stdin.take().expect("it is a pipe").write_all(&pack);
            Ran::of(child.wait_with_output().expect("a child of ours"))
                .fails(1, &[word, "no space left"]);
        }
    }

    /// Sends a signal and waits. Returns how the program ended.
    fn interrupt(mut child: Child, signal: &str) -> std::process::ExitStatus {
        let sent = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status()
            .expect("kill");
        assert!(sent.success());
        wait(&mut child)
    }

    #[test]
    fn interrupted_runs_leave_no_file() {
        let pack = run(args!["pack", tz_path(0)], b"").fine();
        // More than a pipe holds and less than all: the program has started and cannot end.
        for (verb, part) in [("pack", &tz(0)[..700_000]), ("unpack", &pack[..pack.len() - 1])] {
            for signal in ["INT", "TERM", "HUP"] {
                let dir = Dir::new();
                let output = dir.write("output", b"what was there before");
                let mut child = start(args![verb, "-o", output]);
                let mut stdin = child.stdin.take().expect("it is a pipe");
                stdin.write_all(part).expect("the program reads");
                wait_until("the unfinished file is there", || dir.names().len() == 2);
                assert!(
                    dir.names()
                        .iter()
                        .any(|name| name == &format!(".oncewire-{}-0.unfinished", child.id()))
                );
                let status = interrupt(child, signal);
                drop(stdin);
                assert!(
                    status.signal().is_some() || status.code().is_some_and(|code| code > 128),
                    "{verb} {signal}: {status}"
                );
                dir.holds_only(&["output"]);
                same(&read(&output), b"what was there before", "the file of that name");
            }
        }
    }
}
