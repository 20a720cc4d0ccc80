//! What a node carries, as it said last.

use super::messages::{Carried, LEAST_MEASURED};
use std::collections::BTreeMap;

/// What a node carries, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLoad {
    /// Bytes per second that are sent to each neighbor, and what they would be without elimination.
    pub links: BTreeMap<u32, (f64, f64)>,
    /// Bytes that it caches for paths of others.
    pub cached: u64,
    /// Bytes that its plan has for these.
    pub cache: u64,
    /// Operations per second: packets cached, matches decoded.
    pub operations: f64,
    /// Whether it had more to do than it can.
    pub is_overloaded: bool,
}

impl NodeLoad {
    /// The rates of a message; none if it is over less than a tenth of a second.
    pub(super) fn new(carried: &Carried) -> Option<NodeLoad> {
        if carried.nanoseconds < LEAST_MEASURED {
            return None;
        }
        let rate = |count: u64| count as f64 * 1e9 / carried.nanoseconds as f64;
        let links = carried.links.iter();
        Some(NodeLoad {
            links: links.map(|&(to, sent, whole)| (to, (rate(sent), rate(whole)))).collect(),
            cached: carried.cached,
            cache: carried.cache,
            operations: rate(carried.operations),
            is_overloaded: carried.overloaded > 0,
        })
    }
}
