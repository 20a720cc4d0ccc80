//! Errors of emulations.

use super::Fault;

use crate::{DeviceId, LinkId};

/// Why an emulation cannot start or continue.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// A scale of 0.
    #[error("a scale of 0 leaves nothing to emulate")]
    NothingToEmulate,
    /// A flash crowd changes gamma, but the profile has none.
    #[error("a flash crowd can change gamma only in a synthetic profile with gamma above 0")]
    GammaOfCrowd,
    /// The captures have no two packets at different times.
    #[error(
        "the captures have no two TCP or UDP packets at different times: there is nothing to carry"
    )]
    EmptyCaptures,
    /// The captures are too small for the number of epochs.
    #[error(
        "the captures are too small for {epochs} epochs: a packet store would have {store:.0} bytes"
    )]
    SmallCaptures {
        /// Epochs requested.
        epochs: u32,
        /// Size of the smallest packet store in bytes.
        store: f64,
    },
    /// No captured packet has a path.
    #[error("no packet of the captures has a path through this network")]
    NothingMapped,
    /// No prefix has the name of a node.
    #[error("none of the prefixes has the name of a node; names are {names}")]
    UnknownPrefixes {
        /// Some of the names.
        names: String,
    },
    /// The plan was made for another network or for other paths.
    #[error(
        "the plan is for another network or other paths ({0}); use the same topology and options"
    )]
    AnotherPlan(Mismatch),
    /// Every link is needed to keep the network connected.
    #[error("there is no link in this network without which all PoPs are still connected")]
    NoSpareLink,
    /// A packet or an event lies in the past.
    #[error("{what} at {time} ns, but the time is {now} ns")]
    Order {
        /// "a packet" or "an event".
        what: &'static str,
        /// Its time in nanoseconds.
        time: u64,
        /// The time reached, in nanoseconds.
        now: u64,
    },
    /// A setting is out of range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Which setting.
        what: String,
        /// Its value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// A packet left with other content than it entered with, or could not be decoded though none
    /// was lost.
    #[error("packet {number} (at {time} ns, from {from} to {to}), on link {link}: {what}")]
    Packet {
        /// Number of the packet, from 1.
        number: u64,
        /// Its time in nanoseconds.
        time: u64,
        /// Ingress.
        from: String,
        /// Egress.
        to: String,
        /// Link on which it was found.
        link: String,
        /// What is wrong.
        what: String,
    },
    /// A list has the wrong length.
    #[error("{what} {given} {of}, but there are {count}")]
    Count {
        /// What was given: "manifests for".
        what: &'static str,
        /// Length of the list.
        given: usize,
        /// What it must have one of each for: "paths".
        of: &'static str,
        /// How many of those there are.
        count: usize,
    },
    /// An index out of range.
    #[error("{what} {index}, but there are {count}")]
    Index {
        /// What the index was given for: "a packet of path".
        what: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A range does not begin where the one before ends, or ends before it begins.
    #[error("path {path}: hashes from {from} to {to} follow {at}")]
    Gap {
        /// Index of the path.
        path: usize,
        /// First hash.
        from: u64,
        /// End of the range (exclusive).
        to: u64,
        /// Where it must begin.
        at: u64,
    },
    /// A range is at a device that is not on the path, or out of order.
    #[error("path {path}: device {device} is not next on it")]
    NotNext {
        /// Index of the path.
        path: usize,
        /// Index of the device.
        device: DeviceId,
    },
    /// A path cannot take these links.
    #[error("another route for path {path} {fault}")]
    Route {
        /// Index of the path.
        path: u32,
        /// Why not.
        fault: RouteFault,
    },
    /// New manifests for a run without manifests.
    #[error("new manifests, but this run is hop by hop")]
    HopByHop,
    /// A payload that no IP packet has.
    #[error("a payload of {bytes} bytes; a packet has at most {most}")]
    Payload {
        /// Its length in bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// Something happens where no traffic enters.
    #[error("{what} enters at {node}, where nothing enters")]
    NoIngress {
        /// What is to enter.
        what: &'static str,
        /// The node.
        node: String,
    },
    /// A store of packets cannot be built.
    #[error("a store of {bytes} bytes: {reason}")]
    Store {
        /// Its size in bytes.
        bytes: u64,
        /// What the codec says.
        reason: String,
    },
}

/// Why a plan is not one for an instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It has another number of devices or paths.
    #[error("{planned} {what}, here are {here}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many the plan has.
        planned: usize,
        /// How many the instance has.
        here: usize,
    },
    /// A device has another name.
    #[error("its device {planned:?} is {here:?} here")]
    Device {
        /// Name in the plan.
        planned: String,
        /// Name here.
        here: String,
    },
    /// A path crosses other devices.
    #[error("its path to {egress} has another route")]
    Route {
        /// Where the path leaves.
        egress: String,
    },
}

/// Why a path cannot take a list of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    /// A link does not exist.
    #[error("takes link {link}, but there are {links}")]
    Link {
        /// Index of the link.
        link: LinkId,
        /// Links of the network.
        links: usize,
    },
    /// A link does not begin where the one before ends.
    #[error("is broken")]
    Broken,
    /// A node comes twice.
    #[error("loops")]
    Loop,
    /// The last link does not lead to the path's egress.
    #[error("ends elsewhere")]
    Elsewhere,
}

impl EmulationError {
    /// A setting that is out of range.
    pub(crate) fn setting(
        what: impl Into<String>,
        value: impl Into<f64>,
        range: &'static str,
    ) -> Self {
        Self::Range { what: what.into(), value: value.into(), range }
    }

    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::NothingToEmulate
            | Self::GammaOfCrowd
            | Self::SmallCaptures { .. }
            | Self::NothingMapped
            | Self::NoSpareLink => Fault::Request,
            Self::EmptyCaptures | Self::UnknownPrefixes { .. } | Self::AnotherPlan(_) => {
                Fault::Input
            }
            _ => Fault::Computation,
        }
    }
}
