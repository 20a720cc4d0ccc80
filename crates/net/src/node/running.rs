//! A node on sockets.

use super::record::OVERHEAD;
use super::{Machine, Manifests, NodeSettings, RunningNetwork, SetupError, Taken};
use crate::keys::{Peer, PublicKey, SecretKey};
use crate::link::{
    DeviceConfig, Hops, IpNet, LinkConfig, LinkError, Matching, PeerConfig, Policy, Shaping,
    Sharing, Timing, largest_datagram,
};
use crate::status::NodeStatus;
use oncewire_session::link::SEAL;
use ring::digest::{SHA256, digest};
use std::net::SocketAddr;
use std::sync::Arc;

/// Parameters of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// This node's key.
    pub secret: SecretKey,
    /// The network.
    pub network: RunningNetwork,
    /// Its name in the network.
    pub name: String,
    /// The manifests of the plan: those of all nodes.
    pub manifests: Manifests,
    /// What the operator has given all nodes of the network, and nobody else: any bytes. The hash by
    /// which packets are told apart depends on it.
    pub network_secret: Vec<u8>,
    /// The UDP address on which it waits for its neighbors.
    pub listen: SocketAddr,
    /// MTU of the narrowest path between neighbors, in bytes. The same at all nodes.
    pub path_mtu: u16,
    /// Bytes of memory for packets, if they are limited.
    pub memory: Option<u64>,
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
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// What it reads does not fit.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The key is not that of the node in the topology.
    #[error("the topology gives node {name} the public key {expected}, but this end's is {own}")]
    Key {
        /// The node.
        name: String,
        /// Its key in the topology.
        expected: PublicKey,
        /// This end's.
        own: PublicKey,
    },
    /// No node shares a link with it.
    #[error("node {0} has no neighbors in the topology")]
    Alone(String),
    /// The port, the device or TLS.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// A node that runs. It stops when this is dropped.
pub struct RunningNode {
    hops: Hops,
    name: String,
    neighbors: Vec<String>,
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
    let me = network.node(&name)?;
    let expected = network.keys[me].ok_or_else(|| SetupError::NoKey(name.clone()))?;
    let own = secret.public();
    if own != expected {
        return Err(NodeError::Key { name, expected, own });
    }
    let neighbors = network.neighbors(me);
    if neighbors.is_empty() {
        return Err(NodeError::Alone(name));
    }
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
    let settings = NodeSettings { seed: u64::from_le_bytes(seed), ..NodeSettings::default() };
    let machine = Machine::new(Arc::new(network), me, &manifests, settings, config.memory)?;
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
        agent: config.agent,
    };
    let hops = Hops::start(link, has_access, machine, alpn)?;
    Ok(RunningNode { hops, name, neighbors: labels })
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
        }
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
    let mut all = ring::digest::Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        all.update(&(bytes.len() as u64).to_le_bytes());
        all.update(bytes);
    };
    add(secret);
    let map = &network.network;
    for ((node, key), prefixes) in map.nodes.iter().zip(&network.keys).zip(&network.prefixes) {
        add(node.id.as_bytes());
        add(key.map_or([0; 32], |key| key.0).as_slice());
        let mut prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        prefixes.sort();
        prefixes.iter().for_each(|prefix| add(prefix.as_bytes()));
        add(b"");
    }
    for link in &map.links {
        add(&link.from.0.to_le_bytes());
        add(&link.to.0.to_le_bytes());
        add(&link.weight.to_le_bytes());
    }
    let digest = all.finish();
    let hex: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("oncewire-node/2 {hex}").into_bytes()
}
