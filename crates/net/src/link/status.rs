//! The state of a link, as plain data.

use crate::log_limit::LogLimit;
use crate::sync::lock;
use oncewire_session::link::{ReceiverStats, SenderStats};
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tracing::{debug, warn};

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
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// Handshakes that failed before the other end had proved to be a peer.
    pub refused_handshakes: u64,
    /// The newest of these: its address, and why it failed.
    pub last_refused: Option<String>,
    /// Connections that had to show first that they receive at their address, because many
    /// handshakes were in progress.
    pub retries: u64,
    /// Traffic of all peers since the start.
    pub traffic: Traffic,
    /// What was dropped since the start, with what belongs to no peer.
    pub drops: Drops,
}

/// A peer of a link.
#[derive(Clone, Debug, Default)]
pub struct PeerStatus {
    /// Its public key.
    pub key: String,
    /// Its name.
    pub name: Option<String>,
    /// Where this end connects to it, unless it only waits for it.
    pub configured_address: Option<String>,
    /// Networks behind it.
    pub allowed: Vec<String>,
    /// Its connection, while there is one.
    pub connection: Option<ConnectionStatus>,
    /// Why the last attempt to reach it failed or its connection ended, unless it was connected
    /// since.
    pub last_failure: Option<String>,
    /// Traffic since the start.
    pub traffic: Traffic,
    /// What was dropped since the start.
    pub drops: Drops,
}

/// A connection to a peer.
#[derive(Clone, Debug, Default)]
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
        self.sent.logged_bytes += other.sent.logged_bytes;
        self.sent.header_bytes += other.sent.header_bytes;
        self.sent.section_bytes += other.sent.section_bytes;
        self.sent.bypassed_bytes += other.sent.bypassed_bytes;
        self.sent.frame_bytes += other.sent.frame_bytes;
        self.sent.rejected += other.sent.rejected;
        self.sent.repaired += other.sent.repaired;
        self.sent.logs += other.sent.logs;
        self.received.datagrams += other.received.datagrams;
        self.received.bytes += other.received.bytes;
        self.received.packets += other.received.packets;
        self.received.inner_bytes += other.received.inner_bytes;
        self.received.waited += other.received.waited;
        self.received.rejected += other.received.rejected;
        self.received.stale += other.received.stale;
        self.received.missing_headers += other.received.missing_headers;
        self.received.given_up += other.received.given_up;
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

        impl AddAssign for Drops {
            fn add_assign(&mut self, other: Drops) {
                $(self.$name += other.$name;)*
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
    /// Packets from the device while their peer was not connected.
    link_down,
    /// Packets from the device to an address that is behind no peer.
    destination_not_allowed,
    /// Packets from a peer with a source that is not behind it.
    source_not_allowed,
    /// Datagrams of this link itself that were routed into its device.
    own_traffic,
    /// Packets from the device that waited too long for the path, or found the queue full.
    queue,
    /// Packets from the device that do not fit a datagram.
    too_large,
    /// Packets from a peer whose datagrams met congestion, and whose senders do not understand marks.
    congestion,
    /// Packets from the device or from a peer that are not valid IP packets or runs.
    malformed,
    /// Datagrams that were repeated or very old.
    replayed,
    /// Datagrams with an index that this end does not know.
    unknown_index,
    /// Datagrams that are neither QUIC's nor the link's.
    foreign,
    /// Datagrams that opened but broke the format.
    violations,
    /// Datagrams that were not sent or not opened because the keys are used up.
    keys_used_up,
    /// Datagrams that the system refused to send.
    not_sent,
    /// Packets that the device refused.
    not_delivered,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Handshakes with ends that have not proved to be a peer.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    refused: AtomicU64,
    pub(super) retries: AtomicU64,
    last: Mutex<Option<String>>,
    log: LogLimit,
}

impl Strangers {
    /// Notes a handshake that failed. Strangers can cause any number of them.
    pub(super) fn refused(&self, from: SocketAddr, why: &dyn std::fmt::Display) {
        count(&self.refused);
        *lock(&self.last) = Some(format!("{from}: {why}"));
        match self.log.pass() {
            Some(suppressed) => warn!(%from, %why, suppressed, "handshake refused"),
            None => debug!(%from, %why, "handshake refused"),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(super) fn last(&self) -> Option<String> {
        lock(&self.last).clone()
    }

    pub(super) fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }
}
