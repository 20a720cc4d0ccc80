//! A tunnel's status as a report.

use super::saved;
use crate::failure::without_number;
use crate::format::{self, count_of};
use crate::quantity::{binary, bytes};
use oncewire_net::status::{
    Counters, EffortStatus, ServiceStatus, SessionStatus, Status, StoreStatus,
};
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit};

/// Services that are shown.
const MOST_SERVICES: usize = 10;

/// The status as people read it. Some text in it comes from the peers.
pub(super) fn report(status: &Status) -> Report {
    let about = about(status);
    let mut sections = if status.sessions.is_empty() {
        vec![about.text("no session")]
    } else {
        vec![
            about,
            states(&status.sessions),
            traffic(&status.sessions),
            services(&status.services),
            notes(&status.sessions),
        ]
    };
    if !status.https.is_empty() {
        sections.push(super::https::section(&status.https));
    }
    Report { kind: "Status", title: status.role.name().into(), sections, ..Report::default() }
}

/// What the process is, and what it refused.
fn about(status: &Status) -> Section {
    let up = format::number(status.uptime.as_secs_f64(), Unit::Seconds);
    let (memory, limit) = (binary(status.memory), binary(status.memory_limit));
    let draining = if status.draining { ", draining" } else { "" };
    let mut section = Section::new("about", "About")
        .text(format!(
            "{} {}, listening on {}",
            status.role.name(),
            status.version,
            status.listening.join(", ")
        ))
        .text(format!("key {}", status.key))
        .text(format!("up {up}, memory {memory} of {limit}{draining}"));
    for (count, what) in [
        (
            status.refused_transports,
            "client transports refused: unknown key, failed handshake or too many sessions",
        ),
        (
            status.refused_connections,
            "application connections refused: no session or too many connections",
        ),
        (
            status.displaced_proxy_clients,
            "proxy clients dropped before they sent a request, to make room for others",
        ),
        (
            status.socks4_clients,
            "proxy clients used SOCKS4, which is not supported: configure them for SOCKS5",
        ),
        (
            status.unauthorized_proxy_clients,
            "proxy clients refused: no right password, or an address that may not use the proxy",
        ),
    ] {
        if count > 0 {
            section = section.text(format!("{count} {what}"));
        }
    }
    let matched = status
        .sessions
        .iter()
        .map(|session| session.here.matched_bytes.saturating_sub(session.here.recalled_bytes));
    let memory = matched.sum();
    section = status.store.iter().flat_map(|of| store(of, memory)).fold(section, Section::text);
    section = super::history(&status.history).into_iter().fold(section, Section::text);
    match &status.last_failure {
        Some(why) => section
            .text(format!("the last attempt to reach the server failed: {}", without_number(why))),
        None => section,
    }
}

/// The caches on disk. `memory`: bytes that this end's open sessions found in memory.
fn store(store: &StoreStatus, memory: u64) -> Vec<String> {
    let size = format!("{} of {}", format::bytes(store.used), format::bytes(store.limit));
    let plain = if store.encrypted { "" } else { ", not encrypted" };
    let mut lines = vec![format!("caches on disk in {}: {size}{plain}", store.directory)];
    let oldest = store.oldest.map_or_else(String::new, |age| {
        format!(", the oldest {} old", format::number(age as f64, Unit::Seconds))
    });
    lines.push(format!("on disk: {} of content{oldest}", format::bytes(store.held)));
    lines.push(format!(
        "device: {} read, {} written, {} of that within a day",
        format::bytes(store.read),
        format::bytes(store.device_written),
        format::bytes(store.day_written),
    ));
    let disk = store.recalled_hour + store.recalled_day + store.recalled_older;
    if disk > 0 {
        lines.push(format!(
            "sent as references: {} from memory; from disk {} up to an hour old, {} up to a day, \
             {} older",
            format::bytes(memory),
            format::bytes(store.recalled_hour),
            format::bytes(store.recalled_day),
            format::bytes(store.recalled_older),
        ));
    }
    if store.repeated > 0 {
        lines.push(format!(
            "not written again: {} of content that was on disk",
            format::bytes(store.repeated)
        ));
    }
    if store.lost_ranges > 0 {
        lines.push(format!(
            "{} of content in {} not on disk: it was too slow for the link, or not readable",
            format::bytes(store.lost),
            format::counted(store.lost_ranges, "range"),
        ));
    }
    if let Some(why) = &store.failure {
        lines.push(format!("caches are in memory only: {}", without_number(why)));
    }
    lines
}

