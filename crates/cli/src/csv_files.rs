//! A directory of CSV files.

use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output};
use csv::{Terminator, Writer, WriterBuilder};
use std::fs;
use std::io;
use std::path::Path;

/// Files of one directory. They replace files of the same names when they are finished; other files
/// are left alone.
pub(crate) struct Files<'a> {
    dir: &'a Path,
    pub(crate) written: Vec<Output>,
}

impl Files<'_> {
    /// Creates the directory if it does not exist.
    pub(crate) fn new(dir: &Path) -> Outcome<Files<'_>> {
        fs::create_dir_all(dir)
            .map_err(|error| Failure::io("make the directory", dir.display(), &error))?;
        Ok(Files { dir, written: Vec::new() })
    }

    /// Writes one file.
    pub(crate) fn write(
        &mut self,
        name: String,
        fill: impl FnOnce(&mut Writer<&mut Output>) -> csv::Result<()>,
    ) -> Outcome {
        let mut output = Destination::within(self.dir, &name)?.open()?;
        let mut out = WriterBuilder::new()
            .terminator(Terminator::CRLF)
            .flexible(true)
            .from_writer(&mut output);
        let filled = fill(&mut out).map_err(io::Error::from).and_then(|()| out.flush());
        drop(out);
        filled.map_err(|error| output.failure(&error))?;
        self.written.push(output);
        Ok(())
    }
}
