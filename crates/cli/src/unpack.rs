//! `oncewire unpack`.

mod apart;
mod zstd;

use crate::args::UnpackArgs;
use crate::base::BaseFiles;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output, Outputs, is_standard};
use crate::pack::{Points, Volume};
use crate::pack_store::{PackStore, PointName};
use crate::quantity::{binary, bytes, rate};
use crate::{progress, setup, stdout};
use oncewire_codec::ConfigError;
use oncewire_codec::pack::{Base, Header, PackError, PackReader, PackStep};
use oncewire_codec::zstd_frames;
use oncewire_flash::store::Side;
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The `--json` document.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    volume: Volume,
    #[serde(flatten)]
    points: Points,
}

pub(crate) fn run(args: &UnpackArgs) -> Outcome {
    if args.json && is_standard(args.output.as_deref()) {
        return Err(Failure::usage(
            "--json prints its document on standard output, so the content needs a file: pass -o FILE",
        ));
    }
    let inputs = std::iter::once(args.input.as_deref().unwrap_or(Path::new("-")))
        .chain(args.base.iter().map(PathBuf::as_path))
        .chain(args.store.store_key.as_deref());
    let mut destination = Some(Outputs::beside(inputs)?.file("-o", args.output.as_deref())?);
    let begun = Instant::now();
    let base_files = BaseFiles::open(&args.base)?;
    let base = base_files.identify()?;
    let mut store = PackStore::open(&args.store, Side::Decoder, args.output.as_deref())?;
    let mut input = Input::open(args.input.as_deref())?;
    let mut source = Source { buffer: vec![0; BUFFER], start: 0, end: 0, consumed: 0 };
    let mut reader = PackReader::new(args.max_cache);
    let mut output: Option<Output> = None;
    let to_terminal = is_standard(args.output.as_deref()) && io::stdout().is_terminal();
    let bar = progress::bar(input.len);
    while source.bytes().len() < zstd_frames::MAGIC.len() && source.refill(&mut input, None)? > 0 {}
    if let Some(destination) =
        destination.take_if(|_| source.bytes().starts_with(&zstd_frames::MAGIC))
    {
        if store.is_some() {
            return Err(Failure::usage(format!(
                "{} is a zstd file, which goes on from nothing: omit --store",
                input.name
            )));
        }
        let (output, window) =
            zstd::run(args, &mut input, &mut source, destination, to_terminal, |len| bar.inc(len))?;
        bar.finish_and_clear();
        return finish(args, output, None, source.consumed, begun, (window, 0));
    }
    // A store takes the content in order, on this thread.
    let two_threads = apart::is_possible() && store.is_none();
    // Frames in a row that did not need the log.
    let mut in_row = 0;
    loop {
        let is_apart = two_threads && reader.reads_apart(source.bytes());
        if is_apart && in_row >= apart::FEW {
            in_row = 0;
            let output = output.as_mut().expect("the header comes first");
            let shown = apart::Shown { args, to_terminal, bar: &bar };
            let has_ended;
            (reader, has_ended) = apart::run(reader, &mut source, &mut input, output, shown)?;
            if has_ended {
                break;
            }
        }
        let consumed = match reader
            .step(source.bytes())
            .map_err(|error| refuse(error, &input.name, args))?
        {
            PackStep::NeedMore(_) => {
                if source.refill(&mut input, output.as_mut())? == 0 {
                    return Err(truncated(reader.total(), &source, &input.name));
                }
                continue;
            }
            PackStep::Header { consumed } => {
                let header = *reader.header().expect("it was just read");
                let mut prime = |block: &[u8]| {
                    reader.prime(block);
                    Ok(())
                };
                match (&mut store, &header.base) {
                    (Some(store), Some(base)) => {
                        let range = store.find(base)?;
                        let kept = range.start + header.base_skip()..range.end;
                        store.each_block(kept, header.max_block, prime)?;
                    }
                    (Some(store), None) => store.go_back(PointName::START)?,
                    (None, _) => {
                        check_base(&header, base.as_ref(), &input.name)?;
                        base_files.each_block(header.base_skip(), header.max_block, &mut prime)?;
                    }
                }
                // Not earlier: an input that is not a pack must not leave a file.
                output = destination.take().map(Destination::open).transpose()?;
                // The output itself is the log, unless something comes before it there, or blocks
                // are so small that writing each by itself would cost more.
                if header.base.is_none()
                    && header.max_block >= LEAST_BLOCK
                    && let Some(pages) = output.as_mut().and_then(Output::pages)
                {
                    reader
                        .log_is_output(pages)
                        .map_err(|error| refuse(error, &input.name, args))?;
                }
                consumed
            }
            PackStep::Block { content, consumed } => {
                if to_terminal && is_binary(content) {
                    return Err(binary_to_terminal());
                }
                output.as_mut().expect("the header comes first").write(content)?;
                if let Some(store) = &mut store {
                    store.push(content)?;
                }
                bar.inc(consumed as u64);
                in_row = if is_apart { in_row + 1 } else { 0 };
                consumed
            }
            PackStep::End { consumed } => {
                source.consume(consumed);
                break;
            }
        };
        source.consume(consumed);
    }
    if !source.bytes().is_empty() || source.refill(&mut input, output.as_mut())? > 0 {
        return Err(Failure::damaged(format!(
            "{} has more data after the end of the pack at byte {}; truncate it there if that data does not belong to it",
            input.name, source.consumed
        )));
    }
    bar.finish_and_clear();
    let output = output.expect("the header comes first");
    let header = reader.header();
    let sizes =
        header.map_or((0, 0), |header| (header.cache, header.base.map_or(0, |base| base.len)));
    finish(args, output, store, source.consumed, begun, sizes)
}

