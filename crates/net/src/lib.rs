//! The Oncewire tunnel on sockets: TCP connections between two sites, encrypted and without repeated
//! bytes.
//!
//! A server ([`serve`]) and a client ([`connect`]) each have an [`Endpoint`]: a key pair, the keys of
//! accepted peers, a memory limit, and rules for what the peer may reach. This program runs both on
//! loopback and sends a line through the tunnel to a listener:
//!
//! ```
//! use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
//! use oncewire_net::{ConnectConfig, Endpoint, ServeConfig, allow::AllowList, connect, serve};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let origin = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let target = origin.local_addr()?;
//!
//! let (server_key, client_key) = (SecretKey::generate()?, SecretKey::generate()?);
//! let only = |key: &SecretKey| AuthorizedPeers::new([Peer::from(key.public())]);
//! let mut endpoint = Endpoint::new(server_key.clone(), only(&client_key));
//! endpoint.egress.allow = AllowList::parse(&[target.to_string()])?;
//! let server = serve(ServeConfig { endpoint, listen: vec!["127.0.0.1:0".parse()?], max_sessions: 16 }).await?;
//!
//! let endpoint = Endpoint::new(client_key, only(&server_key));
//! let address = server.addresses()[0].to_string().parse()?;
//! let client = connect(ConnectConfig {
//!     forwards: vec![format!("127.0.0.1:0:{target}").parse()?], // as with ssh -L
//!     ..ConnectConfig::new(endpoint, address)
//! })
//! .await?;
//!
//! let mut application = tokio::net::TcpStream::connect(client.addresses()[0]).await?;
//! application.write_all(b"once").await?;
//! let (mut accepted, _) = origin.accept().await?;
//! let mut bytes = [0; 4];
//! accepted.read_exact(&mut bytes).await?;
//! assert_eq!(&bytes, b"once");
//! # Ok(())
//! # }
//! ```
//!
//! | to learn about | see |
//! |---|---|
//! | keys, files of keys, lists of peers | [`keys`]; how peers prove them: [`tls`] |
//! | forwards and listeners | [`listener`]; whose their connections are: [`domain`]; the SOCKS5 and HTTP proxy: [`proxy`] |
//! | what a peer may reach | [`Egress`] and [`allow`] |
//! | why a connection failed | [`HandshakeError`] between the ends, [`Refusal`] to a target |
//! | which HTTPS services are opened, and the CA for that | [`https`] |
//! | joining a server with a token | [`enroll`] |
//! | counters and state | [`status`] |
//! | IP packets between two sites, without the tunnel | `link` (Linux) |
//! | IP packets across a network of nodes, as a plan says | `node` (Linux) |
//! | running one end as a process | [`daemon`]; its metrics and status over HTTP: [`admin`]; what it carried in the last month: [`history`] |
//!
//! The rules of the protocol are in the crate `oncewire-session`, which this crate gives sockets and
//! a clock.

#[cfg(unix)]
pub mod admin;
pub mod allow;
mod client;
#[cfg(target_os = "linux")]
pub mod controller;
mod counted;
#[cfg(unix)]
pub mod daemon;
mod dials;
pub mod domain;
mod drain;
mod driver;
mod egress;
mod endpoint;
pub mod enroll;
pub mod flows;
mod handshake;
#[cfg(unix)]
pub mod history;
pub mod https;
pub mod keys;
#[cfg(target_os = "linux")]
pub mod link;
pub mod listener;
mod log_limit;
pub mod loopback;
#[cfg(target_os = "linux")]
pub mod node;
mod ownership;
pub mod proxy;
mod pump;
mod quic;
mod refusal;
mod request;
mod server;
#[cfg(unix)]
mod service;
mod services;
mod socket_owner;
mod sockets;
pub mod status;
#[cfg(unix)]
pub mod store;
#[cfg(unix)]
pub mod supervisor;
mod sync;
pub mod target;
mod threads;
pub mod tls;
mod transport;
mod unauthenticated;
#[cfg(target_os = "linux")]
mod writable;

pub use client::{ConnectConfig, Connection, connect};
pub use egress::Egress;
pub use endpoint::{DEFAULT_MEMORY, Endpoint, NetError};
pub use handshake::{HandshakeError, Rejection, Stage};
pub use refusal::Refusal;
pub use server::{ServeConfig, Server, serve};
pub use transport::{TransportEnd, TransportKind};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
