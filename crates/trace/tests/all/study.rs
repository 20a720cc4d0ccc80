//! The whole study on traces whose redundancy is known by construction, from captured bytes to
//! figures. It is one file of more than 600 lines, since all tests make their traces of the same few
//! packets.

use oncewire_kernels::random::SplitMix64;
use oncewire_packet::{LinkType, Record};
use oncewire_trace::results::{Cell, CostOf, Deploy, Figure, MatchRow, Report};
use oncewire_trace::{Algorithm, FigureId, Settings, Study, Survey};
use std::sync::{Arc, Mutex};

/// Bytes that repeat nothing, by seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    (0..len).map(|_| (random.next_u64() >> 24) as u8).collect()
}

/// A TCP packet from one port of one host to another, on Ethernet.
fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    bytes.extend([0x08, 0x00, 0x45, 0]);
    bytes.extend((40 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend(from.0);
    bytes.extend(to.0);
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 80);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
const OTHER: ([u8; 4], u16) = ([10, 0, 0, 2], 40_000);

/// Bytes of headers in front of each payload.
const HEADERS: usize = 54;

/// Studies packets that come a second after each other.
fn study(settings: Settings, packets: &[Vec<u8>]) -> Report {
    let mut study = Study::new(settings, None).unwrap();
    for (second, data) in packets.iter().enumerate() {
        let time = 1_700_000_000_000_000_000 + second as i64 * 1_000_000_000;
        study
            .push(&Record { time, link: LinkType::ETHERNET, wire_len: data.len() as u32, data })
            .unwrap();
    }
    study.finish(vec!["made here".into()], Vec::new()).unwrap()
}

fn settings(figures: &[FigureId], packets: &[Vec<u8>]) -> Settings {
    let bytes = packets.iter().map(|packet| packet.len() as u64).sum();
    Settings {
        figures: figures.iter().copied().collect(),
        survey: Some(Survey::all(bytes)),
        threads: 2,
        ..Settings::default()
    }
}

fn figure(report: &Report, id: FigureId) -> &Figure {
    report.figures.iter().find(|figure| figure.id == id.name()).unwrap()
}

/// The number in a figure's first table, by the text that begins its row and the name of its
/// column.
pub(crate) fn number(report: &Report, id: FigureId, row: &str, column: &str) -> f64 {
    let table = &figure(report, id).tables[0];
    let column = table.columns.iter().position(|candidate| candidate.name == column).unwrap();
    let row = table.rows.iter().find(|candidate| candidate[0] == Cell::from(row)).unwrap();
    match row[column] {
        Cell::Number(number) => number,
        Cell::Count(count) => count as f64,
        ref other => panic!("no number: {other:?}"),
    }
}

/// Gives the packets of one flow the sequence numbers of a stream without gaps.
fn in_order<const N: usize>(mut packets: [Vec<u8>; N]) -> Vec<Vec<u8>> {
    let mut seq = 1u32;
    for packet in &mut packets {
        packet[38..42].copy_from_slice(&seq.to_be_bytes());
        seq += (packet.len() - HEADERS) as u32;
    }
    packets.to_vec()
}

/// A payload of 1,000 bytes, another, and the first again.
fn again() -> Vec<Vec<u8>> {
    in_order([1, 2, 1].map(|seed| packet(SERVER, CLIENT, &noise(seed, 1000))))
}

#[test]
fn algorithms_save_what_repeats_and_are_charged() {
    let packets = again();
    let report = study(settings(&[FigureId::Algorithms], &packets), &packets);
    let wire = 3.0 * (1000.0 + HEADERS as f64);
    let savings =
        |algorithm: Algorithm| number(&report, FigureId::Algorithms, algorithm.name(), "savings");
    // One match of everything: 4 bytes and the shim of 12.
    for algorithm in [
        Algorithm::Modp,
        Algorithm::Maxp,
        Algorithm::Fixed,
        Algorithm::SampleHash,
        Algorithm::Peaks,
        Algorithm::MaxpQuad,
        Algorithm::Shared,
        Algorithm::SampleByte,
        Algorithm::Optimal,
    ] {
        assert_eq!(savings(algorithm), 984.0 / wire, "{}", algorithm.name());
    }
    // A name of 16 bytes; a cache per pair without a shim.
    assert_eq!(savings(Algorithm::Payload), 984.0 / wire);
    assert_eq!(savings(Algorithm::PayloadGzip), 984.0 / wire);
    assert_eq!(savings(Algorithm::Pairs), 996.0 / wire);
    // Noise does not compress, and nothing is within 10 ms of its copy.
    for algorithm in [
        Algorithm::Gzip,
        Algorithm::GzipWindow,
        Algorithm::GzipFlow,
        Algorithm::ZstdWindow,
        Algorithm::ZstdFlow,
    ] {
        assert_eq!(savings(algorithm), 0.0, "{}", algorithm.name());
    }
    // A chunk is no longer than 256 bytes, but neighbours become one match.
    for algorithm in [Algorithm::Chunk, Algorithm::ChunkWindow] {
        assert!(
            (700.0 / wire..=984.0 / wire).contains(&savings(algorithm)),
            "{} {}",
            algorithm.name(),
            savings(algorithm)
        );
    }
    for algorithm in [Algorithm::MaxpGzip, Algorithm::MaxpZstd] {
        assert!((983.0 / wire..985.0 / wire).contains(&savings(algorithm)), "{}", algorithm.name());
    }
    // Three frames with a head and a checksum each, of which the two of new content are longer than
    // it, and the message that opens the flow. Each has 26 bytes around it, and 66 of headers but
    // the first one, which comes with the flow.
    let sent = 40.0 + 2.0 * 1000.0 + 4.0 * 26.0 + 3.0 * 66.0;
    let frames = wire - sent - wire * savings(Algorithm::Tunnel);
    assert!((20.0..60.0).contains(&frames), "{frames}");
    // Three datagrams, each with Ethernet and 52 bytes around its record. The first has headers of 40
    // bytes and 4 of a record, the others refer to these in 13. Two frames of 1,003 bytes, and one
    // of 17.
    let records = 3.0 * (14.0 + 52.0) + 44.0 + 2.0 * 13.0 + 2023.0;
    assert_eq!(savings(Algorithm::Packets), (wire - records) / wire);
    // Whole packets over a link have no flow to open, nor segments.
    assert_eq!(report.verdict.deploy, Deploy::Link);
}

#[test]
fn one_rule_for_repeats_within_a_packet_and_for_what_looks_compressed() {
    // Each packet has its 700 bytes twice; all of the first comes again.
    let twice = |seed| packet(SERVER, CLIENT, &noise(seed, 700).repeat(2));
    let packets = in_order([1, 2, 1].map(twice));
    let report = study(settings(&[FigureId::Algorithms], &packets), &packets);
    let wire = 3.0 * (1400.0 + HEADERS as f64);
    for algorithm in ["maxp", "modp", "optimal", "chunk", "chunk-martynov"] {
        let saved = wire * number(&report, FigureId::Algorithms, algorithm, "savings");
        let (least, most) =
            if algorithm.starts_with("chunk") { (1000.0, 1381.0) } else { (1376.0, 1385.0) };
        assert!((least..most).contains(&saved), "{algorithm}: {saved}");
    }
    // Noise in which 200 bytes of each packet are known: isolated repeats in dense content.
    let known = noise(0, 200);
    let packets: Vec<_> = (1..60)
        .map(|seed| {
            packet(
                SERVER,
                CLIENT,
                &[&noise(seed, 600)[..], &known, &noise(100 + seed, 600)].concat(),
            )
        })
        .collect();
    let report = study(settings(&[FigureId::Algorithms], &packets), &packets);
    let of = |name| number(&report, FigureId::Algorithms, name, "savings");
    assert!(of("chunk") > 0.5 * of("maxp") && of("maxp") > 0.1, "{} {}", of("chunk"), of("maxp"));
    assert!(of("optimal") >= of("maxp"));
}

#[test]
fn maxp_as_published_marks_nothing_in_runs() {
    let zeros = |seed| packet(SERVER, CLIENT, &[&noise(seed, 40)[..], &[0; 1000]].concat());
    let packets = in_order([1, 2, 3].map(zeros));
    let report = study(settings(&[FigureId::Algorithms], &packets), &packets);
    let of = |name| number(&report, FigureId::Algorithms, name, "savings");
    assert_eq!(of("maxp-published"), 0.0);
    assert!(of("maxp") > 0.5, "{}", of("maxp"));
}

#[test]
fn frames_that_grow_are_charged() {
    // A packet that comes again among a hundred of ten bytes, each a frame of its own.
    let mut payloads: Vec<_> = (2..102).map(|seed| noise(seed, 10)).collect();
    payloads.insert(0, noise(1, 1400));
    payloads.insert(60, noise(1, 1400));
    let (mut seq, mut packets) = (1u32, Vec::new());
    for payload in &payloads {
        let mut packet = packet(SERVER, CLIENT, payload);
        packet[38..42].copy_from_slice(&seq.to_be_bytes());
        seq += payload.len() as u32;
        packets.push(packet);
    }
    let report = study(settings(&[FigureId::Algorithms], &packets), &packets);
    let wire: usize = packets.iter().map(Vec::len).sum();
    let saved = wire as f64 * tunnel(&report);
    // Without the short ones it saves most of the long one that comes again.
    let long = [packets[0].clone(), packets[60].clone()];
    let report = study(settings(&[FigureId::Algorithms], &long), &long);
    let wire: usize = long.iter().map(Vec::len).sum();
    let of_long = wire as f64 * tunnel(&report);
    assert!(of_long > 1000.0 && saved < of_long - 500.0, "{saved} of {of_long}");
}

#[test]
fn a_compression_window_opens_at_its_first_packet() {
    // Twelve copies, 1 ms apart: those of the first ten are in one window.
    let data = packet(SERVER, CLIENT, &noise(1, 1000));
    let run = |gap: i64, algorithm: Algorithm| {
        let packets = vec![data.clone(); 12];
        let settings =
            Settings { algorithms: vec![algorithm], ..settings(&[FigureId::Algorithms], &packets) };
        let mut study = Study::new(settings, None).unwrap();
        for (index, data) in packets.iter().enumerate() {
            let record = Record {
                time: index as i64 * gap,
                link: LinkType::ETHERNET,
                wire_len: data.len() as u32,
                data,
            };
            study.push(&record).unwrap();
        }
        let report = study.finish(Vec::new(), Vec::new()).unwrap();
        number(&report, FigureId::Algorithms, algorithm.name(), "savings") * 12.0 * 1054.0
    };
    for algorithm in
        [Algorithm::GzipWindow, Algorithm::GzipFlow, Algorithm::ZstdWindow, Algorithm::ZstdFlow]
    {
        // Two windows, so two copies are paid for, and a copy costs a match for each 258 bytes.
        let saved = run(1_000_000, algorithm);
        assert!((9_700.0..10_000.0).contains(&saved), "{} {saved}", algorithm.name());
        // 10 ms apart, each has a window of its own.
        assert_eq!(run(10_000_000, algorithm), 0.0, "{}", algorithm.name());
    }
    assert_eq!(run(1_000_000, Algorithm::Gzip), 0.0);
}

#[test]
fn directions_have_caches_of_their_own() {
    let content = noise(1, 1000);
    let packets = vec![
        packet(SERVER, CLIENT, &content),
        packet(CLIENT, SERVER, &content),
        packet(SERVER, OTHER, &content),
        packet(CLIENT, OTHER, &content),
    ];
    let together = settings(&[FigureId::Algorithms], &packets);
    let mut apart = together.clone();
    apart.inside = Some(oncewire_trace::prefix::Prefixes::parse("10.0.0.0/8").unwrap());
    let (together, apart) = (study(together, &packets), study(apart, &packets));
    let wire = 4.0 * 1054.0;
    assert_eq!(number(&together, FigureId::Algorithms, "maxp", "savings"), 3.0 * 984.0 / wire);
    assert_eq!(number(&apart, FigureId::Algorithms, "maxp", "savings"), 984.0 / wire);
    assert_eq!(number(&apart, FigureId::Algorithms, "maxp", "inbound"), 984.0 / (2.0 * 1054.0));
    assert_eq!(number(&apart, FigureId::Algorithms, "maxp", "outbound"), 0.0);
    assert_eq!(number(&apart, FigureId::Algorithms, "maxp", "internal"), 0.0);
}

#[test]
fn periods_cost_what_lies_before_the_first_marker() {
    let packets = again();
    let report = study(settings(&[FigureId::Periods], &packets), &packets);
    let table = &figure(&report, FigureId::Periods).tables[0];
    assert_eq!(table.rows.len(), 5 * 8);
    for row in &table.rows {
        // Whole packets repeat: one marker finds them, and every sampler has one in 1,000 bytes at
        // these periods.
        if let Cell::Number(savings) = row[3] {
            let dense = matches!(row[1], Cell::Count(period) if period <= 128);
            assert!(savings == 984.0 / (3.0 * 1054.0) || !dense, "{row:?}");
        }
    }
    let Cell::Number(share) = table.rows[0][4] else { panic!("no share of the optimum") };
    assert!((share - 1.0).abs() < 1e-9);
}

#[test]
fn a_cache_finds_what_is_no_further_back_than_its_size() {
    // Copies 200,000 bytes apart: caches of 250,000 and more have them.
    let mut packets = vec![packet(SERVER, CLIENT, &noise(0, 1000))];
    packets.extend((1..200).map(|seed| packet(SERVER, CLIENT, &noise(seed, 1000))));
    packets.push(packets[0].clone());
    let mut settings = settings(&[FigureId::Caches], &packets);
    settings.cache = 250_000;
    settings.survey = None;
    let report = study(settings, &packets);
    let table = &figure(&report, FigureId::Caches).tables[0];
    for row in &table.rows {
        let (Cell::Count(size), Cell::Number(seconds)) = (&row[0], &row[1]) else {
            panic!("{row:?}")
        };
        // 201 packets of 1,000 bytes in so many seconds.
        let length = report.input.duration;
        assert!((seconds - *size as f64 / 201_000.0 * length).abs() < 1e-6, "{row:?}");
        let Cell::Number(savings) = &row[2] else { panic!("{row:?}") };
        let expected = if *size >= 201_000 { 984.0 / (201.0 * 1054.0) } else { 0.0 };
        assert_eq!(*savings, expected, "{size}");
    }
    assert!(table.rows.iter().any(|row| row[0] == Cell::Count(125_000)));
    assert!(table.rows.iter().any(|row| row[0] == Cell::Count(250_000)));
}

#[test]
fn services_are_told_apart_by_port() {
    let web = |seed| packet(SERVER, CLIENT, &noise(seed, 1000));
    let mail = |seed| packet((SERVER.0, 25), CLIENT, &noise(seed, 500));
    let packets = vec![web(1), mail(2), web(1), mail(3), web(4)];
    let report = study(settings(&[FigureId::Protocols], &packets), &packets);
    let of = |row: &str, column: &str| number(&report, FigureId::Protocols, row, column);
    assert_eq!(of("tcp/80 http", "packets"), 3.0);
    assert_eq!(of("tcp/80 http", "redundancy"), 984.0 / 3000.0);
    assert_eq!(of("tcp/80 http", "savings"), 984.0 / (3.0 * 1054.0));
    assert_eq!(of("tcp/80 http", "share of savings"), 1.0);
    assert_eq!(of("tcp/25 smtp", "share of bytes"), 2.0 * 554.0 / (3.0 * 1054.0 + 2.0 * 554.0));
    assert_eq!(of("tcp/25 smtp", "redundancy"), 0.0);
    // The smallest cache holds all of it, and one size is no chart. A packet a second, of each the
    // share of its service.
    let [shares] = &figure(&report, FigureId::Protocols).charts[..] else { panic!("one chart") };
    assert_eq!((shares.id, shares.x.categories.len()), ("shares", 5));
    let (web, mail) = (&shares.series[0], &shares.series[1]);
    assert_eq!((&*web.name, &*mail.name), ("tcp/80 http", "tcp/25 smtp"));
    assert_eq!(web.points, [(0.0, 1.0), (1.0, 0.0), (2.0, 1.0), (3.0, 0.0), (4.0, 1.0)]);
    assert!(web.points.iter().zip(&mail.points).all(|(web, mail)| web.1 + mail.1 == 1.0));
    // One server, one client.
    let hosts = report.accounting.hosts;
    assert_eq!((hosts.inside, hosts.others, hosts.flows), (None, 2, 2));
    let survey = Some(Survey::all(1 << 20));
    let larger = Settings { survey, ..settings(&[FigureId::Protocols], &packets) };
    let chart = figure(&study(larger, &packets), FigureId::Protocols).charts[0].clone();
    assert_eq!(chart.series[0].points.last().unwrap().1, 984.0 / (3.0 * 1054.0));
}

#[test]
fn every_packet_and_byte_is_accounted_for() {
    let mut packets = again();
    packets.push(vec![0xff; 60]);
    packets.push(packet(SERVER, CLIENT, &[])[..30].to_vec());
    packets.push(packet(SERVER, CLIENT, &[]));
    let report = study(settings(&[FigureId::Lengths], &packets), &packets);
    let sum = |shares: &[oncewire_trace::results::Share]| {
        shares.iter().fold((0, 0), |sum, share| (sum.0 + share.packets, sum.1 + share.bytes))
    };
    let (used, unused) = (sum(&report.accounting.used), sum(&report.accounting.unused));
    assert_eq!(used.0 + unused.0, 6);
    assert_eq!(used.1 + unused.1, report.input.wire_bytes);
    assert_eq!(sum(&report.accounting.bytes).1, used.1);
    assert_eq!(unused.0, 2);
    assert_eq!(report.input.duration, 5.0);
}

#[test]
fn matches_are_handed_out_with_their_origin() {
    let rows: Arc<Mutex<Vec<MatchRow>>> = Arc::default();
    let sink = Arc::clone(&rows);
    let packets = [packet(SERVER, CLIENT, &noise(1, 1000)), packet(SERVER, OTHER, &noise(1, 1000))];
    let settings = settings(&[FigureId::Lengths], &packets);
    let mut study = Study::new(
        settings,
        Some(Box::new(move |rows| {
            sink.lock().unwrap().extend_from_slice(rows);
            Ok(())
        })),
    )
    .unwrap();
    for data in &packets {
        study
            .push(&Record { time: 5, link: LinkType::ETHERNET, wire_len: data.len() as u32, data })
            .unwrap();
    }
    study.finish(Vec::new(), Vec::new()).unwrap();
    let rows = rows.lock().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].length, rows[0].distance, rows[0].origin),
        (1000, 1000, "inter-destination")
    );
    assert_eq!((rows[0].packet_length, rows[0].protocol, rows[0].source_port), (1000, 6, 80));
}

