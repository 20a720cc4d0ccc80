//! `oncewire keygen`, `serve` and `connect`.

mod admin;
mod config;
mod file;
mod https;
mod log;

use crate::args::KeygenArgs;
use crate::args::process::LogArgs;
use crate::failure::{Failure, Outcome, without_number};
use crate::quantity::{binary, size};
use crate::status::text as status_text;
use crate::stdout;
pub(crate) use admin::admin;
#[cfg(target_os = "linux")]
pub(crate) use admin::plain_admin;
use clap::ArgMatches;
use config::Process;
pub(crate) use config::{describe_client, describe_server};
pub(crate) use file::Options;
use log::{Fields, Log};
use oncewire_net::daemon::{self, Daemon, Role};
use oncewire_net::keys::{PublicKey, SecretKey, SecretKeyError};
use oncewire_net::proxy::Passwords;
use oncewire_net::status::Status;
use oncewire_net::store::{ContentStore, StoreError, StoreOptions};
use oncewire_net::{Endpoint, NetError, flows, supervisor};
use oncewire_session::ConfigError;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A secret key cannot be loaded or made.
pub(crate) fn key_failure(error: &SecretKeyError) -> Failure {
    let hint = match error {
        error if error.is_not_found() => {
            "; check the name, or make a key with `oncewire keygen FILE`"
        }
        _ => "",
    };
    Failure::failed(without_number(error) + hint)
}

/// The settings of a session cannot work.
fn session_failure(error: &ConfigError) -> Failure {
    match error {
        ConfigError::Memory { memory, least } => Failure::usage(format!(
            "{} of memory is too little for a session: use --memory {} or more",
            binary(*memory),
            size(least.next_multiple_of(1 << 20))
        )),
        _ => Failure::usage(error.to_string()),
    }
}

pub(crate) fn keygen(args: &KeygenArgs) -> Outcome {
    let failed = |error: SecretKeyError| key_failure(&error);
    let secret = if args.show {
        SecretKey::load(&args.file).map_err(|error| {
            if is_public(&args.file) {
                let file = args.file.display();
                return Failure::failed(format!(
                    "{file} holds a public key already; --show takes a file that `oncewire keygen FILE` wrote"
                ));
            }
            failed(error)
        })?
    } else {
        let secret = SecretKey::generate().map_err(failed)?;
        secret.save(&args.file).map_err(failed)?;
        secret
    };
    let public = secret.public().to_string();
    if args.json {
        return stdout::json(&serde_json::json!({ "public_key": public, "file": args.file }));
    }
    stdout::text(&format!("{public}\n"))
}

/// Whether a file begins with a public key.
fn is_public(path: &Path) -> bool {
    let mut start = String::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_string(&mut start));
    let first = start.split_whitespace().next().unwrap_or_default();
    read.is_ok() && first.parse::<PublicKey>().is_ok()
}

pub(crate) fn serve(given: &ArgMatches) -> Outcome {
    let options = Options::read(given)?;
    let (mut config, process) = config::serve(&options)?;
    if let Some(ended) = supervise(&process) {
        return ended;
    }
    config.endpoint.store = open_store(config::store(&options)?, &config.endpoint)?;
    let (given, base) = (given.clone(), config.endpoint.egress.clone());
    let reload = move || {
        let rules = Options::read(&given).and_then(|options| config::egress(&options, &base));
        rules.map(Some).map_err(|failure| failure.message)
    };
    run(Role::Serve(config), process, Box::new(reload))
}

pub(crate) fn connect(given: &ArgMatches) -> Outcome {
    let options = Options::read(given)?;
    let (mut config, process) = config::connect(&options)?;
    if let Some(ended) = supervise(&process) {
        return ended;
    }
    config.endpoint.store = open_store(config::store(&options)?, &config.endpoint)?;
    let warnings = config.https.as_ref().map(https::warnings).unwrap_or_default();
    for warning in warnings {
        crate::failure::note(warning);
    }
    let passwords = config.proxy_access.passwords.clone();
    let reload = move || {
        let reloaded = passwords.as_ref().map_or(Ok(()), Passwords::reload);
        reloaded.map(|()| None).map_err(|error| without_number(&error))
    };
    run(Role::Connect(config), process, Box::new(reload))
}

/// Runs a supervisor, if this process is one, to its end.
fn supervise(process: &Process) -> Option<Outcome> {
    if !process.drain_in_background || supervisor::is_worker() {
        return None;
    }
    Some(match supervisor::supervise() {
        Ok(0) => Ok(()),
        // The worker has said why.
        Ok(code) => std::process::exit(code.into()),
        Err(error) => Err(Failure::failed(without_number(&error))),
    })
}

/// Opens the caches on disk.
fn open_store(options: Option<StoreOptions>, endpoint: &Endpoint) -> Outcome<Option<ContentStore>> {
    let open = |options| ContentStore::open(options, &endpoint.secret);
    options.map(open).transpose().map_err(|error| store_failure(&error))
}

/// Caches on disk cannot be used.
pub(crate) fn store_failure(error: &StoreError) -> Failure {
    match error {
        StoreError::Header { .. } | StoreError::Log { .. } => {
            Failure::damaged(without_number(error))
        }
        _ => Failure::failed(without_number(error)),
    }
}

/// Starts to log on standard error; with `of_flows`, whatever the level, one line for each flow.
pub(crate) fn start_log(args: &LogArgs, of_flows: bool) -> Log {
    let log = Log::start();
    let lines = tracing_subscriber::fmt::layer().with_writer(log.clone()).with_ansi(false);
    let lines = if args.log_json {
        lines.json().boxed()
    } else {
        lines.fmt_fields(Fields).with_target(false).boxed()
    };
    let of_flows = if of_flows { LevelFilter::INFO } else { LevelFilter::OFF };
    let level = LevelFilter::from(args.log);
    let wanted = Targets::new().with_default(level).with_target(flows::TARGET, of_flows);
    // Cannot fail: the process has no other subscriber.
    let _ = tracing_subscriber::registry().with(lines.with_filter(wanted)).try_init();
    log
}

type Reload = Box<dyn Fn() -> Result<Option<oncewire_net::Egress>, String> + Send + Sync>;

fn run(role: Role, process: Process, reload: Reload) -> Outcome {
    let log = start_log(&process.logging, process.log_flows);
    let ready = |status: &Status| {
        for address in &status.listening {
            tracing::info!(role = status.role.name(), %address, key = %status.key, "listening");
        }
    };
    let daemon = Daemon {
        status: process.status,
        drain: process.drain,
        admin: process.admin,
        pages: crate::report::pages(process.price),
        history: process.history,
        render: |document| status_text::render(document),
        reload,
        ready: Box::new(ready),
    };
    let ended = daemon::run(role, daemon);
    log.flush();
    ended.map_err(|error| match error {
        NetError::Session(error) => session_failure(&error),
        NetError::Listen { .. } => Failure::failed(
            without_number(&error)
                + "; choose another address, or stop the process that uses this one",
        ),
        _ => Failure::failed(without_number(&error)),
    })
}
