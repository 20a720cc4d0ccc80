//! What the profile means on an instance: matches between paths, and which profiles are valid.

use super::{Instance, Path};
use crate::{Bytes, Error, Match, Profile, Synthetic, error::ProfileError};

impl Synthetic {
    /// Bytes of path `p` that repeat path `q`, of the same ingress.
    ///
    /// A part that has no other path (one access router per PoP, or one PoP) is the path's own.
    fn bytes(&self, instance: &Instance, p: usize, q: usize) -> f64 {
        let path = &instance.paths[p];
        let other = &instance.paths[q];
        if path.ingress != other.ingress {
            return 0.0;
        }
        let ingress = &instance.ingresses[path.ingress as usize];
        let redundant = self.gamma_of(ingress.node) * path.volume;
        let (beside, beyond) = (path.pop_volume - path.volume, ingress.volume - path.pop_volume);
        // Sums of the same volumes in different orders differ by rounding, so an empty remainder is
        // set to 0.
        let (beside, beyond) = (
            if path.alone_in_pop { 0.0 } else { beside },
            if ingress.one_pop { 0.0 } else { beyond },
        );
        let in_path = redundant * self.intrapop * self.intrapath;
        let in_pop = redundant * self.intrapop * (1.0 - self.intrapath);
        let in_others = redundant * (1.0 - self.intrapop);
        if p == q {
            in_path
                + if beside > 0.0 { 0.0 } else { in_pop }
                + if beyond > 0.0 { 0.0 } else { in_others }
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
    /// Matches of path `p` with path `q` per epoch; none if the paths have different ingresses.
    pub fn matches(&self, instance: &Instance, p: usize, q: usize) -> Match {
        match self {
            Profile::Synthetic(profile) => {
                let bytes = profile.bytes(instance, p, q);
                if bytes == 0.0 {
                    Match::default()
                } else {
                    Match { count: bytes / profile.length, length: profile.length }
                }
            }
            Profile::Measured(profile) => {
                let of_path = profile.of_path(p as u32);
                of_path
                    .binary_search_by_key(&(q as u32), |pair| pair.1)
                    .map(|at| of_path[at].2)
                    .unwrap_or_default()
            }
        }
    }

    /// Returns an error unless all values are finite, sorted and in range.
    pub(crate) fn check(&self, paths: &[Path], mss: Bytes) -> Result<(), Error> {
        let share = |name: &str, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(ProfileError::Range {
                    what: name.into(),
                    value,
                    range: "a share from 0 to 1".into(),
                })
            }
        };
        let length = |value: f64| {
            if value > 0.0 && value <= mss.0 {
                Ok(())
            } else {
                Err(ProfileError::MatchLength {
                    length: value,
                    most: mss.0,
                    of: "the largest packet",
                })
            }
        };
        match self {
            Profile::Synthetic(profile) => {
                share("gamma", profile.gamma)?;
                share("gamma_intrapop", profile.intrapop)?;
                share("gamma_intrapath", profile.intrapath)?;
                profile
                    .ingresses
                    .values()
                    .try_for_each(|&gamma| share("gamma of an ingress", gamma))?;
                Ok(length(profile.length)?)
            }
            Profile::Measured(profile) => {
                for pair in profile.pairs.windows(2) {
                    if (pair[0].0, pair[0].1) >= (pair[1].0, pair[1].1) {
                        return Err(ProfileError::Order { p: pair[1].0, q: pair[1].1 }.into());
                    }
                }
                for &(p, q, found) in &profile.pairs {
                    let (Some(of), Some(with)) = (paths.get(p as usize), paths.get(q as usize))
                    else {
                        return Err(ProfileError::UnknownPath {
                            path: p.max(q) as usize,
                            paths: paths.len(),
                        }
                        .into());
                    };
                    if of.ingress != with.ingress {
                        return Err(ProfileError::DifferentIngresses { p, q }.into());
                    }
                    if !(found.count >= 0.0 && found.count.is_finite()) {
                        let what = format!("the number of matches of paths {p} and {q}");
                        return Err(ProfileError::Range {
                            what,
                            value: found.count,
                            range: "0 or more".into(),
                        }
                        .into());
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
