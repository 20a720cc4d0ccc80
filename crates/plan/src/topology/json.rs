//! Our JSON form, both ways.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Builder, Measures, bad, one_line, quote};
use crate::{
    BitRate, Error, Network, NodeId,
    error::TopologyError,
    network::{Link, Node, Role},
};

#[derive(Serialize, Deserialize)]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asn: Option<u32>,
    #[serde(default)]
    level: Level,
    #[serde(default)]
    source: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    derivation: Vec<String>,
    nodes: Vec<FileNode>,
    links: Vec<FileLink>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    demands: Vec<(Id, Id, f64)>,
}

/// Whether nodes of one city are one PoP's routers, or PoPs each.
#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Router,
    #[default]
    Pop,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct FileNode {
    id: Id,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    city: Option<String>,
    #[serde(default)]
    lat: Option<f64>,
    #[serde(default)]
    lon: Option<f64>,
    #[serde(default)]
    population: Option<f64>,
    #[serde(default, skip_serializing)]
    cc: Option<String>,
    #[serde(default)]
    pop: Option<u32>,
    #[serde(default)]
    role: FileRole,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileRole {
    #[default]
    Any,
    Access,
    Backbone,
}

#[derive(Serialize, Deserialize)]
struct FileLink {
    a: Id,
    b: Id,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight_ba: Option<f64>,
    #[serde(default)]
    latency_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_ms_ba: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity_bps: Option<BitRate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity_bps_ba: Option<BitRate>,
    #[serde(default, skip_serializing)]
    capacity_kbps: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    one_way: bool,
}

/// A network in our JSON form.
///
/// # Errors
/// Text that is not that; an id twice; a link or demand that names an unknown node; a weight,
/// capacity, population or demand out of its range.
pub fn json(text: &str) -> Result<Network, Error> {
    let file: File =
        serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
            TopologyError::Malformed(format!("not our JSON form: {}", quote(&error.to_string())))
        })?;
    let mut builder = Builder::default();
    builder.network.name = one_line(&file.name);
    builder.network.asn = file.asn;
    builder.network.source = one_line(&file.source);
    builder.network.derivation = file.derivation.iter().map(|line| one_line(line)).collect();
    for (number, node) in file.nodes.into_iter().enumerate() {
        let id = node.id.into_text();
        let pop = match (node.pop, &node.city) {
            (Some(pop), _) => Some(pop.to_string()),
            (None, Some(city)) if file.level == Level::Router => {
                Some(format!("{city}\n{}", node.cc.as_deref().unwrap_or_default()))
            }
            _ => None,
        };
        let node = Node {
            label: node.label.unwrap_or_else(|| id.clone()),
            id,
            city: node.city,
            position: node.lat.zip(node.lon).map(|(lat, lon)| [lat, lon]),
            population: node.population,
            pop: 0,
            role: match node.role {
                FileRole::Any => Role::Any,
                FileRole::Access => Role::Access,
                FileRole::Backbone => Role::Backbone,
            },
        };
        builder.node(format_args!("node number {}", number + 1), node, pop)?;
    }
    for (number, link) in file.links.into_iter().enumerate() {
        let place = format_args!("link number {}", number + 1);
        let (a, b) =
            (builder.find(place, &link.a.into_text())?, builder.find(place, &link.b.into_text())?);
        let capacity = link.capacity_bps.or(link.capacity_kbps.map(|kbps| BitRate(kbps * 1000.0)));
        let forth = Measures { weight: link.weight, latency: link.latency_ms, capacity };
        let back = Measures {
            weight: link.weight_ba.or(forth.weight),
            latency: link.latency_ms_ba.or(forth.latency),
            capacity: link.capacity_bps_ba.or(capacity),
        };
        if !link.one_way {
            builder.cable(place, a, b, forth, back)?;
        } else if link.weight_ba.is_some()
            || link.latency_ms_ba.is_some()
            || link.capacity_bps_ba.is_some()
        {
            return Err(bad(place, "it is one_way, but has values for the other way"));
        } else {
            builder.link(place, a, b, forth)?;
        }
    }
    for (number, (from, to, volume)) in file.demands.into_iter().enumerate() {
        let place = format_args!("demand number {}", number + 1);
        let (from, to) =
            (builder.find(place, &from.into_text())?, builder.find(place, &to.into_text())?);
        builder.demand(place, from, to, volume)?;
    }
    builder.finish()
}

/// A network in our JSON form; [`json`] reads the same network from it (with links that are one per
/// pair and direction, as all readers give).
pub fn to_json(network: &Network) -> String {
    let id = |node: NodeId| Id::Text(network.nodes[node].id.clone());
    let by_ends: HashMap<(NodeId, NodeId), usize> = network
        .links
        .iter()
        .enumerate()
        .map(|(number, link)| ((link.from, link.to), number))
        .collect();
    let mut links = Vec::new();
    for (number, link) in network.links.iter().enumerate() {
        let back = by_ends.get(&(link.to, link.from)).copied();
        if back.is_some_and(|back| back < number) {
            continue;
        }
        let back = back.map(|back| &network.links[back]);
        let one_way = |link: &Link| FileLink {
            a: id(link.from),
            b: id(link.to),
            weight: Some(link.weight),
            weight_ba: None,
            latency_ms: Some(link.latency),
            latency_ms_ba: None,
            capacity_bps: link.capacity,
            capacity_bps_ba: None,
            capacity_kbps: None,
            one_way: true,
        };
        let Some(back) = back else {
            links.push(one_way(link));
            continue;
        };
        // A missing capacity of the way back means the same as forth, so one that is unknown where
        // the other is known takes two entries.
        if link.capacity.is_some() && back.capacity.is_none() {
            links.extend([one_way(link), one_way(back)]);
            continue;
        }
        links.push(FileLink {
            weight_ba: Some(back.weight).filter(|&weight| weight != link.weight),
            latency_ms_ba: Some(back.latency).filter(|&latency| latency != link.latency),
            capacity_bps_ba: back.capacity.filter(|&capacity| Some(capacity) != link.capacity),
            one_way: false,
            ..one_way(link)
        });
    }
    let shared = network.pop_count() < network.nodes.len();
    let file = File {
        name: network.name.clone(),
        asn: network.asn,
        level: if shared { Level::Router } else { Level::Pop },
        source: network.source.clone(),
        derivation: network.derivation.clone(),
        nodes: network
            .nodes
            .iter()
            .map(|node| FileNode {
                id: Id::Text(node.id.clone()),
                label: Some(node.label.clone()),
                city: node.city.clone(),
                lat: node.position.map(|position| position[0]),
                lon: node.position.map(|position| position[1]),
                population: node.population,
                cc: None,
                pop: Some(node.pop),
                role: match node.role {
                    Role::Any => FileRole::Any,
                    Role::Access => FileRole::Access,
                    Role::Backbone => FileRole::Backbone,
                },
            })
            .collect(),
        links,
        demands: network
            .demands
            .iter()
            .map(|demand| (id(demand.from), id(demand.to), demand.volume))
            .collect(),
    };
    // Strings, numbers and lists only: JSON can represent all of it.
    serde_json::to_string(&file).unwrap_or_default()
}
