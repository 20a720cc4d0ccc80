//! The program as its users meet it: every test here runs the real binary.
//!
//! Exit codes, messages, files left and not left, bytes on pipes. The codec has its own tests; what a frame holds is theirs.

mod base;
mod damage;
mod emulate;
mod family;
mod files;
mod memory;
mod outputs;
mod pipes;
mod plan;
mod readme;
mod reports;
mod round_trip;
mod study;
mod support;
mod terminal;
mod usage;
mod width;
