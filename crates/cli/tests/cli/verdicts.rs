//! The verdict of `oncewire study` is about one product, the tunnel or the packet link: headline,
//! tiles, money and JSON agree, over captures of many kinds.

use crate::study::{packet, packets, pcap};
use crate::support::*;
use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;

/// Packets of each capture.
const PACKETS: usize = 130;
/// Bytes of payload of each packet.
const PAYLOAD: usize = 1000;
/// Bytes of a TCP packet of IPv4 before the sequence number, and before the protocol.
const TO_SEQUENCE: usize = 38;
const TO_PROTOCOL: usize = 23;

/// Content of a kind, as it crosses the network.
fn content(kind: &str) -> Vec<u8> {
    let whole = PACKETS * PAYLOAD;
    let gzipped = |text: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(text).expect("into memory");
        gzip.finish().expect("into memory")
    };
    let digits = |version: usize| -> Vec<u8> {
        let digits: Vec<String> =
            noise(9, 40_000).iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = digits.chunks(2000).map(|part| part.concat() + &"-".repeat(version));
        parts.collect::<String>().into()
    };
    let mut content = match kind {
        "new" => noise(1, whole),
        "again" => noise(2, 20 * PAYLOAD).repeat(7),
        "a little again" => [noise(3, whole * 96 / 100), noise(3, whole)].concat(),
        "text" => versions(whole),
        "gzip" => [0, 1, 2].map(|version| gzipped(&digits(version))).concat(),
        // Records of TLS.
        "encrypted" => {
            let record = |seed| [&[23, 3, 3, 3, 0xe3][..], &noise(seed, PAYLOAD - 5)].concat();
            (10..10 + PACKETS as u64).flat_map(record).collect()
        }
        other => panic!("no content {other}"),
    };
    content.resize(whole, b'x');
    content
}

/// A capture of that content: a packet in `seconds` on average, eight of them at once.
fn capture(content: &[u8], transport: &str, seconds: u32) -> Vec<u8> {
    let (server, client) = match transport {
        "tcp6" => ("[2001:db8::1]:80", "[2001:db8:1::1]:40000"),
        _ => ("192.0.2.1:80", "10.0.0.1:40000"),
    };
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]);
    for (nth, payload) in content.chunks(PAYLOAD).enumerate() {
        let mut packet = packet(server, client, payload);
        let at = if transport == "tcp6" { TO_SEQUENCE + 20 } else { TO_SEQUENCE };
        packet[at..at + 4].copy_from_slice(&(1 + (nth * PAYLOAD) as u32).to_be_bytes());
        if transport == "udp" || (transport == "both" && nth % 2 == 1) {
            packet[TO_PROTOCOL] = 17;
        }
        let len = packet.len() as u32;
        let (burst, at) = (nth as u32 / 8, nth as u32 % 8 * 100);
        file.extend(words(&[1_700_000_000 + burst * 8 * seconds, at, len, len]));
        file.extend(packet);
    }
    file
}

/// The shares in a text, as written.
fn shares(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[1].starts_with('%'));
    pairs.map(|pair| pair[0].trim_start_matches('(').to_owned()).collect()
}

