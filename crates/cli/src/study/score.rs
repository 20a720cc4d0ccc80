//! `oncewire study --score`: Martynov's score of encoders on files or captures.

use super::report::csv;
use super::source::{self, Source};
use crate::args::StudyArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Outputs, finish};
use crate::quantity::bytes;
use crate::{progress, stdout, terminal};
use oncewire_packet::{CaptureReader, Dissector, Limits, Transport};
use oncewire_report::{Figure, Section};
use oncewire_trace::FlowKey;
use oncewire_trace::score::{Layer, Options, Score, Test, Units, score};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::io::Read;

/// Largest benchmark in bytes. Memory holds several copies of it.
const MOST: u64 = 1 << 30;
/// A read of a flow returns the bytes of this many nanoseconds, up to `READ_MOST` bytes.
const READ_WITHIN: u64 = 10_000_000;
const READ_MOST: usize = 256 << 10;

/// Bytes that a packet is charged in addition to its payload, since a single byte may be a unit and
/// a flow.
const UNIT_OVERHEAD: usize = 200;

/// The content of one argument.
enum Benchmark {
    Files(Vec<Vec<u8>>),
    Capture { tcp: Cut, ip: Cut },
}

pub(super) fn run(args: &StudyArgs) -> Outcome {
    if args.captures.is_empty() {
        return Err(Failure::usage(
            "nothing to score: name files, directories or captures; three of them are weighted 2, 49 and 49",
        ));
    }
    if let Some(directory) = &args.csv {
        let sources = source::sources(&args.captures)?;
        Outputs::beside(sources.iter().map(Source::path))?.directory(
            "--csv",
            directory,
            csv::is_ours,
        )?;
    }
    let mut benchmarks = Vec::new();
    for argument in &args.captures {
        benchmarks.push(read(
            &source::sources(std::slice::from_ref(argument))?,
            &argument.display().to_string(),
        )?);
    }
    let names: Vec<String> =
        args.captures.iter().map(|argument| argument.display().to_string()).collect();
    let mut tests: Vec<Test<'_>> = Vec::new();
    for (index, benchmark) in benchmarks.iter().enumerate() {
        match benchmark {
            Benchmark::Files(files) => {
                let sizes = Test::of_files(index, files, 1);
                tests.extend(sizes.filter(|test| {
                    args.buffers.is_empty()
                        || test.base.is_some_and(|base| args.buffers.contains(&(base as u64)))
                }));
            }
            Benchmark::Capture { tcp, ip } => {
                tests.push(Test::of_capture(index, Layer::Tcp, tcp.units()));
                tests.push(Test::of_capture(index, Layer::Ip, ip.units()));
            }
        }
    }
    if tests.is_empty() {
        return Err(Failure::usage(
            "--buffers names no supported size: use powers of two from 512 to 256K",
        ));
    }
    let defaults = Options::default();
    let distances =
        if args.distances.is_empty() { defaults.distances } else { args.distances.clone() };
    let options =
        Options { distances, repeats: usize::from(args.repeats), max_bytes: MOST, ..defaults };
    let bar = progress::steps();
    let scored = score(names, &mut tests, &options, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let scored = scored.map_err(|error| Failure::failed(format!("cannot score: {error}")))?;
    write(args, &scored)
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    benchmarks: &'a [String],
    weights: &'a [f64],
    figure: &'a Figure,
}

fn write(args: &StudyArgs, scored: &Score) -> Outcome {
    let figure = scored.figure();
    if let Some(directory) = &args.csv {
        let written = csv::figure(&figure, directory)?;
        progress::note(&format!("{}: {} files", directory.display(), written.len()));
        finish(written)?;
    }
    if args.json {
        let (benchmarks, weights) = (&scored.benchmarks[..], &scored.weights[..]);
        return stdout::json(&Document {
            format: "oncewire-score/1",
            benchmarks,
            weights,
            figure: &figure,
        });
    }
    terminal::print("--csv", |page| page.section(&Section::figure(&figure)))
}

/// Reads captures if the first file is one, otherwise plain files.
fn read(sources: &[Source], name: &str) -> Outcome<Benchmark> {
    let first = sources.first().map(Source::open).transpose()?;
    if first.is_some_and(|file| CaptureReader::new(file).is_ok()) {
        return capture(sources, name);
    }
    let (mut files, mut total) = (Vec::new(), 0u64);
    for source in sources {
        let mut content = Vec::new();
        let read = source.open()?.take(MOST + 1 - total.min(MOST)).read_to_end(&mut content);
        total += read.map_err(|error| Failure::io("read", source.name(), &error))? as u64;
        if total > MOST {
            return Err(too_much(name));
        }
        files.push(content);
    }
    Ok(Benchmark::Files(files))
}

fn too_much(name: &str) -> Failure {
    Failure::failed(format!(
        "{name} is larger than {}, the most that a score holds in memory",
        bytes(MOST)
    ))
}

fn capture(sources: &[Source], name: &str) -> Outcome<Benchmark> {
    let (mut tcp, mut ip) = (Cut::default(), Cut::default());
    let mut open: HashMap<FlowKey, (i64, Vec<u8>)> = HashMap::new();
    let mut order: VecDeque<(i64, FlowKey)> = VecDeque::new();
    for source in sources {
        let Ok(mut reader) = CaptureReader::new(source.open()?) else { continue };
        let mut dissector = Dissector::new(Limits::default());
        // A truncated or corrupt capture is scored up to the error.
        while let Some(Ok(record)) = reader.next() {
            let Ok(found) = dissector.dissect(&record) else { continue };
            let Transport::Tcp { source_port, destination_port, .. } = found.transport else {
                continue;
            };
            if found.payload.is_empty() {
                continue;
            }
            ip.push(found.payload);
            if (ip.bytes.len() + ip.ends.len() * UNIT_OVERHEAD) as u64 > MOST {
                return Err(too_much(name));
            }
            while let Some(&(opened, flow)) = order.front()
                && opened.abs_diff(record.time) >= READ_WITHIN
            {
                order.pop_front();
                if open.get(&flow).is_some_and(|(time, _)| *time == opened)
                    && let Some((_, content)) = open.remove(&flow)
                {
                    tcp.push(&content);
                }
            }
            let (source, destination, protocol) = (found.source, found.destination, found.protocol);
            let flow = FlowKey { source, destination, source_port, destination_port, protocol };
            if open
                .get(&flow)
                .is_some_and(|(_, content)| content.len() + found.payload.len() > READ_MOST)
                && let Some((_, content)) = open.remove(&flow)
            {
                tcp.push(&content);
            }
            let (_, content) = open.entry(flow).or_insert_with(|| {
                order.push_back((record.time, flow));
                (record.time, Vec::new())
            });
            content.extend_from_slice(found.payload);
        }
    }
    for (opened, flow) in order {
        if open.get(&flow).is_some_and(|(time, _)| *time == opened)
            && let Some((_, content)) = open.remove(&flow)
        {
            tcp.push(&content);
        }
    }
    Ok(Benchmark::Capture { tcp, ip })
}

/// Concatenated units, and the end of each.
#[derive(Default)]
struct Cut {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Cut {
    fn push(&mut self, unit: &[u8]) {
        self.bytes.extend_from_slice(unit);
        self.ends.push(self.bytes.len());
    }

    fn units(&self) -> CutUnits<'_> {
        CutUnits { cut: self, next: 0 }
    }
}

struct CutUnits<'a> {
    cut: &'a Cut,
    next: usize,
}

impl Units for CutUnits<'_> {
    fn rewind(&mut self) {
        self.next = 0;
    }

    fn next_unit(&mut self) -> Option<&[u8]> {
        let end = *self.cut.ends.get(self.next)?;
        let start = if self.next == 0 { 0 } else { self.cut.ends[self.next - 1] };
        self.next += 1;
        Some(&self.cut.bytes[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_can_be_read_again() {
        let mut cut = Cut::default();
        for unit in ["one", "", "three"] {
            cut.push(unit.as_bytes());
        }
        let mut units = cut.units();
        for _ in 0..2 {
            units.rewind();
            let mut all = Vec::new();
            while let Some(unit) = units.next_unit() {
                all.push(unit.to_vec());
            }
            assert_eq!(all, [&b"one"[..], b"", b"three"]);
        }
    }
}
