//! A lower bound for the routes of one block, and its routes.
//!
//! Divide every class's bytes on every link among its egresses, in any way. The shortest distance
//! to each egress, with its parts as lengths, is no more than what it pays on any routes; so the
//! sum of these distances is a bound, whatever the division. A subgradient ascent raises it: an
//! egress whose path takes a link pays more of what it shares there with egresses whose paths do
//! not. The step has no bytes or prices in it; with them it stalls (Polyak's step with the known
//! target is otherwise as usual).

use oncewire_kernels::random::SplitMix64;

use super::{
    reduce::{Block, Paths},
    tree::{self, Prices},
};
use crate::routing::dijkstra::Search;

/// How the bytes that egresses share are divided, on the links where that is not equally.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Division {
    /// Row of each link, or [`NONE`]: divided equally.
    row: Vec<u32>,
    /// Per row and pair, the part of the first egress.
    pairs: Vec<f32>,
    /// Per row, set and egress of it, that egress's part.
    sets: Vec<f32>,
}

const NONE: u32 = u32::MAX;

impl Division {
    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        4 * (self.pairs.len() + self.sets.len())
    }

    fn new(links: usize) -> Self {
        Self { row: vec![NONE; links], ..Self::default() }
    }
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Relative gap that is good enough.
    pub gap: f64,
    /// Most rounds of the ascent.
    pub rounds: u32,
}

/// Routes and bound of a block.
#[derive(Clone, Debug)]
pub(crate) struct Solved {
    pub paths: Paths,
    /// What they cost.
    pub value: f64,
    /// No paths cost less, however they are split.
    pub bound: f64,
    /// The division that proves the bound.
    pub division: Division,
    /// Rounds of the ascent.
    pub rounds: u32,
    /// What making the paths a tree costs, as a part of the value.
    pub repair: f64,
}

/// Rounds between searches that begin with the ascent's own paths.
const RESTART: u32 = 25;
/// Rounds without [`PROGRESS`] after which the step is shortened.
const PATIENCE: u32 = 30;
/// Relative progress that counts.
const PROGRESS: f64 = 1e-4;
/// What the step is multiplied with then.
const SHORTER: f64 = 0.6;
/// Step at which nothing more is to be expected.
const SHORTEST: f64 = 0.02;
/// Egresses up to which a block is small: searches there take no time.
const SMALL: usize = 12;
/// Rounds from which on a search is to find the best routes, not just better ones.
const THOROUGH: u32 = 100;
/// Searches that begin with random trees in small blocks whose gap is left open.
const RANDOM: u64 = 60;

