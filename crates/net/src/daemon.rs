//! Runs one end of a tunnel as a process: signals and the status socket.

use crate::admin::{Admin, AdminServer, Answers, Pages};
#[cfg(target_os = "linux")]
use crate::admin::{Site, Watched, of_node};
use crate::client::{ConnectConfig, Connection, connect};
use crate::egress::Egress;
use crate::endpoint::{Endpoint, NetError};
use crate::handshake::HandshakeError;
use crate::history::{History, Recording};
#[cfg(target_os = "linux")]
use crate::link::{LinkConfig, LinkError};
#[cfg(target_os = "linux")]
use crate::node::{Manifests, NodeConfig, NodeError, Taken};
use crate::server::{ServeConfig, Server, serve_on};
use crate::service;
use crate::status::{Document, Status};
#[cfg(target_os = "linux")]
use crate::status::{LinkStatus, NodeStatus};
use crate::supervisor::{Request, Supervisor};
use crate::threads::SessionThreads;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
#[cfg(target_os = "linux")]
use tokio::runtime::Runtime;
#[cfg(target_os = "linux")]
use tokio::signal::unix::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

/// Parameters of such a process.
pub struct Daemon {
    /// Path of the status socket: a Unix socket with mode 0600.
    pub status: Option<PathBuf>,
    /// How long open flows may take to end after SIGTERM or SIGINT. A second signal ends the wait.
    pub drain: Duration,
    /// Where it answers monitoring and browsers.
    pub admin: Option<Admin>,
    /// Makes the page of the admin address.
    pub pages: Pages,
    /// The file to record its history to.
    pub history: Option<PathBuf>,
    /// Formats the state for the status socket and the admin address.
    pub render: fn(&Document) -> String,
    /// Reads the egress rules again, on SIGHUP. `None` leaves them as they are. Authorized peers
    /// are read again in any case.
    pub reload: Box<dyn Fn() -> Result<Option<Egress>, String> + Send + Sync>,
    /// Called once the end listens.
    pub ready: Box<dyn FnOnce(&Status) + Send>,
}

/// Which end to run, and its parameters.
pub enum Role {
    /// The server.
    Serve(ServeConfig),
    /// The client.
    Connect(ConnectConfig),
}

enum TunnelEnd {
    Server(Server),
    Client(Connection),
}

impl TunnelEnd {
    fn status(&self) -> Status {
        match self {
            TunnelEnd::Server(server) => server.status(),
            TunnelEnd::Client(client) => client.status(),
        }
    }

    /// Waits until the other end refuses this one for good. A server has no such end.
    async fn refused(&self) -> Arc<HandshakeError> {
        match self {
            TunnelEnd::Server(_) => std::future::pending().await,
            TunnelEnd::Client(client) => client.refused().await,
        }
    }

    async fn give_way(&self) {
        match self {
            TunnelEnd::Server(server) => server.give_way().await,
            TunnelEnd::Client(client) => client.give_way().await,
        }
    }

    async fn drain(&self, limit: Duration) -> bool {
        match self {
            TunnelEnd::Server(server) => server.drain(limit).await,
            TunnelEnd::Client(client) => client.drain(limit).await,
        }
    }
}

/// Runs one end until SIGTERM or SIGINT, then drains it. A client that its server refuses for good is
/// drained, too: connections that an earlier session still carries may finish.
///
/// # Errors
/// [`NetError`] if it cannot start; [`NetError::Refused`].
pub fn run(role: Role, daemon: Daemon) -> Result<(), NetError> {
    // A client is one session at a time. A server's sessions have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NetError::Runtime)?;
    let store = match &role {
        Role::Serve(config) => config.endpoint.store.clone(),
        Role::Connect(config) => config.endpoint.store.clone(),
    };
    let result = runtime.block_on(run_async(role, daemon));
    if let Some(store) = store {
        store.close();
    }
    // Name look-ups may still be in progress; do not wait for them.
    runtime.shutdown_background();
    result
}

