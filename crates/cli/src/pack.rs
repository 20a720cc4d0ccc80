//! `oncewire pack`.

use crate::adapting::{self, Adapting, Spent};
use crate::args::PackArgs;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome, note};
use crate::output::{Output, Outputs, give_up, is_standard};
use crate::quantity::{binary, bytes, rate, savings};
use crate::{base, progress, setup, stdout};
use cpu_time::ThreadTime;
use indicatif::ProgressBar;
use oncewire_codec::pack::{Header, Summary};
use oncewire_codec::{DEFAULT_CACHE, EncodeError, Finder, FrameWriter, Tokens};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Largest cache chosen by default, and the largest that `unpack` accepts by default, in bytes.
pub(crate) const MAX_DEFAULT_CACHE: u64 = 4 << 30;

/// The `--json` document.
#[derive(Serialize)]
struct Report {
    bytes_in: u64,
    bytes_out: u64,
    savings: f64,
    seconds: f64,
    cache_bytes: u64,
    base_bytes: u64,
    matches: u64,
    mean_match_bytes: Option<f64>,
    bytes_per_fingerprint: Option<f64>,
    /// Bytes of deflate streams and zstd blocks that were taken apart, and bytes of them that were
    /// found only so.
    opened_bytes: u64,
    token_bytes: u64,
    cpu_budget: Option<adapting::Report>,
}

pub(crate) fn run(args: &PackArgs) -> Outcome {
    if args.json && is_standard(args.output.as_deref()) {
        return Err(Failure::usage(
            "--json prints its document on standard output, so the pack needs a file: pass -o FILE",
        ));
    }
    Output::refuse_terminal(args.output.as_deref(), "packed data")?;
    let destination = Outputs::beside(inputs(args))?.file("-o", args.output.as_deref())?;
    let begun = Instant::now();
    let base = base::identify(&args.base)?;
    let base_len = base.map_or(0, |base| base.len);
    // Room for the base and as much new content as without one.
    let cache = args.cache.unwrap_or_else(|| (base_len + DEFAULT_CACHE).min(MAX_DEFAULT_CACHE));
    let header = Header {
        cache,
        max_block: usize::try_from(args.block).unwrap_or(usize::MAX),
        seed: 0,
        base,
    };
    let encoder = args.codec.encoder(args.inside.looks_inside())?;
    let halves = header.configure(encoder.clone()).growing_table(true).build_halves();
    let (mut finder, writer) = halves.map_err(setup::config_failure)?;
    if header.base_skip() > 0 {
        note(&format!(
            "only the last {} of the {} of base files fit in the cache; raise --cache to use them all",
            binary(cache),
            binary(base_len)
        ));
    }
    let mut input = Input::open(args.input.as_deref())?;
    let mut output = destination.open()?;

    base::each_block(&args.base, header.base_skip(), header.max_block, |block| {
        finder.prime(block).map_err(encode_failure)
    })?;
    output.write(&header.to_bytes())?;
    // Lets the receiver of a live stream prepare.
    output.flush()?;
    let bar = progress::bar(input.len);
    let mut adapting = args.cpu_budget.map(|budget| Adapting::new(&encoder, budget)).transpose()?;
    let spent = adapting.as_ref().map(|adapting| adapting.spent.clone());
    let mut work = Work { writer, summary: Summary::default(), output, spent };
    let mut finding = Finding { finder: &mut finder, adapting: &mut adapting };
    match args.threads {
        1 => in_one_thread(&mut input, &mut finding, &mut work, header.max_block, &bar)?,
        threads => in_threads(&mut input, finding, &mut work, header.max_block, &bar, threads)?,
    }
    bar.finish_and_clear();
    let Work { summary, mut output, .. } = work;
    output.write(&summary.trailer())?;
    let (total, written) = (summary.total(), output.written());
    output.finish()?;

    let elapsed = begun.elapsed();
    progress::note(&format!(
        "{} -> {} ({} saved) at {}",
        bytes(total),
        bytes(written),
        savings(written, total),
        rate(total, elapsed)
    ));
    let adapted = adapting.map(|adapting| adapting.report());
    for line in adapted.iter().flat_map(adapting::Report::lines) {
        progress::note(&line);
    }
    if args.json {
        let stats = finder.stats();
        stdout::json(&Report {
            bytes_in: total,
            bytes_out: written,
            savings: stdout::savings(written, total),
            seconds: elapsed.as_secs_f64(),
            cache_bytes: cache,
            base_bytes: base_len,
            matches: stats.matches,
            mean_match_bytes: stats.mean_match_len(),
            bytes_per_fingerprint: stats.bytes_per_fingerprint(),
            opened_bytes: stats.inside.opened_bytes,
            token_bytes: stats.inside.found_bytes,
            cpu_budget: adapted,
        })?;
    }
    Ok(())
}