#[test]
fn nothing_at_all_is_a_report_too() {
    let report = study(settings(&FigureId::ALL, &[]), &[]);
    assert_eq!(report.verdict.deploy, Deploy::Nothing);
    assert_eq!(report.input.start, None);
    let headers = [packet(SERVER, CLIENT, &[])];
    let report = study(settings(&FigureId::ALL, &headers), &headers);
    assert_eq!(report.verdict.deploy, Deploy::Nothing);
    // No number that is not one reaches a report.
    for figure in &report.figures {
        let points =
            figure.charts.iter().flat_map(|chart| &chart.series).flat_map(|series| &series.points);
        for point in points {
            assert!(point.0.is_finite() && point.1.is_finite(), "{}: {point:?}", figure.id);
        }
    }
}

#[test]
fn price_and_link_become_money_and_time() {
    let packets = again();
    let mut settings = settings(&[FigureId::Algorithms], &packets);
    (settings.price, settings.link) = (Some(0.1), Some(1e6));
    let report = study(settings, &packets);
    let money = report.verdict.money.unwrap();
    // A terabyte, since 2 seconds are no month.
    assert_eq!((money.of, money.before), (CostOf::Terabyte, 100.0));
    assert!((money.after / money.before - (1.0 - report.verdict.savings)).abs() < 1e-9);
    let time = report.verdict.time.unwrap();
    assert_eq!(time.busy_before, 3162.0 * 8.0 / 1e6);
    assert!((time.busy_after / time.busy_before - (1.0 - report.verdict.savings)).abs() < 1e-3);
}

