//! `oncewire emulate`: packets through a planned network, with the real codec.

use super::failure;
use super::scenario::{self, Scenario};
use super::watch::Waiting;
use crate::args::plan::EmulateArgs;
use crate::endpoint::Output;
use crate::failure::{Failure, Outcome};
use crate::format::{self, count_of};
use crate::quantity::bytes;
use crate::study::source::Source;
use crate::terminal::{self, Page};
use crate::{progress, report as output};
use oncewire_packet::prefix::Prefixes;
use oncewire_packet::{CaptureReader, Dissector, Limits};
use oncewire_plan::emulate::workload::{self, Crowd, Egresses, FromCapture, Ingresses, Mapped, TimeScale};
use oncewire_plan::emulate::{
    Allocation, Change, Emulation, Event, Observed, Packet, Replanner, Replanning, Report, Rollout, Scheme, Settings, Share,
};
use oncewire_plan::lp::{self, WarmStart};
use oncewire_plan::measure::{Measurement, Profiler};
use oncewire_plan::{Error, Instance, Profile, Unwatched, Watch, measure, routing};
use oncewire_trace::results::{Cell, Column, Table, Unit};
use serde::Serialize;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What the document calls itself. Its number grows when a field changes its meaning or goes.
const FORMAT: &str = "oncewire-emulate/1";

/// Bytes that enter in an epoch unless told otherwise: what a run of some seconds can carry.
const USUAL_VOLUME: f64 = 64e6;

/// Smallest packet store of an ingress that is emulated, in bytes: room for a packet of the largest size.
const SMALLEST_STORE: f64 = 65_536.0;

/// Settings that say nothing of captures: they have volumes and redundancy of their own.
const ASKED: [&str; 5] = ["traffic", "volumes", "load", "redundancy", "match length"];

/// Rows of a table; all are in the JSON document.
const ROWS: usize = 10;

pub(crate) fn run(args: &EmulateArgs) -> Outcome {
    let mut measured = args.measured.as_deref().map(|path| Output::create(Some(path))).transpose()?;
    let sources: Vec<Source> = args.capture.iter().cloned().map(Source::File).collect();
    crate::study::source::check(&sources)?;
    let watch = Waiting::new();
    let scenario = Scenario::build(&args.scenario, &watch)?;
    let mut notes = Vec::new();
    let (instance, traffic) = if sources.is_empty() {
        synthetic(args, &scenario.instance)?
    } else {
        captured(args, &scenario.instance, sources, &watch)?
    };
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
        return output::json(&document);
    }
    let (width, colour) = terminal::page();
    let mut text = Vec::new();
    document.write(&mut text, width, colour).map_err(|error| Failure::report(&error))?;
    output::text(&String::from_utf8_lossy(&text))
}

/// Where packets come from. They are made or read anew for each scheme.
struct Traffic {
    kind: Kind,
    /// Part of volumes, caches and speeds that is emulated.
    scale: f64,
    /// What it is, in words.
    words: String,
}

enum Kind {
    Synthetic(workload::Settings),
    Captures { sources: Vec<Source>, ingresses: Ingresses, egresses: Egresses, times: TimeScale },
}

