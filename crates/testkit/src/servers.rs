//! Real programs in tests, and free ports for them.

pub use crate::content::{Rng, incompressible, text_like};

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Why a program could not be started, reached or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}; is it installed?")]
    Start {
        /// The program's name.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// Nothing accepted a connection in time.
    #[error("nothing accepted a connection at {addr} within {waited:?}")]
    NotListening {
        /// The address.
        addr: SocketAddr,
        /// The time limit.
        waited: Duration,
    },
    /// Another system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The path of the program `name`, or `None` if it is not installed. Looks in `PATH`, then in
/// `/usr/sbin`, `/sbin` and Debian's directories of PostgreSQL server programs.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.extend(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from));
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut found: Vec<PathBuf> = versions.flatten().map(|v| v.path().join("bin")).collect();
        // The newest version first.
        found.sort();
        dirs.extend(found.into_iter().rev());
    }
    dirs.into_iter().map(|dir| dir.join(name)).find(|path| is_program(path))
}

fn is_program(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A free TCP port of 127.0.0.1 that no other call in this process has returned recently. It is
/// below the range of ephemeral ports, so outgoing connections cannot take it; another process
/// still could.
///
/// # Errors
/// [`ServerError::System`] when no port is free.
pub fn free_port() -> Result<u16, ServerError> {
    // Processes that run at the same time start at different ports.
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

/// Waits until `addr` accepts a TCP connection, at most `limit`. The server sees a connection that
/// closes immediately.
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

/// A running process. Dropping it kills the process by its id and waits for it. Its children are
/// not killed: a program must end them itself, as servers in the foreground do on SIGTERM
/// ([`Running::stop`]).
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

    /// What its threads have run on processors, those that have ended not counted. Linux only.
    pub fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten();
        let nanoseconds = tasks.flatten().filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// The process, to get at its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM. Does nothing if the process has ended.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system call fails.
    #[cfg(target_os = "linux")]
    pub fn terminate(&mut self) -> Result<(), ServerError> {
        let system = |source| ServerError::System { doing: "sending SIGTERM", source };
        // After a wait the id may belong to another process.
        if self.child.try_wait().map_err(system)?.is_some() {
            return Ok(());
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .map_err(|e| system(e.into()))
    }

    /// Sends SIGTERM, waits at most `limit`, then sends SIGKILL. Returns the exit status.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system call fails.
    #[cfg(target_os = "linux")]
    pub fn stop(mut self, limit: Duration) -> Result<ExitStatus, ServerError> {
        self.terminate()?;
        match self.wait(limit)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Waits at most `limit` for the process to end. `None` if it has not.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system call fails.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, ServerError> {
        let started = Instant::now();
        loop {
            let status = self
                .child
                .try_wait()
                .map_err(|source| ServerError::System { doing: "waiting for a process", source })?;
            if status.is_some() || started.elapsed() >= limit {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends SIGKILL and waits.
    ///
    /// # Errors
    /// [`ServerError::System`] when the system call fails.
    pub fn kill(&mut self) -> Result<ExitStatus, ServerError> {
        let system = |source| ServerError::System { doing: "killing a process", source };
        self.child.kill().map_err(system)?;
        self.child.wait().map_err(system)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process has ended.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_or_not() {
        assert!(tool("sh").is_some());
        assert!(tool("no-such-program-anywhere").is_none());
    }

    #[test]
    fn ports_are_waited_for() {
        let port = free_port().expect("a port");
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert!(matches!(
            wait_for_port(addr, Duration::from_millis(20)),
            Err(ServerError::NotListening { .. })
        ));
        let _listener = TcpListener::bind(addr).expect("listens");
        wait_for_port(addr, Duration::from_secs(5)).expect("listening");
    }

    #[test]
    fn no_port_is_given_twice() {
        let ask = || (0..500).map(|_| free_port().expect("a port")).collect::<Vec<_>>();
        let mut ports: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(ask))
            .flat_map(|thread| thread.join().expect("asks"))
            .collect();
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
        assert!(matches!(
            Running::start(&mut Command::new("no-such-program")),
            Err(ServerError::Start { .. })
        ));
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
