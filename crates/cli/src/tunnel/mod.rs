//! `oncewire keygen`, `serve`, `connect`, `status` and `check-config`.

mod config;
mod document;
mod log;

use crate::args::{CheckConfigArgs, ConnectArgs, EndpointArgs, KeygenArgs, RoleName, ServeArgs, StatusArgs};
use crate::failure::{Failure, Outcome, without_number};
use crate::{report, terminal};
use config::{File, Process};
use log::Log;
use oncewire_net::NetError;
use oncewire_net::daemon::{self, Daemon, Role};
use oncewire_net::keys::{SecretKey, SecretKeyError};
use oncewire_net::status::Status;
use oncewire_session::TooLittleMemory;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where sockets of this user's processes are, if the system says so.
fn runtime_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())
}

/// A secret key cannot be had.
fn key_failure(error: &SecretKeyError) -> Failure {
    let hint = match error {
        SecretKeyError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            "; check the name, or make a key with `oncewire keygen FILE`"
        }
        _ => "",
    };
    Failure::failed(without_number(error) + hint)
}

/// Memory that cannot work.
fn too_little(error: &TooLittleMemory) -> Failure {
    Failure::usage(format!("{error}; choose a larger --memory"))
}

pub(crate) fn keygen(args: &KeygenArgs) -> Outcome {
    let failed = |error: SecretKeyError| key_failure(&error);
    let secret = if args.show {
        SecretKey::load(&args.file).map_err(failed)?
    } else {
        let secret = SecretKey::generate().map_err(failed)?;
        secret.save(&args.file).map_err(failed)?;
        secret
    };
    let public = secret.public().to_string();
    if args.json {
        return report::json(&serde_json::json!({ "public_key": public, "file": args.file }));
    }
    report::text(&format!("{public}\n"))
}

pub(crate) fn serve(args: &ServeArgs) -> Outcome {
    let (config, process) = config::serve(args)?;
    let base = config.endpoint.way_out.clone();
    let again = ServeArgs {
        listen: Vec::new(),
        allow: args.allow.clone(),
        allow_listen: args.allow_listen.clone(),
        max_sessions: None,
        endpoint: EndpointArgs { config: args.endpoint.config.clone(), ..EndpointArgs::default() },
    };
    let reload = move || {
        let file = File::read(again.endpoint.config.as_deref(), RoleName::Serve).map_err(|failure| failure.message)?;
        config::way_out(&again, &file, &base).map(Some).map_err(|failure| failure.message)
    };
    run(Role::Serve(config), process, Box::new(reload))
}

pub(crate) fn connect(args: &ConnectArgs) -> Outcome {
    let (config, process) = config::connect(args)?;
    run(Role::Connect(config), process, Box::new(|| Ok(None)))
}

type Reload = Box<dyn Fn() -> Result<Option<oncewire_net::WayOut>, String> + Send + Sync>;

fn run(role: Role, process: Process, reload: Reload) -> Outcome {
    let log = Log::start();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_max_level(process.log).with_ansi(false);
    // There is no other in this process.
    let _ = if process.log_json { subscriber.json().try_init() } else { subscriber.with_target(false).try_init() };
    let ready = |status: &Status| {
        for address in &status.listening {
            tracing::info!(role = status.role, %address, key = %status.key, "listening");
        }
    };
    let daemon =
        Daemon { status: process.status, drain: process.drain, render: document::render, reload, ready: Box::new(ready) };
    let ended = daemon::run(role, daemon);
    log.flush();
    ended.map_err(|error| match error {
        NetError::Memory(error) => too_little(&error),
        NetError::Listen { .. } => {
            Failure::failed(without_number(&error) + "; choose another place, or end the process that has this one")
        }
        _ => Failure::failed(without_number(&error)),
    })
}

pub(crate) fn check_config(args: &CheckConfigArgs) -> Outcome {
    let endpoint = EndpointArgs { config: Some(args.file.clone()), ..EndpointArgs::default() };
    match args.role {
        RoleName::Serve => {
            let args = ServeArgs { listen: vec![], allow: vec![], allow_listen: vec![], max_sessions: None, endpoint };
            config::serve(&args).map(drop)?;
        }
        RoleName::Connect => {
            let args = ConnectArgs { server: None, forward: vec![], reverse: vec![], proxy: vec![], endpoint };
            config::connect(&args).map(drop)?;
        }
    }
    if args.json {
        return report::json(&serde_json::json!({ "file": args.file, "good": true }));
    }
    report::text(&format!("{}: good\n", args.file.display()))
}

/// Status sockets of the systemd units in `docs/examples`.
const UNITS: [&str; 2] = ["/run/oncewire-serve/status.sock", "/run/oncewire-connect/status.sock"];
/// How long a running process may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn status(args: &StatusArgs) -> Outcome {
    let sockets = match &args.socket {
        Some(path) => vec![path.clone()],
        None => {
            let own = runtime_dir()
                .into_iter()
                .flat_map(|dir| ["oncewire-serve.sock", "oncewire-connect.sock"].map(|name| dir.join(name)));
            let places: Vec<PathBuf> = own.chain(UNITS.map(PathBuf::from)).collect();
            let found: Vec<PathBuf> = places.iter().filter(|path| path.exists()).cloned().collect();
            if found.is_empty() {
                let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
                return Err(Failure::failed(format!(
                    "no running `oncewire serve` or `oncewire connect` found at {}; if one has another --status socket, name it with --socket PATH",
                    places.join(", ")
                )));
            }
            found
        }
    };
    let mut documents = Vec::new();
    for path in &sockets {
        let ask = || {
            let mut stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            std::io::Result::Ok(text)
        };
        let text = ask().map_err(|error| Failure::io("ask", path.display(), &error))?;
        let document: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| Failure::failed(format!("{} does not answer as a tunnel would: {error}", path.display())))?;
        documents.push(document);
    }
    if !args.json {
        return terminal::print("--json", |page| {
            documents.iter().enumerate().try_for_each(|(at, one)| {
                if at > 0 {
                    page.line("")?;
                }
                document::show(one, page)
            })
        });
    }
    report::json(&documents)
}
