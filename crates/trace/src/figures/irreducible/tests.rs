use super::*;
use crate::batch::testing::{Made, noise, observe};
use crate::results::{Cell, Figure};
use proptest::prelude::*;
use std::io::Write;

fn text(len: usize) -> Vec<u8> {
    let words =
        ["packet", "window", "the", "of", "fingerprint", "cache", "a", "trace", "bytes", "which"];
    let mut text = Vec::new();
    for pick in noise(5, len) {
        text.extend_from_slice(words[usize::from(pick) % words.len()].as_bytes());
        text.extend_from_slice(pick.to_string().as_bytes());
        text.push(b' ');
    }
    text.truncate(len);
    text
}

fn uniform(windows: impl Iterator<Item = Vec<u8>>) -> (usize, usize) {
    let mut sum = (0, 0);
    for window in windows {
        let mut counts = [0; 256];
        super::count(&mut counts, &window);
        sum.0 += usize::from(is_uniform(&counts));
        sum.1 += 1;
    }
    sum
}

#[test]
fn the_test_of_entropy_tells_text_and_base64_from_gzip_and_random_bytes() {
    for len in [MIN_WINDOW, 200, WINDOW, 2 * WINDOW - 1] {
        let (high, all) = uniform((0..20_000u64).map(|seed| noise(seed << 20, len)));
        assert!(all - high <= 2, "{} of {all} random windows of {len}", all - high);
        let base64 = |seed: u64| -> Vec<u8> {
            let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            noise(seed << 20, len).into_iter().map(|byte| digits[usize::from(byte & 63)]).collect()
        };
        assert_eq!(uniform((0..2000).map(base64)).0, 0, "base64 of {len}");
        let text = text(200_000);
        assert_eq!(uniform(text.chunks_exact(len).map(<[u8]>::to_vec)).0, 0, "text of {len}");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let (high, all) = uniform(gzip[1000..].chunks_exact(len).map(<[u8]>::to_vec));
        assert!(all > 20 && high * 20 >= all * 19, "{high} of {all} windows of gzip, {len} each");
    }
}

fn bytes(figure: &Figure, direction: &str, class: &str) -> u64 {
    let row = figure.tables[0]
        .rows
        .iter()
        .find(|row| row[..2] == [Cell::from(direction), Cell::from(class)])
        .unwrap();
    let Cell::Count(bytes) = row[2] else { panic!() };
    bytes
}

#[test]
fn classes_of_a_known_trace() {
    let flow = |port: u16| {
        Made::tcp(&format!("10.0.0.1:{port}"), "10.0.0.2:2000").direction(Direction::Outbound)
    };
    let hello = [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &noise(9, 250)].concat();
    let english = text(3000);
    let packets = [
        flow(443).payload(&hello),
        flow(443).payload(&noise(1, 1000)),
        flow(443).payload(&noise(1, 1000)),
        flow(7000).payload(&noise(2, 1400)),
        flow(7000).payload(&noise(2, 1400)),
        flow(80).payload(&english[..1000]),
        // Small packets, judged together; the last ones are too few.
        flow(81).payload(&noise(3, 300)),
        flow(81).payload(&noise(4, 300)),
        flow(82).payload(&english[1000..1200]),
        flow(83).payload(&noise(5, 100)),
        Made::udp("10.0.0.2:53", "10.0.0.1:99").direction(Direction::Inbound),
    ];
    for per_batch in [1, 4, 20] {
        let figure = observe(Box::new(Irreducible::new(16 << 20)), &packets, 1 << 20, per_batch);
        let of = |class| bytes(&figure, "outbound", class);
        assert_eq!((of("encrypted"), of("encrypted, repeated")), (1261, 1000));
        assert_eq!((of("high entropy, unique"), of("high entropy, repeated")), (1400 + 600, 1400));
        assert_eq!(of("low entropy, unique") + of("low entropy, repeated"), 1200);
        assert_eq!(of("too short, unique"), 100);
        assert_eq!(of("headers and padding"), 540);
        assert_eq!(bytes(&figure, "total", "headers and padding"), 582);
        assert_eq!(
            figure.tables[1].rows[0][1..4],
            [Cell::from("TLS"), Cell::Count(3), Cell::Count(2261)]
        );
        let services: Vec<_> = figure.tables[2].rows.iter().map(|row| row[..2].to_vec()).collect();
        assert_eq!(
            services[0],
            [Cell::from("TCP 2000"), Cell::Count(1400)].to_vec(),
            "{services:?}"
        );
        let wire: u64 = packets.iter().map(|made| u64::from(made.packet.wire)).sum();
        let rows = figure.tables[0].rows.iter().filter(|row| row[0] == Cell::from("total"));
        let sum: u64 =
            rows.map(|row| if let Cell::Count(bytes) = row[2] { bytes } else { 0 }).sum();
        assert_eq!(sum, wire, "every byte is in one class");
    }
}

