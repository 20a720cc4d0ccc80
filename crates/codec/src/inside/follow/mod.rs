//! What is followed of the flows of a block: streams, containers and frames, and what was opened.

pub(in crate::inside) mod connection;
pub(in crate::inside) mod container;
mod cut;
pub(in crate::inside) mod follower;
pub(in crate::inside) mod frames;
mod http2;
pub(in crate::inside) mod midstream;
pub(in crate::inside) mod opened;
pub(in crate::inside) mod opener;
pub(in crate::inside) mod passed;
pub(in crate::inside) mod piece;
pub(in crate::inside) mod streams;
#[cfg(test)]
mod tests;
