//! The figures of the study, one module each.

pub mod hits;
pub mod hosts;
pub mod lengths;
pub mod locality;
pub mod origins;
mod sampled;
mod tally;
