//! What became of connections to a named service, as plain data.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Connections to a service that a client may open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpsStatus {
    /// The service, as it was named: `*.pypi.example`.
    pub name: String,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections whose bytes passed untouched, by reason: `client_refused_certificate`,
    /// `origin_refused` and so on.
    pub passed: BTreeMap<String, u64>,
    /// Connections that ended with an alert, because the origin's certificate was not accepted, by
    /// reason: `origin_expired` and so on.
    pub ended: BTreeMap<String, u64>,
    /// Connections in which a client refused the certificate.
    pub refused_by_clients: u64,
    /// Connections whose TLS failed for another reason at the client's side.
    pub failed_handshakes: u64,
    /// Clients whose connections pass untouched now, because they have refused a certificate, or have
    /// one for the origin. A client counts once for each name.
    pub clients_passed: u64,
    /// Bytes of content that went to the service, opened and passed.
    #[serde(rename = "content_sent_bytes")]
    pub sent: u64,
    /// Bytes of content that came from the service.
    #[serde(rename = "content_received_bytes")]
    pub received: u64,
    /// Bytes of the tunnel's messages that carried the content to the service.
    #[serde(rename = "wire_sent_bytes")]
    pub wire_sent: u64,
    /// Bytes of the tunnel's messages that carried the content from the service.
    #[serde(rename = "wire_received_bytes")]
    pub wire_received: u64,
    /// The last time that a connection could not be opened, and why.
    pub last_problem: Option<String>,
}
