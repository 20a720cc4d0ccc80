//! The tunnel as its users run it: two processes, `oncewire serve` and `oncewire connect`, between real programs.
//!
//! A test whose programs are not installed says so and counts as passed; `.ci/packages` lists them all.

mod configuration;
mod logging;
mod process;
mod programs;
mod repeats;
mod silence;
mod soak;
mod support;
