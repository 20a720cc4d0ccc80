//! The results of a study as plain data: its input, an account of every packet, figures and a
//! verdict.
//!
//! Presenters need no knowledge of individual figures: each carries its definition, its source and
//! its units. Tables and charts are those of `oncewire-report`.

pub use oncewire_report::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use serde::Serialize;
use std::net::IpAddr;

/// The results of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The captures.
    pub input: Input,
    /// Settings that figures share, each as name and value: `cache`, `250 MB of payload in each
    /// direction`.
    pub settings: Vec<(String, String)>,
    /// Where every packet and every byte belongs.
    pub accounting: Accounting,
    /// What to deploy.
    pub verdict: Verdict,
    /// The figures, in the order of their numbers.
    pub figures: Vec<Figure>,
}

/// What a study has found so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Bytes on the wire that were measured.
    pub wire_bytes: u64,
    /// Of these, the share that the tunnel saves.
    pub tunnel: f64,
    /// The same of the packet link.
    pub packet_link: f64,
}

/// The captures that a study read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Input {
    /// Names of the captures, as given on the command line or found in a directory.
    pub captures: Vec<String>,
    /// Captures that ended in an error, with its message. Packets before the error are in the
    /// figures.
    pub damaged: Vec<(String, String)>,
    /// Whether reading was interrupted: packets, figures or algorithms are missing.
    pub partial: bool,
    /// Packets read.
    pub packets: u64,
    /// Their bytes on the wire, link headers included; of packets that were cut before they were
    /// captured, as their IP headers say.
    pub wire_bytes: u64,
    /// Bytes that the capture holds; fewer than `wire_bytes` with a snap length.
    pub captured_bytes: u64,
    /// Time of the first packet in nanoseconds since the Unix epoch. `None` without packets.
    pub start: Option<i64>,
    /// Seconds from the earliest to the latest packet.
    pub duration: f64,
}

/// Where every packet and every byte belongs. Packets and wire bytes of `used` and `unused` add up
/// to those of [`Input`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Accounting {
    /// Packets dissected down to TCP or UDP, by kind: `TCP with payload`, `TCP without payload`,
    /// `UDP`.
    pub used: Vec<Share>,
    /// Skipped packets by reason, most bytes first.
    pub unused: Vec<Share>,
    /// Wire bytes of the used packets by kind: headers, payload, payload that was not captured,
    /// padding. They add up to `used`.
    pub bytes: Vec<Share>,
    /// Encapsulations, with the packets and wire bytes inside each. A packet may have several, and
    /// counts once for each.
    pub layers: Vec<Share>,
    /// Bytes on the wire of packets of link types that are not read.
    pub unsupported: u64,
    /// Who sends and receives (thesis, Table 2.1).
    pub hosts: Hosts,
}

/// Hosts and flows of a trace, by their addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hosts {
    /// Hosts of the inside networks. `None` without such networks.
    pub inside: Option<u64>,
    /// All others.
    pub others: u64,
    /// Flows: a connection is two, one for each direction.
    pub flows: u64,
    /// The most that are counted: a number that is as large may be larger.
    pub most: u64,
}

