//! `oncewire report`: what processes carried and saved, from their histories.

mod document;
mod live;
mod present;
mod sums;

use crate::args::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Destination};
use crate::{progress, status, stdout, terminal};
pub(crate) use live::pages;
use oncewire_net::history::{self, HistoryError, SECONDS};
use oncewire_net::status::Document;
use oncewire_report::html::{self, Texts};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use sums::Sums;

/// What the page for browsers calls its first section.
pub(crate) const TEXTS: Texts = Texts { summary: "Summary", numbers: "--json" };

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    if args.report.as_deref() == Some(Path::new("-")) {
        return Err(Failure::usage(
            "--report writes a file, standard output has the summary; name a file",
        ));
    }
    let file = match &args.history {
        Some(file) => file.clone(),
        None => running(args.socket.as_ref())?,
    };
    let mut outputs = output::Outputs::beside([file.as_path()])?;
    let page =
        args.report.as_deref().map(|path| outputs.file("--report", Some(path))).transpose()?;
    let recorded = history::read(&file).map_err(|error| failure(&file, &error))?;
    let until =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let since = until.saturating_sub(args.since.as_secs());
    let records = match args.since.as_secs() <= SECONDS as u64 {
        true => recorded.seconds,
        false => recorded.minutes,
    };
    let sums = Sums::of(&records, since, until);
    let of = file.display().to_string();
    let report = present::report(&sums, args.price.as_ref(), &of);
    if let (Some(page), Some(path)) = (page, &args.report) {
        let mut page = Destination::open(page)?;
        page.write(html::render_with(&report, &TEXTS).as_bytes())?;
        page.finish()?;
        progress::note(&format!("{}: the report; open it in a browser", path.display()));
    }
    if args.json {
        return stdout::json(&document::document(&sums, args.price.as_ref(), &of));
    }
    terminal::print("--json", |page| page.report(&report))
}

fn failure(file: &Path, error: &HistoryError) -> Failure {
    let name = file.display();
    match error {
        HistoryError::Io(error) => Failure::io("read", name, error),
        error => Failure::damaged(format!("{name}: {error}")),
    }
}

/// The history file of the running process.
fn running(socket: Option<&PathBuf>) -> Outcome<PathBuf> {
    let sockets = status::sockets(socket)?;
    let mut files: Vec<PathBuf> = Vec::new();
    let mut failures = Vec::new();
    for socket in &sockets {
        let history = match status::document(socket) {
            Ok(Document::Tunnel(status)) => status.history,
            Ok(Document::Link(status)) => status.history,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        files.extend(history.map(|history| history.file.into()));
    }
    match &files[..] {
        [file] => Ok(file.clone()),
        [] if failures.len() == sockets.len() && !failures.is_empty() => {
            Err(failures.swap_remove(0))
        }
        [] => Err(Failure::failed(
            "the running process records no history: start it with --history FILE, or name a file with --history",
        )),
        files => {
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            Err(Failure::usage(format!(
                "several processes record a history; name one with --history: {}",
                names.join(", ")
            )))
        }
    }
}
