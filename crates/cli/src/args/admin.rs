//! The admin address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// `[address:]port`; a port alone is on loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdminAddress(pub(crate) SocketAddr);

/// A text that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAdminAddress;

impl fmt::Display for NotAdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write a port, such as 7078, or an IP address and a port: 10.0.0.5:7078, [::1]:7078",
        )
    }
}

impl std::error::Error for NotAdminAddress {}

impl FromStr for AdminAddress {
    type Err = NotAdminAddress;

    fn from_str(text: &str) -> Result<AdminAddress, NotAdminAddress> {
        let port =
            || text.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        text.parse().or_else(|_| port()).map(AdminAddress).map_err(|_| NotAdminAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports() {
        let read = |text: &str| text.parse::<AdminAddress>().map(|AdminAddress(at)| at.to_string());
        assert_eq!(read("7078"), Ok("127.0.0.1:7078".into()));
        assert_eq!(read("[::1]:1"), Ok("[::1]:1".into()));
        assert_eq!(read("10.0.0.5:7078"), Ok("10.0.0.5:7078".into()));
        for wrong in ["", "x", "localhost:1", "::1", "65536", "1.2.3.4", ":7078"] {
            assert_eq!(read(wrong), Err(NotAdminAddress), "{wrong}");
        }
    }
}
