//! Real kills of a real process with a real file.
//!
//! `ONCEWIRE_FLASH_KILLS=500` kills that often; without it, a few times.
#![cfg(unix)]

mod support;

use oncewire_flash::Index;
use oncewire_flash::device::FileDevice;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{History, Random, SIZE, small};

/// Most operations of a child.
const MOST: u64 = 40_000;

fn open(path: &Path) -> Index {
    let device = FileDevice::open(path, SIZE as u64).expect("a file");
    Index::open(Box::new(device), &small()).expect("opens after a kill").0
}

/// Not a test: the process that is killed. It says which operations are covered.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let (Ok(path), Ok(seed)) = (std::env::var("FLASH_FILE"), std::env::var("FLASH_SEED")) else {
        return;
    };
    let mut index = open(Path::new(&path));
    let mut history = History::new(seed.parse().expect("a number"));
    history.oracle.number =
        std::env::var("FLASH_NUMBER").ok().and_then(|text| text.parse().ok()).expect("a number");
    let mut out = std::io::stdout();
    for _ in 0..MOST {
        history.step(&mut index).expect("works");
        if history.random.below(150) == 0 {
            index.flush().expect("flushes");
            writeln!(out, "\ncovered {}", history.oracle.number).expect("the parent reads");
            out.flush().expect("the parent reads");
        }
    }
}

#[test]
fn what_a_flush_covered_survives_kills() {
    let kills =
        std::env::var("ONCEWIRE_FLASH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index");
    let mut history = History::new(0);
    let mut random = Random::new(99);
    for seed in 0..kills {
        let number = history.oracle.number;
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env("FLASH_FILE", &path)
            .env("FLASH_SEED", seed.to_string())
            .env("FLASH_NUMBER", number.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut left = random.below(60);
        let mut covered = history.oracle.covered;
        // Kills after any number of flushes, while the child goes on; then reads what it said
        // before.
        for line in lines {
            if let Some(said) = line.expect("text").strip_prefix("covered ") {
                covered = said.parse().expect("a number");
                if left == 0 {
                    let _ = child.kill();
                }
                left = left.saturating_sub(1);
            }
        }
        child.wait().expect("ends");
        // All that it may have done.
        history.random = Random::new(seed);
        for _ in 0..MOST {
            history.imagine();
            // The same random numbers as the child.
            history.random.below(150);
        }
        let last = history.oracle.number;
        history.oracle.lost.push((covered, last));
        history.oracle.covered = covered;
        let index = open(&path);
        let keys: Vec<u64> = history.oracle.keys.keys().copied().collect();
        for key in keys {
            history.oracle.check_at(&index, key, covered, covered);
        }
        index.close().expect("closes");
        // The oracle of old operations is not needed any more: they are evicted.
        for done in history.oracle.keys.values_mut() {
            let old = done.len().saturating_sub(4000);
            done.drain(..old);
        }
    }
    assert!(history.oracle.covered > 0);
}
