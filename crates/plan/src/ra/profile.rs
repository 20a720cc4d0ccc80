//! Profiles of content from packets (thesis, section 6.2, "Computing Profiles and Partial Packet
//! Matches"): which bytes of an ingress went to which egresses within an interval.
//!
//! [`Counter`] counts them, interval by interval; [`Counted::classes`] makes the solver's classes of
//! them, and [`minute`] says whether routes in force still suit them. `docs/PROFILES.md`, "Profiles
//! from packets", defines every quantity and the text form.

mod count;
mod force;
mod text;

use std::collections::BTreeMap;

pub use count::{Counter, Counting, Settings};
pub use force::{ALARM, Minute, minute};

use super::{Class, Classes, Prefix};
use crate::{NodeId, Seconds};

/// Content of ingresses in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Length of the interval.
    pub interval: Seconds,
    /// Content of each ingress, sorted by node. No content of an ingress has the members of another.
    pub ingresses: Vec<(NodeId, Vec<Content>)>,
}

/// Bytes with the same members.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// Bytes of one copy.
    pub bytes: f64,
    /// Where copies went and came from, sorted; at least one.
    pub members: Box<[Member]>,
}

/// Copies from a source to an egress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Where they leave.
    pub egress: NodeId,
    /// Network of their sources, if it is known.
    pub prefix: Option<Prefix>,
    /// How many, as a mean over the bytes; above 0.
    pub copies: f64,
}

/// How sets of many egresses become classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Sets of up to this many egresses stay as they are (the thesis counts pairs).
    pub exact: usize,
    /// So many of the larger sets, those with most bytes, stay as well.
    pub largest: usize,
}

impl Default for Fold {
    fn default() -> Self {
        Self { exact: 3, largest: 256 }
    }
}

/// Egresses of content, and the copies to each.
type Set = BTreeMap<NodeId, f64>;

impl Content {
    /// Copies to each egress from sources that `of` accepts.
    fn set(&self, of: impl Fn(Option<Prefix>) -> bool) -> Set {
        let mut set = Set::new();
        for member in self.members.iter().filter(|member| of(member.prefix)) {
            *set.entry(member.egress).or_default() += member.copies;
        }
        set
    }
}

impl Counted {
    /// Bytes of all copies that enter at an ingress.
    pub fn volume(content: &[Content]) -> f64 {
        let copies = |one: &Content| one.members.iter().map(|member| member.copies).sum::<f64>();
        content.iter().map(|one| one.bytes * copies(one)).sum()
    }

    /// Classes for the solver.
    pub fn classes(&self, fold: Fold) -> Vec<(NodeId, Classes)> {
        let of = |(node, content): &(NodeId, Vec<Content>)| {
            (*node, Classes::Listed(classes_of(content, |_| true, fold)))
        };
        self.ingresses.iter().map(of).collect()
    }
}

/// How content is spread over egresses (thesis, section 6.4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Striping {
    /// Bytes that enter, all copies.
    pub volume: f64,
    /// Bytes of one copy of each.
    pub unique: f64,
    /// Share of the unique bytes that go to one egress, to two, and so on.
    pub by_egresses: Vec<f64>,
    /// Pairs of egresses with the share of the redundant bytes that both have, largest first; pairs
    /// that share nothing are left out.
    pub pairs: Vec<(NodeId, NodeId, f64)>,
}

impl Striping {
    /// Of an ingress's content.
    pub fn new(content: &[Content]) -> Self {
        let volume = Counted::volume(content);
        let unique: f64 = content.iter().map(|one| one.bytes).sum();
        let redundant = volume - unique;
        let mut by_egresses: Vec<f64> = Vec::new();
        let mut pairs: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
        for one in content {
            let egresses: Vec<NodeId> = one.set(|_| true).into_keys().collect();
            by_egresses.resize(by_egresses.len().max(egresses.len()), 0.0);
            by_egresses[egresses.len() - 1] += one.bytes / unique;
            for (at, &first) in egresses.iter().enumerate() {
                for &second in &egresses[at + 1..] {
                    *pairs.entry((first, second)).or_default() += one.bytes / redundant;
                }
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().map(|((a, b), share)| (a, b, share)).collect();
        pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
        Self { volume, unique, by_egresses, pairs }
    }

    /// Share of the bytes that repeat others of the interval.
    pub fn redundancy(&self) -> f64 {
        if self.volume > 0.0 { 1.0 - self.unique / self.volume } else { 0.0 }
    }
}

/// Classes of content from the sources that `of` accepts.
///
/// Large sets are folded: the bytes become a class of the two egresses with most traffic, and
/// single copies to each of the others. So a link carries no less than it would with the exact set,
/// never less than nothing, and more with more egresses; and each egress gets the same copies.
pub(crate) fn classes_of(
    content: &[Content],
    of: impl Fn(Option<Prefix>) -> bool,
    fold: Fold,
) -> Vec<Class> {
    let mut sums: BTreeMap<Box<[NodeId]>, (f64, Vec<f64>)> = BTreeMap::new();
    let mut volumes: BTreeMap<NodeId, f64> = BTreeMap::new();
    for one in content {
        let set = one.set(&of);
        if set.is_empty() || one.bytes <= 0.0 {
            continue;
        }
        for (&egress, copies) in &set {
            *volumes.entry(egress).or_default() += one.bytes * copies;
        }
        add(&mut sums, &set, one.bytes);
    }
    let mut large: Vec<(Box<[NodeId]>, f64)> = sums
        .iter()
        .filter(|(egresses, _)| egresses.len() > fold.exact.max(2))
        .map(|(egresses, sum)| (egresses.clone(), sum.0))
        .collect();
    large.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (egresses, _) in large.into_iter().skip(fold.largest) {
        let Some((bytes, copies)) = sums.remove(&egresses) else { continue };
        // By traffic, then by number.
        let mut order: Vec<usize> = (0..egresses.len()).collect();
        order.sort_by(|&a, &b| {
            volumes[&egresses[b]].total_cmp(&volumes[&egresses[a]]).then(a.cmp(&b))
        });
        let part = |at: usize| (egresses[at], copies[at] / bytes);
        add(&mut sums, &order[..2].iter().map(|&at| part(at)).collect(), bytes);
        order[2..].iter().for_each(|&at| add(&mut sums, &Set::from([part(at)]), bytes));
    }
    sums.into_iter()
        .map(|(egresses, (bytes, copies))| Class {
            egresses,
            bytes,
            copies: copies.iter().map(|copies| copies / bytes).collect(),
        })
        .collect()
}

/// Adds bytes of a set: bytes, and bytes times copies of each egress.
fn add(sums: &mut BTreeMap<Box<[NodeId]>, (f64, Vec<f64>)>, set: &Set, bytes: f64) {
    let egresses: Box<[NodeId]> = set.keys().copied().collect();
    let sum = sums.entry(egresses).or_insert_with(|| (0.0, vec![0.0; set.len()]));
    sum.0 += bytes;
    sum.1.iter_mut().zip(set.values()).for_each(|(sum, copies)| *sum += bytes * copies);
}

#[cfg(test)]
mod tests;
