//! CPU time of a study of captures, as the program makes it by default or, with `all`, with every
//! figure, algorithm and sweep; or with some figures and algorithms only.
//!
//! `cargo run --release -p oncewire-trace --example cost -- lean|all|FIGURES:ALGORITHMS CAPTURES`

use oncewire_trace::request::{Notice, Source, Watch};
use oncewire_trace::{Algorithm, FigureId, Request, Settings};
use std::fs::File;
use std::io::Read;

struct Capture(String);

impl Source for Capture {
    type Error = std::io::Error;

    fn name(&self) -> String {
        self.0.clone()
    }

    fn size(&self) -> Option<u64> {
        std::fs::metadata(&self.0).ok().map(|about| about.len())
    }

    fn is_optional(&self) -> bool {
        false
    }

    fn open(&self) -> Result<Box<dyn Read + '_>, std::io::Error> {
        Ok(Box::new(File::open(&self.0)?))
    }
}

struct Quiet;

impl Watch for Quiet {
    fn is_canceled(&self) -> bool {
        false
    }

    fn notice(&self, _: Notice<'_>) {}
}

fn settings(what: &str) -> Settings {
    let lean = Settings { threads: 2, ..Settings::lean() };
    match what.split_once(':') {
        None if what == "all" => Settings { threads: 2, ..Settings::default() },
        None => lean,
        Some((figures, algorithms)) => Settings {
            figures: figures.split(',').filter_map(FigureId::named).collect(),
            algorithms: algorithms.split(',').filter_map(Algorithm::named).collect(),
            ..lean
        },
    }
}

/// Seconds of user and system time of this process so far.
fn cpu() -> [f64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
    [11, 12]
        .map(|at| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0) / 100.0)
}

/// Most memory so far, in megabytes.
fn peak() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1e3
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let settings = settings(&args.next().ok_or("lean, all or FIGURES:ALGORITHMS, then captures")?);
    let sources: Vec<Capture> = args.map(Capture).collect();
    let mut request = Request { settings, sampling: None, memory: 1 << 30 };
    request.survey(&sources, || false);
    let [user, system] = cpu();
    println!("survey: {user:.2} s user, {system:.2} s system; {} passes", request.passes(&sources));
    let found = request.run(&sources, None, &Quiet)?;
    let [user, system] = cpu();
    println!(
        "{}\n{user:.2} s user, {system:.2} s system, {:.0} MB at most",
        found.report.verdict.headline,
        peak()
    );
    Ok(())
}
