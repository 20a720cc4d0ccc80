//! The state of a packet link.

use super::HistoryStatus;
use super::serial::{self, seconds};
use oncewire_session::link::{ReceiverStats, SenderStats};
use oncewire_session::metrics;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::AddAssign;
use std::time::Duration;

/// One end of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkStatus {
    /// Program and version.
    pub version: String,
    /// This end's public key.
    #[serde(rename = "public_key")]
    pub key: String,
    /// Time since this end started.
    #[serde(rename = "uptime_seconds", with = "serial::seconds")]
    pub uptime: Duration,
    /// The UDP address that it uses.
    pub address: String,
    /// Name of the tun device.
    pub device: String,
    /// Longest inner packet, in bytes.
    #[serde(rename = "mtu_bytes")]
    pub mtu: u16,
    /// The file that this process records its history to.
    pub history: Option<HistoryStatus>,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// Handshakes that failed before the other end had proved to be a peer.
    pub refused_handshakes: u64,
    /// The newest of these: its address, and why it failed.
    #[serde(rename = "last_refused_handshake")]
    pub last_refused: Option<String>,
    /// Connections that had to show first that they receive at their address, because many
    /// handshakes were in progress.
    #[serde(rename = "address_checks")]
    pub retries: u64,
    /// Traffic of all peers since the start.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// What was dropped since the start, with what belongs to no peer.
    #[serde(rename = "dropped", with = "serial::named")]
    pub drops: Drops,
}

impl LinkStatus {
    /// Number of peers that are connected.
    pub fn connected(&self) -> usize {
        self.peers.iter().filter(|peer| peer.connection.is_some()).count()
    }
}

/// A peer of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    /// Its public key.
    #[serde(rename = "public_key")]
    pub key: String,
    /// Its name.
    pub name: Option<String>,
    /// Where this end connects to it, unless it only waits for it.
    pub configured_address: Option<String>,
    /// Networks behind it.
    pub allowed: Vec<String>,
    /// Its connection, while there is one.
    #[serde(flatten, with = "connection")]
    pub connection: Option<ConnectionStatus>,
    /// Why the last attempt to reach it failed or its connection ended, unless it was connected
    /// since.
    pub last_failure: Option<String>,
    /// Traffic since the start.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// What was dropped since the start.
    #[serde(rename = "dropped", with = "serial::named")]
    pub drops: Drops,
}

/// A connection to a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// Where datagrams are sent.
    pub address: String,
    /// The cipher of datagrams.
    pub cipher: String,
    /// Round-trip time of the control connection.
    pub rtt: Duration,
    /// Age of the keys in use.
    pub key_age: Duration,
}

/// Counters of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TrafficKeys", into = "TrafficKeys")]
pub struct Traffic {
    /// What this end sent.
    pub sent: SenderStats,
    /// What it received.
    pub received: ReceiverStats,
    /// Datagrams with a known index that did not open.
    pub forged: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.sent += other.sent;
        self.received += other.received;
        self.forged += other.forged;
    }
}

macro_rules! drops {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        metrics! {
            /// Packets and datagrams that were dropped, by reason.
            pub struct Drops {
                $($(#[doc = $doc])+ $name: Counter, Count;)*
            }
        }

        /// The same counters while the link runs.
        #[cfg(target_os = "linux")]
        #[derive(Debug, Default)]
        pub(crate) struct DropCounters {
            $(pub(crate) $name: std::sync::atomic::AtomicU64,)*
        }

        #[cfg(target_os = "linux")]
        impl DropCounters {
            pub(crate) fn get(&self) -> Drops {
                Drops { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
}

drops! {
    /// Packets from the device while their peer was not connected.
    link_down;
    /// Packets from the device to an address that is behind no peer.
    destination_not_allowed;
    /// Packets from a peer with a source that is not behind it.
    source_not_allowed;
    /// Datagrams of this link itself that were routed into its device.
    own_traffic;
    /// Packets from the device that waited too long for the path, or found the queue full.
    queue;
    /// Packets from the device that do not fit a datagram.
    too_large;
    /// Packets from a peer whose datagrams met congestion, and whose senders do not understand marks.
    congestion;
    /// Packets from the device or from a peer that are not valid IP packets or runs.
    malformed;
    /// Datagrams that were repeated or very old.
    replayed;
    /// Datagrams with an index that this end does not know.
    unknown_index;
    /// Datagrams that are neither QUIC's nor the link's.
    foreign;
    /// Datagrams that opened but broke the format.
    violations;
    /// Datagrams that were not sent or not opened because the keys are used up.
    keys_used_up;
    /// Datagrams that the system refused to send.
    not_sent;
    /// Packets that the device refused.
    not_delivered;
}

/// A connection as it is written: nulls, if there is none.
mod connection {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Keys {
        #[serde(default)]
        up: bool,
        address: Option<String>,
        cipher: Option<String>,
        rtt_us: Option<u64>,
        key_age_seconds: Option<f64>,
    }

    pub(super) fn serialize<S: Serializer>(
        connection: &Option<ConnectionStatus>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let connection = connection.as_ref();
        let keys = Keys {
            up: connection.is_some(),
            address: connection.map(|connection| connection.address.clone()),
            cipher: connection.map(|connection| connection.cipher.clone()),
            rtt_us: connection.map(|connection| connection.rtt.as_micros() as u64),
            key_age_seconds: connection.map(|connection| connection.key_age.as_secs_f64()),
        };
        keys.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ConnectionStatus>, D::Error> {
        let keys = Keys::deserialize(deserializer)?;
        Ok(keys.up.then(|| ConnectionStatus {
            address: keys.address.unwrap_or_default(),
            cipher: keys.cipher.unwrap_or_default(),
            rtt: Duration::from_micros(keys.rtt_us.unwrap_or(0)),
            key_age: keys.key_age_seconds.map(seconds::of).unwrap_or_default(),
        }))
    }
}

/// [`Traffic`] as it is written: what was forged is among what was received.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct TrafficKeys {
    #[serde(with = "serial::named")]
    sent: SenderStats,
    received: ReceivedKeys,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReceivedKeys {
    #[serde(flatten, with = "serial::named")]
    stats: ReceiverStats,
    forged_datagrams: u64,
}

impl From<Traffic> for TrafficKeys {
    fn from(Traffic { sent, received, forged }: Traffic) -> TrafficKeys {
        TrafficKeys { sent, received: ReceivedKeys { stats: received, forged_datagrams: forged } }
    }
}

impl From<TrafficKeys> for Traffic {
    fn from(TrafficKeys { sent, received }: TrafficKeys) -> Traffic {
        Traffic { sent, received: received.stats, forged: received.forged_datagrams }
    }
}
