//! HTTPS services in a status, as a report.

use super::saved;
use crate::format::count_of;
use oncewire_net::status::HttpsStatus;
use oncewire_report::{Section, Table, TableView, Unit};

/// Services that are shown; a list may be long, and `--json` has all.
const SHOWN: usize = 20;

/// What became of connections to each service. Those with the most content come first.
pub(super) fn section(services: &[HttpsStatus]) -> Section {
    let mut sorted: Vec<_> = services.iter().collect();
    sorted.sort_by_key(|service| std::cmp::Reverse(service.sent + service.received));
    let columns = [
        ("service", Unit::Text),
        ("opened", Unit::Count),
        ("passed", Unit::Count),
        ("payload", Unit::Bytes),
        ("on the wire", Unit::Bytes),
        ("saved", Unit::Share),
    ];
    let row = |service: &&HttpsStatus| {
        let content = service.sent + service.received;
        let wire = service.wire_sent + service.wire_received;
        vec![
            service.name.clone().into(),
            service.opened.into(),
            service.passed.values().sum::<u64>().into(),
            content.into(),
            wire.into(),
            saved(wire, content),
        ]
    };
    let rows = sorted.iter().take(SHOWN).map(row).collect();
    let table = Table::new("https", "", &columns, rows);
    let mut section = Section::new("https", "HTTPS").table(TableView::complete(table));
    if services.len() > SHOWN {
        section = section.text(format!("{} more services: --json", services.len() - SHOWN));
    }
    sorted.iter().take(SHOWN).flat_map(|service| notes(service)).fold(section, Section::text)
}

/// Why connections of a service passed untouched, and who refused it.
fn notes(service: &HttpsStatus) -> Vec<String> {
    let name = &service.name;
    let passed = service.passed.iter().map(|(why, &count)| (told(why, "passed untouched"), count));
    let ended = service.ended.iter().map(|(why, &count)| (told(why, "ended"), count));
    let others = [
        ("times that a client refused the certificate", service.refused_by_clients),
        ("no TLS at the client's side", service.failed_handshakes),
        (
            "clients that pass untouched for up to a day, as they refused the certificate (has each installed the CA?) or have one for the origin",
            service.clients_passed,
        ),
    ];
    let others = others.into_iter().map(|(what, count)| (what.to_owned(), count));
    let counted = passed.chain(ended).chain(others).filter(|(_, count)| *count > 0);
    let last = service.last_problem.iter().map(|why| format!("last problem: {why}"));
    counted
        .map(|(what, count)| format!("{name}: {what}: {}", count_of(count)))
        .chain(last)
        .collect()
}

/// What became of connections, and the reason in words.
fn told(why: &str, what: &str) -> String {
    let words = match why {
        "not_tls" => "they were not TLS",
        "other_name" => "their TLS was for another name, or for none",
        "too_long" => "they offered too many protocols",
        "client_refused_certificate" => "their client had refused the certificate",
        "client_has_certificate" => "their client has a certificate for the origin",
        "origin_expired" => "the origin's certificate is not valid now",
        "origin_issuer" => "the other end does not trust the origin's CA",
        "origin_name" => "the origin's certificate is for other names",
        "origin_pin" => "the origin has another key than the other end requires",
        "origin_certificate" => "the origin's certificate is invalid",
        "origin_client_certificate" => "the origin requires a certificate",
        "origin_refused" => "the origin refused the other end",
        "origin_protocol" => "the origin's TLS is another",
        "origin_timeout" => "the origin did not answer in time",
        "origin_failed" => "TLS to the origin failed",
        other => return format!("{what} ({other})"),
    };
    format!("{what}, as {words}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::{Page, columns};
    use oncewire_report::Report;

    #[test]
    fn services_fit_80_columns_and_say_why_they_passed() {
        let service = |name: &str| HttpsStatus {
            name: name.into(),
            opened: 1_234_567,
            passed: [("origin_refused".to_owned(), 12), ("news".to_owned(), 1)].into(),
            ended: [("origin_issuer".to_owned(), 12)].into(),
            refused_by_clients: 3,
            clients_passed: 2,
            received: 1_000_000_000,
            wire_received: 100_000_000,
            last_problem: Some("a.example:443: \u{1b}[2J".into()),
            ..HttpsStatus::default()
        };
        let mut services = vec![service("registry.a-rather-long-name.branch-office.example:8443")];
        services.extend(
            (0..30)
                .map(|n| HttpsStatus { name: format!("n{n}.example"), ..HttpsStatus::default() }),
        );
        let sections = vec![section(&services)];
        let mut out = Vec::new();
        let report = Report { kind: "Status", sections, ..Report::default() };
        Page::new(&mut out, 80, false).complete_in("--json").answer(&report).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| columns(line) <= 80), "{text}");
        // A sentence may go on in the next line.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for shown in [
            "1,234,567",
            "90.0 %",
            "passed untouched, as the origin refused the other end: 12",
            "ended, as the other end does not trust the origin's CA: 12",
            "passed untouched (news): 1",
            "11 more services: --json",
        ] {
            assert!(words.contains(shown), "{shown:?} is missing:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