/// All input files.
fn inputs(args: &PackArgs) -> impl Iterator<Item = &Path> {
    let input = args.input.as_deref().unwrap_or(Path::new("-"));
    std::iter::once(input)
        .chain(args.base.iter().map(PathBuf::as_path))
        .chain(args.codec.sampler.file())
}

fn encode_failure(error: EncodeError) -> Failure {
    Failure::failed(format!("cannot encode: {error}"))
}

/// The second half of the work: tokens to output.
struct Work {
    writer: FrameWriter,
    summary: Summary,
    output: Output,
    /// Set with a CPU budget only.
    spent: Option<Spent>,
}

impl Work {
    fn take(&mut self, tokens: &Tokens, block: &[u8]) -> Outcome {
        let begun = self.spent.as_ref().map(|_| ThreadTime::now());
        let frame = self.writer.write(tokens, block, 0).map_err(encode_failure)?;
        if let Some((spent, begun)) = self.spent.as_ref().zip(begun) {
            spent.add_since(begun);
        }
        for part in frame.parts() {
            self.output.write(part)?;
        }
        self.summary.add_tokens(tokens);
        Ok(())
    }
}

/// The first half of the work: blocks to tokens.
struct Finding<'a> {
    finder: &'a mut Finder,
    adapting: &'a mut Option<Adapting>,
}

impl Finding<'_> {
    fn find(&mut self, block: &[u8], tokens: &mut Tokens) -> Outcome {
        let Some(adapting) = self.adapting else {
            return self.finder.find(block, tokens).map_err(encode_failure);
        };
        // Time spent waiting for the block must not be charged.
        adapting.charge(0, self.finder);
        let begun = ThreadTime::now();
        self.finder.find(block, tokens).map_err(encode_failure)?;
        adapting.spent.add_since(begun);
        Ok(())
    }

    /// Charges the CPU time used so far to the last block.
    fn found(&mut self, bytes: usize) {
        if let Some(adapting) = self.adapting {
            adapting.charge(bytes, self.finder);
        }
    }
}

/// Bytes handed over between threads, and to the output, at once.
const BATCH: usize = 1 << 20;

/// Most blocks per batch. This limits the memory for tokens of small blocks.
const BATCH_BLOCKS: usize = 1024;

/// Blocks on their way from reader to matcher to writer. The buffers are reused.
struct Batch {
    content: Vec<u8>,
    len: usize,
    /// The tokens of each block.
    tokens: Vec<Tokens>,
}

impl Batch {
    fn new(block: usize) -> Batch {
        let blocks = (BATCH / block).clamp(1, BATCH_BLOCKS);
        Batch { content: vec![0; blocks * block], len: 0, tokens: vec![Tokens::default(); blocks] }
    }

    /// Blocks whose tokens were found.
    fn blocks(&self) -> impl Iterator<Item = (&[u8], &Tokens)> {
        let mut rest = &self.content[..self.len];
        self.tokens.iter().map_while(move |tokens| {
            if rest.is_empty() {
                return None;
            }
            let (block, next) = rest.split_at(tokens.block_len());
            rest = next;
            Some((block, tokens))
        })
    }

