//! The sections that need only the planner, so everything but the trace-driven runs.
//!
//! Longer than 600 lines: a section for each figure, which only this program has.

use std::{fs, time::Instant};

use oncewire_kernels::random::SplitMix64;
use oncewire_plan::{
    DeviceId, Instance, Network, Profile, Seconds, Solution, Unwatched,
    baseline::{self, compare},
    emulate::workload::{self, Drift, Dynamics, Synthetic as Workload},
    evaluate::evaluate,
    lp,
    placement::{self, Limits, Strategy},
};
use rayon::prelude::*;

use crate::{
    Outcome, Run, Table,
    setting::{CASES, Setting, aged, solve},
};

/// The tier-1 ISPs of the thesis for which maps are available, and Telstra, whose map is as small
/// as the thesis's.
const ISPS: [&str; 5] = ["Sprint", "AT&T", "NTT", "Tiscali", "Telstra"];

/// Table 3.1: planning times.
pub(crate) fn time(run: &Run) -> Outcome {
    let columns = [
        "network",
        "pops",
        "access",
        "reduced",
        "nodes",
        "paths",
        "columns",
        "rows",
        "priced",
        "instance_s",
        "solve_s",
        "cpu_s",
        "iterations",
        "gap",
        "rss_mb",
        "few_s",
        "few_method",
        "few_gap",
        "all_s",
        "all_method",
        "all_gap",
        "cold_s",
        "repeats",
    ];
    let mut table = Table::new(run, "time", &columns)?;
    // Small maps first, since the process may keep memory that a large one has freed.
    let cases: [(&str, Option<usize>); 10] = [
        ("Abilene", None),
        ("GÉANT", None),
        ("AT&T MPLS", None),
        ("Telstra", None),
        ("Sprint", None),
        ("Sprint, measured weights", None),
        ("Tiscali", None),
        ("NTT", Some(70)),
        ("AT&T", None),
        ("NTT", None),
    ];
    for access in [0, 4] {
        for (name, pops) in cases {
            let whole = run.map(name)?;
            let whole = if name == "Sprint, measured weights" { whole.to_pops() } else { whole };
            let mut network = match pops {
                Some(pops) => whole.reduce(pops)?,
                None => whole,
            };
            let pops_left = network.pop_count();
            if access > 0 {
                network = network.with_access_routers(access)?;
            }
            let setting = Setting { load: 1.0, packet: 1000.0, ..Setting::default() };
            let begin = Instant::now();
            let instance = setting.instance(&network)?;
            let made = begin.elapsed().as_secs_f64();
            let rows = instance.paths.len() + 2 * instance.devices.len() + instance.ingresses.len();
            let few_changed = changed(&instance, 0.01, 0.05, run.seed)?;
            let all_changed = changed(&instance, 1.0, 0.01, run.seed)?;
            let repeats = if instance.hop_count() > 100_000 { 3 } else { 9 };
            let (mut times, last) = timed(&instance, [&few_changed, &all_changed], repeats)?;
            let Some((solution, few, all, peak)) = last else { continue };
            let prices = &solution.prices;
            let priced = prices
                .memory
                .iter()
                .chain(&prices.operations)
                .chain(&prices.ingress_memory)
                .filter(|price| **price > 0.0);
            table.row(&[
                &name,
                &pops_left,
                &access,
                &pops.map_or(String::new(), |pops| pops.to_string()),
                &network.nodes.len(),
                &instance.paths.len(),
                &instance.hop_count(),
                &rows,
                &priced.count(),
                &made,
                &median(&mut times.first),
                &median(&mut times.cpu),
                &solution.iterations,
                &solution.gap(),
                &peak.map_or(String::new(), |peak| peak.to_string()),
                &median(&mut times.few),
                &few.method,
                &few.gap(),
                &median(&mut times.all),
                &all.method,
                &all.gap(),
                &median(&mut times.cold),
                &repeats,
            ])?;
            eprintln!("  {name} x {access}");
        }
    }
    table.end()
}

