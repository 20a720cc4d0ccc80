//! `oncewire index re`: a WAN optimizer on the index (Anand's thesis, section 5.5).
//!
//! As there, chunks and names are computed before, and the link sends at its rate, without flow
//! control: only the index can delay an object. So the index runs once, and what each link would
//! have done with the same times is arithmetic.

mod content;
mod link;
mod present;
mod store;
mod synthetic;

use super::place::PlaceFacts;
use crate::args::index::{ChunkerName, ReArgs};
use crate::csv_files::Files;
use crate::failure::{Failure, Outcome};
use crate::output::{Outputs, finish};
use crate::{progress, stdout, terminal};
use content::Trace;
use link::{Link, Sent};
use oncewire_family::SamplerKind;
use oncewire_family::sampler::Modp;
use serde::Serialize;
use std::path::Path;
use store::{Kind, Store};

/// Bytes that name a chunk which the other end has: a SHA-1 name, and its length.
const REFERENCE: u64 = 22;
/// Bytes beside a chunk which it has not.
const HEADER: u64 = 2;

#[derive(Debug, Serialize)]
struct Document {
    format: &'static str,
    #[serde(flatten)]
    place: PlaceFacts,
    memory_bytes: u64,
    chunker: &'static str,
    /// The link of the figure by objects.
    object_link_bits_per_second: f64,
    traces: Vec<Measured>,
}

/// A trace with each index.
#[derive(Debug, Serialize)]
struct Measured {
    content: String,
    /// Share of the bytes in chunks that came before.
    redundancy: f64,
    objects: u64,
    bytes: u64,
    chunks: u64,
    mean_chunk_bytes: f64,
    /// Improvement with an index that takes no time, on any link.
    ideal: f64,
    indexes: Vec<Results>,
}

#[derive(Debug, Serialize)]
struct Results {
    index: &'static str,
    /// Of the bytes, those in chunks that were found.
    found: f64,
    /// For a look-up and an insert.
    seconds_per_chunk: f64,
    /// The link on which it gains nothing any more.
    useless_from_bits_per_second: f64,
    links: Vec<Improvement>,
    /// Mean over the objects, on the link of that figure.
    mean_object_improvement: f64,
    by_size: Vec<SizeClass>,
    #[serde(skip)]
    points: Vec<(f64, f64)>,
}

/// Figure 5.8.
#[derive(Debug, Serialize)]
struct Improvement {
    bits_per_second: f64,
    improvement: f64,
}

/// Figure 5.9, by the sizes of objects.
#[derive(Debug, Serialize)]
struct SizeClass {
    most_bytes: u64,
    objects: u64,
    mean_improvement: f64,
    /// Share of the objects that take longer than without.
    slower: f64,
}

/// Upper ends of the classes.
const SIZES: [u64; 5] = [10_000, 50_000, 100_000, 500_000, u64::MAX];

pub(crate) fn run(args: &ReArgs) -> Outcome {
    check(args)?;
    let mut outputs = Outputs::beside(args.inputs.iter().map(|path| &**path))?;
    let report = match args.report.as_deref() {
        Some(path) if path == Path::new("-") => {
            return Err(Failure::usage(
                "--report writes a file for a browser, and standard output has the summary; pass --report FILE",
            ));
        }
        Some(path) => Some(outputs.file("--report", Some(path))?),
        None => None,
    };
    if let Some(directory) = &args.csv {
        outputs.directory("--csv", directory, present::is_ours)?;
        std::fs::create_dir_all(directory)
            .map_err(|error| Failure::io("make the directory", directory.display(), &error))?;
    }
    let report = report.map(crate::output::Destination::open).transpose()?;

    let document = measure(args)?;
    let figures = present::figures(&document);
    let mut written = Vec::new();
    if let (Some(path), Some(mut file)) = (&args.report, report) {
        let page = oncewire_report::html::render(&present::report(&document, &figures));
        file.write(page.as_bytes())?;
        written.push(file);
        progress::note(&format!("{}: the report; open it in a browser", path.display()));
    }
    if let Some(directory) = &args.csv {
        let mut files = Files::new(directory)?;
        present::csv(&figures, &mut files)?;
        written.append(&mut files.written);
    }
    finish(written)?;
    if args.json {
        return stdout::json(&document);
    }
    terminal::print("--csv", |page| page.report(&present::report(&document, &figures)))
}

fn check(args: &ReArgs) -> Outcome {
    if args.place.is_none() && args.simulated.like.is_none() {
        return Err(Failure::usage(
            "name a directory for the index with --dir, or a device with --like",
        ));
    }
    if !args.inputs.is_empty() && args.redundancy.is_some() {
        return Err(Failure::usage(
            "--redundancy is for generated content, and the content of files is what it is: leave one of them out",
        ));
    }
    Ok(())
}

