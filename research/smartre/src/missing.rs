//! What else section 3.5 of the thesis measures: redundancy by the numbers of fingerprints and of
//! matches in a packet, traces over whole networks, and fewer encoding ingresses.

use oncewire_plan::{
    emulate::{Allocation, Rules, Scheme},
    measure::{self, Profiler},
    placement,
};
use rayon::prelude::*;

use crate::{
    Outcome, Run, Table,
    emulated::{
        EPOCHS, PART, PUBLISHED, Part, TRACES, about, capture, emulate, one_per_pop, place, warm,
        whole,
    },
    setting::{CASES, Setting, solve},
};

/// Most fingerprints of a packet (table 3.2), and most matches (table 3.3).
const FINGERPRINTS: [usize; 3] = [32, 16, 10];
const MATCHES: [usize; 5] = [1, 2, 3, 4, 5];

/// The redundancy part of tables 3.2 and 3.3: bytes matched as a share of all.
pub(crate) fn matches(run: &Run) -> Outcome {
    capture(run)?;
    let mut table =
        Table::new(run, "matches", &["content", "trace", "fingerprints", "matches", "redundancy"])?;
    let network = whole(run, "Sprint")?;
    let first = one_per_pop(&network)[0];
    for file in &run.captures {
        let content = file.file_stem().unwrap_or_default().to_string_lossy();
        for (name, keep) in TRACES {
            let about = about(file, keep, &PART)?;
            let part = Part { file, keep, hours: PART, about, epochs: EPOCHS };
            let (instance, packets) = place(&part, &network, first, run.seed)?;
            let limits = FINGERPRINTS
                .map(|most| (Some(most), measure::Settings::default().matches))
                .into_iter()
                .chain(MATCHES.map(|most| (None, most)));
            let limits: Vec<_> = limits.collect();
            let found: Vec<f64> = limits
                .par_iter()
                .map(|&(fingerprints, matches)| -> Outcome<_> {
                    let settings =
                        measure::Settings { fingerprints, matches, ..measure::Settings::default() };
                    let mut profiler = Profiler::new(&instance, settings)?;
                    packets.iter().try_for_each(|packet| profiler.push(packet))?;
                    let seen = profiler.seen();
                    Ok(seen.match_bytes as f64 / seen.bytes as f64)
                })
                .collect::<Outcome<_>>()?;
            for ((fingerprints, matches), redundancy) in limits.iter().zip(found) {
                let fingerprints = fingerprints.map_or("all".into(), |most| most.to_string());
                table.row(&[&content, &name, &fingerprints, matches, &redundancy])?;
            }
        }
    }
    table.end()
}

/// Networks of which every so many PoPs are ingresses.
const NETWORKS: [(&str, usize); 4] = [("Sprint", 6), ("AT&T", 14), ("NTT", 14), ("Tiscali", 6)];

/// A trace that enters everywhere: reductions of the network's footprint, each ingress weighted by
/// what its traffic takes.
pub(crate) fn networks(run: &Run) -> Outcome {
    let file = capture(run)?;
    let columns = ["trace", "network", "ingresses", "rules", "expected", "emulated", "undecodable"];
    let mut table = Table::new(run, "networks", &columns)?;
    for (name, keep) in TRACES {
        let about = about(file, keep, &PART)?;
        let part = Part { file, keep, hours: PART, about, epochs: EPOCHS };
        for (map, each) in NETWORKS {
            let network = whole(run, map)?;
            let pops: Vec<usize> = one_per_pop(&network).into_iter().step_by(each).collect();
            let rules = [("published", PUBLISHED), ("precise", Rules::default())];
            let rows: Vec<Vec<[f64; 4]>> = pops
                .par_iter()
                .map(|&ingress| -> Outcome<_> {
                    let weight: f64 = network
                        .paths_of(ingress)
                        .map(|path| &network.paths[path])
                        .map(|path| path.volume * f64::from(path.length))
                        .sum();
                    let (instance, packets) = place(&part, &network, ingress, run.seed)?;
                    let mut profiler = Profiler::new(&instance, measure::Settings::default())?;
                    packets.iter().try_for_each(|packet| profiler.push(packet))?;
                    let measured = profiler.measurement()?.apply(&instance)?;
                    let allocation = Allocation::new(&measured, &solve(&measured)?)?;
                    let of = |(_, rules): (&str, Rules)| -> Outcome<_> {
                        let scheme = Scheme::Planned(allocation.clone());
                        let report = emulate(&measured, scheme, rules, &packets, run.seed)?;
                        let bad = (report.undecodable + report.damaged) as f64;
                        Ok([weight, report.expected.unwrap_or(0.0), warm(&report, 1), bad])
                    };
                    rules.into_iter().map(of).collect::<Outcome<_>>()
                })
                .collect::<Outcome<_>>()?;
            for (at, (rules, _)) in rules.iter().enumerate() {
                let sum = |of: usize| rows.iter().map(|row| row[at][0] * row[at][of]).sum::<f64>();
                let weights: f64 = rows.iter().map(|row| row[at][0]).sum();
                let bad: f64 = rows.iter().map(|row| row[at][3]).sum();
                let (expected, emulated) = (sum(1) / weights, sum(2) / weights);
                table.row(&[&name, &map, &pops.len(), rules, &expected, &emulated, &bad])?;
            }
            eprintln!("  {name}, {map}");
        }
    }
    table.end()
}

/// Sending PoPs whose ingresses encode, the largest first: what they save of the whole network's
/// footprint, and of their own.
pub(crate) fn encoders(run: &Run) -> Outcome {
    let mut table = Table::new(run, "encoders", &["encoders", "reduction", "own", "traffic"])?;
    let network = run.map("Sprint")?.with_access_routers(4)?;
    let setting =
        Setting { load: CASES[2].0, packet: CASES[2].1, equal: false, ..Setting::default() };
    let all = setting.instance(&network)?;
    let whole = all.footprint();
    for pops in [1, 2, 3, 5, 10, 20, 44] {
        let some = all.only(&placement::largest_pops(&all, pops))?;
        let saved = solve(&some)?.objective;
        let own = some.footprint();
        table.row(&[&pops, &(saved / whole), &(saved / own), &(own / whole)])?;
    }
    table.end()
}
