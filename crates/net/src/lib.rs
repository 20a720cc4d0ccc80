//! Oncewire on sockets: the tunnel between two sites.

pub mod keys;
pub mod target;
mod text;
pub mod tls;
