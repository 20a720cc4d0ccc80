//! Files that are the log while they are packed or unpacked, and what happens to them meanwhile.
#![cfg(target_os = "linux")]

use crate::support::{Dir, ONCEWIRE, PATIENCE, Ran, args, noise, run, same, tz, wait};
use oncewire_codec::FilePages;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Text, noise and repeats of both: several megabytes.
fn content() -> Vec<u8> {
    let parts =
        [tz(0), noise(1, 2_000_000), tz(1), noise(2, 1_500_000), tz(0), noise(1, 2_000_000)];
    parts.concat()
}

fn written(path: &Path, content: &[u8]) {
    fs::write(path, content).expect("a file");
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("a file")
}

/// Opens a file for writing, without waiting for anybody.
fn change(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(nix::libc::O_NONBLOCK).open(path)
}

/// Runs it after `limits`, commands of a shell.
fn limited(limits: &str, args: Vec<OsString>) -> Ran {
    let mut shell = assert_cmd::Command::new("sh");
    let script = format!("{limits} && exec \"$0\" \"$@\"");
    let run = shell.args(["-c", &script, ONCEWIRE]).args(args).timeout(PATIENCE);
    Ran::of(run.output().expect("a shell"))
}

#[test]
fn a_file_that_cannot_be_mapped_gives_the_same_pack() {
    let dir = Dir::new();
    let (input, pack, output) = (dir.join("input"), dir.join("pack"), dir.join("output"));
    let content = content();
    written(&input, &content);
    // The last two are shorter than the content, one of them by no multiple of a block.
    for cache in ["256M", "3M", "2345678"] {
        let packed = || {
            run(args!["pack", input, "-o", pack, "--cache", cache], b"").fine();
            read(&pack)
        };
        let mapped = packed();
        // Somebody has it open for writing, so there is no lease.
        let writer = change(&input).expect("nobody has a lease");
        same(&packed(), &mapped, "read");
        drop(writer);
        run(args!["unpack", pack, "-o", output], b"").fine();
        same(&read(&output), &content, "unpacked into a file");
        same(&run(args!["unpack", pack], b"").fine(), &content, "unpacked into a pipe");
    }
}

#[test]
fn a_base_that_cannot_be_mapped_gives_the_same_pack() {
    let dir = Dir::new();
    let (input, output, pack) = (dir.join("input"), dir.join("output"), dir.join("pack"));
    let content = content();
    written(&input, &content);
    // Parts of files that make no whole blocks.
    let bases = [dir.join("first"), dir.join("second"), dir.join("third")];
    for (base, part) in bases.iter().zip([
        &content[..1_234_567],
        &content[2_000_000..2_000_100],
        &content[..70_000],
    ]) {
        written(base, part);
    }
    let base = args!["--base", bases[0], "--base", bases[1], "--base", bases[2]];
    let packed = || {
        run([args!["pack", input, "-o", pack], base.clone()].concat(), b"").fine();
        run([args!["unpack", pack, "-o", output], base.clone()].concat(), b"").fine();
        same(&read(&output), &content, "unpacked");
        read(&pack)
    };
    let mapped = packed();
    // Somebody has it open for writing, so there is no lease.
    let writer = change(&bases[0]).expect("nobody has a lease");
    same(&packed(), &mapped, "read");
    drop(writer);
}

/// Starts packing `input` to a pipe, and returns once it is in progress.
fn begin(input: &Path) -> (Child, Vec<u8>) {
    let mut child = Command::new(ONCEWIRE)
        .arg("pack")
        .arg(input)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut front = vec![0; 100_000];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut front).expect("the first frames");
    (child, front)
}

