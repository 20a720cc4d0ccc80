//! All matches of a study as one table: CSV, or Parquet with the feature `parquet`.

use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output};
use csv::{Terminator, WriterBuilder};
use oncewire_trace::results::MatchRow;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
mod parquet;

/// The columns, with the same names in both formats. `time` is in nanoseconds since the Unix epoch,
/// UTC; lengths and distances are in bytes.
const COLUMNS: [&str; 11] = [
    "time",
    "direction",
    "source",
    "destination",
    "source_port",
    "destination_port",
    "protocol",
    "packet_length",
    "length",
    "distance",
    "origin",
];

/// Writes rows to a file in bounded memory.
pub(crate) struct MatchesWriter {
    path: PathBuf,
    out: Format,
    rows: u64,
}

enum Format {
    Csv(Box<csv::Writer<Output>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Rows>),
}

impl MatchesWriter {
    /// Creates the file `path`, which was checked as `destination`. The format is Parquet if the
    /// name ends in `.parquet`, else CSV.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or if the format is Parquet and this program was built
    /// without it.
    pub(crate) fn create(path: &Path, destination: Destination) -> Outcome<MatchesWriter> {
        let wants_parquet =
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        if wants_parquet && !cfg!(feature = "parquet") {
            return Err(Failure::usage(format!(
                "cannot write {}: this oncewire was built without Parquet; name a .csv file, or build it with \
                 `cargo build --release --features parquet`",
                path.display()
            )));
        }
        let out = Format::new(destination.open()?, wants_parquet)
            .map_err(|error| Failure::io("write", path.display(), &error))?;
        Ok(MatchesWriter { path: path.into(), out, rows: 0 })
    }

    /// Appends rows.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn write(&mut self, rows: &[MatchRow]) -> Outcome {
        let done = match &mut self.out {
            Format::Csv(out) => rows
                .iter()
                .try_for_each(|row| {
                    out.write_record(record(row).iter().map(|field| field.as_bytes()))
                })
                .map_err(io::Error::from),
            #[cfg(feature = "parquet")]
            Format::Parquet(out) => out.write(rows),
        };
        self.rows += rows.len() as u64;
        done.map_err(|error| Failure::io("write", self.path.display(), &error))
    }

    /// Completes the file; before this, there is no file under its name. Returns the output, ready
    /// to be moved there, and the number of rows.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn finish(self) -> Outcome<(Output, u64)> {
        let done = match self.out {
            Format::Csv(out) => out.into_inner().map_err(|error| error.into_error()),
            #[cfg(feature = "parquet")]
            Format::Parquet(out) => out.finish(),
        };
        let output = done.map_err(|error| Failure::io("write", self.path.display(), &error))?;
        Ok((output, self.rows))
    }
}

impl Format {
    fn new(file: Output, _parquet: bool) -> io::Result<Format> {
        #[cfg(feature = "parquet")]
        if _parquet {
            return Ok(Format::Parquet(Box::new(parquet::Rows::new(file)?)));
        }
        let mut out = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(file);
        out.write_record(COLUMNS)?;
        Ok(Format::Csv(Box::new(out)))
    }
}

/// A row's fields in the order of [`COLUMNS`].
fn record(row: &MatchRow) -> [Cow<'static, str>; COLUMNS.len()] {
    [
        row.time.to_string().into(),
        row.direction.into(),
        row.source.to_string().into(),
        row.destination.to_string().into(),
        row.source_port.to_string().into(),
        row.destination_port.to_string().into(),
        protocol(row.protocol),
        row.packet_length.to_string().into(),
        row.length.to_string().into(),
        row.distance.to_string().into(),
        row.origin.into(),
    ]
}

fn protocol(number: u8) -> Cow<'static, str> {
    match number {
        6 => "tcp".into(),
        17 => "udp".into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    pub(super) fn row(at: u32) -> MatchRow {
        MatchRow {
            time: 1_772_438_400_000_000_000 + i64::from(at) * 1_001,
            direction: if at.is_multiple_of(3) { "inbound" } else { "outbound" },
            source: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + at % 1_000)),
            destination: IpAddr::V6(Ipv6Addr::from(u128::from(at) << 64 | 1)),
            source_port: at as u16,
            destination_port: u16::MAX - at as u16,
            protocol: [6, 17, 132][at as usize % 3],
            packet_length: 60 + at % 1_454,
            length: at.wrapping_mul(0x9e37_79b9),
            distance: u64::MAX - u64::from(at),
            origin: ["intra-flow", "inter-flow", "inter-host"][at as usize % 3],
        }
    }

    #[test]
    fn rows_as_csv() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("matches.csv");
        let mut writer =
            MatchesWriter::create(&path, Destination::within(place.path(), "matches.csv").unwrap())
                .unwrap();
        writer.write(&[row(0), row(1)]).unwrap();
        writer.write(&[]).unwrap();
        writer.write(&[row(2)]).unwrap();
        let (output, rows) = writer.finish().unwrap();
        assert_eq!(rows, 3);
        assert!(!path.exists());
        output.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], COLUMNS.join(","));
        assert_eq!(
            lines[2],
            "1772438400000001001,outbound,10.0.0.1,::1:0:0:0:1,1,65534,udp,61,2654435769,18446744073709551614,inter-flow"
        );
        assert!(lines[3].contains(",132,"));
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn parquet_needs_its_feature() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("matches.parquet");
        let destination = Destination::within(place.path(), "matches.parquet").unwrap();
        let failure = MatchesWriter::create(&path, destination).map(drop).unwrap_err();
        assert!(failure.message.contains("--features parquet"), "{}", failure.message);
        assert!(!path.exists());
    }
}
