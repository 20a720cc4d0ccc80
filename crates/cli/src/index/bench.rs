//! `oncewire index bench`: look-ups and inserts of a full index.

use super::measure::{Latencies, latencies};
use super::place::{self, Place, PlaceFacts};
use crate::args::index::{IndexBenchArgs, LayoutName, ListName};
use crate::failure::{Failure, Outcome};
use crate::quantity::binary;
use crate::stdout;
use crate::terminal::{Page, print};
use oncewire_flash::device::Chip;
use oncewire_flash::{
    Answer, Filter, Index, IndexError, Layout, List, OpenError, Options, OptionsBuilder,
};
use oncewire_kernels::random::SplitMix64;
use oncewire_report::{Table, Unit, format};
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Fewest look-ups by default.
const LOOK_UPS: usize = 20_000;
/// Bytes of a key, and of a value.
const KEY: usize = 8;

#[derive(Debug, Serialize)]
struct Document {
    format: &'static str,
    #[serde(flatten)]
    place: PlaceFacts,
    memory: Used,
    super_tables: u32,
    incarnations: u32,
    entries: u64,
    latencies: Vec<Latencies>,
    /// Share of look-ups that found their key.
    found: f64,
    /// Share of look-ups that read no page, one, two, and three or more.
    reads: [f64; 4],
    /// Pages read in vain, for each look-up.
    spurious_reads: f64,
    /// Bytes written to the device for each byte inserted, since the index was empty.
    written_per_inserted: f64,
}

#[derive(Debug, Serialize)]
struct Used {
    limit_bytes: u64,
    buffers_bytes: u64,
    filters_bytes: u64,
    tables_bytes: u64,
    deletes_bytes: u64,
    bytes_per_entry: f64,
}

/// The index, and its clock.
struct Run {
    index: Index,
    chip: Option<Arc<Chip>>,
    random: SplitMix64,
}

pub(crate) fn run(args: &IndexBenchArgs) -> Outcome {
    let document = measure(args)?;
    if args.json {
        return stdout::json(&document);
    }
    print("--json", |page| show(page, &document))
}

fn measure(args: &IndexBenchArgs) -> Outcome<Document> {
    let options = options(args)?;
    let unnamed = "name a directory for the index, or a device with --like";
    let Place { name, device, chip } =
        Place::of(args.simulated.like, args.place.as_deref(), args.flash, unnamed)?;
    let (index, _) = Index::open(device, &options).map_err(|error| refused(args, &error))?;
    let failed = |error: IndexError| Failure::failed(format!("{name}: {error}"));
    let mut run = Run { index, chip, random: SplitMix64(1) };
    let range = range(run.index.capacity(), args.found);
    while run.index.stats().evicted < 8 {
        run.insert(range).map_err(failed)?;
    }
    let filling = run.index.stats();
    run.index.reset_stats();
    let (mut look_ups, mut inserts) = (Vec::new(), Vec::new());
    // Buffers fill at about the same time, so anything less than a round of them is not typical.
    let incarnations = u64::from(run.index.filters().partitions);
    let enough = |look_ups: &[f64], inserts: &[f64], written: u64| match args.operations {
        Some(operations) => (look_ups.len() + inserts.len()) as u64 >= operations,
        None => {
            (look_ups.len() >= LOOK_UPS || args.look_ups == 0.0)
                && (written >= incarnations || args.look_ups == 1.0)
        }
    };
    while !enough(&look_ups, &inserts, run.index.stats().incarnations) {
        let begun = run.begin();
        if run.random.unit() < args.look_ups {
            let key = run.random.next_u64() % range;
            let answer = run.index.get(&key.to_le_bytes()).map_err(failed)?;
            look_ups.push(run.elapsed(begun));
            match answer {
                Answer::Absent => {}
                Answer::Value(value) if value == key.to_le_bytes() => {}
                Answer::Value(_) => return Err(Failure::failed("the index gave a wrong value")),
                Answer::Unknown => {
                    return Err(Failure::failed(format!("{name}: a page cannot be read")));
                }
            }
        } else {
            run.insert(range).map_err(failed)?;
            inserts.push(run.elapsed(begun));
        }
    }
    let stats = run.index.stats();
    let (memory, filters) = (run.index.memory(), run.index.filters());
    let share = |count: u64| count as f64 / stats.look_ups.max(1) as f64;
    let rows = [("look-up", look_ups), ("insert", inserts)].into_iter();
    let inserted = (filling.inserts + stats.inserts) * 2 * KEY as u64;
    Ok(Document {
        format: "oncewire-index-bench/1",
        place: PlaceFacts {
            device: name.clone(),
            simulated: args.simulated.like.is_some(),
            flash_bytes: args.flash,
        },
        memory: Used {
            limit_bytes: args.memory,
            buffers_bytes: memory.buffers,
            filters_bytes: memory.filters,
            tables_bytes: memory.tables,
            deletes_bytes: memory.deletes,
            bytes_per_entry: memory.total() as f64 / run.index.capacity() as f64,
        },
        super_tables: filters.partitions,
        incarnations: filters.incarnations,
        entries: run.index.capacity(),
        latencies: rows
            .filter(|(_, times)| !times.is_empty())
            .map(|(name, times)| latencies(name, 2 * KEY as u64, times))
            .collect(),
        found: share(stats.found),
        reads: stats.reads.map(share),
        spurious_reads: share(stats.spurious),
        written_per_inserted: (filling.written + stats.written) as f64 / inserted as f64,
    })
}

