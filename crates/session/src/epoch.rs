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

/// What of a log goes on in a new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing: it is an empty log.
    Nothing,
    /// All content below this offset.
    Content(u64),
    /// Offsets and chain, from this offset on. The ring is empty: what was in it lies on disk only.
    Offset(u64),
}

impl Keep {
    /// Added to the number of [`Keep::Offset`].
    const OFFSET: u64 = 1 << 62;

    /// Its number in EPOCH.
    pub(crate) fn number(self) -> u64 {
        match self {
            Keep::Nothing => 0,
            Keep::Content(offset) => offset + 1,
            Keep::Offset(offset) => Keep::OFFSET + offset + 1,
        }
    }

    /// Of a number in EPOCH.
    pub(crate) fn from_number(number: u64) -> Keep {
        match number {
            0 => Keep::Nothing,
            1..=Keep::OFFSET => Keep::Content(number - 1),
            _ => Keep::Offset(number - Keep::OFFSET - 1),
        }
    }
}

impl Epoch {
    /// No log.
    pub const NONE: Epoch = Epoch { log: 0, number: 0 };

    /// The seed of its frames' checksums: frames of another epoch fail.
    pub(crate) fn seed(self) -> ChecksumSeed {
        ChecksumSeed { session: self.log, epoch: self.number }
    }
}
