//! Helpers: running the program, and input for it.

use assert_cmd::Command;
use oncewire_codec::pack::{Header, pack};
use oncewire_codec::{Encoder, EncoderBuilder, Entropy};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program under test.
pub(crate) const ONCEWIRE: &str = env!("CARGO_BIN_EXE_oncewire");
/// Time limit of any run, also in a debug build on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A cache that is not a power of two, and smaller than most inputs here.
pub(crate) const SMALL_CACHE: u64 = 300_000;

/// Arguments from strings and paths.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$(::std::ffi::OsString::from(&$arg)),*] };
}
pub(crate) use args;

/// The result of a run.
pub(crate) struct Ran {
    /// `None` if a signal ended it, or it took too long.
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

/// Runs the program with `stdin` to read.
pub(crate) fn run(args: Vec<OsString>, stdin: &[u8]) -> Ran {
    let output = Command::new(ONCEWIRE)
        .args(args)
        .write_stdin(stdin)
        .timeout(PATIENCE)
        .output()
        .expect("the program starts");
    Ran::of(output)
}

impl Ran {
    pub(crate) fn of(output: std::process::Output) -> Ran {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Ran { code: output.status.code(), out: output.stdout, err }
    }

    /// Asserts success without messages. Returns the standard output.
    #[track_caller]
    pub(crate) fn fine(self) -> Vec<u8> {
        assert_eq!((self.code, &self.err[..]), (Some(0), ""), "it should have worked in silence");
        self.out
    }

    /// Asserts this exit code and one line with all of `words`. Returns the standard output.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) -> Vec<u8> {
        assert_eq!(self.code, Some(code), "{}", self.err);
        let line = self
            .err
            .strip_prefix("oncewire: ")
            .unwrap_or_else(|| panic!("whose message is this? {:?}", self.err));
        let line =
            line.strip_suffix('\n').unwrap_or_else(|| panic!("the line does not end: {line:?}"));
        assert!(!line.is_empty() && !line.contains('\n'), "not one line: {line:?}");
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
        self.out
    }
}

/// A temporary directory.
pub(crate) struct Dir(TempDir);

impl Dir {
    pub(crate) fn new() -> Dir {
        Dir(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).expect("a file in the temporary directory");
        path
    }

    /// Fails unless these files, hidden ones included, and no others are in it.
    #[track_caller]
    pub(crate) fn holds_only(&self, names: &[&str]) {
        let expected: BTreeSet<String> = names.iter().map(|name| name.to_string()).collect();
        assert_eq!(self.names(), expected);
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.path()).expect("the temporary directory");
        entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect()
    }
}

#[track_caller]
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails if they differ, without printing megabytes.
#[track_caller]
pub(crate) fn same(got: &[u8], expected: &[u8], what: &str) {
    if got != expected {
        let at = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
        panic!(
            "{what}: {} bytes, expected {}; they differ from byte {at}",
            got.len(),
            expected.len()
        );
    }
}

/// The checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout")
}

/// A directory with links to the parts of a checkout that commands name, so that commands leave
/// nothing in the real one.
#[cfg(unix)]
pub(crate) fn checkout() -> Dir {
    let dir = Dir::new();
    for name in ["docs", "testdata"] {
        std::os::unix::fs::symlink(root().join(name), dir.join(name)).expect("a link");
    }
    dir
}

/// A shell in `dir` that finds the program under test as after an installation, and programs of
/// `dir/bin` before others.
pub(crate) fn shell(dir: &Dir, line: &str) -> std::process::Command {
    let bin = Path::new(ONCEWIRE).parent().expect("a directory").display().to_string();
    let path = format!(
        "{}:{bin}:{}",
        dir.join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(dir.path())
        .env("PATH", path)
        .env_remove("COLUMNS")
        .env_remove("XDG_RUNTIME_DIR");
    command
}

/// A command's help on a page of 80 columns; that of the program for "".
pub(crate) fn help(verb: &str) -> String {
    let verb = Some(verb).filter(|verb| !verb.is_empty());
    let mut command = Command::new(ONCEWIRE);
    let ran =
        command.args(verb).arg("--help").env("COLUMNS", "80").output().expect("the program starts");
    String::from_utf8(Ran::of(ran).fine()).expect("text")
}

/// All commands, as help lists them.
pub(crate) fn commands() -> Vec<String> {
    let help = help("");
    let lines = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty())
    });
    names.filter(|name| *name != "help").map(String::from).collect()
}

/// Where the n-th of three successive releases of the tz database is.
pub(crate) fn tz_path(n: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../testdata/tz/tzdata-2026.{}.tar", n + 3))
}

pub(crate) fn tz(n: usize) -> Vec<u8> {
    read(&tz_path(n))
}

/// The first two releases, a part of each: some text, some binary, and much that repeats at a
/// distance.
pub(crate) fn versions(len: usize) -> Vec<u8> {
    let mut content = tz(0);
    content.truncate(len / 2);
    content.extend_from_slice(&tz(1)[..len - len / 2]);
    content
}

/// Incompressible bytes.
pub(crate) use oncewire_testkit::content::incompressible as noise;

pub(crate) use oncewire_kernels::random::Xoshiro;

/// A header without a base.
pub(crate) fn header(cache: u64) -> Header {
    Header { cache, max_block: oncewire_codec::MAX_BLOCK, seed: 0, base: None }
}

/// A pack made by the library, without running the program.
pub(crate) fn packed(content: &[u8], entropy: Entropy) -> Vec<u8> {
    let builder: EncoderBuilder = Encoder::builder();
    pack(content, &header(SMALL_CACHE), builder.entropy(entropy)).expect("the parameters can work")
}

/// Waits until `ready`, at most [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a process to end, at most [`PATIENCE`].
#[track_caller]
pub(crate) fn wait(child: &mut std::process::Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("the program hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts the program with pipes.
pub(crate) fn start(args: Vec<std::ffi::OsString>) -> std::process::Child {
    std::process::Command::new(ONCEWIRE)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts")
}
