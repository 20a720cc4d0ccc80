//! A node's connection with a controller: `docs/NETWORK.md`, section 6.

use super::{Manifests, PlanId, Plans, RunningNode};
use crate::controller::wire;
use crate::handshake::{HANDSHAKE_TIMEOUT, HandshakeError, Stage};
use crate::keys::{AuthorizedPeers, Peer, PublicKey, SecretKey};
use crate::log_limit::Changes;
use crate::sockets::{dial, lookup};
use crate::sync::lock;
use crate::target::Target;
use crate::tls::{self, Credential};
use oncewire_plan::control::{
    FORMAT, FromNode, Join, MAX_PAIRS, MAX_TO_NODE, NodeState, Offer, OfferError, PlanRef, Report,
    ToNode, part_hash, plain,
};
use oncewire_plan::manifest::{MAX_PART, NodePart, PartError, Plan};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::TlsConnector;
use tracing::{error, info, warn};

/// How often a node looks whether its plans or its neighbors have changed.
const LOOK: Duration = Duration::from_millis(50);
/// Longest time without a message to the controller.
const SAY: Duration = Duration::from_secs(5);
/// Shortest and longest pause before the next attempt to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Bytes of the hash after a part on disk.
const HASH: usize = 8;
/// The longest pause if there are several controllers.
const SEVERAL: Duration = Duration::from_secs(2);
/// Reports come no faster than this, whatever the controller says.
const LEAST_REPORT: Duration = Duration::from_secs(1);

/// A controller, and what a node keeps of it.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Its key, and where it is. Of several, the node tries one after the other until one answers.
    pub controllers: Vec<(PublicKey, Target)>,
    /// File with the node's part of the newest plan that it has taken.
    pub plan: PathBuf,
    /// Bytes of the store with which the node measures what enters.
    pub measure: u64,
}

/// A plan on disk that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedPlanError {
    /// The file.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// Its content.
    #[error("{path}: {source}")]
    Part {
        /// Its path.
        path: String,
        /// What is wrong with it.
        source: PartError,
    },
    /// Its content has changed since it was written.
    #[error("{0}: the plan in it has been damaged, or is none")]
    Damaged(String),
}

/// Why there is no connection with the controller.
#[derive(Debug, thiserror::Error)]
enum MemberError {
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("the connection ended: {0}")]
    Io(#[from] io::Error),
    #[error("the controller refuses this node: {0}")]
    Refused(String),
    #[error("an older controller, of epoch {told}; one of {known} has led since")]
    Older { told: u64, known: u64 },
    #[error(transparent)]
    Message(#[from] oncewire_plan::control::MessageError),
    #[error(transparent)]
    Offer(#[from] OfferError),
}

/// The state of the connection, for the node's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberStatus {
    /// Where the controller is.
    pub address: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Why the last attempt failed, unless it is connected.
    pub last_failure: Option<String>,
}

/// Reads the plan that a node saved; none if it has saved none.
///
/// # Errors
/// [`SavedPlanError`].
pub fn saved_plan(path: &Path) -> Result<Option<NodePart>, SavedPlanError> {
    let shown = || path.display().to_string();
    let read = || {
        if fs::metadata(path)?.len() > (MAX_PART + HASH) as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::read(path)
    };
    let bytes = match read() {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SavedPlanError::Read { path: shown(), source }),
    };
    let split = bytes.split_last_chunk::<HASH>();
    let part = split.filter(|(part, hash)| part_hash(part).to_le_bytes() == **hash);
    let (part, _) = part.ok_or_else(|| SavedPlanError::Damaged(shown()))?;
    let part = NodePart::read(part);
    part.map(Some).map_err(|source| SavedPlanError::Part { path: shown(), source })
}

