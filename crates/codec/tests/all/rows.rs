//! Tables, dumps and logs: rows that resemble each other, and next versions of them.

use crate::common::content::Rng;
use oncewire_codec::{Decoded, Decoder, Encoder};

/// Frame bytes of each content, sent one after the other. Every block is decoded and compared.
fn send(contents: &[Vec<u8>]) -> Vec<usize> {
    let mut encoder = Encoder::builder().cache(64 << 20).build().unwrap();
    let mut decoder = Decoder::builder().cache(64 << 20).build().unwrap();
    let mut frame = Vec::new();
    let mut send = |content: &Vec<u8>| {
        let mut sent = 0;
        for block in content.chunks(65536) {
            frame.clear();
            encoder.encode(block, &mut frame).unwrap();
            let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                panic!("nothing is missing");
            };
            assert!(content == block);
            sent += frame.len();
        }
        sent
    };
    contents.iter().map(&mut send).collect()
}

/// The n-th row of a table.
type Row = fn(&mut Rng, usize) -> String;

fn fixed_columns(rng: &mut Rng, nth: usize) -> String {
    format!("{nth:08};0000000000;0.00;ACTIVE;{:010};2026-01-01\n", rng.below(50))
}

fn insert(rng: &mut Rng, nth: usize) -> String {
    let state = ["open", "paid", "sent"][rng.below(3)];
    let (customer, amount, day) = (rng.below(9999), rng.below(900), 10 + rng.below(19));
    format!(
        "INSERT INTO `orders` VALUES ({nth},{customer},'{state}',{amount}.50,'2026-03-{day}');\n"
    )
}

fn access_log(rng: &mut Rng, nth: usize) -> String {
    let (host, item, len) = (rng.below(250), rng.below(5000), rng.below(9000));
    let time = 1_700_000_000 + nth;
    format!("10.0.1.{host} - - [{time}] \"GET /items/{item} HTTP/1.1\" 200 {len} \"-\" \"curl\"\n")
}

fn metric(rng: &mut Rng, nth: usize) -> String {
    let (handler, host) = (nth % 200, nth / 200 % 20);
    let value = 100_000 + rng.below(900_000);
    format!(
        "http_requests_total{{method=\"get\",handler=\"/api/{handler}\",instance=\"10.0.0.{host}\"}} {value}\n"
    )
}

fn table(row: Row, rows: usize) -> Vec<String> {
    let mut rng = Rng::new(7);
    (0..rows).map(|nth| row(&mut rng, nth)).collect()
}

/// A line put in at the front, and one row in 300 changed, put in or taken out.
fn next_version(row: Row, rows: &[String]) -> Vec<u8> {
    let mut rng = Rng::new(11);
    let mut next = String::from("-- a header that is new\n");
    for (nth, old) in rows.iter().enumerate() {
        match rng.below(1500) {
            0 => {}
            1 => {
                next.push_str(&row(&mut rng, rows.len() + nth));
                next.push_str(old);
            }
            2..=4 => next.push_str(&row(&mut rng, nth)),
            _ => next.push_str(old),
        }
    }
    next.into_bytes()
}

#[test]
fn the_next_version_of_a_table_costs_its_edits() {
    let kinds: [(&str, Row); 4] = [
        ("fixed columns", fixed_columns),
        ("inserts", insert),
        ("access log", access_log),
        ("metrics", metric),
    ];
    for (name, row) in kinds {
        let rows = table(row, 40_000);
        let next = next_version(row, &rows);
        let edits = 40_000 / 300;
        let blocks = next.len() / 65536 + 1;
        let sent = send(&[rows.concat().into_bytes(), next]);
        // A frame takes about 20 bytes, an edit at most a row.
        assert!(sent[1] < 24 * blocks + 60 * edits, "{name}: {sent:?}");
    }
}

#[test]
fn a_repeated_table_costs_little_at_any_distance() {
    let rows = table(fixed_columns, 40_000).concat().into_bytes();
    let len = rows.len();
    for put_in in [&b""[..], b"x", b"one line\n"] {
        let sent = send(&[rows.clone(), [put_in, &rows].concat()]);
        assert!(sent[1] * 500 < len, "{put_in:?}: {sent:?} of {len}");
    }
}