#[test]
fn parameters_that_cannot_work_are_errors() {
    let wrong = |change: fn(&mut Settings)| {
        let mut settings = settings(&[FigureId::Lengths], &[]);
        change(&mut settings);
        Study::new(settings, None).err().map(|error| error.to_string())
    };
    assert!(wrong(|settings| settings.window = 5).is_some());
    assert!(wrong(|settings| settings.period = 2).is_some());
    assert!(wrong(|settings| settings.period = 5000).is_some());
    assert!(
        wrong(|settings| {
            settings.cache = u64::MAX;
            settings.survey = None;
        })
        .is_some()
    );
    assert_eq!(wrong(|_| {}), None);
}

#[test]
fn in_parts_it_finds_the_same() {
    let packets: Vec<Vec<u8>> =
        (0..40).map(|index| packet(SERVER, CLIENT, &noise(index % 13, 1000))).collect();
    let settings = settings(
        &[FigureId::Algorithms, FigureId::Periods, FigureId::Caches, FigureId::Origins],
        &packets,
    );
    let whole = study(settings.clone(), &packets);
    let parts = settings.parts(100_000);
    assert!(parts.len() > 3, "{}", parts.len());
    let mut found = None;
    for part in parts {
        let mut study = Study::part(settings.clone(), part, None).unwrap();
        for (second, data) in packets.iter().enumerate() {
            let time = 1_700_000_000_000_000_000 + second as i64 * 1_000_000_000;
            study
                .push(&Record { time, link: LinkType::ETHERNET, wire_len: data.len() as u32, data })
                .unwrap();
        }
        let part = study.finish_part().unwrap();
        match &mut found {
            None => found = Some(part),
            Some(found) => assert!(found.add(part)),
        }
    }
    let report = found.unwrap().report(vec!["made here".into()], Vec::new());
    assert_eq!(report, whole);
    assert!(whole.verdict.savings > 0.5);
    // A part that saw another trace is not taken.
    let first = || Study::new(settings.clone(), None).unwrap().finish_part().unwrap();
    let mut longer = Study::new(settings.clone(), None).unwrap();
    longer
        .push(&Record { time: 0, link: LinkType::ETHERNET, wire_len: 60, data: &[0; 60] })
        .unwrap();
    assert!(first().add(first()));
    assert!(!first().add(longer.finish_part().unwrap()));
    // What cannot be read twice takes one.
    assert_eq!(Settings { survey: None, ..settings }.parts(u64::MAX).len(), 1);
}

