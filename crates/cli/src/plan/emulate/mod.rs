//! `oncewire emulate`: packets through a planned network, with the real codec.

mod document;
pub(super) mod traffic;

use super::scenario::{self, Scenario};
use super::watch::Progress;
use crate::args::plan::{ChooseName, EmulateArgs, RulesName};
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Outputs};
use crate::quantity::bytes;
use crate::study::source::{self, Source};
use crate::{stdout, terminal};
use document::{Run, document};
use oncewire_packet::prefix::Prefixes;
use oncewire_plan::emulate::workload::Drift;
use oncewire_plan::emulate::{self, Choose, FlashCrowd, Replan, Report, Request, Reroute, Rules};
use oncewire_plan::error::EmulationError;
use oncewire_plan::{Error, Seconds, Stage};
use std::path::Path;
use traffic::{CaptureFiles, Traffic, mapping_notes};

/// One scheme's run, for the document.
struct Carried {
    report: Report,
    replans: u32,
    seconds: f64,
}

pub(crate) fn run(args: &EmulateArgs) -> Outcome {
    let sources: Vec<Source> = args.capture.iter().cloned().map(Source::File).collect();
    let captures = source::check(&sources)?;
    let files = [&args.prefixes, &args.plan].into_iter().filter_map(|file| file.as_deref());
    let mut outputs =
        Outputs::beside(captures.into_iter().chain(args.scenario.inputs()).chain(files))?;
    let measured =
        args.measured.as_deref().map(|path| outputs.file("--measured", Some(path))).transpose()?;
    let manifests = args
        .manifests
        .as_deref()
        .map(|path| outputs.file("--manifests", Some(path)))
        .transpose()?;
    let open = |file: Option<Destination>| file.map(Destination::open).transpose();
    let (measured, manifests) = (open(measured)?, open(manifests)?);
    let watch = Progress::new();
    let mut scenario = Scenario::read(&args.scenario)?;
    scenario.one_hour()?;
    let request = request(args, &scenario)?;
    let mut captures = CaptureFiles::new(sources, &watch);
    let outcome =
        emulate::run(&request, &mut captures, &watch).map_err(|failure| hint(args, failure))?;
    let mut notes = captures.into_damaged();
    let mut seconds = watch
        .seconds()
        .into_iter()
        .filter(|(stage, _)| *stage == Stage::Emulate)
        .map(|(_, seconds)| seconds);
    drop(watch);
    scenario.describe(&outcome.instance);
    let carried: Vec<(&str, Carried)> = outcome
        .runs
        .iter()
        .map(|run| {
            let seconds = seconds.next().unwrap_or(0.0);
            (run.name, Carried { report: run.report.clone(), replans: run.replans, seconds })
        })
        .collect();
    if let (Some(mut file), Some(found)) = (measured, &outcome.measured) {
        file.write(found.to_text(&outcome.instance).as_bytes())?;
        file.finish()?;
    }
    if let Some(mut file) = manifests {
        file.write(outcome.plan()?.to_json().as_bytes())?;
        file.finish()?;
    }
    mapping_notes(outcome.runs.first().and_then(|run| run.mapped.as_ref()), &mut notes);
    let runs = outcome
        .runs
        .iter()
        .zip(&carried)
        .map(|(run, (_, carried))| Run::of(run.name, carried))
        .collect();
    let (_, planned) = carried.first().ok_or_else(|| Failure::failed("nothing was carried"))?;
    let traffic = Traffic::describe(args, &outcome);
    let document = document(args, &scenario, &outcome, &traffic, &planned.report, runs, notes);
    if args.json {
        return stdout::json(&document);
    }
    terminal::print("--json", |page| match args.full {
        true => page.report(&document.report()),
        false => document.overview(page),
    })
}

