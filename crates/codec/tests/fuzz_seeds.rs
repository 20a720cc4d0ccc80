//! The fuzz targets on stable: their corpus, and some thousand changes of it that are the same every time.
//!
//! `ONCEWIRE_BLESS=1 cargo test --test fuzz_seeds` writes the seeds that the targets know of themselves into the corpus; what
//! libFuzzer found beyond them is kept there too.
#![allow(missing_docs)]

mod fuzz_entry;

use fuzz_entry::{Entry, TARGETS, container, family, frame, markers, payload, round_trip};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Changes tried for each target: about a second each.
const MUTATIONS: usize = 3000;

fn folder(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus", target].iter().collect()
}

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder(target))
        .unwrap_or_else(|error| panic!("corpus of {target}: {error}"))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Runs the entry, and shows the input if a promise was broken.
fn check(target: &str, entry: Entry, name: &str, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(input))) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("{target}: {name} breaks a promise; input {hex}");
        std::panic::resume_unwind(panic);
    }
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}

/// What a fuzzer does to inputs, without its eyes.
fn mutate(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(input.len());
        match rng.below(7) {
            0 | 1 if !input.is_empty() => input[at] ^= 1 << rng.below(8),
            2 if !input.is_empty() => input[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)],
            3 => input.truncate(at),
            4 => input.insert(at, rng.below(256) as u8),
            5 => {
                let from = rng.below(other.len());
                let len = rng.below(40).min(other.len() - from);
                input.splice(at..at, other[from..from + len].iter().copied());
            }
            _ => {
                let len = rng.below(20).min(input.len() - at);
                input.drain(at..at + len);
            }
        }
    }
}

fn replay(target: &str) {
    let entry = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of that name").1;
    let corpus = corpus(target);
    assert!(corpus.len() >= 10, "{target} has lost its corpus");
    for (name, input) in &corpus {
        assert!(input.len() <= 4096, "{target}/{name} is too large for the tree");
        check(target, entry, name, input);
    }
    let mut rng = Rng(1);
    for i in 0..MUTATIONS {
        let (name, input) = &corpus[rng.below(corpus.len())];
        let mut input = input.clone();
        mutate(&mut input, &corpus[rng.below(corpus.len())].1, &mut rng);
        check(target, entry, &format!("change {i}, of {name},"), &input);
    }
}

#[test]
fn frame_corpus_and_changes_of_it() {
    replay("frame");
}

#[test]
fn round_trip_corpus_and_changes_of_it() {
    replay("round_trip");
}

#[test]
fn container_corpus_and_changes_of_it() {
    replay("container");
}

#[test]
fn family_corpus_and_changes_of_it() {
    replay("family");
}

#[test]
fn markers_corpus_and_changes_of_it() {
    replay("markers");
}

#[test]
fn payload_corpus_and_changes_of_it() {
    replay("payload");
}

#[test]
fn seeds_are_in_the_corpus() {
    let all = [
        ("frame", frame::seeds()),
        ("round_trip", round_trip::seeds()),
        ("container", container::seeds()),
        ("family", family::seeds()),
        ("markers", markers::seeds()),
        ("payload", payload::seeds()),
    ];
    for (target, seeds) in all {
        for (i, seed) in seeds.iter().enumerate() {
            let path = folder(target).join(format!("seed-{i:02}"));
            if std::env::var_os("ONCEWIRE_BLESS").is_some() {
                std::fs::create_dir_all(folder(target)).unwrap();
                std::fs::write(&path, seed).unwrap();
            }
            assert!(path.is_file(), "{} is missing: run with ONCEWIRE_BLESS=1", path.display());
        }
    }
}
