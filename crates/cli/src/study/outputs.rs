//! Outputs of a study.

use super::report::matches::MatchesWriter;
use super::report::{csv, json, present};
use crate::args::StudyArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output, finish};
use crate::{output, progress, stdout, terminal};
use oncewire_report::html;
use oncewire_trace::MatchSink;
use oncewire_trace::results::Report;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files written during or after the study; checked and opened before it, so that a wrong name is
/// reported at once.
pub(super) struct Outputs {
    report: Option<Output>,
    matches: Option<Arc<Mutex<MatchesWriter>>>,
}

impl Outputs {
    /// Opens the files of a study that reads `captures`.
    pub(super) fn open(args: &StudyArgs, captures: &[&Path]) -> Outcome<Outputs> {
        if args.report.as_deref().is_some_and(|path| path == Path::new("-")) {
            return Err(Failure::usage(
                "--report writes a file for a browser, and standard output has the summary; pass --report FILE",
            ));
        }
        let inputs =
            captures.iter().copied().chain(args.prefixes.as_deref()).chain(args.sampler.file());
        let mut outputs = output::Outputs::beside(inputs)?;
        let mut file = |option, path: &Option<PathBuf>| {
            path.as_deref().map(|path| outputs.file(option, Some(path))).transpose()
        };
        let (report, matches) =
            (file("--report", &args.report)?, file("--matches", &args.matches)?);
        if let Some(directory) = &args.csv {
            outputs.directory("--csv", directory, csv::is_ours)?;
            std::fs::create_dir_all(directory)
                .map_err(|error| Failure::io("make the directory", directory.display(), &error))?;
        }
        let matches = matches
            .zip(args.matches.as_deref())
            .map(|(destination, path)| MatchesWriter::create(path, destination))
            .transpose()?;
        let report = report.map(Destination::open).transpose()?;
        Ok(Outputs { report, matches: matches.map(|writer| Arc::new(Mutex::new(writer))) })
    }

    /// Receives every match.
    pub(super) fn sink(&self) -> Option<MatchSink> {
        let matches = Arc::clone(self.matches.as_ref()?);
        Some(Box::new(move |rows| {
            let mut writer = matches.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write(rows).map_err(|failure| failure.message)
        }))
    }

    /// Writes the results of the finished study.
    pub(super) fn write(self, args: &StudyArgs, found: &Report) -> Outcome {
        let note = |path: &Path, what: &str| progress::note(&format!("{}: {what}", path.display()));
        let mut written = Vec::new();
        if let (Some(path), Some(matches)) = (&args.matches, self.matches.and_then(Arc::into_inner))
        {
            let (file, rows) =
                matches.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
            written.push(file);
            note(path, &format!("{rows} matches"));
        }
        if let (Some(path), Some(mut file)) = (&args.report, self.report) {
            file.write(html::render(&present::report(found)).as_bytes())?;
            written.push(file);
            note(path, "the report; open it in a browser");
        }
        if let Some(directory) = &args.csv {
            let files = csv::write(found, directory)?;
            note(directory, &format!("{} files", files.len()));
            written.extend(files);
        }
        finish(written)?;
        if args.json {
            return stdout::json(&json::document(found));
        }
        terminal::print("--csv", |page| match args.figures.is_empty() {
            true => present::overview(page, found),
            false => present::full(page, found),
        })
    }
}
