//! `oncewire index tune`: the model's choice for a device.

use super::measure::{Latencies, measure};
use crate::args::index::TuneArgs;
use crate::failure::{Failure, Outcome};
use crate::quantity::binary;
use crate::terminal::{Page, print};
use crate::{progress, stdout};
use oncewire_flash::device::FileDevice;
use oncewire_flash::format::{Geometry, Layout, List};
use oncewire_flash::model::{Costs, Kind, Tuning, best_buffers};
use oncewire_report::{Cell, Table, Unit, format};
use serde::Serialize;
use std::io;
use std::path::Path;

/// Sizes of a buffer that an index can have, in bytes.
const BUFFERS: [u64; 5] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
/// Shares of memory for buffers to compare with.
const SHARES: [f64; 5] = [0.05, 0.125, 0.25, 0.5, 0.75];
/// Smallest device that can be measured, in bytes.
const SMALLEST: u64 = 8 << 20;

#[derive(Debug, Serialize)]
struct Document {
    format: &'static str,
    device: String,
    /// Whether reads and writes bypassed the page cache; none for published costs.
    direct: Option<bool>,
    measured: Vec<Latencies>,
    page_read_seconds: f64,
    flash_bytes: u64,
    memory_bytes: u64,
    /// Bytes of flash for an entry.
    entry_bytes: f64,
    choice: Choice,
    by_memory_for_buffers: Vec<Division>,
    by_buffer: Vec<Buffer>,
}

#[derive(Debug, Serialize)]
struct Choice {
    buffer_bytes: u64,
    #[serde(flatten)]
    division: Division,
    super_tables: u64,
    entries: f64,
}

/// A division of the memory.
#[derive(Debug, Serialize)]
struct Division {
    buffers_bytes: u64,
    filters_bytes: u64,
    incarnations: f64,
    filter_bits_per_entry: f64,
    hash_functions: f64,
    /// Pages that a look-up of an absent key reads.
    spurious_reads: f64,
    /// Seconds of these.
    look_up_seconds: f64,
}

/// A size of a buffer.
#[derive(Debug, Serialize)]
struct Buffer {
    buffer_bytes: u64,
    mean_insert_seconds: f64,
    slowest_insert_seconds: f64,
}

pub(crate) fn run(args: &TuneArgs) -> Outcome {
    let entry = entry_bytes(args)?;
    let least = best_buffers(args.flash as f64, entry);
    if least.is_nan() || least + 1.0 > args.memory as f64 {
        return Err(Failure::usage(format!(
            "--memory {} is too little: an index of {} needs {} for its buffers alone, and filters besides; try {}",
            binary(args.memory),
            binary(args.flash),
            binary(least as u64),
            binary((4.0 * least) as u64),
        )));
    }
    let (device, direct, measured, costs) = match (&args.place, args.like) {
        (Some(place), _) => {
            let device = open(place, args)?;
            let found = measure(&device, args.time)
                .map_err(|error| Failure::failed(format!("{}: {error}", place.display())))?;
            if !device.is_direct() {
                progress::note(
                    "this file system has no direct access: the costs are those of its cache",
                );
            }
            (place.display().to_string(), Some(device.is_direct()), found.rows, found.costs)
        }
        (None, Some(like)) => {
            let (name, costs) = super::costs(like);
            (name.to_owned(), None, Vec::new(), costs)
        }
        (None, None) => {
            return Err(Failure::usage("name a directory to measure in, or a device with --like"));
        }
    };
    let document = document(args, entry, device, direct, measured, &costs);
    if args.json {
        return stdout::json(&document);
    }
    print("--json", |page| show(page, &document, args))
}

/// Bytes of flash that an entry takes in a buffer that is half full.
fn entry_bytes(args: &TuneArgs) -> Outcome<f64> {
    let (pages, list) = (32, List::Shared);
    let (key, value) = (usize::from(args.key), usize::from(args.value));
    let geometry = Geometry::fit(1 << 40, 1, pages, key, value, list, Layout::Published)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(geometry.slot_bytes() as f64 / f64::from(geometry.capacity()))
}

