//! The figures of the study, one module each.

mod burstiness;
pub mod destinations;
pub mod hits;
pub mod hosts;
pub mod lengths;
pub mod locality;
pub mod origins;
mod sampled;
mod tally;
pub mod temporal;
pub mod http;
pub mod replicated;
