//! A study with invented numbers, two figures and hostile names.

use oncewire_report::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use oncewire_trace::results::{
    Accounting, Billing, CostOf, Deploy, Input, LargeFlows, Money, Report, Share, Time, Verdict,
};

/// A name that would run a script in a page that does not escape it, and clear a terminal.
pub(super) const HOSTILE: &str = "</script><script>alert(1)</script><img src=http://192.0.2.1/x onerror=alert(2)><!--{{data}}\u{1b}[2J\u{202e}\"'&amp;.pcap";

fn column(name: &str, unit: Unit) -> Column {
    Column::new(name, unit)
}

fn share(name: &str, packets: u64, bytes: u64) -> Share {
    Share { name: name.into(), packets, bytes }
}

fn chart(
    id: &'static str,
    caption: &str,
    kind: ChartKind,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
) -> Chart {
    Chart { id, caption: caption.into(), kind, x, y, right: None, series }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.into()).collect()
}

pub(super) fn report() -> Report {
    Report {
        input: Input {
            captures: vec![
                "branch-office-2026-03-02.pcapng".into(),
                HOSTILE.into(),
                format!("very/deep/{}.pcap", "directory-and-more/".repeat(12)),
            ],
            damaged: vec![(HOSTILE.into(), "the record at byte 81,920 is longer (4,294,967,295 bytes) than a packet can be".into())],
            packets: 18_345_112,
            wire_bytes: 12_733_870_112,
            captured_bytes: 12_701_004_331,
            start: Some(1_772_438_400_123_456_789),
            duration: 14_402.7,
        },
        settings: vec![
            ("cache".into(), "250 MB of payload in each direction".into()),
            ("window".into(), "32 bytes".into()),
            ("sampling period".into(), "32 bytes".into()),
            ("inside".into(), "10.0.0.0/8, found from the traffic".into()),
        ],
        accounting: Accounting {
            used: vec![
                share("TCP with payload", 12_010_443, 11_840_233_112),
                share("TCP without payload", 5_120_001, 338_000_000),
                share("UDP", 1_014_000, 402_500_000),
            ],
            unused: vec![
                share("not IP", 100_500, 120_937_000),
                share("IP fragment without its first part", 60_021, 20_200_000),
                share("IPsec", 40_000, 12_000_000),
                share("cut before the TCP header ended", 147, 0),
            ],
            bytes: vec![
                share("payload", 0, 11_300_000_000),
                share("headers", 0, 1_180_733_112),
                share("payload that was not captured", 0, 99_000_000),
                share("padding", 0, 1_000_000),
            ],
            layers: vec![share("802.1Q", 18_345_112, 12_733_870_112), share("GRE", 300_123, 210_000_000), share("VXLAN", 12, 12_345)],
        },
        verdict: Verdict {
            deploy: Deploy::Tunnel,
            headline: "Deploy the tunnel, with a cache of 64 MB: it would save 41 % (22 to 58 %) of this traffic.".into(),
            reasons: vec![
                "9.4 of 12.7 GB are clear-text HTTP and SMB, which repeat within minutes; a tunnel sees them before they are encrypted.".into(),
                "31 % of the bytes are TLS and would not shrink: put Oncewire where that traffic is still in clear, or leave it out.".into(),
                "Savings stop growing at a cache of 64 MB; four times the memory would save 1.8 % more.".into(),
                "Next: oncewire serve --cache 64M at the data center, oncewire connect at the branch.".into(),
            ],
            cache: Some(64_000_000),
            large_flows: Some(LargeFlows { cache: 64_000_000, flows: 3, bytes: 1_900_000_000, largest: 800_000_000 }),
            savings: 0.4123,
            spread: Some((0.22, 0.58)),
            billing: Some(Billing { bucket: 300.0, before: 9e6, after: 6.3e6, savings: 0.3 }),
            money: Some(Money { per_gigabyte: 0.09, of: CostOf::Month, before: 206.3, after: 121.2 }),
            time: Some(Time { link: 10e6, busy_before: 8_204.0, busy_after: 4_811.0 }),
            packet_link: Some(0.43),
        },
        figures: vec![algorithms(), hostile()],
    }
}

