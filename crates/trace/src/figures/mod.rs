//! The figures of the study, one module each.

pub mod http;
pub mod irreducible;
pub mod replicated;