/// Packets that realise the instance's profile.
fn synthetic(args: &EmulateArgs, whole: &Instance) -> Outcome<(Instance, Traffic)> {
    let volume: f64 = whole.ingresses.iter().map(|ingress| ingress.volume).sum();
    let scale = args.scale.unwrap_or_else(|| (USUAL_VOLUME / volume).min(1.0));
    if scale == 0.0 {
        return Err(Failure::usage("--scale 0% leaves nothing to emulate"));
    }
    let instance = whole.clone().scaled(scale).map_err(failure)?;
    let mut settings =
        workload::Settings { seed: args.scenario.seed, epochs: f64::from(args.epochs), ..workload::Settings::default() };
    if let Some(flash) = &args.flash_crowd {
        let redundancy = match (flash.gamma, &instance.profile) {
            (Some(gamma), Profile::Synthetic(profile)) if profile.gamma > 0.0 => gamma / profile.gamma,
            (Some(_), _) => return Err(Failure::usage("--flash-crowd gamma=... needs a synthetic profile with --gamma above 0")),
            (None, _) => 1.0,
        };
        let crowd = Crowd {
            ingress: Some(instance.ingresses[largest(&instance)].node),
            from: flash.from.as_secs_f64(),
            until: f64::INFINITY,
            volume: flash.volume,
            redundancy,
        };
        settings.dynamics.crowds.push(crowd);
    }
    // Whatever is wrong with the settings shows now.
    workload::Synthetic::new(&instance, settings.clone()).map_err(failure)?;
    let words = format!("synthetic, {} epochs of {} s, {} of the volume", args.epochs, instance.epoch, tiny_share(scale));
    Ok((instance, Traffic { kind: Kind::Synthetic(settings), scale, words }))
}

/// Packets of captures. The plan is made for the volumes and the profile that are in them, unless a profile is given.
fn captured(args: &EmulateArgs, whole: &Instance, sources: Vec<Source>, watch: &Waiting) -> Outcome<(Instance, Traffic)> {
    if args.flash_crowd.is_some() {
        return Err(Failure::usage("--flash-crowd is for synthetic packets; a capture is carried as it is"));
    }
    let name = |node: u32| scenario::label(&whole.network, node);
    let ingresses = match &args.ingress {
        Some(id) => {
            let at = scenario::ingress(whole, id)?;
            Some(at)
        }
        None if args.prefixes.is_some() => None,
        None => Some(largest(whole)),
    };
    let egresses = match &args.prefixes {
        Some(path) => {
            let table = Prefixes::parse(&scenario::read(path)?);
            Egresses::Prefixes(Box::new(table.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?))
        }
        None => Egresses::Spread { seed: args.scenario.seed, networks: false },
    };
    watch.say("looking through the captures");
    let (mut first, mut last, mut total) = (None, i128::MIN, 0u64);
    each_packet(&sources, watch, |time, packet| {
        let time = i128::from(time);
        first.get_or_insert(time);
        last = last.max(time);
        total += packet.wire_len;
        Ok(())
    })?;
    let seconds = first.map_or(0.0, |first| (last - first) as f64 / 1e9);
    if total == 0 || seconds <= 0.0 {
        return Err(Failure::damaged(
            "the captures have no two TCP or UDP packets at different times: there is nothing to carry",
        ));
    }
    // Of a single ingress, devices serve a part only (thesis, section 3.5).
    let (instance, from) = match ingresses {
        Some(at) => (whole.single(at), Ingresses::One(whole.ingresses[at].node)),
        None => (whole.clone(), Ingresses::BySource),
    };
    let epochs = f64::from(args.epochs);
    let mut times = TimeScale::fill(&instance, largest(&instance), total, seconds, epochs).map_err(failure)?;
    if let Some(scale) = args.scale.filter(|scale| *scale > 0.0) {
        times.instance = scale;
    }
    let store = instance.ingresses.iter().map(|ingress| ingress.memory).fold(f64::INFINITY, f64::min) * times.instance;
    if store < SMALLEST_STORE {
        return Err(Failure::usage(format!(
            "the captures are too small for {} epochs: a packet store would have {}; take fewer --epochs or larger captures",
            args.epochs,
            bytes(store as u64)
        )));
    }
    let mut instance = instance.scaled(times.instance).map_err(failure)?;
    let words = format!(
        "{} from {}, {} in {:.1} s made to last {} epochs of {} s; caches and speeds are {} of what they are",
        if sources.len() == 1 { "a capture".into() } else { format!("{} captures", sources.len()) },
        ingresses.map_or_else(|| "where their sources are".into(), |at| name(whole.ingresses[at].node)),
        bytes(total),
        seconds,
        args.epochs,
        instance.epoch,
        tiny_share(times.instance)
    );
    let traffic = Traffic { kind: Kind::Captures { sources, ingresses: from, egresses, times }, scale: times.instance, words };
    watch.say("measuring volumes and redundancy");
    let settings = measure::Settings { warm_up: 0.0, ..measure::Settings::default() };
    let mut profiler = Profiler::new(&instance, settings).map_err(failure)?;
    feed(&instance, &traffic, watch, |packet| profiler.push(&packet).map_err(failure))?;
    if profiler.seen().packets == 0 {
        return Err(Failure::usage("no packet of the captures has a path through this network; check --prefixes and --ingress"));
    }
    let mut found = profiler.measurement().map_err(failure)?;
    drop(profiler);
    if let (Some(_), Profile::Measured(profile)) = (&args.scenario.profile, &instance.profile) {
        found.profile = profile.clone();
    }
    instance = found.apply(&instance).map_err(failure)?;
    Ok((instance, traffic))
}

