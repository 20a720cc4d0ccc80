//! The program as users see it: every test here runs the real binary, and checks exit codes,
//! messages, files and bytes on pipes. The content of frames is tested in `crates/codec`.

mod base;
mod choices;
mod damage;
mod emulate;
mod examples;
mod family;
mod files;
mod help;
mod index;
mod mapped;
mod memory;
mod outputs;
mod pack_store;
mod pipes;
mod plan;
mod profile;
mod readme;
mod reports;
mod round_trip;
mod route;
mod study;
mod support;
mod terminal;
mod threads;
mod usage;
mod verdicts;
mod width;
mod zstd;
