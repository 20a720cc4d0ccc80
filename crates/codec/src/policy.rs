//! Cache policies: which content enters the log.

use crate::error::ConfigError;
use crate::matcher::Match;
use std::ops::Range;

/// Which content enters the log (Martynov section 3.2: "caching all data vs. caching new data
/// only"). The same at both ends.
///
/// Under every policy a block is placed and verified as if all of it entered the log, and its
/// matches may refer to the block itself. The kept bytes then lie at the block's offset, without
/// gaps, and the next block follows them. Bytes that were left out cannot be repeated, so
/// [`crate::Encoder::repair`] needs [`CachePolicy::All`], and frames must arrive in order.
///
/// A log that keeps less reaches further back, but a repeat of bytes that were left out finds its
/// parts in several places and costs a match for each. See `docs/ALGORITHMS.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// Everything.
    #[default]
    All,
    /// The literals of each block, which no match covers. Runs that matches separated lie side by
    /// side in the log.
    NewRuns {
        /// Whether the encoder indexes windows that straddle the joins between a block's runs. Such
        /// windows never occurred in the content, but recur where the same parts are new again
        /// around the same matches. A match may straddle joins in any case, because its bytes are
        /// compared. The decoder ignores this.
        straddle: bool,
    },
    /// Whole blocks of which matches cover less than this share; nothing of other blocks.
    NewBlocks {
        /// Limit of the matched share, in percent: 1..=100.
        below_percent: u8,
    },
}

impl CachePolicy {
    pub(crate) fn check(self) -> Result<(), ConfigError> {
        match self {
            CachePolicy::NewBlocks { below_percent } if !(1..=100).contains(&below_percent) => {
                Err(ConfigError::Conflict(
                    "the bound of the cache policy `new` is a share of a block: use 1 to 100 percent",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether each literal run is indexed separately.
    pub(crate) fn notes_runs_apart(self) -> bool {
        matches!(self, CachePolicy::NewRuns { straddle: false })
    }

    /// Appends the bytes of `block` that enter the log to `kept`.
    pub(crate) fn keep(self, block: &[u8], matches: &[Match], kept: &mut Vec<u8>) {
        match self {
            CachePolicy::All => kept.extend_from_slice(block),
            CachePolicy::NewRuns { .. } => literal_runs(block.len(), matches)
                .for_each(|run| kept.extend_from_slice(&block[run])),
            CachePolicy::NewBlocks { below_percent } => {
                let matched: usize = matches.iter().map(|found| found.len as usize).sum();
                if matched * 100 < block.len() * usize::from(below_percent) {
                    kept.extend_from_slice(block);
                }
            }
        }
    }
}

/// The parts of a block of `len` bytes that no match covers, none of them empty.
pub(crate) fn literal_runs(len: usize, matches: &[Match]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(matches.iter().map(Match::end));
    let ends = matches.iter().map(|found| found.at as usize).chain(std::iter::once(len));
    starts.zip(ends).map(|(start, end)| start..end).filter(|run| !run.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(policy: CachePolicy, matches: &[(u32, u32)]) -> Vec<u8> {
        let matches: Vec<_> =
            matches.iter().map(|&(at, len)| Match { at, len, source: 0 }).collect();
        let mut kept = Vec::new();
        policy.keep(b"0123456789", &matches, &mut kept);
        kept
    }

    #[test]
    fn policies_keep_what_they_say() {
        let runs = CachePolicy::NewRuns { straddle: true };
        assert_eq!(kept(CachePolicy::All, &[(0, 10)]), b"0123456789");
        assert_eq!(kept(runs, &[]), b"0123456789");
        assert_eq!(kept(runs, &[(0, 2), (2, 3), (7, 3)]), b"56");
        assert_eq!(kept(runs, &[(3, 4)]), b"012789");
        assert_eq!(kept(runs, &[(0, 10)]), b"");
        let half = CachePolicy::NewBlocks { below_percent: 50 };
        assert_eq!(kept(half, &[(0, 4)]), b"0123456789");
        assert_eq!(kept(half, &[(0, 5)]), b"");
        assert_eq!(kept(CachePolicy::NewBlocks { below_percent: 100 }, &[(0, 9)]), b"0123456789");
        assert!(CachePolicy::NewBlocks { below_percent: 0 }.check().is_err());
        assert!(CachePolicy::NewBlocks { below_percent: 101 }.check().is_err());
    }
}