/// Moves the output to its place and reports.
fn finish(
    args: &UnpackArgs,
    output: Output,
    store: Option<PackStore>,
    consumed: u64,
    begun: Instant,
    (cache_bytes, base_bytes): (u64, u64),
) -> Outcome {
    let total = output.written();
    output.finish()?;
    let from = store.as_ref().map(PackStore::from);
    // Not earlier: content that did not arrive must not be gone on from.
    let to = store.map(PackStore::finish).transpose()?;
    let elapsed = begun.elapsed();
    progress::note(&format!("{} -> {} at {}", bytes(consumed), bytes(total), rate(total, elapsed)));
    if let Some((from, to)) = from.zip(to) {
        progress::note(&format!("from point {from} to {to}"));
    }
    if args.json {
        stdout::json(&Report {
            volume: Volume {
                bytes_in: consumed,
                bytes_out: total,
                savings: stdout::savings(consumed, total),
                seconds: elapsed.as_secs_f64(),
                cache_bytes,
                base_bytes,
            },
            points: Points::new(from, to),
        })?;
    }
    Ok(())
}

fn binary_to_terminal() -> Failure {
    Failure::usage(
        "the content is binary, and would go to the terminal; name a file with -o, or pipe it",
    )
}

/// Whether content could do anything to a terminal but print and move on.
fn is_binary(content: &[u8]) -> bool {
    let is_control = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    content.iter().any(|&byte| is_control(byte) || byte == 0x7f)
}

/// Two sizes for people: exact if they would look the same otherwise.
fn sizes(one: u64, other: u64) -> (String, String) {
    let rounded = (binary(one), binary(other));
    let is_same = rounded.0 == rounded.1 && one != other;
    if is_same { (format!("{one} bytes"), format!("{other} bytes")) } else { rounded }
}

fn check_base(header: &Header, given: Option<&Base>, name: &str) -> Outcome {
    match (header.base, given) {
        (Some(needed), None) => Err(Failure::usage(format!(
            "{name} was packed with a base of {}; pass the same files with --base, or the --store of the packs before",
            binary(needed.len)
        ))),
        (None, Some(_)) => {
            Err(Failure::usage(format!("{name} was packed without a base; omit --base")))
        }
        (Some(needed), Some(given)) if needed != *given => {
            let (needed, given) = sizes(needed.len, given.len);
            Err(Failure::usage(format!(
                "{name} was packed with another base ({needed}, this one has {given}); pass the same files in the same order"
            )))
        }
        _ => Ok(()),
    }
}

fn refuse(error: PackError, name: &str, args: &UnpackArgs) -> Failure {
    match error {
        PackError::CacheTooLarge { cache, limit } => Failure::damaged(format!(
            "{name} needs a content cache of {}, more than the {} allowed; if you trust it, raise --max-cache",
            binary(cache),
            binary(limit)
        )),
        PackError::Config(error @ ConfigError::Memory { .. }) => setup::config_failure(error),
        PackError::NotAPack => Failure::damaged(format!("{name} is not an Oncewire pack")),
        PackError::Version { .. } => {
            Failure::damaged(format!("cannot unpack {name}: {error}; use a newer oncewire"))
        }
        _ => {
            let kept = if args.output.is_some() {
                "nothing was written"
            } else {
                "the output so far is verified"
            };
            Failure::damaged(format!("cannot unpack {name}: {error}; {kept}"))
        }
    }
}

/// For an input that ends after `total` bytes of content.
fn truncated(total: u64, source: &Source, name: &str) -> Failure {
    if source.consumed == 0 && source.bytes().is_empty() {
        return Failure::damaged(format!("{name} is empty, so it is not an Oncewire pack"));
    }
    Failure::damaged(format!(
        "{name} is truncated: it ends after {total} bytes of content, before the end of the pack"
    ))
}

/// Least block limit, in bytes, with which each block is written by itself.
const LEAST_BLOCK: usize = 16 << 10;

/// Size of the read buffer in bytes; larger than any frame.
const BUFFER: usize = 1 << 20;

/// Input that has been read and not yet consumed.
struct Source {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed so far.
    consumed: u64,
}

impl Source {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        self.consumed += n as u64;
    }

    /// Reads more input; returns 0 at its end. Flushes verified output before it blocks.
    fn refill(&mut self, input: &mut Input, output: Option<&mut Output>) -> Outcome<usize> {
        if let Some(output) = output.filter(|_| !input.is_ready()) {
            output.flush()?;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let n = input.some(&mut self.buffer[self.end..])?;
        self.end += n;
        Ok(n)
    }
}