/// A temporary file in a directory, or a device that may be overwritten.
fn open(place: &Path, args: &TuneArgs) -> Outcome<FileDevice> {
    let failed = |error: &io::Error| Failure::io("open", place.display(), error);
    let metadata = std::fs::metadata(place).map_err(|error| failed(&error))?;
    if metadata.is_dir() {
        if args.test_size < SMALLEST {
            return Err(Failure::usage(format!(
                "--test-size {}: use {} or more",
                binary(args.test_size),
                binary(SMALLEST)
            )));
        }
        return FileDevice::temporary(place, args.test_size)
            .map_err(|error| Failure::io("make a temporary file in", place.display(), &error));
    }
    if !args.overwrite {
        return Err(Failure::usage(format!(
            "{} would be overwritten to measure it: name a directory, or add --overwrite",
            place.display()
        )));
    }
    let device = FileDevice::open(place, SMALLEST).map_err(|error| failed(&error))?;
    Ok(device)
}

fn document(
    args: &TuneArgs,
    entry: f64,
    device: String,
    direct: Option<bool>,
    measured: Vec<Latencies>,
    costs: &Costs,
) -> Document {
    let by_buffer: Vec<Buffer> = BUFFERS
        .into_iter()
        .map(|buffer| Buffer {
            buffer_bytes: buffer,
            mean_insert_seconds: costs.mean_insert(buffer, entry),
            slowest_insert_seconds: costs.worst_insert(buffer),
        })
        .collect();
    let buffer = choose(&by_buffer, costs, args.slowest.as_secs_f64());
    let division = |buffers: f64| {
        let flash = args.flash as f64;
        let filters = args.memory as f64 - buffers;
        let tuning = Tuning { flash, entry, buffers, filters };
        Division {
            buffers_bytes: buffers as u64,
            filters_bytes: filters as u64,
            incarnations: tuning.incarnations(),
            filter_bits_per_entry: tuning.bits(),
            hash_functions: tuning.hashes().round().max(1.0),
            spurious_reads: tuning.spurious_reads(),
            look_up_seconds: tuning.look_up(costs.page_read()),
        }
    };
    let super_tables = (best_buffers(args.flash as f64, entry) / buffer as f64).round().max(1.0);
    let best = (super_tables * buffer as f64).min(args.memory as f64);
    Document {
        format: "oncewire-index-tune/1",
        device,
        direct,
        measured,
        page_read_seconds: costs.page_read(),
        flash_bytes: args.flash,
        memory_bytes: args.memory,
        entry_bytes: entry,
        choice: Choice {
            buffer_bytes: buffer,
            division: division(best),
            super_tables: super_tables as u64,
            entries: args.flash as f64 / entry,
        },
        by_memory_for_buffers: SHARES
            .into_iter()
            .map(|share| division((share * args.memory as f64).max(buffer as f64)))
            .collect(),
        by_buffer,
    }
}

/// On a chip, an erase block; else the largest buffer whose write is not slower than wanted, since
/// larger ones make the mean insert cheaper.
fn choose(buffers: &[Buffer], costs: &Costs, slowest: f64) -> u64 {
    if let Kind::Chip { block, .. } = costs.kind {
        return block;
    }
    let fast = buffers.iter().rfind(|buffer| buffer.slowest_insert_seconds <= slowest);
    fast.map_or(BUFFERS[0], |buffer| buffer.buffer_bytes)
}