async fn run_async(role: Role, daemon: Daemon) -> Result<(), NetError> {
    let endpoint = match &role {
        Role::Serve(config) => config.endpoint.clone(),
        Role::Connect(config) => config.endpoint.clone(),
    };
    let mut supervisor = Supervisor::of_worker().map_err(NetError::Runtime)?;
    let end = Arc::new(match role {
        Role::Serve(config) => {
            let count = std::thread::available_parallelism().map_or(1, NonZero::get);
            let threads = SessionThreads::start(count).map_err(NetError::Runtime)?;
            TunnelEnd::Server(serve_on(config, threads).await?)
        }
        Role::Connect(config) => TunnelEnd::Client(connect(config).await?),
    });
    let signals = |kind| signal(kind).map_err(NetError::Runtime);
    let (mut term, mut int, mut hup) = (
        signals(SignalKind::terminate())?,
        signals(SignalKind::interrupt())?,
        signals(SignalKind::hangup())?,
    );
    let socket = daemon.status.as_deref().map(bind_status).transpose()?;
    let admin = bind_admin(daemon.admin.as_ref()).await?;
    let history = Arc::new(History::start(daemon.history));
    let document = |end: &Arc<TunnelEnd>| {
        let (end, history) = (end.clone(), history.clone());
        move || {
            let history = history.status();
            Document::Tunnel(Box::new(Status { history, ..end.status() }))
        }
    };
    let mut held = Held {
        recording: Some(Recording::start(history.clone(), document(&end))),
        status: daemon.status,
        admin: JoinSet::new(),
    };
    if let Some(listener) = socket {
        let (document, render) = (document(&end), daemon.render);
        tokio::spawn(answer(listener, move || render(&document())));
    }
    if let Some(admin) = admin {
        let (document, render) = (document(&end), daemon.render);
        let answers = Answers { document, render, history, pages: daemon.pages };
        held.admin.spawn(admin.run(answers));
    }
    service::warn_of_unused();
    (daemon.ready)(&end.status());
    let threads = match &*end {
        TunnelEnd::Server(server) => server.threads(),
        TunnelEnd::Client(_) => Vec::new(),
    };
    let mut watchdog = Some(service::ready("carries connections", threads));
    let refused = loop {
        let reload = tokio::select! {
            _ = term.recv() => break None,
            _ = int.recv() => break None,
            why = end.refused() => break Some(why),
            _ = hup.recv() => true,
            request = request_of(&mut supervisor) => matches!(request, Request::Reload),
        };
        if !reload {
            break None;
        }
        reload_files(&endpoint, &end, &daemon.reload).await;
    };
    info!(
        limit_seconds = daemon.drain.as_secs(),
        "draining: open connections may finish, no new ones are accepted; send the signal again to exit now"
    );
    match supervisor {
        Some(supervisor) => {
            // From now on, the manager hears of this service from the successor.
            watchdog = None;
            end.give_way().await;
            held.give_way().await;
            supervisor.gave_way().await;
        }
        None => service::stopping(),
    }
    tokio::select! {
        all = end.drain(daemon.drain) => if !all { warn!("time limit reached; closing the connections that are still open") },
        _ = term.recv() => warn!("second signal; closing the connections that are still open"),
        _ = int.recv() => warn!("second signal; closing the connections that are still open"),
    }
    drop(watchdog);
    held.finish().await;
    refused.map_or(Ok(()), |why| Err(NetError::Refused(why)))
}

/// The next request of a supervisor; never, if there is none.
async fn request_of(supervisor: &mut Option<Supervisor>) -> Request {
    match supervisor {
        Some(supervisor) => supervisor.request().await,
        None => std::future::pending().await,
    }
}

/// Reads peers, and rules or users, again.
async fn reload_files(
    endpoint: &Endpoint,
    end: &TunnelEnd,
    reload: &(dyn Fn() -> Result<Option<Egress>, String> + Send + Sync),
) {
    service::reloading();
    let peers = endpoint.peers.clone();
    let (reloaded, rules) = (tokio::task::spawn_blocking(move || peers.reload()).await, reload());
    match reloaded {
        Ok(Ok(changes)) => info!(
            added = changes.added.len(),
            removed = changes.removed.len(),
            "authorized peers reloaded"
        ),
        Ok(Err(why)) => {
            error!(%why, "authorized peers not reloaded; the earlier list stays in force");
        }
        Err(why) => error!(%why, "authorized peers not reloaded; the earlier list stays in force"),
    }
    endpoint.warn_if_no_peers();
    match (rules, end) {
        (Ok(Some(egress)), TunnelEnd::Server(server)) => {
            let (allow, listen) = (egress.allow.len(), egress.allow_listen.len());
            server.set_egress(egress);
            info!(allow, listen, "rules reloaded; they apply to new connections");
        }
        (Ok(_), _) => {
            info!("users of the proxy reloaded; restart to change forwards and proxies");
        }
        (Err(why), _) => error!(%why, "rules not reloaded; the earlier ones stay in force"),
    }
    service::reloaded();
}

