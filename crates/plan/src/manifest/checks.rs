//! What holds for every manifest, made or read.

use std::collections::BTreeSet;

use super::{MAX_NAME, MAX_NUMBER, SPACE};
use crate::error::{ManifestError, NameFault, PathFault};

use crate::PathId;

/// Refuses names that occur twice.
pub(super) fn unique<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), ManifestError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(ManifestError::Twice { what, name: name.into() });
        }
    }
    Ok(())
}

/// A name that fits into a line.
pub(super) fn check_name(name: &str) -> Result<(), ManifestError> {
    let fault = if name.len() > MAX_NAME {
        NameFault::TooLong
    } else if name.chars().any(char::is_control) {
        NameFault::Control
    } else {
        return Ok(());
    };
    Err(ManifestError::Name { name: name.chars().take(40).collect(), fault })
}

pub(super) fn check_version(version: u64) -> Result<(), ManifestError> {
    if version > MAX_NUMBER { Err(ManifestError::Version(version)) } else { Ok(()) }
}

/// A size that every JSON reader holds exactly.
pub(super) fn check_memory(memory: Option<u64>) -> Result<(), ManifestError> {
    match memory {
        Some(bytes) if bytes > MAX_NUMBER => Err(ManifestError::Memory { bytes }),
        _ => Ok(()),
    }
}

/// Whether buckets of `used` bytes in total fit into a memory.
pub(super) fn check_room(name: &str, used: u128, memory: Option<u64>) -> Result<(), ManifestError> {
    match memory {
        Some(memory) if used > u128::from(memory) => {
            Err(ManifestError::Full { name: name.into(), used: used as f64, memory: memory as f64 })
        }
        _ => Ok(()),
    }
}

/// A range within the space that is not empty, with a bucket, from where the one before ends.
pub(super) fn check_range(
    path: PathId,
    at: u64,
    from: u64,
    to: u64,
    bytes: u64,
) -> Result<(), ManifestError> {
    let fault = if from != at {
        PathFault::Gap { from, at }
    } else if from >= to {
        PathFault::Empty { from, to }
    } else if to > SPACE {
        PathFault::Beyond { to }
    } else if bytes == 0 || bytes > MAX_NUMBER {
        PathFault::Bucket { bytes }
    } else {
        return Ok(());
    };
    Err(ManifestError::path(path, fault))
}
