//! The session's fuzz targets on stable Rust: their corpus, and mutations of it.
//!
//! `ONCEWIRE_BLESS=1 cargo test -p oncewire-session --test all fuzz_seeds` writes the targets' own
//! seeds into the corpus. Inputs that libFuzzer found are there as well.

use crate::fuzz_entry::{link_datagram, session_bytes, session_ops, session_store};
use oncewire_testkit::fuzz;

/// About a second for each target.
const MUTATIONS: usize = 1000;

#[test]
fn link_datagram_corpus_and_mutations() {
    fuzz::replay("link_datagram", link_datagram::run, MUTATIONS);
}

#[test]
fn session_bytes_corpus_and_mutations() {
    fuzz::replay("session_bytes", session_bytes::run, MUTATIONS);
}

#[test]
fn session_ops_corpus_and_mutations() {
    fuzz::replay("session_ops", session_ops::run, MUTATIONS);
}

#[test]
fn session_store_corpus_and_mutations() {
    fuzz::replay("session_store", session_store::run, MUTATIONS);
}

#[test]
fn seeds_are_in_the_corpus() {
    fuzz::seeds("link_datagram", fuzz::numbered(link_datagram::seeds()));
    fuzz::seeds("session_bytes", fuzz::numbered(session_bytes::seeds()));
    fuzz::seeds("session_ops", fuzz::numbered(session_ops::seeds()));
    fuzz::seeds("session_store", fuzz::numbered(session_store::seeds()));
}
