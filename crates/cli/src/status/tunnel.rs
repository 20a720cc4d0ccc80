//! A tunnel's status, as JSON and as text.

use crate::failure::without_number;
use crate::format::{self, MISSING, count_of};
use crate::quantity::{binary, bytes, savings};
use crate::terminal::{Grid, Page};
use oncewire_net::status::{SessionStatus, Status};
use oncewire_report::Unit;
use oncewire_report::text::sanitize;
use oncewire_session::Counters;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Number of the document's layout. It grows when a key changes its meaning or goes away, not when
/// one is added.
pub(crate) const FORMAT: u64 = 1;

/// The status as one JSON document.
pub(super) fn render(status: &Status) -> String {
    let sessions: Vec<Value> = status.sessions.iter().map(session).collect();
    let document = json!({
        "format": FORMAT,
        "role": status.role,
        "version": status.version,
        "protocol_versions": [oncewire_session::VERSIONS.start(), oncewire_session::VERSIONS.end()],
        "public_key": status.key,
        "uptime_seconds": status.uptime.as_secs_f64(),
        "listening": status.listening,
        "draining": status.draining,
        "memory_limit_bytes": status.memory_limit,
        "memory_bytes": status.memory,
        "kept_logs": status.kept_logs,
        "logs_shrunk": status.shrunk,
        "logs_grown": status.grown,
        "last_failure": status.last_failure,
        "refused_transports": status.refused_transports,
        "refused_connections": status.refused_connections,
        "displaced_proxy_clients": status.displaced_proxy_clients,
        "socks4_clients": status.socks4_clients,
        "transport_sent_bytes": status.transport_sent,
        "transport_received_bytes": status.transport_received,
        "sessions": sessions,
    });
    format!("{document:#}\n")
}

fn session(session: &SessionStatus) -> Value {
    json!({
        "peer": session.peer,
        "name": session.name,
        "agent": session.agent,
        "phase": session.phase,
        "transport": session.transport,
        "address": session.address.map(|address| address.to_string()),
        "peer_cache_limit_bytes": session.peer_cache_limit,
        "refused_targets": session.refused_targets,
        "age_seconds": session.age.as_secs_f64(),
        "idle_seconds": session.idle.as_secs_f64(),
        "lanes": session.lanes,
        "lanes_up": session.lanes_up,
        "cpu_budget": session.effort.map(|effort| json!({
            "share": effort.budget.as_f64(),
            "effort": effort.effort.to_string(),
            "changes": effort.changes,
        })),
        "here": counters(&session.here),
        "there": session.there.as_ref().map(|(there, _)| counters(there)),
        "there_age_seconds": session.there.map(|(_, age)| age.as_secs_f64()),
    })
}

fn counters(counters: &Counters) -> Value {
    let mut map: Map<String, Value> =
        counters.list().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    map.insert(
        "not_reduced".into(),
        json!({
            "not_seen_before_bytes": counters.sent_bytes.saturating_sub(counters.matched_bytes),
            "incompressible_blocks": counters.incompressible_blocks,
            "sent_again_bytes": counters.repeated_bytes,
            "logs_begun": counters.epochs,
        }),
    );
    map.into()
}