/// Whoever wants to change the input waits until it is packed. The pack cannot be complete before
/// that: it does not fit in the pipe, which nobody reads meanwhile.
#[test]
fn an_input_cannot_be_changed_while_it_is_packed() {
    let dir = Dir::new();
    let input = dir.join("input");
    let content = content();
    for truncates in [true, false] {
        written(&input, &content);
        let own = File::open(&input).expect("a file");
        let Ok(lease) = FilePages::leased(&own, PATIENCE) else {
            oncewire_testkit::skipped!("the files here have no leases");
            return;
        };
        drop(lease);
        let (mut child, mut pack) = begin(&input);
        let refused = change(&input).expect_err("it is leased");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let path = input.clone();
        let changing = std::thread::spawn(move || {
            let file = OpenOptions::new().write(true).open(path)?;
            if truncates {
                file.set_len(10)
            } else {
                io::Write::write_all(&mut &file, &noise(9, 3_000_000))
            }
        });
        child.stdout.take().expect("a pipe").read_to_end(&mut pack).expect("the rest");
        assert!(wait(&mut child).success());
        changing.join().expect("it only writes").expect("it can be changed in the end");
        same(&run(args!["unpack"], &pack).fine(), &content, "as it was at first");
        assert!(read(&input) != content);
    }
}

#[test]
fn a_pipe_as_input_gives_the_same_pack() {
    let dir = Dir::new();
    let (input, fifo, pack) = (dir.join("input"), dir.join("fifo"), dir.join("pack"));
    let content = content();
    written(&input, &content);
    run(args!["pack", input, "-o", pack], b"").fine();
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let (to, bytes) = (fifo.clone(), content.clone());
    let feeding = std::thread::spawn(move || fs::write(to, bytes));
    let packed = run(args!["pack", fifo], b"").fine();
    feeding.join().expect("it only writes").expect("the program reads");
    // Reads of a pipe end anywhere, so blocks may differ.
    same(&run(args!["unpack"], &packed).fine(), &content, "a named pipe");
    same(&run(args!["unpack", pack], b"").fine(), &content, "a file");
}

/// Without address space for a mapping, packing reads the file and unpacking has a log in memory.
#[test]
fn without_address_space_files_are_read() {
    let dir = Dir::new();
    let (input, pack, output) = (dir.join("input"), dir.join("pack"), dir.join("output"));
    // Longer than all the address space of the run, and short on the disk.
    let len = 1 << 30;
    File::create(&input).and_then(|file| file.set_len(len)).expect("a sparse file");
    let limits = "ulimit -v 800000";
    let args = args!["pack", input, "-o", pack, "--cache", "1M", "--threads", "1"];
    limited(limits, args).fine();
    assert!(read(&pack).len() < len as usize / 1000);
    let content = content();
    written(&input, &content);
    run(args!["pack", input, "-o", pack], b"").fine();
    limited(limits, args!["unpack", pack, "-o", output]).fine();
    same(&read(&output), &content, "unpacked");
}

#[test]
fn an_output_without_room_fails_and_leaves_nothing() {
    let dir = Dir::new();
    let (input, pack) = (dir.join("input"), dir.join("pack"));
    written(&input, &content());
    run(args!["pack", input, "-o", pack], b"").fine();
    let place = dir.join("place");
    fs::create_dir(&place).expect("a directory");
    // 512,000 or 1,024,000 bytes, and an error instead of a signal.
    let limits = "trap '' XFSZ && ulimit -f 1000";
    for command in [args!["pack", input], args!["unpack", pack]] {
        let output = place.join("output");
        let args = [command, args!["-o", output]].concat();
        limited(limits, args).fails(1, &["cannot write to", "output"]);
        assert_eq!(fs::read_dir(&place).expect("a directory").count(), 0);
    }
}

/// A pack with padding at the ends of generations, which is no content and not in the output.
#[test]
fn padding_is_not_in_the_output() {
    let dir = Dir::new();
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    let content = content();
    let header =
        oncewire_codec::pack::Header { cache: 1_000_000, max_block: 65536, seed: 0, base: None };
    let builder = oncewire_codec::Encoder::builder();
    let packed = oncewire_codec::pack::pack(&content, &header, builder).expect("a pack");
    written(&pack, &packed);
    run(args!["unpack", pack, "-o", output], b"").fine();
    same(&read(&output), &content, "with padding");
}