// More than 100 lines: a table of cases.
#[test]
fn every_number_is_of_the_product_that_the_verdict_names() {
    let dir = Dir::new();
    let kinds = ["new", "again", "a little again", "text", "gzip", "encrypted"];
    let (mut verdicts, mut months, mut links) = (Vec::new(), 0, 0);
    for kind in kinds {
        let content = content(kind);
        for transport in ["tcp", "tcp6", "udp", "both"] {
            for seconds in [1, 700] {
                let name = format!("{kind} over {transport}, {seconds} s");
                let file = dir.write("a.pcap", &capture(&content, transport, seconds));
                let study = |more: &[&str]| {
                    let mut args = args![
                        "study",
                        &file,
                        "--algorithms",
                        "maxp,oncewire-tunnel,oncewire-link",
                        "--figures",
                        "algorithms,caches,temporal",
                        "--cache",
                        "1M",
                        "--price",
                        "0.09/GB",
                        "--link",
                        "1Mbit",
                    ];
                    args.extend(more.iter().map(OsString::from));
                    String::from_utf8(run(args, b"").fine()).expect("text")
                };
                let document: Value = serde_json::from_str(&study(&["--json"])).expect("JSON");
                let text = study(&[]);
                let verdict = &document["verdict"];
                let number = |field: &str| {
                    verdict
                        .pointer(field)
                        .and_then(Value::as_f64)
                        .unwrap_or_else(|| panic!("{name}: no {field} in {verdict}"))
                };
                let savings = number("/savings");

                // The product, as figure 1 has it.
                let rows = document["figures"][0]["tables"][0]["rows"].as_array().expect("rows");
                let of = |name: &str| {
                    let row = rows.iter().find(|row| row[0] == name).expect("a row");
                    row[2].as_f64().expect("savings")
                };
                let (tunnel, link) = (of("oncewire-tunnel"), of("oncewire-link"));
                assert_eq!(number("/packet_link"), link, "{name}");
                let deploy = verdict["deploy"].as_str().expect("a word");
                let (expected, of_product) = match (tunnel, link) {
                    _ if link >= 0.05 && link >= tunnel + 0.02 => ("link", link),
                    _ if tunnel >= 0.05 => ("tunnel", tunnel),
                    _ => ("nothing", tunnel),
                };
                assert_eq!((deploy, savings), (expected, of_product), "{name}: {tunnel}, {link}");

                // Headline and tile: one number.
                let headline = verdict["headline"].as_str().expect("text");
                assert!(text.contains(headline), "{name}: {text}");
                assert!(headline.starts_with(&format!(
                    "Deploy {}",
                    match deploy {
                        "tunnel" => "the tunnel: it would save",
                        "link" => "the packet link: it would save",
                        _ => "nothing: the tunnel would save",
                    }
                )));
                let line = |starts: &str| {
                    // The verdict is last.
                    let line =
                        text.lines().rev().find(|line| line.trim_start().starts_with(starts));
                    line.unwrap_or_else(|| panic!("{name}: no {starts} in {text}"))
                };
                let [share] = &shares(headline)[..] else { panic!("{name}: {headline}") };
                assert_eq!(&shares(line("savings "))[..], std::slice::from_ref(share), "{name}");
                let written: f64 = share.parse().unwrap_or(0.0);
                assert!((written - 100.0 * savings).abs() < 0.06, "{name}: {share}, {savings}");

                // Money and time: the same savings.
                let (before, after) = (number("/money/before"), number("/money/after"));
                assert!((after - before * (1.0 - savings)).abs() < 1e-9, "{name}");
                let month = verdict["money"]["of"] == "month";
                assert_eq!(month, seconds == 700, "{name}: a month only of a day");
                let saved = if month { "saved in 30 days" } else { "saved per TB" };
                let saved = line(saved).split_whitespace().find_map(|word| {
                    word.strip_suffix(':').and_then(|number| number.parse::<f64>().ok())
                });
                assert!(
                    (saved.expect("money") - (before - after)).abs() < 0.006,
                    "{name}: {saved:?}"
                );
                let (before, after) = (number("/time/busy_before"), number("/time/busy_after"));
                assert!((after - before * (1.0 - savings)).abs() < 1e-3, "{name}");

                // The other product is named where the link is recommended.
                let mentions =
                    verdict["reasons"].to_string().matches("The tunnel, for TCP").count();
                assert_eq!(mentions, usize::from(deploy == "link"), "{name}");
                (months, links) = (months + usize::from(month), links + mentions);
                verdicts.push(deploy.to_owned());
            }
        }
    }
    let count = |deploy: &str| verdicts.iter().filter(|verdict| *verdict == deploy).count();
    let (tunnels, nothing) = (count("tunnel"), count("nothing"));
    assert!(verdicts.len() >= 40 && tunnels >= 10 && nothing >= 10, "{tunnels}, {nothing}");
    assert!(months >= 10 && links >= 5, "{months} months, {links} links");
}

#[test]
fn the_verdict_is_in_sight_and_figures_have_a_line() {
    let dir = Dir::new();
    let good = dir.write("good.pcap", &pcap(&packets()));
    let of = |figures: &[&str]| {
        let mut args = args!["study", &good, "--cache", "1M"];
        args.extend(figures.iter().map(OsString::from));
        String::from_utf8(run(args, b"").fine()).expect("text")
    };
    let brief = of(&[]);
    let lines: Vec<&str> = brief.lines().collect();
    let line = |text: &str| lines.iter().position(|line| line.contains(text));
    assert!(lines.len() <= 32, "{} lines:\n{brief}", lines.len());
    // The end of the output stays on a screen of 24 lines, one of which is the prompt.
    let verdict = line("Deploy the tunnel").expect("a verdict");
    assert!(lines.len() - verdict <= 23, "{brief}");
    let has = |text: &str, figure: u8| {
        text.lines().filter(|line| line.starts_with(&format!("{figure:>3}  "))).count() == 1
    };
    let all = of(&["--all"]);
    for figure in 1..=16 {
        let is_default = ![2, 6, 10, 12, 13, 15].contains(&figure);
        assert_eq!(has(&brief, figure), is_default, "{figure}: {brief}");
        assert!(has(&all, figure), "{figure}: {all}");
    }
    assert!(!brief.contains("Figure 3"), "{brief}");
    let one = of(&["--figures", "caches"]);
    assert!(one.contains("Figure 3") && !one.contains("Figure 4"), "{one}");
    let all = of(&["--figures", "all"]);
    for part in ["\nInput", "\nAccounting", "Figure 1 ", "Figure 16 ", "Deploy the tunnel"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}
