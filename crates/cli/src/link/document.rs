//! A link's status, as JSON and as text.

use crate::failure::without_number;
use crate::format::{self, MISSING, count_of};
use crate::quantity::bytes;
use crate::terminal::{Grid, Page};
use crate::tunnel;
use oncewire_net::link::LinkStatus;
use oncewire_report::Unit;
use oncewire_report::text::sanitize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The status as one JSON document.
pub(super) fn render(status: &LinkStatus) -> String {
    let drops: Map<String, Value> =
        status.drops.list().into_iter().map(|(name, count)| (name.into(), count.into())).collect();
    let (sent, received) = (status.traffic.sent, status.traffic.received);
    let document = json!({
        "format": tunnel::STATUS_FORMAT,
        "role": "link",
        "version": status.version,
        "public_key": status.key,
        "uptime_seconds": status.uptime.as_secs_f64(),
        "address": status.address,
        "device": status.device,
        "mtu_bytes": status.mtu,
        "up": status.is_up,
        "last_failure": status.last_failure,
        "allowed": status.allowed,
        "peer": status.peer.as_ref().map(|peer| json!({
            "public_key": peer.key,
            "name": peer.name,
            "address": peer.address,
            "cipher": peer.cipher,
            "rtt_us": peer.rtt.as_micros() as u64,
            "key_age_seconds": peer.key_age.as_secs_f64(),
        })),
        "sent": {
            "packets": sent.packets,
            "packet_bytes": sent.inner_bytes,
            "datagrams": sent.datagrams,
            "datagram_bytes": sent.bytes,
            "acknowledged_datagrams": sent.delivered,
            "lost_datagrams": sent.lost,
        },
        "received": {
            "packets": received.packets,
            "packet_bytes": received.inner_bytes,
            "datagrams": received.datagrams,
            "datagram_bytes": received.bytes,
            "forged_datagrams": status.traffic.forged,
        },
        "dropped": drops,
    });
    format!("{document:#}\n")
}

/// What each reason for a drop means.
const DROPS: [(&str, &str); 13] = [
    ("link_down", "packets dropped while the other end was not connected"),
    (
        "own_traffic",
        "datagrams of this link were routed into its device, and dropped: add a route to the other end's address beside the device",
    ),
    ("too_large", "packets were larger than the device's MTU"),
    ("destination_not_allowed", "packets to networks that --allowed does not name"),
    ("source_not_allowed", "packets from the other end with a source that --allowed does not name"),
    ("malformed", "packets that are not valid IP packets"),
    ("replayed", "datagrams were repeated or very old"),
    ("forged_datagrams", "datagrams that the other end did not seal"),
    ("unknown_index", "datagrams under keys that are not in force, such as after a restart"),
    ("foreign", "datagrams of another protocol"),
    ("violations", "datagrams that break the format: are both ends of one version?"),
    ("not_sent", "datagrams that the system refused to send: is the path's MTU smaller?"),
    ("not_delivered", "packets that the device refused"),
];