    /// Finds the tokens of blocks of at most `most` bytes.
    fn find(&mut self, most: usize, finding: &mut Finding<'_>) -> Outcome {
        let mut rest = &self.content[..self.len];
        let mut nth = 0;
        while !rest.is_empty() {
            let (block, next) = rest.split_at(finding.finder.cut(rest, most));
            // Some blocks end early.
            if nth == self.tokens.len() {
                self.tokens.push(Tokens::default());
            }
            finding.find(block, &mut self.tokens[nth])?;
            finding.found(block.len());
            (rest, nth) = (next, nth + 1);
        }
        Ok(())
    }
}

/// Reads an input in batches.
struct Batches<'a> {
    input: &'a mut Input,
    block: usize,
    /// Bytes of an incomplete block.
    rest: Vec<u8>,
}

impl Batches<'_> {
    fn new(input: &mut Input, block: usize) -> Batches<'_> {
        Batches { input, block, rest: Vec::with_capacity(block) }
    }

    /// Fills a batch, with fewer blocks if the input would block: complete blocks are never held
    /// back. Returns `false` at the end of the input.
    fn next(&mut self, batch: &mut Batch) -> Outcome<bool> {
        let mut filled = self.rest.len();
        batch.content[..filled].copy_from_slice(&self.rest);
        self.rest.clear();
        while filled < batch.content.len() {
            if filled >= self.block && !self.input.is_ready() {
                break;
            }
            match self.input.some(&mut batch.content[filled..])? {
                0 => {
                    batch.len = filled;
                    return Ok(filled > 0);
                }
                n => filled += n,
            }
        }
        batch.len = filled - filled % self.block;
        self.rest.extend_from_slice(&batch.content[batch.len..filled]);
        Ok(true)
    }
}

fn in_one_thread(
    input: &mut Input,
    finding: &mut Finding<'_>,
    work: &mut Work,
    max_block: usize,
    bar: &ProgressBar,
) -> Outcome {
    let mut batches = Batches::new(input, max_block);
    let mut batch = Batch::new(max_block);
    let mut tokens = Tokens::default();
    while batches.next(&mut batch)? {
        let mut rest = &batch.content[..batch.len];
        while !rest.is_empty() {
            let (block, next) = rest.split_at(finding.finder.cut(rest, max_block));
            finding.find(block, &mut tokens)?;
            work.take(&tokens, block)?;
            finding.found(block.len());
            rest = next;
        }
        work.output.flush()?;
        bar.inc(batch.len as u64);
    }
    Ok(())
}

/// Most batches queued between two stages.
const QUEUE: usize = 2;

fn in_threads(
    input: &mut Input,
    mut finding: Finding<'_>,
    work: &mut Work,
    max_block: usize,
    bar: &ProgressBar,
    threads: u8,
) -> Outcome {
    let count = QUEUE * usize::from(threads);
    let (found_tx, found_rx) = sync_channel::<Batch>(QUEUE);
    let (free_tx, free_rx) = sync_channel::<Batch>(count);
    for _ in 0..count {
        free_tx.send(Batch::new(max_block)).expect("the queue has room for all batches");
    }
    let mut batches = Batches::new(input, max_block);
    std::thread::scope(|scope| {
        // A stage that ends drops its channels, which ends its neighbors. The first failure is
        // reported.
        let matching = scope.spawn(move || {
            if threads == 2 {
                return find_all(
                    || next_batch(&mut batches, &free_rx),
                    max_block,
                    &mut finding,
                    &found_tx,
                );
            }
            let (read_tx, read_rx) = sync_channel::<Batch>(QUEUE);
            std::thread::scope(|scope| {
                let reading = scope.spawn(move || {
                    while let Some(batch) = next_batch(&mut batches, &free_rx)? {
                        if read_tx.send(batch).is_err() {
                            break;
                        }
                    }
                    Ok(())
                });
                let found =
                    find_all(|| Ok(read_rx.recv().ok()), max_block, &mut finding, &found_tx);
                drop(read_rx);
                join(reading).and(found)
            })
        });
        for batch in &found_rx {
            let written = batch.blocks().try_for_each(|(block, tokens)| work.take(tokens, block));
            let written = written.and_then(|()| work.output.flush());
            if let Err(failure) = written {
                give_up(&failure);
            }
            bar.inc(batch.len as u64);
            // Fails if the reader has ended already.
            let _ = free_tx.send(batch);
        }
        join(matching)
    })
}

