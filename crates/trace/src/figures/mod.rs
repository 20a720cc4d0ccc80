//! The figures of the study, one module each.

pub mod hits;
pub mod lengths;
pub mod hosts;
pub mod origins;
mod sampled;
mod tally;
