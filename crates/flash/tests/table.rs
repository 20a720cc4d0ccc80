//! The codec's fingerprint table on flash.

mod support;

use oncewire_codec::table::{FingerprintTable, Markers, NO_OFFSET};
use oncewire_codec::{Decoded, Decoder, Encoder, Geometry};
use oncewire_flash::device::{Crash, Fault, Memory, Operation};
use oncewire_flash::{Index, IndexError, IndexSearch, IndexTable, Options};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use support::{Random, SIZE, small};

fn options() -> Options {
    Options { value: 6, ..small() }
}

fn table(log: u64) -> IndexTable {
    let (index, _) = Index::open(Box::new(Memory::new(SIZE)), &options()).expect("opens");
    let geometry = Geometry::new(log, 0).expect("a size");
    IndexTable::new(index, geometry, |error| panic!("{error}")).expect("fits")
}

#[test]
fn it_obeys_the_laws_of_all_tables() {
    let mut table = table(1000);
    let (a, b) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    let markers = |block, positions| Markers { block, positions };
    let mut found = [0; 3];
    table.look_up(&[a], markers(64, &[1]), &mut found[..1]);
    assert_eq!(found[0], NO_OFFSET);
    table.exchange(&[a, b, a], markers(64, &[1, 5, 9]), &mut found);
    assert_eq!(found, [NO_OFFSET, NO_OFFSET, 65]);
    for _ in 0..2 {
        table.look_up(&[a, b], markers(256, &[0, 3]), &mut found[..2]);
        assert_eq!(found[..2], [73, 69]);
    }
    table.insert(&[b], markers(256, &[7]));
    table.look_up(&[b], markers(512, &[0]), &mut found[..1]);
    assert_eq!(found[0], 263);
    table.exchange(&[b], markers(1100, &[0]), &mut found[..1]);
    assert_eq!(found[0], 263);
    // What has left the log is not found.
    table.look_up(&[a], markers(1074, &[0]), &mut found[..1]);
    assert_eq!(found[0], NO_OFFSET);
}

/// More fingerprints than the device holds: what is found is the newest, and what is new is found.
#[test]
fn it_agrees_with_a_map() {
    let mut table = table(1 << 30);
    let mut map: HashMap<u64, u64> = HashMap::new();
    let mut random = Random::new(11);
    let mut found = [0; 64];
    let (mut hits, mut lost) = (0, 0);
    let positions: Vec<u32> = (0..64).collect();
    for round in 0..2000u64 {
        let markers = Markers { block: 1000 + 64 * round, positions: &positions };
        let fingerprints: Vec<u64> =
            (0..64).map(|n| if n % 4 == 0 { random.below(900) } else { random.next() }).collect();
        table.exchange(&fingerprints, markers, &mut found);
        for (n, fingerprint) in fingerprints.iter().enumerate() {
            match map.insert(*fingerprint, markers.block + n as u64) {
                Some(offset) if found[n] == NO_OFFSET => lost += u64::from(offset > 0),
                Some(offset) => {
                    assert_eq!(found[n], offset);
                    hits += 1;
                }
                None => assert_eq!(found[n], NO_OFFSET),
            }
        }
    }
    assert!(table.index().stats().evicted > 4, "{:?}", table.index().stats());
    assert!(hits > 20_000 && lost < hits / 10, "{hits} {lost}");
}

/// The first error is reported, and nothing is stored from then on; nothing wrong is found.
#[test]
fn a_device_that_fails_makes_it_forget() {
    let device = Arc::new(Crash::new(SIZE));
    let (index, _) = Index::open(Box::new(device.clone()), &options()).expect("opens");
    let failed = Arc::new(OnceLock::new());
    let report = failed.clone();
    let geometry = Geometry::new(1 << 30, 0).expect("a size");
    let mut table = IndexTable::new(index, geometry, move |error: IndexError| {
        report.set(error).expect("is the first");
    })
    .expect("fits");
    device.fail(Operation::Write, 1, Fault::NoSpace);
    let mut found = [0];
    for n in 0..20_000u64 {
        table.exchange(&[n], Markers { block: 100 + n, positions: &[0] }, &mut found);
        assert_eq!(found, [NO_OFFSET]);
    }
    assert!(failed.get().is_some());
    let inserted = table.index().stats().inserts;
    table.insert(&[1 << 40], Markers { block: 100_000, positions: &[0] });
    assert_eq!(table.index().stats().inserts, inserted);
    table.look_up(&[7], Markers { block: 200_000, positions: &[0] }, &mut found);
    assert!(found == [107] || found == [NO_OFFSET]);
}

#[test]
fn other_keys_and_values_are_refused() {
    for options in [Options { key: 9, ..options() }, Options { value: 8, ..options() }] {
        let (index, _) = Index::open(Box::new(Memory::new(SIZE)), &options).expect("opens");
        let geometry = Geometry::new(1000, 0).expect("a size");
        assert!(IndexTable::new(index, geometry, |_| ()).is_err());
    }
}

/// Content whose fingerprints are nearly all on the device repeats in frames as small as with a
/// table in memory.
#[test]
fn an_encoder_finds_what_repeats() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut random = Random::new(5);
    let content: Vec<u8> = (0..1 << 20).flat_map(|_| random.next().to_le_bytes()).collect();
    let cache = 64 << 20;
    let search = IndexSearch::new(directory.path(), 12 << 20);
    let mut sizes = [0; 2];
    for (on_flash, size) in [false, true].into_iter().zip(&mut sizes) {
        let builder = Encoder::builder().cache(cache);
        let builder = if on_flash { builder.search(search.clone()) } else { builder };
        let mut encoder = builder.build().expect("builds");
        let mut decoder = Decoder::builder().cache(cache).build().expect("builds");
        for pass in 0..2 {
            for block in content.chunks(1 << 16) {
                let mut frame = Vec::new();
                encoder.encode(block, &mut frame).expect("encodes");
                *size += if pass == 1 { frame.len() } else { 0 };
                let decoded = decoder.decode(&frame).expect("decodes");
                assert!(matches!(decoded, Decoded::Block { content, .. } if content == block));
            }
        }
    }
    assert!(search.error().is_none());
    assert!(sizes[0] < content.len() / 100, "{sizes:?}");
    assert!(sizes[1] <= sizes[0] + sizes[0] / 50, "{sizes:?}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("is there").count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_said() {
    let search = IndexSearch::new("/nonexistent/place", 12 << 20);
    let error = Encoder::builder().cache(64 << 20).search(search).build().err();
    let error = error.expect("no such place").to_string();
    assert!(error.contains("/nonexistent/place"), "{error}");
}