/// Index of the ingress with the most traffic.
fn largest(instance: &Instance) -> usize {
    let volumes = instance.ingresses.iter().map(|ingress| ingress.volume);
    volumes.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map_or(0, |(at, _)| at)
}

fn tiny_share(share: f64) -> String {
    if share >= 0.01 { format!("{:.3} %", 100.0 * share) } else { format!("1/{:.0}", 1.0 / share) }
}

/// Gives every packet with a payload or without one of the captures, dissected.
fn each_packet(
    sources: &[Source],
    watch: &Waiting,
    mut take: impl FnMut(oncewire_packet::Nanos, &oncewire_packet::Dissected<'_>) -> Outcome,
) -> Outcome {
    for source in sources {
        let mut dissector = Dissector::new(Limits::default());
        let mut reader =
            CaptureReader::new(source.open()?).map_err(|error| Failure::damaged(format!("{}: {error}", source.name())))?;
        for count in 0u64.. {
            if count.is_multiple_of(4096) {
                watch.go_on().map_err(failure)?;
            }
            match reader.next() {
                None => break,
                Some(Ok(record)) => {
                    if let Ok(packet) = dissector.dissect(&record) {
                        take(record.time, &packet)?;
                    }
                }
                Some(Err(error)) => {
                    progress::note(&format!("{}: {error}; what came before is carried", source.name()));
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Gives each packet of the traffic, and says what became of a capture's.
fn feed(
    instance: &Instance,
    traffic: &Traffic,
    watch: &Waiting,
    mut take: impl FnMut(Packet) -> Outcome,
) -> Outcome<Option<Mapped>> {
    match &traffic.kind {
        Kind::Synthetic(settings) => {
            let packets = workload::Synthetic::new(instance, settings.clone()).map_err(failure)?;
            for (count, packet) in packets.enumerate() {
                if count.is_multiple_of(4096) {
                    watch.go_on().map_err(failure)?;
                }
                take(packet)?;
            }
            Ok(None)
        }
        Kind::Captures { sources, ingresses, egresses, times } => {
            let mapper = FromCapture::new(instance, *ingresses, egresses.clone(), *times);
            let mut mapper = mapper.map_err(|error| Failure::usage(error.to_string()))?;
            each_packet(sources, watch, |time, packet| mapper.packet(time, packet).map_or(Ok(()), &mut take))?;
            Ok(Some(mapper.mapped()))
        }
    }
}

/// A plan from a file, for the part of the network's volumes that is emulated.
fn given(path: &std::path::Path, instance: &Instance, scale: f64) -> Outcome<Allocation> {
    let plan = super::read_plan(path)?;
    let another = |what: &str| {
        Failure::usage(format!(
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

/// The busiest cable without which every path has another way fails: paths over it take that, of which ingresses hear after `notice`.
fn reroute(instance: &Instance, time: Duration, notice: Duration) -> Outcome<Vec<Event>> {
    let volumes = instance.link_volumes();
    let mut busiest: Vec<usize> = (0..volumes.len()).filter(|&link| instance.counted[link] && volumes[link] > 0.0).collect();
    busiest.sort_by(|&a, &b| volumes[b].total_cmp(&volumes[a]).then(a.cmp(&b)));
    for link in busiest {
        if let Some(routes) = without(instance, link)? {
            let event = |(path, links)| {
                let change = Change::Route { path, links, notice: nanoseconds(notice) };
                Event { time: nanoseconds(time), change }
            };
            return Ok(routes.into_iter().map(event).collect());
        }
    }
    Err(Failure::usage("--reroute: there is no link in this network without which all PoPs are still connected"))
}

/// A path, and the links that it takes from now on.
type NewLinks = (u32, Vec<u32>);

/// Other links for the paths over a cable, if it fails and they have any.
fn without(instance: &Instance, failed: usize) -> Outcome<Option<Vec<NewLinks>>> {
    let failed = instance.network.links[failed];
    let gone = |link: u32| {
        let link = instance.network.links[link as usize];
        (link.from, link.to) == (failed.from, failed.to) || (link.from, link.to) == (failed.to, failed.from)
    };
    // Numbers of links stay those of the whole network: what failed is made so long that nothing takes it if there is another way.
    let mut left = instance.network.clone();
    let far: f64 = left.links.iter().map(|link| link.weight).sum::<f64>() * 1e3;
    (0..).zip(&mut left.links).filter(|(number, _)| gone(*number)).for_each(|(_, link)| link.weight += far);
    let over: Vec<(u32, &oncewire_plan::Path)> =
        (0..).zip(&instance.paths).filter(|(_, path)| path.links.iter().any(|&link| gone(link))).collect();
    let ends = |path: &oncewire_plan::Path| (instance.ingresses[path.ingress as usize].node, path.egress);
    let pairs: Vec<(u32, u32)> = over.iter().map(|(_, path)| ends(path)).collect();
    let routes = routing::shortest_paths_between(&left, &pairs, &Unwatched).map_err(failure)?;
    if routes.iter().any(|route| route.links.iter().any(|&link| gone(link))) {
        return Ok(None);
    }
    Ok(Some(over.iter().zip(routes).map(|(&(number, _), route)| (number, route.links)).collect()))
}

fn mapping_notes(mapped: Option<&Mapped>, notes: &mut Vec<String>) {
    let Some(mapped) = mapped else { return };
    let left_out = [
        (mapped.nowhere, "have an address that lies behind no node"),
        (mapped.own_pop, "would leave in the PoP where they enter"),
        (mapped.no_path, "are between nodes without a path"),
        (mapped.too_large, "are too large for IP"),
    ];
    for (packets, why) in left_out {
        if packets > 0 {
            notes.push(format!("{} packets of the captures {why}, and were left out.", count_of(packets)));
        }
    }
}

/// What an emulation came to.
#[derive(Serialize)]
struct Document {
    format: &'static str,
    network: String,
    derivation: Vec<String>,
    traffic: String,
    /// Part of volumes, caches and speeds that was emulated.
    scale: f64,
    epoch_seconds: f64,
    settings: Vec<(String, String)>,
    headline: String,
    schemes: Vec<Run>,
    packets: u64,
    bytes: u64,
    delivered: u64,
    lost: u64,
    undecodable: u64,
    damaged: u64,
    collisions: u64,
    updates: u64,
    refusals: Vec<(&'static str, u64)>,
    shim_bytes: u64,
    matches: u64,
    matched_bytes: u64,
    ingresses: Vec<IngressLine>,
    links: Vec<LinkLine>,
    devices: Vec<DeviceLine>,
    notes: Vec<String>,
}

/// One scheme's run.
#[derive(Serialize)]
struct Run {
    name: &'static str,
    /// Share of the footprint saved, shims counted, after the first epoch.
    reduction: f64,
    /// The same with the first epoch, in which caches fill.
    whole_run: f64,
    /// What the plan expected.
    expected: Option<f64>,
    /// Per epoch.
    epochs: Vec<EpochLine>,
    replans: u32,
    seconds: f64,
}

#[derive(Serialize)]
struct EpochLine {
    epoch: u64,
    packets: u64,
    reduction: f64,
    matches: u64,
    /// Most operations of a device, as a share of what it can do.
    busiest: f64,
    shed: u64,
    undecodable: u64,
}

#[derive(Serialize)]
struct IngressLine {
    node: String,
    packets: u64,
    reduction: f64,
    expected: Option<f64>,
    matches: u64,
    shim_bytes: u64,
    collisions: u64,
}

#[derive(Serialize)]
struct LinkLine {
    from: String,
    to: String,
    /// Whether it counts in the footprint.
    counted: bool,
    before_bytes: u64,
    after_bytes: u64,
}

#[derive(Serialize)]
struct DeviceLine {
    name: String,
    cached: u64,
    decoded: u64,
    /// Per epoch.
    mean_operations: f64,
    most_operations: u64,
    expected_operations: Option<f64>,
    limit: Option<f64>,
    most_bytes: u64,
    memory: Option<f64>,
}

impl Run {
    fn of(name: &'static str, carried: &Carried) -> Run {
        let report = &carried.report;
        let settled: Vec<_> = report.epochs.iter().filter(|epoch| epoch.epoch > 0).collect();
        let (before, after) =
            settled.iter().fold((0, 0), |sum, epoch| (sum.0 + epoch.footprint.before, sum.1 + epoch.footprint.after));
        let line = |epoch: &oncewire_plan::emulate::EpochReport| EpochLine {
            epoch: epoch.epoch,
            packets: epoch.packets,
            reduction: epoch.footprint.reduction(),
            matches: epoch.matches,
            busiest: epoch.busiest,
            shed: epoch.overloaded,
            undecodable: epoch.undecodable,
        };
        Run {
            name,
            reduction: output::savings(after, before),
            whole_run: report.footprint.reduction(),
            expected: report.expected,
            epochs: report.epochs.iter().map(line).collect(),
            replans: carried.replans,
            seconds: carried.seconds,
        }
    }
}

fn document(
    args: &EmulateArgs,
    scenario: &Scenario,
    instance: &Instance,
    traffic: &Traffic,
    report: &Report,
    schemes: Vec<Run>,
    mut notes: Vec<String>,
) -> Document {
    let label = |node: u32| scenario::label(&instance.network, node);
    let of_captures = matches!(traffic.kind, Kind::Captures { .. });
    let ours = &schemes[0];
    let mut headline = format!("Packets through the plan: {:.1} % of the footprint saved", 100.0 * ours.reduction);
    if let Some(expected) = ours.expected {
        headline += &format!(", where the program expected {:.1} %", 100.0 * expected);
    }
    if let Some(ideal) = schemes.iter().find(|run| run.name == "Ideal").filter(|ideal| ideal.reduction > 0.0) {
        headline += &format!("; Ideal saves {:.1} %", 100.0 * ideal.reduction);
    }
    headline += ".";
    let mut fate = format!("{} packets left the network, each as it entered", count_of(report.delivered));
    if report.lost > 0 {
        fate += &format!("; {} were lost on links", count_of(report.lost));
    }
    if report.undecodable + report.damaged > 0 {
        let dropped = count_of(report.undecodable + report.damaged);
        fate += &format!("; {dropped} were dropped, because what they referred to was not where their ingress believed it");
    }
    notes.insert(0, fate + ".");
    if args.reroute.is_some() && report.undecodable > 0 {
        notes.push("After the link failed, ingresses went on encoding for the old route until they heard of it.".into());
    }
    let refusals = &report.refusals;
    let finite = |limit: f64| limit.is_finite().then_some(limit);
    Document {
        format: FORMAT,
        network: instance.network.name.clone(),
        derivation: instance.network.derivation.clone(),
        traffic: traffic.words.clone(),
        scale: traffic.scale,
        epoch_seconds: instance.epoch,
        settings: scenario
            .settings
            .iter()
            .filter(|setting| !of_captures || !ASKED.contains(&setting.0.as_str()))
            .cloned()
            .collect(),
        headline,
        packets: report.packets,
        bytes: report.bytes,
        delivered: report.delivered,
        lost: report.lost,
        undecodable: report.undecodable,
        damaged: report.damaged,
        collisions: report.collisions,
        updates: report.updates,
        refusals: vec![
            ("cached by no device ahead", refusals.overlap),
            ("device overloaded", refusals.overloaded),
            ("name not unique", refusals.ambiguous),
            ("shorter than its shim", refusals.short),
            ("more than a shim carries", refusals.many),
            ("packets sent again, plain", refusals.retransmission),
            ("in a gap", refusals.gap),
        ],
        shim_bytes: report.ingresses.iter().map(|ingress| ingress.shim_bytes).sum(),
        matches: report.ingresses.iter().map(|ingress| ingress.matches).sum(),
        matched_bytes: report.ingresses.iter().map(|ingress| ingress.matched_bytes).sum(),
        ingresses: report
            .ingresses
            .iter()
            .zip(&instance.ingresses)
            .map(|(found, ingress)| IngressLine {
                node: label(ingress.node),
                packets: found.packets,
                reduction: found.footprint.reduction(),
                expected: found.expected,
                matches: found.matches,
                shim_bytes: found.shim_bytes,
                collisions: found.collisions,
            })
            .collect(),
        links: report
            .links
            .iter()
            .zip(&instance.network.links)
            .zip(&instance.counted)
            .map(|((found, link), &counted)| LinkLine {
                counted,
                from: label(link.from),
                to: label(link.to),
                before_bytes: found.before,
                after_bytes: found.after,
            })
            .collect(),
        devices: report
            .devices
            .iter()
            .enumerate()
            .map(|(at, found)| DeviceLine {
                name: scenario::device_label(instance, at),
                cached: found.cached,
                decoded: found.decoded,
                mean_operations: found.mean_operations,
                most_operations: found.most_operations,
                expected_operations: found.expected,
                limit: finite(found.limit),
                most_bytes: found.most_used,
                memory: finite(found.memory),
            })
            .collect(),
        schemes,
        notes,
    }
}

fn table(id: &'static str, caption: &str, columns: &[(&str, Unit)], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|&(name, unit)| Column::new(name, unit)).collect();
    Table { id, caption: caption.into(), columns, rows }
}

impl Document {
    fn write(&self, out: &mut impl Write, width: usize, colour: bool) -> io::Result<()> {
        let mut page = Page::new(out, width, colour);
        page.headline(&self.headline)?;
        page.line("")?;
        let carried = format!("{} packets, {}", count_of(self.packets), bytes(self.bytes));
        let matches =
            format!("{}, for {}; shims take {}", count_of(self.matches), bytes(self.matched_bytes), bytes(self.shim_bytes));
        let mut facts = vec![("network", self.network.clone())];
        facts.extend(self.derivation.iter().map(|line| ("", line.clone())));
        facts.extend([("packets", self.traffic.clone()), ("carried", carried), ("matches encoded", matches)]);
        facts.extend(self.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
        page.facts(&facts)?;
        page.heading("", "Schemes")?;
        let rows = self.schemes.iter().map(|run| {
            vec![run.name.into(), run.reduction.into(), run.whole_run.into(), run.expected.into(), run.seconds.into()]
        });
        let columns = [
            ("scheme", Unit::Text),
            ("reduction", Unit::Share),
            ("with the first epoch", Unit::Share),
            ("expected", Unit::Share),
            ("took", Unit::Seconds),
        ];
        page.table(&table("schemes", "Footprint reduction, shims counted, after the first epoch", &columns, rows.collect()))?;
        if let Some(run) = self.schemes.first() {
            page.heading("", "Epochs of the plan")?;
            let rows = run.epochs.iter().map(|epoch| {
                vec![
                    Cell::Count(epoch.epoch),
                    Cell::Count(epoch.packets),
                    epoch.reduction.into(),
                    Cell::Count(epoch.matches),
                    epoch.busiest.into(),
                    Cell::Count(epoch.shed),
                    Cell::Count(epoch.undecodable),
                ]
            });
            let columns = [
                ("epoch", Unit::Count),
                ("packets", Unit::Count),
                ("reduction", Unit::Share),
                ("matches", Unit::Count),
                ("busiest device", Unit::Share),
                ("shed", Unit::Count),
                ("undecodable", Unit::Count),
            ];
            let mut epochs = table(
                "epochs",
                "Epoch by epoch; shed: matches left to no one, as the device had no operations left",
                &columns,
                rows.collect(),
            );
            epochs.rows.truncate(4 * ROWS);
            page.table(&epochs)?;
        }
        let mut links: Vec<&LinkLine> = self.links.iter().filter(|link| link.counted).collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.before_bytes));
        self.some(
            &mut page,
            "Links",
            links.len(),
            table(
                "links",
                "The busiest of the links that count in the footprint; bytes in the whole run",
                &[
                    ("from", Unit::Text),
                    ("to", Unit::Text),
                    ("before", Unit::Bytes),
                    ("after", Unit::Bytes),
                    ("saved", Unit::Share),
                ],
                links
                    .into_iter()
                    .take(ROWS)
                    .map(|link| {
                        let saved = output::savings(link.after_bytes, link.before_bytes);
                        vec![
                            link.from.clone().into(),
                            link.to.clone().into(),
                            Cell::Count(link.before_bytes),
                            Cell::Count(link.after_bytes),
                            saved.into(),
                        ]
                    })
                    .collect(),
            ),
        )?;
        let mut devices: Vec<&DeviceLine> = self.devices.iter().collect();
        devices.sort_by(|a, b| b.mean_operations.total_cmp(&a.mean_operations));
        self.some(
            &mut page,
            "Devices",
            devices.len(),
            table(
                "devices",
                "The busiest devices; operations per epoch",
                &[
                    ("device", Unit::Text),
                    ("cached", Unit::Count),
                    ("decoded", Unit::Count),
                    ("operations", Unit::Number),
                    ("expected", Unit::Number),
                    ("limit", Unit::Number),
                    ("cache used", Unit::Share),
                ],
                devices
                    .into_iter()
                    .take(ROWS)
                    .map(|device| {
                        let used = device.memory.filter(|memory| *memory > 0.0).map(|memory| device.most_bytes as f64 / memory);
                        vec![
                            device.name.clone().into(),
                            Cell::Count(device.cached),
                            Cell::Count(device.decoded),
                            device.mean_operations.round().into(),
                            device.expected_operations.map(f64::round).into(),
                            device.limit.map(f64::round).into(),
                            used.into(),
                        ]
                    })
                    .collect(),
            ),
        )?;
        page.heading("", "Matches that were not used")?;
        let facts: Vec<(&str, String)> =
            self.refusals.iter().filter(|refusal| refusal.1 > 0).map(|&(why, count)| (why, count_of(count))).collect();
        if facts.is_empty() {
            page.line("  none")?;
        }
        page.facts(&facts)?;
        page.heading("", "Notes")?;
        for note in &self.notes {
            page.wrapped("- ", note)?;
        }
        page.line("")
    }

    fn some<W: Write>(&self, page: &mut Page<'_, W>, title: &str, all: usize, table: Table) -> io::Result<()> {
        page.heading("", title)?;
        page.table(&table)?;
        if all > table.rows.len() {
            page.dim(&format!("... {} more rows in --json", format::count_of((all - table.rows.len()) as u64)))?;
        }
        Ok(())
    }
}
