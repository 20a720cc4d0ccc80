//! `oncewire emulate`: packets through a planned network, with the real codec.

mod document;
mod reroute;
mod traffic;

use super::failure;
use super::scenario::Scenario;
use super::watch::Waiting;
use crate::args::plan::EmulateArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Outputs};
use crate::study::source::{self, Source};
use crate::{report as stdout, terminal};
use document::{Run, document};
use oncewire_plan::emulate::workload::Mapped;
use oncewire_plan::emulate::{Allocation, Emulation, Observed, Replanner, Replanning, Report, Rollout, Scheme, Settings, Share};
use oncewire_plan::lp::{self, WarmStart};
use oncewire_plan::measure::{self, Measurement, Profiler};
use oncewire_plan::{Error, Instance, Unwatched, Watch};
use reroute::reroute;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use traffic::{Traffic, captured, feed, mapping_notes, synthetic};

pub(crate) fn run(args: &EmulateArgs) -> Outcome {
    if args.scale == Some(0.0) {
        return Err(Failure::usage("--scale 0% leaves nothing to emulate"));
    }
    let sources: Vec<Source> = args.capture.iter().cloned().map(Source::File).collect();
    let captures = source::check(&sources)?;
    let files = [&args.prefixes, &args.plan].into_iter().filter_map(|file| file.as_deref());
    let mut outputs = Outputs::beside(captures.into_iter().chain(args.scenario.inputs()).chain(files))?;
    let measured = args.measured.as_deref().map(|path| outputs.file("--measured", Some(path))).transpose()?;
    let mut measured = measured.map(Destination::open).transpose()?;
    let watch = Waiting::new();
    let scenario = Scenario::build(&args.scenario, &watch)?;
    let (instance, traffic) = if sources.is_empty() {
        synthetic(args, &scenario.instance)?
    } else {
        captured(args, &scenario.instance, sources, &watch)?
    };
    let mut notes = traffic.damaged.clone();
    let options = lp::Options::default();
    let (allocation, warm) = match &args.plan {
        Some(path) => (given(path, &instance, traffic.scale)?, None),
        None => {
            watch.say("solving the program");
            let (solution, warm) = lp::solve(&instance, &options, None, &watch).map_err(failure)?;
            (Allocation::new(&instance, &solution).map_err(failure)?, Some(warm))
        }
    };
    let mut runs = Vec::new();
    let mut planned = None;
    let schemes = [("SmartRE", Scheme::Planned(allocation)), ("hop-by-hop", Scheme::HopByHop), ("Ideal", Scheme::Ideal)];
    for (name, scheme) in schemes.into_iter().take(if args.quick { 1 } else { 3 }) {
        let first = planned.is_none();
        let profiled = first && measured.is_some();
        let carried = carry(args, &instance, name, scheme, &traffic, warm.as_ref(), profiled, &watch)?;
        runs.push(Run::of(name, &carried));
        if first {
            mapping_notes(carried.mapped.as_ref(), &mut notes);
            if let (Some(mut file), Some(found)) = (measured.take(), &carried.found) {
                // The file is for plans of the whole network, not of the part that was emulated.
                file.write(found.clone().scaled(1.0 / traffic.scale).to_text(&instance).as_bytes())?;
                file.finish()?;
            }
            planned = Some(carried.report);
        }
    }
    drop(watch);
    let report = planned.ok_or_else(|| Failure::failed("nothing was carried"))?;
    let document = document(args, &scenario, &instance, &traffic, &report, runs, notes);
    if args.json {
        return stdout::json(&document);
    }
    let (width, colour) = terminal::page();
    let mut text = Vec::new();
    document.write(&mut text, width, colour).map_err(|error| Failure::report(&error))?;
    stdout::text(&String::from_utf8_lossy(&text))
}

