use super::*;
use crate::algorithm::{Coder, Grouping, PairLimits, PairParams, Source, WindowRun};
use crate::batch::Charge;
use crate::batch::testing::{Made, noise, observe};
use crate::results::{Cell, Figure};
use crate::survey::Survey;
use std::net::IpAddr;

fn number(figure: &Figure, table: usize, row: usize, column: usize) -> f64 {
    match figure.tables[table].rows[row][column] {
        Cell::Number(number) => number,
        Cell::Count(count) => count as f64,
        ref other => panic!("no number: {other:?}"),
    }
}

fn hosts() -> Box<Hosts> {
    // EndRE's shared cache, limited to what the tests send.
    let cache = crate::algorithm::Sizes::new(1 << 20, Some(Survey::all(1 << 20)));
    let sampler = oncewire_family::SamplerKind::sample_byte;
    let charge = |per_packet| Charge { per_match: 4, per_packet };
    let pairs = |limits, sampler| {
        let (charge, memory) = (charge(0), 1 << 30);
        PairRun::new(PairParams { sampler, window: 32, period: 4, charge, limits, memory })
    };
    let shared = MaxMatchParams {
        sampler: sampler(),
        window: 32,
        period: 4,
        sizes: cache,
        charge: charge(12),
    };
    let largest = PairLimits::Fixed(sweep::LARGEST);
    let fixed = oncewire_family::SamplerKind::Fixed;
    let gzip = WindowRun::new(Coder::Deflate, Grouping::Flow, Source::Payload, 10_000_000);
    Box::new(Hosts::new(
        pairs(PairLimits::ByService, sampler()),
        shared,
        pairs(largest, sampler()),
        vec![("fixed", pairs(largest, fixed))],
        Some(sweep::OtherRuns::new(gzip, 32, 4, 1 << 20)),
        64 << 20,
    ))
}

#[test]
fn hosts_do_not_share_and_a_middlebox_does() {
    // The same 1,000 bytes from a server to two clients, and to the first one again.
    let content = noise(1, 1000);
    let to = |client: &str| Made::tcp("10.0.0.1:80", client).payload(&content);
    let packets =
        [to("10.0.1.1:5000").at(1.0), to("10.0.1.2:5000").at(5.0), to("10.0.1.1:5001").at(9.0)];
    let figure = observe(hosts(), &packets, 1 << 20, 2);
    let wire = 3.0 * 1054.0;
    assert_eq!(number(&figure, 0, 0, 1), 996.0 / wire);
    // The second is an object known from another pair: all but a name.
    assert_eq!(number(&figure, 0, 0, 2), (996.0 + 980.0) / wire);
    assert_eq!(number(&figure, 0, 0, 3), 2.0 * (996.0 - 12.0) / wire);
    assert_eq!(number(&figure, 0, 0, 4), number(&figure, 0, 0, 3));
    // One server with 3,000 bytes, of which it holds what it sent; clients with 2,000 and 1,000.
    assert_eq!(figure.tables[1].rows[0][1], Cell::Count(2));
    assert_eq!(number(&figure, 1, 0, 5), 2000.0);
    assert_eq!(number(&figure, 1, 1, 5), 3000.0);
}

