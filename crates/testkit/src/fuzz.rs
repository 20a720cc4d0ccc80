//! Fuzz targets on stable Rust: replays a corpus of `fuzz/corpus` and a number of mutations of it
//! that are the same every time.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
};

/// Largest input in the corpus, in bytes, as `fuzz/README.md` says.
pub const LARGEST: usize = 4096;

fn folder(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus", target].iter().collect()
}

/// Runs `entry` on each input in the corpus of `target`, then on `mutations` mutations of them.
///
/// # Panics
/// If the entry does, after printing the input; or if the corpus has fewer than ten inputs or one
/// that is too large.
pub fn replay(target: &str, entry: impl Fn(&[u8]), mutations: usize) {
    let check = |name: &str, input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(input))) {
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{target}: {name} breaks a guarantee; input {hex}");
            resume_unwind(panic);
        }
    };
    let files =
        fs::read_dir(folder(target)).unwrap_or_else(|error| panic!("corpus of {target}: {error}"));
    let mut corpus: Vec<(String, Vec<u8>)> = files
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .collect();
    corpus.sort();
    assert!(corpus.len() >= 10, "{target} has lost its corpus");
    for (name, input) in &corpus {
        assert!(input.len() <= LARGEST, "{target}/{name} is too large for the tree");
        check(name, input);
    }
    let mut rng = fastrand::Rng::with_seed(1);
    for i in 0..mutations {
        let (name, input) = &corpus[rng.usize(..corpus.len())];
        let mut input = input.clone();
        mutate(&mut input, &corpus[rng.usize(..corpus.len())].1, &mut rng);
        check(&format!("mutation {i} of {name}"), &input);
    }
}

/// What a fuzzer does to inputs, but without looking at coverage.
fn mutate(input: &mut Vec<u8>, other: &[u8], rng: &mut fastrand::Rng) {
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(..input.len().max(1));
        match rng.usize(..7) {
            0 | 1 if !input.is_empty() => input[at] ^= 1 << rng.usize(..8),
            2 if !input.is_empty() => input[at] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            3 => input.truncate(at),
            4 => input.insert(at, rng.u8(..)),
            5 => {
                let from = rng.usize(..other.len().max(1));
                let most = if rng.bool() { 40 } else { LARGEST };
                let len = rng.usize(..most).min(other.len() - from);
                input.splice(at..at, other[from..][..len].iter().copied());
            }
            _ => {
                let len = rng.usize(..20).min(input.len() - at);
                input.drain(at..at + len);
            }
        }
    }
}

/// Checks that the corpus of `target` has a file for each seed, by name; with `ONCEWIRE_BLESS` set,
/// writes them.
///
/// # Panics
/// If a file is missing or cannot be written.
pub fn seeds(target: &str, seeds: impl IntoIterator<Item = (String, Vec<u8>)>) {
    for (name, seed) in seeds {
        let path = folder(target).join(name);
        if std::env::var_os("ONCEWIRE_BLESS").is_some() {
            fs::create_dir_all(folder(target)).unwrap();
            fs::write(&path, seed).unwrap();
        }
        assert!(path.is_file(), "{} is missing: run with ONCEWIRE_BLESS=1", path.display());
    }
}

/// Seeds with the names `seed-00`, `seed-01` and so on.
pub fn numbered(seeds: Vec<Vec<u8>>) -> impl Iterator<Item = (String, Vec<u8>)> {
    seeds.into_iter().enumerate().map(|(i, seed)| (format!("seed-{i:02}"), seed))
}
