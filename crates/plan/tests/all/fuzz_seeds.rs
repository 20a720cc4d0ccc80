//! The fuzz targets on stable Rust: their corpora, and mutations of them that proptest can shrink.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::{fuzz_entry, fuzz_entry_content, fuzz_entry_control, fuzz_entry_routes};
use oncewire_testkit::fuzz;

type Run = fn(&[u8]);

/// Each target, and how many seeds it has at least.
const TARGETS: [(&str, Run, usize); 3] = [
    ("topology", fuzz_entry::run, 6),
    ("routes", fuzz_entry_routes::run, 4),
    ("content", fuzz_entry_content::run, 2),
];

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus", target].iter().collect();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn the_corpora_have_the_properties() {
    for (target, run, least) in TARGETS {
        let corpus = corpus(target);
        assert!(corpus.len() >= least, "{target}");
        for (path, input) in corpus {
            eprintln!("{}", path.display());
            run(&input);
        }
    }
}

fn changed(which: prop::sample::Index, edits: &[Edit], corpus: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    let mut input = corpus[which.index(corpus.len())].1.clone();
    for edit in edits {
        let other = &corpus[edit.from.index(corpus.len())].1;
        let start = edit.start.index(other.len());
        let piece = other[start..(start + edit.length).min(other.len())].to_vec();
        // Edits may have emptied it.
        let at = if input.is_empty() { 0 } else { edit.at.index(input.len()) };
        input.splice(at..(at + edit.removed).min(input.len()), piece);
    }
    input
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

/// Mutations of histories of a controller.
const MUTATIONS: usize = 1000;

#[test]
fn control_corpus_and_mutations() {
    fuzz::replay("control", fuzz_entry_control::run, MUTATIONS);
}

/// `ONCEWIRE_BLESS=1` writes them.
#[test]
fn control_seeds_are_in_the_corpus() {
    fuzz::seeds("control", fuzz_entry_control::seeds());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_have_the_properties(which in any::<prop::sample::Index>(), choice in any::<u8>(), edits in prop::collection::vec(edit(), 1..8)) {
        let mut input = changed(which, &edits, &corpus("topology"));
        if let Some(first) = input.first_mut() {
            *first = (*first & 7) | (choice & !7);
        }
        fuzz_entry::run(&input);
    }

    #[test]
    fn changed_routes_have_the_properties(which in any::<prop::sample::Index>(), edits in prop::collection::vec(edit(), 1..4)) {
        fuzz_entry_routes::run(&changed(which, &edits, &corpus("routes")));
    }

    #[test]
    fn changed_content_has_the_properties(which in any::<prop::sample::Index>(), edits in prop::collection::vec(edit(), 1..4)) {
        fuzz_entry_content::run(&changed(which, &edits, &corpus("content")));
    }
}