/// Solves an instance as often, and each time two changed ones from its solution. Returns the last
/// solutions, and the most memory that the first one took.
fn timed(instance: &Instance, changed: [&Instance; 2], repeats: usize) -> Outcome<(Times, Last)> {
    // Excludes the instances created for the measurements before.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let mut times = Times::default();
    let mut last = None;
    for _ in 0..repeats {
        let options = lp::Options::default();
        let cpu = cpu_seconds();
        let begin = Instant::now();
        let (solution, warm) = lp::solve(instance, &options, None, &Unwatched)?;
        times.first.push(begin.elapsed().as_secs_f64());
        times.cpu.push(cpu_seconds() - cpu);
        let peak = peak_memory();
        let again = |instance: &Instance, times: &mut Vec<f64>| -> Outcome<Solution> {
            let begin = Instant::now();
            let (solution, _) = lp::solve(instance, &options, Some(&warm), &Unwatched)?;
            times.push(begin.elapsed().as_secs_f64());
            Ok(solution)
        };
        let few = again(changed[0], &mut times.few)?;
        let all = again(changed[1], &mut times.all)?;
        let begin = Instant::now();
        solve(changed[1])?;
        times.cold.push(begin.elapsed().as_secs_f64());
        last = Some((solution, few, all, peak));
    }
    Ok((times, last))
}

/// Solutions of the instance, and of those with few and with all volumes changed; and the memory.
type Last = Option<(Solution, Solution, Solution, Option<u64>)>;