#[test]
fn a_pairs_cache_finds_what_is_no_further_back_than_its_size() {
    // 1,000 bytes again after 100 kB between the same two, over HTTP; at once over LDAP; and never
    // between others.
    let between = |pair: (&str, &str), seed, len: usize| {
        let made = Made::tcp(pair.0, pair.1);
        let content = noise(seed, len);
        content.chunks(1000).map(|part| made.clone().payload(part)).collect::<Vec<_>>()
    };
    let http = ("10.0.0.1:80", "10.0.1.1:5000");
    let ldap = ("10.0.0.1:389", "10.0.1.2:5000");
    let other = ("10.0.0.1:80", "10.0.1.3:5000");
    let mut packets = between(http, 1, 1000);
    for (pair, seed, len) in
        [(http, 2, 100_000), (http, 1, 1000), (ldap, 3, 1000), (ldap, 3, 1000), (other, 1, 1000)]
    {
        packets.extend(between(pair, seed, len));
    }
    let figure = observe(hosts(), &packets, 1 << 20, 7);
    let packet = 1054.0;
    let sizes = &figure.tables[2];
    let names: Vec<&str> = sizes.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["cache per pair", "all", "HTTP", "LDAP"]);
    for (row, &size) in sweep::SIZES.iter().enumerate() {
        // 102,000 bytes from the end of the copy to the beginning of the first.
        let http = if size >= 102_000 { 996.0 } else { 0.0 };
        assert_eq!(number(&figure, 2, row, 2), http / (103.0 * packet), "{size}");
        assert_eq!(number(&figure, 2, row, 3), 996.0 / (2.0 * packet), "{size}");
        assert_eq!(number(&figure, 2, row, 1), (http + 996.0) / (105.0 * packet), "{size}");
    }
    // Other samplers, and ours.
    let columns: Vec<&str> = figure.tables[3].columns.iter().map(|column| &*column.name).collect();
    assert_eq!(columns, ["cache per pair", "fixed", "samplebyte"]);
    for row in 0..sweep::SIZES.len() {
        let ours = number(&figure, 2, row, 1);
        assert_eq!(number(&figure, 3, row, 2), ours);
        let fixed = number(&figure, 3, row, 1);
        assert!(fixed > 0.9 * ours && fixed <= ours, "{fixed}, {ours}");
    }
    // With 10 MB.
    let samplers = &figure.tables[4].rows;
    let names = (&samplers[0][0], &samplers[1][0]);
    assert_eq!(names, (&"max-match, fixed".into(), &"max-match, samplebyte".into()));
    assert_eq!(number(&figure, 4, 1, 1), 2.0 * 996.0 / (105.0 * packet));
    assert!(number(&figure, 4, 0, 1) > 0.9 * number(&figure, 4, 1, 1));
}

#[test]
fn a_known_object_behind_another_head_is_known_in_chunks() {
    let mut packets = Vec::new();
    for client in 0..2u8 {
        let content = [noise(1000 + u64::from(client), 300), noise(7, 60_000)].concat();
        let made = Made::tcp("10.0.0.1:80", &format!("10.0.1.{}:5000", client + 1));
        let pieces = content.chunks(1400).enumerate();
        packets.extend(pieces.map(|(i, piece)| {
            made.clone().at(f64::from(client) * 10.0 + i as f64 * 0.01).payload(piece)
        }));
    }
    let figure = observe(hosts(), &packets, 1 << 20, 50);
    // The hosts save nothing; as objects, all but the first chunk of the second copy, which has the
    // head, and names.
    let wire: u64 = packets.iter().map(|made| u64::from(made.packet.wire)).sum();
    assert_eq!(number(&figure, 0, 0, 1), 0.0);
    let gain = number(&figure, 0, 0, 2) * wire as f64;
    assert!((60_000.0 - 17_000.0..60_000.0).contains(&gain), "{gain}");
}

#[test]
fn an_idle_pair_is_on_disk_after_ten_hours() {
    let mut sizes = Sizes::new(1 << 20);
    let mut send = |client: &str, hours: f64, len: usize| {
        let made = Made::tcp("10.0.0.1:80", client).at(hours * 3600.0).payload(&vec![0; len]);
        let mut packet = made.packet;
        packet.len = len as u32;
        sizes.packet(&packet);
    };
    send("10.0.1.1:5000", 0.0, 1000);
    send("10.0.1.2:5000", 9.0, 1000);
    send("10.0.1.1:5000", 9.5, 100);
    send("10.0.1.3:5000", 19.2, 1500);
    // At 19.2 h the second (9.0) is on disk, the first (9.5) is not: 1,100 + 1,500; before there
    // were 2,100.
    let server: IpAddr = "10.0.0.1".parse().unwrap();
    assert_eq!(sizes.nodes[&server].most, 2600);
    assert_eq!(sizes.nodes[&server].now, 2600);
}

#[test]
fn a_pair_is_paged_out_on_time_though_others_came_later() {
    let mut sizes = Sizes::new(1 << 20);
    let mut send = |client: &str, hours: f64| {
        let mut packet = Made::tcp("10.0.0.1:80", client).at(hours * 3600.0).packet;
        packet.len = 1000;
        sizes.packet(&packet);
    };
    send("10.0.1.1:5000", 0.0);
    send("10.0.1.1:5000", 5.0);
    send("10.0.1.2:5000", 9.0);
    // Looks at the first at 10 h, which was last used at 5 h, before the second was.
    send("10.0.1.3:5000", 10.0);
    send("10.0.1.4:5000", 15.1);
    // The first is on disk.
    assert_eq!(sizes.nodes[&"10.0.0.1".parse::<IpAddr>().unwrap()].now, 3000);
}