/// What a session's peer is called: its name, or the beginning of its key.
fn label(session: &SessionStatus) -> String {
    session.name.clone().unwrap_or_else(|| session.peer.chars().take(11).collect())
}

/// Counters of what each direction sent, if they are known.
fn directions(session: &SessionStatus) -> [(&'static str, Option<&Counters>); 2] {
    let there = session.there.as_ref().map(|(there, _)| there);
    [("sent", Some(&session.here)), ("received", there)]
}

fn states(sessions: &[SessionStatus]) -> Section {
    let columns = [
        ("peer", Unit::Text),
        ("phase", Unit::Text),
        ("lanes", Unit::Text),
        ("RTT", Unit::Seconds),
        ("flows", Unit::Count),
        ("over", Unit::Text),
        ("address", Unit::Text),
    ];
    let row = |session: &SessionStatus| {
        vec![
            label(session).into(),
            session.phase.clone().into(),
            format!("{} of {}", session.lanes_up, session.lanes).into(),
            format!("{:.1} ms", session.here.rtt_us as f64 / 1000.0).into(),
            session.here.flows.into(),
            session.transport.as_deref().unwrap_or("-").into(),
            session.address.map_or_else(|| "-".into(), |address| address.to_string()).into(),
        ]
    };
    let table = Table::new("sessions", "", &columns, sessions.iter().map(row).collect());
    Section::new("sessions", "Sessions").table(TableView::complete(table).optional(1))
}

fn traffic(sessions: &[SessionStatus]) -> Section {
    let columns = [
        ("peer", Unit::Text),
        ("direction", Unit::Text),
        ("payload", Unit::Bytes),
        ("on the wire", Unit::Bytes),
        ("saved", Unit::Share),
        ("cache", Unit::Bytes),
        ("in flight", Unit::Bytes),
    ];
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for session in sessions {
        for (direction, counters) in directions(session) {
            // The peer's figures have their age below its name.
            let first = match (direction, session.there) {
                ("sent", _) => label(session),
                (_, None) => "not reported yet".into(),
                (_, Some((_, age))) => format!("reported {}", ago(age.as_secs_f64())),
            };
            let mut row = vec![first.into(), direction.into()];
            row.extend(match counters {
                None => [const { Cell::None }; 5],
                Some(from) => [
                    from.sent_bytes.into(),
                    from.wire_sent_bytes.into(),
                    saved(from.wire_sent_bytes, from.sent_bytes),
                    binary(from.log_end.min(from.log_capacity)).into(),
                    from.log_unacknowledged.into(),
                ],
            });
            rows.push(row);
        }
    }
    let table = Table::new("traffic", "", &columns, rows);
    Section::new("traffic", "Traffic").table(TableView::complete(table))
}

/// What the services carried that carried most.
fn services(services: &[ServiceStatus]) -> Section {
    let columns = [
        ("service", Unit::Text),
        ("connections", Unit::Count),
        ("payload", Unit::Bytes),
        ("on the wire", Unit::Bytes),
        ("saved", Unit::Share),
        ("not reduced", Unit::Text),
    ];
    let rows = services.iter().take(MOST_SERVICES).map(|ServiceStatus { name, counters }| {
        vec![
            name.clone().into(),
            counters.flows.into(),
            counters.content().into(),
            counters.wire().into(),
            saved(counters.wire(), counters.content()),
            counters.main_residue().unwrap_or("").into(),
        ]
    });
    let table = Table::new("services", "", &columns, rows.collect());
    let section = Section::new("services", "Services");
    let section = match table.rows.is_empty() {
        true => return section,
        false => section.table(TableView::complete(table).optional(1)),
    };
    match services.len().saturating_sub(MOST_SERVICES) {
        0 => section,
        more => section.text(format!("{} more: --json has them all", count_of(more as u64))),
    }
}

/// What stands out: how content is encoded, then problems, then flows larger than the cache.
fn notes(sessions: &[SessionStatus]) -> Section {
    let of = |notes: fn(&SessionStatus) -> Vec<String>| sessions.iter().flat_map(notes);
    of(efforts)
        .chain(of(problems))
        .chain(of(large_flows))
        .fold(Section::new("notes", "Notes"), Section::text)
}

/// How a session's content was encoded.
fn efforts(session: &SessionStatus) -> Vec<String> {
    let peer = label(session);
    let mut notes = Vec::new();
    if let Some(EffortStatus { effort, budget, changes }) = &session.effort {
        let percent = 100.0 * budget;
        let plural = if *changes == 1 { "change" } else { "changes" };
        notes.push(format!("{peer}: {effort}; {percent:.1} % of a core allowed, {changes} {plural} of effort so far"));
    }
    for (direction, counters) in directions(session) {
        let Some(from) = counters else { continue };
        for (count, why) in [
            (
                from.declined_bytes,
                "because opening what came before took much work and saved little",
            ),
            (from.unopened_bytes, "because sending is faster than opening (see --inside)"),
        ] {
            if count > 0 {
                notes.push(format!(
                    "{peer}: {} {direction} without a look inside, {why}",
                    bytes(count)
                ));
            }
        }
        if from.hurried_bytes > 0 {
            notes.push(format!(
                "{peer}: {} {direction} at level 1, because encoding is slower than the link (see --level)",
                bytes(from.hurried_bytes)
            ));
        }
        if from.outrun_recalls > 0 {
            notes.push(format!(
                "{peer}: {} stretches {direction} that lie on disk, because sending is faster than \
                 reading them (see --store-for)",
                from.outrun_recalls
            ));
        }
        let padding = from.padding_bytes;
        if padding > 0 {
            notes.push(format!(
                "{peer}: {} of padding {direction}, {:.1} % of the bytes on the wire",
                bytes(padding),
                100.0 * padding as f64 / from.wire_sent_bytes.max(1) as f64
            ));
        }
    }
    notes
}

/// What went wrong in a session.
fn problems(session: &SessionStatus) -> Vec<String> {
    let here = &session.here;
    let counts = [
        (session.refused_targets, "connections refused here: target not allowed or unreachable"),
        (here.flows_refused, "connections refused here: too many at once"),
        (
            here.unowned_flows,
            "connections whose owner is unknown: nothing of them is shared (see --share)",
        ),
        (
            here.forgotten_domains,
            "isolation domains forgotten, because one client had too many names or there were too many clients: what they had sent is not found again",
        ),
        (here.failures, "blocks arrived corrupt and were resent"),
        (here.resumes, "times the path was lost and the session resumed"),
    ];
    let peer = label(session);
    let note = |(count, what)| format!("{peer}: {} {what}", count_of(count));
    counts.into_iter().filter(|(count, _)| *count > 0).map(note).collect()
}

/// Notes about flows larger than the cache, with the remedy.
fn large_flows(session: &SessionStatus) -> Vec<String> {
    let note = |(direction, counters): (&str, Option<&Counters>)| {
        let from = counters?;
        let flows = match from.large_flows {
            0 => return None,
            1 => "1 flow was".to_owned(),
            flows => format!("{flows} flows were"),
        };
        Some(format!(
            "{}: {flows} larger than the cache ({direction}: {}; the cache holds {}). Repeats of such a flow are not found. Raise --memory at both ends.",
            label(session),
            bytes(from.large_flow_bytes),
            binary(from.log_capacity),
        ))
    };
    directions(session).into_iter().filter_map(note).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::{Page, columns};
    use oncewire_net::status::{Document, HistoryStatus};
    use std::time::Duration;

    fn text(status: &Status, width: usize) -> String {
        // As a process writes it and `oncewire status` reads it.
        let document = crate::status::text::render(status.document());
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let Document::Tunnel(read) = Document::read(&document).unwrap() else { panic!("a link") };
        assert_eq!(*read, *status);
        let mut out = Vec::new();
        let mut page = Page::new(&mut out, width, false).complete_in("--json");
        page.answer(&report(&read)).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Two sessions with the longest numbers possible, one with a name that would clear the screen.
    fn sample() -> Status {
        let counters = Counters {
            rtt_us: 1_234_567,
            flows: 4_194_304,
            sent_bytes: u64::MAX,
            wire_sent_bytes: u64::MAX / 3 * 2,
            log_end: u64::MAX,
            log_capacity: 999_900_000_000,
            log_unacknowledged: 999_400_000,
            declined_bytes: 123_000_000,
            unopened_bytes: 456_000_000,
            flows_refused: 1,
            unowned_flows: 6000,
            forgotten_domains: 4044,
            failures: 12,
            resumes: 3,
            ..Counters::default()
        };
        let session = |name: &str, there| SessionStatus {
            peer: format!("ow1{}", "k".repeat(52)),
            name: Some(name.into()),
            phase: "established".into(),
            lanes: 8,
            lanes_up: 8,
            effort: Some(EffortStatus {
                effort: "coded-3, p = 32".into(),
                budget: 0.25,
                changes: 1234,
            }),
            here: counters,
            there,
            refused_targets: 1234,
            transport: Some("quic".into()),
            address: Some("[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().unwrap()),
            ..SessionStatus::default()
        };
        let reported = Some((counters, Duration::from_millis(3_700)));
        Status {
            version: "0.1.0".into(),
            key: format!("ow1{}", "q".repeat(52)),
            draining: true,
            history: Some(HistoryStatus {
                file: "/var/lib/oncewire-serve/history".into(),
                failure: Some("No space left on device (os error 28)".into()),
                ..HistoryStatus::default()
            }),
            uptime: Duration::from_millis(7_300_500),
            listening: [
                "[2001:db8:1111:2222:3333:4444:5555:6666]:7077",
                "192.0.2.1:7077",
                "192.0.2.2:7077",
            ]
            .map(String::from)
            .into(),
            memory: 536_870_912,
            memory_limit: 1_099_511_627_776,
            sessions: vec![
                session("branch-office-in-a-town-with-a-long-name", reported),
                session("\u{1b}[2Jb", None),
            ],
            ..Status::default()
        }
    }

    #[test]
    fn status_fits_and_cuts_no_number() {
        for width in [80, 97, 120] {
            let text = text(&sample(), width);
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
            let lost = "no history is recorded to /var/lib/oncewire-serve/history: No space left on device ";
            assert!(text.replace('\n', " ").contains(lost), "{width}: {text}");
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
        for (wire, sent, share) in [
            (10_000, 100, None),
            (0, 0, None),
            (150, 100, None),
            (150_000, 100_000, Some(-0.5)),
            (25, 100, Some(0.75)),
        ] {
            assert_eq!(saved(wire, sent), Cell::from(share), "{wire} of {sent}");
        }
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
    fn a_store_says_whether_it_is_large_enough_and_what_it_lost() {
        let mut status = Status {
            store: Some(StoreStatus {
                directory: "/var/cache/o".into(),
                limit: 200_000_000_000,
                used: 50_000_000_000,
                encrypted: true,
                oldest: Some(7200),
                held: 49_000_000_000,
                device_written: 51_000_000,
                day_written: 1_000_000,
                ..StoreStatus::default()
            }),
            ..Status::default()
        };
        let said = text(&status, 200);
        for words in [
            "caches on disk in /var/cache/o: 50.0 GB of 200 GB",
            "49.0 GB of content, the oldest 2 h old",
            "51.0 MB written, 1.00 MB of that within a day",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(!said.contains("as references") && !said.contains("not readable"), "{said}");
        if let Some(store) = &mut status.store {
            (store.recalled_day, store.lost, store.lost_ranges) = (3_000_000, 65_472, 1);
            store.repeated = 2_000_000;
        }
        let said = text(&status, 200);
        for words in [
            "3.00 MB up to a day",
            "not written again: 2.00 MB of content",
            "65.5 kB of content in 1 range not on disk",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn flows_larger_than_the_cache_come_with_advice() {
        let told = |here: Counters, there: Counters| {
            let there = Some((there, Duration::ZERO));
            let name = Some("site-b".into());
            let session = SessionStatus { name, here, there, ..SessionStatus::default() };
            let text = text(&Status { sessions: vec![session], ..Status::default() }, 80);
            // Without regard to line breaks.
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let none = Counters { log_capacity: 64 << 20, ..Counters::default() };
        let nothing = told(none, none);
        assert!(!nothing.contains("larger than"), "{nothing}");
        let large = Counters { large_flows: 2, large_flow_bytes: 600_000_000, ..none };
        let note = "site-b: 2 flows were larger than the cache (received: 600 MB; the cache holds 64 MiB). Repeats of such a flow are not found. \
                    Raise --memory at both ends.";
        assert!(told(none, large).contains(note), "{}", told(none, large));
        let one = told(Counters { large_flows: 1, ..large }, none);
        assert!(one.contains("1 flow was larger than the cache (sent: 600 MB;"), "{one}");
    }
}