/// Prints a [`render`]ed status as text.
pub(super) fn show<W: Write>(document: &Value, page: &mut Page<'_, W>) -> io::Result<()> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    // Some strings come from the peer.
    let string = |value: &Value| sanitize(value.as_str().unwrap_or("-")).into_owned();
    let listening: Vec<String> =
        document["listening"].as_array().into_iter().flatten().map(string).collect();
    let what = format!(
        "{} {}, listening on {}",
        string(&document["role"]),
        string(&document["version"]),
        listening.join(", ")
    );
    page.wrapped("", &what)?;
    page.wrapped("", &format!("key {}", string(&document["public_key"])))?;
    let (memory, limit) = (
        binary(number(&document["memory_bytes"])),
        binary(number(&document["memory_limit_bytes"])),
    );
    let draining = if document["draining"] == true { ", draining" } else { "" };
    let up = format::number(seconds(&document["uptime_seconds"]), Unit::Seconds);
    page.wrapped("", &format!("up {up}, memory {memory} of {limit}{draining}"))?;
    for (counter, what) in [
        (
            "refused_transports",
            "client transports refused: unknown key, failed handshake or too many sessions",
        ),
        (
            "refused_connections",
            "application connections refused: no session or too many connections",
        ),
        (
            "displaced_proxy_clients",
            "proxy clients dropped before they sent a request, to make room for others",
        ),
        (
            "socks4_clients",
            "proxy clients used SOCKS4, which is not supported: configure them for SOCKS5",
        ),
    ] {
        if number(&document[counter]) > 0 {
            page.wrapped("", &format!("{} {what}", number(&document[counter])))?;
        }
    }
    if let Some(why) = document["last_failure"].as_str() {
        page.wrapped(
            "",
            &format!(
                "the last attempt to reach the server failed: {}",
                sanitize(&without_number(&why))
            ),
        )?;
    }
    let sessions = document["sessions"].as_array().cloned().unwrap_or_default();
    if sessions.is_empty() {
        return page.line("no session");
    }
    let (mut efforts, mut problems, mut large) = (Vec::new(), Vec::new(), Vec::new());
    let mut states = Grid::new([
        ("peer", Unit::Text),
        ("phase", Unit::Text),
        ("lanes", Unit::Text),
        ("RTT", Unit::Seconds),
        ("flows", Unit::Count),
        ("over", Unit::Text),
        ("address", Unit::Text),
    ])
    .require(6);
    let mut traffic = Grid::new([
        ("peer", Unit::Text),
        ("direction", Unit::Text),
        ("payload", Unit::Bytes),
        ("on the wire", Unit::Bytes),
        ("saved", Unit::Share),
        ("cache", Unit::Bytes),
        ("in flight", Unit::Bytes),
    ]);
    for session in &sessions {
        let key: String = string(&session["peer"]).chars().take(11).collect();
        let peer = session["name"].as_str().map_or(key, |name| sanitize(name).into_owned());
        if let Some(budget) = session["cpu_budget"].as_object() {
            let percent = 100.0 * budget["share"].as_f64().unwrap_or(0.0);
            let (effort, changes) = (string(&budget["effort"]), number(&budget["changes"]));
            let plural = if changes == 1 { "change" } else { "changes" };
            efforts.push(format!("{peer}: {effort}; {percent:.1} % of a core allowed, {changes} {plural} of effort so far"));
        }
        let (here, there) = (&session["here"], &session["there"]);
        for (direction, from) in [("sent", here), ("received", there)] {
            for (count, why) in [
                (
                    &from["declined_bytes"],
                    "because opening what came before took much work and saved little",
                ),
                (&from["unopened_bytes"], "because sending is faster than opening (see --inside)"),
            ] {
                let count = number(count);
                if count > 0 {
                    efforts.push(format!(
                        "{peer}: {} {direction} without a look inside, {why}",
                        bytes(count)
                    ));
                }
            }
            let padding = number(&from["padding_bytes"]);
            if padding > 0 {
                efforts.push(format!(
                    "{peer}: {} of padding {direction}, {:.1} % of the bytes on the wire",
                    bytes(padding),
                    100.0 * padding as f64 / number(&from["wire_sent_bytes"]).max(1) as f64
                ));
            }
        }
        for (count, what) in [
            (
                number(&session["refused_targets"]),
                "connections refused here: target not allowed or unreachable",
            ),
            (number(&here["flows_refused"]), "connections refused here: too many at once"),
            (
                number(&here["unowned_flows"]),
                "connections whose owner is unknown: nothing of them is shared (see --share)",
            ),
            (
                number(&here["forgotten_domains"]),
                "isolation domains forgotten, because one client had too many names or there were too many clients: what they had sent is not found again",
            ),
            (number(&here["failures"]), "blocks arrived corrupt and were resent"),
            (number(&here["resumes"]), "times the path was lost and the session resumed"),
        ] {
            if count > 0 {
                problems.push(format!("{peer}: {} {what}", count_of(count)));
            }
        }
        states.row([
            peer.clone(),
            string(&session["phase"]),
            format!("{} of {}", number(&session["lanes_up"]), number(&session["lanes"])),
            format!("{:.1} ms", number(&here["rtt_us"]) as f64 / 1000.0),
            count_of(number(&here["flows"])),
            string(&session["transport"]),
            string(&session["address"]),
        ]);
        for (direction, from) in [("sent", here), ("received", there)] {
            // The peer's figures have their age below its name.
            let label = match direction {
                "sent" => peer.clone(),
                _ if from.is_null() => "not reported yet".into(),
                _ => format!("reported {}", ago(seconds(&session["there_age_seconds"]))),
            };
            if from.is_null() {
                let none = [MISSING; 5].map(String::from);
                traffic.row([label, direction.to_string()].into_iter().chain(none));
                continue;
            }
            let (sent, wire) = (number(&from["sent_bytes"]), number(&from["wire_sent_bytes"]));
            large.extend(large_flows(&peer, direction, from));
            traffic.row([
                label,
                direction.to_string(),
                bytes(sent),
                bytes(wire),
                saved(wire, sent),
                binary(number(&from["log_end"]).min(number(&from["log_capacity"]))),
                bytes(number(&from["log_unacknowledged"])),
            ]);
        }
    }
    for grid in [states, traffic] {
        page.line("")?;
        page.grid(grid)?;
    }
    let mut notes = efforts.iter().chain(&problems).chain(&large).peekable();
    if notes.peek().is_some() {
        page.line("")?;
    }
    notes.try_for_each(|note| page.wrapped("", note))
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// The age of a report, in whole seconds, minutes, hours or days.
fn ago(seconds: f64) -> String {
    if seconds < 1.0 {
        return "< 1 s ago".into();
    }
    let unit = match seconds {
        s if s < 120.0 => 1.0,
        s if s < 7_200.0 => 60.0,
        s if s < 172_800.0 => 3_600.0,
        _ => 86_400.0,
    };
    format!("{} ago", format::number((seconds / unit).floor() * unit, Unit::Seconds))
}

/// Payload up to which a session's own messages, such as its handshake and reports, may outweigh
/// what is saved, in bytes.
const LITTLE: u64 = 64 << 10;

/// The share of the payload that was saved. A direction that carries little, or little but
/// acknowledgements, writes more than its payload, and the share says nothing.
fn saved(wire: u64, sent: u64) -> String {
    let says_nothing = wire / 2 > sent || (wire > sent && sent < LITTLE);
    if says_nothing { MISSING.into() } else { savings(wire, sent) }
}

/// A note about flows larger than the cache, with the remedy.
fn large_flows(peer: &str, direction: &str, counters: &Value) -> Option<String> {
    let number = |name: &str| counters[name].as_u64().unwrap_or(0);
    let flows = match number("large_flows") {
        0 => return None,
        1 => "1 flow was".to_owned(),
        flows => format!("{flows} flows were"),
    };
    Some(format!(
        "{peer}: {flows} larger than the cache ({direction}: {}; the cache holds {}). Repeats of such a flow are not found. Raise --memory at both ends.",
        bytes(number("large_flow_bytes")),
        binary(number("log_capacity")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::columns;

    /// Two sessions with the longest numbers possible, one with a name that would clear the screen.
    fn sample() -> Value {
        let counters = json!({
            "rtt_us": 1_234_567, "flows": 4_194_304u64, "sent_bytes": u64::MAX, "wire_sent_bytes": u64::MAX / 3 * 2,
            "log_end": u64::MAX, "log_capacity": 999_900_000_000u64, "log_unacknowledged": 999_400_000u64,
            "declined_bytes": 123_000_000u64, "unopened_bytes": 456_000_000u64, "flows_refused": 1, "unowned_flows": 6000, "forgotten_domains": 4044, "failures": 12, "resumes": 3,
        });
        let budget = json!({ "share": 0.25, "effort": "coded-3, p = 32", "changes": 1234 });
        let session = |name: &str, there: &Value| {
            json!({
                "peer": format!("ow1{}", "k".repeat(52)), "name": name, "phase": "established", "lanes": 8, "lanes_up": 8,
                "cpu_budget": budget, "here": counters, "there": there, "there_age_seconds": 3.7, "refused_targets": 1234, "transport": "quic",
                "address": "[2001:db8:1111:2222:3333:4444:5555:6666]:65535",
            })
        };
        json!({
            "role": "serve", "version": "0.1.0", "public_key": format!("ow1{}", "q".repeat(52)), "draining": true,
            "uptime_seconds": 7_300.5,
            "listening": ["[2001:db8:1111:2222:3333:4444:5555:6666]:7077", "192.0.2.1:7077", "192.0.2.2:7077"],
            "memory_bytes": 536_870_912, "memory_limit_bytes": 1_099_511_627_776u64,
            "sessions": [session("branch-office-in-a-town-with-a-long-name", &counters), session("\u{1b}[2Jb", &Value::Null)],
        })
    }

    #[test]
    fn status_fits_and_cuts_no_number() {
        for width in [80, 97, 120] {
            let mut out = Vec::new();
            show(&sample(), &mut Page::new(&mut out, width, false).complete_in("--json")).unwrap();
            let text = String::from_utf8(out).unwrap();
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            for number in [
                "18.4 EB",
                "12.3 EB",
                "33.3 %",
                "931.2 GiB",
                "999 MB",
                "1234.6 ms",
                "4,194,304",
                "8 of 8",
            ] {
                assert!(text.contains(number), "{width}: {number} is missing:\n{text}");
            }
            assert!(!text.contains('\u{1b}'), "{text}");
            // An IPv6 address does not fit next to a long name; a note says where it is.
            assert_ne!(
                text.contains("Also in --json: address."),
                text.contains(":6666]:65535"),
                "{width}: {text}"
            );
            assert!(
                text.contains("quic")
                    && text.contains("1,234 connections refused here: target not allowed")
                    && text.contains("6,000 connections whose owner is unknown")
                    && text.contains("4,044 isolation domains forgotten"),
                "{text}"
            );
            // A peer's figures come with their age, and with a reason where there are none.
            for shown in ["up 2.03 h", "reported 3 s ago", "not reported yet"] {
                assert!(text.contains(shown), "{width}: {shown:?} is missing:\n{text}");
            }
            assert!(
                text.contains("123 MB sent without") && text.contains("123 MB received without"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_quiet_direction_has_no_share() {
        assert_eq!(saved(10_000, 100), MISSING);
        assert_eq!(saved(0, 0), MISSING);
        assert_eq!(saved(150, 100), MISSING);
        assert_eq!(saved(150_000, 100_000), savings(150, 100));
        assert_eq!(saved(25, 100), "75.0 %");
    }

    #[test]
    fn reports_have_an_age() {
        for (seconds, text) in [
            (0.0, "< 1 s ago"),
            (0.999, "< 1 s ago"),
            (1.0, "1 s ago"),
            (3.99, "3 s ago"),
            (119.9, "119 s ago"),
            (150.0, "2 min ago"),
            (7_199.0, "119 min ago"),
            (86_399.0, "23 h ago"),
            (500_000.0, "5 d ago"),
        ] {
            assert_eq!(ago(seconds), text);
        }
    }

    #[test]
    fn flows_larger_than_the_cache_come_with_advice() {
        let told = |here: Counters, there: Counters| {
            let session =
                json!({ "name": "site-b", "here": counters(&here), "there": counters(&there) });
            let mut out = Vec::new();
            show(
                &json!({ "role": "serve", "sessions": [session] }),
                &mut Page::new(&mut out, 80, false),
            )
            .unwrap();
            // Without regard to line breaks.
            String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let none = Counters { log_capacity: 64 << 20, ..Counters::default() };
        let nothing = told(none, none);
        assert!(!nothing.contains("larger than"), "{nothing}");
        let large = Counters { large_flows: 2, large_flow_bytes: 600_000_000, ..none };
        assert_eq!(counters(&large)["large_flow_bytes"], 600_000_000);
        let note = "site-b: 2 flows were larger than the cache (received: 600 MB; the cache holds 64 MiB). Repeats of such a flow are not found. \
                    Raise --memory at both ends.";
        assert!(told(none, large).contains(note), "{}", told(none, large));
        let one = told(Counters { large_flows: 1, ..large }, none);
        assert!(one.contains("1 flow was larger than the cache (sent: 600 MB;"), "{one}");
    }
}
