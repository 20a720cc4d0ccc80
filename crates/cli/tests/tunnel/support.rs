//! Helpers: two ends as processes, applications, origins, and status of the ends.

use oncewire_testkit::servers::Running;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program under test.
pub(crate) const ONCEWIRE: &str = env!("CARGO_BIN_EXE_oncewire");
/// Time limit of any step, also in a debug build on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the program to its end.
pub(crate) fn oncewire<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    finish(Command::new(ONCEWIRE).args(args).env_remove("XDG_RUNTIME_DIR"))
}

/// Runs a command that must end soon.
#[track_caller]
pub(crate) fn finish(command: &mut Command) -> Output {
    finish_with(command, b"")
}

/// [`finish`] with standard input.
#[track_caller]
pub(crate) fn finish_with(command: &mut Command, stdin: &[u8]) -> Output {
    let dir = TempDir::new().expect("a directory");
    let [input, out, err] = ["in", "out", "err"].map(|name| dir.path().join(name));
    std::fs::write(&input, stdin).expect("written");
    let (from, to) = (
        File::open(&input).expect("opens"),
        [&out, &err].map(|path| File::create(path).expect("created")),
    );
    let [to_out, to_err] = to;
    let mut running =
        Running::start(command.stdin(from).stdout(to_out).stderr(to_err)).expect("starts");
    let status = running.wait(PATIENCE).expect("waits");
    let [stdout, stderr] = [&out, &err].map(|path| std::fs::read(path).expect("reads"));
    let Some(status) = status else {
        panic!("{command:?} hangs: {}", String::from_utf8_lossy(&stderr))
    };
    Output { status, stdout, stderr }
}

/// The command's standard output, if it succeeds.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> Vec<u8> {
    let output = finish(command);
    assert!(
        output.status.success(),
        "{command:?}: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Both outputs of a command as text.
pub(crate) fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Sends a signal, such as `HUP`, to a process that the test has started.
pub(crate) fn signal(process: &Running, name: &str) {
    succeed(Command::new("sh").args(["-c", &format!("kill -{name} {}", process.id())]));
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(process: &Running) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Open file descriptors of a process.
pub(crate) fn descriptors(process: &Running) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.id())).expect("it runs").count()
}

/// Waits until `ready`, at most [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `oncewire` after a line of shell, by a program that runs others. Its process is that of `oncewire`.
fn shell(by: &[&str], first: &str) -> Command {
    let first = format!("{first} && exec \"$@\"");
    let all = [by, &["sh", "-c", &first, "sh", ONCEWIRE]].concat();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]);
    command
}

/// One end as a process.
pub(crate) struct End {
    pub(crate) process: Running,
    pub(crate) socket: PathBuf,
    log: PathBuf,
    /// The addresses it listens on.
    pub(crate) listening: Vec<SocketAddr>,
}

impl End {
    /// Starts `oncewire` with these arguments, and waits until it answers. Its log goes to a file
    /// of that name.
    pub(crate) fn start(dir: &Path, name: &str, args: &[String], descriptors: Option<u32>) -> End {
        let command = match descriptors {
            None => Command::new(ONCEWIRE),
            Some(limit) => shell(&[], &format!("ulimit -n {limit}")),
        };
        End::start_by(command, dir, name, args)
    }

