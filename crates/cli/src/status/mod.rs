//! `oncewire status`, and what it is answered.

mod https;
mod link;
#[cfg(target_os = "linux")]
pub(crate) mod node;
pub(crate) mod text;
mod tunnel;

use crate::args::StatusArgs;
use crate::failure::{Failure, Outcome, note, without_number};
use crate::{stdout, terminal};
use oncewire_net::status::{Document, DocumentError, FORMAT, HistoryStatus};
use oncewire_report::{Cell, Report};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// The directory for sockets of this user's processes, if the system has one.
pub(crate) fn runtime_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())
}

fn foreign(socket: &Path, why: &dyn Display) -> Failure {
    let name = socket.display();
    Failure::failed(format!("{name} is not the status socket of a tunnel: {why}"))
}

/// The status of the process with this socket.
fn ask(path: &Path) -> Outcome<Value> {
    let name = path.display();
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
            foreign(path, &"it is not a socket")
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
    let document: Value = serde_json::from_slice(&text).map_err(|error| foreign(path, &error))?;
    match Document::check(&document) {
        Ok(()) => Ok(document),
        Err(DocumentError::Format(other)) => Err(Failure::failed(format!(
            "the process with the socket {name} writes its status in format {other}, but this program reads format {FORMAT}; use the program of that process"
        ))),
        Err(error) => Err(foreign(path, &error)),
    }
}

/// The status of the process with this socket, as plain data.
pub(crate) fn document(path: &Path) -> Outcome<Document> {
    Document::read(&ask(path)?).map_err(|error| foreign(path, &error))
}

/// The status of the process with this socket, for people.
fn report(path: &Path) -> Outcome<Report> {
    #[cfg(target_os = "linux")]
    if let document = ask(path)?
        && document["role"] == "node"
    {
        return node::report(&document).map_err(|error| foreign(path, &error));
    }
    match document(path)? {
        Document::Tunnel(status) => Ok(tunnel::report(&status)),
        Document::Link(status) => Ok(link::report(&status)),
    }
}

/// That nothing is recorded to the history file, if that is so.
fn history(status: &Option<HistoryStatus>) -> Option<String> {
    let HistoryStatus { file, failure, .. } = status.as_ref()?;
    let why = without_number(failure.as_ref()?);
    Some(format!("no history is recorded to {file}: {why}"))
}

/// Payload up to which a session's own messages, such as its handshake and reports, may outweigh
/// what is saved, in bytes.
const LITTLE: u64 = 64 << 10;

/// The share of the payload that was saved. A direction that carries little, or little but
/// acknowledgements, writes more than its payload, and the share says nothing.
fn saved(wire: u64, sent: u64) -> Cell {
    let says_nothing = sent == 0 || wire / 2 > sent || (wire > sent && sent < LITTLE);
    if says_nothing { Cell::None } else { stdout::savings(wire, sent).into() }
}

/// The sockets to ask: the one that was named, or those of running processes.
pub(crate) fn sockets(named: Option<&PathBuf>) -> Outcome<Vec<PathBuf>> {
    if let Some(path) = named {
        return Ok(vec![path.clone()]);
    }
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
    Ok(found)
}

/// What all of these sockets answer. One that a killed process left behind does not hide the process
/// that runs.
fn ask_all<T>(sockets: &[PathBuf], ask: fn(&Path) -> Outcome<T>) -> Outcome<Vec<T>> {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for path in sockets {
        match ask(path) {
            Ok(answer) => answers.push(answer),
            Err(failure) => failures.push(failure),
        }
    }
    if answers.is_empty() && !failures.is_empty() {
        return Err(failures.swap_remove(0));
    }
    failures.iter().for_each(|failure| note(&failure.message));
    Ok(answers)
}

pub(crate) fn run(args: &StatusArgs) -> Outcome {
    let sockets = sockets(args.socket.as_ref())?;
    if args.json {
        return stdout::json(&ask_all(&sockets, ask)?);
    }
    let reports = ask_all(&sockets, report)?;
    terminal::print("--json", |page| {
        reports.iter().enumerate().try_for_each(|(at, one)| {
            if at > 0 {
                page.line("")?;
            }
            page.answer(one)
        })
    })
}
