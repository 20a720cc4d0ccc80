//! Packets made from an instance give its volumes and profile back to the ingress that counts them.
#![allow(missing_docs)]

use std::collections::{BTreeMap, HashMap, HashSet};

use oncewire_plan::{
    Instance, Match, Measured, Network, Placement, Profile, Provision,
    emulate::{
        Fields, Packet,
        workload::{
            self, Arrivals, Crowd, Drift, Dynamics, Headers, Identification, Lengths, Retransmissions, Settings, Sizes, Synthetic,
        },
    },
    measure::{self, Measurement, Older, Profiler},
    network::{Link, Node},
    path::Route,
};

/// Nodes 0 and 1 are ingresses; behind 2 lie 3 and 4, of one PoP, and 5 and 6.
fn network() -> Network {
    let pops = [0, 1, 2, 3, 3, 4, 5];
    let link = |from, to| Link { from, to, weight: 1.0, latency: 1.0, capacity: None };
    Network {
        nodes: pops.iter().enumerate().map(|(at, &pop)| Node { id: format!("n{at}"), pop, ..Node::default() }).collect(),
        links: [(0, 2), (1, 2), (2, 3), (2, 4), (2, 5), (2, 6)].map(|(from, to)| link(from, to)).into(),
        ..Network::default()
    }
}

/// `volume` bytes per epoch of a second at each ingress, divided unequally.
fn instance(volume: f64, profile: Profile) -> Instance {
    let mut routes = Vec::new();
    for (from, first) in [(0, 0), (1, 1)] {
        for (to, link, share) in [(3, 2, 0.3), (4, 3, 0.1), (5, 4, 0.4), (6, 5, 0.2)] {
            routes.push(Route { from, to, links: vec![first, link], volume: volume * share });
        }
    }
    let provision = Provision { ingress_memory: volume, ingress_rate: volume * 8.0, ..Provision::default() };
    let empty = Profile::Measured(Measured::default());
    Instance::new(network(), routes, &provision, &Placement::Links, empty).unwrap().with_profile(profile).unwrap()
}

fn synthetic(gamma: f64, length: f64) -> Profile {
    Profile::Synthetic(oncewire_plan::Synthetic { gamma, intrapop: 0.5, intrapath: 0.5, length, ingresses: BTreeMap::new() })
}

fn measure(instance: &Instance, settings: Settings, counting: measure::Settings) -> (Measurement, measure::Seen, workload::Made) {
    let end = (settings.epochs * instance.epoch * 1e9) as u64;
    let mut packets = Synthetic::new(instance, settings).unwrap();
    let mut profiler = Profiler::new(instance, counting).unwrap();
    for packet in &mut packets {
        profiler.push(&packet).unwrap();
    }
    (profiler.measurement_until(end).unwrap(), profiler.seen(), packets.made().clone())
}

/// Whether `count` is what a Poisson process with mean `mean` gives, but for one time in a million.
fn likely(count: f64, mean: f64) -> bool {
    (count - mean).abs() <= 5.0 * mean.sqrt() + 1.0
}

/// The profile that the instance says against the one that was counted in `epochs` epochs; `lost` is the share that may be missed.
fn agrees(instance: &Instance, measured: &Measurement, epochs: f64, lost: f64) {
    for p in 0..instance.paths.len() {
        let volume = instance.paths[p].volume;
        let packets = measured.volumes[p] * epochs / instance.packet;
        // Sizes of packets vary, too: their variance is below the square of the largest.
        let error = 5.0 * packets.sqrt() * instance.mss;
        assert!((measured.volumes[p] - volume).abs() * epochs <= error, "volume of {p}: {} for {volume}", measured.volumes[p]);
        for q in 0..instance.paths.len() {
            let expected = instance.matches(p, q);
            let found =
                measured.profile.of_path(p as u32).iter().find(|pair| pair.1 == q as u32).map_or(Match::default(), |pair| pair.2);
            let (count, mean) = (found.count * epochs, expected.count * epochs);
            let low = mean * (1.0 - lost);
            assert!(count <= mean || likely(count, mean), "{p} with {q}: {count} for {mean}");
            assert!(count >= low || likely(count, low), "{p} with {q}: {count} for {mean}");
            if count > 0.0 {
                let error = 5.0 * expected.length * 0.3 / count.sqrt() + 2.0;
                assert!(
                    (found.length - expected.length).abs() <= error,
                    "{p} with {q}: length {} for {}",
                    found.length,
                    expected.length
                );
            }
        }
    }
}

/// The test of generator and profiler at once: neither knows how the other works.
#[test]
fn a_synthetic_profile_comes_back() {
    for (gamma, length, seed) in [(0.25, 300.0, 1), (0.5, 500.0, 2), (0.5, 1000.0, 3)] {
        let instance = instance(4e6, synthetic(gamma, length));
        let settings = Settings { seed, epochs: 4.0, ..Settings::default() };
        let (measured, seen, made) = measure(&instance, settings, measure::Settings::default());
        eprintln!(
            "{gamma} {length}: missed {} of {}, dropped {}",
            made.missed,
            made.matches.values().map(|m| m.0).sum::<u64>(),
            seen.dropped
        );
        assert_eq!(seen.packets, made.packets);
        agrees(&instance, &measured, 3.0, 0.04);
    }
}
