//! Real programs in tests, and content from a seed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Why a helper program could not be run or waited for.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}; is it installed?")]
    Start {
        /// The program as it was named.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A port did not accept a connection in time.
    #[error("nothing accepted a connection at {addr} within {waited:?}")]
    NotListening {
        /// Where.
        addr: SocketAddr,
        /// How long it was tried.
        waited: Duration,
    },
    /// The system refused something else.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The path of the program `name`, or nothing where it is not installed. Looks in `PATH`, then in `/usr/sbin`, `/sbin` and the
/// directories where Debian puts PostgreSQL's server programs.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.extend(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from));
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut found: Vec<PathBuf> = versions.flatten().map(|v| v.path().join("bin")).collect();
        // The newest last in the directory's order of names, so first here.
        found.sort();
        dirs.extend(found.into_iter().rev());
    }
    dirs.into_iter().map(|dir| dir.join(name)).find(|path| is_program(path))
}

fn is_program(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Says that a test, or a part of it, does not run: `skipped!("there is no IPv6")`. The line is seen whatever becomes of the test, since it does not go
/// through the macros whose output the test harness keeps to itself.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)*) => {
        $crate::servers::tell_skipped(format_args!($($reason)*))
    };
}

/// What [`skipped!`] does.
pub fn tell_skipped(reason: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // The harness names threads after their tests.
    let thread = std::thread::current();
    // Where nobody reads it, it need not be said.
    let _ = writeln!(io::stderr(), "skipped: {}: {reason}", thread.name().unwrap_or("a test"));
}

/// Ends the test with [`skipped!`]. It counts as passed.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::skipped!($($reason)*);
        return Default::default();
    }};
}

/// The path of a program, or the end of the test with a message: `let nginx = need_tool!("nginx");`.
#[macro_export]
macro_rules! need_tool {
    ($name:expr) => {
        match $crate::servers::tool($name) {
            Some(path) => path,
            None => $crate::skip!("{} is not installed", $name),
        }
    };
}

