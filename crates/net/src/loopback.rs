//! Both ends of a tunnel in one process, on loopback, for callers without an asynchronous runtime.

use crate::allow::{AllowList, RuleError};
use crate::client::{ConnectConfig, Connection, connect};
use crate::endpoint::{Endpoint, NetError};
use crate::handshake::HandshakeError;
use crate::keys::{AuthorizedPeers, Peer, SecretKey, SecretKeyError};
use crate::listener::{Bind, Forward};
use crate::server::{ServeConfig, Server, serve};
use crate::status::Status;
use crate::target::{Host, Target, TargetError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A tunnel with both ends.
pub struct Loopback {
    server: Server,
    client: Connection,
    runtime: Option<Runtime>,
}

/// Why the tunnel cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// An end cannot start.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A key cannot be made.
    #[error(transparent)]
    Key(#[from] SecretKeyError),
    /// The address of the origin cannot be a target: its port is 0.
    #[error("the origin's address: {0}")]
    Origin(#[from] TargetError),
    /// The rule for the origin cannot be read.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The client does not reach the server.
    #[error("the client does not reach the server: {0}")]
    Handshake(#[source] Arc<HandshakeError>),
}

impl Loopback {
    /// Starts both ends with new keys and a forward to `origin`. `adapt` changes the parameters of
    /// both ends.
    ///
    /// # Errors
    /// [`LoopbackError`] if either end cannot start, or the client does not reach the server within
    /// 10 s.
    pub fn start(
        origin: SocketAddr,
        adapt: impl Fn(&mut Endpoint),
    ) -> Result<Loopback, LoopbackError> {
        let runtime = Runtime::new().map_err(NetError::Runtime)?;
        let (here, there) = (SecretKey::generate()?, SecretKey::generate()?);
        let trust = |key: &SecretKey| AuthorizedPeers::new([Peer::from(key.public())]);
        let mut endpoint = Endpoint::new(there.clone(), trust(&here));
        adapt(&mut endpoint);
        let origin = Target::new(Host::Ip(origin.ip()), origin.port())?;
        endpoint.egress.allow = AllowList::parse(&[origin.to_string()])?;
        let bind = || Bind { host: Host::Ip([127, 0, 0, 1].into()), port: 0 };
        let server = runtime.block_on(serve(ServeConfig {
            endpoint,
            listen: vec![bind()],
            max_sessions: 1,
        }))?;
        let mut endpoint = Endpoint::new(here, trust(&there));
        adapt(&mut endpoint);
        let client = runtime.block_on(connect(ConnectConfig {
            forwards: vec![Forward { bind: bind(), target: origin, domain: None }],
            ..ConnectConfig::new(
                endpoint,
                Target::new(Host::Ip(server.addresses()[0].ip()), server.addresses()[0].port())?,
            )
        }))?;
        runtime
            .block_on(client.established(Duration::from_secs(10)))
            .map_err(LoopbackError::Handshake)?;
        Ok(Loopback { server, client, runtime: Some(runtime) })
    }

    /// The address of the forward.
    pub fn address(&self) -> SocketAddr {
        self.client.addresses()[0]
    }

    /// Bytes that the transports have carried so far, both ways, with encryption.
    pub fn wire_bytes(&self) -> u64 {
        let (sent, received) = self.client.wire_bytes();
        sent + received
    }

    /// The state of the client and of the server.
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
