//! Plans from profiles that are some hours old.

use std::collections::BTreeMap;

use oncewire_plan::{
    Instance, Unwatched,
    emulate::{Allocation, Change, Emulation, Event, Packet, Rollout, Rules, Scheme, Settings},
    lp::{self, Aim},
    measure::{self, Measurement, Profiler},
};
use rayon::prelude::*;

use crate::{
    Outcome, Run, Table,
    emulated::{
        ALL, PUBLISHED, Part, TRACES, about, capture, emulate, for_an_epoch, one_per_pop, place,
        sprint, warm,
    },
    setting::solve,
};

/// Retention epochs in the capture: one hour each of a day.
const HOURS: u64 = 24;
/// Age of the oldest profile, in epochs.
const OLDEST: u64 = 4;
/// Epochs before measurement starts, for the first profiles and for filling caches.
const BEFORE: u64 = OLDEST + 2;

/// How plans are made.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    rules: Rules,
    /// Whether queues take all memory that there is.
    room: bool,
    /// Hours that a plan is for, up to the last that it knows of.
    hours: u64,
    /// Whether paths cache all of their packets, whatever the plan expects of them.
    full: bool,
    /// Share of the traffic matrix that is mixed into what was measured.
    prior: f64,
}

/// That share, where there is one.
const PRIOR: f64 = 0.6;

fn variants() -> [Variant; 9] {
    let precise = Rules::default();
    let of =
        |name, rules, room, hours, full, prior| Variant { name, rules, room, hours, full, prior };
    let variant = |name, rules, room, hours, full| of(name, rules, room, hours, full, 0.0);
    [
        variant("published", PUBLISHED, false, 1, false),
        variant("precise", precise, false, 1, false),
        variant("precise, all memory", precise, true, 1, false),
        variant("precise, all memory, 4 hours", precise, true, 4, false),
        variant("precise, all memory, all hours", precise, true, HOURS, false),
        variant("precise, all memory, full", precise, true, 1, true),
        variant("precise, all memory, all hours, full", precise, true, HOURS, true),
        of("precise, all memory, full, prior", precise, true, 1, true, PRIOR),
        of("precise, all memory, all hours, full, prior", precise, true, HOURS, true, PRIOR),
    ]
}

/// What an ingress measures in each epoch but the first.
fn measured(instance: &Instance, packets: &[Packet]) -> Outcome<Vec<Measurement>> {
    let length = (instance.epoch.0 * 1e9) as u64;
    let of = |epoch: u64| -> Outcome<_> {
        let settings = measure::Settings { warm_up: epoch as f64, ..measure::Settings::default() };
        let mut profiler = Profiler::new(instance, settings)?;
        let from = packets.partition_point(|packet| packet.time < (epoch - 1) * length);
        let to = packets.partition_point(|packet| packet.time < (epoch + 1) * length);
        packets[from..to].iter().try_for_each(|packet| profiler.push(packet))?;
        Ok(profiler.measurement_until((epoch + 1) * length)?)
    };
    (1..HOURS).map(of).collect()
}

/// A plan for these hours, the newest last. Its queues are for their mean.
fn plan(
    instance: &Instance,
    hours: &[Measurement],
    Variant { room, full, prior, .. }: &Variant,
) -> Outcome<Allocation> {
    let of = |hour: &Measurement| match *prior > 0.0 {
        true => hour.clone().mixed(instance, *prior).apply(instance),
        false => hour.apply(instance),
    };
    let hours = &hours.iter().map(of).collect::<Result<Vec<_>, _>>()?[..];
    let newest = &hours[hours.len() - 1];
    let solution = match hours {
        [one] => solve(one)?,
        hours => lp::solve_several(hours, Aim::Mean, &lp::Options::default(), &Unwatched)?,
    };
    let volume = |path: usize| {
        hours.iter().map(|hour| hour.paths[path].volume).sum::<f64>() / hours.len() as f64
    };
    let volumes: Vec<f64> = (0..newest.paths.len()).map(volume).collect();
    let mean = newest.clone().with_volumes(&volumes)?;
    let allocation = Allocation::new(&mean, &solution)?;
    let allocation = if *full { allocation.with_all(&mean)? } else { allocation };
    Ok(if *room { allocation.with_room(&mean, f64::INFINITY) } else { allocation })
}

