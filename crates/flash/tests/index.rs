//! The index beside a map: all operations, both lists, with and without windows.

mod support;

use oncewire_flash::device::{Crash, Device, Fault, Memory, Operation, Striped};
use oncewire_flash::{
    Answer, Answers, Entries, Entry, Filter, Index, IndexError, Keys, Layout, List, OpenError,
    Options,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{History, Random, small, small_kinds};

fn key(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

/// Inserts, updates and deletes for several passes of the ring, beside the oracle.
#[test]
fn answers_equal_those_of_a_map() {
    let filters = |options| {
        [(Filter::Sliced, 0), (Filter::Sliced, 8), (Filter::Maplet, 0)]
            .map(|(filter, window)| Options { filter, window, ..options })
    };
    for options in small_kinds().into_iter().flat_map(filters) {
        let device = Memory::new(support::SIZE);
        let (mut index, opened) = Index::open(Box::new(device), &options).expect("opens");
        assert!(opened.created && opened.clean);
        let mut history = History::new(17);
        let mut evicted = 0;
        for _ in 0..40_000 {
            history.step(&mut index).expect("works");
            if history.random.below(4) == 0 {
                evicted += u64::from(history.check_any(&index));
            }
        }
        let stats = index.stats();
        assert!(stats.evicted > 4 && stats.found > 500 && stats.delete_list > 0, "{stats:?}");
        assert!(evicted > 0, "the ring is too large for this test: {stats:?}");
        assert!(index.memory().total() <= options.memory, "{:?}", index.memory());
    }
}

/// Everything of the newest incarnations is found: eviction takes the oldest only.
#[test]
fn eviction_is_first_in_first_out() {
    for options in small_kinds() {
        let (mut index, _) =
            Index::open(Box::new(Memory::new(support::SIZE)), &options).expect("opens");
        let total = 3 * index.capacity();
        for n in 0..total {
            index.insert(&key(n), &key(!n)).expect("inserts");
        }
        let found = (0..total).map(|n| index.get(&key(n)).expect("answers") != Answer::Absent);
        let found: Vec<bool> = found.collect();
        // Partitions differ by an incarnation or two.
        let capacity = index.capacity() as usize;
        let newest = &found[found.len() - capacity * 6 / 10..];
        assert!(newest.iter().all(|found| *found), "{options:?}");
        assert!(
            found[..found.len() - capacity * 13 / 10].iter().all(|found| !*found),
            "{options:?}"
        );
    }
}

#[test]
fn an_index_survives_close_and_open() {
    for options in small_kinds() {
        let device = Arc::new(Memory::new(support::SIZE));
        let mut history = History::new(3);
        for round in 0..6 {
            let (mut index, opened) =
                Index::open(Box::new(device.clone()), &options).expect("opens");
            assert_eq!((opened.created, opened.clean, opened.damaged), (round == 0, true, 0));
            assert!(history.check_covered(&index) > 0 || round == 0);
            for _ in 0..3000 {
                history.step(&mut index).expect("works");
            }
            index.flush().expect("flushes");
            history.covered();
            index.close().expect("closes");
        }
    }
}

#[test]
fn other_data_and_other_options_are_refused() {
    let options = small();
    let foreign = Memory::with(vec![b'x'; support::SIZE]);
    let refused = Index::open(Box::new(foreign), &options).expect_err("foreign");
    assert!(matches!(refused, OpenError::Foreign), "{refused}");
    let device = Arc::new(Memory::new(support::SIZE));
    Index::open(Box::new(device.clone()), &options).expect("opens");
    let open =
        |options: &Options| Index::open(Box::new(device.clone()), options).expect_err("refused");
    let refused = open(&Options { key: 20, ..options });
    assert_eq!(refused.to_string(), "the index has 8 bytes of a key, not 20");
    let refused = open(&Options { list: List::PerPartition, ..options });
    assert!(matches!(refused, OpenError::DiffersInList), "{refused}");
    let refused = open(&Options { layout: Layout::Published, ..options });
    assert!(matches!(refused, OpenError::DiffersInLayout), "{refused}");
    let refused = open(&Options { memory: options.buffers, ..options });
    let OpenError::Memory { least, .. } = refused else { panic!("{refused}") };
    let (index, _) = Index::open(Box::new(device.clone()), &Options { memory: least, ..options })
        .expect("enough");
    assert!(index.memory().total() <= least);
    let refused = open(&Options { buffer: 5000, ..options });
    assert!(matches!(refused, OpenError::Option { .. }), "{refused}");
    let refused = Index::open(Box::new(Memory::new(1 << 16)), &options).expect_err("too small");
    assert!(matches!(refused, OpenError::Geometry(_)), "{refused}");
    let (mut index, _) = Index::open(Box::new(device.clone()), &options).expect("opens");
    assert!(matches!(
        index.insert(b"short", &key(1)),
        Err(IndexError::Key { len: 5, expected: 8 })
    ));
    assert!(matches!(index.insert(&key(1), b""), Err(IndexError::Value { len: 0, expected: 8 })));
    assert!(index.get(b"").is_err());
}

/// Damage to one page costs the keys of that page only, and is never taken for absence.
#[test]
fn a_damaged_page_costs_its_keys_only() {
    for options in small_kinds() {
        damage(&options);
    }
}

fn damage(options: &Options) {
    let device = Arc::new(Crash::new(support::SIZE));
    let (mut index, _) = Index::open(Box::new(device.clone()), options).expect("opens");
    let total = index.capacity() / 2;
    for n in 0..total {
        index.insert(&key(n), &key(!n)).expect("inserts");
    }
    index.close().expect("closes");
    let content = device.content();
    // The pages of slots that were written are the last ones of the device that are not zero.
    let end = content.iter().rposition(|&byte| byte != 0).expect("not empty") as u64;
    device.rot(end - 5000);
    let (index, opened) = Index::open(Box::new(device.clone()), options).expect("opens");
    assert_eq!(opened.damaged, 0);
    let mut unknown = 0;
    for n in 0..total {
        match index.get(&key(n)).expect("answers") {
            Answer::Value(value) => assert_eq!(value, key(!n)),
            Answer::Unknown => unknown += 1,
            Answer::Absent => panic!("{n} is absent"),
        }
    }
    let page = if options.layout == Layout::Sorted { 253 } else { 248 / 2 };
    assert!((page / 2..=page * 8).contains(&unknown), "{unknown}");
    // The same for a page that cannot be read while the filter is in memory.
    device.fail(Operation::Read, 0, Fault::Io);
    let first = (0..total).find(|&n| index.get(&key(n)).expect("answers") == Answer::Unknown);
    let first = first.expect("the fault");
    assert!(index.stats().damaged >= 1);
    let _ = first;
}

#[test]
fn a_full_disk_keeps_what_is_in_memory() {
    let device = Arc::new(Crash::new(support::SIZE));
    let (mut index, _) = Index::open(Box::new(device.clone()), &small()).expect("opens");
    let mut n = 0;
    device.fail(Operation::Write, 0, Fault::NoSpace);
    let full = loop {
        match index.insert(&key(n), &key(!n)) {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, IndexError::Full(_)), "{full}");
    for found in 0..n {
        assert_eq!(index.get(&key(found)).expect("answers"), Answer::Value(key(!found).to_vec()));
    }
    // There is space again.
    index.insert(&key(n), &key(!n)).expect("inserts");
    assert_eq!(index.get(&key(0)).expect("answers"), Answer::Value(key(!0).to_vec()));
}

#[test]
fn after_a_failed_sync_only_look_ups_work() {
    let device = Arc::new(Crash::new(support::SIZE));
    let (mut index, _) = Index::open(Box::new(device.clone()), &small()).expect("opens");
    let mut random = Random::new(1);
    for _ in 0..3000 {
        let n = random.next();
        index.insert(&key(n), &key(!n)).expect("inserts");
    }
    device.fail(Operation::Sync, 0, Fault::Io);
    assert!(matches!(index.flush(), Err(IndexError::Device(_))));
    assert!(matches!(index.flush(), Err(IndexError::Failed)));
    assert!(matches!(index.insert(&key(1), &key(1)), Err(IndexError::Failed)));
    assert!(matches!(index.delete(&key(1)), Err(IndexError::Failed)));
    assert_eq!(index.get(&key(1)).expect("answers"), Answer::Absent);
    assert!(index.close().is_err());
}

/// Threads that look up at the same time, alone and in batches, find what one finds: also where
/// the first look-up of a partition reads all of it.
#[test]
fn threads_share_an_index() {
    for threads in [1, 5] {
        let device = Arc::new(Memory::new(support::SIZE));
        let options = Options { threads, ..small() };
        let (mut index, _) = Index::open(Box::new(device.clone()), &options).expect("opens");
        let mut history = History::new(21);
        for _ in 0..12_000 {
            history.step(&mut index).expect("works");
        }
        index.close().expect("closes");
        let (index, _) = Index::open(Box::new(device), &options).expect("opens");
        let answers = std::thread::scope(|scope| {
            // Each asks for the same keys in another order.
            let all = [1, 3, 7, 9u64].map(|factor| {
                let index = &index;
                scope.spawn(move || {
                    let keys: Vec<u8> =
                        (0..20_000u64).flat_map(|n| key(n * factor % 20_000)).collect();
                    let mut answers = Answers::new();
                    index.get_batch(&Keys(&keys[..20_000 * 8]), &mut answers).expect("answers");
                    for (n, key) in keys.chunks_exact(8).enumerate().step_by(7) {
                        assert_eq!(index.get(key).expect("answers"), answers.get(n));
                    }
                    keys.chunks_exact(8)
                        .map(<[u8]>::to_vec)
                        .zip(answers.iter())
                        .collect::<BTreeMap<_, _>>()
                })
            });
            all.map(|thread| thread.join().expect("no panic"))
        });
        assert!(answers.windows(2).all(|two| two[0] == two[1]));
        for n in 0..20_000 {
            history.oracle.check(&index, n, history.oracle.number);
            assert_eq!(answers[0][&key(n)[..]], index.get(&key(n)).expect("answers"));
        }
        let stats = index.stats();
        assert_eq!(stats.look_ups, 4 * 20_000 + 4 * 2858 + 2 * 20_000);
        assert!(stats.found > 10_000 && stats.pages_read > 10_000, "{stats:?}");
    }
}

/// A batch inserts what single inserts do: of equal keys, the last one counts.
#[test]
fn a_batch_is_many_inserts() {
    let open = || Index::open(Box::new(Memory::new(support::SIZE)), &small()).expect("opens").0;
    let (mut one, mut many) = (open(), open());
    let mut random = Random::new(2);
    for round in 0..6 {
        let keys: Vec<[u8; 8]> = (0..700).map(|_| key(random.below(3000))).collect();
        let values: Vec<[u8; 8]> = (0..700).map(|n| key(n << 32 | round)).collect();
        for (key, value) in keys.iter().zip(&values) {
            one.insert(key, value).expect("inserts");
        }
        let entries = Entries { keys: keys.as_flattened(), values: values.as_flattened() };
        many.insert_batch(&entries).expect("inserts");
    }
    assert_eq!(one.stats().inserts, many.stats().inserts);
    let mut found = 0;
    for n in 0..3000 {
        let answer = many.get(&key(n)).expect("answers");
        found += u32::from(answer != Answer::Absent);
        assert_eq!(answer, one.get(&key(n)).expect("answers"));
    }
    assert!(found > 2000, "{found}");
    let entries = Entries { keys: &[1; 16], values: &[1; 8] };
    assert!(matches!(many.insert_batch(&entries), Err(IndexError::Value { len: 8, expected: 16 })));
    let entries = Entries { keys: &[1; 9], values: &[1; 8] };
    assert!(matches!(many.insert_batch(&entries), Err(IndexError::Key { len: 1, expected: 8 })));
    let refused = many.get_batch(&Keys(&[0; 17]), &mut Answers::new());
    assert!(matches!(refused, Err(IndexError::Key { len: 1, expected: 8 })));
    many.get_batch(&Keys(&[]), &mut Answers::new()).expect("nothing to do");
}

/// Pages that cannot be read make answers of a batch unknown, not absent.
#[test]
fn a_batch_tells_unknown_from_absent() {
    let device = Arc::new(Crash::new(support::SIZE));
    let (mut index, _) = Index::open(Box::new(device.clone()), &small()).expect("opens");
    let keys: Vec<[u8; 8]> = (0..6000).map(key).collect();
    let keys = keys.as_flattened();
    index.insert_batch(&Entries { keys, values: keys }).expect("inserts");
    let mut answers = Answers::new();
    index.get_batch(&Keys(keys), &mut answers).expect("answers");
    assert!(answers.iter().enumerate().all(|(n, answer)| {
        answer == Answer::Value(key(n as u64).to_vec()) && answers.value(n).is_some()
    }));
    (0..9).for_each(|nth| device.fail(Operation::Read, nth * 3, Fault::Io));
    index.get_batch(&Keys(keys), &mut answers).expect("answers");
    assert_eq!(answers.iter().filter(|answer| *answer == Answer::Unknown).count(), 9);
    assert!(answers.iter().all(|answer| answer != Answer::Absent));
}

/// Keys that are updated in every incarnation do not push others out of a maplet, nor do they hide
/// them.
#[test]
fn a_maplet_keeps_keys_that_are_updated_often() {
    let options = Options { memory: 1600 << 10, ..support::tiny() };
    let (mut index, _) =
        Index::open(Box::new(Memory::new(support::TINY_SIZE)), &options).expect("opens");
    assert!(index.filters().incarnations > 25, "{:?}", index.filters());
    let mut n = 1000;
    let mut newest = [0; 40];
    while index.stats().incarnations < 4 * 30 {
        for often in 0..40 {
            newest[often as usize] = n;
            index.insert(&key(often), &key(n)).expect("inserts");
        }
        for _ in 0..300 {
            index.insert(&key(n), &key(!n)).expect("inserts");
            n += 1;
        }
    }
    let stats = index.stats();
    assert_eq!((stats.evicted_early, stats.early), (0, 0), "{stats:?}");
    for often in 0..40 {
        let answer = index.get(&key(often)).expect("answers");
        assert_eq!(answer, Answer::Value(key(newest[often as usize]).to_vec()));
    }
    for old in n - 20_000..n {
        assert_eq!(index.get(&key(old)).expect("answers"), Answer::Value(key(!old).to_vec()));
    }
}

/// The format allows more incarnations than a maplet can tell apart.
#[test]
fn a_maplet_of_too_many_incarnations_is_refused() {
    let options = Options { buffers: 4 << 10, ..support::tiny() };
    let open = |options: &Options| Index::open(Box::new(Memory::new(512 << 10)), options);
    let refused = open(&options).expect_err("too many");
    assert!(matches!(refused, OpenError::Option { most: 63, .. }), "{refused}");
    open(&Options { filter: Filter::Sliced, ..options }).expect("opens");
}

/// What the builder chooses opens, and fills the device that it was told of.
#[test]
fn built_options_open() {
    for (filter, layout) in [
        (Filter::Maplet, Layout::Sorted),
        (Filter::Maplet, Layout::Published),
        (Filter::Sliced, Layout::Sorted),
        (Filter::Sliced, Layout::Published),
    ] {
        for (flash, key, buffer) in [(40 << 20, 8, 128 << 10), (9 << 20, 20, 16 << 10)] {
            let options = Options::builder(flash, 12 << 20)
                .key(key)
                .buffer(buffer)
                .filter(filter)
                .layout(layout)
                .build()
                .expect("in range");
            let device = Memory::new(flash as usize);
            let (index, _) = Index::open(Box::new(device), &options).expect("opens");
            let filters = index.filters();
            assert!(filter == Filter::Sliced || (50..=63).contains(&filters.incarnations));
        }
    }
    let builder = Options::builder(40 << 20, 12 << 20);
    assert!(matches!(builder.buffer(5000).build(), Err(OpenError::Option { .. })));
    assert!(matches!(builder.key(0).build(), Err(OpenError::Geometry(_))));
    assert!(matches!(builder.threads(5000).build(), Err(OpenError::Option { .. })));
    let tiny = Options::builder(1 << 16, 12 << 20).build();
    assert!(matches!(tiny, Err(OpenError::Geometry(_))));
}

/// The iterator has every key that a look-up finds, once, with the same value: also after updates,
/// deletes and evictions, from memory and from the device, and where pages are damaged.
#[test]
fn the_iterator_has_what_look_ups_find() {
    for options in small_kinds() {
        let device = Arc::new(Crash::new(support::SIZE));
        let (mut index, _) = Index::open(Box::new(device.clone()), &options).expect("opens");
        let mut history = History::new(8);
        let compare = |index: &Index, history: &History, damaged: u64| {
            let mut found = BTreeMap::new();
            let mut lost = 0;
            for entry in index.iter() {
                match entry {
                    Ok(Entry { key, value }) => assert_eq!(found.insert(key, value), None),
                    Err(IndexError::Lost { pages, .. }) => lost += u64::from(pages),
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(lost, damaged);
            for n in history.oracle.keys.keys() {
                let answer = index.get(&key(*n)).expect("answers");
                match found.remove(&key(*n)[..]) {
                    Some(value) => assert_eq!(answer, Answer::Value(value)),
                    None => assert!(!matches!(answer, Answer::Value(_))),
                }
            }
            assert!(found.is_empty(), "{found:?}");
        };
        compare(&index, &history, 0);
        for _ in 0..3 {
            for _ in 0..9000 {
                history.step(&mut index).expect("works");
            }
            compare(&index, &history, 0);
        }
        index.close().expect("closes");
        let content = device.content();
        let end = content.iter().rposition(|&byte| byte != 0).expect("not empty") as u64;
        let (index, _) = Index::open(Box::new(device.clone()), &options).expect("opens");
        compare(&index, &history, 0);
        index.close().expect("closes");
        device.rot(end - 5000);
        let (index, _) = Index::open(Box::new(device), &options).expect("opens");
        compare(&index, &history, 1);
    }
}

/// An index on several devices is found again, and uses all of them.
#[test]
fn an_index_spans_several_devices() {
    let devices: Vec<Arc<Crash>> =
        (0..3).map(|_| Arc::new(Crash::new(support::SIZE / 3 / 4096 * 4096))).collect();
    let options = Options { buffers: 32 << 10, buffer: 8 << 10, ..small() };
    let open = |devices: &[Arc<Crash>]| {
        let devices = devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>);
        let striped = Striped::new(devices.collect(), options.buffer).expect("joins");
        Index::open(Box::new(striped), &options)
    };
    let (mut index, _) = open(&devices).expect("opens");
    let mut history = History::new(5);
    for _ in 0..12_000 {
        history.step(&mut index).expect("works");
    }
    index.flush().expect("flushes");
    history.covered();
    drop(index);
    let counts: Vec<usize> = devices.iter().map(|device| device.steps()).collect();
    assert!(counts.iter().all(|steps| *steps > 10), "{counts:?}");
    // All of them lose power.
    let cut: Vec<Arc<Crash>> =
        devices.iter().map(|device| Arc::new(device.cut(device.steps(), 3))).collect();
    let (index, opened) = open(&cut).expect("opens");
    assert!(!opened.created);
    assert!(history.check_covered(&index) > 1000);
    // In another order, it is no index.
    let swapped = [cut[1].clone(), cut[0].clone(), cut[2].clone()];
    assert!(open(&swapped).is_err());
}
