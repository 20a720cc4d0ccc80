//! `oncewire plan` and `oncewire emulate`: redundancy elimination over a whole network.

mod build;
mod document;
pub(crate) mod emulate;
mod report;
mod scenario;
mod watch;

use crate::args::plan::{ObjectiveName, PlanArgs, SolverName, StrategyName};
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output, finish};
use crate::{output, progress, report as stdout};
use build::{Built, Step};
use oncewire_plan::baseline::{self, Scheme};
use oncewire_plan::lp::{self, Method, Objective};
use oncewire_plan::manifest::{self, Plan};
use oncewire_plan::placement::{self, Strategy};
use oncewire_plan::{Error, Instance, Solution, Watch};
use scenario::Scenario;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;
use watch::Waiting;

pub(crate) fn run(args: &PlanArgs) -> Outcome {
    let outputs = Outputs::open(args)?;
    let watch = Waiting::new();
    let mut scenario = Scenario::build(&args.scenario, &watch)?;
    let built = match args.single.as_deref() {
        Some("all") => each_ingress(args, &mut scenario, &watch),
        Some(node) => {
            let ingress = scenario::ingress(&scenario.instance, node)?;
            scenario.instance = scenario.instance.single(ingress);
            scenario.notes.push(format!("Only what enters at {node:?}, with its share of each device, by volume."));
            whole(args, &mut scenario, &watch)
        }
        None => whole(args, &mut scenario, &watch),
    }?;
    drop(watch);
    outputs.write(args, built)
}

/// One plan for all that the instance has.
fn whole(args: &PlanArgs, scenario: &mut Scenario, watch: &Waiting) -> Outcome<Built> {
    let against = args.against.as_deref().map(read_plan).transpose()?;
    if let Some(capacity) = args.capacity {
        scenario.assume_capacity(capacity);
    } else if scenario.instance.network.links.iter().all(|link| link.capacity.is_none()) {
        if args.objective == ObjectiveName::LinkLoad {
            return Err(Failure::usage(format!(
                "{}: the map names no capacities; give --capacity",
                args.scenario.topology.display()
            )));
        }
        scenario.notes.push("The map names no capacities: utilizations are not known; --capacity assumes one.".into());
    }
    let options = options(args);
    let solve = |instance: &Instance| -> Result<Solution, Error> { Ok(lp::solve(instance, &options, None, watch)?.0) };
    let mut deployment = Vec::new();
    if let Some(budget) = args.deploy {
        watch.say("choosing links");
        let clock = Instant::now();
        let (devices, steps) = deploy(args.strategy, &scenario.instance, budget, &solve, watch).map_err(failure)?;
        scenario.seconds.push(("choosing links", clock.elapsed().as_secs_f64()));
        deployment = steps;
        scenario.instance = placement::deployed(&scenario.instance, &devices).map_err(failure)?;
    }
    watch.say("solving the program");
    let clock = Instant::now();
    let solution = solve(&scenario.instance).map_err(failure)?;
    scenario.seconds.push(("building and solving the program", clock.elapsed().as_secs_f64()));
    watch.say("checking the solution");
    let clock = Instant::now();
    let evaluation = oncewire_plan::evaluate::check_for(&scenario.instance, &solution, &options.objective).map_err(failure)?;
    evaluation.holds(&scenario.instance).map_err(failure)?;
    watch.go_on().map_err(failure)?;
    scenario.seconds.push(("checking it without the solver's code", clock.elapsed().as_secs_f64()));
    let schemes = if args.quick {
        Vec::new()
    } else {
        let clock = Instant::now();
        let footprint = lp::Options { objective: Objective::Footprint, ..options };
        // The program itself is among them: it is not solved again.
        let known = RefCell::new((options.objective == Objective::Footprint).then(|| solution.clone()));
        let again = |instance: &Instance| {
            if std::ptr::eq(instance, &scenario.instance)
                && let Some(solution) = known.borrow_mut().take()
            {
                return Ok(solution);
            }
            Ok(lp::solve(instance, &footprint, None, watch)?.0)
        };
        let schemes = baseline::compare(&scenario.instance, &again, watch).map_err(failure)?;
        scenario.seconds.push(("the schemes it is compared with", clock.elapsed().as_secs_f64()));
        schemes
    };
    let plan = {
        watch.say("making manifests");
        let clock = Instant::now();
        let options = manifest::Options::default();
        let plan = match &against {
            Some(old) => Plan::after(old, &scenario.instance, &solution, &options),
            None => Plan::new(&scenario.instance, &solution, &options),
        }
        .and_then(|plan| manifest::validate(&plan, &scenario.instance).map(|()| plan))
        .map_err(failure)?;
        scenario.seconds.push(("manifests", clock.elapsed().as_secs_f64()));
        watch.go_on().map_err(failure)?;
        plan
    };
    watch.say("summing up");
    let step = Step { solution: &solution, evaluation: &evaluation, schemes: &schemes, deployment: &deployment };
    let document = build::document(args, scenario, &step, &plan, against.as_ref());
    Ok(Built { document, plan: Some(plan) })
}

