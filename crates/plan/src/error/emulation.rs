//! Errors of emulations.

use super::Fault;

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
    AnotherPlan(String),
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
    /// Settings, events, packets or manifests that do not fit the instance.
    #[error("{0}")]
    Invalid(String),
}

impl EmulationError {
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
