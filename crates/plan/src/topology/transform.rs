//! One network from another. Each leaves a line in [`Network::derivation`].

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeSet, BinaryHeap, HashMap, HashSet},
};

use super::{by_distance, merge};
use crate::{
    Error, Network,
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
    /// They do not; names two nodes of which the second cannot be reached from the first.
    pub fn check_connected(&self) -> Result<(), Error> {
        let components = self.components();
        let split = |from: &Node, to: &Node, why: &str| {
            Err(Error::Topology(format!("{} cannot be reached from {}: {why}", to.id, from.id)))
        };
        if let Some(other) = components.iter().position(|&component| component != 0) {
            let parts = components.iter().copied().collect::<BTreeSet<_>>().len();
            return split(&self.nodes[0], &self.nodes[other], &format!("the network is in {parts} parts"));
        }
        for backward in [false, true] {
            let reached = self.reach(0, backward);
            if let Some(other) = reached.iter().position(|&reached| !reached) {
                let (from, to) = if backward { (other, 0) } else { (0, other) };
                return split(&self.nodes[from], &self.nodes[to], "links lead only the other way");
            }
        }
        Ok(())
    }

    /// The largest part of the network that is connected (links taken both ways); of equal ones that of the first node. Demands of other nodes go.
    #[must_use]
    pub fn largest_component(&self) -> Self {
        let components = self.components();
        let mut sizes: HashMap<u32, usize> = HashMap::new();
        components.iter().for_each(|&component| *sizes.entry(component).or_default() += 1);
        let Some((&largest, &size)) = sizes.iter().max_by_key(|&(&component, &size)| (size, Reverse(component))) else {
            return self.clone();
        };
        if size == self.nodes.len() {
            return self.clone();
        }
        let keep: Vec<bool> = components.iter().map(|&component| component == largest).collect();
        let mut network = self.subset(&keep);
        network.derivation.push(format!("largest connected component: {size} of {} nodes", self.nodes.len()));
        network
    }

    /// The PoP-level map of a router-level one: a node per PoP, links between PoPs merged as parallel ones are (lowest weight), demands added up. A
    /// PoP has the name of its city, or of its first router if that is unknown, and the position and population of its first router that has them.
    /// It carries traffic if one of its routers does.
    #[must_use]
    pub fn to_pops(&self) -> Self {
        let mut number_of: HashMap<u32, u32> = HashMap::new();
        let mut nodes: Vec<Node> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        let mut place = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let next = nodes.len() as u32;
            let number = *number_of.entry(node.pop).or_insert(next);
            place.push(number);
            if number == next {
                let name = node.city.clone().unwrap_or_else(|| node.id.clone());
                // Two PoPs may be in one city; ids stay unique.
                let id = if names.contains(&name) { node.id.clone() } else { name.clone() };
                let id = if names.contains(&id) {
                    let free = (next..).map(|number| format!("{name} ({number})")).find(|id| !names.contains(id));
                    free.expect("a network has fewer nodes than there are numbers")
                } else {
                    id
                };
                names.insert(id.clone());
                nodes.push(Node { id, label: name, pop: next, role: Role::Backbone, ..node.clone() });
            }
            let pop = &mut nodes[number as usize];
            pop.position = pop.position.or(node.position);
            pop.population = pop.population.or(node.population);
            if node.role != Role::Backbone {
                pop.role = Role::Any;
            }
        }
        let mut links: Vec<Link> = Vec::new();
        let mut by_ends: HashMap<(u32, u32), usize> = HashMap::new();
        for link in &self.links {
            let link = Link { from: place[link.from as usize], to: place[link.to as usize], ..*link };
            if link.from == link.to {
                continue;
            }
            let at = *by_ends.entry((link.from, link.to)).or_insert(links.len());
            match links.get_mut(at) {
                Some(known) => merge(known, &link),
                None => links.push(link),
            }
        }
        let mut sums: HashMap<(u32, u32), usize> = HashMap::new();
        let mut demands: Vec<Demand> = Vec::new();
        for demand in &self.demands {
            let ends = (place[demand.from as usize], place[demand.to as usize]);
            if ends.0 == ends.1 {
                continue;
            }
            let at = *sums.entry(ends).or_insert(demands.len());
            match demands.get_mut(at) {
                Some(known) => known.volume = (known.volume + demand.volume).min(f64::MAX),
                None => demands.push(Demand { from: ends.0, to: ends.1, volume: demand.volume }),
            }
        }
        let mut network = Self { nodes, links, demands, derivation: self.derivation.clone(), ..self.without_lists() };
        network.derivation.push(format!("PoP level: {} PoPs of {} routers", network.nodes.len(), self.nodes.len()));
        network
    }

    /// The `k` nodes with the most neighbours, most first, ties by id (see [`compare_ids`]); of a PoP-level map, the k PoPs of highest degree. Only
    /// nodes that may carry traffic count.
    pub fn highest_degree(&self, k: usize) -> Vec<u32> {
        let rank = self.degree_order();
        rank.into_iter().filter(|&node| self.nodes[node as usize].role != Role::Backbone).take(k).collect()
    }

    /// The same network, in which only the `k` nodes of [`Network::highest_degree`] send and receive traffic; the others forward. Paths between
    /// them are those of the whole network (thesis, section 3.5, Figure 3.8). Demands of other nodes go.
    ///
    /// # Errors
    /// There are fewer nodes that carry traffic, or k is under 2; PoPs have several nodes.
    pub fn with_endpoints(&self, k: usize) -> Result<Self, Error> {
        self.check_pop_level()?;
        let possible = self.nodes.iter().filter(|node| node.role != Role::Backbone).count();
        if k > possible || k < 2 {
            return Err(Error::Topology(format!("{k} PoPs of highest degree are asked for; 2 to {possible} are possible")));
        }
        let mut network = self.clone();
        let chosen: HashSet<u32> = self.highest_degree(k).into_iter().collect();
        for (number, node) in network.nodes.iter_mut().enumerate() {
            if !chosen.contains(&(number as u32)) {
                node.role = Role::Backbone;
            }
        }
        let gone = network.drop_demands_of_backbone();
        let demands = if gone > 0 { format!("; {gone} demands of others left out") } else { String::new() };
        network.derivation.push(format!("traffic between the {k} PoPs of highest degree (ties by id){demands}"));
        Ok(network)
    }

    /// A smaller network: `k` nodes and the links between them. From the node of highest degree on, the neighbour of highest degree in the whole
    /// network (ties by id) is added until there are k. These are the k of highest degree if those are connected among themselves; else some of
    /// them are replaced by what connects the rest, and the derivation says how many. Demands of other nodes go.
    ///
    /// # Errors
    /// A network that is not connected or has fewer nodes; k under 2; PoPs with several nodes.
    pub fn reduce(&self, k: usize) -> Result<Self, Error> {
        self.check_pop_level()?;
        self.check_connected()?;
        if k < 2 || k > self.nodes.len() {
            return Err(Error::Topology(format!("{k} PoPs are asked for; 2 to {} are possible", self.nodes.len())));
        }
        if k == self.nodes.len() {
            return Ok(self.clone());
        }
        let order = self.degree_order();
        let mut rank = vec![0; order.len()];
        order.iter().zip(0_u32..).for_each(|(&node, at)| rank[node as usize] = at);
        let neighbours = self.neighbours();
        let mut keep = vec![false; self.nodes.len()];
        let mut seen = vec![false; self.nodes.len()];
        let mut next = BinaryHeap::from([Reverse((0, order[0]))]);
        seen[order[0] as usize] = true;
        for _ in 0..k {
            let Some(Reverse((_, node))) = next.pop() else { break };
            keep[node as usize] = true;
            for &other in &neighbours[node as usize] {
                if !std::mem::replace(&mut seen[other as usize], true) {
                    next.push(Reverse((rank[other as usize], other)));
                }
            }
        }
        let replaced = order[..k].iter().filter(|&&node| !keep[node as usize]).count();
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

    /// The router-level network of a PoP-level one: `n` access routers in each PoP that carries traffic, each with a link of weight 1 and
    /// [`ACCESS_LATENCY`] to the PoP's node, which becomes its backbone router (thesis, section 3.4: 4 per PoP). Their ids are the PoP's with `/1`
    /// to `/n`. Demands stay those between PoPs.
    ///
    /// # Errors
    /// n is 0 or out of all proportion, PoPs have several nodes, none carries traffic, or an id is taken.
    pub fn with_access_routers(&self, n: u32) -> Result<Self, Error> {
        self.check_pop_level()?;
        if n == 0 || n > 10_000 {
            return Err(Error::Topology(format!("{n} access routers per PoP are asked for; 1 to 10000 are possible")));
        }
        let pops = self.nodes.iter().filter(|node| node.role == Role::Any).count();
        if pops == 0 {
            return Err(Error::Topology("no PoP carries traffic".into()));
        }
        if pops * n as usize > 1_000_000 {
            return Err(Error::Topology(format!(
                "{n} access routers in each of {pops} PoPs are too many; at most 1000000 in all"
            )));
        }
        let ids: HashSet<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let mut network = self.clone();
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Any) {
            network.nodes[number].role = Role::Backbone;
            for router in 1..=n {
                let id = format!("{}/{router}", node.id);
                if ids.contains(id.as_str()) {
                    return Err(Error::Topology(format!("the id {id} is taken; access routers would need it")));
                }
                let at = network.nodes.len() as u32;
                let label = format!("{}/{router}", node.label);
                network.nodes.push(Node { id, label, role: Role::Access, ..node.clone() });
                let link = Link { from: at, to: number as u32, weight: 1.0, latency: ACCESS_LATENCY, capacity: None };
                network.links.push(link);
                network.links.push(Link { from: number as u32, to: at, ..link });
            }
        }
        network.derivation.push(format!("{n} access routers in each of {pops} PoPs"));
        Ok(network)
    }

    /// The same network with weights and latencies from great-circle distances, for maps without measured ones: weight 1 per 50 km, rounded, at
    /// least 1; 200 km per millisecond, at least 0.1 ms. A link with an end that has no position gets weight 1 and 0.1 ms.
    #[must_use]
    pub fn with_distance_weights(&self) -> Self {
        let mut network = self.clone();
        for link in &mut network.links {
            (link.weight, link.latency) = by_distance(&self.nodes[link.from as usize], &self.nodes[link.to as usize]);
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

    /// Removes demands of PoPs in which nobody sends or receives; how many.
    pub(super) fn drop_demands_of_backbone(&mut self) -> usize {
        let live: HashSet<u32> = self.nodes.iter().filter(|node| node.role != Role::Backbone).map(|node| node.pop).collect();
        let before = self.demands.len();
        let nodes = &self.nodes;
        self.demands.retain(|demand| [demand.from, demand.to].iter().all(|&end| live.contains(&nodes[end as usize].pop)));
        before - self.demands.len()
    }

    /// One node per PoP, none of them an access router.
    fn check_pop_level(&self) -> Result<(), Error> {
        if let Some(node) = self.nodes.iter().find(|node| node.role == Role::Access) {
            return Err(Error::Topology(format!("the network has access routers already ({})", node.id)));
        }
        if self.pop_count() < self.nodes.len() {
            return Err(Error::Topology("the map has several routers per PoP; reduce it to PoPs first".into()));
        }
        Ok(())
    }

    /// All nodes, those with the most neighbours first.
    fn degree_order(&self) -> Vec<u32> {
        let neighbours = self.neighbours();
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        order.sort_by(|&a, &b| {
            let by_degree: Ordering = neighbours[b as usize].len().cmp(&neighbours[a as usize].len());
            by_degree.then_with(|| compare_ids(&self.nodes[a as usize].id, &self.nodes[b as usize].id))
        });
        order
    }

    /// Each node's neighbours, once each.
    fn neighbours(&self) -> Vec<Vec<u32>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            neighbours[link.from as usize].push(link.to);
            neighbours[link.to as usize].push(link.from);
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup();
        }
        neighbours
    }

    /// The number of each node's component (its lowest node), links taken both ways.
    fn components(&self) -> Vec<u32> {
        let neighbours = self.neighbours();
        let mut component = vec![u32::MAX; self.nodes.len()];
        for start in 0..self.nodes.len() as u32 {
            let mut open = vec![start];
            while let Some(node) = open.pop() {
                if component[node as usize] == u32::MAX {
                    component[node as usize] = start;
                    open.extend(&neighbours[node as usize]);
                }
            }
        }
        component
    }

    /// Which nodes can be reached from one along links, or against them.
    fn reach(&self, start: u32, backward: bool) -> Vec<bool> {
        let mut next = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            let (from, to) = if backward { (link.to, link.from) } else { (link.from, link.to) };
            next[from as usize].push(to);
        }
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node as usize], true) {
                open.extend(&next[node as usize]);
            }
        }
        reached
    }

    /// Some of the nodes, the links and demands between them, PoPs renumbered.
    fn subset(&self, keep: &[bool]) -> Self {
        let mut number = vec![u32::MAX; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|&(at, _)| keep[at]) {
            number[at] = nodes.len() as u32;
            nodes.push(node.clone());
        }
        let ends = |from: u32, to: u32| {
            let ends = (number[from as usize], number[to as usize]);
            (ends.0 != u32::MAX && ends.1 != u32::MAX).then_some(ends)
        };
        let links =
            self.links.iter().filter_map(|link| ends(link.from, link.to).map(|(from, to)| Link { from, to, ..*link })).collect();
        let demands = self
            .demands
            .iter()
            .filter_map(|demand| ends(demand.from, demand.to).map(|(from, to)| Demand { from, to, ..*demand }))
            .collect();
        let mut network = Self { nodes, links, demands, derivation: self.derivation.clone(), ..self.without_lists() };
        network.renumber_pops();
        network
    }

    /// Name and source only.
    fn without_lists(&self) -> Self {
        Self { name: self.name.clone(), asn: self.asn, source: self.source.clone(), ..Self::default() }
    }
}
