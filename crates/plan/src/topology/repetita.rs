//! REPETITA's `.graph` and `.demands` (Gay, Schaus and Vissicchio, 2017).

use super::{Builder, Measures, bad, quote};
use crate::{BitRate, Error, Network, NodeId, error::TopologyError, network::Node};

/// A `.graph`, and its `.demands` if given: `NODES n`, a line of titles, n lines `label x y` (x is
/// the longitude), `EDGES m`, titles, m lines `label src dest weight bw delay`; src and dest count
/// nodes from 0, bw is in kbit/s, delay in microseconds, and each edge is one direction. A label's
/// digits before the first `_` are a number in the source; the rest is taken as the city.
///
/// # Errors
/// Text that is not of the format; a label twice; an edge to an unknown node; a number out of its
/// range.
pub fn repetita(graph: &str, demands: Option<&str>) -> Result<Network, Error> {
    let mut lines = Lines::new(graph);
    let mut builder = Builder::default();
    builder.network.source = "REPETITA".into();
    for _ in 0..lines.section("NODES")? {
        let (place, [label, x, y]) = lines.fields()?;
        let name = label
            .split_once('_')
            .filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let city = name.map(|(_, rest)| rest.replace('_', " ")).filter(|city| !city.is_empty());
        let (lat, lon) = (number(&place, y)?, number(&place, x)?);
        let node = Node {
            id: label.to_owned(),
            label: city.clone().unwrap_or_else(|| label.to_owned()),
            city,
            // Graphs without a map have zeros.
            position: (lat != 0.0 || lon != 0.0).then_some([lat, lon]),
            ..Node::default()
        };
        builder.node(place, node, None)?;
    }
    for _ in 0..lines.section("EDGES")? {
        let (place, [_, from, to, weight, capacity, delay]) = lines.fields()?;
        let measures = Measures {
            weight: Some(number(&place, weight)?),
            latency: Some(number(&place, delay)? / 1000.0),
            capacity: Some(BitRate(number(&place, capacity)? * 1000.0)),
        };
        let (from, to) =
            (node(&place, from, &builder.network)?, node(&place, to, &builder.network)?);
        builder.link(place, from, to, measures)?;
    }
    lines.end()?;
    let mut network = builder.finish()?;
    if let Some(demands) = demands {
        repetita_demands(&mut network, demands)?;
    }
    Ok(network)
}

/// Sets the demands of a network from a `.demands`: `DEMANDS n`, a line of titles, n lines `label
/// src dest bw`, bw in kbit/s.
///
/// # Errors
/// Text that is not of the format; an unknown node; a demand that is negative or not a number.
pub fn repetita_demands(network: &mut Network, text: &str) -> Result<(), Error> {
    let mut lines = Lines::new(text);
    let mut builder = Builder::default();
    for _ in 0..lines.section("DEMANDS")? {
        let (place, [_, from, to, volume]) = lines.fields()?;
        let volume = number(&place, volume)?;
        builder.demand(&place, node(&place, from, network)?, node(&place, to, network)?, volume)?;
    }
    lines.end()?;
    network.demands = builder.network.demands;
    Ok(())
}

/// Lines that are not empty, with their numbers.
struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.trim_start_matches('\u{feff}').lines().enumerate() }
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        self.lines
            .by_ref()
            .map(|(number, line)| (number + 1, line.trim()))
            .find(|(_, line)| !line.is_empty())
    }

    /// The start of a section and its titles; how many lines it has. That number does not size any
    /// allocation.
    fn section(&mut self, title: &str) -> Result<usize, Error> {
        let Some((number, line)) = self.next() else {
            return Err(
                TopologyError::Malformed(format!("the text ends where {title} should be")).into()
            );
        };
        let count = line.strip_prefix(title).and_then(|count| count.trim().parse().ok());
        let count = count.ok_or_else(|| {
            bad(
                format_args!("line {number}"),
                format_args!("{} where '{title} number' should be", quote(line)),
            )
        })?;
        match self.next() {
            Some((_, titles)) if titles.starts_with("label") => Ok(count),
            _ => Err(bad(format_args!("line {}", number + 1), "no line of titles ('label ...')")),
        }
    }

    fn fields<const N: usize>(&mut self) -> Result<(String, [&'a str; N]), Error> {
        let Some((number, line)) = self.next() else {
            return Err(
                TopologyError::Malformed("the text ends in the middle of a list".into()).into()
            );
        };
        let fields: Vec<&str> = line.split_whitespace().take(N + 1).collect();
        let fields = fields.try_into().map_err(|_| {
            bad(
                format_args!("line {number}"),
                format_args!("{} where {N} fields should be", quote(line)),
            )
        })?;
        Ok((format!("line {number}"), fields))
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.next() {
            Some((number, line)) => Err(bad(
                format_args!("line {number}"),
                format_args!("{} after the end of the list", quote(line)),
            )),
            None => Ok(()),
        }
    }
}

fn number(place: &str, text: &str) -> Result<f64, Error> {
    text.parse().map_err(|_| bad(place, format_args!("{} is not a number", quote(text))))
}

fn node(place: &str, text: &str, network: &Network) -> Result<NodeId, Error> {
    let number = text.parse().ok().map(NodeId);
    number.filter(|number| number.index() < network.nodes.len()).ok_or_else(|| {
        bad(
            place,
            format_args!(
                "{} is not one of the {} nodes, which count from 0",
                quote(text),
                network.nodes.len()
            ),
        )
    })
}