/// A plan from a file, for the part of the network's volumes that is emulated.
fn given(path: &std::path::Path, instance: &Instance, scale: f64) -> Outcome<Allocation> {
    let plan = super::read_plan(path)?;
    let another = |what: &str| {
        Failure::damaged(format!(
            "{} is a plan for another network or other paths ({what}); give the same topology and options",
            path.display()
        ))
    };
    if plan.devices().len() != instance.devices.len() {
        return Err(another(&format!("{} devices, here are {}", plan.devices().len(), instance.devices.len())));
    }
    if let Some(at) = (0..instance.devices.len()).find(|&at| plan.devices()[at].name != instance.device_name(at)) {
        return Err(another(&format!("its device {:?} is {:?} here", plan.devices()[at].name, instance.device_name(at))));
    }
    if plan.paths().len() != instance.paths.len() {
        return Err(another(&format!("{} paths, here are {}", plan.paths().len(), instance.paths.len())));
    }
    let mut shares = Vec::with_capacity(plan.paths().len());
    for (planned, path) in plan.paths().iter().zip(&instance.paths) {
        if !planned.hops.iter().copied().eq(path.hops.iter().map(|hop| hop.device)) {
            return Err(another(&format!("the path to {} takes another way", planned.egress)));
        }
        let share = |range: &oncewire_plan::manifest::Range| Share {
            from: range.from,
            to: range.to,
            device: planned.hops[range.hop as usize],
            bytes: (range.bytes as f64 * scale) as u64,
        };
        shares.push(planned.ranges.iter().map(share).collect());
    }
    Allocation::of_parts(instance, shares).map_err(failure)
}

/// Makes new plans from what ingresses measured.
struct Again {
    instance: Instance,
    warm: Option<WarmStart>,
    made: Rc<RefCell<u32>>,
}

impl Replanner for Again {
    fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error> {
        let measured = Measurement { volumes: observed.volumes.clone(), profile: observed.profile.clone() };
        let instance = measured.apply(&self.instance)?;
        let (solution, warm) = lp::solve(&instance, &lp::Options::default(), self.warm.as_ref(), &Unwatched)?;
        self.warm = Some(warm);
        *self.made.borrow_mut() += 1;
        Ok(Some(Allocation::new(&instance, &solution)?))
    }
}

/// What came of a scheme.
struct Carried {
    report: Report,
    found: Option<Measurement>,
    mapped: Option<Mapped>,
    replans: u32,
    seconds: f64,
}

#[expect(clippy::too_many_arguments, reason = "all that a run depends on")]
fn carry(
    args: &EmulateArgs,
    instance: &Instance,
    name: &str,
    scheme: Scheme,
    traffic: &Traffic,
    warm: Option<&WarmStart>,
    profiled: bool,
    watch: &Waiting,
) -> Outcome<Carried> {
    let clock = Instant::now();
    let planned = matches!(scheme, Scheme::Planned(_));
    let mut settings = Settings { seed: args.scenario.seed, loss: args.loss, ..Settings::default() };
    settings.format.max_matches = args.matches;
    if let Some(every) = args.replan.filter(|_| planned) {
        let rollout = Rollout { stagger: nanoseconds(args.stagger), transition: nanoseconds(args.stagger) };
        settings.replanning =
            Replanning { every: u64::from(every), change: args.trigger, delay: nanoseconds(args.delay), rollout };
    }
    let mut emulation = Emulation::new(instance, scheme, settings).map_err(failure)?;
    let made = Rc::new(RefCell::new(0));
    if args.replan.is_some() && planned {
        emulation = emulation.with_replanner(Again { instance: instance.clone(), warm: warm.cloned(), made: Rc::clone(&made) });
    }
    if let Some(time) = args.reroute {
        for event in reroute(instance, time, args.notice)? {
            emulation.schedule(event).map_err(failure)?;
        }
    }
    let mut profiler = if profiled {
        let settings =
            measure::Settings { warm_up: f64::from(u8::from(args.capture.is_empty())), ..measure::Settings::default() };
        Some(Profiler::new(instance, settings).map_err(failure)?)
    } else {
        None
    };
    let mut count = 0u64;
    let mapped = feed(instance, traffic, watch, |packet| {
        if count.is_multiple_of(4096) {
            watch.progress(&format!("{name}: packets"), count, 0);
        }
        count += 1;
        if let Some(profiler) = &mut profiler {
            profiler.push(&packet).map_err(failure)?;
        }
        emulation.push(&packet).map_err(failure)
    })?;
    let found = profiler.map(|profiler| profiler.measurement()).transpose().map_err(failure)?;
    let replans = *made.borrow();
    Ok(Carried { report: emulation.report(), found, mapped, replans, seconds: clock.elapsed().as_secs_f64() })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