#[derive(Default)]
struct Times {
    first: Vec<f64>,
    cpu: Vec<f64>,
    few: Vec<f64>,
    all: Vec<f64>,
    cold: Vec<f64>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The same instance with the volumes of about a share `part` of the paths changed by up to a share
/// `by`.
fn changed(instance: &Instance, part: f64, by: f64, seed: u64) -> Outcome<Instance> {
    let mut random = SplitMix64(seed);
    let volumes: Vec<f64> = instance
        .paths
        .iter()
        .map(|path| {
            let (chosen, factor) = (random.unit() < part, 1.0 + by * (2.0 * random.unit() - 1.0));
            if chosen { path.volume * factor } else { path.volume }
        })
        .collect();
    Ok(instance.clone().with_volumes(&volumes)?)
}

/// CPU seconds of this process so far; 0 if the system does not report them.
fn cpu_seconds() -> f64 {
    let ticks = || {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    // Linux counts in hundredths of a second.
    ticks().unwrap_or(0.0) / 100.0
}

/// Peak memory of this process since the counter was reset, in megabytes, if the system reports it.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024 / 1_000_000)
}

/// Figure 3.7: single ingresses.
pub(crate) fn ingresses(run: &Run) -> Outcome {
    let mut table = Table::new(
        run,
        "ingresses",
        &["gamma", "load", "packet", "ingress", "scheme", "reduction"],
    )?;
    let network = run.map("Sprint")?.with_access_routers(4)?;
    for (load, packet) in CASES {
        for gamma in [0.25, 0.5] {
            let whole = Setting { load, packet, gamma, equal: false, ..Setting::default() }
                .instance(&network)?;
            // A PoP's access routers have the same traffic on the same paths, so one of them
            // represents all.
            let mut pops = std::collections::BTreeSet::new();
            let chosen: Vec<usize> = (0..whole.ingresses.len())
                .filter(|&ingress| pops.insert(network.nodes[whole.ingresses[ingress].node].pop))
                .collect();
            let rows: Vec<_> = chosen
                .par_iter()
                .map(|&ingress| -> Outcome<_> {
                    let instance = whole.single(ingress);
                    let name = network.nodes[instance.ingresses[0].node].label.clone();
                    Ok((name, compare(&instance, &solve, &Unwatched)?))
                })
                .collect::<Outcome<_>>()?;
            for (name, outcomes) in rows {
                for outcome in outcomes {
                    table.row(&[
                        &gamma,
                        &load,
                        &packet,
                        &name,
                        &outcome.scheme,
                        &outcome.footprint.reduction(),
                    ])?;
                }
            }
        }
    }
    table.end()
}

/// [`CASES`] without the links to access routers, and the first case with them.
fn cases() -> impl Iterator<Item = (f64, f64, bool)> {
    let with = (CASES[0].0, CASES[0].1, true);
    CASES.into_iter().map(|(load, packet)| (load, packet, false)).chain([with])
}

/// Figure 3.8 and table 3.4: network-wide, for all schemes.
pub(crate) fn network(run: &Run) -> Outcome {
    let columns = [
        "network",
        "pops",
        "paths",
        "links",
        "load",
        "packet",
        "access_links",
        "scheme",
        "reduction",
        "gap",
    ];
    let mut table = Table::new(run, "network", &columns)?;
    for name in ISPS {
        let pops = run.map(name)?.pop_count();
        let network = run.tier1(name)?;
        for (load, packet, access_links) in cases() {
            let instance =
                Setting { load, packet, access_links, ..Setting::default() }.instance(&network)?;
            let bytes: f64 = instance.paths.iter().map(|path| path.volume).sum();
            let links = instance.footprint() / bytes;
            for outcome in compare(&instance, &solve, &Unwatched)? {
                let fields: [&dyn std::fmt::Display; 10] = [
                    &name,
                    &pops,
                    &instance.paths.len(),
                    &links,
                    &load,
                    &packet,
                    &access_links,
                    &outcome.scheme,
                    &outcome.footprint.reduction(),
                    &outcome.gap,
                ];
                table.row(&fields)?;
            }
        }
        eprintln!("  {name}");
    }
    table.end()
}

/// (gamma_intrapop, gamma_intrapath) of table 3.5.
const PROFILES: [(f64, f64); 4] = [(0.5, 0.5), (0.5, 0.75), (0.75, 0.75), (0.25, 0.5)];

/// Table 3.5: redundancy profiles on Sprint.
pub(crate) fn profiles(run: &Run) -> Outcome {
    let columns =
        ["intrapop", "intrapath", "load", "packet", "access_links", "scheme", "reduction"];
    let mut table = Table::new(run, "profiles", &columns)?;
    let network = run.tier1("Sprint")?;
    for (intrapop, intrapath) in PROFILES {
        for (load, packet, access_links) in cases() {
            let setting =
                Setting { load, packet, intrapop, intrapath, access_links, ..Setting::default() };
            for outcome in compare(&setting.instance(&network)?, &solve, &Unwatched)? {
                table.row(&[
                    &intrapop,
                    &intrapath,
                    &load,
                    &packet,
                    &access_links,
                    &outcome.scheme,
                    &outcome.footprint.reduction(),
                ])?;
            }
        }
    }
    table.end()
}

/// Figure 3.9: memory of interior devices.
pub(crate) fn memory(run: &Run) -> Outcome {
    let mut table =
        Table::new(run, "memory", &["gigabytes", "load", "packet", "operations", "reduction"])?;
    let network = run.tier1("Sprint")?;
    let sizes: Vec<f64> = (0..=20).map(|half| f64::from(half) / 2.0).collect();
    for (load, packet) in CASES {
        for limited in [true, false] {
            let reductions: Vec<f64> = sizes
                .par_iter()
                .map(|gigabytes| -> Outcome<f64> {
                    let setting =
                        Setting { load, packet, interior: gigabytes * 1e9, ..Setting::default() };
                    let instance = setting.instance(&network)?.relaxed(false, !limited);
                    let solution = solve(&instance)?;
                    Ok(solution.objective / instance.footprint())
                })
                .collect::<Outcome<_>>()?;
            for (gigabytes, reduction) in sizes.iter().zip(reductions) {
                table.row(&[
                    gigabytes,
                    &load,
                    &packet,
                    &if limited { "limited" } else { "unlimited" },
                    &reduction,
                ])?;
            }
        }
    }
    table.end()
}

/// Figure 3.11: partial deployment on Sprint.
pub(crate) fn placement(run: &Run) -> Outcome {
    let mut table = Table::new(
        run,
        "placement",
        &["level", "strategy", "devices", "reduction", "bound", "complete"],
    )?;
    let whole = run.map("Sprint")?;
    for (level, network) in [("router", whole.clone().with_access_routers(4)?), ("pop", whole)] {
        let all =
            Setting { load: CASES[2].0, packet: CASES[2].1, equal: false, ..Setting::default() }
                .instance(&network)?;
        let instance = all.only(&placement::largest_pops(&all, 5))?;
        let before = instance.footprint();
        // Links that no path of these ingresses uses cannot have a device.
        let taken = evaluate(&instance, &vec![1.0; instance.hop_count()])?;
        let candidates: Vec<DeviceId> = placement::interior(&instance)
            .into_iter()
            .filter(|&device| taken.devices[device].cached > 0.0)
            .collect();
        let counts: Vec<usize> =
            (0..=10).chain((12..candidates.len()).step_by(4)).chain([candidates.len()]).collect();
        for strategy in Strategy::ALL {
            let order: Vec<DeviceId> = placement::rank(&instance, strategy, &candidates)?
                .iter()
                .map(|ranked| ranked.device)
                .collect();
            for step in placement::curve(&instance, &order, &counts, &solve, &Unwatched)? {
                table.row(&[
                    &level,
                    &strategy.name(),
                    &step.devices,
                    &(step.footprint.saved / before),
                    &"",
                    &"",
                ])?;
            }
        }
        let full = solve(&instance)?;
        table.row(&[
            &level,
            &"everywhere",
            &instance.devices.len(),
            &(full.objective / before),
            &"",
            &"",
        ])?;
        eprintln!("  {level}: {} candidates, {} hops", candidates.len(), instance.hop_count());
        if level == "pop" {
            let mut saved = 0.0;
            table.row(&[&level, &"greedy", &0, &0.0, &"", &""])?;
            for (step, ranked) in
                (1..).zip(placement::greedy(&instance, &candidates, 20, &solve, &Unwatched)?)
            {
                saved += ranked.weight;
                table.row(&[&level, &"greedy", &step, &(saved / before), &"", &""])?;
            }
            for budget in 1..=20 {
                let limits = Limits { nodes: 300, ..Limits::default() };
                let begin = Instant::now();
                let best = placement::optimal(&instance, &candidates, budget, &limits, &Unwatched)?;
                eprintln!(
                    "  optimal {budget}: {} nodes, {:.1} s",
                    best.nodes,
                    begin.elapsed().as_secs_f64()
                );
                let (saved, bound) = (best.footprint.saved / before, best.bound / before);
                table.row(&[&level, &"optimal", &budget, &saved, &bound, &best.complete])?;
            }
        }
    }
    table.end()
}

/// Sensitivity to values that the thesis does not give: load and packet size.
pub(crate) fn sweep(run: &Run) -> Outcome {
    let columns = ["network", "intrapop", "intrapath", "packet", "load", "scheme", "reduction"];
    let mut table = Table::new(run, "sweep", &columns)?;
    let loads = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0];
    let packets = [200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 750.0, 1000.0];
    for name in ISPS {
        let network: Network = run.tier1(name)?;
        // Table 3.5 is for Sprint.
        let profiles = if name == "Sprint" { &PROFILES[..] } else { &PROFILES[..1] };
        let mut cases = Vec::new();
        for &profile in profiles {
            cases.extend(
                packets.into_iter().flat_map(|packet| loads.map(|load| (profile, packet, load))),
            );
        }
        let results: Vec<_> = cases
            .par_iter()
            .map(|&((intrapop, intrapath), packet, load)| -> Outcome<_> {
                let setting = Setting { load, packet, intrapop, intrapath, ..Setting::default() };
                Ok(compare(&setting.instance(&network)?, &solve, &Unwatched)?)
            })
            .collect::<Outcome<_>>()?;
        for (((intrapop, intrapath), packet, load), outcomes) in cases.into_iter().zip(results) {
            for outcome in outcomes {
                let reduction = outcome.footprint.reduction();
                table.row(&[
                    &name,
                    &intrapop,
                    &intrapath,
                    &packet,
                    &load,
                    &outcome.scheme,
                    &reduction,
                ])?;
            }
        }
        eprintln!("  {name}");
    }
    table.end()
}