/// Studies packets that come at the given times, in nanoseconds.
fn study_at(settings: Settings, packets: &[(i64, Vec<u8>)]) -> Report {
    let mut study = Study::new(settings, None).unwrap();
    for (time, data) in packets {
        study
            .push(&Record {
                time: *time,
                link: LinkType::ETHERNET,
                wire_len: data.len() as u32,
                data,
            })
            .unwrap();
    }
    study.finish(vec!["made here".into()], Vec::new()).unwrap()
}

#[test]
fn payloads_longer_than_a_packet_are_studied() {
    // IP length 0: the sender's network card was to cut it.
    let long = |seed| {
        let mut bytes = packet(SERVER, CLIENT, &noise(seed, 1000));
        bytes.truncate(HEADERS);
        bytes[16..18].fill(0);
        bytes.extend(noise(seed, 200_000));
        bytes
    };
    let packets: Vec<_> =
        in_order([1, 2, 1].map(long)).into_iter().map(|packet| (0, packet)).collect();
    let all = FigureId::ALL.into();
    let report = study_at(
        Settings {
            figures: all,
            threads: 2,
            survey: Some(Survey::all(1 << 20)),
            ..Settings::default()
        },
        &packets,
    );
    assert_eq!(report.input.packets, 3);
    for algorithm in ["maxp", "chunk", "oncewire-link", "oncewire-tunnel", "samplebyte-pairs"] {
        let savings = number(&report, FigureId::Algorithms, algorithm, "savings");
        assert!((0.3..0.34).contains(&savings), "{algorithm}: {savings}");
    }
}