#[test]
fn a_gap_ends_an_object_though_other_flows_go_on() {
    // Of the first flow's packets the last comes 1.2 s after the others: an object of its own,
    // which another host gets later.
    let sent = |client: &str, at: f64, seed| {
        Made::tcp("10.0.0.1:80", client).at(at).payload(&noise(seed, 500))
    };
    let (first, beside, other) = ("10.0.1.1:5000", "10.0.1.2:5000", "10.0.1.3:5000");
    let packets = [
        sent(first, 0.0, 1),
        sent(first, 0.5, 2),
        sent(beside, 0.99, 3),
        sent(beside, 1.0, 4),
        sent(first, 1.7, 5),
        sent(other, 10.0, 5),
    ];
    let figure = observe(hosts(), &packets, 1 << 20, 1);
    let gain = number(&figure, 0, 0, 2) - number(&figure, 0, 0, 1);
    assert!((gain * 6.0 * 554.0 - 480.0).abs() < 1e-6, "{gain}");
}

#[test]
fn the_limit_is_the_services() {
    let mut sizes = Sizes::new(1 << 20);
    let mut send = |port: &str, len: u32| {
        let mut packet = Made::tcp(&format!("10.0.0.1:{port}"), "10.0.1.1:50000").packet;
        packet.len = len;
        for _ in 0..1000 {
            sizes.packet(&packet);
        }
        sizes.nodes[&"10.0.1.1".parse::<IpAddr>().unwrap()].most
    };
    assert_eq!(send("2222", 2000), 1_000_000);
    assert_eq!(send("445", 3000), 4_000_000);
    assert_eq!(send("80", 60_000), 10_000_000);
}

#[test]
fn an_empty_trace_has_no_numbers() {
    let figure = observe(hosts(), &[], 1 << 20, 1);
    assert_eq!(figure.tables[0].rows[0][1], Cell::None);
}

#[test]
fn table_4_and_blocks_have_what_the_caches_are_compared_with() {
    // A text to two clients, then to the first again.
    let text = b"<tr><td>192.0.2.1</td><td>nothing to see</td></tr>\n".repeat(20);
    let random = noise(1, 1000);
    let to = |client: &str, at: f64, payload: &[u8]| {
        Made::tcp("10.0.0.1:80", client).payload(payload).at(at)
    };
    let packets = [
        to("10.0.1.1:5000", 1.0, &random),
        to("10.0.1.2:5000", 2.0, &text),
        to("10.0.1.1:5000", 3.0, &random),
    ];
    let figure = observe(hosts(), &packets, 1 << 20, 2);
    let table = |id: &str| figure.tables.iter().find(|table| table.id == id).unwrap();
    let of = |name: &str| {
        let row = table("pair-algorithms").rows.iter().find(|row| row[0] == name.into());
        let Cell::Number(savings) = row.unwrap()[1] else { panic!("{name}") };
        savings
    };
    let wire: f64 = packets.iter().map(|made| f64::from(made.packet.wire)).sum();
    let caches = of("max-match, samplebyte");
    assert_eq!(caches, 996.0 / wire);
    // The text shrinks, and nothing else.
    let both = of("max-match, samplebyte, then gzip");
    assert!(both > caches + 0.8 * text.len() as f64 / wire, "{both}, {caches}");
    let chunks = of("chunk-match, samplebyte");
    assert!(chunks > 0.5 * caches && chunks < caches, "{chunks}, {caches}");
    // By payload: ZLIB sees the text, whatever the block, and no repeat of the random bytes, unless
    // a block has both.
    let blocks = &table("blocks").rows;
    let share = |row: usize, column: usize| match blocks[row][column] {
        Cell::Number(share) => share,
        ref other => panic!("{other:?}"),
    };
    let payload = 2000.0 + text.len() as f64;
    assert_eq!((blocks.len(), blocks[0][0].clone()), (6, "a packet".into()));
    assert!(share(0, 1) < text.len() as f64 / payload && share(5, 1) > share(0, 1) + 0.2);
    assert_eq!(share(0, 2), 996.0 / payload);
    assert!(figure.charts.iter().any(|chart| chart.id == "blocks"));
}
