//! Paths through a network: shortest or given.

pub(crate) mod dijkstra;

use std::collections::HashMap;

use dijkstra::Graph;

use crate::{
    Error, LinkId, Network, NodeId, Watch,
    error::{PathError, quote},
    network::{Names, Role, compare_ids},
    path::Route,
};

/// Most paths that are planned for. The links of more would fill gigabytes.
pub const MAX_PATHS: usize = 10_000_000;

/// Most links on all paths together. Each takes some hundred bytes while a plan is made.
pub const MAX_PATH_LINKS: usize = 50_000_000;

/// Returns an error if paths have more than [`MAX_PATH_LINKS`] links.
pub(crate) fn check_path_links(links: usize) -> Result<(), Error> {
    if links <= MAX_PATH_LINKS {
        return Ok(());
    }
    Err(PathError::TooManyLinks { most: MAX_PATH_LINKS }.into())
}

/// Nodes where traffic enters and leaves: the access routers if there are any, else all that are
/// not backbone.
pub fn endpoints(network: &Network) -> Vec<NodeId> {
    let with = |role: Role| -> Vec<NodeId> {
        network
            .nodes
            .iter()
            .zip(NodeId::all())
            .filter(|(node, _)| node.role == role)
            .map(|(_, number)| number)
            .collect()
    };
    let access = with(Role::Access);
    if access.is_empty() { with(Role::Any) } else { access }
}

/// All ordered pairs of endpoints that are in different PoPs, sorted.
///
/// # Errors
/// No pairs, or more than [`MAX_PATHS`].
pub fn pairs(network: &Network) -> Result<Vec<(NodeId, NodeId)>, Error> {
    let ends = endpoints(network);
    let mut in_pop: HashMap<u32, usize> = HashMap::new();
    let pop = |node: NodeId| network.nodes[node].pop;
    ends.iter().for_each(|&node| *in_pop.entry(pop(node)).or_default() += 1);
    let count: usize = in_pop
        .values()
        .map(|&of_pop| of_pop.saturating_mul(ends.len() - of_pop))
        .fold(0, usize::saturating_add);
    if count == 0 {
        return Err(PathError::TooFewPops.into());
    }
    if count > MAX_PATHS {
        return Err(
            PathError::TooMany { endpoints: ends.len(), paths: count, most: MAX_PATHS }.into()
        );
    }
    let mut pairs = Vec::with_capacity(count);
    for &from in &ends {
        pairs.extend(ends.iter().filter(|&&to| pop(from) != pop(to)).map(|&to| (from, to)));
    }
    Ok(pairs)
}

/// Shortest paths between all [`pairs`], with volumes of 0, sorted by `from` and `to`.
///
/// A path has the lowest sum of weights; among those, the fewest links; among those, the
/// second-to-last node with the smallest id ([`compare_ids`]), and so on back to the ingress.
/// Nothing passes through access routers. The paths of an ingress form a tree, as each node has one
/// predecessor for all egresses. The order of nodes and links does not matter.
///
/// # Errors
/// As [`pairs`]; a pair without a path; [`Error::Stopped`].
pub fn shortest_paths(network: &Network, watch: &dyn Watch) -> Result<Vec<Route>, Error> {
    shortest_paths_between(network, &pairs(network)?, watch)
}

/// [`shortest_paths`] for these pairs only, in their order. Consecutive pairs with the same ingress
/// share the work.
///
/// # Errors
/// A pair without a path, from a node to itself, or of unknown nodes; more links in all than
/// [`MAX_PATH_LINKS`]; weights that are not above 0; [`Error::Stopped`].
pub fn shortest_paths_between(
    network: &Network,
    pairs: &[(NodeId, NodeId)],
    watch: &dyn Watch,
) -> Result<Vec<Route>, Error> {
    let name = |node: NodeId| quote(&network.nodes[node].id);
    let nodes = network.nodes.len();
    let unknown = |what: &'static str, from: NodeId, to: NodeId| {
        Error::from(PathError::UnknownNodes { what, from: from.index(), to: to.index(), nodes })
    };
    let known = |node: NodeId| node.index() < nodes;
    if let Some(&(from, to)) = pairs.iter().find(|&&(from, to)| !known(from) || !known(to)) {
        return Err(unknown("path", from, to));
    }
    if let Some(link) = network.links.iter().find(|link| !known(link.from) || !known(link.to)) {
        return Err(unknown("link", link.from, link.to));
    }
    if let Some(link) =
        network.links.iter().find(|link| !(link.weight > 0.0 && link.weight.is_finite()))
    {
        return Err(PathError::Weight {
            from: name(link.from),
            to: name(link.to),
            weight: link.weight,
        }
        .into());
    }
    let mut search = Search::new(network);
    let mut routes = Vec::with_capacity(pairs.len());
    let mut ingress = None;
    let mut in_all = 0;
    for &(from, to) in pairs {
        if ingress != Some(from) {
            watch.proceed()?;
            watch.progress("paths", routes.len() as u64, pairs.len() as u64);
            search.run(from);
            ingress = Some(from);
        }
        if from == to {
            return Err(PathError::ToItself { node: name(from) }.into());
        }
        let links = search
            .links_to(to)
            .ok_or_else(|| PathError::None { from: name(from), to: name(to) })?;
        in_all += links.len();
        check_path_links(in_all)?;
        routes.push(Route { from, to, slice: 0, links, volume: 0.0 });
    }
    Ok(routes)
}

