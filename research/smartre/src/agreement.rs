//! Whether packets do what plans expect: at any redundancy, with any memory.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use oncewire_packet::{CaptureReader, Dissected, Dissector, Limits, Nanos};
use oncewire_plan::{
    Bytes, Error, Scenario, Text, Unwatched,
    emulate::{self, Captures, Choose, NoCaptures, Request, Rules, Source},
    lp,
    scenario::Redundancy,
};
use rayon::prelude::*;

use crate::{Outcome, Run, Table};

/// Maps with this many sending PoPs (all, if none), each with two access routers: small enough for
/// every path to have packets.
const MAPS: [(&str, Option<usize>); 5] = [
    ("Sprint", Some(5)),
    ("Tiscali", Some(5)),
    ("Telstra", Some(5)),
    ("GÉANT", Some(8)),
    ("Abilene", Some(5)),
];

const GAMMAS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
const EPOCHS: u32 = 4;

fn scenario(run: &Run, map: &str, endpoints: Option<usize>, gamma: f64) -> Outcome<Scenario> {
    let path = run.file(map)?;
    let text = std::fs::read_to_string(&path)?;
    let mut scenario = Scenario::new(Text::new(path.display().to_string(), text));
    scenario.shape.endpoints = endpoints;
    scenario.shape.access_routers = Some(2);
    if let Redundancy::Synthetic(profile) = &mut scenario.redundancy {
        profile.gamma = gamma;
    }
    Ok(scenario)
}

fn request(run: &Run, scenario: Scenario, source: Source, rules: Rules) -> Request {
    Request {
        scenario,
        seed: run.seed,
        source,
        epochs: EPOCHS,
        scale: None,
        plan: None,
        loss: 0.0,
        matches: 3,
        rules,
        replan: None,
        reroute: None,
        headroom: 0.0,
        cache_all: false,
        choose: Choose::Expected,
        compare: false,
        measure: false,
    }
}

/// Footprint reduction after the first epoch, during which caches fill.
fn warm(report: &emulate::Report) -> f64 {
    let warm = report.epochs.iter().filter(|epoch| epoch.epoch > 0);
    let sum = warm.fold(emulate::Traffic::default(), |sum, epoch| sum.with(epoch.footprint));
    sum.reduction()
}

/// Reductions by gamma: of the program, expected with all copies, and emulated.
pub(crate) fn gamma(run: &Run) -> Outcome {
    let columns =
        ["map", "gamma", "program", "expected", "emulated", "published", "overloaded", "packets"];
    let mut table = Table::new(run, "gamma", &columns)?;
    for (map, endpoints) in MAPS {
        let rows: Vec<_> = GAMMAS
            .par_iter()
            .map(|&gamma| -> Outcome<_> {
                let source = || Source::Synthetic { crowd: None, drift: None };
                let of = |rules| -> Outcome<_> {
                    let scenario = scenario(run, map, endpoints, gamma)?;
                    let mut request = request(run, scenario, source(), rules);
                    let volume = request.scenario.build(&Unwatched)?.link_volumes();
                    request.scale = Some(SMALL / volume.iter().sum::<f64>());
                    Ok(emulate::run(&request, &mut NoCaptures, &Unwatched)?)
                };
                let (ours, published) = (of(Rules::default())?, of(Rules::PUBLISHED)?);
                let instance = &ours.instance;
                let solution = lp::solve(instance, &lp::Options::default(), None, &Unwatched)?.0;
                let report = &ours.runs[0].report;
                Ok((
                    solution.objective / instance.footprint(),
                    report.expected.unwrap_or(0.0),
                    warm(report),
                    warm(&published.runs[0].report),
                    report.refusals.overloaded,
                    report.packets,
                ))
            })
            .collect::<Outcome<_>>()?;
        for (gamma, (program, expected, emulated, published, overloaded, packets)) in
            GAMMAS.iter().zip(rows)
        {
            table.row(&[
                &map,
                gamma,
                &program,
                &expected,
                &emulated,
                &published,
                &overloaded,
                &packets,
            ])?;
        }
        eprintln!("  {map}");
    }
    table.end()
}

