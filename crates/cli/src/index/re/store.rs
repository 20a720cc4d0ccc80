//! The two indexes, and their clocks.

use super::content::{Name, Trace};
use crate::args::index::ReArgs;
use crate::failure::{Failure, Outcome};
use crate::index::place::{self, Place};
use crate::quantity::binary;
use oncewire_flash::device::Chip;
use oncewire_flash::{Answer, Filter, Index, IndexError, Layout, OpenError, Options, Unbuffered};
use oncewire_kernels::random::SplitMix64;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a value: where the content cache has the chunk.
const VALUE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    BufferHash,
    /// A hash table on the device, as Berkeley DB in the chapter.
    Unbuffered,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::BufferHash => "BufferHash",
            Kind::Unbuffered => "without buffers",
        }
    }
}

enum Table {
    BufferHash(Box<Index>),
    Unbuffered(Box<Unbuffered>),
}

/// An index that is full.
pub(super) struct Store {
    table: Table,
    chip: Option<Arc<Chip>>,
    pub(super) device: String,
    next: u64,
}

/// Names that are not in the trace, with the past of the trace among them, evenly.
#[derive(Clone)]
struct Past<'a> {
    history: &'a [Name],
    count: u64,
    /// Number of the first of the other names.
    first: u64,
    done: u64,
    planted: u64,
}

impl Iterator for Past<'_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done >= self.count {
            return None;
        }
        self.done += 1;
        let value = self.done.to_le_bytes().to_vec();
        let due = u128::from(self.done) * self.history.len() as u128 / u128::from(self.count);
        if u128::from(self.planted) < due {
            self.planted += 1;
            return Some((self.history[self.planted as usize - 1].to_vec(), value));
        }
        let mut name = [0; 20];
        for (n, part) in name.chunks_mut(8).enumerate() {
            let number = 3 * (self.first + self.done) + n as u64;
            let word = SplitMix64(number).next_u64();
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
        Some((name.to_vec(), value))
    }
}

impl Store {
    /// A full index with the past of a trace.
    pub(super) fn new(kind: Kind, args: &ReArgs, trace: &Trace) -> Outcome<Store> {
        let unnamed = "name a directory for the index with --dir";
        let Place { name, device, chip } =
            Place::of(args.simulated.like, args.place.as_deref(), args.flash, unnamed)?;
        let failed = |error: IndexError| Failure::failed(format!("{name}: {error}"));
        let past = |history, count, first| Past { history, count, first, done: 0, planted: 0 };
        let table = match kind {
            Kind::BufferHash => {
                let options = Options {
                    key: size_of::<Name>(),
                    value: VALUE,
                    memory: args.memory,
                    buffers: args.memory / 2 / args.buffer.max(1) * args.buffer,
                    buffer: args.buffer,
                    layout: Layout::Published,
                    filter: Filter::Sliced,
                    ..Options::default()
                };
                let (mut index, _) =
                    Index::open(device, &options).map_err(|error| refused(args, &error))?;
                let capacity = index.capacity();
                room(args, trace, capacity)?;
                // The ring has been round when the trace begins, and the past of the trace stays
                // until its end: buffers do not fill exactly in turn.
                let before = past(&[], capacity / 2, 0);
                let after = past(&trace.history[..], capacity * 6 / 10, capacity);
                for (name, value) in before.chain(after) {
                    index.insert(&name, &value).map_err(failed)?;
                }
                Table::BufferHash(Box::new(index))
            }
            Kind::Unbuffered => {
                // Half full, as the other.
                let entries = device.size() / 4096 * (4088 / (20 + VALUE as u64)) / 2;
                room(args, trace, entries)?;
                let past = past(&trace.history[..], entries, 0);
                let table = Unbuffered::create(device, size_of::<Name>(), VALUE, past);
                Table::Unbuffered(Box::new(table.map_err(failed)?))
            }
        };
        if let Some(chip) = &chip {
            chip.take();
        }
        Ok(Store { table, chip, device: name, next: 0 })
    }

    pub(super) fn look_up(&mut self, name: &Name) -> Outcome<bool> {
        let answer = match &mut self.table {
            Table::BufferHash(index) => index.get(name),
            Table::Unbuffered(table) => {
                table.get(name).map(|value| value.map_or(Answer::Absent, Answer::Value))
            }
        };
        match answer.map_err(|error| self.failed(&error))? {
            Answer::Value(_) => Ok(true),
            Answer::Absent => Ok(false),
            Answer::Unknown => {
                Err(Failure::failed(format!("{}: a page cannot be read", self.device)))
            }
        }
    }

    pub(super) fn insert(&mut self, name: &Name) -> Outcome {
        self.next += 1;
        let value = self.next.to_le_bytes();
        let inserted = match &mut self.table {
            Table::BufferHash(index) => index.insert(name, &value),
            Table::Unbuffered(table) => table.insert(name, &value),
        };
        inserted.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &IndexError) -> Failure {
        Failure::failed(format!("{}: {error}", self.device))
    }

    pub(super) fn begin(&self) -> Instant {
        Instant::now()
    }

    /// Seconds since, or of the simulated device since the last call.
    pub(super) fn elapsed(&self, begun: Instant) -> f64 {
        let time = self.chip.as_ref().map_or_else(|| begun.elapsed(), |chip| chip.take().time);
        time.as_secs_f64()
    }
}

/// The trace must not push its own past out.
fn room(args: &ReArgs, trace: &Trace, capacity: u64) -> Outcome {
    let chunks: usize = trace.objects.iter().map(|object| object.chunks.len()).sum();
    if 8 * (chunks + trace.history.len()) as u64 <= capacity {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--flash {} is too small: the content has {} chunks, and a full index of that size {}; use more, or less --size",
        binary(args.flash),
        chunks + trace.history.len(),
        capacity
    )))
}

fn refused(args: &ReArgs, error: &OpenError) -> Failure {
    let buffers = format!("{}: use four times as much, or less --memory", binary(args.memory / 2));
    place::refused(error, args.memory, args.flash, &buffers)
}
