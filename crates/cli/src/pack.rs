//! `oncewire pack`.

use crate::adapting::{self, Adapting, Spent};
use crate::args::PackArgs;
use crate::endpoint::{Input, Output, give_up, is_standard};
use crate::failure::{Failure, Outcome, note};
use crate::quantity::{binary, bytes, rate, savings};
use crate::{base, progress, report, setup};
use cpu_time::ThreadTime;
use indicatif::ProgressBar;
use oncewire_codec::pack::{Header, Summary};
use oncewire_codec::{DEFAULT_CACHE, EncodeError, Finder, FrameWriter, Tokens};
use serde::Serialize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Largest cache that is chosen unasked: what `unpack` accepts unasked.
const MAX_DEFAULT_CACHE: u64 = 4 << 30;

/// What `--json` says.
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
    cpu_budget: Option<adapting::Report>,
}

pub(crate) fn run(args: &PackArgs) -> Outcome {
    if args.json && is_standard(args.output.as_deref()) {
        return Err(Failure::usage("--json writes to standard output, where the pack would go; name a file with -o"));
    }
    Output::refuse_terminal(args.output.as_deref(), "packed data")?;
    let begun = Instant::now();
    let base = base::identify(&args.base)?;
    let base_len = base.map_or(0, |base| base.len);
    // Room for the base and as much new content as without one.
    let cache = args.cache.unwrap_or_else(|| (base_len + DEFAULT_CACHE).min(MAX_DEFAULT_CACHE));
    let header = Header { cache, max_block: usize::try_from(args.block).unwrap_or(usize::MAX), seed: 0, base };
    let encoder = args.codec.encoder()?;
    let halves = header.configure(encoder.clone()).build_halves();
    let (mut finder, writer) = halves.map_err(setup::config_failure)?;
    if header.base_skip() > 0 {
        note(&format!(
            "only the last {} of the base's {} fit the cache; a larger --cache finds more",
            binary(cache),
            binary(base_len)
        ));
    }
    let mut input = Input::open(args.input.as_deref())?;
    let mut output = Output::create(args.output.as_deref())?;

    base::each_block(&args.base, header.base_skip(), header.max_block, |block| finder.prime(block).map_err(encode_failure))?;
    output.write(&header.to_bytes())?;
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
        report::json(&Report {
            bytes_in: total,
            bytes_out: written,
            savings: report::savings(written, total),
            seconds: elapsed.as_secs_f64(),
            cache_bytes: cache,
            base_bytes: base_len,
            matches: stats.matches,
            mean_match_bytes: stats.mean_match_len(),
            bytes_per_fingerprint: stats.bytes_per_fingerprint(),
            cpu_budget: adapted,
        })?;
    }
    Ok(())
}

fn encode_failure(error: EncodeError) -> Failure {
    Failure::failed(format!("cannot encode: {error}"))
}

/// The second half of the work: from tokens to the output.
struct Work {
    writer: FrameWriter,
    summary: Summary,
    output: Output,
    /// Under a budget.
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

/// The first half of the work: from blocks to tokens.
struct Finding<'a> {
    finder: &'a mut Finder,
    adapting: &'a mut Option<Adapting>,
}

impl Finding<'_> {
    fn find(&mut self, block: &[u8], tokens: &mut Tokens) -> Outcome {
        let Some(adapting) = self.adapting else { return self.finder.find(block, tokens).map_err(encode_failure) };
        // The block may have been waited for.
        adapting.charge(0, self.finder);
        let begun = ThreadTime::now();
        self.finder.find(block, tokens).map_err(encode_failure)?;
        adapting.spent.add_since(begun);
        Ok(())
    }

    /// What was used so far is charged to the block that was found last.
    fn found(&mut self, bytes: usize) {
        if let Some(adapting) = self.adapting {
            adapting.charge(bytes, self.finder);
        }
    }
}

fn in_one_thread(input: &mut Input, finding: &mut Finding<'_>, work: &mut Work, max_block: usize, bar: &ProgressBar) -> Outcome {
    let mut block = vec![0; max_block];
    let mut tokens = Tokens::default();
    loop {
        let len = input.fill(&mut block)?;
        if len == 0 {
            return Ok(());
        }
        finding.find(&block[..len], &mut tokens)?;
        work.take(&tokens, &block[..len])?;
        finding.found(len);
        bar.inc(len as u64);
    }
}

/// A block on its way from reading through matching to writing; the buffers go round.
struct Job {
    block: Vec<u8>,
    len: usize,
    tokens: Tokens,
}

/// Jobs under way between two stages.
const QUEUE: usize = 16;

fn in_threads(
    input: &mut Input,
    mut finding: Finding<'_>,
    work: &mut Work,
    max_block: usize,
    bar: &ProgressBar,
    threads: u8,
) -> Outcome {
    let (found_tx, found_rx) = sync_channel::<Job>(QUEUE);
    let (free_tx, free_rx) = sync_channel::<Job>(3 * QUEUE);
    for _ in 0..3 * QUEUE {
        let job = Job { block: vec![0; max_block], len: 0, tokens: Tokens::default() };
        free_tx.send(job).expect("the queue has room for all jobs");
    }
    std::thread::scope(|scope| {
        // A stage that ends drops its channel ends; its neighbours then end too, and the first failure is reported.
        let matching = scope.spawn(move || {
            if threads == 2 {
                return find_all(|| next_block(input, &free_rx), &mut finding, &found_tx);
            }
            let (read_tx, read_rx) = sync_channel::<Job>(QUEUE);
            std::thread::scope(|scope| {
                let reading = scope.spawn(move || {
                    while let Some(job) = next_block(input, &free_rx)? {
                        if read_tx.send(job).is_err() {
                            break;
                        }
                    }
                    Ok(())
                });
                let found = find_all(|| Ok(read_rx.recv().ok()), &mut finding, &found_tx);
                drop(read_rx);
                join(reading).and(found)
            })
        });
        for job in &found_rx {
            if let Err(failure) = work.take(&job.tokens, &job.block[..job.len]) {
                give_up(&failure);
            }
            bar.inc(job.len as u64);
            // The reader may have ended already.
            let _ = free_tx.send(job);
        }
        join(matching)
    })
}

fn join(thread: std::thread::ScopedJoinHandle<'_, Outcome>) -> Outcome {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A free job filled from the input, or `None` at its end or when the writer has stopped.
fn next_block(input: &mut Input, free: &Receiver<Job>) -> Outcome<Option<Job>> {
    let Ok(mut job) = free.recv() else { return Ok(None) };
    job.len = input.fill(&mut job.block)?;
    Ok((job.len > 0).then_some(job))
}

fn find_all(mut next: impl FnMut() -> Outcome<Option<Job>>, finding: &mut Finding<'_>, found: &SyncSender<Job>) -> Outcome {
    while let Some(mut job) = next()? {
        finding.find(&job.block[..job.len], &mut job.tokens)?;
        finding.found(job.len);
        if found.send(job).is_err() {
            break;
        }
    }
    Ok(())
}
