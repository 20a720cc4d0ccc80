use super::*;
use crate::batch::testing::{Made, noise, observe};
use crate::results::{Cell, Figure, Table};
use proptest::prelude::*;

fn to(destination: &str, payload: &[u8]) -> Made {
    Made::udp("10.0.0.1:80", &format!("{destination}:1000")).payload(payload)
}

fn table<'a>(figure: &'a Figure, id: &str) -> &'a Table {
    figure.tables.iter().find(|table| table.id == id).unwrap()
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number(number) => *number,
        Cell::Count(count) => *count as f64,
        other => panic!("{other:?}"),
    }
}

/// Payload that is one chunk, by seed.
fn chunk(seed: u64) -> Vec<u8> {
    let noise = noise(seed, 4096);
    let chunk = chunks(&noise).next().unwrap().to_vec();
    assert_eq!(chunks(&chunk).count(), 1);
    chunk
}

#[test]
fn chunks_by_number_of_destinations() {
    // Chunk 1 to one place twice, 2 to A and B, 3 to A, A, B and C, 4 once; D is in no prefix.
    let [a, b, c, d] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "11.0.0.1"];
    let sent = [(1, a), (1, a), (2, a), (2, b), (3, a), (3, a), (3, b), (3, c), (4, a), (5, d)];
    let packets: Vec<Made> = sent.iter().map(|(seed, place)| to(place, &chunk(*seed))).collect();
    let prefixes = Prefixes::parse("10.1.0.0/16 A\n10.2.0.0/16 B\n10.3.0.0/16 C").unwrap();
    let figure = observe(Box::new(Destinations::new(1 << 20, prefixes)), &packets, 1 << 20, 3);
    let by_number = table(&figure, "destinations");
    let column =
        |column: usize| by_number.rows.iter().map(|row| number(&row[column])).collect::<Vec<_>>();
    assert_eq!(column(2)[..4], [2.0, 1.0, 1.0, 0.0]);
    assert_eq!(column(3)[..4], [0.5, 0.25, 0.25, 0.0]);
    assert_eq!(column(4)[..4], [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]);
    // 9 copies of 4 chunks: 5 redundant, of which B of 2, B and C of 3 are across.
    let bytes: Vec<f64> = table(&figure, "bytes").rows[0][1..].iter().map(number).collect();
    assert_eq!(bytes, [576.0, 320.0, 5.0 / 9.0, 3.0 / 5.0, 4.0 / 5.0]);
    let pairs = &table(&figure, "pairs").rows;
    assert_eq!(pairs[0][1..], ["A".into(), "B".into(), 128.0.into(), 0.4.into()]);
    assert_eq!(pairs[1][1..], ["A".into(), "C".into(), 64.0.into(), 0.2.into()]);
    assert_eq!(pairs[2][1..], ["B".into(), "C".into(), 64.0.into(), 0.2.into()]);
    assert_eq!(pairs.len(), 3);
    assert_eq!(figure.charts[1].series[0].points, [(0.2, 2.0 / 3.0), (0.4, 1.0)]);
    assert!(
        figure
            .notes
            .iter()
            .any(|note| note.starts_with("10.0 % of the payload goes to addresses in no prefix"))
    );
}

#[test]
fn without_a_table_networks_are_named_by_address() {
    let packets =
        [to("10.1.0.1", &chunk(1)), to("10.2.9.9", &chunk(1)), to("[2001:db8:1::1]", &chunk(1))];
    let figure =
        observe(Box::new(Destinations::new(1 << 20, Prefixes::default())), &packets, 1 << 20, 3);
    let pairs = &table(&figure, "pairs").rows;
    assert_eq!(pairs[0][1..3], ["10.1.0.0/16".into(), "10.2.0.0/16".into()]);
    assert_eq!(pairs[1][1..3], ["10.1.0.0/16".into(), "2001:db8::/32".into()]);
    assert!(figure.notes[0].starts_with("No prefix table"));
}

proptest! {
    #[test]
    fn equal_content_is_cut_alike(before in 0usize..300, after in 0usize..300, seed in any::<u64>()) {
        let content = noise(seed, 2000);
        let mut packet = noise(seed ^ 1, before);
        packet.extend(&content);
        packet.extend(noise(seed ^ 2, after));
        let within: Vec<_> = chunks(&packet).collect();
        for chunk in chunks(&content) {
            let at = chunk.as_ptr() as usize - content.as_ptr() as usize;
            let inner = (63..2000 - 126).contains(&at) && at + CHUNK + 63 <= 2000;
            prop_assert!(!inner || within.contains(&chunk), "at {}", at);
        }
    }

    #[test]
    fn chunks_begin_at_local_minima(len in 0usize..600, seed in any::<u64>(), few in any::<bool>()) {
        let mut payload = noise(seed, len);
        if few {
            // Many equal hashes.
            payload.iter_mut().for_each(|byte| *byte /= 250);
        }
        let hashes: Vec<u32> = payload.windows(CHUNK).map(mark).collect();
        let naive = (0..hashes.len()).filter(|i| {
            (0..hashes.len()).all(|j| match j.cmp(i) {
                std::cmp::Ordering::Less => i - j >= CHUNK || hashes[j] > hashes[*i],
                _ => j - i >= CHUNK || hashes[j] >= hashes[*i],
            })
        });
        let naive: Vec<_> = naive.map(|i| &payload[i..i + CHUNK]).collect();
        prop_assert_eq!(chunks(&payload).collect::<Vec<_>>(), naive);
    }

    #[test]
    fn any_payload_is_cut(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(chunks(&payload).count() * CHUNK <= payload.len());
    }
}

#[test]
fn about_half_is_covered() {
    let noise = noise(7, 1_000_000);
    let covered = chunks(&noise).count() * CHUNK;
    assert!((480_000..530_000).contains(&covered), "{covered}");
}

#[test]
fn chunks_are_sampled_within_the_memory() {
    // 3,000 chunks, a third of them to two places.
    let mut packets = Vec::new();
    for seed in 0..3000 {
        let chunk = chunk(seed);
        packets.push(to("10.1.0.1", &chunk));
        if seed % 3 == 0 {
            packets.push(to("10.2.0.1", &chunk));
        }
    }
    let budget = 60_000;
    let figure =
        observe(Box::new(Destinations::new(budget, Prefixes::default())), &packets, 1 << 20, 500);
    assert!(figure.memory <= budget, "{}", figure.memory);
    assert!(figure.notes.iter().any(|note| note.contains("sample of 1 in")), "{:?}", figure.notes);
    let rows = &table(&figure, "destinations").rows;
    assert!((number(&rows[0][3]) - 2.0 / 3.0).abs() < 0.09, "{rows:?}");
    assert_eq!(number(&table(&figure, "bytes").rows[0][4]), 1.0);
    let all = number(&table(&figure, "bytes").rows[0][1]);
    assert!((all / 256_000.0 - 1.0).abs() < 0.2, "{all}");
    assert!(observe(Box::new(Destinations::new(0, None)), &packets, 1 << 20, 500).memory < 4000);
    assert!(observe(Box::new(Destinations::new(0, None)), &[], 1 << 20, 500).tables.is_empty());
}
