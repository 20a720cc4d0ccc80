//! SNDlib's XML (Orlowski, Pioro, Tomaszewski and Wessaely, INOC 2007).

use super::{
    Builder, Measures, bad, one_line, quote,
    xml::{self, Element},
};
use crate::{BitRate, Error, Network, NodeId, error::TopologyError, network::Node};

/// A network of SNDlib with its demands. Links are undirected; a link's weight is its routing cost
/// if that is above 0, else it comes from the distance; its capacity is that of the preinstalled
/// module if that is above 0, else that of the largest module, in Mbit/s.
///
/// # Errors
/// Text that is not of the format; an id twice; a link or demand that names an unknown node; a
/// number out of its range.
pub fn sndlib(text: &str) -> Result<Network, Error> {
    xml::parse(text, read)
}

fn read(root: Element<'_>) -> Result<Network, Error> {
    if root.name() != "network" {
        return Err(bad(
            root.place(),
            format_args!("<{}> where <network> should be", quote(root.name())),
        ));
    }
    let structure = root
        .child("networkStructure")
        .ok_or_else(|| TopologyError::Malformed("there is no <networkStructure>".into()))?;
    let mut builder = Builder::default();
    builder.network.source = "SNDlib".into();
    if let Some(origin) = root.child("meta").and_then(|meta| meta.child("origin")) {
        builder.network.source = one_line(&format!("SNDlib: {}", origin.text()));
    }
    if let Some(nodes) = structure.child("nodes") {
        // Pixel positions say nothing about distances.
        let pixels = nodes.attribute("coordinatesType") == Some("pixel");
        for node in nodes.all("node") {
            let id = node.required("id")?.to_owned();
            let position = match node.child("coordinates").filter(|_| !pixels) {
                Some(at) => {
                    let axis = |name: &str| {
                        at.child(name)
                            .ok_or_else(|| {
                                bad(at.place(), format_args!("coordinates without {name}"))
                            })
                            .and_then(Element::number)
                    };
                    Some([axis("y")?, axis("x")?])
                }
                None => None,
            };
            builder.node(
                node.place(),
                Node { label: id.clone(), id, position, ..Node::default() },
                None,
            )?;
        }
    }
    for link in structure.child("links").into_iter().flat_map(|links| links.all("link")) {
        let (a, b) = ends(&builder, link)?;
        let cost = link.child("routingCost").map(Element::number).transpose()?;
        let measures = Measures {
            weight: cost.filter(|&cost| cost != 0.0),
            latency: None,
            capacity: capacity(link)?,
        };
        builder.cable(link.place(), a, b, measures, measures)?;
    }
    for demand in root.child("demands").into_iter().flat_map(|demands| demands.all("demand")) {
        let (from, to) = ends(&builder, demand)?;
        let value = demand
            .child("demandValue")
            .ok_or_else(|| bad(demand.place(), "a demand without demandValue"))
            .and_then(Element::number)?;
        builder.demand(demand.place(), from, to, value)?;
    }
    builder.finish()
}

fn ends(builder: &Builder, element: Element<'_>) -> Result<(NodeId, NodeId), Error> {
    let end = |name: &str| {
        let child = element.child(name).ok_or_else(|| {
            bad(element.place(), format_args!("<{}> without {name}", quote(element.name())))
        })?;
        builder.find(child.place(), &child.text())
    };
    Ok((end("source")?, end("target")?))
}

fn capacity(link: Element<'_>) -> Result<Option<BitRate>, Error> {
    let of = |module: Element<'_>| module.child("capacity").map(Element::number).transpose();
    let mut megabits = match link.child("preInstalledModule") {
        Some(module) => of(module)?.filter(|&capacity| capacity != 0.0),
        None => None,
    };
    if megabits.is_none() {
        for module in
            link.child("additionalModules").into_iter().flat_map(|modules| modules.all("addModule"))
        {
            // Not f64::max, which ignores NaN.
            megabits = match (megabits, of(module)?) {
                (Some(known), Some(other)) if other <= known => Some(known),
                (known, other) => other.or(known),
            };
        }
    }
    Ok(megabits.map(|megabits| BitRate(megabits * 1e6)))
}
