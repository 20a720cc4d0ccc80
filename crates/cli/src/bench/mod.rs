//! `oncewire bench`: measures the codec on your data, next to the tools that people use instead.

mod bound;
mod candidate;
mod family;
mod ours;
mod output;
pub(crate) mod plan;
pub(crate) mod rivals;

use crate::args::BenchArgs;
use crate::csv_files::Files;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::family::SamplerName;
use crate::output::{Outputs, finish};
use crate::{progress, stdout, terminal};
use candidate::Wire;
use oncewire_codec::{Kernels, Level};
use plan::Plan;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) fn run(args: &BenchArgs) -> Outcome {
    let kernels = match args.kernels.as_deref() {
        None => Kernels::detect(),
        Some(name) => Level::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .and_then(Kernels::at)
            .ok_or_else(|| {
                Failure::usage(format!(
                    "this machine cannot run the {name} kernels; leave --kernels out"
                ))
            })?,
    };
    let inputs = args
        .files
        .iter()
        .map(PathBuf::as_path)
        .chain(args.samplers.iter().filter_map(SamplerName::file));
    // Standard output may be a file, too, and must not be one of the inputs.
    let mut outputs = Outputs::beside(inputs)?;
    if let Some(directory) = &args.csv {
        outputs.directory("--csv", directory, |name| name == output::CSV)?;
        // Fail before hours of measuring.
        Files::new(directory)?;
    }
    let mut data = read_all(&args.files)?;
    if data.is_empty() {
        return Err(Failure::failed("the files are empty; nothing to measure"));
    }
    let mut plans = plan::plans(args, kernels, &data)?;
    let bounds = if args.optimal { bound::measure(&plans, &mut data, args)? } else { Vec::new() };
    let mut figures = measure(&mut plans, &mut data, args)?;
    bound::compare(&bounds, &mut figures);
    let setting = Setting {
        version: env!("CARGO_PKG_VERSION"),
        files: args.files.iter().map(|file| file.display().to_string()).collect(),
        bytes: data.len() as u64,
        kernels: kernels.level().name(),
        processor: processor(),
        passes: args.passes,
        runs: args.runs,
    };
    if let Some(directory) = &args.csv {
        let mut files = Files::new(directory)?;
        files.write(output::CSV.into(), |out| output::csv(&bounds, &figures, out))?;
        finish(files.written)?;
    }
    if args.json {
        stdout::json(&output::Document { setting, bounds, figures })
    } else {
        let report = output::report(&setting, &bounds, &figures);
        terminal::print("--csv", |page| page.answer(&report))
    }
}

/// The conditions of the measurement.
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

/// The files' content, concatenated.
pub(crate) fn read_all(files: &[PathBuf]) -> Outcome<Vec<u8>> {
    let mut data = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut input = Input::file(path)?;
        if let Some(len) = input.len {
            data.try_reserve(usize::try_from(len).unwrap_or(usize::MAX))
                .map_err(|_| too_large(&input.name))?;
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
    Failure::failed(format!("{name} does not fit into memory; measure part of it"))
}

/// The processor's name, for the record.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_string())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// CPU and wall time of one pass.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Time {
    cpu_seconds: f64,
    wall_seconds: f64,
}

/// The results of one pass through a candidate.
#[derive(Clone, Debug, Default, Serialize)]
struct Pass {
    wire_bytes: u64,
    savings: f64,
    encode: Vec<Time>,
    decode: Vec<Time>,
    /// Savings as a share of `Optimal`'s, if requested. Above 1 where an entropy stage saves more,
    /// or matches cost less than its pointers.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_optimal: Option<f64>,
    #[serde(flatten)]
    details: Option<candidate::Details>,
}

/// All measurements of one candidate.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    name: String,
    block_bytes: usize,
    /// Window of our settings, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<usize>,
    cache_bytes: Option<u64>,
    encoder_memory_bytes: usize,
    decoder_memory_bytes: usize,
    passes: Vec<Pass>,
}

impl Figures {
    fn new(
        name: String,
        block_bytes: usize,
        window: Option<usize>,
        cache_bytes: Option<u64>,
    ) -> Figures {
        Figures {
            name,
            block_bytes,
            window,
            cache_bytes,
            encoder_memory_bytes: 0,
            decoder_memory_bytes: 0,
            passes: Vec::new(),
        }
    }
}

/// Runs every candidate once to verify every byte, then `runs` times in turn to measure it.
fn measure(plans: &mut [Plan], data: &mut [u8], args: &BenchArgs) -> Outcome<Vec<Figures>> {
    let shift = pass_shift(data.len());
    let rounds = 1 + u64::from(args.runs);
    let bar = progress::bar(Some(
        rounds * plans.len() as u64 * u64::from(args.passes) * data.len() as u64,
    ));
    let mut wire = Wire::new(data.len());
    for round in 0..rounds {
        for plan in plans.iter_mut() {
            let mut candidate = (plan.make)()?;
            candidate.prefault()?;
            for number in 0..usize::from(args.passes) {
                if round == 0 {
                    plan.figures.passes.push(Pass::default());
                }
                let pass = &mut plan.figures.passes[number];
                wire.clear();
                let last = number + 1 == usize::from(args.passes);
                let encode = timed(|| candidate.encode(data, plan.block, last, &mut wire))?;
                wire.flatten(data);
                let check = (round == 0).then_some(&*data);
                let decode = timed(|| candidate.decode(&wire, data.len(), plan.block, check))?;
                if round == 0 {
                    pass.wire_bytes = wire.len() as u64;
                    pass.savings = stdout::savings(pass.wire_bytes, data.len() as u64);
                    pass.details = candidate.details();
                } else {
                    pass.encode.push(encode);
                    pass.decode.extend(candidate.decodes().then_some(decode));
                }
                bar.inc(data.len() as u64);
                data.rotate_left(shift);
            }
            data.rotate_right(shift * usize::from(args.passes) % data.len().max(1));
            (plan.figures.encoder_memory_bytes, plan.figures.decoder_memory_bytes) =
                candidate.memory();
        }
    }
    bar.finish_and_clear();
    Ok(plans.iter().map(|plan| plan.figures.clone()).collect())
}

/// Bytes that each pass begins later than the one before; the bytes before come at its end. Blocks
/// then have other borders than in the pass before, as repeats have in practice.
fn pass_shift(len: usize) -> usize {
    if len > 2 * PASS_SHIFT { PASS_SHIFT } else { len / 3 }
}

/// No multiple of a usual block size.
const PASS_SHIFT: usize = 12_345;

fn timed(work: impl FnOnce() -> Outcome) -> Outcome<Time> {
    let (wall, cpu) = (Instant::now(), cpu_time::ThreadTime::now());
    work()?;
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let seconds = |time: Duration| time.as_secs_f64();
    Ok(Time { cpu_seconds: seconds(cpu), wall_seconds: seconds(wall) })
}