    /// The same with another file of hosts, which needs root.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_with_hosts(dir: &Path, name: &str, args: &[String], hosts: &Path) -> End {
        let first = format!("mount --bind '{}' /etc/hosts", hosts.display());
        End::start_by(shell(&["unshare", "--mount"], &first), dir, name, args)
    }

    fn start_by(command: Command, dir: &Path, name: &str, args: &[String]) -> End {
        End::start_on(command, dir, name, args, [Stdio::null(), Stdio::null()])
    }

    /// The same with these as standard input and output.
    pub(crate) fn start_on(
        mut command: Command,
        dir: &Path,
        name: &str,
        args: &[String],
        [input, output]: [Stdio; 2],
    ) -> End {
        let (socket, log) = (dir.join(format!("{name}.sock")), dir.join(format!("{name}.log")));
        let file = File::options().append(true).create(true).open(&log).expect("a log");
        command.args(args).arg("--status").arg(&socket);
        command.stdin(input).stdout(output).stderr(file).env_remove("XDG_RUNTIME_DIR");
        let process = Running::start(&mut command).expect("starts");
        let mut end = End { process, socket, log, listening: Vec::new() };
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = end.try_status() {
                break status;
            }
            assert!(
                end.process.is_running() && begun.elapsed() < PATIENCE,
                "{name} does not start: {}",
                end.said()
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        let addresses = status["listening"].as_array().expect("a list");
        end.listening =
            addresses.iter().map(|address| address.as_str().unwrap().parse().unwrap()).collect();
        end
    }

    fn try_status(&self) -> Option<Value> {
        let socket = self.socket.as_os_str();
        let output = oncewire(["status".as_ref(), "--json".as_ref(), "--socket".as_ref(), socket]);
        // One document, however many ends it is about.
        output
            .status
            .success()
            .then(|| serde_json::from_slice::<Value>(&output.stdout).expect("JSON")[0].take())
    }

    /// What `oncewire status --json` says.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.try_status().unwrap_or_else(|| panic!("no answer; its log: {}", self.said()))
    }

    /// A counter of the only session, as this end sees it.
    #[track_caller]
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        status["sessions"][0]["here"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name} in {status:#}"))
    }

    /// [`End::counter`], or `None` without a session.
    pub(crate) fn try_counter(&self, name: &str) -> Option<u64> {
        self.try_status()?["sessions"][0]["here"][name].as_u64()
    }

    /// Whether it has a session that works.
    pub(crate) fn is_established(&self) -> bool {
        let status = self.status();
        status["sessions"].as_array().is_some_and(|all| {
            all.iter().any(|one| one["phase"] == "established" && one["lanes_up"] != 0)
        })
    }

    /// Its log so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The exit status of a process that should end by itself.
    #[track_caller]
    pub(crate) fn ends(&mut self, within: Duration) -> ExitStatus {
        match self.process.wait(within).expect("waits") {
            Some(status) => status,
            None => panic!("still running after {within:?}; its log: {}", self.said()),
        }
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident(&self.process)
    }

    /// Open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        descriptors(&self.process)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.said();
            let tail: Vec<&str> = said.lines().rev().take(20).collect();
            eprintln!("---- {}", self.log.display());
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Options of a tunnel.
pub(crate) struct Plan {
    listen: String,
    forwards: Vec<String>,
    serve: Vec<String>,
    connect: Vec<String>,
    serve_descriptors: Option<u32>,
    connect_descriptors: Option<u32>,
    memory: &'static str,
    allow: Vec<String>,
}

impl Plan {
    /// Ends that trust each other; flows may go anywhere on loopback.
    pub(crate) fn new() -> Plan {
        Plan {
            listen: "127.0.0.1:0".into(),
            forwards: Vec::new(),
            serve: Vec::new(),
            connect: Vec::new(),
            serve_descriptors: None,
            connect_descriptors: None,
            memory: "128M",
            allow: ["127.0.0.0/8:*", "[::1]:*"].map(String::from).to_vec(),
        }
    }

    /// One more forward.
    pub(crate) fn to(mut self, origin: SocketAddr) -> Plan {
        self.forwards.push(format!("127.0.0.1:0:{origin}"));
        self
    }

    /// Flows may go only there.
    pub(crate) fn only(mut self, rule: String) -> Plan {
        self.allow = vec![rule];
        self
    }

    /// A forward that names its target.
    pub(crate) fn forward_to(mut self, target: &str) -> Plan {
        self.forwards.push(format!("127.0.0.1:0:{target}"));
        self
    }

    /// The peer, the forwards and the origins on IPv6.
    pub(crate) fn over_ipv6(mut self, origin: SocketAddr) -> Plan {
        self.listen = "[::1]:0".into();
        self.forwards.push(format!("[::1]:0:{origin}"));
        self
    }

    /// More arguments for `serve`.
    pub(crate) fn serve(mut self, args: &[&str]) -> Plan {
        self.serve.extend(args.iter().map(ToString::to_string));
        self
    }

