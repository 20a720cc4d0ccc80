//! Where a study's results go.

use super::report::matches::MatchesWriter;
use super::report::{csv, html, json, terminal};
use crate::args::StudyArgs;
use crate::endpoint::Output;
use crate::failure::{Failure, Outcome};
use crate::{progress, report as output};
use oncewire_trace::MatchSink;
use oncewire_trace::results::Report;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are written while or after the study runs; opened before it, so that a wrong name shows at once.
pub(super) struct Outputs {
    report: Option<Output>,
    matches: Option<Arc<Mutex<MatchesWriter>>>,
}

impl Outputs {
    pub(super) fn open(args: &StudyArgs) -> Outcome<Outputs> {
        if args.report.as_deref().is_some_and(|path| path == Path::new("-")) {
            return Err(Failure::usage("--report writes a file for a browser, standard output has the summary; name a file"));
        }
        let report = args.report.as_deref().map(|path| Output::create(Some(path))).transpose()?;
        if let Some(directory) = &args.csv {
            std::fs::create_dir_all(directory).map_err(|error| Failure::io("make the directory", directory.display(), &error))?;
        }
        let matches = args.matches.as_deref().map(MatchesWriter::create).transpose()?;
        Ok(Outputs { report, matches: matches.map(|writer| Arc::new(Mutex::new(writer))) })
    }

    /// What the study gives every match to.
    pub(super) fn sink(&self) -> Option<MatchSink> {
        let matches = Arc::clone(self.matches.as_ref()?);
        Some(Box::new(move |rows| {
            let mut writer = matches.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write(rows).map_err(|failure| failure.message)
        }))
    }

    /// Writes the results to wherever the user asked for them. The study has ended.
    pub(super) fn write(self, args: &StudyArgs, found: &Report) -> Outcome {
        let note = |path: &Path, what: &str| progress::note(&format!("{}: {what}", path.display()));
        if let (Some(path), Some(matches)) = (&args.matches, self.matches.and_then(Arc::into_inner)) {
            let rows = matches.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
            note(path, &format!("{rows} matches"));
        }
        if let (Some(path), Some(mut file)) = (&args.report, self.report) {
            file.write(html::render(found).as_bytes())?;
            file.finish()?;
            note(path, "the report; open it in a browser");
        }
        if let Some(directory) = &args.csv {
            let written = csv::write(found, directory)?;
            note(directory, &format!("{} files", written.len()));
        }
        if args.json {
            return output::json(&json::document(found));
        }
        let (width, colour) = crate::terminal::page();
        let mut text = Vec::new();
        terminal::write(found, &mut text, width, colour).map_err(|error| Failure::report(&error))?;
        output::text(&String::from_utf8_lossy(&text))
    }
}
