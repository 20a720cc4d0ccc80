//! Errors of redundancy profiles and measurements.

/// What is wrong with a redundancy profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A value is out of range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Which value.
        what: String,
        /// The value.
        value: f64,
        /// The values that are allowed, in words.
        range: String,
    },
    /// A mean match length is out of range.
    #[error(
        "a mean match length of {length} bytes; it must be above 0 and at most {most} bytes, {of}"
    )]
    MatchLength {
        /// The length in bytes.
        length: f64,
        /// The longest possible match in bytes.
        most: f64,
        /// What sets that limit.
        of: &'static str,
    },
    /// Pairs are not sorted, or one comes twice.
    #[error("the pair of paths {p} and {q} comes twice or out of order")]
    Order {
        /// Path that matches.
        p: u32,
        /// Path that is matched.
        q: u32,
    },
    /// A path that does not exist.
    #[error("there is no path {path}: there are {paths}")]
    UnknownPath {
        /// Index of the path.
        path: usize,
        /// Paths in the instance.
        paths: usize,
    },
    /// Two paths of different ingresses match.
    #[error("paths {p} and {q} match, but have different ingresses")]
    DifferentIngresses {
        /// Path that matches.
        p: u32,
        /// Path that is matched.
        q: u32,
    },
    /// More bytes match than a path carries.
    #[error(
        "{matched} bytes of the path from {from} to {to} are matches, but its volume is {volume} bytes"
    )]
    TooManyMatches {
        /// Ingress.
        from: String,
        /// Egress.
        to: String,
        /// Bytes that match.
        matched: f64,
        /// Bytes of the path.
        volume: f64,
    },
    /// A sum of matches is too large for an `f64`.
    #[error("the matches of all paths together are too many for a number")]
    Overflow,
    /// Packets end before the profiler's stores are full.
    #[error(
        "the packets end before stores are warm: {seconds} s, and a store takes {fill} s to fill"
    )]
    TooShort {
        /// Duration of the packets in seconds.
        seconds: f64,
        /// Time that a store takes to fill, in seconds.
        fill: f64,
    },
    /// A store cannot be built.
    #[error("an ingress's store of {bytes} bytes: {reason}")]
    Store {
        /// Its size in bytes.
        bytes: f64,
        /// Why.
        reason: String,
    },
    /// A measurement's line is invalid.
    #[error("line {line}: {reason}")]
    Invalid {
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
}
