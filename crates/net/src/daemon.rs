//! A tunnel end as a process: signals, and a socket that answers questions about its state.

use crate::client::{ConnectConfig, Connection, connect};
use crate::endpoint::NetError;
use crate::server::{ServeConfig, Server, serve};
use crate::status::Status;
use crate::way_out::WayOut;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

/// How a process that runs an end behaves.
pub struct Daemon {
    /// Where questions about its state are answered: a Unix socket that only its owner may use.
    pub status: Option<PathBuf>,
    /// How long flows may take to end after SIGTERM or SIGINT. A second signal does not wait.
    pub drain: Duration,
    /// Makes a text of the state.
    pub render: fn(&Status) -> String,
    /// Reads the rules for where flows may go anew, on SIGHUP. The authorized peers are read again in any case.
    pub reload: Box<dyn Fn() -> Result<Option<WayOut>, String> + Send + Sync>,
    /// Called once it listens.
    pub ready: Box<dyn FnOnce(&Status) + Send>,
}

/// Which end, and its parameters.
pub enum Role {
    /// The answering end.
    Serve(ServeConfig),
    /// The connecting end.
    Connect(ConnectConfig),
}

enum End {
    Server(Server),
    Client(Connection),
}

impl End {
    fn status(&self) -> Status {
        match self {
            End::Server(server) => server.status(),
            End::Client(client) => client.status(),
        }
    }

    async fn drain(&self, limit: Duration) -> bool {
        match self {
            End::Server(server) => server.drain(limit).await,
            End::Client(client) => client.drain(limit).await,
        }
    }
}

/// Runs an end until SIGTERM or SIGINT, and drains it.
///
/// # Errors
/// [`NetError`] if it cannot start.
pub fn run(role: Role, daemon: Daemon) -> Result<(), NetError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(NetError::Runtime)?;
    let result = runtime.block_on(run_async(role, daemon));
    // Look-ups of names may still be under way; nobody waits for them.
    runtime.shutdown_background();
    result
}

async fn run_async(role: Role, daemon: Daemon) -> Result<(), NetError> {
    let endpoint = match &role {
        Role::Serve(config) => config.endpoint.clone(),
        Role::Connect(config) => config.endpoint.clone(),
    };
    let end = Arc::new(match role {
        Role::Serve(config) => End::Server(serve(config).await?),
        Role::Connect(config) => End::Client(connect(config).await?),
    });
    let signals = |kind| signal(kind).map_err(NetError::Runtime);
    let (mut term, mut int, mut hup) =
        (signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?, signals(SignalKind::hangup())?);
    let socket = daemon.status.as_deref().map(bind_status).transpose()?;
    if let Some(listener) = socket {
        tokio::spawn(answer(listener, end.clone(), daemon.render));
    }
    (daemon.ready)(&end.status());
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => {
                let peers = endpoint.peers.clone();
                let (reloaded, rules) = (tokio::task::spawn_blocking(move || peers.reload()).await, (daemon.reload)());
                match reloaded {
                    Ok(Ok(changes)) => info!(added = changes.added.len(), removed = changes.removed.len(), "authorized peers read again"),
                    Ok(Err(why)) => error!(%why, "authorized peers not read again: those known stay"),
                    Err(why) => error!(%why, "authorized peers not read again"),
                }
                endpoint.warn_if_nobody();
                match (rules, &*end) {
                    (Ok(Some(way_out)), End::Server(server)) => {
                        let (allow, listen) = (way_out.allow.len(), way_out.allow_listen.len());
                        server.set_way_out(way_out);
                        info!(allow, listen, "rules read again: they hold for connections from now on, open ones stay");
                    }
                    (Ok(_), _) => info!("forwards and proxies are as they were: they change with a restart"),
                    (Err(why), _) => error!(%why, "rules not read again: the earlier ones stay in force"),
                }
            }
        }
    }
    info!(limit_seconds = daemon.drain.as_secs(), "draining");
    tokio::select! {
        all = end.drain(daemon.drain) => if !all { warn!("flows were still open") },
        _ = term.recv() => warn!("not waiting any longer"),
        _ = int.recv() => warn!("not waiting any longer"),
    }
    // The peer hears of it.
    tokio::time::sleep(Duration::from_millis(100)).await;
    if let Some(path) = &daemon.status {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn bind_status(path: &Path) -> Result<UnixListener, NetError> {
    let failed = |source| NetError::Listen { bind: path.display().to_string(), source };
    // What an earlier process left behind is removed; one that still answers keeps its place, and so does what is no socket.
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() || std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(failed(io::ErrorKind::AddrInUse.into()));
        }
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Answers everyone who connects with the state, once the peers have told theirs.
async fn answer(listener: UnixListener, end: Arc<End>, render: fn(&Status) -> String) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let end = end.clone();
        tokio::spawn(async move {
            let asked = Instant::now();
            let mut status = end.status();
            let current = |status: &Status| {
                status.sessions.iter().all(|session| session.there.is_some_and(|(_, age)| age <= asked.elapsed()))
            };
            while !current(&status) && asked.elapsed() < PEER_TIME {
                tokio::time::sleep(Duration::from_millis(10)).await;
                status = end.status();
            }
            let _ = stream.write_all(render(&status).as_bytes()).await;
        });
    }
}

/// How long peers may take to tell their view before it is left out or old.
const PEER_TIME: Duration = Duration::from_secs(1);
