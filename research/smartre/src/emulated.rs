//! Carries the packets of a capture through the emulated network with the real codec.

use std::{
    fs::File,
    io::BufReader,
    net::IpAddr,
    ops::Range,
    path::{Path, PathBuf},
};

use oncewire_packet::{CaptureReader, Dissected, Dissector, Limits};
use oncewire_plan::{
    Bytes, Instance, Prices, Seconds, Solution, Unwatched,
    baseline::{edge_only, ideal},
    emulate::{
        Allocation, Emulation, Gaps, Packet, Queues, Report, Rules, Scheme, Settings,
        workload::{Egresses, FromCapture, Ingresses, TimeScale},
    },
    measure::{self, Profiler},
};
use rayon::prelude::*;

use crate::{
    Outcome, Run, Table,
    setting::{Setting, solve},
};

/// The part of the arranged day to use: the traffic that leaves the site, or the traffic that
/// leaves its web servers. The thesis used the traffic leaving a university, and that leaving a /24
/// of web servers in it.
pub(crate) const TRACES: [(&str, Keep); 2] =
    [("site", leaves_site), ("web servers", leaves_web_servers)];

pub(crate) type Keep = fn(&Dissected<'_>) -> bool;

fn leaves_site(packet: &Dissected<'_>) -> bool {
    at_site(packet.source) && !at_site(packet.destination)
}

fn leaves_web_servers(packet: &Dissected<'_>) -> bool {
    leaves_site(packet) && packet.transport.ports().0 == 80
}

/// The arranged day's site.
fn at_site(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..2] == [10, 20],
        IpAddr::V6(address) => address.segments()[..3] == [0x2001, 0xdb8, 0x20],
    }
}

/// The thesis's rules, for what repeats its evaluation.
pub(crate) const PUBLISHED: Rules = Rules::PUBLISHED;

/// Retention epochs per part of the capture, for figure 3.10.
pub(crate) const EPOCHS: f64 = 3.0;
/// That part, in hours after the first packet: the busiest three hours of the day.
pub(crate) const PART: Range<f64> = 9.0..12.0;
/// The whole capture.
pub(crate) const ALL: Range<f64> = 0.0..f64::INFINITY;

/// Describes a part of a capture.
#[derive(Clone, Copy, Default)]
pub(crate) struct About {
    packets: u64,
    bytes: u64,
    seconds: f64,
}

/// Calls `take` with the packets of the given hours of a capture.
fn read(
    file: &Path,
    keep: Keep,
    hours: &Range<f64>,
    take: &mut dyn FnMut(i64, &Dissected<'_>),
) -> Outcome {
    let open = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut capture = CaptureReader::new(BufReader::new(open))?;
    let mut dissector = Dissector::new(Limits::default());
    let mut first = None;
    while let Some(record) = capture.next() {
        let record = record?;
        let hour = record.time.saturating_sub(*first.get_or_insert(record.time)) as f64 / 3.6e12;
        if hours.contains(&hour)
            && let Ok(packet) = dissector.dissect(&record)
            && keep(&packet)
        {
            take(record.time, &packet);
        }
    }
    Ok(())
}

pub(crate) fn about(file: &Path, keep: Keep, hours: &Range<f64>) -> Outcome<About> {
    let mut about = About::default();
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    read(file, keep, hours, &mut |time, packet| {
        about.packets += 1;
        about.bytes += packet.wire_len;
        (first, last) = (first.min(time), last.max(time));
    })?;
    if about.packets == 0 {
        return Err(
            format!("{}: no packet that leaves the arranged day's site", file.display()).into()
        );
    }
    about.seconds = (last - first) as f64 / 1e9;
    Ok(about)
}

/// A part of a capture.
pub(crate) struct Part<'a> {
    pub(crate) file: &'a Path,
    pub(crate) keep: Keep,
    pub(crate) hours: Range<f64>,
    pub(crate) about: About,
    pub(crate) epochs: f64,
}

