//! Routes through a network.

/// A path: where traffic enters, the links it takes, how much of it there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Node where traffic enters.
    pub from: u32,
    /// Node where it leaves.
    pub to: u32,
    /// Links in order, from `from` to `to`; at least one.
    pub links: Vec<u32>,
    /// Traffic in bytes per retention epoch, at least 0.
    pub volume: f64,
}
