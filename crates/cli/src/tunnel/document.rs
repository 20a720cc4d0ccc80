//! A tunnel's state as JSON, and as a text for people.

use crate::format::tame;
use crate::quantity::{binary, bytes, savings};
use comfy_table::{CellAlignment, Table, presets};
use oncewire_net::status::{SessionStatus, Status};
use oncewire_session::Counters;
use serde_json::{Map, Value, json};

/// One JSON document.
pub(super) fn render(status: &Status) -> String {
    let sessions: Vec<Value> = status.sessions.iter().map(session).collect();
    let document = json!({
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
    let mut map: Map<String, Value> = counters.list().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
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

/// The same for people.
pub(super) fn text(document: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    // Some of it comes from the peer.
    let string = |value: &Value| tame(value.as_str().unwrap_or("-")).into_owned();
    let listening: Vec<String> = document["listening"].as_array().into_iter().flatten().map(string).collect();
    let mut out = format!(
        "{} {}, listening on {}, key {}\nmemory {} of {}{}\n",
        string(&document["role"]),
        string(&document["version"]),
        listening.join(", "),
        string(&document["public_key"]),
        binary(number(&document["memory_bytes"])),
        binary(number(&document["memory_limit_bytes"])),
        if document["draining"] == true { ", draining" } else { "" },
    );
    for (counter, what) in [
        ("displaced_proxy_clients", "proxy clients gave way to others before they had said what they want"),
        ("socks4_clients", "proxy clients spoke SOCKS4, which is not supported: set them to SOCKS5"),
    ] {
        if number(&document[counter]) > 0 {
            out.push_str(&format!("{} {what}\n", number(&document[counter])));
        }
    }
    let sessions = document["sessions"].as_array().cloned().unwrap_or_default();
    if sessions.is_empty() {
        out.push_str("no session\n");
        return out;
    }
    let mut efforts = Vec::new();
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "peer",
        "phase",
        "lanes",
        "rtt",
        "flows",
        "direction",
        "applications",
        "on the wire",
        "saved",
        "log",
        "waiting",
    ]);
    for session in &sessions {
        let peer = session["name"]
            .as_str()
            .map_or_else(|| string(&session["peer"]).chars().take(11).collect(), |name| tame(name).into_owned());
        if let Some(budget) = session["cpu_budget"].as_object() {
            let percent = 100.0 * budget["share"].as_f64().unwrap_or(0.0);
            let (effort, changes) = (string(&budget["effort"]), number(&budget["changes"]));
            efforts.push(format!(
                "{peer}: {effort}; {percent:.1} % of a core allowed, {changes} {} of effort so far\n",
                if budget["changes"] == 1 { "change" } else { "changes" }
            ));
        }
        let (here, there) = (&session["here"], &session["there"]);
        for (direction, from) in [("sent", here), ("received", there)] {
            if from.is_null() {
                continue;
            }
            let (sent, wire) = (number(&from["sent_bytes"]), number(&from["wire_sent_bytes"]));
            let first = direction == "sent";
            let cell = |text: String| if first { text } else { String::new() };
            table.add_row([
                cell(peer.clone()),
                cell(string(&session["phase"])),
                cell(format!("{} of {}", number(&session["lanes_up"]), number(&session["lanes"]))),
                cell(format!("{:.1} ms", number(&here["rtt_us"]) as f64 / 1000.0)),
                cell(number(&here["flows"]).to_string()),
                direction.to_string(),
                bytes(sent),
                bytes(wire),
                savings(wire, sent),
                binary(number(&from["log_end"]).min(number(&from["log_capacity"]))),
                bytes(number(&from["log_unacknowledged"])),
            ]);
        }
    }
    for column in [3, 4, 6, 7, 8, 9, 10] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    out.push_str(&format!("{table}\n"));
    out.extend(efforts);
    out
}
