//! The fuzz targets on stable Rust: their corpus, and a few thousand deterministic mutations of it.
//!
//! `ONCEWIRE_BLESS=1 cargo test -p oncewire-codec --test all fuzz_seeds` writes the seeds that the
//! targets define into the corpus.

use crate::fuzz_entry::{container, datagram_frame, frame, inside, round_trip};
use oncewire_testkit::fuzz;

/// Mutations of each corpus; they take about a second.
const MUTATIONS: usize = 3000;

#[test]
fn frame_corpus_and_mutations() {
    fuzz::replay("frame", frame::run, MUTATIONS);
}

#[test]
fn datagram_frame_corpus_and_mutations() {
    fuzz::replay("datagram_frame", datagram_frame::run, MUTATIONS);
}

#[test]
fn round_trip_corpus_and_mutations() {
    fuzz::replay("round_trip", round_trip::run, MUTATIONS);
}

#[test]
fn inside_corpus_and_mutations() {
    fuzz::replay("inside", inside::run, MUTATIONS);
}

#[test]
fn container_corpus_and_mutations() {
    fuzz::replay("container", container::run, MUTATIONS);
}

#[test]
fn seeds_are_in_the_corpus() {
    fuzz::seeds("datagram_frame", fuzz::numbered(datagram_frame::seeds()));
    fuzz::seeds("frame", fuzz::numbered(frame::seeds()));
    fuzz::seeds("round_trip", fuzz::numbered(round_trip::seeds()));
    fuzz::seeds("container", fuzz::numbered(container::seeds()));
    fuzz::seeds("inside", fuzz::numbered(inside::seeds()));
}
