//! What is wrong with a record, and the length of its numbers.

/// A datagram whose plaintext is not a sequence of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The datagram ends inside a record, or a length is not in its shortest form.
    #[error("a record that is truncated or has an invalid length")]
    Length,
    /// A kind that this version does not know.
    #[error("a record of unknown kind {kind}")]
    Kind {
        /// Its number.
        kind: u8,
    },
    /// A reserved bit is set.
    #[error("a record with reserved bits set: {head:#04x}")]
    Reserved {
        /// Its first byte.
        head: u8,
    },
    /// A header section that no sender writes: an impossible slot or control byte, or fields that its
    /// reference does not have.
    #[error("an impossible header section")]
    Section,
    /// Segments that no run has: too many, of size 0, or with a payload of another length.
    #[error("segments that do not fit their payload")]
    Segments,
    /// Ranges of an acknowledgment that are too many or below 0.
    #[error("an acknowledgment of impossible ranges")]
    Ranges,
    /// A rejection with a reason that is not known, or of ranges that are too many or impossible.
    #[error("an impossible rejection")]
    Rejection,
    /// A piece without content.
    #[error("a piece of a packet without content")]
    Piece,
    /// Padding that is not zeros.
    #[error("padding that is not zeros")]
    Padding,
}

/// Bytes of a varint.
pub(super) fn varint_len(value: usize) -> usize {
    (usize::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}