/// A TCP port of 127.0.0.1 that is free and that no other call in this process has had or will soon have. It lies below the range from which
/// systems take the ports of outgoing connections, so those cannot take it either; another process still could.
///
/// # Errors
/// [`ServerError::System`] when no port is free.
pub fn free_port() -> Result<u16, ServerError> {
    // Where processes that run side by side begin is spread by their ids.
    const RANGE: std::ops::Range<u32> = 16_000..32_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let len = RANGE.len() as u32;
    let begin = std::process::id().wrapping_mul(0x9e37_79b1) % len;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..len {
        let port = (RANGE.start + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % len) as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(ServerError::System { doing: "finding a free port", source: last })
}

/// Waits until `addr` accepts a TCP connection, at most `limit`. The server sees a connection that closes at once.
///
/// # Errors
/// [`ServerError::NotListening`] when the time is up.
pub fn wait_for_port(addr: SocketAddr, limit: Duration) -> Result<(), ServerError> {
    let started = Instant::now();
    loop {
        let left = limit.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        if TcpStream::connect_timeout(&addr, left).is_ok() {
            return Ok(());
        }
        if started.elapsed() >= limit {
            return Err(ServerError::NotListening { addr, waited: limit });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that ends with the value: dropping it kills the process by its id and waits for it. Nothing else is killed; a
/// program that starts others must end them itself, as servers in the foreground do when they get SIGTERM ([`Running::stop`]).
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts `command`.
    ///
    /// # Errors
    /// [`ServerError::Start`] when it cannot be started.
    pub fn start(command: &mut Command) -> Result<Running, ServerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|source| ServerError::Start { program, source })?;
        Ok(Running { child })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM; does nothing when the process has ended.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system refuses.
    #[cfg(target_os = "linux")]
    pub fn terminate(&mut self) -> Result<(), ServerError> {
        let system = |source| ServerError::System { doing: "sending SIGTERM", source };
        // A process that was waited for has given its id back: its id may be another's.
        if self.child.try_wait().map_err(system)?.is_some() {
            return Ok(());
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)
            .map_err(|e| system(e.into()))
    }

    /// Sends SIGTERM and waits at most `limit`, then kills. Gives the exit status.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system refuses.
    #[cfg(target_os = "linux")]
    pub fn stop(mut self, limit: Duration) -> Result<ExitStatus, ServerError> {
        self.terminate()?;
        match self.wait(limit)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Waits at most `limit` for the process to end by itself. Nothing when it has not.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system refuses.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, ServerError> {
        let started = Instant::now();
        loop {
            let status =
                self.child.try_wait().map_err(|source| ServerError::System { doing: "waiting for a process", source })?;
            if status.is_some() || started.elapsed() >= limit {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it (SIGKILL) and waits.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system refuses.
    pub fn kill(&mut self) -> Result<ExitStatus, ServerError> {
        let system = |source| ServerError::System { doing: "killing a process", source };
        self.child.kill().map_err(system)?;
        self.child.wait().map_err(system)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only where the process has ended.
        let _ = self.kill();
    }
}

/// Pseudo-random numbers from a seed (SplitMix64): the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Numbers of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; 0 when `n` is 0. The bias is below `n / 2^64`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with the given probability; 0 or less is never, 1 or more is always.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits: what an f64 holds exactly, in [0, 1).
        ((self.next_u64() >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < probability
    }
}

/// `len` bytes that no compressor reduces, the same for the same seed. A shorter length gives a prefix.
pub fn incompressible(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// `len` bytes of lines of words, the same for the same seed: compresses as text does (about 3 to 1 by zstd -1), without long
/// repeats. A shorter length gives a prefix.
pub fn text_like(seed: u64, len: usize) -> Vec<u8> {
    const SYLLABLES: [&str; 32] = [
        "ka", "lo", "men", "ti", "ra", "sel", "vo", "ne", "dur", "pi", "sha", "gor", "el", "bu", "tan", "wi", "os", "ter", "mi",
        "ful", "an", "de", "con", "pro", "ing", "er", "st", "le", "ous", "ri", "ya", "hum",
    ];
    let mut rng = Rng::new(seed);
    // Words come from a vocabulary, the frequent ones first, as in a language.
    let vocabulary: Vec<String> = (0..4096)
        .map(|_| (0..1 + rng.below(4)).map(|_| SYLLABLES[rng.below(SYLLABLES.len() as u64) as usize]).collect())
        .collect();
    let mut bytes = Vec::with_capacity(len + 32);
    let mut column = 0;
    while bytes.len() < len {
        let (a, b) = (rng.below(4096), rng.below(4096));
        let word = &vocabulary[(a * b / 4096) as usize];
        bytes.extend_from_slice(word.as_bytes());
        column += word.len() + 1;
        if column > 72 {
            bytes.push(b'\n');
            column = 0;
        } else {
            bytes.push(b' ');
        }
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_a_function_of_the_seed() {
        assert_eq!(incompressible(1, 1000), incompressible(1, 1000));
        assert_eq!(incompressible(1, 1000)[..77], incompressible(1, 77));
        assert_ne!(incompressible(1, 1000), incompressible(2, 1000));
        assert_eq!(text_like(1, 1000)[..77], text_like(1, 77));
        assert_eq!(text_like(3, 100_000).len(), 100_000);
        // Pinned: figures quote seeds.
        assert_eq!(incompressible(0, 8), 0xE220_A839_7B1D_CDAFu64.to_le_bytes());
    }

    #[test]
    fn chance_is_near_its_probability() {
        let mut rng = Rng::new(5);
        let hits = (0..100_000).filter(|_| rng.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| rng.chance(0.0)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
    }

    #[test]
    fn tools_are_found_or_not() {
        assert!(tool("sh").is_some());
        assert!(tool("no-such-program-anywhere").is_none());
    }

    #[test]
    fn ports_are_waited_for() {
        let port = free_port().expect("a port");
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert!(matches!(wait_for_port(addr, Duration::from_millis(20)), Err(ServerError::NotListening { .. })));
        let _listener = TcpListener::bind(addr).expect("listens");
        wait_for_port(addr, Duration::from_secs(5)).expect("listening");
    }

    #[test]
    fn no_port_is_given_twice() {
        let ask = || (0..500).map(|_| free_port().expect("a port")).collect::<Vec<_>>();
        let mut ports: Vec<_> = (0..4).map(|_| std::thread::spawn(ask)).flat_map(|thread| thread.join().expect("asks")).collect();
        let all = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), all);
    }

    #[test]
    fn a_process_ends_with_its_guard() {
        let mut running = Running::start(Command::new("sleep").arg("60")).expect("starts");
        assert!(running.is_running());
        let id = running.id();
        drop(running);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
        assert!(matches!(Running::start(&mut Command::new("no-such-program")), Err(ServerError::Start { .. })));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_stopped() {
        use std::os::unix::process::ExitStatusExt;
        let running = Running::start(Command::new("sleep").arg("60")).expect("starts");
        let status = running.stop(Duration::from_secs(10)).expect("stops");
        assert_eq!(status.signal(), Some(15));
    }
}
