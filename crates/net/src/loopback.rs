//! Both ends in one process, on loopback, for those who do not live in an asynchronous world: the demonstration.

use crate::client::{ConnectConfig, Connection, connect};
use crate::endpoint::{Endpoint, NetError};
use crate::keys::{AuthorizedPeers, Peer, SecretKey};
use crate::server::{ServeConfig, Server, serve};
use crate::status::Status;
use crate::target::{Host, Target};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A tunnel with both its ends.
pub struct Loopback {
    server: Server,
    client: Connection,
    runtime: Option<Runtime>,
}

/// Why there is no tunnel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// An end cannot start.
    #[error(transparent)]
    Net(#[from] NetError),
    /// No key can be made.
    #[error(transparent)]
    Key(#[from] crate::keys::SecretKeyError),
    /// The ends do not find each other.
    #[error("the two ends do not find each other: {0}")]
    Apart(String),
}

impl Loopback {
    /// Starts both ends, with keys of their own and a forward to `origin`. `adapt` changes what both have.
    ///
    /// # Errors
    /// [`LoopbackError`].
    pub fn start(origin: SocketAddr, adapt: impl Fn(&mut Endpoint)) -> Result<Loopback, LoopbackError> {
        let runtime = Runtime::new().map_err(NetError::Runtime)?;
        let (here, there) = (SecretKey::generate()?, SecretKey::generate()?);
        let trust = |key: &SecretKey| AuthorizedPeers::new([Peer::from(key.public())]);
        let mut endpoint = Endpoint::new(there.clone(), trust(&here));
        adapt(&mut endpoint);
        let rule = format!("{}/{}:{}", origin.ip(), if origin.is_ipv4() { 32 } else { 128 }, origin.port());
        // The rule is made of an address, so it can be read.
        endpoint.way_out.allow =
            crate::allow::AllowList::parse(&[rule]).map_err(|error| LoopbackError::Apart(error.to_string()))?;
        let local =
            |port| Target::new(Host::Ip([127, 0, 0, 1].into()), port).map_err(|error| LoopbackError::Apart(error.to_string()));
        let bind = || crate::listen::Bind { host: Host::Ip([127, 0, 0, 1].into()), port: 0 };
        let server = runtime.block_on(serve(ServeConfig { endpoint, listen: vec![bind()], max_sessions: 1 }))?;
        let mut endpoint = Endpoint::new(here, trust(&there));
        adapt(&mut endpoint);
        let target =
            Target::new(Host::Ip(origin.ip()), origin.port()).map_err(|error| LoopbackError::Apart(error.to_string()))?;
        let client = runtime.block_on(connect(ConnectConfig {
            endpoint,
            server: local(server.addresses()[0].port())?,
            forwards: vec![crate::listen::Forward { bind: bind(), target }],
            reverse: Vec::new(),
            proxies: Vec::new(),
        }))?;
        runtime.block_on(client.established(Duration::from_secs(10))).map_err(LoopbackError::Apart)?;
        Ok(Loopback { server, client, runtime: Some(runtime) })
    }

    /// Where the forward listens.
    pub fn address(&self) -> SocketAddr {
        self.client.addresses()[0]
    }

    /// Bytes that the transports between the two ends have carried so far, both ways, encryption included.
    pub fn wire_bytes(&self) -> u64 {
        let (sent, received) = self.client.wire_bytes();
        sent + received
    }

    /// What the connecting and the answering end say of themselves.
    pub fn status(&self) -> (Status, Status) {
        (self.client.status(), self.server.status())
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.client.stop();
        self.server.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
