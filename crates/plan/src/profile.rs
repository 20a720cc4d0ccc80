//! Redundancy profiles: how much of each path's traffic repeats earlier traffic, and of which path.

use std::collections::BTreeMap;

use crate::NodeId;

/// Matches that the traffic of one path has with another's, per retention epoch (thesis, section
/// 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Match {
    /// match(p, q): their number.
    pub count: f64,
    /// matchlen(p, q): their mean length in bytes, at most the largest payload.
    pub length: f64,
}

impl Match {
    /// Total bytes.
    pub fn bytes(&self) -> f64 {
        self.count * self.length
    }
}

/// A redundancy profile: matches for each pair of paths of one ingress.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    /// By the three parameters of the thesis, section 3.5.
    Synthetic(Synthetic),
    /// As ingresses counted it.
    Measured(Measured),
}

/// A synthetic profile. Redundancy with other paths is divided by volume, which the thesis leaves
/// open; see `docs/PLANNERS.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Share of an ingress's bytes that repeat.
    pub gamma: f64,
    /// Share of those that repeat traffic to the same PoP.
    pub intrapop: f64,
    /// Share of those that repeat traffic of the same path.
    pub intrapath: f64,
    /// Mean length of a match in bytes.
    pub length: f64,
    /// Ingress nodes with another gamma.
    pub ingresses: BTreeMap<NodeId, f64>,
}

/// Counted matches: (p, q) to what traffic of path p had in common with q's. Pairs without matches
/// are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Sorted by p, then q; each pair once.
    pub pairs: Vec<(u32, u32, Match)>,
    /// How often on average the bytes of a match had been repeated before, by any path, while they
    /// were in the store. 0 if that is not known: then only first copies count
    /// ([`crate::evaluate::with_copies`]).
    pub copies: f64,
}

impl Profile {
    /// The same for paths with other numbers; without those that have none.
    pub(crate) fn renumbered(&self, number: impl Fn(u32) -> Option<u32>) -> Self {
        match self {
            Self::Synthetic(profile) => Self::Synthetic(profile.clone()),
            Self::Measured(profile) => {
                let pairs = profile.pairs.iter();
                let kept = pairs.filter_map(|&(p, q, found)| Some((number(p)?, number(q)?, found)));
                Self::Measured(Measured { pairs: kept.collect(), copies: profile.copies })
            }
        }
    }
}

impl Measured {
    /// What path `p` matched: sorted by q.
    pub fn of_path(&self, p: u32) -> &[(u32, u32, Match)] {
        let from = self.pairs.partition_point(|pair| pair.0 < p);
        let to = from + self.pairs[from..].partition_point(|pair| pair.0 == p);
        &self.pairs[from..to]
    }
}

impl Synthetic {
    /// gamma of an ingress node.
    pub fn gamma_of(&self, ingress: NodeId) -> f64 {
        self.ingresses.get(&ingress).copied().unwrap_or(self.gamma)
    }
}
