//! Compares the tables and limits in `docs/PROTOCOL.md` with the code.

use oncewire_session::{
    Counters, EARLY_CREDIT, LARGEST_LOG, MAX_CONTEXTS, MAX_DOMAIN, MAX_LANES, MAX_TARGET,
    Metrics as _, ResetCode, SMALLEST_LOG, VERSIONS,
};

const DOC: &str = include_str!("../../../../docs/PROTOCOL.md");
const MESSAGE: &str = include_str!("../../src/message.rs");
const HELLO: &str = include_str!("../../src/hello.rs");
const LIMITS: &str = include_str!("../../src/limits.rs");
const FLOW: &str = include_str!("../../src/flow.rs");
const ACKS: &str = include_str!("../../src/lane/acks.rs");
const RECEIVE: &str = include_str!("../../src/session/receive.rs");
const TRANSPORTS: &str = include_str!("../../src/session/transports.rs");
const LANE: &str = include_str!("../../src/lane/received.rs");
const LOG_LIMIT: &str = include_str!("../../src/session/log_limit.rs");
const INCOMING: &str = include_str!("../../src/incoming.rs");
const DOMAINS: &str = include_str!("../../src/domains.rs");
const CONFIG: &str = include_str!("../../src/config.rs");

/// Whether the document says something, wherever its lines break.
fn says(text: &str) -> bool {
    DOC.split_whitespace().collect::<Vec<_>>().join(" ").contains(text.trim())
}

/// The number and the name in the first two columns of the table with this head.
fn table(head: &str) -> Vec<(u64, String)> {
    let (_, rows) = DOC.split_once(head).unwrap_or_else(|| panic!("no table headed {head}"));
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cell = |row: &str, at: usize| {
        row.split('|').nth(at).unwrap_or_default().trim().trim_matches('`').to_string()
    };
    let rows: Vec<_> = rows.map(|row| (number(&cell(row, 1)), cell(row, 2))).collect();
    assert!(!rows.is_empty(), "nothing under {head}");
    rows
}

fn number(text: &str) -> u64 {
    let text = text.replace('_', "");
    let value = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    value.unwrap_or_else(|_| panic!("no number: {text}"))
}

/// The constants of a module of the source, in order.
fn constants(source: &str, module: &str) -> Vec<(u64, String)> {
    let (_, inside) = source.split_once(module).unwrap_or_else(|| panic!("no {module}"));
    let (inside, _) = inside.split_once("\n}").expect("its end");
    let lines = inside.lines().filter_map(|line| line.trim().split_once("const "));
    let parts = lines.map(|(_, constant)| constant.split_once(": ").expect("a type"));
    let value =
        |rest: &str| number(rest.split_once("= ").expect("a value").1.trim_end_matches(';'));
    parts.map(|(name, rest)| (value(rest), name.to_string())).collect()
}

/// The variants of an enum in a list of the source, numbered from 0.
fn listed(source: &str, from: &str, to: &str, path: &str) -> Vec<(u64, String)> {
    let (_, list) = source.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    let (list, _) = list.split_once(to).expect("its end");
    let names = list.split(',').filter_map(|item| item.trim().strip_prefix(path));
    names.enumerate().map(|(code, name)| (code as u64, name.to_string())).collect()
}

#[test]
fn messages() {
    let documented = table("| code | message | fields | counted | sent by |");
    assert_eq!(documented, constants(MESSAGE, "mod kind {"));
    // Counted messages are those below 0x40.
    for (code, name) in documented {
        let row = DOC
            .lines()
            .find(|line| line.starts_with(&format!("| {code:#04x} | {name} |")))
            .expect("the row");
        assert_eq!(row.contains("| yes |"), code < 0x40, "{row}");
    }
}

#[test]
fn hello_fields_and_answers() {
    assert_eq!(table("| id | field | value | meaning |"), constants(HELLO, "mod field {"));
    let answers =
        listed(HELLO, "fn from_code(code: u64) -> Option<Answer> {\n        [", "]", "Answer::");
    assert_eq!(table("| code | answer | sent by | meaning |"), answers);
    assert_eq!(VERSIONS, 3..=3);
    assert!(DOC.contains("\nVersion 3, stream mode.\n"));
}

#[test]
fn codes_of_reset_and_close() {
    let reset = listed(FLOW, "const ALL: [ResetCode; 9] = [", "]", "ResetCode::");
    let documented = table("### Reset codes\n\n| code | name | meaning |");
    assert_eq!(documented, reset);
    assert_eq!(documented[6].1, format!("{:?}", ResetCode::Busy));
    let (_, section) = DOC.split_once("\n### Close\n").unwrap();
    let head = "| code | name | meaning |";
    let close: Vec<_> = section
        .split_once(head)
        .unwrap()
        .1
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let code = constants(MESSAGE, "mod close {");
    assert_eq!(close.len(), code.len());
    for (row, (code, name)) in close.iter().zip(code) {
        assert!(row.starts_with(&format!("| {code} | {name} |")), "{row}");
    }
}