#[test]
fn the_finding_names_the_place() {
    let esp = |i: u64| {
        Made::udp("10.0.0.1:4500", "10.0.0.2:4500")
            .payload(&[&[9, 0, 0, 0][..], &noise(i, 900)].concat())
    };
    let vpn: Vec<_> = (0..9).map(esp).collect();
    let study =
        |packets: &[Made]| observe(Box::new(Irreducible::new(1 << 20)), packets, 1 << 20, 2);
    assert!(study(&vpn).finding.contains("inside of its gateways"));
    let base = Made::tcp("10.0.0.1:80", "10.0.0.2:2000");
    assert!(study(&[base.clone().payload(&text(1400))]).finding.contains("a good place"));
    let empty = study(&[base]);
    assert_eq!(empty.tables[0].rows[0][3], Cell::None);
    assert!(empty.charts.is_empty());
}

#[test]
fn the_finding_blames_encryption_where_it_prevails() {
    // 2,400 of 5,200 bytes are encrypted, and 300 of unknown services look random: most of what is
    // fixed is encryption.
    let hello = [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &noise(9, 250)].concat();
    let tls = |payload: &[u8]| Made::tcp("10.0.0.1:443", "10.0.0.2:2000").payload(payload);
    let other = |port: u16, payload: &[u8]| {
        Made::tcp(&format!("10.0.0.1:{port}"), "10.0.0.2:2000").payload(payload)
    };
    let mut packets =
        vec![tls(&hello), tls(&noise(1, 1139)), tls(&noise(2, 1000)), other(7000, &noise(3, 600))];
    packets.extend(text(2200).chunks(1100).map(|part| other(80, part)));
    let finding = observe(Box::new(Irreducible::new(1 << 20)), &packets, 1 << 20, 2).finding;
    assert!(finding.contains("must come before the encryption: at the end hosts"), "{finding}");
    // With more unrecognized content than encryption, its services are the question.
    packets.extend((10..14).map(|seed| other(7000, &noise(seed, 1400))));
    let finding = observe(Box::new(Irreducible::new(1 << 20)), &packets, 1 << 20, 2).finding;
    assert!(finding.contains("the table lists its services"), "{finding}");
}

#[test]
fn it_stays_within_its_memory() {
    let packets: Vec<_> = (0..5000u16)
        .map(|port| Made::tcp(&format!("10.0.0.1:{port}"), "10.0.0.2:9000").payload(&noise(1, 20)))
        .collect();
    let figure = observe(Box::new(Irreducible::new(2 << 20)), &packets, 1 << 20, 1000);
    assert!(
        figure.memory <= 2 << 20 && figure.notes.iter().any(|note| note.contains("were forgotten")),
        "{}",
        figure.memory
    );
    assert_eq!(
        bytes(&figure, "all", "too short, unique") + bytes(&figure, "all", "too short, repeated"),
        100_000
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_byte_is_in_one_class(packets in prop::collection::vec((any::<bool>(), 0..4u16, 0..32u8, 0..1300usize, any::<bool>()), 0..30)) {
        let made: Vec<_> = packets.iter().map(|&(udp, port, flags, len, random)| {
            let from = format!("10.0.0.1:{}", 4499 + port);
            let made = if udp { Made::udp(&from, "10.0.0.2:9") } else { Made::tcp(&from, "10.0.0.2:9").seq(0, flags) };
            made.payload(&if random { noise(len as u64, len) } else { text(len) })
        }).collect();
        let figure = observe(Box::new(Irreducible::new(1 << 20)), &made, 1 << 20, 5);
        let sum: u64 = figure.tables[0].rows.iter().filter(|row| row[0] == Cell::from(if made.is_empty() { "total" } else { "all" }))
            .map(|row| if let Cell::Count(bytes) = row[2] { bytes } else { 0 }).sum();
        prop_assert_eq!(sum, made.iter().map(|made| u64::from(made.packet.wire)).sum::<u64>());
    }
}