/// Best routes found for a block at prices, and a bound. `begin` are paths to begin with beside
/// the shortest ones, `division` that of an earlier bound of the same block. Once stopped, the
/// best paths so far and what is proven for them; without any search yet, `begin` or the shortest
/// paths.
// More than 100 lines: routes and bound improve in turn, and either may end it.
pub(crate) fn solve(
    block: &Block,
    prices: &Prices,
    begin: Option<Paths>,
    division: Option<Division>,
    effort: Effort,
    stopped: &dyn Fn() -> bool,
) -> Solved {
    let mut search = Search::new(&block.graph);
    let mut ascent = Ascent::new(block, prices, division);
    if block.content.pairs.is_empty() && block.content.sets.is_empty() {
        return unshared(block, prices, ascent, &mut search, stopped);
    }
    if stopped() {
        return at_once(block, prices, begin, ascent.division, &mut search);
    }
    // Known routes and a known division may do: then nothing is searched.
    let warm = begin.as_ref().filter(|_| ascent.warm);
    if let Some(begin) = warm {
        let value = tree::cost(block, prices, begin);
        let bound = ascent.distances(&mut search);
        if value - bound <= effort.gap * value.abs() {
            let (paths, division) = (begin.clone(), ascent.division.clone());
            let bound = certify(block, prices, &division, &mut search).min(value);
            return Solved { paths, value, bound, division, rounds: 1, repair: 0.0 };
        }
    }
    let searches = warm.is_none();
    // `Problem::new` has made sure that there are paths.
    let shortest = tree::shortest(block, &prices.lengths(), &mut search).unwrap_or_default();
    let single = block.egresses.len() == 1;
    let mut best = if stopped() || !searches {
        let cost = tree::cost(block, prices, &shortest);
        (shortest, cost)
    } else {
        tree::improve(block, prices, shortest, &mut search, stopped)
    };
    if let Some(begin) = begin.filter(|_| !single) {
        let other = tree::improve(block, prices, begin, &mut search, stopped);
        if other.1 < best.1 {
            best = other;
        }
    }
    let before = best.1;
    best = tree::to_tree(block, prices, best.0, &mut search, stopped);
    let mut repair = best.1 - before;
    let mut bound = f64::NEG_INFINITY;
    let mut kept = Division::default();
    let (mut beta, mut waited, mut mark) = (1.0, 0, f64::NEG_INFINITY);
    let mut rounds = 0;
    while rounds < effort.rounds.max(1) {
        let value = ascent.distances(&mut search);
        rounds += 1;
        if value > bound {
            bound = value;
            kept.clone_from(&ascent.division);
        }
        if best.1 - bound <= effort.gap * best.1.abs() || stopped() || single {
            break;
        }
        if rounds % RESTART == 0 {
            let other = tree::improve(block, prices, ascent.paths.clone(), &mut search, stopped);
            let before = other.1;
            if before < best.1 {
                let made = tree::to_tree(block, prices, other.0, &mut search, stopped);
                take_better(&mut best, &mut repair, made, before);
            }
        }
        if bound > mark + PROGRESS * bound.abs() {
            (mark, waited) = (bound, 0);
        } else {
            waited += 1;
            if waited >= PATIENCE {
                beta *= SHORTER;
                waited = 0;
                ascent.begin_again(&kept);
                if beta < SHORTEST {
                    break;
                }
                continue;
            }
        }
        if !ascent.step(beta * (best.1 - value)) {
            break;
        }
    }
    // Not while a master asks for any better tree.
    let thorough = effort.rounds >= THOROUGH && searches;
    if thorough && !single && block.egresses.len() <= SMALL {
        for seed in 0..RANDOM {
            if best.1 - bound <= effort.gap * best.1.abs() || stopped() {
                break;
            }
            let (made, before) = at_random(block, prices, seed, &mut search, stopped);
            take_better(&mut best, &mut repair, made, before);
        }
    }
    // From the division alone, summed in a fixed order: the sums of the ascent have drifted.
    let bound = certify(block, prices, &kept, &mut search).min(best.1);
    let repair = if best.1 > 0.0 { repair.max(0.0) / best.1 } else { 0.0 };
    Solved { paths: best.0, value: best.1, bound, division: kept, rounds, repair }
}

/// Nothing is shared: shortest paths are best.
fn unshared(
    block: &Block,
    prices: &Prices,
    mut ascent: Ascent<'_>,
    search: &mut Search,
    stopped: &dyn Fn() -> bool,
) -> Solved {
    let bound = ascent.distances(search);
    let (paths, value) = tree::to_tree(block, prices, ascent.paths, search, stopped);
    let repair = if value > 0.0 { (value - bound).max(0.0) / value } else { 0.0 };
    let division = ascent.division;
    Solved { paths, value, bound: bound.min(value), division, rounds: 1, repair }
}

/// Takes a tree that is better than the best, and what it cost to make paths of cost `before` one.
fn take_better(best: &mut (Paths, f64), repair: &mut f64, made: (Paths, f64), before: f64) {
    if made.1 < best.1 {
        *repair = made.1 - before;
        *best = made;
    }
}

/// The least that gives routes and a bound: one search. The bytes are divided equally, and an
/// egress's part is no more than its copies, so these lengths are at most the real ones.
fn at_once(
    block: &Block,
    prices: &Prices,
    begin: Option<Paths>,
    division: Division,
    search: &mut Search,
) -> Solved {
    let equal = Ascent::new(block, prices, None).equal;
    let shortest = tree::shortest(block, &prices.lengths(), search).unwrap_or_default();
    let to = block.egresses.iter().zip(&equal);
    let bound: f64 = to.map(|(&to, bytes)| bytes.max(0.0) * search.distance(to)).sum();
    let paths = begin.unwrap_or(shortest);
    let value = tree::cost(block, prices, &paths);
    Solved { paths, value, bound: bound.min(value), division, rounds: 1, repair: 0.0 }
}

/// A tree from paths over lengths at random; its cost, and that of the paths.
fn at_random(
    block: &Block,
    prices: &Prices,
    seed: u64,
    search: &mut Search,
    stopped: &dyn Fn() -> bool,
) -> ((Paths, f64), f64) {
    let mut random = SplitMix64(seed);
    let lengths = prices.lengths();
    let lengths: Vec<f64> = lengths.iter().map(|length| length * random.unit().powi(2)).collect();
    let begin = tree::shortest(block, &lengths, search).unwrap_or_default();
    let other = tree::improve(block, prices, begin, search, stopped);
    let before = other.1;
    (tree::to_tree(block, prices, other.0, search, stopped), before)
}

