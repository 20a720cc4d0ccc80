//! The redundancy study: packets to flows to objects, what repeats in them, and what redundancy elimination would save.
//!
//! The study repeats the measurements of Anand's thesis (chapter 2), EndRE (NSDI 2010, sections 3, 8 and 9), Santos and Wetherall
//! (USENIX ATC 1998, section 2) and Martynov (WOSP/SIPEW 2010) on any trace. Its [`results`] are plain data: who shows them, and where, is
//! not its concern.

mod algorithm;
mod batch;
pub mod figures;
mod lru;
pub mod results;
pub mod score;
pub mod service;
mod study;
pub mod tcp;

pub use oncewire_packet::prefix;

pub use batch::{Batch, Cache, Cached, Caches, Charge, Direction, FlowKey, Kind, Matches, Observer, Packet, View};
pub use study::{Algorithm, FigureId, Found, MatchSink, Part, Settings, Study, StudyError, Survey};

use std::net::IpAddr;

/// Hash of a flow's key, with a fixed seed: figures repeat.
pub(crate) fn flow_hash(flow: &FlowKey) -> u64 {
    let mut bytes = [0; 37];
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    bytes[..16].copy_from_slice(&octets(flow.source));
    bytes[16..32].copy_from_slice(&octets(flow.destination));
    bytes[32..34].copy_from_slice(&flow.source_port.to_be_bytes());
    bytes[34..36].copy_from_slice(&flow.destination_port.to_be_bytes());
    bytes[36] = flow.protocol;
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
