//! The figures of the study, one module each.

mod burstiness;
pub mod destinations;
pub mod hits;
#[cfg(test)]
mod laws;
pub mod lengths;
pub mod locality;
pub mod origins;
mod sampled;
mod tally;
pub mod temporal;