/// A plan for each ingress alone, with its share of the devices (thesis, figure 3.7).
fn each_ingress(args: &PlanArgs, scenario: &mut Scenario, watch: &Waiting) -> Outcome<Built> {
    if args.manifests.is_some() || args.against.is_some() {
        return Err(Failure::usage(
            "--single all makes a plan for each ingress in turn: there is no one plan for --manifests or --against",
        ));
    }
    if args.objective != ObjectiveName::Footprint {
        return Err(Failure::usage("--single all compares footprints: leave --objective out, or name one node"));
    }
    let options = options(args);
    let solve = |instance: &Instance| -> Result<Solution, Error> {
        // Inner progress would hide which ingress it is.
        Ok(lp::solve(instance, &options, None, &oncewire_plan::Unwatched)?.0)
    };
    let clock = Instant::now();
    let mut outcomes = Vec::new();
    let count = scenario.instance.ingresses.len();
    for ingress in 0..count {
        watch.progress("ingresses", ingress as u64, count as u64);
        if watch.enough() {
            return Err(failure(Error::Stopped));
        }
        let single = scenario.instance.single(ingress);
        outcomes.push(baseline::compare(&single, &solve, &oncewire_plan::Unwatched).map_err(failure)?);
    }
    scenario.seconds.push(("a plan for each ingress, and the schemes beside it", clock.elapsed().as_secs_f64()));
    scenario.notes.push("Each ingress alone, with its share of each device, by volume.".into());
    Ok(Built { document: build::singles(args, scenario, &outcomes), plan: None })
}

/// Devices to build; and again, in the order of choice, each with the reduction up to it.
type Deployment = (Vec<u32>, Vec<(u32, f64)>);

/// Devices to build, and what the network saves with the first of them, up to each.
fn deploy(
    strategy: StrategyName,
    instance: &Instance,
    budget: usize,
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &Waiting,
) -> Result<Deployment, Error> {
    let candidates = placement::interior(instance);
    if budget == 0 || budget > candidates.len() {
        return Err(Error::Devices(format!("--deploy {budget}: there are {} links to choose from", candidates.len())));
    }
    let ranked = |strategy| -> Result<Vec<u32>, Error> {
        let ranked = placement::rank(instance, strategy, &candidates)?;
        Ok(ranked.into_iter().take(budget).map(|ranked| ranked.device).collect())
    };
    let order = match strategy {
        StrategyName::Paths => ranked(Strategy::Paths)?,
        StrategyName::Volume => ranked(Strategy::VolumeDistance)?,
        StrategyName::Redundancy => ranked(Strategy::Redundancy)?,
        StrategyName::Greedy => {
            placement::greedy(instance, &candidates, budget, solve, watch)?.into_iter().map(|ranked| ranked.device).collect()
        }
        StrategyName::Optimal => {
            let best = placement::optimal(instance, &candidates, budget, &placement::Limits::default(), watch)?;
            if !best.complete {
                progress::note(&format!("the best choice found may be {:.2} % from the best of all", 100.0 * best.gap()));
            }
            best.devices
        }
    };
    let counts: Vec<usize> = (1..=order.len()).collect();
    let steps = placement::curve(instance, &order, &counts, solve, watch)?;
    let whole = instance.footprint();
    let curve = order.iter().zip(&steps).map(|(&device, step)| (device, step.footprint.saved / whole)).collect();
    Ok((order, curve))
}