/// Finds shortest paths by weight, with this module's order of equally long ones.
struct Search<'a> {
    network: &'a Network,
    graph: Graph,
    /// Place of each node in the order of ids.
    rank: Vec<u32>,
    search: dijkstra::Search,
}

impl<'a> Search<'a> {
    fn new(network: &'a Network) -> Self {
        let nodes = network.nodes.len();
        let ends = network.links.iter().map(|link| (link.from, link.to)).collect();
        let graph = Graph::new(nodes, ends);
        let search = dijkstra::Search::new(&graph);
        Self { network, graph, rank: ranks(network), search }
    }

    fn run(&mut self, from: NodeId) {
        let Self { network, graph, rank, search } = self;
        let key = |number: LinkId| {
            let link = &network.links[number];
            (rank[link.from], link.latency, number)
        };
        search.run(
            graph,
            from,
            |link| network.links[link].weight,
            |node| network.nodes[node].role != Role::Access,
            |one, other| key(one) < key(other),
        );
    }

    fn links_to(&self, to: NodeId) -> Option<Vec<LinkId>> {
        self.search.links_to(&self.graph, to)
    }
}

/// Place of each node in the order of ids.
pub(crate) fn ranks(network: &Network) -> Vec<u32> {
    let nodes = network.nodes.len();
    let mut order: Vec<NodeId> = NodeId::first(nodes).collect();
    order.sort_by(|&a, &b| compare_ids(&network.nodes[a].id, &network.nodes[b].id));
    let mut rank = vec![0; nodes];
    order.iter().zip(0..).for_each(|(&node, at)| rank[node] = at);
    rank
}

/// Reads given paths: one per line, the names of its nodes from ingress to egress, separated by
/// tabs if the line has one, else by spaces; `->` between names and lines that start with `#` are
/// ignored. A name is an id or a unique label. Volumes are 0. The order is that of
/// [`shortest_paths`].
///
/// Whether paths of one ingress form a tree is asked later ([`crate::Instance::check_trees`]).
///
/// # Errors
/// An unknown name; two nodes without a link; a loop; ends that carry no traffic; a path through an
/// access router; a duplicate pair; no path.
pub fn given(network: &Network, text: &str) -> Result<Vec<Route>, Error> {
    let names = Names::new(network);
    let mut best: HashMap<(NodeId, NodeId), LinkId> = HashMap::new();
    for (link, number) in network.links.iter().zip(LinkId::all()) {
        let known = best.entry((link.from, link.to)).or_insert(number);
        if link.weight < network.links[*known].weight {
            *known = number;
        }
    }
    let mut is_end = vec![false; network.nodes.len()];
    endpoints(network).into_iter().for_each(|node| is_end[node] = true);
    let mut lines: HashMap<(NodeId, NodeId), usize> = HashMap::new();
    // Line by which a path last came to each node.
    let mut visited = vec![0; network.nodes.len()];
    let mut routes: Vec<Route> = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = number + 1;
        let wrong = |error: PathError| Error::from(error.at_line(number));
        let mut nodes: Vec<NodeId> = Vec::new();
        for name in fields(line) {
            let node = names.find(name).map_err(|error| wrong(error.into()))?;
            if std::mem::replace(&mut visited[node], number) == number {
                return Err(wrong(PathError::Loop { path: None, node: quote(name) }));
            }
            nodes.push(node);
        }
        let (Some(&from), Some(&to)) = (nodes.first(), nodes.last()) else { continue };
        let name = |node: NodeId| quote(&network.nodes[node].id);
        if nodes.len() == 1 {
            return Err(wrong(PathError::OneNode { node: name(from) }));
        }
        if let Some(&end) = [from, to].iter().find(|&&end| !is_end[end]) {
            return Err(wrong(PathError::NotAnEndpoint { node: name(end) }));
        }
        if let Some(&through) =
            nodes[1..nodes.len() - 1].iter().find(|&&node| network.nodes[node].role == Role::Access)
        {
            return Err(wrong(PathError::ThroughAccess { node: name(through) }));
        }
        let mut links = Vec::with_capacity(nodes.len() - 1);
        for pair in nodes.windows(2) {
            let link = best.get(&(pair[0], pair[1]));
            links.push(*link.ok_or_else(|| {
                wrong(PathError::NoLink { from: name(pair[0]), to: name(pair[1]) })
            })?);
        }
        if let Some(first) = lines.insert((from, to), number) {
            return Err(wrong(PathError::Duplicate {
                from: name(from),
                to: name(to),
                first: Some(first),
            }));
        }
        routes.push(Route { from, to, slice: 0, links, volume: 0.0 });
    }
    if routes.is_empty() {
        return Err(PathError::Empty.into());
    }
    routes.sort_by_key(|route| (route.from, route.to));
    Ok(routes)
}

/// The fields of a line, separated by tabs if it has any, else by white space. A comment has none.
pub(crate) fn fields(line: &str) -> impl Iterator<Item = &str> {
    let line = if line.trim_start().starts_with('#') { "" } else { line };
    let tabs = line.contains('\t');
    let split = line.split(move |c: char| if tabs { c == '\t' } else { c.is_whitespace() });
    split.map(str::trim).filter(|field| !field.is_empty() && *field != "->")
}

#[cfg(test)]
mod tests;
