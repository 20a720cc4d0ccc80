//! Routes of one block at given prices: a search by moves of groups of egresses.
//!
//! A group is taken off and put back, its largest egress first, each by a shortest path on which a
//! link costs what it does not carry yet. Paths are not held to be a tree while the search runs:
//! that makes it stick. The repair at the end makes them one.

use std::collections::BTreeSet;

use super::reduce::{Block, Paths};
use crate::{LinkId, NodeId, routing::dijkstra::Search};

/// Prices of a byte per link of a block: of each byte once, as links with elimination carry them,
/// and of each copy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prices {
    pub once: Vec<f64>,
    pub copy: Vec<f64>,
}

impl Prices {
    /// Of these links.
    pub(crate) fn of(&self, links: &[LinkId]) -> Self {
        Self {
            once: links.iter().map(|&link| self.once[link]).collect(),
            copy: links.iter().map(|&link| self.copy[link]).collect(),
        }
    }

    /// Of a byte on its own.
    pub(crate) fn lengths(&self) -> Vec<f64> {
        self.once.iter().zip(&self.copy).map(|(once, copy)| once + copy).collect()
    }
}

/// Shortest paths, each egress on its own, as if nothing were eliminated twice.
pub(crate) fn shortest(block: &Block, lengths: &[f64], search: &mut Search) -> Option<Paths> {
    run(block, lengths, search);
    block.egresses.iter().map(|&egress| search.links_to(&block.graph, egress)).collect()
}

fn run(block: &Block, lengths: &[f64], search: &mut Search) {
    // Nodes and links have the order of their ids, which breaks ties.
    search.run(&block.graph, block.entry, |link| lengths[link], |_| true, |one, other| one < other);
}

/// What paths cost.
pub(crate) fn cost(block: &Block, prices: &Prices, paths: &[Vec<LinkId>]) -> f64 {
    let mut state = State::new(block, prices);
    for (egress, path) in paths.iter().enumerate() {
        state.put(egress, path.clone());
    }
    state.cost
}

/// Bytes on each link of the block: once, and with all copies.
pub(crate) fn loads(block: &Block, paths: &[Vec<LinkId>]) -> (Vec<f64>, Vec<f64>) {
    let links = block.links.len();
    let unit = Prices { once: vec![1.0; links], copy: vec![0.0; links] };
    let mut state = State::new(block, &unit);
    let mut once = vec![0.0; links];
    let mut copies = vec![0.0; links];
    for (egress, path) in paths.iter().enumerate() {
        state.price(egress);
        for &link in path {
            once[link] += state.lengths[link];
            copies[link] += block.content.copies[egress];
        }
        state.set(egress, path.clone());
    }
    (once, copies)
}

/// Improves paths until no group's move helps. Returns them with their cost.
pub(crate) fn improve(
    block: &Block,
    prices: &Prices,
    paths: Paths,
    search: &mut Search,
    stopped: &dyn Fn() -> bool,
) -> (Paths, f64) {
    let mut state = State::new(block, prices);
    for (egress, path) in paths.into_iter().enumerate() {
        state.put(egress, path);
    }
    // More sweeps than this have not been seen to matter; each is a strict improvement.
    const SWEEPS: usize = 50;
    let mut tried: BTreeSet<(usize, Vec<u16>)> = BTreeSet::new();
    for _ in 0..SWEEPS {
        let groups: Vec<Vec<u16>> = state.groups().into_iter().collect();
        let mut any = false;
        for group in groups {
            if stopped() {
                return (state.paths, state.cost);
            }
            // Nothing has changed since it was tried without success.
            let key = (state.version, group);
            if tried.contains(&key) {
                continue;
            }
            any |= state.try_group(&key.1, search);
            if key.0 == state.version {
                tried.insert(key);
            }
        }
        if !any {
            break;
        }
        tried.retain(|key| key.0 == state.version);
    }
    (state.paths, state.cost)
}

/// Paths, and what they cost.
struct State<'a> {
    block: &'a Block,
    prices: &'a Prices,
    /// Empty for an egress that is off.
    paths: Paths,
    on: Vec<bool>,
    cost: f64,
    /// Counts changes.
    version: usize,
    // Of `price`.
    lengths: Vec<f64>,
    seen: Vec<u32>,
    mark: u32,
}

impl<'a> State<'a> {
    fn new(block: &'a Block, prices: &'a Prices) -> Self {
        let (egresses, links) = (block.egresses.len(), block.links.len());
        Self {
            block,
            prices,
            paths: vec![Vec::new(); egresses],
            on: vec![false; egresses],
            cost: 0.0,
            version: 0,
            lengths: vec![0.0; links],
            seen: vec![0; links],
            mark: 0,
        }
    }

    fn set(&mut self, egress: usize, path: Vec<LinkId>) {
        self.paths[egress] = path;
        self.on[egress] = true;
    }