#[test]
fn random_payloads_and_a_clock_out_of_order_are_studied() {
    let times = [0, i64::MAX, i64::MIN, 5, -1, i64::MAX - 1, 1 << 40];
    let packets: Vec<_> = (0..2000u64)
        .map(|seed| {
            (
                times[seed as usize % times.len()],
                packet(SERVER, if seed % 2 == 0 { CLIENT } else { OTHER }, &noise(seed, 300)),
            )
        })
        .collect();
    let report = study_at(
        Settings { threads: 2, survey: Some(Survey::all(1 << 20)), ..Settings::default() },
        &packets,
    );
    for algorithm in ["gzip", "gzip-10ms", "gzip-10ms-flow", "zstd-10ms-flow"] {
        let savings = number(&report, FigureId::Algorithms, algorithm, "savings");
        assert!(savings < 0.01, "{algorithm}: {savings}");
    }
}

/// The tunnel's savings in the table of figure 1.
fn tunnel(report: &Report) -> f64 {
    number(report, FigureId::Algorithms, "oncewire-tunnel", "savings")
}

#[test]
fn the_verdict_is_about_the_tunnel_whatever_was_asked_for() {
    let packets = again();
    let verdict = study(settings(&[FigureId::Lengths], &packets), &packets).verdict;
    let whole = study(settings(&[FigureId::Algorithms], &packets), &packets);
    assert!(verdict.savings > 0.2, "{verdict:?}");
    assert_eq!(
        (verdict.tunnel, verdict.packet_link),
        (tunnel(&whole), number(&whole, FigureId::Algorithms, "oncewire-link", "savings"))
    );
    assert_eq!(verdict, whole.verdict);
}

