//! The controller of a network on sockets: `oncewire controller`.
//!
//! `oncewire_plan::control` decides; this has the connections of nodes, the store, the clock, and the
//! operator's socket. `docs/NETWORK.md`, section 6, has every message.
//!
//! ```text
//! node -> TLS -> task of the connection -> events -> one task: Controller::step
//!   -> messages, or the store, or the planner on a thread of its own -> events
//! ```

#[cfg(feature = "etcd")]
mod etcd;
mod explain;
mod operator;
mod place;
mod run;
mod store;
pub(crate) mod wire;

pub use explain::{Hop, Why};
pub use operator::{Answer, Request, Status};
pub(crate) use operator::{Link as LinkState, Node as NodeState};
pub use place::{ControllerStoreError, EtcdAt, StoreAt};
pub use run::run;

use crate::endpoint::NetError;
use crate::handshake::{HANDSHAKE_TIMEOUT, HandshakeError};
use crate::keys::{AuthorizedPeers, SecretKey};
use crate::listener::Bind;
use crate::log_limit::LogLimit;
use crate::node::{RunningNetwork, plan_digest};
use crate::sockets;
use crate::sync::lock;
use crate::tls::{self, Credential, ServerTls};
use crate::unauthenticated::PendingConnections;
use oncewire_plan::Unwatched;
use oncewire_plan::control::{
    Action, Controller, FromNode, Input, MAX_FROM_NODE, Record, Settings, ToNode,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Disk, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// Handshakes in progress at once.
const MOST_HANDSHAKES: usize = 256;
/// Messages that wait for a node at most: one that does not read is dropped.
const MOST_WAITING: usize = 8;
/// Events that wait for the controller; connections wait beyond that.
const MOST_EVENTS: usize = 64;
/// How often time passes: what is waited for after a link went down is longer.
const TICK: Duration = Duration::from_millis(50);

/// Parameters of a controller.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// Its key.
    pub secret: SecretKey,
    /// The network: its nodes' keys are those that may connect.
    pub network: RunningNetwork,
    /// Where nodes connect.
    pub listen: Bind,
    /// What keeps its state.
    pub store: StoreAt,
    /// Time between plans while traffic stays as it is.
    pub replan: Duration,
    /// Time between reports of nodes.
    pub report: Duration,
    /// Bytes for packets of nodes that do not say how many they have.
    pub memory: u64,
    /// Program and version, for the status.
    pub agent: String,
}

/// Why a controller cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The port, TLS or threads.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Its store.
    #[error("{path}: {source}")]
    Store {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: ControllerStoreError,
    },
    /// The store is of another network.
    #[error("{path}: its plan is of network {stored}, and the topology is of {given}")]
    OtherNetwork {
        /// The file.
        path: String,
        /// Network of the stored plan.
        stored: String,
        /// Network of the topology.
        given: String,
    },
    /// Nobody could connect.
    #[error("no node of the topology has a key: nobody could connect")]
    NoKeys,
}

/// A controller that runs. It stops when this is dropped.
pub struct RunningController {
    address: SocketAddr,
    events: mpsc::Sender<Event>,
    tasks: tokio::task::JoinSet<()>,
}

/// What the one task is told.
enum Event {
    /// A node has proved its key.
    Connected(usize, u64, mpsc::Sender<ToNode>),
    Message(usize, u64, FromNode),
    Gone(usize, u64),
    Input(Input),
    Operator(Request, oneshot::Sender<Answer>),
}

/// Starts a controller that keeps its state in a file. Needs a Tokio runtime with timers and I/O.
///
/// # Errors
/// [`ControllerError`].
pub async fn start(config: ControllerConfig) -> Result<RunningController, ControllerError> {
    let failed = |source| ControllerError::Store { path: config.store.to_string(), source };
    let StoreAt::File(path) = &config.store else {
        return Err(failed(ControllerStoreError::NoEtcd));
    };
    let (disk, record) = Disk::open(path).map_err(failed)?;
    begin(config, Store::File(Arc::new(disk)), record, None).await
}

