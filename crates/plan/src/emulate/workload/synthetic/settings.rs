//! Parameters of synthetic packets.

use crate::{
    Error, Instance, Profile,
    emulate::workload::{Dynamics, Headers, headers::MAX_NODES},
    error::ProfileError,
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
    /// How long ago that was at most, in seconds.
    pub within: f64,
    /// Whether the IPv4 identification is another, as hosts do; networks that duplicate packets
    /// keep it.
    pub renumbered: bool,
}

impl Default for Retransmissions {
    fn default() -> Self {
        Self { share: 0.0, within: 1.0, renumbered: true }
    }
}

/// Bytes of the longest headers: IPv6 and TCP.
pub(super) const LONGEST_HEADER: u32 = 60;

/// Whether the mean size lies between small packets and the largest.
pub(super) fn bimodal(instance: &Instance, small: u32) -> bool {
    f64::from(small) < instance.packet && instance.packet < instance.mss
}

/// Bytes that every packet of the largest size has as payload.
pub(super) fn longest(instance: &Instance, settings: &Settings) -> f64 {
    let wire = match settings.sizes {
        Sizes::Bimodal { small } if bimodal(instance, small) => instance.mss,
        _ => instance.packet,
    };
    wire.floor() - f64::from(LONGEST_HEADER)
}

pub(super) fn check(instance: &Instance, settings: &Settings) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::emulation(what));
    if !(settings.epochs > 0.0
        && settings.epochs <= MAX_EPOCHS
        && settings.epochs * instance.epoch <= MAX_SECONDS)
    {
        return wrong(format!(
            "{} epochs of {} s; there are more than none, at most {MAX_EPOCHS}, and at most {MAX_SECONDS} s in all",
            settings.epochs, instance.epoch
        ));
    }
    let headers = &settings.headers;
    if !(1..=254).contains(&headers.hosts) || !(1..=1024).contains(&headers.flows) {
        return wrong(format!(
            "{} hosts per node and {} flows per path; there are 1 to 254 and 1 to 1,024",
            headers.hosts, headers.flows
        ));
    }
    if !(headers.flow_packets >= 1.0 && headers.flow_packets.is_finite()) {
        return wrong(format!("flows of {} packets; they have at least 1", headers.flow_packets));
    }
    for (name, share) in [
        ("IPv6", headers.ipv6),
        ("UDP", headers.udp),
        ("retransmissions", settings.retransmissions.share),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return wrong(format!("the share of {name} is {share}; it is from 0 to 1"));
        }
    }
    if settings.retransmissions.within.is_nan() || settings.retransmissions.within < 0.0 {
        return wrong(format!("retransmissions within {} s", settings.retransmissions.within));
    }
    if settings.matches == 0 || settings.matches > 64 {
        return wrong(format!("{} matches per packet; there are 1 to 64", settings.matches));
    }
    if instance.network.nodes.len() > MAX_NODES {
        return wrong(format!(
            "{} nodes; there are addresses for {MAX_NODES}",
            instance.network.nodes.len()
        ));
    }
    let large = instance.packet.max(instance.mss);
    if large > 65_535.0 || instance.packet < f64::from(LONGEST_HEADER) {
        return wrong(format!(
            "packets of {} bytes, at most {}; IP allows 65,535, and the headers take {LONGEST_HEADER}",
            instance.packet, instance.mss
        ));
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
