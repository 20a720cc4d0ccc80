//! Packets for the emulator: synthetic ones from an instance, or those of a capture.

mod capture;
mod dynamics;
mod headers;
mod synthetic;

pub use capture::{Egresses, FromCapture, Ingresses, Mapped, TimeScale};
pub use dynamics::{Crowd, Drift, Dynamics};
pub use headers::{Headers, Identification, MAX_NODES, address, node};
pub use synthetic::{Arrivals, Lengths, Made, Retransmissions, Settings, Sizes, Synthetic};
