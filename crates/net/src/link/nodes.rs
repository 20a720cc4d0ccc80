//! The port of a node: hops to its neighbors, and its access device. `net::node` says what a packet is;
//! this gives it the link's handshake, seal and acknowledgments.

use super::device;
use super::flow::{self, AFTER_ERROR, BACKLOG, Received, Scratch};
use super::peers::{AssociationId, Keyed, Routes};
use super::socket::{Buffers, Kind, ToQuic};
use super::status::count;
use super::{LinkConfig, LinkError, LinkStatus, Shared, Task, bind, connect};
use crate::node::{Machine, Manifests, NodeCounters, Plans, SetupError, Step, Taken};
use crate::sync::lock;
use oncewire_packet::offload::MAX_PACKET;
use oncewire_plan::control::Carried;
use oncewire_plan::manifest::NodePart;
use oncewire_plan::measure::Counts;
use oncewire_session::link::{Batch, Feedback, NodeKind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Most records or packets that are taken before what they cause is sent.
const MOST_STEPS: usize = 4 * BACKLOG;
/// How often a node sees to its plans.
const TICK: Duration = Duration::from_millis(200);

/// A node's hops while it runs. They stop when this is dropped.
pub(crate) struct Hops {
    shared: Arc<Shared>,
    machine: Arc<Mutex<Machine>>,
    endpoint: quinn::Endpoint,
    control: Vec<Task>,
    carrying: Task,
}

impl Hops {
    /// Opens the port and the access device, if there is one, and carries packets as `machine` says.
    /// The peers are its neighbors, in their order. Needs a Tokio runtime with timers and I/O.
    pub(crate) fn start(
        config: LinkConfig,
        has_access: bool,
        machine: Machine,
        alpn: Vec<u8>,
    ) -> Result<Hops, LinkError> {
        let (port, to_quic, quic) = bind(config.listen)?;
        let device = match has_access {
            true => device::open_plain(&config.device)?,
            false => device::Device::None,
        };
        let shared = Shared::new(config, Routes::default(), port, device, (alpn, true));
        let shared = Arc::new(shared);
        let (endpoint, control) = connect(&shared, quic)?;
        let machine = Arc::new(Mutex::new(machine));
        let carrier = Carrier {
            shared: shared.clone(),
            machine: machine.clone(),
            to: shared.peers.iter().map(|_| To::default()).collect(),
            active: Vec::new(),
            steps: Vec::new(),
            received: Received::default(),
            feedback: Feedback::default(),
            tick: Instant::now(),
            scratch: Scratch::new(&shared),
            batch: Batch::default(),
        };
        let carrying = tokio::spawn(carrier.run(to_quic));
        Ok(Hops { shared, machine, endpoint, control, carrying })
    }

    /// The state of the hops, what the node has carried, the bytes and packets that it caches, and its
    /// plans.
    pub(crate) fn status(&self) -> (LinkStatus, NodeCounters, (u64, u64), Plans) {
        let status = self.shared.status();
        let machine = lock(&self.machine);
        (status, machine.counters(), machine.cached(), machine.plans())
    }

    /// Takes a new plan.
    pub(crate) fn take(&self, manifests: &Manifests) -> Result<Taken, SetupError> {
        lock(&self.machine).take(manifests)
    }

    /// Takes the part of a controller's plan.
    pub(crate) fn take_part(&self, part: &NodePart) -> Result<Taken, SetupError> {
        lock(&self.machine).take_part(part)
    }

    /// What was measured since the last time, with the `most` largest pairs, and counters.
    pub(crate) fn measured(&self, most: usize) -> Option<(Counts, NodeCounters)> {
        let now = self.shared.started.elapsed().as_nanos() as u64;
        let mut machine = lock(&self.machine);
        let counts = machine.measured(now, most)?;
        Some((counts, machine.counters()))
    }

    /// What was carried since the last time.
    pub(crate) fn carried(&self) -> Carried {
        let now = self.shared.started.elapsed().as_nanos() as u64;
        lock(&self.machine).carried(now)
    }

    /// Tells the neighbors that this node stops, and stops.
    pub(crate) async fn stop(self) {
        self.control.iter().for_each(Task::abort);
        self.endpoint.close(quinn::VarInt::from_u32(0), b"the other end has stopped");
        // The task still feeds QUIC.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
    }
}

impl Drop for Hops {
    fn drop(&mut self) {
        self.control.iter().chain([&self.carrying]).for_each(Task::abort);
    }
}

/// What is on its way to a neighbor.
#[derive(Default)]
struct To {
    /// Keys of the current batch; `None` while it has nothing for this neighbor.
    keyed: Option<Arc<Keyed>>,
    /// When something is to be sent without packets.
    due: Option<Instant>,
    /// The newest association: another one means that the neighbor has restarted, or both have been
    /// apart for so long that it might have.
    association: Option<AssociationId>,
}

/// The one task that carries packets. Whatever one node sends to another stays in order.
struct Carrier {
    shared: Arc<Shared>,
    machine: Arc<Mutex<Machine>>,
    to: Vec<To>,
    /// Neighbors with something in the current batch.
    active: Vec<usize>,
    steps: Vec<Step>,
    received: Received,
    feedback: Feedback,
    /// When it sees to its plans next.
    tick: Instant,
    scratch: Scratch,
    batch: Batch,
}

impl Carrier {
    async fn run(mut self, to_quic: ToQuic) {
        let shared = self.shared.clone();
        let (mut buffers, mut frame) = (Buffers::default(), vec![0; MAX_PACKET + 1]);
        loop {
            let due = self.to.iter().filter_map(|to| to.due).fold(self.tick, Instant::min);
            let timer = tokio::time::sleep_until(due.into());
            self.received.keys.clear();
            self.received.packets.clear();
            let received = &mut self.received;
            let read = tokio::select! {
                read = shared.device.recv(&mut frame) => read.map(Some),
                read = shared.port.receive(&mut buffers, &to_quic, |kind, datagram, ends| match kind {
                    Kind::Quic => {}
                    Kind::Other => count(&shared.drops.foreign),
                    Kind::Sealed => flow::open(&shared, received, datagram, ends),
                }) => read.map(|()| None),
                () = timer => {
                    self.tick();
                    Ok(None)
                }
            };
            match read {
                Ok(Some(len)) => {
                    // A busy device leaves the timer no turn.
                    self.tick();
                    self.enter(&mut frame, len).await;
                }
                Ok(None) => self.arrived().await,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the UDP port or the tun device; trying again");
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
            self.transmit().await;
        }
    }

    /// Takes the packet that was read from the access device, and those that are there already.
    async fn enter(&mut self, frame: &mut [u8], mut len: usize) {
        self.notice();
        let now = self.shared.started.elapsed().as_nanos() as u64;
        for _ in 0..BACKLOG {
            lock(&self.machine).enter(&frame[..len], now, &mut self.steps);
            match self.shared.device.try_recv(frame) {
                Ok(next) if next > 0 => len = next,
                _ => {
                    len = 0;
                    break;
                }
            }
        }
        if len > 0 {
            lock(&self.machine).enter(&frame[..len], now, &mut self.steps);
        }
        self.perform().await;
    }

    /// Takes the records of the datagrams that were opened, and tells senders what they acknowledge.
    async fn arrived(&mut self) {
        let now = Instant::now();
        for keyed in &self.received.keys {
            lock(&keyed.association.receiver).feedback(now, &mut self.feedback);
            let mut sender = lock(&keyed.association.sender);
            sender.feedback(&mut self.feedback, now);
            self.to[keyed.peer].due = sender.deadline();
        }
        self.notice();
        let by_peer = std::mem::take(&mut self.received.packets.by_peer);
        for (peer, delivered) in &by_peer {
            for record in delivered.nodes() {
                let what = (record.kind, record.bits, record.body);
                lock(&self.machine).arrive(*peer, what, &mut self.steps);
                if self.steps.len() >= MOST_STEPS {
                    self.perform().await;
                }
            }
        }
        self.received.packets.by_peer = by_peer;
        self.perform().await;
        for (at, to) in self.to.iter_mut().enumerate() {
            if to.due.is_some_and(|due| due <= now) && to.keyed.is_none() {
                to.due = None;
                to.keyed = self.shared.peers[at].keys.sealing();
                self.active.extend(to.keyed.is_some().then_some(at));
            }
        }
    }

    /// Sees to plans, if it is time.
    fn tick(&mut self) {
        let now = Instant::now();
        if now >= self.tick {
            self.tick = now + TICK;
            let now = self.shared.started.elapsed().as_nanos() as u64;
            lock(&self.machine).tick(now, &mut self.steps);
        }
    }

    /// Notices neighbors that have restarted, before anything else is sent to them.
    fn notice(&mut self) {
        for at in 0..self.to.len() {
            if self.has_restarted(at) {
                lock(&self.machine).restarted(at, &mut self.steps);
            }
        }
    }

    /// Does what the machine says.
    async fn perform(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in steps.drain(..) {
            match step {
                Step::Deliver(packet) => {
                    if self.shared.device.send(&packet).await.is_err() {
                        count(&self.shared.drops.not_delivered);
                    }
                }
                Step::Send { to, kind, bits, body } => {
                    if self.send(to, kind, bits, &body) {
                        self.transmit().await;
                    }
                }
            }
        }
        self.steps = steps;
    }

    /// Adds a record to the batch for a neighbor, or counts why not. Returns whether the batch is full.
    fn send(&mut self, at: usize, kind: NodeKind, bits: u8, body: &[u8]) -> bool {
        let (Some(to), Some(peer)) = (self.to.get_mut(at), self.shared.peers.get(at)) else {
            return false;
        };
        if to.keyed.is_none() {
            to.keyed = peer.keys.sealing();
            self.active.extend(to.keyed.is_some().then_some(at));
        }
        let Some(keyed) = &to.keyed else {
            count(&peer.drops.link_down);
            return false;
        };
        let mut sender = lock(&keyed.association.sender);
        if sender.enqueue_node(kind, bits, &[body]).is_err() {
            count(&peer.drops.too_large);
        }
        sender.is_full()
    }

    /// Whether a neighbor has restarted since this was asked last.
    fn has_restarted(&mut self, at: usize) -> bool {
        let (Some(to), Some(peer)) = (self.to.get_mut(at), self.shared.peers.get(at)) else {
            return false;
        };
        let Some(keyed) = peer.keys.sealing() else { return false };
        let before = to.association.replace(keyed.association_id);
        before.is_some_and(|before| before != keyed.association_id)
    }

    /// Sends all batches.
    async fn transmit(&mut self) {
        let active = std::mem::take(&mut self.active);
        for &at in &active {
            let to = &mut self.to[at];
            let Some(keyed) = to.keyed.take() else { continue };
            let has_datagrams = {
                let mut sender = lock(&keyed.association.sender);
                let has_datagrams = sender.transmit(Instant::now(), &mut self.batch);
                to.due = sender.deadline();
                keyed.association.next.store(sender.next_counter(), Relaxed);
                has_datagrams
            };
            if has_datagrams {
                flow::send(&self.shared, &keyed, &mut self.batch, &mut self.scratch).await;
            }
        }
        self.active = active;
        self.active.clear();
    }
}
