//! A link's status as a report.

use crate::failure::without_number;
use crate::format::{self, count_of, counted};
use crate::stdout;
use oncewire_net::status::{Drops, LinkStatus, PeerStatus, Traffic};
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit};

type Count = fn(&Traffic, &Drops) -> u64;

/// What each reason for a drop means: of what, and why.
const DROPS: [(Count, &str, &str); 16] = [
    (|_, drops| drops.link_down, "packet", "dropped while the peer was not connected"),
    (
        |_, drops| drops.own_traffic,
        "datagram",
        "of this link, routed into its device and dropped there: add a route to the peer's address beside the device",
    ),
    (|_, drops| drops.too_large, "packet", "larger than the device's MTU"),
    (
        |_, drops| drops.destination_not_allowed,
        "packet",
        "to networks that are behind no peer (--allowed)",
    ),
    (
        |_, drops| drops.source_not_allowed,
        "packet",
        "with a source that is not behind the peer (--allowed)",
    ),
    (|_, drops| drops.queue, "packet", "from the queue of --rate, so that others wait less"),
    (
        |_, drops| drops.congestion,
        "packet",
        "that met congestion, whose senders understand no marks (ECN)",
    ),
    (|_, drops| drops.malformed, "packet", "of invalid form"),
    (|_, drops| drops.replayed, "datagram", "repeated or very old"),
    (|traffic, _| traffic.forged, "datagram", "not sealed by the peer"),
    (
        |_, drops| drops.unknown_index,
        "datagram",
        "under keys that are not in force, such as after a restart",
    ),
    (|_, drops| drops.foreign, "datagram", "of another protocol"),
    (|_, drops| drops.violations, "datagram", "breaking the format: are both ends of one version?"),
    (
        |_, drops| drops.keys_used_up,
        "datagram",
        "dropped because the keys are used up: renewals fail",
    ),
    (|_, drops| drops.not_sent, "datagram", "refused by the system: is the path's MTU smaller?"),
    (|_, drops| drops.not_delivered, "packet", "refused by the device"),
];

/// Bytes of packets below which the share of saved bytes says nothing: acknowledgments and the
/// link's own bytes outweigh them.
const LITTLE: u64 = 64 << 10;

/// The status as people read it. Some text in it comes from peers and strangers.
pub(super) fn report(status: &LinkStatus) -> Report {
    let about = Section::new("about", "About")
        .text(format!(
            "link {}, device {} with an MTU of {} bytes, UDP {}",
            status.version,
            status.device,
            count_of(status.mtu.into()),
            status.address,
        ))
        .text(format!("key {}", status.key))
        .text(format!(
            "up {}, {} of {} connected",
            format::number(status.uptime.as_secs_f64(), Unit::Seconds),
            status.connected(),
            counted(status.peers.len() as u64, "peer"),
        ));
    let about = super::history(&status.history).into_iter().fold(about, Section::text);
    let sections = vec![about, states(&status.peers), traffic(&status.peers), notes(status)];
    Report { kind: "Status", title: "link".into(), sections, ..Report::default() }
}

/// What a peer is called: its name, or the beginning of its key.
fn label(peer: &PeerStatus) -> String {
    peer.name.clone().unwrap_or_else(|| peer.key.chars().take(11).collect())
}

pub(super) fn states(peers: &[PeerStatus]) -> Section {
    let columns = [
        ("peer", Unit::Text),
        ("state", Unit::Text),
        ("RTT", Unit::Seconds),
        ("keys", Unit::Seconds),
        ("networks behind it", Unit::Text),
        ("address", Unit::Text),
        ("cipher", Unit::Text),
    ];
    let row = |peer: &PeerStatus| {
        let connection = peer.connection.as_ref();
        let address = connection.map(|connection| &connection.address);
        let address = address.or(peer.configured_address.as_ref().filter(|_| connection.is_none()));
        vec![
            label(peer).into(),
            if connection.is_some() { "connected" } else { "not connected" }.into(),
            connection
                .map(|connection| format!("{:.1} ms", connection.rtt.as_micros() as f64 / 1000.0))
                .into(),
            connection.map(|connection| connection.key_age.as_secs_f64()).into(),
            peer.allowed.join(", ").into(),
            address.map_or("-", String::as_str).into(),
            connection.map_or("-", |connection| &connection.cipher).into(),
        ]
    };
    let table = Table::new("peers", "", &columns, peers.iter().map(row).collect());
    Section::new("peers", "Peers").table(TableView::complete(table).optional(3))
}