fn join(thread: std::thread::ScopedJoinHandle<'_, Outcome>) -> Outcome {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A free batch filled from the input, or `None` at its end or when the writer has stopped.
fn next_batch(batches: &mut Batches<'_>, free: &Receiver<Batch>) -> Outcome<Option<Batch>> {
    let Ok(mut batch) = free.recv() else { return Ok(None) };
    Ok(batches.next(&mut batch)?.then_some(batch))
}

fn find_all(
    mut next: impl FnMut() -> Outcome<Option<Batch>>,
    block: usize,
    finding: &mut Finding<'_>,
    found: &SyncSender<Batch>,
) -> Outcome {
    while let Some(mut batch) = next()? {
        batch.find(block, finding)?;
        if found.send(batch).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_codec::Encoder;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    const BLOCK: usize = 64 << 10;

    #[test]
    fn files_are_read_in_batches_of_a_megabyte() {
        let content: &'static [u8] = vec![7; 3 * BATCH + 10].leak();
        let mut input = Input::memory("test", content);
        let mut batches = Batches::new(&mut input, BLOCK);
        let mut batch = Batch::new(BLOCK);
        let mut lengths = Vec::new();
        while batches.next(&mut batch).unwrap() {
            lengths.push(batch.len);
        }
        assert_eq!(lengths, [BATCH, BATCH, BATCH, 10]);
        assert_eq!(
            [1, 1448, BLOCK].map(|block| Batch::new(block).content.len()),
            [1024, 724 * 1448, BATCH]
        );
    }

    /// This test hangs if a complete block is held back until more input arrives.
    #[test]
    fn an_idle_pipe_holds_no_complete_block_back() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut input = Input::pipe(reader);
        let mut batches = Batches::new(&mut input, 1000);
        let mut batch = Batch::new(1000);
        writer.write_all(&[1; 2500]).unwrap();
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!(batch.len, 2000);
        writer.write_all(&[2; 500]).unwrap();
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!((batch.len, &batch.content[..1000]), (1000, &[[1; 500], [2; 500]].concat()[..]));
        writer.write_all(&[3; 10]).unwrap();
        drop(writer);
        assert!(batches.next(&mut batch).unwrap());
        assert_eq!((batch.len, batch.content[0]), (10, 3));
        assert!(!batches.next(&mut batch).unwrap());
    }

    /// The size of each write.
    #[derive(Clone, Default)]
    struct Calls(Arc<Mutex<Vec<usize>>>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writes_are_few() {
        // Half of the content repeats, for both small and large frames.
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        });
        let half: Vec<u8> = noise.take(4 << 20).collect();
        let content: &'static [u8] = [&half[..], &half].concat().leak();
        for threads in 1..=3 {
            let calls = Calls::default();
            let mut input = Input::memory("test", content);
            let (mut finder, writer) = Encoder::builder().cache(16 << 20).build_halves().unwrap();
            let output = Output::over(Box::new(calls.clone()), "test".into());
            let mut work = Work { writer, summary: Summary::default(), output, spent: None };
            let mut finding = Finding { finder: &mut finder, adapting: &mut None };
            let bar = ProgressBar::hidden();
            if threads == 1 {
                in_one_thread(&mut input, &mut finding, &mut work, BLOCK, &bar).unwrap();
            } else {
                in_threads(&mut input, finding, &mut work, BLOCK, &bar, threads).unwrap();
            }
            let written = work.output.written();
            work.output.finish().unwrap();
            let calls = calls.0.lock().unwrap();
            assert_eq!(calls.iter().sum::<usize>() as u64, written);
            // A batch of random bytes is a megabyte plus headers.
            assert!(calls.len() <= 2 * content.len() / BATCH, "{threads}: {calls:?}");
        }
    }
}