/// Replaces the saved plan, so that either the old or the new one is there whatever happens.
fn save_plan(path: &Path, part: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(part)?;
    file.write_all(&part_hash(part).to_le_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// The digest of a plan, as nodes and controllers tell plans apart.
pub fn plan_digest(plan: &Plan) -> u64 {
    Manifests::of_plan(plan).map_or(0, |manifests| manifests.id().digest)
}

fn reference(plan: PlanId) -> PlanRef {
    PlanRef { version: plan.version, digest: plan.digest }
}

/// Connects a node with its controller, again and again, until it is aborted.
pub(super) struct Membership {
    pub(super) config: MemberConfig,
    pub(super) secret: SecretKey,
    pub(super) node: Arc<RunningNode>,
    pub(super) status: Arc<Mutex<MemberStatus>>,
}

impl Membership {
    pub(super) async fn run(self) {
        let mut failures: Vec<Changes> = Vec::new();
        failures.resize_with(self.config.controllers.len(), Changes::default);
        // Where another may lead soon, it is looked for often.
        let most = if failures.len() > 1 { SEVERAL } else { RETRY.1 };
        let mut pause = RETRY.0;
        loop {
            for ((key, address), failures) in self.config.controllers.iter().zip(&mut failures) {
                let began = Instant::now();
                let Err(error) = self.attempt(*key, address).await;
                if failures.pass(&error.to_string(), Instant::now()) {
                    warn!(controller = %address, %error, "no controller; packets go on with the plan that is there");
                }
                {
                    let mut status = lock(&self.status);
                    status.address = address.to_string();
                    (status.connected, status.last_failure) = (false, Some(error.to_string()));
                }
                if began.elapsed() > RETRY.1 {
                    pause = RETRY.0;
                }
            }
            // Random, so that nodes do not come back in step.
            let spread = crate::endpoint::random().map_or(0, |[random, ..]| random % 64) as u32;
            tokio::time::sleep(pause * (64 + spread) / 96).await;
            pause = (pause * 2).min(most);
        }
    }

    /// One connection, until it ends.
    async fn attempt(
        &self,
        key: PublicKey,
        address: &Target,
    ) -> Result<std::convert::Infallible, MemberError> {
        let addresses = lookup(address.host(), address.port())
            .await
            .map_err(|source| HandshakeError::Resolve { server: address.clone(), source })?;
        let only = AuthorizedPeers::new([Peer::from(key)]);
        let config = tls::client_config_for(&self.secret, &only, Credential::RawKey, wire::ALPN)
            .map_err(HandshakeError::Peer)?;
        let stream = dial(&addresses, HANDSHAKE_TIMEOUT)
            .await
            .map_err(|source| HandshakeError::Io { stage: Stage::Tcp, source })?;
        let handshake = TlsConnector::from(config).connect(tls::server_name(), stream);
        let limit = HANDSHAKE_TIMEOUT;
        let stream = tokio::time::timeout(limit, handshake)
            .await
            .map_err(|_| HandshakeError::TimedOut { stage: Stage::Tls, limit })?
            .map_err(|error| HandshakeError::of_tls(error, Credential::RawKey))?;
        let (read, mut write) = tokio::io::split(stream);
        let mut incoming = wire::Incoming::new(read, MAX_TO_NODE);

        let mut said = self.state();
        let join = Join {
            format: FORMAT,
            name: self.node.name.clone(),
            network: self.node.digest.clone(),
            memory: self.node.memory,
            encodings: self.node.speeds[0],
            operations: self.node.speeds[1],
            agent: self.node.agent.clone(),
            part: lock(&self.node.part).as_deref().map(part_hash),
            state: said.clone(),
        };
        wire::write(&mut write, &FromNode::Join(join).write()).await?;
        let (mut spoke, mut reported) = (Instant::now(), Instant::now());
        let mut every: Option<Duration> = None;
        loop {
            let message = tokio::select! {
                message = incoming.next() => Some(message?),
                () = tokio::time::sleep(LOOK) => None,
            };
            match message.map(|bytes| ToNode::read(&bytes)).transpose()? {
                Some(ToNode::Accept { report, epoch }) => {
                    self.lead_by(epoch)?;
                    every = Some(Duration::from_millis(report).max(LEAST_REPORT));
                    info!(controller = %address, "joined the controller");
                    {
                        let mut status = lock(&self.status);
                        status.address = address.to_string();
                        (status.connected, status.last_failure) = (true, None);
                    }
                    said = self.state();
                    wire::write(&mut write, &FromNode::State(said.clone()).write()).await?;
                    spoke = Instant::now();
                }
                Some(ToNode::Offer(offer)) => {
                    if let Some(refusal) = self.take(offer).await? {
                        wire::write(&mut write, &refusal.write()).await?;
                    }
                }
                Some(ToNode::Refuse { why }) => return Err(MemberError::Refused(plain(&why))),
                None => {}
            }
            // Nothing is said before the controller has welcomed this node.
            let Some(every) = every else { continue };
            let state = self.state();
            if state != said || spoke.elapsed() >= SAY {
                wire::write(&mut write, &FromNode::State(state.clone()).write()).await?;
                (said, spoke) = (state, Instant::now());
            }
            if reported.elapsed() >= every {
                reported = Instant::now();
                if let Some((counts, carried)) = self.node.measured(MAX_PAIRS) {
                    let (entered, encoded) = (carried.entered_bytes, carried.encoded_bytes);
                    let report = FromNode::Report(Report::new(counts, entered, encoded));
                    wire::write(&mut write, &report.write()).await?;
                }
                let carried = FromNode::Carried(self.node.carried());
                wire::write(&mut write, &carried.write()).await?;
            }
        }
    }

    /// A controller of this epoch leads, unless the node has seen a later one.
    fn lead_by(&self, epoch: Option<u64>) -> Result<(), MemberError> {
        let Some(told) = epoch else { return Ok(()) };
        let known = self.node.epoch.fetch_max(told, Relaxed);
        if told < known { Err(MemberError::Older { told, known }) } else { Ok(()) }
    }

    /// Takes a plan, and saves it; or says why not.
    ///
    /// # Errors
    /// The offer's. This node has no part then, so that the next connection brings it whole.
    async fn take(&self, offer: Offer) -> Result<Option<FromNode>, OfferError> {
        let (node, path) = (self.node.clone(), self.config.plan.clone());
        // Reading a large part takes a while, and so does the disk.
        let work = tokio::task::spawn_blocking(move || {
            let base = lock(&node.part).take();
            let bytes = offer.open(base.as_deref())?;
            let refused = |version: u64, why: &dyn std::fmt::Display| {
                error!(plan = version, %why, "new plan refused; the node goes on with its plan");
                Some(FromNode::Refused { version, why: plain(&why.to_string()) })
            };
            let part = match NodePart::read(&bytes) {
                Ok(part) => part,
                Err(error) => return Ok(refused(0, &error)),
            };
            let taken = node.take_part(&part);
            *lock(&node.part) = Some(bytes.clone());
            match taken {
                Ok(taken) => info!(plan = part.version, ?taken, "a new plan from the controller"),
                Err(error) => return Ok(refused(part.version, &error)),
            }
            if let Err(error) = save_plan(&path, &bytes) {
                let path = path.display();
                warn!(%path, %error, "the plan is not saved: the node will start with an older one");
            }
            Ok(None)
        });
        // A task that has ended otherwise has left no part here.
        work.await.unwrap_or(Err(OfferError::Damaged))
    }

    fn state(&self) -> NodeState {
        let (Plans { current, next, waiting, settled }, down) = self.node.plans_and_down();
        NodeState {
            current: reference(current),
            next: next.map(reference),
            waiting: waiting.map(reference),
            settled,
            down,
        }
    }
}
