//! `oncewire profile`: which bytes of a capture went to which egresses.

use super::emulate::traffic::{CaptureFiles, mapping_notes};
use super::emulate::{self as carried, Failed};
use super::scenario::{self, Scenario};
use super::watch::Progress;
use crate::args::profile::ProfileArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Outputs};
use crate::study::source::{self, Source};
use crate::{stdout, terminal};
use oncewire_plan::emulate::Captures;
use oncewire_plan::emulate::workload::{Egresses, FromCapture, Ingresses, TimeScale};
use oncewire_plan::ra::file::{Goal, RouteFile};
use oncewire_plan::ra::profile::{self, Counted, Counter, Counting, Fold, Striping};
use oncewire_plan::ra::{Objective, Request};
use oncewire_plan::scenario::{find_ingress, largest_ingress};
use oncewire_plan::{BitRate, Instance, Network, NodeId, Seconds, Stage, Unwatched, Watch};
use oncewire_report::{Block, Cell, Fact, Section, Summary, Table, TableView, Unit, format};
use serde::Serialize;

/// Name and version of the JSON document.
const FORMAT: &str = "oncewire-profile/1";
/// Numbers of egresses that the table has columns for; the last is for all larger ones.
const COLUMNS: usize = 4;
/// Pairs of egresses in the document.
const PAIRS: usize = 20;
/// Gap at which solving an interval ends.
const GAP: f64 = 1e-3;

