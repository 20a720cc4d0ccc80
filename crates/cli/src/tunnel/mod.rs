//! `oncewire keygen`, `serve`, `connect`, `status` and `check-config`.

mod config;
mod document;
mod file;
mod log;

pub(crate) use document::FORMAT as STATUS_FORMAT;

use crate::args::{CheckConfigArgs, KeygenArgs, StatusArgs};
use crate::failure::{Failure, Outcome, note, without_number};
use crate::quantity::{binary, size};
use crate::{stdout, terminal};
use clap::ArgMatches;
use config::Process;
pub(crate) use file::Options;
use log::{Fields, Log};
use oncewire_net::NetError;
use oncewire_net::daemon::{self, Daemon, Role};
use oncewire_net::keys::{PublicKey, SecretKey, SecretKeyError};
use oncewire_net::status::Status;
use oncewire_session::ConfigError;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// The directory for sockets of this user's processes, if the system has one.
pub(crate) fn runtime_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())
}

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
    let (config, process) = config::serve(&Options::read(given)?)?;
    let (given, base) = (given.clone(), config.endpoint.egress.clone());
    let reload = move || {
        let rules = Options::read(&given).and_then(|options| config::egress(&options, &base));
        rules.map(Some).map_err(|failure| failure.message)
    };
    run(Role::Serve(config), process, Box::new(reload))
}

pub(crate) fn connect(given: &ArgMatches) -> Outcome {
    let (config, process) = config::connect(&Options::read(given)?)?;
    run(Role::Connect(config), process, Box::new(|| Ok(None)))
}

/// Starts to log on standard error.
pub(crate) fn start_log(level: LevelFilter, json: bool) -> Log {
    let log = Log::start();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_max_level(level).with_ansi(false);
    // Cannot fail: the process has no other subscriber.
    let _ = if json {
        subscriber.json().try_init()
    } else {
        subscriber.fmt_fields(Fields).with_target(false).try_init()
    };
    log
}

type Reload = Box<dyn Fn() -> Result<Option<oncewire_net::Egress>, String> + Send + Sync>;

fn run(role: Role, process: Process, reload: Reload) -> Outcome {
    let log = start_log(process.log, process.log_json);
    let ready = |status: &Status| {
        for address in &status.listening {
            tracing::info!(role = status.role, %address, key = %status.key, "listening");
        }
    };
    let daemon = Daemon {
        status: process.status,
        drain: process.drain,
        render: document::render,
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

pub(crate) fn check_config(args: &CheckConfigArgs) -> Outcome {
    let (found, warnings) = config::describe(args.role, &args.file)?;
    if args.json {
        return stdout::json(
            &serde_json::json!({ "file": args.file, "good": true, "warnings": warnings }),
        );
    }
    let warnings: String = warnings.iter().map(|what| format!("warning: {what}\n")).collect();
    stdout::text(&format!("{}: {found}\n{warnings}", args.file.display()))
}

/// Status sockets of the systemd units in `docs/examples`.
const UNITS: [&str; 3] = [
    "/run/oncewire-serve/status.sock",
    "/run/oncewire-connect/status.sock",
    "/run/oncewire-link/status.sock",
];
/// Timeout for the answer of a running process.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer of a running process, in bytes. A session takes about 4 kB.
const LONGEST_STATUS: u64 = 1 << 30;

/// The status of the process with this socket.
fn ask(path: &Path) -> Outcome<serde_json::Value> {
    let name = path.display();
    let foreign = |why: &dyn std::fmt::Display| {
        Failure::failed(format!("{name} is not the status socket of a tunnel: {why}"))
    };
    let read = || {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = Vec::new();
        stream.take(LONGEST_STATUS).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused
            if !path.metadata().is_ok_and(|file| file.file_type().is_socket()) =>
        {
            foreign(&"it is not a socket")
        }
        io::ErrorKind::ConnectionRefused => Failure::failed(format!(
            "no process answers on {name}: the one that made this socket has ended"
        )),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::failed(format!(
            "the process with the socket {name} did not answer within {} s",
            PATIENCE.as_secs()
        )),
        _ => Failure::io("ask", &name, &error),
    })?;
    let document: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| foreign(&error))?;
    match document["format"].as_u64() {
        Some(document::FORMAT) => Ok(document),
        Some(other) => Err(Failure::failed(format!(
            "the process with the socket {name} writes its status in format {other}, but this program reads format {}; use the program of that process",
            document::FORMAT
        ))),
        None => Err(foreign(&"its answer has no format")),
    }
}

/// Prints the status of a tunnel or of a link.
fn show<W: io::Write>(
    document: &serde_json::Value,
    page: &mut terminal::Page<'_, W>,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if document["role"] == "link" {
        return crate::link::show(document, page);
    }
    document::show(document, page)
}

pub(crate) fn status(args: &StatusArgs) -> Outcome {
    let sockets = match &args.socket {
        Some(path) => vec![path.clone()],
        None => {
            let own = runtime_dir().into_iter().flat_map(|dir| {
                ["oncewire-serve.sock", "oncewire-connect.sock", "oncewire-link.sock"]
                    .map(|name| dir.join(name))
            });
            let places: Vec<PathBuf> = own.chain(UNITS.map(PathBuf::from)).collect();
            let found: Vec<PathBuf> = places.iter().filter(|path| path.exists()).cloned().collect();
            if found.is_empty() {
                let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
                return Err(Failure::failed(format!(
                    "no running `oncewire serve`, `oncewire connect` or `oncewire link` found at {}; if one has another --status socket, pass --socket PATH",
                    places.join(", ")
                )));
            }
            found
        }
    };
    let (mut documents, mut failures) = (Vec::new(), Vec::new());
    for path in &sockets {
        match ask(path) {
            Ok(document) => documents.push(document),
            Err(failure) => failures.push(failure),
        }
    }
    // A socket that a killed process left behind does not hide the process that runs.
    if documents.is_empty() && !failures.is_empty() {
        return Err(failures.swap_remove(0));
    }
    failures.iter().for_each(|failure| note(&failure.message));
    if !args.json {
        return terminal::print("--json", |page| {
            documents.iter().enumerate().try_for_each(|(at, one)| {
                if at > 0 {
                    page.line("")?;
                }
                show(one, page)
            })
        });
    }
    stdout::json(&documents)
}
