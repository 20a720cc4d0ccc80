//! A link's status, as JSON and as text.

use crate::failure::without_number;
use crate::format::{self, MISSING, count_of, counted};
use crate::quantity::{bytes, savings};
use crate::terminal::{Grid, Page};
use crate::tunnel;
use oncewire_net::link::{Drops, LinkStatus, PeerStatus, Traffic};
use oncewire_report::Unit;
use oncewire_report::text::sanitize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The status as one JSON document.
pub(super) fn render(status: &LinkStatus) -> String {
    let connected = status.peers.iter().filter(|peer| peer.connection.is_some()).count();
    let document = json!({
        "format": tunnel::STATUS_FORMAT,
        "role": "link",
        "version": status.version,
        "public_key": status.key,
        "uptime_seconds": status.uptime.as_secs_f64(),
        "address": status.address,
        "device": status.device,
        "mtu_bytes": status.mtu,
        "up": connected == status.peers.len(),
        "peers_connected": connected,
        "refused_handshakes": status.refused_handshakes,
        "last_refused_handshake": status.last_refused,
        "address_checks": status.retries,
        "sent": sent(&status.traffic),
        "received": received(&status.traffic),
        "dropped": drops(&status.drops),
        "peers": status.peers.iter().map(peer).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn peer(peer: &PeerStatus) -> Value {
    let connection = peer.connection.as_ref();
    json!({
        "public_key": peer.key,
        "name": peer.name,
        "configured_address": peer.configured_address,
        "up": connection.is_some(),
        "address": connection.map(|connection| &connection.address),
        "cipher": connection.map(|connection| &connection.cipher),
        "rtt_us": connection.map(|connection| connection.rtt.as_micros() as u64),
        "key_age_seconds": connection.map(|connection| connection.key_age.as_secs_f64()),
        "last_failure": peer.last_failure,
        "allowed": peer.allowed,
        "sent": sent(&peer.traffic),
        "received": received(&peer.traffic),
        "dropped": drops(&peer.drops),
    })
}

fn sent(traffic: &Traffic) -> Value {
    let sent = traffic.sent;
    json!({
        "packets": sent.packets,
        "packet_bytes": sent.inner_bytes,
        "datagrams": sent.datagrams,
        "datagram_bytes": sent.bytes,
        "acknowledged_datagrams": sent.delivered,
        "lost_datagrams": sent.lost,
        "logged_bytes": sent.logged_bytes,
        "bypassed_bytes": sent.bypassed_bytes,
        "frame_bytes": sent.frame_bytes,
        "header_bytes": sent.header_bytes,
        "coded_header_bytes": sent.section_bytes,
        "rejected_frames": sent.rejected,
        "repaired_frames": sent.repaired,
        "logs_begun": sent.logs,
    })
}

fn received(traffic: &Traffic) -> Value {
    let received = traffic.received;
    json!({
        "packets": received.packets,
        "packet_bytes": received.inner_bytes,
        "datagrams": received.datagrams,
        "datagram_bytes": received.bytes,
        "forged_datagrams": traffic.forged,
        "waited_frames": received.waited,
        "rejected_frames": received.rejected,
        "stale_frames": received.stale,
        "missing_headers": received.missing_headers,
        "given_up_pieces": received.given_up,
    })
}

fn drops(drops: &Drops) -> Map<String, Value> {
    drops.list().into_iter().map(|(name, count)| (name.into(), count.into())).collect()
}

/// What each reason for a drop means: of what, and why.
const DROPS: [(&str, &str, &str); 16] = [
    ("link_down", "packet", "dropped while the peer was not connected"),
    (
        "own_traffic",
        "datagram",
        "of this link, routed into its device and dropped there: add a route to the peer's address beside the device",
    ),
    ("too_large", "packet", "larger than the device's MTU"),
    ("destination_not_allowed", "packet", "to networks that are behind no peer (--allowed)"),
    ("source_not_allowed", "packet", "with a source that is not behind the peer (--allowed)"),
    ("queue", "packet", "from the queue of --rate, so that others wait less"),
    ("congestion", "packet", "that met congestion, whose senders understand no marks (ECN)"),
    ("malformed", "packet", "of invalid form"),
    ("replayed", "datagram", "repeated or very old"),
    ("forged_datagrams", "datagram", "not sealed by the peer"),
    ("unknown_index", "datagram", "under keys that are not in force, such as after a restart"),
    ("foreign", "datagram", "of another protocol"),
    ("violations", "datagram", "breaking the format: are both ends of one version?"),
    ("keys_used_up", "datagram", "dropped because the keys are used up: renewals fail"),
    ("not_sent", "datagram", "refused by the system: is the path's MTU smaller?"),
    ("not_delivered", "packet", "refused by the device"),
];

/// Bytes of packets below which the share of saved bytes says nothing: acknowledgments and the
/// link's own bytes outweigh them.
const LITTLE: u64 = 64 << 10;

/// Prints a [`render`]ed status as text.
pub(crate) fn show<W: Write>(document: &Value, page: &mut Page<'_, W>) -> io::Result<()> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    // Some strings come from peers and strangers.
    let string = |value: &Value| sanitize(value.as_str().unwrap_or("-")).into_owned();
    let seconds = |value: &Value| format::number(value.as_f64().unwrap_or(0.0), Unit::Seconds);
    let peers = document["peers"].as_array().cloned().unwrap_or_default();
    page.wrapped(
        "",
        &format!(
            "link {}, device {} with an MTU of {} bytes, UDP {}",
            string(&document["version"]),
            string(&document["device"]),
            count_of(number(&document["mtu_bytes"])),
            string(&document["address"]),
        ),
    )?;
    page.wrapped("", &format!("key {}", string(&document["public_key"])))?;
    page.wrapped(
        "",
        &format!(
            "up {}, {} of {} connected",
            seconds(&document["uptime_seconds"]),
            number(&document["peers_connected"]),
            counted(peers.len() as u64, "peer"),
        ),
    )?;
    let mut states = Grid::new([
        ("peer", Unit::Text),
        ("state", Unit::Text),
        ("RTT", Unit::Seconds),
        ("keys", Unit::Seconds),
        ("networks behind it", Unit::Text),
        ("address", Unit::Text),
        ("cipher", Unit::Text),
    ])
    .require(4);
    let mut traffic = Grid::new([
        ("peer", Unit::Text),
        ("direction", Unit::Text),
        ("packets", Unit::Count),
        ("payload", Unit::Bytes),
        ("wire", Unit::Bytes),
        ("saved", Unit::Share),
        ("path loss", Unit::Share),
        ("beyond", Unit::Share),
    ]);
    let mut notes = Vec::new();
    let name = |peer: &Value| {
        let key: String = string(&peer["public_key"]).chars().take(11).collect();
        peer["name"].as_str().map_or(key, |name| sanitize(name).into_owned())
    };
    for peer in &peers {
        let networks: Vec<String> =
            peer["allowed"].as_array().into_iter().flatten().map(string).collect();
        let is_up = peer["up"] == true;
        let address = if is_up { &peer["address"] } else { &peer["configured_address"] };
        states.row([
            name(peer),
            if is_up { "connected" } else { "not connected" }.into(),
            if is_up {
                format!("{:.1} ms", number(&peer["rtt_us"]) as f64 / 1000.0)
            } else {
                MISSING.into()
            },
            if is_up { seconds(&peer["key_age_seconds"]) } else { MISSING.into() },
            networks.join(", "),
            string(address),
            string(&peer["cipher"]),
        ]);
        if let Some(why) = peer["last_failure"].as_str() {
            let why = without_number(&why);
            notes.push(format!("{}: last failure: {}", name(peer), sanitize(&why)));
        }
        let (sent, received) = (&peer["sent"], &peer["received"]);
        let (arrived, lost) =
            (number(&sent["acknowledged_datagrams"]), number(&sent["lost_datagrams"]));
        // Frames that arrived, but lacked content that the path had lost, and were not sent again.
        let beyond =
            number(&sent["rejected_frames"]).saturating_sub(number(&sent["repaired_frames"]));
        if beyond > 0 {
            notes.push(format!(
                "{}: {} lost beyond the path's losses, because of content that the path had lost",
                name(peer),
                counted(beyond, "frame")
            ));
        }
        let share = |count: u64| match arrived.saturating_add(lost) {
            0 => MISSING.into(),
            decided => format!("{:.2} %", 100.0 * count as f64 / decided as f64),
        };
        let of_sent = [share(lost), share(beyond)];
        let of_received = [MISSING.into(), MISSING.into()];
        for (direction, way, [loss, beyond]) in
            [("sent", sent, of_sent), ("received", received, of_received)]
        {
            let (whole, wire) = (number(&way["packet_bytes"]), number(&way["datagram_bytes"]));
            let says_nothing = whole < LITTLE || wire / 2 > whole;
            traffic.row([
                if direction == "sent" { name(peer) } else { String::new() },
                direction.into(),
                count_of(number(&way["packets"])),
                bytes(whole),
                bytes(wire),
                if says_nothing { MISSING.into() } else { savings(wire, whole) },
                loss,
                beyond,
            ]);
        }
    }
    for grid in [states, traffic] {
        page.line("")?;
        page.grid(grid)?;
    }
    for (key, what, why) in DROPS {
        let count = |of: &Value| number(&of["dropped"][key]).max(number(&of["received"][key]));
        let total = count(document);
        if total == 0 {
            continue;
        }
        let by_peer: Vec<String> = peers
            .iter()
            .filter(|&peer| count(peer) > 0 && peers.len() > 1)
            .map(|peer| format!("{} {}", name(peer), count_of(count(peer))))
            .collect();
        let by_peer = if by_peer.is_empty() {
            by_peer.join("")
        } else {
            format!(" ({})", by_peer.join(", "))
        };
        notes.push(format!("{} {why}{by_peer}", counted(total, what)));
    }
    let refused = number(&document["refused_handshakes"]);
    if refused > 0 {
        notes.push(format!(
            "{} of strangers refused; the last one: {}",
            counted(refused, "handshake"),
            sanitize(&without_number(&string(&document["last_refused_handshake"]))),
        ));
    }
    if !notes.is_empty() {
        page.line("")?;
    }
    notes.iter().try_for_each(|note| page.wrapped("", note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::columns;
    use oncewire_net::link::ConnectionStatus;
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
        }
    }

    fn text(status: &LinkStatus, width: usize) -> String {
        let document: Value = serde_json::from_str(&render(status)).unwrap();
        let mut out = Vec::new();
        show(&document, &mut Page::new(&mut out, width, false).complete_in("--json")).unwrap();
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
        for (name, _) in Drops::default().list() {
            assert!(DROPS.iter().any(|(known, ..)| *known == name), "{name}");
        }
    }

    /// Programs rely on these keys.
    #[test]
    fn the_document_is_stable() {
        let document: Value = serde_json::from_str(&render(&sample())).unwrap();
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