/// The bound of a division.
pub(crate) fn certify(
    block: &Block,
    prices: &Prices,
    division: &Division,
    search: &mut Search,
) -> f64 {
    Ascent::new(block, prices, Some(division.clone())).distances(search)
}

struct Ascent<'a> {
    block: &'a Block,
    prices: &'a Prices,
    division: Division,
    /// Bytes that each egress pays for, on links that are divided equally; and per row.
    equal: Vec<f64>,
    pays: Vec<f64>,
    /// Shortest paths at the division.
    paths: Paths,
    /// Per link in use, the egresses whose paths take it.
    users: Vec<Vec<u16>>,
    /// Whether the division is an earlier one.
    warm: bool,
    /// Length of all sets together.
    in_sets: usize,
}

impl<'a> Ascent<'a> {
    fn new(block: &'a Block, prices: &'a Prices, division: Option<Division>) -> Self {
        let content = &block.content;
        let links = block.links.len();
        let in_sets = content.sets.iter().map(|set| set.egresses.len()).sum();
        // That of another problem is of no use.
        let division = division
            .filter(|division| {
                let rows = division.row.iter().filter(|&&row| row != NONE).count();
                division.row.len() == links
                    && division.pairs.len() == rows * content.pairs.len()
                    && division.sets.len() == rows * in_sets
            })
            .filter(|division| division.row.iter().any(|&row| row != NONE));
        let warm = division.is_some();
        let division = division.unwrap_or_else(|| Division::new(links));
        let mut equal = content.own.clone();
        for pair in &content.pairs {
            equal[pair.first as usize] += pair.bytes / 2.0;
            equal[pair.second as usize] += pair.bytes / 2.0;
        }
        for set in &content.sets {
            let part = set.bytes / set.egresses.len() as f64;
            set.egresses.iter().for_each(|&egress| equal[egress as usize] += part);
        }
        let mut ascent = Self {
            block,
            prices,
            division,
            equal,
            pays: Vec::new(),
            paths: Vec::new(),
            users: vec![Vec::new(); links],
            warm,
            in_sets,
        };
        ascent.sum();
        ascent
    }

    /// Bytes that egresses pay for, from the division.
    fn sum(&mut self) {
        let content = &self.block.content;
        let rows = self.division.row.iter().filter(|&&row| row != NONE).count();
        self.pays.clear();
        for row in 0..rows {
            let at = self.pays.len();
            self.pays.extend_from_slice(&content.own);
            let pays = &mut self.pays[at..];
            let parts = &self.division.pairs[row * content.pairs.len()..];
            for (pair, &part) in content.pairs.iter().zip(parts) {
                let first = pair.bytes * f64::from(part);
                pays[pair.first as usize] += first;
                pays[pair.second as usize] += pair.bytes - first;
            }
            let mut parts = &self.division.sets[row * self.in_sets..];
            for set in &content.sets {
                let (own, rest) = parts.split_at(set.egresses.len());
                parts = rest;
                // Rounded parts do not add up to 1 exactly.
                let whole: f64 = own.iter().map(|&part| f64::from(part)).sum();
                for (&egress, &part) in set.egresses.iter().zip(own) {
                    pays[egress as usize] += set.bytes * f64::from(part) / whole;
                }
            }
        }
    }

    fn begin_again(&mut self, division: &Division) {
        self.division.clone_from(division);
        self.sum();
    }

    /// The sum of the shortest distances; keeps the paths.
    fn distances(&mut self, search: &mut Search) -> f64 {
        let block = self.block;
        let count = block.egresses.len();
        self.users.iter_mut().for_each(Vec::clear);
        self.paths.clear();
        let mut sum = 0.0;
        let mut lengths = vec![0.0; block.links.len()];
        for (egress, &to) in block.egresses.iter().enumerate() {
            let copies = block.content.copies[egress];
            for (link, length) in lengths.iter_mut().enumerate() {
                let bytes = match self.division.row[link] {
                    NONE => self.equal[egress],
                    row => self.pays[row as usize * count + egress],
                };
                // Rounding may leave a hair less than nothing.
                *length = self.prices.once[link] * bytes.max(0.0) + self.prices.copy[link] * copies;
            }
            search.run(
                &block.graph,
                block.entry,
                |link| lengths[link],
                |_| true,
                |one, other| one < other,
            );
            sum += search.distance(to);
            let path = search.links_to(&block.graph, to).unwrap_or_default();
            path.iter().for_each(|&link| self.users[link].push(egress as u16));
            self.paths.push(path);
        }
        sum
    }

