//! An index of small keys on a flash device, far larger than memory.
//!
//! BufferHash (Anand, *Redundancy Elimination as a Primitive*, 2012, chapter 5; Anand,
//! Muthukrishnan, Kappes, Akella and Nath, NSDI 2010). References such as T:3944 in this crate are
//! to lines of the text of that thesis.
//!
//! [`model`] has its cost model and tuning, [`device`] the devices: files and block devices,
//! published devices by their costs, and one that crashes on request.

pub mod device;
pub mod model;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
