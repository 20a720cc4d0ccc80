//! The fuzz target on stable: its corpus, and random inputs that proptest makes smaller.

use crate::fuzz_entry;
use oncewire_kernels::random::SplitMix64;
use proptest::prelude::*;
use std::path::PathBuf;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus/study"].iter().collect()
}

/// Random records after settings that ask for everything, and after each memory limit.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut random = SplitMix64(1);
    let all = [0, 0, 0, 0, 0].to_vec();
    let memory = [0, 0x40, 0xd5, 0xaa, 0x3f, 0x8c];
    memory
        .map(|memory| {
            (format!("seed-{memory:02x}"), [all.clone(), vec![memory], random.bytes(2001)].concat())
        })
        .into()
}

#[test]
fn the_corpus_keeps_the_promises() {
    let folder = folder();
    if std::env::var_os("ONCEWIRE_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, seed) in seeds() {
            std::fs::write(folder.join(name), seed).unwrap();
        }
    }
    let mut corpus: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    corpus.sort();
    assert!(!corpus.is_empty());
    for path in corpus {
        eprintln!("{}", path.display());
        fuzz_entry::run(&std::fs::read(path).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

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