/// Flash crowds: the volume or redundancy of a PoP's ingresses jumps.
pub(crate) fn crowds(run: &Run) -> Outcome {
    let columns = [
        "crowd",
        "load",
        "packet",
        "pop",
        "fresh",
        "old",
        "old_buckets",
        "own_fresh",
        "own_old",
        "own_old_buckets",
    ];
    let mut table = Table::new(run, "crowds", &columns)?;
    let network = run.tier1("Sprint")?;
    let cases = [
        ("volume", CASES[0]),
        ("volume", CASES[1]),
        ("redundancy", CASES[0]),
        ("redundancy", CASES[2]),
    ];
    for (crowd, (load, packet)) in cases {
        let gamma = if crowd == "volume" { 0.5 } else { 0.25 };
        let setting = Setting { load, packet, gamma, ..Setting::default() };
        let old = setting.instance(&network)?;
        let plan = solve(&old)?;
        let mut pops: Vec<u32> =
            old.ingresses.iter().map(|ingress| network.nodes[ingress.node].pop).collect();
        pops.dedup();
        for pop in pops {
            let chosen = |ingress: usize| network.nodes[old.ingresses[ingress].node].pop == pop;
            let new = if crowd == "volume" {
                let volume = |path: &oncewire_plan::Path| {
                    path.volume * if chosen(path.ingress as usize) { 1.0 / load } else { 1.0 }
                };
                old.clone().with_volumes(&old.paths.iter().map(volume).collect::<Vec<f64>>())?
            } else {
                let Profile::Synthetic(mut profile) = setting.profile() else {
                    return Err("the profile is synthetic".into());
                };
                profile.ingresses = (0..old.ingresses.len())
                    .filter(|&ingress| chosen(ingress))
                    .map(|ingress| (old.ingresses[ingress].node, 0.5))
                    .collect();
                old.clone().with_profile(Profile::Synthetic(profile))?
            };
            let fresh = evaluate(&new, &solve(&new)?.cached)?;
            let aged =
                [aged(&old, &plan.cached, &new, false)?, aged(&old, &plan.cached, &new, true)?];
            let own = |evaluation: &oncewire_plan::evaluate::Evaluation| {
                let parts =
                    (0..).zip(&evaluation.ingresses).filter(|(ingress, _)| chosen(*ingress));
                let (saved, before) = parts.fold((0.0, 0.0), |sum, (_, ingress)| {
                    (sum.0 + ingress.footprint.saved, sum.1 + ingress.footprint.before)
                });
                saved / before
            };
            let name = network
                .nodes
                .iter()
                .find(|node| node.pop == pop)
                .map_or("", |node| node.label.as_str());
            table.row(&[
                &crowd,
                &load,
                &packet,
                &name,
                &fresh.footprint.reduction(),
                &aged[0].footprint.reduction(),
                &aged[1].footprint.reduction(),
                &own(&fresh),
                &own(&aged[0]),
                &own(&aged[1]),
            ])?;
        }
    }
    table.end()
}

