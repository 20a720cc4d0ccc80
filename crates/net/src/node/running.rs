//! A node on sockets.

use super::error::NodeError;
use super::member::{MemberConfig, MemberStatus, Membership};
use super::record::OVERHEAD;
use super::{
    Machine, Manifests, NodeCounters, NodeSettings, Plans, RunningNetwork, SetupError, Taken,
};
use crate::keys::{Peer, SecretKey};
use crate::link::{
    DeviceConfig, Hops, IpNet, LinkConfig, Matching, PeerConfig, Policy, Shaping, Sharing, Timing,
    largest_datagram,
};
use crate::status::NodeStatus;
use crate::sync::lock;
use oncewire_plan::control::Carried;
use oncewire_plan::manifest::NodePart;
use oncewire_plan::measure::Counts;
use oncewire_session::link::SEAL;
use ring::digest::{SHA256, digest};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tracing::warn;

/// Parameters of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// This node's key.
    pub secret: SecretKey,
    /// The network.
    pub network: RunningNetwork,
    /// Its name in the network.
    pub name: String,
    /// The manifests of the plan: those of all nodes. None with a controller.
    pub manifests: Manifests,
    /// The part of the controller's plan that [`saved_plan`](super::saved_plan) found.
    pub saved: Option<NodePart>,
    /// What the operator has given all nodes of the network, and nobody else: any bytes. The hash by
    /// which packets are told apart depends on it.
    pub network_secret: Vec<u8>,
    /// The UDP address on which it waits for its neighbors.
    pub listen: SocketAddr,
    /// MTU of the narrowest path between neighbors, in bytes. The same at all nodes.
    pub path_mtu: u16,
    /// Bytes of memory for packets, if they are limited.
    pub memory: Option<u64>,
    /// Packets that it can encode in a second; none to leave that to the controller.
    pub encodings: Option<u64>,
    /// Operations that it can do in a second: packets to cache, matches to decode. With more, ingresses
    /// spare it. None for no limit.
    pub operations: Option<u64>,
    /// Name of the access device, which a node with prefixes makes.
    pub device: String,
    /// Addresses of this node on that device.
    pub addresses: Vec<IpNet>,
    /// Whether to route the prefixes of other nodes to the device.
    pub routes: bool,
    /// Time limits.
    pub timing: Timing,
    /// Program and version, for the status.
    pub agent: String,
    /// Its controller, if it has one.
    pub controller: Option<MemberConfig>,
}

/// A node that runs. It stops when this is dropped.
pub struct RunningNode {
    hops: Hops,
    pub(super) name: String,
    neighbors: Vec<String>,
    /// Numbers of these.
    numbers: Vec<usize>,
    pub(super) digest: String,
    pub(super) memory: Option<u64>,
    /// Encodings and operations per second.
    pub(super) speeds: [Option<u64>; 2],
    pub(super) agent: String,
    controller: Option<Arc<Mutex<MemberStatus>>>,
    /// The newest part of a plan that it has got: others may come as differences from it.
    pub(super) part: Mutex<Option<Vec<u8>>>,
    /// The latest epoch of a controller that it has seen.
    pub(super) epoch: AtomicU64,
}

/// MTU of the access device: packets of this size fit a datagram on every hop, encoded or not.
pub fn access_mtu(path_mtu: u16) -> u16 {
    largest_datagram(path_mtu) - (SEAL + OVERHEAD) as u16
}

