//! Two sessions without a network: flows, logs, isolation domains and closing, and the document of
//! the protocol. One binary: each takes time to compile and to link. `sim` is apart because it is run
//! by name, for as long as one likes.
#![allow(missing_docs)]

mod adapting;
mod apart;
mod close;
mod domain_lengths;
mod domains;
mod fast_link;
#[path = "../fuzz_entry/mod.rs"]
mod fuzz_entry;
mod fuzz_seeds;
mod lent;
mod logs;
mod opened;
mod protocol_doc;
mod protocol_example;
mod recalled;
mod resting;
mod slow_disk;
mod stored;
