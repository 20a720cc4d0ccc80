//! Epochs: what a log's content is called.

use oncewire_codec::ChecksumSeed;

/// Identifies the content of a direction's log. The logs of both ends are equal as long as their
/// epochs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The log's id, chosen at random by the encoder when it began the log; 0 means that there is
    /// no log.
    pub log: u64,
    /// How often the log has been rewound since.
    pub number: u64,
}

impl Epoch {
    /// No log.
    pub const NONE: Epoch = Epoch { log: 0, number: 0 };

    /// The seed of its frames' checksums: frames of another epoch fail.
    pub(crate) fn seed(self) -> ChecksumSeed {
        ChecksumSeed { session: self.log, epoch: self.number }
    }
}
