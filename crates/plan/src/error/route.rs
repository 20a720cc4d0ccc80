//! Errors of redundancy-aware routing.

use std::fmt::Write;

/// Why there are no routes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A setting is out of range.
    #[error("the {what} is {value}; it must be {range}")]
    Range {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// No ingress sends anything.
    #[error("no traffic enters the network")]
    NoTraffic,
    /// An ingress is listed twice.
    #[error("the ingress {ingress} is listed twice")]
    Twice {
        /// The node.
        ingress: String,
    },
    /// A node of a class or an ingress does not exist.
    #[error("node {node} of a class, but there are {nodes} nodes")]
    UnknownNode {
        /// Index of the node.
        node: usize,
        /// Nodes in the network.
        nodes: usize,
    },
    /// Content for where it comes from.
    #[error("content from {ingress} to itself")]
    ToItself {
        /// The node.
        ingress: String,
    },
    /// A class is malformed.
    #[error("a class of {ingress}: {reason}")]
    Class {
        /// The ingress.
        ingress: String,
        /// What is wrong.
        reason: String,
    },
    /// No path leads to an egress.
    #[error("no path leads from {ingress} to {egress}")]
    Unreachable {
        /// The ingress.
        ingress: String,
        /// The egress.
        egress: String,
    },
    /// More egresses than numbers for them.
    #[error("{egresses} egresses of one ingress; at most {most} are possible: plan for PoPs")]
    TooManyEgresses {
        /// Egresses.
        egresses: usize,
        /// The most.
        most: usize,
    },
    /// No routes keep links below the limit.
    #[error(
        "no routes keep every link below {:.4} % of its capacity: {:.4} % is the least possible, because of {}",
        100.0 * limit,
        100.0 * least,
        proof(links)
    )]
    LoadTooLow {
        /// The limit that was asked for.
        limit: f64,
        /// The least possible utilization of the busiest link, proven.
        least: f64,
        /// Links that prove it, and their parts of the proof, largest first.
        links: Vec<(String, f64)>,
    },
    /// Routes within the limit were neither found nor proven impossible.
    #[error(
        "no routes were found that keep every link below {:.4} % of its capacity: the best reach {:.4} %, and no less than {:.4} % is possible",
        100.0 * limit,
        100.0 * found,
        100.0 * least
    )]
    NotFound {
        /// The limit that was asked for.
        limit: f64,
        /// The least utilization found.
        found: f64,
        /// No routes have less.
        least: f64,
    },
    /// So few trees do not keep the limit.
    #[error(
        "with {slices} trees per ingress no routes were found that keep every link below {:.4} % of its capacity, only {:.4} %: allow more with --slices",
        100.0 * limit,
        100.0 * found
    )]
    Slices {
        /// Trees per ingress.
        slices: usize,
        /// The limit that was asked for.
        limit: f64,
        /// What they reach.
        found: f64,
    },
    /// Copies do not fit, whatever the routes.
    #[error(
        "no routes let all copies fit the capacities (--safety-net): the busiest link would carry at least {:.4} % of its capacity, because of {}",
        100.0 * least,
        proof(links)
    )]
    SafetyNet {
        /// The least possible utilization by all copies, proven.
        least: f64,
        /// Links that prove it, and their parts of the proof, largest first.
        links: Vec<(String, f64)>,
    },
    /// Routes that do not fit the network or the classes.
    #[error("routes of {ingress}: {reason}")]
    Routes {
        /// The ingress.
        ingress: String,
        /// What is wrong.
        reason: String,
    },
}

/// Links with their shares of a proof, in words.
fn proof(links: &[(String, f64)]) -> String {
    const SHOWN: usize = 8;
    let mut text = String::new();
    for (at, (link, share)) in links.iter().take(SHOWN).enumerate() {
        let between = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{between}{link} ({:.0} %)", 100.0 * share);
    }
    if links.len() > SHOWN {
        let _ = write!(text, " and {} more links", links.len() - SHOWN);
    }
    text
}