fn show<W: io::Write>(
    page: &mut Page<'_, W>,
    document: &Document,
    args: &TuneArgs,
) -> io::Result<()> {
    let choice = &document.choice;
    let division = &choice.division;
    page.headline(&format!(
        "Use {} for buffers and {} for filters, in buffers of {}.",
        binary(division.buffers_bytes),
        binary(division.filters_bytes),
        binary(choice.buffer_bytes)
    ))?;
    page.line("")?;
    let number = format::number;
    let chosen = document.by_buffer.iter().find(|row| row.buffer_bytes == choice.buffer_bytes);
    let (mean, worst) = chosen
        .map_or((f64::NAN, f64::NAN), |row| (row.mean_insert_seconds, row.slowest_insert_seconds));
    page.facts(&[
        (
            "device",
            format!(
                "{}, {} to read a page",
                document.device,
                number(document.page_read_seconds, Unit::Seconds)
            ),
        ),
        (
            "entries",
            format!(
                "{} on {}, at {:.1} bytes each in tables that are half full",
                number(choice.entries.round(), Unit::Count),
                binary(document.flash_bytes),
                document.entry_bytes
            ),
        ),
        (
            "super tables",
            format!(
                "{}, each with {:.0} incarnations",
                number(choice.super_tables as f64, Unit::Count),
                division.incarnations
            ),
        ),
        (
            "look-up",
            format!(
                "{} spurious reads, {}; filters of {:.1} bits an entry",
                number(division.spurious_reads, Unit::Number),
                number(division.look_up_seconds, Unit::Seconds),
                division.filter_bits_per_entry
            ),
        ),
        (
            "insert",
            format!(
                "{} in the mean, {} at most",
                number(mean, Unit::Seconds),
                number(worst, Unit::Seconds)
            ),
        ),
    ])?;
    if division.spurious_reads > 1.0 {
        page.line("")?;
        page.wrapped(
            "",
            "The filters are too small to be useful: add memory, or make the index smaller.",
        )?;
    }
    page.line("")?;
    page.table(&memory_table(document, args))?;
    page.line("")?;
    page.table(&buffer_table(document))?;
    if !document.measured.is_empty() {
        page.line("")?;
        page.table(&measured_table(document))?;
    }
    page.line("")?;
    page.dim("Costs of input and output by the model; `index bench` measures an index.")
}

fn memory_table(document: &Document, args: &TuneArgs) -> Table {
    let row = |division: &Division, note: &str| -> Vec<Cell> {
        vec![
            binary(division.buffers_bytes).into(),
            division.incarnations.into(),
            division.filter_bits_per_entry.into(),
            division.spurious_reads.into(),
            division.look_up_seconds.into(),
            note.into(),
        ]
    };
    let choice = &document.choice.division;
    let mut rows = vec![(choice.buffers_bytes, row(choice, "chosen"))];
    rows.extend(document.by_memory_for_buffers.iter().map(|it| (it.buffers_bytes, row(it, ""))));
    rows.sort_by_key(|(buffers, _)| *buffers);
    Table::new(
        "memory",
        format!(
            "Look-ups of absent keys, by the part of {} that is for buffers",
            binary(args.memory)
        ),
        &[
            ("buffers", Unit::Text),
            ("incarnations", Unit::Number),
            ("bits/entry", Unit::Number),
            ("spurious reads", Unit::Number),
            ("time", Unit::Seconds),
            ("", Unit::Text),
        ],
        rows.into_iter().map(|(_, row)| row).collect(),
    )
}

fn buffer_table(document: &Document) -> Table {
    let row = |row: &Buffer| -> Vec<Cell> {
        let chosen = row.buffer_bytes == document.choice.buffer_bytes;
        vec![
            binary(row.buffer_bytes).into(),
            row.mean_insert_seconds.into(),
            row.slowest_insert_seconds.into(),
            if chosen { "chosen" } else { "" }.into(),
        ]
    };
    Table::new(
        "buffer",
        "Inserts, by the size of a buffer",
        &[
            ("buffer", Unit::Text),
            ("mean", Unit::Seconds),
            ("slowest", Unit::Seconds),
            ("", Unit::Text),
        ],
        document.by_buffer.iter().map(row).collect(),
    )
}

fn measured_table(document: &Document) -> Table {
    let row = |row: &Latencies| -> Vec<Cell> {
        vec![
            row.operation.into(),
            binary(row.bytes).into(),
            row.operations.into(),
            row.mean_seconds.into(),
            row.median_seconds.into(),
            row.p99_seconds.into(),
        ]
    };
    Table::new(
        "measured",
        "The device, one operation at a time",
        &[
            ("operation", Unit::Text),
            ("size", Unit::Text),
            ("count", Unit::Count),
            ("mean", Unit::Seconds),
            ("median", Unit::Seconds),
            ("p99", Unit::Seconds),
        ],
        document.measured.iter().map(row).collect(),
    )
}