/// Sprint with one ingress, scaled to the capture, whose packets enter there.
///
/// As in the thesis, the ingress's store holds T seconds of its traffic, and devices give it their
/// share by volume. So ingresses differ by their paths and shares, not by their volume.
pub(crate) fn place(
    part: &Part<'_>,
    whole: &Instance,
    ingress: usize,
    seed: u64,
) -> Outcome<(Instance, Vec<Packet>)> {
    let mut instance = whole.single(ingress);
    instance.ingresses[0].memory = instance.ingresses[0].volume;
    let bytes = Bytes(part.about.bytes as f64);
    instance.packet = Bytes(bytes.0 / part.about.packets as f64);
    let scale = TimeScale::fill(&instance, 0, bytes, Seconds(part.about.seconds), part.epochs)?;
    let instance = instance.scaled(scale.instance)?;
    let egresses = Egresses::Spread { seed, networks: false };
    let mut packets = Vec::new();
    let node = instance.ingresses[0].node;
    let mut mapper = FromCapture::new(&instance, Ingresses::One(node), egresses, scale)?;
    read(part.file, part.keep, &part.hours, &mut |time, packet| {
        packets.extend(mapper.packet(time, packet))
    })?;
    Ok((instance, packets))
}

pub(crate) fn capture(run: &Run) -> Outcome<&Path> {
    run.captures
        .first()
        .map(PathBuf::as_path)
        .ok_or_else(|| "this section needs a capture: --capture FILE".into())
}

pub(crate) fn sprint(run: &Run) -> Outcome<Instance> {
    whole(run, "Sprint")
}

/// A map with four access routers in each PoP, and gravity traffic.
pub(crate) fn whole(run: &Run, map: &str) -> Outcome<Instance> {
    let network = run.map(map)?.with_access_routers(4)?;
    Ok(Setting { load: 1.0, equal: false, ..Setting::default() }.instance(&network)?)
}

/// One ingress per PoP; all ingresses of a PoP have the same paths.
pub(crate) fn one_per_pop(whole: &Instance) -> Vec<usize> {
    let mut pops = std::collections::BTreeSet::new();
    let pop = |ingress: usize| whole.network.nodes[whole.ingresses[ingress].node].pop;
    (0..whole.ingresses.len()).filter(|&ingress| pops.insert(pop(ingress))).collect()
}

/// Footprint reduction after the first epoch, during which caches fill.
pub(crate) fn warm(report: &Report, from: u64) -> f64 {
    let warm = report.epochs.iter().filter(|epoch| epoch.epoch >= from);
    let (before, after) = warm
        .fold((0, 0), |sum, epoch| (sum.0 + epoch.footprint.before, sum.1 + epoch.footprint.after));
    if before == 0 { 0.0 } else { 1.0 - after as f64 / before as f64 }
}

pub(crate) fn emulate(
    instance: &Instance,
    scheme: Scheme,
    rules: Rules,
    packets: &[Packet],
    seed: u64,
) -> Outcome<Report> {
    // Unlimited caches hold as much as the ingress's store.
    let settings = Settings {
        seed,
        unlimited: (instance.ingresses[0].memory as u64).max(1 << 20),
        rules,
        ..Settings::default()
    };
    let mut emulation = Emulation::new(instance, scheme, settings)?;
    emulation.run(packets.iter().cloned(), &Unwatched)?;
    Ok(emulation.report())
}

/// Devices that keep everything that crosses their link in an epoch, and have no other limit.
/// Hop-by-hop with such devices is Ideal with one epoch of retention, which is how the profile
/// counts. Ideal's own caches are all as large as the ingress's store, so those of quiet links last
/// for many epochs.
pub(crate) fn for_an_epoch(instance: &Instance) -> Instance {
    let volumes = instance.link_volumes();
    let mut instance = instance.clone().relaxed(false, true);
    for device in &mut instance.devices {
        device.encodings = f64::INFINITY;
        device.memory = device.link.map_or(0.0, |link| volumes[link]);
    }
    instance
}

/// Devices for hop-by-hop that have no more memory together than an allocation's queues: at equal cost,
/// as far as memory is the cost. Each has the same part of what it would fill.
fn with_memory_of(instance: &Instance, allocation: &Allocation) -> Instance {
    let paths = 0..allocation.paths() as u32;
    let queues: u64 = paths.flat_map(|path| allocation.shares(path)).map(|share| share.bytes).sum();
    let volumes = instance.link_volumes();
    let mut instance = instance.clone();
    for device in &mut instance.devices {
        device.memory = device.memory.min(device.link.map_or(0.0, |link| volumes[link]));
    }
    let filled: f64 = instance.devices.iter().map(|device| device.memory).sum();
    let part = (queues as f64 / filled).min(1.0);
    instance.devices.iter_mut().for_each(|device| device.memory *= part);
    instance
}