    /// Puts an egress on a path. Returns what that costs more.
    fn put(&mut self, egress: usize, path: Vec<LinkId>) -> f64 {
        self.price(egress);
        let by: f64 = path.iter().map(|&link| self.lengths[link]).sum();
        self.set(egress, path);
        self.cost += by;
        by
    }

    /// Takes an egress off.
    fn take(&mut self, egress: usize) -> Vec<LinkId> {
        self.on[egress] = false;
        self.price(egress);
        let path = std::mem::take(&mut self.paths[egress]);
        self.cost -= path.iter().map(|&link| self.lengths[link]).sum::<f64>();
        path
    }

    /// Sets `lengths` to what each link costs more with an egress that is off.
    fn price(&mut self, egress: usize) {
        let content = &self.block.content;
        self.lengths.fill(0.0);
        for shared in content.shared(egress) {
            let other = shared.other as usize;
            if self.on[other] {
                for &link in &self.paths[other] {
                    self.lengths[link] += shared.bytes;
                }
            }
        }
        for &set in content.sets_of(egress) {
            let set = &content.sets[set as usize];
            self.mark += 1;
            for &other in &set.egresses {
                let other = other as usize;
                if other == egress || !self.on[other] {
                    continue;
                }
                for &link in &self.paths[other] {
                    if self.seen[link] != self.mark {
                        self.seen[link] = self.mark;
                        self.lengths[link] += set.bytes;
                    }
                }
            }
        }
        self.finish(content.unique[egress], content.copies[egress]);
    }

    /// The same for a group whose egresses are all off, as if all took one path.
    fn price_group(&mut self, group: &[u16]) {
        let content = &self.block.content;
        self.lengths.fill(0.0);
        let (mut unique, mut copies) = (0.0, 0.0);
        let inside = |egress: u16| group.binary_search(&egress).is_ok();
        for &egress in group {
            unique += content.own[egress as usize];
            copies += content.copies[egress as usize];
            for shared in content.shared(egress as usize) {
                if inside(shared.other) {
                    // Met twice.
                    unique += shared.bytes / 2.0;
                    continue;
                }
                unique += shared.bytes;
                if self.on[shared.other as usize] {
                    for &link in &self.paths[shared.other as usize] {
                        self.lengths[link] += shared.bytes;
                    }
                }
            }
            for &set in content.sets_of(egress as usize) {
                let set = &content.sets[set as usize];
                // Counted with the first of the group's egresses in it.
                if set.egresses.iter().copied().find(|&other| inside(other)) != Some(egress) {
                    continue;
                }
                unique += set.bytes;
                self.mark += 1;
                for &other in set.egresses.iter().filter(|&&other| self.on[other as usize]) {
                    for &link in &self.paths[other as usize] {
                        if self.seen[link] != self.mark {
                            self.seen[link] = self.mark;
                            self.lengths[link] += set.bytes;
                        }
                    }
                }
            }
        }
        self.finish(unique, copies);
    }

    /// From bytes that links carry already to what they cost more.
    fn finish(&mut self, unique: f64, copies: f64) {
        let prices = self.prices.once.iter().zip(&self.prices.copy);
        for (length, (once, copy)) in self.lengths.iter_mut().zip(prices) {
            *length = once * (unique - *length).max(0.0) + copy * copies;
        }
    }