fn options(args: &PlanArgs) -> lp::Options {
    lp::Options {
        objective: match args.objective {
            ObjectiveName::Footprint => Objective::Footprint,
            ObjectiveName::LinkLoad => Objective::LinkLoad { capacity: args.capacity },
        },
        method: match args.solver {
            SolverName::Auto => Method::Auto,
            SolverName::Interior => Method::Interior,
            SolverName::Simplex => Method::Simplex,
            #[cfg(feature = "highs")]
            SolverName::Highs => Method::Highs,
        },
        tolerance: args.gap,
        ..lp::Options::default()
    }
}

fn read_plan(path: &Path) -> Outcome<Plan> {
    let text = scenario::read(path)?;
    Plan::from_json(&text)
        .map_err(|error| Failure::damaged(format!("{}: {error}; give a file that --manifests has written", path.display())))
}

/// What is wrong with what was asked for is the caller's to mend. For what is wrong with a file there is `scenario::in_file`.
fn failure(error: Error) -> Failure {
    match error {
        Error::Stopped => Failure::failed("interrupted: there is no result"),
        Error::Solver(_) | Error::Emulation(_) => Failure::failed(error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}

/// Files that a plan is written to; checked and opened first, so that a wrong name shows at once.
struct Outputs {
    report: Option<Output>,
    manifests: Option<Output>,
}

impl Outputs {
    fn open(args: &PlanArgs) -> Outcome<Outputs> {
        for (path, what) in [(&args.report, "--report"), (&args.manifests, "--manifests")] {
            if path.as_deref().is_some_and(|path| path == Path::new("-")) {
                return Err(Failure::usage(format!("{what} writes a file, standard output has the summary; name a file")));
            }
        }
        let mut outputs = output::Outputs::beside(args.scenario.inputs().chain(args.against.as_deref()))?;
        let mut file = |option, path: &Option<PathBuf>| path.as_deref().map(|path| outputs.file(option, Some(path))).transpose();
        let (report, manifests) = (file("--report", &args.report)?, file("--manifests", &args.manifests)?);
        if let Some(directory) = &args.csv {
            outputs.directory("--csv", directory, report::csv::is_ours)?;
            std::fs::create_dir_all(directory).map_err(|error| Failure::io("make the directory", directory.display(), &error))?;
        }
        let open = |file: Option<Destination>| file.map(Destination::open).transpose();
        Ok(Outputs { report: open(report)?, manifests: open(manifests)? })
    }

    fn write(self, args: &PlanArgs, built: Built) -> Outcome {
        let note = |path: &Path, what: &str| progress::note(&format!("{}: {what}", path.display()));
        let mut written = Vec::new();
        if let (Some(path), Some(mut file), Some(plan)) = (&args.manifests, self.manifests, &built.plan) {
            file.write(plan.to_json().as_bytes())?;
            written.push(file);
            note(path, "the plan: what each device needs to know");
        }
        if let (Some(path), Some(mut file)) = (&args.report, self.report) {
            file.write(report::html::render(&built.document).as_bytes())?;
            written.push(file);
            note(path, "the report; open it in a browser");
        }
        if let Some(directory) = &args.csv {
            let files = report::csv::write(&built.document, directory)?;
            note(directory, &format!("{} files", files.len()));
            written.extend(files);
        }
        finish(written)?;
        if args.json {
            return stdout::json(&built.document);
        }
        let (width, colour) = crate::terminal::page();
        let mut text = Vec::new();
        report::terminal::write(&built.document, &mut text, width, colour).map_err(|error| Failure::report(&error))?;
        stdout::text(&String::from_utf8_lossy(&text))
    }
}

/// Schemes in the order in which people look for them, with what they are.
fn about(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Nothing => "no redundancy elimination",
        Scheme::HopByHop => "each link on its own, same devices",
        Scheme::EdgeOnly => "decoding only where packets leave",
        Scheme::Equal => "each device on a path: the same share",
        Scheme::ByDistance => "shares in proportion to distance",
        Scheme::SmartRe => "this plan",
        Scheme::NoMemoryLimits => "with caches of any size",
        Scheme::NoProcessingLimits => "with devices of any speed",
        Scheme::NoLimits => "no limits, each packet in one cache",
        Scheme::Ideal => "hop-by-hop without any limit",
    }
}
