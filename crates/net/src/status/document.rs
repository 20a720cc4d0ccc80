//! What a status socket answers: names and shape of the JSON document. Its text is the caller's.

use super::{LinkStatus, Status};
use oncewire_session::VERSIONS;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Number of the document's layout. It grows when a key changes its meaning or goes away, not when
/// one is added.
pub const FORMAT: u64 = 1;

/// The status of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// An end of a tunnel.
    Tunnel(Box<Status>),
    /// An end of a link.
    Link(Box<LinkStatus>),
}

/// Why a document is not the status of a process, or none that this version reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It has no format.
    #[error("its answer has no format")]
    NoFormat,
    /// Its format is another one.
    #[error("its status has format {0}")]
    Format(u64),
}

/// The head of every document.
#[derive(Deserialize)]
struct Head {
    format: Option<u64>,
    /// Without it, a list of one number would do.
    #[serde(flatten)]
    _rest: IgnoredAny,
}

/// The part that says what a document is.
#[derive(Deserialize)]
struct Tag {
    #[serde(default)]
    role: String,
}

impl Document {
    /// Checks that a document has the format that this version reads. `document` is the whole one,
    /// such as a borrowed `serde_json::Value`.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub fn check<'de, D: Deserializer<'de>>(document: D) -> Result<(), DocumentError> {
        match Head::deserialize(document).ok().and_then(|head| head.format) {
            Some(FORMAT) => Ok(()),
            Some(other) => Err(DocumentError::Format(other)),
            None => Err(DocumentError::NoFormat),
        }
    }

    /// Reads a document. Keys that are missing, as an older process does not write them, have their
    /// default; keys of a newer one are skipped.
    ///
    /// # Errors
    /// The deserializer's, if a value has another type or the role is unknown.
    pub fn read<'de, D: Deserializer<'de> + Copy>(document: D) -> Result<Document, D::Error> {
        match &*Tag::deserialize(document)?.role {
            "link" => Ok(Document::Link(Box::new(LinkStatus::deserialize(document)?))),
            "serve" | "connect" => Ok(Document::Tunnel(Box::new(Status::deserialize(document)?))),
            other => Err(D::Error::custom(format_args!("it has the role {other:?}"))),
        }
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Document::Tunnel(status) => status.document().serialize(serializer),
            Document::Link(status) => status.document().serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct TunnelKeys<'a> {
    format: u64,
    protocol_versions: [u64; 2],
    #[serde(flatten)]
    status: &'a Status,
}

#[derive(Serialize)]
struct LinkKeys<'a> {
    format: u64,
    role: &'static str,
    up: bool,
    peers_connected: usize,
    #[serde(flatten)]
    status: &'a LinkStatus,
}

impl Status {
    /// The document of this status.
    pub fn document(&self) -> impl Serialize + '_ {
        let protocol_versions = [*VERSIONS.start(), *VERSIONS.end()];
        TunnelKeys { format: FORMAT, protocol_versions, status: self }
    }
}

impl LinkStatus {
    /// The document of this status.
    pub fn document(&self) -> impl Serialize + '_ {
        let peers_connected = self.connected();
        let up = peers_connected == self.peers.len();
        LinkKeys { format: FORMAT, role: "link", up, peers_connected, status: self }
    }
}
