//! A study with invented numbers, two figures and hostile names.

use oncewire_report::Figure;
pub(super) use oncewire_testkit::figures::HOSTILE;
use oncewire_testkit::figures::{algorithms, hostile};
use oncewire_trace::results::{
    Accounting, Billing, CostOf, Deploy, Hosts, Input, LargeFlows, Money, Report, Share, Time,
    Verdict,
};

fn share(name: &str, packets: u64, bytes: u64) -> Share {
    Share { name: name.into(), packets, bytes }
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
            partial: false,
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
            unsupported: 0,
            hosts: Hosts { inside: Some(212), others: 48_120, flows: 524_288, most: 524_288 },
        },
        verdict: Verdict {
            deploy: Deploy::Tunnel,
            unknown: None,
            headline: "Deploy the tunnel, with a cache of 64 MB: it would save 41 % (22 to 58 %) of this traffic.".into(),
            reasons: vec![
                "9.4 of 12.7 GB are clear-text HTTP and SMB, which repeat within minutes; a tunnel sees them before they are encrypted.".into(),
                "31 % of the bytes are TLS and would not shrink: put Oncewire where that traffic is still in clear, or leave it out.".into(),
                "Savings stop growing at a cache of 64 MB; four times the memory would save 1.8 % more.".into(),
                "Next: oncewire serve --cache 64M at the data center, oncewire connect at the branch.".into(),
            ],
            cache: Some(64_000_000),
            cache_seconds: Some(6.5 * 3600.0),
            large_flows: Some(LargeFlows { cache: 64_000_000, flows: 3, bytes: 1_900_000_000, largest: 800_000_000 }),
            savings: 0.4123,
            spread: Some((0.22, 0.58)),
            spread_seconds: Some(60.0),
            confidence: Some((0.35, 0.47)),
            billing: Some(Billing { bucket: 300.0, before: 9e6, after: 6.3e6, savings: 0.3 }),
            money: Some(Money { per_gigabyte: 0.09, of: CostOf::Month, before: 206.3, after: 121.2 }),
            time: Some(Time { link: 10e6, busy_before: 8_204.0, busy_after: 4_811.0 }),
            tunnel: 0.4123,
            packet_link: 0.43,
        },
        figures: vec![algorithms(), Figure { number: 2, ..hostile() }],
    }
}
