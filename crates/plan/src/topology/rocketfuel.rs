//! Rocketfuel's maps: `.cch` (Spring, Mahajan and Wetherall, SIGCOMM 2002) and inferred weights
//! (Mahajan et al., IMW 2002).

use std::collections::{BTreeMap, HashMap};

use super::{Builder, Measures, bad, quote};
use crate::{Error, Network, NodeId, network::Node};

/// A router map: lines `uid @loc [+] [bb] (neighbors) [&ext] -> <nuid> ... {-euid} ... =name[!]
/// rn`; the format's `README.cch` has the details.
///
/// Routers of one location are one PoP. A router whose location is unknown (`T`, `?`) gets the one
/// that most of its neighbors have (at a tie the first by name), as far as theirs is known in the
/// file. External addresses and links to them are left out. There are no weights: all are 1, and
/// latencies 0.1 ms, until [`Network::with_distance_weights`].
///
/// # Errors
/// Text that is not of the format, an uid twice, a neighbor that is not in the file.
pub fn cch(text: &str) -> Result<Network, Error> {
    struct Router<'a> {
        line: usize,
        uid: &'a str,
        city: Option<String>,
        name: &'a str,
        neighbors: Vec<&'a str>,
    }
    let mut routers: Vec<Router<'_>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format_args!("line {}", number + 1);
        let mut words = line.split_whitespace();
        let Some(uid) = words.next().filter(|uid| !uid.starts_with('-')) else { continue };
        if !uid.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad(place, format_args!("expected a router number, found {}", quote(uid))));
        }
        let Some(location) = words.next().and_then(|word| word.strip_prefix('@')) else {
            return Err(bad(place, format_args!("router {} has no @location", quote(uid))));
        };
        if !words.by_ref().any(|word| word == "->") {
            return Err(bad(
                place,
                format_args!("router {} has no -> before its neighbors", quote(uid)),
            ));
        }
        let mut router = Router {
            line: number + 1,
            uid,
            city: city_of(location),
            name: uid,
            neighbors: Vec::new(),
        };
        for word in words {
            if let Some(neighbor) = word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
                router.neighbors.push(neighbor);
            } else if let Some(name) = word.strip_prefix('=') {
                router.name = name.trim_end_matches('!');
                break;
            } else if !(word.starts_with('{') && word.ends_with('}')) {
                return Err(bad(
                    place,
                    format_args!("{} where a neighbor <...> or a name =... should be", quote(word)),
                ));
            }
        }
        routers.push(router);
    }

    let by_uid: HashMap<&str, usize> =
        routers.iter().enumerate().map(|(number, router)| (router.uid, number)).collect();
    let inferred: Vec<Option<String>> = routers
        .iter()
        .map(|router| {
            let mut votes: BTreeMap<&str, u32> = BTreeMap::new();
            let located = router
                .neighbors
                .iter()
                .filter_map(|uid| routers[*by_uid.get(uid)?].city.as_deref());
            located.for_each(|city| *votes.entry(city).or_default() += 1);
            votes
                .into_iter()
                .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)))
                .map(|(city, _)| city.to_owned())
        })
        .collect();

    let mut builder = Builder::default();
    builder.network.source = "Rocketfuel (Spring, Mahajan, Wetherall, SIGCOMM 2002)".into();
    let mut guessed = 0;
    for (router, inferred) in routers.iter().zip(inferred) {
        guessed += u32::from(router.city.is_none() && inferred.is_some());
        let city = router.city.clone().or(inferred);
        let node = Node {
            id: router.uid.into(),
            label: router.name.into(),
            city: city.clone(),
            ..Node::default()
        };
        builder.node(format_args!("line {}", router.line), node, city)?;
    }
    if guessed > 0 {
        builder.network.derivation.push(format!("{guessed} locations taken from neighbors"));
    }
    for (number, router) in NodeId::all().zip(&routers) {
        let place = format_args!("line {}", router.line);
        for neighbor in &router.neighbors {
            let other = builder.find(place, neighbor)?;
            // Both ends list a link; the second is not a parallel link.
            if !builder.links.contains_key(&(number, other)) {
                builder.cable(place, number, other, Measures::default(), Measures::default())?;
            }
        }
    }
    builder.finish()
}

