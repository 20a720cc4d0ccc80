//! The figures of the study, one module each.

mod burstiness;
pub mod destinations;
pub mod hits;
pub mod hosts;
pub mod http;
#[cfg(test)]
mod laws;
pub mod irreducible;
pub mod lengths;
pub mod locality;
pub mod origins;
pub mod replicated;
mod sampled;
mod tally;
pub mod temporal;
