//! Oncewire on sockets: the tunnel between two sites.

pub mod allow;
pub mod keys;
pub mod listen;
pub mod target;
mod text;
pub mod tls;
pub mod ways_in;