#[test]
fn counters() {
    let names: Vec<_> = Counters::METRICS
        .iter()
        .zip(1..)
        .map(|(metric, at)| (at, metric.name.to_string()))
        .collect();
    assert_eq!(table("| position | counter | meaning |"), names);
}

#[test]
fn limits() {
    assert_eq!(
        (MAX_LANES, MAX_TARGET, EARLY_CREDIT, SMALLEST_LOG, LARGEST_LOG),
        (8, 1024, 16 << 10, 1 << 20, 1 << 36)
    );
    assert_eq!((MAX_DOMAIN, MAX_CONTEXTS), (64, 32));
    for documented in [
        "| client of a flow, name of a flow | 64 bytes each | violation |",
        "entropy contexts of each lane that the sender's decoder has, 1 to 32 |",
    ] {
        assert!(says(documented), "docs/PROTOCOL.md does not say: {documented}");
    }
    // A line of the code, and what the document says about it.
    for (source, constant, documented) in [
        (LIMITS, "MAX_BODY: usize = 4096;", "| body of HELLO, of REPORT, of PAD | 4,096 bytes |"),
        (LIMITS, "MAX_TEXT: usize = 256;", "| text of CLOSE | 256 bytes |"),
        (LIMITS, "MAX_AGENT: usize = 64;", "| agent | 64 bytes |"),
        (LIMITS, "MAX_FAILURES: u64 = 64;", "10,000 good blocks between two | 64 |"),
        (LIMITS, "FORGIVEN: u64 = 10_000;", "when 10,000 blocks have been decoded since the last"),
        (
            LIMITS,
            "MAX_UNACKNOWLEDGED: usize = 16_384;",
            "| unacknowledged counted messages of a lane | 16,384 |",
        ),
        (LIMITS, "MAX_CONTROL: usize = 1 << 20;", "without DATA and EPOCH | 1 MiB;"),
        (
            LIMITS,
            "INPUT_SLACK: u64 = (MAX_CONTROL + 256 * 1024) as u64;",
            "lanes x (1 MiB + 256 KiB)",
        ),
        (
            RECEIVE,
            "span + span / 8 + INPUT_SLACK * self.lanes.len() as u64;",
            "| S + S/8 + lanes x",
        ),
        (
            DOMAINS,
            "MAX_NAMES_OF_CLIENT: usize = 256;",
            "today an end remembers 256 of a client, and 4,096 in all",
        ),
        (DOMAINS, "MAX_NAMES: usize = 4096;", "and 4,096 in all, those used last"),
        (DOMAINS, "UNKNOWN: &[u8] = b\"?\";", "The client `?` is the exception"),
        (ACKS, "ACK_MESSAGES: u64 = 1024;", "| messages | 1,024 |"),
        (LIMITS, "ACK_BYTES: u64 = 1 << 20;", "| decoded bytes | the lesser of 1 MiB and C / 32 "),
        (LANE, "ACK_BYTES.min(span / 8)", "C / 32"),
        (INCOMING, "self.capacity / 4", "S is C / 4"),
        (
            RECEIVE,
            "self.config.max_flows + (self.lanes.len() as u64 + 1) * agreed.max_flows;",
            "own MAX_FLOWS + (lanes + 1) x agreed number",
        ),
        (LIMITS, "SEND_QUEUE: usize = 4 * DEFAULT_BLOCK;", "used up to 256 KiB"),
        (CONFIG, "keep_alive: Duration::from_secs(10)", "After 10 s without one an end sends PING"),
        (CONFIG, "dead_after: Duration::from_secs(25)", "| silence | 25 s |"),
        (CONFIG, "grace: Duration::from_secs(60)", "| lane without transport | 60 s |"),
        (CONFIG, "ack_delay: Duration::from_millis(20)", "| time since the first | 20 ms |"),
        (LIMITS, "FIRST_WINDOW: u64 = 1 << 20;", "it gets up to 1 MiB at once"),
        (FLOW, "LARGEST_WINDOW: u64 = 64 << 20;", "up to 64 MiB and a quarter of what is left"),
    ] {
        assert!(
            source.contains(constant),
            "section 10 of docs/PROTOCOL.md is to follow: {constant}"
        );
        assert!(says(documented), "docs/PROTOCOL.md does not say: {documented}");
    }
}

#[test]
fn violations() {
    let (_, section) = DOC.split_once("### Violations\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let mut found = 0;
    for source in [RECEIVE, TRANSPORTS, LANE, LOG_LIMIT] {
        for from in ["Unexpected(\"", "what: \"", "violation(violation(\""] {
            for name in
                source.split(from).skip(1).map(|rest| rest.split_once('"').expect("its end").0)
            {
                assert!(
                    section.contains(name),
                    "section 4 of docs/PROTOCOL.md does not have the violation: {name}"
                );
                found += 1;
            }
        }
    }
    assert!(found >= 9, "only {found}");
}
