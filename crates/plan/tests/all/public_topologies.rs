//! The readers on the published maps, compared with JSON made from the same files.
//!
//! The data set is found through `ONCEWIRE_DATA`, or as `shared/data` beside the workspace. Without
//! it these tests are skipped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::OnceLock,
};

use oncewire_plan::{
    Instance, Measured, Network, NodeId, Placement, Profile, Provision, Unwatched, routing,
    topology::{self, Cities, Format, Options, Unknown},
    traffic::{self, Scale},
};

fn directory() -> Option<PathBuf> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let data = std::env::var_os("ONCEWIRE_DATA").map_or(beside, PathBuf::from).join("topologies");
    if data.is_dir() {
        return Some(data);
    }
    oncewire_testkit::skipped!("no data set; set ONCEWIRE_DATA");
    None
}

fn text(path: PathBuf) -> String {
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn load(name: &str) -> Option<Network> {
    let network = topology::read(Format::Json, &text(directory()?.join(name)), &Options::default());
    Some(network.unwrap_or_else(|error| panic!("{name}: {error}")))
}

fn cities() -> Option<&'static Cities> {
    static CITIES: OnceLock<Option<Cities>> = OnceLock::new();
    CITIES
        .get_or_init(|| {
            Some(Cities::read(&text(directory()?.join("city_population.tsv"))).unwrap())
        })
        .as_ref()
}

/// Links as pairs of node names, with weights.
fn links(network: &Network, name: impl Fn(usize) -> String) -> BTreeMap<(String, String), f64> {
    network
        .links
        .iter()
        .map(|link| ((name(link.from.index()), name(link.to.index())), link.weight))
        .collect()
}

#[test]
fn every_json_file_matches_the_index() {
    let Some(data) = directory() else { return };
    let index = text(data.join("index.tsv"));
    let mut files = 0;
    for row in index.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        let network = load(fields[0]).unwrap();
        let count = |at: usize| fields[at].parse::<usize>().unwrap();
        let counts = (network.nodes.len(), network.links.len(), network.demands.len());
        assert_eq!(counts, (count(2), 2 * count(3), count(8)), "{}", fields[0]);
        assert_eq!(
            network.nodes.iter().filter(|node| node.position.is_some()).count(),
            count(4),
            "{}",
            fields[0]
        );
        assert_eq!(
            network.nodes.iter().filter(|node| node.population.is_some()).count(),
            count(5),
            "{}",
            fields[0]
        );
        assert_eq!(topology::json(&topology::to_json(&network)).unwrap(), network, "{}", fields[0]);
        files += 1;
    }
    assert_eq!(files, 20);
}

const CCH: [(u32, &str); 5] =
    [(1221, "Telstra"), (1239, "Sprint"), (2914, "NTT-Verio"), (3257, "Tiscali"), (7018, "ATT")];

#[test]
fn router_maps_agree_with_their_json() {
    let Some(data) = directory() else { return };
    for (asn, name) in CCH {
        let file = text(data.join(format!("original/{asn}.r0.cch")));
        assert_eq!(Format::detect("a map", &file), Ok(Format::Cch));
        let options = Options { largest_component: true, ..Options::default() };
        let map = topology::read(Format::Cch, &file, &options).unwrap();
        let json = load(&format!("rocketfuel-{asn}-{name}-router.json")).unwrap();
        let routers = |network: &Network, prefix: &str| -> BTreeMap<String, Option<String>> {
            network
                .nodes
                .iter()
                .map(|node| (node.label[prefix.len()..].to_owned(), node.city.clone()))
                .collect()
        };
        // Their labels are like r1396; our id is 1396, and our label is the router's name.
        let ours: BTreeMap<_, _> =
            map.nodes.iter().map(|node| (node.id.clone(), node.city.clone())).collect();
        let theirs = routers(&json, "r");
        assert_eq!(ours, theirs, "{name}");
        let ours: BTreeSet<_> =
            links(&map, |node| map.nodes[node].id.clone()).into_keys().collect();
        let theirs: BTreeSet<_> =
            links(&json, |node| json.nodes[node].label[1..].to_owned()).into_keys().collect();
        assert_eq!(ours, theirs, "{name}");

        let pops = load(&format!("rocketfuel-{asn}-{name}-pop.json")).unwrap();
        let made = map.to_pops();
        let ours: BTreeSet<_> =
            links(&made, |node| made.nodes[node].id.clone()).into_keys().collect();
        let theirs: BTreeSet<_> =
            links(&pops, |node| pops.nodes[node].city.clone().unwrap()).into_keys().collect();
        assert_eq!((made.nodes.len(), &ours), (pops.nodes.len(), &theirs), "{name}");
        // The JSON router map with its positions gives the same weights.
        let made = json.to_pops();
        let ours = links(&made, |node| made.nodes[node].city.clone().unwrap());
        assert_eq!(ours, links(&pops, |node| pops.nodes[node].city.clone().unwrap()), "{name}");
    }
}

