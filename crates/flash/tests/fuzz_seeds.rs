//! Replays the corpus of the fuzz targets, and mutations of it.
//!
//! `ONCEWIRE_BLESS=1` writes the seeds anew.

mod fuzz_entry;
#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;
use support::Random;

fn replay(target: &str, seeds: u64, len: u64, run: fn(&[u8])) {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    if std::env::var_os("ONCEWIRE_BLESS").is_some() {
        std::fs::create_dir_all(&corpus).expect("a directory");
        for seed in 0..seeds {
            let mut random = Random::new(seed);
            let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            std::fs::write(corpus.join(format!("seed-{seed}")), bytes).expect("writes");
        }
    }
    let mut inputs: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for entry in std::fs::read_dir(&corpus).expect("the corpus") {
        let path = entry.expect("an entry").path();
        inputs.push((path.clone(), std::fs::read(path).expect("an input")));
    }
    assert!(inputs.len() as u64 >= seeds, "{}", inputs.len());
    inputs.sort();
    let mut random = Random::new(5);
    for (path, input) in inputs {
        println!("{}", path.display());
        run(&input);
        for _ in 0..20 {
            let mut changed = input.clone();
            for _ in 0..=random.below(6) {
                let at = random.below(changed.len() as u64) as usize;
                match random.below(3) {
                    0 => changed[at] = random.next() as u8,
                    1 => changed.truncate(at.max(1)),
                    _ => changed.insert(at, random.next() as u8),
                }
            }
            run(&changed);
        }
    }
}

#[test]
fn flash_superblock() {
    replay("flash_superblock", 12, 60, fuzz_entry::flash_superblock::run);
}

#[test]
fn flash_directory() {
    replay("flash_directory", 12, 200, fuzz_entry::flash_directory::run);
}

#[test]
fn flash_page() {
    replay("flash_page", 12, 200, fuzz_entry::flash_page::run);
}

#[test]
fn flash_ops() {
    replay("flash_ops", 16, 600, fuzz_entry::flash_ops::run);
}

#[cfg(feature = "store")]
#[test]
fn flash_store() {
    replay("flash_store", 16, 400, fuzz_entry::flash_store::run);
}
