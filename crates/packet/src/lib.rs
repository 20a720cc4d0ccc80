//! Formats that others define: capture files, link layers, encapsulations, IP, TCP and UDP. Nothing of Oncewire's own.
//!
//! ```text
//! bytes -> CaptureReader (gzip, zstd, xz; pcap, pcapng) -> Record (time, link type, captured bytes)
//!       -> Dissector (link layer, encapsulations, fragments)  -> Dissected (addresses, ports, payload)  or  Unused (why not)
//! ```
//!
//! [`CaptureReader`] streams a capture of any size from a [`Read`](std::io::Read) in bounded memory. [`Dissector`] takes its
//! records one by one down to the payload of the innermost TCP segment or UDP datagram. Every packet is either [`Dissected`] or
//! [`Unused`] for a reason, and every byte on the wire is accounted for: see [`Counters`].
//!
//! All input is hostile: whatever the bytes are, the answer is a value, memory is bounded by a constant or by [`Limits`], and the
//! time for one record is proportional to its length at most, and for a fragment to the number of those before it in its
//! datagram, at most 8,192.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file: &[u8] = &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
//! use oncewire_packet::{CaptureReader, Dissector, Limits};
//!
//! let mut capture = CaptureReader::new(file)?;
//! let mut dissector = Dissector::new(Limits::default());
//! let mut payload = 0;
//! while let Some(record) = capture.next() {
//!     if let Ok(packet) = dissector.dissect(&record?) {
//!         payload += packet.payload.len();
//!     }
//! }
//! let counters = dissector.finish();
//! assert_eq!(counters.used.packets + counters.unused().packets, counters.total.packets);
//! # Ok(())
//! # }
//! ```

mod capture;
mod cursor;
mod dissect;
mod ether;
mod fragment;
mod ip;
mod layers;
mod link;
pub mod prefix;
mod record;
mod transport;
mod tunnel;
mod walk;
mod wifi;

pub use capture::{CaptureError, CaptureReader, Compression, Format};
pub use dissect::{Cipher, Counters, Dissected, Dissector, Limits, Tally, Transport, Unused};
pub use layers::{Layer, Layers, MAX_LAYERS};
pub use record::{LinkType, Nanos, Record};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
