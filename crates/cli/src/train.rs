//! `oncewire train`: trains a SAMPLEBYTE table on your traffic.

use crate::args::TrainArgs;
use crate::bench::read_all;
use crate::failure::{Failure, Outcome};
use crate::format::count_of;
use crate::output::{Destination, Outputs, is_standard};
use crate::quantity::bytes;
use crate::setup::config_failure;
use crate::{progress, stdout, terminal};
use oncewire_codec::ByteSet;
use oncewire_family::SamplerKind;
use oncewire_family::train::{Trained, Training, TrainingStep};
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// The results of one table.
#[derive(Serialize)]
struct Row {
    table: String,
    /// None for a sampler without a table.
    entries: Option<usize>,
    training_wire_bytes: u64,
    training_savings: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    test_wire_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test_savings: Option<f64>,
}

#[derive(Serialize)]
struct StepRow {
    byte: u8,
    presence: f64,
    wire_bytes: u64,
    kept: bool,
}

#[derive(Serialize)]
struct Document {
    training_bytes: u64,
    test_bytes: Option<u64>,
    redundant_bytes: u64,
    bytes: Vec<u8>,
    steps: Vec<StepRow>,
    tables: Vec<Row>,
}

pub(crate) fn run(args: &TrainArgs) -> Outcome {
    // Open outputs first, so that a wrong file name fails before hours of training.
    let mut outputs = Outputs::beside(args.files.iter().chain(&args.test).map(PathBuf::as_path))?;
    let output = args
        .output
        .as_deref()
        .map(|path| outputs.file("-o", Some(path)).and_then(Destination::open))
        .transpose()?;
    let data = read_all(&args.files)?;
    let test = if args.test.is_empty() { None } else { Some(read_all(&args.test)?) };
    if data.is_empty() || test.as_ref().is_some_and(Vec::is_empty) {
        return Err(Failure::failed("the files are empty; nothing to train on"));
    }
    // The cache holds everything, so that evictions do not affect the choice of markers.
    let longest = data.len().max(test.as_ref().map_or(0, Vec::len)) as u64;
    let training = Training {
        window: args.window,
        period: args.period,
        cache: args.cache.unwrap_or((longest + longest / 64 + (1 << 20)).min(4 << 30)),
        block: usize::try_from(args.block).unwrap_or(usize::MAX),
        min_gain: args.min_gain / 100.0,
        ..Training::default()
    };
    let bar = progress::bar(None);
    let trained = training
        .train(&data, |step| {
            bar.inc(data.len() as u64);
            bar.set_message(format!("{}", step.byte));
        })
        .map_err(config_failure)?;
    if trained.set.is_empty() {
        return Err(Failure::failed(
            "nothing in the files repeats, so there is nothing to learn; add more files or use others",
        ));
    }
    let tables = compare(&training, &trained, &data, test.as_deref(), args)?;
    bar.finish_and_clear();
    if let Some(mut output) = output {
        output.write(table_file(&trained, &training).as_bytes())?;
        output.finish()?;
        if is_standard(args.output.as_deref()) {
            return Ok(());
        }
    }
    if args.json {
        let step = |step: &TrainingStep| StepRow {
            byte: step.byte,
            presence: step.presence,
            wire_bytes: step.wire_bytes,
            kept: step.kept,
        };
        stdout::json(&Document {
            training_bytes: data.len() as u64,
            test_bytes: test.map(|test| test.len() as u64),
            redundant_bytes: trained.redundant_bytes,
            bytes: trained.set.iter().collect(),
            steps: trained.steps.iter().map(step).collect(),
            tables,
        })
    } else {
        let (training, test) = (data.len() as u64, test.map(|test| test.len() as u64));
        let report = report(&trained, &tables, training, test, args);
        terminal::print("--json", |page| page.answer(&report))
    }
}

