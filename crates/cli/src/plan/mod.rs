//! `oncewire plan`, `oncewire emulate` and `oncewire profile`: redundancy elimination over a whole
//! network.

mod build;
mod choice;
pub(crate) mod common;
mod document;
pub(crate) mod emulate;
mod failing;
mod files;
mod money;
pub(crate) mod profile;
mod report;
pub(crate) mod scenario;
pub(crate) mod watch;

use crate::args::plan::{
    AimName, CompareName, FailuresName, ObjectiveName, PlanArgs, SolverName, StrategyName,
    TakenName,
};
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output, finish};
use crate::{output, progress, stdout};
use build::Built;
use oncewire_plan::baseline::Scheme;
use oncewire_plan::error::RouteFileError;
use oncewire_plan::lp::{Aim, Method, Objective};
use oncewire_plan::manifest::Plan;
use oncewire_plan::placement::Strategy;
use oncewire_plan::ra::file::RouteFile;
use oncewire_plan::{BitRate, Choice, Compare, Deploy, Error, Failures, Network, Request, Taken};
use scenario::Scenario;
use std::path::{Path, PathBuf};
use watch::Progress;

pub(crate) fn run(args: &PlanArgs) -> Outcome {
    let outputs = Outputs::open(args)?;
    let watch = Progress::new();
    let each = args.single.as_deref() == Some("all");
    if each {
        check_each_ingress(args)?;
    }
    let mut scenario = Scenario::read(&args.scenario)?;
    if each {
        scenario.one_hour()?;
    }
    let request = request(args, &scenario)?;
    let built = if each {
        let outcome = oncewire_plan::run_each_ingress(&request, &watch)?;
        scenario.describe(&outcome.instance);
        build::singles(&scenario, &outcome, &watch)
    } else {
        let outcome = oncewire_plan::run(&request, &watch)?;
        if outcome.deployment_gap > 0.0 {
            let gap = 100.0 * outcome.deployment_gap;
            watch.suspend(|| {
                progress::note(&format!("the links found may be {gap:.2} % from the best choice"))
            });
        }
        scenario.describe(&outcome.instance);
        build::whole((&request, &args.money), &mut scenario, outcome, &watch)
    };
    drop(watch);
    outputs.write(args, built)
}

/// `--single all` makes no plan of its own: nothing to write or to compare with.
fn check_each_ingress(args: &PlanArgs) -> Outcome {
    if args.manifests.is_some() || args.manifests_dir.is_some() || args.against.is_some() {
        return Err(Failure::usage(
            "--single all makes a plan for each ingress in turn: there is no one plan for --manifests or --against",
        ));
    }
    if args.choose == TakenName::Expected {
        return Err(Failure::usage(
            "--single all makes a plan for each ingress in turn, with the program's optimum: leave --choose out, or name one node",
        ));
    }
    if args.objective != ObjectiveName::Footprint {
        return Err(Failure::usage(
            "--single all compares footprints: leave --objective out, or name one node",
        ));
    }
    Ok(())
}

fn request(args: &PlanArgs, scenario: &Scenario) -> Outcome<Request> {
    if args.choose == TakenName::Expected
        && (args.objective != ObjectiveName::Footprint || !scenario.hours.is_empty())
    {
        return Err(Failure::usage(
            "--choose expected is for the footprint of one hour: leave --objective out, and give one --traffic and --profile",
        ));
    }
    let choice = match args.strategy {
        StrategyName::Paths => Choice::Ranked(Strategy::Paths),
        StrategyName::Volume => Choice::Ranked(Strategy::VolumeDistance),
        StrategyName::Redundancy => Choice::Ranked(Strategy::Redundancy),
        StrategyName::Greedy => Choice::Greedy,
        StrategyName::Optimal => Choice::Optimal,
    };
    Ok(Request {
        scenario: scenario.request.clone(),
        objective: match args.objective {
            ObjectiveName::Footprint => Objective::Footprint,
            ObjectiveName::LinkLoad => Objective::LinkLoad { capacity: None },
        },
        capacity: args.capacity.map(BitRate),
        method: match args.solver {
            SolverName::Auto => Method::Auto,
            SolverName::Interior => Method::Interior,
            SolverName::Simplex => Method::Simplex,
            #[cfg(feature = "highs")]
            SolverName::Highs => Method::Highs,
        },
        tolerance: args.gap,
        deploy: args.deploy.map(|links| Deploy { links, choice }),
        buy: money::buy(&args.money)?,
        failures: args.failures.map(|which| match which {
            FailuresName::Kept => Failures::Kept,
            FailuresName::Anew => Failures::Anew,
        }),
        single: args.single.clone(),
        compare: match args.compare {
            _ if args.quick => Compare::Nothing,
            CompareName::Auto => Compare::BySize,
            CompareName::Few => Compare::Direct,
            CompareName::All => Compare::All,
        },
        against: args.against.as_deref().map(read_plan).transpose()?,
        headroom: args.headroom,
        taken: match args.choose {
            TakenName::Optimum => Taken::Optimum,
            TakenName::Expected => Taken::Expected,
        },
        cache_all: args.cache_all,
        hours: scenario.hours.clone(),
        aim: match args.aim {
            AimName::Mean => Aim::Mean,
            AimName::Worst => Aim::Worst,
        },
    })
}

