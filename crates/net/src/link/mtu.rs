//! The MTU of the path to a peer, as QUIC's connection finds it (RFC 8899), and as its datagrams do.
//!
//! A link begins with the size that it was configured for, since hosts remember a smaller one for
//! minutes. QUIC searches meanwhile. A path that becomes narrower later without a word, a black hole,
//! is noticed by what the peer acknowledges: QUIC itself sends nothing large. Then datagrams become as
//! small as every path allows, and a new connection searches again.

use super::inner::largest_packet;
use super::peers::Keyed;
use super::{LEAST_DATAGRAM, Shared};
use crate::sync::lock;
use oncewire_packet::icmp::LEAST_MTU_V6;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time, beside four round trips, after which a search that has found nothing more is over.
const SETTLED: Duration = Duration::from_secs(3);

/// What QUIC knows of a path.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Largest UDP payload that has arrived, in bytes.
    largest: usize,
    /// Probes sent so far, and datagrams received.
    probes: u64,
    received: u64,
    rtt: Duration,
}

/// The search on one connection.
#[derive(Debug)]
pub(super) struct PathMtu {
    /// What was found, since when.
    found: Option<(usize, u64, Instant)>,
    /// When QUIC received something last.
    heard: Option<(u64, Instant)>,
    /// Whether another connection must search.
    is_over: bool,
}

impl PathMtu {
    pub(super) fn new() -> PathMtu {
        PathMtu { found: None, heard: None, is_over: false }
    }

    /// The largest datagram to send from now on, if it is another than `in_use`. It is at most `most`.
    fn update(&mut self, found: Found, in_use: usize, most: usize, now: Instant) -> Option<usize> {
        if self.heard.is_none_or(|(received, _)| received != found.received) {
            self.heard = Some((found.received, now));
        }
        let largest = found.largest.min(most);
        let since = match self.found {
            Some((before, probes, since)) if (before, probes) == (largest, found.probes) => since,
            _ => {
                self.found = Some((largest, found.probes, now));
                now
            }
        };
        let is_settled = now.saturating_duration_since(since) >= SETTLED + 4 * found.rtt;
        (largest > in_use || largest < in_use && is_settled).then_some(largest)
    }
}

/// Looks at the path of a connection. Returns whether another connection must search it.
pub(super) fn check(shared: &Shared, keyed: &Keyed, path: &mut PathMtu) -> bool {
    let peer = &shared.peers[keyed.peer];
    if !peer.keys.is_sealing(keyed) {
        return false;
    }
    let (stats, now) = (keyed.connection.stats(), Instant::now());
    let found = Found {
        largest: stats.path.current_mtu.into(),
        probes: stats.path.sent_plpmtud_probes,
        received: stats.udp_rx.datagrams,
        rtt: stats.path.rtt,
    };
    let mut sender = lock(&keyed.association.sender);
    let in_use = sender.largest();
    let update = path.update(found, in_use, keyed.largest, now);
    let heard = path.heard.map(|(_, at)| at);
    if sender.suspects_black_hole(heard, now) {
        sender.set_largest(LEAST_DATAGRAM.into());
        path.is_over = true;
        let peer = peer.config.label();
        warn!(
            peer,
            bytes = in_use,
            "large datagrams do not arrive any more; searching the path's MTU again"
        );
    } else if let Some(largest) = update.filter(|_| !path.is_over) {
        sender.set_largest(largest);
        info!(peer = peer.config.label(), bytes = largest, "largest datagram of the path");
    } else {
        return path.is_over;
    }
    drop(sender);
    set_device(shared);
    path.is_over
}

/// Gives the device the MTU that the widest path allows. Packets that do not fit others are answered
/// one by one.
fn set_device(shared: &Shared) {
    let largest = shared.peers.iter().filter_map(|peer| peer.keys.sealing());
    let largest = largest.map(|keyed| largest_packet(&lock(&keyed.association.sender))).max();
    let Some(mtu) = largest.map(|mtu| mtu.max(LEAST_MTU_V6)) else { return };
    // Without IPv6's least MTU, the system would take the device's IPv6 addresses away.
    let before = shared.mtu.swap(mtu, Relaxed);
    if before == mtu || shared.config.shaping.split {
        return;
    }
    if let Err(error) = shared.device.set_mtu(mtu) {
        warn!(%error, mtu, "cannot set the MTU of the tun device");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn found(largest: usize, probes: u64) -> Found {
        Found { largest, probes, received: probes, rtt: 50 * MS }
    }

    #[test]
    fn a_search_lowers_only_when_it_is_over_and_raises_at_once() {
        let (start, mut path) = (Instant::now(), PathMtu::new());
        let mut at = |found, in_use, after| path.update(found, in_use, 1452, start + after);
        assert_eq!(at(found(1200, 1), 1452, Duration::ZERO), None);
        assert_eq!(at(found(1300, 2), 1452, 900 * MS), None);
        assert_eq!(at(found(1300, 5), 1452, 2000 * MS), None);
        assert_eq!(at(found(1300, 5), 1452, 5100 * MS), None, "four round trips more");
        assert_eq!(at(found(1300, 5), 1452, 5200 * MS), Some(1300));
        assert_eq!(at(found(1300, 5), 1300, 6000 * MS), None);
        assert_eq!(at(found(1350, 6), 1300, 6100 * MS), Some(1350));
        assert_eq!(at(found(9000, 7), 1350, 6200 * MS), Some(1452), "as configured");
        assert_eq!(at(found(9000, 7), 1452, 60_000 * MS), None);
    }

    #[test]
    fn what_quic_hears_is_noted() {
        let (start, mut path) = (Instant::now(), PathMtu::new());
        for (received, after) in [(1, 0), (1, 10), (2, 20), (2, 30)] {
            path.update(Found { received, ..found(1200, 0) }, 1200, 1452, start + after * MS);
        }
        assert_eq!(path.heard, Some((2, start + 20 * MS)));
    }
}