/// Compares the trained table with EndRE's, with a sampler that needs no table, and with random
/// tables.
fn compare(
    training: &Training,
    trained: &Trained,
    data: &[u8],
    test: Option<&[u8]>,
    args: &TrainArgs,
) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |table: String, kind: SamplerKind| -> Outcome {
        let wire = |data| training.wire_bytes(data, kind.clone()).map_err(config_failure);
        let training_wire_bytes = wire(data)?;
        let test_wire_bytes = test.map(wire).transpose()?;
        rows.push(Row {
            table,
            entries: match &kind {
                SamplerKind::SampleByte(set) => Some(set.len()),
                _ => None,
            },
            training_wire_bytes,
            training_savings: stdout::savings(training_wire_bytes, data.len() as u64),
            test_wire_bytes,
            test_savings: test_wire_bytes
                .zip(test)
                .map(|(wire, test)| stdout::savings(wire, test.len() as u64)),
        });
        Ok(())
    };
    let samplebyte = SamplerKind::SampleByte;
    add("trained".into(), samplebyte(trained.set))?;
    add("EndRE's (samplebyte)".into(), SamplerKind::sample_byte())?;
    add("none (samplehash)".into(), SamplerKind::SampleHash)?;
    // EndRE: with x entries set at random, 256 / x = p.
    let entries = (256 / training.period).max(1);
    let mut state = 1;
    for number in 1..=args.random {
        add(format!("random {number}"), samplebyte(random_table(entries, &mut state)))?;
    }
    Ok(rows)
}

/// A random table from a deterministic sequence, so that reports can be repeated. Published figures
/// depend on the sequence; do not change it.
fn random_table(entries: usize, state: &mut u64) -> ByteSet {
    let mut set = ByteSet::new();
    while set.len() < entries {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        set.insert((*state >> 56) as u8);
    }
    set
}

/// The file that `--sampler samplebyte:FILE` reads.
fn table_file(trained: &Trained, training: &Training) -> String {
    let mut out = format!(
        "# Marker bytes for SAMPLEBYTE, trained by `oncewire train` at p = {}, w = {}.\n\
         # Share of the byte in redundant content; wire bytes of the training data with it and those above.\n",
        training.period, training.window
    );
    for step in trained.steps.iter().filter(|step| step.kept) {
        let _ = writeln!(
            out,
            "{:<3} # {}, {:.2} %, {}",
            step.byte,
            shown(step.byte),
            step.presence * 100.0,
            step.wire_bytes
        );
    }
    out
}

/// A byte in printable form.
fn shown(byte: u8) -> String {
    match byte {
        b' ' => "space".into(),
        b'!'..=b'~' => format!("'{}'", byte as char),
        _ => format!("0x{byte:02x}"),
    }
}

fn report(
    trained: &Trained,
    rows: &[Row],
    training: u64,
    test: Option<u64>,
    args: &TrainArgs,
) -> Report {
    let list = |kept| {
        let steps = trained
            .steps
            .iter()
            .filter(|step| step.kept == kept)
            .map(|step| shown(step.byte))
            .collect::<Vec<_>>();
        if steps.is_empty() { "none".into() } else { steps.join(" ") }
    };
    let share = trained.redundant_bytes as f64 * 100.0 / training as f64;
    let about = Section::new("about", "About")
        .text(format!(
            "{} of training data, of which MAXP finds {share:.1} % redundant.",
            bytes(training)
        ))
        .text(format!("Marker bytes, most frequent first: {}.", list(true)))
        .text(format!("Tried without gain: {}.", list(false)));
    let mut columns = vec![
        ("table", Unit::Text),
        ("entries", Unit::Count),
        ("training data", Unit::Bytes),
        ("saved", Unit::Share),
    ];
    if test.is_some() {
        columns.extend([("test data", Unit::Bytes), ("saved", Unit::Share)]);
    }
    let cells = |row: &Row| -> Vec<Cell> {
        let mut cells = vec![
            row.table.clone().into(),
            row.entries.map(|entries| entries as u64).into(),
            count_of(row.training_wire_bytes).into(),
            row.training_savings.into(),
        ];
        if let (Some(wire), Some(savings)) = (row.test_wire_bytes, row.test_savings) {
            cells.extend([count_of(wire).into(), savings.into()]);
        }
        cells
    };
    let table = Table::new("tables", "", &columns, rows.iter().map(cells).collect());
    let notes = Section::new("notes", "Notes")
        .text(format!(
            "Bytes of frames without an entropy stage, p = {}, w = {}.",
            args.period, args.window
        ))
        .text(match &args.output {
            Some(output) => {
                format!("Written to {0}; use it with --sampler samplebyte:{0}", output.display())
            }
            None => "The table was not saved; use -o FILE to save it.".into(),
        });
    let tables = Section::new("tables", "Tables").table(TableView::complete(table));
    let sections = vec![about, tables, notes];
    Report { kind: "Training", title: "SAMPLEBYTE".into(), sections, ..Report::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tables_have_the_requested_number_of_entries() {
        let mut state = 1;
        let tables: Vec<_> = (0..5).map(|_| random_table(8, &mut state)).collect();
        assert!(tables.iter().all(|table| table.len() == 8));
        assert!(tables[0] != tables[1]);
    }
}