/// What a process has that a successor needs, too.
struct Held {
    recording: Option<Recording>,
    /// Where its status socket is.
    status: Option<PathBuf>,
    admin: JoinSet<()>,
}

impl Held {
    /// Leaves it all to a successor. The status socket gets another name.
    async fn give_way(&mut self) {
        if let Some(path) = &mut self.status {
            let process = std::process::id();
            let other = path.with_extension(format!("draining-{process}.sock"));
            if let Err(error) = std::fs::rename(&*path, &other) {
                warn!(%error, socket = %path.display(), "the status socket cannot be renamed");
            }
            *path = other;
        }
        self.admin.shutdown().await;
        if let Some(recording) = self.recording.take() {
            recording.finish().await;
        }
    }

    async fn finish(self) {
        if let Some(recording) = self.recording {
            recording.finish().await;
        }
        // Time for the last messages to reach the peer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(path) = &self.status {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Runs one end of a packet link until SIGTERM or SIGINT. `ready` is called once it has its port and
/// its device.
///
/// # Errors
/// [`LinkError`] if it cannot start, or if its device or port fails.
#[cfg(target_os = "linux")]
pub fn run_link(
    config: LinkConfig,
    status: Option<&Path>,
    (admin, pages): (Option<Admin>, Pages),
    history: Option<PathBuf>,
    render: fn(&Document) -> String,
    ready: impl FnOnce(&LinkStatus),
) -> Result<(), LinkError> {
    let runtime = two_threads()?;
    let result = runtime.block_on(async {
        let mut stop = Stop::listen()?;
        let socket = status.map(bind_status).transpose()?;
        let admin = bind_admin(admin.as_ref()).await?;
        let link = Arc::new(crate::link::start(config).await?);
        let history = Arc::new(History::start(history));
        let document = || {
            let (link, history) = (link.clone(), history.clone());
            move || {
                let history = history.status();
                Document::Link(Box::new(LinkStatus { history, ..link.status() }))
            }
        };
        let recording = Recording::start(history.clone(), document());
        let mut answering = JoinSet::new();
        if let Some(listener) = socket {
            let document = document();
            answering.spawn(answer(listener, move || render(&document())));
        }
        if let Some(admin) = admin {
            let (document, history) = (document(), history.clone());
            answering.spawn(admin.run(Answers { document, render, history, pages }));
        }
        ready(&link.status());
        let watchdog = service::ready("carries packets", Vec::new());
        stop.wait().await;
        service::stopping();
        drop(watchdog);
        info!("stopping");
        recording.finish().await;
        // Their clones of the link go with them.
        answering.shutdown().await;
        if let Some(link) = Arc::into_inner(link) {
            link.stop().await;
        }
        if let Some(path) = status {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    });
    runtime.shutdown_background();
    result
}

/// The runtime of a process that carries packets, or that plans: a thread for each direction, and
/// control takes little.
#[cfg(target_os = "linux")]
pub(crate) fn two_threads() -> Result<Runtime, NetError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().map_err(NetError::Runtime)
}

/// The signals that end a process.
#[cfg(target_os = "linux")]
pub(crate) struct Stop([Signal; 2]);

#[cfg(target_os = "linux")]
impl Stop {
    /// Takes them from now on, instead of being ended by them.
    pub(crate) fn listen() -> Result<Stop, NetError> {
        let listen = |kind| signal(kind).map_err(NetError::Runtime);
        Ok(Stop([listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?]))
    }

    /// Waits for one of them.
    pub(crate) async fn wait(&mut self) {
        let [term, int] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

pub(crate) fn bind_status(path: &Path) -> Result<UnixListener, NetError> {
    let failed = |source| NetError::Listen { bind: path.display().to_string(), source };
    // Remove the socket of an earlier process. Refuse if a process still answers on it, or if the
    // file is not a socket.
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

pub(crate) async fn bind_admin(admin: Option<&Admin>) -> Result<Option<AdminServer>, NetError> {
    let Some(admin) = admin else { return Ok(None) };
    let server = AdminServer::bind(admin)
        .await
        .map_err(|source| NetError::Listen { bind: admin.listen.to_string(), source })?;
    info!(address = %server.address(), "metrics and status over HTTP");
    Ok(Some(server))
}

/// Runs a node of a network until SIGTERM or SIGINT. `site` formats its state for the status socket, and
/// for `admin`.
/// On SIGHUP, `reload` reads the manifests of a new plan, which is brought in while packets flow.
///
/// # Errors
/// [`NodeError`] if it cannot start.
#[cfg(target_os = "linux")]
pub fn run_node(
    config: NodeConfig,
    status: Option<&Path>,
    (admin, site): (Option<Admin>, Site<NodeStatus>),
    reload: impl Fn() -> Result<Manifests, String>,
    ready: impl FnOnce(&NodeStatus),
) -> Result<(), NodeError> {
    let failed = |error: NetError| NodeError::Link(error.into());
    let runtime = two_threads().map_err(failed)?;
    let result = runtime.block_on(async {
        let mut stop = Stop::listen().map_err(failed)?;
        let hup = signal(SignalKind::hangup());
        let mut hup = hup.map_err(|error| failed(NetError::Runtime(error)))?;
        let socket = status.map(bind_status).transpose().map_err(failed)?;
        let admin = bind_admin(admin.as_ref()).await.map_err(failed)?;
        let (secret, controller) = (config.secret.clone(), config.controller.clone());
        let node = Arc::new(crate::node::start(config)?);
        let mut answering = JoinSet::new();
        if let Some(listener) = socket {
            let node = node.clone();
            answering.spawn(answer(listener, move || (site.status)(&node.status())));
        }
        if let Some(admin) = admin {
            let node = node.clone();
            let state = move || Some(node.status());
            answering.spawn(admin.run(Watched { state, site, metrics: of_node }));
        }
        answering.spawn(crate::node::follow(node.clone(), secret, controller));
        ready(&node.status());
        let watchdog = service::ready("carries packets", Vec::new());
        loop {
            tokio::select! {
                () = stop.wait() => break,
                _ = hup.recv() => {
                    service::reloading();
                    take(&node, &reload());
                    service::reloaded();
                }
            }
        }
        service::stopping();
        drop(watchdog);
        info!("stopping");
        answering.shutdown().await;
        if let Some(node) = Arc::into_inner(node) {
            node.stop().await;
        }
        if let Some(path) = status {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    });
    runtime.shutdown_background();
    result
}

/// Answers every connection with the state as it is known here. Nothing is asked of the peers.
async fn answer(listener: UnixListener, render: impl Fn() -> String) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let text = render();
        tokio::spawn(async move {
            let _ = stream.write_all(text.as_bytes()).await;
        });
    }
}

/// Gives a node the plan that was read again, and says what became of it.
#[cfg(target_os = "linux")]
fn take(node: &crate::node::RunningNode, read: &Result<Manifests, String>) {
    let manifests = match read {
        Ok(manifests) => manifests,
        Err(why) => {
            return error!(%why, "manifests not reloaded; the node goes on with its plan");
        }
    };
    let plan = manifests.version();
    match node.take(manifests) {
        Ok(Taken::Known) => info!(plan, "the node has this plan already"),
        Ok(Taken::Begun) => info!(plan, "bringing in a new plan; packets go on"),
        Ok(Taken::Waits) => info!(plan, "a new plan waits for the one before"),
        Ok(Taken::Replaced) => {
            warn!(plan, "this node has missed a plan; its caches begin anew");
        }
        Err(why) => error!(%why, plan, "new plan refused; the node goes on with its plan"),
    }
}