fn request(args: &EmulateArgs, scenario: &Scenario) -> Outcome<Request> {
    if args.scale == Some(0.0) {
        return Err(Failure::usage("--scale 0% leaves nothing to emulate"));
    }
    if args.loss >= 1.0 {
        return Err(Failure::usage("--loss 100%: no packet would arrive; give a share below 100%"));
    }
    let source = if args.capture.is_empty() {
        let crowd = args.flash_crowd.map(|crowd| FlashCrowd {
            from: crowd.from,
            volume: crowd.volume,
            gamma: crowd.gamma,
        });
        let drift = args.drift.map(|drift| Drift {
            time: Seconds(drift.time.as_secs_f64()),
            volume: drift.spread,
            matches: drift.spread,
        });
        emulate::Source::Synthetic { crowd, drift }
    } else if args.flash_crowd.is_some() {
        return Err(Failure::usage(
            "--flash-crowd is for synthetic packets; a capture is carried as it is",
        ));
    } else {
        let prefixes = prefixes(args.prefixes.as_deref())?;
        emulate::Source::Captured { ingress: args.ingress.clone(), prefixes }
    };
    let replan =
        |every| Replan { every, trigger: args.trigger, delay: args.delay, stagger: args.stagger };
    Ok(Request {
        scenario: scenario.request.clone(),
        seed: args.scenario.seed,
        source,
        epochs: args.epochs,
        scale: args.scale,
        plan: args.plan.as_deref().map(super::read_plan).transpose()?,
        loss: args.loss,
        matches: args.matches,
        rules: match args.rules {
            RulesName::Precise => Rules::default(),
            RulesName::Published => Rules::PUBLISHED,
        },
        replan: args.replan.map(replan),
        reroute: args.reroute.map(|after| Reroute { after, notice: args.notice }),
        headroom: args.headroom,
        cache_all: args.cache_all,
        choose: match args.choose {
            Some(ChooseName::Packets) => Choose::Packets,
            Some(ChooseName::Expected) => Choose::Expected,
            None if args.capture.is_empty() => Choose::Expected,
            None => Choose::Packets,
        },
        compare: !args.quick,
        measure: args.measured.is_some(),
    })
}

/// Reads a table of prefixes and nodes.
pub(super) fn prefixes(path: Option<&Path>) -> Outcome<Option<Box<Prefixes>>> {
    let read = |path: &Path| -> Outcome<_> {
        let table = Prefixes::parse(&scenario::read(path)?);
        Ok(Box::new(
            table.map_err(|error| Failure::damaged(format!("{}: {error}", path.display())))?,
        ))
    };
    path.map(read).transpose()
}

/// What failed: reading captures, or the emulator.
pub(super) enum Failed {
    Reading(Failure),
    Emulator(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Emulator(error)
    }
}

/// The failure, with the option that helps.
fn hint(args: &EmulateArgs, failed: Failed) -> Failure {
    let error = match failed {
        Failed::Reading(failure) => return failure,
        Failed::Emulator(error) => error,
    };
    match error.root() {
        Error::Emulation(EmulationError::GammaOfCrowd) => {
            Failure::usage("--flash-crowd gamma=... needs a synthetic profile with --gamma above 0")
        }
        Error::Emulation(EmulationError::SmallCaptures { epochs, store }) => {
            Failure::usage(format!(
                "the captures are too small for {epochs} epochs: a packet store would have {}; use fewer --epochs or larger captures",
                bytes(*store as u64)
            ))
        }
        Error::Emulation(why @ EmulationError::NothingMapped) => {
            Failure::usage(format!("{why}; check --prefixes and --ingress"))
        }
        Error::Emulation(why @ EmulationError::Range { .. }) if args.drift.is_some() => {
            Failure::usage(format!("--drift: {why}"))
        }
        Error::Emulation(why @ EmulationError::NoSpareLink) => {
            Failure::usage(format!("--reroute: {why}"))
        }
        Error::Emulation(EmulationError::AnotherPlan(what)) => Failure::usage(format!(
            "{} is a plan for another network or other paths ({what}); use the same topology and options",
            args.plan.as_deref().unwrap_or_else(|| "the plan".as_ref()).display()
        )),
        _ => error.into(),
    }
}
