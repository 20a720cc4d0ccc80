//! `oncewire pack`.

mod batch;
mod format;
mod work;

use crate::adapting::{self, Adapting};
use crate::args::PackArgs;
use crate::base::BaseFiles;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome, note};
use crate::output::{Output, Outputs, is_standard};
use crate::pack_store::{PackStore, PointName};
use crate::quantity::{binary, bytes, rate, savings};
use crate::{progress, setup, stdout};
use batch::{Batches, Finding, Source, Whole};
pub(crate) use format::FormatName;
use format::{Container, Writer};
use oncewire_codec::pack::{CONTEXTS, Header, Summary};
use oncewire_codec::zstd_frames::{self, ContentChecksum};
use oncewire_codec::{DEFAULT_BLOCK, DEFAULT_CACHE, EncodeError, EncoderStats, MAX_BLOCK};
use oncewire_flash::store::Side;
use serde::Serialize;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use work::Sink;

/// Largest cache chosen by default, and the largest that `unpack` accepts by default, in bytes.
pub(crate) const MAX_DEFAULT_CACHE: u64 = 4 << 30;

/// Most threads that have anything to do: one finds repeats, and one writes for each context.
pub(crate) const MOST_THREADS: usize = 1 + CONTEXTS;

/// Threads unless told otherwise: one for each processor.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

/// The `--json` document.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    volume: Volume,
    matches: u64,
    mean_match_bytes: Option<f64>,
    bytes_per_fingerprint: Option<f64>,
    /// Bytes of deflate streams and zstd blocks that were taken apart, and bytes of them that were
    /// found only so.
    opened_bytes: u64,
    token_bytes: u64,
    cpu_budget: Option<adapting::Report>,
    #[serde(flatten)]
    points: Points,
}

/// What went in and came out, of both directions.
#[derive(Serialize)]
pub(crate) struct Volume {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) savings: f64,
    pub(crate) seconds: f64,
    pub(crate) cache_bytes: u64,
    pub(crate) base_bytes: u64,
}

/// Points of the store before and after.
#[derive(Default, Serialize)]
pub(crate) struct Points {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
}

impl Points {
    pub(crate) fn new(from: Option<PointName>, to: Option<PointName>) -> Points {
        let text = |point: PointName| point.to_string();
        Points { from: from.map(text), to: to.map(text) }
    }
}

/// The largest block, in bytes.
fn block(args: &PackArgs, cache: u64) -> usize {
    let block = args.block.unwrap_or_else(|| {
        // Larger ones take fewer bytes; smaller ones are sent sooner, and steered by the budget.
        let is_live = args.format == FormatName::Zstd || args.cpu_budget.is_some();
        let most = if is_live { DEFAULT_BLOCK } else { MAX_BLOCK };
        // A log has at least one block.
        (most as u64).min(cache.max(DEFAULT_BLOCK as u64))
    });
    usize::try_from(block).unwrap_or(usize::MAX)
}

impl Report {
    /// Of `total` bytes packed into `written`.
    fn new(
        (total, written): (u64, u64),
        elapsed: Duration,
        header: Header,
        stats: EncoderStats,
        cpu_budget: Option<adapting::Report>,
    ) -> Report {
        Report {
            volume: Volume {
                bytes_in: total,
                bytes_out: written,
                savings: stdout::savings(written, total),
                seconds: elapsed.as_secs_f64(),
                cache_bytes: header.cache,
                base_bytes: header.base.map_or(0, |base| base.len),
            },
            matches: stats.matches,
            mean_match_bytes: stats.mean_match_len(),
            bytes_per_fingerprint: stats.bytes_per_fingerprint(),
            opened_bytes: stats.inside.opened_bytes,
            token_bytes: stats.inside.found_bytes,
            cpu_budget,
            points: Points::default(),
        }
    }
}

/// What goes before the content.
fn container(args: &PackArgs, header: Header, whole: Option<&Whole>) -> Container {
    match args.format {
        FormatName::Oncewire => Container::Oncewire(header),
        FormatName::Zstd => Container::Zstd {
            window: header.cache,
            // Only of a file that cannot change.
            len: whole.map(|whole| whole.pages.len() as u64),
            checksum: ContentChecksum::default(),
        },
    }
}

