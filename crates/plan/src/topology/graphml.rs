//! GraphML as the Internet Topology Zoo publishes it (Knight et al., JSAC 2011).

use std::collections::HashMap;

use super::{
    Builder, Measures, bad, one_line, quote,
    xml::{self, Element},
};
use crate::{BitRate, Error, Network, error::TopologyError, network::Node};

/// A network in GraphML. Attributes are found by their names (`attr.name` of the keys): `label`,
/// `Latitude`, `Longitude`, `LinkSpeedRaw` (bit/s), and, which the Zoo does not use, `weight` and
/// `latency` (ms). Each edge of an undirected graph is a link both ways.
///
/// # Errors
/// Text that is not GraphML; an id twice; an edge to an unknown node; a number out of its range.
pub fn graphml(text: &str) -> Result<Network, Error> {
    xml::parse(text, read)
}

fn read(root: Element<'_>) -> Result<Network, Error> {
    if root.name() != "graphml" {
        return Err(bad(
            root.place(),
            format_args!("<{}> where <graphml> should be", quote(root.name())),
        ));
    }
    // Attribute names by key id.
    let mut keys: HashMap<&str, &str> = HashMap::new();
    for key in root.all("key") {
        keys.insert(
            key.required("id")?,
            key.attribute("attr.name").or(key.attribute("name")).unwrap_or_default(),
        );
    }
    let graph = root
        .child("graph")
        .ok_or_else(|| TopologyError::Malformed("there is no <graph>".into()))?;
    let text_of = |element: Element<'_>, name: &str| -> Option<String> {
        data(&keys, element, name).map(Element::text).filter(|text| !text.is_empty())
    };
    let number_of = |element: Element<'_>, name: &str| -> Result<Option<f64>, Error> {
        data(&keys, element, name)
            .filter(|child| !child.text().is_empty())
            .map(Element::number)
            .transpose()
    };

    let mut builder = Builder::default();
    builder.network.name =
        one_line(&text_of(graph, "label").or(text_of(graph, "Network")).unwrap_or_default());
    builder.network.source = one_line(&text_of(graph, "Source").unwrap_or_default());
    for node in graph.all("node") {
        let id = node.required("id")?.to_owned();
        let position = number_of(node, "Latitude")?.zip(number_of(node, "Longitude")?);
        let node_data = Node {
            label: text_of(node, "label").unwrap_or_else(|| id.clone()),
            id,
            position: position.map(|(lat, lon)| [lat, lon]),
            ..Node::default()
        };
        builder.node(node.place(), node_data, None)?;
    }
    let directed_graph = graph.attribute("edgedefault") == Some("directed");
    for edge in graph.all("edge") {
        let source = builder.find(edge.place(), edge.required("source")?)?;
        let target = builder.find(edge.place(), edge.required("target")?)?;
        let measures = Measures {
            weight: number_of(edge, "weight")?,
            latency: number_of(edge, "latency")?,
            capacity: number_of(edge, "LinkSpeedRaw")?.map(BitRate),
        };
        let directed = match edge.attribute("directed") {
            Some("true") => true,
            Some("false") => false,
            _ => directed_graph,
        };
        if directed {
            builder.link(edge.place(), source, target, measures)?;
        } else {
            builder.cable(edge.place(), source, target, measures, measures)?;
        }
    }
    builder.finish()
}

/// The `<data>` of an element for an attribute name.
fn data<'a>(keys: &HashMap<&str, &str>, element: Element<'a>, name: &str) -> Option<Element<'a>> {
    element.all("data").find(|child| {
        child.attribute("key").is_some_and(|key| keys.get(key).copied().unwrap_or(key) == name)
    })
}
