//! What holds for every manifest, made or read.

use std::collections::BTreeSet;

use super::{MAX_NAME, MAX_NUMBER, SPACE};
use crate::Error;

/// Refuses names that occur twice.
pub(super) fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::Manifest(format!("two {what} have the name {name:?}")));
        }
    }
    Ok(())
}

/// A name that fits into a line.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |why: &str| {
        Err(Error::Manifest(format!(
            "a name {why}: {:?}",
            name.chars().take(40).collect::<String>()
        )))
    };
    if name.len() > MAX_NAME {
        return wrong("that is too long");
    }
    if name.chars().any(char::is_control) {
        return wrong("with control characters");
    }
    Ok(())
}

pub(super) fn check_version(version: u64) -> Result<(), Error> {
    if version > MAX_NUMBER {
        Err(Error::Manifest(format!("version {version}; the most is {MAX_NUMBER}")))
    } else {
        Ok(())
    }
}

/// A range within the space that is not empty, with a bucket.
pub(super) fn check_range(path: u32, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
    if from >= to {
        return Err(Error::Manifest(format!(
            "path {path} has an empty range, from {from} to {to}"
        )));
    }
    if to > SPACE {
        return Err(Error::Manifest(format!(
            "path {path} has a range to {to}; the last hash is {}",
            SPACE - 1
        )));
    }
    if bytes == 0 || bytes > MAX_NUMBER {
        return Err(Error::Manifest(format!(
            "path {path} has a bucket of {bytes} bytes; it must be from 1 to {MAX_NUMBER}"
        )));
    }
    Ok(())
}
