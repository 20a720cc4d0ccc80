//! `oncewire route`: routes that put equal bytes on the same links.

mod build;
mod document;
mod report;
mod tables;

use crate::args::route::{CostName, ObjectiveName, RouteArgs};
use crate::failure::{Failure, Outcome, nearest};
use crate::output::{Destination, Output, finish};
use crate::plan::{scenario, watch::Progress};
use crate::{output, progress, stdout};
use document::Document;
use oncewire_plan::error::RouteFileError;
use oncewire_plan::ra::file::RouteFile;
use oncewire_plan::ra::profile::{Counted, Fold};
use oncewire_plan::ra::{self, Cost, LoadLimit, Objective, Request, Routes};
use oncewire_plan::{
    BitRate, Error, Network, NodeId, Scenario, Seconds, Stage, Text, Watch, routing,
};
use std::path::Path;

/// Seconds in which content counts as equal (the thesis's T).
const INTERVAL: f64 = 60.0;

pub(crate) fn run(args: &RouteArgs) -> Outcome {
    let outputs = Outputs::open(args)?;
    let watch = Progress::new();
    watch.stage(Stage::Topology);
    let topology = scenario::text(&args.topology)?;
    let name = topology.name.clone();
    check(args)?;
    let map = network(args, topology)?;
    let network = match args.capacity[..] {
        [] | [_] => map.clone(),
        _ => {
            let choices: Vec<BitRate> = args.capacity.iter().copied().map(BitRate).collect();
            map.with_random_capacities(&choices, args.seed)
        }
    };
    let against = args.against.as_deref().map(|path| read_routes(path, &map)).transpose()?;
    let counted = args.profile.as_deref().map(|path| counted(path, &network)).transpose()?;
    let request = request(args, &network, against, counted.as_ref(), &name)?;
    watch.stage(Stage::Solve);
    let mut outcome = ra::run(&request, &watch)?;
    if let Some(counted) = &counted
        && !outcome.stopped
        && request.against.as_ref() != Some(&outcome.routes)
    {
        divide(&request, counted, &mut outcome, &watch)?;
    }
    watch.stage(Stage::Summary);
    let document = build::document(args, &request, &outcome, &watch);
    drop(watch);
    if let Some(note) = build::interrupted(&outcome).first() {
        progress::note(note);
    }
    // Of the map as it was given: assumed capacities are no part of it.
    let routes = outputs.routes.is_some().then(|| RouteFile::new(&request, &outcome).to_json(&map));
    outputs.write(args, &document, routes.as_deref().unwrap_or_default())
}

/// Options that contradict each other.
fn check(args: &RouteArgs) -> Outcome {
    let only = |option: &str, objectives: &str| {
        Err(Failure::usage(format!("{option} needs --objective {objectives}")))
    };
    if args.max_load.is_some() && args.objective != ObjectiveName::Within {
        return only("--max-load", "within");
    }
    if args.stretch.is_some() && args.objective == ObjectiveName::Footprint {
        return only("--stretch", "within or load");
    }
    if args.max_load == Some(0.0) {
        return Err(Failure::usage("--max-load 0%: no link could carry anything"));
    }
    if args.plain_load == Some(0.0) {
        return Err(Failure::usage("--plain-load 0%: there would be no traffic"));
    }
    if let Some(stretch) = args.stretch
        && !(stretch > 0.0 && stretch.is_finite())
    {
        return Err(Failure::usage(format!("--stretch {stretch}: write a number above 0")));
    }
    Ok(())
}

fn counted(path: &Path, network: &Network) -> Outcome<Counted> {
    let text = scenario::text(path)?;
    Ok(Counted::parse(&text.text, network).map_err(|error| error.in_input(&text.name))?)
}

/// Divides the sources of counted content among slices, within the limit of the load.
fn divide(
    request: &Request<'_>,
    counted: &Counted,
    outcome: &mut ra::Outcome,
    watch: &Progress,
) -> Outcome {
    let busiest = outcome.judged.busiest(&outcome.capacities).map(|busiest| busiest.1);
    let limit = match request.objective {
        Objective::FootprintWithin(LoadLimit::Given(limit)) => Some(limit),
        Objective::FootprintWithin(_) => busiest,
        Objective::Footprint | Objective::Load => None,
    };
    ra::prefixes::divide(request, counted, limit, outcome, watch)?;
    Ok(())
}

fn read_routes(path: &Path, network: &Network) -> Outcome<Routes> {
    let text = scenario::text(path)?;
    let file = RouteFile::from_json(&text.text, network).map_err(|error| match error {
        // The file may be fine.
        RouteFileError::AnotherMap { .. } => Error::from(error).about_input(&text.name),
        error => Error::from(error).in_input(&text.name),
    })?;
    Ok(file.routes)
}

fn network(args: &RouteArgs, topology: Text) -> Outcome<Network> {
    let text = |path: &Option<_>| path.as_deref().map(scenario::text).transpose();
    let mut given = Scenario::new(topology);
    given.companion = text(&args.latencies)?;
    given.cities = text(&args.map.cities)?;
    given.shape.largest_component = args.largest_part;
    given.shape.to_pops = args.map.pops;
    given.shape.populated_only = true;
    given.shape.reduce = args.map.reduce;
    given.shape.endpoints = args.map.endpoints;
    given.shape.access_routers = args.map.access;
    Ok(given.network()?)
}

