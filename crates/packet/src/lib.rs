//! Packets of a capture, down to their TCP or UDP payload.
//!
//! This crate reads formats that others define: capture files, link layers, encapsulations, IP, TCP
//! and UDP. [`fields`], [`checksum`], [`offload`], [`mss`], [`ecn`] and [`icmp`] read, complete and
//! answer packets of a tun device.
//!
//! ```text
//! bytes -> CaptureReader (gzip, zstd, xz; pcap, pcapng) -> Record (time, link type, captured bytes)
//!       -> Dissector (link layer, encapsulations, fragments) -> Dissected (addresses, ports, payload) or Skipped (reason)
//! ```
//!
//! [`CaptureReader`] streams a capture of any size from a [`Read`](std::io::Read) in bounded
//! memory. [`Dissector`] takes each record apart, down to the payload of the innermost TCP segment
//! or UDP datagram. Every packet is either [`Dissected`] or [`Skipped`] for a reason, and every
//! byte on the wire is accounted for: see [`Counters`].
//!
//! All input is hostile. No input panics. Memory is bounded by a constant or by [`Limits`]. The
//! time for a record is at most proportional to its length, and for a fragment to the number of
//! earlier fragments of its datagram, at most 8,192.
//!
//! This example reads a capture and prints the length of each payload:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file: &[u8] = &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
//! use oncewire_packet::{CaptureReader, Dissector, Limits};
//!
//! let mut capture = CaptureReader::new(file)?;
//! let mut dissector = Dissector::new(Limits::default());
//! while let Some(record) = capture.next() {
//!     match dissector.dissect(&record?) {
//!         Ok(packet) => println!("{} -> {}: {} bytes", packet.source, packet.destination, packet.payload.len()),
//!         Err(reason) => println!("skipped: {reason}"),
//!     }
//! }
//! let counters = dissector.finish();
//! assert_eq!(counters.used.packets + counters.skipped().packets, counters.total.packets);
//! # Ok(())
//! # }
//! ```

mod capture;
pub mod checksum;
mod cursor;
mod dissect;
pub mod ecn;
pub mod encryption;
mod ether;
pub mod fields;
mod flow;
mod fragment;
pub mod icmp;
mod ip;
mod layers;
mod link;
pub mod mss;
pub mod offload;
pub mod prefix;
mod record;
mod sliced;
mod transport;
mod tunnel;
mod walk;
mod wifi;

pub use capture::{CaptureError, CaptureReader, Compression, Format};
pub use dissect::{Cipher, Counters, Dissected, Dissector, Limits, Skipped, Tally, Transport};
pub use flow::FlowKey;
pub use layers::{Layer, Layers, MAX_LAYERS};
pub use record::{LinkType, Nanos, Record};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