/// Starts a controller with what is in its store; `epoch` is that of its leadership, if there are
/// others.
async fn begin(
    config: ControllerConfig,
    store: Store,
    record: Record,
    epoch: Option<u64>,
) -> Result<RunningController, ControllerError> {
    let path = config.store.to_string();
    let given = &config.network.map().name;
    if let Some(plan) = &record.plan
        && plan.network() != given
    {
        let (stored, given) = (plan.network().into(), given.clone());
        return Err(ControllerError::OtherNetwork { path, stored, given });
    }
    let peers = AuthorizedPeers::new(config.network.peers());
    if peers.is_empty() {
        return Err(ControllerError::NoKeys);
    }
    let tls = ServerTls::new(&config.secret, &peers).map_err(NetError::Tls)?.speaking(wire::ALPN);
    let failed = |source| NetError::Listen { bind: config.listen.to_string(), source };
    let listener = sockets::listen(&config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut settings = Settings::new(config.network.digest(), plan_digest);
    settings.replan = config.replan.as_nanos().try_into().unwrap_or(u64::MAX);
    settings.report = config.report.as_nanos().try_into().unwrap_or(u64::MAX);
    settings.memory = config.memory;
    settings.epoch = epoch;
    let (map, ends) = (config.network.map().clone(), config.network.ends());
    let controller = Controller::new(settings, map, ends, record, 0);
    let (events, incoming) = mpsc::channel(MOST_EVENTS);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(accept(listener, tls, Arc::new(config.network), events.clone()));
    let desk = Desk {
        controller,
        store,
        started: Instant::now(),
        nodes: HashMap::new(),
        events: events.clone(),
        address,
        key: config.secret.public().to_string(),
        agent: config.agent,
    };
    tasks.spawn(desk.run(incoming));
    Ok(RunningController { address, events, tasks })
}

impl RunningController {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers an operator.
    pub async fn answer(&self, request: Request) -> Answer {
        self.desk().answer(request).await
    }

    /// For those who answer operators.
    fn desk(&self) -> ToDesk {
        ToDesk(self.events.clone())
    }

    /// Stops. What was stored is finished when it starts again.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// A way to the one task.
#[derive(Clone)]
struct ToDesk(mpsc::Sender<Event>);

impl ToDesk {
    async fn answer(&self, request: Request) -> Answer {
        let (sender, receiver) = oneshot::channel();
        let _ = self.0.send(Event::Operator(request, sender)).await;
        receiver.await.unwrap_or_else(|_| Answer::Failed("the controller is stopping".into()))
    }
}

/// The controller that leads here, or why there is none.
#[derive(Clone)]
pub(crate) struct Seat(Arc<Mutex<Result<ToDesk, String>>>);

impl Seat {
    fn empty(why: &str) -> Seat {
        Seat(Arc::new(Mutex::new(Err(why.into()))))
    }

    fn set(&self, desk: Result<ToDesk, String>) {
        *lock(&self.0) = desk;
    }

    pub(crate) async fn answer(&self, request: Request) -> Answer {
        let desk = lock(&self.0).clone();
        match desk {
            Ok(desk) => desk.answer(request).await,
            Err(why) => Answer::Failed(format!("this controller waits: {why}")),
        }
    }
}

/// Accepts connections of nodes.
async fn accept(
    listener: TcpListener,
    tls: ServerTls,
    network: Arc<RunningNetwork>,
    events: mpsc::Sender<Event>,
) {
    let pending = PendingConnections::new(MOST_HANDSHAKES);
    let refusals = Arc::new(LogLimit::new());
    let mut number = 0;
    loop {
        let stream = sockets::accept(&listener).await;
        number += 1;
        let (tls, network, events, refusals) =
            (tls.clone(), network.clone(), events.clone(), refusals.clone());
        pending.admit(async move {
            let from = stream.peer_addr();
            match handshake(stream, &tls, &network).await {
                Ok((stream, node)) => {
                    tokio::spawn(serve(stream, node, number, events));
                }
                Err(error) => {
                    if refusals.pass().is_some() {
                        let from = from.map_or_else(|_| "?".into(), |from| from.to_string());
                        warn!(from, %error, "a connection was refused");
                    }
                }
            }
        });
    }
}

type Stream = tokio_rustls::server::TlsStream<TcpStream>;

async fn handshake(
    stream: TcpStream,
    tls: &ServerTls,
    network: &RunningNetwork,
) -> Result<(Stream, usize), String> {
    let config = tls.config().map_err(|error| error.to_string())?;
    let accepted = TlsAcceptor::from(config).accept(stream);
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, accepted)
        .await
        .map_err(|_| "no TLS handshake in time".to_owned())?
        .map_err(|error| HandshakeError::of_tls(error, Credential::RawKey).to_string())?;
    let connection = stream.get_ref().1;
    let key = tls::shown_key(connection.peer_certificates().unwrap_or_default());
    let key = key.map_err(|error| error.to_string())?;
    if connection.alpn_protocol() != Some(wire::ALPN) {
        return Err("the other end does not speak oncewire-control/2".into());
    }
    // TLS has checked that it is one of them.
    let node = network.of_key(&key).ok_or("the key is no node's")?;
    Ok((stream, node))
}

/// Carries the messages of one connection until it ends.
async fn serve(stream: Stream, node: usize, number: u64, events: mpsc::Sender<Event>) {
    let (read, mut write) = tokio::io::split(stream);
    let mut incoming = wire::Incoming::new(read, MAX_FROM_NODE);
    let (sender, mut outgoing) = mpsc::channel::<ToNode>(MOST_WAITING);
    if events.send(Event::Connected(node, number, sender)).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            message = incoming.next() => {
                let message = match message {
                    Ok(bytes) => FromNode::read(&bytes),
                    Err(_) => break,
                };
                let Ok(message) = message.inspect_err(|error| {
                    warn!(node, %error, "a node breaks the protocol");
                }) else {
                    break;
                };
                if events.send(Event::Message(node, number, message)).await.is_err() {
                    return;
                }
            }
            message = outgoing.recv() => {
                // The connection was replaced, or the node is refused: what was to be said is said.
                let Some(message) = message else { break };
                if wire::write(&mut write, &message.write()).await.is_err() {
                    break;
                }
            }
        }
    }
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut write).await;
    let _ = events.send(Event::Gone(node, number)).await;
}