#[derive(Serialize)]
struct Document {
    format: &'static str,
    network: String,
    ingress: String,
    interval_seconds: f64,
    counting: &'static str,
    /// Gap of the routes that intervals are judged by, when they were made.
    planned_gap: Option<f64>,
    intervals: Vec<Interval>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Interval {
    number: u64,
    volume_bytes: f64,
    unique_bytes: f64,
    redundancy: f64,
    /// Share of the unique bytes that went to one egress, to two, and so on.
    by_egresses: Vec<f64>,
    /// Pairs of egresses that share anything, and the share of the redundant bytes that the largest
    /// have.
    pairs: usize,
    largest_pairs: Vec<Pair>,
    #[serde(flatten)]
    judged: Option<Judged>,
}

#[derive(Serialize)]
struct Pair {
    a: String,
    b: String,
    share: f64,
}

#[derive(Serialize)]
struct Judged {
    value: Option<f64>,
    bound: f64,
    gap: f64,
    alarm: bool,
}

pub(crate) fn run(args: &ProfileArgs) -> Outcome {
    let sources: Vec<Source> = args.capture.iter().cloned().map(Source::File).collect();
    let captures = source::check(&sources)?;
    let files = [&args.prefixes, &args.against].into_iter().filter_map(|file| file.as_deref());
    let mut outputs =
        Outputs::beside(captures.into_iter().chain(args.scenario.inputs()).chain(files))?;
    let out = args.out.as_deref().map(|path| outputs.file("--out", Some(path))).transpose()?;
    let out = out.map(Destination::open).transpose()?;
    let watch = Progress::new();
    let scenario = Scenario::read(&args.scenario)?;
    scenario.one_hour()?;
    let instance = scenario.request.build(&watch)?;
    let at = match &args.ingress {
        Some(name) => find_ingress(&instance, name)?,
        None => largest_ingress(&instance),
    };
    let node = instance.ingresses[at].node;
    let judge = args
        .against
        .as_deref()
        .map(|path| Judge::read(path, args, &instance.network, node))
        .transpose()?;
    let egresses = match carried::prefixes(args.prefixes.as_deref())? {
        Some(table) => Egresses::Prefixes(table),
        None => Egresses::Spread { seed: args.scenario.seed, networks: false },
    };
    let mut mapper = FromCapture::new(&instance, Ingresses::One(node), egresses, TimeScale::NONE)?;
    let settings = profile::Settings {
        interval: Seconds(args.interval.as_secs_f64()),
        counting: if args.pairs { Counting::Pairs } else { Counting::Sets },
        store: args.store as f64,
        prefixes: args.sources,
        ..profile::Settings::default()
    };
    let mut counter = Counter::new(&instance, settings)?;

    watch.stage(Stage::Measure);
    let mut intervals = Vec::new();
    let mut chosen: Option<(u64, Counted)> = None;
    let wanted = |number: u64| args.number.is_none_or(|wanted| wanted == number);
    let mut finished = |(number, counted): (u64, Counted)| -> Result<(), oncewire_plan::Error> {
        intervals.push(interval(&instance, number, &counted, judge.as_ref())?);
        if chosen.is_none() && wanted(number) {
            chosen = Some((number, counted));
        }
        Ok(())
    };
    let mut reader = CaptureFiles::new(sources, &watch);
    let read = reader.each(&mut |time, _, dissected| {
        let Some(packet) = mapper.packet(time, dissected) else { return Ok(()) };
        counter.push(&packet)?.map_or(Ok(()), &mut finished)
    });
    read.map_err(|failed| match failed {
        Failed::Reading(failure) => failure,
        Failed::Emulator(error) => error.into(),
    })?;
    counter.finish().map_or(Ok(()), &mut finished)?;
    watch.stage(Stage::Summary);
    let mut notes = reader.into_damaged();
    drop(watch);
    mapping_notes(Some(&mapper.mapped()), &mut notes);
    if let Some(judge) = &judge
        && judge.goal != judge.file.goal
    {
        notes.push(
            "The routes were made for loads, with traffic of other ingresses too: their footprint \
             was judged."
                .into(),
        );
    }
    if intervals.is_empty() {
        return Err(Failure::usage(
            "no packet of the capture goes to another PoP: check --prefixes and --ingress",
        ));
    }
    if let Some(mut file) = out {
        let Some((number, counted)) = &chosen else {
            let number = args.number.unwrap_or_default();
            return Err(Failure::usage(format!("--number {number}: the interval has no packets")));
        };
        file.write(counted.to_text(&instance.network).as_bytes())?;
        file.finish()?;
        notes.push(format!("--out has the content of interval {number}."));
    }
    let document = Document {
        format: FORMAT,
        network: instance.network.name.clone(),
        ingress: scenario::label(&instance.network, node),
        interval_seconds: args.interval.as_secs_f64(),
        counting: if args.pairs { "pairs" } else { "sets" },
        planned_gap: judge.as_ref().map(|judge| judge.file.gap()),
        intervals,
        notes,
    };
    if args.json {
        return stdout::json(&document);
    }
    print(&document)
}

fn print(document: &Document) -> Outcome {
    terminal::print("--json", |page| {
        page.summary(&document.summary())?;
        page.line("")?;
        page.content(&document.section())?;
        for note in &document.notes {
            page.line("")?;
            page.dim(note)?;
        }
        Ok(())
    })
}

/// Routes in force.
struct Judge {
    file: RouteFile,
    /// What they are judged by.
    goal: Goal,
    /// With the capacities that are assumed.
    network: Network,
    capacity: Option<f64>,
}

impl Judge {
    /// Routes for the traffic of `node`, or of others too.
    fn read(
        path: &std::path::Path,
        args: &ProfileArgs,
        map: &Network,
        node: NodeId,
    ) -> Outcome<Self> {
        let file = super::read_routes(path, map)?;
        // How full links are also depends on the traffic of the others, which is not known here.
        let alone = file.routes.slices.iter().all(|slice| slice.ingress == node);
        let goal = if alone { file.goal } else { Goal::Footprint };
        let network = match args.capacity[..] {
            [] | [_] => map.clone(),
            ref rates => {
                let choices: Vec<BitRate> = rates.iter().copied().map(BitRate).collect();
                map.with_random_capacities(&choices, args.scenario.seed)
            }
        };
        let capacity = args.capacity.first().copied();
        let known = capacity.is_some() || network.links.iter().any(|link| link.capacity.is_some());
        if goal != Goal::Footprint && !known {
            return Err(Failure::usage(format!(
                "--against {}: these routes were made for loads, and the map names no capacities: \
                 give --capacity as `oncewire route` had it",
                path.display()
            )));
        }
        Ok(Self { file, goal, network, capacity })
    }

