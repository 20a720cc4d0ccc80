//! `oncewire unpack`.

use crate::args::UnpackArgs;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output, Outputs, is_standard};
use crate::quantity::{binary, bytes, rate};
use crate::{base, progress, report, setup};
use oncewire_codec::ConfigError;
use oncewire_codec::pack::{Base, Header, PackError, PackReader, Step};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What `--json` says.
#[derive(Serialize)]
struct Report {
    bytes_in: u64,
    bytes_out: u64,
    savings: f64,
    seconds: f64,
    cache_bytes: u64,
    base_bytes: u64,
}

pub(crate) fn run(args: &UnpackArgs) -> Outcome {
    if args.json && is_standard(args.output.as_deref()) {
        return Err(Failure::usage("--json writes to standard output, where the content would go; name a file with -o"));
    }
    let inputs = std::iter::once(args.input.as_deref().unwrap_or(Path::new("-"))).chain(args.base.iter().map(PathBuf::as_path));
    let mut destination = Some(Outputs::beside(inputs)?.file("-o", args.output.as_deref())?);
    let begun = Instant::now();
    let base = base::identify(&args.base)?;
    let mut input = Input::open(args.input.as_deref())?;
    let mut source = Source { buffer: vec![0; BUFFER], start: 0, end: 0, taken: 0 };
    let mut reader = PackReader::new(args.max_cache);
    let mut output: Option<Output> = None;
    let bar = progress::bar(input.len);
    loop {
        let consumed = match reader.step(source.bytes()).map_err(|error| refuse(error, &input.name, args))? {
            Step::NeedMore(_) => {
                if source.refill(&mut input, output.as_mut())? == 0 {
                    return Err(cut_short(&reader, &source, &input.name));
                }
                continue;
            }
            Step::Header { consumed } => {
                let header = *reader.header().expect("it was just read");
                check_base(&header, base.as_ref(), &input.name)?;
                base::each_block(&args.base, header.base_skip(), header.max_block, |block| {
                    reader.prime(block);
                    Ok(())
                })?;
                // Only now: an input that is no pack leaves nothing behind.
                output = destination.take().map(Destination::open).transpose()?;
                consumed
            }
            Step::Block { content, consumed } => {
                output.as_mut().expect("the header comes first").write(content)?;
                bar.inc(consumed as u64);
                consumed
            }
            Step::End { consumed } => {
                source.take(consumed);
                break;
            }
        };
        source.take(consumed);
    }
    if !source.bytes().is_empty() || source.refill(&mut input, output.as_mut())? > 0 {
        return Err(Failure::damaged(format!(
            "{} goes on after the end of the pack, {} bytes in; cut it there if the rest is known to be foreign",
            input.name, source.taken
        )));
    }
    bar.finish_and_clear();
    let output = output.expect("the header comes first");
    let total = output.written();
    output.finish()?;

    let elapsed = begun.elapsed();
    progress::note(&format!("{} -> {} at {}", bytes(source.taken), bytes(total), rate(total, elapsed)));
    if args.json {
        report::json(&Report {
            bytes_in: source.taken,
            bytes_out: total,
            savings: report::savings(source.taken, total),
            seconds: elapsed.as_secs_f64(),
            cache_bytes: reader.header().map_or(0, |header| header.cache),
            base_bytes: base.map_or(0, |base| base.len),
        })?;
    }
    Ok(())
}

fn check_base(header: &Header, given: Option<&Base>, name: &str) -> Outcome {
    match (header.base, given) {
        (Some(needed), None) => {
            Err(Failure::damaged(format!("{name} was packed against a base of {} bytes; give the same with --base", needed.len)))
        }
        (None, Some(_)) => Err(Failure::damaged(format!("{name} was packed without a base; leave --base out"))),
        (Some(needed), Some(given)) if needed != *given => Err(Failure::damaged(format!(
            "{name} was packed against another base ({} bytes, this one has {}); give the same files in the same order",
            needed.len, given.len
        ))),
        _ => Ok(()),
    }
}

fn refuse(error: PackError, name: &str, args: &UnpackArgs) -> Failure {
    match error {
        PackError::CacheTooLarge { cache, limit } => Failure::damaged(format!(
            "{name} needs a cache of {}, more than the {} allowed; if you trust it, use --max-cache",
            binary(cache),
            binary(limit)
        )),
        PackError::Config(error @ ConfigError::Memory { .. }) => setup::config_failure(error),
        PackError::NotAPack => Failure::damaged(format!("{name} is no Oncewire pack")),
        PackError::Version { .. } => Failure::damaged(format!("cannot unpack {name}: {error}; use a newer oncewire")),
        _ => {
            let kept = if args.output.is_some() { "nothing was written" } else { "what was written before is right" };
            Failure::damaged(format!("cannot unpack {name}: {error}; {kept}"))
        }
    }
}

fn cut_short(reader: &PackReader, source: &Source, name: &str) -> Failure {
    if source.taken == 0 && source.bytes().is_empty() {
        return Failure::damaged(format!("{name} is empty, and so no Oncewire pack"));
    }
    Failure::damaged(format!("{name} is cut short: it ends after {} bytes of content, without the pack's end", reader.total()))
}

/// Bytes read at once; more than any frame.
const BUFFER: usize = 1 << 20;

/// What has been read and not yet consumed.
struct Source {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed so far.
    taken: u64,
}

impl Source {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn take(&mut self, n: usize) {
        self.start += n;
        self.taken += n as u64;
    }

    /// Reads more behind what is there; 0 at the end of the input. What is verified is handed on before that is waited for.
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