#[test]
fn the_packet_link_is_recommended_where_it_saves_more() {
    // A hundred copies over UDP, which the tunnel does not carry.
    let mut packets = vec![packet(SERVER, CLIENT, &noise(1, 1000)); 100];
    for packet in &mut packets {
        packet[23] = 17;
    }
    let settings = Settings {
        price: Some(0.1),
        link: Some(1e6),
        ..settings(&[FigureId::Algorithms], &packets)
    };
    let report = study(settings, &packets);
    let verdict = &report.verdict;
    assert_eq!((verdict.deploy, verdict.savings), (Deploy::Link, verdict.packet_link));
    let savings = number(&report, FigureId::Algorithms, "oncewire-link", "savings");
    assert!(savings > 0.8 && savings == verdict.savings, "{verdict:?}");
    assert!(verdict.headline.contains("Deploy the packet link: it would save 8"), "{verdict:?}");
    let (money, time) = (verdict.money.as_ref().unwrap(), verdict.time.as_ref().unwrap());
    assert!((money.after / money.before - (1.0 - savings)).abs() < 1e-9, "{verdict:?}");
    assert!((time.busy_after / time.busy_before - (1.0 - savings)).abs() < 1e-9, "{verdict:?}");
    let says = |text: &str| verdict.reasons.iter().any(|reason| reason.contains(text));
    assert!(says("run `oncewire link`") && says("The tunnel, for TCP only, would save 0.0 %"));
}

