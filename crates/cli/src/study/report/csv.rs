//! A study as a directory of CSV files (RFC 4180): one for each table and each chart, and
//! `accounting.csv`.
//!
//! Numbers are plain: shares are fractions of 1, times are in seconds and sizes in bytes. A field
//! without a measurement is empty.

use crate::csv_files::Files;
use crate::failure::Outcome;
use crate::output::Output;
use csv::Writer;
use oncewire_report::{Chart, Figure, Table, csv as present};
use oncewire_trace::results::{Accounting, Report};
use std::io;
use std::path::Path;

/// Whether a file of this name may have been written by [`write()`].
pub(crate) fn is_ours(name: &str) -> bool {
    let numbered = name.split_once('-').is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    name == ACCOUNTING || numbered && name.ends_with(".csv")
}

const ACCOUNTING: &str = "accounting.csv";

/// Writes the files into `dir`, and creates it if necessary. Files of an earlier study are replaced
/// once the new ones are complete; other files are left alone.
///
/// # Errors
///
/// If the directory or a file cannot be written.
pub(crate) fn write(report: &Report, dir: &Path) -> Outcome<Vec<Output>> {
    let mut files = Files::new(dir)?;
    files.write(ACCOUNTING.into(), |out| accounting(&report.accounting, out))?;
    for figure in &report.figures {
        files.figure(figure)?;
    }
    Ok(files.written)
}

/// Writes the files of one figure, under the names that [`write()`] uses.
///
/// # Errors
///
/// If the directory or a file cannot be written.
pub(crate) fn figure(figure: &Figure, dir: &Path) -> Outcome<Vec<Output>> {
    let mut files = Files::new(dir)?;
    files.figure(figure)?;
    Ok(files.written)
}

impl Files<'_> {
    fn figure(&mut self, figure: &Figure) -> Outcome {
        for one in &figure.tables {
            self.write(name_of_table(figure, one), |out| present::table(one, out))?;
        }
        for one in &figure.charts {
            self.write(name_of_chart(figure, one), |out| present::chart(one, out))?;
        }
        Ok(())
    }
}

/// `04-sizes-matches.csv`.
fn name_of_table(figure: &Figure, table: &Table) -> String {
    format!("{:02}-{}-{}.csv", figure.number, figure.id, table.id)
}

/// `04-sizes-chart-matches.csv`.
fn name_of_chart(figure: &Figure, chart: &Chart) -> String {
    format!("{:02}-{}-chart-{}.csv", figure.number, figure.id, chart.id)
}

fn accounting<W: io::Write>(accounting: &Accounting, out: &mut Writer<W>) -> csv::Result<()> {
    out.write_record(["part", "name", "packets (count)", "wire bytes (bytes)"])?;
    let Accounting { used, unused, bytes, layers, .. } = accounting;
    for (part, shares) in [("used", used), ("unused", unused), ("bytes", bytes), ("layers", layers)]
    {
        for share in shares {
            out.write_record([
                part,
                &share.name,
                &share.packets.to_string(),
                &share.bytes.to_string(),
            ])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::output::finish;
    use oncewire_report::Cell;
    use std::fs;

    #[test]
    fn a_file_for_every_table_and_chart_and_others_untouched() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a/b");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("mine.txt"), "mine").unwrap();
        let report = sample::report();
        let written = write(&report, &dir).unwrap();
        let count = written.len();
        assert_eq!(
            fs::read_dir(&dir)
                .unwrap()
                .filter(|entry| is_ours(&entry.as_ref().unwrap().file_name().to_string_lossy()))
                .count(),
            0
        );
        finish(written).unwrap();
        let parts: usize =
            report.figures.iter().map(|figure| figure.tables.len() + figure.charts.len()).sum();
        assert_eq!(count, parts + 1);
        let names = || {
            fs::read_dir(&dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        };
        assert_eq!(names().filter(|name| is_ours(name)).count(), count);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), parts + 2, "all names are different");
        assert_eq!(fs::read_to_string(dir.join("mine.txt")).unwrap(), "mine");
        // Writing twice gives the same files.
        finish(write(&report, &dir).unwrap()).unwrap();
        assert_eq!(names().count(), count + 1);
        // Every field is read back unchanged.
        let path = dir.join("01-algorithms-savings.csv");
        let mut reader = csv::ReaderBuilder::new().from_path(path).unwrap();
        assert_eq!(reader.headers().unwrap().get(2), Some("bytes in (bytes)"));
        let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
        let table = &report.figures[0].tables[0];
        let field = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(value) => value.to_string(),
            Cell::None => String::new(),
        };
        assert_eq!(rows.len(), table.rows.len());
        for (read, row) in rows.iter().zip(&table.rows) {
            assert_eq!(
                read.iter().map(str::to_owned).collect::<Vec<_>>(),
                row.iter().map(&field).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn an_unwritable_directory_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(
            write(&sample::report(), &file)
                .map(drop)
                .unwrap_err()
                .message
                .contains("cannot make the directory")
        );
    }
}