/// Frames that arrived, but lacked content that the path had lost, and were not sent again.
fn beyond(traffic: &Traffic) -> u64 {
    traffic.sent.rejected.saturating_sub(traffic.sent.repaired)
}

fn traffic(peers: &[PeerStatus]) -> Section {
    let columns = [
        ("peer", Unit::Text),
        ("direction", Unit::Text),
        ("packets", Unit::Count),
        ("payload", Unit::Bytes),
        ("wire", Unit::Bytes),
        ("saved", Unit::Share),
        ("path loss", Unit::Share),
        ("beyond", Unit::Share),
    ];
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for peer in peers {
        let Traffic { sent, received, .. } = &peer.traffic;
        let share = |count: u64| match sent.delivered.saturating_add(sent.lost) {
            0 => Cell::None,
            decided => format!("{:.2} %", 100.0 * count as f64 / decided as f64).into(),
        };
        let mut row = |first: String,
                       direction: &str,
                       packets: u64,
                       whole: u64,
                       wire: u64,
                       [loss, beyond]: [Cell; 2]| {
            let says_nothing = whole < LITTLE || wire / 2 > whole;
            let saved = if says_nothing { Cell::None } else { stdout::savings(wire, whole).into() };
            rows.push(vec![
                first.into(),
                direction.into(),
                packets.into(),
                whole.into(),
                wire.into(),
                saved,
                loss,
                beyond,
            ]);
        };
        let losses = [share(sent.lost), share(beyond(&peer.traffic))];
        row(label(peer), "sent", sent.packets, sent.inner_bytes, sent.bytes, losses);
        let (packets, whole, wire) = (received.packets, received.inner_bytes, received.bytes);
        row(String::new(), "received", packets, whole, wire, [Cell::None, Cell::None]);
    }
    let table = Table::new("traffic", "", &columns, rows);
    Section::new("traffic", "Traffic").table(TableView::complete(table))
}

