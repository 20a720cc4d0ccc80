//! The fuzz targets on stable Rust: their corpus, and a few thousand deterministic mutations of it.
//!
//! `ONCEWIRE_BLESS=1 cargo test -p oncewire-family --test all fuzz_seeds` writes the seeds that the
//! targets define into the corpus.

use crate::fuzz_entry::{family, markers, payload};
use oncewire_testkit::fuzz;

/// Mutations of each corpus; they take about a second.
const MUTATIONS: usize = 3000;

#[test]
fn family_corpus_and_mutations() {
    fuzz::replay("family", family::run, MUTATIONS);
}

#[test]
fn markers_corpus_and_mutations() {
    fuzz::replay("markers", markers::run, MUTATIONS);
}

#[test]
fn payload_corpus_and_mutations() {
    fuzz::replay("payload", payload::run, MUTATIONS);
}

#[test]
fn seeds_are_in_the_corpus() {
    fuzz::seeds("family", fuzz::numbered(family::seeds()));
    fuzz::seeds("markers", fuzz::numbered(markers::seeds()));
    fuzz::seeds("payload", fuzz::numbered(payload::seeds()));
}
