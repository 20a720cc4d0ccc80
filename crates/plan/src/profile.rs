//! How much of a path's traffic repeats what went before, and on which path.

use std::collections::BTreeMap;

use crate::{Error, Instance};

/// Matches that the traffic of one path has with another's, per retention epoch (thesis, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Match {
    /// match(p, q): how many.
    pub count: f64,
    /// matchlen(p, q): their mean length in bytes, at most the largest payload.
    pub length: f64,
}

impl Match {
    /// Bytes in all.
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

/// A synthetic profile. What it leaves open (how redundancy divides over the other paths) is by volume; see `docs/PLANNERS.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Share of an ingress's bytes that repeat.
    pub gamma: f64,
    /// Share of them that repeats traffic to the same PoP.
    pub intrapop: f64,
    /// Share of those that repeats traffic of the same path.
    pub intrapath: f64,
    /// Mean length of a match in bytes.
    pub length: f64,
    /// Ingress nodes whose gamma is another.
    pub ingresses: BTreeMap<u32, f64>,
}

/// Counted matches: (p, q) to what traffic of path p had in common with q's. Pairs without matches are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Sorted by p, then q; each pair once.
    pub pairs: Vec<(u32, u32, Match)>,
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
    pub fn gamma_of(&self, ingress: u32) -> f64 {
        self.ingresses.get(&ingress).copied().unwrap_or(self.gamma)
    }

    /// Bytes of path `p` that repeat path `q`, of the same ingress.
    ///
    /// Where there is no other path for a part (one access router per PoP, one PoP), that part is the path's own.
    fn bytes(&self, instance: &Instance, p: usize, q: usize) -> f64 {
        let path = &instance.paths[p];
        let other = &instance.paths[q];
        if path.ingress != other.ingress {
            return 0.0;
        }
        let ingress = &instance.ingresses[path.ingress as usize];
        let redundant = self.gamma_of(ingress.node) * path.volume;
        let (beside, beyond) = (path.pop_volume - path.volume, ingress.volume - path.pop_volume);
        // Sums of the same volumes in different orders differ by rounding: what is left of nothing is nothing.
        let (beside, beyond) = (if path.alone_in_pop { 0.0 } else { beside }, if ingress.one_pop { 0.0 } else { beyond });
        let in_path = redundant * self.intrapop * self.intrapath;
        let in_pop = redundant * self.intrapop * (1.0 - self.intrapath);
        let in_others = redundant * (1.0 - self.intrapop);
        if p == q {
            in_path + if beside > 0.0 { 0.0 } else { in_pop } + if beyond > 0.0 { 0.0 } else { in_others }
        } else if path.pop == other.pop {
            if beside > 0.0 { in_pop * other.volume / beside } else { 0.0 }
        } else if beyond > 0.0 {
            in_others * other.volume / beyond
        } else {
            0.0
        }
    }
}

impl Profile {
    /// What traffic of path `p` has in common with path `q`'s, per epoch. Zero for paths of different ingresses.
    pub fn matches(&self, instance: &Instance, p: usize, q: usize) -> Match {
        match self {
            Profile::Synthetic(profile) => {
                let bytes = profile.bytes(instance, p, q);
                if bytes == 0.0 { Match::default() } else { Match { count: bytes / profile.length, length: profile.length } }
            }
            Profile::Measured(profile) => {
                let of_path = profile.of_path(p as u32);
                of_path.binary_search_by_key(&(q as u32), |pair| pair.1).map(|at| of_path[at].2).unwrap_or_default()
            }
        }
    }

    /// Everything in range, finite and sorted?
    pub(crate) fn check(&self, paths: &[crate::Path], mss: f64) -> Result<(), Error> {
        let share = |name: &str, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(Error::Profile(format!("{name} is {value}; it is a share, from 0 to 1")))
            }
        };
        let length = |value: f64| {
            if value > 0.0 && value <= mss {
                Ok(())
            } else {
                Err(Error::Profile(format!(
                    "a mean match length of {value} bytes; it is above 0 and at most the largest packet, {mss} bytes"
                )))
            }
        };
        match self {
            Profile::Synthetic(profile) => {
                share("gamma", profile.gamma)?;
                share("gamma_intrapop", profile.intrapop)?;
                share("gamma_intrapath", profile.intrapath)?;
                profile.ingresses.values().try_for_each(|&gamma| share("gamma of an ingress", gamma))?;
                length(profile.length)
            }
            Profile::Measured(profile) => {
                for pair in profile.pairs.windows(2) {
                    if (pair[0].0, pair[0].1) >= (pair[1].0, pair[1].1) {
                        return Err(Error::Profile(format!(
                            "the pair of paths {} and {} comes twice or out of order",
                            pair[1].0, pair[1].1
                        )));
                    }
                }
                for &(p, q, found) in &profile.pairs {
                    let (Some(of), Some(with)) = (paths.get(p as usize), paths.get(q as usize)) else {
                        return Err(Error::Profile(format!("paths {p} and {q} match, but there are {} paths", paths.len())));
                    };
                    if of.ingress != with.ingress {
                        return Err(Error::Profile(format!("paths {p} and {q} match, but have different ingresses")));
                    }
                    if !(found.count >= 0.0 && found.count.is_finite()) {
                        return Err(Error::Profile(format!("paths {p} and {q} have {} matches", found.count)));
                    }
                    if found.count > 0.0 {
                        length(found.length)?;
                    }
                }
                Ok(())
            }
        }
    }
}