/// Starts a node. Needs a Tokio runtime with timers and I/O, and root or the capability CAP_NET_ADMIN
/// if it has prefixes.
///
/// # Errors
/// [`NodeError`].
pub fn start(config: NodeConfig) -> Result<RunningNode, NodeError> {
    let NodeConfig { secret, network, name, manifests, .. } = config;
    network.check(&name, &secret.public())?;
    let me = network.node(&name)?;
    let neighbors = network.neighbors(me);
    let peer = |&node: &usize| {
        let label = network.name(node).to_owned();
        let key = network.keys[node].ok_or_else(|| SetupError::NoKey(label.clone()))?;
        Ok(PeerConfig {
            peer: Peer { name: Some(label), ..Peer::from(key) },
            address: network.addresses[node].clone(),
            allowed: Vec::new(),
        })
    };
    let peers = neighbors.iter().map(peer).collect::<Result<Vec<_>, SetupError>>()?;
    let others = (0..network.prefixes.len()).filter(|&node| node != me);
    let device = DeviceConfig {
        name: config.device,
        addresses: config.addresses,
        mtu: access_mtu(config.path_mtu),
        routes: match config.routes {
            true => others.flat_map(|node| network.prefixes[node].iter().copied()).collect(),
            false => Vec::new(),
        },
    };
    let has_access = !network.prefixes[me].is_empty();
    let labels = neighbors.iter().map(|&node| network.name(node).to_owned()).collect();
    let alpn = protocol(&config.network_secret, &network);
    let mut seed = [0; 8];
    seed.copy_from_slice(&digest(&SHA256, &config.network_secret).as_ref()[..8]);
    let settings = NodeSettings {
        seed: u64::from_le_bytes(seed),
        operations: config.operations.map_or(f64::INFINITY, |operations| operations as f64),
        ..NodeSettings::default()
    };
    let digest = network.digest();
    let mut machine = Machine::new(Arc::new(network), me, &manifests, settings, config.memory)?;
    if let Some(saved) = &config.saved
        && let Err(error) = machine.take_part(saved)
    {
        warn!(%error, "the saved plan does not fit; the controller will send another");
    }
    if let Some(controller) = &config.controller
        && has_access
    {
        machine.measure(controller.measure).map_err(SetupError::Engine)?;
    }
    let link = LinkConfig {
        secret,
        listen: Some(config.listen),
        peers,
        matching: Matching { cache: 0, policy: Policy::default(), sharing: Sharing::None },
        largest_datagram: largest_datagram(config.path_mtu),
        device,
        // The MTU of the device is that of the whole network, whatever one hop carries.
        shaping: Shaping { split: true, ..Shaping::default() },
        timing: config.timing,
        agent: config.agent.clone(),
    };
    let hops = Hops::start(link, has_access, machine, alpn)?;
    let controller = config.controller.as_ref().map(|controller| {
        let address = controller.controllers.first();
        let address = address.map_or_else(String::new, |(_, address)| address.to_string());
        Arc::new(Mutex::new(MemberStatus { address, ..MemberStatus::default() }))
    });
    Ok(RunningNode {
        hops,
        name,
        neighbors: labels,
        numbers: neighbors,
        digest,
        memory: config.memory,
        speeds: [config.encodings, config.operations],
        agent: config.agent,
        controller,
        part: Mutex::new(config.saved.map(|part| part.write())),
        epoch: AtomicU64::new(0),
    })
}

/// Joins a node's controller, again and again, until the future is dropped. Without a controller, it
/// never ends, either.
pub async fn follow(node: Arc<RunningNode>, secret: SecretKey, config: Option<MemberConfig>) {
    match (config, node.controller.clone()) {
        (Some(config), Some(status)) => Membership { config, secret, node, status }.run().await,
        _ => std::future::pending().await,
    }
}

impl RunningNode {
    /// The state of the node.
    pub fn status(&self) -> NodeStatus {
        let (hops, carried, (cached_bytes, cached_packets), plans) = self.hops.status();
        NodeStatus {
            name: self.name.clone(),
            plan_version: plans.current.version,
            next_plan: plans.next.or(plans.waiting).map(|plan| plan.version),
            settled: plans.settled && plans.next.is_none() && plans.waiting.is_none(),
            neighbors: self.neighbors.clone(),
            cached_bytes,
            cached_packets,
            carried,
            hops,
            controller: self.controller.as_ref().map(|status| lock(status).clone()),
        }
    }

    /// [`Machine::take_part`].
    pub(super) fn take_part(&self, part: &NodePart) -> Result<Taken, SetupError> {
        self.hops.take_part(part)
    }

    /// Its plans, and the numbers of the neighbors that it is not connected with.
    pub(super) fn plans_and_down(&self) -> (Plans, Vec<u32>) {
        let (hops, _, _, plans) = self.hops.status();
        let down = hops.peers.iter().zip(&self.numbers);
        let down = down.filter(|(peer, _)| peer.connection.is_none());
        (plans, down.map(|(_, &number)| number as u32).collect())
    }

    /// What was measured since the last time, and counters.
    pub(super) fn measured(&self, most: usize) -> Option<(Counts, NodeCounters)> {
        self.hops.measured(most)
    }

    /// What was carried since the last time.
    pub(super) fn carried(&self) -> Carried {
        self.hops.carried()
    }

    /// Takes a new plan while packets flow ([`Machine::take`]).
    ///
    /// # Errors
    /// [`SetupError`]; the node goes on with its plan.
    pub fn take(&self, manifests: &Manifests) -> Result<Taken, SetupError> {
        self.hops.take(manifests)
    }

    /// Tells the neighbors that this node stops, and stops.
    pub async fn stop(self) {
        self.hops.stop().await;
    }
}

/// The application protocol between nodes: it has a digest of the network's secret, and of the topology as
/// far as paths depend on it, so that nodes with others do not connect.
fn protocol(secret: &[u8], network: &RunningNetwork) -> Vec<u8> {
    format!("oncewire-node/2 {}", network.digest_with(secret)).into_bytes()
}