fn options(args: &IndexBenchArgs) -> Outcome<Options> {
    let list = match args.list {
        ListName::Shared => List::Shared,
        ListName::PerPartition => List::PerPartition,
    };
    if args.layout == LayoutName::Sorted {
        let builder = Options::builder(args.flash, args.memory).buffer(args.buffer).list(list);
        let builder = args.buffers.into_iter().fold(builder, OptionsBuilder::buffers);
        return builder.build().map_err(|error| refused(args, &error));
    }
    Ok(Options {
        key: KEY,
        value: KEY,
        memory: args.memory,
        buffers: args.buffers.unwrap_or(args.memory / 2 / args.buffer.max(1) * args.buffer),
        buffer: args.buffer,
        list,
        window: u32::from(args.window),
        layout: Layout::Published,
        filter: Filter::Sliced,
        ..Options::default()
    })
}

fn refused(args: &IndexBenchArgs, error: &OpenError) -> Failure {
    let buffers = match args.buffers {
        None if args.layout == LayoutName::Sorted => {
            format!("{}: use more, or a smaller --buffer", binary(args.buffer))
        }
        buffers => format!(
            "{}: use four times as much, or smaller --buffers",
            binary(buffers.unwrap_or(args.memory / 2))
        ),
    };
    place::refused(error, args.memory, args.flash, &buffers)
}

/// Random keys below this number are found with this probability in a full index.
fn range(capacity: u64, found: f64) -> u64 {
    if found == 0.0 {
        return u64::MAX;
    }
    ((capacity as f64 / -(1.0 - found.min(0.999)).ln()) as u64).max(1)
}

impl Run {
    fn insert(&mut self, range: u64) -> Result<(), IndexError> {
        let key = (self.random.next_u64() % range).to_le_bytes();
        self.index.insert(&key, &key)
    }

    fn begin(&self) -> Instant {
        if let Some(chip) = &self.chip {
            chip.take();
        }
        Instant::now()
    }

    fn elapsed(&self, begun: Instant) -> f64 {
        let time: Duration =
            self.chip.as_ref().map_or_else(|| begun.elapsed(), |chip| chip.take().time);
        time.as_secs_f64()
    }
}

fn show<W: io::Write>(page: &mut Page<'_, W>, document: &Document) -> io::Result<()> {
    let mean = |name| {
        document.latencies.iter().find(|row| row.operation == name).map(|row| row.mean_seconds)
    };
    let words = |name| {
        let mean = mean(name).unwrap_or(f64::NAN);
        format!("{} {name}", format::number(mean, Unit::Seconds))
    };
    let headline = match (mean("look-up"), mean("insert")) {
        (Some(_), Some(_)) => format!("{}, {}.", words("look-up"), words("insert")),
        (Some(_), None) => format!("{}.", words("look-up")),
        (None, _) => format!("{}.", words("insert")),
    };
    page.headline(
        &headline.replace(" look-up", " for a look-up").replace(" insert", " for an insert"),
    )?;
    page.line("")?;
    let memory = &document.memory;
    let times = if document.place.simulated { "of its reads and writes alone" } else { "measured" };
    page.facts(&[
        ("device", format!("{}, times {times}", document.place.device)),
        (
            "index",
            format!(
                "{} entries on {}; {} super tables of {} incarnations",
                format::count_of(document.entries),
                binary(document.place.flash_bytes),
                format::count_of(u64::from(document.super_tables)),
                document.incarnations
            ),
        ),
        (
            "memory",
            format!(
                "{:.2} bytes an entry: {} of buffers, {} of filters, {} besides",
                memory.bytes_per_entry,
                binary(memory.buffers_bytes),
                binary(memory.filters_bytes),
                binary(memory.tables_bytes + memory.deletes_bytes)
            ),
        ),
        (
            "spurious",
            format!(
                "{} pages read in vain for each look-up",
                format::number(document.spurious_reads, Unit::Number)
            ),
        ),
        ("written", format!("{:.2} bytes for each byte inserted", document.written_per_inserted)),
    ])?;
    page.line("")?;
    page.table(&latency_table(document))?;
    page.line("")?;
    page.table(&read_table(document))
}

fn latency_table(document: &Document) -> Table {
    let rows = document.latencies.iter().map(|row| {
        vec![
            row.operation.into(),
            row.operations.into(),
            row.mean_seconds.into(),
            row.median_seconds.into(),
            row.p99_seconds.into(),
        ]
    });
    Table::new(
        "latencies",
        "Operations, one at a time",
        &[
            ("operation", Unit::Text),
            ("count", Unit::Count),
            ("mean", Unit::Seconds),
            ("median", Unit::Seconds),
            ("p99", Unit::Seconds),
        ],
        rows.collect(),
    )
}

fn read_table(document: &Document) -> Table {
    let names = ["0", "1", "2", "3 or more"];
    let rows = names.into_iter().zip(document.reads);
    Table::new(
        "reads",
        format!(
            "Look-ups by the pages they read; {} found their key",
            format::share(document.found)
        ),
        &[("pages", Unit::Text), ("look-ups", Unit::Share)],
        rows.map(|(name, share)| vec![name.into(), share.into()]).collect(),
    )
}