    /// Groups to move: each egress, those behind each used link, and and in small blocks
    /// those behind two used links that leave one node; small ones first.
    fn groups(&self) -> Vec<Vec<u16>> {
        let mut behind: Vec<Vec<u16>> = vec![Vec::new(); self.block.links.len()];
        for (path, egress) in self.paths.iter().zip(0..) {
            path.iter().for_each(|&link| behind[link].push(egress));
        }
        // On public maps they find nothing more, and there they would double the time.
        const FEW: usize = 16;
        let nodes = if self.paths.len() <= FEW { self.block.graph.nodes() } else { 0 };
        let mut of_two = Vec::new();
        for node in NodeId::first(nodes) {
            let out = self.block.graph.out(node);
            let used: Vec<_> = out.iter().filter(|&&link| !behind[link].is_empty()).collect();
            for (at, &&one) in used.iter().enumerate() {
                for &&other in &used[at + 1..] {
                    let mut group = [&behind[one][..], &behind[other][..]].concat();
                    group.sort_unstable();
                    group.dedup();
                    of_two.push(group);
                }
            }
        }
        behind.extend(of_two);
        behind.extend((0..self.paths.len()).map(|egress| vec![egress as u16]));
        behind.retain(|group| !group.is_empty());
        behind.sort_by(|one, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
        behind.dedup();
        behind
    }

    /// Moves a group if that costs less. The group is sorted.
    fn try_group(&mut self, group: &[u16], search: &mut Search) -> bool {
        let before = self.cost;
        let mut largest_first = group.to_vec();
        largest_first.sort_by(|&one, &other| {
            let unique = |egress: u16| self.block.content.unique[egress as usize];
            unique(other).total_cmp(&unique(one)).then(one.cmp(&other))
        });
        let old: Vec<Vec<LinkId>> =
            group.iter().map(|&egress| self.take(egress as usize)).collect();
        let off = self.cost;
        let least = before - 1e-11 * before.abs();
        let mut best: Option<(f64, Vec<Vec<LinkId>>)> = None;
        // Each for itself; then the first one for all, so that it opens a way for the others.
        for together in [false, true] {
            if together && group.len() == 1 {
                break;
            }
            for (at, &egress) in largest_first.iter().enumerate() {
                if together && at == 0 {
                    self.price_group(group);
                } else {
                    self.price(egress as usize);
                }
                run(self.block, &self.lengths, search);
                let to = self.block.egresses[egress as usize];
                let path = search.links_to(&self.block.graph, to).unwrap_or_default();
                self.put(egress as usize, path);
                if self.cost >= least {
                    // Costs only grow.
                    break;
                }
            }
            let put: Vec<u16> =
                group.iter().copied().filter(|&egress| self.on[egress as usize]).collect();
            if put.len() == group.len()
                && self.cost < least
                && best.as_ref().is_none_or(|best| self.cost < best.0)
            {
                let paths =
                    group.iter().map(|&egress| self.paths[egress as usize].clone()).collect();
                best = Some((self.cost, paths));
            }
            for egress in put {
                self.on[egress as usize] = false;
                self.paths[egress as usize].clear();
            }
            self.cost = off;
        }
        let found = best.is_some();
        let paths = best.map_or(old, |best| best.1);
        for (&egress, path) in group.iter().zip(paths) {
            if found {
                self.put(egress as usize, path);
            } else {
                self.set(egress as usize, path);
            }
        }
        if found {
            self.version += 1;
        } else {
            self.cost = before;
        }
        found
    }
}

/// Nodes that paths come to by more than one link, with those links.
fn conflicts(block: &Block, paths: &[Vec<LinkId>]) -> Vec<(NodeId, Vec<LinkId>)> {
    let mut by: Vec<Vec<LinkId>> = vec![Vec::new(); block.graph.nodes()];
    for link in paths.iter().flatten() {
        let list = &mut by[block.graph.ends[*link].1];
        if !list.contains(link) {
            list.push(*link);
        }
    }
    NodeId::all().zip(by).filter(|(_, list)| list.len() > 1).collect()
}

/// Makes paths a tree: of the links that lead to a node, one is kept, and all paths through the
/// node come the same way to it, whichever costs least. Where that does not end, or is stopped,
/// the tree of shortest paths over the links in use.
pub(crate) fn to_tree(
    block: &Block,
    prices: &Prices,
    paths: Paths,
    search: &mut Search,
    stopped: &dyn Fn() -> bool,
) -> (Paths, f64) {
    let mut paths = paths;
    for _ in 0..block.graph.nodes() {
        let Some((node, _)) = conflicts(block, &paths).into_iter().next() else {
            let cost = cost(block, prices, &paths);
            return (paths, cost);
        };
        if stopped() {
            break;
        }
        // Ways to the node, each once.
        let end = |link: &LinkId| block.graph.ends[*link].1;
        let ways: BTreeSet<Vec<LinkId>> = paths
            .iter()
            .filter_map(|path| {
                let at = path.iter().position(|link| end(link) == node)?;
                Some(path[..=at].to_vec())
            })
            .collect();
        let mut best: Option<(f64, Paths)> = None;
        for way in ways {
            let mut on_way = vec![false; block.graph.nodes()];
            on_way[block.entry] = true;
            way.iter().for_each(|link| on_way[end(link)] = true);
            let changed: Paths = paths
                .iter()
                .map(|path| match path.iter().position(|link| end(link) == node) {
                    None => path.clone(),
                    Some(at) => {
                        // Where the rest comes back to the way, it leaves it from there.
                        let rest = &path[at + 1..];
                        let again = rest.iter().rposition(|link| on_way[end(link)]);
                        match again {
                            None => way.iter().chain(rest).copied().collect(),
                            Some(last) => {
                                let back = end(&rest[last]);
                                let keep = way
                                    .iter()
                                    .position(|link| end(link) == back)
                                    .map_or(0, |place| place + 1);
                                way[..keep].iter().chain(&rest[last + 1..]).copied().collect()
                            }
                        }
                    }
                })
                .collect();
            let cost = cost(block, prices, &changed);
            if best.as_ref().is_none_or(|best| cost < best.0) {
                best = Some((cost, changed));
            }
        }
        match best {
            Some((_, changed)) => paths = changed,
            None => break,
        }
    }
    let mut used = vec![false; block.links.len()];
    paths.iter().flatten().for_each(|&link| used[link] = true);
    let lengths: Vec<f64> = used
        .iter()
        .zip(prices.once.iter().zip(&prices.copy))
        .map(|(used, (once, copy))| if *used { once + copy } else { f64::INFINITY })
        .collect();
    if !conflicts(block, &paths).is_empty()
        && let Some(tree) = shortest(block, &lengths, search)
    {
        paths = tree;
    }
    let cost = cost(block, prices, &paths);
    (paths, cost)
}
