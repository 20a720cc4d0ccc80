//! The fuzz target on stable: its corpus, and random inputs that proptest makes smaller.
#![allow(missing_docs)]

mod fuzz_entry;

use proptest::prelude::*;
use std::path::PathBuf;

#[test]
fn the_corpus_keeps_the_promises() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus/study"].iter().collect();
    let mut corpus: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    corpus.sort();
    assert!(!corpus.is_empty());
    for path in corpus {
        eprintln!("{}", path.display());
        fuzz_entry::run(&std::fs::read(path).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_records_keep_the_promises(input in proptest::collection::vec(any::<u8>(), 0..2000)) {
        fuzz_entry::run(&input);
    }

    /// Few figures and algorithms, many packets.
    #[test]
    fn any_figure_keeps_the_promises(
        figure in 0..14_u32,
        algorithm in 0..23_u32,
        memory in any::<[u8; 2]>(),
        records in proptest::collection::vec(any::<u8>(), 0..4000),
    ) {
        let head = [&(1_u16 << figure).to_be_bytes()[..], &(1_u32 << algorithm).to_be_bytes()[1..], &memory].concat();
        fuzz_entry::run(&[head, records].concat());
    }
}