/// Part of the packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// Name of the part.
    pub name: String,
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// What to deploy, and the expected benefit. Savings, range, billing, money and time are all of the
/// recommended product, or of the tunnel if nothing is worth deploying.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The recommendation.
    pub deploy: Deploy,
    /// With [`Deploy::CannotSay`]: why.
    pub unknown: Option<Unknown>,
    /// The recommendation as a sentence: `Deploy the tunnel: it would save 61.0 % of all bytes on the
    /// wire.`
    pub headline: String,
    /// Reasons, caveats and the next step with its command in backticks, a sentence or two each.
    pub reasons: Vec<String>,
    /// Bytes of cache for each direction, at the knee of the savings curve.
    pub cache: Option<u64>,
    /// Seconds in which the busiest direction of this trace fills that cache. `None` without advice
    /// on the cache, and if the clocks are wrong.
    pub cache_seconds: Option<f64>,
    /// Flows larger than that cache, or than the configured one if none is recommended.
    pub large_flows: Option<LargeFlows>,
    /// Share of all wire bytes that it saves over the whole trace. Of [`Deploy::CannotSay`], what was
    /// saved of the part that was captured: a lower bound, or an upper one with copies
    /// ([`Unknown::Doubled`]).
    pub savings: f64,
    /// 10th and 90th percentile of these savings, as measured, in each minute, weighted by bytes.
    /// Traces shorter than 100 minutes are divided into 100 parts instead. `None` for a trace shorter
    /// than a minute or, by its clocks, longer than a year, or with fewer than 20 parts that have
    /// packets.
    pub spread: Option<(f64, f64)>,
    /// Width of these parts in seconds.
    pub spread_seconds: Option<f64>,
    /// How sure the savings are: the 95 % confidence interval of traffic like this, from how much
    /// parts of the trace differ. `None` for traces shorter than ten minutes.
    pub confidence: Option<(f64, f64)>,
    /// The 95th percentile of the volume, by which transit is often billed. `None` for traces
    /// shorter than 20 minutes.
    pub billing: Option<Billing>,
    /// With a price: the cost of the traffic.
    pub money: Option<Money>,
    /// With a link rate: how long the link is busy.
    pub time: Option<Time>,
    /// Share of all wire bytes that the tunnel would save, whether it is recommended or not.
    pub tunnel: f64,
    /// Share of all wire bytes that the packet link would save, whether it is recommended or not.
    pub packet_link: f64,
}

/// The 95th percentile of the volume of all directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Billing {
    /// Width of the buckets in seconds: 300, or less for traces shorter than 100 minutes.
    pub bucket: f64,
    /// Bits per second without it.
    pub before: f64,
    /// The same with it.
    pub after: f64,
    /// Share that it falls by.
    pub savings: f64,
}

/// Flows that carried more than a cache holds. When such content repeats, the cache has always just
/// dropped the part that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LargeFlows {
    /// Size of the cache in bytes.
    pub cache: u64,
    /// Number of flows; a connection is two flows, one for each direction.
    pub flows: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Payload of the largest one in bytes.
    pub largest: u64,
}

/// A recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deploy {
    /// `oncewire serve` and `connect`: TCP flows through a tunnel.
    Tunnel,
    /// `oncewire link`: all IP packets.
    Link,
    /// Nothing: the savings are too small.
    Nothing,
    /// The capture lacks too much to say.
    CannotSay,
}

/// Why nothing can be said of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// It is of a link type that is not read.
    LinkType,
    /// It lacks bytes, by a snap length or a packet broker.
    Cut,
    /// It has packets twice, as a mirror port shows them.
    Doubled,
}

/// The cost of traffic, and what the product leaves of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Money {
    /// Price of a gigabyte (10^9 bytes), in the user's currency.
    pub per_gigabyte: f64,
    /// What it is the cost of.
    pub of: CostOf,
    /// Cost without it.
    pub before: f64,
    /// The same with it.
    pub after: f64,
}

/// An amount of traffic with a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostOf {
    /// 30 days of traffic like the trace, which lasts about a day or more.
    Month,
    /// A terabyte (10^12 bytes) like the trace, which is too short for more.
    Terabyte,
}

/// Time saved on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Time {
    /// The link's rate in bits per second.
    pub link: f64,
    /// Seconds that the bytes of the trace occupy the link, in the busier direction.
    pub busy_before: f64,
    /// The same with the savings.
    pub busy_after: f64,
}

/// One match of the reference algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRow {
    /// Time of its packet in nanoseconds since the Unix epoch.
    pub time: i64,
    /// Direction of its packet: [`crate::Direction::name`].
    pub direction: &'static str,
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Captured payload of the packet in bytes.
    pub packet_length: u32,
    /// Length of the match in bytes.
    pub length: u32,
    /// Distance back to the earlier content, in bytes of cached payload.
    pub distance: u64,
    /// What its packet and the packet of the earlier content have in common, as in figure 7.
    pub origin: &'static str,
}
