//! Topologies, traffic and plans: public maps, captures and made workloads. One binary: each takes
//! time to compile and to link.
#![allow(missing_docs)]

mod captures;
#[path = "../fuzz_entry/mod.rs"]
mod fuzz_entry;
#[path = "../fuzz_entry/content.rs"]
mod fuzz_entry_content;
#[path = "../fuzz_entry/control.rs"]
mod fuzz_entry_control;
#[path = "../fuzz_entry/routes.rs"]
mod fuzz_entry_routes;
mod fuzz_seeds;
mod manifest_sizes;
mod public_topologies;
mod workload;
