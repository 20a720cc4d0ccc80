//! `oncewire bench`: what the codec would do on given data, beside what people use instead.

mod contender;
mod ours;
mod output;
pub(crate) mod rivals;

use crate::args::BenchArgs;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::{progress, report, setup};
use contender::{Contender, Wire};
use oncewire_codec::{Encoder, Kernels, Level};
use ours::Oncewire;
use rivals::{CopyAndChecksum, Gzip, Lz4, Zstd};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Blocks of a TCP segment's payload: 1,500 bytes less the headers of IPv4 and TCP with timestamps.
const PACKET: usize = 1448;
/// Smallest and largest cache chosen unasked.
const DEFAULT_CACHE: std::ops::Range<u64> = 256 << 20..4 << 30;

pub(crate) fn run(args: &BenchArgs) -> Outcome {
    let kernels = match args.kernels.as_deref() {
        None => Kernels::detect(),
        Some(name) => Level::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .and_then(Kernels::at)
            .ok_or_else(|| Failure::usage(format!("this machine cannot run the {name} kernels; leave --kernels out")))?,
    };
    let data = read_all(args)?;
    if data.is_empty() {
        return Err(Failure::failed("the files are empty: there is nothing to measure"));
    }
    let mut contenders = plan(args, kernels, data.len() as u64)?;
    let figures = measure(&mut contenders, &data, args)?;
    let setting = Setting {
        version: env!("CARGO_PKG_VERSION"),
        files: args.files.iter().map(|file| file.display().to_string()).collect(),
        bytes: data.len() as u64,
        kernels: kernels.level().name(),
        processor: processor(),
        passes: args.passes,
        runs: args.runs,
    };
    if args.json {
        report::json(&output::Document { setting, figures })
    } else if args.csv {
        report::text(&output::csv(&figures))
    } else {
        report::text(&output::table(&setting, &figures))
    }
}

/// What was measured, on what.
#[derive(Debug, Serialize)]
struct Setting {
    version: &'static str,
    files: Vec<String>,
    bytes: u64,
    kernels: &'static str,
    processor: String,
    passes: u8,
    runs: u8,
}

fn read_all(args: &BenchArgs) -> Outcome<Vec<u8>> {
    let mut data = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    for path in &args.files {
        let mut input = Input::file(path)?;
        if let Some(len) = input.len {
            data.try_reserve(usize::try_from(len).unwrap_or(usize::MAX)).map_err(|_| too_large(&input.name))?;
        }
        loop {
            match input.fill(&mut buffer)? {
                0 => break,
                n => {
                    data.try_reserve(n).map_err(|_| too_large(&input.name))?;
                    data.extend_from_slice(&buffer[..n]);
                }
            }
        }
    }
    Ok(data)
}

fn too_large(name: &str) -> Failure {
    Failure::failed(format!("{name} does not fit into memory; measure a part of it"))
}

/// The processor's name, for the record.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_string()));
    model.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// One thing to measure.
struct Plan {
    block: usize,
    make: Box<dyn Fn() -> Outcome<Box<dyn Contender>>>,
    figures: Figures,
}

