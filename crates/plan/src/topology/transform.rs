//! Transformations of networks. Each adds a line to [`Network::derivation`].

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeSet, BinaryHeap, HashMap, HashSet},
};

use oncewire_kernels::random::SplitMix64;

use super::{MAX_TEXT, by_distance, cut, merge, quote};
use crate::{
    BitRate, Error, Network, NodeId,
    error::TopologyError,
    network::{Demand, Link, Node, Role, compare_ids},
};

/// Latency of the link between an access router and the rest of its PoP, in milliseconds: 20 km.
pub const ACCESS_LATENCY: f64 = 0.1;

impl Network {
    /// How many PoPs there are.
    pub fn pop_count(&self) -> usize {
        self.nodes.iter().map(|node| node.pop).collect::<HashSet<_>>().len()
    }

    /// Whether every node reaches every other.
    ///
    /// # Errors
    /// [`TopologyError::Disconnected`] or [`TopologyError::OneWay`], with two nodes of which the
    /// second cannot be reached from the first.
    pub fn check_connected(&self) -> Result<(), Error> {
        let components = self.components();
        let id = |node: usize| self.nodes[node].id.clone();
        if let Some(other) = components.iter().position(|&component| component != NodeId(0)) {
            let parts = components.iter().copied().collect::<BTreeSet<_>>().len();
            return Err(TopologyError::Disconnected { from: id(0), to: id(other), parts }.into());
        }
        for backward in [false, true] {
            let reached = self.reach(NodeId(0), backward);
            if let Some(other) = reached.iter().position(|&reached| !reached) {
                let (from, to) = if backward { (other, 0) } else { (0, other) };
                return Err(TopologyError::OneWay { from: id(from), to: id(to) }.into());
            }
        }
        Ok(())
    }

    /// The largest part of the network that is connected (links taken both ways); of equal ones
    /// that of the first node. Demands of other nodes go.
    #[must_use]
    pub fn largest_component(&self) -> Self {
        let components = self.components();
        let mut sizes: HashMap<NodeId, usize> = HashMap::new();
        components.iter().for_each(|&component| *sizes.entry(component).or_default() += 1);
        let Some((&largest, &size)) =
            sizes.iter().max_by_key(|&(&component, &size)| (size, Reverse(component)))
        else {
            return self.clone();
        };
        if size == self.nodes.len() {
            return self.clone();
        }
        let keep: Vec<bool> = components.iter().map(|&component| component == largest).collect();
        let mut network = self.subset(&keep);
        network
            .derivation
            .push(format!("largest connected component: {size} of {} nodes", self.nodes.len()));
        network
    }