#[test]
fn weights_and_latencies_agree_with_their_json() {
    let Some(data) = directory() else { return };
    for (asn, name) in [(1221, "Telstra"), (1239, "Sprint"), (3257, "Tiscali")] {
        let weights = text(data.join(format!("original/{asn}.weights.intra")));
        let latencies = text(data.join(format!("original/{asn}.latencies.intra")));
        assert_eq!(Format::detect("weights", &weights), Ok(Format::Weights));
        let options =
            Options { companion: Some(&latencies), largest_component: true, ..Options::default() };
        let network = topology::read(Format::Weights, &weights, &options).unwrap();
        let json = load(&format!("rocketfuel-{asn}-{name}-weights.json")).unwrap();
        let all = |network: &Network| -> BTreeMap<(String, String), (String, String)> {
            let name = |node: NodeId| network.nodes[node].label.replace('+', " ");
            let values = |link: &oncewire_plan::network::Link| {
                (link.weight.to_string(), link.latency.to_string())
            };
            network
                .links
                .iter()
                .map(|link| ((name(link.from), name(link.to)), values(link)))
                .collect()
        };
        assert_eq!(all(&network), all(&json), "{name}");
        assert_eq!(network.nodes.len(), json.nodes.len(), "{name}");
    }
}

#[test]
fn the_topology_zoo_file_agrees_with_its_json() {
    let (Some(data), Some(cities)) = (directory(), cities()) else { return };
    let file = text(data.join("original/Geant2012.graphml"));
    let options =
        Options { cities: Some(cities), unknown: Unknown::LeaveOut, ..Options::default() };
    let network = topology::read(Format::detect("x.xml", &file).unwrap(), &file, &options).unwrap();
    // Their JSON lacks the three nodes without coordinates, each of which has one link.
    let json = load("topozoo-Geant2012.json").unwrap();
    let unplaced = ["UA", "MD", "BY"];
    assert_eq!(
        (network.nodes.len(), network.links.len()),
        (json.nodes.len() + 3, json.links.len() + 6)
    );
    let mut ours = links(&network, |node| network.nodes[node].label.clone());
    ours.retain(|(from, to), _| {
        !unplaced.contains(&from.as_str()) && !unplaced.contains(&to.as_str())
    });
    assert_eq!(ours, links(&json, |node| json.nodes[node].label.clone()));
    let populations = |network: &Network| -> BTreeMap<String, Option<u64>> {
        let nodes = network.nodes.iter().filter(|node| !unplaced.contains(&node.label.as_str()));
        nodes.map(|node| (node.label.clone(), node.population.map(|p| p as u64))).collect()
    };
    assert_eq!(populations(&network), populations(&json));
}

/// The JSON's cities were looked up in the same table, misspelled and ambiguous names by hand. Ours
/// are equal or missing, with these exceptions.
const OTHER: [&str; 3] = ["Denver, Colorado", "Lees Summit, MO", "Akron, Ohio"];

#[test]
fn cities_of_the_router_maps() {
    let (Some(data), Some(cities)) = (directory(), cities()) else { return };
    let mut known = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    for (asn, name) in CCH {
        let file = text(data.join(format!("original/{asn}.r0.cch")));
        let options =
            Options { largest_component: true, cities: Some(cities), ..Options::default() };
        let refused = topology::read(Format::Cch, &file, &options);
        let map =
            topology::read(Format::Cch, &file, &Options { unknown: Unknown::LeaveOut, ..options })
                .unwrap();
        let json = load(&format!("rocketfuel-{asn}-{name}-router.json")).unwrap();
        let mut missing = BTreeSet::new();
        for (ours, theirs) in map.nodes.iter().zip(&json.nodes) {
            assert_eq!(ours.city, theirs.city);
            let city = theirs.city.clone().unwrap();
            match ours.population {
                None => {
                    missing.insert(city);
                }
                Some(_) => {
                    let same =
                        ours.population == theirs.population && ours.position == theirs.position;
                    assert!(same || OTHER.contains(&city.as_str()), "{city}: {ours:?} {theirs:?}");
                    known.insert(city);
                }
            }
        }
        match refused {
            Err(error) => assert!(
                missing.iter().any(|city| error.to_string().contains(city.as_str())),
                "{error}"
            ),
            Ok(_) => assert!(missing.is_empty(), "{missing:?}"),
        }
        unknown.extend(missing);
        // In Tiscali's map, Frankfurt has two names.
        let pops = load(&format!("rocketfuel-{asn}-{name}-pop.json")).unwrap().nodes.len();
        assert_eq!(map.to_pops().nodes.len(), if asn == 3257 { pops - 1 } else { pops });
    }
    assert!(
        known.len() > 200 && unknown.len() == 43,
        "{} known, {}: {unknown:?}",
        known.len(),
        unknown.len()
    );
}

#[test]
fn ntt_at_router_level_has_the_paths_of_the_paper() {
    let Some(network) = load("rocketfuel-2914-NTT-Verio-pop.json") else { return };
    let network = network.reduce(70).unwrap().with_access_routers(4).unwrap();
    assert_eq!(network.nodes.len(), 350);
    let routes = routing::shortest_paths(&network, &Unwatched).unwrap();
    assert_eq!(routes.len(), 77_280);
    let hops: usize = routes.iter().map(|route| route.links.len()).sum();
    assert_eq!(hops, 404_288);
    let provision = Provision::default();
    let matrix = traffic::gravity(&network).unwrap();
    let routes =
        traffic::assign(&network, routes, &matrix, Scale::LargestIngress(0.5), &provision).unwrap();
    let profile = Profile::Measured(Measured::default());
    let instance = Instance::new(network, routes, &provision, &Placement::Links, profile).unwrap();
    assert_eq!(instance.ingresses.len(), 280);
    let largest = instance.ingresses.iter().map(|ingress| ingress.volume).fold(0.0, f64::max);
    assert!((largest - 1.5e9).abs() < 1.0, "{largest}");
}
