//! What ingresses and devices agree on beyond the manifests.

/// Rules of caching and of references. An ingress and the devices that its paths pass must have the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which bytes of an encoded packet later packets may refer to.
    pub gaps: Gaps,
    /// Most stored copies of a fingerprint among which an ingress chooses, 1..=[`MAX_COPIES`]. Of 1,
    /// the table has one address for each fingerprint.
    pub copies: u8,
    /// Which packets share a FIFO queue.
    pub queues: Queues,
    /// Whether an ingress bounds what a lost packet can spoil. It does not refer to a packet that a
    /// host has sent again. A packet for which there was no time yet to do so
    /// ([`Common::round_trip`](super::Common::round_trip)) may not have arrived: of copies that are as good, one that
    /// has arrived is used; and packets that may not have arrived refer to each other in chains of
    /// two, for the rest of this retention epoch and the next after a loss not at all. What arrived
    /// whole was whole at the device that caches it.
    pub confirm: bool,
    /// Whether a match is weighed against the operations that its device has left for the ingress:
    /// a price of operations rises while they are used faster than the epoch passes. Otherwise the
    /// first matches of an epoch use them, whatever they save (thesis, section 3.4). Not by default:
    /// traffic that comes in bursts saves less with it.
    pub priced: bool,
}

/// Which bytes of an encoded packet may be referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Only those that were not matched (thesis, section 3.3, "Handling gaps in encoded packets").
    Matched,
    /// All that the caching device has: those too whose decoder is the caching device itself, which
    /// decodes before it caches, or is upstream of it.
    Undecoded,
}

/// Which packets share a FIFO queue, at the ingress and at the device that caches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Those of a path: a bucket for each path and device (thesis, section 3.3, "Using cache buckets
    /// to ensure consistency").
    Paths,
    /// All of an ingress: a queue for each ingress and device, as large as the buckets together.
    /// Packets of all paths come to a device in the order in which they left the ingress, because
    /// paths form a tree; so both ends evict alike.
    Ingress,
    /// The same, with fair shares under pressure: a path that has more than twice its bucket's
    /// size and half of a full queue adds no packet that would evict another path's of this retention epoch or
    /// the one before. Only the ingress decides that; the device caches what it is told to.
    Fair,
}

/// Most copies of a fingerprint that can be chosen among.
pub const MAX_COPIES: u8 = 16;

impl Rules {
    /// As the thesis has it.
    pub const PUBLISHED: Rules = Rules {
        gaps: Gaps::Matched,
        copies: 1,
        queues: Queues::Paths,
        confirm: false,
        priced: false,
    };
}

impl Default for Rules {
    /// Better than the published ones on bursty traffic (docs/SMARTRE.md, "Rules").
    fn default() -> Self {
        Self {
            gaps: Gaps::Undecoded,
            copies: MAX_COPIES,
            queues: Queues::Fair,
            confirm: true,
            priced: false,
        }
    }
}
