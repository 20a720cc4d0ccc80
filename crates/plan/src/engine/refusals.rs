//! Why an ingress did not use matches.

/// Why matches were not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// No device on this path caches the matched packet: its hash is beyond the overlap bound.
    pub overlap: u64,
    /// The device that would decode it has no operations left for this ingress in this epoch.
    pub overloaded: u64,
    /// More than one stored packet has the matched packet's name.
    pub ambiguous: u64,
    /// It would have taken as many bytes in the shim as it saves.
    pub short: u64,
    /// More matches in a packet than a shim carries.
    pub many: u64,
    /// Retransmissions: packets sent plain because the same payload was sent before with the same
    /// five-tuple.
    pub retransmission: u64,
    /// The matched packet may not have arrived, and losses were seen.
    pub unconfirmed: u64,
    /// Hits in regions that are null because they had been matched before.
    pub gap: u64,
}

impl Refusals {
    pub(crate) fn add(&mut self, other: &Refusals) {
        self.overlap += other.overlap;
        self.overloaded += other.overloaded;
        self.ambiguous += other.ambiguous;
        self.short += other.short;
        self.many += other.many;
        self.retransmission += other.retransmission;
        self.unconfirmed += other.unconfirmed;
        self.gap += other.gap;
    }
}
