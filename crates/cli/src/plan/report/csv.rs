//! A plan as a directory of CSV files (RFC 4180): one for each table that has rows, `links.csv` for the links and so on.

use super::super::document::Document;
use super::tables;
use crate::csv_files::Files;
use crate::failure::Outcome;
use crate::output::Output;
use oncewire_report::csv;
use std::path::Path;

/// Whether a file of this name is one that [`write()`] writes.
pub(crate) fn is_ours(name: &str) -> bool {
    name.strip_suffix(".csv").is_some_and(|name| tables::IDS.contains(&name))
}

/// Writes the files into `dir`, which is made if there is none. Other files there are left alone; those of an earlier plan are replaced
/// when these are finished, also by tables without rows.
///
/// # Errors
///
/// If the directory or a file cannot be written.
pub(crate) fn write(document: &Document, dir: &Path) -> Outcome<Vec<Output>> {
    let mut files = Files::new(dir)?;
    for table in tables::all(document) {
        files.write(format!("{}.csv", table.id), |out| csv::table(&table, out))?;
    }
    Ok(files.written)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::output::finish;

    #[test]
    fn a_file_for_every_table_with_what_the_document_holds() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a/b");
        let document = sample::document();
        finish(write(&document, &dir).unwrap()).unwrap();
        let names = || {
            std::fs::read_dir(&dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        };
        assert_eq!(names().count(), tables::IDS.len());
        assert!(names().all(|name| is_ours(&name)));
        let read = |name: &str| {
            let mut reader = ::csv::ReaderBuilder::new().from_path(dir.join(name)).unwrap();
            let head = reader.headers().unwrap().clone();
            (head, reader.records().collect::<Result<Vec<_>, _>>().unwrap())
        };
        let (head, rows) = read("nodes.csv");
        assert_eq!(head.get(7), Some("enters and leaves per epoch (bytes)"));
        assert_eq!(rows.len(), document.nodes.len());
        assert_eq!(rows[0].get(1), Some(sample::HOSTILE));
        let (head, rows) = read("links.csv");
        assert_eq!(head.get(2), Some("before (bytes)"));
        assert_eq!(rows.len(), document.links.len());
        // The first link has infinitely many bytes: that is not a number.
        assert!(
            rows.iter()
                .flatten()
                .all(|field| !field.eq_ignore_ascii_case("nan")
                    && !field.eq_ignore_ascii_case("inf"))
        );
        // No table without rows keeps the lines of an earlier plan.
        finish(write(&sample::empty(), &dir).unwrap()).unwrap();
        assert_eq!(read("links.csv").1.len(), 0);
    }
}
