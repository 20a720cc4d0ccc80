//! Encoder and decoder: round trips, damage, isolation domains, content inside compressed streams,
//! and the document of the format. One binary: each takes time to compile and to link. `vectors` is
//! apart because it is run by name; `memory` and `no_alloc` count allocations, so that they need a
//! process of their own.
#![allow(missing_docs)]

mod adapt;
#[path = "../common/mod.rs"]
mod common;
mod compressed_pages;
mod damage;
#[path = "../common/deflated.rs"]
mod deflated;
mod domain_lengths;
mod domains;
mod format_doc;
#[path = "../fuzz_entry/mod.rs"]
mod fuzz_entry;
mod fuzz_seeds;
mod inside;
mod inside_cuts;
mod inside_flushes;
mod inside_generations;
mod inside_http2;
mod inside_midstream;
mod inside_pauses;
mod inside_work;
mod lifecycle;
mod out_of_order;
mod policy;
mod restored;
mod round_trip;
mod rows;
mod senders;
mod shared_chunks;
#[path = "../common/sharing.rs"]
mod sharing;
