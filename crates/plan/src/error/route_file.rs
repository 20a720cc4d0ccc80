//! Errors of documents with routes.

use crate::ra::file::{FORMAT, MAX_DOCUMENT};

/// What is wrong with a document of routes. Texts from the document are on one line and short.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteFileError {
    /// The document is too long to be read.
    #[error("a document of {bytes} bytes; the most is {MAX_DOCUMENT}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The text is not the document that was expected.
    #[error("not a document of routes: {reason}")]
    Unreadable {
        /// What the JSON parser says.
        reason: String,
    },
    /// The document has another format version.
    #[error("routes of format {format}; this program reads format {FORMAT}")]
    Format {
        /// Its format version.
        format: u32,
    },
    /// The map has changed since the routes were made, or they are for another one.
    #[error(
        "these are routes of {file}, which is not the map that was given, {here}: make them again with `oncewire route`"
    )]
    AnotherMap {
        /// Name and hash of the document's map.
        file: String,
        /// Name and hash of the map at hand.
        here: String,
    },
    /// A number is out of range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// No slices.
    #[error("there are no routes in the document")]
    Empty,
    /// A node that the map does not have.
    #[error("the map has no node {node}")]
    UnknownNode {
        /// Its id.
        node: String,
    },
    /// A path over a link that the map does not have.
    #[error("the map has no link {from} -> {to}")]
    NoLink {
        /// Tail.
        from: String,
        /// Head.
        to: String,
    },
    /// A path does not lead from its ingress to another node.
    #[error("a path of {ingress} that does not begin there, or has no link")]
    NoPath {
        /// Ingress of the slice.
        ingress: String,
    },
    /// Paths of a slice come to a node by two links, or pass one twice.
    #[error("paths of {ingress} come to {node} by two links; those of a slice form a tree")]
    NotATree {
        /// Ingress of the slice.
        ingress: String,
        /// The node.
        node: String,
    },
    /// A path passes through an access router.
    #[error("a path of {ingress} passes through the access router {node}")]
    ThroughAccess {
        /// Ingress of the slice.
        ingress: String,
        /// The router.
        node: String,
    },
    /// Two paths of a slice have the same egress.
    #[error("two paths of a slice from {ingress} to {egress}")]
    TwoPaths {
        /// Ingress.
        ingress: String,
        /// Egress.
        egress: String,
    },
    /// The slices of an ingress lead to different egresses.
    #[error("of the slices of {ingress}, only some lead to {egress}")]
    Egresses {
        /// Ingress.
        ingress: String,
        /// Egress.
        egress: String,
    },
    /// The weights of an ingress's slices do not add up to 1.
    #[error("the slices of {ingress} have weights that add up to {sum}, not 1")]
    Weights {
        /// Ingress.
        ingress: String,
        /// Sum of the weights.
        sum: f64,
    },
    /// More slices than numbers for them.
    #[error("more than 65,535 slices of {ingress}")]
    TooManySlices {
        /// Ingress.
        ingress: String,
    },
    /// A text that is no prefix.
    #[error("{text} is not a prefix such as 192.0.2.0/24 or 2001:db8::/32")]
    NotAPrefix {
        /// The text.
        text: String,
    },
    /// A prefix is in two slices of an ingress.
    #[error("the prefix {prefix} is listed twice for {ingress}")]
    PrefixTwice {
        /// Ingress.
        ingress: String,
        /// The prefix.
        prefix: String,
    },
}