/// Prints a [`render`]ed status as text.
pub(crate) fn show<W: Write>(document: &Value, page: &mut Page<'_, W>) -> io::Result<()> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let string = |value: &Value| sanitize(value.as_str().unwrap_or("-")).into_owned();
    let seconds = |value: &Value| format::number(value.as_f64().unwrap_or(0.0), Unit::Seconds);
    page.wrapped(
        "",
        &format!(
            "link {}, device {} with an MTU of {} bytes, UDP {}",
            string(&document["version"]),
            string(&document["device"]),
            number(&document["mtu_bytes"]),
            string(&document["address"]),
        ),
    )?;
    page.wrapped("", &format!("key {}", string(&document["public_key"])))?;
    let peer = &document["peer"];
    if peer.is_null() {
        page.wrapped(
            "",
            &format!("up {}, the other end is not connected", seconds(&document["uptime_seconds"])),
        )?;
    } else {
        let name = peer["name"]
            .as_str()
            .map_or("the other end".into(), |name| sanitize(name).into_owned());
        page.wrapped(
            "",
            &format!("up {}, connected to {name}", seconds(&document["uptime_seconds"])),
        )?;
        page.wrapped(
            "",
            &format!(
                "peer {} at {}, {}, keys {} old, RTT {:.1} ms",
                string(&peer["public_key"]),
                string(&peer["address"]),
                string(&peer["cipher"]),
                seconds(&peer["key_age_seconds"]),
                number(&peer["rtt_us"]) as f64 / 1000.0,
            ),
        )?;
    }
    if let Some(why) = document["last_failure"].as_str() {
        page.wrapped("", &format!("last failure: {}", sanitize(&without_number(&why))))?;
    }
    let allowed: Vec<String> =
        document["allowed"].as_array().into_iter().flatten().map(string).collect();
    page.wrapped("", &format!("networks behind the other end: {}", allowed.join(", ")))?;
    let (sent, received) = (&document["sent"], &document["received"]);
    let (arrived, lost) =
        (number(&sent["acknowledged_datagrams"]), number(&sent["lost_datagrams"]));
    let loss = match arrived + lost {
        0 => MISSING.into(),
        decided => format!("{:.2} %", 100.0 * lost as f64 / decided as f64),
    };
    let mut traffic = Grid::new([
        ("direction", Unit::Text),
        ("packets", Unit::Count),
        ("packet bytes", Unit::Bytes),
        ("datagrams", Unit::Count),
        ("on the wire", Unit::Bytes),
        ("lost on the path", Unit::Share),
    ]);
    for (name, way, loss) in [("sent", sent, loss), ("received", received, MISSING.into())] {
        traffic.row([
            name.into(),
            count_of(number(&way["packets"])),
            bytes(number(&way["packet_bytes"])),
            count_of(number(&way["datagrams"])),
            bytes(number(&way["datagram_bytes"])),
            loss,
        ]);
    }
    page.line("")?;
    page.grid(traffic)?;
    let mut first = true;
    for (name, what) in DROPS {
        let count = number(&document["dropped"][name]).max(number(&received[name]));
        if count > 0 {
            if std::mem::take(&mut first) {
                page.line("")?;
            }
            page.wrapped("", &format!("{} {what}", count_of(count)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::columns;
    use oncewire_net::link::{Drops, PeerStatus, Traffic};
    use std::time::Duration;

    fn sample() -> LinkStatus {
        let mut traffic = Traffic::default();
        traffic.sent.packets = 1_234_567_890;
        traffic.sent.inner_bytes = u64::MAX;
        traffic.sent.datagrams = 1_234_567_890;
        traffic.sent.bytes = u64::MAX;
        traffic.sent.delivered = 9_900;
        traffic.sent.lost = 100;
        traffic.forged = 77;
        LinkStatus {
            version: "oncewire 0.1.0".into(),
            key: format!("ow1{}", "q".repeat(52)),
            uptime: Duration::from_secs(7_300),
            address: "[::]:7077".into(),
            device: "oncewire0".into(),
            mtu: 1416,
            is_up: true,
            peer: Some(PeerStatus {
                key: format!("ow1{}", "k".repeat(52)),
                name: Some("\u{1b}[2Jsite".into()),
                address: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".into(),
                cipher: "ChaCha20-Poly1305".into(),
                rtt: Duration::from_micros(12_345),
                key_age: Duration::from_secs(90),
            }),
            allowed: vec!["10.1.0.0/16".into(), "fd00::/8".into()],
            last_failure: None,
            traffic,
            drops: Drops { own_traffic: 5, ..Drops::default() },
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
                "1.00 %",
                "12.3 ms",
                "ChaCha20",
                "MTU of 1416",
                "5 datagrams of this",
                "77 datagrams that",
            ] {
                assert!(text.contains(shown), "{width}: {shown} is missing:\n{text}");
            }
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        let down = LinkStatus {
            peer: None,
            is_up: false,
            last_failure: Some("timed out".into()),
            ..sample()
        };
        let text = text(&down, 80);
        assert!(
            text.contains("is not connected") && text.contains("last failure: timed out"),
            "{text}"
        );
    }

    #[test]
    fn every_drop_has_a_text() {
        for (name, _) in Drops::default().list() {
            assert!(DROPS.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
