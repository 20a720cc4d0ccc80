//! Where a study's results go.

use super::report::{csv, html, json};
use crate::args::StudyArgs;
use crate::endpoint::Output;
use crate::failure::Outcome;
use crate::{progress, report as output};
use oncewire_trace::results::Report;

/// Writes the results to wherever the user asked for them.
pub(super) fn write(args: &StudyArgs, found: &Report) -> Outcome {
    if let Some(path) = &args.report {
        let mut file = Output::create(Some(path))?;
        file.write(html::render(found).as_bytes())?;
        file.finish()?;
        progress::note(&format!("{}: the report", path.display()));
    }
    if let Some(directory) = &args.csv {
        let written = csv::write(found, directory)?;
        progress::note(&format!("{}: {} files", directory.display(), written.len()));
    }
    output::json(&json::document(found))
}