/// A capture file, read anew each time.
struct Files<'a>(&'a Path);

/// What goes wrong with it.
#[derive(Debug)]
struct Failed(String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed(error.to_string())
    }
}

impl Captures for Files<'_> {
    type Error = Failed;

    fn each(
        &mut self,
        process: &mut dyn FnMut(Nanos, usize, &Dissected<'_>) -> Result<(), Error>,
    ) -> Result<(), Failed> {
        let failed = |error: &dyn std::fmt::Display| Failed(error.to_string());
        let open = File::open(self.0).map_err(|error| failed(&error))?;
        let mut capture =
            CaptureReader::new(BufReader::new(open)).map_err(|error| failed(&error))?;
        let mut dissector = Dissector::new(Limits::default());
        while let Some(record) = capture.next() {
            let record = record.map_err(|error| failed(&error))?;
            let (time, length) = (record.time, record.data.len());
            if let Ok(packet) = dissector.dissect(&record) {
                process(time, length, &packet)?;
            }
        }
        Ok(())
    }
}

/// Bytes on all links in an epoch of synthetic packets: many runs.
const SMALL: f64 = 100e6;

/// Memories of all devices but ingresses, in GB.
const MEMORIES: [f64; 7] = [0.5, 1.0, 2.0, 4.0, 6.0, 20.0, 60.0];

/// Reductions by memory: larger caches must not do worse.
pub(crate) fn larger(run: &Run) -> Outcome {
    let columns = ["map", "content", "rules", "memory", "expected", "emulated", "overloaded"];
    let mut table = Table::new(run, "larger", &columns)?;
    let contents: Vec<Option<&PathBuf>> =
        run.captures.iter().map(Some).chain(std::iter::once(None)).collect();
    for (map, endpoints) in MAPS {
        for &content in &contents {
            for (rules_name, rules) in
                [("precise", Rules::default()), ("published", Rules::PUBLISHED)]
            {
                let rows: Vec<_> = MEMORIES
                    .par_iter()
                    .map(|&memory| -> Outcome<_> {
                        let all = if content.is_some() { None } else { endpoints };
                        let mut scenario = scenario(run, map, all, 0.5)?;
                        scenario.provision.interior_memory = Bytes(memory * 1e9);
                        scenario.provision.edge_memory = Bytes(memory * 1e9);
                        let source = match content {
                            Some(_) => Source::Captured { ingress: None, prefixes: None },
                            None => Source::Synthetic { crowd: None, drift: None },
                        };
                        let mut request = request(run, scenario, source, rules);
                        if content.is_none() {
                            let volume = request.scenario.build(&Unwatched)?.link_volumes();
                            request.scale = Some(SMALL / volume.iter().sum::<f64>());
                        }
                        let outcome = match content {
                            Some(file) => emulate::run(&request, &mut Files(file), &Unwatched)
                                .map_err(|Failed(error)| error)?,
                            None => emulate::run(&request, &mut NoCaptures, &Unwatched)?,
                        };
                        let report = &outcome.runs[0].report;
                        let expected = report.expected.unwrap_or(0.0);
                        Ok((expected, warm(report), report.refusals.overloaded))
                    })
                    .collect::<Outcome<_>>()?;
                let name = content
                    .and_then(|file| file.file_stem())
                    .map_or("synthetic".into(), |stem| stem.to_string_lossy());
                for (memory, (expected, emulated, overloaded)) in MEMORIES.iter().zip(rows) {
                    table.row(&[
                        &map,
                        &name,
                        &rules_name,
                        memory,
                        &expected,
                        &emulated,
                        &overloaded,
                    ])?;
                }
            }
        }
        eprintln!("  {map}");
    }
    table.end()
}
