//! Match rows as Parquet: zstd, dictionaries for repeated values, row groups of bounded size.

use super::{COLUMNS, protocol};
use crate::output::Output;
use oncewire_trace::results::MatchRow;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Rows per row group. A buffered row takes 96 bytes, so one group takes at most 50 MB.
const GROUP: usize = 1 << 19;
/// Values encoded at a time.
const BATCH: usize = 8_192;

const SCHEMA: &str = "message matches {
    required int64 time (timestamp(nanos, true));
    required binary direction (string);
    required binary source (string);
    required binary destination (string);
    required int32 source_port (integer(16, false));
    required int32 destination_port (integer(16, false));
    required binary protocol (string);
    required int32 packet_length (integer(32, false));
    required int32 length (integer(32, false));
    required int64 distance (integer(64, false));
    required binary origin (string);
}";

/// Rows buffered for the current group, and the file.
pub(super) struct Rows {
    waiting: Vec<MatchRow>,
    group: usize,
    out: SerializedFileWriter<Output>,
}

impl Rows {
    pub(super) fn new(file: Output) -> io::Result<Rows> {
        Rows::with_group(file, GROUP)
    }

    fn with_group(file: Output, group: usize) -> io::Result<Rows> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(plain)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(plain)?))
            .set_created_by(concat!("oncewire ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let out = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(plain)?;
        Ok(Rows { waiting: Vec::new(), group, out })
    }

    pub(super) fn write(&mut self, mut rows: &[MatchRow]) -> io::Result<()> {
        while !rows.is_empty() {
            let (now, later) = rows.split_at(rows.len().min(self.group - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            rows = later;
            if self.waiting.len() == self.group {
                self.flush()?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<Output> {
        self.flush()?;
        self.out.into_inner().map_err(plain)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut group = self.out.next_row_group().map_err(plain)?;
        // In the order of the schema. Unsigned numbers keep their bits.
        let rows = &self.waiting[..];
        let text = |text: &'static str| ByteArray::from(text);
        let address = |address: IpAddr| ByteArray::from(address.to_string().as_str());
        for column in COLUMNS {
            match column {
                "time" => put::<Int64Type>(&mut group, rows, |row| row.time),
                "direction" => put::<ByteArrayType>(&mut group, rows, |row| text(row.direction)),
                "source" => put::<ByteArrayType>(&mut group, rows, |row| address(row.source)),
                "destination" => {
                    put::<ByteArrayType>(&mut group, rows, |row| address(row.destination))
                }
                "source_port" => put::<Int32Type>(&mut group, rows, |row| row.source_port.into()),
                "destination_port" => {
                    put::<Int32Type>(&mut group, rows, |row| row.destination_port.into())
                }
                "protocol" => put::<ByteArrayType>(&mut group, rows, |row| {
                    ByteArray::from(&*protocol(row.protocol))
                }),
                "packet_length" => {
                    put::<Int32Type>(&mut group, rows, |row| row.packet_length as i32)
                }
                "length" => put::<Int32Type>(&mut group, rows, |row| row.length as i32),
                "distance" => put::<Int64Type>(&mut group, rows, |row| row.distance as i64),
                _ => put::<ByteArrayType>(&mut group, rows, |row| text(row.origin)),
            }
            .map_err(plain)?;
        }
        group.close().map_err(plain)?;
        self.waiting.clear();
        Ok(())
    }
}

/// Writes the next column of a group.
fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Output>,
    rows: &[MatchRow],
    value: impl Fn(&MatchRow) -> T::T,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".into()));
    };
    let mut values = Vec::with_capacity(BATCH);
    for batch in rows.chunks(BATCH) {
        values.clear();
        values.extend(batch.iter().map(&value));
        column.typed::<T>().write_batch(&values, None, None)?;
    }
    column.close()
}

fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use crate::output::Destination;
    use parquet::basic::Type;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::fs::File;

    fn read(path: &std::path::Path) -> SerializedFileReader<File> {
        SerializedFileReader::new(File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn buffered_rows_are_bounded() {
        assert!(GROUP * size_of::<MatchRow>() <= 64_000_000);
    }

    #[test]
    fn columns_match_csv() {
        let schema = parse_message_type(SCHEMA).unwrap();
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, COLUMNS);
        assert_eq!(schema.get_fields()[0].get_physical_type(), Type::INT64);
    }

    #[test]
    fn rows_are_read_back() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("matches.parquet");
        let rows: Vec<MatchRow> = (0..2_500).map(row).collect();
        let output = Destination::within(place.path(), "matches.parquet").unwrap().open().unwrap();
        let mut writer = Rows::with_group(output, 1_000).unwrap();
        for batch in rows.chunks(700) {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap().finish().unwrap();
        let reader = read(&path);
        let groups: Vec<i64> =
            reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(groups, [1_000, 1_000, 500]);
        assert!(matches!(
            reader.metadata().row_group(0).column(1).compression(),
            Compression::ZSTD(_)
        ));
        let mut count = 0;
        for (read, row) in reader.get_row_iter(None).unwrap().zip(&rows) {
            let read = read.unwrap();
            let fields: Vec<&Field> = read.get_column_iter().map(|(_, field)| field).collect();
            let text = |text: &str| Field::Str(text.into());
            // `time` reads as a timestamp or as a plain number of nanoseconds.
            assert!(
                fields[0].to_string().contains("2026") || *fields[0] == Field::Long(row.time),
                "{}",
                fields[0]
            );
            assert_eq!(*fields[1], text(row.direction));
            assert_eq!(*fields[2], text(&row.source.to_string()));
            assert_eq!(*fields[3], text(&row.destination.to_string()));
            assert_eq!(*fields[4], Field::UShort(row.source_port));
            assert_eq!(*fields[5], Field::UShort(row.destination_port));
            assert_eq!(*fields[6], text(&protocol(row.protocol)));
            assert_eq!(*fields[7], Field::UInt(row.packet_length));
            assert_eq!(*fields[8], Field::UInt(row.length));
            assert_eq!(*fields[9], Field::ULong(row.distance));
            assert_eq!(*fields[10], text(row.origin));
            count += 1;
        }
        assert_eq!(count, rows.len());
    }

    #[test]
    fn no_rows_make_a_valid_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("matches.parquet");
        let destination = Destination::within(place.path(), "matches.parquet").unwrap();
        let (output, rows) =
            super::super::MatchesWriter::create(&path, destination).unwrap().finish().unwrap();
        assert_eq!(rows, 0);
        output.finish().unwrap();
        assert_eq!(read(&path).metadata().file_metadata().num_rows(), 0);
    }
}
