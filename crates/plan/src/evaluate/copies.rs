//! What an assignment saves if a match may refer to any copy of its bytes that some device holds.
//!
//! The program counts each match with the first copy only: match(p, q). What p repeats may have been
//! sent on other paths since, and each of these copies is cached by its own hash. A packet refers to
//! the copy whose device is farthest along its path, so what counts are the paths that share a prefix
//! with it (`docs/PLANNERS.md`, "Copies").

use std::ops::Range;

use super::{Footprint, Pair, matches_of};
use crate::{DeviceId, Instance, Profile};

/// Bytes of a match in a shim, and of its packet's checksum: `docs/PLANNERS.md`, "Shim".
const SPEC: f64 = 14.0;
/// Bytes of the shim of a packet to be cached.
const CACHED: f64 = 3.0;
/// Smallest part of a path's bytes that repeats nothing: what repeats has to repeat something.
const LEAST_NEW: f64 = 0.02;

/// A device on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) device: DeviceId,
    /// Links that a byte decoded there has saved.
    pub(crate) saves: u32,
    /// Share of the path's packets that it caches.
    pub(crate) share: f64,
}

/// What is expected of an ingress, per epoch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expected {
    /// Bytes times links, less those of shims.
    pub(crate) saved: f64,
    /// Operations, per device of the instance: packets cached and matches decoded.
    pub(crate) operations: Vec<f64>,
    /// Bytes times links that matches decoded there save, per device of the instance.
    pub(crate) decoded: Vec<f64>,
}

/// The footprint that an assignment saves with references to all copies: `cached` is the share d(q,
/// r) of each hop, in the order of [`Instance::hop_index`]. Shims count.
pub fn with_copies(instance: &Instance, cached: &[f64]) -> Footprint {
    let places = |path: usize| -> Vec<Place> {
        let hops = instance.paths[path].hops.iter().zip(&cached[instance.hop_range(path)]);
        let place = |(hop, share): (&crate::Hop, &f64)| Place {
            device: hop.device,
            saves: hop.saves,
            share: *share,
        };
        hops.map(place).collect()
    };
    let mut footprint = Footprint { before: instance.footprint(), saved: 0.0 };
    let concentration = concentration(instance);
    for ingress in 0..instance.ingresses.len() {
        let all: Vec<Vec<Place>> = instance.paths_of(ingress).map(places).collect();
        footprint.saved += of_ingress(instance, ingress, &all, concentration).saved;
    }
    footprint
}

/// A path's repeats of the new content of another, and how far along it they can be decoded.
#[derive(Clone, Copy)]
struct Repeat {
    /// Number of the path among the ingress's.
    path: usize,
    count: f64,
    length: f64,
    /// How often a byte of that content is repeated while it is in the store.
    times: f64,
    /// Share of the repeats that no device after the one at hand decodes.
    left: f64,
    /// Of the devices from the one at hand on: share of the first copies that they hold, and how many
    /// later copies, if the whole epoch has passed since.
    first: f64,
    later: f64,
}

/// What is expected of an ingress whose paths have these devices.
pub(crate) fn of_ingress(
    instance: &Instance,
    ingress: usize,
    places: &[Vec<Place>],
    concentration: f64,
) -> Expected {
    let paths = instance.paths_of(ingress);
    let coded = instance.coded(ingress);
    let none = vec![0.0; instance.devices.len()];
    let mut expected = Expected { saved: 0.0, operations: none.clone(), decoded: none };
    for (path, places) in paths.clone().zip(places) {
        let packets = instance.paths[path].volume / instance.packet.0;
        for place in places {
            expected.operations[place.device.index()] += place.share * packets;
            expected.saved -= place.share * packets * CACHED * f64::from(place.saves);
        }
    }
    let (repeats, new) = repeats(instance, paths.clone(), coded);
    let mut held = vec![0.0; instance.devices.len()];
    let mut copies = vec![0.0; instance.devices.len()];
    for ((q, mut repeats), new) in repeats.into_iter().enumerate().zip(new) {
        for place in &places[q] {
            held[place.device.index()] = place.share;
        }
        for repeat in &mut repeats {
            repeat.times = concentration * repeat.count * repeat.length / new;
        }
        let longest = repeats.iter().map(|repeat| places[repeat.path].len()).max().unwrap_or(0);
        for hop in (0..longest).rev() {
            let here = |repeat: &Repeat| places[repeat.path].get(hop).copied();
            for repeat in &repeats {
                let Some(place) = here(repeat) else { continue };
                // What is decoded after this device is a gap in what this device has.
                copies[place.device.index()] += repeat.times * place.share * repeat.left;
            }
            for repeat in &mut repeats {
                let Some(place) = here(repeat) else { continue };
                repeat.first += held[place.device.index()];
                repeat.later += copies[place.device.index()];
                let left = (1.0 - repeat.first).max(0.0) * none_since(repeat.later);
                let here = repeat.count * (repeat.left - left);
                repeat.left = left;
                expected.operations[place.device.index()] += here;
                let saved = here * (repeat.length - SPEC) * f64::from(place.saves);
                expected.saved += saved;
                expected.decoded[place.device.index()] += saved;
            }
        }
        for place in repeats.iter().flat_map(|repeat| &places[repeat.path]).chain(&places[q]) {
            (held[place.device.index()], copies[place.device.index()]) = (0.0, 0.0);
        }
    }
    expected
}

/// How much oftener than if all new content were repeated alike the bytes of matches are repeated: 1
/// for synthetic profiles. A byte that is repeated `times` in an epoch, at a steady rate, has half of
/// that behind it when it is repeated once more.
pub(crate) fn concentration(instance: &Instance) -> f64 {
    let Profile::Measured(profile) = &instance.profile else { return 1.0 };
    let (mut bytes, mut times) = (0.0, 0.0);
    for ingress in 0..instance.ingresses.len() {
        let (repeats, new) = repeats(instance, instance.paths_of(ingress), 1.0);
        for (repeats, new) in repeats.iter().zip(new) {
            let of_path: f64 = repeats.iter().map(|repeat| repeat.count * repeat.length).sum();
            bytes += of_path;
            times += of_path * of_path / new;
        }
    }
    if times > 0.0 { 2.0 * profile.copies * bytes / times } else { 0.0 }
}

/// Per path q of an ingress: the repeats of its new content, and the bytes of that.
fn repeats(instance: &Instance, paths: Range<usize>, coded: f64) -> (Vec<Vec<Repeat>>, Vec<f64>) {
    let mut of = vec![Vec::new(); paths.len()];
    let mut new = Vec::with_capacity(paths.len());
    let mut pairs: Vec<Pair> = Vec::new();
    for p in paths.clone() {
        matches_of(instance, p, &mut pairs);
        let repeated: f64 = pairs.iter().map(|pair| pair.count * pair.length).sum();
        let volume = instance.paths[p].volume;
        new.push((volume - repeated).max(LEAST_NEW * volume));
        for pair in &pairs {
            of[pair.q - paths.start].push(Repeat {
                path: p - paths.start,
                count: coded * pair.count,
                length: pair.length,
                times: 0.0,
                left: 1.0,
                first: 0.0,
                later: 0.0,
            });
        }
    }
    (of, new)
}

/// Probability that none of some copies exists yet, which are `later` on average when the content is
/// an epoch old and come at a steady rate, at a random time of that epoch.
fn none_since(later: f64) -> f64 {
    if later < 1e-6 { 1.0 - later / 2.0 } else { -(-later).exp_m1() / later }
}