fn algorithms() -> Figure {
    let rows = [
        "MAXP",
        "MODP",
        "FIXED",
        "SAMPLEBYTE",
        "chunk-match",
        "payload-match",
        "zstd -1 --long=27",
    ]
    .iter()
    .enumerate()
    .flat_map(|(at, &name)| {
        ["inbound", "outbound"].map(|way| {
            let bytes = if way == "inbound" { 9_804_331_220 } else { 2_929_538_892u64 };
            let savings = 0.43 - 0.037 * at as f64 - if way == "inbound" { 0.0 } else { 0.12 };
            vec![
                name.into(),
                way.into(),
                bytes.into(),
                ((bytes as f64 * (1.0 - savings)) as u64).into(),
                savings.into(),
                if at == 6 { Cell::None } else { (savings - 0.006).into() },
                (1_800_000u64 / (at as u64 + 1)).into(),
                if at == 6 { Cell::None } else { (523.4 / (at as f64 + 1.0)).into() },
            ]
        })
    })
    .collect();
    Figure {
        number: 1,
        id: "algorithms",
        title: "Savings by algorithm and direction",
        source: "thesis, Tables 2.2 and 2.3; EndRE, Table 4",
        definition: "Savings are 1 − bytes after encoding / bytes before, over all payload of TCP and UDP, each direction with its own cache of 250 MB; encoded bytes include a shim of 12 bytes per match.".into(),
        finding: "MAXP saves most, 43.0 % inbound and 31.0 % outbound; SAMPLEBYTE loses 11 points of it and takes a third of the time.".into(),
        brief: "MAXP saves 43.0 % inbound, 31.0 % outbound".into(),
        tables: vec![Table {
            id: "savings",
            caption: "Bytes before and after, by algorithm and direction".into(),
            columns: vec![
                column("algorithm", Unit::Text),
                column("direction", Unit::Text),
                column("bytes in", Unit::Bytes),
                column("bytes out", Unit::Bytes),
                column("savings", Unit::Share),
                column("of payload", Unit::Share),
                column("matches", Unit::Count),
                column("mean match", Unit::Bytes),
            ],
            rows,
        }],
        charts: vec![chart(
            "savings",
            "Savings by algorithm",
            ChartKind::Bars,
            Axis::of("algorithm", names(&["MAXP", "MODP", "FIXED", "SAMPLEBYTE", "chunk-match", "payload-match", "zstd -1 --long=27"])),
            Axis::new("savings", Unit::Share),
            vec![
                Series::new("inbound", (0..7).map(|at| (at as f64, 0.43 - 0.037 * at as f64)).collect()),
                Series::new("outbound", (0..7).map(|at| (at as f64, 0.31 - 0.04 * at as f64)).collect()),
            ],
        )],
        notes: vec!["Content of TLS flows was not looked at: it counts as unsaved.".into()],
        memory: 512 << 20,
    }
}

fn hostile() -> Figure {
    Figure {
        number: 2,
        id: "hostile",
        title: "Names that mean harm",
        source: "nobody",
        definition: HOSTILE.into(),
        finding: HOSTILE.into(),
        brief: HOSTILE.into(),
        tables: vec![Table {
            id: "names",
            caption: HOSTILE.into(),
            columns: vec![
                column(HOSTILE, Unit::Text),
                column("bytes", Unit::Bytes),
                column("flows", Unit::Count),
            ],
            rows: vec![
                vec![HOSTILE.into(), 1u64.into(), Cell::None],
                vec!["W".repeat(300).into(), 2_000_000u64.into(), 7u64.into()],
                vec!["=HYPERLINK(\"http://192.0.2.1\")".into(), Cell::None, 8u64.into()],
            ],
        }],
        charts: vec![chart(
            "names",
            HOSTILE,
            ChartKind::Bars,
            Axis::of(
                HOSTILE,
                vec![HOSTILE.into(), "W".repeat(300), "日本語のとても長いカテゴリー名です".into()],
            ),
            Axis::new(HOSTILE, Unit::Bytes),
            vec![
                Series::new(HOSTILE, vec![(0.0, 5e6), (1.0, 2e6), (2.0, 9e5)]),
                Series::new("W".repeat(300), vec![(0.0, 1e6), (2.0, 3e6)]),
            ],
        )],
        notes: vec![HOSTILE.into()],
        ..Figure::default()
    }
}
