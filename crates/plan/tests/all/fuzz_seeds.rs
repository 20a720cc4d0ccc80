//! The fuzz target on stable Rust: its corpus, and mutations of it that proptest can shrink.

use std::path::PathBuf;

use crate::fuzz_entry;
use proptest::prelude::*;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus/topology"].iter().collect()
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn the_corpus_has_the_properties() {
    let corpus = corpus();
    assert!(corpus.len() >= 6);
    for (path, input) in corpus {
        eprintln!("{}", path.display());
        fuzz_entry::run(&input);
    }
}

/// A part of one file, inserted into another.
#[derive(Clone, Debug)]
struct Edit {
    at: prop::sample::Index,
    removed: usize,
    from: prop::sample::Index,
    start: prop::sample::Index,
    length: usize,
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<prop::sample::Index>;
    (index(), 0..20_usize, index(), index(), 0..40_usize)
        .prop_map(|(at, removed, from, start, length)| Edit { at, removed, from, start, length })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_have_the_properties(which in any::<prop::sample::Index>(), choice in any::<u8>(), edits in prop::collection::vec(edit(), 1..8)) {
        let corpus = corpus();
        let mut input = corpus[which.index(corpus.len())].1.clone();
        for edit in edits {
            let other = &corpus[edit.from.index(corpus.len())].1;
            let start = edit.start.index(other.len());
            let piece = other[start..(start + edit.length).min(other.len())].to_vec();
            let at = edit.at.index(input.len());
            input.splice(at..(at + edit.removed).min(input.len()), piece);
        }
        if let Some(first) = input.first_mut() {
            *first = (*first & 7) | (choice & !7);
        }
        fuzz_entry::run(&input);
    }
}