/// Staleness: volumes and profile drift while plans age.
pub(crate) fn drift(run: &Run) -> Outcome {
    let mut table = Table::new(
        run,
        "drift",
        &["load", "packet", "minutes", "lag", "fresh", "old", "old_buckets", "ideal"],
    )?;
    let network = run.tier1("Sprint")?;
    for (load, packet) in CASES {
        let base = Setting { load, packet, ..Setting::default() }.instance(&network)?;
        let settings = workload::Settings {
            seed: run.seed,
            dynamics: Dynamics {
                drift: Some(Drift { time: Seconds(3600.0), volume: 0.5, matches: 0.5 }),
                ..Dynamics::default()
            },
            ..workload::Settings::default()
        };
        let workload = Workload::new(&base, settings)?;
        // Every 10 minutes. Only instances that are still needed are kept.
        let mut plans: Vec<(Instance, Solution)> = Vec::new();
        for minutes in (0..=120u32).step_by(10) {
            let now = workload.instance_at(Seconds(f64::from(minutes) * 60.0))?;
            let solution = solve(&now)?;
            let fresh = evaluate(&now, &solution.cached)?.footprint.reduction();
            let ideal = baseline::ideal(&now).footprint.reduction();
            plans.push((now, solution));
            if plans.len() > 5 {
                plans.remove(0);
            }
            let now = &plans[plans.len() - 1].0;
            for (lag, (old, plan)) in plans.iter().rev().enumerate().skip(1) {
                let aged =
                    [aged(old, &plan.cached, now, false)?, aged(old, &plan.cached, now, true)?];
                let [capped, buckets] = aged.map(|evaluation| evaluation.footprint.reduction());
                table.row(&[
                    &load,
                    &packet,
                    &minutes,
                    &(lag * 10),
                    &fresh,
                    &capped,
                    &buckets,
                    &ideal,
                ])?;
            }
        }
    }
    table.end()
}