/// `Perth,+Australia` is `Perth, Australia`; `T` and `?` are nowhere.
fn city_of(location: &str) -> Option<String> {
    (location != "T" && location != "?" && !location.is_empty()).then(|| location.replace('+', " "))
}

/// `weights.intra`, lines `from to weight`, with `latencies.intra`, lines `from to milliseconds`
/// for the same links. A line is one direction; a missing direction equals the other. A router is
/// its city, then digits: `New+York,+NY236`. Routers of one city are one PoP.
///
/// # Errors
/// Text that is not of the format; weights or latencies out of their range, or twice; latencies of
/// links without weights, or the reverse.
pub fn weights(weights: &str, latencies: Option<&str>) -> Result<Network, Error> {
    let weights = directions("weights", weights)?;
    let latencies = latencies.map(|text| directions("latencies", text)).transpose()?;
    let mut builder = Builder::default();
    builder.network.source =
        "Rocketfuel weights (Mahajan, Spring, Wetherall, Anderson, IMW 2002)".into();
    let mut known = HashMap::new();
    for &(number, from, to, weight) in &weights {
        known.insert((from, to), (number, weight));
        for name in [from, to] {
            if builder.nodes.contains_key(name) {
                continue;
            }
            let place = format_args!("weights, line {number}");
            let city = name.trim_end_matches(|c: char| c.is_ascii_digit());
            if city.len() == name.len() || city.is_empty() {
                return Err(bad(
                    place,
                    format_args!("{} is not a city and a router number", quote(name)),
                ));
            }
            let city = city_of(city);
            let node = Node {
                id: name.into(),
                label: name.replace('+', " "),
                city: city.clone(),
                ..Node::default()
            };
            builder.node(place, node, city)?;
        }
    }
    let mut waits = HashMap::new();
    for &(number, from, to, latency) in latencies.iter().flatten() {
        if !known.contains_key(&(from, to)) && !known.contains_key(&(to, from)) {
            let (from, to) = (quote(from), quote(to));
            return Err(bad(
                format_args!("latencies, line {number}"),
                format_args!("the link {from} -> {to} has no weight"),
            ));
        }
        waits.insert((from, to), latency);
    }
    for &(number, from, to, weight) in &weights {
        let place = format_args!("weights, line {number}");
        let back = known.get(&(to, from));
        if back.is_some_and(|&(other, _)| other < number) {
            continue;
        }
        let latency = waits.get(&(from, to)).or(waits.get(&(to, from))).copied();
        if latencies.is_some() && latency.is_none() {
            return Err(bad(
                place,
                format_args!("the link {} -> {} has no latency", quote(from), quote(to)),
            ));
        }
        let forth = Measures { weight: Some(weight), latency, capacity: None };
        let back = Measures {
            weight: Some(back.map_or(weight, |&(_, weight)| weight)),
            latency: waits.get(&(to, from)).copied().or(latency),
            capacity: None,
        };
        let (a, b) = (builder.find(place, from)?, builder.find(place, to)?);
        builder.cable(place, a, b, forth, back)?;
    }
    builder.finish()
}

type Direction<'a> = (usize, &'a str, &'a str, f64);

fn directions<'a>(what: &str, text: &'a str) -> Result<Vec<Direction<'a>>, Error> {
    let mut all = Vec::new();
    let mut seen = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let place = format_args!("{what}, line {number}");
        let mut words = line.split_whitespace();
        let fields = (
            words.next(),
            words.next(),
            words.next().and_then(|word| word.parse().ok()),
            words.next(),
        );
        match fields {
            (None, ..) => {}
            (Some(from), Some(to), Some(value), None) => {
                if let Some(first) = seen.insert((from, to), number) {
                    let (from, to) = (quote(from), quote(to));
                    return Err(bad(
                        place,
                        format_args!("the link {from} -> {to} is also on line {first}"),
                    ));
                }
                all.push((number, from, to, value));
            }
            _ => {
                return Err(bad(
                    place,
                    format_args!("{} where 'from to number' should be", quote(line)),
                ));
            }
        }
    }
    Ok(all)
}
