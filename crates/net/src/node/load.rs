//! What a node has to do.

/// What a node has done lately, and when its ingress looks again at those that it spares.
#[derive(Default)]
pub(super) struct Load {
    /// When it was last counted.
    pub(super) since: u64,
    /// Those until then.
    pub(super) operations: u64,
    pub(super) recovers: Option<u64>,
}