#[test]
fn networks_that_no_packet_belongs_to_are_mentioned() {
    let packets = again();
    let with = |networks: &str| {
        let inside = oncewire_trace::prefix::Prefixes::parse(networks).unwrap();
        let settings = Settings { inside: Some(inside), ..settings(&[], &packets) };
        study(settings, &packets).verdict.reasons
    };
    let said = |reasons: &[String], text: &str| reasons.iter().any(|reason| reason.contains(text));
    assert!(said(&with("172.16.0.0/12"), "No packet has an address in the networks of --inside"));
    let right = with("10.0.0.0/8");
    assert!(!said(&right, "--inside"), "{right:?}");
}

#[test]
fn the_verdict_mentions_encryption() {
    // A TLS client hello, then records: all of the payload is encrypted.
    let hello = [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &noise(1, 250)].concat();
    let packets: Vec<_> = [hello, noise(2, 1000), noise(3, 1000)]
        .iter()
        .map(|payload| packet(SERVER, CLIENT, payload))
        .collect();
    let verdict = study(settings(&[FigureId::Irreducible], &packets), &packets).verdict;
    assert!(
        verdict
            .reasons
            .iter()
            .any(|reason| reason.starts_with("100.0 % of the payload is encrypted")),
        "{verdict:?}"
    );
    let packets = again();
    let verdict = study(settings(&[FigureId::Irreducible], &packets), &packets).verdict;
    assert!(!verdict.reasons.iter().any(|reason| reason.contains("encrypted")), "{verdict:?}");
}

/// Digits without a pattern; other versions insert a few every 4,000.
fn text(version: usize) -> Vec<u8> {
    let digits: Vec<String> = noise(9, 40_000).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chunks(2000).map(|part| part.concat() + &"-".repeat(version)).collect::<String>().into()
}

