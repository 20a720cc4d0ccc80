//! The `oncewire` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncewire::run()
}