/// What is saved if each epoch's manifests are for profiles that are `lag` epochs old.
fn run_with(
    variant: &Variant,
    lag: u64,
    instance: &Instance,
    measured: &[Measurement],
    packets: &[Packet],
    seed: u64,
) -> Outcome<(f64, u64)> {
    let length = (instance.epoch.0 * 1e9) as u64;
    let settings = Settings { seed, rules: variant.rules, ..Settings::default() };
    let first = Scheme::Planned(plan(instance, &measured[..1], variant)?);
    let mut emulation = Emulation::new(instance, first, settings)?;
    for epoch in lag + 1..HOURS {
        let end = (epoch - lag) as usize;
        let begin = end.saturating_sub(variant.hours as usize);
        let allocation = plan(instance, &measured[begin..end], variant)?;
        let change = Change::Manifests { allocation, rollout: Rollout::default() };
        emulation.schedule(Event { time: epoch * length, change })?;
    }
    emulation.run(packets.iter().cloned(), &Unwatched)?;
    let report = emulation.report();
    Ok((warm(&report, BEFORE), report.refusals.overloaded))
}

type Row = (&'static str, String, f64, u64);

fn of_ingress(
    part: &Part<'_>,
    whole: &Instance,
    ingress: usize,
    seed: u64,
) -> Outcome<(String, Vec<Row>)> {
    let (instance, packets) = place(part, whole, ingress, seed)?;
    let hours = measured(&instance, &packets)?;
    let mut rows = Vec::new();
    for variant in variants() {
        for lag in 0..=OLDEST {
            let (saved, overloaded) = run_with(&variant, lag, &instance, &hours, &packets, seed)?;
            rows.push((variant.name, lag.to_string(), saved, overloaded));
        }
    }
    // Also one plan for the whole day, from the mean of its hours.
    let mut profiler = Profiler::new(&instance, measure::Settings::default())?;
    packets.iter().try_for_each(|packet| profiler.push(packet))?;
    let mean = profiler.measurement()?;
    let mut names = BTreeMap::new();
    for variant in variants().into_iter().filter(|variant| variant.hours == 1) {
        let allocation = plan(&instance, std::slice::from_ref(&mean), &variant)?;
        let report =
            emulate(&instance, Scheme::Planned(allocation), variant.rules, &packets, seed)?;
        names.insert(variant.name, warm(&report, BEFORE));
    }
    rows.extend(names.into_iter().map(|(name, saved)| (name, "day".into(), saved, 0)));
    let mut volumes = vec![1.0; instance.paths.len()];
    packets.iter().for_each(|packet| {
        let bytes = f64::from(packet.header_bytes) + packet.payload.len() as f64;
        volumes[packet.path as usize] += bytes / HOURS as f64;
    });
    let for_an_epoch = for_an_epoch(&instance.clone().with_volumes(&volumes)?);
    let ideal = emulate(&for_an_epoch, Scheme::HopByHop, PUBLISHED, &packets, seed)?;
    rows.push(("published", "Ideal".into(), warm(&ideal, BEFORE), 0));
    eprint!(".");
    Ok((instance.network.nodes[instance.ingresses[0].node].label.clone(), rows))
}

/// Staleness: each epoch's manifests are computed from profiles that are some epochs old.
pub(crate) fn stale(run: &Run) -> Outcome {
    let file = capture(run)?;
    let columns = ["trace", "ingress", "rules", "lag", "reduction", "epochs", "overloaded"];
    let mut table = Table::new(run, "stale", &columns)?;
    let whole = sprint(run)?;
    // The four PoPs that the thesis examined, which have the highest degree on its map.
    let chosen: Vec<usize> = one_per_pop(&whole)
        .into_iter()
        .filter(|&ingress| {
            let label = &whole.network.nodes[whole.ingresses[ingress].node].label;
            ["Seattle", "Dallas", "New York", "Chicago"].iter().any(|city| label.contains(city))
        })
        .collect();
    for (name, keep) in TRACES {
        let about = about(file, keep, &ALL)?;
        let part = Part { file, keep, hours: ALL, about, epochs: HOURS as f64 };
        let rows: Vec<_> = chosen
            .par_iter()
            .map(|&ingress| of_ingress(&part, &whole, ingress, run.seed))
            .collect::<Outcome<_>>()?;
        for (ingress, results) in rows {
            for (rules, lag, saved, overloaded) in results {
                table.row(&[&name, &ingress, &rules, &lag, &saved, &HOURS, &overloaded])?;
            }
        }
        eprintln!("  {name}");
    }
    table.end()
}
