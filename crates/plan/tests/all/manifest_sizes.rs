//! Manifests of real networks: validity and size.
//!
//! The data set is found through `ONCEWIRE_DATA`, or as `shared/data` beside the workspace. Without
//! it these tests are skipped. `cargo test --release -p oncewire-plan --test all manifest_sizes --
//! --nocapture --include-ignored` prints the figures of `docs/PLANNERS.md`.

use std::{collections::BTreeMap, env, fs, io::Write as _, path::PathBuf, time::Instant};

use flate2::{Compression, write::DeflateEncoder};
use oncewire_plan::{
    Instance, Placement, Profile, Provision, Solution, Synthetic, Unwatched,
    lp::{self, solve},
    manifest::{DeviceManifest, IngressManifest, Options, Plan, validate},
    routing, topology,
    traffic::{self, Scale},
};

fn data(name: &str) -> Option<String> {
    let data = env::var_os("ONCEWIRE_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let text = fs::read_to_string(data.join("topologies").join(name)).ok();
    if text.is_none() {
        oncewire_testkit::skipped!("no data set; set ONCEWIRE_DATA");
    }
    text
}

/// The network of section 3.5 of the thesis: its devices, gravity traffic, gamma 0.5 with 0.75 in
/// the PoP and half of that on the path. One ingress per PoP, or `access` routers per PoP.
fn instance(text: &str, pops: usize, access: u32) -> Instance {
    let mut network =
        topology::read(topology::Format::Json, text, &topology::Options::default()).unwrap();
    network = network.without_unpopulated();
    if pops < network.pop_count() {
        network = network.reduce(pops).unwrap();
    }
    if access > 1 {
        network = network.with_access_routers(access).unwrap();
    }
    let provision = Provision::default();
    let matrix = traffic::gravity(&network).unwrap();
    let routes = routing::shortest_paths(&network, &oncewire_plan::Unwatched).unwrap();
    let routes =
        traffic::assign(&network, routes, &matrix, Scale::LargestIngress(1.0), &provision).unwrap();
    let profile = Synthetic {
        gamma: 0.5,
        intrapop: 0.75,
        intrapath: 0.5,
        length: 500.0,
        ingresses: BTreeMap::new(),
    };
    Instance::new(network, routes, &provision, &Placement::Links, Profile::Synthetic(profile))
        .unwrap()
}

fn deflated(text: &str) -> usize {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().len()
}

/// Mean, median and largest.
fn spread(mut sizes: Vec<usize>) -> String {
    sizes.sort_unstable();
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    format!("mean {mean:.0}, median {}, largest {}", sizes[sizes.len() / 2], sizes[sizes.len() - 1])
}

/// Size in bytes of the overlap matrix as JSON, a list of n^2 bounds.
fn matrix(manifest: &IngressManifest) -> usize {
    let ids = || manifest.paths().iter().map(|path| path.id);
    1 + ids()
        .flat_map(|p| ids().map(move |q| (p, q)))
        .map(|(p, q)| manifest.overlap(p, q).to_string().len() + 1)
        .sum::<usize>()
}

fn measure(name: &str, instance: &Instance, solution: &Solution) {
    let started = Instant::now();
    let plan = Plan::new(instance, solution, &Options::default()).unwrap();
    let (devices, ingresses) = (plan.device_manifests(), plan.ingress_manifests());
    let made = started.elapsed();
    let started = Instant::now();
    validate(&plan, instance).unwrap();
    let validated = started.elapsed();
    let device: Vec<String> = devices.iter().map(DeviceManifest::to_json).collect();
    let ingress: Vec<String> = ingresses.iter().map(IngressManifest::to_json).collect();
    for (text, manifest) in device.iter().zip(&devices) {
        assert_eq!(&DeviceManifest::from_json(text).unwrap(), manifest);
    }
    for (text, manifest) in ingress.iter().zip(&ingresses) {
        assert_eq!(&IngressManifest::from_json(text).unwrap(), manifest);
    }
    let whole = plan.to_json();
    assert_eq!(Plan::from_json(&whole).unwrap(), plan);
    let ranges: usize = plan.paths().iter().map(|path| path.ranges.len()).sum();
    let bytes = |texts: &[String]| spread(texts.iter().map(String::len).collect());
    let small = |texts: &[String]| spread(texts.iter().map(|text| deflated(text)).collect());
    println!(
        "{name}, {}: {} paths, {} devices, {} ranges",
        solution.method,
        plan.paths().len(),
        device.len(),
        ranges
    );
    println!("  device manifest, bytes:  {}; deflated {}", bytes(&device), small(&device));
    println!("  ingress manifest, bytes: {}; deflated {}", bytes(&ingress), small(&ingress));
    println!("  an overlap matrix would add: {}", spread(ingresses.iter().map(matrix).collect()));
    println!("  the whole plan: {}; made in {made:.2?}, validated in {validated:.2?}", whole.len());
}

/// Equal d on each hop, which gives the largest possible number of ranges.
fn equal(instance: &Instance) -> Solution {
    let mut cached = Vec::with_capacity(instance.hop_count());
    // The share of each path that the fullest device and ingress can serve.
    let mut used = vec![0.0; instance.devices.len()];
    for path in &instance.paths {
        path.hops.iter().for_each(|hop| used[hop.device] += path.volume / path.hops.len() as f64);
    }
    let share = instance
        .devices
        .iter()
        .zip(used)
        .map(|(device, used)| device.memory / used)
        .fold(1.0, f64::min);
    let stores = (0..instance.ingresses.len())
        .map(|at| instance.ingresses[at].memory / instance.ingresses[at].volume);
    let share = stores.fold(share, f64::min);
    for path in &instance.paths {
        let coded = instance.coded(path.ingress as usize).min(share);
        cached.extend(path.hops.iter().map(|_| coded / path.hops.len() as f64));
    }
    Solution::given(cached)
}

fn both(name: &str, instance: &Instance) {
    let (solution, _) = solve(instance, &lp::Options::default(), None, &Unwatched).unwrap();
    measure(name, instance, &solution);
    measure(name, instance, &equal(instance));
}

#[test]
fn manifests_of_pop_level_networks() {
    for name in ["topozoo-Geant2012.json", "rocketfuel-1239-Sprint-pop.json"] {
        let Some(text) = data(name) else { return };
        both(name, &instance(&text, usize::MAX, 1));
    }
}

#[test]
#[ignore = "seconds in a release build, more in a debug build"]
fn manifests_of_large_networks() {
    let Some(text) = data("rocketfuel-2914-NTT-Verio-pop.json") else { return };
    both("NTT, 70 PoPs", &instance(&text, 70, 1));
    both("NTT, 70 PoPs x 4 access routers", &instance(&text, 70, 4));
}
