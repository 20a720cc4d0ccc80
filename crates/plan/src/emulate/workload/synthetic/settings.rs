//! Parameters of synthetic packets.

use crate::{
    Error, Instance, Profile, Seconds,
    emulate::workload::{Dynamics, Headers, headers::MAX_NODES},
    error::{EmulationError, ProfileError},
};

/// Parameters of synthetic packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The same seed gives the same packets.
    pub seed: u64,
    /// Retention epochs of packets.
    pub epochs: f64,
    /// Arrival times of a path's packets.
    pub arrivals: Arrivals,
    /// Their sizes.
    pub sizes: Sizes,
    /// Lengths of the regions that repeat.
    pub lengths: Lengths,
    /// Most regions of a packet that repeat earlier ones.
    pub matches: u32,
    /// Whether a region may repeat what in the earlier packet was a repeat itself. If so, the
    /// packet that a matcher finds need not be of the path that the profile says; if not, each
    /// region has one first occurrence, on that path.
    pub chains: bool,
    /// Retransmissions.
    pub retransmissions: Retransmissions,
    /// Hosts and flows.
    pub headers: Headers,
    /// What changes.
    pub dynamics: Dynamics,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            epochs: 4.0,
            arrivals: Arrivals::Poisson,
            sizes: Sizes::default(),
            lengths: Lengths::Uniform,
            matches: 3,
            chains: false,
            retransmissions: Retransmissions::default(),
            headers: Headers::default(),
            dynamics: Dynamics::default(),
        }
    }
}

/// Arrival times of a path's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// A Poisson process.
    #[default]
    Poisson,
    /// Evenly: each waits for as long as the one before takes at the path's rate.
    Paced,
}

/// Sizes of packets on the wire. Their mean is the instance's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All are of the mean size.
    Fixed,
    /// Small ones and largest ones ([`Instance::mss`]), as many of each as the mean asks for;
    /// [`Sizes::Fixed`] if it lies outside.
    Bimodal {
        /// Size of the small ones in bytes.
        small: u32,
    },
}

impl Default for Sizes {
    fn default() -> Self {
        Self::Bimodal { small: 100 }
    }
}

/// Lengths of regions around the profile's mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lengths {
    /// All of the mean.
    Fixed,
    /// Evenly from half of the mean to one and a half of it; closer to it where that would be more
    /// than a packet holds.
    #[default]
    Uniform,
}

/// Retransmissions: whole packets with the same five-tuple.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retransmissions {
    /// Share of the packets that repeat an earlier one of their path.
    pub share: f64,
    /// How long ago that was at most.
    pub within: Seconds,
    /// Whether the IPv4 identification is another, as hosts do; networks that duplicate packets
    /// keep it.
    pub renumbered: bool,
}

impl Default for Retransmissions {
    fn default() -> Self {
        Self { share: 0.0, within: Seconds(1.0), renumbered: true }
    }
}

/// Bytes of the longest headers: IPv6 and TCP.
pub(super) const LONGEST_HEADER: u32 = 60;

/// Whether the mean size lies between small packets and the largest.
pub(super) fn bimodal(instance: &Instance, small: u32) -> bool {
    f64::from(small) < instance.packet.0 && instance.packet.0 < instance.mss.0
}

/// Bytes that every packet of the largest size has as payload.
pub(super) fn longest(instance: &Instance, settings: &Settings) -> f64 {
    let wire = match settings.sizes {
        Sizes::Bimodal { small } if bimodal(instance, small) => instance.mss.0,
        _ => instance.packet.0,
    };
    wire.floor() - f64::from(LONGEST_HEADER)
}

pub(super) fn check(instance: &Instance, settings: &Settings) -> Result<(), Error> {
    let wrong =
        |what: &str, value: f64, range| Err(EmulationError::setting(what, value, range).into());
    let seconds = settings.epochs * instance.epoch.0;
    if !(settings.epochs > 0.0 && settings.epochs <= MAX_EPOCHS) {
        return wrong("the number of epochs", settings.epochs, "above 0, at most 1000000");
    }
    if seconds > MAX_SECONDS {
        return wrong("the length of all epochs in s", seconds, "at most 32000000");
    }
    let headers = &settings.headers;
    if !(1..=254).contains(&headers.hosts) {
        return wrong("the number of hosts per node", headers.hosts.into(), "from 1 to 254");
    }
    if !(1..=1024).contains(&headers.flows) {
        return wrong("the number of flows per path", headers.flows.into(), "from 1 to 1024");
    }
    if !(headers.flow_packets >= 1.0 && headers.flow_packets.is_finite()) {
        return wrong("the number of packets of a flow", headers.flow_packets, "at least 1");
    }
    for (what, share) in [
        ("the share of IPv6", headers.ipv6),
        ("the share of UDP", headers.udp),
        ("the share of retransmissions", settings.retransmissions.share),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return wrong(what, share, "from 0 to 1");
        }
    }
    let within = settings.retransmissions.within.0;
    if within.is_nan() || within < 0.0 {
        return wrong("the delay of retransmissions in s", within, "at least 0");
    }
    if !(1..=64).contains(&settings.matches) {
        return wrong("the number of matches per packet", settings.matches.into(), "from 1 to 64");
    }
    let nodes = instance.network.nodes.len();
    if nodes > MAX_NODES {
        return wrong("the number of nodes", nodes as f64, "at most 65536, for their addresses");
    }
    let large = instance.packet.0.max(instance.mss.0);
    if large > 65_535.0 {
        return wrong("the size of the largest packet in bytes", large, "at most 65535, as in IP");
    }
    if instance.packet.0 < f64::from(LONGEST_HEADER) {
        let range = "above that of the headers";
        return wrong("the mean size of a packet in bytes", instance.packet.0, range);
    }
    let room = longest(instance, settings);
    let length = match &instance.profile {
        Profile::Synthetic(profile) => profile.length,
        Profile::Measured(profile) => {
            profile.pairs.iter().map(|pair| pair.2.length).fold(0.0, f64::max)
        }
    };
    if length > room {
        return Err(ProfileError::MatchLength {
            length,
            most: room,
            of: "the payload of a packet",
        }
        .into());
    }
    settings.dynamics.check(instance)
}

/// Longest run in epochs.
const MAX_EPOCHS: f64 = 1e6;
/// Longest run in seconds of emulated time: a year. Nanoseconds of it fit their type, and are exact
/// enough in a double.
const MAX_SECONDS: f64 = 3.2e7;