/// All combinations asked for, then the rivals, per block size.
fn plan(args: &BenchArgs, kernels: Kernels, total: u64) -> Outcome<Vec<Plan>> {
    let blocks = if args.packets { vec![PACKET as u64] } else { args.block.clone() };
    // Room for all data and for the block that is being written, lest the repeat of a block just miss its first copy.
    let caches = match &args.cache[..] {
        [] => vec![(total + total / 64 + (1 << 20)).clamp(DEFAULT_CACHE.start, DEFAULT_CACHE.end)],
        caches => caches.to_vec(),
    };
    let mut plans = Vec::new();
    for &block in &blocks {
        let block = usize::try_from(block).unwrap_or(usize::MAX);
        for &cache in &caches {
            for &sampler in &args.samplers {
                for &window in &args.windows {
                    for &period in &args.periods {
                        for &entropy in &args.entropy {
                            let builder = Encoder::builder()
                                .cache(cache)
                                .max_block(block)
                                .window(window)
                                .period(period)
                                .sampler(sampler.kind())
                                .entropy(entropy)
                                .kernels(kernels);
                            // Wrong parameters show before hours of measuring; nothing is committed by building.
                            builder.clone().build().map_err(setup::config_failure)?;
                            let name = format!("{} p={period} w={window} {entropy}", sampler.kind().name());
                            plans.push(Plan {
                                block,
                                make: Box::new(move || Ok(Box::new(Oncewire::new(builder.clone(), cache, block)?))),
                                figures: Figures::new(format!("oncewire {name}"), block, Some(cache)),
                            });
                        }
                    }
                }
            }
        }
        if !args.no_rivals {
            let whole = total * u64::from(args.passes);
            let mut rival = |name: &str, make: Box<dyn Fn() -> Outcome<Box<dyn Contender>>>| {
                plans.push(Plan { block, make, figures: Figures::new(name.to_string(), block, None) });
            };
            rival("copy + xxh3 (the floor)", Box::new(|| Ok(Box::new(CopyAndChecksum::default()))));
            rival("lz4 (lz4_flex), each block", Box::new(|| Ok(Box::new(Lz4::default()))));
            rival("zstd -1, stream flushed", Box::new(|| Ok(Box::new(Zstd::flushed(1)?))));
            rival("zstd -3, stream flushed", Box::new(|| Ok(Box::new(Zstd::flushed(3)?))));
            rival("zstd -1 --long=27, file", Box::new(move || Ok(Box::new(Zstd::long(1, 27, whole)?))));
            rival("zstd -1 --long=31, file", Box::new(move || Ok(Box::new(Zstd::long(1, 31, whole)?))));
            rival("gzip -6 (zlib-rs), file", Box::new(|| Ok(Box::new(Gzip::new(6)))));
        }
    }
    Ok(plans)
}

/// CPU and wall time of one pass.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Time {
    cpu_seconds: f64,
    wall_seconds: f64,
}

/// What one pass through a contender came to.
#[derive(Clone, Debug, Default, Serialize)]
struct Pass {
    wire_bytes: u64,
    savings: f64,
    encode: Vec<Time>,
    decode: Vec<Time>,
    #[serde(flatten)]
    details: Option<ours::Details>,
}

/// All that was measured of one contender.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    name: String,
    block_bytes: usize,
    cache_bytes: Option<u64>,
    encoder_memory_bytes: usize,
    decoder_memory_bytes: usize,
    passes: Vec<Pass>,
}

impl Figures {
    fn new(name: String, block_bytes: usize, cache_bytes: Option<u64>) -> Figures {
        Figures { name, block_bytes, cache_bytes, encoder_memory_bytes: 0, decoder_memory_bytes: 0, passes: Vec::new() }
    }
}

/// Runs every contender once to check every byte, then `runs` times in turn to measure it.
fn measure(plans: &mut [Plan], data: &[u8], args: &BenchArgs) -> Outcome<Vec<Figures>> {
    let rounds = 1 + u64::from(args.runs);
    let bar = progress::bar(Some(rounds * plans.len() as u64 * u64::from(args.passes) * data.len() as u64));
    let mut wire = Wire::new(data.len());
    for round in 0..rounds {
        for plan in plans.iter_mut() {
            let mut contender = (plan.make)()?;
            contender.prefault()?;
            for number in 0..usize::from(args.passes) {
                if round == 0 {
                    plan.figures.passes.push(Pass::default());
                }
                let pass = &mut plan.figures.passes[number];
                wire.clear();
                let last = number + 1 == usize::from(args.passes);
                let encode = timed(|| contender.encode(data, plan.block, last, &mut wire))?;
                wire.flatten(data);
                let check = (round == 0).then_some(data);
                let decode = timed(|| contender.decode(&wire, data.len(), plan.block, check))?;
                if round == 0 {
                    pass.wire_bytes = wire.len() as u64;
                    pass.savings = report::savings(pass.wire_bytes, data.len() as u64);
                    pass.details = contender.details();
                } else {
                    pass.encode.push(encode);
                    pass.decode.push(decode);
                }
                bar.inc(data.len() as u64);
            }
            (plan.figures.encoder_memory_bytes, plan.figures.decoder_memory_bytes) = contender.memory();
        }
    }
    bar.finish_and_clear();
    Ok(plans.iter().map(|plan| plan.figures.clone()).collect())
}

fn timed(work: impl FnOnce() -> Outcome) -> Outcome<Time> {
    let (wall, cpu) = (Instant::now(), cpu_time::ThreadTime::now());
    work()?;
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let seconds = |time: Duration| time.as_secs_f64();
    Ok(Time { cpu_seconds: seconds(cpu), wall_seconds: seconds(wall) })
}