fn request<'a>(
    args: &RouteArgs,
    network: &'a Network,
    against: Option<Routes>,
    counted: Option<&Counted>,
    topology: &str,
) -> Outcome<Request<'a>> {
    let bytes = args.volume.unwrap_or(1e9) * INTERVAL / 8.0;
    let plain_load = match (args.volume, args.plain_load, args.objective) {
        (None, None, ObjectiveName::Within | ObjectiveName::Load) if counted.is_none() => Some(0.8),
        (_, given, _) => given,
    };
    let mut ingresses = match counted {
        Some(counted) => counted.classes(Fold::default()),
        None => ra::gravity(network, args.rho, args.inter, bytes)
            .map_err(|error| error.about_input(topology))?,
    };
    if !args.ingress.is_empty() {
        let wanted: Vec<NodeId> =
            args.ingress.iter().map(|name| find(network, name)).collect::<Outcome<_>>()?;
        ingresses.retain(|ingress| wanted.contains(&ingress.0));
    }
    Ok(Request {
        network,
        ingresses,
        cost: match args.cost {
            CostName::Latency => Cost::Latency,
            CostName::Hops => Cost::Hops,
        },
        objective: match (args.objective, args.stretch) {
            (ObjectiveName::Footprint, _) => Objective::Footprint,
            (ObjectiveName::Within, times) => Objective::FootprintWithin(match args.max_load {
                Some(limit) => LoadLimit::Given(limit),
                None => LoadLimit::Shortest(times.unwrap_or(1.0)),
            }),
            (ObjectiveName::Load, Some(times)) => {
                Objective::FootprintWithin(LoadLimit::Least(times))
            }
            (ObjectiveName::Load, None) => Objective::Load,
        },
        capacity: args.capacity.first().copied().map(BitRate),
        interval: counted.map_or(Seconds(INTERVAL), |counted| counted.interval),
        eliminates: match &args.eliminate {
            None => Vec::new(),
            Some(path) => {
                let text = scenario::text(path)?;
                let listed = oncewire_plan::scenario::links(network, &text.text)
                    .map_err(|error| error.in_input(&text.name))?;
                (0..network.links.len())
                    .map(|link| listed.contains(&oncewire_plan::LinkId::new(link)))
                    .collect()
            }
        },
        plain_load,
        safety_net: args.safety_net,
        slices: args.slices.into(),
        gap: args.gap,
        against,
        compare: !args.quick,
    })
}

/// The ingress of that id or label.
fn find(network: &Network, name: &str) -> Outcome<NodeId> {
    let ends = routing::endpoints(network);
    let by = |of: fn(&oncewire_plan::network::Node) -> &str| {
        let mut found = ends.iter().copied().filter(|&end| of(&network.nodes[end]) == name);
        (found.next(), found.next())
    };
    match (by(|node| &node.id), by(|node| &node.label)) {
        ((Some(end), _), _) | (_, (Some(end), None)) => Ok(end),
        (_, (Some(_), Some(_))) => Err(Failure::usage(format!(
            "--ingress {name}: several nodes have this label; give an id"
        ))),
        _ => {
            // People write the city without the state.
            let mut starts = ends.iter().copied().filter(|&end| {
                let label = &network.nodes[end].label;
                label.strip_prefix(name).is_some_and(|rest| rest.starts_with([',', ' ']))
            });
            if let (Some(end), None) = (starts.next(), starts.next()) {
                return Ok(end);
            }
            let names = ends.iter().map(|&end| network.nodes[end].label.as_str());
            let hint = nearest(name, names)
                .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            Err(Failure::usage(format!(
                "--ingress {name}: no node that sends traffic has this id or label{hint}"
            )))
        }
    }
}

/// Files that results are written to; checked and opened first.
struct Outputs {
    report: Option<Output>,
    routes: Option<Output>,
}

impl Outputs {
    fn open(args: &RouteArgs) -> Outcome<Outputs> {
        for (path, what) in [(&args.result.report, "--report"), (&args.routes, "--routes")] {
            if path.as_deref() == Some(Path::new("-")) {
                return Err(Failure::usage(format!(
                    "{what} writes a file, standard output has the summary; name a file"
                )));
            }
        }
        let mut outputs = output::Outputs::beside(args.inputs())?;
        let report = args
            .result
            .report
            .as_deref()
            .map(|path| outputs.file("--report", Some(path)))
            .transpose()?;
        let routes =
            args.routes.as_deref().map(|path| outputs.file("--routes", Some(path))).transpose()?;
        if let Some(directory) = &args.result.csv {
            outputs.directory("--csv", directory, tables::is_ours)?;
            std::fs::create_dir_all(directory)
                .map_err(|error| Failure::io("make the directory", directory.display(), &error))?;
        }
        let open = |file: Option<Destination>| file.map(Destination::open).transpose();
        Ok(Outputs { report: open(report)?, routes: open(routes)? })
    }

    fn write(self, args: &RouteArgs, document: &Document, routes: &str) -> Outcome {
        let note = |path: &Path, what: &str| progress::note(&format!("{}: {what}", path.display()));
        let mut written = Vec::new();
        if let (Some(path), Some(mut file)) = (&args.result.report, self.report) {
            file.write(oncewire_report::html::render(&report::report(document)).as_bytes())?;
            written.push(file);
            note(path, "the report; open it in a browser");
        }
        if let (Some(path), Some(mut file)) = (&args.routes, self.routes) {
            file.write(routes.as_bytes())?;
            written.push(file);
            note(path, "the routes, for `oncewire plan --routes`");
        }
        if let Some(directory) = &args.result.csv {
            let files = tables::write(document, directory)?;
            note(directory, &format!("{} files", files.len()));
            written.extend(files);
        }
        finish(written)?;
        if args.result.json {
            return stdout::json(document);
        }
        crate::terminal::print("--csv", |page| match args.result.full {
            true => page.report(&report::report(document)),
            false => report::overview(page, document),
        })
    }
}