/// What stands out: failures and losses of each peer, then drops, then strangers.
pub(super) fn notes(status: &LinkStatus) -> Section {
    let mut section = Section::new("notes", "Notes");
    for peer in &status.peers {
        if let Some(why) = &peer.last_failure {
            section =
                section.text(format!("{}: last failure: {}", label(peer), without_number(why)));
        }
        let beyond = beyond(&peer.traffic);
        if beyond > 0 {
            section = section.text(format!(
                "{}: {} lost beyond the path's losses, because of content that the path had lost",
                label(peer),
                counted(beyond, "frame")
            ));
        }
    }
    for (count, what, why) in DROPS {
        let total = count(&status.traffic, &status.drops);
        if total == 0 {
            continue;
        }
        let of_peer = |peer: &PeerStatus| match count(&peer.traffic, &peer.drops) {
            0 => None,
            of_peer => Some(format!("{} {}", label(peer), count_of(of_peer))),
        };
        let by_peer: Vec<String> = match &status.peers[..] {
            [_, _, ..] => status.peers.iter().filter_map(of_peer).collect(),
            _ => Vec::new(),
        };
        let by_peer = match by_peer.join(", ") {
            none if none.is_empty() => none,
            some => format!(" ({some})"),
        };
        section = section.text(format!("{} {why}{by_peer}", counted(total, what)));
    }
    if status.refused_handshakes > 0 {
        let last = status.last_refused.as_ref().map_or_else(|| "-".into(), without_number);
        section = section.text(format!(
            "{} of strangers refused; the last one: {last}",
            counted(status.refused_handshakes, "handshake"),
        ));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::text::render;
    use crate::terminal::{Page, columns};
    use oncewire_net::status::{ConnectionStatus, Document, Metrics as _};
    use serde_json::Value;
    use std::time::Duration;

    fn sample() -> LinkStatus {
        let mut traffic = Traffic::default();
        traffic.sent.packets = 1_234_567_890;
        traffic.sent.inner_bytes = u64::MAX;
        traffic.sent.datagrams = 1_234_567_890;
        traffic.sent.bytes = u64::MAX / 4;
        traffic.sent.delivered = 9_900;
        traffic.sent.lost = 100;
        traffic.sent.rejected = 30;
        traffic.sent.repaired = 5;
        traffic.forged = 77;
        let connected = PeerStatus {
            key: format!("ow1{}", "k".repeat(52)),
            name: Some("\u{1b}[2Jsite".into()),
            connection: Some(ConnectionStatus {
                address: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".into(),
                cipher: "ChaCha20-Poly1305".into(),
                rtt: Duration::from_micros(12_345),
                key_age: Duration::from_secs(90),
            }),
            allowed: vec!["10.1.0.0/16".into(), "fd00::/8".into()],
            traffic,
            drops: Drops { too_large: 1, ..Drops::default() },
            ..PeerStatus::default()
        };
        let absent = PeerStatus {
            key: format!("ow1{}", "z".repeat(52)),
            configured_address: Some("a-long-name-of-a-site.example:7077".into()),
            allowed: vec!["192.168.100.0/24".into()],
            last_failure: Some("timed out".into()),
            drops: Drops { link_down: 4, ..Drops::default() },
            ..PeerStatus::default()
        };
        LinkStatus {
            version: "oncewire 0.1.0".into(),
            key: format!("ow1{}", "q".repeat(52)),
            uptime: Duration::from_secs(7_300),
            address: "[::]:7077".into(),
            device: "oncewire0".into(),
            mtu: 1416,
            peers: vec![connected, absent],
            refused_handshakes: 1,
            last_refused: Some("192.0.2.7:5: \u{1b}no".into()),
            retries: 3,
            traffic,
            drops: Drops { own_traffic: 5, too_large: 1, link_down: 4, ..Drops::default() },
            history: None,
        }
    }

    fn text(status: &LinkStatus, width: usize) -> String {
        // As a process writes it and `oncewire status` reads it.
        let document: Value = serde_json::from_str(&render(status.document())).unwrap();
        let Document::Link(read) = Document::read(&document).unwrap() else { panic!("a tunnel") };
        assert_eq!(*read, *status);
        let mut out = Vec::new();
        let mut page = Page::new(&mut out, width, false).complete_in("--json");
        page.answer(&report(&read)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn status_fits_and_names_drops() {
        for width in [80, 120] {
            let text = text(&sample(), width);
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            for shown in [
                "1 of 2 peers connected",
                "MTU of 1,416",
                "12.3 ms",
                "not connected",
                "1.00 %",
                "0.25 %",
                "75.0 %",
                "5 datagrams of this",
                "77 datagrams not",
                "1 packet larger",
                "4 packets dropped",
                "last failure: timed out",
                "1 handshake of strangers refused",
                "25 frames lost beyond",
            ] {
                assert!(text.contains(shown), "{width}: {shown} is missing:\n{text}");
            }
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        let few = LinkStatus { peers: Vec::new(), ..LinkStatus::default() };
        assert!(text(&few, 80).contains("0 of 0 peers"));
    }

    #[test]
    fn every_drop_has_a_text() {
        for (at, metric) in Drops::METRICS.iter().enumerate() {
            let one = Drops::from_values((0..Drops::METRICS.len()).map(|nth| u64::from(nth == at)));
            let shown = |&(count, ..): &(Count, _, _)| count(&Traffic::default(), &one) == 1;
            assert_eq!(DROPS.iter().filter(|drop| shown(drop)).count(), 1, "{}", metric.name);
        }
    }

    /// Programs rely on these keys.
    #[test]
    fn the_document_is_stable() {
        let document: Value = serde_json::from_str(&render(sample().document())).unwrap();
        let keys =
            |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        let top = [
            "address",
            "address_checks",
            "device",
            "dropped",
            "format",
            "last_refused_handshake",
            "mtu_bytes",
            "peers",
            "peers_connected",
            "public_key",
            "received",
            "refused_handshakes",
            "role",
            "sent",
            "up",
            "uptime_seconds",
            "version",
        ];
        let peer = [
            "address",
            "allowed",
            "cipher",
            "configured_address",
            "dropped",
            "key_age_seconds",
            "last_failure",
            "name",
            "public_key",
            "received",
            "rtt_us",
            "sent",
            "up",
        ];
        for (value, expected) in
            [(&document, &top[..]), (&document["peers"][0], &peer), (&document["peers"][1], &peer)]
        {
            let found = keys(value);
            for key in expected {
                assert!(found.iter().any(|found| found == key), "{key} is not in {found:?}");
            }
        }
        assert_eq!(document["up"], false);
        assert_eq!(document["peers"][0]["dropped"]["too_large"], 1);
        assert_eq!(document["peers"][1]["address"], Value::Null);
    }
}