    /// The PoP-level map of a router-level one: a node per PoP, links between PoPs merged as
    /// parallel ones are (lowest weight), demands added up. A PoP has the name of its city, or of
    /// its first router if that is unknown, and the position and population of its first router
    /// that has them. It carries traffic if one of its routers does.
    #[must_use]
    pub fn to_pops(&self) -> Self {
        let mut number_of: HashMap<u32, u32> = HashMap::new();
        let mut nodes: Vec<Node> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        let mut place = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let next = nodes.len() as u32;
            let number = *number_of.entry(node.pop).or_insert(next);
            place.push(NodeId(number));
            if number == next {
                let name = node.city.clone().unwrap_or_else(|| node.id.clone());
                // Two PoPs may be in one city; ids stay unique.
                let id = if names.contains(&name) { node.id.clone() } else { name.clone() };
                let id = if names.contains(&id) {
                    let free = (next..)
                        .map(|number| {
                            let suffix = format!(" ({number})");
                            format!("{}{suffix}", cut(&name, MAX_TEXT - suffix.len()))
                        })
                        .find(|id| !names.contains(id));
                    free.expect("a network has fewer nodes than there are numbers")
                } else {
                    id
                };
                names.insert(id.clone());
                nodes.push(Node {
                    id,
                    label: name,
                    pop: next,
                    role: Role::Backbone,
                    ..node.clone()
                });
            }
            let pop = &mut nodes[number as usize];
            pop.position = pop.position.or(node.position);
            pop.population = pop.population.or(node.population);
            if node.role != Role::Backbone {
                pop.role = Role::Any;
            }
        }
        let mut links: Vec<Link> = Vec::new();
        let mut by_ends: HashMap<(NodeId, NodeId), usize> = HashMap::new();
        for link in &self.links {
            let link = Link { from: place[link.from], to: place[link.to], ..*link };
            if link.from == link.to {
                continue;
            }
            let at = *by_ends.entry((link.from, link.to)).or_insert(links.len());
            match links.get_mut(at) {
                Some(known) => merge(known, &link),
                None => links.push(link),
            }
        }
        let mut sums: HashMap<(NodeId, NodeId), usize> = HashMap::new();
        let mut demands: Vec<Demand> = Vec::new();
        for demand in &self.demands {
            let ends = (place[demand.from], place[demand.to]);
            if ends.0 == ends.1 {
                continue;
            }
            let at = *sums.entry(ends).or_insert(demands.len());
            match demands.get_mut(at) {
                Some(known) => known.volume = (known.volume + demand.volume).min(f64::MAX),
                None => demands.push(Demand { from: ends.0, to: ends.1, volume: demand.volume }),
            }
        }
        let mut network = self.with_lists(nodes, links, demands);
        network.derivation.push(format!(
            "PoP level: {} PoPs of {} routers",
            network.nodes.len(),
            self.nodes.len()
        ));
        network
    }

    /// The `k` nodes with the most neighbors, most first, ties by id (see [`compare_ids`]); of a
    /// PoP-level map, the k PoPs of highest degree. Only nodes that may carry traffic count.
    pub fn highest_degree(&self, k: usize) -> Vec<NodeId> {
        let rank = self.degree_order();
        rank.into_iter().filter(|&node| self.nodes[node].role != Role::Backbone).take(k).collect()
    }

    /// The same network, in which only the `k` nodes of [`Network::highest_degree`] send and
    /// receive traffic; the others forward. Paths between them are those of the whole network
    /// (thesis, section 3.5, Figure 3.8). Demands of other nodes go.
    ///
    /// # Errors
    /// There are fewer nodes that carry traffic, or k is under 2; PoPs have several nodes.
    pub fn with_endpoints(&self, k: usize) -> Result<Self, Error> {
        self.check_pop_level()?;
        let possible = self.nodes.iter().filter(|node| node.role != Role::Backbone).count();
        if k > possible || k < 2 {
            return Err(TopologyError::PopCount {
                what: "PoPs of highest degree",
                asked: k,
                possible,
            }
            .into());
        }
        let mut network = self.clone();
        let chosen: HashSet<NodeId> = self.highest_degree(k).into_iter().collect();
        for (number, node) in network.nodes.iter_mut().enumerate() {
            if !chosen.contains(&NodeId::new(number)) {
                node.role = Role::Backbone;
            }
        }
        let gone = network.drop_demands_of_backbone();
        let demands =
            if gone > 0 { format!("; {gone} demands of others left out") } else { String::new() };
        network
            .derivation
            .push(format!("traffic between the {k} PoPs of highest degree (ties by id){demands}"));
        Ok(network)
    }

    /// A smaller network: `k` nodes and the links between them. Starting at the node of highest
    /// degree, the neighbor of highest degree in the whole network (ties by id) is added until
    /// there are k. These are the k of highest degree if those are connected among themselves; else
    /// some of them are replaced by what connects the rest, and the derivation says how many.
    /// Demands of other nodes go.
    ///
    /// # Errors
    /// A network that is not connected or has fewer nodes; k under 2; PoPs with several nodes.
    pub fn reduce(&self, k: usize) -> Result<Self, Error> {
        self.check_pop_level()?;
        self.check_connected()?;
        if k < 2 || k > self.nodes.len() {
            return Err(TopologyError::PopCount {
                what: "PoPs",
                asked: k,
                possible: self.nodes.len(),
            }
            .into());
        }
        if k == self.nodes.len() {
            return Ok(self.clone());
        }
        let order = self.degree_order();
        let mut rank = vec![0; order.len()];
        order.iter().zip(0_u32..).for_each(|(&node, at)| rank[node] = at);
        let neighbors = self.neighbors();
        let mut keep = vec![false; self.nodes.len()];
        let mut seen = vec![false; self.nodes.len()];
        let mut next = BinaryHeap::from([Reverse((0, order[0]))]);
        seen[order[0]] = true;
        for _ in 0..k {
            let Some(Reverse((_, node))) = next.pop() else { break };
            keep[node] = true;
            for &other in &neighbors[node] {
                if !std::mem::replace(&mut seen[other], true) {
                    next.push(Reverse((rank[other], other)));
                }
            }
        }
        let replaced = order[..k].iter().filter(|&&node| !keep[node]).count();
        let mut network = self.subset(&keep);
        let replaced = if replaced > 0 {
            format!("; {replaced} of them replaced by the next so that the rest is connected")
        } else {
            String::new()
        };
        network.derivation.push(format!(
            "reduced from {} to the {k} PoPs of highest degree (ties by id) and the links between them{replaced}",
            self.nodes.len()
        ));
        Ok(network)
    }

    /// The router-level network of a PoP-level one: `n` access routers in each PoP that carries
    /// traffic, each with a link of weight 1 and [`ACCESS_LATENCY`] to the PoP's node, which
    /// becomes its backbone router (thesis, section 3.4: 4 per PoP). Their ids are the PoP's with
    /// `/1` to `/n`. Demands stay those between PoPs.
    ///
    /// # Errors
    /// n is out of range, PoPs have several nodes, none carries traffic, or an id is taken or too
    /// long.
    pub fn with_access_routers(&self, n: u32) -> Result<Self, Error> {
        self.check_pop_level()?;
        if n == 0 || n > 10_000 {
            return Err(TopologyError::AccessRouters { asked: n }.into());
        }
        let pops = self.nodes.iter().filter(|node| node.role == Role::Any).count();
        if pops == 0 {
            return Err(TopologyError::NoTraffic.into());
        }
        if pops * n as usize > 1_000_000 {
            return Err(
                TopologyError::TooManyAccessRouters { asked: n, pops, most: 1_000_000 }.into()
            );
        }
        let ids: HashSet<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let mut network = self.clone();
        for (number, node) in
            self.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Any)
        {
            network.nodes[number].role = Role::Backbone;
            for router in 1..=n {
                let id = format!("{}/{router}", node.id);
                if ids.contains(id.as_str()) {
                    return Err(TopologyError::IdTaken { id }.into());
                }
                if id.len() > MAX_TEXT {
                    let id = quote(&id);
                    return Err(TopologyError::IdTooLong { id, most: MAX_TEXT }.into());
                }
                let at = NodeId::new(network.nodes.len());
                let suffix = format!("/{router}");
                let label = format!("{}{suffix}", cut(&node.label, MAX_TEXT - suffix.len()));
                network.nodes.push(Node { id, label, role: Role::Access, ..node.clone() });
                let link = Link {
                    from: at,
                    to: NodeId::new(number),
                    weight: 1.0,
                    latency: ACCESS_LATENCY,
                    capacity: None,
                };
                network.links.push(link);
                network.links.push(Link { from: NodeId::new(number), to: at, ..link });
            }
        }
        network.derivation.push(format!("{n} access routers in each of {pops} PoPs"));
        Ok(network)
    }

    /// The same network in which each cable whose capacity is not known has one of `choices`,
    /// drawn with a seed; both directions of a cable have the same (thesis, section 6.5:
    /// "uniformly at random from {2.5, 10} Gbps").
    pub fn with_random_capacities(&self, choices: &[BitRate], seed: u64) -> Self {
        let mut network = self.clone();
        let mut random = SplitMix64(seed);
        let mut drawn: HashMap<(NodeId, NodeId), BitRate> = HashMap::new();
        for link in network.links.iter_mut().filter(|link| link.capacity.is_none()) {
            let ends = (link.from.min(link.to), link.from.max(link.to));
            let capacity = *drawn
                .entry(ends)
                .or_insert_with(|| choices[random.below(choices.len() as u64) as usize]);
            link.capacity = Some(capacity);
        }
        let names: Vec<String> =
            choices.iter().map(|rate| format!("{} Gbit/s", rate.0 / 1e9)).collect();
        network
            .derivation
            .push(format!("unknown capacities drawn from {} with seed {seed}", names.join(" or ")));
        network
    }

    /// The same network with weights and latencies from great-circle distances, for maps without
    /// measured ones: weight 1 per 50 km, rounded, at least 1; 200 km per millisecond, at least 0.1
    /// ms. A link with an end that has no position gets weight 1 and 0.1 ms.
    #[must_use]
    pub fn with_distance_weights(&self) -> Self {
        let mut network = self.clone();
        for link in &mut network.links {
            (link.weight, link.latency) = by_distance(&self.nodes[link.from], &self.nodes[link.to]);
        }
        network.derivation.push("weights and latencies from distances".into());
        network
    }

    /// Numbers PoPs in the order of their first nodes.
    pub(super) fn renumber_pops(&mut self) {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for node in &mut self.nodes {
            let next = numbers.len() as u32;
            node.pop = *numbers.entry(node.pop).or_insert(next);
        }
    }

    /// Removes demands of PoPs that neither send nor receive, and returns their number.
    pub(super) fn drop_demands_of_backbone(&mut self) -> usize {
        let live: HashSet<u32> = self
            .nodes
            .iter()
            .filter(|node| node.role != Role::Backbone)
            .map(|node| node.pop)
            .collect();
        let before = self.demands.len();
        let nodes = &self.nodes;
        self.demands.retain(|demand| {
            [demand.from, demand.to].iter().all(|&end| live.contains(&nodes[end].pop))
        });
        before - self.demands.len()
    }

    /// One node per PoP, none of them an access router.
    fn check_pop_level(&self) -> Result<(), Error> {
        if let Some(node) = self.nodes.iter().find(|node| node.role == Role::Access) {
            return Err(TopologyError::HasAccessRouters { node: node.id.clone() }.into());
        }
        if self.pop_count() < self.nodes.len() {
            return Err(TopologyError::SeveralRoutersPerPop.into());
        }
        Ok(())
    }

    /// All nodes, those with the most neighbors first.
    fn degree_order(&self) -> Vec<NodeId> {
        let neighbors = self.neighbors();
        let mut order: Vec<NodeId> = NodeId::first(self.nodes.len()).collect();
        order.sort_by(|&a, &b| {
            let by_degree: Ordering = neighbors[b].len().cmp(&neighbors[a].len());
            by_degree.then_with(|| compare_ids(&self.nodes[a].id, &self.nodes[b].id))
        });
        order
    }

    /// Each node's neighbors, once each.
    fn neighbors(&self) -> Vec<Vec<NodeId>> {
        let mut neighbors = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            neighbors[link.from].push(link.to);
            neighbors[link.to].push(link.from);
        }
        for list in &mut neighbors {
            list.sort_unstable();
            list.dedup();
        }
        neighbors
    }

    /// The number of each node's component (its lowest node), links taken both ways.
    fn components(&self) -> Vec<NodeId> {
        let neighbors = self.neighbors();
        let mut component = vec![None; self.nodes.len()];
        for start in NodeId::first(self.nodes.len()) {
            let mut open = vec![start];
            while let Some(node) = open.pop() {
                if component[node].is_none() {
                    component[node] = Some(start);
                    open.extend(&neighbors[node]);
                }
            }
        }
        component.into_iter().flatten().collect()
    }

    /// Which nodes can be reached from one along links, or against them.
    fn reach(&self, start: NodeId, backward: bool) -> Vec<bool> {
        let mut next = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            let (from, to) = if backward { (link.to, link.from) } else { (link.from, link.to) };
            next[from].push(to);
        }
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(&next[node]);
            }
        }
        reached
    }

    /// Some of the nodes, the links and demands between them, PoPs renumbered.
    fn subset(&self, keep: &[bool]) -> Self {
        let mut number = vec![None; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|&(at, _)| keep[at]) {
            number[at] = Some(NodeId::new(nodes.len()));
            nodes.push(node.clone());
        }
        let ends = |from: NodeId, to: NodeId| number[from].zip(number[to]);
        let links = self
            .links
            .iter()
            .filter_map(|link| {
                ends(link.from, link.to).map(|(from, to)| Link { from, to, ..*link })
            })
            .collect();
        let demands = self
            .demands
            .iter()
            .filter_map(|demand| {
                ends(demand.from, demand.to).map(|(from, to)| Demand { from, to, ..*demand })
            })
            .collect();
        let mut network = self.with_lists(nodes, links, demands);
        network.renumber_pops();
        network
    }

    /// What is made of this network, with these lists.
    fn with_lists(&self, nodes: Vec<Node>, links: Vec<Link>, demands: Vec<Demand>) -> Self {
        Self {
            name: self.name.clone(),
            asn: self.asn,
            source: self.source.clone(),
            derivation: self.derivation.clone(),
            nodes,
            links,
            demands,
        }
    }
}
