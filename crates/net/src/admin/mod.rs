//! The admin address of a process: HTTP for monitoring and for browsers.
//!
//! It answers `GET` and `HEAD` only; no request changes anything. Whoever may reach it can learn who
//! the peers are and how much they send, so it listens on loopback, or else wants a token. A browser
//! must not be talked into reading it for another site: answers have no CORS headers, and without a
//! token the `Host` has to be a loopback name.

#[cfg(target_os = "linux")]
mod controlled;
mod exposition;
mod page;
#[cfg(target_os = "linux")]
mod process;
mod server;
#[cfg(test)]
mod tests;
mod token;

pub use exposition::exposition;
pub use page::{Page, Pages, Site, View};
pub(crate) use server::{AdminServer, Answers};
pub use token::{Token, TokenError};
#[cfg(target_os = "linux")]
pub(crate) use {controlled::of_controller, exposition::of_node, server::Watched};

use std::net::SocketAddr;

/// Where a process answers, and to whom.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// What a request must show. Without it, only a loopback address is served.
    pub token: Option<Token>,
}

/// An admin address that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the admin address {0} is not on loopback, so it needs a token")]
pub struct OpenAdmin(pub SocketAddr);

impl Admin {
    /// # Errors
    /// [`OpenAdmin`] if others than this machine could read it without a token.
    pub fn new(listen: SocketAddr, token: Option<Token>) -> Result<Admin, OpenAdmin> {
        if token.is_none() && !listen.ip().to_canonical().is_loopback() {
            return Err(OpenAdmin(listen));
        }
        Ok(Admin { listen, token })
    }
}
