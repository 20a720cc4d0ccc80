//! What a process tells the service manager that started it: systemd's protocol of `NOTIFY_SOCKET`
//! (sd_notify(3)); and the listeners that it got from the manager (sd_listen_fds(3)), or gives it to
//! keep for the next process of the service (sd_pid_notify_with_fds(3)).
//!
//! Without such a manager nothing is sent. A failure to send concerns nobody but the manager, which
//! notices by its own time limits.

use crate::sync::lock;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use sd_notify::NotifyState;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

/// Pings the manager's watchdog until it is dropped: from the runtime, so that a runtime that no
/// longer runs tasks is noticed.
pub(crate) struct Watchdog(Option<AbortHandle>);

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// The process serves now. Begins to ping the watchdog if the manager has one, as long as the
/// runtimes of `threads` run tasks, too.
pub(crate) fn ready(what: &str, threads: Vec<Handle>) -> Watchdog {
    tell(&[NotifyState::Ready, NotifyState::Status(what)]);
    let Some(limit) = sd_notify::watchdog_enabled() else { return Watchdog(None) };
    // Twice within the limit, as the manual recommends; never so often that it costs anything.
    let mut every = tokio::time::interval((limit / 2).max(Duration::from_millis(10)));
    let pings = async move {
        loop {
            every.tick().await;
            run_tasks(&threads).await;
            tell(&[NotifyState::Watchdog]);
        }
    };
    Watchdog(Some(tokio::spawn(pings).abort_handle()))
}

/// Returns once each of these runtimes has run a task: never, if one of them hangs.
async fn run_tasks(threads: &[Handle]) {
    let tasks: Vec<_> = threads.iter().map(|thread| thread.spawn(async {})).collect();
    for task in tasks {
        // An error means that the runtime has ended: then there is nothing that could hang.
        let _ = task.await;
    }
}

