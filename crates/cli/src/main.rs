//! The `oncewire` program: arguments, files, tables, exit codes. What it does is done by the crates below.

// They panic where the stream is closed or its disk is full: see `failure::say` and `report::text`.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod adapting;
mod args;
mod base;
mod bench;
mod csv_files;
mod demo;
mod endpoint;
mod failure;
mod family;
mod format;
mod output;
mod pack;
mod page;
#[allow(dead_code)]
mod plan;
mod progress;
mod quantity;
mod report;
mod setup;
mod study;
mod terminal;
mod train;
mod tunnel;
mod unpack;

use args::{Cli, Command};
use clap::Parser;
use oncewire_net::keys;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| usage(error));
    if !matches!(
        cli.command,
        Command::Serve(_) | Command::Connect(_) | Command::Study(_) | Command::Plan(_) | Command::Emulate(_)
    ) {
        // Those end in their own time.
        output::clean_up_on_signal();
    }
    let outcome = match &cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Keygen(args) => tunnel::keygen(args),
        Command::Serve(args) => tunnel::serve(args),
        Command::Connect(args) => tunnel::connect(args),
        Command::Status(args) => tunnel::status(args),
        Command::CheckConfig(args) => tunnel::check_config(args),
        Command::Pack(args) => pack::run(args),
        Command::Unpack(args) => unpack::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Study(args) => study::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Emulate(args) => plan::emulate::run(args),
        Command::Train(args) => train::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Someone piped a report into `head`.
        Err(failure) if failure.reader_gone => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Help, the version, or what is wrong with the arguments; clap writes it in colours where there is a terminal. A secret key among the
/// arguments is left out.
fn usage(error: clap::Error) -> ! {
    let text = error.to_string();
    if keys::redact(&text) == text {
        error.exit();
    }
    failure::say(text.trim_end());
    std::process::exit(error.exit_code())
}