/// The one task that drives the controller.
struct Desk {
    controller: Controller,
    store: Store,
    started: Instant,
    /// The newest connection of each node.
    nodes: HashMap<usize, (u64, mpsc::Sender<ToNode>)>,
    events: mpsc::Sender<Event>,
    address: SocketAddr,
    key: String,
    agent: String,
}

impl Desk {
    async fn run(mut self, mut incoming: mpsc::Receiver<Event>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = incoming.recv() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                _ = ticks.tick() => self.step(Input::Tick),
            }
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Connected(node, number, sender) => {
                // A node has one connection. The one before ends with its sender.
                if self.nodes.insert(node, (number, sender)).is_some() {
                    self.step(Input::Gone(node));
                }
            }
            Event::Message(node, number, message) => {
                if self.nodes.get(&node).is_some_and(|one| one.0 == number) {
                    self.step(Input::From(node, message));
                }
            }
            Event::Gone(node, number) => {
                if self.nodes.get(&node).is_some_and(|one| one.0 == number) {
                    self.nodes.remove(&node);
                    self.step(Input::Gone(node));
                }
            }
            Event::Input(input) => self.step(input),
            Event::Operator(request, answer) => {
                let said = self.operate(&request);
                let _ = answer.send(said);
            }
        }
    }

    fn step(&mut self, input: Input) {
        let (mut actions, mut gone) = (Vec::new(), Vec::new());
        self.controller.step(self.now(), input, &mut actions);
        for action in actions {
            match action {
                Action::Send(node, message) => {
                    let waits = self.nodes.get(&node).is_some_and(|one| {
                        matches!(one.1.try_send(message), Err(mpsc::error::TrySendError::Full(_)))
                    });
                    // It does not read. It will come again, and is offered the plan then.
                    gone.extend(waits.then_some(node));
                }
                Action::Close(node) => {
                    self.nodes.remove(&node);
                }
                Action::Store(text) => {
                    let (store, events) = (self.store.clone(), self.events.clone());
                    tokio::spawn(async move {
                        let written = store.write(text).await.map_err(|error| error.to_string());
                        let input = written.map_or_else(Input::NotStored, |()| Input::Stored);
                        let _ = events.send(Event::Input(input)).await;
                    });
                }
                Action::Ask(question) => {
                    let events = self.events.clone();
                    tokio::spawn(async move {
                        let work = tokio::task::spawn_blocking(move || question.answer(&Unwatched));
                        let answer = match work.await {
                            Ok(answer) => answer.map(Box::new).map_err(|error| error.to_string()),
                            Err(error) => Err(error.to_string()),
                        };
                        let _ = events.send(Event::Input(Input::Answered(answer))).await;
                    });
                }
                Action::Note(text, true) => warn!("{text}"),
                Action::Note(text, false) => info!("{text}"),
            }
        }
        for node in gone {
            self.nodes.remove(&node);
            self.step(Input::Gone(node));
        }
    }
}