    /// Moves the division along the scaled subgradient so far that the bound would grow by `gain`
    /// if it were linear. False if there is no direction.
    fn step(&mut self, gain: f64) -> bool {
        let content = &self.block.content;
        let (pairs, in_sets) = (content.pairs.len(), self.in_sets);
        let divided: Vec<usize> = (0..self.users.len())
            .filter(|&link| {
                let users = self.users[link].len();
                users > 0 && users < self.block.egresses.len() && self.prices.once[link] > 0.0
            })
            .collect();
        // A link that is used gets a row of its own.
        for &link in &divided {
            if self.division.row[link] == NONE {
                self.division.row[link] = (self.pays.len() / self.block.egresses.len()) as u32;
                self.division.pairs.resize(self.division.pairs.len() + pairs, 0.5);
                for set in &content.sets {
                    let part = 1.0 / set.egresses.len() as f32;
                    self.division.sets.extend(set.egresses.iter().map(|_| part));
                }
                self.pays.extend_from_slice(&self.equal);
            }
        }
        if pairs == 0 && in_sets == 0 {
            return false;
        }
        let slope: f64 = divided.iter().map(|&link| self.along(link, None)).sum();
        let by = gain / slope;
        if !by.is_finite() {
            return false;
        }
        for &link in &divided {
            self.along(link, Some(by));
        }
        true
    }

    /// With a step, moves the division on a link; without, what a step of 1 would gain there.
    fn along(&mut self, link: usize, by: Option<f64>) -> f64 {
        let content = &self.block.content;
        let count = self.block.egresses.len();
        let row = self.division.row[link] as usize;
        let price = self.prices.once[link];
        let mut uses = vec![false; count];
        self.users[link].iter().for_each(|&egress| uses[egress as usize] = true);
        let parts = &mut self.division.pairs[row * content.pairs.len()..];
        let pays = &mut self.pays[row * count..(row + 1) * count];
        let mut slope = 0.0;
        // Of two egresses the one whose path is here pays more. The mean is a half, so both are
        // that far from it.
        let few = 2 * self.users[link].len() <= count;
        for egress in (0..count).filter(|&egress| uses[egress] == few) {
            for shared in content.shared(egress) {
                let other = shared.other as usize;
                if uses[other] == few {
                    continue;
                }
                let first_uses = if egress < other { few } else { !few };
                let part = &mut parts[shared.pair as usize];
                let at_end = if first_uses { *part >= 1.0 } else { *part <= 0.0 };
                if at_end {
                    continue;
                }
                match by {
                    None => slope += shared.bytes,
                    Some(by) => {
                        let by = if first_uses { by } else { -by };
                        let new = (f64::from(*part) + by / 2.0).clamp(0.0, 1.0) as f32;
                        let more = shared.bytes * (f64::from(new) - f64::from(*part));
                        *part = new;
                        pays[egress.min(other)] += more;
                        pays[egress.max(other)] -= more;
                    }
                }
            }
        }
        slope *= price / 2.0;
        let mut at = row * self.in_sets;
        for set in &content.sets {
            let size = set.egresses.len();
            let here = set.egresses.iter().filter(|&&egress| uses[egress as usize]).count();
            let parts = &mut self.division.sets[at..at + size];
            at += size;
            if here == 0 || here == size {
                continue;
            }
            let mean = here as f64 / size as f64;
            let toward = |egress: u16| f64::from(u8::from(uses[egress as usize])) - mean;
            match by {
                None => {
                    for (&egress, &part) in set.egresses.iter().zip(parts.iter()) {
                        let toward = toward(egress);
                        if uses[egress as usize] && (toward > 0.0 && part < 1.0) {
                            slope += price * set.bytes * toward;
                        }
                    }
                }
                Some(by) => {
                    let whole: f64 = parts.iter().map(|&part| f64::from(part)).sum();
                    let moved: Vec<f64> = set
                        .egresses
                        .iter()
                        .zip(parts.iter())
                        .map(|(&egress, &part)| f64::from(part) + by * toward(egress))
                        .collect();
                    let new = onto_simplex(&moved);
                    for ((&egress, part), new) in set.egresses.iter().zip(parts).zip(new) {
                        pays[egress as usize] += set.bytes * (new - f64::from(*part) / whole);
                        *part = new as f32;
                    }
                }
            }
        }
        slope
    }
}

/// The nearest point whose parts are at least 0 and add up to 1.
fn onto_simplex(point: &[f64]) -> Vec<f64> {
    let mut sorted = point.to_vec();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (count, &value) in (1..).zip(&sorted) {
        sum += value;
        let candidate = (sum - 1.0) / f64::from(count);
        if value > candidate {
            shift = candidate;
        }
    }
    point.iter().map(|value| (value - shift).max(0.0)).collect()
}