/// Reads routes for a map.
pub(crate) fn read_routes(path: &Path, network: &Network) -> Outcome<RouteFile> {
    let text = scenario::text(path)?;
    RouteFile::from_json(&text.text, network).map_err(|error| {
        let stale = matches!(error, RouteFileError::AnotherMap { .. });
        let error = Error::from(error);
        if stale { error.about_input(&text.name) } else { error.in_input(&text.name) }.into()
    })
}

fn read_plan(path: &Path) -> Outcome<Plan> {
    let text = scenario::read(path)?;
    Plan::from_json(&text).map_err(|error| {
        Failure::damaged(format!(
            "{}: {}; give a file that --manifests has written",
            path.display(),
            Error::from(error)
        ))
    })
}

/// Files that a plan is written to; checked and opened first, so that a wrong name shows at once.
struct Outputs {
    report: Option<Output>,
    manifests: Option<Output>,
}

impl Outputs {
    fn open(args: &PlanArgs) -> Outcome<Outputs> {
        for (path, what) in [(&args.result.report, "--report"), (&args.manifests, "--manifests")] {
            if path.as_deref().is_some_and(|path| path == Path::new("-")) {
                return Err(Failure::usage(format!(
                    "{what} writes a file, standard output has the summary; name a file"
                )));
            }
        }
        let mut outputs =
            output::Outputs::beside(args.scenario.inputs().chain(args.against.as_deref()))?;
        let mut file = |option, path: &Option<PathBuf>| {
            path.as_deref().map(|path| outputs.file(option, Some(path))).transpose()
        };
        let (report, manifests) =
            (file("--report", &args.result.report)?, file("--manifests", &args.manifests)?);
        if let Some(directory) = &args.result.csv {
            outputs.directory("--csv", directory, report::csv::is_ours)?;
            std::fs::create_dir_all(directory)
                .map_err(|error| Failure::io("make the directory", directory.display(), &error))?;
        }
        if let Some(directory) = &args.manifests_dir {
            files::prepare(directory)?;
        }
        let open = |file: Option<Destination>| file.map(Destination::open).transpose();
        Ok(Outputs { report: open(report)?, manifests: open(manifests)? })
    }

    fn write(self, args: &PlanArgs, built: Built) -> Outcome {
        let note = |path: &Path, what: &str| progress::note(&format!("{}: {what}", path.display()));
        let mut written = Vec::new();
        if let (Some(path), Some(mut file), Some(plan)) =
            (&args.manifests, self.manifests, &built.plan)
        {
            file.write(plan.to_json().as_bytes())?;
            written.push(file);
            note(path, "the plan: what each device needs to know");
        }
        if let (Some(directory), Some(plan)) = (&args.manifests_dir, &built.plan) {
            let files = files::write(plan, directory)?;
            note(directory, &format!("{} manifests", files.len()));
            written.extend(files);
        }
        if let (Some(path), Some(mut file)) = (&args.result.report, self.report) {
            file.write(
                oncewire_report::html::render(&report::present::report(&built.document)).as_bytes(),
            )?;
            written.push(file);
            note(path, "the report; open it in a browser");
        }
        if let Some(directory) = &args.result.csv {
            let files = report::csv::write(&built.document, directory)?;
            note(directory, &format!("{} files", files.len()));
            written.extend(files);
        }
        finish(written)?;
        if args.result.json {
            return stdout::json(&built.document);
        }
        crate::terminal::print("--csv", |page| match args.result.full {
            true => page.report(&report::present::report(&built.document)),
            false => report::present::overview(page, &built.document),
        })
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
