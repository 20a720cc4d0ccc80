//! Oncewire on sockets: the tunnel between two sites.
//!
//! [`serve`] answers at one site, [`connect`] connects from the other; both run until they are told to stop. Between them is an
//! [`oncewire_session::Session`], which this crate gives sockets and time. Who may connect is in [`keys`] and [`tls`], what applications
//! can ask for in [`listen`] and [`ways_in`], where flows may go in [`allow`].

pub mod allow;
mod client;
mod counted;
#[cfg(unix)]
pub mod daemon;
mod driver;
mod endpoint;
pub mod keys;
pub mod listen;
pub mod loopback;
mod newcomers;
mod place;
mod pump;
mod quic;
mod seldom;
mod server;
pub mod status;
pub mod target;
mod text;
pub mod tls;
mod transport;
mod way_out;
pub mod ways_in;

pub use client::{ConnectConfig, Connection, connect};
pub use endpoint::{DEFAULT_MEMORY, Endpoint, NetError};
pub use server::{ServeConfig, Server, serve};
pub use transport::TransportKind;
pub use way_out::WayOut;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
