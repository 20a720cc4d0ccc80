//! Errors of paths.

use super::TopologyError;

/// What is wrong with paths.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The paths together have too many links.
    #[error(
        "the paths have more than {most} links in total, too many to plan for: plan for PoPs, or for fewer of them"
    )]
    TooManyLinks {
        /// The most.
        most: usize,
    },
    /// Too many paths.
    #[error(
        "{endpoints} endpoints make {paths} paths; at most {most} are possible: plan for PoPs, or for fewer of them"
    )]
    TooMany {
        /// Nodes where traffic enters and leaves.
        endpoints: usize,
        /// Paths between them.
        paths: usize,
        /// The most.
        most: usize,
    },
    /// Fewer than two PoPs carry traffic.
    #[error("traffic needs at least two PoPs that send and receive it")]
    TooFewPops,
    /// A path or a link between nodes that do not exist.
    #[error("a {what} from node {from} to {to}, but there are {nodes} nodes")]
    UnknownNodes {
        /// "path" or "link".
        what: &'static str,
        /// Index of the first node.
        from: usize,
        /// Index of the last node.
        to: usize,
        /// Nodes in the network.
        nodes: usize,
    },
    /// A routing weight is not a positive number.
    #[error("the link {from} -> {to} has weight {weight}; it must be above 0")]
    Weight {
        /// Tail.
        from: String,
        /// Head.
        to: String,
        /// The weight.
        weight: f64,
    },
    /// A path from a node to itself.
    #[error("a path from {node} to itself")]
    ToItself {
        /// The node.
        node: String,
    },
    /// No path exists.
    #[error("no path from {from} to {to}: the network is not connected")]
    None {
        /// Ingress.
        from: String,
        /// Egress.
        to: String,
    },
    /// A list of paths without a path.
    #[error("there are no paths in the text")]
    Empty,
    /// A path visits a node twice.
    #[error("the path{} loops: it visits {node} twice", .path.as_ref().map(|path| format!(" {path}")).unwrap_or_default())]
    Loop {
        /// The path's ends, unless the line says them.
        path: Option<String>,
        /// The node.
        node: String,
    },
    /// A path of one node.
    #[error("a path of {node} alone; it needs an egress")]
    OneNode {
        /// The node.
        node: String,
    },
    /// A path starts or ends where no traffic does.
    #[error("{node} forwards traffic only; no path begins or ends there")]
    NotAnEndpoint {
        /// The node.
        node: String,
    },
    /// A path through an access router.
    #[error("{node} is an access router; nothing passes through it")]
    ThroughAccess {
        /// The node.
        node: String,
    },
    /// Two consecutive nodes of a path have no link.
    #[error("there is no link {from} -> {to}")]
    NoLink {
        /// Tail.
        from: String,
        /// Head.
        to: String,
    },
    /// A second path between the same nodes.
    #[error("a second path from {from} to {to}{}", .first.map(|line| format!("; the first is on line {line}")).unwrap_or_default())]
    Duplicate {
        /// Ingress.
        from: String,
        /// Egress.
        to: String,
        /// Line of the first, if it has one.
        first: Option<usize>,
    },
    /// A path takes a link that does not exist.
    #[error("the path {path} takes link {link}, but there are {links}")]
    UnknownLink {
        /// The path's ends.
        path: String,
        /// Index of the link.
        link: usize,
        /// Links in the network.
        links: usize,
    },
    /// A link of a path does not start where the one before it ended.
    #[error("the path {path} is broken: it is at {at}, and its next link starts at {next}")]
    Broken {
        /// The path's ends.
        path: String,
        /// Where the path is.
        at: String,
        /// Where its next link starts.
        next: String,
    },
    /// A path does not end at its egress.
    #[error("the path {path} ends at {at}")]
    WrongEnd {
        /// The path's ends.
        path: String,
        /// Where it ends.
        at: String,
    },
    /// Two paths of one ingress separate and join again.
    #[error(
        "the paths from {ingress} to {first} and to {second} part and meet again at {at}: what one can decode of the other would not be one \
         range of hashes; give paths that form a tree per ingress"
    )]
    NotATree {
        /// Ingress.
        ingress: String,
        /// Egress of one path.
        first: String,
        /// Egress of the other.
        second: String,
        /// Where they meet again.
        at: String,
    },
    /// A restriction keeps a device on two paths of an ingress, but different devices before it.
    #[error(
        "paths from {ingress} keep {device}, but different devices before it: what one can decode of the other would not be one range of hashes"
    )]
    RestrictedUnevenly {
        /// Ingress.
        ingress: String,
        /// Device.
        device: String,
    },
    /// A node's name is unknown or ambiguous.
    #[error("{0}")]
    Name(#[from] TopologyError),
    /// An error on a line of a text.
    #[error("line {line}: {error}")]
    At {
        /// Line, from 1.
        line: usize,
        /// The error.
        error: Box<PathError>,
    },
}

impl PathError {
    /// Adds the line, from 1.
    pub(crate) fn at_line(self, line: usize) -> Self {
        Self::At { line, error: Box::new(self) }
    }
}