/// Edge-only, as a share of all hops of an instance.
fn at_edges(instance: &Instance) -> Outcome<Solution> {
    let edges = edge_only(instance)?;
    let solution = solve(&edges)?;
    let mut cached = vec![0.0; instance.hop_count()];
    for path in 0..instance.paths.len() {
        if let (Some(last), Some(share)) =
            (instance.hop_range(path).last(), solution.of_path(&edges, path).last())
        {
            cached[last] = *share;
        }
    }
    Ok(Solution { cached, prices: Prices::default(), ..solution })
}

/// What a scheme saved when it was emulated, what was predicted for it, by the first and the last
/// copies of content, and packets that could not be decoded.
type OfScheme = (&'static str, f64, f64, f64, u64);

/// The packets of a trace at one ingress: its name, the redundancy, and the schemes.
fn of_ingress(
    part: &Part<'_>,
    whole: &Instance,
    ingress: usize,
    seed: u64,
) -> Outcome<(String, f64, Vec<OfScheme>)> {
    let (instance, packets) = place(part, whole, ingress, seed)?;
    let mut profiler = Profiler::new(&instance, measure::Settings::default())?;
    packets.iter().try_for_each(|packet| profiler.push(packet))?;
    let measured = profiler.measurement()?.apply(&instance)?;
    let seen = profiler.seen();
    // The same, with matches attributed to the last copy instead of the first: what is
    // available link by link.
    let last = measure::Settings { older: measure::Older::Last, ..measure::Settings::default() };
    let mut profiler = Profiler::new(&instance, last)?;
    packets.iter().try_for_each(|packet| profiler.push(packet))?;
    let last = profiler.measurement()?.apply(&instance)?;
    let newest = solve(&last)?;
    let by_last = [ideal(&last).footprint.reduction(), newest.objective / last.footprint()];
    let best = solve(&measured)?;
    let edge = at_edges(&measured)?;
    let predicted = |solution: &Solution| solution.objective / measured.footprint();
    let mut results = Vec::new();
    for (scheme, how, predicted) in [
        ("SmartRE", Scheme::Planned(Allocation::new(&measured, &best)?), predicted(&best)),
        ("SmartRE, last copies", Scheme::Planned(Allocation::new(&last, &newest)?), f64::NAN),
        ("edge-only", Scheme::Planned(Allocation::new(&measured, &edge)?), predicted(&edge)),
        ("hop-by-hop", Scheme::HopByHop, f64::NAN),
        ("Ideal", Scheme::HopByHop, ideal(&measured).footprint.reduction()),
        ("Ideal, larger caches", Scheme::Ideal, f64::NAN),
    ] {
        let report = match scheme {
            "Ideal" => emulate(&for_an_epoch(&measured), how, PUBLISHED, &packets, seed)?,
            _ => emulate(&measured, how, PUBLISHED, &packets, seed)?,
        };
        let last = match scheme {
            "Ideal" => by_last[0],
            "SmartRE, last copies" => by_last[1],
            _ => f64::NAN,
        };
        results.push((
            scheme,
            warm(&report, 1),
            predicted,
            last,
            report.undecodable + report.damaged,
        ));
    }
    let node = instance.ingresses[0].node;
    eprint!(".");
    Ok((
        instance.network.nodes[node].label.clone(),
        seen.match_bytes as f64 / seen.bytes as f64,
        results,
    ))
}

/// Figure 3.10: a capture enters at each PoP of Sprint in turn.
pub(crate) fn trace(run: &Run) -> Outcome {
    let file = capture(run)?;
    let mut facts = Table::new(
        run,
        "trace-facts",
        &["trace", "packets", "bytes", "seconds", "redundancy", "epochs"],
    )?;
    let mut table = Table::new(
        run,
        "trace",
        &["trace", "ingress", "scheme", "emulated", "predicted", "predicted_last", "undecodable"],
    )?;
    let whole = sprint(run)?;
    for (name, keep) in TRACES {
        let about = about(file, keep, &PART)?;
        let part = Part { file, keep, hours: PART, about, epochs: EPOCHS };
        let rows: Vec<_> = one_per_pop(&whole)
            .par_iter()
            .map(|&ingress| of_ingress(&part, &whole, ingress, run.seed))
            .collect::<Outcome<_>>()?;
        let redundancy =
            rows.iter().map(|(_, redundancy, _)| redundancy).sum::<f64>() / rows.len() as f64;
        facts.row(&[&name, &about.packets, &about.bytes, &about.seconds, &redundancy, &EPOCHS])?;
        for (ingress, _, results) in rows {
            for (scheme, emulated, predicted, last, undecodable) in results {
                table.row(&[
                    &name,
                    &ingress,
                    &scheme,
                    &emulated,
                    &predicted,
                    &last,
                    &undecodable,
                ])?;
            }
        }
        eprintln!("  {name}");
    }
    facts.end()?;
    table.end()
}

/// Every so many PoPs are ingresses for section `rules`: eleven schemes take a while.
const EACH: usize = 4;

/// Rules to compare, each alone and together.
fn variants() -> [(&'static str, Rules); 9] {
    let precise = Rules { gaps: Gaps::Undecoded, ..PUBLISHED };
    let both = Rules { copies: 16, ..precise };
    [
        ("published", PUBLISHED),
        ("one queue per ingress and device", Rules { queues: Queues::Ingress, ..PUBLISHED }),
        ("precise gaps", precise),
        ("16 copies", Rules { copies: 16, ..PUBLISHED }),
        ("precise gaps, 16 copies", both),
        ("all three", Rules { queues: Queues::Ingress, ..both }),
        ("all three, 2 copies", Rules { queues: Queues::Ingress, copies: 2, ..both }),
        ("all three, 4 copies", Rules { queues: Queues::Ingress, copies: 4, ..both }),
        ("all three, fair", Rules { queues: Queues::Fair, ..both }),
    ]
}

/// Name of a scheme, what it saves when emulated, and packets that could not be decoded.
type Saved = (&'static str, f64, u64);

/// Rules of SmartRE beside hop-by-hop and Ideal.
fn of_rules(
    part: &Part<'_>,
    whole: &Instance,
    ingress: usize,
    seed: u64,
) -> Outcome<(String, Vec<Saved>)> {
    let (instance, packets) = place(part, whole, ingress, seed)?;
    let mut profiler = Profiler::new(&instance, measure::Settings::default())?;
    packets.iter().try_for_each(|packet| profiler.push(packet))?;
    let measured = profiler.measurement()?.apply(&instance)?;
    let allocation = Allocation::new(&measured, &solve(&measured)?)?;
    let mut results: Vec<Saved> = Vec::new();
    let saved = |report: &Report| (warm(report, 1), report.undecodable + report.damaged);
    for (name, rules) in variants() {
        let scheme = Scheme::Planned(allocation.clone());
        let (share, bad) = saved(&emulate(&measured, scheme, rules, &packets, seed)?);
        results.push((name, share, bad));
    }
    let for_an_epoch = for_an_epoch(&measured);
    let as_much = with_memory_of(&measured, &allocation);
    for (name, instance, copies) in [
        ("hop-by-hop", &measured, 1),
        ("hop-by-hop, 16 copies", &measured, 16),
        ("hop-by-hop, 16 copies, SmartRE's memory", &as_much, 16),
        ("Ideal", &for_an_epoch, 1),
        ("Ideal, 16 copies", &for_an_epoch, 16),
    ] {
        let rules = Rules { copies, ..PUBLISHED };
        let (share, bad) = saved(&emulate(instance, Scheme::HopByHop, rules, &packets, seed)?);
        results.push((name, share, bad));
    }
    eprint!(".");
    let node = instance.ingresses[0].node;
    Ok((instance.network.nodes[node].label.clone(), results))
}

/// Rules of caching and of references, on every capture: its name, what leaves the site and its web
/// servers, at every fourth PoP of Sprint in turn.
pub(crate) fn rules(run: &Run) -> Outcome {
    capture(run)?;
    let mut table = Table::new(
        run,
        "rules",
        &["content", "trace", "ingress", "rules", "emulated", "undecodable"],
    )?;
    let whole = sprint(run)?;
    for file in &run.captures {
        let content = file.file_stem().unwrap_or_default().to_string_lossy();
        for (name, keep) in TRACES {
            let about = about(file, keep, &PART)?;
            let part = Part { file, keep, hours: PART, about, epochs: EPOCHS };
            let pops: Vec<usize> = one_per_pop(&whole).into_iter().step_by(EACH).collect();
            let rows: Vec<_> = pops
                .par_iter()
                .map(|&ingress| of_rules(&part, &whole, ingress, run.seed))
                .collect::<Outcome<_>>()?;
            for (ingress, results) in rows {
                for (rules, emulated, undecodable) in results {
                    table.row(&[&content, &name, &ingress, &rules, &emulated, &undecodable])?;
                }
            }
            eprintln!("  {content}, {name}");
        }
    }
    table.end()
}