fn measure(args: &ReArgs) -> Outcome<Document> {
    let (chunker, sampler) = match args.chunker {
        ChunkerName::Modp => ("modp", SamplerKind::Modp(Modp::default())),
        ChunkerName::Maxp => ("maxp", SamplerKind::Maxp),
    };
    let sampler = sampler.boxed();
    let mut traces = Vec::new();
    let mut device = String::new();
    let mut one = |content: String, trace: &Trace| -> Outcome {
        let mut indexes = Vec::new();
        for kind in [Kind::BufferHash, Kind::Unbuffered] {
            let mut store = Store::new(kind, args, trace)?;
            indexes.push(results(args, trace, kind, &mut store)?);
            device.clone_from(&store.device);
        }
        traces.push(measured(content, trace, indexes));
        Ok(())
    };
    if args.inputs.is_empty() {
        let shares = args.redundancy.clone().unwrap_or_else(|| vec![0.5, 0.15]);
        for share in shares {
            let trace = synthetic::trace(&*sampler, args.size, share, args.recent, args.seed);
            one(format!("generated, {:.0} % redundant", 100.0 * share), &trace)?;
        }
    } else {
        let (trace, name) = content::read(&*sampler, &args.inputs, args.size)?;
        one(name, &trace)?;
    }
    Ok(Document {
        format: "oncewire-index-re/1",
        place: PlaceFacts {
            device,
            simulated: args.simulated.like.is_some(),
            flash_bytes: args.flash,
        },
        memory_bytes: args.memory,
        chunker,
        object_link_bits_per_second: args.object_link,
        traces,
    })
}

fn measured(content: String, trace: &Trace, indexes: Vec<Results>) -> Measured {
    let chunks = trace.objects.iter().map(|object| object.chunks.len() as u64).sum::<u64>();
    let sent: u64 = trace.objects.iter().map(content::Object::least).sum();
    Measured {
        content,
        redundancy: trace.repeated as f64 / trace.bytes as f64,
        objects: trace.objects.len() as u64,
        bytes: trace.bytes,
        chunks,
        mean_chunk_bytes: trace.bytes as f64 / chunks as f64,
        ideal: trace.bytes as f64 / sent as f64,
        indexes,
    }
}

fn results(args: &ReArgs, trace: &Trace, kind: Kind, store: &mut Store) -> Outcome<Results> {
    let mut sent = Vec::with_capacity(trace.objects.len());
    let (mut found, mut chunks, mut seconds) = (0, 0, 0.0);
    for object in &trace.objects {
        let begun = store.begin();
        let mut bytes = 0;
        for chunk in &object.chunks {
            if store.look_up(&chunk.name)? {
                bytes += REFERENCE;
                found += u64::from(chunk.len);
            } else {
                bytes += HEADER + u64::from(chunk.len);
            }
            // Found or not, as in T:4543: the content cache has the newest copy longest.
            store.insert(&chunk.name)?;
        }
        let busy = store.elapsed(begun);
        chunks += object.chunks.len();
        seconds += busy;
        sent.push(Sent { bytes: object.bytes, sent: bytes, busy });
    }
    let improvements = link::of_objects(&sent, Link(args.object_link));
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let mut from = 0;
    let by_size = SIZES
        .into_iter()
        .filter_map(|most| {
            let within = |sent: &Sent| (from..most).contains(&sent.bytes);
            let each = sent.iter().zip(&improvements);
            let here: Vec<f64> = each.filter(|(it, _)| within(it)).map(|(_, &it)| it).collect();
            from = most;
            let slower = here.iter().filter(|&&it| it < 1.0).count() as f64 / here.len() as f64;
            (!here.is_empty()).then(|| SizeClass {
                most_bytes: most,
                objects: here.len() as u64,
                mean_improvement: mean(&here),
                slower,
            })
        })
        .collect();
    Ok(Results {
        index: kind.name(),
        found: found as f64 / trace.bytes as f64,
        seconds_per_chunk: seconds / chunks as f64,
        useless_from_bits_per_second: link::useless_from(&sent).0,
        links: args
            .links
            .iter()
            .map(|&bits_per_second| Improvement {
                bits_per_second,
                improvement: link::improvement(&sent, Link(bits_per_second)),
            })
            .collect(),
        mean_object_improvement: mean(&improvements),
        by_size,
        points: sent.iter().map(|it| it.bytes as f64).zip(improvements).collect(),
    })
}