    /// More arguments for `connect`.
    pub(crate) fn connect(mut self, args: &[&str]) -> Plan {
        self.connect.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Most descriptors of each end.
    pub(crate) fn descriptors(mut self, serve: Option<u32>, connect: Option<u32>) -> Plan {
        (self.serve_descriptors, self.connect_descriptors) = (serve, connect);
        self
    }

    /// Memory of each end.
    pub(crate) fn memory(mut self, memory: &'static str) -> Plan {
        self.memory = memory;
        self
    }

    /// Makes keys, starts both ends and waits for their session.
    #[track_caller]
    pub(crate) fn start(self) -> Tunnel {
        let dir = TempDir::new().expect("a directory");
        let [here, there] =
            ["connect", "serve"].map(|name| keygen(&dir.path().join(format!("{name}.key"))));
        let common = |role: &str, peer: &str| {
            let key = dir.path().join(format!("{role}.key"));
            [role, "--key", key.to_str().unwrap(), "--peer", peer, "--memory", self.memory]
                .map(String::from)
                .to_vec()
        };
        let mut serve_args = common("serve", &here);
        serve_args.extend(self.allow.into_iter().flat_map(|rule| ["--allow".to_string(), rule]));
        serve_args.extend(self.serve);
        let mut connect_args = common("connect", &there);
        connect_args
            .extend(self.forwards.into_iter().flat_map(|forward| ["-L".to_string(), forward]));
        connect_args.extend(self.connect);
        let first = [&serve_args[..], &["--listen".into(), self.listen]].concat();
        let serve = End::start(dir.path(), "serve", &first, self.serve_descriptors);
        let at = serve.listening[0].to_string();
        serve_args.extend(["--listen".into(), at.clone()]);
        connect_args.insert(1, at);
        let connect = End::start(dir.path(), "connect", &connect_args, self.connect_descriptors);
        let tunnel = Tunnel { serve, connect, serve_args, connect_args, dir };
        tunnel.established();
        tunnel
    }
}

/// Makes a key pair; returns the public key.
#[track_caller]
pub(crate) fn keygen(file: &Path) -> String {
    String::from_utf8(succeed(Command::new(ONCEWIRE).arg("keygen").arg(file)))
        .unwrap()
        .trim()
        .to_string()
}

/// Two running ends.
pub(crate) struct Tunnel {
    pub(crate) serve: End,
    pub(crate) connect: End,
    pub(crate) serve_args: Vec<String>,
    pub(crate) connect_args: Vec<String>,
    pub(crate) dir: TempDir,
}

impl Tunnel {
    /// Where applications connect for the n-th forward.
    pub(crate) fn way(&self, n: usize) -> SocketAddr {
        self.connect.listening[n]
    }

    /// Waits for a session.
    #[track_caller]
    pub(crate) fn established(&self) {
        wait_until("there is a session", || self.connect.is_established());
    }

    /// Kills `serve` as a crash would.
    pub(crate) fn kill_serve(&mut self) {
        self.serve.process.kill().expect("killed");
    }

    /// Restarts `serve` on the same address.
    pub(crate) fn restart_serve(&mut self) {
        self.serve = End::start(self.dir.path(), "serve", &self.serve_args, None);
    }

    /// Kills `connect` as a crash would, and restarts it. Its forwards get other ports.
    pub(crate) fn restart_connect(&mut self) {
        self.connect.process.kill().expect("killed");
        self.connect = End::start(self.dir.path(), "connect", &self.connect_args, None);
    }

    /// Bytes on the transport so far, both ways, TLS included, once they are all there.
    pub(crate) fn wire(&self) -> u64 {
        std::thread::sleep(Duration::from_millis(100));
        let status = self.connect.status();
        ["transport_sent_bytes", "transport_received_bytes"]
            .iter()
            .map(|name| status[name].as_u64().expect("a number"))
            .sum()
    }

    /// What `act` costs on the transport.
    pub(crate) fn cost<T>(&self, act: impl FnOnce() -> T) -> (T, u64) {
        let before = self.wire();
        let result = act();
        (result, self.wire() - before)
    }
}

/// An application's connection, with timeouts.
#[track_caller]
pub(crate) fn application(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
    patient(&stream);
    stream
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
}

/// Reads until the other side finishes.
pub(crate) fn fetch(address: SocketAddr) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    patient(&stream);
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Sends all, finishes, and returns all that comes back.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    patient(&stream);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            (&stream).write_all(bytes)?;
            stream.shutdown(std::net::Shutdown::Write)
        });
        let mut back = Vec::new();
        let received = (&stream).read_to_end(&mut back);
        sender.join().expect("no panic")?;
        received.map(|_| back)
    })
}

/// An origin that calls `act` with every connection, each in its own thread, until the tests end.
pub(crate) fn origin(act: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let act = std::sync::Arc::new(act);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = act.clone();
            std::thread::spawn(move || {
                patient(&stream);
                act(stream);
            });
        }
    });
    address
}

/// An origin that sends `bytes` on every connection.
pub(crate) fn sender(bytes: Vec<u8>) -> SocketAddr {
    origin(move |mut stream| {
        let _ = stream.write_all(&bytes);
    })
}

/// An origin that sends `bytes` in pieces with pauses: 64 KiB every 10 ms.
pub(crate) fn slow_sender(bytes: Vec<u8>) -> SocketAddr {
    origin(move |mut stream| {
        for piece in bytes.chunks(64 << 10) {
            if stream.write_all(piece).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    })
}

/// An origin that sends back what it gets, and finishes when the other side does.
pub(crate) fn echo() -> SocketAddr {
    origin(|mut stream| {
        let mut from = stream.try_clone().expect("a copy");
        if io::copy(&mut from, &mut stream).is_ok() {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    })
}

/// Asserts that the bytes are equal, without printing them.
#[track_caller]
pub(crate) fn assert_same(got: &[u8], wanted: &[u8], what: &str) {
    let same = got.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    assert!(
        got == wanted,
        "{what}: {} bytes instead of {}; the first {same} are right",
        got.len(),
        wanted.len()
    );
}
