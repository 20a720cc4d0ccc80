//! Packets through a planned network, with the real codec.

mod packet;
pub mod workload;

pub use packet::{Fields, Header, Packet};