pub(crate) fn run(args: &PackArgs) -> Outcome {
    if args.json && is_standard(args.output.as_deref()) {
        return Err(Failure::usage(
            "--json prints its document on standard output, so the pack needs a file: pass -o FILE",
        ));
    }
    let entropy = args.codec.entropy()?;
    format::check(args, entropy)?;
    let is_zstd = args.format == FormatName::Zstd;
    Output::refuse_terminal(args.output.as_deref(), "packed data")?;
    let destination = Outputs::beside(inputs(args))?.file("-o", args.output.as_deref())?;
    let begun = Instant::now();
    let base_files = BaseFiles::open(&args.base)?;
    let mut store = PackStore::open(&args.store, Side::Encoder, args.output.as_deref())?;
    let mut earlier = 0..0;
    let base = match &mut store {
        Some(store) => {
            args.from.map_or(Ok(()), |point| store.go_back(point))?;
            let found = store.base(args.cache.unwrap_or(MAX_DEFAULT_CACHE - DEFAULT_CACHE))?;
            found.map(|(base, range)| {
                earlier = range;
                base
            })
        }
        None => base_files.identify()?,
    };
    let point = store.as_ref().map(PackStore::from);
    let base_len = base.map_or(0, |base| base.len);
    // Room for the base and as much new content as without one.
    let cache = args.cache.unwrap_or_else(|| match args.format {
        FormatName::Oncewire => (base_len + DEFAULT_CACHE).min(MAX_DEFAULT_CACHE),
        FormatName::Zstd => zstd_frames::DEFAULT_WINDOW,
    });
    let header = Header { cache, max_block: block(args, cache), seed: 0, base };
    let encoder = args.codec.encoder(args.inside.looks_inside() && !is_zstd)?;
    let mut input = Input::open(args.input.as_deref())?;
    // The file itself is the log, unless something comes before it there, or it is read slowly.
    let is_whole = base.is_none() && store.is_none() && args.cpu_budget.is_none();
    let whole = if is_whole { input.leased(Duration::MAX) } else { None }
        .map(|pages| Whole { pages, name: input.name.as_str().into() });
    let parts = header
        .configure(encoder.clone())
        .growing_table(true)
        .build_parts(whole.as_ref().map(|whole| whole.pages.clone()), CONTEXTS);
    let (mut finder, writers) = parts.map_err(setup::config_failure)?;
    let writers = Writer::all(writers, args.format, entropy)?;
    let mut container = container(args, header, whole.as_ref());
    if header.base_skip() > 0 {
        note(&format!(
            "only the last {} of the {} of base files fit in the cache; raise --cache to use them all",
            binary(cache),
            binary(base_len)
        ));
    }
    let mut output = destination.open()?;

    let mut prime = |block: &[u8]| finder.prime(block).map_err(encode_failure);
    base_files.each_block(header.base_skip(), header.max_block, &mut prime)?;
    if let Some(store) = &mut store {
        store.each_block(earlier, header.max_block, prime)?;
    }
    // The lease on them ends.
    drop(base_files);
    output.write(&container.header())?;
    // Lets the receiver of a live stream prepare.
    output.flush()?;
    let bar = progress::bar(input.len);
    let mut adapting = args.cpu_budget.map(|budget| Adapting::new(&encoder, budget)).transpose()?;
    let spent = adapting.as_ref().map(|adapting| adapting.spent.clone());
    let threads = args.threads.map_or_else(default_threads, usize::from);
    // What fits in a batch gives a second thread nothing to do.
    let is_short = input.len.is_some_and(|len| len <= batch::BATCH as u64);
    // Batches of a pipe end anywhere, and blocks would with them. Distances in a frame of zstd are
    // those in the content, so there is no padding.
    let generation = (base.is_none() && (input.len.is_some() || is_zstd)).then_some(cache);
    let finding = Finding {
        source: match &whole {
            Some(whole) => Source::Whole(whole.clone(), 0),
            None => Source::Read(Batches::new(&mut input, header.max_block)),
        },
        block: header.max_block,
        generation,
        finder: &mut finder,
        adapting: &mut adapting,
        checksum: container.checksum(),
        store: &mut store,
        position: 0,
    };
    let sink = Sink { output, summary: Summary::default(), bar };
    let threads = if is_short { 1 } else { threads };
    let Sink { mut output, summary, bar } = work::run(finding, writers, sink, threads, spent)?;
    bar.finish_and_clear();
    // Without a trailer it is no pack.
    whole.as_ref().map_or(Ok(()), Whole::check)?;
    output.write(&container.trailer(&summary))?;
    let (total, written) = (summary.total(), output.written());
    output.finish()?;
    // Not earlier: a run that fails must not be gone on from.
    let end = store.map(PackStore::finish).transpose()?;

    let elapsed = begun.elapsed();
    progress::note(&format!(
        "{} -> {} ({} saved) at {}",
        bytes(total),
        bytes(written),
        savings(written, total),
        rate(total, elapsed)
    ));
    if let Some((from, end)) = point.zip(end) {
        progress::note(&format!("from point {from} to {end}"));
    }
    let adapted = adapting.map(|adapting| adapting.report());
    for line in adapted.iter().flat_map(adapting::Report::lines) {
        progress::note(&line);
    }
    if args.json {
        let mut report = Report::new((total, written), elapsed, header, finder.stats(), adapted);
        report.points = Points::new(point, end);
        stdout::json(&report)?;
    }
    Ok(())
}

/// All input files.
fn inputs(args: &PackArgs) -> impl Iterator<Item = &Path> {
    let input = args.input.as_deref().unwrap_or(Path::new("-"));
    std::iter::once(input)
        .chain(args.base.iter().map(PathBuf::as_path))
        .chain(args.codec.sampler.file())
        .chain(args.store.store_key.as_deref())
}

fn encode_failure(error: EncodeError) -> Failure {
    Failure::failed(format!("cannot encode: {error}"))
}
