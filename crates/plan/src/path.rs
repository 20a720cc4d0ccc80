//! Routes through a network.

use crate::{LinkId, NodeId};

/// A path: where traffic enters, the links it takes, how much of it there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Node where traffic enters.
    pub from: NodeId,
    /// Node where it leaves.
    pub to: NodeId,
    /// Which of its ingress's slices it belongs to; 0 if there is only one. For SmartRE, the routes
    /// of an ingress and slice form a tree.
    pub slice: u16,
    /// Links in order, from `from` to `to`; at least one.
    pub links: Vec<LinkId>,
    /// Traffic in bytes per retention epoch, at least 0.
    pub volume: f64,
}
