//! Crashes at every write and every sync, faults, and what went wrong on paper.
//!
//! `ONCEWIRE_FLASH_SEEDS=N` runs the histories with N seeds instead of one.

mod support;

use oncewire_flash::device::{Crash, Fault, Operation};
use oncewire_flash::{Answer, Eviction, Filter, Index, Options};
use std::sync::Arc;
use support::{
    History, Oracle, Random, SIZE, TINY_SIZE, kinds, small, small_kinds, small_published, tiny,
};

fn open(device: &Arc<Crash>, options: &Options) -> Index {
    Index::open(Box::new(device.clone()), options).expect("opens after any crash").0
}

fn seeds() -> u64 {
    std::env::var("ONCEWIRE_FLASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A history on a device, and when what happened.
struct Run {
    device: Arc<Crash>,
    history: History,
    /// Writes and syncs before each operation.
    steps: Vec<usize>,
    /// Writes and syncs, and operations covered, after each flush.
    flushes: Vec<(usize, u64)>,
}

impl Run {
    fn on(
        device: Arc<Crash>,
        options: &Options,
        mut history: History,
        operations: u64,
        flush: u64,
    ) -> Run {
        let mut index = open(&device, options);
        let (mut steps, mut flushes) = (vec![0; history.oracle.number as usize], Vec::new());
        for _ in 0..operations {
            steps.push(device.steps());
            history.step(&mut index).expect("works");
            if history.random.below(flush) == 0 {
                index.flush().expect("flushes");
                history.covered();
                flushes.push((device.steps(), history.oracle.number));
            }
        }
        Run { device, history, steps, flushes }
    }

    /// Operations that were covered, and that were begun, when the device had done this much.
    fn at(&self, cut: usize, before: u64) -> (u64, u64) {
        let covered =
            self.flushes.iter().rfind(|(steps, _)| *steps <= cut).map_or(before, |flush| flush.1);
        (covered, self.steps.partition_point(|steps| *steps <= cut) as u64)
    }
}

/// Checks many keys: the often updated ones, and others at random.
fn check(oracle: &Oracle, index: &Index, covered: u64, at: u64, random: &mut Random) {
    let keys: Vec<u64> = oracle.keys.keys().copied().collect();
    for _ in 0..80 {
        let often = random.below(keys.len().min(200) as u64) as usize;
        oracle.check_at(index, keys[often], covered, at);
        oracle.check_at(index, keys[random.below(keys.len() as u64) as usize], covered, at);
    }
}

/// What a crash between any two writes or syncs leaves is opened and has everything that a flush
/// covered; so does a crash while that is recovered; and a crash after more was done on top.
fn cut_everywhere(size: usize, options: &Options, seed: u64, operations: u64, stride: usize) {
    let mut history = History::new(seed);
    if options.eviction != Eviction::Fifo {
        // Entries that are kept leave less room for new ones.
        history.oracle.window = 1500;
    }
    let run = Run::on(Arc::new(Crash::new(size)), options, history, operations, operations / 12);
    let mut random = Random::new(seed ^ 0x5eed);
    // Every write and sync, if time is no matter.
    let stride = if seeds() > 1 { 1 } else { stride };
    for cut in (0..=run.device.steps()).step_by(stride) {
        let (covered, at) = run.at(cut, 0);
        for choice in [[0, u64::MAX][cut % 2], random.next()] {
            let device = Arc::new(run.device.cut(cut, choice));
            let index = open(&device, options);
            check(&run.history.oracle, &index, covered, at, &mut random);
            drop(index);
            let again = random.below(device.steps() as u64 + 1) as usize;
            let second = Arc::new(device.cut(again, random.next()));
            check(&run.history.oracle, &open(&second, options), covered, at, &mut random);
        }
        // More on top of what was recovered, and another crash.
        if random.below(8) == 0 {
            let device = Arc::new(run.device.cut(cut, random.next()));
            let mut oracle = run.history.oracle.clone();
            oracle.lost.push((covered, oracle.number));
            let before = oracle.number;
            let history =
                History { random: Random::new(random.next()), oracle, range: run.history.range };
            let more = Run::on(device, options, history, operations / 4, operations / 12);
            for _ in 0..3 {
                let cut = random.below(more.device.steps() as u64 + 1) as usize;
                let (newly, at) = more.at(cut, covered);
                let third = Arc::new(more.device.cut(cut, random.next()));
                let mut oracle = more.history.oracle.clone();
                // Everything counts as long ago that the first run did after the cut.
                oracle.window = if newly > before { oracle.window } else { oracle.window + before };
                check(
                    &oracle,
                    &open(&third, options),
                    newly.max(covered),
                    at.max(before),
                    &mut random,
                );
            }
        }
    }
}

#[test]
fn what_a_flush_covered_survives_any_crash() {
    for seed in 1..=seeds() {
        let [shared, _, published, _] = small_kinds();
        cut_everywhere(SIZE, &shared, seed, 13_000, 1);
        cut_everywhere(SIZE, &published, seed, 9000, 1);
    }
}

#[test]
fn it_does_with_a_list_for_each_partition() {
    for seed in 1..=seeds() {
        let [_, own, _, published] = small_kinds();
        cut_everywhere(SIZE, &own, seed, 13_000, 1);
        cut_everywhere(SIZE, &published, seed, 9000, 1);
    }
}

#[test]
fn it_does_where_the_directory_is_written_in_batches() {
    for seed in 1..=seeds() {
        for (options, operations, stride) in kinds(tiny())
            .iter()
            .zip([24_000, 24_000, 12_000, 12_000])
            .zip([3, 11, 3, 11])
            .map(|((options, operations), stride)| (options, operations, stride))
        {
            cut_everywhere(TINY_SIZE, options, seed, operations, stride);
        }
    }
}

/// Entries that are inserted again when their incarnation is evicted lose nothing else.
#[test]
fn it_does_with_other_evictions() {
    for seed in 1..=seeds() {
        for (n, eviction) in
            [Eviction::Used, Eviction::Updated, Eviction::Priority { byte: 0, least: 99 }]
                .into_iter()
                .enumerate()
        {
            let options = Options { eviction, ..small_kinds()[n % 2] };
            cut_everywhere(SIZE, &options, seed, 13_000, 3);
        }
    }
}

const KEY: [u8; 8] = *b"the key.";

fn value(n: u64) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

/// Inserts other keys until a number of incarnations were written.
fn fill(index: &mut Index, random: &mut Random, incarnations: u64) {
    let until = index.stats().incarnations + incarnations;
    while index.stats().incarnations < until {
        index.insert(&random.next().to_le_bytes(), &[0; 8]).expect("inserts");
    }
}

/// First trap: an entry of the spill must not come back above a newer one in an incarnation.
#[test]
fn a_spilled_value_does_not_hide_a_newer_incarnation() {
    for options in small_kinds() {
        let device = Arc::new(Crash::new(SIZE));
        let mut index = open(&device, &options);
        index.insert(&KEY, &value(1)).expect("inserts");
        index.flush().expect("flushes");
        index.insert(&KEY, &value(2)).expect("inserts");
        // All four partitions.
        fill(&mut index, &mut Random::new(1), 4);
        index.flush().expect("flushes");
        drop(index);
        for choice in [0, u64::MAX, 77] {
            let crashed = Arc::new(device.cut(device.steps(), choice));
            let index = open(&crashed, &options);
            assert_eq!(index.get(&KEY).expect("answers"), Answer::Value(value(2)));
        }
    }
}

/// Second trap: an incarnation that a crash tore does not count, so what was spilled does.
#[test]
fn a_torn_incarnation_leaves_what_was_spilled() {
    for options in small_kinds() {
        let device = Arc::new(Crash::new(SIZE));
        let mut index = open(&device, &options);
        index.insert(&KEY, &value(1)).expect("inserts");
        index.flush().expect("flushes");
        fill(&mut index, &mut Random::new(1), 4);
        assert_eq!(index.get(&KEY).expect("answers"), Answer::Value(value(1)));
        assert!(index.stats().pages_read > 0, "it is in an incarnation");
        drop(index);
        for choice in 0..40 {
            let crashed = Arc::new(device.cut(device.steps(), choice));
            let index = open(&crashed, &options);
            assert_eq!(
                index.get(&KEY).expect("answers"),
                Answer::Value(value(1)),
                "choice {choice}"
            );
        }
    }
}

/// Third trap: an incarnation that a crash spared although one before it is gone must not return
/// after the next crash, when newer values were covered.
#[test]
fn a_spared_incarnation_does_not_return_after_the_next_crash() {
    let options = tiny();
    let mut spared = 0;
    for seed in 0..60 {
        let device = Arc::new(Crash::new(TINY_SIZE));
        let mut index = open(&device, &options);
        let mut random = Random::new(seed);
        index.insert(&KEY, &value(1)).expect("inserts");
        fill(&mut index, &mut random, 30);
        // It is in one of the last incarnations, whose records are written, and not synced.
        index.insert(&KEY, &value(2)).expect("inserts");
        fill(&mut index, &mut random, 6 + seed % 12);
        let cut = device.steps();
        drop(index);
        let device = Arc::new(device.cut(cut, random.next()));
        let (mut index, opened) = Index::open(Box::new(device.clone()), &options).expect("opens");
        spared += opened.dropped;
        index.insert(&KEY, &value(3)).expect("inserts");
        index.flush().expect("flushes");
        // Until as many incarnations were written as were lost: then none is missing before one
        // that was spared.
        for _ in 0..12 {
            fill(&mut index, &mut random, 1);
            index.flush().expect("flushes");
            let crashed = Arc::new(device.cut(device.steps(), 0));
            let answer = open(&crashed, &options).get(&KEY).expect("answers");
            assert_eq!(answer, Answer::Value(value(3)), "seed {seed}");
        }
    }
    assert!(spared > 10, "the trap is not set: {spared}");
}

/// Whatever operation of the device fails: errors are typed, answers are right, and what a flush
/// covered is there when the index is opened again.
#[test]
fn faults_lose_nothing_that_was_covered() {
    for seed in 1..=seeds() {
        for (operation, fault) in [
            (Operation::Write, Fault::Io),
            (Operation::Write, Fault::NoSpace),
            (Operation::Sync, Fault::Io),
            (Operation::Read, Fault::Io),
        ] {
            for nth in (0..60).step_by(13) {
                let device = Arc::new(Crash::new(SIZE));
                let mut index = open(&device, &small());
                let mut history = History::new(seed);
                device.fail(operation, nth, fault);
                let mut refused = 0;
                for _ in 0..5000 {
                    refused += u32::from(history.step(&mut index).is_err());
                    if history.random.below(300) == 0 && index.flush().is_ok() {
                        history.covered();
                    }
                }
                assert!(
                    refused <= 1 || operation == Operation::Sync,
                    "{operation:?} {nth}: {refused}"
                );
                drop(index);
                for choice in [0, u64::MAX] {
                    let crashed = Arc::new(device.cut(device.steps(), choice));
                    let index = open(&crashed, &small());
                    check(
                        &history.oracle,
                        &index,
                        history.oracle.covered,
                        history.oracle.number,
                        &mut Random::new(nth),
                    );
                }
            }
        }
    }
}

/// Decay of any page: the index opens, and never answers with a value of another key.
#[test]
fn decay_anywhere_gives_no_wrong_value() {
    for options in [small(), small_published()] {
        decay(&options);
    }
}

fn decay(options: &Options) {
    let run = Run::on(Arc::new(Crash::new(SIZE)), options, History::new(9), 10_000, 500);
    let index = open(&run.device, options);
    index.load_all();
    index.close().expect("closes");
    let content = run.device.content();
    let mut random = Random::new(4);
    let (mut refused, mut unknown) = (0, 0);
    for page in 0..SIZE / 4096 {
        if content[page * 4096..][..4096].iter().all(|&byte| byte == 0) {
            continue;
        }
        let device = Arc::new(run.device.cut(run.device.steps(), u64::MAX));
        let used =
            content[page * 4096..][..4096].iter().rposition(|&byte| byte != 0).unwrap_or(0) as u64;
        device.rot(page as u64 * 4096 + random.below(used + 1));
        let Ok((index, _)) = Index::open(Box::new(device.clone()), options) else {
            refused += 1;
            continue;
        };
        for (key, done) in &run.history.oracle.keys {
            match index.get(&key.to_le_bytes()).expect("answers") {
                Answer::Value(value) => {
                    let value = u64::from_le_bytes(value.try_into().expect("8 bytes"));
                    assert!(
                        done.iter().any(|(_, inserted)| *inserted == value),
                        "{page}: {key} {value}"
                    );
                }
                Answer::Unknown => unknown += 1,
                Answer::Absent => {}
            }
        }
    }
    // The other superblock is always there.
    assert_eq!(refused, 0);
    assert!(unknown > 100, "{unknown}");
}

/// A slot that a crash tore while it was being overwritten held what was evicted, whether or not
/// anything of the slots that were overwritten before it reached the device.
#[test]
fn a_torn_slot_is_evicted_not_unknown() {
    for options in kinds(Options { buffers: 4 << 10, ..tiny() }) {
        // More incarnations than a maplet can tell apart.
        let options = Options { filter: Filter::Sliced, ..options };
        let device = Arc::new(Crash::new(512 << 10));
        let mut index = open(&device, &options);
        let mut random = Random::new(3);
        let slots = u64::from(index.filters().incarnations);
        fill(&mut index, &mut random, slots);
        index.flush().expect("flushes");
        let mut cuts = Vec::new();
        for _ in 0..12 {
            fill(&mut index, &mut random, 1);
            cuts.push(device.steps());
        }
        drop(index);
        for choice in 16..24 {
            for &cut in &cuts {
                let crashed = Arc::new(device.cut(cut, choice * 77 + cut as u64));
                let index = open(&crashed, &options);
                index.load_all();
                assert_eq!(index.stats().damaged, 0, "{options:?}: {choice} at {cut}");
            }
        }
    }
}
