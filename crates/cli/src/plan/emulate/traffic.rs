//! What is carried: packets that are made, or those of captures.

use super::super::scenario;
use super::super::watch::Waiting;
use super::failure;
use crate::args::plan::EmulateArgs;
use crate::failure::{Failure, Outcome, note};
use crate::format::count_of;
use crate::quantity::bytes;
use crate::study::source::Source;
use oncewire_packet::prefix::Prefixes;
use oncewire_packet::{CaptureReader, Dissected, Dissector, Limits, Record};
use oncewire_plan::emulate::Packet;
use oncewire_plan::emulate::workload::{self, Crowd, Egresses, FromCapture, Ingresses, Mapped, TimeScale};
use oncewire_plan::measure::{self, Profiler};
use oncewire_plan::{Instance, Profile, Watch};

/// Bytes that enter in an epoch unless told otherwise: what a run of some seconds can carry.
const USUAL_VOLUME: f64 = 64e6;

/// Smallest packet store of an ingress that is emulated, in bytes: room for a packet of the largest size.
const SMALLEST_STORE: f64 = 65_536.0;

/// Where packets come from. They are made or read anew for each scheme.
pub(super) struct Traffic {
    pub(super) kind: Kind,
    /// Part of volumes, caches and speeds that is emulated.
    pub(super) scale: f64,
    /// What it is, in words.
    pub(super) words: String,
    /// Captures that ended in an error, in words.
    pub(super) damaged: Vec<String>,
}

pub(super) enum Kind {
    Synthetic(workload::Settings),
    Captures { sources: Vec<Source>, ingresses: Ingresses, egresses: Egresses, times: TimeScale },
}

/// Packets that realise the instance's profile.
pub(super) fn synthetic(args: &EmulateArgs, whole: &Instance) -> Outcome<(Instance, Traffic)> {
    let volume: f64 = whole.ingresses.iter().map(|ingress| ingress.volume).sum();
    let scale = args.scale.unwrap_or_else(|| (USUAL_VOLUME / volume).min(1.0));
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
    Ok((instance, Traffic { kind: Kind::Synthetic(settings), scale, words, damaged: Vec::new() }))
}

/// Packets of captures. The plan is made for the volumes and the profile that are in them, unless a profile is given.
pub(super) fn captured(
    args: &EmulateArgs,
    whole: &Instance,
    sources: Vec<Source>,
    watch: &Waiting,
) -> Outcome<(Instance, Traffic)> {
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
            Egresses::Prefixes(Box::new(table.map_err(|error| Failure::damaged(format!("{}: {error}", path.display())))?))
        }
        None => Egresses::Spread { seed: args.scenario.seed, networks: false },
    };
    watch.say("looking through the captures");
    let (mut first, mut last, mut total) = (None, i128::MIN, 0u64);
    let damaged = each_packet(&sources, watch, |record, _| {
        let time = i128::from(record.time);
        first.get_or_insert(time);
        last = last.max(time);
        // What was captured, not what a record claims: caches are sized by it.
        total += record.data.len() as u64;
        Ok(())
    })?;
    damaged.iter().for_each(|why| watch.suspend(|| note(why)));
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
    if let Some(scale) = args.scale {
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
    let traffic =
        Traffic { kind: Kind::Captures { sources, ingresses: from, egresses, times }, scale: times.instance, words, damaged };
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
        found.check(&instance).map_err(failure)?;
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

/// Gives every TCP and UDP packet of the captures, with its record. Answers which captures ended in an error; what came before it counts.
fn each_packet(
    sources: &[Source],
    watch: &Waiting,
    mut take: impl FnMut(&Record<'_>, &Dissected<'_>) -> Outcome,
) -> Outcome<Vec<String>> {
    let mut damaged = Vec::new();
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
                        take(&record, &packet)?;
                    }
                }
                Some(Err(error)) => {
                    damaged.push(format!("{}: {error}", source.name()));
                    break;
                }
            }
        }
    }
    Ok(damaged)
}

/// Gives each packet of the traffic, and says what became of a capture's.
pub(super) fn feed(
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
            // Nodes that are not in the network are of the file of prefixes.
            let mut mapper = mapper.map_err(|error| Failure::damaged(error.to_string()))?;
            each_packet(sources, watch, |record, packet| mapper.packet(record.time, packet).map_or(Ok(()), &mut take))?;
            Ok(Some(mapper.mapped()))
        }
    }
}

/// What became of a capture's packets that are not carried.
pub(super) fn mapping_notes(mapped: Option<&Mapped>, notes: &mut Vec<String>) {
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
