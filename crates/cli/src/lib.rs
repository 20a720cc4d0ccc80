//! The `oncewire` program: arguments, files, tables, exit codes. The crates below do the work.
//!
//! It is a library, so that it compiles while the crates below are still being optimized: a program
//! has to wait for them. Its one function is no interface to build on.

// These macros panic if the stream is closed or its disk is full; use `failure::say` and
// `stdout::text`.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod adapting;
mod args;
mod base;
mod bench;
mod ca;
mod check_config;
#[cfg(target_os = "linux")]
mod controller;
mod csv_files;
mod defaults;
mod demo;
mod endpoint;
mod enroll;
mod failure;
mod family;
mod index;
#[cfg(target_os = "linux")]
mod link;
mod man;
#[cfg(target_os = "linux")]
mod node;
mod output;
mod pack;
mod pack_store;
mod plan;
mod price;
mod progress;
mod quantity;
mod report;
mod route;
mod setup;
mod status;
mod stdout;
mod store;
mod study;
mod terminal;
mod top;
mod train;
mod tunnel;
mod unpack;

use args::{Cli, Command};
use clap::{CommandFactory, FromArgMatches};
use oncewire_report::format;
use std::process::ExitCode;

/// Panics of a thread that reads a history file become an error, which says all there is to say.
#[cfg(unix)]
fn keep_quiet_on_corrupt_history() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(oncewire_net::history::THREAD) {
            others(panic);
        }
    }));
}

/// Runs the program with the arguments of this process.
pub fn run() -> ExitCode {
    #[cfg(unix)]
    keep_quiet_on_corrupt_history();
    let matches = args::with_negative_values(Cli::command())
        .try_get_matches()
        .unwrap_or_else(|error| usage(error));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| usage(error));
    // Which options were given, and which have defaults.
    let given = matches.subcommand().map(|(_, given)| given).expect("a command is required");
    let handles_signals = match cli.command {
        Command::Serve(_) | Command::Connect(_) => true,
        #[cfg(target_os = "linux")]
        Command::Link(_) | Command::Node(_) | Command::Controller(_) => true,
        Command::Study(_) | Command::Plan(_) | Command::Emulate(_) => true,
        Command::Profile(_) | Command::Route(_) => true,
        _ => false,
    };
    if !handles_signals {
        output::clean_up_on_signal();
    }
    let outcome = match &cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Keygen(args) => tunnel::keygen(args),
        Command::Ca(args) => ca::run(args),
        Command::Invite(args) => enroll::invite(args),
        Command::Enroll(args) => enroll::enroll(args),
        Command::Serve(_) => tunnel::serve(given),
        Command::Connect(_) => tunnel::connect(given),
        #[cfg(target_os = "linux")]
        Command::Link(_) => link::run(given),
        #[cfg(target_os = "linux")]
        Command::Node(_) => node::run(given),
        #[cfg(target_os = "linux")]
        Command::Controller(args) => controller::run(args, given),
        Command::Status(args) => status::run(args),
        Command::Top(args) => top::run(args),
        Command::Report(args) => report::run(args),
        Command::Store(args) => store::run(args),
        Command::CheckConfig(args) => check_config::run(args),
        Command::Pack(args) => pack::run(args),
        Command::Unpack(args) => unpack::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Study(args) => study::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Emulate(args) => plan::emulate::run(args),
        Command::Profile(args) => plan::profile::run(args),
        Command::Route(args) => route::run(args),
        Command::Index(args) => index::run(args),
        Command::Train(args) => train::run(args),
        Command::Man(args) => man::pages(args),
        Command::Completions(args) => man::completions(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // For example, the report was piped into `head`.
        Err(failure) if failure.reader_gone => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Prints help, the version, or what is wrong with the arguments, without a secret key among them.
fn usage(error: clap::Error) -> ! {
    // Help and the version.
    if !error.use_stderr() {
        error.exit();
    }
    // Redacts secret keys.
    failure::say(args::wording(&error).trim_end());
    std::process::exit(error.exit_code())
}