    fn minute(&self, counted: &Counted) -> Result<Judged, oncewire_plan::Error> {
        let network = &self.network;
        let request = Request {
            network,
            ingresses: counted.classes(Fold::default()),
            cost: self.file.cost,
            objective: Objective::Footprint,
            capacity: self.capacity.map(BitRate),
            interval: counted.interval,
            eliminates: Vec::new(),
            plain_load: None,
            compare: false,
            safety_net: false,
            slices: 1,
            gap: GAP,
            against: None,
        };
        let RouteFile { routes, .. } = &self.file;
        let found = profile::minute(&request, self.goal, routes, self.file.gap(), &Unwatched)?;
        let profile::Minute { value, bound, gap, alarm } = found;
        Ok(Judged { value, bound, gap, alarm })
    }
}

fn interval(
    instance: &Instance,
    number: u64,
    counted: &Counted,
    judge: Option<&Judge>,
) -> Result<Interval, oncewire_plan::Error> {
    let network = &instance.network;
    let content = counted.ingresses.first().map_or(&[][..], |(_, content)| content);
    let striping = Striping::new(content);
    let label = |node: NodeId| scenario::label(network, node);
    let pair = |&(a, b, share): &(NodeId, NodeId, f64)| Pair { a: label(a), b: label(b), share };
    Ok(Interval {
        number,
        volume_bytes: striping.volume,
        unique_bytes: striping.unique,
        redundancy: striping.redundancy(),
        pairs: striping.pairs.len(),
        largest_pairs: striping.pairs.iter().take(PAIRS).map(pair).collect(),
        by_egresses: striping.by_egresses,
        judged: judge.map(|judge| judge.minute(counted)).transpose()?,
    })
}

impl Document {
    fn summary(&self) -> Summary {
        let volume: f64 = self.intervals.iter().map(|one| one.volume_bytes).sum();
        let unique: f64 = self.intervals.iter().map(|one| one.unique_bytes).sum();
        let share = |value| format::number(value, Unit::Share);
        let single: f64 = self
            .intervals
            .iter()
            .map(|one| one.unique_bytes * one.by_egresses.first().copied().unwrap_or(0.0))
            .sum();
        let mut facts = vec![
            Fact::new("volume", format::number(volume, Unit::Bytes), "of all copies"),
            Fact::new(
                "redundancy",
                share(1.0 - unique / volume),
                "of that repeats within an interval",
            ),
            Fact::new(
                "one egress",
                share(single / unique),
                "of the unique bytes go to one egress only",
            ),
        ];
        let alarms = self
            .intervals
            .iter()
            .filter(|one| one.judged.as_ref().is_some_and(|judged| judged.alarm))
            .count();
        if let Some(gap) = self.planned_gap {
            facts.push(Fact::new(
                "alarms",
                alarms.to_string(),
                format!("intervals in which the gap is 5 % of the value above {}", share(gap)),
            ));
        }
        Summary {
            headline: format!(
                "{} intervals of {} enter at {}.",
                self.intervals.len(),
                format::number(self.interval_seconds, Unit::Seconds),
                self.ingress
            ),
            positive: false,
            facts,
            reasons: Vec::new(),
        }
    }

    fn section(&self) -> Section {
        let mut columns = vec![
            ("interval", Unit::Count),
            ("volume", Unit::Bytes),
            ("redundancy", Unit::Share),
            ("1 egress", Unit::Share),
            ("2", Unit::Share),
            ("3", Unit::Share),
            ("4 or more", Unit::Share),
        ];
        if self.planned_gap.is_some() {
            columns.extend([("gap", Unit::Share), ("alarm", Unit::Text)]);
        }
        let rows = self.intervals.iter().map(|one| {
            let mut row: Vec<Cell> =
                vec![Cell::Count(one.number), one.volume_bytes.into(), one.redundancy.into()];
            for egresses in 0..COLUMNS {
                let share: f64 = if egresses + 1 < COLUMNS {
                    one.by_egresses.get(egresses).copied().unwrap_or(0.0)
                } else {
                    one.by_egresses.iter().skip(egresses).fold(0.0, |sum, share| sum + share)
                };
                row.push(share.into());
            }
            if let Some(judged) = &one.judged {
                row.push(judged.gap.into());
                row.push(if judged.alarm { "yes" } else { "" }.into());
            }
            row
        });
        let table = Table::new(
            "intervals",
            "Unique bytes by the number of egresses that they went to",
            &columns,
            rows.collect(),
        );
        let view = TableView { rows: Some(20), ..table.into() };
        Section::new("intervals", "Intervals").with(Block::Table(view))
    }
}
