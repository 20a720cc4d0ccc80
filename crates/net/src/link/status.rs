//! The state of a link, as plain data.

use oncewire_session::link::{ReceiverStats, SenderStats};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One end of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkStatus {
    /// Program and version.
    pub version: String,
    /// This end's public key.
    pub key: String,
    /// Time since this end started.
    pub uptime: Duration,
    /// The UDP address that it uses.
    pub address: String,
    /// Name of the tun device.
    pub device: String,
    /// Longest inner packet, in bytes.
    pub mtu: u16,
    /// Whether the peer is connected.
    pub is_up: bool,
    /// The peer, while it is connected.
    pub peer: Option<PeerStatus>,
    /// Networks behind the peer.
    pub allowed: Vec<String>,
    /// Why the last attempt to reach the peer failed, unless the link was up since.
    pub last_failure: Option<String>,
    /// Traffic since the start.
    pub traffic: Traffic,
    /// What was dropped since the start.
    pub drops: Drops,
}

/// The peer of a link.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its public key.
    pub key: String,
    /// Its name in the list of peers.
    pub name: Option<String>,
    /// Where datagrams to it are sent.
    pub address: String,
    /// The cipher of datagrams.
    pub cipher: String,
    /// Round-trip time of the control connection.
    pub rtt: Duration,
    /// Age of the keys in use.
    pub key_age: Duration,
}

/// Counters of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        self.sent.datagrams += other.sent.datagrams;
        self.sent.bytes += other.sent.bytes;
        self.sent.packets += other.sent.packets;
        self.sent.inner_bytes += other.sent.inner_bytes;
        self.sent.delivered += other.sent.delivered;
        self.sent.lost += other.sent.lost;
        self.received.datagrams += other.received.datagrams;
        self.received.bytes += other.received.bytes;
        self.received.packets += other.received.packets;
        self.received.inner_bytes += other.received.inner_bytes;
        self.forged += other.forged;
    }
}

macro_rules! drops {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Packets and datagrams that were dropped, by reason.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Drops {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Drops {
            /// All counters with their names.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        /// The same counters while the link runs.
        #[derive(Debug, Default)]
        pub(super) struct DropCounters {
            $(pub(super) $name: AtomicU64,)*
        }

        impl DropCounters {
            pub(super) fn get(&self) -> Drops {
                Drops { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

drops! {
    /// Packets from the device while no peer was connected.
    link_down,
    /// Packets from the device to an address that is not behind the peer.
    destination_not_allowed,
    /// Packets from the peer with a source that is not behind it.
    source_not_allowed,
    /// Datagrams of this link itself that were routed into its device.
    own_traffic,
    /// Packets from the device that do not fit a datagram.
    too_large,
    /// Packets from the device or from the peer that are not valid IP packets or runs.
    malformed,
    /// Datagrams that were repeated or very old.
    replayed,
    /// Datagrams with an index that this end does not know.
    unknown_index,
    /// Datagrams that are neither QUIC's nor the link's.
    foreign,
    /// Datagrams that opened but broke the format.
    violations,
    /// Datagrams that the system refused to send.
    not_sent,
    /// Packets that the device refused.
    not_delivered,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