#[test]
fn a_look_inside_deflate_finds_what_a_change_hides() {
    use std::io::Write;
    let gzipped = |version| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(&text(version)).unwrap();
        gzip.finish().unwrap()
    };
    // Two versions to two clients; the first is sent once more, and its third packet comes late.
    let flow = |to: ([u8; 4], u16), content: &[u8]| -> Vec<Vec<u8>> {
        let segments = content.chunks(1400).enumerate().map(|(nth, segment)| {
            let mut packet = packet(SERVER, to, segment);
            packet[38..42].copy_from_slice(&(1 + 1400 * nth as u32).to_be_bytes());
            packet
        });
        segments.collect()
    };
    let (first, second) = (gzipped(0), gzipped(1));
    let mut packets = flow(CLIENT, &first);
    packets.extend(packets.clone());
    packets.swap(2, 5);
    packets.extend(flow(OTHER, &second));
    // A packet a millisecond, so that the tunnel's blocks have several.
    let timed: Vec<_> = (0..).map(|nth| nth * 1_000_000).zip(packets.clone()).collect();
    let report = study_at(settings(&[FigureId::Deflate], &packets), &timed);
    let of = |column: &str| number(&report, FigureId::Deflate, "tcp/80 http", column);
    assert_eq!(of("content"), (first.len() + second.len()) as f64, "each byte once");
    assert!(of("share compressed") > 0.99, "{}", of("share compressed"));
    assert!(of("savings, closed") < 0.05, "{}", of("savings, closed"));
    assert!(of("savings, opened") > 0.25, "{}", of("savings, opened"));
    let streams = figure(&report, FigureId::Deflate).tables[1].rows[0].clone();
    assert_eq!(streams[..3], ["gzip".into(), 2u64.into(), Some(1.0).into()]);
    // The verdict counts it, and says so.
    let verdict = &report.verdict;
    assert_eq!(verdict.deploy, Deploy::Tunnel);
    let said = |text: &str| verdict.reasons.iter().any(|reason| reason.contains(text));
    assert!(said("which the tunnel opens"), "{verdict:?}");

    // Where nothing is deflate, nothing is said.
    let packets = again();
    let report = study(settings(&[FigureId::Deflate], &packets), &packets);
    assert_eq!(number(&report, FigureId::Deflate, "tcp/80 http", "compressed"), 0.0);
    assert!(!report.verdict.reasons.iter().any(|reason| reason.contains("opens")));
}

#[test]
fn distances_are_shares_of_the_cache_that_was_asked_for() {
    // Known to be shorter than the cache or not, the figure is the same.
    let packets = again();
    let settings = Settings { cache: 1 << 20, ..settings(&[FigureId::Locality], &packets) };
    let unknown = study(Settings { survey: None, ..settings.clone() }, &packets);
    let known = study(settings, &packets);
    assert_eq!(
        figure(&known, FigureId::Locality).tables[0].rows,
        figure(&unknown, FigureId::Locality).tables[0].rows
    );
}

#[test]
fn what_ends_a_study_is_told_by_whoever_meets_it_first() {
    let data = packet(SERVER, CLIENT, &noise(1, 1400));
    let settings = settings(&[FigureId::Lengths], std::slice::from_ref(&data));
    let mut study =
        Study::new(settings, Some(Box::new(|_| Err("the disk is full".into())))).unwrap();
    // Batches have some megabytes, and two may wait.
    let pushed = (0..20_000).find_map(|time| {
        study
            .push(&Record {
                time,
                link: LinkType::ETHERNET,
                wire_len: data.len() as u32,
                data: &data,
            })
            .err()
    });
    let error = pushed.expect("the measuring thread has ended").to_string();
    assert!(error.contains("the disk is full"), "{error}");
    assert!(study.finish(Vec::new(), Vec::new()).is_err());
}

#[test]
fn flows_larger_than_the_cache_are_named_with_what_a_larger_one_would_save() {
    let file = |port, seed, packets: usize| {
        let content = noise(seed, packets * 1000);
        content.chunks(1000).map(|part| packet(SERVER, (CLIENT.0, port), part)).collect::<Vec<_>>()
    };
    // Twice 410 KB, and twenty times 50 KB.
    let small = (0..20).flat_map(|port| file(2000 + port, 2, 50));
    let packets: Vec<_> =
        file(1000, 1, 410).into_iter().chain(small).chain(file(1001, 1, 410)).collect();
    let run = |cache, figures: &[FigureId]| {
        study(Settings { cache, ..settings(figures, &packets) }, &packets).verdict
    };
    let reason = |verdict: &oncewire_trace::results::Verdict| {
        verdict.reasons.iter().find(|reason| reason.contains("carried more than a cache")).cloned()
    };

    // Caches of 120 and 240 kB: the first is advised, and neither holds the file.
    let verdict = run(240_000, &[FigureId::Algorithms]);
    let large = verdict.large_flows.unwrap();
    assert_eq!(
        (large.cache, large.flows, large.bytes, large.largest),
        (120_000, 2, 820_000, 410_000)
    );
    let text = reason(&verdict).unwrap();
    for part in [
        "2 flows carried",
        "120 kB",
        "820 kB",
        "45.1 % of the payload",
        "240 kB, still less than the largest flow's 410 kB",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    // One that holds everything has nothing to say.
    let verdict = run(1_000_000, &[FigureId::Algorithms]);
    assert_eq!((verdict.large_flows, reason(&verdict)), (None, None));
}
