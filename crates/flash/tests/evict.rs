//! What each policy keeps, and that none of them brings back what is old or deleted.

mod support;

use oncewire_flash::device::Memory;
use oncewire_flash::{Answer, Eviction, Index, Options};
use support::{History, SIZE, small_kinds};

fn key(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

fn open(options: &Options) -> Index {
    Index::open(Box::new(Memory::new(SIZE)), options).expect("opens").0
}

const ALL: [Eviction; 4] =
    [Eviction::Fifo, Eviction::Used, Eviction::Updated, Eviction::Priority { byte: 0, least: 200 }];

#[test]
fn answers_equal_those_of_a_map() {
    for options in small_kinds() {
        for eviction in ALL {
            let mut index = open(&Options { eviction, ..options });
            let mut history = History::new(31);
            // Entries that are kept leave less room for new ones.
            history.oracle.window = 1500;
            for _ in 0..40_000 {
                history.step(&mut index).expect("works");
                if history.random.below(2) == 0 {
                    history.check_any(&index);
                }
            }
            let stats = index.stats();
            assert!(stats.evicted > 4, "{stats:?}");
            assert_eq!(stats.kept == 0, eviction == Eviction::Fifo, "{eviction:?} {stats:?}");
        }
    }
}

/// Inserts keys until the first incarnations are evicted, once, while some of their keys are used.
/// How many of those are there in the end, of 100, how many of others, and of those with a high
/// priority.
fn survivors(options: &Options) -> [u32; 3] {
    // A partition has half a dozen incarnations, so that each key is used while it is in the older half.
    let (mut index, _) = Index::open(Box::new(Memory::new(2 * SIZE)), options).expect("opens");
    // The lowest byte of a value is its priority.
    let groups = [1_000_000u64, 2_000_000, 3_000_000];
    let priority = |group: u64, n: u64| key(if group == 3_000_000 { 255 } else { n % 100 });
    for n in 0..100 {
        groups.iter().for_each(|group| {
            index.insert(&key(group + n), &priority(*group, n)).expect("inserts");
        });
    }
    let mut n = 0;
    let mut updated = 0;
    while index.stats().evicted < 20 {
        index.insert(&key(n), &key(0)).expect("inserts");
        n += 1;
        // Other keys are updated so often that they fill half of each buffer.
        updated += 1;
        index.insert(&key(4_000_000 + updated % 1200), &key(1)).expect("inserts");
        if n % 4 == 0 {
            index.get(&key(groups[0] + n / 4 % 100)).expect("answers");
        }
    }
    groups.map(|group| {
        (0..100)
            .filter(|n| {
                let answer = index.get(&key(group + n)).expect("answers");
                assert!(
                    answer == Answer::Absent
                        || answer == Answer::Value(priority(group, *n).to_vec())
                );
                answer != Answer::Absent
            })
            .count() as u32
    })
}

#[test]
fn each_policy_keeps_what_it_promises() {
    for options in small_kinds() {
        let [fifo, used, updated, priority] =
            ALL.map(|eviction| survivors(&Options { eviction, memory: 2 << 20, ..options }));
        println!("{fifo:?} {used:?} {updated:?} {priority:?}");
        assert_eq!(fifo, [0; 3], "{options:?}");
        assert!(used[0] > 95 && used[1..] == [0; 2], "{used:?} {options:?}");
        assert!(priority[2] > 95 && priority[..2] == [0; 2], "{priority:?} {options:?}");
        assert!(updated.iter().all(|&n| n > 50), "{updated:?} {options:?}");
    }
}

/// An entry that was deleted or updated stays so when its incarnation is evicted.
#[test]
fn nothing_comes_back() {
    for options in small_kinds() {
        for eviction in ALL {
            let mut index = open(&Options { eviction, ..options });
            for n in 0..200u64 {
                index.insert(&key(n), &key(u64::MAX)).expect("inserts");
            }
            let mut other = 1_000_000;
            let mut until = |index: &mut Index, evicted| {
                while index.stats().evicted < evicted {
                    index.insert(&key(other), &key(u64::MAX)).expect("inserts");
                    other += 1;
                }
            };
            while index.stats().incarnations < 4 {
                until(&mut index, 0);
                index.insert(&key(2_000_000 + index.stats().inserts), &key(0)).expect("inserts");
            }
            for n in 0..100u64 {
                index.delete(&key(n)).expect("deletes");
                index.insert(&key(100 + n), &key(n)).expect("inserts");
            }
            for round in 1..6 {
                until(&mut index, 8 * round);
                for n in 0..100u64 {
                    assert_eq!(index.get(&key(n)).expect("answers"), Answer::Absent);
                    let answer = index.get(&key(100 + n)).expect("answers");
                    let newest = Answer::Value(key(n).to_vec());
                    assert!(answer == Answer::Absent || answer == newest, "{answer:?}");
                }
            }
        }
    }
}

/// What is kept may fill a page of a buffer, though not the buffer. Whatever caused the eviction has
/// its place before.
#[test]
fn what_is_kept_takes_no_place_of_what_is_new() {
    for options in small_kinds() {
        for eviction in ALL {
            let mut index = open(&Options { eviction, ..options });
            for n in 0..50_000u64 {
                index.insert(&key(n), &key(u64::MAX)).expect("inserts");
                assert_eq!(index.get(&key(n)).expect("answers"), Answer::Value(vec![255; 8]));
            }
            let stats = index.stats();
            assert_eq!(stats.early, 0, "{eviction:?} {options:?} {stats:?}");
        }
    }
}
