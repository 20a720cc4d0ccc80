//! A restart that ends no connection: a process in front of the one that carries connections.
//!
//! A service manager starts the next process of a service when the one before has ended, so that one
//! cannot finish its connections meanwhile. Here, the process that the manager started is the
//! *supervisor*: it only starts the *worker* and waits. On SIGTERM the worker gives way: it closes
//! its listeners, and whatever else a successor needs. Then the supervisor ends, and the worker
//! carries the open connections to their end, beside its successor.
//!
//! They have a pair of sockets. The supervisor sends `RELOAD`, and its end of the stream means to
//! drain: it has that, too, if it is killed. The worker sends `GAVE_WAY`.

use crate::endpoint::NetError;
use crate::service;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

/// Set for a worker: its standard input is the socket.
const VARIABLE: &str = "ONCEWIRE_SUPERVISED";
/// To the worker: read the configuration again.
const RELOAD: u8 = b'r';
/// From the worker: its successor may start.
const GAVE_WAY: u8 = b'g';
/// How long the worker may take to give way.
const PATIENCE: Duration = Duration::from_secs(10);
/// What systemd sends to a service that does not answer its watchdog.
const ABORT: i32 = 6;

/// Whether this process is a worker.
pub fn is_worker() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Starts this program again with the same arguments, as the worker, and waits for it to end or, after
/// SIGTERM or SIGINT, to give way. Returns the exit status for the supervisor.
///
/// # Errors
/// [`NetError::Runtime`] if the worker cannot start.
pub fn supervise() -> Result<u8, NetError> {
    let failed = NetError::Runtime;
    let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let mut args = std::env::args_os();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg0(args.next().unwrap_or_default()).args(args).env(VARIABLE, "1");
    // They name this process, but are for the worker.
    command.env_remove("LISTEN_PID").env_remove("WATCHDOG_PID").stdin(OwnedFd::from(theirs));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed)?.block_on(wait(command, ours)).map_err(failed)
}

async fn wait(command: Command, control: StdUnixStream) -> io::Result<u8> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut reload = signal(SignalKind::hangup())?;
    let mut abort = signal(SignalKind::from_raw(ABORT))?;
    let mut worker = tokio::process::Command::from(command).spawn()?;
    let mut control = UnixStream::from_std(control)?;
    service::close_passed();
    loop {
        tokio::select! {
            ended = worker.wait() => return Ok(code_of(ended?)),
            // It may have ended: then the next turn says so.
            _ = reload.recv() => drop(control.write_all(&[RELOAD]).await),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = abort.recv() => {
                worker.start_kill()?;
                return Ok(code_of(worker.wait().await?));
            }
        }
    }
    service::stopping();
    control.shutdown().await?;
    let mut answer = [0];
    tokio::select! {
        ended = worker.wait() => return Ok(code_of(ended?)),
        Ok(GAVE_WAY) = async { control.read_exact(&mut answer).await.map(|_| answer[0]) } => {}
        () = tokio::time::sleep(PATIENCE) => {
            warn!("the process that carries connections does not react; ending it");
            worker.start_kill()?;
        }
        // A second signal. What it can finish, it does; a third, to the worker itself, ends it.
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(0)
}

/// The exit status as a shell has it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// What the supervisor wants.
pub(crate) enum Request {
    Reload,
    Drain,
}

/// A worker's side.
pub(crate) struct Supervisor(UnixStream);

impl Supervisor {
    /// The supervisor of this process, if it is a worker.
    ///
    /// # Errors
    /// Standard input is not such a socket.
    pub(crate) fn of_worker() -> io::Result<Option<Supervisor>> {
        if !is_worker() {
            return Ok(None);
        }
        let stream = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        stream.set_nonblocking(true)?;
        Ok(Some(Supervisor(UnixStream::from_std(stream)?)))
    }

    /// Its next request. Whatever is wrong with it means that it is gone.
    pub(crate) async fn request(&mut self) -> Request {
        match self.0.read_u8().await {
            Ok(RELOAD) => Request::Reload,
            _ => Request::Drain,
        }
    }

    /// A successor may start.
    pub(crate) async fn gave_way(mut self) {
        // It may be gone already.
        let _ = self.0.write_all(&[GAVE_WAY]).await;
    }
}
