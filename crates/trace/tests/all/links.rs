//! Constructed links, each with the verdict that whoever built it would give.

use crate::study::noise;
use oncewire_kernels::random::SplitMix64;
use oncewire_packet::{LinkType, Record};
use oncewire_trace::results::{Cell, CostOf, Deploy, Report};
use oncewire_trace::{FigureId, Settings, Study};
use std::io::Write;

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;

/// Bytes of Ethernet, IPv4 and TCP.
const HEADERS: usize = 54;

/// A packet: time, captured bytes, bytes on the wire.
type Packet = (i64, Vec<u8>, u32);

/// A link under construction: flows to the clients of a server, one packet after another.
struct Link {
    packets: Vec<Packet>,
    now: i64,
    /// Between two packets.
    step: i64,
    next_port: u16,
}

impl Link {
    fn new(step: i64) -> Link {
        Link { packets: Vec::new(), now: 0, step, next_port: 40_000 }
    }

    /// IPv4 with a right checksum around TCP or UDP.
    fn packet(protocol: u8, ports: (u16, u16), seq: u32, payload: &[u8]) -> Vec<u8> {
        let transport = if protocol == 6 { 20 } else { 8 };
        let len = (20 + transport + payload.len()) as u16;
        let mut ip = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        ip.extend([192, 0, 2, 1, 10, 0, 0, (ports.1 % 250) as u8 + 1]);
        let sum = oncewire_packet::checksum::Sum::default().plus(&ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut bytes = [&[2; 12][..], &[8, 0], &ip].concat();
        bytes.extend(ports.0.to_be_bytes());
        bytes.extend(ports.1.to_be_bytes());
        if protocol == 6 {
            bytes.extend(seq.to_be_bytes());
            bytes.extend([0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            bytes.extend((8 + payload.len() as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend(payload);
        bytes
    }

    fn push(&mut self, packet: Vec<u8>) {
        let wire = packet.len() as u32;
        self.packets.push((self.now, packet, wire));
        self.now += self.step;
    }

    /// A new connection from `port` that sends the content.
    fn tcp(mut self, port: u16, content: &[u8]) -> Link {
        let client = self.next_port;
        self.next_port += 1;
        for (nth, part) in content.chunks(1400).enumerate() {
            self.push(Link::packet(6, (port, client), 1 + 1400 * nth as u32, part));
        }
        self
    }

    fn udp(mut self, port: u16, content: &[u8], size: usize) -> Link {
        let client = self.next_port;
        self.next_port += 1;
        for part in content.chunks(size) {
            self.push(Link::packet(17, (port, client), 0, part));
        }
        self
    }

    /// What was sent so far within VXLAN, with reserved bits set.
    fn in_vxlan(mut self) -> Link {
        for (_, packet, wire) in &mut self.packets {
            let inner = [&[0x08, 0x40, 0, 0, 0, 1, 2, 9][..], packet].concat();
            *packet = Link::packet(17, (50_000, 4789), 0, &inner);
            *wire = packet.len() as u32;
        }
        self
    }

    /// Every packet twice, as a mirror port shows it that copies both ways.
    fn doubled(mut self) -> Link {
        let both = |(time, packet, wire): Packet| {
            [(time, packet.clone(), wire), (time + MILLISECOND / 50, packet, wire)]
        };
        self.packets = self.packets.into_iter().flat_map(both).collect();
        self
    }

    /// Packets cut at 128 bytes: as with a snap length, or as a packet broker that says that they
    /// are whole.
    fn cut(mut self, is_told: bool) -> Link {
        for (_, packet, wire) in &mut self.packets {
            packet.truncate(128);
            *wire = if is_told { *wire } else { packet.len() as u32 };
        }
        self
    }

    fn study_as(self, link: LinkType, settings: Settings) -> Report {
        let mut study = Study::new(settings, None).unwrap();
        for (time, data, wire_len) in &self.packets {
            study.push(&Record { time: *time, link, wire_len: *wire_len, data }).unwrap();
        }
        study.finish(vec!["made here".into()], Vec::new()).unwrap()
    }

    fn study(self) -> Report {
        self.study_as(LinkType::ETHERNET, lean())
    }
}

fn lean() -> Settings {
    Settings { cache: 4 << 20, threads: 2, ..Settings::lean() }
}

/// Lines of a log: new, but of few words.
fn log(seed: u64, len: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    let words =
        ["GET", "POST", "/index", "/images", "404", "200", "curl", "timeout", "cache", "ok"];
    let mut out = Vec::with_capacity(len + 64);
    while out.len() < len {
        let _ = write!(out, "{} ", random.next_u64() % 100_000);
        for _ in 0..6 {
            let _ = write!(out, "{} ", words[(random.next_u64() >> 33) as usize % words.len()]);
        }
        out.push(b'\n');
    }
    out.truncate(len);
    out
}

/// Records of TLS.
fn encrypted(seed: u64, records: u64) -> Vec<u8> {
    let hello = [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &noise(seed, 1389)].concat();
    let record = |nth| [&[23, 3, 3, 5, 0x73][..], &noise(seed * 1000 + nth, 1395)].concat();
    [hello].into_iter().chain((1..records).map(record)).flatten().collect()
}

fn gzipped(version: usize) -> Vec<u8> {
    let digits: Vec<String> = noise(9, 60_000).iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = digits.chunks(2000).map(|part| part.concat() + &"-".repeat(version));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    gzip.write_all(parts.collect::<String>().as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// A link, what to deploy, within which limits the savings are, and what the verdict says.
type Case = (&'static str, Report, Deploy, (f64, f64), &'static [&'static str]);

// More than 100 lines: a table of cases.
fn cases() -> Vec<Case> {
    use Deploy::{CannotSay, Link as ByLink, Nothing, Tunnel};
    let new = |step| Link::new(step * MILLISECOND);
    let copies = |step| new(step).tcp(80, &noise(1, 100_000)).tcp(80, &noise(1, 100_000));
    let isolated: Vec<u8> =
        (0..200).flat_map(|seed| [noise(seed, 1100), noise(7777, 300)].concat()).collect();
    let esp = |mut link: Link| {
        link.packets.iter_mut().for_each(|(_, packet, _)| packet[23] = 50);
        link
    };
    let short = new(5).tcp(80, &noise(1, 60_000)).tcp(80, &noise(1, 60_000));
    let priced = Settings { price: Some(0.09), ..lean() };
    let small = Settings { cache: 256 << 10, ..lean() };
    let file = noise(3, 410_000);
    vec![
        ("new, random", new(50).tcp(80, &noise(1, 200_000)).study(), Nothing, (0.0, 0.001), &[]),
        ("a file twice", copies(50).study(), Tunnel, (0.44, 0.49), &["oncewire serve"]),
        (
            "a file ten times",
            (0..10).fold(new(50), |link, _| link.tcp(80, &noise(2, 50_000))).study(),
            Tunnel,
            (0.82, 0.88),
            &[],
        ),
        ("logs", new(2).tcp(514, &log(1, 300_000)).study(), Tunnel, (0.5, 0.9), &[]),
        (
            "datagrams, each twice",
            new(5).udp(514, &noise(1, 120_000), 1200).udp(514, &noise(1, 120_000), 1200).study(),
            ByLink,
            (0.4, 0.5),
            &["oncewire link", "on Linux", "would save 0.0 %: too little"],
        ),
        ("media", new(5).udp(5004, &noise(1, 200_000), 1200).study(), Nothing, (0.0, 0.01), &[]),
        (
            "TLS",
            new(5).tcp(443, &encrypted(1, 150)).study(),
            Nothing,
            (0.0, 0.01),
            &["100.0 % of the payload is encrypted"],
        ),
        (
            "TLS, and a file twice",
            new(5)
                .tcp(443, &encrypted(1, 100))
                .tcp(80, &noise(1, 60_000))
                .tcp(80, &noise(1, 60_000))
                .study(),
            Tunnel,
            (0.15, 0.25),
            // Half of the plain content repeats.
            &["53.8 % of the payload is encrypted", "reduce it: 26.2 % of all bytes more, if"],
        ),
        (
            "acknowledgments",
            {
                let mut link = new(5);
                (0..500).for_each(|_| link.push(Link::packet(6, (80, 40_000), 1, b"")));
                link.study()
            },
            Nothing,
            (0.0, 0.0),
            &["Only 0.0 % of the bytes are readable payload"],
        ),
        (
            "a file twice, cut by a snap length",
            copies(50).cut(true).study(),
            CannotSay,
            (0.0, 0.05),
            &["tcpdump -i eth0 -s 0", "at least that much"],
        ),
        (
            "a file twice, cut by a packet broker",
            copies(50).cut(false).study(),
            CannotSay,
            (0.0, 0.05),
            &["before a packet broker cuts them"],
        ),
        (
            "random bytes, cut",
            new(50).tcp(80, &noise(1, 100_000)).cut(true).study(),
            CannotSay,
            (0.0, 0.001),
            &["tcpdump"],
        ),
        (
            "a link type that is not read",
            copies(50).study_as(LinkType(147), lean()),
            CannotSay,
            (0.0, 0.0),
            &["Ethernet or IP"],
        ),
        (
            "random bytes, each packet twice",
            new(50).tcp(80, &noise(1, 100_000)).doubled().study(),
            CannotSay,
            // Each copy looks like a loss to the tunnel, which would lose as much itself.
            (0.3, 0.4),
            &["editcap -d", "the copies look like repeats"],
        ),
        (
            "versions in gzip",
            new(2).tcp(80, &gzipped(0)).tcp(80, &gzipped(1)).tcp(80, &gzipped(2)).study(),
            Tunnel,
            (0.3, 0.7),
            &["which the tunnel opens"],
        ),
        (
            "ESP",
            esp(copies(50)).study(),
            Nothing,
            (0.0, 0.0),
            &["Only 0.0 % of the bytes are readable payload"],
        ),
        ("a file twice, in VXLAN", copies(50).in_vxlan().study(), Tunnel, (0.42, 0.48), &[]),
        (
            "media, and a file twice",
            new(5)
                .udp(5004, &noise(5, 200_000), 1200)
                .tcp(80, &noise(1, 100_000))
                .tcp(80, &noise(1, 100_000))
                .study(),
            Tunnel,
            (0.2, 0.25),
            &[],
        ),
        (
            "short repeats in what looks compressed",
            new(5).tcp(80, &isolated).study(),
            Nothing,
            (0.0, 0.05),
            &["Max-match alone finds", "samples one position in 1,024"],
        ),
        (
            "three seconds, with a price",
            short.study_as(LinkType::ETHERNET, priced),
            Tunnel,
            (0.44, 0.49),
            &["too short to represent a day"],
        ),
        (
            "a file twice that the cache does not hold",
            new(5).tcp(80, &file).tcp(80, &file).study_as(LinkType::ETHERNET, small),
            Nothing,
            (0.0, 0.05),
            &["2 flows carried more than a cache of 262 kB holds", "larger than 410 kB"],
        ),
    ]
}

#[test]
fn verdicts_are_those_of_whoever_built_the_link() {
    let cases = cases();
    assert!(cases.len() >= 20);
    for (name, report, deploy, (least, most), says) in &cases {
        let verdict = &report.verdict;
        assert_eq!(verdict.deploy, *deploy, "{name}: {verdict:?}");
        assert!((*least..=*most).contains(&verdict.savings), "{name}: {verdict:?}");
        let text = verdict.reasons.join("\n");
        for part in *says {
            assert!(text.contains(part), "{name}: {part:?} is not in {text}");
        }
        let begins = match deploy {
            Deploy::Tunnel => "Deploy the tunnel",
            Deploy::Link => "Deploy the packet link",
            Deploy::Nothing => "Deploy nothing",
            Deploy::CannotSay => "Cannot say",
        };
        assert!(verdict.headline.starts_with(begins), "{name}: {}", verdict.headline);
        // A part of the bytes says nothing about time, money or caches.
        if *deploy == Deploy::CannotSay {
            let numbers = (verdict.spread, verdict.confidence, verdict.cache);
            assert_eq!(numbers, (None, None, None), "{name}");
        }
        if let Some(money) = &verdict.money {
            assert_eq!(money.of, CostOf::Terabyte, "{name}");
        }
        // No part of the bytes is more than all of them.
        for layer in &report.accounting.layers {
            assert!(layer.bytes <= report.input.wire_bytes, "{name}: {layer:?}");
        }
    }
}

#[test]
fn the_range_is_measured_and_a_short_capture_is_not_sure() {
    // Ten minutes of logs in turns with ten of random bytes.
    let turns = |hours: i64| {
        let mut link = Link::new(0);
        for minute in 0..hours * 60 {
            link.now = minute * MINUTE;
            let is_log = minute / 10 % 2 == 0;
            let part =
                if is_log { log(minute as u64, 14_000) } else { noise(minute as u64, 14_000) };
            link = link.tcp(80, &part);
        }
        link.study().verdict
    };
    let verdict = turns(2);
    let (low, high) = verdict.spread.unwrap();
    assert!(low < 0.02 && high > 0.5, "{verdict:?}");
    assert_eq!(verdict.spread_seconds, Some(60.0));
    let (low, high) = verdict.confidence.unwrap();
    assert!(low < verdict.savings - 0.1 && high > verdict.savings + 0.1, "{verdict:?}");
    // A day of it is sure of the mean.
    let (low, high) = turns(24).confidence.unwrap();
    assert!(high - low < 0.1, "{low} to {high}");
    // Where it may be worth nothing, it says so.
    let mut link = Link::new(0);
    for minute in 0..60 {
        link.now = minute * MINUTE;
        let part =
            if minute < 8 { log(minute as u64, 14_000) } else { noise(minute as u64, 14_000) };
        link = link.tcp(80, &part);
    }
    let verdict = link.study().verdict;
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with("Not sure")), "{verdict:?}");
    // Clocks that jump by years say nothing about time.
    let mut link = Link::new(0);
    for month in 0..40 {
        link.now = month * 30 * 24 * 60 * MINUTE;
        link = link.tcp(80, &log(month as u64, 14_000));
    }
    let verdict = link.study().verdict;
    assert_eq!((verdict.spread, verdict.confidence, verdict.billing), (None, None, None));
    assert!(verdict.reasons.iter().any(|reason| reason.contains("lasts 3 years")), "{verdict:?}");
    // Three seconds have no range.
    let short = Link::new(10 * MILLISECOND).tcp(80, &log(1, 300_000)).study().verdict;
    assert_eq!((short.spread, short.confidence), (None, None));
}

#[test]
fn the_verdict_does_not_depend_on_the_figures_that_were_asked_for() {
    let build = || {
        let link = Link::new(20 * MILLISECOND);
        let link = link.udp(514, &noise(1, 120_000), 1200).udp(514, &noise(1, 120_000), 1200);
        link.tcp(80, &gzipped(0)).tcp(80, &gzipped(1)).tcp(443, &encrypted(1, 80))
    };
    let with = |figures: &[FigureId], sweeps| {
        let figures = figures.iter().copied().collect();
        build().study_as(LinkType::ETHERNET, Settings { figures, sweeps, ..lean() }).verdict
    };
    let all = with(&FigureId::ALL, true);
    assert_eq!(all.deploy, Deploy::Link);
    for one in FigureId::ALL {
        assert_eq!(with(&[one], false), all, "{}", one.name());
    }
    assert_eq!(with(&[], false), all);
}

#[test]
fn the_curve_by_distance_is_that_of_the_sweep() {
    let build = || {
        let parts = [0, 1, 2, 0, 3, 1, 4, 5, 6, 0].map(|seed| noise(seed, 90_000));
        parts.iter().fold(Link::new(MILLISECOND), |link, part| link.tcp(80, part))
    };
    let curve = |sweeps| {
        let figures = [FigureId::Caches].into();
        let settings = Settings { figures, sweeps, cache: 1 << 20, ..lean() };
        build().study_as(LinkType::ETHERNET, settings)
    };
    let (swept, derived) = (curve(true), curve(false));
    let wire = swept.input.wire_bytes as f64;
    assert!(wire > 900_000.0 + HEADERS as f64);
    let rows = |report: &Report| report.figures[0].tables[0].rows.clone();
    let (swept, derived) = (rows(&swept), rows(&derived));
    assert_eq!(derived.len(), 5, "64 KiB to 1 MiB: {derived:?}");
    for row in &derived {
        let same = swept.iter().find(|swept| swept[0] == row[0]).unwrap();
        let (Cell::Number(derived), Cell::Number(swept)) = (&row[2], &same[2]) else { panic!() };
        assert!((swept - derived).abs() < 0.005, "{row:?}: {swept}");
    }
}

#[test]
fn top_says_who_and_what_repeats() {
    let page = |seed| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";
        [&head[..], &noise(seed, 90_000)].concat()
    };
    let build = || {
        let mut link = Link::new(MILLISECOND).tcp(443, &encrypted(1, 100)).tcp(80, &page(1));
        // An hour later, to another client.
        link.now += 60 * MINUTE;
        link.tcp(80, &page(1))
    };
    let top = |show_content| {
        let figures = [FigureId::Top].into();
        let settings = Settings { figures, show_content, ..lean() };
        build().study_as(LinkType::ETHERNET, settings)
    };
    let report = top(false);
    let wire = report.input.wire_bytes;
    let tables = &report.figures[0].tables;
    let first = |id: &str| {
        let table = tables.iter().find(|table| table.id == id).unwrap();
        (table.rows[0].clone(), table.rows.len())
    };
    assert_eq!(first("hosts").0[0], Cell::from("192.0.2.1"));
    let (pair, pairs) = first("conversations");
    // The third client, whose page came an hour before to the second.
    assert_eq!(pair[0], Cell::from("10.0.0.3 and 192.0.2.1, tcp/80 http"));
    let Cell::Number(share) = pair[6] else { panic!("{pair:?}") };
    assert!(pairs == 3 && share > 0.98, "{pairs}, {share}: records of TLS have equal heads");
    assert_eq!(first("services").0[0], Cell::from("tcp/80 http"));
    let (kind, kinds) = first("kinds");
    assert_eq!((&kind[0], kinds), (&Cell::from("text/html"), 2), "and TLS");
    let (hour, hours) = first("hours");
    let Cell::Number(share) = hour[6] else { panic!("{hour:?}") };
    assert!(hours == 2 && share < 0.02, "next to nothing repeats in the first: {hour:?}");
    // Conversations, services and hours are parts of a whole.
    for id in ["conversations", "services", "hours"] {
        let table = tables.iter().find(|table| table.id == id).unwrap();
        let sum: u64 = table
            .rows
            .iter()
            .map(|row| if let Cell::Count(count) = row[2] { count } else { 0 })
            .sum();
        assert_eq!(sum, wire, "{id}");
    }
    // Bytes of payload are shown on request only.
    assert!(tables.iter().all(|table| table.id != "content"));
    let content = top(true).figures[0].tables.last().unwrap().clone();
    assert_eq!(content.id, "content");
    let Cell::Text(bytes) = &content.rows[0][0] else { panic!("{content:?}") };
    assert_eq!(bytes.chars().count(), 32);
}