/// It reads its configuration again, until [`reloaded`].
pub(crate) fn reloading() {
    let since = NotifyState::monotonic_usec_now();
    match since {
        Ok(since) => tell(&[NotifyState::Reloading, since]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The configuration is in force, or the earlier one stays in force.
pub(crate) fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// It drains, and ends soon.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// A socket that the manager passed.
enum Passed {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// Sockets that the manager passed and nobody took. It keeps its own copies, so connections that
/// arrive while this process is restarted wait in their queues.
fn passed() -> &'static Mutex<Vec<(SocketAddr, Passed)>> {
    static PASSED: OnceLock<Mutex<Vec<(SocketAddr, Passed)>>> = OnceLock::new();
    PASSED.get_or_init(|| {
        let mut from = listenfd::ListenFd::from_env();
        let mut passed = Vec::new();
        for at in 0..from.len() {
            // One that is not taken stays where it is.
            let listener = from.take_tcp_listener(at);
            let socket = match listener {
                Ok(listener) => Ok(listener.map(Passed::Tcp)),
                Err(_) => from.take_udp_socket(at).map(|socket| socket.map(Passed::Udp)),
            };
            match socket.and_then(|socket| socket.map(Passed::with_address).transpose()) {
                Ok(socket) => passed.extend(socket),
                Err(error) => {
                    warn!(%error, number = at + 1, "a socket of the service manager is not used: only TCP listeners and UDP sockets are");
                }
            }
        }
        Mutex::new(passed)
    })
}

impl Passed {
    fn with_address(self) -> io::Result<(SocketAddr, Passed)> {
        let address = match &self {
            Passed::Tcp(listener) => listener.local_addr(),
            Passed::Udp(socket) => socket.local_addr(),
        };
        Ok((address?, self))
    }
}

/// Addresses of passed listeners that were taken: the manager has a copy of each.
static TAKEN: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

/// The listener for this address, if the manager passed one.
pub(crate) fn passed_listener(address: SocketAddr) -> Option<TcpListener> {
    let mut passed = lock(passed());
    let is_it =
        |(at, passed): &(SocketAddr, Passed)| *at == address && matches!(passed, Passed::Tcp(_));
    let at = passed.iter().position(is_it)?;
    let Passed::Tcp(listener) = passed.swap_remove(at).1 else { return None };
    lock(&TAKEN).push(address);
    Some(listener)
}

/// The UDP socket for this address, if the manager passed one.
#[cfg(target_os = "linux")]
pub(crate) fn passed_socket(address: SocketAddr) -> Option<UdpSocket> {
    let mut passed = lock(passed());
    let is_it =
        |(at, passed): &(SocketAddr, Passed)| *at == address && matches!(passed, Passed::Udp(_));
    let at = passed.iter().position(is_it)?;
    let Passed::Udp(socket) = passed.swap_remove(at).1 else { return None };
    Some(socket)
}

/// Warns of listeners that the manager passed and the configuration does not name: connections to
/// them would wait for ever. Closes them, and the manager's copies of those that it keeps.
pub(crate) fn warn_of_unused() {
    for (address, passed) in lock(passed()).drain(..) {
        let name = match passed {
            Passed::Tcp(_) => name_of("listener", address),
            Passed::Udp(_) => name_of("udp", address),
        };
        tell(&[NotifyState::Custom("FDSTOREREMOVE=1"), NotifyState::Custom(&name)]);
        warn!(%address, "the service manager listens here, but the configuration does not");
    }
}

/// Closes this process's copies of what the manager passed: another process has them.
pub(crate) fn close_passed() {
    lock(passed()).clear();
}

/// The name by which the manager keeps a listener. A colon would end it.
fn name_of(kind: &str, address: SocketAddr) -> String {
    format!("FDNAME={kind}-{}", address.to_string().replace(':', "_"))
}

/// Gives the manager a copy of a UDP socket, for the next process of the service. Whether it certainly
/// keeps it: systemd says so since version 254 (`FDSTORE` in systemd.exec(5)).
#[cfg(target_os = "linux")]
pub(crate) fn keep_socket(socket: &UdpSocket) -> bool {
    let Some(manager) = std::env::var_os("NOTIFY_SOCKET") else { return false };
    let kept = socket.local_addr().and_then(|address| {
        // It would drop the socket at the first error that an ICMP message reports.
        let text = format!("FDSTORE=1\nFDPOLL=0\n{}\n", name_of("udp", address));
        send_with(manager.as_bytes(), text.as_bytes(), socket.as_fd())
    });
    let room = std::env::var("FDSTORE").ok().and_then(|most| most.parse::<u32>().ok());
    kept.is_ok() && room.is_some_and(|most| most > 0)
}

/// Gives the manager a copy of a listener. While the service is restarted, connections wait in its
/// queue; then the next process is passed it. A manager that keeps none (`FileDescriptorStoreMax=`
/// of systemd) closes it.
pub(crate) fn keep_listener(listener: &impl AsFd) {
    // Not even a name look-up without a manager.
    let Some(manager) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let kept = address_of(listener.as_fd()).and_then(|address| {
        if lock(&TAKEN).contains(&address) {
            return Ok(());
        }
        let text = format!("FDSTORE=1\n{}\n", name_of("listener", address));
        send_with(manager.as_bytes(), text.as_bytes(), listener.as_fd())
    });
    if let Err(error) = kept {
        debug!(%error, "the service manager does not keep a listener");
    }
}

fn address_of(listener: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let address = socket2::SockRef::from(&listener).local_addr()?;
    address.as_socket().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Sends a message with a descriptor to a Unix datagram socket. A name that begins with `@` is
/// abstract.
fn send_with(manager: &[u8], text: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let address = match manager.split_first() {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Some((b'@', name)) => UnixAddr::new_abstract(name),
        _ => UnixAddr::new(manager),
    }?;
    let socket = UnixDatagram::unbound()?;
    let descriptors = [descriptor.as_raw_fd()];
    sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(text)],
        &[ControlMessage::ScmRights(&descriptors)],
        MsgFlags::empty(),
        Some(&address),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::SessionThreads;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_thread_of_sessions_that_hangs_stops_the_watchdog() {
        let threads = SessionThreads::start(2).unwrap();
        let handles = threads.handles();
        run_tasks(&handles).await;
        let (release, released) = mpsc::channel::<()>();
        let hanging = handles[1].spawn(async move { released.recv() });
        let of_task = handles.clone();
        let ping = tokio::spawn(async move { run_tasks(&of_task).await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
            run_tasks(&handles[..1]).await;
        }
        assert!(!ping.is_finished());
        release.send(()).unwrap();
        ping.await.unwrap();
        hanging.await.unwrap().unwrap();
    }
}
