//! Builds instances from maps, as in section 3.5 of the thesis.

use std::{collections::BTreeMap, fs, path::PathBuf};

use oncewire_plan::{
    Bytes, Error, Instance, Network, Placement, Profile, Provision, Solution, Synthetic, Unwatched,
    evaluate::{Evaluation, evaluate},
    lp, routing, topology,
    traffic::{self, Scale},
};

use crate::{Outcome, Run};

/// The maps, under the names that the thesis uses.
const MAPS: [(&str, &str); 9] = [
    ("Sprint", "rocketfuel-1239-Sprint-pop"),
    ("AT&T", "rocketfuel-7018-ATT-pop"),
    ("NTT", "rocketfuel-2914-NTT-Verio-pop"),
    ("Tiscali", "rocketfuel-3257-Tiscali-pop"),
    ("Telstra", "rocketfuel-1221-Telstra-pop"),
    ("GÉANT", "sndlib-geant"),
    ("Abilene", "topozoo-Abilene"),
    ("AT&T MPLS", "topozoo-AttMpls"),
    ("Sprint, measured weights", "rocketfuel-1239-Sprint-weights"),
];

/// Loads and mean packet sizes for most runs. The first pair is the one for which section `sweep`
/// comes closest to the thesis's tables; 1,000 bytes is the planner's default.
pub(crate) const CASES: [(f64, f64); 3] = [(0.3, 300.0), (0.3, 1000.0), (1.0, 1000.0)];

/// All parameters of a run except the map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Bytes that an ingress sends per epoch, as a share of its rate times the epoch.
    pub(crate) load: f64,
    /// Mean sizes of a packet and of a match, in bytes.
    pub(crate) packet: f64,
    pub(crate) gamma: f64,
    pub(crate) intrapop: f64,
    pub(crate) intrapath: f64,
    /// Memory of interior devices, in bytes.
    pub(crate) interior: f64,
    /// Whether the footprint counts links to and from access routers.
    pub(crate) access_links: bool,
    /// Whether all ingresses send the same volume; otherwise the largest ingress has the load.
    pub(crate) equal: bool,
}

impl Default for Setting {
    /// The thesis's parameters. Those that it does not give are as in the first of [`CASES`].
    fn default() -> Self {
        Self {
            load: CASES[0].0,
            packet: CASES[0].1,
            gamma: 0.5,
            intrapop: 0.5,
            intrapath: 0.5,
            interior: 6e9,
            access_links: false,
            equal: true,
        }
    }
}

impl Setting {
    pub(crate) fn provision(&self) -> Provision {
        Provision {
            packet: Bytes(self.packet),
            interior_memory: Bytes(self.interior),
            access_links: self.access_links,
            ..Provision::default()
        }
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile::Synthetic(Synthetic {
            gamma: self.gamma,
            intrapop: self.intrapop,
            intrapath: self.intrapath,
            length: self.packet,
            ingresses: BTreeMap::new(),
        })
    }

    pub(crate) fn instance(&self, network: &Network) -> Result<Instance, Error> {
        let provision = self.provision();
        let routes = routing::shortest_paths(network, &Unwatched)?;
        let matrix = traffic::gravity(network)?;
        let scale = if self.equal {
            Scale::EqualIngress(self.load)
        } else {
            Scale::LargestIngress(self.load)
        };
        let routes = traffic::assign(network, routes, &matrix, scale, &provision)?;
        Instance::new(network.clone(), routes, &provision, &Placement::Links, self.profile())
    }
}

impl Run {
    /// The file of a map.
    pub(crate) fn file(&self, name: &str) -> Outcome<PathBuf> {
        let file = MAPS
            .iter()
            .find(|(map, _)| *map == name)
            .ok_or_else(|| format!("there is no map of {name}"))?
            .1;
        Ok(self.topologies.join(file).with_extension("json"))
    }

    /// A map without changes.
    pub(crate) fn map(&self, name: &str) -> Outcome<Network> {
        let path = self.file(name)?;
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let network = topology::read(topology::Format::Json, &text, &topology::Options::default())?;
        Ok(network)
    }

    /// A map in which the 20 PoPs of highest degree have 4 access routers each; the others only
    /// forward.
    pub(crate) fn tier1(&self, name: &str) -> Outcome<Network> {
        Ok(self.map(name)?.with_endpoints(20)?.with_access_routers(4)?)
    }
}

/// The plan with the smallest footprint.
pub(crate) fn solve(instance: &Instance) -> Result<Solution, Error> {
    Ok(lp::solve(instance, &lp::Options::default(), None, &Unwatched)?.0)
}

/// The result on `new` of a plan made for `old`; both instances have the same paths, but other
/// volumes or another profile.
///
/// Header hash ranges do not change. With `buckets`, bucket sizes do not change either: if a path
/// sends more than planned, its bucket holds a correspondingly smaller part of an epoch. Without
/// `buckets`, buckets use the available memory. Then each device's shares are scaled to what its
/// memory and operations allow, as for the heuristics. This models ingresses that stop loading an
/// overloaded device (thesis, section 3.4).
pub(crate) fn aged(
    old: &Instance,
    cached: &[f64],
    new: &Instance,
    buckets: bool,
) -> Result<Evaluation, Error> {
    let mut cached = cached.to_vec();
    for (path, (before, after)) in old.paths.iter().zip(&new.paths).enumerate() {
        let coded = new.coded(after.ingress as usize) / old.coded(before.ingress as usize);
        let kept = if buckets { (before.volume / after.volume).min(1.0) } else { 1.0 };
        cached[new.hop_range(path)].iter_mut().for_each(|share| *share *= kept.min(coded));
    }
    let evaluation = evaluate(new, &cached)?;
    let room = |used: f64, limit: f64| if used > limit { limit / used } else { 1.0 };
    let devices: Vec<f64> = evaluation
        .devices
        .iter()
        .map(|device| {
            room(device.memory.used, device.memory.limit)
                .min(room(device.operations.used, device.operations.limit))
        })
        .collect();
    let mut stored = vec![0.0; new.ingresses.len()];
    for (number, path) in new.paths.iter().enumerate() {
        for (hop, share) in path.hops.iter().zip(&mut cached[new.hop_range(number)]) {
            *share *= devices[hop.device];
            stored[path.ingress as usize] += *share * path.volume;
        }
    }
    for (number, path) in new.paths.iter().enumerate() {
        let ingress = path.ingress as usize;
        let factor = room(stored[ingress], new.ingresses[ingress].memory);
        cached[new.hop_range(number)].iter_mut().for_each(|share| *share *= factor);
    }
    let evaluation = evaluate(new, &cached)?;
    evaluation.holds(new)?;
    Ok(evaluation)
}
