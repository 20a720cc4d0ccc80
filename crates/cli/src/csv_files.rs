//! Results as a directory of CSV files (RFC 4180).
//!
//! Numbers are plain: shares are of one, times in seconds, sizes in bytes. What was not measured is an empty field.

use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output};
use csv::{Terminator, Writer, WriterBuilder};
use oncewire_trace::results::{Cell, Table, Unit};
use std::fs;
use std::io;
use std::path::Path;

/// Files for one directory, which replace those of their names when they are finished. Other files there are left alone.
pub(crate) struct Files<'a> {
    dir: &'a Path,
    pub(crate) written: Vec<Output>,
}

impl Files<'_> {
    /// Makes the directory if there is none.
    pub(crate) fn new(dir: &Path) -> Outcome<Files<'_>> {
        fs::create_dir_all(dir).map_err(|error| Failure::io("make the directory", dir.display(), &error))?;
        Ok(Files { dir, written: Vec::new() })
    }

    /// Writes one file, for the place of one of that name.
    pub(crate) fn write(&mut self, name: String, fill: impl FnOnce(&mut Writer<&mut Output>) -> csv::Result<()>) -> Outcome {
        let mut output = Destination::within(self.dir, &name)?.open()?;
        let mut out = WriterBuilder::new().terminator(Terminator::CRLF).flexible(true).from_writer(&mut output);
        let filled = fill(&mut out).map_err(io::Error::from).and_then(|()| out.flush());
        drop(out);
        filled.map_err(|error| output.failure(&error))?;
        self.written.push(output);
        Ok(())
    }
}

/// A heading, and a line for every row.
pub(crate) fn table<W: io::Write>(table: &Table, out: &mut Writer<W>) -> csv::Result<()> {
    out.write_record(table.columns.iter().map(|column| heading(&column.name, column.unit)))?;
    for row in &table.rows {
        out.write_record(row.iter().map(field))?;
    }
    Ok(())
}

/// `savings (share)`: a name and the unit of the plain numbers below it.
pub(crate) fn heading(name: &str, unit: Unit) -> String {
    let unit = match unit {
        Unit::Text | Unit::Number => return name.to_owned(),
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
        Unit::Seconds => "s",
        Unit::BitsPerSecond => "bit/s",
    };
    format!("{name} ({unit})")
}

pub(crate) fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(value) => number(*value),
        Cell::None => String::new(),
    }
}

pub(crate) fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}
